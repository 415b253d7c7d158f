/* verify.c - the rules of verify.h.
 *
 * 1. Rows of block and ratio whose draft is not accepted draw from max(w p - q, 0), normalised: the
 *    part of p that drafts have not delivered. w is 1 under ratio.
 * 2. Where drafts are the drafter's most probable tokens, q has all its mass on the draft: then
 *    ratio accepts with p(d), and max(p - q, 0) is p without d.
 */
#include "sample/verify.h"

#include <assert.h>
#include <math.h>

#include "sample/noise.h"

const char *verify_rule_name(verify_rule r)
{
    static const char *const name[] = {
#define VERIFY_RULE_NAME(name, text) text,
        VERIFY_RULE_LIST(VERIFY_RULE_NAME)
#undef VERIFY_RULE_NAME
    };
    return r < VERIFY_N_RULE ? name[r] : "unknown";
}

/* ---- Drafts ----------------------------------------------------------------------------------- */

int32_t verify_draft(const verify_round *r, int i, const sample_dist *q)
{
    int32_t pos = r->first + i;
    if (r->argmax) {
        int best = 0;
        for (int j = 1; j < q->n; j++)
            best = q->p[j] > q->p[best] ? j : best;
        return q->id[best];
    }
    if (r->rule == VERIFY_BLOCK || r->rule == VERIFY_RATIO)
        return noise_draw(q, r->seed, pos, SAMPLE_FOR_DRAFT, r->first);
    return sample_draw(q, r->seed, pos);
}

int32_t verify_top(const float *logits, int n)
{
    int32_t best = 0;
    float highest = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (logits[i] > highest) {
            highest = logits[i];
            best = i;
        }
    }
    return best;
}

/* ---- p against q ------------------------------------------------------------------------------ */

/* What draft[i] was drawn from, as ascending ids and their probabilities. */
typedef struct {
    int n;
    const int32_t *id;
    const double *p;
} mass;

static mass drafted(const verify_round *r, int i)
{
    static const double certain = 1;
    if (r->argmax)
        return (mass){1, &r->draft[i], &certain};
    return (mass){r->q[i].n, r->q[i].id, r->q[i].p};
}

/* p(d) / q(d) of draft[i] in its row; 0 when p does not have it. */
static double ratio(const verify_round *r, int i, const sample_dist *p)
{
    double log_q = r->argmax ? 0 : sample_dist_logp(&r->q[i], r->draft[i]);
    return exp(sample_dist_logp(p, r->draft[i]) - log_q);
}

/* max(w p - q, 0) of entry j of p; *at goes through q as j goes up from 0. */
static double excess(const sample_dist *p, int j, double w, const mass *q, int *at)
{
    while (*at < q->n && q->id[*at] < p->id[j])
        ++*at;
    bool both = *at < q->n && q->id[*at] == p->id[j];
    return fmax(w * p->p[j] - (both ? q->p[*at] : 0), 0);
}

static double excess_sum(const sample_dist *p, double w, mass q)
{
    double sum = 0;
    for (int j = 0, at = 0; j < p->n; j++)
        sum += excess(p, j, w, &q, &at);
    return sum;
}

/* A token of the distribution max(w p - q, 0), normalised. */
static int32_t draw_excess(const sample_dist *p, double w, mass q, uint64_t seed, int32_t pos)
{
    int32_t best_id = -1;
    double best = -(double)INFINITY;
    for (int j = 0, at = 0; j < p->n; j++) {
        double e = excess(p, j, w, &q, &at);
        if (e == 0)
            continue;
        double u = sample_uniform(seed, pos, p->id[j], SAMPLE_FOR_CORRECT);
        double x = log(e) + noise_gumbel(u);
        if (x > best || best_id < 0) {
            best = x;
            best_id = p->id[j];
        }
    }
    /* w p <= q everywhere: p and q are equal up to rounding, and only rounding can reject then */
    return best_id < 0 ? sample_draw(p, seed, pos) : best_id;
}

/* ---- Acceptance ------------------------------------------------------------------------------- */

/* A number that decides on draft[i]; in block it may count although the round ends before i. */
static double accept_uniform(const verify_round *r, int i)
{
    return noise_uniform(r->seed, r->first + i, 0, SAMPLE_FOR_ACCEPT, r->first);
}

