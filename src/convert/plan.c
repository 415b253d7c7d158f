/* plan.c - builds the list of tensors to write from the tables of map.c. See plan.h. */
#include "convert/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "convert/map.h"
#include "convert/types.h"

/* Where the names of a table's rows stand. */
typedef struct {
    const char *hf_prefix;
    const char *gguf_prefix;
    unsigned have; /* N_ bits of the layer or model */
} place;

#define MAX_HF_NAME 160

typedef struct {
    plan *p;
    const checkpoint *ck;
    const dtype *want;
    ft_error *err;
} builder;

/* ---- Growing the plan ---------------------------------------------------------------------- */

static ft_status grow(void **items, size_t *cap, size_t n, size_t size, ft_error *err)
{
    if (n < *cap)
        return FT_OK;
    size_t new_cap = *cap ? *cap * 2 : 64, bytes;
    void *q = size_mul(&bytes, new_cap, size) ? mem_realloc(*items, bytes) : NULL;
    if (!q)
        return err_set(err, FT_NOMEM, "plan of %zu entries", new_cap);
    *items = q;
    *cap = new_cap;
    return FT_OK;
}

static ft_status add_piece(builder *b, plan_tensor *t, plan_piece piece)
{
    plan *p = b->p;
    void *items = p->piece;
    TRY(grow(&items, &p->cap_piece, p->n_piece, sizeof *p->piece, b->err));
    p->piece = items;
    p->piece[p->n_piece++] = piece;
    t->n_piece++;
    return FT_OK;
}

static ft_status add_tensor(builder *b, const plan_tensor *t)
{
    plan *p = b->p;
    void *items = p->tensor;
    TRY(grow(&items, &p->cap_tensor, p->n_tensor, sizeof *p->tensor, b->err));
    p->tensor = items;
    p->tensor[p->n_tensor++] = *t;
    return FT_OK;
}

/* ---- Sources ------------------------------------------------------------------------------- */

/* prefix + name, its '#' replaced by i. */
static void full_name(char out[MAX_HF_NAME], const char *prefix, const char *name, int i)
{
    const char *mark = strchr(name, '#');
    if (mark)
        snprintf(out, MAX_HF_NAME, "%s%.*s%d%s", prefix, (int)(mark - name), name, i, mark + 1);
    else
        snprintf(out, MAX_HF_NAME, "%s%s", prefix, name);
}

static void print_shape(char *out, size_t size, int n_dim, const uint64_t *dim)
{
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < n_dim && n < size; i++) {
        int k = snprintf(out + n, size - n, "%s%llu", i ? ", " : "", (unsigned long long)dim[i]);
        n += k > 0 ? (size_t)k : 0;
    }
}

/* A source of this shape (a dim of UINT64_MAX: any), in a type that can be read. */
static ft_status take(builder *b, const st_tensor **out, const char *name, int n_dim,
                      const uint64_t *dim)
{
    ckpt_tensor *c = ckpt_find(b->ck, name);
    if (!c)
        return err_set(b->err, FT_MISMATCH, "tensor '%s' is missing", name);
    const st_tensor *t = c->t;
    bool same = t->n_dim == n_dim;
    for (int i = 0; same && i < n_dim; i++)
        same = dim[i] == UINT64_MAX ? t->dim[i] > 0 : t->dim[i] == dim[i];
    if (!same) {
        char have[80], want[80];
        print_shape(have, sizeof have, t->n_dim, t->dim);
        print_shape(want, sizeof want, n_dim, dim);
        return err_set(b->err, FT_MISMATCH, "tensor '%s' has shape [%s], want [%s]", name, have,
                       want);
    }
    if (t->type != ST_F32 && t->type != ST_F16 && t->type != ST_BF16 && t->type != ST_F64)
        return err_set(b->err, FT_UNSUPPORTED, "tensor '%s' is %s, want BF16, F16 or F32", name,
                       st_dtype_name(t->type));
    c->used = true;
    *out = t;
    return FT_OK;
}

