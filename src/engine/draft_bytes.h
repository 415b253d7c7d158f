/* draft_bytes.h - what one draft step has to read, from shapes and types alone. Private to engine/. */
#ifndef ENGINE_DRAFT_BYTES_H
#define ENGINE_DRAFT_BYTES_H

#include "model/model.h"

/* Bytes of weights and cells that one draft step of m's draft head, held as w, reads: every matrix once, n_expert_used
 * experts, n_cell cells of type kv, n_head rows of the head. Norms and other vectors are left out. */
uint64_t draft_step_bytes(const model *m, const model_mtp *w, int n_cell, dtype kv, int n_head);

#endif
