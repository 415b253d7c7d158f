/* draft.c - see draft.h. */
#include <assert.h>
#include <string.h>

#include "draft/drafter.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"

static bool take(backend *be, void *out, size_t n)
{
    void *p = be_alloc(be, n);
    memcpy(out, &p, sizeof p);
    return p != NULL;
}

/* K and V of a cell in the same page. */
static ft_status create_cells(drafter *d)
{
    size_t cell_bytes = be_cell_bytes(d->p.kv_type, drafter_values(d));
    size_t half = size_align(BE_PAGE * cell_bytes, MEM_ALIGN);
    TRY(pages_init(&d->pages, d->be, 2 * half, drafter_cells(&d->p), NULL));
    d->kv.k = (be_cells){
        .page = d->pages.page, .type = d->p.kv_type, .cell_bytes = cell_bytes, .per_page = BE_PAGE};
    d->kv.v = d->kv.k;
    d->kv.v.offset = half;
    return FT_OK;
}

ft_status draft_create(drafter **out, backend *be, const model *m, const draft_params *p,
                       ft_error *err)
{
    *out = NULL;
    drafter *d = mem_zalloc(sizeof *d);
    if (!d)
        return err_set(err, FT_NOMEM, "drafter");
    d->be = be;
    d->m = m;
    d->p = *p;
    d->width = layer_hidden_width(&m->h);
    d->chain_cell = -1;
    cells_init(&d->cells, p->sink, p->window);
    size_t row = (size_t)d->width * sizeof(float);
    bool ok =
        create_cells(d) == FT_OK && take(be, &d->hid, (size_t)hid_cap(p) * row) &&
        take(be, &d->chain, row) &&
        take(be, &d->list, (size_t)cells_list_max(&d->cells, drafter_cells(p)) * sizeof(int32_t));
    if (!ok) {
        draft_free(d);
        return err_set(err, FT_NOMEM, "drafter: cells for %d tokens", p->n_ctx);
    }
    *out = d;
    return FT_OK;
}

void draft_free(drafter *d)
{
    if (!d)
        return;
    size_t row = (size_t)d->width * sizeof(float);
    pages_deinit(&d->pages);
    be_release(d->be, d->hid, (size_t)hid_cap(&d->p) * row);
    be_release(d->be, d->chain, row);
    be_release(d->be, d->list,
               (size_t)cells_list_max(&d->cells, drafter_cells(&d->p)) * sizeof(int32_t));
    mem_free(d);
}

void draft_reset(drafter *d)
{
    cells_clear(&d->cells);
    pages_truncate(&d->pages, 0);
    d->n_hid = 0;
    d->chain_cell = -1;
}

const draft_params *draft_get_params(const drafter *d)
{
    return &d->p;
}

size_t draft_bytes(const drafter *d)
{
    return pages_bytes(&d->pages) + (size_t)(hid_cap(&d->p) + 1) * (size_t)d->width * sizeof(float);
}

size_t draft_scratch(const model *m, const draft_params *p, int n_row, int n)
{
    int most = n * hid_cap(p) > n_row ? n * hid_cap(p) : n_row;
    size_t rows = (size_t)most, steps = (size_t)n;
    size_t row = (size_t)layer_hidden_width(&m->h) * sizeof(float);
    return layer_draft_scratch(m, most, n) + arena_cost(rows * sizeof(be_kv *)) +
           2 * arena_cost(rows * sizeof(int32_t)) + arena_cost(rows * row) +
           arena_cost(steps * sizeof(int32_t)) + arena_cost(steps * sizeof(be_attn_row)) +
           arena_cost(steps * row);
}

int draft_last_read(const drafter *d)
{
    return d->n_list;
}

uint64_t draft_failed(const drafter *d)
{
    return d->n_failed;
}

ft_status draft_reserve(drafter *d, int first, int n, ft_error *err)
{
    ft_status st = pages_reserve(&d->pages, first, n, err);
    d->n_failed += st != FT_OK;
    return st;
}

/* ---- Encoding ---------------------------------------------------------------------------------------- */

/* K and V of n rows as cells first, first + 1, ...; next [n] are the tokens behind them. */
static void encode(drafter *d, arena *scratch, const int32_t *next, const float *hidden, int first,
                   int n)
{
    size_t mark = arena_mark(scratch);
    const be_kv **kv = arena_take(scratch, (size_t)n * sizeof *kv);
    int32_t *cell = arena_take(scratch, (size_t)n * sizeof *cell);
    assert(kv && cell);
    for (int i = 0; i < n; i++) {
        kv[i] = &d->kv;
        cell[i] = first + i;
    }
    layer_draft_batch b = {.n_row = n, .tok = next, .hidden = hidden, .cell = cell, .kv = kv};
    mem_guard_begin();
    layer_draft(d->be, d->m, d->p.w, scratch, &b);
    mem_guard_end();
    arena_reset(scratch, mark);
}

