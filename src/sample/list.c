/* list.c - see list.h. */
#include "sample/list.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Digits of the radix search for a border: 11, 11 and 10 bits of a 32-bit key. */
#define DIGIT_BITS 11

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
        if (k < border || (k == border && reached >= target))
            continue;
        if (k == border) {
            reached += weight_at(c, weighted, i);
            lowest = c->logit[i];
        }
        c->id[n] = c->id[i];
        c->logit[n] = c->logit[i];
        c->w[n] = c->w[i];
        n++;
    }
    c->n = n;
    return lowest;
}

float list_top_k(sample_ctx *c, int k)
{
    return keep_best(c, false, k);
}

/* ---- Weights ---------------------------------------------------------------------------------- */

/* Exponent of a candidate's weight; 0 for the highest. */
static double exponent(const sample_ctx *c, int i)
{
    return ((double)c->logit[i] - c->highest) / c->temp;
}

static double highest_logit(const sample_ctx *c)
{
    float highest = c->logit[0];
    for (int i = 1; i < c->n; i++)
        highest = c->logit[i] > highest ? c->logit[i] : highest;
    return (double)highest;
}

/* The highest weight is 1, so that min_p is a border of weights. */
void list_min_p(sample_ctx *c, double min_p)
{
    if (c->weighed && min_p <= 0)
        return;
    if (!c->weighed)
        c->highest = highest_logit(c);
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        double w = c->weighed ? c->w[i] : exp(exponent(c, i));
        if (w < min_p)
            continue;
        c->id[n] = c->id[i];
        c->logit[n] = c->logit[i];
        c->w[n] = w;
        n++;
    }
    c->n = n;
    c->weighed = true;
}

static double total_weight(const sample_ctx *c)
{
    double sum = 0;
    for (int i = 0; i < c->n; i++)
        sum += c->w[i];
    return sum;
}

void list_top_p(sample_ctx *c, double top_p)
{
    list_min_p(c, 0);
    (void)keep_best(c, true, fmax(top_p * total_weight(c), DBL_MIN));
}

void list_result(sample_ctx *c, sample_dist *d)
{
    list_min_p(c, DBL_TRUE_MIN);
    double total = total_weight(c);
    double log_total = log(total);
    for (int i = 0; i < c->n; i++) {
        d->id[i] = c->id[i];
        d->p[i] = c->w[i] / total;
        d->logp[i] = exponent(c, i) - log_total;
    }
    d->n = c->n;
}
