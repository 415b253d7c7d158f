/* verify.h - which drafts of a round become text, and the token behind them.
 *
 * A round has k drafts d_1 .. d_k and k + 1 rows: row i (0 .. k) decides the token of position
 * first + i, its distribution p[i] has the history up to and with draft i, and q[i] is what draft
 * i + 1 (draft[i] in C) was drawn from. Rows are decided in ascending order until one decides
 * something other than its draft, or row k is decided.
 *
 * 1. Every rule but greedy-match is exact: the tokens have the distribution that deciding one at a
 *    time from the rows gives, whatever the drafter. Under coupled they are those very tokens:
 *    sample_draw(p[i], seed, first + i).
 * 2. Nothing here has a state that outlives a round. Random numbers are functions of seed, position
 *    and purpose; those that drafting and accepting use, which a round may look at beyond the token
 *    it ends with, also of the round's first position, so that no later round sees them again. The
 *    number of drafts is no part of any key.
 * 3. How many drafts a round has may depend on anything known before the last of them was drawn
 *    (limits, statistics, the q so far), never on what was drawn last.
 * 4. No allocation, no workspace: a verify is the caller's, its arrays are borrowed until the end of
 *    the round.
 *
 * A caller that stops in the middle of a round (end of text, limit, cancellation) just asks for no
 * more tokens; the next round starts behind the last token it took.
 */
#ifndef SAMPLE_VERIFY_H
#define SAMPLE_VERIFY_H

#include "sample/sample.h"

/* X(NAME, "name"), in the order of the enum.
 *
 * coupled       Drafts are drawn with the noise of the tokens themselves and accepted when they are
 *               the target's own draw (Daliri, Musco, Suresh 2024, "Coupling without Communication
 *               and Drafter-Invariant Speculative Decoding"). For a seed the text is the one without
 *               drafts, token for token. The default.
 * block         Drafts have noise of their own; how many are accepted is decided for all of them
 *               together (Sun et al. 2024, "Block Verification Accelerates Speculative Decoding").
 * ratio         Drafts have noise of their own; each is accepted with min(1, p / q), in its place
 *               comes a draw from max(p - q, 0) (Leviathan et al. 2023, "Fast Inference from
 *               Transformers via Speculative Decoding").
 * greedy-match  NOT A SAMPLER, for comparison alone: drafts are kept while they are the highest
 *               logit of their rows; only the token behind them is drawn. The text has another
 *               distribution than the model's. */
#define VERIFY_RULE_LIST(X) \
    X(COUPLED, "coupled")   \
    X(BLOCK, "block")       \
    X(RATIO, "ratio")       \
    X(GREEDY_MATCH, "greedy-match")

typedef enum {
#define VERIFY_RULE_ENUM(name, text) VERIFY_##name,
    VERIFY_RULE_LIST(VERIFY_RULE_ENUM)
#undef VERIFY_RULE_ENUM
        VERIFY_N_RULE
} verify_rule;

const char *verify_rule_name(verify_rule r); /* a static string; "unknown" outside the list */

typedef struct {
    verify_rule rule;
    bool argmax;   /* drafts are the drafter's most probable tokens, nothing is drawn for them */
    uint64_t seed; /* of the request, the same in every round */
    int32_t first; /* position that row 0 decides, >= 0; first + n_draft < 2^31 */
    int n_draft;   /* k >= 0 */
    const int32_t *draft; /* [n_draft] from verify_draft, or any tokens if argmax */
    /* [n_draft] the very distributions that verify_draft drew from, unchanged since. Read by block
     * and ratio unless argmax; NULL if argmax. */
    const sample_dist *q;
    const sample_dist *p; /* [n_draft + 1] all rows; read by block alone */
    const int32_t *top;   /* [n_draft] verify_top of each row; read by greedy-match alone */
} verify_round;

/* Draft i (0 ..) of a round from the drafter's distribution q, which is only read: the draw with the
 * noise that the rule wants, or the most probable token (lowest id of equals) if argmax. Reads rule,
 * argmax, seed and first of r. */
int32_t verify_draft(const verify_round *r, int i, const sample_dist *q);

/* The highest of logits [n], n >= 1, ties to the lowest id: of the row as the model gave it, before
 * penalties and bias. NaN is passed over. */
int32_t verify_top(const float *logits, int n);

/* A round under way; the fields are verify.c's. */
typedef struct {
    verify_round r;
    int i;       /* row that comes next */
    int n_block; /* block: drafts that are accepted */
    double w;    /* block: weight of p in the distribution behind them; 1 under ratio */
} verify;

/* r is copied, its arrays are borrowed until the round is over.
 *
 * Errors  ARG  an unknown rule; first or n_draft out of range; block or ratio with sampled drafts
 *              but without q, or argmax with q; a draft that its q does not have (so it was drawn
 *              from something else); block without p, or greedy-match without top. v must not be
 *              used then. */
ft_status verify_begin(verify *v, const verify_round *r, ft_error *err) MUST_CHECK;

typedef struct {
    int32_t token; /* of position first + i */
    bool accepted; /* it is draft i, accepted */
    bool last;     /* the round is over: token is no accepted draft */
} verify_token;

/* Decide the next row. p: its distribution, filled, borrowed for the call; under block the same as
 * in verify_begin, under the other rules it need not exist before. Not to be called after last. */
verify_token verify_next(verify *v, const sample_dist *p);

/* One step of block verification, for verify_begin and proofs of it. i: 1 .. n_draft. w in-out: the
 * joint weight of the drafts before i (1 for none), then with i. Returns the chance that the first i
 * drafts are accepted, given that no more than i are. */
double verify_block_chance(const verify_round *r, int i, double *w);

#endif
