/* attention.c - gated full attention, dense or with QSA's block selection (docs/models.md). */
#include "layer/run.h"

/* Most blocks of a context that compete for a row. */
static int max_block(const model_attn *w, int n_ctx)
{
    return n_ctx / w->ratio + 1;
}

size_t attn_scratch(const model_hparams *h, int n_row, int n_block, int n_thread)
{
    int kv = h->n_head_kv * h->d_head, q = h->n_head * h->d_head;
    size_t n = act_cost(n_row, h->n_embd) + act_cost(n_row, q) + take_cost(n_row, 2 * q) +
               2 * take_cost(n_row, kv) + take_cost(n_row, q) +
               arena_cost((size_t)n_row * sizeof(be_attn_row));
    if (n_block == 0)
        return n;
    return n + take_cost(n_row, h->n_idx_head * h->d_idx) + take_cost(n_row, h->d_idx) +
           take_cost(n_thread, n_block) + take_cost(n_row, 2 * h->idx_top_k) + take_cost(n_row, 1) +
           arena_cost((size_t)n_row * sizeof(be_cells *));
}

static void norm_keys(run *r, const model_attn *w, float *k, int n)
{
    const model_hparams *h = r->h;
    be_norm_rope(r->be, k, w->k_norm, n, h->n_head_kv, (size_t)h->d_head, h->d_head, h->eps, r->cos,
                 r->sin, h->n_rot);
}

void attn_kv_rows(run *r, const model_attn *w, be_act *x, float *k, float *v)
{
    size_t n_kv = (size_t)r->h->n_head_kv * (size_t)r->h->d_head;
    be_product p[] = {{k, n_kv, &w->k}, {v, n_kv, &w->v}};
    be_matmul_many(r->be, p, ARRAY_LEN(p), x);
    norm_keys(r, w, k, x->n_row);
}

void attn_read(run *r, const model_attn *w, float *qg, const be_attn_row *rows, int n, float *y)
{
    const model_hparams *h = r->h;
    int n_q = h->n_head * h->d_head;
    float *o = run_take(r, n, n_q);
    be_norm_rope(r->be, qg, w->q_norm, n, h->n_head, 2 * (size_t)h->d_head, h->d_head, h->eps,
                 r->cos, r->sin, h->n_rot);
    be_attention(r->be, o, qg, rows, n, h->n_head, h->n_head_kv, h->d_head);
    be_act out = run_act(r, o, n, n_q);
    be_matmul(r->be, y, (size_t)h->n_embd, &w->out, &out);
}

/* Append the rows' keys and values to their sequences. */
static void store_kv(run *r, const float *k, const float *v)
{
    int n_kv = r->h->n_head_kv * r->h->d_head;
    for (int i = 0, row = 0; i < r->b->n_seg; row += r->b->seg[i++].n_row) {
        const layer_seg *g = &r->b->seg[i];
        const be_kv *kv = &g->s->layer[r->i_layer].kv;
        size_t at = (size_t)row * (size_t)n_kv;
        be_store_cells(r->be, &kv->k, g->s->n_past, k + at, g->n_row, n_kv);
        be_store_cells(r->be, &kv->v, g->s->n_past, v + at, g->n_row, n_kv);
    }
}

/* The pooled keys of a layer, from its raw ones. */
static be_qsa_pool_args pool_args(const model_hparams *h, const model_attn *w, const seq_layer *l)
{
    return (be_qsa_pool_args){.raw = &l->idx_raw,
                              .pool = &l->idx_pool,
                              .ratio = w->ratio,
                              .d = h->d_idx,
                              .n_rot = h->n_rot,
                              .rope_base = h->rope_base,
                              .w = w->idx_k_norm,
                              .eps = h->eps};
}

void layer_pool_index(backend *be, const model *m, seq *s, int first)
{
    for (int i = 0; i < m->h.n_layer; i++) {
        const model_attn *w = &m->layer[i].attn;
        if (!m->layer[i].is_attn || w->ratio == 0)
            continue;
        be_qsa_pool_args a = pool_args(&m->h, w, &s->layer[i]);
        be_qsa_pool(be, &a, first / w->ratio, s->n_past / w->ratio);
    }
}

