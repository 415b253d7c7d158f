/* snapshot.h - the state of a conversation at one moment, kept, given back, written and read.
 *
 * A snapshot refers to the pages of cells (pages.h) and copies the rest: recurrent states, histories,
 * ids. It is never changed. Taking one settles the conversation first.
 */
#ifndef STATE_SNAPSHOT_H
#define STATE_SNAPSHOT_H

#include "state/pages.h"
#include "state/state.h"

typedef struct seq_snap seq_snap;

/* Errors: NOMEM, DEVICE (s is broken); *out is NULL then. */
ft_status seq_snap_take(seq_snap **out, seq *s, ft_error *err) MUST_CHECK;
void seq_snap_free(seq_snap *n); /* NULL is allowed */
/* Make s, of the same backend, what it was. s has the same layers and kv_type, and room for so many
 * tokens: MISMATCH, RANGE otherwise. s is unchanged after a failure. Allocates nothing. */
ft_status seq_snap_restore(seq *s, const seq_snap *n, ft_error *err) MUST_CHECK;
int seq_snap_n_past(const seq_snap *n);
const int32_t *seq_snap_tok(const seq_snap *n); /* [n_past] */
size_t seq_snap_bytes(const seq_snap *n);       /* without its pages */
pages *seq_snap_pages(seq_snap *n);             /* for counting */

/* ---- As bytes --------------------------------------------------------------------------------------
 *
 * The same values in the same order on every machine (little endian), so that a reader knows every
 * size from the shape before it reads. Three kinds of parts, which a session file holds apart:
 * ids, cells of a range of positions, and the recurrent part (everything but ids and cells). */

/* Bytes taken or given in order; false, or a status, stops. */
typedef ft_status snap_write_fn(void *ctx, const void *bytes, size_t n, ft_error *err);
typedef ft_status snap_read_fn(void *ctx, void *bytes, size_t n, ft_error *err);

/* Cells first .. first + n - 1 of one kind, of n_val values each, in a type: F32, F16 or Q8_0; another one
 * than they have converts, by way of float, and loses what F16 and Q8_0 lose. */
typedef struct {
    backend *be;
    const be_cells *c;
    int n_val;
    dtype type; /* in the bytes */
    int first, n;
} snap_cells;

size_t snap_cells_bytes(dtype type, int n_val, int n);
/* Errors: ARG (not one of the types, or no block of it fits n_val), NOMEM, those of w and r. The cells are
 * readable; for reading their pages are writable, and after a failure the cells hold anything. */
ft_status snap_cells_write(const snap_cells *a, snap_write_fn *w, void *ctx,
                           ft_error *err) MUST_CHECK;
ft_status snap_cells_read(const snap_cells *a, snap_read_fn *r, void *ctx,
                          ft_error *err) MUST_CHECK;

/* Cells of positions first .. first + n - 1 of s: layer by layer, K then V (then raw indexer keys, F32 when
 * type is, else F16; pooled ones are not stored, they are made again). Errors: RANGE (past n_past, or when
 * reading past the context), and as above. */
size_t seq_cells_bytes(const seq *s, dtype type, int n);
ft_status seq_cells_write(const seq *s, dtype type, int first, int n, snap_write_fn *w, void *ctx,
                          ft_error *err) MUST_CHECK;
/* Into s, whose pages of these positions the call makes its own. What is readable says seq_recurrent_read,
 * which is to follow when all has been read. */
ft_status seq_cells_read(seq *s, dtype type, int first, int n, snap_read_fn *r, void *ctx,
                         ft_error *err) MUST_CHECK;

/* The recurrent part, of fixed size for a shape. */
size_t seq_recurrent_bytes(const seq_shape *shape);
ft_status seq_recurrent_write(const seq_snap *n, snap_write_fn *w, void *ctx,
                              ft_error *err) MUST_CHECK;
/* Into s, which holds n_past tokens tok afterwards, nothing pending. Its cells below n_past are those
 * that seq_cells_read stored. Pooled indexer keys are NOT made here: the layer room does
 * (layer_pool_index). After a failure s is broken: seq_reset or a restored snapshot mends it. */
ft_status seq_recurrent_read(seq *s, const int32_t *tok, int n_past, snap_read_fn *r, void *ctx,
                             ft_error *err) MUST_CHECK;

#endif
