/* state.c - memory, counts and rollback of one conversation's state. See state.h. */
#include "state/state.h"

#include <assert.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "state/parts.h"

enum { MAX_CTX = 1 << 24, MAX_WINDOW = 64 };

/* ---- Sizes --------------------------------------------------------------------------------------- */

/* The device buffers of a layer: sizes in bytes, 0 for those it lacks. */
typedef struct {
    size_t gdn, pend, conv;
} layer_bytes;

static int conv_channels(const seq_layer_shape *l)
{
    return (2 * l->n_key + l->n_val) * l->d;
}

static bool mul3(size_t *out, size_t a, size_t b, size_t c)
{
    size_t ab;
    return size_mul(&ab, a, b) && size_mul(out, ab, c);
}

static bool layer_sizes(const seq_shape *s, const seq_layer_shape *l, layer_bytes *b)
{
    *b = (layer_bytes){0};
    if (l->kind == SEQ_ATTN)
        return true;
    size_t d = (size_t)l->d;
    return mul3(&b->gdn, (size_t)l->n_val, d * d, sizeof(float)) &&
           mul3(&b->pend, (size_t)s->n_window, be_gdn_pend_floats(l->n_key, l->n_val, l->d),
                sizeof(float)) &&
           mul3(&b->conv, (size_t)(l->n_conv - 1 + s->n_window), (size_t)conv_channels(l),
                sizeof(float));
}

dtype seq_idx_type(dtype kv_type)
{
    return kv_type == DTYPE_F32 ? DTYPE_F32 : DTYPE_F16;
}

/* Give cells of n_val values their place behind the first *n_bytes of a page, on a cache line. */
static bool place(be_cells *c, dtype type, int n_val, int per_page, size_t *n_bytes)
{
    size_t n;
    *c = (be_cells){.offset = *n_bytes,
                    .type = type,
                    .cell_bytes = be_cell_bytes(type, n_val),
                    .per_page = per_page};
    if (!size_mul(&n, c->cell_bytes, (size_t)per_page) || !size_add(&n, n, *n_bytes) ||
        n > PTRDIFF_MAX)
        return false;
    *n_bytes = size_align(n, MEM_ALIGN);
    return true;
}

/* The place of a layer's cells in a page. */
static bool place_layer(const seq_shape *s, const seq_layer_shape *shape, seq_layer *l,
                        size_t *n_bytes)
{
    l->kind = shape->kind;
    if (shape->kind != SEQ_ATTN)
        return true;
    dtype idx_type = seq_idx_type(s->kv_type);
    if (!place(&l->kv.k, s->kv_type, shape->n_kv, BE_PAGE, n_bytes) ||
        !place(&l->kv.v, s->kv_type, shape->n_kv, BE_PAGE, n_bytes))
        return false;
    return shape->ratio == 0 ||
           (place(&l->idx_raw, idx_type, shape->d_idx, BE_PAGE, n_bytes) &&
            place(&l->idx_pool, DTYPE_F32, shape->d_idx, BE_PAGE / shape->ratio, n_bytes));
}

static bool page_size(const seq_shape *s, size_t *n_bytes)
{
    *n_bytes = 0;
    for (int i = 0; i < s->n_layer; i++) {
        seq_layer l;
        if (!place_layer(s, &s->layer[i], &l, n_bytes))
            return false;
    }
    return true;
}

static bool ple_size(const seq_shape *s, size_t *n)
{
    *n = 0;
    return s->ple_layer < 0 ||
           mul3(n, (size_t)(s->ple_rows + s->n_window), (size_t)s->ple_width, sizeof(float));
}

