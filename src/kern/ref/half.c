/* half.c - conversions between float and the 16-bit formats: IEEE 754 binary16 and bfloat16.
 *
 * Written with integers so that the same bits come out on every machine; the NaN rules are those
 * of the processors' own conversions (top payload bits kept, quiet bit set). Only the widening of
 * bfloat16 is a plain shift, which leaves a signalling NaN as it is.
 */
#include <string.h>

#include "kern/kern.h"

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

float kern_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    uint32_t exponent = (uint32_t)h >> 10 & 31;
    uint32_t fraction = h & 0x3ff;

    if (exponent == 31)
        return float_of(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
    if (exponent == 0) /* zero or subnormal: fraction * 2^-24, exact */
        return float_of(sign | bits_of((float)fraction * 0x1p-24f));
    return float_of(sign | (exponent + 127 - 15) << 23 | fraction << 13);
}

uint16_t kern_f32_to_f16(float f)
{
    uint32_t u = bits_of(f);
    uint32_t sign = u >> 16 & 0x8000;
    uint32_t mag = u & 0x7fffffff;

    if (mag > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (mag >> 13 & 0x1ff));
    if (mag >= bits_of(65520.0f)) /* halfway from the largest half to 2^16: the tie goes up */
        return (uint16_t)(sign | 0x7c00);
    if (mag < bits_of(0x1p-14f)) /* the sum rounds to the subnormals' step, 2^-24 */
        return (uint16_t)(sign | (bits_of(float_of(mag) + 0.5f) - bits_of(0.5f)));
    mag -= (uint32_t)(127 - 15) << 23;
    return (uint16_t)(sign | (mag + 0xfff + (mag >> 13 & 1)) >> 13);
}

float kern_bf16_to_f32(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

uint16_t kern_f32_to_bf16(float f)
{
    uint32_t u = bits_of(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
