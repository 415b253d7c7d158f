/* repack.h - matrices in the layout that the processor multiplies fastest, decided at open. Private to
 * engine/.
 *
 * 1. The file's values stay where they are: rows are read from there, and fingerprints. A tensor's tiles
 *    are a second form for products alone; the pages of the first are given back to the system.
 * 2. Results are the same bits either way, so a decision by a clock decides speed alone. */
#ifndef ENGINE_REPACK_H
#define ENGINE_REPACK_H

#include "engine/engine.h"

/* Lay out the trunk's and the drafter's matrices anew: how "auto", "always" or "off", as in ft_model_params;
 * NULL: "auto". m is open but for this. Errors: ARG (another word), NOMEM (only for "always": "auto" goes on
 * without the copy, and repack_bytes tells). */
ft_status repack_model(ft_model *m, const char *how, ft_error *err) MUST_CHECK;
void repack_free(ft_model *m);

#endif
