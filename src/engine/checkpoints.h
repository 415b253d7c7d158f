/* checkpoints.h - the states that a model's sessions kept, to start from again. Private to engine/.
 *
 * One store per model. A checkpoint is a beginning of some conversation: its tokens, the trunk's state
 * and the drafter's behind them, and the settings under which they were computed. A session whose text
 * begins with the same tokens, under the same settings, goes on from there instead of reading them again.
 *
 * 1. Bytes held are at most the limit: the copied part of each checkpoint (recurrent states, histories,
 *    ids) and every page of cells once, however many checkpoints share it. Pages that a session uses too
 *    are counted all the same.
 * 2. Two checkpoints of the store differ in settings or tokens.
 * 3. A checkpoint that somebody holds (find, on_way) stays whole until it is released, also when the store
 *    has let go of it.
 * 4. The store has a lock of its own and is never locked while states are copied, written or read.
 *
 * Which one goes when room is needed: that of the least
 *
 *     value = (n - n_parent) / bytes / (1 + age)
 *
 * n - n_parent  tokens that would have to be read again without it: n_parent is the length of the longest
 *               other checkpoint of the store that is a beginning of it
 * bytes         what its going would free: its copied part, and the pages that no other checkpoint has
 * age           how often a checkpoint was put or found since it was last put or found itself
 *
 * So a long system prompt that many conversations begin with stays: it saves much each time, and costs
 * little, since its pages are those of its continuations. One that is never used again becomes cheaper
 * with every use of others, and goes. A new checkpoint takes part in this as all others do.
 */
#ifndef ENGINE_CHECKPOINTS_H
#define ENGINE_CHECKPOINTS_H

#include "draft/snapshot.h"
#include "state/snapshot.h"

typedef struct checkpoints checkpoints;

/* What has to be equal, besides the tokens, for a state to be the one that a session would compute. */
typedef struct {
    dtype kv_type;
    bool draft;       /* with a drafter; its weights are the model's */
    int sink, window; /* of the drafter, 0 without one */
} checkpoint_key;
bool checkpoint_key_equal(const checkpoint_key *a, const checkpoint_key *b);

/* Its parts may be read by who holds it; all else is the store's. */
typedef struct checkpoint {
    checkpoint_key key;
    int n;             /* tokens, at least 1 */
    seq_snap *trunk;   /* owned */
    draft_snap *draft; /* owned; NULL without a drafter */
    int n_ref;
    uint64_t used; /* the store's clock when it was last put or found */
    const struct checkpoint
        *parent;    /* the longest other one that is a beginning of it; NULL: none */
    uint64_t bytes; /* that its going would free */
} checkpoint;

/* limit: bytes; 0: nothing is ever kept. Errors: NOMEM. */
ft_status checkpoints_create(checkpoints **out, uint64_t limit, ft_error *err) MUST_CHECK;
void checkpoints_free(checkpoints *c); /* NULL is allowed; nothing of it is held any more */

/* Is there any use in taking a snapshot? */
bool checkpoints_enabled(const checkpoints *c);
/* Length of the longest checkpoint of these settings that is a beginning of tok [n]; 0: none. */
int checkpoints_known(checkpoints *c, const checkpoint_key *key, const int32_t *tok, int n);
/* The same one, held for the caller, who releases it; NULL: none. */
checkpoint *checkpoints_find(checkpoints *c, const checkpoint_key *key, const int32_t *tok, int n);
void checkpoints_release(checkpoints *c, checkpoint *e); /* NULL is allowed */
/* One of exactly these tokens counts as used now; false: there is none. */
bool checkpoints_touch(checkpoints *c, const checkpoint_key *key, const int32_t *tok, int n);
/* All that are beginnings of tok [n], held, by length: out [max], the longest ones when there are more.
 * Returns how many. */
int checkpoints_on_way(checkpoints *c, const checkpoint_key *key, const int32_t *tok, int n,
                       checkpoint **out, int max);

/* Keep a state. trunk and draft are taken, also on failure. One that is there already counts as used, and
 * one that alone is over the limit is dropped: OK in both cases. Errors: NOMEM; the store is as before. */
ft_status checkpoints_put(checkpoints *c, const checkpoint_key *key, seq_snap *trunk,
                          draft_snap *draft, ft_error *err) MUST_CHECK;

/* For the statistics: a session began a text of which so many tokens were known. */
void checkpoints_count(checkpoints *c, int n_known);
void checkpoints_stats(checkpoints *c, ft_checkpoint_stats *out);

#endif
