/* snapshot.c - the drafter of one moment, in memory and as bytes. See snapshot.h.
 *
 * As bytes, little endian:
 *   int32 sink, window                    settings
 *   int32 begin, end, sink_end            readable cells (cells.h)
 *   int32 n_hid, hid_first                0 or 1 hidden rows that wait, and the position of it
 *   float hid[n_hid][width]
 *   K of all readable cells in ascending ranges, then V, range by range
 */
#include "draft/snapshot.h"

#include <assert.h>

#include "base/mem.h"
#include "draft/drafter.h"

struct draft_snap {
    backend *be;   /* borrowed */
    dtype kv_type; /* of the drafter, as width and the pages' size */
    int width, n_val;
    be_kv kv;
    cells cells;
    int n_hid, hid_first;
    float *hid; /* [width], device */
    pages pages;
};

static size_t hid_bytes(const draft_snap *n)
{
    return (size_t)n->width * sizeof *n->hid;
}

/* ---- Life ---------------------------------------------------------------------------------------- */

ft_status draft_snap_take(draft_snap **out, const drafter *d, ft_error *err)
{
    assert(d->n_hid <= 1); /* settled */
    *out = NULL;
    draft_snap *n = mem_zalloc(sizeof *n);
    if (!n)
        return err_set(err, FT_NOMEM, "snapshot of the drafter");
    n->be = d->be;
    n->kv_type = d->p.kv_type;
    n->width = d->width;
    n->n_val = drafter_values(d);
    n->cells = d->cells;
    cells_chain_end(&n->cells);
    n->n_hid = d->n_hid;
    n->hid_first = d->n_hid ? d->hid_first : 0;
    n->hid = be_alloc(d->be, hid_bytes(n));
    int n_cell = cells_end(&n->cells);
    if (!n->hid ||
        pages_init(&n->pages, d->be, d->pages.page_bytes, n_cell ? n_cell : 1, NULL) != FT_OK) {
        draft_snap_free(n);
        return err_set(err, FT_NOMEM, "snapshot of the drafter: %d cells", n_cell);
    }
    n->kv = d->kv;
    n->kv.k.page = n->kv.v.page = n->pages.page;
    be_move(d->be, n->hid, d->hid, (size_t)n->n_hid * hid_bytes(n));
    pages_share(&n->pages, &d->pages, n_cell);
    *out = n;
    return FT_OK;
}

void draft_snap_free(draft_snap *n)
{
    if (!n)
        return;
    if (n->hid)
        be_release(n->be, n->hid, hid_bytes(n));
    pages_deinit(&n->pages);
    mem_free(n);
}

static ft_status check_settings(const drafter *d, int sink, int window, ft_error *err)
{
    if (sink == d->p.sink && window == d->p.window)
        return FT_OK;
    return err_set(err, FT_MISMATCH, "drafter: sink %d and window %d, want %d and %d", sink, window,
                   d->p.sink, d->p.window);
}

ft_status draft_snap_restore(drafter *d, const draft_snap *n, ft_error *err)
{
    if (n->kv_type != d->p.kv_type || n->width != d->width ||
        n->pages.page_bytes != d->pages.page_bytes)
        return err_set(err, FT_MISMATCH, "drafter: rows of %d and cells of %s, want %d and %s",
                       n->width, dtype_name(n->kv_type), d->width, dtype_name(d->p.kv_type));
    TRY(check_settings(d, n->cells.sink, n->cells.window, err));
    if (!cells_restore(&d->cells, &n->cells, drafter_cells(&d->p)))
        return err_set(err, FT_RANGE, "drafter: %d cells, the limit is %d", cells_end(&n->cells),
                       drafter_cells(&d->p));
    pages_share(&d->pages, &n->pages, cells_end(&n->cells));
    be_move(d->be, d->hid, n->hid, (size_t)n->n_hid * hid_bytes(n));
    d->n_hid = n->n_hid;
    d->hid_first = n->hid_first;
    d->chain_cell = -1;
    return FT_OK;
}

size_t draft_snap_bytes(const draft_snap *n)
{
    return sizeof *n + hid_bytes(n) +
           (size_t)n->pages.n_page * (sizeof *n->pages.page + sizeof *n->pages.owner);
}

pages *draft_snap_pages(draft_snap *n)
{
    return &n->pages;
}

