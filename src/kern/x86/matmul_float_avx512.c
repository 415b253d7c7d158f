/* matmul_float_avx512.c - products of F32, F16 and BF16 weights: AVX-512. */
#include <immintrin.h>

#include "base/dtype.h"
#include "kern/slots.h"
#include "kern/x86/math_avx512.h"

#define FLOAT_ROWS 4
#define FLOAT_TOK  4

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

TEMPLATE void add_block(float (*y)[FLOAT_TOK], const uint8_t *const *w, const uint8_t *const *x,
                        int n, int type, int n_tok)
{
    __m512 acc[FLOAT_ROWS][FLOAT_TOK];
    UNROLL
    for (int i = 0; i < FLOAT_ROWS; i++) {
        UNROLL
        for (int j = 0; j < FLOAT_TOK; j++)
            acc[i][j] = _mm512_setzero_ps();
    }
    for (int k = 0; k < n; k += 16) {
        const __mmask16 keep = mask_avx512(n - k); /* lanes past n keep their sums */
        __m512 xk[FLOAT_TOK];
        UNROLL
        for (int j = 0; j < FLOAT_TOK && j < n_tok; j++)
            xk[j] = _mm512_maskz_loadu_ps(keep, x[j] + 4 * (size_t)k);
        UNROLL
        for (int i = 0; i < FLOAT_ROWS; i++) {
            const __m512 wk = load_w(w[i], k, keep, type);
            UNROLL
            for (int j = 0; j < FLOAT_TOK && j < n_tok; j++)
                acc[i][j] = _mm512_mask3_fmadd_ps(wk, xk[j], acc[i][j], keep);
        }
    }
    UNROLL
    for (int i = 0; i < FLOAT_ROWS; i++) {
        UNROLL
        for (int j = 0; j < FLOAT_TOK && j < n_tok; j++)
            y[i][j] = lane_tree16(acc[i][j]);
    }
}

#include "kern/matmul_float_tmpl.h"

void kern_init_matmul_float_avx512(kern_table *k)
{
    set_float_slots(k);
}
