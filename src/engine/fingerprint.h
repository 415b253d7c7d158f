/* fingerprint.h - numbers that tell models apart. Private to engine/. */
#ifndef ENGINE_FINGERPRINT_H
#define ENGINE_FINGERPRINT_H

#include "engine/engine.h"

/* Of the model's file: all metadata, the directory of tensors, and a page of bytes from the middle of each
 * tensor. Two files of different weights or tokenizers have different numbers, barring weights that were
 * changed outside those pages alone; a file meant to deceive may have any. Reads about 4 KiB per tensor:
 * milliseconds, however large the file. Computed when first asked for. */
uint64_t model_fingerprint(ft_model *m);

/* Of the draft head as the drafter reads it: its tensors' bytes and types, which decide what its cells
 * hold (docs/drafter.md). 0: no draft head. */
uint64_t draft_fingerprint(ft_model *m);

#endif
