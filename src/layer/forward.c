/* forward.c - the trunk: embedding, layers, head. See layer.h. */
#include "layer/run.h"

/* ---- Shapes --------------------------------------------------------------------------------------- */

void layer_state_shape(const model *m, int n_ctx, int n_window, dtype kv_type,
                       seq_layer_shape *layer, seq_shape *out)
{
    const model_hparams *h = &m->h;
    for (int i = 0; i < h->n_layer; i++) {
        if (m->layer[i].is_attn)
            layer[i] = (seq_layer_shape){.kind = SEQ_ATTN,
                                         .n_kv = h->n_head_kv * h->d_head,
                                         .d_idx = h->d_idx,
                                         .ratio = m->layer[i].attn.ratio};
        else
            layer[i] = (seq_layer_shape){.kind = SEQ_GDN,
                                         .n_key = h->n_key_head,
                                         .n_val = h->n_val_head,
                                         .d = h->d_state,
                                         .n_conv = h->n_conv};
    }
    *out = (seq_shape){.n_layer = h->n_layer,
                       .layer = layer,
                       .ple_layer = h->ple_layer,
                       .n_ctx = n_ctx,
                       .n_window = n_window,
                       .kv_type = kv_type};
    if (h->ple_layer >= 0) {
        out->ple_width = layer_hidden_width(h);
        out->ple_rows = (h->ple_conv - 1) * h->ple_ngram;
    }
}

static size_t max_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Most blocks that may compete for a row, over all layers with QSA. */
static int max_blocks(const model *m, int n_ctx)
{
    int most = 0;
    for (int i = 0; i < m->h.n_layer; i++) {
        int ratio = m->layer[i].is_attn ? m->layer[i].attn.ratio : 0;
        if (ratio > 0 && n_ctx / ratio + 1 > most)
            most = n_ctx / ratio + 1;
    }
    return most;
}

size_t layer_scratch(const backend *be, const model *m, int n_row, int n_want, int n_ctx)
{
    const model_hparams *h = &m->h;
    int wide = layer_hidden_width(h);
    size_t n = take_cost(n_row, 1) + 2 * take_cost(n_row, h->n_rot / 2) + /* positions */
               take_cost(n_row, wide) + 3 * take_cost(n_row, h->n_embd) + take_cost(n_row, h->n_hc);
    size_t part = max_of(attn_scratch(h, n_row, max_blocks(m, n_ctx), backend_n_thread(be)),
                         gdn_scratch(h, n_row));
    part = max_of(part, ffn_scratch(h, n_row));
    if (h->n_hc > 1)
        part = max_of(part, mixer_scratch(h, n_row));
    if (h->ple_layer >= 0)
        part = max_of(part, ple_scratch(h, n_row));
    size_t head = take_cost(n_want, wide) + take_cost(n_want, h->n_embd) +
                  act_cost(n_want, h->n_embd) + (h->n_hc > 1 ? mixer_scratch(h, n_want) : 0);
    return n + max_of(part, head) + 4096;
}

/* ---- The pass ------------------------------------------------------------------------------------- */

/* One layer on the residual R [n_row][S * H]: R += attention or delta net, then R += FFN. */
static void layer_one(run *r, const model_layer *l, float *R)
{
    const model_hparams *h = r->h;
    int n = r->n_row, wide = layer_hidden_width(h);
    size_t mark = arena_mark(r->a);
    float *x = run_take(r, n, h->n_embd), *y = run_take(r, n, h->n_embd);
    float *inject = run_take(r, n, h->n_hc);
    for (int half = 0; half < 2; half++) {
        bool ffn = half == 1;
        if (h->n_hc > 1)
            mixer_forward(r, ffn ? &l->hc_ffn : &l->hc_attn, R, n, x, inject);
        else
            be_rmsnorm(r->be, x, R, ffn ? l->post_norm : l->attn_norm, n, 1, h->n_embd, h->eps);
        run_stage(r, ffn ? "mlp_in" : "attn_in", x, n, h->n_embd);
        if (ffn)
            ffn_forward(r, &l->ffn, x, y);
        else if (l->is_attn)
            attn_forward(r, &l->attn, x, y);
        else
            gdn_forward(r, &l->gdn, x, y);
        run_stage(r, ffn ? "mlp_out" : "attn_out", y, n, h->n_embd);
        if (h->n_hc > 1) {
            be_hc_add(r->be, R, inject, inject, y, n, h->n_hc, h->n_embd);
            run_stage(r, ffn ? "mlp_inject" : "attn_inject", inject, n, h->n_hc);
        } else {
            be_add(r->be, R, y, n, h->n_embd);
        }
    }
    run_stage(r, "out", R, n, wide);
    arena_reset(r->a, mark);
}

