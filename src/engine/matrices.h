/* matrices.h - every matrix that an open model multiplies with. Private to engine/. */
#ifndef ENGINE_MATRICES_H
#define ENGINE_MATRICES_H

#include "model/model.h"

/* Call fn for the matrices of the trunk (layers, head, n-gram layer), or of a draft head; absent ones
 * are left out. Stops at the first failure and returns it. */
typedef ft_status matrix_fn(void *ctx, tensor *t, ft_error *err);
ft_status matrices_of_trunk(model *m, matrix_fn *fn, void *ctx, ft_error *err) MUST_CHECK;
ft_status matrices_of_draft(model_mtp *p, matrix_fn *fn, void *ctx, ft_error *err) MUST_CHECK;

#endif
