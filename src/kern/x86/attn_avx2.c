/* attn_avx2.c - attention of one KV head, 8 lanes wide. Source: kern.h, attn_tmpl.h. */
#include "base/dtype.h"
#include "kern/block.h"
#include "kern/slots.h"
#include "kern/x86/math_avx2.h"

#define SCORE_CELLS 2
#define TILE_Q      2
#define SLAB        64

TEMPLATE void load_floats(float *dst, const uint8_t *row, int type, int i0, int n)
{
    if (type == DTYPE_F16) {
        for (int i = 0; i < n; i += 8) {
            const void *p = row + 2 * (size_t)(i0 + i);
            _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128(p)));
        }
    } else if (type == DTYPE_Q8_0) {
        for (int i = 0; i < n; i += 8) {
            const kern_q8_0 *b = (const kern_q8_0 *)row + (i0 + i) / 32;
            const __m128i q = _mm_loadl_epi64((const void *)(b->qs + i % 32));
            const __m256 f = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q));
            _mm256_storeu_ps(dst + i, _mm256_mul_ps(f, _mm256_set1_ps(_cvtsh_ss(b->d))));
        }
    } else {
        for (int i = 0; i < n; i += 8)
            _mm256_storeu_ps(dst + i, _mm256_loadu_ps((const void *)(row + 4 * (size_t)(i0 + i))));
    }
}

/* The lane sums p[h][c][0..15] of two query heads and two cells: h0c0, h0c1, h1c0, h1c1. */
TEMPLATE __m128 tree_2x2(__m256 p[2][2][2])
{
    __m256 y[2];
    UNROLL
    for (int h = 0; h < 2; h++) { /* j + 8, j + 4 */
        const __m256 a = _mm256_add_ps(p[h][0][0], p[h][0][1]);
        const __m256 b = _mm256_add_ps(p[h][1][0], p[h][1][1]);
        y[h] =
            _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
    }
    const __m256d a = _mm256_castps_pd(y[0]);
    const __m256d b = _mm256_castps_pd(y[1]);
    const __m256 z = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(a, b)),
                                   _mm256_castpd_ps(_mm256_unpackhi_pd(a, b))); /* j + 2 */
    const __m256 sum = _mm256_add_ps(z, _mm256_movehdup_ps(z)); /* h0c0 . h1c0 . h0c1 . h1c1 . */
    const __m128 c0 = _mm256_castps256_ps128(sum);
    const __m128 c1 = _mm256_extractf128_ps(sum, 1);
    return _mm_blend_ps(c0, _mm_moveldup_ps(c1), 0xa);
}

/* s[h][c] = lane sum over row[c] and q[h], for 2 cells and n_q query heads. */
TEMPLATE void score_tile_n(float *s, const float *row, const float *q, size_t q_stride, int d,
                           int n_q)
{
    __m256 p[2][2][2];
    UNROLL
    for (int h = 0; h < 2; h++)
        p[h][0][0] = p[h][0][1] = p[h][1][0] = p[h][1][1] = _mm256_setzero_ps();
    for (int i = 0; i < d; i += 16) {
        UNROLL
        for (int half = 0; half < 2; half++) {
            const __m256 k0 = _mm256_load_ps(row + i + 8 * half);
            const __m256 k1 = _mm256_load_ps(row + KERN_ATTN_MAX_D + i + 8 * half);
            UNROLL
            for (int h = 0; h < n_q; h++) {
                const __m256 qh = _mm256_loadu_ps(q + (size_t)h * q_stride + i + 8 * half);
                p[h][0][half] = _mm256_fmadd_ps(k0, qh, p[h][0][half]);
                p[h][1][half] = _mm256_fmadd_ps(k1, qh, p[h][1][half]);
            }
        }
    }
    const __m128 sum = tree_2x2(p);
    _mm_storel_pi((void *)s, sum);
    if (n_q > 1)
        _mm_storeh_pi((void *)(s + KERN_ATTN_BLOCK), sum);
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
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int j = 0; j < KERN_ATTN_BLOCK; j += 8) {
        const __m256 x = _mm256_sub_ps(_mm256_load_ps(s + j), _mm256_set1_ps(z));
        const __m256 keep = _mm256_castsi256_ps(mask_avx2(n - j));
        const __m256 p = _mm256_and_ps(exp_avx2(x), keep);
        _mm256_store_ps(s + j, p);
        sum[j / 8 % 2] = _mm256_add_ps(sum[j / 8 % 2], p);
    }
    *m = m_new;
    *l = __builtin_fmaf(*l, c, lane_tree8(_mm256_add_ps(sum[0], sum[1])));
    return c;
}

/* acc[h][i] = acc[h][i] * c[h], then fma(p[h][j], v[j][i], .) over j < n; n_v vectors of i. */
TEMPLATE void value_tile_n(float *acc, size_t stride, const float *v, const float *p,
                           const float *c, int n, int n_v, int n_q)
{
    __m256 y[2][4];
    UNROLL
    for (int h = 0; h < n_q; h++) {
        UNROLL
        for (int i = 0; i < n_v; i++)
            y[h][i] = _mm256_mul_ps(_mm256_loadu_ps(acc + (size_t)h * stride + 8 * i),
                                    _mm256_set1_ps(c[h]));
    }
    for (int j = 0; j < n; j++) {
        __m256 ph[2];
        UNROLL
        for (int h = 0; h < n_q; h++)
            ph[h] = _mm256_set1_ps(p[h * KERN_ATTN_BLOCK + j]);
        UNROLL
        for (int i = 0; i < n_v; i++) {
            const __m256 vj = _mm256_load_ps(v + j * SLAB + 8 * i);
            UNROLL
            for (int h = 0; h < n_q; h++)
                y[h][i] = _mm256_fmadd_ps(ph[h], vj, y[h][i]);
        }
    }
    UNROLL
    for (int h = 0; h < n_q; h++) {
        UNROLL
        for (int i = 0; i < n_v; i++)
            _mm256_storeu_ps(acc + (size_t)h * stride + 8 * i, y[h][i]);
    }
}

/* A slab or what is left of the row: 32 columns at a time, then 16. */
TEMPLATE void value_rows(float *acc, size_t stride, const float *v, const float *p, const float *c,
                         int n, int width, int n_q)
{
    int i = 0;
    for (; i + 32 <= width; i += 32)
        value_tile_n(acc + i, stride, v + i, p, c, n, 4, n_q);
    if (i < width)
        value_tile_n(acc + i, stride, v + i, p, c, n, 2, n_q);
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

void kern_init_attn_avx2(kern_table *k)
{
    k->attn = attn;
}
