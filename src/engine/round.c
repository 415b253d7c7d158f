/* round.c - rounds: draft, verify in one forward call, accept, roll the rest back as one unit.
 *
 * Every emitted token is the model's own draw, with noise that depends on seed, position and token
 * alone. A draft is drawn from the drafter's distribution with the same noise, and is accepted when the
 * two agree: so the text is the one that rounds without drafts give, whatever the drafter proposes
 * (coupled verification, docs/sampling.md).
 *
 * 1. A token is decided, counted and delivered one at a time, through emit(), in every kind of round.
 * 2. Behind a round the session holds the rows of all emitted tokens but the last, which is pending:
 *    exactly what rounds without drafts leave.
 */
#include "engine/draft_bytes.h"
#include "engine/generate.h"

/* ---- One token --------------------------------------------------------------------------------------- */

/* The token for position pos from the row of logits before it. */
static ft_status decide(generation *g, const float *logits, int pos, int32_t *id, ft_error *err)
{
    ft_session *s = g->s;
    if (s->on_row)
        s->on_row(s->hook_ctx, pos, logits);
    double t0 = engine_now();
    sample_row row = {.logits = logits, .n = s->model->m->h.n_vocab};
    ft_status st = sample_distribution(s->sampler, &s->dist, &row, &g->sample, err);
    if (st == FT_OK)
        *id = sample_draw(&s->dist, g->sample.seed, pos);
    g->stats->sample_seconds += engine_now() - t0;
    return st;
}

/* What a decided token adds to the text, into g->out; last: no further text will follow. */
static ft_status add_text(generation *g, int32_t id, bool last, ft_error *err)
{
    const tokenizer *tok = g->s->model->tok;
    buf_clear(&g->out);
    if (tok) {
        detok_put(&g->text, tok, id, !g->p->special, &g->out);
        if (last)
            detok_flush(&g->text, &g->out);
    }
    return buf_status(&g->out, "generate: text", err);
}

