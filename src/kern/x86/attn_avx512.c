/* attn_avx512.c - attention of one KV head, 16 lanes wide. Source: kern.h, attn_tmpl.h. */
#include "base/dtype.h"
#include "kern/block.h"
#include "kern/slots.h"
#include "kern/x86/math_avx512.h"

#define SCORE_CELLS 4
#define TILE_Q      4
#define SLAB        64

TEMPLATE void load_floats(float *dst, const uint8_t *row, int type, int i0, int n)
{
    if (type == DTYPE_F16) {
        for (int i = 0; i < n; i += 16) {
            const void *p = row + 2 * (size_t)(i0 + i);
            _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(_mm256_loadu_si256(p)));
        }
    } else if (type == DTYPE_Q8_0) {
        for (int i = 0; i < n; i += 16) {
            const kern_q8_0 *b = (const kern_q8_0 *)row + (i0 + i) / 32;
            const __m128i q = _mm_loadu_si128((const void *)(b->qs + i % 32));
            const __m512 f = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q));
            _mm512_storeu_ps(dst + i, _mm512_mul_ps(f, _mm512_set1_ps(_cvtsh_ss(b->d))));
        }
    } else {
        for (int i = 0; i < n; i += 16)
            _mm512_storeu_ps(dst + i, _mm512_loadu_ps(row + 4 * (size_t)(i0 + i)));
    }
}

/* The lane sums of 16 vectors at once: the four steps of the tree, each on pairs of vectors, halve
 * their number. Of the result, 128-bit lane h holds the sums of p[h][0..3]. */
TEMPLATE __m512 tree_4x4(__m512 p[4][4])
{
    __m512 y[4];
    UNROLL
    for (int c = 0; c < 4; c++) { /* j + 8, j + 4 */
        const __m512 a = _mm512_add_ps(_mm512_shuffle_f32x4(p[0][c], p[1][c], 0x44),
                                       _mm512_shuffle_f32x4(p[0][c], p[1][c], 0xee));
        const __m512 b = _mm512_add_ps(_mm512_shuffle_f32x4(p[2][c], p[3][c], 0x44),
                                       _mm512_shuffle_f32x4(p[2][c], p[3][c], 0xee));
        y[c] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    UNROLL
    for (int c = 0; c < 4; c += 2) { /* j + 2 */
        const __m512d a = _mm512_castps_pd(y[c]);
        const __m512d b = _mm512_castps_pd(y[c + 1]);
        y[c] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)),
                             _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
    }
    return _mm512_add_ps(_mm512_shuffle_ps(y[0], y[2], 0x88), _mm512_shuffle_ps(y[0], y[2], 0xdd));
}

/* s[h][c] = lane sum over row[c] and q[h], for 4 cells and n_q query heads. */
TEMPLATE void score_tile_n(float *s, const float *row, const float *q, size_t q_stride, int d,
                           int n_q)
{
    __m512 p[4][4];
    UNROLL
    for (int h = 0; h < 4; h++) {
        UNROLL
        for (int c = 0; c < 4; c++)
            p[h][c] = _mm512_setzero_ps();
    }
    for (int i = 0; i < d; i += 16) {
        __m512 k[4];
        UNROLL
        for (int c = 0; c < 4; c++)
            k[c] = _mm512_load_ps(row + c * KERN_ATTN_MAX_D + i);
        UNROLL
        for (int h = 0; h < n_q; h++) {
            const __m512 qh = _mm512_loadu_ps(q + (size_t)h * q_stride + i);
            UNROLL
            for (int c = 0; c < 4; c++)
                p[h][c] = _mm512_fmadd_ps(k[c], qh, p[h][c]);
        }
    }
    const __m512 sum = tree_4x4(p);
    _mm_storeu_ps(s, _mm512_castps512_ps128(sum));
    if (n_q > 1)
        _mm_storeu_ps(s + KERN_ATTN_BLOCK, _mm512_extractf32x4_ps(sum, 1));
    if (n_q > 2)
        _mm_storeu_ps(s + 2 * KERN_ATTN_BLOCK, _mm512_extractf32x4_ps(sum, 2));
    if (n_q > 3)
        _mm_storeu_ps(s + 3 * KERN_ATTN_BLOCK, _mm512_extractf32x4_ps(sum, 3));
}

