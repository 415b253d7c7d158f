/* ffn.c - the dense feed-forward, or the mixture of experts with its shared expert. */
#include "layer/run.h"

static size_t swiglu_scratch(int n_row, int n_ff)
{
    return 2 * take_cost(n_row, n_ff) + act_cost(n_row, n_ff);
}

size_t ffn_scratch(const model_hparams *h, int n_row)
{
    size_t n = act_cost(n_row, h->n_embd);
    if (h->n_expert == 0)
        return n + swiglu_scratch(n_row, h->n_ff);
    int n_pair = n_row * h->n_expert_used;
    return n + 2 * take_cost(n_row, h->n_expert) + 4 * take_cost(n_pair, 1) +
           take_cost(h->n_expert + 1, 1) + take_cost(h->n_expert, 1) +
           swiglu_scratch(n_pair, h->n_ff_exp) + take_cost(n_pair, h->n_embd) +
           swiglu_scratch(n_row, h->n_ff_shexp) + take_cost(n_row, h->n_embd);
}

/* y = down (silu(gate x) * (up x)) */
static void swiglu(run *r, const tensor *gate, const tensor *up, const tensor *down, be_act *x,
                   float *y)
{
    int n = x->n_row, n_ff = gate->n_row;
    float *g = run_take(r, n, n_ff), *u = run_take(r, n, n_ff);
    be_swiglu(r->be, g, u, gate, up, x);
    be_act act = run_act(r, g, n, n_ff);
    be_matmul(r->be, y, (size_t)down->n_row, down, &act);
}

/* Choose the experts of every row. */
static be_experts route(run *r, const model_ffn *w, be_act *x)
{
    const model_hparams *h = r->h;
    int n = r->n_row, n_pair = n * h->n_expert_used;
    float *logits = run_take(r, n, h->n_expert), *scratch = run_take(r, n, h->n_expert);
    int32_t *id = run_take_int(r, n_pair, 1);
    float *weight = run_take(r, n_pair, 1);
    be_matmul(r->be, logits, (size_t)h->n_expert, &w->router, x);
    be_route(r->be, id, weight, logits, n, h->n_expert, h->n_expert_used, scratch);
    run_stage(r, "router_logits", logits, n, h->n_expert);
    run_stage_int(r, "router_experts", id, n, h->n_expert_used);
    run_stage(r, "router_weights", weight, n, h->n_expert_used);
    be_experts e = {.n_row = n,
                    .n_used = h->n_expert_used,
                    .n_expert = h->n_expert,
                    .id = id,
                    .weight = weight,
                    .first = run_take_int(r, h->n_expert + 1, 1),
                    .pair = run_take_int(r, n_pair, 1),
                    .row = run_take_int(r, n_pair, 1),
                    .used = run_take_int(r, h->n_expert, 1)};
    be_experts_sort(r->be, &e);
    return e;
}

void ffn_forward(run *r, const model_ffn *w, const float *x, float *y)
{
    const model_hparams *h = r->h;
    int n = r->n_row;
    size_t mark = arena_mark(r->a);
    be_act act = run_act(r, x, n, h->n_embd);
    if (h->n_expert == 0) {
        swiglu(r, &w->gate, &w->up, &w->down, &act, y);
        arena_reset(r->a, mark);
        return;
    }
    be_experts e = route(r, w, &act);
    int n_pair = n * h->n_expert_used, n_ff = h->n_ff_exp;
    float *g = run_take(r, n_pair, n_ff), *u = run_take(r, n_pair, n_ff);
    float *each = run_take(r, n_pair, h->n_embd);
    be_swiglu_experts(r->be, g, u, &w->gate, &w->up, &act, &e);
    be_act inner = run_act(r, g, n_pair, n_ff);
    be_matmul_pairs(r->be, each, &w->down, &inner, &e);
    be_experts_sum(r->be, y, each, h->n_embd, &e);

    float *shared = run_take(r, n, h->n_embd);
    swiglu(r, &w->sh_gate, &w->sh_up, &w->sh_down, &act, shared);
    be_add_gated(r->be, y, shared, x, w->sh_inp, n, h->n_embd, h->n_embd);
    arena_reset(r->a, mark);
}
