/* stats.c - see stats.h. */
#include "base/stats.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value at a share of the way through sorted x. */
static double quantile(const double *x, int n, double share)
{
    double at = share * (n - 1);
    int i = (int)at;
    return i + 1 < n ? x[i] + (at - i) * (x[i + 1] - x[i]) : x[i];
}

stats stats_of(double *x, int n)
{
    if (n <= 0)
        return (stats){0};
    qsort(x, (size_t)n, sizeof *x, ascending);
    return (stats){.n = n,
                   .min = x[0],
                   .low = quantile(x, n, 0.25),
                   .median = quantile(x, n, 0.5),
                   .high = quantile(x, n, 0.75),
                   .max = x[n - 1]};
}

double stats_spread(const stats *s)
{
    return s->median != 0 ? (s->high - s->low) / 2 / s->median : 0;
}
