/* iq_tables.h - the codebooks of the IQ types and the value tables of the 4-bit float types.
 *
 * A codebook's entry packs the indices of its coordinates, coordinate 0 lowest:
 *   IQ2, IQ1   8 coordinates of 2 bits   IQ2: kern_iq2_level[index]   IQ1: index - 1
 *   IQ3        4 coordinates of 4 bits   IQ3_XXS: kern_iq3_level[index]   IQ3_S: 2 * index + 1
 * Every index of a 2-bit coordinate is 0, 1 or 2, of a 4-bit coordinate 0..7.
 */
#ifndef KERN_IQ_TABLES_H
#define KERN_IQ_TABLES_H

#include "base/compiler.h"

/* Entries behind the last, for loads of 32 bits. */
#define KERN_IQ_SPARE 1

extern const uint16_t kern_iq2_xxs_grid[256 + KERN_IQ_SPARE];
extern const uint16_t kern_iq2_xs_grid[512 + KERN_IQ_SPARE];
extern const uint16_t kern_iq2_s_grid[1024 + KERN_IQ_SPARE];
extern const uint16_t kern_iq1_grid[2048 + KERN_IQ_SPARE];
extern const uint16_t kern_iq3_xxs_grid[256 + KERN_IQ_SPARE];
extern const uint16_t kern_iq3_s_grid[512 + KERN_IQ_SPARE];

extern const int8_t kern_iq2_level[4]; /* the last one is never used */
extern const int8_t kern_iq3_level[8];

extern const int8_t kern_iq4_value[16]; /* IQ4_NL, IQ4_XS; ascending */
extern const int8_t kern_fp4_value[16]; /* twice the E2M1 value: MXFP4, NVFP4 */

/* The sign byte of a 7-bit "even" code: bit 7 makes the number of set bits even. */
static inline uint8_t kern_iq_signs(uint32_t code)
{
    uint32_t low = code & 127;
    return (uint8_t)(low | (uint32_t)__builtin_parity(low) << 7);
}

#endif
