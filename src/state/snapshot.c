/* snapshot.c - taking and restoring states, and their recurrent part as bytes. See snapshot.h. */
#include "state/snapshot.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "state/parts.h"

struct seq_snap {
    seq_shape shape; /* shape.layer: owned copy */
    backend *be;     /* borrowed */
    int n_past;
    int32_t *tok;       /* [n_past]; NULL: none */
    uint8_t *recurrent; /* the parts one behind the other, device; NULL: none */
    pages pages;
};

size_t seq_recurrent_bytes(const seq_shape *shape)
{
    size_t n = 0;
    for (int i = 0; i < part_count(shape); i++)
        n += part_bytes(shape, i);
    return n;
}

/* ---- Life ---------------------------------------------------------------------------------------- */

/* The memory of a snapshot of s. */
static bool reserve(seq_snap *n, const seq *s)
{
    size_t n_layer = (size_t)s->shape.n_layer, bytes = seq_recurrent_bytes(&s->shape);
    seq_layer_shape *layer = mem_calloc(n_layer, sizeof *layer);
    n->shape.layer = layer;
    if (!layer)
        return false;
    memcpy(layer, s->shape.layer, n_layer * sizeof *layer);
    if (s->n_past > 0 && !(n->tok = mem_calloc((size_t)s->n_past, sizeof *n->tok)))
        return false;
    if (bytes > 0 && !(n->recurrent = be_alloc(s->be, bytes)))
        return false;
    int n_cell = s->n_past > 0 ? s->n_past : 1;
    return pages_init(&n->pages, s->be, s->pages.page_bytes, n_cell, NULL) == FT_OK;
}

ft_status seq_snap_take(seq_snap **out, seq *s, ft_error *err)
{
    *out = NULL;
    if (s->broken)
        return err_set(err, FT_DEVICE, "snapshot: a step failed half way; reset the session first");
    seq_snap *n = mem_zalloc(sizeof *n);
    if (!n)
        return err_set(err, FT_NOMEM, "snapshot");
    n->shape = s->shape;
    n->shape.layer = NULL;
    n->be = s->be;
    n->n_past = s->n_past;
    if (!reserve(n, s)) {
        seq_snap_free(n);
        return err_set(err, FT_NOMEM, "snapshot: %zu bytes of recurrent state and %d tokens",
                       seq_recurrent_bytes(&s->shape), s->n_past);
    }
    seq_settle(s);
    if (n->tok)
        memcpy(n->tok, s->tok, (size_t)n->n_past * sizeof *n->tok);
    uint8_t *at = n->recurrent;
    for (int i = 0; i < part_count(&s->shape); i++) {
        size_t bytes = part_bytes(&s->shape, i);
        be_move(s->be, at, part_of(s, i), bytes);
        at += bytes;
    }
    pages_share(&n->pages, &s->pages, s->n_past);
    *out = n;
    return FT_OK;
}

void seq_snap_free(seq_snap *n)
{
    if (!n)
        return;
    if (n->recurrent)
        be_release(n->be, n->recurrent, seq_recurrent_bytes(&n->shape));
    pages_deinit(&n->pages);
    mem_free(n->tok);
    union {
        const seq_layer_shape *c;
        void *v;
    } layer = {.c = n->shape.layer};
    mem_free(layer.v);
    mem_free(n);
}

/* ---- Back --------------------------------------------------------------------------------------- */

static bool same_layer(const seq_layer_shape *a, const seq_layer_shape *b)
{
    return a->kind == b->kind && a->n_kv == b->n_kv && a->d_idx == b->d_idx &&
           a->ratio == b->ratio && a->n_key == b->n_key && a->n_val == b->n_val && a->d == b->d &&
           a->n_conv == b->n_conv;
}

static ft_status check_fit(const seq *s, const seq_snap *n, ft_error *err)
{
    const seq_shape *a = &n->shape, *b = &s->shape;
    if (a->kv_type != b->kv_type)
        return err_set(err, FT_MISMATCH, "snapshot: cells of %s, want %s", dtype_name(a->kv_type),
                       dtype_name(b->kv_type));
    bool same = a->n_layer == b->n_layer && a->ple_layer == b->ple_layer &&
                a->ple_width == b->ple_width && a->ple_rows == b->ple_rows;
    for (int i = 0; same && i < a->n_layer; i++)
        same = same_layer(&a->layer[i], &b->layer[i]);
    if (!same)
        return err_set(err, FT_MISMATCH,
                       "snapshot: %d layers of another model, want the %d of "
                       "this one",
                       a->n_layer, b->n_layer);
    if (n->n_past > b->n_ctx)
        return err_set(err, FT_RANGE, "snapshot: %d tokens, the limit of this session is %d",
                       n->n_past, b->n_ctx);
    return FT_OK;
}

/* s holds n_past tokens, and nothing waits to be applied. */
static void settled(seq *s, const int32_t *tok, int n_past)
{
    if (n_past > 0)
        memmove(s->tok, tok, (size_t)n_past * sizeof *tok);
    s->n_past = n_past;
    s->n_spec = s->n_apply = s->n_extra = 0;
    s->broken = false;
}

ft_status seq_snap_restore(seq *s, const seq_snap *n, ft_error *err)
{
    TRY(check_fit(s, n, err));
    pages_share(&s->pages, &n->pages, n->n_past);
    const uint8_t *at = n->recurrent;
    for (int i = 0; i < part_count(&s->shape); i++) {
        size_t bytes = part_bytes(&s->shape, i);
        be_move(s->be, part_of(s, i), at, bytes);
        at += bytes;
    }
    settled(s, n->tok, n->n_past);
    return FT_OK;
}

int seq_snap_n_past(const seq_snap *n)
{
    return n->n_past;
}

const int32_t *seq_snap_tok(const seq_snap *n)
{
    return n->tok;
}

size_t seq_snap_bytes(const seq_snap *n)
{
    return sizeof *n + (size_t)n->shape.n_layer * sizeof *n->shape.layer +
           (size_t)n->n_past * sizeof *n->tok + seq_recurrent_bytes(&n->shape) +
           (size_t)n->pages.n_page * (sizeof *n->pages.page + sizeof *n->pages.owner);
}

pages *seq_snap_pages(seq_snap *n)
{
    return &n->pages;
}

/* ---- The recurrent part as bytes ------------------------------------------------------------------ */

ft_status seq_recurrent_write(const seq_snap *n, snap_write_fn *w, void *ctx, ft_error *err)
{
    const uint8_t *at = n->recurrent;
    for (int i = 0; i < part_count(&n->shape); i++) {
        size_t bytes = part_bytes(&n->shape, i);
        if (bytes > 0)
            TRY(w(ctx, at, bytes, err));
        at += bytes;
    }
    return FT_OK;
}

ft_status seq_recurrent_read(seq *s, const int32_t *tok, int n_past, snap_read_fn *r, void *ctx,
                             ft_error *err)
{
    if (n_past < 0 || n_past > s->shape.n_ctx)
        return err_set(err, FT_RANGE, "state: %d tokens, want 0 to %d", n_past, s->shape.n_ctx);
    s->broken = true; /* until all is there */
    for (int i = 0; i < part_count(&s->shape); i++)
        if (part_bytes(&s->shape, i) > 0)
            TRY(r(ctx, part_of(s, i), part_bytes(&s->shape, i), err));
    settled(s, tok, n_past);
    return FT_OK;
}
