/* list.h - the candidates of one distribution, and what makes the list shorter. Private to sample/.
 *
 * 1. The list is ascending in id from the first scan to the result: a filter finds a border and
 *    then drops in place what lies below it. So nothing is ever sorted.
 * 2. Among equal logits the lowest ids are kept.
 * 3. Between calls every count is 0 and no token is marked.
 */
#ifndef SAMPLE_LIST_H
#define SAMPLE_LIST_H

#include "sample/sample.h"

/* A token whose logit the history or the bias changes. */
typedef struct {
    int32_t id;
    int32_t count; /* times in the window of the history */
    double bias;   /* sum of its biases; -inf: banned */
} sample_change;

struct sample_ctx {
    int n_max;
    int n;        /* candidates */
    int32_t *id;  /* [n_max] ascending; owned, like the following */
    float *logit; /* [n_max] finite, no -0 */
    double *w;    /* [n_max] exp((logit - highest) / temp), while weighed */
    bool weighed;
    double temp;    /* what the logits stand over: 1 before the stage temp */
    double highest; /* of logit, while weighed */

    int n_change;
    double penalty_temp;   /* temp where the penalties stand in the order */
    sample_change *change; /* [n_max] ascending in id */
    int32_t *count;        /* [n_max] 0 between calls */
    uint64_t *mark;        /* [n_max / 64 + 1] bits, 0 between calls */
};

/* ---- list.c: the candidates ------------------------------------------------------------------- */

/* Keep the k >= 1 highest logits. Returns the lowest logit kept. */
float list_top_k(sample_ctx *c, int k);
/* Make the weights at c->temp unless they are there, and drop those under min_p of the highest. */
void list_min_p(sample_ctx *c, double min_p);
/* Keep the fewest most probable candidates that reach top_p, at least one. */
void list_top_p(sample_ctx *c, double top_p);
/* The list as a distribution over the candidates whose weight is above 0. */
void list_result(sample_ctx *c, sample_dist *d);

/* ---- penalty.c: what history and bias change -------------------------------------------------- */

/* Fill c->change from the window of row's history, where p's penalties do something, and p's bias. */
void penalty_prepare(sample_ctx *c, const sample_row *row, const sample_params *p);
/* The penalised and biased logit, in the units of x: what is added counts c->penalty_temp times.
 * Finite when x and the bias are. */
float penalty_of(const sample_ctx *c, const sample_change *ch, const sample_params *p, float x);
/* The same for every candidate. */
void penalty_apply(sample_ctx *c, const sample_params *p);

#endif
