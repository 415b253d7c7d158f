/* round.c - rounds: draft, verify in one forward call, accept, roll the rest back as one unit.
 *
 * Which drafts become text is sample/verify.h's business. Under the default rule, coupled, every emitted
 * token is the model's own draw, and the text the one that rounds without drafts give, whatever the
 * drafter proposes (docs/sampling.md).
 *
 * 1. A token is decided, counted and delivered one at a time, through emit(), in every kind of round.
 * 2. Behind a round the session holds the rows of all emitted tokens but the last, which is pending:
 *    exactly what rounds without drafts leave.
 */
#include <math.h>

#include "engine/account.h"
#include "engine/generate.h"

_Static_assert((int)FT_VERIFY_COUPLED == (int)VERIFY_COUPLED &&
                   (int)FT_VERIFY_BLOCK == (int)VERIFY_BLOCK &&
                   (int)FT_VERIFY_RATIO == (int)VERIFY_RATIO &&
                   (int)FT_VERIFY_GREEDY_MATCH == (int)VERIFY_GREEDY_MATCH,
               "foretoken.h and verify.h name the same rules");

/* ---- One token --------------------------------------------------------------------------------------- */

/* The parameters for the n-th token of the generation. */
static const sample_params *params_for(const generation *g, int n)
{
    return n < g->p->n_min ? &g->sample_min : &g->sample;
}

/* The distribution of the token for position pos, the n-th of the generation, from the row of logits
 * before it. */
static ft_status distribution(generation *g, const float *logits, int pos, int n, sample_dist *out,
                              ft_error *err)
{
    ft_session *s = g->s;
    if (s->on_row)
        s->on_row(s->hook_ctx, pos, logits);
    double t0 = engine_now();
    sample_row row = {
        .logits = logits, .n = s->model->m->h.n_vocab, .hist = s->state->tok, .n_hist = pos};
    ft_status st = sample_distribution(s->sampler, out, &row, params_for(g, n), err);
    g->stats->sample_seconds += engine_now() - t0;
    return st;
}

/* What a decided token adds to the text, into g->out. *last: no further text will follow; set when a stop
 * string is complete. */
static ft_status add_text(generation *g, int32_t id, bool *last, ft_error *err)
{
    const tokenizer *tok = g->s->model->tok;
    buf_clear(&g->piece);
    buf_clear(&g->out);
    if (tok) {
        detok_put(&g->text, tok, id, !g->p->special, &g->piece);
        if (*last)
            detok_flush(&g->text, &g->piece);
    }
    const char *piece = buf_cstr(&g->piece);
    if (piece && stops_put(&g->stops, piece, g->piece.len, &g->out)) {
        *last = true;
        g->stats->finish = FT_FINISH_STOP;
    } else if (*last) {
        stops_flush(&g->stops, &g->out);
    }
    TRY(buf_status(&g->piece, "generate: text", err));
    TRY(buf_status(&g->stops.held, "generate: text", err));
    return buf_status(&g->out, "generate: text", err);
}

/* Log-probabilities of the token in hand: by the model alone from its row of logits, and by the
 * distribution p that it was drawn from. */
static void add_logprobs(generation *g, const float *logits, const sample_dist *p, ft_token *t)
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
    for (int i = 0; i < n && g->p->n_top > 0; i++) {
        double lp = (double)logits[i] - norm;
        if (t->n_top == g->p->n_top && lp <= g->top[t->n_top - 1].logprob)
            continue;
        int at = t->n_top < g->p->n_top ? t->n_top++ : t->n_top - 1;
        for (; at > 0 && g->top[at - 1].logprob < lp; at--)
            g->top[at] = g->top[at - 1];
        g->top[at] = (ft_alternative){.id = i, .logprob = lp};
    }
    t->top = g->top;
}

