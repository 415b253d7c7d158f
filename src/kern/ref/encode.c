/* encode.c - rows of float to the types that have an encoder.
 *
 * The rules are those of the public reference (ggml, quantize_row_*_ref): a block's d comes from
 * its extreme values, the codes are the nearest ones to x / d, computed as x * (1 / d) with the
 * unrounded d; the file gets d rounded to half (IQ4_NL: the d that fits the codes best, weighted by
 * x^2). Where the reference leaves the result undefined it is fixed here:
 * 1. If 1 / d is not finite (d zero, or too small to survive as a half), all codes are those of 0.
 * 2. Codes are clamped, never converted out of range; a NaN takes an end of the codes. A block with
 *    an infinite value gets an infinite or NaN scale or minimum, so the damage stays visible.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "kern/block.h"
#include "kern/iq_tables.h"
#include "kern/kern.h"

typedef void encode_fn(void *block, const float *x);

/* 1 / d, or 0 where that is not finite. */
static float reciprocal(float d)
{
    float r = 1.0f / d;
    return isfinite(r) ? r : 0.0f;
}

/* x truncated to lo..hi; NaN gives lo. */
static int to_code(float x, int lo, int hi)
{
    if (x >= (float)hi)
        return hi;
    return x > (float)lo ? (int)x : lo;
}

/* The value of the largest magnitude, with its sign; the first one of equals. */
static float extreme(const float *x, int n)
{
    float max = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(max))
            max = x[i];
    return max;
}

static void range(float *min, float *max, const float *x, int n)
{
    *min = FLT_MAX;
    *max = -FLT_MAX;
    for (int i = 0; i < n; i++) {
        *min = x[i] < *min ? x[i] : *min;
        *max = x[i] > *max ? x[i] : *max;
    }
}

/* 32 codes as block.h's nibbles, and bit 4 of each as a bit of *qh (NULL: there is none). */
static void put_nibbles(uint8_t qs[16], uint32_t *qh, const int code[32])
{
    for (int j = 0; j < 16; j++)
        qs[j] = (uint8_t)((code[j] & 15) | (code[j + 16] & 15) << 4);
    if (!qh)
        return;
    *qh = 0;
    for (int j = 0; j < 32; j++)
        *qh |= (uint32_t)(code[j] >> 4 & 1) << j;
}

/* Codes 0..2z-1 around z, the code of 0. d has the sign that gives the extreme value code 0. */
static float codes_around(int code[32], const float *x, int z)
{
    float d = extreme(x, 32) / (float)-z;
    float id = reciprocal(d);
    for (int j = 0; j < 32; j++)
        code[j] = to_code(x[j] * id + ((float)z + 0.5f), 0, 2 * z - 1);
    return d;
}

/* Codes 0..top above the smallest value, which is the code 0. */
static float codes_above(int code[32], float *min, const float *x, int top)
{
    float max;
    range(min, &max, x, 32);
    float d = (max - *min) / (float)top;
    float id = reciprocal(d);
    for (int j = 0; j < 32; j++)
        code[j] = to_code((x[j] - *min) * id + 0.5f, 0, top);
    return d;
}

static void encode_f32(void *block, const float *x)
{
    memcpy(block, x, sizeof *x);
}

static void encode_f16(void *block, const float *x)
{
    uint16_t h = kern_f32_to_f16(*x);
    memcpy(block, &h, sizeof h);
}

static void encode_bf16(void *block, const float *x)
{
    uint16_t h = kern_f32_to_bf16(*x);
    memcpy(block, &h, sizeof h);
}

static void encode_q4_0(void *block, const float *x)
{
    kern_q4_0 *b = block;
    int code[32];
    b->d = kern_f32_to_f16(codes_around(code, x, 8));
    put_nibbles(b->qs, NULL, code);
}

static void encode_q4_1(void *block, const float *x)
{
    kern_q4_1 *b = block;
    int code[32];
    float min;
    b->d = kern_f32_to_f16(codes_above(code, &min, x, 15));
    b->m = kern_f32_to_f16(min);
    put_nibbles(b->qs, NULL, code);
}

