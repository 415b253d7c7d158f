/* shapes.c - the named shapes and their tensors. See shapes.h. Names and shapes of tensors:
 * docs/models.md, in the order of the blocks there.
 */
#include "model/shapes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* ---- The named shapes ------------------------------------------------------------------------- */

/* matrix: all classes that are not named; small: what ft_quantize keeps as F32. */
#define TYPES(matrix, small, expert, head, table)                                           \
    {                                                                                       \
        {                                                                                   \
            [SHAPE_EMBD] = (matrix), [SHAPE_HEAD] = (head), [SHAPE_ATTN] = (matrix),        \
            [SHAPE_INDEXER] = (matrix), [SHAPE_GDN] = (matrix), [SHAPE_GDN_GATE] = (small), \
            [SHAPE_FFN] = (matrix), [SHAPE_EXPERT] = (expert), [SHAPE_ROUTER] = (small),    \
            [SHAPE_MIXER] = (matrix), [SHAPE_INJECT] = (small), [SHAPE_PLE] = (matrix),     \
            [SHAPE_PLE_TABLE] = (table), [SHAPE_EH] = (matrix), [SHAPE_VECTOR] = DTYPE_F32  \
        }                                                                                   \
    }

#define Q8_TYPES TYPES(DTYPE_Q8_0, DTYPE_F32, DTYPE_Q8_0, DTYPE_Q8_0, DTYPE_Q8_0)

/* The types of the MTP block in the drafter's published figures; the table as in the checkpoint. */
#define NEXT_TYPES TYPES(DTYPE_Q8_0, DTYPE_Q8_0, DTYPE_Q2_0, DTYPE_IQ4_XS, DTYPE_BF16)

/* What the whole family shares. */
#define FAMILY                                                                          \
    .n_vocab = 248320, .n_ctx_train = 262144, .eps = 1e-6f, .d_head = 256, .n_rot = 64, \
    .rope_base = 1e7, .n_key_head = 16, .d_state = 128, .n_conv = 4, .n_hc = 1, .ple_layer = -1

#define DENSE(layers, width, heads, heads_kv, heads_value, ff)                                   \
    {                                                                                            \
        FAMILY, .arch = MODEL_QWEN35, .n_layer = (layers), .n_embd = (width), .n_head = (heads), \
                .n_head_kv = (heads_kv), .n_val_head = (heads_value), .n_ff = (ff)               \
    }

static const shape_info named[] = {
    {.name = "qwen3.5-0.8b",
     .source = "config.json of Qwen/Qwen3.5-0.8B",
     .h = DENSE(24, 1024, 8, 2, 16, 3584),
     .tied = true,
     .types = Q8_TYPES},
    {.name = "qwen3.5-2b",
     .source = "config.json of Qwen/Qwen3.5-2B",
     .h = DENSE(24, 2048, 8, 2, 16, 6144),
     .tied = true,
     .types = Q8_TYPES},
    {.name = "qwen3.5-4b",
     .source = "config.json of Qwen/Qwen3.5-4B",
     .h = DENSE(32, 2560, 16, 4, 32, 9216),
     .tied = true,
     .types = Q8_TYPES},
    {.name = "qwen3.5-9b",
     .source = "config.json of Qwen/Qwen3.5-9B",
     .h = DENSE(32, 4096, 16, 4, 32, 12288),
     .types = Q8_TYPES},
    {.name = "qwen3.5-27b",
     .source = "config.json of Qwen/Qwen3.5-27B",
     .h = DENSE(64, 5120, 24, 4, 48, 17408),
     .types = Q8_TYPES},
    {.name = "qwen3.5-35b-a3b",
     .source = "config.json of Qwen/Qwen3.5-35B-A3B",
     .h = {FAMILY, .arch = MODEL_QWEN35MOE, .n_layer = 40, .n_embd = 2048, .n_head = 16,
           .n_head_kv = 2, .n_val_head = 32, .n_expert = 256, .n_expert_used = 8, .n_ff_exp = 512,
           .n_ff_shexp = 512},
     .types = Q8_TYPES},
    {.name = "qwen3.8-flash-next",
     .source = "docs/models.md and config.json of Qwen/Qwen3.8-Flash-Next; types of docs/bytes.md",
     .h = {.arch = MODEL_QWEN4EXP,
           .n_layer = 48,
           .n_embd = 2560,
           .n_vocab = 248320,
           .n_ctx_train = 262144,
           .eps = 1e-6f,
           .n_head = 24,
           .n_head_kv = 2,
           .d_head = 256,
           .n_rot = 64,
           .rope_base = 1e7,
           .n_key_head = 16,
           .n_val_head = 48,
           .d_state = 128,
           .n_conv = 4,
           .n_expert = 512,
           .n_expert_used = 10,
           .n_ff_exp = 640,
           .n_ff_shexp = 640,
           .n_hc = 4,
           .hc_rank = 320,
           .n_idx_head = 4,
           .d_idx = 128,
           .idx_top_k = 2048,
           .ple_layer = 1,
           .ple_ngram = 3,
           .ple_heads = 8,
           .ple_conv = 4,
           .ple_eos = 248044,
           .ple_dim = 160},
     .ratio = 4,
     .n_draft_vocab = 40525,
     .ple_rows_base = 20000000,
     .types = NEXT_TYPES},
};

