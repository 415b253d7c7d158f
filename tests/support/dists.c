#include "support/dists.h"

#include <assert.h>
#include <math.h>

uint32_t dists_rng(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    *state = x;
    return (uint32_t)(x >> 32);
}

double dists_unit(uint64_t *state)
{
    return dists_rng(state) * 0x1p-32;
}

void dists_set(sample_dist *d, const double *p, int n)
{
    assert(d->cap >= n);
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += p[i];
    d->n = 0;
    for (int i = 0; i < n; i++) {
        if (p[i] == 0)
            continue;
        d->id[d->n] = i;
        d->p[d->n] = p[i] / sum;
        d->logp[d->n] = log(p[i] / sum);
        d->n++;
    }
}

void dists_random(double *p, int n, uint64_t *state)
{
    int power = 1 + (int)(dists_rng(state) % 4);
    for (int i = 0; i < n; i++) {
        double u = dists_unit(state) + 1e-3;
        p[i] = 1;
        for (int j = 0; j < power; j++)
            p[i] *= u;
    }
    if (dists_rng(state) % 4 == 0)
        p[dists_rng(state) % (uint32_t)n] = 0; /* never all: n >= 2 */
}

/* Wilson and Hilferty's cube-root approximation, z = 4.265. */
double dists_chi2_limit(int df)
{
    double a = 2.0 / (9.0 * df);
    double t = 1.0 - a + 4.265 * sqrt(a);
    return df * t * t * t;
}

double dists_chi2(const int *count, const double *want, int n, int total, int *df)
{
    double chi2 = 0, rare = 0, rare_came = 0;
    *df = -1;
    for (int i = 0; i < n; i++) {
        double e = want[i] * total, c = count[i];
        if (e == 0 && c > 0)
            return (double)INFINITY;
        if (e < 5) {
            rare += e;
            rare_came += c;
            continue;
        }
        chi2 += (c - e) * (c - e) / e;
        (*df)++;
    }
    if (rare > 0) {
        chi2 += (rare_came - rare) * (rare_came - rare) / fmax(rare, 1);
        (*df)++;
    }
    return chi2;
}