bool seq_size(const seq_shape *s, size_t *n_bytes)
{
    size_t total, page, cells;
    size_t n_page = ((size_t)s->n_ctx + BE_PAGE - 1) / BE_PAGE;
    if (!ple_size(s, &total) || !page_size(s, &page) || !size_mul(&cells, page, n_page) ||
        !size_add(&total, total, cells))
        return false;
    for (int i = 0; i < s->n_layer; i++) {
        layer_bytes b;
        if (!layer_sizes(s, &s->layer[i], &b))
            return false;
        const size_t part[] = {b.gdn, b.pend, b.conv};
        for (size_t j = 0; j < ARRAY_LEN(part); j++)
            if (!size_add(&total, total, part[j]))
                return false;
    }
    *n_bytes = total;
    return true;
}

/* ---- The recurrent part --------------------------------------------------------------------------- */

int part_count(const seq_shape *s)
{
    return 2 * s->n_layer + 1;
}

size_t part_bytes(const seq_shape *s, int i)
{
    if (i == 2 * s->n_layer)
        return s->ple_layer < 0 ? 0 : (size_t)s->ple_rows * (size_t)s->ple_width * sizeof(float);
    const seq_layer_shape *l = &s->layer[i / 2];
    size_t d = (size_t)l->d;
    if (l->kind != SEQ_GDN)
        return 0;
    return (i % 2 == 0 ? (size_t)l->n_val * d * d
                       : (size_t)(l->n_conv - 1) * (size_t)conv_channels(l)) *
           sizeof(float);
}

float *part_of(const seq *s, int i)
{
    if (i == 2 * s->shape.n_layer)
        return s->ple_conv;
    return i % 2 == 0 ? s->layer[i / 2].gdn : s->layer[i / 2].conv;
}

/* ---- Life ---------------------------------------------------------------------------------------- */

static bool take(seq *s, void *out, size_t n)
{
    void *p = NULL;
    if (n > 0) {
        p = be_alloc(s->be, n);
        if (!p)
            return false;
        s->n_bytes += n;
    }
    memcpy(out, &p, sizeof p);
    return true;
}

static bool layer_create(seq *s, seq_layer *l, const seq_layer_shape *shape)
{
    layer_bytes b;
    return layer_sizes(&s->shape, shape, &b) && take(s, &l->gdn, b.gdn) &&
           take(s, &l->pend, b.pend) && take(s, &l->conv, b.conv);
}

/* The layers' cells, in pages of which none is there yet. */
static ft_status cells_create(seq *s, ft_error *err)
{
    size_t page_bytes = 0;
    for (int i = 0; i < s->shape.n_layer; i++)
        if (!place_layer(&s->shape, &s->shape.layer[i], &s->layer[i], &page_bytes))
            return err_set(err, FT_NOMEM, "state: size of a page overflows");
    TRY(pages_init(&s->pages, s->be, page_bytes, s->shape.n_ctx, err));
    for (int i = 0; i < s->shape.n_layer; i++) {
        seq_layer *l = &s->layer[i];
        l->kv.k.page = l->kv.v.page = l->idx_raw.page = l->idx_pool.page = s->pages.page;
    }
    return FT_OK;
}

static ft_status check_shape(const seq_shape *s, ft_error *err)
{
    if (s->n_ctx < 1 || s->n_ctx > MAX_CTX)
        return err_set(err, FT_ARG, "context: %d tokens, want 1 to %d", s->n_ctx, MAX_CTX);
    if (s->n_window < 0 || s->n_window > MAX_WINDOW)
        return err_set(err, FT_ARG, "window: %d rows, want 0 to %d", s->n_window, MAX_WINDOW);
    if (s->kv_type != DTYPE_F32 && s->kv_type != DTYPE_F16 && s->kv_type != DTYPE_Q8_0)
        return err_set(err, FT_ARG, "kv type: %s, want f32, f16 or q8_0", dtype_name(s->kv_type));
    for (int i = 0; i < s->n_layer; i++) {
        const seq_layer_shape *l = &s->layer[i];
        if (l->kind != SEQ_ATTN)
            continue;
        if (s->kv_type == DTYPE_Q8_0 && l->n_kv % 32)
            return err_set(err, FT_ARG, "kv type q8_0: cells of %d values, want a multiple of 32",
                           l->n_kv);
        if (l->ratio < 0 || (l->ratio && BE_PAGE % l->ratio))
            return err_set(err, FT_ARG, "blocks of %d positions, want a divisor of %d", l->ratio,
                           BE_PAGE);
    }
    return FT_OK;
}