const shape_info *shape_at(int i)
{
    return i >= 0 && (size_t)i < ARRAY_LEN(named) ? &named[i] : NULL;
}

const shape_info *shape_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(named); i++)
        if (strcmp(named[i].name, name) == 0)
            return &named[i];
    return NULL;
}

shape_types shape_types_of(dtype t)
{
    return (shape_types)TYPES(t, DTYPE_F32, t, t, t);
}

/* ---- The walk --------------------------------------------------------------------------------- */

enum { MAX_PER_BLOCK = 32, MAX_GLOBAL = 16 };

typedef struct {
    shape *s;
    const shape_types *types;
    int cap;
    int i_block; /* names get "blk.<i>." in front; -1: nothing */
    bool mtp;
} maker;

/* Matrices of a described model point here (shapes.h, invariant 1). */
static const uint8_t nowhere;

static shape_tensor *add(maker *k, const char *name, shape_kind kind, shape_class cls, int n_dim,
                         const int *dim)
{
    assert(k->s->n_tensor < k->cap);
    shape_tensor *t = &k->s->tensor[k->s->n_tensor++];
    *t = (shape_tensor){.kind = kind, .cls = cls, .n_dim = n_dim, .mtp = k->mtp};
    memcpy(t->dim, dim, (size_t)n_dim * sizeof *dim);
    char prefix[24] = "";
    if (k->i_block >= 0)
        snprintf(prefix, sizeof prefix, "blk.%d.", k->i_block);
    bool bare = strcmp(name, "ssm_a") == 0 || strcmp(name, "ssm_dt.bias") == 0;
    snprintf(t->name, sizeof t->name, "%s%s%s", prefix, name, bare ? "" : ".weight");
    t->type = k->types->of[cls];
    if (dim[n_dim - 1] % dtype_find((uint32_t)t->type)->block_values != 0)
        t->type = DTYPE_F16;
    return t;
}

/* A matrix of the list as the described model has it. */
static tensor describe(const shape_tensor *t)
{
    int n_col = t->dim[t->n_dim - 1], n_row = t->dim[t->n_dim - 2];
    size_t row_bytes = dtype_row_bytes(t->type, (size_t)n_col);
    return (tensor){.data = &nowhere,
                    .type = t->type,
                    .n_col = n_col,
                    .n_row = n_row,
                    .n_mat = t->n_dim == 3 ? t->dim[0] : 1,
                    .row_bytes = row_bytes,
                    .mat_bytes = row_bytes * (size_t)n_row,
                    .name = t->name};
}

/* out NULL: the engine does not bind it. */
static void matrix(maker *k, tensor *out, const char *name, shape_class cls, int n_row, int n_col)
{
    const shape_tensor *t = add(k, name, SHAPE_MATRIX, cls, 2, (int[]){n_row, n_col});
    if (out)
        *out = describe(t);
}

static void table(maker *k, tensor *out, const char *name, shape_class cls, int n_row, int n_col)
{
    *out = describe(add(k, name, SHAPE_TABLE, cls, 2, (int[]){n_row, n_col}));
}

static void experts(maker *k, tensor *out, const char *name, int n_mat, int n_row, int n_col)
{
    *out = describe(add(k, name, SHAPE_EXPERTS, SHAPE_EXPERT, 3, (int[]){n_mat, n_row, n_col}));
}

static void vector(maker *k, const char *name, shape_kind kind, int n)
{
    add(k, name, kind, SHAPE_VECTOR, 1, &n);
}

static void conv(maker *k, const char *name, int n_channel, int n_tap)
{
    add(k, name, SHAPE_CONV, SHAPE_VECTOR, 2, (int[]){n_channel, n_tap});
}

static void mixer(maker *k, model_mixer *x, const char *name, bool inject)
{
    const model_hparams *h = &k->s->m.h;
    int wide = h->n_hc * h->n_embd;
    char s[48];
    snprintf(s, sizeof s, "%s_norm", name);
    vector(k, s, SHAPE_NORM, wide);
    snprintf(s, sizeof s, "%s_down", name);
    matrix(k, &x->down, s, SHAPE_MIXER, h->hc_rank, wide);
    snprintf(s, sizeof s, "%s_up", name);
    matrix(k, &x->up, s, SHAPE_MIXER, wide, h->hc_rank);
    snprintf(s, sizeof s, "%s_inject", name);
    if (inject)
        matrix(k, &x->inject, s, SHAPE_INJECT, h->n_hc, wide);
}

