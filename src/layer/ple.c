/* ple.c - the n-gram embedding layer (docs/models.md, PLE). */
#include "layer/run.h"

static int n_heads(const model_hparams *h)
{
    return (h->ple_ngram - 1) * h->ple_heads;
}

size_t ple_scratch(const model_hparams *h, int n_row)
{
    int wide = layer_hidden_width(h), e = n_heads(h) * h->ple_dim;
    return take_cost(n_row, n_heads(h)) + take_cost(n_row, e) + act_cost(n_row, e) +
           5 * take_cost(n_row, wide) + take_cost(n_row, h->n_embd) +
           arena_cost((size_t)n_row * sizeof(be_conv_seg));
}

/* The table's rows for the token at position pos of a text: for every order n the n last tokens are
 * mixed into one number, which each head of that order maps into its own part of the table. An EOS
 * met going back, and the start of the text, cut the window. */
static void table_rows(const run *r, const int32_t *text, int pos, int32_t *row)
{
    const model_hparams *h = r->h;
    const model_ple *w = &r->m->ple;
    uint64_t mix = (uint64_t)text[pos] * w->mult[0];
    bool cut = false;
    for (int n = 2; n <= h->ple_ngram; n++) {
        int at = pos - (n - 1);
        cut = cut || at < 0 || text[at] == h->ple_eos;
        uint64_t c = cut ? (uint64_t)h->ple_eos : (uint64_t)text[at];
        mix ^= c * w->mult[n - 1];
        for (int i = (n - 2) * h->ple_heads; i < (n - 1) * h->ple_heads; i++)
            row[i] = (int32_t)(mix % (uint64_t)w->head_vocab[i]) + (int32_t)w->head_off[i];
    }
}

static void embed(run *r, float *e)
{
    int heads = n_heads(r->h);
    int32_t *row = run_take_int(r, r->n_row, heads);
    for (int i = 0, first = 0; i < r->b->n_seg; first += r->b->seg[i++].n_row) {
        const seq *s = r->b->seg[i].s; /* seq_begin has put this call's tokens behind the others */
        for (int t = 0; t < r->b->seg[i].n_row; t++)
            table_rows(r, s->tok, s->n_past + t, row + (size_t)(first + t) * (size_t)heads);
    }
    run_stage_int(r, "ple_rows", row, r->n_row, heads);
    be_get_rows(r->be, e, &r->m->ple.table, row, r->n_row * heads);
}

static void convolve(run *r, const float *x, float *y)
{
    const model_hparams *h = r->h;
    int n_seg = r->b->n_seg;
    be_conv_seg *seg = arena_take(r->a, (size_t)n_seg * sizeof *seg);
    for (int i = 0, row = 0; i < n_seg; row += r->b->seg[i++].n_row) {
        const layer_seg *g = &r->b->seg[i];
        seg[i] = (be_conv_seg){.row = row,
                               .n_row = g->n_row,
                               .n_commit = g->n_commit,
                               .hist = g->s->ple_conv,
                               .hist_n = (h->ple_conv - 1) * h->ple_ngram + g->s->n_extra};
    }
    be_conv_silu(r->be, y, x, r->m->ple.conv, h->ple_conv, h->ple_ngram, layer_hidden_width(h), seg,
                 n_seg);
}

void ple_forward(run *r, float *R)
{
    const model_hparams *h = r->h;
    const model_ple *w = &r->m->ple;
    int n = r->n_row, wide = layer_hidden_width(h), n_e = n_heads(h) * h->ple_dim;
    size_t mark = arena_mark(r->a);
    float *e = run_take(r, n, n_e);
    embed(r, e);
    be_act act = run_act(r, e, n, n_e);
    float *key = run_take(r, n, wide), *qry = run_take(r, n, wide), *gv = run_take(r, n, wide);
    float *val = run_take(r, n, h->n_embd);
    be_matmul(r->be, key, (size_t)wide, &w->key, &act);
    be_matmul(r->be, val, (size_t)h->n_embd, &w->value, &act);
    be_rmsnorm(r->be, key, key, w->norm_key, n, h->n_hc, h->n_embd, h->eps);
    be_rmsnorm(r->be, qry, R, w->norm_query, n, h->n_hc, h->n_embd, h->eps);
    be_ple_gate(r->be, gv, key, qry, val, n, h->n_hc, h->n_embd);
    float *normed = run_take(r, n, wide), *out = run_take(r, n, wide);
    be_rmsnorm(r->be, normed, gv, w->norm_conv, n, h->n_hc, h->n_embd, h->eps);
    convolve(r, normed, out);
    be_add(r->be, out, gv, n, wide);
    run_stage(r, "ple_out", out, n, wide);
    be_add(r->be, R, out, n, wide);
    arena_reset(r->a, mark);
}