ft_status seq_create(seq **out, backend *be, const seq_shape *shape, ft_error *err)
{
    *out = NULL;
    TRY(check_shape(shape, err));
    size_t n_bytes = 0;
    if (!seq_size(shape, &n_bytes))
        return err_set(err, FT_NOMEM, "state: size overflows");
    seq *s = mem_zalloc(sizeof *s);
    if (!s)
        return err_set(err, FT_NOMEM, "state");
    s->shape = *shape;
    s->be = be;
    size_t n = (size_t)shape->n_layer, ple = 0;
    seq_layer_shape *copy = mem_calloc(n, sizeof *copy);
    s->shape.layer = copy;
    s->layer = mem_calloc(n, sizeof *s->layer);
    s->tok = mem_calloc((size_t)shape->n_ctx + (size_t)shape->n_window, sizeof *s->tok);
    bool ok = copy && s->layer && s->tok && ple_size(shape, &ple) && take(s, &s->ple_conv, ple);
    if (copy)
        memcpy(copy, shape->layer, n * sizeof *copy);
    for (int i = 0; ok && i < shape->n_layer; i++)
        ok = layer_create(s, &s->layer[i], &s->shape.layer[i]);
    if (!ok || cells_create(s, NULL) != FT_OK) {
        seq_free(s);
        return err_set(err, FT_NOMEM, "state: %zu bytes for a context of %d tokens", n_bytes,
                       shape->n_ctx);
    }
    *out = s;
    return FT_OK;
}

void seq_free(seq *s)
{
    if (!s)
        return;
    for (int i = 0; s->layer && s->shape.layer && i < s->shape.n_layer; i++) {
        layer_bytes b = {0};
        bool ok = layer_sizes(&s->shape, &s->shape.layer[i], &b);
        (void)ok; /* it was computed once already */
        seq_layer *l = &s->layer[i];
        be_release(s->be, l->gdn, b.gdn);
        be_release(s->be, l->pend, b.pend);
        be_release(s->be, l->conv, b.conv);
    }
    size_t ple = 0;
    bool ok = ple_size(&s->shape, &ple);
    (void)ok;
    be_release(s->be, s->ple_conv, ple);
    pages_deinit(&s->pages);
    union {
        const seq_layer_shape *c;
        void *v;
    } shape = {.c = s->shape.layer};
    mem_free(shape.v);
    mem_free(s->layer);
    mem_free(s->tok);
    mem_free(s);
}

void seq_reset(seq *s)
{
    s->n_past = s->n_spec = s->n_apply = s->n_extra = 0;
    s->broken = false;
    pages_truncate(&s->pages, 0);
    for (int i = 0; i < s->shape.n_layer; i++) {
        const seq_layer_shape *l = &s->shape.layer[i];
        layer_bytes b = {0};
        bool ok = layer_sizes(&s->shape, l, &b);
        (void)ok;
        be_zero(s->be, s->layer[i].gdn, b.gdn);
        be_zero(s->be, s->layer[i].conv, b.conv); /* zeros before the start of the text */
    }
    size_t ple = 0;
    if (ple_size(&s->shape, &ple))
        be_zero(s->be, s->ple_conv, ple);
}

/* ---- Rows in, rows kept --------------------------------------------------------------------------- */

static ft_status check_rows(const seq *s, int n_row, ft_error *err)
{
    assert(s->n_spec == 0 && n_row >= 1);
    if (s->broken)
        return err_set(err, FT_DEVICE, "session: a step failed half way; reset it first");
    if (n_row > s->shape.n_ctx - s->n_past)
        return err_set(err, FT_RANGE, "context: %d tokens used and %d more wanted, the limit is %d",
                       s->n_past, n_row, s->shape.n_ctx);
    return FT_OK;
}

