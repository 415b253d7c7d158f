/* dists.h - distributions for tests: by hand, at random, and counts against them. */
#ifndef TESTS_SUPPORT_DISTS_H
#define TESTS_SUPPORT_DISTS_H

#include "sample/sample.h"

/* Random numbers of a test: a xorshift generator with its own state, which must not be 0. */
uint32_t dists_rng(uint64_t *state);
double dists_unit(uint64_t *state); /* [0, 1) */

/* Make d (initialised, cap >= n) the distribution p [n] of tokens 0 .. n - 1; zeros are left out, the
 * rest is divided by its sum. */
void dists_set(sample_dist *d, const double *p, int n);
/* p [n] at random, flat or peaked, with a token that has 0 now and then; not normalised. */
void dists_random(double *p, int n, uint64_t *state);

/* Value that a chi-square variable with df degrees of freedom passes once in about 10^5 draws. */
double dists_chi2_limit(int df);
/* Chi-square of count [n], which adds up to total, against want [n]; infinite when something came
 * that cannot. Cells that expect fewer than 5 are taken together. *df: degrees of freedom. */
double dists_chi2(const int *count, const double *want, int n, int total, int *df);

#endif
