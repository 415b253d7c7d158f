/* quant_q8_avx512.c - rows of activations to 8 bits, by the rule of kern.h: AVX-512. */
#include <immintrin.h>
#include <string.h>

#include "kern/slots.h"

/* Rounded to nearest even, -127 .. 127; NaN becomes 0. */
static ALWAYS_INLINE __m512i quant(__m512 x, __m512 id)
{
    const __m512 v = _mm512_mul_ps(x, id);
    const __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
    const __m512 low = _mm512_max_ps(v, _mm512_set1_ps(-127));
    return _mm512_maskz_cvtps_epi32(number, _mm512_min_ps(low, _mm512_set1_ps(127)));
}

void kern_quant_q8_avx512(void *dst, const float *x, int n)
{
    uint8_t *q = dst;
    uint8_t *d = q + n;
    uint8_t *s = d + n / 32 * 4;
    for (int b = 0; b < n / 32; b++) {
        const __m512 x0 = _mm512_loadu_ps(x + 32 * b);
        const __m512 x1 = _mm512_loadu_ps(x + 32 * b + 16);
        const float amax =
            _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(x0), _mm512_abs_ps(x1)));
        const float scale = amax / 127;
        const __m512 id = _mm512_set1_ps(scale != 0 ? 1 / scale : 0);
        const __m512i q0 = quant(x0, id);
        const __m512i q1 = quant(x1, id);
        const int16_t sum[2] = {(int16_t)_mm512_reduce_add_epi32(q0),
                                (int16_t)_mm512_reduce_add_epi32(q1)};
        _mm_storeu_si128((__m128i *)(void *)(q + 32 * b), _mm512_cvtepi32_epi8(q0));
        _mm_storeu_si128((__m128i *)(void *)(q + 32 * b + 16), _mm512_cvtepi32_epi8(q1));
        memcpy(d + 4 * b, &scale, sizeof scale);
        memcpy(s + 4 * b, sum, sizeof sum);
    }
}