/* ---- As bytes ------------------------------------------------------------------------------------ */

enum { SINK, WINDOW, BEGIN, END, SINK_END, N_HID, HID_FIRST, N_HEAD };

size_t draft_file_bytes(const draft_snap *n, dtype type)
{
    cells_range r[2];
    size_t bytes = N_HEAD * sizeof(int32_t) + (size_t)n->n_hid * hid_bytes(n);
    for (int i = cells_ranges(&n->cells, r) - 1; i >= 0; i--)
        bytes += 2 * snap_cells_bytes(type, n->n_val, r[i].n);
    return bytes;
}

ft_status draft_write(const draft_snap *n, dtype type, snap_write_fn *w, void *ctx, ft_error *err)
{
    const int32_t head[N_HEAD] = {
        [SINK] = n->cells.sink,        [WINDOW] = n->cells.window, [BEGIN] = n->cells.begin,
        [END] = n->cells.end,          [N_HID] = n->n_hid,         [HID_FIRST] = n->hid_first,
        [SINK_END] = n->cells.sink_end};
    TRY(w(ctx, head, sizeof head, err));
    if (n->n_hid)
        TRY(w(ctx, n->hid, hid_bytes(n), err));
    cells_range r[2];
    int n_range = cells_ranges(&n->cells, r);
    for (int i = 0; i < 2 * n_range; i++) {
        snap_cells c = {.be = n->be,
                        .c = i % 2 == 0 ? &n->kv.k : &n->kv.v,
                        .n_val = n->n_val,
                        .type = type,
                        .first = r[i / 2].first,
                        .n = r[i / 2].n};
        TRY(snap_cells_write(&c, w, ctx, err));
    }
    return FT_OK;
}

/* The head of a drafter behind n_past tokens says nothing impossible. */
static ft_status check_head(const drafter *d, const int32_t *head, int n_past, cells *c,
                            ft_error *err)
{
    TRY(check_settings(d, head[SINK], head[WINDOW], err));
    int n_hid = head[N_HID], at = head[HID_FIRST];
    if (n_hid < 0 || n_hid > 1 || (n_hid == 1 && (n_past == 0 || at != n_past - 1)))
        return err_set(err, FT_FORMAT,
                       "drafter: %d hidden rows from position %d on, want none or "
                       "that of position %d",
                       n_hid, at, n_past - 1);
    *c = (cells){.sink = head[SINK],
                 .window = head[WINDOW],
                 .begin = head[BEGIN],
                 .end = head[END],
                 .sink_end = head[SINK_END]};
    int most = n_past - n_hid; /* what waits has no cell yet */
    if (!cells_valid(c, most))
        return err_set(err, FT_FORMAT,
                       "drafter: cells %d to %d and a sink of %d, want them within %d", c->begin,
                       c->end, c->sink_end, most);
    return FT_OK;
}

static ft_status read_parts(drafter *d, dtype type, int n_past, snap_read_fn *r, void *ctx,
                            ft_error *err)
{
    int32_t head[N_HEAD];
    cells c;
    TRY(r(ctx, head, sizeof head, err));
    TRY(check_head(d, head, n_past, &c, err));
    if (head[N_HID])
        TRY(r(ctx, d->hid, (size_t)d->width * sizeof *d->hid, err));
    cells_range range[2];
    int n_range = cells_ranges(&c, range);
    for (int i = 0; i < 2 * n_range; i++) {
        snap_cells a = {.be = d->be,
                        .c = i % 2 == 0 ? &d->kv.k : &d->kv.v,
                        .n_val = drafter_values(d),
                        .type = type,
                        .first = range[i / 2].first,
                        .n = range[i / 2].n};
        TRY(draft_reserve(d, a.first, a.n, err));
        TRY(snap_cells_read(&a, r, ctx, err));
    }
    d->cells = c;
    d->n_hid = head[N_HID];
    d->hid_first = head[HID_FIRST];
    return FT_OK;
}

ft_status draft_read(drafter *d, dtype type, int n_past, snap_read_fn *r, void *ctx, ft_error *err)
{
    draft_reset(d);
    if (n_past < 0 || n_past > d->p.n_ctx)
        return err_set(err, FT_RANGE, "drafter: %d tokens, want 0 to %d", n_past, d->p.n_ctx);
    return read_parts(d, type, n_past, r, ctx, err);
}