ft_status seq_reserve(seq *s, int n_row, ft_error *err)
{
    TRY(check_rows(s, n_row, err));
    return pages_reserve(&s->pages, s->n_past, n_row, err);
}

ft_status seq_begin(seq *s, const int32_t *tok, int n_row, int n_commit, ft_error *err)
{
    TRY(check_rows(s, n_row, err));
    assert(n_commit >= 0 && n_commit <= n_row);
    if (n_row - n_commit > s->shape.n_window)
        return err_set(err, FT_ARG, "window: %d rows to verify, the limit is %d", n_row - n_commit,
                       s->shape.n_window);
    assert(pages_writable(&s->pages, s->n_past, n_row));
    memcpy(s->tok + s->n_past, tok, (size_t)n_row * sizeof *tok);
    s->broken = true; /* until seq_end */
    return FT_OK;
}

void seq_end(seq *s, int n_row, int n_commit)
{
    s->n_past += n_commit;
    s->n_spec = n_row - n_commit;
    s->n_apply = 0; /* the layers applied what was pending */
    s->n_extra = 0;
    s->broken = false;
}

void seq_accept(seq *s, int n)
{
    assert(n >= 0 && n <= s->n_spec);
    s->n_past += n;
    s->n_apply = n;
    s->n_extra = n;
    s->n_spec = 0;
}

void seq_settle(seq *s)
{
    assert(s->n_spec == 0);
    for (int i = 0; i < s->shape.n_layer; i++) {
        const seq_layer_shape *l = &s->shape.layer[i];
        if (l->kind != SEQ_GDN)
            continue;
        if (s->n_apply)
            be_gdn_apply(s->be, s->layer[i].gdn, s->layer[i].pend, s->n_apply, l->n_key, l->n_val,
                         l->d);
        if (s->n_extra) {
            size_t width = (size_t)conv_channels(l);
            be_move(s->be, s->layer[i].conv, s->layer[i].conv + (size_t)s->n_extra * width,
                    (size_t)(l->n_conv - 1) * width * sizeof(float));
        }
    }
    if (s->ple_conv && s->n_extra)
        be_move(s->be, s->ple_conv, s->ple_conv + (size_t)s->n_extra * (size_t)s->shape.ple_width,
                (size_t)s->shape.ple_rows * (size_t)s->shape.ple_width * sizeof(float));
    s->n_apply = s->n_extra = 0;
}

size_t seq_bytes(const seq *s)
{
    return s->n_bytes + pages_bytes(&s->pages);
}

static void hash_cells(XXH3_state_t *h, const be_cells *c, int n)
{
    for (int i = 0, run; i < n; i += run) {
        run = be_cells_run(c, i, n - i);
        XXH3_64bits_update(h, be_cell(c, i), (size_t)run * c->cell_bytes);
    }
}

uint64_t seq_digest(seq *s)
{
    seq_settle(s);
    XXH3_state_t h;
    XXH3_64bits_reset(&h);
    XXH3_64bits_update(&h, &s->n_past, sizeof s->n_past);
    XXH3_64bits_update(&h, s->tok, (size_t)s->n_past * sizeof *s->tok);
    for (int i = 0; i < s->shape.n_layer; i++) {
        const seq_layer_shape *shape = &s->shape.layer[i];
        const seq_layer *l = &s->layer[i];
        if (shape->kind != SEQ_ATTN)
            continue;
        hash_cells(&h, &l->kv.k, s->n_past);
        hash_cells(&h, &l->kv.v, s->n_past);
        if (shape->ratio == 0)
            continue;
        hash_cells(&h, &l->idx_raw, s->n_past);
        hash_cells(&h, &l->idx_pool, s->n_past / shape->ratio);
    }
    for (int i = 0; i < part_count(&s->shape); i++)
        XXH3_64bits_update(&h, part_of(s, i), part_bytes(&s->shape, i));
    return XXH3_64bits_digest(&h);
}