static void attention(maker *k, model_attn *a)
{
    const model_hparams *h = &k->s->m.h;
    int ratio = k->s->info->ratio;
    matrix(k, &a->q, "attn_q", SHAPE_ATTN, h->n_head * 2 * h->d_head, h->n_embd);
    matrix(k, &a->k, "attn_k", SHAPE_ATTN, h->n_head_kv * h->d_head, h->n_embd);
    matrix(k, &a->v, "attn_v", SHAPE_ATTN, h->n_head_kv * h->d_head, h->n_embd);
    matrix(k, &a->out, "attn_output", SHAPE_ATTN, h->n_embd, h->n_head * h->d_head);
    vector(k, "attn_q_norm", SHAPE_NORM, h->d_head);
    vector(k, "attn_k_norm", SHAPE_NORM, h->d_head);
    if (ratio == 0)
        return;
    bool bound = !k->mtp; /* the draft head's indexer is in the file and not used */
    a->ratio = bound ? ratio : 0;
    matrix(k, bound ? &a->idx_q : NULL, "indexer.q_proj", SHAPE_INDEXER, h->n_idx_head * h->d_idx,
           h->n_embd);
    matrix(k, bound ? &a->idx_k : NULL, "indexer.k_proj", SHAPE_INDEXER, h->d_idx, h->n_embd);
    vector(k, "indexer.q_norm", SHAPE_NORM, h->d_idx);
    vector(k, "indexer.k_norm", SHAPE_NORM, h->d_idx);
}

static void delta_net(maker *k, model_gdn *g)
{
    const model_hparams *h = &k->s->m.h;
    int inner = h->n_val_head * h->d_state, c = model_conv_channels(h);
    matrix(k, &g->qkv, "attn_qkv", SHAPE_GDN, c, h->n_embd);
    matrix(k, &g->gate, "attn_gate", SHAPE_GDN, inner, h->n_embd);
    matrix(k, &g->alpha, "ssm_alpha", SHAPE_GDN_GATE, h->n_val_head, h->n_embd);
    matrix(k, &g->beta, "ssm_beta", SHAPE_GDN_GATE, h->n_val_head, h->n_embd);
    matrix(k, &g->out, "ssm_out", SHAPE_GDN, h->n_embd, inner);
    conv(k, "ssm_conv1d", c, h->n_conv);
    vector(k, "ssm_a", SHAPE_DECAY, h->n_val_head);
    vector(k, "ssm_dt.bias", SHAPE_PLAIN, h->n_val_head);
    vector(k, "ssm_norm", SHAPE_NORM, h->d_state);
}

static void ffn(maker *k, model_ffn *f)
{
    const model_hparams *h = &k->s->m.h;
    if (h->n_expert == 0) {
        matrix(k, &f->gate, "ffn_gate", SHAPE_FFN, h->n_ff, h->n_embd);
        matrix(k, &f->up, "ffn_up", SHAPE_FFN, h->n_ff, h->n_embd);
        matrix(k, &f->down, "ffn_down", SHAPE_FFN, h->n_embd, h->n_ff);
        return;
    }
    experts(k, &f->gate, "ffn_gate_exps", h->n_expert, h->n_ff_exp, h->n_embd);
    experts(k, &f->up, "ffn_up_exps", h->n_expert, h->n_ff_exp, h->n_embd);
    experts(k, &f->down, "ffn_down_exps", h->n_expert, h->n_embd, h->n_ff_exp);
    matrix(k, &f->router, "ffn_gate_inp", SHAPE_ROUTER, h->n_expert, h->n_embd);
    matrix(k, &f->sh_gate, "ffn_gate_shexp", SHAPE_FFN, h->n_ff_shexp, h->n_embd);
    matrix(k, &f->sh_up, "ffn_up_shexp", SHAPE_FFN, h->n_ff_shexp, h->n_embd);
    matrix(k, &f->sh_down, "ffn_down_shexp", SHAPE_FFN, h->n_embd, h->n_ff_shexp);
    vector(k, "ffn_gate_inp_shexp", SHAPE_PLAIN, h->n_embd);
}

static void block(maker *k, model_layer *l)
{
    const model_hparams *h = &k->s->m.h;
    if (h->n_hc > 1) {
        mixer(k, &l->hc_attn, "hc_attn", true);
        mixer(k, &l->hc_ffn, "hc_ffn", true);
    } else {
        vector(k, "attn_norm", SHAPE_NORM, h->n_embd);
        vector(k, "post_attention_norm", SHAPE_NORM, h->n_embd);
    }
    if (l->is_attn)
        attention(k, &l->attn);
    else
        delta_net(k, &l->gdn);
    ffn(k, &l->ffn);
}

