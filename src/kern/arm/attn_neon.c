/* attn_neon.c - attention of one KV head, 4 lanes wide. Source: kern.h, attn_tmpl.h. */
#include "base/dtype.h"
#include "kern/arm/math_neon.h"
#include "kern/block.h"
#include "kern/slots.h"

#define SCORE_CELLS 2
#define TILE_Q      2
#define SLAB        64

/* 16 values of a block of Q8_0. */
TEMPLATE void load_q8(float *dst, const kern_q8_0 *b, int i0)
{
    const int8x16_t q = vld1q_s8(b->qs + i0);
    const int16x8_t lo = vmovl_s8(vget_low_s8(q));
    const int16x8_t hi = vmovl_s8(vget_high_s8(q));
    const float d = half_neon(b->d);
    vst1q_f32(dst, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))), d));
    vst1q_f32(dst + 4, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(lo))), d));
    vst1q_f32(dst + 8, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))), d));
    vst1q_f32(dst + 12, vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_high_s16(hi))), d));
}

TEMPLATE void load_floats(float *dst, const uint8_t *row, int type, int i0, int n)
{
    if (type == DTYPE_F16) {
        for (int i = 0; i < n; i += 4)
            vst1q_f32(dst + i, bytes_f16(row + 2 * (size_t)(i0 + i)));
    } else if (type == DTYPE_Q8_0) {
        for (int i = 0; i < n; i += 16)
            load_q8(dst + i, (const kern_q8_0 *)row + (i0 + i) / 32, (i0 + i) % 32);
    } else {
        for (int i = 0; i < n; i += 4)
            vst1q_f32(dst + i, bytes_f32(row + 4 * (size_t)(i0 + i)));
    }
}

/* s[h][c] = lane sum over row[c] and q[h], for 2 cells and n_q query heads. */
TEMPLATE void score_tile_n(float *s, const float *row, const float *q, size_t q_stride, int d,
                           int n_q)
{
    float32x4_t p[2][2][4];
    UNROLL
    for (int h = 0; h < n_q; h++) {
        UNROLL
        for (int l = 0; l < 4; l++)
            p[h][0][l] = p[h][1][l] = vdupq_n_f32(0.0f);
    }
    for (int i = 0; i < d; i += 16) {
        UNROLL
        for (int l = 0; l < 4; l++) {
            const float32x4_t k0 = vld1q_f32(row + i + 4 * l);
            const float32x4_t k1 = vld1q_f32(row + KERN_ATTN_MAX_D + i + 4 * l);
            UNROLL
            for (int h = 0; h < n_q; h++) {
                const float32x4_t qh = vld1q_f32(q + (size_t)h * q_stride + i + 4 * l);
                p[h][0][l] = vfmaq_f32(p[h][0][l], k0, qh);
                p[h][1][l] = vfmaq_f32(p[h][1][l], k1, qh);
            }
        }
    }
    UNROLL
    for (int h = 0; h < n_q; h++) {
        s[h * KERN_ATTN_BLOCK] = lane_tree16(p[h][0]);
        s[h * KERN_ATTN_BLOCK + 1] = lane_tree16(p[h][1]);
    }
}

static void score_tile(float *s, const float *row, const float *q, size_t q_stride, int d, int n_q)
{
    if (n_q >= 2)
        score_tile_n(s, row, q, q_stride, d, 2);
    else
        score_tile_n(s, row, q, q_stride, d, 1);
}

/* One head's scores of n cells become probabilities, zero past n; returns c. */
static float softmax_head(float *s, int n, float scale, float *m, float *l)
{
    float best = *m;
    for (int j = 0; j < n; j++) {
        s[j] *= scale;
        best = s[j] > best ? s[j] : best;
    }
    const float m_new = best + 0.0f;
    const float z = m_new == -INFINITY ? 0.0f : m_new;
    const float c = exp_f32(*m - z);
    float32x4_t sum[4];
    UNROLL
    for (int j = 0; j < 4; j++)
        sum[j] = vdupq_n_f32(0.0f);
    for (int i = 0; i < KERN_ATTN_BLOCK; i += 16) {
        UNROLL
        for (int j = 0; j < 4; j++) {
            const float32x4_t e = exp_neon(vsubq_f32(vld1q_f32(s + i + 4 * j), vdupq_n_f32(z)));
            const uint32x4_t keep = mask_neon(n - i - 4 * j);
            const float32x4_t p = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(e), keep));
            vst1q_f32(s + i + 4 * j, p);
            sum[j] = vaddq_f32(sum[j], p);
        }
    }
    *m = m_new;
    *l = __builtin_fmaf(*l, c, lane_tree16(sum));
    return c;
}

/* acc[h][i] = acc[h][i] * c[h], then fma(p[h][j], v[j][i], .) over j < n; n_v vectors of i. */
TEMPLATE void value_tile_n(float *acc, size_t stride, const float *v, const float *p,
                           const float *c, int n, int n_v, int n_q)
{
    float32x4_t y[2][8];
    UNROLL
    for (int h = 0; h < n_q; h++) {
        UNROLL
        for (int i = 0; i < n_v; i++)
            y[h][i] = vmulq_n_f32(vld1q_f32(acc + (size_t)h * stride + 4 * i), c[h]);
    }
    for (int j = 0; j < n; j++) {
        UNROLL
        for (int i = 0; i < n_v; i++) {
            const float32x4_t vj = vld1q_f32(v + j * SLAB + 4 * i);
            UNROLL
            for (int h = 0; h < n_q; h++)
                y[h][i] = vfmaq_n_f32(y[h][i], vj, p[h * KERN_ATTN_BLOCK + j]);
        }
    }
    UNROLL
    for (int h = 0; h < n_q; h++) {
        UNROLL
        for (int i = 0; i < n_v; i++)
            vst1q_f32(acc + (size_t)h * stride + 4 * i, y[h][i]);
    }
}

/* A slab or what is left of the row: 32 columns at a time, then 16. */
TEMPLATE void value_rows(float *acc, size_t stride, const float *v, const float *p, const float *c,
                         int n, int width, int n_q)
{
    int i = 0;
    for (; i + 32 <= width; i += 32)
        value_tile_n(acc + i, stride, v + i, p, c, n, 8, n_q);
    if (i < width)
        value_tile_n(acc + i, stride, v + i, p, c, n, 4, n_q);
}

static void value_tile(float *acc, size_t stride, const float *v, const float *p, const float *c,
                       int n, int width, int n_q)
{
    if (n_q >= 2)
        value_rows(acc, stride, v, p, c, n, width, 2);
    else
        value_rows(acc, stride, v, p, c, n, width, 1);
}

#include "kern/attn_tmpl.h"

void kern_init_attn_neon(kern_table *k)
{
    k->attn = attn;
}