static ft_status take_experts(builder *b, plan_tensor *t, const map_entry *e, const place *at)
{
    const hf_config *c = &b->p->cfg;
    uint64_t n = map_dim(c, D_EXPERT), rows = map_dim(c, e->rows), cols = map_dim(c, e->cols);
    char name[MAX_HF_NAME];
    const st_tensor *src;
    full_name(name, at->hf_prefix, e->alt, 0);
    if (ckpt_find(b->ck, name)) {
        uint64_t src_rows = map_dim(c, e->src_rows);
        TRY(take(b, &src, name, 3, (uint64_t[]){n, src_rows, cols}));
        return add_piece(b, t,
                         (plan_piece){.src = src,
                                      .n_mat = n,
                                      .mat_rows = src_rows,
                                      .row0 = map_dim(c, e->row0),
                                      .n_row = rows,
                                      .n_col = cols});
    }
    for (uint64_t i = 0; i < n; i++) {
        full_name(name, at->hf_prefix, e->hf, (int)i);
        TRY(take(b, &src, name, 2, (uint64_t[]){rows, cols}));
        TRY(add_piece(b, t,
                      (plan_piece){.src = src,
                                   .n_mat = 1,
                                   .mat_rows = rows,
                                   .n_row = rows,
                                   .n_col = cols,
                                   .first = i * rows}));
    }
    return FT_OK;
}

/* The n-gram table, whole or in numbered shards; its rows are counted here. */
static ft_status take_shards(builder *b, plan_tensor *t, const map_entry *e, const place *at)
{
    uint64_t cols = map_dim(&b->p->cfg, e->cols), rows = 0;
    char name[MAX_HF_NAME];
    full_name(name, at->hf_prefix, e->hf, 0);
    bool whole = ckpt_find(b->ck, name) != NULL;
    for (int i = 0;; i++) {
        if (!whole)
            full_name(name, at->hf_prefix, e->alt, i);
        if (i > 0 && (whole || !ckpt_find(b->ck, name)))
            break;
        const st_tensor *src;
        TRY(take(b, &src, name, 2, (uint64_t[]){UINT64_MAX, cols}));
        TRY(add_piece(b, t,
                      (plan_piece){.src = src,
                                   .n_mat = 1,
                                   .mat_rows = src->dim[0],
                                   .n_row = src->dim[0],
                                   .n_col = cols,
                                   .first = rows}));
        rows += src->dim[0];
    }
    t->dim[1] = t->n_row = rows;
    return FT_OK;
}

static ft_status take_beside(builder *b, plan_tensor *t, const map_entry *e, const place *at)
{
    uint64_t rows = t->dim[1], half = t->dim[0] / 2;
    const char *const names[] = {e->hf, e->alt};
    t->side_by_side = true;
    for (uint64_t i = 0; i < 2; i++) {
        char name[MAX_HF_NAME];
        const st_tensor *src;
        full_name(name, at->hf_prefix, names[i], 0);
        TRY(take(b, &src, name, 2, (uint64_t[]){rows, half}));
        TRY(add_piece(b, t,
                      (plan_piece){.src = src,
                                   .n_mat = 1,
                                   .mat_rows = rows,
                                   .n_row = rows,
                                   .n_col = half,
                                   .first = i * half}));
    }
    return FT_OK;
}

/* All or some rows of one matrix, or a vector. */
static ft_status take_plain(builder *b, plan_tensor *t, const map_entry *e, const place *at)
{
    const hf_config *c = &b->p->cfg;
    uint64_t rows = map_dim(c, e->rows), cols = map_dim(c, e->cols);
    uint64_t src_rows = e->src_rows == D_0 ? rows : map_dim(c, e->src_rows);
    char name[MAX_HF_NAME];
    const st_tensor *src;
    full_name(name, at->hf_prefix, e->hf, 0);
    if (e->form == F_VEC)
        TRY(take(b, &src, name, 1, (uint64_t[]){cols}));
    else if (e->form == F_CONV)
        TRY(take(b, &src, name, 3, (uint64_t[]){src_rows, 1, cols}));
    else
        TRY(take(b, &src, name, 2, (uint64_t[]){src_rows, cols}));
    return add_piece(b, t,
                     (plan_piece){.src = src,
                                  .n_mat = 1,
                                  .mat_rows = src_rows,
                                  .row0 = map_dim(c, e->row0),
                                  .n_row = rows,
                                  .n_col = cols});
}

/* ---- Tensors ------------------------------------------------------------------------------- */