/* Logits of the wanted rows from the residual. */
static void head(run *r, const float *R)
{
    const model_hparams *h = r->h;
    const layer_batch *b = r->b;
    int wide = layer_hidden_width(h);
    if (b->n_want == 0)
        return;
    size_t mark = arena_mark(r->a);
    float *rows = run_take(r, b->n_want, wide), *x = run_take(r, b->n_want, h->n_embd);
    be_gather(r->be, rows, R, b->want, b->n_want, wide);
    if (h->n_hc > 1)
        mixer_forward(r, &r->m->output_mixer, rows, b->n_want, x, NULL);
    else
        be_rmsnorm(r->be, x, rows, r->m->output_norm, b->n_want, 1, h->n_embd, h->eps);
    be_act act = run_act(r, x, b->n_want, h->n_embd);
    be_matmul(r->be, b->logits, (size_t)h->n_vocab, &r->m->output, &act);
    arena_reset(r->a, mark);
}

static void trunk(run *r)
{
    const model_hparams *h = r->h;
    int n = r->n_row, wide = layer_hidden_width(h);
    r->pos = run_take_int(r, n, 1);
    for (int i = 0, row = 0; i < r->b->n_seg; row += r->b->seg[i++].n_row)
        for (int t = 0; t < r->b->seg[i].n_row; t++)
            r->pos[row + t] = r->b->seg[i].s->n_past + t;
    r->cos = run_take(r, n, h->n_rot / 2);
    r->sin = run_take(r, n, h->n_rot / 2);
    be_rope_table(r->be, r->cos, r->sin, r->pos, n, h->n_rot, h->rope_base);

    float *R = run_take(r, n, wide);
    size_t mark = arena_mark(r->a);
    float *x = run_take(r, n, h->n_embd);
    be_get_rows(r->be, x, &r->m->token_embd, r->b->tok, n);
    r->i_layer = -1;
    run_stage(r, "embed", x, n, h->n_embd);
    be_repeat(r->be, R, x, n, h->n_hc, h->n_embd);
    arena_reset(r->a, mark);

    for (int i = 0; i < h->n_layer; i++) {
        r->i_layer = i;
        if (i == h->ple_layer)
            ple_forward(r, R);
        layer_one(r, &r->m->layer[i], R);
    }
    if (r->b->hidden) {
        if (h->n_hc > 1)
            be_move(r->be, r->b->hidden, R, (size_t)n * (size_t)wide * sizeof(float));
        else
            be_rmsnorm(r->be, r->b->hidden, R, r->m->output_norm, n, 1, h->n_embd, h->eps);
    }
    head(r, R);
}

ft_status layer_forward(backend *be, const model *m, arena *scratch, const layer_batch *b,
                        ft_error *err)
{
    run r = {.be = be, .m = m, .h = &m->h, .a = scratch, .b = b, .i_layer = -1};
    for (int i = 0; i < b->n_seg; i++) {
        const layer_seg *g = &b->seg[i];
        ft_status st = seq_begin(g->s, b->tok + r.n_row, g->n_row, g->n_commit, err);
        if (st != FT_OK) {
            for (int j = 0; j < i; j++) /* nothing was computed: these are as before */
                b->seg[j].s->broken = false;
            return st;
        }
        r.n_row += g->n_row;
    }
    size_t mark = arena_mark(scratch);
    trunk(&r);
    arena_reset(scratch, mark);
    for (int i = 0; i < b->n_seg; i++)
        seq_end(b->seg[i].s, b->seg[i].n_row, b->seg[i].n_commit);
    return FT_OK;
}
