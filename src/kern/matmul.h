/* matmul.h - the rows of a product, for every instruction set. Private to kern/. */
#ifndef KERN_MATMUL_H
#define KERN_MATMUL_H

#include "kern/kern.h"

/* Every type that can be multiplied: X(NAME of base/dtype.h). */
#define MATMUL_FLOAT_TYPES(X) X(F32) X(F16) X(BF16)
// clang-format off
#define MATMUL_GROUP_TYPES(X)                                                                      \
    X(Q4_0) X(Q4_1) X(Q5_0) X(Q5_1) X(Q8_0) X(Q2_0) X(IQ4_NL) X(MXFP4) X(NVFP4)                    \
    X(Q2_K) X(Q3_K) X(Q4_K) X(Q5_K) X(Q6_K) X(TQ1_0) X(TQ2_0) X(IQ4_XS)                            \
    X(IQ2_XXS) X(IQ2_XS) X(IQ2_S) X(IQ3_XXS) X(IQ3_S) X(IQ1_S) X(IQ1_M)
/* Those with a layout in tiles.c. */
#define MATMUL_TILED_TYPES(X) X(Q4_0) X(Q5_0) X(Q8_0) X(IQ4_NL) X(Q4_K) X(Q5_K) X(Q6_K)
// clang-format on

static inline const uint8_t *matmul_w_row(const kern_matmul *a, int r)
{
    return (const uint8_t *)a->w + (size_t)r * a->w_stride;
}

/* The row of x that token t reads. */
static inline const uint8_t *matmul_x_row(const kern_matmul *a, int t)
{
    const size_t row = (size_t)(a->x_row ? a->x_row[t] : t);
    return (const uint8_t *)a->x + row * a->x_stride;
}

/* The row of y that token t writes. */
static inline float *matmul_y_row(const kern_matmul *a, int t)
{
    const size_t row = (size_t)(a->y_row ? a->y_row[t] : t);
    return a->y + row * a->y_stride;
}

#endif