/* Why the token of position pos is the last one; false: it is not. */
static bool ends(const generation *g, int32_t id, int pos, ft_finish *why)
{
    const ft_session *s = g->s;
    if (s->model->tok && !g->p->ignore_eos && tok_is_end(s->model->tok, id))
        *why = FT_FINISH_STOP;
    else if (g->p->n_max >= 0 && g->stats->n_token + 1 >= g->p->n_max)
        *why = FT_FINISH_LENGTH;
    else if (pos >= s->state->shape.n_ctx)
        *why = FT_FINISH_CONTEXT;
    else
        return false;
    return true;
}

/* A token is decided, from this row of logits and this distribution: count it, deliver it, let it wait for
 * its turn to be evaluated. */
static ft_status emit(generation *g, int32_t id, int pos, const float *logits, const sample_dist *p,
                      ft_token_kind kind, bool *last, ft_error *err)
{
    *last = ends(g, id, pos, &g->stats->finish);
    TRY(add_text(g, id, last, err));
    g->s->pending = id;
    g->stats->n_token++;
    ft_token t = {.id = id, .text = buf_cstr(&g->out), .len = g->out.len, .kind = kind};
    if (g->p->logprobs)
        add_logprobs(g, logits, p, &t);
    bool more = !g->p->on_token || g->p->on_token(g->p->on_token_ctx, &t);
    if ((!more || atomic_load(&g->s->cancel)) && !*last) {
        g->stats->finish = FT_FINISH_CANCELLED;
        *last = true;
    }
    return FT_OK;
}

/* ---- Drafts ------------------------------------------------------------------------------------------ */

/* How many drafts at most: the request's wish, what fits the context, what can still be emitted. */
static int most_drafts(const generation *g)
{
    const ft_session *s = g->s;
    int k = g->p->draft_max;
    int room = s->state->shape.n_ctx - s->state->n_past - 1;
    k = k < room ? k : room;
    if (g->p->n_max >= 0) {
        int left = g->p->n_max - g->stats->n_token - 1; /* the round's own token besides */
        k = k < left ? k : left;
    }
    return k > 0 ? k : 0;
}

/* The drafter's own distribution of draft i, from its logits, into q; false: it has no draft worth
 * verifying. A row of the drafter that is no distribution (NaN) costs a draft, never the request (B046).
 * Whether a draft is made depends on its distribution, not on what would be drawn from it. */
static bool propose(generation *g, const float *logits, int i, sample_dist *q)
{
    ft_session *s = g->s;
    double t0 = engine_now();
    sample_row row = {.logits = logits,
                      .n = s->head_n,
                      .id = s->head_id,
                      .hist = s->state->tok,
                      .n_hist = s->state->n_past + 1 + i};
    bool ok = sample_distribution(s->sampler, q, &row, params_for(g, g->stats->n_token + i),
                                  NULL) == FT_OK;
    double best = 0;
    for (int k = 0; ok && k < q->n; k++)
        best = q->p[k] > best ? q->p[k] : best;
    g->stats->sample_seconds += engine_now() - t0;
    return ok && best >= (double)g->p->draft_p_min;
}

static int scripted(generation *g, int32_t *draft, int k)
{
    int n = 0;
    for (; n < k; n++) {
        draft[n] = g->s->script(g->s->hook_ctx, g->s->state->n_past + 1 + n, n);
        if (draft[n] < 0)
            break;
    }
    return n;
}

/* Drafts for the positions behind the pending token. Their history, the pending token and the drafts so
 * far, is put where verification will put it anyway. */
static int make_drafts(generation *g, verify_round *r, int32_t *draft, int k)
{
    ft_session *s = g->s;
    int n_past = s->state->n_past, n = 0;
    int32_t *tok = s->state->tok + n_past;
    if (k == 0)
        return 0;
    if (s->script)
        return scripted(g, draft, k);
    if (!s->drafter || !draft_ready(s->drafter, n_past))
        return 0;
    double t0 = engine_now(), sampled = g->stats->sample_seconds;
    tok[0] = s->pending;
    const float *row = draft_begin(s->drafter, &s->scratch, s->state->tok, n_past, s->pending);
    for (;;) {
        sample_dist *q = g->q ? &g->q[n] : &s->q;
        g->stats->draft.steps++;
        if (!propose(g, row, n, q))
            break;
        draft[n] = verify_draft(r, n, q);
        tok[1 + n] = draft[n];
        if (++n == k)
            break;
        row = draft_next(s->drafter, &s->scratch, draft[n - 1]);
    }
    draft_end(s->drafter);
    g->stats->draft.draft_seconds += engine_now() - t0 - (g->stats->sample_seconds - sampled);
    return n;
}

