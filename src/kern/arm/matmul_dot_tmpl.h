/* matmul_dot_tmpl.h - products of quantised weights and activations: what the levels of this folder
 * share. Private to kern/arm/.
 *
 * Included once by a file that includes tile_neon.h and defines before:
 *   dots(i, t, g, h, x, n_tok)    i[j], j < n_tok: the dot products of half h of group g of the
 *                                 tile's weights and those of token j, a row in a lane
 *
 * Weights are signed bytes here: every type's, offset added or not, are in -128 .. 127. What the
 * offset adds is taken away as offset times the sum of the activations; all of that is exact. Loops
 * over tokens are bounded by a constant besides n_tok: clang unrolls a template's loops before it
 * knows the arguments.
 */
#include <string.h>

#include "kern/group.h"
#include "kern/slots.h"

/* A group of one token's activations. */
typedef struct {
    float d;
    int16_t s[2];
} x_scale;

static ALWAYS_INLINE x_scale scale_of(const tile_x *x, int j, int g)
{
    x_scale v;
    memcpy(&v.d, x->row[j] + x->d + 4 * (size_t)g, sizeof v.d);
    memcpy(v.s, x->row[j] + x->s + 4 * (size_t)g, sizeof v.s);
    return v;
}

/* acc plus the products of a group; i0, i1 are the integer sums of its halves. */
TEMPLATE float32x4_t add_products(float32x4_t acc, const tile *t, int g, x_scale x, int32x4_t i0,
                                  int32x4_t i1, bool two)
{
    const float32x4_t s0 = vld1q_f32(t->s[0][g]);
    if (!two)
        return vfmaq_f32(acc, vmulq_n_f32(s0, x.d), vcvtq_f32_s32(vaddq_s32(i0, i1)));
    const float32x4_t s1 = vld1q_f32(t->s[1][g]);
    const float32x4_t half0 = vmulq_f32(s0, vcvtq_f32_s32(i0));
    return vfmaq_n_f32(acc, vfmaq_f32(half0, s1, vcvtq_f32_s32(i1)), x.d);
}

/* acc less the minima of a group. */
TEMPLATE float32x4_t sub_minima(float32x4_t acc, const tile *t, int g, x_scale x, bool two)
{
    const float32x4_t m0 = vld1q_f32(t->m[0][g]);
    if (!two)
        return vfmsq_n_f32(acc, vmulq_n_f32(m0, x.d), (float)(x.s[0] + x.s[1]));
    const float32x4_t m1 = vld1q_f32(t->m[1][g]);
    const float32x4_t half0 = vmulq_n_f32(m0, (float)x.s[0]);
    return vfmsq_n_f32(acc, vfmaq_n_f32(half0, m1, (float)x.s[1]), x.d);
}

/* One group for n_tok tokens. n_tok, two and min are constants after inlining. */
TEMPLATE void add_group(float32x4_t *acc, const tile *t, int g, const tile_x *x, int offset,
                        int n_tok, bool two, bool min)
{
    int32x4_t i0[TILE_TOK], i1[TILE_TOK];
    dots(i0, t, g, 0, x, n_tok);
    dots(i1, t, g, 1, x, n_tok);
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++) {
        const x_scale xj = scale_of(x, j, g);
        if (!min) { /* with minima the offset is 0 */
            i0[j] = vsubq_s32(i0[j], vdupq_n_s32(offset * xj.s[0]));
            i1[j] = vsubq_s32(i1[j], vdupq_n_s32(offset * xj.s[1]));
        }
        acc[j] = add_products(acc[j], t, g, xj, i0[j], i1[j], two);
        if (min)
            acc[j] = sub_minima(acc[j], t, g, xj, two);
    }
}

TEMPLATE void add_tile(float (*sums)[TILE_ROWS], const tile *t, const tile_x *x, int n_group,
                       int offset, int n_tok, bool two, bool min)
{
    float32x4_t acc[TILE_TOK];
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++)
        acc[j] = vld1q_f32(sums[j]);
    for (int g = 0; g < n_group; g++)
        add_group(acc, t, g, x, offset, n_tok, two, min);
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++)
        vst1q_f32(sums[j], acc[j]);
}

#define ADD_TILE(name, n_tok, two, min)                                                    \
    static void name(float(*sums)[TILE_ROWS], const tile *t, const tile_x *x, int n_group, \
                     int offset)                                                           \
    {                                                                                      \
        add_tile(sums, t, x, n_group, offset, n_tok, two, min);                            \
    }
#define ADD_TILES(n_tok)                              \
    ADD_TILE(add_one_##n_tok, n_tok, false, false)    \
    ADD_TILE(add_one_min_##n_tok, n_tok, false, true) \
    ADD_TILE(add_two_##n_tok, n_tok, true, false)     \
    ADD_TILE(add_two_min_##n_tok, n_tok, true, true)
ADD_TILES(1)
ADD_TILES(2)
ADD_TILES(4)
ADD_TILES(8)

#define MAX_LOG2 3
#define FUNCTIONS(name)                        \
    {                                          \
        name##_1, name##_2, name##_4, name##_8 \
    }

static add_tile_fn *const *add_tiles(const packer *p, const kern_group_traits *kind)
{
    static add_tile_fn *const table[2][2][MAX_LOG2 + 1] = {
        {FUNCTIONS(add_one), FUNCTIONS(add_one_min)},
        {FUNCTIONS(add_two), FUNCTIONS(add_two_min)},
    };
    (void)p;
    return table[kind->two_scales][kind->has_min];
}

static void store_sums(float *y, const float *sums, int n_row)
{
    memcpy(y, sums, (size_t)n_row * sizeof *y);
}

#define MAX_STRIDE       SIZE_MAX
#define packer_for(type) kern_packer_neon(type)
#define reader_for(type) kern_reader_neon(type)
#include "kern/matmul_group_tmpl.h"
