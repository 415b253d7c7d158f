/* mixer.c - hyper-connections: the wide residual of qwen4exp (docs/models.md, Residuals). */
#include "layer/run.h"

size_t mixer_scratch(const model_hparams *h, int n_row)
{
    int wide = layer_hidden_width(h);
    return 2 * take_cost(n_row, wide) + act_cost(n_row, wide) + take_cost(n_row, h->hc_rank) +
           act_cost(n_row, h->hc_rank);
}

void mixer_forward(run *r, const model_mixer *w, const float *R, int n, float *m, float *inject)
{
    const model_hparams *h = r->h;
    int wide = layer_hidden_width(h), rank = h->hc_rank;
    size_t mark = arena_mark(r->a);
    float *X = run_take(r, n, wide), *G = run_take(r, n, wide), *low = run_take(r, n, rank);
    be_rmsnorm(r->be, X, R, w->norm, n, h->n_hc, h->n_embd, h->eps);
    be_act act = run_act(r, X, n, wide);
    be_matmul(r->be, low, (size_t)rank, &w->down, &act);
    be_silu(r->be, low, low, 1.0f / (float)h->n_hc, n, rank);
    be_act low_act = run_act(r, low, n, rank);
    be_matmul(r->be, G, (size_t)wide, &w->up, &low_act);
    if (inject)
        be_matmul(r->be, inject, (size_t)h->n_hc, &w->inject, &act);
    be_hc_mix(r->be, m, X, G, n, h->n_hc, h->n_embd);
    arena_reset(r->a, mark);
}
