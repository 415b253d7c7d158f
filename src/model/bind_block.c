/* bind_block.c - one block's tensors, part by part as docs/models.md lists them. */
#include <stdio.h>

#include "model/bind.h"

/* ---- Residual ------------------------------------------------------------------------------- */

/* "name_part", or "other_part" where only that is in the file. */
static const char *mixer_name(const binder *b, char out[2][48], const char *name, const char *other,
                              const char *part)
{
    snprintf(out[0], 48, "%s_%s", name, part);
    if (!other)
        return out[0];
    snprintf(out[1], 48, "%s_%s", other, part);
    return bind_either(b, out[0], out[1]);
}

ft_status bind_mixer(const binder *b, model_mixer *x, const char *name, const char *other,
                     bool inject)
{
    const model_hparams *h = &b->m->h;
    int wide = h->n_hc * h->n_embd;
    char s[2][48];
    TRY(bind_gamma(b, &x->norm, mixer_name(b, s, name, other, "norm"), wide));
    TRY(bind_mat(b, &x->down, mixer_name(b, s, name, other, "down"), h->hc_rank, wide));
    TRY(bind_mat(b, &x->up, mixer_name(b, s, name, other, "up"), wide, h->hc_rank));
    if (inject)
        TRY(bind_mat(b, &x->inject, mixer_name(b, s, name, other, "inject"), h->n_hc, wide));
    return FT_OK;
}

static ft_status bind_residual(const binder *b, model_layer *l)
{
    if (b->m->h.n_hc > 1) {
        TRY(bind_mixer(b, &l->hc_attn, "hc_attn", NULL, true));
        return bind_mixer(b, &l->hc_ffn, "hc_ffn", NULL, true);
    }
    TRY(bind_gamma(b, &l->attn_norm, "attn_norm", b->m->h.n_embd));
    return bind_gamma(b, &l->post_norm, "post_attention_norm", b->m->h.n_embd);
}

/* ---- Attention and delta net ---------------------------------------------------------------- */

static ft_status bind_attn(const binder *b, model_attn *a)
{
    const model_hparams *h = &b->m->h;
    TRY(bind_mat(b, &a->q, "attn_q", h->n_head * 2 * h->d_head, h->n_embd));
    TRY(bind_mat(b, &a->k, "attn_k", h->n_head_kv * h->d_head, h->n_embd));
    TRY(bind_mat(b, &a->v, "attn_v", h->n_head_kv * h->d_head, h->n_embd));
    TRY(bind_mat(b, &a->out, "attn_output", h->n_embd, h->n_head * h->d_head));
    TRY(bind_gamma(b, &a->q_norm, "attn_q_norm", h->d_head));
    TRY(bind_gamma(b, &a->k_norm, "attn_k_norm", h->d_head));
    if (a->ratio == 0)
        return FT_OK;
    TRY(bind_mat(b, &a->idx_q, "indexer.q_proj", h->n_idx_head * h->d_idx, h->n_embd));
    TRY(bind_mat(b, &a->idx_k, "indexer.k_proj", h->d_idx, h->n_embd));
    TRY(bind_gamma(b, &a->idx_q_norm, "indexer.q_norm", h->d_idx));
    return bind_gamma(b, &a->idx_k_norm, "indexer.k_norm", h->d_idx);
}

static ft_status bind_gdn(const binder *b, model_gdn *g)
{
    const model_hparams *h = &b->m->h;
    int inner = h->n_val_head * h->d_state;
    TRY(bind_mat(b, &g->qkv, "attn_qkv", model_conv_channels(h), h->n_embd));
    TRY(bind_mat(b, &g->gate, "attn_gate", inner, h->n_embd));
    TRY(bind_mat(b, &g->alpha, "ssm_alpha", h->n_val_head, h->n_embd));
    TRY(bind_mat(b, &g->beta, "ssm_beta", h->n_val_head, h->n_embd));
    TRY(bind_mat(b, &g->out, "ssm_out", h->n_embd, inner));
    TRY(bind_conv(b, &g->conv, "ssm_conv1d", model_conv_channels(h), h->n_conv));
    TRY(bind_vec(b, &g->a, "ssm_a", h->n_val_head));
    TRY(bind_vec(b, &g->dt, "ssm_dt.bias", h->n_val_head));
    return bind_gamma(b, &g->norm, "ssm_norm", h->d_state);
}

/* ---- FFN ------------------------------------------------------------------------------------ */

