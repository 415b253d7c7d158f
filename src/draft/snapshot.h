/* snapshot.h - the drafter of a conversation at one moment, as state/snapshot.h keeps the rest.
 *
 * It holds which cells are readable, the hidden row that waits, and the pages of cells.
 */
#ifndef DRAFT_SNAPSHOT_H
#define DRAFT_SNAPSHOT_H

#include "draft/draft.h"
#include "state/snapshot.h"

typedef struct draft_snap draft_snap;

/* Settle d first (draft_settle). Errors: NOMEM; *out is NULL then. */
ft_status draft_snap_take(draft_snap **out, const drafter *d, ft_error *err) MUST_CHECK;
void draft_snap_free(draft_snap *n); /* NULL is allowed */
/* n was taken of a drafter of the same backend, model, kv_type, sink and window: MISMATCH otherwise; and d has
 * room for its cells: RANGE. d is unchanged after a failure. Allocates nothing. */
ft_status draft_snap_restore(drafter *d, const draft_snap *n, ft_error *err) MUST_CHECK;
size_t draft_snap_bytes(const draft_snap *n); /* without its pages */
pages *draft_snap_pages(draft_snap *n);

/* As bytes: which cells are readable, the row that waits, then the readable cells (of the run and of the
 * sink). type as seq_cells_write. What is read is checked: FORMAT names what is wrong, MISMATCH another sink or window. n_past: the tokens
 * of the conversation. After a failure d is as new, but for what draft_failed counts. */
ft_status draft_write(const draft_snap *n, dtype type, snap_write_fn *w, void *ctx,
                      ft_error *err) MUST_CHECK;
ft_status draft_read(drafter *d, dtype type, int n_past, snap_read_fn *r, void *ctx,
                     ft_error *err) MUST_CHECK;
size_t draft_file_bytes(const draft_snap *n, dtype type); /* that draft_write writes */

#endif
