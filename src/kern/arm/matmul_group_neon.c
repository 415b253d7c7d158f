/* matmul_group_neon.c - products of quantised weights and activations: NEON with SDOT.
 *
 * SDOT by element multiplies the four weights of each lane with the same four activations, chosen
 * from a register of 16: no broadcasts. */
#include <arm_neon.h>

#include "kern/arm/tile_neon.h"

TEMPLATE void dots(int32x4_t *i, const tile *t, int g, int h, const tile_x *x, int n_tok)
{
    const size_t q = x->q + 32 * (size_t)g + 16 * (size_t)h;
    int8x16_t w[4];
    UNROLL
    for (int k = 0; k < 4; k++)
        w[k] = vreinterpretq_s8_u8(vld1q_u8(t->q[g][4 * h + k][0]));
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++) {
        const int8x16_t xj = vreinterpretq_s8_u8(vld1q_u8(x->row[j] + q));
        i[j] = vdotq_laneq_s32(vdupq_n_s32(0), w[0], xj, 0);
        i[j] = vdotq_laneq_s32(i[j], w[1], xj, 1);
        i[j] = vdotq_laneq_s32(i[j], w[2], xj, 2);
        i[j] = vdotq_laneq_s32(i[j], w[3], xj, 3);
    }
}

#include "kern/arm/matmul_dot_tmpl.h"

void kern_init_matmul_neon(kern_table *k)
{
    k->quant_q8 = kern_quant_q8_neon;
    kern_init_matmul_float_neon(k);
    set_group_slots(k);
}
