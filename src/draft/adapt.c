/* adapt.c - how many tokens to draft. Model, units and invariants: adapt.h.
 *
 * A single long round (a page fault, a suspended machine) must not spoil an estimate: one sample
 * counts as at most OUTLIER times what was expected. Long rounds that keep coming with drafts are seen
 * by the guard, which counts up to GUARD_MAX plain tokens' time of each.
 *
 * A start is cold: weights are read from the disk, caches are empty, threads begin. The times of the
 * first COLD_ROUNDS teach nothing, only what was accepted does. Up to START_ROUNDS a k is given the
 * benefit of the doubt, HOPE / sqrt(samples) of its time: bad luck with a few samples ends nothing.
 */
#include "draft/adapt.h"

#include <math.h>
#include <stdlib.h>

#include "base/err.h"

#define SECONDS_MAX  1000.0
#define SECONDS_MIN  1e-9 /* of a round, so that rates stay finite */
#define OUTLIER      3.0
#define JITTER       1e-5 /* seconds: below this no sample is an outlier */
#define MEMORY_COST  32.0 /* samples behind a mean */
#define MEMORY_SHARE 64.0
#define SUCCESS_ANY  0.7 /* of draft 1 before the first sample; of draft i: that of draft i - 1 */
#define SHARE_PRIOR  3.0 /* samples that what was believed of a share before the first one counts */
#define LINE_OFF     0.1 /* how far from a line through all of them the costs of counts of rows are, */
#define LINE_MOST    4.0 /* and what that line counts at most, in samples */
#define COLD_ROUNDS  6   /* the last one without drafts */
#define START_DRAFT  1   /* rounds with drafts, then without, before anything is decided */
#define START_PLAIN  2
#define START_ROUNDS 32
#define HOPE         0.1

#define PROBE_ROUNDS  4   /* of a deeper k: until the first rejection at the new depth */
#define COST_WEIGHT   4.0 /* what old samples weigh when a probe begins: costs, */
#define PROBE_WEIGHT  2.0 /* shares */
#define PROBE_SOON    8   /* rounds between probes while things change, */
#define PROBE_LATE    256 /* and in the end */
#define PROBE_SETTLED 64  /* rounds after which an end of drafting, or a start, is a change */
#define PROBE_KINDS   3
#define BUDGET_MAX    32.0 /* plain tokens' time */
#define CHANGE        1.5  /* times dearer or cheaper than expected: a sign of change, */
#define CHANGE_NOISE  4.0  /* or 1 + so many times the noise, if that is more, */
#define NOISE_START   0.2
#define MEMORY_NOISE  64.0
#define CHANGE_UP     3    /* when so many samples in a row were dearer (there are slow rounds), */
#define CHANGE_DOWN   2    /* or cheaper */
#define CHANGE_RECENT 8    /* rounds: what was measured before them is old in any case */
#define CHANGE_APART  16   /* rounds from one change to the next, */
#define CHANGE_OFTEN  1024 /* if they keep coming: noise */
#define CHANGE_MOST   16.0 /* times */
#define GUESS_WEIGHT  0.1  /* of what was not measured since: the next sample replaces it */
#define GUARD_MAX     32.0
#define MATERIAL      1.03 /* times faster: a change worth looking around again */

/* ---- Parameters ------------------------------------------------------------------------------- */

adapt_params adapt_params_default(void)
{
    return (adapt_params){.k_max = ADAPT_K_START, .k_fixed = -1, .p_min = 0.0f};
}

ft_status adapt_params_check(const adapt_params *p, ft_error *err)
{
    if (p->k_max < 0 || p->k_max > ADAPT_K_MAX)
        return err_set(err, FT_ARG, "draft_max: %d, want 0 to %d", p->k_max, ADAPT_K_MAX);
    if (p->k_fixed < -1 || p->k_fixed > ADAPT_K_MAX)
        return err_set(err, FT_ARG, "fixed drafts: %d, want -1 (adaptive) to %d", p->k_fixed,
                       ADAPT_K_MAX);
    if (!(p->p_min >= 0.0f && p->p_min <= 1.0f))
        return err_set(err, FT_ARG, "draft_p_min: %g, want 0 to 1", (double)p->p_min);
    return FT_OK;
}

void adapt_init(adapt *a, const adapt_params *p)
{
    *a = (adapt){.p = *p, .interval = PROBE_SOON, .guard = GUARD_MAX, .noise = NOISE_START};
}

