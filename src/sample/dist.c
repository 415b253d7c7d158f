/* dist.c - the distribution of a row: a list of candidates that filters make shorter.
 *
 * 1. The list is ascending in id from the first scan to the result: a filter finds a border and
 *    then drops in place what lies below it. So nothing is ever sorted.
 * 2. Among equal logits the lowest ids are kept.
 * 3. Every value depends on the row and the parameters alone.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sample/sample.h"

/* Logits looked at together in the scan. 32: 0.091 ms at V = 248,320 and top-k 40, 0.098 with 16,
 * 0.097 with 64 (2-core Xeon, test_sample_dist --bench). */
#define BLOCK 32
/* Candidates that may pile up beyond 2 k before the worst are dropped. 1024: 0.091 ms at top-k 40
 * and 2.9 in ascending order; 256: 0.08 and 5.2; 4096: 0.18 and 2.4 (as above). */
#define SLACK 1024
/* Digits of the radix search for a border: 11, 11 and 10 bits of a 32-bit key. */
#define DIGIT_BITS 11

struct sample_ctx {
    int n_max;
    int n;        /* candidates */
    int32_t *id;  /* [n_max] ascending; owned, like the following */
    float *logit; /* [n_max] finite, no -0 */
    double *w;    /* [n_max] exp((logit - highest) / temp) > 0, once weighed */
};

/* ---- Storage ---------------------------------------------------------------------------------- */

ft_status sample_ctx_create(sample_ctx **out, int n_max, ft_error *err)
{
    *out = NULL;
    if (n_max < 1)
        return err_set(err, FT_ARG, "sample: context for %d logits, want 1 or more", n_max);
    sample_ctx *c = mem_zalloc(sizeof *c);
    if (!c)
        return err_set(err, FT_NOMEM, "sample: context");
    size_t n = (size_t)n_max;
    c->n_max = n_max;
    c->w = mem_calloc(n, sizeof *c->w);
    c->id = mem_calloc(n, sizeof *c->id);
    c->logit = mem_calloc(n, sizeof *c->logit);
    if (!c->w || !c->id || !c->logit) {
        sample_ctx_free(c);
        return err_set(err, FT_NOMEM, "sample: workspace for %d logits", n_max);
    }
    *out = c;
    return FT_OK;
}

void sample_ctx_free(sample_ctx *c)
{
    if (!c)
        return;
    mem_free(c->w);
    mem_free(c->id);
    mem_free(c->logit);
    mem_free(c);
}

/* Candidates that the scan leaves: temperature 0 is the choice of the single best one. */
static int n_keep(const sample_params *p, int n_vocab)
{
    if (p->temp == 0.0f)
        return 1;
    return p->top_k > 0 && p->top_k < n_vocab ? p->top_k : n_vocab;
}

int sample_dist_need(const sample_params *p, int n_vocab)
{
    return n_keep(p, n_vocab);
}

ft_status sample_dist_init(sample_dist *d, int cap, ft_error *err)
{
    *d = (sample_dist){0};
    if (cap < 1)
        return err_set(err, FT_ARG, "sample: distribution of %d tokens, want 1 or more", cap);
    d->cap = cap;
    d->id = mem_calloc((size_t)cap, sizeof *d->id);
    d->p = mem_calloc((size_t)cap, sizeof *d->p);
    d->logp = mem_calloc((size_t)cap, sizeof *d->logp);
    if (!d->id || !d->p || !d->logp) {
        sample_dist_deinit(d);
        return err_set(err, FT_NOMEM, "sample: distribution of %d tokens", cap);
    }
    return FT_OK;
}

void sample_dist_deinit(sample_dist *d)
{
    mem_free(d->id);
    mem_free(d->p);
    mem_free(d->logp);
    *d = (sample_dist){0};
}

