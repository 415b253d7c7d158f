/* inspect_json.h - the report of ft_inspect as JSON. Private to engine/. */
#ifndef ENGINE_INSPECT_JSON_H
#define ENGINE_INSPECT_JSON_H

#include "base/err.h"
#include "engine/inspect.h"

/* One object, keys in a fixed order. Errors: NOMEM, CANCELLED. */
ft_status inspect_write_json(const inspection *in, ft_write_fn *write, void *ctx,
                             ft_error *err) MUST_CHECK;

#endif