static void score_tile(float *s, const float *row, const float *q, size_t q_stride, int d, int n_q)
{
    if (n_q >= 4)
        score_tile_n(s, row, q, q_stride, d, 4);
    else if (n_q == 3)
        score_tile_n(s, row, q, q_stride, d, 3);
    else if (n_q == 2)
        score_tile_n(s, row, q, q_stride, d, 2);
    else
        score_tile_n(s, row, q, q_stride, d, 1);
}

/* One head's scores of n cells become probabilities, zero past n; returns c. */
static float softmax_head(float *s, int n, float scale, float *m, float *l)
{
    const __m512 none = _mm512_set1_ps(-INFINITY);
    const __mmask16 k0 = mask_avx512(n);
    const __mmask16 k1 = n > 16 ? mask_avx512(n - 16) : 0;
    const __m512 s0 = _mm512_mul_ps(_mm512_load_ps(s), _mm512_set1_ps(scale));
    const __m512 s1 = _mm512_mul_ps(_mm512_load_ps(s + 16), _mm512_set1_ps(scale));
    __m512 top = _mm512_mask_max_ps(none, k0, s0, none); /* NaN in the first: the second */
    top = _mm512_mask_max_ps(top, k1, s1, top);
    const float best = _mm512_reduce_max_ps(top);

    const float m_new = (best > *m ? best : *m) + 0.0f;
    const float z = m_new == -INFINITY ? 0.0f : m_new;
    const float c = exp_f32(*m - z);
    const __m512 vz = _mm512_set1_ps(z);
    const __m512 p0 = _mm512_maskz_mov_ps(k0, exp_avx512(_mm512_sub_ps(s0, vz)));
    const __m512 p1 = _mm512_maskz_mov_ps(k1, exp_avx512(_mm512_sub_ps(s1, vz)));
    _mm512_store_ps(s, p0);
    _mm512_store_ps(s + 16, p1);
    *m = m_new;
    *l = __builtin_fmaf(*l, c, lane_tree16(_mm512_add_ps(p0, p1)));
    return c;
}

/* acc[h][i] = acc[h][i] * c[h], then fma(p[h][j], v[j][i], .) over j < n; n_v vectors of i. */
TEMPLATE void value_tile_n(float *acc, size_t stride, const float *v, const float *p,
                           const float *c, int n, int n_v, int n_q)
{
    __m512 y[4][4];
    UNROLL
    for (int h = 0; h < n_q; h++) {
        UNROLL
        for (int i = 0; i < n_v; i++)
            y[h][i] = _mm512_mul_ps(_mm512_loadu_ps(acc + (size_t)h * stride + 16 * i),
                                    _mm512_set1_ps(c[h]));
    }
    for (int j = 0; j < n; j++) {
        __m512 vj[4];
        UNROLL
        for (int i = 0; i < n_v; i++)
            vj[i] = _mm512_load_ps(v + j * SLAB + 16 * i);
        UNROLL
        for (int h = 0; h < n_q; h++) {
            const __m512 ph = _mm512_set1_ps(p[h * KERN_ATTN_BLOCK + j]);
            UNROLL
            for (int i = 0; i < n_v; i++)
                y[h][i] = _mm512_fmadd_ps(ph, vj[i], y[h][i]);
        }
    }
    UNROLL
    for (int h = 0; h < n_q; h++) {
        UNROLL
        for (int i = 0; i < n_v; i++)
            _mm512_storeu_ps(acc + (size_t)h * stride + 16 * i, y[h][i]);
    }
}

/* A whole slab, or what is left of the row, 16 columns at a time. */
TEMPLATE void value_rows(float *acc, size_t stride, const float *v, const float *p, const float *c,
                         int n, int width, int n_q)
{
    if (width == SLAB) {
        value_tile_n(acc, stride, v, p, c, n, 4, n_q);
        return;
    }
    for (int i = 0; i < width; i += 16)
        value_tile_n(acc + i, stride, v + i, p, c, n, 1, n_q);
}

static void value_tile(float *acc, size_t stride, const float *v, const float *p, const float *c,
                       int n, int width, int n_q)
{
    if (n_q >= 4)
        value_rows(acc, stride, v, p, c, n, width, 4);
    else if (n_q == 3)
        value_rows(acc, stride, v, p, c, n, width, 3);
    else if (n_q == 2)
        value_rows(acc, stride, v, p, c, n, width, 2);
    else
        value_rows(acc, stride, v, p, c, n, width, 1);
}

#include "kern/attn_tmpl.h"

void kern_init_attn_avx512(kern_table *k)
{
    k->attn = attn;
}
