/* gdn.c - the gated delta net (docs/models.md). */
#include "layer/run.h"

size_t gdn_scratch(const model_hparams *h, int n_row)
{
    int c = model_conv_channels(h), v = h->n_val_head * h->d_state;
    return act_cost(n_row, h->n_embd) + act_cost(n_row, v) + 2 * take_cost(n_row, c) +
           2 * take_cost(n_row, v) + 2 * take_cost(n_row, h->n_val_head) +
           arena_cost((size_t)n_row * sizeof(be_conv_seg)) +
           arena_cost((size_t)n_row * sizeof(be_gdn_seg));
}

/* The convolution over q, k and v, each sequence with its own history. */
static void convolve(run *r, const model_gdn *w, const float *x, float *y)
{
    const model_hparams *h = r->h;
    int n_seg = r->b->n_seg;
    be_conv_seg *seg = arena_take(r->a, (size_t)n_seg * sizeof *seg);
    for (int i = 0, row = 0; i < n_seg; row += r->b->seg[i++].n_row) {
        const layer_seg *g = &r->b->seg[i];
        seg[i] = (be_conv_seg){.row = row,
                               .n_row = g->n_row,
                               .n_commit = g->n_commit,
                               .hist = g->s->layer[r->i_layer].conv,
                               .hist_n = h->n_conv - 1 + g->s->n_extra};
    }
    be_conv_silu(r->be, y, x, w->conv, h->n_conv, 1, model_conv_channels(h), seg, n_seg);
}

static void recur(run *r, float *o, const float *qkv, const float *decay, const float *beta)
{
    const model_hparams *h = r->h;
    int n_seg = r->b->n_seg;
    be_gdn_seg *seg = arena_take(r->a, (size_t)n_seg * sizeof *seg);
    for (int i = 0, row = 0; i < n_seg; row += r->b->seg[i++].n_row) {
        const layer_seg *g = &r->b->seg[i];
        const seq_layer *l = &g->s->layer[r->i_layer];
        seg[i] = (be_gdn_seg){.row = row,
                              .n_row = g->n_row,
                              .n_commit = g->n_commit,
                              .state = l->gdn,
                              .pend = l->pend,
                              .n_apply = g->s->n_apply};
    }
    be_gdn(r->be, o, qkv, decay, beta, h->n_key_head, h->n_val_head, h->d_state, seg, n_seg);
}

void gdn_forward(run *r, const model_gdn *w, const float *x, float *y)
{
    const model_hparams *h = r->h;
    int n = r->n_row, c = model_conv_channels(h), n_v = h->n_val_head * h->d_state;
    size_t mark = arena_mark(r->a);
    be_act act = run_act(r, x, n, h->n_embd);
    float *raw = run_take(r, n, c), *qkv = run_take(r, n, c);
    float *z = run_take(r, n, n_v), *o = run_take(r, n, n_v);
    float *decay = run_take(r, n, h->n_val_head), *beta = run_take(r, n, h->n_val_head);
    be_product in[] = {{raw, (size_t)c, &w->qkv},
                       {z, (size_t)n_v, &w->gate},
                       {decay, (size_t)h->n_val_head, &w->alpha},
                       {beta, (size_t)h->n_val_head, &w->beta}};
    be_matmul_many(r->be, in, ARRAY_LEN(in), &act);
    convolve(r, w, raw, qkv);
    be_gdn_norm_qk(r->be, qkv, n, (size_t)c, h->n_key_head, h->d_state);
    be_gdn_gates(r->be, decay, beta, w->a, w->dt, n, h->n_val_head);
    recur(r, o, qkv, decay, beta);
    be_gated_norm(r->be, o, z, w->norm, n, h->n_val_head, h->d_state, h->eps,
                  h->arch == MODEL_QWEN4EXP);
    be_act out = run_act(r, o, n, n_v);
    be_matmul(r->be, y, (size_t)h->n_embd, &w->out, &out);
    arena_reset(r->a, mark);
}
