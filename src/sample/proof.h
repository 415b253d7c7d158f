/* proof.h - the proof that drafting leaves the distribution alone, by counting texts.
 *
 * A toy model of 6 tokens, whose logits depend on the tokens before and which is sampled with
 * penalties and filters, makes many texts of 3 tokens: one token at a time, and in rounds of drafts
 * under each rule with drafters of several kinds. The share of texts that differs (total variation)
 * is at the level of chance for the exact rules, and far above it for greedy-match.
 *
 * Everything is a function of the seed: the same figures on every machine, but for the last bits of
 * the C library's exp and log. Private to sample/, but for the engine, which offers it as a command.
 */
#ifndef SAMPLE_PROOF_H
#define SAMPLE_PROOF_H

#include "sample/verify.h"

enum {
    PROOF_N_TOK = 6,
    PROOF_LEN = 3,            /* tokens of a text */
    PROOF_N_DRAFT = 2,        /* drafts of a round, fewer near the end of the text */
    PROOF_N_TEXT = 7 * 7 * 7, /* texts, those that end early included */
};

/* X(NAME, "name"), in the order of the enum. */
#define PROOF_DRAFTER_LIST(X)                                                   \
    X(NONE, "none")         /* one token at a time, whatever the rule */        \
    X(ORDINARY, "ordinary") /* another model that is often right */             \
    X(REDUCED, "reduced")   /* the ordinary one, with half of the vocabulary */ \
    X(WRONG, "wrong")       /* a token that cannot be, where there is one */    \
    X(UNLIKELY, "unlikely") /* the least likely token that can be */            \
    X(BLIND, "blind")       /* never the most likely token */                   \
    X(CHAIN, "chain")       /* the highest logit of the model itself */

typedef enum {
#define PROOF_DRAFTER_ENUM(name, text) PROOF_##name,
    PROOF_DRAFTER_LIST(PROOF_DRAFTER_ENUM)
#undef PROOF_DRAFTER_ENUM
        PROOF_N_DRAFTER
} proof_drafter;

const char *proof_drafter_name(proof_drafter d); /* a static string; "unknown" outside the list */

/* How texts are made. */
typedef struct {
    verify_rule rule;
    proof_drafter drafter;
    bool argmax;   /* its drafts are its most probable tokens; otherwise drawn */
    uint64_t seed; /* two cases with other seeds are independent */
    int n_text;    /* texts to make, >= 1 */
    int32_t end;   /* the token that ends a text early; -1: none */
} proof_case;

typedef struct {
    int n_text;
    int count[PROOF_N_TEXT]; /* by proof_code */
    uint64_t n_token;        /* of the first rounds of the texts, which have room for all drafts */
} proof_tally;

/* Index of a text of n tokens, n <= PROOF_LEN. */
int proof_code(const int32_t *text, int n);

/* The toy model, its drafters and their distributions. */
typedef struct proof proof;
/* Errors: NOMEM; *out is NULL then. */
ft_status proof_create(proof **out, ft_error *err) MUST_CHECK;
void proof_free(proof *f); /* NULL is allowed */

/* The parameters that it samples with: temp 0.6, top-p 0.95, min-p 0.05, repetition 1.08, presence
 * 0.4 over everything before. */
sample_params proof_params(void);

/* Make the texts of a case. Allocates nothing. Errors: those of verify_begin, which only a bug could
 * bring about. */
ft_status proof_run(const proof *f, const proof_case *c, proof_tally *out,
                    ft_error *err) MUST_CHECK;

/* The exact probability of each text, law [PROOF_N_TEXT], as products of the model's distributions. */
void proof_law(const proof *f, int32_t end, double *law);

/* Total variation between the shares of two tallies: half the sum of the differences. */
double proof_distance(const proof_tally *a, const proof_tally *b);
/* What proof_distance of two tallies of n_text texts stays below when both have this law, but once
 * in about a million times: its mean by the normal approximation, sum of sqrt(p (1 - p) / (pi n)),
 * and five standard deviations, each at most sqrt((1 - 2 / pi) / (2 n)). */
double proof_noise(const double *law, int n_text);

#endif
