/* draft.h - the drafter of one conversation: the MTP block with its own cells, turned into a source of
 * draft tokens that reads only what is valid and only what it must (docs/drafter.md).
 *
 * Cell c holds the pair (hidden row of position c, token of position c + 1). Committed hidden rows
 * arrive through draft_observe; the last one waits until its token is known. A chain's first step encodes
 * what waits - all but the last with K and V alone - and gives the logits of the first draft; the next
 * ones chain on the block's own output. Steps of several drafters share one call of the block, which reads
 * its weights once.
 *
 * 1. Which cells may be read is decided by cells.h alone.
 * 2. What waits are the hidden rows of consecutive positions, the last of them that of the last
 *    committed one.
 * 3. Cells of a chain are dropped at draft_end, and by everything that changes what is committed.
 * 4. Memory for cells comes page by page, before a step that writes them; a step itself allocates nothing.
 *    Where there is none, cells stay unreadable or a round goes without drafts, and draft_failed counts:
 *    never an error, for the text is the same.
 * 5. A step's logits and what it hands on depend on its own drafter alone, bit for bit, whatever shares
 *    the call.
 *
 * It knows nothing of sampling: logits out, tokens in.
 *
 * IDLE  -> CHAIN  draft_steps   cell n_past - 1 encoded, its logits given
 * CHAIN -> CHAIN  draft_steps   one more cell behind it
 * any   -> IDLE   draft_end, draft_observe, draft_reset
 */
#ifndef DRAFT_DRAFT_H
#define DRAFT_DRAFT_H

#include "draft/adapt.h"
#include "draft/cells.h"
#include "draft/vocab.h"
#include "draft/weights.h"
#include "layer/layer.h"

typedef struct {
    int n_ctx;        /* cells */
    int n_window;     /* most hidden rows that wait; what one round can commit */
    int sink, window; /* as cells_init */
    dtype kv_type;
    const model_mtp *w; /* the model's, or a copy with other types; borrowed */
    const tensor *head; /* rows to compute logits for; borrowed */
} draft_params;

typedef struct drafter drafter;

ft_status draft_create(drafter **out, backend *be, const model *m, const draft_params *p,
                       ft_error *err) MUST_CHECK;
void draft_free(drafter *d); /* NULL is allowed */
void draft_reset(drafter *d);
/* As given to draft_create. */
const draft_params *draft_get_params(const drafter *d);
size_t draft_bytes(const drafter *d);    /* device memory, now */
uint64_t draft_failed(const drafter *d); /* times that memory for cells was wanting */
/* Make cells first .. first + n - 1 writable. The functions below do it for what they write. Errors: NOMEM;
 * what is readable is unchanged. */
ft_status draft_reserve(drafter *d, int first, int n, ft_error *err) MUST_CHECK;
/* Arena that the calls below need, when n_row rows are observed at once, and n drafters step at once. */
size_t draft_scratch(const model *m, const draft_params *p, int n_row, int n);

/* Hidden rows [n][width] of committed positions first .. first + n - 1. tok: ids of all positions
 * below first + n. n_end: positions that will be committed when all of this input is; rows that no
 * draft behind n_end can read are skipped. */
void draft_observe(drafter *d, arena *scratch, const int32_t *tok, int first, int n,
                   const float *hidden, int n_end);

/* Are drafts possible behind position n_past - 1? (Its hidden row waits.) */
bool draft_ready(const drafter *d, int n_past);
/* A step of one drafter. The first of a chain needs draft_ready, the ids of all positions and, as next, the
 * decided token of position n_past, which is not evaluated yet; one that goes on has tok NULL and the draft
 * just chosen. logits: out, [head rows] for the draft to choose, in the buffer of the call; NULL: a first step
 * without memory for its cells, which was not made, and d is as before. */
typedef struct {
    drafter *d;
    const int32_t *tok; /* [n_past] */
    int n_past;
    int32_t next;
    const float *logits;
} draft_step;
/* Steps of n >= 1 drafters, each another one, of one model with the same weights and head, in one call of
 * the block. logits [n][head rows], device: where the rows go. */
void draft_steps(draft_step *step, int n, float *logits, arena *scratch);
void draft_end(drafter *d);

/* Hidden row [width] that the last step handed on. */
const float *draft_hidden(const drafter *d);

/* For comparisons: committed rows [n] of cells first .. first + n - 1 to the end, each reading what its
 * own step would read. The arena needs draft_rows_scratch(). Errors: NOMEM; nothing was written. */
typedef struct {
    int first, n;
    const int32_t *next; /* [n] the tokens behind them */
    const float *hidden; /* [n][width] */
    float *logits;       /* out, [n][head rows] */
    layer_stage_fn *stage;
    void *stage_ctx;
} draft_rows_args;
ft_status draft_rows(drafter *d, arena *scratch, const draft_rows_args *a,
                     ft_error *err) MUST_CHECK;
size_t draft_rows_scratch(const drafter *d, int n);

/* Encode all that waits but the last row, so that what is kept depends on the text alone. */
void draft_settle(drafter *d, arena *scratch, const int32_t *tok);
/* The tokens first .. first + n - 1 were dropped, and those behind them have moved down by n: cells of pairs
 * that are still there move too, others become unreadable (cells_shift). Settle first. */
void draft_shift(drafter *d, int first, int n);
/* Digest of all that a later draft could read. Settle first. */
uint64_t draft_digest(const drafter *d);

/* Cells read by the last step, for byte counts. */
int draft_last_read(const drafter *d);

#endif
