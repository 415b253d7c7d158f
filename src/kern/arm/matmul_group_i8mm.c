/* matmul_group_i8mm.c - products of quantised weights and activations: NEON with SDOT and SMMLA.
 *
 * SMMLA multiplies two rows of 8 weights with 8 activations of two tokens each: twice the work of
 * SDOT in an instruction. A token without a partner takes SDOT. The sums are integers, so the two
 * give the same bits. */
#include <arm_neon.h>

#include "kern/arm/tile_neon.h"

static ALWAYS_INLINE int8x16_t load_bytes(const uint8_t *p)
{
    return vreinterpretq_s8_u8(vld1q_u8(p));
}

/* One token. */
TEMPLATE int32x4_t dots_of_one(const int8x16_t w[4], int8x16_t x)
{
    int32x4_t i = vdotq_laneq_s32(vdupq_n_s32(0), w[0], x, 0);
    i = vdotq_laneq_s32(i, w[1], x, 1);
    i = vdotq_laneq_s32(i, w[2], x, 2);
    return vdotq_laneq_s32(i, w[3], x, 3);
}

static ALWAYS_INLINE int8x16_t zip1_32(int8x16_t a, int8x16_t b)
{
    return vreinterpretq_s8_s32(vzip1q_s32(vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b)));
}
static ALWAYS_INLINE int8x16_t zip2_32(int8x16_t a, int8x16_t b)
{
    return vreinterpretq_s8_s32(vzip2q_s32(vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b)));
}

/* Two tokens; w01[k], w23[k] are columns 8 k .. 8 k + 7 of two rows. */
TEMPLATE void dots_of_two(int32x4_t *i, const int8x16_t w01[2], const int8x16_t w23[2],
                          int8x16_t x0, int8x16_t x1)
{
    const int8x16_t low = vcombine_s8(vget_low_s8(x0), vget_low_s8(x1));
    const int8x16_t high = vcombine_s8(vget_high_s8(x0), vget_high_s8(x1));
    const int32x4_t zero = vdupq_n_s32(0);
    /* rows 0 and 1 by tokens 0 and 1, then rows 2 and 3 */
    const int32x4_t p01 = vmmlaq_s32(vmmlaq_s32(zero, w01[0], low), w01[1], high);
    const int32x4_t p23 = vmmlaq_s32(vmmlaq_s32(zero, w23[0], low), w23[1], high);
    i[0] = vuzp1q_s32(p01, p23);
    i[1] = vuzp2q_s32(p01, p23);
}

TEMPLATE void dots(int32x4_t *i, const tile *t, int g, int h, const tile_x *x, int n_tok)
{
    const size_t q = x->q + 32 * (size_t)g + 16 * (size_t)h;
    int8x16_t w[4];
    UNROLL
    for (int k = 0; k < 4; k++)
        w[k] = load_bytes(t->q[g][4 * h + k][0]);
    if (n_tok == 1) {
        i[0] = dots_of_one(w, load_bytes(x->row[0] + q));
        return;
    }
    const int8x16_t w01[2] = {zip1_32(w[0], w[1]), zip1_32(w[2], w[3])};
    const int8x16_t w23[2] = {zip2_32(w[0], w[1]), zip2_32(w[2], w[3])};
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j += 2)
        dots_of_two(i + j, w01, w23, load_bytes(x->row[j] + q), load_bytes(x->row[j + 1] + q));
}

#include "kern/arm/matmul_dot_tmpl.h"

void kern_init_matmul_i8mm(kern_table *k)
{
    set_group_slots(k);
}