static float *hid_row(const drafter *d, int cell)
{
    return d->hid + (size_t)(cell - d->hid_first) * (size_t)d->width;
}

/* K and V alone of committed cells [first, first + n), whose rows wait or are in `hidden`, the rows of
 * cells at, at + 1, ...; tok: as draft_observe. Without memory for them they stay unreadable: drafts then
 * know less of the text. */
static void encode_committed(drafter *d, arena *scratch, const int32_t *tok, int first, int n,
                             const float *hidden, int at)
{
    int n_wait = first < at ? at - first : 0;
    if (n_wait > n)
        n_wait = n;
    if (draft_reserve(d, first, n, NULL) != FT_OK)
        return;
    if (n_wait > 0)
        encode(d, scratch, tok + first + 1, hid_row(d, first), first, n_wait);
    if (n > n_wait) {
        int from = first + n_wait;
        encode(d, scratch, tok + from + 1, hidden + (size_t)(from - at) * (size_t)d->width, from,
               n - n_wait);
    }
    cells_wrote(&d->cells, first, n);
}

/* Append rows to those that wait. */
static void wait_rows(drafter *d, const float *hidden, int first, int n)
{
    if (d->n_hid == 0)
        d->hid_first = first;
    be_move(d->be, hid_row(d, first), hidden, (size_t)n * (size_t)d->width * sizeof(float));
    d->n_hid += n;
}

void draft_observe(drafter *d, arena *scratch, const int32_t *tok, int first, int n,
                   const float *hidden, int n_end)
{
    draft_end(d);
    /* What waits or is encoded at or past first belongs to a text that was dropped; what waits with a
     * gap behind it has lost its successor. */
    if (d->n_hid > 0 && d->hid_first + d->n_hid > first)
        d->n_hid = first > d->hid_first ? first - d->hid_first : 0;
    if (d->n_hid > 0 && d->hid_first + d->n_hid < first)
        d->n_hid = 0;
    cells_truncate(&d->cells, d->n_hid > 0 ? d->hid_first : first);
    if (first + n == n_end && d->n_hid + n <= hid_cap(&d->p)) {
        wait_rows(d, hidden, first, n); /* a round: encoded with the next draft, in one batch */
        return;
    }
    int from = d->n_hid > 0 ? d->hid_first : first;
    cells_range range[2];
    int n_range = cells_plan(&d->cells, from, first + n - 1 - from, n_end, range);
    for (int i = 0; i < n_range; i++)
        encode_committed(d, scratch, tok, range[i].first, range[i].n, hidden, first);
    d->n_hid = 0;
    wait_rows(d, hidden + (size_t)(n - 1) * (size_t)d->width, first + n - 1, 1);
}

bool draft_ready(const drafter *d, int n_past)
{
    return d->n_hid > 0 && d->hid_first + d->n_hid == n_past;
}

/* ---- Drafting ----------------------------------------------------------------------------------------- */

/* Memory for the cells of what waits, and of the longest chain behind it. */
static bool reserve_chain(drafter *d)
{
    int n = d->n_hid + d->p.n_window, room = drafter_cells(&d->p) - d->hid_first;
    return draft_reserve(d, d->hid_first, n < room ? n : room, NULL) == FT_OK;
}

/* The rows of a call of the block: those of each step side by side, the last of them full. */
typedef struct {
    int n_row, n_full;
    int32_t *tok, *cell, *full;
    const be_kv **kv;
    be_attn_row *read;
    float *hidden, *hidden_out;
} step_rows;

static step_rows take_rows(arena *a, int n_row, int n_full, int width)
{
    size_t n = (size_t)n_row, full = (size_t)n_full, row = (size_t)width * sizeof(float);
    step_rows r = {.tok = arena_take(a, n * sizeof *r.tok),
                   .cell = arena_take(a, n * sizeof *r.cell),
                   .full = arena_take(a, full * sizeof *r.full),
                   .kv = arena_take(a, n * sizeof *r.kv),
                   .read = arena_take(a, full * sizeof *r.read),
                   .hidden = arena_take(a, n * row),
                   .hidden_out = arena_take(a, full * row)};
    assert(r.tok && r.cell && r.full && r.kv && r.read && r.hidden && r.hidden_out);
    return r;
}