/* Append the rows' raw indexer keys and pool the blocks that they complete. */
static void store_index(run *r, const model_attn *w, const float *raw)
{
    const model_hparams *h = r->h;
    for (int i = 0, row = 0; i < r->b->n_seg; row += r->b->seg[i++].n_row) {
        const layer_seg *g = &r->b->seg[i];
        const seq_layer *l = &g->s->layer[r->i_layer];
        be_store_cells(r->be, &l->idx_raw, g->s->n_past, raw + (size_t)row * (size_t)h->d_idx,
                       g->n_row, h->d_idx);
        be_qsa_pool_args a = pool_args(h, w, l);
        be_qsa_pool(r->be, &a, g->s->n_past / w->ratio, (g->s->n_past + g->n_row) / w->ratio);
    }
}

/* The cells that each row attends to. */
static void select_cells(run *r, const model_attn *w, be_act *x, be_attn_row *rows)
{
    const model_hparams *h = r->h;
    int n = r->n_row, n_q = h->n_idx_head * h->d_idx;
    float *raw = run_take(r, n, h->d_idx), *q = run_take(r, n, n_q);
    be_product p[] = {{raw, (size_t)h->d_idx, &w->idx_k}, {q, (size_t)n_q, &w->idx_q}};
    be_matmul_many(r->be, p, ARRAY_LEN(p), x);
    store_index(r, w, raw);
    be_norm_rope(r->be, q, w->idx_q_norm, n, h->n_idx_head, (size_t)h->d_idx, h->d_idx, h->eps,
                 r->cos, r->sin, h->n_rot);
    int last = 0;
    for (int t = 0; t < n; t++)
        last = r->pos[t] > last ? r->pos[t] : last;
    const be_cells **pool = arena_take(r->a, (size_t)n * sizeof *pool);
    int32_t *cell = run_take_int(r, n, h->idx_top_k + w->ratio), *n_cell = run_take_int(r, n, 1);
    be_qsa_args a = {.q = q,
                     .pool = pool,
                     .pos = r->pos,
                     .n_row = n,
                     .n_head = h->n_idx_head,
                     .d = h->d_idx,
                     .ratio = w->ratio,
                     .top_k = h->idx_top_k,
                     .max_block = max_block(w, last + 1),
                     .cell = cell,
                     .n_cell = n_cell};
    a.score = run_take(r, backend_n_thread(r->be), a.max_block);
    for (int i = 0, row = 0; i < r->b->n_seg; row += r->b->seg[i++].n_row)
        for (int t = 0; t < r->b->seg[i].n_row; t++)
            pool[row + t] = &r->b->seg[i].s->layer[r->i_layer].idx_pool;
    be_qsa_select(r->be, &a);
    int stride = h->idx_top_k + w->ratio;
    for (int t = 0; t < n; t++) {
        rows[t].cell = cell + (size_t)t * (size_t)stride;
        rows[t].n_cell = n_cell[t];
    }
    if (r->b->stage) { /* the lists, filled up with -1 */
        for (int t = 0; t < n; t++)
            for (int i = n_cell[t]; i < stride; i++)
                cell[(size_t)t * (size_t)stride + (size_t)i] = -1;
        run_stage_int(r, "selected", cell, n, stride);
    }
}

void attn_forward(run *r, const model_attn *w, const float *x, float *y)
{
    const model_hparams *h = r->h;
    int n = r->n_row, n_kv = h->n_head_kv * h->d_head, n_q = h->n_head * h->d_head;
    size_t mark = arena_mark(r->a);
    be_act act = run_act(r, x, n, h->n_embd);
    float *qg = run_take(r, n, 2 * n_q), *k = run_take(r, n, n_kv), *v = run_take(r, n, n_kv);
    be_product p[] = {
        {qg, 2 * (size_t)n_q, &w->q}, {k, (size_t)n_kv, &w->k}, {v, (size_t)n_kv, &w->v}};
    be_matmul_many(r->be, p, ARRAY_LEN(p), &act);
    norm_keys(r, w, k, n);
    store_kv(r, k, v);
    be_attn_row *rows = arena_take(r->a, (size_t)n * sizeof *rows);
    for (int i = 0, row = 0; i < r->b->n_seg; row += r->b->seg[i++].n_row)
        for (int t = row; t < row + r->b->seg[i].n_row; t++)
            rows[t] =
                (be_attn_row){.kv = &r->b->seg[i].s->layer[r->i_layer].kv, .n_cell = r->pos[t] + 1};
    if (w->ratio && !r->b->dense)
        select_cells(r, w, &act, rows);
    attn_read(r, w, qg, rows, n, y);
    arena_reset(r->a, mark);
}
