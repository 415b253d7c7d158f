/* emit.c - one decided token: its distribution, its text, its log-probabilities, its delivery.
 *
 * 1. A token is decided, counted and delivered one at a time, through emit(), in every kind of step.
 */
#include <math.h>
#include <string.h>

#include "engine/generate.h"

const sample_params *emit_params(const ft_generation *g, int n)
{
    return n < g->p.n_min ? &g->sample_min : &g->sample;
}

ft_status emit_distribution(ft_generation *g, const float *logits, int pos, int n, sample_dist *out,
                            ft_error *err)
{
    ft_session *s = g->s;
    if (s->on_row)
        s->on_row(s->hook_ctx, pos, logits);
    double t0 = engine_now();
    sample_row row = {
        .logits = logits, .n = s->model->m->h.n_vocab, .hist = s->state->tok, .n_hist = pos};
    ft_status st = sample_distribution(s->sampler, out, &row, emit_params(g, n), err);
    g->stats.sample_seconds += engine_now() - t0;
    return st;
}

/* What a decided token adds to the text, into g->out. *last: no further text will follow; set when a stop
 * string is complete. */
static ft_status add_text(ft_generation *g, int32_t id, bool *last, ft_error *err)
{
    const tokenizer *tok = g->s->model->tok;
    buf_clear(&g->piece);
    buf_clear(&g->out);
    if (tok) {
        detok_put(&g->text, tok, id, !g->p.special, &g->piece);
        if (*last)
            detok_flush(&g->text, &g->piece);
    }
    const char *piece = buf_cstr(&g->piece);
    if (piece && stops_put(&g->stops, piece, g->piece.len, &g->out)) {
        *last = true;
        g->stats.finish = FT_FINISH_STOP;
    } else if (*last) {
        stops_flush(&g->stops, &g->out);
    }
    TRY(buf_status(&g->piece, "generate: text", err));
    TRY(buf_status(&g->stops.held, "generate: text", err));
    return buf_status(&g->out, "generate: text", err);
}

/* Log-probabilities of the token in hand: by the model alone from its row of logits, and by the
 * distribution p that it was drawn from. */
static void add_logprobs(ft_generation *g, const float *logits, const sample_dist *p, ft_token *t)
{
    int n = g->s->model->m->h.n_vocab;
    double max = -HUGE_VAL, sum = 0;
    for (int i = 0; i < n; i++)
        max = fmax(max, (double)logits[i]);
    for (int i = 0; i < n; i++)
        sum += exp((double)logits[i] - max);
    double norm = max + log(sum);
    t->logprob = (double)logits[t->id] - norm;
    t->logprob_sampled = sample_dist_logp(p, t->id);
    for (int i = 0; i < n && g->p.n_top > 0; i++) {
        double lp = (double)logits[i] - norm;
        if (t->n_top == g->p.n_top && lp <= g->top[t->n_top - 1].logprob)
            continue;
        int at = t->n_top < g->p.n_top ? t->n_top++ : t->n_top - 1;
        for (; at > 0 && g->top[at - 1].logprob < lp; at--)
            g->top[at] = g->top[at - 1];
        g->top[at] = (ft_alternative){.id = i, .logprob = lp};
    }
    t->top = g->top;
}

/* Why the token of position pos is the last one; false: it is not. The end of the context is no end where
 * turns can be dropped, which is seen when the token's turn comes. */
static bool ends(const ft_generation *g, int32_t id, int pos, ft_finish *why)
{
    const ft_session *s = g->s;
    if (s->model->tok && !g->p.ignore_eos && tok_is_end(s->model->tok, id))
        *why = FT_FINISH_STOP;
    else if (g->p.n_max >= 0 && g->stats.n_token + 1 >= g->p.n_max)
        *why = FT_FINISH_LENGTH;
    else if (pos >= s->state->shape.n_ctx && !context_can_drop(g))
        *why = FT_FINISH_CONTEXT;
    else
        return false;
    return true;
}

/* Let a token wait to be taken: it and its text are copied. */
static ft_status keep(ft_generation *g, const ft_token *t, ft_error *err)
{
    waiting_token w = {.t = *t, .text_at = g->waiting_text.len};
    w.t.text = NULL;
    w.t.top = NULL;
    memcpy(w.top, g->top, (size_t)t->n_top * sizeof *w.top);
    buf_put(&g->waiting_text, t->text, t->len);
    buf_put(&g->waiting_text, "", 1);
    TRY(buf_status(&g->waiting_text, "generate: tokens that wait", err));
    buf_put(&g->waiting, &w, sizeof w);
    return buf_status(&g->waiting, "generate: tokens that wait", err);
}

static bool is_cancelled(const ft_generation *g)
{
    return atomic_load(&g->cancel) || atomic_load(&g->s->cancel);
}

ft_status emit(ft_generation *g, int32_t id, int pos, const float *logits, const sample_dist *p,
               ft_token_kind kind, bool *last, ft_error *err)
{
    ft_finish why = FT_FINISH_LENGTH;
    bool end = ends(g, id, pos, &why);
    *last = end;
    g->stats.finish = why;
    TRY(add_text(g, id, last, err));
    ft_token t = {.id = id, .text = buf_cstr(&g->out), .len = g->out.len, .kind = kind};
    if (g->p.logprobs)
        add_logprobs(g, logits, p, &t);
    if (g->poll)
        TRY(keep(g, &t, err));
    g->s->pending = id; /* nothing fails from here on: what is delivered is in the session */
    g->stats.n_token++;
    bool more = !g->p.on_token || g->p.on_token(g->p.on_token_ctx, &t);
    if ((!more || is_cancelled(g)) && !*last) {
        g->stats.finish = FT_FINISH_CANCELLED;
        *last = true;
    }
    if (*last)
        generate_done(g, g->stats.finish);
    return FT_OK;
}

bool ft_generation_poll(ft_generation *g, ft_token *t)
{
    if (g->n_taken * sizeof(waiting_token) >= g->waiting.len) {
        buf_clear(&g->waiting);
        buf_clear(&g->waiting_text);
        g->n_taken = 0;
        return false;
    }
    const waiting_token *w = (const waiting_token *)(const void *)g->waiting.data + g->n_taken++;
    *t = w->t;
    t->text = (const char *)g->waiting_text.data + w->text_at;
    t->top = t->n_top > 0 ? w->top : NULL;
    return true;
}