double sample_dist_logp(const sample_dist *d, int32_t id)
{
    int lo = 0, hi = d->n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (d->id[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < d->n && d->id[lo] == id ? d->logp[lo] : -(double)INFINITY;
}

/* ---- The best of the list --------------------------------------------------------------------- */

/* Unsigned integers in the order of the floats; x is no NaN and not -0. */
static uint32_t key_of(float x)
{
    uint32_t b;
    memcpy(&b, &x, sizeof b);
    return b >> 31 ? ~b : b | 0x80000000u;
}

static double weight_at(const sample_ctx *c, bool weighted, int i)
{
    return weighted ? c->w[i] : 1.0;
}

/* The lowest logit among the fewest best candidates whose weights reach target (or among all).
 * *above: the weights of those that are higher. A radix search, digit by digit from the top: linear
 * in n whatever the values, and nothing moves. */
static uint32_t find_border(const sample_ctx *c, bool weighted, double target, double *above)
{
    static const int shift[] = {21, 10, 0};
    static const uint32_t known[] = {0, 0xFFE00000u, 0xFFFFFC00u}; /* bits found before */
    double sum[1 << DIGIT_BITS];
    uint32_t key = 0;
    *above = 0;
    for (size_t level = 0; level < ARRAY_LEN(shift); level++) {
        memset(sum, 0, sizeof sum);
        for (int i = 0; i < c->n; i++) {
            uint32_t k = key_of(c->logit[i]);
            if ((k & known[level]) == key)
                sum[(k & ~known[level]) >> shift[level]] += weight_at(c, weighted, i);
        }
        int at = -1;
        for (int digit = (1 << DIGIT_BITS) - 1; digit >= 0; digit--) {
            if (sum[digit] == 0)
                continue;
            if (at >= 0)
                *above += sum[at];
            at = digit;
            if (*above + sum[digit] >= target)
                break;
        }
        key |= (uint32_t)at << shift[level];
    }
    return key;
}

/* Keep the fewest best candidates whose weights (1 each unless weighted) reach target > 0. Returns
 * the lowest logit kept. */
static float keep_best(sample_ctx *c, bool weighted, double target)
{
    double reached;
    uint32_t border = find_border(c, weighted, target, &reached);
    float lowest = INFINITY;
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        uint32_t k = key_of(c->logit[i]);
        double w = weight_at(c, weighted, i);
        if (k < border || (k == border && reached >= target))
            continue;
        if (k == border) {
            reached += w;
            lowest = c->logit[i];
        }
        c->id[n] = c->id[i];
        c->logit[n] = c->logit[i];
        c->w[n] = w;
        n++;
    }
    c->n = n;
    return lowest;
}

/* ---- The filters ------------------------------------------------------------------------------ */

/* True when one of x[BLOCK] is above floor, or NaN. */
static bool any_above(const float *x, float floor)
{
    int hit = 0;
    for (int i = 0; i < BLOCK; i++)
        hit |= !(x[i] <= floor);
    return hit != 0;
}

/* The k highest logits become the list; -inf never does. Only values above the lowest of the best k
 * so far are looked at one by one. Returns how many logits are NaN or +inf. */
static int collect(sample_ctx *c, const sample_row *row, int k)
{
    int n = row->n;
    int room = k < (n - SLACK) / 2 ? 2 * k + SLACK : n; /* > k, or the whole row */
    int n_bad = 0;
    float floor = -INFINITY;
    c->n = 0;
    for (int i0 = 0; i0 < n; i0 += BLOCK) {
        int i1 = n - i0 < BLOCK ? n : i0 + BLOCK;
        if (i1 - i0 == BLOCK && !any_above(row->logits + i0, floor))
            continue;
        for (int i = i0; i < i1; i++) {
            float x = row->logits[i];
            if (x <= floor)
                continue;
            if (!(x < INFINITY)) {
                n_bad++;
                continue;
            }
            c->id[c->n] = i;
            c->logit[c->n] = x + 0.0f; /* -0 becomes +0: equal logits have equal keys */
            c->n++;
            if (c->n == room && room < n)
                floor = keep_best(c, false, k);
        }
    }
    if (c->n > k)
        keep_best(c, false, k);
    return n_bad;
}

/* Exponent of a candidate's weight; 0 for the highest. */
static double exponent(const sample_ctx *c, int i, double highest, double temp)
{
    return ((double)c->logit[i] - highest) / temp;
}

static double highest_logit(const sample_ctx *c)
{
    float highest = c->logit[0];
    for (int i = 1; i < c->n; i++)
        highest = c->logit[i] > highest ? c->logit[i] : highest;
    return (double)highest;
}

/* Weights at temp > 0, without those under min_p of the highest one's (which is 1). */
static void weigh(sample_ctx *c, double highest, double temp, double min_p)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        double w = exp(exponent(c, i, highest, temp));
        if (w == 0 || w < min_p)
            continue;
        c->id[n] = c->id[i];
        c->logit[n] = c->logit[i];
        c->w[n] = w;
        n++;
    }
    c->n = n;
}

static double total_weight(const sample_ctx *c)
{
    double sum = 0;
    for (int i = 0; i < c->n; i++)
        sum += c->w[i];
    return sum;
}

/* ---- Putting it together ---------------------------------------------------------------------- */

static ft_status check_call(const sample_ctx *c, const sample_dist *d, const sample_row *row,
                            const sample_params *p, ft_error *err)
{
    TRY(sample_params_check(p, err));
    if (row->n < 1 || row->n > c->n_max)
        return err_set(err, FT_ARG, "sample: row of %d logits, want 1 to %d", row->n, c->n_max);
    int need = sample_dist_need(p, row->n);
    if (d->cap < need)
        return err_set(err, FT_RANGE, "sample: distribution has room for %d tokens, want %d",
                       d->cap, need);
    return FT_OK;
}

ft_status sample_distribution(sample_ctx *c, sample_dist *d, const sample_row *row,
                              const sample_params *p, ft_error *err)
{
    d->n = 0;
    TRY(check_call(c, d, row, p, err));
    int n_bad = collect(c, row, n_keep(p, row->n));
    if (n_bad > 0)
        return err_set(err, FT_DEVICE, "sample: %d of %d logits are NaN or +inf, want none", n_bad,
                       row->n);
    if (c->n == 0)
        return err_set(err, FT_DEVICE, "sample: all %d logits are -inf, want one finite", row->n);

    double temp = p->temp > 0.0f ? (double)p->temp : 1.0; /* 0: one candidate, whatever its scale */
    double highest = highest_logit(c);
    weigh(c, highest, temp, (double)p->min_p);
    if (p->top_p < 1.0f)
        keep_best(c, true, fmax((double)p->top_p * total_weight(c), DBL_MIN));

    double total = total_weight(c);
    double log_total = log(total);
    for (int i = 0; i < c->n; i++) {
        d->id[i] = c->id[i];
        d->p[i] = c->w[i] / total;
        d->logp[i] = exponent(c, i, highest, temp) - log_total;
    }
    d->n = c->n;
    return FT_OK;
}