/* ---- Rounds ------------------------------------------------------------------------------------------ */

/* Evaluate the pending token, which is final, and the drafts behind it. */
static ft_status evaluate(generation *g, const int32_t *draft, int n, ft_error *err)
{
    ft_session *s = g->s;
    int32_t tok[SESSION_WINDOW + 1], want[SESSION_WINDOW + 1];
    tok[0] = s->pending;
    for (int i = 0; i <= n; i++) {
        want[i] = i;
        if (i > 0)
            tok[i] = draft[i - 1];
    }
    layer_seg seg = {.s = s->state, .n_row = n + 1, .n_commit = 1};
    layer_batch b = {.tok = tok,
                     .seg = &seg,
                     .n_seg = 1,
                     .want = want,
                     .n_want = n + 1,
                     .logits = s->rows,
                     .hidden = s->hidden};
    double t0 = engine_now();
    TRY(session_forward(s, &b, err));
    s->pending = -1;
    g->stats->draft.verify_seconds += engine_now() - t0;
    return FT_OK;
}

/* What the rule has to see before the first row is decided. */
static ft_status look_ahead(generation *g, verify_round *r, int32_t *top, ft_error *err)
{
    size_t vocab = (size_t)g->s->model->m->h.n_vocab;
    if (r->rule == VERIFY_BLOCK) {
        for (int i = 0; i <= r->n_draft; i++)
            TRY(distribution(g, g->s->rows + (size_t)i * vocab, r->first + i, g->stats->n_token + i,
                             &g->rows_p[i], err));
        r->p = g->rows_p;
    }
    if (r->rule == VERIFY_GREEDY_MATCH) {
        for (int i = 0; i < r->n_draft; i++)
            top[i] = verify_top(g->s->rows + (size_t)i * vocab, (int)vocab);
        r->top = top;
    }
    return FT_OK;
}

/* Decide and emit tokens row by row until the rule says that the round is over, or the text ends. *n_kept:
 * drafts that are kept. */
static ft_status accept(generation *g, verify_round *r, int *n_kept, bool *last, ft_error *err)
{
    ft_session *s = g->s;
    ft_draft_stats *d = &g->stats->draft;
    size_t vocab = (size_t)s->model->m->h.n_vocab;
    int32_t top[FT_DRAFT_MAX];
    verify v;
    *n_kept = 0;
    TRY(look_ahead(g, r, top, err));
    TRY(verify_begin(&v, r, err));
    for (int i = 0;; i++) {
        const float *row = s->rows + (size_t)i * vocab;
        sample_dist *p = r->p ? &g->rows_p[i] : &s->dist;
        if (!r->p)
            TRY(distribution(g, row, r->first + i, g->stats->n_token, p, err));
        double t0 = engine_now();
        verify_token t = verify_next(&v, p);
        g->stats->sample_seconds += engine_now() - t0;
        if (i < r->n_draft) {
            d->verified_at[i]++;
            d->accepted_at[i] += t.accepted;
            d->accepted += t.accepted;
        }
        ft_token_kind kind = i == r->n_draft ? FT_TOKEN_PLAIN
                             : t.accepted    ? FT_TOKEN_ACCEPTED
                                             : FT_TOKEN_CORRECTED;
        TRY(emit(g, t.token, r->first + i, row, p, kind, last, err));
        *n_kept =
            i; /* row i + 1 holds this token; it is evaluated again only if the text goes on */
        if (*last || t.last)
            return FT_OK;
    }
}

/* What the statistics said when a round began. */
typedef struct {
    uint64_t steps;
    double draft, verify, sample;
} round_cost;