static void encode_q5_0(void *block, const float *x)
{
    kern_q5_0 *b = block;
    int code[32];
    uint32_t qh;
    b->d = kern_f32_to_f16(codes_around(code, x, 16));
    put_nibbles(b->qs, &qh, code);
    b->qh = qh;
}

static void encode_q5_1(void *block, const float *x)
{
    kern_q5_1 *b = block;
    int code[32];
    uint32_t qh;
    float min;
    b->d = kern_f32_to_f16(codes_above(code, &min, x, 31));
    b->m = kern_f32_to_f16(min);
    put_nibbles(b->qs, &qh, code);
    b->qh = qh;
}

static void encode_q8_0(void *block, const float *x)
{
    kern_q8_0 *b = block;
    float d = fabsf(extreme(x, 32)) / 127;
    float id = reciprocal(d);
    b->d = kern_f32_to_f16(d);
    for (int j = 0; j < 32; j++)
        b->qs[j] = (int8_t)to_code(roundf(x[j] * id), -127, 127);
}

static void encode_q2_0(void *block, const float *x)
{
    kern_q2_0 *b = block;
    float d = fabsf(extreme(x, 64));
    float id = reciprocal(d);
    b->d = kern_f32_to_f16(d);
    memset(b->qs, 0, sizeof b->qs);
    for (int k = 0; k < 64; k++) {
        int code = to_code(roundf(x[k] * id), -1, 2) + 1;
        b->qs[k / 4] = (uint8_t)(b->qs[k / 4] | code << 2 * (k % 4));
    }
}

/* Index of the IQ4 value nearest to x; halfway goes up. NaN gives the last one. */
static int nearest_iq4(float x)
{
    int i = 0;
    while (i < 15 && !(x - (float)kern_iq4_value[i] < (float)kern_iq4_value[i + 1] - x))
        i++;
    return i;
}

static void encode_iq4_nl(void *block, const float *x)
{
    kern_iq4_nl *b = block;
    float id = reciprocal(extreme(x, 32) / (float)kern_iq4_value[0]);
    int code[32];
    float sum_qx = 0;
    float sum_q2 = 0;
    for (int j = 0; j < 32; j++) {
        code[j] = nearest_iq4(x[j] * id);
        float q = (float)kern_iq4_value[code[j]];
        float w = x[j] * x[j];
        sum_qx += w * q * x[j];
        sum_q2 += w * q * q;
    }
    b->d = kern_f32_to_f16(sum_q2 > 0 ? sum_qx / sum_q2 : 0);
    put_nibbles(b->qs, NULL, code);
}

typedef struct {
    encode_fn *encode; /* NULL: no encoder */
    int block_values;
    size_t block_bytes;
} encoder;

/* Indexed by GGUF type number. */
static const encoder table[KERN_N_TYPE] = {
    [DTYPE_F32] = {encode_f32, 1, 4},
    [DTYPE_F16] = {encode_f16, 1, 2},
    [DTYPE_BF16] = {encode_bf16, 1, 2},
    [DTYPE_Q4_0] = {encode_q4_0, 32, sizeof(kern_q4_0)},
    [DTYPE_Q4_1] = {encode_q4_1, 32, sizeof(kern_q4_1)},
    [DTYPE_Q5_0] = {encode_q5_0, 32, sizeof(kern_q5_0)},
    [DTYPE_Q5_1] = {encode_q5_1, 32, sizeof(kern_q5_1)},
    [DTYPE_Q8_0] = {encode_q8_0, 32, sizeof(kern_q8_0)},
    [DTYPE_IQ4_NL] = {encode_iq4_nl, 32, sizeof(kern_iq4_nl)},
    [DTYPE_Q2_0] = {encode_q2_0, 64, sizeof(kern_q2_0)},
};

bool kern_can_encode(int type)
{
    return type >= 0 && type < KERN_N_TYPE && table[type].encode;
}

bool kern_encode(int type, void *dst, const float *src, size_t n)
{
    if (!kern_can_encode(type))
        return false;
    const encoder *e = &table[type];
    uint8_t *out = dst;
    for (size_t k = 0; k < n; k += (size_t)e->block_values, out += e->block_bytes)
        e->encode(out, src + k);
    return true;
}
