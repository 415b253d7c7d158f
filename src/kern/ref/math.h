/* math.h - exp and the tree of lane sums: the one definition that every instruction set repeats.
 *
 * exp(x), x in [-87, 88]; n is x / ln 2 rounded to an integer:
 *   t = fma(x, LOG2E, MAGIC)      MAGIC = 1.5 * 2^23 + 127: the low bits of t hold n + 127
 *   n = t - MAGIC
 *   r = fma(-n, LN2_LO, fma(-n, LN2_HI, x))       |r| <= ln 2 / 2
 *   y = 1 + r + r^2 (C2 + r (C3 + r (C4 + r (C5 + r C6)))), by Horner's rule in fma
 *   exp(x) = y * 2^n              2^n: the bits of t shifted left by 23
 * Below -87 the result is 0, above 88 +inf; NaN makes y NaN. The last product is exact: at -87,
 * where 2^n is the smallest normal number, r > 0 and so y > 1.
 *
 * Reduction: Cody and Waite, Software Manual for the Elementary Functions (1980). LN2_HI is ln 2
 * rounded to float; it and every x with n != 0 are multiples of 2^-25 and the difference is below
 * 1/2, so the inner fma is exact. LN2_LO is the rest of ln 2.
 * Coefficients: our own minimax fit (Remez' exchange, 50 digits, the error relative to exp, the two
 * lowest coefficients held at 1) on |r| <= ln 2 / 2: 3.1e-9, under 2^-28. With the roundings of
 * Horner's last steps the result is within 2^-23 of exp, relative; tests/kern/test_kern_rows.c
 * measures it.
 */
#ifndef KERN_REF_MATH_H
#define KERN_REF_MATH_H

#include <math.h>
#include <string.h>

#include "base/compiler.h"

#define EXP_MIN    -87.0f
#define EXP_MAX    88.0f
#define EXP_MAGIC  12583039.0f
#define EXP_LOG2E  0x1.715476p+0f
#define EXP_LN2_HI 0x1.62e430p-1f
#define EXP_LN2_LO -0x1.05c610p-29f
#define EXP_C2     0x1.fffffcp-2f
#define EXP_C3     0x1.555492p-3f
#define EXP_C4     0x1.5558f2p-5f
#define EXP_C5     0x1.1239e2p-7f
#define EXP_C6     0x1.6a2442p-10f

static inline float exp_f32(float x)
{
    if (x < EXP_MIN)
        return 0.0f;
    if (x > EXP_MAX)
        return INFINITY;
    const float t = fmaf(x, EXP_LOG2E, EXP_MAGIC);
    const float n = t - EXP_MAGIC;
    float r = fmaf(-n, EXP_LN2_HI, x);
    r = fmaf(-n, EXP_LN2_LO, r);
    float y = EXP_C6;
    y = fmaf(y, r, EXP_C5);
    y = fmaf(y, r, EXP_C4);
    y = fmaf(y, r, EXP_C3);
    y = fmaf(y, r, EXP_C2);
    y = fmaf(y, r, 1.0f);
    y = fmaf(y, r, 1.0f);
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits <<= 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return y * scale;
}

/* The sum of 16 lanes by kern.h's tree; p is overwritten. */
static inline float lane_tree(float p[16])
{
    for (int half = 8; half > 1; half /= 2)
        for (int j = 0; j < half; j++)
            p[j] += p[j + half];
    return p[0] + p[1];
}

#endif