/* Gate and up of all experts in one tensor: gate rows first in each expert. */
static ft_status bind_fused(const binder *b, model_ffn *f)
{
    const model_hparams *h = &b->m->h;
    tensor both;
    TRY(bind_mats(b, &both, "ffn_gate_up_exps", h->n_expert, 2 * h->n_ff_exp, h->n_embd));
    both.n_row = h->n_ff_exp; /* mat_bytes stays that of the whole */
    f->gate = both;
    f->up = both;
    f->up.data = (const uint8_t *)both.data + both.row_bytes * (size_t)h->n_ff_exp;
    return FT_OK;
}

static ft_status bind_experts(const binder *b, model_ffn *f)
{
    const model_hparams *h = &b->m->h;
    if (bind_find(b, "ffn_gate_up_exps")) {
        TRY(bind_fused(b, f));
    } else {
        TRY(bind_mats(b, &f->gate, "ffn_gate_exps", h->n_expert, h->n_ff_exp, h->n_embd));
        TRY(bind_mats(b, &f->up, "ffn_up_exps", h->n_expert, h->n_ff_exp, h->n_embd));
    }
    TRY(bind_mats(b, &f->down, "ffn_down_exps", h->n_expert, h->n_embd, h->n_ff_exp));
    TRY(bind_mat(b, &f->router, "ffn_gate_inp", h->n_expert, h->n_embd));
    TRY(bind_mat(b, &f->sh_gate, "ffn_gate_shexp", h->n_ff_shexp, h->n_embd));
    TRY(bind_mat(b, &f->sh_up, "ffn_up_shexp", h->n_ff_shexp, h->n_embd));
    TRY(bind_mat(b, &f->sh_down, "ffn_down_shexp", h->n_embd, h->n_ff_shexp));
    return bind_vec(b, &f->sh_inp, "ffn_gate_inp_shexp", h->n_embd);
}

static ft_status bind_ffn(const binder *b, model_ffn *f)
{
    const model_hparams *h = &b->m->h;
    if (h->n_expert > 0)
        return bind_experts(b, f);
    TRY(bind_mat(b, &f->gate, "ffn_gate", h->n_ff, h->n_embd));
    TRY(bind_mat(b, &f->up, "ffn_up", h->n_ff, h->n_embd));
    return bind_mat(b, &f->down, "ffn_down", h->n_embd, h->n_ff);
}

ft_status bind_block(const binder *b, model_layer *l)
{
    TRY(bind_residual(b, l));
    if (l->is_attn)
        TRY(bind_attn(b, &l->attn));
    else
        TRY(bind_gdn(b, &l->gdn));
    return bind_ffn(b, &l->ffn);
}

/* ---- n-gram layer --------------------------------------------------------------------------- */

/* The table has no shape of its own: its columns give ple_dim, its rows must hold every head. */
static ft_status bind_ple_table(const binder *b, model_ple *p)
{
    model_hparams *h = &b->m->h;
    const binder global = {.m = b->m, .f = b->f, .i_block = -1, .err = b->err};
    const char *name = "per_layer_token_embd";
    const gguf_tensor *g = bind_find(&global, name);
    int n_row = g ? g->t.n_row : 1, n_col = g ? g->t.n_col : 1;
    TRY(bind_mat(&global, &p->table, name, n_row, n_col));
    if (n_col > HP_MAX_SIZE)
        return err_set(b->err, FT_UNSUPPORTED, "%.80s: tensor '%s' has rows of %d, want at most %d",
                       bind_file_name(b->f), p->table.name, n_col, HP_MAX_SIZE);
    h->ple_dim = n_col;
    for (int i = 0; i < (h->ple_ngram - 1) * h->ple_heads; i++)
        if (p->head_vocab[i] > n_row - p->head_off[i]) /* both checked to be >= 0 by hparams_ple */
            return err_set(b->err, FT_FORMAT,
                           "%.80s: tensor '%s' has %d rows, n-gram head %d wants %lld from %lld on",
                           bind_file_name(b->f), p->table.name, n_row, i,
                           (long long)p->head_vocab[i], (long long)p->head_off[i]);
    return FT_OK;
}

ft_status bind_ple(const binder *b, model_ple *p)
{
    const model_hparams *h = &b->m->h;
    TRY(bind_ple_table(b, p));
    int wide = h->n_hc * h->n_embd;
    int n_in = (h->ple_ngram - 1) * h->ple_heads * h->ple_dim;
    TRY(bind_mat(b, &p->key, "ple_key", wide, n_in));
    TRY(bind_mat(b, &p->value, "ple_value", h->n_embd, n_in));
    TRY(bind_gamma(b, &p->norm_key, "ple_norm_key", wide));
    TRY(bind_gamma(b, &p->norm_query, "ple_norm_query", wide));
    TRY(bind_gamma(b, &p->norm_conv, "ple_norm_conv", wide));
    return bind_conv(b, &p->conv, "ple_conv1d", wide, h->ple_conv);
}
