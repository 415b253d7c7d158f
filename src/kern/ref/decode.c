/* decode.c - the table of the decoders, and rows of any type to float.
 *
 * 1. The integer form is the only description of a quantised type in code: floats come from it.
 *    That is exact because s and m are (block.h, 2), so the one rounding of s * q, and that of the
 *    subtraction where there are minima, are those of the public reference. Without minima m is
 *    +0, and x - (+0) is x, also for -0.
 */
#include "kern/ref/decode.h"

#include <assert.h>
#include <string.h>

#include "base/dtype.h"
#include "kern/block.h"
#include "kern/kern.h"

typedef struct {
    kern_group_fn *decode; /* NULL: no integer form */
    size_t block_bytes;
    int n_group; /* of a block */
    kern_group_traits traits;
} group_type;

/* has_int, two_scales, has_min */
#define ONE                \
    {                      \
        true, false, false \
    }
#define ONE_MIN           \
    {                     \
        true, false, true \
    }
#define TWO               \
    {                     \
        true, true, false \
    }
#define TWO_MIN          \
    {                    \
        true, true, true \
    }

/* Indexed by GGUF type number. */
static const group_type table[KERN_N_TYPE] = {
#define ROW(NAME, name, n_group, ...) \
    [DTYPE_##NAME] = {kern_group_##name, sizeof(kern_##name), n_group, __VA_ARGS__}
    ROW(Q4_0, q4_0, 1, ONE),     ROW(Q4_1, q4_1, 1, ONE_MIN),   ROW(Q5_0, q5_0, 1, ONE),
    ROW(Q5_1, q5_1, 1, ONE_MIN), ROW(Q8_0, q8_0, 1, ONE),       ROW(Q2_0, q2_0, 2, ONE),
    ROW(Q2_K, q2_k, 8, TWO_MIN), ROW(Q3_K, q3_k, 8, TWO),       ROW(Q4_K, q4_k, 8, ONE_MIN),
    ROW(Q5_K, q5_k, 8, ONE_MIN), ROW(Q6_K, q6_k, 8, TWO),       ROW(TQ1_0, tq1_0, 8, ONE),
    ROW(TQ2_0, tq2_0, 8, ONE),   ROW(IQ2_XXS, iq2_xxs, 8, ONE), ROW(IQ2_XS, iq2_xs, 8, TWO),
    ROW(IQ2_S, iq2_s, 8, TWO),   ROW(IQ3_XXS, iq3_xxs, 8, ONE), ROW(IQ3_S, iq3_s, 8, ONE),
    ROW(IQ1_S, iq1_s, 8, ONE),   ROW(IQ1_M, iq1_m, 8, TWO),     ROW(IQ4_NL, iq4_nl, 1, ONE),
    ROW(IQ4_XS, iq4_xs, 8, ONE), ROW(MXFP4, mxfp4, 1, ONE),     ROW(NVFP4, nvfp4, 2, TWO),
#undef ROW
};

/* Never NULL. */
static const group_type *find(int type)
{
    static const group_type none = {0};
    return type >= 0 && type < KERN_N_TYPE ? &table[type] : &none;
}

const kern_group_traits *kern_group_traits_of(int type)
{
    return &find(type)->traits;
}

void kern_group_decode(int type, const void *row, int i_group, kern_group *g)
{
    const group_type *t = find(type);
    assert(t->decode && i_group >= 0);
    int i_block = i_group / t->n_group;
    kern_group_both(g->m, 0);
    t->decode((const uint8_t *)row + (size_t)i_block * t->block_bytes, i_group % t->n_group, g);
}

static void decode_groups(const group_type *t, float *dst, const uint8_t *src, size_t n)
{
    size_t n_block = n / ((size_t)t->n_group * 32);
    kern_group g = {.m = {0, 0}};
    for (size_t i_block = 0; i_block < n_block; i_block++) {
        for (int i = 0; i < t->n_group; i++) {
            t->decode(src + i_block * t->block_bytes, i, &g);
            for (int j = 0; j < 32; j++)
                *dst++ = g.s[j / 16] * (float)g.q[j] - g.m[j / 16];
        }
    }
}

static void decode_halves(float *dst, const uint8_t *src, size_t n, float to_f32(uint16_t))
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        memcpy(&h, src + 2 * i, sizeof h);
        dst[i] = to_f32(h);
    }
}

bool kern_can_decode(int type)
{
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16 || find(type)->decode;
}

bool kern_decode(int type, float *dst, const void *src, size_t n)
{
    if (!kern_can_decode(type))
        return false;
    const group_type *t = find(type);
    if (t->decode)
        decode_groups(t, dst, src, n);
    else if (type == DTYPE_F16)
        decode_halves(dst, src, n, kern_f16_to_f32);
    else if (type == DTYPE_BF16)
        decode_halves(dst, src, n, kern_bf16_to_f32);
    else
        memcpy(dst, src, n * sizeof *dst);
    return true;
}