static plan_perm perm_of(const hf_config *c, map_perm perm)
{
    uint64_t d = (uint64_t)c->d_state, qk = 2 * (uint64_t)c->n_key_head * d;
    switch (perm) {
    case P_NONE:
        break;
    case P_ROWS:
        return (plan_perm){.on = true, .unit = d};
    case P_ROWS_1:
        return (plan_perm){.on = true, .unit = 1};
    case P_QKV:
        return (plan_perm){.on = true, .first = qk, .unit = d};
    case P_COLS:
        return (plan_perm){.on = true, .of_cols = true, .unit = d};
    case P_COLS_1:
        return (plan_perm){.on = true, .of_cols = true, .unit = 1};
    }
    return (plan_perm){0};
}

/* The type that all pieces share, as far as GGUF has it; F32 for a mixture. */
static dtype own_type(const plan *p, const plan_tensor *t)
{
    const plan_piece *piece = &p->piece[t->piece];
    for (size_t i = 1; i < t->n_piece; i++)
        if (piece[i].src->type != piece[0].src->type)
            return DTYPE_F32;
    if (piece[0].src->type == ST_BF16)
        return DTYPE_BF16;
    return piece[0].src->type == ST_F16 ? DTYPE_F16 : DTYPE_F32;
}

static ft_status plan_entry(builder *b, const map_entry *e, const place *at)
{
    const hf_config *c = &b->p->cfg;
    plan_tensor t = {.op = e->op, .perm = perm_of(c, e->perm), .piece = b->p->n_piece};
    if (e->gguf[0] == '/') /* the one tensor of a layer that GGUF keeps outside "blk.N." */
        snprintf(t.name, sizeof t.name, "%s", e->gguf + 1);
    else
        snprintf(t.name, sizeof t.name, "%s%s", at->gguf_prefix, e->gguf);
    t.dim[0] = map_dim(c, e->cols);
    t.dim[1] = map_dim(c, e->rows);
    t.dim[2] = map_dim(c, D_EXPERT);
    t.n_row = t.dim[1];
    t.n_dim = 2;
    ft_status st;
    if (e->form == F_EXPERTS) {
        t.n_dim = 3;
        t.n_row *= t.dim[2];
        st = take_experts(b, &t, e, at);
    } else if (e->form == F_SHARDS) {
        st = take_shards(b, &t, e, at);
    } else if (e->form == F_BESIDE) {
        st = take_beside(b, &t, e, at);
    } else {
        if (e->form == F_VEC || e->form == F_ROW)
            t.n_dim = 1;
        st = take_plain(b, &t, e, at);
    }
    if (st != FT_OK)
        return st;
    if (types_keep_f32(t.name, t.n_dim))
        t.type = DTYPE_F32;
    else
        t.type = types_for_rows(b->want ? *b->want : own_type(b->p, &t), t.dim[0]);
    return add_tensor(b, &t);
}

static ft_status plan_table(builder *b, const map_entry *e, const place *at)
{
    for (; e->hf; e++)
        if ((e->need & at->have) == e->need)
            TRY(plan_entry(b, e, at));
    return FT_OK;
}

/* Bits that are the same for all layers. */
static unsigned model_bits(const hf_config *c)
{
    return (c->n_hc > 1 ? N_WIDE : N_NARROW) | (c->n_expert > 0 ? N_MOE : N_DENSE) |
           (c->tied ? 0 : N_UNTIED);
}

static ft_status plan_layers(builder *b)
{
    const hf_config *c = &b->p->cfg;
    for (int i = 0; i < c->n_layer; i++) {
        char hf[32], gguf[32];
        snprintf(hf, sizeof hf, "model.layers.%d.", i);
        snprintf(gguf, sizeof gguf, "blk.%d.", i);
        unsigned kind = (c->is_attn[i] ? N_ATTN : N_GDN) | (i == c->ple_layer ? N_PLE : 0);
        place at = {.hf_prefix = hf, .gguf_prefix = gguf, .have = model_bits(c) | kind};
        TRY(plan_table(b, map_layer, &at));
    }
    return FT_OK;
}

static ft_status plan_draft_head(builder *b)
{
    char gguf[32];
    snprintf(gguf, sizeof gguf, "blk.%d.", b->p->cfg.n_layer);
    unsigned have = model_bits(&b->p->cfg) | N_ATTN;
    TRY(plan_table(b, map_layer, &(place){"mtp.layers.0.", gguf, have}));
    return plan_table(b, map_mtp, &(place){"", gguf, have});
}

