/* quant_q8_neon.c - rows of activations to 8 bits, by the rule of kern.h: NEON. */
#include <string.h>

#include "kern/arm/math_neon.h"
#include "kern/slots.h"

/* Rounded to nearest even, -127 .. 127. The conversion saturates and makes NaN 0. */
static ALWAYS_INLINE int16x4_t quant(float32x4_t x, float id)
{
    const int32x4_t v = vcvtnq_s32_f32(vmulq_n_f32(x, id));
    return vmovn_s32(vminq_s32(vmaxq_s32(v, vdupq_n_s32(-127)), vdupq_n_s32(127)));
}

/* 16 values to bytes at q; returns their sum. */
static ALWAYS_INLINE int16_t put16(uint8_t *q, const float32x4_t x[4], float id)
{
    const int16x8_t lo = vcombine_s16(quant(x[0], id), quant(x[1], id));
    const int16x8_t hi = vcombine_s16(quant(x[2], id), quant(x[3], id));
    const int8x16_t all = vcombine_s8(vmovn_s16(lo), vmovn_s16(hi));
    vst1q_u8(q, vreinterpretq_u8_s8(all));
    return vaddlvq_s8(all);
}

void kern_quant_q8_neon(void *dst, const float *x, int n)
{
    uint8_t *q = dst;
    uint8_t *d = q + n;
    uint8_t *s = d + n / 32 * 4;
    for (int b = 0; b < n / 32; b++) {
        float32x4_t v[8];
        float32x4_t size = vdupq_n_f32(0.0f);
        UNROLL
        for (int i = 0; i < 8; i++) {
            v[i] = vld1q_f32(x + 32 * b + 4 * i);
            size = vmaxq_f32(size, vabsq_f32(v[i]));
        }
        const float scale = vmaxvq_f32(size) / 127;
        const float id = scale != 0 ? 1 / scale : 0;
        const int16_t sum[2] = {put16(q + 32 * b, v, id), put16(q + 32 * b + 16, v + 4, id)};
        memcpy(d + 4 * b, &scale, sizeof scale);
        memcpy(s + 4 * b, sum, sizeof sum);
    }
}
