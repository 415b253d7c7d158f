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

/* What makes the distribution, each acting on what the one before left, renormalised. */
typedef enum {
    SAMPLE_PENALTIES, /* repetition, then presence and frequency, then finite logit bias */
    SAMPLE_TOP_K,
    SAMPLE_TEMP,
    SAMPLE_MIN_P,
    SAMPLE_TOP_P,
    SAMPLE_N_STAGE
} sample_stage;

/* Added to the logit of one token. -inf: the token never comes, whatever the order of the stages. */
typedef struct {
    int32_t id;
    float bias; /* -inf, or -1000 .. 1000; several of one token add up */
} sample_bias;
#define SAMPLE_MAX_BIAS 4096

typedef struct {
    float temp;  /* 0 .. 100; 0: the highest logit that the other stages leave, ties to the lowest
                    * id; nothing is drawn */
    int top_k;   /* >= 0; keep the k highest logits, ties to the lowest ids; 0: all */
    float top_p; /* 0 .. 1; keep the fewest most probable tokens whose sum reaches it, at least
                    * one, ties to the lowest ids; 1: all */
    float min_p; /* 0 .. 1; drop tokens less probable than min_p times the most probable; 0: none */
    uint64_t seed; /* any */

    /* Penalties, of tokens among the last penalty_last_n of the history, where they come c times:
     * a logit above 0 is divided by repeat_penalty, another multiplied by it; from the result
     * presence_penalty + c * frequency_penalty is subtracted. */
    float repeat_penalty;    /* 0.01 .. 100; 1: off */
    float presence_penalty;  /* -100 .. 100; 0: off */
    float frequency_penalty; /* -100 .. 100; 0: off */
    int penalty_last_n;      /* 0: no penalties; -1: the whole history */

    const sample_bias *bias; /* [n_bias], any order; borrowed, must outlive the parameters */
    int n_bias;              /* 0 .. SAMPLE_MAX_BIAS */

    /* [n_stage] each at most once; one that is missing does nothing. But without SAMPLE_PENALTIES
     * the logit bias comes first, and temp 0 is the highest logit with or without SAMPLE_TEMP. */
    sample_stage stage[SAMPLE_N_STAGE];
    int n_stage; /* 0 .. SAMPLE_N_STAGE */
} sample_params;

/* temp 0.8, top_k 40, top_p 0.95, min_p 0.05, seed 0, no penalties (last_n 64), no bias; stages
 * penalties, top_k, temp, min_p, top_p. */
sample_params sample_params_default(void);
/* Errors: ARG; the message names the field, its value and the accepted range (NaN and infinities
 * are outside every range). */
ft_status sample_params_check(const sample_params *p, ft_error *err) MUST_CHECK;
/* Every biased token must be below n_vocab. Errors: ARG, naming the first that is not. */
ft_status sample_bias_check(const sample_params *p, int n_vocab, ft_error *err) MUST_CHECK;
/* The order "penalties;top_k;temp;min_p;top_p" or another, with ';' or ',' between the names, to
 * p->stage. Errors: ARG (an unknown or empty name, with the list of names; a name that comes twice);
 * p is unchanged then. */
ft_status sample_stages_parse(sample_params *p, const char *text, ft_error *err) MUST_CHECK;

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

/* Workspace for rows of up to n_max logits, of tokens below n_max; one thread at a time. */
typedef struct sample_ctx sample_ctx;
/* Errors: ARG (n_max < 1), NOMEM; *out is NULL then. */
ft_status sample_ctx_create(sample_ctx **out, int n_max, ft_error *err) MUST_CHECK;
void sample_ctx_free(sample_ctx *c); /* NULL is allowed */

/* What a distribution is made from; borrowed for the call. */
typedef struct {
    const float *logits; /* [n]; -inf: a token that cannot come */
    int n;               /* 1 .. n_max of the context */
    const int32_t *id; /* [n] the token of each logit, ascending, below n_max; NULL: i is token i */
    const int32_t *hist; /* [n_hist] every token before this row, oldest first, each once: the
                            * conversation, and of a window the tokens up to this row. May be NULL
                            * when n_hist is 0. Ids outside 0 .. n_max - 1 count for nothing */
    int n_hist;
} sample_row;

/* Fill d from a row; its ids are tokens, also where the row has an id map. The log-probabilities that
 * a client asks for are those of this function, at its own parameters or, for the model's own, at
 * temp 1 without filters. A token so unlikely that exp((logit - highest) / temp) is 0 in double is
 * dropped. A penalised logit is computed in double, rounded to float, and stays finite.
 *
 * Errors  ARG     a parameter, or row->n, outside its range; a biased token outside the vocabulary
 *                 (row->n tokens, n_max of them where the row has a map); no token that the bias does
 *                 not ban.
 *         RANGE   d->cap < sample_dist_need().
 *         DEVICE  NaN or +inf among the logits (also of banned tokens), or all of them -inf; the
 *                 message has the count.
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
