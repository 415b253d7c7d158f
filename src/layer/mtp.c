/* mtp.c - the draft head: one more attention layer on pairs of a hidden row and the token that follows
 * it (docs/models.md, The MTP block).
 *
 * 1. W_h is read once for all streams of all rows: they are n_row * n_hc rows of one product.
 *    W_e norm(e) is the same for all streams and computed once.
 * 2. The block's indexer is not bound, so it cannot be run: attention reads the cells it is given. */
#include "layer/run.h"

size_t layer_draft_scratch(const model *m, int n_row, int n_full)
{
    const model_hparams *h = &m->h;
    int wide = layer_hidden_width(h), kv = h->n_head_kv * h->d_head;
    size_t way_in = 2 * take_cost(n_row, h->n_embd) + act_cost(n_row, h->n_embd) +
                    take_cost(n_row, wide) + act_cost(n_row * h->n_hc, h->n_embd);
    size_t rows = take_cost(n_row, wide) + take_cost(n_row, h->n_embd) + take_cost(n_row, h->n_hc) +
                  2 * take_cost(n_row, h->n_rot / 2) + act_cost(n_row, h->n_embd) +
                  2 * take_cost(n_row, kv);
    size_t full = take_cost(n_full, wide) + 2 * take_cost(n_full, h->n_embd) +
                  take_cost(n_full, h->n_hc) + 2 * take_cost(n_full, h->n_rot / 2) +
                  2 * act_cost(n_full, h->n_embd) + take_cost(n_full, 1) +
                  attn_scratch(h, n_full, 0, 1) + ffn_scratch(h, n_full);
    return way_in + rows + full + (h->n_hc > 1 ? mixer_scratch(h, n_row) : 0) + 4096;
}

/* x [n_row][S][H] = W_e norm(embed(tok)) + W_h norm(hidden)_s */
static void way_in(run *r, const model_mtp *w, const layer_draft_batch *b, float *x)
{
    const model_hparams *h = r->h;
    int n = b->n_row, n_h = n * h->n_hc;
    size_t mark = arena_mark(r->a);
    float *e = run_take(r, n, h->n_embd), *we = run_take(r, n, h->n_embd);
    be_get_rows(r->be, e, &w->embd, b->tok, n);
    be_rmsnorm(r->be, e, e, w->enorm, n, 1, h->n_embd, h->eps);
    be_act e_act = run_act(r, e, n, h->n_embd);
    be_matmul(r->be, we, (size_t)h->n_embd, &w->w_e, &e_act);
    float *hn = run_take(r, n_h, h->n_embd);
    be_rmsnorm(r->be, hn, b->hidden, w->hnorm, n, h->n_hc, h->n_embd, h->eps);
    be_act h_act = run_act(r, hn, n_h, h->n_embd);
    be_matmul(r->be, x, (size_t)h->n_embd, &w->w_h, &h_act);
    be_add_repeat(r->be, x, we, n, h->n_hc, h->n_embd);
    arena_reset(r->a, mark);
}

/* The block's input of its attention: the mixer's, or the norm's. */
static void attn_in(run *r, const model_mtp *w, const float *x, int n, float *m, float *inject)
{
    const model_hparams *h = r->h;
    if (h->n_hc > 1)
        mixer_forward(r, &w->block.hc_attn, x, n, m, inject);
    else
        be_rmsnorm(r->be, m, x, w->block.attn_norm, n, 1, h->n_embd, h->eps);
}

static void store(run *r, const model_mtp *w, const layer_draft_batch *b, be_act *m)
{
    int n_kv = r->h->n_head_kv * r->h->d_head;
    size_t mark = arena_mark(r->a);
    float *k = run_take(r, b->n_row, n_kv), *v = run_take(r, b->n_row, n_kv);
    attn_kv_rows(r, &w->block.attn, m, k, v);
    for (int i = 0; i < b->n_row; i++) {
        const be_kv *kv = b->kv[i];
        size_t at = (size_t)i * (size_t)n_kv;
        be_store_cells(r->be, &kv->k, b->cell[i], k + at, 1, n_kv);
        be_store_cells(r->be, &kv->v, b->cell[i], v + at, 1, n_kv);
    }
    arena_reset(r->a, mark);
}

/* R += y, by the injection weights where there are streams. */
static void add_back(run *r, float *R, float *inject, const float *y, int n)
{
    const model_hparams *h = r->h;
    if (h->n_hc > 1)
        be_hc_add(r->be, R, inject, inject, y, n, h->n_hc, h->n_embd);
    else
        be_add(r->be, R, y, n, h->n_embd);
}

