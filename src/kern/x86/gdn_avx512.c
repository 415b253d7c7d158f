/* gdn_avx512.c - one row of the gated delta net, 64 columns at a time. Source: kern.h.
 *
 * A tile of 64 columns and 128 rows is 32 KiB: the second pass finds it in the first level of
 * cache. Four independent accumulators hide the latency of FMA. */
#include "kern/slots.h"
#include "kern/x86/math_avx512.h"

/* nv vectors of columns; the last one has only the lanes of mask. */
TEMPLATE void tile(float *S, size_t ld, int d_k, const float *q, const float *k, const float *v,
                   float decay, float beta, float *o, bool has_o, int nv, __mmask16 mask)
{
    const __m512 g = _mm512_set1_ps(decay);
    __m512 r[4], y[4];
    UNROLL
    for (int j = 0; j < nv; j++)
        r[j] = y[j] = _mm512_setzero_ps();
    for (int i = 0; i < d_k; i++) {
        const float *s = S + (size_t)i * ld;
        const __m512 ki = _mm512_set1_ps(k[i]);
        UNROLL
        for (int j = 0; j < nv; j++) {
            const __m512 old = _mm512_maskz_loadu_ps(j + 1 < nv ? 0xffff : mask, s + 16 * j);
            r[j] = _mm512_fmadd_ps(_mm512_mul_ps(old, g), ki, r[j]);
        }
    }
    UNROLL
    for (int j = 0; j < nv; j++) { /* from here on r is u */
        const __m512 vj = _mm512_maskz_loadu_ps(j + 1 < nv ? 0xffff : mask, v + 16 * j);
        r[j] = _mm512_mul_ps(_mm512_set1_ps(beta), _mm512_sub_ps(vj, r[j]));
    }
    for (int i = 0; i < d_k; i++) {
        float *s = S + (size_t)i * ld;
        const __m512 ki = _mm512_set1_ps(k[i]);
        UNROLL
        for (int j = 0; j < nv; j++) {
            const __mmask16 lanes = j + 1 < nv ? 0xffff : mask;
            const __m512 old = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, s + 16 * j), g);
            const __m512 new = _mm512_fmadd_ps(ki, r[j], old);
            _mm512_mask_storeu_ps(s + 16 * j, lanes, new);
            if (has_o)
                y[j] = _mm512_fmadd_ps(new, _mm512_set1_ps(q[i]), y[j]);
        }
    }
    UNROLL
    for (int j = 0; j < nv && has_o; j++)
        _mm512_mask_storeu_ps(o + 16 * j, j + 1 < nv ? 0xffff : mask, y[j]);
}

TEMPLATE void columns(float *S, size_t ld, int d_k, int n_col, const float *q, const float *k,
                      const float *v, float decay, float beta, float *o, bool has_o)
{
    int j = 0;
    for (; j + 64 <= n_col; j += 64)
        tile(S + j, ld, d_k, q, k, v + j, decay, beta, has_o ? o + j : NULL, has_o, 4, 0xffff);
    for (; j + 32 <= n_col; j += 32)
        tile(S + j, ld, d_k, q, k, v + j, decay, beta, has_o ? o + j : NULL, has_o, 2, 0xffff);
    for (; j < n_col; j += 16)
        tile(S + j, ld, d_k, q, k, v + j, decay, beta, has_o ? o + j : NULL, has_o, 1,
             mask_avx512(n_col - j));
}

static void gdn(float *S, size_t ld, int d_k, int n_col, const float *q, const float *k,
                const float *v, float decay, float beta, float *o)
{
    if (o)
        columns(S, ld, d_k, n_col, q, k, v, decay, beta, o, true);
    else
        columns(S, ld, d_k, n_col, q, k, v, decay, beta, NULL, false);
}

void kern_init_gdn_avx512(kern_table *k)
{
    k->gdn = gdn;
}
