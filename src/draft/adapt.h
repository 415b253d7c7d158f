/* adapt.h - how many tokens to draft in a round.
 *
 * A round with k drafts gives 1 + s1 + s1 s2 + .. + (s1 .. sk) tokens on average, where si is the
 * share of rounds in which draft i was offered and accepted, of those in which the drafts before it
 * were. It takes the catch-up, k draft steps and the verification of k + 1 rows. All of these are
 * running estimates from what the caller reports; the k with the most tokens a second is taken, and 0,
 * plain decoding, is a choice like any other.
 *
 * What is not in use is not measured, so now and then a few rounds are spent on another k (a probe):
 * rarer and rarer while nothing changes, for ADAPT_PROBE_SHARE of the time in the long run at most. When
 * the time of some verification turns out to have changed by far, older times are taken to have changed
 * with it until they are measured again.
 * Independent of all estimates of acceptance, a guard adds up how far drafting is ahead of plain
 * decoding, and allows no drafts while it is behind by more than ADAPT_GUARD_SHARE of the time.
 *
 * 1. k is in 0 .. min(k_max, n_room).
 * 2. No clock and no random number: the same calls give the same choices.
 * 3. Every double of the state is finite and, but for guard and budget, >= 0, whatever is reported.
 *
 * Units: seconds, tokens, rounds. Not known here: tokens, models, clocks. Plain data; one per drafter
 * and model, kept from request to request.
 */
#ifndef DRAFT_ADAPT_H
#define DRAFT_ADAPT_H

#include "base/buf.h"

#define ADAPT_K_MAX       15
#define ADAPT_K_START     3    /* while nothing is known */
#define ADAPT_PROBE_SHARE 0.01 /* of the time, lost by probes against the best k */
#define ADAPT_GUARD_SHARE 0.01 /* of the time, lost by drafting against plain decoding */

typedef struct {
    int k_max;   /* 0 .. ADAPT_K_MAX: --draft-max */
    int k_fixed; /* 0 .. ADAPT_K_MAX: always that many (as k_max and room allow); -1: adaptive */
    float p_min; /* 0 .. 1: a chain ends at the first draft less probable; --draft-p-min */
} adapt_params;

/* k_max 3, adaptive, p_min 0. */
adapt_params adapt_params_default(void);
/* Errors: ARG; the message names the field, its value and the accepted range. */
ft_status adapt_params_check(const adapt_params *p, ft_error *err) MUST_CHECK;

/* Why k is what it is. */
typedef enum {
    ADAPT_FIXED, /* k_fixed, or k_max 0 */
    ADAPT_ROOM,  /* no room for a draft */
    ADAPT_START, /* nothing is known yet */
    ADAPT_BEST,  /* the most tokens a second */
    ADAPT_PLAIN, /* drafts do not pay */
    ADAPT_PROBE, /* another k, to keep the estimates true */
    ADAPT_GUARD, /* drafting has been slower than plain decoding for too long */
} adapt_why;

typedef struct {
    int k;
    adapt_why why;
    double plain_s; /* expected seconds a token: plain, 0: not known yet */
    double draft_s; /* with the best k >= 1; 0: not known yet */
    int draft_k;    /* that k; 0: none */
} adapt_choice;

/* What a round did and took. */
typedef struct {
    int n_step;   /* draft steps run */
    int n_draft;  /* drafts verified; fewer than k: the chain ended there, for want of confidence */
    int n_accept; /* drafts accepted */
    double catch_up_s; /* encoding of committed pairs that only the drafter needs; 0: none */
    double draft_s;    /* the n_step steps */
    double verify_s;   /* the trunk's call with n_draft + 1 rows */
    double sample_s;   /* the rest: distributions, draws, bookkeeping */
} adapt_round;

/* B120. Index i is draft i + 1 of a round. accepted[i] <= reached[i] <= drafted[i]; emitted is rounds
 * plus the sum of accepted. */
typedef struct {
    uint64_t rounds, emitted;
    uint64_t drafted[ADAPT_K_MAX];  /* offered for verification */
    uint64_t reached[ADAPT_K_MAX];  /* of those: every draft before was accepted */
    uint64_t accepted[ADAPT_K_MAX]; /* of those: and this one too */
    uint64_t probes;                /* rounds that were probes */
} adapt_stats;

/* A running mean; weight is the number of samples behind it, at most a memory's length. */
typedef struct {
    double mean, weight;
} adapt_mean;

typedef struct {
    adapt_params p;
    adapt_choice now; /* the choice of the round that runs */
    adapt_stats stats;
    /* Estimates. Index i of success and go_on is draft i + 1. */
    adapt_mean success[ADAPT_K_MAX];  /* si above */
    adapt_mean go_on[ADAPT_K_MAX];    /* share of chains that offer the draft once they are there */
    adapt_mean rows[ADAPT_K_MAX + 1]; /* seconds to verify and sample i + 1 rows */
    adapt_mean step;                  /* seconds of a draft step */
    adapt_mean catch_up[2];           /* seconds in a round without, with drafts */
    uint64_t last[ADAPT_K_MAX + 1];   /* round of the last k drafts, asked or verified; 0: none */
    int odd[ADAPT_K_MAX + 1];         /* samples in a row far above (< 0: below) rows[i] */
    uint64_t odd_from[ADAPT_K_MAX + 1]; /* the round of the first of them */
    double noise;                       /* mean of |sample / rows[i] - 1| */
    uint64_t changed;                   /* round in which old estimates were last rescaled */
    int apart;                          /* rounds until that may be done again */
    /* Probes. */
    int probe_left;      /* rounds that the present probe may still take; 0: none runs */
    int probe_k;         /* its k */
    int probe_depth;     /* the draft whose rejection ends it; 0: none */
    int turn;            /* which kind of probe is next */
    int since, interval; /* rounds since the last probe, and until the next */
    int base_k;          /* the best k when last looked at */
    int held;            /* rounds since base_k last went from 0 or to 0 */
    double budget;       /* probes may lose this many plain tokens' time */
    double guard;        /* plain tokens' time that drafting is ahead */
} adapt;

/* p has passed adapt_params_check. */
void adapt_init(adapt *a, const adapt_params *p);

/* The number of drafts of the round that begins. n_room: drafts for which there is room, in the
 * context and in what the request may still produce; below 1: none. */
int adapt_k(adapt *a, int n_room);
/* p: the drafter's own probability of the draft it just chose. True (for NaN too): drop it, the chain
 * ends here. */
bool adapt_stop(const adapt *a, double p);
/* The round is over. Counts are brought into range; a time that is not finite, negative or above
 * 1000 s teaches nothing. */
void adapt_measured(adapt *a, const adapt_round *r);

/* The last choice in words, as "does not pay: plain 12.1 ms a token, with 2 drafts 13.0". */
void adapt_explain(const adapt *a, buf *out);

#endif