static round_cost round_start(const generation *g)
{
    const ft_generate_stats *s = g->stats;
    return (round_cost){s->draft.steps, s->draft.draft_seconds, s->draft.verify_seconds,
                        s->sample_seconds};
}

/* Tell the controller what the round took. catch_up_s: taking its rows over. */
static void round_measured(generation *g, const round_cost *was, int n, int n_kept,
                           double catch_up_s)
{
    const ft_generate_stats *s = g->stats;
    adapt_round r = {.n_step = (int)(s->draft.steps - was->steps),
                     .n_draft = n,
                     .n_accept = n_kept,
                     .catch_up_s = catch_up_s,
                     .draft_s = s->draft.draft_seconds - was->draft,
                     .verify_s = s->draft.verify_seconds - was->verify,
                     .sample_s = s->sample_seconds - was->sample};
    adapt_measured(&g->s->adapt, &r);
}

static ft_status one_round(generation *g, bool *last, ft_error *err)
{
    ft_session *s = g->s;
    int32_t draft[FT_DRAFT_MAX];
    int first = s->state->n_past, n_kept = 0, room = most_drafts(g);
    verify_round r = {.rule = (verify_rule)g->p->verify,
                      .argmax = g->p->draft_argmax,
                      .seed = g->sample.seed,
                      .first = first + 1,
                      .draft = draft};
    bool can = s->drafter || s->script;
    int k = !can ? 0 : g->p->draft_fixed ? room : adapt_k(&s->adapt, room);
    round_cost cost = round_start(g);
    int n = make_drafts(g, &r, draft, k);
    r.n_draft = n;
    if (!r.argmax && (r.rule == VERIFY_BLOCK || r.rule == VERIFY_RATIO))
        r.q = g->q;
    TRY(evaluate(g, draft, n, err));
    g->stats->draft.rounds++;
    g->stats->draft.drafted += (uint64_t)n;
    ft_status st = accept(g, &r, &n_kept, last, err);
    double t0 = engine_now();
    seq_accept(s->state, n_kept); /* also after a failure: the rows of what was delivered */
    if (s->drafter)
        draft_observe(s->drafter, &s->scratch, s->state->tok, first, n_kept + 1, s->hidden,
                      first + n_kept + 1);
    if (!g->p->draft_fixed && !*last) /* an end cuts a round short: nothing to learn from */
        round_measured(g, &cost, n, n_kept, engine_now() - t0);
    return st;
}

ft_status generate_rounds(generation *g, ft_error *err)
{
    ft_session *s = g->s;
    bool last;
    int pos = s->state->n_past;
    TRY(distribution(g, s->logits, pos, 0, &s->dist, err));
    int32_t id = sample_draw(&s->dist, g->sample.seed, pos);
    TRY(emit(g, id, pos, s->logits, &s->dist, FT_TOKEN_PLAIN, &last, err));
    if (!g->p->draft_fixed) {
        adapt_params p = {.k_max = g->p->draft_max, .k_fixed = -1, .p_min = g->p->draft_p_min};
        if (s->adapt.p.k_max != p.k_max || s->adapt.p.p_min != p.p_min)
            adapt_init(&s->adapt, &p); /* what was learnt belongs to other settings */
    }
    while (!last)
        TRY(one_round(g, &last, err));
    return FT_OK;
}

void generate_draft_stats(generation *g)
{
    ft_session *s = g->s;
    ft_draft_stats *d = &g->stats->draft;
    d->off_reason = "";
    if (d->drafted > 0) {
        const account_draft_opts o = {.n_cell = s->drafter ? draft_last_read(s->drafter) : 0,
                                      .kv = s->state->shape.kv_type,
                                      .n_head = s->head_n};
        if (s->drafter)
            d->step_bytes = account_draft_bytes(s->model->m, &s->model->dw->mtp, &o);
    } else if (!s->drafter) {
        d->off_reason = s->no_draft_reason;
    } else if (g->p->draft_max == 0) {
        d->off_reason = "the request asks for none";
    } else {
        d->off_reason = "none was worth its cost, or the text was too short";
    }
    d->state_bytes = s->drafter ? draft_bytes(s->drafter) : 0;
}
