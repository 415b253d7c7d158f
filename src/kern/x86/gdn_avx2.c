/* gdn_avx2.c - one row of the gated delta net, 32 columns at a time. Source: kern.h.
 *
 * A tile of 32 columns and 128 rows is 16 KiB: the second pass finds it in the first level of
 * cache. Four independent accumulators hide the latency of FMA. */
#include "kern/slots.h"
#include "kern/x86/math_avx2.h"

/* nv vectors of columns; the last one has only n_last lanes. */
TEMPLATE void tile(float *S, size_t ld, int d_k, const float *q, const float *k, const float *v,
                   float decay, float beta, float *o, bool has_o, int nv, int n_last)
{
    const __m256 g = _mm256_set1_ps(decay);
    __m256 r[4], y[4];
    UNROLL
    for (int j = 0; j < nv; j++)
        r[j] = y[j] = _mm256_setzero_ps();
    for (int i = 0; i < d_k; i++) {
        const float *s = S + (size_t)i * ld;
        const __m256 ki = _mm256_set1_ps(k[i]);
        UNROLL
        for (int j = 0; j < nv; j++) {
            const __m256 old = load_avx2(s + 8 * j, j + 1 < nv ? 8 : n_last);
            r[j] = _mm256_fmadd_ps(_mm256_mul_ps(old, g), ki, r[j]);
        }
    }
    UNROLL
    for (int j = 0; j < nv; j++) { /* from here on r is u */
        const __m256 vj = load_avx2(v + 8 * j, j + 1 < nv ? 8 : n_last);
        r[j] = _mm256_mul_ps(_mm256_set1_ps(beta), _mm256_sub_ps(vj, r[j]));
    }
    for (int i = 0; i < d_k; i++) {
        float *s = S + (size_t)i * ld;
        const __m256 ki = _mm256_set1_ps(k[i]);
        UNROLL
        for (int j = 0; j < nv; j++) {
            const int n = j + 1 < nv ? 8 : n_last;
            const __m256 old = _mm256_mul_ps(load_avx2(s + 8 * j, n), g);
            const __m256 new = _mm256_fmadd_ps(ki, r[j], old);
            store_avx2(s + 8 * j, n, new);
            if (has_o)
                y[j] = _mm256_fmadd_ps(new, _mm256_set1_ps(q[i]), y[j]);
        }
    }
    UNROLL
    for (int j = 0; j < nv && has_o; j++)
        store_avx2(o + 8 * j, j + 1 < nv ? 8 : n_last, y[j]);
}

TEMPLATE void columns(float *S, size_t ld, int d_k, int n_col, const float *q, const float *k,
                      const float *v, float decay, float beta, float *o, bool has_o)
{
    int j = 0;
    for (; j + 32 <= n_col; j += 32)
        tile(S + j, ld, d_k, q, k, v + j, decay, beta, has_o ? o + j : NULL, has_o, 4, 8);
    for (; j + 16 <= n_col; j += 16)
        tile(S + j, ld, d_k, q, k, v + j, decay, beta, has_o ? o + j : NULL, has_o, 2, 8);
    for (; j < n_col; j += 8)
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

void kern_init_gdn_avx2(kern_table *k)
{
    k->gdn = gdn;
}