/* Whether there is a draft head: config.json announces it and any of its tensors is there. */
static void find_draft_head(plan *p, const checkpoint *ck)
{
    bool any = false;
    for (size_t i = 0; i < ck->n_tensor && !any; i++)
        any = strncmp(ck->tensor[i].key, "mtp.", 4) == 0;
    p->mtp_missing = p->cfg.n_mtp == 1 && !any;
    p->cfg.n_mtp = p->cfg.n_mtp != 0 && any;
}

/* ---- The constants of the n-gram table ------------------------------------------------------ */

static ft_status take_i64(builder *b, const st_tensor **out, const char *what, int n)
{
    char name[MAX_HF_NAME];
    snprintf(name, sizeof name, "model.layers.%d.ple.ple_embedding.%s", b->p->cfg.ple_layer, what);
    ckpt_tensor *c = ckpt_find(b->ck, name);
    if (!c)
        return err_set(b->err, FT_MISMATCH, "tensor '%s' is missing", name);
    if (c->t->type != ST_I64 || c->t->n_dim != 1 || c->t->dim[0] != (uint64_t)n)
        return err_set(b->err, FT_MISMATCH, "tensor '%s' is %s with %llu values, want I64 [%d]",
                       name, st_dtype_name(c->t->type), (unsigned long long)c->t->n, n);
    c->used = true;
    *out = c->t;
    return FT_OK;
}

static ft_status plan_ngrams(builder *b)
{
    plan *p = b->p;
    if (p->cfg.ple_layer < 0)
        return FT_OK;
    int n_head = hf_ple_heads(&p->cfg);
    TRY(take_i64(b, &p->ple_mult, "layer_multipliers", p->cfg.ple_ngram));
    TRY(take_i64(b, &p->ple_vocab, "ngram_heads_vocab_sizes", n_head));
    TRY(take_i64(b, &p->ple_offset, "ngram_heads_offsets", n_head));
    int64_t n_row = 0;
    for (size_t i = 0; i < p->n_tensor; i++)
        if (strcmp(p->tensor[i].name, "per_layer_token_embd.weight") == 0)
            n_row = (int64_t)p->tensor[i].n_row;
    for (int i = 0; i < n_head; i++) {
        int64_t off = plan_i64(p->ple_offset, (uint64_t)i);
        int64_t n = plan_i64(p->ple_vocab, (uint64_t)i);
        if (off < 0 || n <= 0 || off > n_row || n > n_row - off)
            return err_set(b->err, FT_MISMATCH,
                           "n-gram head %d has rows %lld + %lld of a table of %lld rows", i,
                           (long long)off, (long long)n, (long long)n_row);
    }
    return FT_OK;
}

/* ---- The whole ------------------------------------------------------------------------------ */

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && strcmp(s + n - k, end) == 0;
}

/* Nothing of the checkpoint may be dropped without a word, but for the vision tower, the tables
 * of angles that old files hold, and the output of a tied model. */
static ft_status check_leftovers(const plan *p, const checkpoint *ck, ft_error *err)
{
    for (size_t i = 0; i < ck->n_tensor; i++) {
        const ckpt_tensor *c = &ck->tensor[i];
        if (c->used || strncmp(c->key, "visual.", 7) == 0 ||
            ends_with(c->key, "rotary_emb.inv_freq") ||
            (p->cfg.tied && strcmp(c->key, "lm_head.weight") == 0))
            continue;
        return err_set(err, FT_MISMATCH, "tensor '%.120s' has no place in %s with this config.json",
                       c->t->name, hf_arch_name(p->cfg.arch));
    }
    return FT_OK;
}

static ft_status build(builder *b)
{
    plan *p = b->p;
    TRY(plan_table(b, map_model, &(place){"", "", model_bits(&p->cfg)}));
    TRY(plan_layers(b));
    if (p->cfg.n_mtp > 0)
        TRY(plan_draft_head(b));
    TRY(plan_ngrams(b));
    return check_leftovers(p, b->ck, b->err);
}

ft_status plan_build(plan *p, const hf_config *cfg, const checkpoint *ck, const dtype *want,
                     ft_error *err)
{
    *p = (plan){.cfg = *cfg};
    find_draft_head(p, ck);
    builder b = {.p = p, .ck = ck, .want = want, .err = err};
    ft_status st = build(&b);
    if (st != FT_OK)
        plan_free(p);
    return st;
}

void plan_free(plan *p)
{
    mem_free(p->tensor);
    mem_free(p->piece);
    *p = (plan){0};
}
