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

/* ---- Drafts ------------------------------------------------------------------------------------------ */

/* How many drafts at most: the request's wish, what fits the context, what can still be emitted. */
static int most_drafts(const ft_generation *g)
{
    const ft_session *s = g->s;
    int k = g->p.draft_max;
    int room = s->state->shape.n_ctx - s->state->n_past - 1;
    k = k < room ? k : room;
    if (g->p.n_max >= 0) {
        int left = g->p.n_max - g->stats.n_token - 1; /* the round's own token besides */
        k = k < left ? k : left;
    }
    return k > 0 ? k : 0;
}

/* The drafter's own distribution of draft i, from its logits, into q; false: it has no draft worth
 * verifying. A row of the drafter that is no distribution (NaN) costs a draft, never the request (B046).
 * Whether a draft is made depends on its distribution, not on what would be drawn from it. */
static bool propose(ft_generation *g, const float *logits, int i, sample_dist *q)
{
    ft_session *s = g->s;
    double t0 = engine_now();
    sample_row row = {.logits = logits,
                      .n = s->head_n,
                      .id = s->head_id,
                      .hist = s->state->tok,
                      .n_hist = s->state->n_past + 1 + i};
    bool ok = sample_distribution(s->sampler, q, &row, emit_params(g, g->stats.n_token + i),
                                  NULL) == FT_OK;
    double best = 0;
    for (int k = 0; ok && k < q->n; k++)
        best = q->p[k] > best ? q->p[k] : best;
    g->stats.sample_seconds += engine_now() - t0;
    return ok && best >= (double)g->p.draft_p_min;
}

static int scripted(ft_generation *g, int k)
{
    const ft_session *s = g->s;
    int n = 0;
    for (; n < k; n++) {
        g->draft[n] = s->script(s->hook_ctx, s->state->n_past + 1 + n, n);
        if (g->draft[n] < 0)
            break;
    }
    return n;
}

/* The next step of g's chain. Its history, the pending token and the drafts so far, is put where
 * verification will put it anyway. */
static draft_step next_step(const ft_generation *g)
{
    ft_session *s = g->s;
    int n_past = s->state->n_past;
    if (g->n_draft > 0)
        return (draft_step){.d = s->drafter, .next = g->draft[g->n_draft - 1]};
    s->state->tok[n_past] = s->pending;
    return (draft_step){
        .d = s->drafter, .tok = s->state->tok, .n_past = n_past, .next = s->pending};
}

/* The step's logits are there: g goes on drafting if it gets a draft from them and wants more. */
static void take_draft(ft_generation *g, const float *logits)
{
    ft_session *s = g->s;
    int n = g->n_draft;
    sample_dist *q = g->q ? &g->q[n] : &s->q;
    g->stats.draft.steps++;
    g->drafting = propose(g, logits, n, q);
    if (g->drafting) {
        g->draft[n] = verify_draft(&g->round, n, q);
        s->state->tok[s->state->n_past + 1 + n] = g->draft[n];
        g->n_draft = n + 1;
        g->drafting = g->n_draft < g->k_draft;
    }
    if (!g->drafting)
        draft_end(s->drafter);
}

/* A step of each of g [n] that is drafting, in one call. Returns how many went on. */
static int draft_together(ft_generation *const *g, int n)
{
    draft_step step[BATCH_MAX_SESSION];
    ft_generation *of[BATCH_MAX_SESSION];
    int n_step = 0;
    for (int i = 0; i < n; i++)
        if (g[i]->drafting) {
            of[n_step] = g[i];
            step[n_step++] = next_step(g[i]);
        }
    if (n_step == 0)
        return 0;
    ft_batch *b = g[0]->s->batch;
    double t0 = engine_now();
    draft_steps(step, n_step, b->logits, &b->scratch);
    double shared = engine_now() - t0; /* of everyone: all of them waited for it */
    for (int i = 0; i < n_step; i++) {
        double t1 = engine_now(), sampled = of[i]->stats.sample_seconds;
        if (step[i].logits)
            take_draft(of[i], step[i].logits);
        else
            of[i]->drafting = false; /* no memory for cells: counted by the drafter */
        of[i]->stats.draft.draft_seconds +=
            shared + engine_now() - t1 - (of[i]->stats.sample_seconds - sampled);
    }
    return n_step;
}

/* Before the drafts of a round: how many, by which rule. */
static void begin(ft_generation *g)
{
    ft_session *s = g->s;
    const ft_generate_stats *st = &g->stats;
    int n_past = s->state->n_past, room = most_drafts(g);
    g->round = (verify_round){.rule = (verify_rule)g->p.verify,
                              .argmax = g->p.draft_argmax,
                              .seed = g->sample.seed,
                              .first = s->n_dropped + n_past + 1,
                              .draft = g->draft};
    g->cost = (round_cost){st->draft.steps, st->draft.draft_seconds, st->draft.verify_seconds,
                           st->sample_seconds};
    bool can = s->drafter || s->script;
    g->k_draft = !can ? 0 : g->p.draft_fixed ? room : adapt_k(&s->adapt, room);
    g->n_draft = 0;
    g->drafting = false;
    if (g->k_draft > 0 && s->script)
        g->n_draft = scripted(g, g->k_draft);
    else if (g->k_draft > 0)
        g->drafting = draft_ready(s->drafter, n_past);
}

void round_prepare(ft_generation *const *g, int n)
{
    for (int i = 0; i < n; i++)
        begin(g[i]);
    while (draft_together(g, n) > 0) {
    }
    for (int i = 0; i < n; i++) {
        ft_generation *x = g[i];
        x->n_row = x->n_draft + 1;
        x->round.n_draft = x->n_draft;
        bool compares = x->round.rule == VERIFY_BLOCK || x->round.rule == VERIFY_RATIO;
        x->round.q = compares && !x->round.argmax ? x->q : NULL;
    }
}

