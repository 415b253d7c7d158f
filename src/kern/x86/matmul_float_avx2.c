/* matmul_float_avx2.c - products of F32, F16 and BF16 weights: AVX2, FMA and F16C.
 * The 16 lanes of a sum are two registers. */
#include <immintrin.h>

#include "base/dtype.h"
#include "kern/slots.h"
#include "kern/x86/math_avx2.h"

#define FLOAT_ROWS 2
#define FLOAT_TOK  3

/* 8 weights from the k-th on. */
static ALWAYS_INLINE __m256 load_w(const uint8_t *row, int k, int type)
{
    if (type == DTYPE_F32)
        return _mm256_loadu_ps((const float *)(const void *)(row + 4 * (size_t)k));
    const __m128i half = _mm_loadu_si128((const __m128i *)(const void *)(row + 2 * (size_t)k));
    if (type == DTYPE_F16)
        return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

static ALWAYS_INLINE __m256 load_x(const uint8_t *row, int k)
{
    return _mm256_loadu_ps((const float *)(const void *)(row + 4 * (size_t)k));
}

/* n < 8 values, through copies with room behind them; the other lanes keep their sums. */
static __m256 add_part(__m256 acc, const uint8_t *w, const uint8_t *x, int n, int type)
{
    uint8_t w_copy[32] = {0}, x_copy[32] = {0};
    memcpy(w_copy, w, (size_t)n * (type == DTYPE_F32 ? 4 : 2));
    memcpy(x_copy, x, (size_t)n * 4);
    const __m256 sum = _mm256_fmadd_ps(load_w(w_copy, 0, type), load_x(x_copy, 0), acc);
    return _mm256_blendv_ps(acc, sum, _mm256_castsi256_ps(mask_avx2(n)));
}

/* Up to 8 values from the k-th on of n, if there are any. */
static ALWAYS_INLINE __m256 add_end(__m256 acc, const uint8_t *w, const uint8_t *x, int k, int n,
                                    int type)
{
    if (n - k >= 8)
        return _mm256_fmadd_ps(load_w(w, k, type), load_x(x, k), acc);
    if (n <= k)
        return acc;
    const size_t skip = (size_t)k;
    return add_part(acc, w + skip * (type == DTYPE_F32 ? 4 : 2), x + skip * 4, n - k, type);
}

TEMPLATE void add_block(float (*sums)[FLOAT_TOK][16], const uint8_t *const *w,
                        const uint8_t *const *x, int n, int type, int n_tok)
{
    __m256 lo[FLOAT_ROWS][FLOAT_TOK], hi[FLOAT_ROWS][FLOAT_TOK]; /* lanes 0-7, 8-15 */
    UNROLL
    for (int i = 0; i < FLOAT_ROWS; i++) {
        UNROLL
        for (int j = 0; j < FLOAT_TOK && j < n_tok; j++) {
            lo[i][j] = _mm256_load_ps(sums[i][j]);
            hi[i][j] = _mm256_load_ps(sums[i][j] + 8);
        }
    }
    int k = 0;
    for (; k + 16 <= n; k += 16) {
        UNROLL
        for (int i = 0; i < FLOAT_ROWS; i++) {
            const __m256 w0 = load_w(w[i], k, type);
            const __m256 w1 = load_w(w[i], k + 8, type);
            UNROLL
            for (int j = 0; j < FLOAT_TOK && j < n_tok; j++) {
                lo[i][j] = _mm256_fmadd_ps(w0, load_x(x[j], k), lo[i][j]);
                hi[i][j] = _mm256_fmadd_ps(w1, load_x(x[j], k + 8), hi[i][j]);
            }
        }
    }
    UNROLL
    for (int i = 0; i < FLOAT_ROWS; i++) {
        UNROLL
        for (int j = 0; j < FLOAT_TOK && j < n_tok; j++) {
            _mm256_store_ps(sums[i][j], add_end(lo[i][j], w[i], x[j], k, n, type));
            _mm256_store_ps(sums[i][j] + 8, add_end(hi[i][j], w[i], x[j], k + 8, n, type));
        }
    }
}

TEMPLATE void widen(float *dst, const uint8_t *w, int n, int type)
{
    int k = 0;
    for (; k + 8 <= n; k += 8)
        _mm256_storeu_ps(dst + k, load_w(w, k, type));
    if (k == n)
        return;
    const size_t value_bytes = type == DTYPE_F32 ? 4 : 2;
    uint8_t copy[32] = {0};
    memcpy(copy, w + value_bytes * (size_t)k, value_bytes * (size_t)(n - k));
    store_avx2(dst + k, n - k, load_w(copy, 0, type));
}

static ALWAYS_INLINE float lane_sum(const float *p)
{
    return lane_tree8(_mm256_add_ps(_mm256_load_ps(p), _mm256_load_ps(p + 8)));
}

#include "kern/matmul_float_tmpl.h"

void kern_init_matmul_float_avx2(kern_table *k)
{
    set_float_slots(k);
}
