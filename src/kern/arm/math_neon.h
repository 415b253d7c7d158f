/* math_neon.h - exp, lane sums, halves and parts of a vector, 4 lanes wide.
 *
 * For files built with the flags of the level "neon" or above. The formula of exp stands in
 * ref/math.h. Little-endian systems only, as everywhere: registers are loaded as bytes. */
#ifndef KERN_ARM_MATH_NEON_H
#define KERN_ARM_MATH_NEON_H

#include <arm_neon.h>

#include "kern/ref/math.h"

TEMPLATE float32x4_t exp_neon(float32x4_t x)
{
    const float32x4_t lo = vdupq_n_f32(EXP_MIN);
    const float32x4_t hi = vdupq_n_f32(EXP_MAX);
    const float32x4_t one = vdupq_n_f32(1.0f);
    const float32x4_t in = vminq_f32(hi, vmaxq_f32(lo, x)); /* NaN stays NaN */
    const float32x4_t t = vfmaq_f32(vdupq_n_f32(EXP_MAGIC), in, vdupq_n_f32(EXP_LOG2E));
    const float32x4_t n = vsubq_f32(t, vdupq_n_f32(EXP_MAGIC));
    float32x4_t r = vfmsq_f32(in, n, vdupq_n_f32(EXP_LN2_HI));
    r = vfmsq_f32(r, n, vdupq_n_f32(EXP_LN2_LO));
    float32x4_t y = vdupq_n_f32(EXP_C6);
    y = vfmaq_f32(vdupq_n_f32(EXP_C5), y, r);
    y = vfmaq_f32(vdupq_n_f32(EXP_C4), y, r);
    y = vfmaq_f32(vdupq_n_f32(EXP_C3), y, r);
    y = vfmaq_f32(vdupq_n_f32(EXP_C2), y, r);
    y = vfmaq_f32(one, y, r);
    y = vfmaq_f32(one, y, r);
    const uint32x4_t scale = vshlq_n_u32(vreinterpretq_u32_f32(t), 23);
    y = vmulq_f32(y, vreinterpretq_f32_u32(scale));
    y = vbslq_f32(vcltq_f32(x, lo), vdupq_n_f32(0.0f), y);
    return vbslq_f32(vcgtq_f32(x, hi), vdupq_n_f32(INFINITY), y);
}

/* The tree of lane sums, from 4 lanes and from 16; p[i] holds lanes 4 i .. 4 i + 3. */
TEMPLATE float lane_tree4(float32x4_t p)
{
    const float32x2_t pair = vadd_f32(vget_low_f32(p), vget_high_f32(p));
    return vget_lane_f32(pair, 0) + vget_lane_f32(pair, 1);
}
TEMPLATE float lane_tree16(const float32x4_t p[4])
{
    return lane_tree4(vaddq_f32(vaddq_f32(p[0], p[2]), vaddq_f32(p[1], p[3])));
}

/* All bits of the first n lanes, of all when n >= 4, of none when n <= 0. */
TEMPLATE uint32x4_t mask_neon(int n)
{
    const int32x4_t lane = {0, 1, 2, 3};
    return vcltq_s32(lane, vdupq_n_s32(n));
}

/* Lanes past n, n > 0: zero when loaded, untouched when stored. */
TEMPLATE float32x4_t load_neon(const float *p, int n)
{
    if (n >= 4)
        return vld1q_f32(p);
    float part[4] = {0};
    memcpy(part, p, (size_t)n * sizeof *p);
    return vld1q_f32(part);
}
TEMPLATE void store_neon(float *p, int n, float32x4_t x)
{
    if (n >= 4) {
        vst1q_f32(p, x);
        return;
    }
    float part[4];
    vst1q_f32(part, x);
    memcpy(p, part, (size_t)n * sizeof *p);
}

/* Four floats, four halves at p, which has no alignment. */
TEMPLATE float32x4_t bytes_f32(const uint8_t *p)
{
    return vreinterpretq_f32_u8(vld1q_u8(p));
}
TEMPLATE float32x4_t bytes_f16(const uint8_t *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}

/* One half. */
TEMPLATE float half_neon(uint16_t h)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}

#endif