/* The cells that a step writes are recorded before, for its full row reads what this very call writes. */
static int record_cells(drafter *d, const draft_step *s)
{
    if (!s->tok) {
        d->chain_cell++;
        cells_chained(&d->cells, d->chain_cell);
        return 1;
    }
    d->chain_cell = s->n_past - 1;
    cells_wrote(&d->cells, d->hid_first, d->n_hid);
    return d->n_hid;
}

/* Append the rows of a step, and move its drafter on. */
static void add_step(step_rows *r, const draft_step *s)
{
    drafter *d = s->d;
    int n = record_cells(d, s), first = d->chain_cell - (n - 1), at = r->n_row;
    size_t width = (size_t)d->width;
    for (int i = 0; i < n; i++) {
        r->tok[at + i] = i < n - 1 ? s->tok[first + i + 1] : s->next;
        r->cell[at + i] = first + i;
        r->kv[at + i] = &d->kv;
    }
    be_move(d->be, r->hidden + (size_t)at * width, s->tok ? d->hid : d->chain,
            (size_t)n * width * sizeof(float));
    d->n_list = cells_readable(&d->cells, d->chain_cell, d->list);
    d->n_hid = 0;
    r->full[r->n_full] = at + n - 1;
    r->read[r->n_full++] = (be_attn_row){.kv = &d->kv, .cell = d->list, .n_cell = d->n_list};
    r->n_row += n;
}

/* The steps that can be made: logits out is where their rows go. Returns how many rows they have. */
static int place_steps(draft_step *step, int n, float *logits, int *n_full)
{
    int n_row = 0;
    *n_full = 0;
    for (int i = 0; i < n; i++) {
        drafter *d = step[i].d;
        assert(d->m == step->d->m && d->p.w == step->d->p.w && d->p.head == step->d->p.head);
        assert(step[i].tok ? draft_ready(d, step[i].n_past) && d->chain_cell < 0
                           : d->chain_cell >= 0);
        step[i].logits = NULL;
        if (step[i].tok && !reserve_chain(d))
            continue;
        step[i].logits = logits + (size_t)(*n_full)++ * (size_t)d->p.head->n_row;
        n_row += step[i].tok ? d->n_hid : 1;
    }
    return n_row;
}

void draft_steps(draft_step *step, int n, float *logits, arena *scratch)
{
    const drafter *any = step->d;
    int n_full, n_row = place_steps(step, n, logits, &n_full);
    if (n_full == 0)
        return;
    size_t mark = arena_mark(scratch), width = (size_t)any->width;
    step_rows r = take_rows(scratch, n_row, n_full, any->width);
    for (int i = 0; i < n; i++)
        if (step[i].logits)
            add_step(&r, &step[i]);
    layer_draft_batch b = {.n_row = n_row,
                           .tok = r.tok,
                           .hidden = r.hidden,
                           .cell = r.cell,
                           .kv = r.kv,
                           .n_full = n_full,
                           .full = r.full,
                           .read = r.read,
                           .head = any->p.head,
                           .logits = logits,
                           .hidden_out = r.hidden_out};
    mem_guard_begin();
    layer_draft(any->be, any->m, any->p.w, scratch, &b);
    mem_guard_end();
    for (int i = 0, k = 0; i < n; i++)
        if (step[i].logits)
            be_move(any->be, step[i].d->chain, r.hidden_out + (size_t)k++ * width,
                    width * sizeof(float));
    arena_reset(scratch, mark);
}

void draft_end(drafter *d)
{
    cells_chain_end(&d->cells);
    d->chain_cell = -1;
}

const float *draft_hidden(const drafter *d)
{
    return d->chain;
}

/* ---- For comparisons ----------------------------------------------------------------------------------- */

size_t draft_rows_scratch(const drafter *d, int n)
{
    size_t rows = (size_t)n, list = (size_t)cells_list_max(&d->cells, drafter_cells(&d->p));
    return layer_draft_scratch(d->m, n, n) + arena_cost(rows * sizeof(be_kv *)) +
           2 * arena_cost(rows * sizeof(int32_t)) + arena_cost(rows * sizeof(be_attn_row)) +
           arena_cost(rows * list * sizeof(int32_t)) +
           arena_cost(rows * (size_t)d->width * sizeof(float));
}