bool adapt_stop(const adapt *a, double p)
{
    return !(p >= (double)a->p.p_min);
}

/* ---- Estimates -------------------------------------------------------------------------------- */

static int clamp_int(int x, int lo, int hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static void mean_add(adapt_mean *m, double x, double memory)
{
    m->weight = fmin(m->weight + 1, memory);
    m->mean += (x - m->mean) / m->weight;
}

/* Old samples weigh less, so that a few new ones can contradict them. */
static void mean_doubt(adapt_mean *m, double weight)
{
    m->weight = fmin(m->weight, weight);
}

/* Rescaled after a change, and not measured since. */
static bool is_guess(const adapt_mean *m)
{
    return m->weight > 0 && m->weight < 1;
}

/* A sample of seconds where `expected` (0: nothing known) were. */
static void cost_add(adapt_mean *m, double x, double expected)
{
    if (expected > 0 && !is_guess(m))
        x = fmin(x, fmax(OUTLIER * expected, JITTER));
    mean_add(m, x, MEMORY_COST);
}

/* Seconds for n rows on the line of least squares through all that was measured, which does not fall;
 * 0: nothing was. */
static double line(const adapt *a, int n)
{
    double w = 0, x = 0, y = 0, xx = 0, xy = 0; /* weighted sums */
    for (int i = 0; i <= ADAPT_K_MAX; i++) {
        const adapt_mean *m = &a->rows[i];
        w += m->weight;
        x += m->weight * i;
        y += m->weight * m->mean;
        xx += m->weight * i * i;
        xy += m->weight * i * m->mean;
    }
    if (w == 0)
        return 0;
    const double spread = w * xx - x * x; /* 0: a single count */
    const double slope = spread > 1e-6 * w * w ? fmax((w * xy - x * y) / spread, 0) : 0;
    return fmax((y - slope * x) / w + slope * (n - 1), 0);
}

/* Seconds to verify and sample n rows; 0: nothing is known. What was measured of n is drawn to the line,
 * the more the noisier samples are and the fewer there are: the luck of one count must not rule. */
static double rows_seconds(const adapt *a, int n)
{
    const adapt_mean *m = &a->rows[n - 1];
    const double off = a->noise / LINE_OFF, weight = fmin(off * off, LINE_MOST);
    if (m->weight + weight == 0)
        return line(a, n);
    return (m->weight * m->mean + weight * line(a, n)) / (m->weight + weight);
}

/* Share of draft i: measured, or that of the draft before. */
static double success_of(const adapt *a, int i)
{
    while (i >= 0 && a->success[i].weight == 0)
        i--;
    return i >= 0 ? a->success[i].mean : SUCCESS_ANY;
}

static double go_on_of(const adapt *a, int i)
{
    return a->go_on[i].weight > 0 ? a->go_on[i].mean : 1;
}

typedef struct {
    double tokens, seconds; /* of an average round */
} outcome;

static outcome expect(const adapt *a, int k)
{
    outcome o = {.tokens = 1, .seconds = a->catch_up[k > 0].mean};
    double all = 1, there = 1; /* drafts before i were accepted; the chain gets to draft i */
    for (int i = 0; i < k; i++) {
        const double on = there * go_on_of(a, i);
        all *= success_of(a, i);
        o.tokens += all;
        o.seconds += there * a->step.mean + (there - on) * rows_seconds(a, i + 1);
        there = on;
    }
    o.seconds = fmax(o.seconds + there * rows_seconds(a, k + 1), SECONDS_MIN);
    return o;
}

static double token_seconds(const adapt *a, int k)
{
    outcome o = expect(a, k);
    return o.seconds / o.tokens;
}

/* The k of lo .. hi with the most tokens a second; ties to the smallest. */
static int best_of(const adapt *a, int lo, int hi)
{
    int best = lo;
    double least = token_seconds(a, lo);
    for (int k = lo + 1; k <= hi; k++) {
        double s = token_seconds(a, k);
        if (s < least) {
            least = s;
            best = k;
        }
    }
    return best;
}

/* ---- Probes ----------------------------------------------------------------------------------- */

/* The k that has not been measured for longest, base apart. */
static int stalest(const adapt *a, int base)
{
    int k = base == 0 ? 1 : 0;
    for (int i = k + 1; i <= a->p.k_max; i++)
        if (i != base && a->last[i] < a->last[k])
            k = i;
    return k;
}

/* What a probe of a kind would try: one deeper, plain decoding, the stalest. Without drafts the first
 * two are the most promising k. */
static int candidate(const adapt *a, int kind, int base)
{
    if (kind == 2)
        return stalest(a, base);
    if (base == 0)
        return best_of(a, 1, a->p.k_max);
    return kind == 1 || base == a->p.k_max ? 0 : base + 1;
}

/* Time that a round of k loses against the best k, in plain tokens. */
static double loss(const adapt *a, int k, int base)
{
    outcome o = expect(a, k);
    double lost = (o.seconds - o.tokens * token_seconds(a, base)) / token_seconds(a, 0);
    return fmin(fmax(lost, 0), BUDGET_MAX);
}

static void begin_probe(adapt *a, int k, int base)
{
    a->probe_k = k;
    a->probe_left = k > base ? PROBE_ROUNDS : 1;
    a->probe_depth = k > base ? base + 1 : 0;
    if (a->last[k] > 0) /* looking at something for the first time is no sign of calm */
        a->interval = clamp_int(2 * a->interval, PROBE_SOON, PROBE_LATE);
    mean_doubt(&a->rows[k], COST_WEIGHT);
    for (int i = base; i < k; i++) {
        mean_doubt(&a->success[i], PROBE_WEIGHT);
        mean_doubt(&a->go_on[i], PROBE_WEIGHT);
    }
}

/* Begin a probe if one is due and can be paid. */
static void look_around(adapt *a, int base)
{
    if (a->since < a->interval)
        return;
    for (int i = 0; i < PROBE_KINDS; i++) {
        int kind = (a->turn + i) % PROBE_KINDS;
        int k = candidate(a, kind, base);
        if (loss(a, k, base) > a->budget)
            continue;
        a->turn = (kind + 1) % PROBE_KINDS;
        begin_probe(a, k, base);
        return;
    }
}

/* The round that ends was one of a probe: does the probe go on? */
static void probe_measured(adapt *a, const adapt_round *r)
{
    a->stats.probes++;
    a->since = 0;
    a->probe_left--;
    bool ended = r->n_draft < a->probe_depth;
    bool rejected = r->n_accept == a->probe_depth - 1;
    if (ended || rejected)
        a->probe_left = 0;
}

/* ---- The choice ------------------------------------------------------------------------------- */

/* Note which k is best, and whether that has changed so much that others may be better now too. */
static void note_base(adapt *a, int base)
{
    const bool turned = (base == 0) != (a->base_k == 0);
    const bool faster = token_seconds(a, a->base_k) > MATERIAL * token_seconds(a, base);
    if (faster || (turned && a->held >= PROBE_SETTLED))
        a->interval = PROBE_SOON;
    a->held = turned ? 0 : clamp_int(a->held + 1, 0, PROBE_SETTLED);
    a->base_k = base;
}

/* Seconds a token if k turns out better than its few samples say. */
static double hopeful(const adapt *a, int k)
{
    return token_seconds(a, k) * (1 - HOPE / sqrt(fmax(a->rows[k].weight, 1)));
}

/* The k of the first rounds behind the start, 0 .. lim: the most hopeful one. */
static int explore(const adapt *a, int lim)
{
    int best = 0;
    for (int k = 1; k <= lim; k++)
        if (hopeful(a, k) < hopeful(a, best))
            best = k;
    return best;
}

/* Adaptive, something is known of both ways, and there is room for lim drafts, 1 .. k_max. */
static void choose(adapt *a, int lim)
{
    adapt_choice *c = &a->now;
    const int base = c->draft_s < c->plain_s ? c->draft_k : 0;
    c->k = base;
    c->why = base > 0 ? ADAPT_BEST : ADAPT_PLAIN;
    if (a->guard < 0) {
        a->probe_left = 0;
        c->k = 0;
        c->why = base > 0 ? ADAPT_GUARD : ADAPT_PLAIN;
        return;
    }
    if (lim < a->p.k_max) /* the end of a request says nothing about the next one */
        return;
    if (a->stats.rounds < START_ROUNDS) {
        c->k = explore(a, lim);
        c->why = ADAPT_START;
        return;
    }
    note_base(a, base);
    if (a->probe_left == 0)
        look_around(a, base);
    if (a->probe_left > 0 && a->probe_k != base) {
        a->budget -= loss(a, a->probe_k, base);
        c->k = a->probe_k;
        c->why = ADAPT_PROBE;
    } else {
        a->probe_left = 0; /* what was tried has become the rule */
    }
}

int adapt_k(adapt *a, int n_room)
{
    const int lim = clamp_int(n_room, 0, a->p.k_max);
    adapt_choice *c = &a->now;
    *c = (adapt_choice){0};
    if (a->rows[0].weight > 0)
        c->plain_s = token_seconds(a, 0);
    if (a->step.weight > 0 && lim > 0) {
        c->draft_k = best_of(a, 1, lim);
        c->draft_s = token_seconds(a, c->draft_k);
    }
    if (a->p.k_max == 0 || a->p.k_fixed >= 0) {
        c->k = clamp_int(a->p.k_fixed, 0, lim);
        c->why = lim < clamp_int(a->p.k_fixed, 0, a->p.k_max) ? ADAPT_ROOM : ADAPT_FIXED;
    } else if (lim == 0) {
        c->why = ADAPT_ROOM;
    } else if (a->step.weight < START_DRAFT || a->rows[0].weight < START_PLAIN) {
        const bool draft = a->step.weight < START_DRAFT && a->stats.rounds != COLD_ROUNDS - 1;
        c->k = draft && a->guard >= 0 ? clamp_int(ADAPT_K_START, 0, lim) : 0;
        c->why = ADAPT_START;
    } else {
        choose(a, lim);
    }
    return c->k;
}

/* ---- What was measured ------------------------------------------------------------------------ */

static void count(adapt *a, const adapt_round *r)
{
    adapt_stats *s = &a->stats;
    s->rounds++;
    s->emitted += 1 + (uint64_t)r->n_accept;
    for (int i = 0; i < r->n_draft; i++) {
        s->drafted[i]++;
        s->reached[i] += i <= r->n_accept;
        s->accepted[i] += i < r->n_accept;
    }
}

/* A sample of a share; before the first one, `prior` counts as SHARE_PRIOR of them. */
static void share_add(adapt_mean *m, double prior, bool yes)
{
    if (m->weight == 0)
        *m = (adapt_mean){.mean = prior, .weight = SHARE_PRIOR};
    mean_add(m, yes, MEMORY_SHARE);
}

static void learn_success(adapt *a, const adapt_round *r)
{
    /* One more than was offered, when the chain ended before it. */
    const int n_tried = r->n_draft < a->now.k ? r->n_draft + 1 : r->n_draft;
    for (int i = 0; i < n_tried; i++) {
        share_add(&a->go_on[i], 1, i < r->n_draft);
        if (i <= r->n_accept)
            share_add(&a->success[i], success_of(a, i), i < r->n_accept);
    }
}

static bool seconds_valid(double s)
{
    return s >= 0 && s <= SECONDS_MAX; /* false for NaN */
}

static void guess(adapt_mean *m, double factor)
{
    m->mean *= factor;
    m->weight = fmin(m->weight, GUESS_WEIGHT);
}

/* Since a round, verification takes `factor` times what it took: so does, probably, what was not measured
 * since. */
static void rescale_old(adapt *a, double factor, uint64_t round)
{
    bool drafted = false;
    for (int k = 0; k <= ADAPT_K_MAX; k++) {
        a->odd[k] = 0;
        if (a->last[k] < round || a->last[k] + CHANGE_RECENT <= a->stats.rounds)
            guess(&a->rows[k], factor);
        else if (k > 0)
            drafted = true;
    }
    if (!drafted)
        guess(&a->step, factor);
    const uint64_t calm = a->stats.rounds - a->changed;
    a->apart = calm > 4 * (uint64_t)a->apart ? CHANGE_APART
                                             : clamp_int(2 * a->apart, CHANGE_APART, CHANGE_OFTEN);
    a->changed = a->stats.rounds;
    a->since = a->interval = PROBE_SOON; /* look at once, at plain decoding first */
    a->turn = 1;
}

/* x seconds for k drafts and one row, where `expected` (> 0) were. */
static void notice_change(adapt *a, int k, double x, double expected)
{
    a->noise += (fmin(fabs(x / expected - 1), 1) - a->noise) / MEMORY_NOISE;
    const double factor = fmax(CHANGE, 1 + CHANGE_NOISE * a->noise);
    int *odd = &a->odd[k];
    if (x > factor * expected)
        *odd = *odd > 0 ? *odd + 1 : 1;
    else if (x < expected / factor)
        *odd = *odd < 0 ? *odd - 1 : -1;
    else
        *odd = 0;
    if (abs(*odd) == 1)
        a->odd_from[k] = a->stats.rounds;
    const bool sure = *odd >= CHANGE_UP || -*odd >= CHANGE_DOWN;
    if (!sure || a->stats.rounds < a->changed + (uint64_t)a->apart)
        return;
    a->rows[k] = (adapt_mean){.mean = x, .weight = 1};
    rescale_old(a, fmin(fmax(x / expected, 1 / CHANGE_MOST), CHANGE_MOST), a->odd_from[k]);
}

static void learn_costs(adapt *a, const adapt_round *r)
{
    const double x = r->verify_s + r->sample_s, expected = rows_seconds(a, r->n_draft + 1);
    const bool known = a->rows[r->n_draft].weight >= 1 && expected > JITTER;
    cost_add(&a->rows[r->n_draft], x, expected);
    mean_add(&a->catch_up[r->n_step > 0], r->catch_up_s, MEMORY_COST);
    if (r->n_step > 0) {
        const double step = r->draft_s / r->n_step;
        if (step < a->step.mean / OUTLIER) /* what came before was the outlier */
            a->step = (adapt_mean){.mean = step, .weight = a->step.weight};
        cost_add(&a->step, step, a->step.mean);
    }
    if (known)
        notice_change(a, r->n_draft, x, expected);
}

/* Add the round to the accounts of probes and of drafting, in plain tokens' time. */
static void keep_accounts(adapt *a, const adapt_round *r, double round_s)
{
    if (a->rows[0].weight < START_PLAIN)
        return;
    double took = fmin(round_s / token_seconds(a, 0), GUARD_MAX);
    a->budget = fmin(a->budget + ADAPT_PROBE_SHARE * took, BUDGET_MAX);
    double ahead = r->n_step > 0 ? 1 + r->n_accept - took : 0;
    double guard = a->guard + ahead + ADAPT_GUARD_SHARE * took;
    a->guard = fmax(fmin(guard, GUARD_MAX), -GUARD_MAX);
}

void adapt_measured(adapt *a, const adapt_round *r)
{
    adapt_round c = *r;
    c.n_draft = clamp_int(c.n_draft, 0, ADAPT_K_MAX);
    c.n_accept = clamp_int(c.n_accept, 0, c.n_draft);
    c.n_step = clamp_int(c.n_step, c.n_draft, ADAPT_K_MAX + 1);
    count(a, &c);
    learn_success(a, &c);
    a->last[a->now.k] = a->last[c.n_draft] = a->stats.rounds;
    if (a->now.why == ADAPT_PROBE)
        probe_measured(a, &c);
    else if (a->since < PROBE_LATE)
        a->since++;
    const bool warm = a->stats.rounds > COLD_ROUNDS;
    if (warm && seconds_valid(c.catch_up_s) && seconds_valid(c.draft_s) &&
        seconds_valid(c.verify_s) && seconds_valid(c.sample_s)) {
        learn_costs(a, &c);
        keep_accounts(a, &c, c.catch_up_s + c.draft_s + c.verify_s + c.sample_s);
    }
}

/* ---- In words --------------------------------------------------------------------------------- */

void adapt_explain(const adapt *a, buf *out)
{
    const adapt_choice *c = &a->now;
    const double plain_ms = 1e3 * c->plain_s, draft_ms = 1e3 * c->draft_s;
    switch (c->why) {
    case ADAPT_FIXED:
        buf_printf(out, "fixed: %d drafts", c->k);
        break;
    case ADAPT_ROOM:
        buf_printf(out, "no room for more than %d drafts", c->k);
        break;
    case ADAPT_START:
        buf_puts(out, "little is known yet");
        break;
    case ADAPT_BEST:
        buf_printf(out, "pays: plain %.1f ms a token, with %d drafts %.1f", plain_ms, c->draft_k,
                   draft_ms);
        break;
    case ADAPT_PLAIN:
        buf_printf(out, "does not pay: plain %.1f ms a token, with %d drafts %.1f", plain_ms,
                   c->draft_k, draft_ms);
        break;
    case ADAPT_PROBE:
        buf_printf(out, "a probe of %d drafts", c->k);
        break;
    case ADAPT_GUARD:
        buf_printf(out, "drafts lost too much lately; plain %.1f ms a token, with %d drafts %.1f",
                   plain_ms, c->draft_k, draft_ms);
        break;
    }
}
