/* account.c - see account.h. The order of the items is that of the forward pass (layer/). */
#include "engine/account.h"

#include <math.h>

const char *account_group_name(account_group g)
{
    static const char *const name[] = {
#define ACCOUNT_NAME(e, text) text,
        ACCOUNT_GROUPS(ACCOUNT_NAME)
#undef ACCOUNT_NAME
    };
    return name[g];
}

typedef struct {
    account_fn *fn;
    void *ctx;
    const model_hparams *h;
    int n_row, depth;
    dtype kv;
} walk;

/* How many different ones of n, when n_row rows choose k each (account.h, invariant 2). */
static double distinct(int n, int k, int n_row)
{
    if (n_row == 1 || k >= n)
        return k < n ? k : n;
    return n * (1 - pow(1 - (double)k / n, n_row));
}

/* ---- Items ------------------------------------------------------------------------------------ */

static account_item item_of(account_group g, const char *part, const tensor *t)
{
    return (account_item){.group = g,
                          .part = part,
                          .name = t->name,
                          .type = t->type,
                          .n_mat = t->n_mat,
                          .n_row = t->n_row,
                          .n_col = t->n_col,
                          .times = 1,
                          .bytes = (double)tensor_bytes(t)};
}

/* A whole matrix. */
static void put(const walk *k, account_group g, const char *part, const tensor *t)
{
    if (!t->data)
        return;
    account_item i = item_of(g, part, t);
    k->fn(k->ctx, &i);
}

/* n of the n_of matrices or rows that t has. */
static void put_some(const walk *k, account_group g, const char *part, const tensor *t, double n,
                     int n_of)
{
    account_item i = item_of(g, part, t);
    i.n_pick = n_of;
    i.n_got = n;
    i.bytes = i.bytes / n_of * n;
    k->fn(k->ctx, &i);
}

static void put_state(const walk *k, account_group g, const char *part, dtype type, int n_mat,
                      double n_row, int n_col, int times)
{
    account_item i = {.group = g,
                      .part = part,
                      .name = "",
                      .type = type,
                      .n_mat = n_mat,
                      .n_row = (int)ceil(n_row),
                      .n_col = n_col,
                      .times = times};
    i.bytes = (double)dtype_row_bytes(type, (size_t)n_col) * n_row * n_mat * times;
    k->fn(k->ctx, &i);
}

/* ---- Parts of a block ------------------------------------------------------------------------- */

static void put_mixer(const walk *k, const char *const part[3], const model_mixer *x)
{
    put(k, ACCOUNT_MIXERS, part[0], &x->down);
    put(k, ACCOUNT_MIXERS, part[1], &x->up);
    put(k, ACCOUNT_MIXERS, part[2], &x->inject);
}

static void put_attn(const walk *k, const model_attn *a)
{
    put(k, ACCOUNT_KV, "attn_k", &a->k);
    put(k, ACCOUNT_KV, "attn_v", &a->v);
    put(k, ACCOUNT_Q, "attn_q", &a->q);
    put(k, ACCOUNT_INDEXER, "indexer_q", &a->idx_q);
    put(k, ACCOUNT_INDEXER, "indexer_k", &a->idx_k);
    put(k, ACCOUNT_O, "attn_output", &a->out);
}

static void put_cells(const walk *k, double n_cell)
{
    put_state(k, ACCOUNT_CELLS, "k and v", k->kv, 2, n_cell, k->h->n_head_kv * k->h->d_head, 1);
}

/* The cells of a layer that the rows attend to; with QSA, also the keys of all blocks. */
static void put_attended(const walk *k, const model_attn *a)
{
    const model_hparams *h = k->h;
    int n_cell = k->depth + k->n_row;
    int n_block = a->ratio ? n_cell / a->ratio : 0, n_best = a->ratio ? h->idx_top_k / a->ratio : 0;
    if (n_block <= n_best) { /* dense: nothing is scored */
        put_cells(k, n_cell);
        return;
    }
    put_cells(k, distinct(n_block, n_best, k->n_row) * a->ratio + n_cell % a->ratio);
    put_state(k, ACCOUNT_KEYS, "block keys", DTYPE_F32, 1, n_block, h->d_idx, 1);
}

static void put_gdn(const walk *k, const model_gdn *g)
{
    const model_hparams *h = k->h;
    put(k, ACCOUNT_GDN, "attn_qkv", &g->qkv);
    put(k, ACCOUNT_GDN, "attn_gate", &g->gate);
    put(k, ACCOUNT_GDN, "ssm_alpha", &g->alpha);
    put(k, ACCOUNT_GDN, "ssm_beta", &g->beta);
    put(k, ACCOUNT_GDN, "ssm_out", &g->out);
    put_state(k, ACCOUNT_STATES, "state", DTYPE_F32, h->n_val_head, h->d_state, h->d_state, 2);
    put_state(k, ACCOUNT_HISTORIES, "convolution", DTYPE_F32, 1, h->n_conv - 1,
              model_conv_channels(h), 2);
}