/* ---- The n-gram layer ------------------------------------------------------------------------- */

static bool is_prime(int64_t n)
{
    for (int64_t d = 2; d * d <= n; d++)
        if (n % d == 0)
            return false;
    return n > 1;
}

/* Sizes and places of the heads in the table; returns its rows, padded to 128 as checkpoints do. */
static int ngram_heads(model_ple *p, const model_hparams *h, int64_t base)
{
    int64_t rows = 0, prime = base;
    for (int i = 0; i < (h->ple_ngram - 1) * h->ple_heads; i++, prime++) {
        while (!is_prime(prime))
            prime++;
        p->head_vocab[i] = prime;
        p->head_off[i] = rows;
        rows += prime;
    }
    return (int)((rows + 127) / 128 * 128);
}

static void ngram_layer(maker *k, model_ple *p)
{
    const model_hparams *h = &k->s->m.h;
    int e = (h->ple_ngram - 1) * h->ple_heads * h->ple_dim, wide = h->n_hc * h->n_embd;
    matrix(k, &p->key, "ple_key", SHAPE_PLE, wide, e);
    matrix(k, &p->value, "ple_value", SHAPE_PLE, h->n_embd, e);
    conv(k, "ple_conv1d", wide, h->ple_conv);
    vector(k, "ple_norm_key", SHAPE_NORM, wide);
    vector(k, "ple_norm_query", SHAPE_NORM, wide);
    vector(k, "ple_norm_conv", SHAPE_NORM, wide);
}

/* ---- The whole -------------------------------------------------------------------------------- */

static void draft_head(maker *k, model_mtp *p)
{
    const model_hparams *h = &k->s->m.h;
    k->mtp = true;
    p->block.is_attn = true;
    block(k, &p->block);
    tensor both;
    matrix(k, &both, "nextn.eh_proj", SHAPE_EH, h->n_embd, 2 * h->n_embd);
    both.n_col = h->n_embd; /* row_bytes stays that of the whole */
    p->w_e = p->w_h = both;
    vector(k, "nextn.enorm", SHAPE_NORM, h->n_embd);
    vector(k, "nextn.hnorm", SHAPE_NORM, h->n_hc * h->n_embd);
    if (h->n_hc > 1)
        mixer(k, &p->head_mixer, "nextn.hc_head", false);
    else
        vector(k, "nextn.shared_head_norm", SHAPE_NORM, h->n_embd);
    p->embd = k->s->m.token_embd;
    p->head = k->s->m.output;
    k->s->m.has_mtp = true;
}

static void walk(maker *k)
{
    model *m = &k->s->m;
    const model_hparams *h = &m->h;
    table(k, &m->token_embd, "token_embd", SHAPE_EMBD, h->n_vocab, h->n_embd);
    m->output = m->token_embd;
    if (!k->s->info->tied)
        matrix(k, &m->output, "output", SHAPE_HEAD, h->n_vocab, h->n_embd);
    if (h->n_hc > 1)
        mixer(k, &m->output_mixer, "output_hc", false);
    else
        vector(k, "output_norm", SHAPE_NORM, h->n_embd);
    if (h->ple_layer >= 0)
        table(k, &m->ple.table, "per_layer_token_embd", SHAPE_PLE_TABLE,
              ngram_heads(&m->ple, h, k->s->info->ple_rows_base), h->ple_dim);
    for (int i = 0; i < h->n_layer; i++) {
        k->i_block = i;
        m->layer[i].is_attn = (i + 1) % 4 == 0;
        block(k, &m->layer[i]);
        if (i == h->ple_layer)
            ngram_layer(k, &m->ple);
    }
    k->i_block = h->n_layer;
    draft_head(k, &m->mtp);
}

ft_status shape_create(shape **out, const shape_info *info, const shape_types *types, ft_error *err)
{
    *out = NULL;
    shape *s = mem_zalloc(sizeof *s);
    if (!s)
        return err_set(err, FT_NOMEM, "shape '%s'", info->name);
    int cap = (info->h.n_layer + 1) * MAX_PER_BLOCK + MAX_GLOBAL;
    s->info = info;
    s->m.h = info->h;
    s->m.layer = mem_calloc((size_t)info->h.n_layer, sizeof *s->m.layer);
    s->tensor = mem_calloc((size_t)cap, sizeof *s->tensor);
    if (!s->m.layer || !s->tensor) {
        shape_free(s);
        return err_set(err, FT_NOMEM, "shape '%s': its %d layers", info->name, info->h.n_layer);
    }
    maker k = {.s = s, .types = types ? types : &info->types, .cap = cap, .i_block = -1};
    walk(&k);
    *out = s;
    return FT_OK;
}

void shape_free(shape *s)
{
    if (!s)
        return;
    mem_free(s->tensor);
    mem_free(s->m.layer);
    mem_free(s);
}