/* Algorithm 2 of Sun et al. 2024: p_i = min(p_{i-1} M_b / M_s, 1) is the weight, h_i the result. */
double verify_block_chance(const verify_round *r, int i, double *w)
{
    /* a weight of 0 stays: nothing behind an impossible draft, and no 0 times infinity */
    *w = *w > 0 ? fmin(*w * ratio(r, i - 1, &r->p[i - 1]), 1) : 0;
    if (i == r->n_draft)
        return *w;
    double left = excess_sum(&r->p[i], *w, drafted(r, i));
    double all = left + (1 - *w);
    /* 0 / 0: row i is its q, so a draft behind i is accepted for certain */
    return all > 0 ? left / all : 0;
}

/* The longest prefix that one of k independent trials accepts. */
static void block_decide(verify *v)
{
    double w = 1;
    v->n_block = 0;
    v->w = 1;
    for (int i = 1; i <= v->r.n_draft; i++) {
        double h = verify_block_chance(&v->r, i, &w);
        if (accept_uniform(&v->r, i - 1) <= h) {
            v->n_block = i;
            v->w = w;
        }
    }
}

/* ---- A round ---------------------------------------------------------------------------------- */

static ft_status check_drawn(const verify_round *r, ft_error *err)
{
    if (r->argmax && r->q)
        return err_set(err, FT_ARG, "verify: drafts that nothing was drawn for come with q");
    if (r->argmax)
        return FT_OK;
    if (!r->q && r->n_draft > 0)
        return err_set(err, FT_ARG, "verify: %s with %d sampled drafts, but without their q",
                       verify_rule_name(r->rule), r->n_draft);
    for (int i = 0; i < r->n_draft; i++)
        if (!(sample_dist_logp(&r->q[i], r->draft[i]) > -(double)INFINITY))
            return err_set(err, FT_ARG,
                           "verify: draft %d is token %d, which its q of %d tokens does not have",
                           i, (int)r->draft[i], r->q[i].n);
    return FT_OK;
}

static ft_status check_round(const verify_round *r, ft_error *err)
{
    if (r->rule >= VERIFY_N_RULE)
        return err_set(err, FT_ARG, "verify: rule %d, want 0 to %d", (int)r->rule,
                       VERIFY_N_RULE - 1);
    if (r->n_draft < 0 || r->first < 0 || r->n_draft > INT32_MAX - r->first)
        return err_set(err, FT_ARG, "verify: %d drafts from position %d, want 0 or more of each",
                       r->n_draft, (int)r->first);
    if (r->n_draft > 0 && !r->draft)
        return err_set(err, FT_ARG, "verify: no drafts, want %d", r->n_draft);
    if (r->rule == VERIFY_BLOCK && !r->p)
        return err_set(err, FT_ARG, "verify: block without the rows' distributions");
    if (r->rule == VERIFY_GREEDY_MATCH && !r->top && r->n_draft > 0)
        return err_set(err, FT_ARG, "verify: greedy-match without the rows' highest logits");
    if (r->rule == VERIFY_BLOCK || r->rule == VERIFY_RATIO)
        TRY(check_drawn(r, err));
    return FT_OK;
}

ft_status verify_begin(verify *v, const verify_round *r, ft_error *err)
{
    TRY(check_round(r, err));
    *v = (verify){.r = *r, .w = 1};
    if (r->rule == VERIFY_BLOCK)
        block_decide(v);
    return FT_OK;
}

/* Whether draft[i] is accepted, by a rule that can tell without drawing the token. */
static bool accepts(const verify *v, int i, const sample_dist *p)
{
    if (v->r.rule == VERIFY_BLOCK)
        return i < v->n_block;
    if (v->r.rule == VERIFY_RATIO)
        return accept_uniform(&v->r, i) <= ratio(&v->r, i, p);
    return v->r.draft[i] == v->r.top[i];
}

verify_token verify_next(verify *v, const sample_dist *p)
{
    const verify_round *r = &v->r;
    assert(v->i >= 0 && v->i <= r->n_draft && p->n > 0);
    int i = v->i++;
    int32_t pos = r->first + i, token;
    bool accepted = false;
    if (i == r->n_draft) {
        token = sample_draw(p, r->seed, pos);
    } else if (r->rule == VERIFY_COUPLED) {
        token = sample_draw(p, r->seed, pos);
        accepted = token == r->draft[i];
    } else if (accepts(v, i, p)) {
        token = r->draft[i];
        accepted = true;
    } else if (r->rule == VERIFY_GREEDY_MATCH) {
        token = sample_draw(p, r->seed, pos);
    } else {
        token = draw_excess(p, v->w, drafted(r, i), r->seed, pos);
    }
    if (!accepted)
        v->i = r->n_draft + 1;
    return (verify_token){.token = token, .accepted = accepted, .last = !accepted};
}