void round_rows(const ft_generation *g, int32_t *tok)
{
    tok[0] = g->s->pending;
    for (int i = 0; i < g->n_draft; i++)
        tok[1 + i] = g->draft[i];
}

/* ---- Decisions --------------------------------------------------------------------------------------- */

/* What the rule has to see before the first row is decided. */
static ft_status look_ahead(ft_generation *g, const float *logits, int pos, int32_t *top,
                            ft_error *err)
{
    size_t vocab = (size_t)g->s->model->m->h.n_vocab;
    verify_round *r = &g->round;
    if (r->rule == VERIFY_BLOCK) {
        for (int i = 0; i <= r->n_draft; i++)
            TRY(emit_distribution(g, logits + (size_t)i * vocab, pos + i, g->stats.n_token + i,
                                  &g->rows_p[i], err));
        r->p = g->rows_p;
    }
    if (r->rule == VERIFY_GREEDY_MATCH) {
        for (int i = 0; i < r->n_draft; i++)
            top[i] = verify_top(logits + (size_t)i * vocab, (int)vocab);
        r->top = top;
    }
    return FT_OK;
}

/* Decide and emit tokens row by row, from position pos on, until the rule says that the round is over, or
 * the text ends. *n_kept: drafts that are kept. */
static ft_status accept(ft_generation *g, const float *logits, int pos, int *n_kept, ft_error *err)
{
    ft_session *s = g->s;
    ft_draft_stats *d = &g->stats.draft;
    verify_round *r = &g->round;
    size_t vocab = (size_t)s->model->m->h.n_vocab;
    int32_t top[FT_DRAFT_MAX];
    verify v;
    TRY(look_ahead(g, logits, pos, top, err));
    TRY(verify_begin(&v, r, err));
    for (int i = 0;; i++) {
        const float *row = logits + (size_t)i * vocab;
        sample_dist *p = r->p ? &g->rows_p[i] : &s->dist;
        if (!r->p)
            TRY(emit_distribution(g, row, pos + i, g->stats.n_token, p, err));
        double t0 = engine_now();
        verify_token t = verify_next(&v, p);
        g->stats.sample_seconds += engine_now() - t0;
        if (i < r->n_draft) {
            d->verified_at[i]++;
            d->accepted_at[i] += t.accepted;
            d->accepted += t.accepted;
        }
        ft_token_kind kind = i == r->n_draft ? FT_TOKEN_PLAIN
                             : t.accepted    ? FT_TOKEN_ACCEPTED
                                             : FT_TOKEN_CORRECTED;
        bool last;
        TRY(emit(g, t.token, pos + i, row, p, kind, &last, err));
        *n_kept =
            i; /* row i + 1 holds this token; it is evaluated again only if the text goes on */
        if (last || t.last)
            return FT_OK;
    }
}

/* Tell the controller what the round took. catch_up_s: taking its rows over. The time of a step that
 * others share says nothing about the generation's own rounds. */
static void measured(ft_generation *g, int n_kept, double catch_up_s)
{
    const ft_generate_stats *s = &g->stats;
    double own = g->alone ? 0 : (double)NAN;
    adapt_round r = {.n_step = (int)(s->draft.steps - g->cost.steps),
                     .n_draft = g->n_draft,
                     .n_accept = n_kept,
                     .catch_up_s = catch_up_s + own,
                     .draft_s = s->draft.draft_seconds - g->cost.draft + own,
                     .verify_s = s->draft.verify_seconds - g->cost.verify + own,
                     .sample_s = s->sample_seconds - g->cost.sample + own};
    adapt_measured(&g->s->adapt, &r);
}

ft_status round_finish(ft_generation *g, const float *logits, const float *hidden, double seconds,
                       ft_error *err)
{
    ft_session *s = g->s;
    int n_kept = 0, first = s->state->n_past - 1; /* of the rows */
    s->pending = -1;
    g->stats.draft.verify_seconds += seconds;
    g->stats.draft.rounds++;
    g->stats.draft.drafted += (uint64_t)g->n_draft;
    ft_status st = accept(g, logits, first + 1, &n_kept, err);
    double t0 = engine_now();
    seq_accept(s->state, n_kept); /* also after a failure: the rows of what was delivered */
    session_observe(s, first, n_kept + 1, hidden, first + n_kept + 1);
    bool over = g->state != FT_GENERATION_DECODE; /* cut short: nothing to learn from */
    if (!g->p.draft_fixed && !over)
        measured(g, n_kept, engine_now() - t0);
    if (st != FT_OK || over)
        return st;
    TRY(generate_checkpoint(g, err));
    if (s->state->n_past == s->state->shape.n_ctx)
        return context_drop(g, err);
    return FT_OK;
}

void round_draft_stats(ft_generation *g)
{
    ft_session *s = g->s;
    ft_draft_stats *d = &g->stats.draft;
    d->off_reason = "";
    if (d->drafted > 0) {
        const account_draft_opts o = {.n_cell = s->drafter ? draft_last_read(s->drafter) : 0,
                                      .kv = s->state->shape.kv_type,
                                      .n_head = s->head_n};
        if (s->drafter)
            d->step_bytes = account_draft_bytes(s->model->m, &s->model->dw->mtp, &o);
    } else if (!s->drafter) {
        d->off_reason = s->no_draft_reason;
    } else if (g->p.draft_max == 0) {
        d->off_reason = "the request asks for none";
    } else {
        d->off_reason = "none was worth its cost, or the text was too short";
    }
    d->failed = s->drafter ? draft_failed(s->drafter) - g->n_failed : 0;
    d->state_bytes = s->drafter ? draft_bytes(s->drafter) : 0;
}
