/* quant_q8_avx2.c - rows of activations to 8 bits, by the rule of kern.h: AVX2. */
#include <immintrin.h>
#include <string.h>

#include "kern/slots.h"

/* Rounded to nearest even, -127 .. 127; NaN becomes 0. */
static ALWAYS_INLINE __m256i quant(__m256 x, __m256 id)
{
    const __m256 v = _mm256_mul_ps(x, id);
    const __m256 number = _mm256_cmp_ps(v, v, _CMP_ORD_Q);
    const __m256 low = _mm256_max_ps(v, _mm256_set1_ps(-127));
    const __m256 both = _mm256_min_ps(low, _mm256_set1_ps(127));
    return _mm256_cvtps_epi32(_mm256_and_ps(both, number));
}

static ALWAYS_INLINE float max8(__m256 v)
{
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

/* 16 integers to bytes at q; returns their sum. */
static ALWAYS_INLINE int16_t put16(uint8_t *q, __m256i lo, __m256i hi)
{
    /* the halves of the registers are packed apart: 0-3 8-11 4-7 12-15 */
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(lo, hi), 0xd8);
    const __m128i w0 = _mm256_castsi256_si128(words);
    const __m128i w1 = _mm256_extracti128_si256(words, 1);
    _mm_storeu_si128((__m128i *)(void *)q, _mm_packs_epi16(w0, w1));
    __m128i sum = _mm_madd_epi16(_mm_add_epi16(w0, w1), _mm_set1_epi16(1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
    return (int16_t)_mm_cvtsi128_si32(sum);
}

void kern_quant_q8_avx2(void *dst, const float *x, int n)
{
    const __m256 no_sign = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    uint8_t *q = dst;
    uint8_t *d = q + n;
    uint8_t *s = d + n / 32 * 4;
    for (int b = 0; b < n / 32; b++) {
        __m256 v[4];
        __m256 size = _mm256_setzero_ps();
        UNROLL
        for (int i = 0; i < 4; i++) {
            v[i] = _mm256_loadu_ps(x + 32 * b + 8 * i);
            size = _mm256_max_ps(size, _mm256_and_ps(v[i], no_sign));
        }
        const float scale = max8(size) / 127;
        const __m256 id = _mm256_set1_ps(scale != 0 ? 1 / scale : 0);
        const int16_t sum[2] = {put16(q + 32 * b, quant(v[0], id), quant(v[1], id)),
                                put16(q + 32 * b + 16, quant(v[2], id), quant(v[3], id))};
        memcpy(d + 4 * b, &scale, sizeof scale);
        memcpy(s + 4 * b, sum, sizeof sum);
    }
}
