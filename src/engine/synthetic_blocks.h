/* synthetic_blocks.h - random blocks of types that have no encoder here. Private to engine/. */
#ifndef ENGINE_SYNTHETIC_BLOCKS_H
#define ENGINE_SYNTHETIC_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

/* Q4_K, Q5_K, Q6_K and IQ4_XS: blocks of 256 values. */
bool synthetic_has_blocks(dtype type);
/* n bytes of whole blocks at out, whose values have the mean 0, about, and this standard deviation; bits:
 * n random bytes. A multiple of the block; out and bits overlap nothing. */
void synthetic_blocks(dtype type, uint8_t *out, const uint8_t *bits, size_t n, float deviation);

#endif
