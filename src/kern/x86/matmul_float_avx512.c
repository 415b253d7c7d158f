/* matmul_float_avx512.c - products of F32, F16 and BF16 weights: AVX-512. */
#include <immintrin.h>

#include "base/dtype.h"
#include "kern/slots.h"
#include "kern/x86/math_avx512.h"

#define FLOAT_ROWS 4
#define FLOAT_TOK  6

/* 16 weights from the k-th on, those that keep names, zero for the others. */
static ALWAYS_INLINE __m512 load_w(const uint8_t *row, int k, __mmask16 keep, int type)
{
    if (type == DTYPE_F32)
        return _mm512_maskz_loadu_ps(keep, row + 4 * (size_t)k);
    const __m256i half = _mm256_maskz_loadu_epi16(keep, row + 2 * (size_t)k);
    if (type == DTYPE_F16)
        return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* Columns k .. k + 15, those that keep names. */
TEMPLATE void add_16(__m512 (*acc)[FLOAT_TOK], const uint8_t *const *w, const uint8_t *const *x,
                     int k, __mmask16 keep, int type, int n_tok)
{
    __m512 wk[FLOAT_ROWS];
    UNROLL
    for (int i = 0; i < FLOAT_ROWS; i++)
        wk[i] = load_w(w[i], k, keep, type);
    UNROLL
    for (int j = 0; j < FLOAT_TOK && j < n_tok; j++) {
        const __m512 xk = _mm512_maskz_loadu_ps(keep, x[j] + 4 * (size_t)k);
        UNROLL
        for (int i = 0; i < FLOAT_ROWS; i++)
            acc[i][j] = _mm512_mask3_fmadd_ps(wk[i], xk, acc[i][j], keep);
    }
}

TEMPLATE void add_block(float (*sums)[FLOAT_TOK][16], const uint8_t *const *w,
                        const uint8_t *const *x, int n, int type, int n_tok)
{
    __m512 acc[FLOAT_ROWS][FLOAT_TOK];
    UNROLL
    for (int i = 0; i < FLOAT_ROWS; i++) {
        UNROLL
        for (int j = 0; j < FLOAT_TOK && j < n_tok; j++)
            acc[i][j] = _mm512_load_ps(sums[i][j]);
    }
    int k = 0;
    for (; k + 16 <= n; k += 16)
        add_16(acc, w, x, k, 0xffff, type, n_tok);
    if (k < n) /* lanes past n keep their sums */
        add_16(acc, w, x, k, mask_avx512(n - k), type, n_tok);
    UNROLL
    for (int i = 0; i < FLOAT_ROWS; i++) {
        UNROLL
        for (int j = 0; j < FLOAT_TOK && j < n_tok; j++)
            _mm512_store_ps(sums[i][j], acc[i][j]);
    }
}

TEMPLATE void widen(float *dst, const uint8_t *w, int n, int type)
{
    int k = 0;
    for (; k + 16 <= n; k += 16)
        _mm512_storeu_ps(dst + k, load_w(w, k, 0xffff, type));
    if (k < n) {
        const __mmask16 keep = mask_avx512(n - k);
        _mm512_mask_storeu_ps(dst + k, keep, load_w(w, k, keep, type));
    }
}

static ALWAYS_INLINE float lane_sum(const float *p)
{
    return lane_tree16(_mm512_load_ps(p));
}

#include "kern/matmul_float_tmpl.h"

void kern_init_matmul_float_avx512(kern_table *k)
{
    set_float_slots(k);
}
