/* synthetic.c - see synthetic.h. */
#include "engine/synthetic.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "engine/synthetic_blocks.h"
#include "kern/kern.h"

enum {
    POOL_VALUES = 1 << 15, /* encoded once per tensor */
    PIECE_VALUES = 256,    /* drawn at once; every block divides it */
    OUT_BYTES = 1 << 20,   /* handed to the writer at once, about */
};

typedef struct {
    const shape *s;
    ft_progress_fn *progress; /* NULL: none */
    void *ctx;
    ft_error *err;
    gguf_writer *w;
    float value[POOL_VALUES];
    uint8_t pool[POOL_VALUES * sizeof(float)];
    uint8_t out[OUT_BYTES];
    uint64_t rng;
    uint64_t done, total; /* bytes of tensors */
} job;

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t next_u64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* About normal, mean 0 and deviation 1, within +-3.5: the sum of four uniform values. */
static float next_normal(uint64_t *state)
{
    uint64_t z = next_u64(state);
    float sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (float)(z >> 16 * i & 0xffff) / 65536.0f;
    return (sum - 2.0f) * 1.7320508f;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Of weights: what keeps activations at their size. */
static float deviation_of(const shape_tensor *t)
{
    return t->kind == SHAPE_TABLE ? 1.0f : 1.0f / sqrtf((float)t->dim[t->n_dim - 1]);
}

/* x is about N(0, 1). Decays are -exp(A_log). */
static float value_of(const shape_tensor *t, float x)
{
    switch (t->kind) {
    case SHAPE_NORM:
        return 1.0f + 0.1f * x;
    case SHAPE_DECAY:
        return -expf(x);
    case SHAPE_TABLE:
    case SHAPE_MATRIX:
    case SHAPE_EXPERTS:
    case SHAPE_CONV:
    case SHAPE_PLAIN:
        break;
    }
    return x * deviation_of(t);
}

/* Encode a pool for this tensor, or make random blocks. */
static void fill_pool(job *j, const shape_tensor *t)
{
    if (synthetic_has_blocks(t->type)) {
        uint8_t *bits = (uint8_t *)j->value;
        for (size_t i = 0; i < sizeof j->value; i += sizeof(uint64_t)) {
            uint64_t z = next_u64(&j->rng);
            memcpy(bits + i, &z, sizeof z);
        }
        synthetic_blocks(t->type, j->pool, bits, dtype_row_bytes(t->type, POOL_VALUES),
                         deviation_of(t));
        return;
    }
    for (size_t i = 0; i < POOL_VALUES; i++)
        j->value[i] = value_of(t, next_normal(&j->rng));
    bool ok = kern_encode(t->type, j->pool, j->value, POOL_VALUES);
    assert(ok); /* check() */
    (void)ok;
}

/* n bytes of whole pieces, each from a random place in the pool; the last one may be cut. */
static void draw(job *j, size_t n, size_t piece_bytes)
{
    for (size_t at = 0; at < n; at += piece_bytes) {
        uint64_t i = next_u64(&j->rng) % (POOL_VALUES / PIECE_VALUES);
        size_t len = n - at < piece_bytes ? n - at : piece_bytes;
        memcpy(j->out + at, j->pool + i * piece_bytes, len);
    }
}

static uint64_t tensor_size(const shape_tensor *t)
{
    uint64_t n = dtype_row_bytes(t->type, (size_t)t->dim[t->n_dim - 1]);
    for (int i = 0; i < t->n_dim - 1; i++)
        n *= (uint64_t)t->dim[i];
    return n;
}

static ft_status write_tensor(job *j, const shape_tensor *t)
{
    size_t piece_bytes = dtype_row_bytes(t->type, PIECE_VALUES);
    size_t most = OUT_BYTES / piece_bytes * piece_bytes;
    fill_pool(j, t);
    for (uint64_t left = tensor_size(t); left > 0;) {
        size_t n = left < most ? (size_t)left : most;
        draw(j, n, piece_bytes);
        TRY(gguf_write_data(j->w, j->out, n, j->err));
        left -= n;
        j->done += n;
        if (j->progress && !j->progress(j->ctx, t->name, j->done, j->total))
            return err_set(j->err, FT_CANCELLED, "synthetic: cancelled at '%s'", t->name);
    }
    return FT_OK;
}

static bool can_make(dtype type)
{
    return kern_can_encode(type) || synthetic_has_blocks(type);
}

/* ---- The file -------------------------------------------------------------------------------- */

static ft_status declare(job *j)
{
    const model_hparams *h = &j->s->m.h;
    char key[64];
    /* The family's sections of interleaved rotary positions; other readers ask for them. */
    const int32_t third = h->n_rot / 6, section[4] = {h->n_rot / 2 - 2 * third, third, third, 0};
    shape_put_metadata(j->w, j->s);
    gguf_put_str(j->w, "general.name", j->s->info->name, strlen(j->s->info->name));
    gguf_put_int(j->w, "general.quantization_version", GGUF_U32, 2);
    snprintf(key, sizeof key, "%s.rope.dimension_sections", model_arch_name(h->arch));
    gguf_put_array(j->w, key, GGUF_I32, section, ARRAY_LEN(section));
    TRY(synthetic_put_tokenizer(j->w, h->n_vocab, j->err));
    shape_declare(j->w, j->s);
    return gguf_writer_begin(j->w, j->err);
}

static ft_status run(job *j, const char *path)
{
    TRY(gguf_writer_open(&j->w, path, j->err));
    TRY(declare(j));
    for (int i = 0; i < j->s->n_tensor; i++)
        TRY(write_tensor(j, &j->s->tensor[i]));
    gguf_writer *w = j->w;
    j->w = NULL; /* close frees it in any case */
    return gguf_writer_close(w, j->err);
}

/* What can be said before anything is written. */
static ft_status check(const shape *s, uint64_t *total, ft_error *err)
{
    *total = 0;
    if (s->m.h.n_vocab < SYNTHETIC_MIN_VOCAB)
        return err_set(err, FT_ARG, "synthetic: a vocabulary of %d tokens, want at least %d",
                       s->m.h.n_vocab, SYNTHETIC_MIN_VOCAB);
    for (int i = 0; i < s->n_tensor; i++) {
        const shape_tensor *t = &s->tensor[i];
        if (!can_make(t->type))
            return err_set(err, FT_ARG, "type: no encoder for %s, which '%s' has in this shape",
                           dtype_name(t->type), t->name);
        *total += tensor_size(t);
    }
    return FT_OK;
}

ft_status synthetic_write(const shape *s, uint64_t seed, const char *path, ft_progress_fn *progress,
                          void *ctx, ft_error *err)
{
    uint64_t total;
    TRY(check(s, &total, err));
    job *j = mem_alloc(sizeof *j);
    if (!j)
        return err_set(err, FT_NOMEM, "synthetic: buffers of %zu bytes", sizeof *j);
    j->s = s;
    j->progress = progress;
    j->ctx = ctx;
    j->err = err;
    j->w = NULL;
    j->rng = seed;
    j->done = 0;
    j->total = total;
    ft_status st = run(j, path);
    gguf_writer_abort(j->w);
    mem_free(j);
    return st;
}

/* ---- The public face -------------------------------------------------------------------------- */

ft_synthetic_params ft_synthetic_params_default(void)
{
    return (ft_synthetic_params){.type = "q8_0"};
}

static ft_status find_shape(shape_info *out, const char *name, ft_error *err)
{
    const shape_info *found = name ? shape_find(name) : NULL;
    if (found) {
        *out = *found;
        return FT_OK;
    }
    buf names;
    buf_init(&names, 160);
    for (int i = 0; shape_at(i); i++)
        buf_printf(&names, " %s", shape_at(i)->name);
    ft_status st =
        err_set(err, FT_ARG, "shape: '%.40s', want one of%s", name ? name : "", buf_cstr(&names));
    buf_deinit(&names);
    return st;
}

/* The shape as asked for: fewer layers, a smaller n-gram table. */
static ft_status cut(shape_info *s, const ft_synthetic_params *p, ft_error *err)
{
    int least = s->h.ple_layer + 1 > 4 ? s->h.ple_layer + 1 : 4; /* one of each kind */
    if (p->n_layer != 0 && (p->n_layer < least || p->n_layer > s->h.n_layer))
        return err_set(err, FT_ARG, "n_layer: %d, want 0 (all) or %d to %d", p->n_layer, least,
                       s->h.n_layer);
    if (p->n_ngram_row < 0 || (p->n_ngram_row > 0 && s->h.ple_layer < 0) ||
        p->n_ngram_row > s->ple_rows_base)
        return err_set(err, FT_ARG, "n_ngram_row: %d, want 0 (all) to %d", p->n_ngram_row,
                       s->ple_rows_base);
    if (p->n_layer > 0)
        s->h.n_layer = p->n_layer;
    if (p->n_ngram_row > 0)
        s->ple_rows_base = p->n_ngram_row;
    return FT_OK;
}

static ft_status types_of(shape_types *out, const char *name, ft_error *err)
{
    const dtype_info *d = dtype_find_name(name);
    if (!d || !can_make(d->type))
        return err_set(err, FT_ARG,
                       "type: '%.40s', want f32, f16, bf16, q8_0, q5_0, q5_1, q4_0, q4_1, iq4_nl, "
                       "q2_0, q4_k, q5_k, q6_k, iq4_xs or the shape's own",
                       name);
    *out = shape_types_of(d->type);
    return FT_OK;
}

ft_status ft_write_synthetic(const ft_synthetic_params *p, ft_error *err)
{
    shape_info info;
    shape_types types;
    shape *s;
    if (!p->out)
        return err_set(err, FT_ARG, "synthetic: out is NULL");
    TRY(find_shape(&info, p->shape, err));
    TRY(cut(&info, p, err));
    if (p->type)
        TRY(types_of(&types, p->type, err));
    TRY(shape_create(&s, &info, p->type ? &types : NULL, err));
    ft_status st = synthetic_write(s, p->seed, p->out, p->progress, p->progress_ctx, err);
    shape_free(s);
    return st;
}
