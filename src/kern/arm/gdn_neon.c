/* gdn_neon.c - one row of the gated delta net, 32 columns at a time. Source: kern.h.
 *
 * A tile of 32 columns and 128 rows is 16 KiB: the second pass finds it in the first level of
 * cache. Eight independent accumulators hide the latency of FMA. */
#include "kern/arm/math_neon.h"
#include "kern/slots.h"

#define MAX_NV 8

/* nv vectors of columns; the last one has only n_last lanes. */
TEMPLATE void tile(float *S, size_t ld, int d_k, const float *q, const float *k, const float *v,
                   float decay, float beta, float *o, bool has_o, int nv, int n_last)
{
    const float32x4_t g = vdupq_n_f32(decay);
    float32x4_t r[MAX_NV], y[MAX_NV];
    UNROLL
    for (int j = 0; j < nv; j++)
        r[j] = y[j] = vdupq_n_f32(0.0f);
    for (int i = 0; i < d_k; i++) {
        const float *s = S + (size_t)i * ld;
        const float32x4_t ki = vdupq_n_f32(k[i]);
        UNROLL
        for (int j = 0; j < nv; j++) {
            const float32x4_t old = load_neon(s + 4 * j, j + 1 < nv ? 4 : n_last);
            r[j] = vfmaq_f32(r[j], vmulq_f32(old, g), ki);
        }
    }
    UNROLL
    for (int j = 0; j < nv; j++) { /* from here on r is u */
        const float32x4_t vj = load_neon(v + 4 * j, j + 1 < nv ? 4 : n_last);
        r[j] = vmulq_n_f32(vsubq_f32(vj, r[j]), beta);
    }
    for (int i = 0; i < d_k; i++) {
        float *s = S + (size_t)i * ld;
        const float32x4_t ki = vdupq_n_f32(k[i]);
        UNROLL
        for (int j = 0; j < nv; j++) {
            const int n = j + 1 < nv ? 4 : n_last;
            const float32x4_t old = vmulq_f32(load_neon(s + 4 * j, n), g);
            const float32x4_t new = vfmaq_f32(old, ki, r[j]);
            store_neon(s + 4 * j, n, new);
            if (has_o)
                y[j] = vfmaq_n_f32(y[j], new, q[i]);
        }
    }
    UNROLL
    for (int j = 0; j < nv && has_o; j++)
        store_neon(o + 4 * j, j + 1 < nv ? 4 : n_last, y[j]);
}

TEMPLATE void columns(float *S, size_t ld, int d_k, int n_col, const float *q, const float *k,
                      const float *v, float decay, float beta, float *o, bool has_o)
{
    int j = 0;
    for (; j + 32 <= n_col; j += 32)
        tile(S + j, ld, d_k, q, k, v + j, decay, beta, has_o ? o + j : NULL, has_o, MAX_NV, 4);
    for (; j + 8 <= n_col; j += 8)
        tile(S + j, ld, d_k, q, k, v + j, decay, beta, has_o ? o + j : NULL, has_o, 2, 4);
    for (; j < n_col; j += 4)
        tile(S + j, ld, d_k, q, k, v + j, decay, beta, has_o ? o + j : NULL, has_o, 1, n_col - j);
}

static void gdn(float *S, size_t ld, int d_k, int n_col, const float *q, const float *k,
                const float *v, float decay, float beta, float *o)
{
    if (o)
        columns(S, ld, d_k, n_col, q, k, v, decay, beta, o, true);
    else
        columns(S, ld, d_k, n_col, q, k, v, decay, beta, NULL, false);
}

void kern_init_gdn_neon(kern_table *k)
{
    k->gdn = gdn;
}
