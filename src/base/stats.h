/* stats.h - repeated measurements in a few figures. */
#ifndef BASE_STATS_H
#define BASE_STATS_H

#include "base/compiler.h"

/* Quartiles by linear interpolation between the sorted values (the default of R and NumPy). */
typedef struct {
    int n;
    double min, low, median, high, max;
} stats;

/* Of x [n], which is sorted; n 0: all figures are 0. No value may be NaN. */
stats stats_of(double *x, int n);
/* Half the distance between the quartiles, as a share of the median; 0 where the median is 0. */
double stats_spread(const stats *s);

#endif
