/* state.h - what a conversation has besides its tokens' text: K/V cells, recurrent state, histories.
 *
 * One seq per conversation. The forward pass (layer/) reads and extends it; this room owns the
 * memory, the counts, and what a rollback means.
 *
 * 1. n_past rows are committed. n_spec rows behind them have been evaluated and can be kept (a
 *    prefix of them) or dropped, all parts of the state together: seq_accept.
 * 2. Dropping copies nothing. K/V cells past the end are simply not read; convolution histories are
 *    found by index; recurrent states are those of the committed rows, less the rows in pend, of
 *    which the first n_apply are applied when the state is next read.
 * 3. The cells of a layer at index >= n_past + n_spec are never read.
 *
 * DECODED -> seq_begin -> (layers extend the state) -> seq_end -> seq_accept -> DECODED
 * A failure between begin and end leaves the seq broken: only seq_reset mends it.
 */
#ifndef STATE_STATE_H
#define STATE_STATE_H

#include "backend/backend.h"
#include "base/err.h"
#include "state/pages.h"

/* What one layer of a model keeps; filled by the layer room from the hyper-parameters. */
typedef enum { SEQ_ATTN, SEQ_GDN } seq_kind;
typedef struct {
    seq_kind kind;
    int n_kv;  /* ATTN: values of a K (or V) cell, n_head_kv * d_head */
    int d_idx; /* ATTN: values of a raw indexer key */
    int ratio; /* ATTN: positions of a pooled one, divides BE_PAGE; 0: no indexer */
    int n_key, n_val, d, n_conv; /* GDN */
} seq_layer_shape;

typedef struct {
    int n_layer;
    const seq_layer_shape *layer; /* [n_layer], borrowed for seq_create */
    int ple_layer;                /* -1: none */
    int ple_width, ple_rows;      /* row of the PLE convolution, rows of history it needs */
    int n_ctx;                    /* most committed tokens */
    int n_window;                 /* most rows that a call may leave uncommitted */
    dtype kv_type;                /* F32, F16, Q8_0 */
} seq_shape;

typedef struct {
    seq_kind kind;
    /* ATTN: in the pages of the seq. */
    be_kv kv;          /* [n_kv] of kv_type */
    be_cells idx_raw;  /* with an indexer: [d_idx], F32 when kv_type is F32, else F16 */
    be_cells idx_pool; /* [d_idx] F32, one for every ratio positions */
    /* GDN */
    float *gdn;  /* [n_val][d][d] */
    float *pend; /* [n_window][..] */
    float *conv; /* [n_conv - 1 + n_window][C] */
} seq_layer;

typedef struct seq {
    seq_shape shape; /* shape.layer: owned copy */
    backend *be;     /* borrowed */
    int n_past, n_spec;
    int n_apply; /* accepted rows still in pend */
    int n_extra; /* accepted rows in the convolution histories past their minimum */
    bool broken;
    int32_t *tok;     /* [n_ctx + n_window] ids of all rows, committed and not; host */
    seq_layer *layer; /* [n_layer] */
    pages pages;      /* of all layers' cells */
    float *ple_conv;  /* [ple_rows + n_window][ple_width] */
    size_t n_bytes;   /* of device memory, pages not counted */
} seq;

/* Bytes of device memory that a seq has with a full context; false on overflow. seq_create takes what does
 * not depend on the context; pages of cells come as they are needed. */
bool seq_size(const seq_shape *s, size_t *n_bytes) MUST_CHECK;
/* Errors: ARG (a shape out of range), NOMEM (says how much). */
ft_status seq_create(seq **out, backend *be, const seq_shape *s, ft_error *err) MUST_CHECK;
void seq_free(seq *s); /* NULL is allowed */
/* Forget everything: as new. Lets its pages go. */
void seq_reset(seq *s);
size_t seq_bytes(const seq *s); /* of device memory, now */

/* Make the positions n_past .. n_past + n_row - 1 writable, so that a step itself allocates nothing.
 * Errors: DEVICE, RANGE as seq_begin; NOMEM; the state is unchanged. */
ft_status seq_reserve(seq *s, int n_row, ft_error *err) MUST_CHECK;

/* Room for n_row more rows of which n_commit are final? RANGE names position and limit; ARG when
 * n_row - n_commit exceeds the window; DEVICE when broken. Records their ids. They are reserved. */
ft_status seq_begin(seq *s, const int32_t *tok, int n_row, int n_commit, ft_error *err) MUST_CHECK;
/* The layers are done with these rows. */
void seq_end(seq *s, int n_row, int n_commit);
/* Keep the first n of the n_spec rows, drop the others. 0 <= n <= n_spec. */
void seq_accept(seq *s, int n);
/* Drop the tokens first .. first + n - 1, all committed; those behind them move down by n, their keys turned
 * (r) to the new positions. Recurrent parts and histories stay as they are. Pooled indexer keys from first
 * on are NOT made again here (layer_pool_index). Errors: DEVICE when broken, NOMEM; s is unchanged. */
ft_status seq_shift(seq *s, const be_rotary *r, int first, int n, ft_error *err) MUST_CHECK;
/* Apply what is pending, so that the memory holds the committed state and nothing else. */
void seq_settle(seq *s);
/* 64-bit digest of the committed state: equal for two seqs exactly when every bit that a later row
 * could read is equal. Settles. */
uint64_t seq_digest(seq *s);

#endif