/* Hand a token and its text to the caller. False: the caller wants no more. */
static bool deliver(generation *g, int32_t id, ft_token_kind kind)
{
    ft_token t = {.id = id, .text = buf_cstr(&g->out), .len = g->out.len, .kind = kind};
    if (g->p->on_token && !g->p->on_token(g->p->on_token_ctx, &t))
        return false;
    return !atomic_load(&g->s->cancel);
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

/* A token is decided: count it, deliver it, let it wait for its turn to be evaluated. */
static ft_status emit(generation *g, int32_t id, int pos, ft_token_kind kind, bool *last,
                      ft_error *err)
{
    *last = ends(g, id, pos, &g->stats->finish);
    TRY(add_text(g, id, *last, err));
    g->s->pending = id;
    g->stats->n_token++;
    if (!deliver(g, id, kind) && !*last) {
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

/* The drafter's choice for position pos; false: it has none worth verifying. A row of the drafter that
 * is no distribution (NaN) costs a draft, never the request (B046). */
static bool choose(generation *g, const float *logits, int pos, int32_t *id)
{
    ft_session *s = g->s;
    double t0 = engine_now();
    sample_row row = {.logits = logits, .n = s->head_n, .id = s->head_id};
    bool ok = sample_distribution(s->sampler, &s->q, &row, &g->sample, NULL) == FT_OK;
    double best = 0;
    for (int i = 0; ok && i < s->q.n; i++)
        best = s->q.p[i] > best ? s->q.p[i] : best;
    if (ok)
        *id = sample_draw(&s->q, g->sample.seed, pos);
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

/* Drafts for the positions behind the pending token. */
static int make_drafts(generation *g, int32_t *draft, int k)
{
    ft_session *s = g->s;
    int n_past = s->state->n_past, n = 0;
    if (k == 0)
        return 0;
    if (s->script)
        return scripted(g, draft, k);
    if (!s->drafter || !draft_ready(s->drafter, n_past))
        return 0;
    double t0 = engine_now(), sampled = g->stats->sample_seconds;
    const float *row = draft_begin(s->drafter, &s->scratch, s->state->tok, n_past, s->pending);
    g->stats->draft.steps++;
    while (choose(g, row, n_past + 1 + n, &draft[n]) && ++n < k) {
        row = draft_next(s->drafter, &s->scratch, draft[n - 1]);
        g->stats->draft.steps++;
    }
    draft_end(s->drafter);
    g->stats->draft.draft_seconds += engine_now() - t0 - (g->stats->sample_seconds - sampled);
    return n;
}

/* ---- Rounds ------------------------------------------------------------------------------------------ */

/* Evaluate the pending token, which is final, and the drafts behind it. */
static ft_status verify(generation *g, const int32_t *draft, int n, ft_error *err)
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

/* Decide tokens row by row, as long as the drafts agree. *n_kept: drafts that are kept. */
static ft_status accept(generation *g, const int32_t *draft, int n, int pos, int *n_kept,
                        bool *last, ft_error *err)
{
    ft_draft_stats *d = &g->stats->draft;
    size_t vocab = (size_t)g->s->model->m->h.n_vocab;
    for (*n_kept = 0;; ++*n_kept) {
        int i = *n_kept;
        int32_t id;
        TRY(decide(g, g->s->rows + (size_t)i * vocab, pos + i, &id, err));
        bool agree = i < n && id == draft[i];
        if (i < n) {
            d->verified_at[i]++;
            d->accepted_at[i] += agree;
            d->accepted += agree;
        }
        ft_token_kind kind = i == n  ? FT_TOKEN_PLAIN
                             : agree ? FT_TOKEN_ACCEPTED
                                     : FT_TOKEN_CORRECTED;
        TRY(emit(g, id, pos + i, kind, last, err));
        if (*last || !agree)
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

/* Tell the controller what the round took. */
static void round_measured(generation *g, const round_cost *was, int n, int n_kept)
{
    const ft_generate_stats *s = g->stats;
    adapt_round r = {.n_step = (int)(s->draft.steps - was->steps),
                     .n_draft = n,
                     .n_accept = n_kept,
                     .draft_s = s->draft.draft_seconds - was->draft,
                     .verify_s = s->draft.verify_seconds - was->verify,
                     .sample_s = s->sample_seconds - was->sample};
    adapt_measured(&g->s->adapt, &r);
}

static ft_status one_round(generation *g, bool *last, ft_error *err)
{
    ft_session *s = g->s;
    int32_t draft[FT_DRAFT_MAX];
    int first = s->state->n_past, n_kept = 0;
    int room = most_drafts(g);
    bool can = s->drafter || s->script;
    int k = !can ? 0 : g->p->draft_fixed ? room : adapt_k(&s->adapt, room);
    round_cost cost = round_start(g);
    int n = make_drafts(g, draft, k);
    TRY(verify(g, draft, n, err));
    g->stats->draft.rounds++;
    g->stats->draft.drafted += (uint64_t)n;
    ft_status st = accept(g, draft, n, first + 1, &n_kept, last, err);
    if (!g->p->draft_fixed && !*last) /* an end cuts a round short: nothing to learn from */
        round_measured(g, &cost, n, n_kept);
    seq_accept(s->state, n_kept); /* also after a failure: the rows of what was delivered */
    if (s->drafter)
        draft_observe(s->drafter, &s->scratch, s->state->tok, first, n_kept + 1, s->hidden,
                      first + n_kept + 1);
    return st;
}

ft_status generate_rounds(generation *g, ft_error *err)
{
    ft_session *s = g->s;
    int32_t id;
    bool last;
    int pos = s->state->n_past;
    TRY(decide(g, s->logits, pos, &id, err));
    TRY(emit(g, id, pos, FT_TOKEN_PLAIN, &last, err));
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
        if (s->drafter)
            d->step_bytes =
                draft_step_bytes(s->model->m, &s->model->dw->mtp, draft_last_read(s->drafter),
                                 s->state->shape.kv_type, s->head_n);
    } else if (!s->drafter) {
        d->off_reason = s->no_draft_reason;
    } else if (g->p->draft_max == 0) {
        d->off_reason = "the request asks for none";
    } else {
        d->off_reason = "none was worth its cost, or the text was too short";
    }
    d->state_bytes = s->drafter ? draft_bytes(s->drafter) : 0;
}
