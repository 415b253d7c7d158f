/* model.c - see model.h. The order of the steps: keys, number of layers, tensors, draft head. */
#include "base/mem.h"
#include "model/bind.h"

/* token_embd gives n_vocab; what else speaks of the vocabulary must not go past it. */
static ft_status bind_vocab(const binder *b)
{
    model *m = b->m;
    const gguf_tensor *g = bind_find(b, "token_embd");
    m->h.n_vocab = g ? g->t.n_row : 1;
    TRY(bind_mat(b, &m->token_embd, "token_embd", m->h.n_vocab, m->h.n_embd));
    m->output = m->token_embd;
    if (bind_find(b, "output"))
        TRY(bind_mat(b, &m->output, "output", m->h.n_vocab, m->h.n_embd));

    const gguf_kv *tokens = gguf_kv_find(b->f, "tokenizer.ggml.tokens");
    if (tokens && tokens->n > (uint64_t)m->h.n_vocab)
        return err_set(b->err, FT_FORMAT,
                       "%.80s: the tokenizer has %llu tokens, want at most token_embd's %d rows",
                       bind_file_name(b->f), (unsigned long long)tokens->n, m->h.n_vocab);
    if (m->h.ple_layer >= 0 && m->h.ple_eos >= m->h.n_vocab)
        return err_set(b->err, FT_FORMAT,
                       "%.80s: ple.eos_token_id is %d, want less than token_embd's %d rows",
                       bind_file_name(b->f), m->h.ple_eos, m->h.n_vocab);
    return hparams_vocab(&m->h, b->f, b->err);
}

/* The mixers' rank is in no key: the first layer's tensor gives it, all others must agree. */
static ft_status find_rank(const binder *b)
{
    model_hparams *h = &b->m->h;
    if (h->n_hc == 1)
        return FT_OK;
    const binder first = {.m = b->m, .f = b->f, .i_block = 0, .err = b->err};
    const gguf_tensor *g = bind_find(&first, "hc_attn_down");
    h->hc_rank = g ? g->t.n_row : 1; /* absent: bind_block names it */
    if (h->hc_rank > h->n_hc * h->n_embd)
        return err_set(b->err, FT_FORMAT, "%.80s: tensor '%s' has rank %d, want at most %d",
                       bind_file_name(b->f), g->t.name, h->hc_rank, h->n_hc * h->n_embd);
    return FT_OK;
}

static ft_status bind_trunk(model *m, ft_error *err)
{
    binder b = {.m = m, .f = m->file, .i_block = -1, .err = err};
    TRY(bind_vocab(&b));
    TRY(find_rank(&b));
    for (int i = 0; i < m->h.n_layer; i++) {
        b.i_block = i;
        TRY(bind_block(&b, &m->layer[i]));
        if (i == m->h.ple_layer)
            TRY(bind_ple(&b, &m->ple));
    }
    b.i_block = -1;
    if (m->h.n_hc > 1)
        return bind_mixer(&b, &m->output_mixer, "output_hc", NULL, false);
    return bind_gamma(&b, &m->output_norm, "output_norm", m->h.n_embd);
}

static ft_status open_into(model *m, ft_error *err)
{
    hp_blocks blocks;
    int i_mtp;
    TRY(hparams_read(&m->h, &blocks, m->file, err));
    TRY(hparams_gdn(&m->h, m->file, err));
    TRY(mtp_plan(m, &blocks, &i_mtp, err));
    m->layer = mem_calloc((size_t)m->h.n_layer, sizeof *m->layer);
    if (!m->layer)
        return err_set(err, FT_NOMEM, "model: %d layers", m->h.n_layer);
    TRY(hparams_layers(m, m->file, err));
    TRY(hparams_ple(m, m->file, err));
    TRY(bind_trunk(m, err));
    if (m->mtp_file) {
        TRY(mtp_plan_side(m, m->mtp_file, &i_mtp, err));
        return mtp_bind(m, m->mtp_file, i_mtp, err);
    }
    return i_mtp >= 0 ? mtp_bind(m, m->file, i_mtp, err) : FT_OK;
}

ft_status model_open(model **out, const gguf_file *f, const gguf_file *mtp_f, ft_error *err)
{
    *out = NULL;
    model *m = mem_zalloc(sizeof *m);
    if (!m)
        return err_set(err, FT_NOMEM, "model: its description");
    m->file = f;
    m->mtp_file = mtp_f;
    ft_status st = open_into(m, err);
    if (st != FT_OK) {
        model_free(m);
        return st;
    }
    *out = m;
    return FT_OK;
}

void model_free(model *m)
{
    if (!m)
        return;
    bind_free_owned(m);
    mem_free(m->layer);
    mem_free(m);
}