ft_status draft_rows(drafter *d, arena *scratch, const draft_rows_args *a, ft_error *err)
{
    int first = a->first, n = a->n;
    TRY(draft_reserve(d, first, n, err));
    size_t mark = arena_mark(scratch), rows = (size_t)n;
    size_t list_max = (size_t)cells_list_max(&d->cells, drafter_cells(&d->p));
    const be_kv **kv = arena_take(scratch, rows * sizeof *kv);
    int32_t *cell = arena_take(scratch, rows * sizeof *cell);
    int32_t *full = arena_take(scratch, rows * sizeof *full);
    be_attn_row *read = arena_take(scratch, rows * sizeof *read);
    int32_t *list = arena_take(scratch, rows * list_max * sizeof *list);
    float *out = arena_take(scratch, rows * (size_t)d->width * sizeof *out);
    assert(kv && cell && full && read && list && out);
    cells_wrote(&d->cells, first, n);
    for (int i = 0; i < n; i++) {
        int32_t *own = list + (size_t)i * list_max;
        kv[i] = &d->kv;
        cell[i] = first + i;
        full[i] = i;
        read[i] = (be_attn_row){
            .kv = &d->kv, .cell = own, .n_cell = cells_readable(&d->cells, first + i, own)};
    }
    layer_draft_batch b = {.n_row = n,
                           .tok = a->next,
                           .hidden = a->hidden,
                           .cell = cell,
                           .kv = kv,
                           .n_full = n,
                           .full = full,
                           .read = read,
                           .head = d->p.head,
                           .logits = a->logits,
                           .hidden_out = out,
                           .stage = a->stage,
                           .stage_ctx = a->stage_ctx};
    layer_draft(d->be, d->m, d->p.w, scratch, &b);
    arena_reset(scratch, mark);
    return FT_OK;
}

void draft_settle(drafter *d, arena *scratch, const int32_t *tok)
{
    draft_end(d);
    if (d->n_hid < 2)
        return;
    int n = d->n_hid - 1, last = d->hid_first + n;
    encode_committed(d, scratch, tok, d->hid_first, n, NULL, last);
    be_move(d->be, d->hid, hid_row(d, last), (size_t)d->width * sizeof(float));
    d->hid_first = last;
    d->n_hid = 1;
}

/* Make room at the new places of the cells that move; false: there is none. */
static bool reserve_moved(drafter *d, const cells_range *r, int n_range, int first)
{
    for (int i = 0; i < n_range; i++)
        if (r[i].first >= first && draft_reserve(d, r[i].first, r[i].n, NULL) != FT_OK)
            return false;
    return true;
}

void draft_shift(drafter *d, int first, int n)
{
    assert(d->n_hid <= 1 && n > 0); /* settled */
    draft_end(d);
    cells after = d->cells;
    cells_shift(&after, first, n);
    cells_range r[2];
    int n_range = cells_ranges(&after, r);
    const model_hparams *h = &d->m->h;
    be_rotary rot = {
        .n_head = h->n_head_kv, .d = h->d_head, .n_rot = h->n_rot, .base = h->rope_base};
    if (!reserve_moved(d, r, n_range, first)) {
        n_range = 0;
        after = d->cells;
        cells_truncate(&after, first > 0 ? first - 1 : 0);
    }
    for (int i = 0; i < n_range; i++) { /* a range lies wholly before first or behind it */
        if (r[i].first < first)
            continue;
        be_move_cells(d->be, &d->kv.k, r[i].first, r[i].first + n, r[i].n, &rot);
        be_move_cells(d->be, &d->kv.v, r[i].first, r[i].first + n, r[i].n, NULL);
    }
    d->cells = after;
    pages_truncate(&d->pages, cells_end(&d->cells));
    if (d->n_hid > 0 && d->hid_first >= first + n)
        d->hid_first -= n;
    else
        d->n_hid = 0; /* its token is gone */
}

static void hash_cells(XXH3_state_t *h, const be_cells *c, cells_range r)
{
    for (int i = r.first, run; i < r.first + r.n; i += run) {
        run = be_cells_run(c, i, r.first + r.n - i);
        XXH3_64bits_update(h, be_cell(c, i), (size_t)run * c->cell_bytes);
    }
}

uint64_t draft_digest(const drafter *d)
{
    XXH3_state_t h;
    XXH3_64bits_reset(&h);
    uint64_t c = cells_digest(&d->cells);
    XXH3_64bits_update(&h, &c, sizeof c);
    XXH3_64bits_update(&h, &d->n_hid, sizeof d->n_hid);
    if (d->n_hid)
        XXH3_64bits_update(&h, &d->hid_first, sizeof d->hid_first);
    XXH3_64bits_update(&h, d->hid, (size_t)d->n_hid * (size_t)d->width * sizeof(float));
    cells_range range[2];
    int n_range = cells_ranges(&d->cells, range);
    for (int i = 0; i < n_range; i++) {
        hash_cells(&h, &d->kv.k, range[i]);
        hash_cells(&h, &d->kv.v, range[i]);
    }
    return XXH3_64bits_digest(&h);
}
