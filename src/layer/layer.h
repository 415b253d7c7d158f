/* layer.h - the forward pass: a batch of rows of one or several conversations through a model.
 *
 * It says what to compute, once, part by part as docs/models.md does; the backend says how.
 *
 * 1. A row's results depend on its own conversation alone, bit for bit, whatever shares the call.
 * 2. A call allocates nothing: scratch comes from the arena, whose need layer_scratch tells.
 */
#ifndef LAYER_LAYER_H
#define LAYER_LAYER_H

#include "backend/backend.h"
#include "base/arena.h"
#include "base/err.h"
#include "model/model.h"
#include "state/state.h"

/* Consecutive rows of one conversation; the segments follow each other in the batch. The first
 * n_commit rows are final, the rest a window that seq_accept decides about. */
typedef struct {
    seq *s;
    int n_row, n_commit;
} layer_seg;

/* An intermediate result: rows [n_row][n_col], float32 or (is_int) int32. Names as in docs/models.md,
 * "stage_L3.attn_in". For bisecting; NULL hook: nothing is called. */
typedef void layer_stage_fn(void *ctx, const char *name, const void *rows, bool is_int, int n_row,
                            int n_col);

typedef struct {
    const int32_t *tok;   /* [sum of n_row], each in [0, n_vocab) */
    const layer_seg *seg; /* [n_seg] */
    int n_seg;
    const int32_t *want; /* [n_want] rows of the batch whose logits are wanted, ascending */
    int n_want;
    float *logits; /* out, [n_want][n_vocab] */
    float *hidden; /* out, [rows][layer_hidden_width()]: what the MTP block reads; NULL: none */
    bool dense;    /* QSA reads every cell (for comparisons) */
    layer_stage_fn *stage;
    void *stage_ctx;
} layer_batch;

/* H in qwen35 and qwen35moe (after output_norm), n_hc * H in qwen4exp (the wide residual). */
static inline int layer_hidden_width(const model_hparams *h)
{
    return h->n_hc * h->n_embd;
}

/* Shape of the state of one conversation; layer [n_layer] is filled. */
void layer_state_shape(const model *m, int n_ctx, int n_window, dtype kv_type,
                       seq_layer_shape *layer, seq_shape *out);

/* Bytes of arena for a batch of n_row rows and n_want logits, contexts up to n_ctx cells. */
size_t layer_scratch(const backend *be, const model *m, int n_row, int n_want, int n_ctx);

/* Run the batch and extend the states (seq_begin to seq_end of every segment). On an error of
 * seq_begin no state has changed. Errors: RANGE, ARG, DEVICE as seq_begin. */
ft_status layer_forward(backend *be, const model *m, arena *scratch, const layer_batch *b,
                        ft_error *err) MUST_CHECK;

/* Make the pooled indexer keys of all complete blocks of s that end behind position first again, from the raw
 * ones; their pages are s's own. first 0: all, as after seq_cells_read. */
void layer_pool_index(backend *be, const model *m, seq *s, int first);

/* ---- The draft head --------------------------------------------------------------------------------- */

/* Rows of the MTP block: cell c takes the pair (hidden row of position c, token of position c + 1).
 * Every row's K and V are stored in its cell. The rows named by full are computed to the end; the
 * others need K and V alone: no query, no attention, no FFN, no head. */
typedef struct {
    int n_row;
    const int32_t *tok;     /* [n_row], each in [0, n_vocab) */
    const float *hidden;    /* [n_row][layer_hidden_width()] */
    const int32_t *cell;    /* [n_row] where K and V go, also the rotary position */
    const be_kv *const *kv; /* [n_row] cells of each row's conversation */
    int n_full;
    const int32_t *full;     /* [n_full] rows, ascending */
    const be_attn_row *read; /* [n_full] what each full row attends to; its own cell included */
    const tensor *head;      /* rows of the output matrix to compute logits for */
    float *logits;           /* out, [n_full][head->n_row]; NULL: the head is not run */
    float *hidden_out; /* out, [n_full][layer_hidden_width()]: hidden of a chained next cell */
    layer_stage_fn *stage;
    void *stage_ctx;
} layer_draft_batch;

size_t layer_draft_scratch(const model *m, int n_row, int n_full);
/* w is m->mtp or a copy of it with other tensor types. */
void layer_draft(backend *be, const model *m, const model_mtp *w, arena *scratch,
                 const layer_draft_batch *b);

#endif
