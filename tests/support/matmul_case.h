/* matmul_case.h - operands of matrix products for the kernels' tests and their bench: weights of
 * any type as bytes of a file, activations as the type wants them.
 */
#ifndef TESTS_SUPPORT_MATMUL_CASE_H
#define TESTS_SUPPORT_MATMUL_CASE_H

#include <string.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "kern/block.h"
#include "kern/kern.h"

typedef struct {
    uint64_t state; /* not 0 */
} rng;

/* xorshift64* (Vigna 2016). */
static inline uint32_t rng_u32(rng *r)
{
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return (uint32_t)((r->state * 0x2545f4914f6cdd1dull) >> 32);
}

/* In [-1, 1). */
static inline float rng_f32(rng *r)
{
    return (float)(int32_t)rng_u32(r) * 0x1p-31f;
}

/* What the bytes of the weights look like. */
typedef enum {
    FILL_SANE,  /* random values, scales between 2^-9 and 2^-5, both signs */
    FILL_BYTES, /* random bytes: scales may be inf or NaN */
    FILL_TINY,  /* the smallest scale of all: products underflow */
    FILL_HUGE,  /* the largest: products overflow */
    FILL_ZERO,  /* bytes 0 */
    FILL_X80,   /* bytes 0x80 but for sane scales: the smallest integers */
    FILL_XFF,   /* likewise 0xff: the largest */
    N_FILL
} fill;

/* The halves in the blocks of a type: offsets, -1 behind the last. */
static inline const int *half_offsets(int type)
{
    static const int none[] = {-1}, first[] = {0, -1}, two[] = {0, 2, -1};
    static const int q2_k[] = {offsetof(kern_q2_k, d), offsetof(kern_q2_k, dmin), -1};
    static const int q3_k[] = {offsetof(kern_q3_k, d), -1};
    static const int q6_k[] = {offsetof(kern_q6_k, d), -1};
    static const int tq1_0[] = {offsetof(kern_tq1_0, d), -1};
    static const int tq2_0[] = {offsetof(kern_tq2_0, d), -1};
    switch (type) {
    case DTYPE_Q4_1:
    case DTYPE_Q5_1:
    case DTYPE_Q4_K:
    case DTYPE_Q5_K:
        return two;
    case DTYPE_Q2_K:
        return q2_k;
    case DTYPE_Q3_K:
        return q3_k;
    case DTYPE_Q6_K:
        return q6_k;
    case DTYPE_TQ1_0:
        return tq1_0;
    case DTYPE_TQ2_0:
        return tq2_0;
    case DTYPE_F32:
    case DTYPE_BF16:
    case DTYPE_MXFP4:
    case DTYPE_NVFP4:
    case DTYPE_IQ1_M:
        return none;
    default:
        return first;
    }
}

static inline uint16_t half_of(fill how, rng *r)
{
    const uint16_t sign = (uint16_t)(rng_u32(r) & 0x8000);
    if (how == FILL_TINY)
        return sign | 1;
    if (how == FILL_HUGE)
        return sign | 0x7bff;
    return (uint16_t)(sign | (0x1800 + rng_u32(r) % 0x1000));
}

static inline void fill_scales(uint8_t *block, int type, fill how, rng *r)
{
    for (const int *offset = half_offsets(type); *offset >= 0; offset++) {
        const uint16_t h = half_of(how, r);
        memcpy(block + *offset, &h, sizeof h);
    }
    if (type == DTYPE_MXFP4)
        block[0] = (uint8_t)(how == FILL_TINY ? rng_u32(r) % 3 : how == FILL_HUGE ? 254 : 120);
    if (type == DTYPE_IQ1_M) {
        const uint16_t d = half_of(how, r);
        uint8_t *bytes = block + offsetof(kern_iq1_m, scales);
        for (int i = 0; i < 4; i++)
            bytes[2 * i + 1] = (uint8_t)((bytes[2 * i + 1] & 15) | (d >> (4 * i) & 15) << 4);
    }
}

/* n_value values of a type of weights. */
static inline void fill_weights(uint8_t *w, int type, size_t n_value, fill how, rng *r)
{
    const dtype_info *info = dtype_find((uint32_t)type);
    const size_t n_byte = dtype_row_bytes((dtype)type, n_value);
    const bool is_float = info->block_values == 1;
    if (is_float && how == FILL_SANE) {
        for (size_t i = 0; i < n_value; i++) {
            const float f = rng_f32(r);
            kern_encode(type, w + i * (size_t)info->block_bytes, &f, 1);
        }
        return;
    }
    const int same = how == FILL_X80 ? 0x80 : how == FILL_XFF ? 0xff : how == FILL_ZERO ? 0 : -1;
    for (size_t i = 0; i < n_byte; i++)
        w[i] = (uint8_t)(same >= 0 ? same : (int)(rng_u32(r) & 255));
    if (how == FILL_BYTES || how == FILL_ZERO)
        return;
    for (size_t i = 0; i < n_byte && !is_float; i += (size_t)info->block_bytes)
        fill_scales(w + i, type, how, r);
}

/* Bytes of a row of activations for a type of weights. */
static inline size_t x_row_bytes(kern_act act, int n_col)
{
    return act == KERN_ACT_Q8 ? kern_q8_row_bytes(n_col) : (size_t)n_col * sizeof(float);
}

/* n_row rows of random activations, x_stride bytes apart, quantised by k if act wants that.
 * scratch [n_col] floats. */
static inline void fill_x(const kern_table *k, kern_act act, uint8_t *x, size_t x_stride, int n_row,
                          int n_col, float *scratch, rng *r)
{
    for (int i = 0; i < n_row; i++) {
        for (int j = 0; j < n_col; j++)
            scratch[j] = rng_f32(r) * rng_f32(r);
        if (act == KERN_ACT_Q8)
            k->quant_q8(x + (size_t)i * x_stride, scratch, n_col);
        else
            memcpy(x + (size_t)i * x_stride, scratch, (size_t)n_col * sizeof(float));
    }
}

#endif