/* From the block's residual to the hidden row of a next cell and the logits. */
static void way_out(run *r, const model_mtp *w, const layer_draft_batch *b, float *R)
{
    const model_hparams *h = r->h;
    int n = b->n_full, wide = layer_hidden_width(h);
    float *x = run_take(r, n, h->n_embd);
    if (h->n_hc > 1)
        mixer_forward(r, &w->head_mixer, R, n, x, NULL);
    else
        be_rmsnorm(r->be, x, R, w->head_norm, n, 1, h->n_embd, h->eps);
    run_stage(r, "final", x, n, h->n_embd);
    be_move(r->be, b->hidden_out, h->n_hc > 1 ? R : x, (size_t)n * (size_t)wide * sizeof(float));
    if (!b->logits)
        return;
    be_act act = run_act(r, x, n, h->n_embd);
    be_matmul(r->be, b->logits, (size_t)b->head->n_row, b->head, &act);
}

/* The rest of the block for the full rows; x and m are those of all rows. */
static void full_rows(run *r, const model_mtp *w, const layer_draft_batch *b, const float *x,
                      const float *m, const float *inject_all)
{
    const model_hparams *h = r->h;
    int n = b->n_full, half = h->n_rot / 2;
    float *R = run_take(r, n, layer_hidden_width(h)), *in = run_take(r, n, h->n_embd);
    float *inject = run_take(r, n, h->n_hc), *y = run_take(r, n, h->n_embd);
    float *cos = run_take(r, n, half), *sin = run_take(r, n, half);
    be_gather(r->be, R, x, b->full, n, layer_hidden_width(h));
    be_gather(r->be, in, m, b->full, n, h->n_embd);
    be_gather(r->be, inject, inject_all, b->full, n, h->n_hc);
    be_gather(r->be, cos, r->cos, b->full, n, half);
    be_gather(r->be, sin, r->sin, b->full, n, half);
    r->cos = cos;
    r->sin = sin;
    r->n_row = n;

    size_t mark = arena_mark(r->a);
    be_act act = run_act(r, in, n, h->n_embd);
    int n_qg = 2 * h->n_head * h->d_head;
    float *qg = run_take(r, n, n_qg);
    be_matmul(r->be, qg, (size_t)n_qg, &w->block.attn.q, &act);
    attn_read(r, &w->block.attn, qg, b->read, n, y);
    arena_reset(r->a, mark);
    run_stage(r, "attn", y, n, h->n_embd);
    add_back(r, R, inject, y, n);
    if (h->n_hc > 1)
        mixer_forward(r, &w->block.hc_ffn, R, n, in, inject);
    else
        be_rmsnorm(r->be, in, R, w->block.post_norm, n, 1, h->n_embd, h->eps);
    ffn_forward(r, &w->block.ffn, in, y);
    run_stage(r, "mlp", y, n, h->n_embd);
    add_back(r, R, inject, y, n);
    run_stage(r, "out", R, n, layer_hidden_width(h));
    way_out(r, w, b, R);
}

void layer_draft(backend *be, const model *m, const model_mtp *w, arena *scratch,
                 const layer_draft_batch *b)
{
    const model_hparams *h = &m->h;
    layer_batch hooks = {.stage = b->stage, .stage_ctx = b->stage_ctx};
    run r = {.be = be, .m = m, .h = h, .a = scratch, .b = &hooks, .n_row = b->n_row, .i_layer = -1};
    size_t mark = arena_mark(scratch);
    int n = b->n_row;
    float *x = run_take(&r, n, layer_hidden_width(h)), *in = run_take(&r, n, h->n_embd);
    float *inject = run_take(&r, n, h->n_hc);
    r.cos = run_take(&r, n, h->n_rot / 2);
    r.sin = run_take(&r, n, h->n_rot / 2);
    be_rope_table(be, r.cos, r.sin, b->cell, n, h->n_rot, h->rope_base);
    way_in(&r, w, b, x);
    run_stage(&r, "x", x, n, layer_hidden_width(h));
    attn_in(&r, w, x, n, in, inject);
    be_act act = run_act(&r, in, n, h->n_embd);
    store(&r, w, b, &act);
    if (b->n_full > 0)
        full_rows(&r, w, b, x, in, inject);
    arena_reset(scratch, mark);
}
