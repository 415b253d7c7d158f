/* bpe.h - byte-pair encoding of one piece of text.
 *
 * The rule: of all neighbouring pairs that have a merge, the one of lowest rank is merged, the
 * leftmost of equals first, until no pair has one. Time is n log n for a piece of n bytes.
 *
 * Invariant: a merge never makes a control token, so text alone cannot become one.
 */
#ifndef TEXT_BPE_H
#define TEXT_BPE_H

#include "base/buf.h"
#include "text/vocab.h"

typedef struct {
    int32_t left, right; /* token ids */
    uint32_t rank;       /* BPE_NO_MERGE: a free slot */
} bpe_pair;

#define BPE_NO_MERGE UINT32_MAX

typedef struct {
    bpe_pair *slot; /* owned, [mask + 1] hash table, open addressing */
    size_t mask;
    int32_t *result; /* owned, [n_merge]: id of the token that merge `rank` makes */
} bpe_table;

/* merge [n_merge] "left right" in the byte alphabet, best first; borrowed. Of equal lines the first
 * counts. A line that makes a control token is left out.
 * Errors: FORMAT (a line without two halves, or a half or a result that is no token), NOMEM; t must
 * then be given to bpe_deinit all the same. */
ft_status bpe_init(bpe_table *t, const vocab *v, const gguf_str *merge, size_t n_merge,
                   ft_error *err) MUST_CHECK;
void bpe_deinit(bpe_table *t); /* t zeroed or initialised */

typedef struct bpe_node bpe_node;

/* Scratch of one encoding; start as {0}. */
typedef struct {
    bpe_node *node; /* owned, [cap] */
    uint64_t *heap; /* owned, [2 cap] */
    size_t cap;
} bpe_scratch;

void bpe_scratch_deinit(bpe_scratch *s);

/* Append the ids of piece[n] to ids. Errors: NOMEM, RANGE (over the limit of ids, or n over
 * 2^31 - 1); ids may then hold a part of them. */
ft_status bpe_encode(const bpe_table *t, const vocab *v, bpe_scratch *s, const uint8_t *piece,
                     size_t n, buf *ids, ft_error *err) MUST_CHECK;

/* Append one id. Errors as above. */
ft_status bpe_put_id(buf *ids, int32_t id, ft_error *err) MUST_CHECK;

#endif