static void put_ffn(const walk *k, const model_ffn *f)
{
    const model_hparams *h = k->h;
    if (h->n_expert == 0) {
        put(k, ACCOUNT_FFN, "ffn_gate", &f->gate);
        put(k, ACCOUNT_FFN, "ffn_up", &f->up);
        put(k, ACCOUNT_FFN, "ffn_down", &f->down);
        return;
    }
    double n = distinct(h->n_expert, h->n_expert_used, k->n_row);
    put(k, ACCOUNT_ROUTER, "router", &f->router);
    put(k, ACCOUNT_SHARED, "shared_gate", &f->sh_gate);
    put(k, ACCOUNT_SHARED, "shared_up", &f->sh_up);
    put(k, ACCOUNT_SHARED, "shared_down", &f->sh_down);
    put_some(k, ACCOUNT_EXPERTS, "experts_gate", &f->gate, n, h->n_expert);
    put_some(k, ACCOUNT_EXPERTS, "experts_up", &f->up, n, h->n_expert);
    put_some(k, ACCOUNT_EXPERTS, "experts_down", &f->down, n, h->n_expert);
}

static void put_block(const walk *k, const model_layer *l)
{
    static const char *const attn[] = {"hc_attn_down", "hc_attn_up", "hc_attn_inject"};
    static const char *const ffn[] = {"hc_ffn_down", "hc_ffn_up", "hc_ffn_inject"};
    put_mixer(k, attn, &l->hc_attn);
    if (l->is_attn)
        put_attn(k, &l->attn);
    else
        put_gdn(k, &l->gdn);
    put_mixer(k, ffn, &l->hc_ffn);
    put_ffn(k, &l->ffn);
}

/* ---- Steps ------------------------------------------------------------------------------------ */

/* The indexer's projections that the file has in the draft head, as in the trunk. */
static void put_unused_indexer(const walk *k, const model *m)
{
    for (int i = 0; i < m->h.n_layer; i++) {
        const model_attn *a = &m->layer[i].attn;
        if (a->ratio == 0)
            continue;
        put(k, ACCOUNT_INDEXER, "indexer_q", &a->idx_q);
        put(k, ACCOUNT_INDEXER, "indexer_k", &a->idx_k);
        return;
    }
}

void account_draft(const model *m, const model_mtp *w, const account_draft_opts *o, account_fn *fn,
                   void *ctx)
{
    static const char *const mixer[] = {"hc_head_down", "hc_head_up", "hc_head_inject"};
    const walk k = {.fn = fn, .ctx = ctx, .h = &m->h, .n_row = 1, .kv = o->kv};
    put_some(&k, ACCOUNT_EMBD, "embedding", &w->embd, 1, w->embd.n_row);
    put(&k, ACCOUNT_FC_EMBEDDING, "fc_embedding", &w->w_e);
    account_item fc = item_of(ACCOUNT_FC_HIDDEN, "fc_hidden", &w->w_h);
    fc.times = o->naive ? m->h.n_hc : 1;
    fc.bytes *= fc.times;
    fn(ctx, &fc);
    put_block(&k, &w->block);
    if (o->naive)
        put_unused_indexer(&k, m);
    put_cells(&k, o->n_cell);
    put_mixer(&k, mixer, &w->head_mixer);
    put_some(&k, ACCOUNT_HEAD, "head", &w->head, o->n_head, w->head.n_row);
}

static void put_ngrams(const walk *k, const model_ple *p)
{
    const model_hparams *h = k->h;
    int n_head = (h->ple_ngram - 1) * h->ple_heads;
    put_some(k, ACCOUNT_NGRAM, "ngram_table", &p->table, (double)n_head * k->n_row, p->table.n_row);
    put(k, ACCOUNT_NGRAM, "ple_key", &p->key);
    put(k, ACCOUNT_NGRAM, "ple_value", &p->value);
    put_state(k, ACCOUNT_HISTORIES, "n-gram convolution", DTYPE_F32, 1,
              (h->ple_conv - 1) * h->ple_ngram, h->n_hc * h->n_embd, 2);
}

void account_trunk(const model *m, const account_trunk_opts *o, account_fn *fn, void *ctx)
{
    static const char *const mixer[] = {"output_hc_down", "output_hc_up", "output_hc_inject"};
    const walk k = {
        .fn = fn, .ctx = ctx, .h = &m->h, .n_row = o->n_row, .depth = o->depth, .kv = o->kv};
    put_some(&k, ACCOUNT_EMBD, "embedding", &m->token_embd, o->n_row, m->token_embd.n_row);
    for (int i = 0; i < m->h.n_layer; i++) {
        if (i == m->h.ple_layer)
            put_ngrams(&k, &m->ple);
        put_block(&k, &m->layer[i]);
        if (m->layer[i].is_attn)
            put_attended(&k, &m->layer[i].attn);
    }
    if (!o->head)
        return;
    put_mixer(&k, mixer, &m->output_mixer);
    put(&k, ACCOUNT_HEAD, "head", &m->output);
}

static void add_bytes(void *ctx, const account_item *i)
{
    double *sum = ctx;
    *sum += i->bytes;
}

uint64_t account_draft_bytes(const model *m, const model_mtp *w, const account_draft_opts *o)
{
    double sum = 0;
    account_draft(m, w, o, add_bytes, &sum);
    return (uint64_t)(sum + 0.5);
}

int account_draft_cells(int depth, int sink, int window)
{
    int first = depth > window ? depth - window : 0;
    return (sink < first ? sink : first) + depth - first + 1;
}
