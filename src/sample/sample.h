/* sample.h - from a row of logits to a token: the one distribution, and the draw from it.
 *
 * 1. sample_distribution is the only place where logits become probabilities. Plain decoding,
 *    verification, a drafter's own distribution and reported log-probabilities all call it.
 * 2. Nothing here has a state that a draw changes. Random numbers are a function of seed, position,
 *    token and purpose, so a rejected draft or another request consumes nothing.
 * 3. A result is a valid id of the row, or a status: at least one token survives every filter.
 * 4. No allocation after sample_ctx_create and sample_dist_init.
 *
 * Not known here: text, models, sessions.
 */
#ifndef SAMPLE_SAMPLE_H
#define SAMPLE_SAMPLE_H

#include "base/err.h"

/* ---- Parameters ----------------------------------------------------------------------------- */

/* Filters act in this order: top_k, temp, min_p, top_p; each on what the one before left,
 * renormalised. */
typedef struct {
    float temp;  /* 0 .. 100; 0: the highest logit, ties to the lowest id; nothing is drawn */
    int top_k;   /* >= 0; keep the k highest logits, ties to the lowest ids; 0: all */
    float top_p; /* 0 .. 1; keep the fewest most probable tokens whose sum reaches it, at least
                    * one, ties to the lowest ids; 1: all */
    float min_p; /* 0 .. 1; drop tokens less probable than min_p times the most probable; 0: none */
    uint64_t seed; /* any */
} sample_params;

/* temp 0.8, top_k 40, top_p 0.95, min_p 0.05, seed 0. */
sample_params sample_params_default(void);
/* Errors: ARG; the message names the field, its value and the accepted range (NaN and infinities
 * are outside every range). */
ft_status sample_params_check(const sample_params *p, ft_error *err) MUST_CHECK;

/* ---- The distribution ------------------------------------------------------------------------- */

/* Probabilities of the tokens that survived, all others have 0. */
typedef struct {
    int n;        /* >= 1 once filled */
    int cap;      /* entries that fit */
    int32_t *id;  /* [n] ascending; owned, like the following */
    double *p;    /* [n] > 0, sum 1 */
    double *logp; /* [n] natural logarithm of p */
} sample_dist;

/* Tokens that a distribution over n_vocab tokens can have at most: what cap must be. */
int sample_dist_need(const sample_params *p, int n_vocab);
/* Errors: ARG (cap < 1), NOMEM; d is {0} then. */
ft_status sample_dist_init(sample_dist *d, int cap, ft_error *err) MUST_CHECK;
void sample_dist_deinit(sample_dist *d);
/* logp of a token; -INFINITY when it is not in d. */
double sample_dist_logp(const sample_dist *d, int32_t id);

/* Workspace for rows of up to n_max logits (16 bytes each); one thread at a time. */
typedef struct sample_ctx sample_ctx;
/* Errors: ARG (n_max < 1), NOMEM; *out is NULL then. */
ft_status sample_ctx_create(sample_ctx **out, int n_max, ft_error *err) MUST_CHECK;
void sample_ctx_free(sample_ctx *c); /* NULL is allowed */

/* What a distribution is made from; borrowed for the call. */
typedef struct {
    const float *logits; /* [n]; -inf: a token that cannot come */
    int n;               /* 1 .. n_max of the context */
} sample_row;

/* Fill d from a row. The log-probabilities that a client asks for are those of this function, at
 * its own parameters or, for the model's own, at temp 1 without filters. A token so unlikely that
 * exp((logit - highest) / temp) is 0 in double is dropped.
 *
 * Errors  ARG     a parameter, or row->n, outside its range.
 *         RANGE   d->cap < sample_dist_need().
 *         DEVICE  NaN or +inf among the logits, or all of them -inf; the message has the count.
 *         d->n is 0 after each. */
ft_status sample_distribution(sample_ctx *c, sample_dist *d, const sample_row *row,
                              const sample_params *p, ft_error *err) MUST_CHECK;

/* ---- Draws ------------------------------------------------------------------------------------ */

/* What a random number is for: streams of different purposes are independent. */
typedef enum {
    SAMPLE_FOR_TOKEN = 1,   /* the draw of a token; a coupled draft uses the same numbers */
    SAMPLE_FOR_DRAFT = 2,   /* a draft that is drawn independently of the token */
    SAMPLE_FOR_ACCEPT = 3,  /* whether such a draft is accepted */
    SAMPLE_FOR_CORRECT = 4, /* the token in place of one that is not */
} sample_purpose;

/* Uniform in (0, 1), both ends excluded, a function of its arguments alone. */
double sample_uniform(uint64_t seed, int32_t pos, int32_t token, sample_purpose purpose);

/* The token for position pos: argmax over x in d of logp(x) + G(x), where G = -log(-log(u)) and
 * u = sample_uniform(seed, pos, x, SAMPLE_FOR_TOKEN); ties to the lowest id. It has exactly the
 * distribution d (Gumbel-max), and two distributions that are close mostly give the same token. */
int32_t sample_draw(const sample_dist *d, uint64_t seed, int32_t pos);

#endif
