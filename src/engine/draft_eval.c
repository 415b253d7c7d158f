/* draft_eval.c - ft_session_eval_draft: the draft head over a text, row by row. */
#include <string.h>

#include "base/mem.h"
#include "draft/draft.h"
#include "engine/engine.h"

static int32_t best_of(const float *row, int n)
{
    int32_t best = 0;
    for (int i = 1; i < n; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

static ft_status check(const ft_session *s, int n_tok, const ft_draft_eval *e, ft_error *err)
{
    if (!s->model->m->has_mtp)
        return err_set(err, FT_UNSUPPORTED, "draft head: %s", s->model->m->no_mtp_reason);
    if (n_tok < 2)
        return err_set(err, FT_ARG, "eval: %d tokens, want at least 2", n_tok);
    if (e->sink < 0 || e->sink > CELLS_SINK_MAX)
        return err_set(err, FT_ARG, "sink: %d, want 0 to %d", e->sink, CELLS_SINK_MAX);
    if (e->window < 0)
        return err_set(err, FT_ARG, "window: %d, want 0 or more, or FT_WINDOW_ALL", e->window);
    if (e->n_chain < 0 || e->n_chain > 15)
        return err_set(err, FT_ARG, "n_chain: %d, want 0 to 15", e->n_chain);
    return FT_OK;
}

/* Hidden rows of the whole text, and the trunk's most probable next token. */
static ft_status trunk_rows(ft_session *s, const int32_t *tok, int n_tok, float *hidden,
                            int32_t *next, ft_error *err)
{
    size_t width = (size_t)layer_hidden_width(&s->model->m->h);
    for (int i = 0; i < n_tok;) {
        int n = n_tok - 1 - i < s->batch->n_chunk ? n_tok - 1 - i : s->batch->n_chunk;
        ft_eval_out out = {.hidden = hidden + (size_t)i * width};
        if (i == n_tok - 1) { /* the last token alone, for its logits */
            n = 1;
            out.logits = s->logits;
        }
        TRY(ft_session_eval_rows(s, tok + i, n, &out, err));
        i += n;
    }
    *next = best_of(s->logits, s->model->m->h.n_vocab);
    return FT_OK;
}

/* The chain behind the text, whose last hidden row the drafter has observed. */
static ft_status chain_rows(const ft_session *s, drafter *d, arena *scratch, const int32_t *tok,
                            int n_tok, int32_t next, const ft_draft_eval *e, ft_error *err)
{
    const model_hparams *h = &s->model->m->h;
    size_t width = (size_t)layer_hidden_width(h), vocab = (size_t)h->n_vocab;
    if (e->chain_tokens)
        e->chain_tokens[0] = next;
    int32_t id = next;
    for (int i = 0; i < e->n_chain; i++) {
        draft_step step = {.d = d, .tok = i == 0 ? tok : NULL, .n_past = n_tok, .next = id};
        draft_steps(&step, 1, e->logits + (size_t)(n_tok - 1 + i) * vocab, scratch);
        if (!step.logits)
            return err_set(err, FT_NOMEM, "eval: cells of a chain");
        if (e->chain_hidden)
            memcpy(e->chain_hidden + (size_t)i * width, draft_hidden(d), width * sizeof(float));
        id = best_of(step.logits, h->n_vocab);
        if (e->chain_tokens)
            e->chain_tokens[i + 1] = id;
    }
    return FT_OK;
}

static ft_status head_rows(ft_session *s, drafter *d, arena *scratch, const int32_t *tok, int n_tok,
                           const float *hidden, const ft_draft_eval *e, ft_error *err)
{
    size_t width = (size_t)layer_hidden_width(&s->model->m->h);
    size_t vocab = (size_t)s->model->m->h.n_vocab;
    for (int i = 0; i < n_tok - 1;) {
        int n = n_tok - 1 - i < s->batch->n_chunk ? n_tok - 1 - i : s->batch->n_chunk;
        draft_rows_args a = {.first = i,
                             .n = n,
                             .next = tok + i + 1,
                             .hidden = hidden + (size_t)i * width,
                             .logits = e->logits + (size_t)i * vocab,
                             .stage = e->stage,
                             .stage_ctx = e->stage_ctx};
        TRY(draft_rows(d, scratch, &a, err));
        i += n;
    }
    draft_observe(d, scratch, tok, n_tok - 1, 1, hidden + (size_t)(n_tok - 1) * width, n_tok);
    return FT_OK;
}

ft_status ft_session_eval_draft(ft_session *s, const int32_t *tok, int n_tok,
                                const ft_draft_eval *e, ft_error *err)
{
    TRY(check(s, n_tok, e, err));
    ft_session_reset(s);
    const model *m = s->model->m;
    draft_params p = {.n_ctx = s->state->shape.n_ctx,
                      .n_window = s->state->shape.n_window,
                      .sink = e->sink,
                      .window = e->window,
                      .kv_type = s->state->shape.kv_type,
                      .w = &m->mtp,
                      .head = &m->mtp.head};
    float *hidden = mem_calloc((size_t)n_tok, (size_t)layer_hidden_width(&m->h) * sizeof *hidden);
    drafter *d = NULL;
    arena scratch = {0};
    int32_t next = 0;
    ft_status st = hidden ? draft_create(&d, s->model->be, m, &p, err)
                          : err_set(err, FT_NOMEM, "eval: hidden rows of %d tokens", n_tok);
    if (st == FT_OK) {
        size_t rows = draft_rows_scratch(d, s->batch->n_chunk), steps = draft_scratch(m, &p, 1, 1);
        st = arena_init(&scratch, rows > steps ? rows : steps, "eval: scratch", err);
    }
    if (st == FT_OK)
        st = trunk_rows(s, tok, n_tok, hidden, &next, err);
    if (st == FT_OK)
        st = head_rows(s, d, &scratch, tok, n_tok, hidden, e, err);
    if (st == FT_OK)
        st = chain_rows(s, d, &scratch, tok, n_tok, next, e, err);
    arena_deinit(&scratch);
    draft_free(d);
    mem_free(hidden);
    return st;
}
