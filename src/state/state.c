/* state.c - memory, counts and rollback of one conversation's state. See state.h. */
#include "state/state.h"

#include <assert.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"

enum { MAX_CTX = 1 << 24, MAX_WINDOW = 64 };

/* ---- Sizes --------------------------------------------------------------------------------------- */

/* The device buffers of a layer: sizes in bytes, 0 for those it lacks. */
typedef struct {
    size_t k, v, idx_raw, idx_pool, gdn, pend, conv;
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

static bool layer_sizes(const seq_shape *s, const seq_layer_shape *l, dtype idx_type,
                        layer_bytes *b)
{
    *b = (layer_bytes){0};
    size_t n_cell = (size_t)s->n_ctx + (size_t)s->n_window;
    if (l->kind == SEQ_ATTN) {
        if (!size_mul(&b->k, n_cell, be_cell_bytes(s->kv_type, l->n_kv)))
            return false;
        b->v = b->k;
        if (l->ratio == 0)
            return true;
        return size_mul(&b->idx_raw, n_cell, be_cell_bytes(idx_type, l->d_idx)) &&
               mul3(&b->idx_pool, n_cell / (size_t)l->ratio + 1, (size_t)l->d_idx, sizeof(float));
    }
    size_t d = (size_t)l->d;
    return mul3(&b->gdn, (size_t)l->n_val, d * d, sizeof(float)) &&
           mul3(&b->pend, (size_t)s->n_window, be_gdn_pend_floats(l->n_key, l->n_val, l->d),
                sizeof(float)) &&
           mul3(&b->conv, (size_t)(l->n_conv - 1 + s->n_window), (size_t)conv_channels(l),
                sizeof(float));
}

static dtype idx_type_of(dtype kv_type)
{
    return kv_type == DTYPE_F32 ? DTYPE_F32 : DTYPE_F16;
}

static bool ple_size(const seq_shape *s, size_t *n)
{
    *n = 0;
    return s->ple_layer < 0 ||
           mul3(n, (size_t)(s->ple_rows + s->n_window), (size_t)s->ple_width, sizeof(float));
}

bool seq_size(const seq_shape *s, size_t *n_bytes)
{
    size_t total;
    if (!ple_size(s, &total))
        return false;
    for (int i = 0; i < s->n_layer; i++) {
        layer_bytes b;
        if (!layer_sizes(s, &s->layer[i], idx_type_of(s->kv_type), &b))
            return false;
        const size_t part[] = {b.k, b.v, b.idx_raw, b.idx_pool, b.gdn, b.pend, b.conv};
        for (size_t j = 0; j < ARRAY_LEN(part); j++)
            if (!size_add(&total, total, part[j]))
                return false;
    }
    *n_bytes = total;
    return true;
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
    if (!layer_sizes(&s->shape, shape, s->idx_type, &b))
        return false;
    l->kind = shape->kind;
    l->kv.type = s->shape.kv_type;
    if (shape->kind == SEQ_ATTN)
        l->kv.cell_bytes = be_cell_bytes(s->shape.kv_type, shape->n_kv);
    if (shape->ratio)
        l->idx_cell_bytes = be_cell_bytes(s->idx_type, shape->d_idx);
    return take(s, &l->kv.k, b.k) && take(s, &l->kv.v, b.v) && take(s, &l->idx_raw, b.idx_raw) &&
           take(s, &l->idx_pool, b.idx_pool) && take(s, &l->gdn, b.gdn) &&
           take(s, &l->pend, b.pend) && take(s, &l->conv, b.conv);
}

static ft_status check_shape(const seq_shape *s, ft_error *err)
{
    if (s->n_ctx < 1 || s->n_ctx > MAX_CTX)
        return err_set(err, FT_ARG, "context: %d tokens, want 1 to %d", s->n_ctx, MAX_CTX);
    if (s->n_window < 0 || s->n_window > MAX_WINDOW)
        return err_set(err, FT_ARG, "window: %d rows, want 0 to %d", s->n_window, MAX_WINDOW);
    if (s->kv_type != DTYPE_F32 && s->kv_type != DTYPE_F16 && s->kv_type != DTYPE_Q8_0)
        return err_set(err, FT_ARG, "kv type: %s, want f32, f16 or q8_0", dtype_name(s->kv_type));
    for (int i = 0; i < s->n_layer; i++)
        if (s->kv_type == DTYPE_Q8_0 && s->layer[i].kind == SEQ_ATTN && s->layer[i].n_kv % 32)
            return err_set(err, FT_ARG, "kv type q8_0: cells of %d values, want a multiple of 32",
                           s->layer[i].n_kv);
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
    s->idx_type = idx_type_of(shape->kv_type);
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
    if (!ok) {
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
        bool ok = layer_sizes(&s->shape, &s->shape.layer[i], s->idx_type, &b);
        (void)ok; /* it was computed once already */
        seq_layer *l = &s->layer[i];
        be_release(s->be, l->kv.k, b.k);
        be_release(s->be, l->kv.v, b.v);
        be_release(s->be, l->idx_raw, b.idx_raw);
        be_release(s->be, l->idx_pool, b.idx_pool);
        be_release(s->be, l->gdn, b.gdn);
        be_release(s->be, l->pend, b.pend);
        be_release(s->be, l->conv, b.conv);
    }
    size_t ple = 0;
    bool ok = ple_size(&s->shape, &ple);
    (void)ok;
    be_release(s->be, s->ple_conv, ple);
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
    for (int i = 0; i < s->shape.n_layer; i++) {
        const seq_layer_shape *l = &s->shape.layer[i];
        layer_bytes b = {0};
        bool ok = layer_sizes(&s->shape, l, s->idx_type, &b);
        (void)ok;
        be_zero(s->be, s->layer[i].gdn, b.gdn);
        be_zero(s->be, s->layer[i].conv, b.conv); /* zeros before the start of the text */
    }
    size_t ple = 0;
    if (ple_size(&s->shape, &ple))
        be_zero(s->be, s->ple_conv, ple);
}

/* ---- Rows in, rows kept --------------------------------------------------------------------------- */

ft_status seq_begin(seq *s, const int32_t *tok, int n_row, int n_commit, ft_error *err)
{
    if (s->broken)
        return err_set(err, FT_DEVICE, "session: a step failed half way; reset it first");
    assert(s->n_spec == 0 && n_row >= 1 && n_commit >= 0 && n_commit <= n_row);
    if (n_row > s->shape.n_ctx - s->n_past)
        return err_set(err, FT_RANGE, "context: %d tokens used and %d more wanted, the limit is %d",
                       s->n_past, n_row, s->shape.n_ctx);
    if (n_row - n_commit > s->shape.n_window)
        return err_set(err, FT_ARG, "window: %d rows to verify, the limit is %d", n_row - n_commit,
                       s->shape.n_window);
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

uint64_t seq_digest(seq *s)
{
    seq_settle(s);
    XXH3_state_t h;
    XXH3_64bits_reset(&h);
    size_t n = (size_t)s->n_past;
    XXH3_64bits_update(&h, &s->n_past, sizeof s->n_past);
    XXH3_64bits_update(&h, s->tok, n * sizeof *s->tok);
    for (int i = 0; i < s->shape.n_layer; i++) {
        const seq_layer_shape *shape = &s->shape.layer[i];
        const seq_layer *l = &s->layer[i];
        if (shape->kind == SEQ_ATTN) {
            XXH3_64bits_update(&h, l->kv.k, n * l->kv.cell_bytes);
            XXH3_64bits_update(&h, l->kv.v, n * l->kv.cell_bytes);
            if (shape->ratio) {
                XXH3_64bits_update(&h, l->idx_raw, n * l->idx_cell_bytes);
                XXH3_64bits_update(&h, l->idx_pool,
                                   n / (size_t)shape->ratio * (size_t)shape->d_idx * sizeof(float));
            }
            continue;
        }
        size_t d = (size_t)shape->d;
        XXH3_64bits_update(&h, l->gdn, (size_t)shape->n_val * d * d * sizeof(float));
        XXH3_64bits_update(&h, l->conv,
                           (size_t)(shape->n_conv - 1) * (size_t)conv_channels(shape) *
                               sizeof(float));
    }
    if (s->ple_conv)
        XXH3_64bits_update(&h, s->ple_conv,
                           (size_t)s->shape.ple_rows * (size_t)s->shape.ple_width * sizeof(float));
    return XXH3_64bits_digest(&h);
}
