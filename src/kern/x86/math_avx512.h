/* math_avx512.h - exp, lane sums and masks, 16 lanes wide.
 *
 * For files built with AVX-512 F BW VL DQ only. The formula of exp stands in ref/math.h. */
#ifndef KERN_X86_MATH_AVX512_H
#define KERN_X86_MATH_AVX512_H

#include "kern/x86/math_avx2.h"

TEMPLATE __m512 exp_avx512(__m512 x)
{
    const __m512 lo = _mm512_set1_ps(EXP_MIN);
    const __m512 hi = _mm512_set1_ps(EXP_MAX);
    const __m512 magic = _mm512_set1_ps(EXP_MAGIC);
    const __m512 one = _mm512_set1_ps(1.0f);
    /* max and min return their second operand when one is NaN */
    const __m512 in = _mm512_min_ps(hi, _mm512_max_ps(lo, x));
    const __m512 t = _mm512_fmadd_ps(in, _mm512_set1_ps(EXP_LOG2E), magic);
    const __m512 n = _mm512_sub_ps(t, magic);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(EXP_LN2_HI), in);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(EXP_LN2_LO), r);
    __m512 y = _mm512_set1_ps(EXP_C6);
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(EXP_C5));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(EXP_C4));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(EXP_C3));
    y = _mm512_fmadd_ps(y, r, _mm512_set1_ps(EXP_C2));
    y = _mm512_fmadd_ps(y, r, one);
    y = _mm512_fmadd_ps(y, r, one);
    const __m512i scale = _mm512_slli_epi32(_mm512_castps_si512(t), 23);
    const __mmask16 inside = _mm512_cmp_ps_mask(x, lo, _CMP_NLT_UQ); /* NaN too */
    y = _mm512_maskz_mul_ps(inside, y, _mm512_castsi512_ps(scale));
    const __mmask16 above = _mm512_cmp_ps_mask(x, hi, _CMP_GT_OQ);
    return _mm512_mask_blend_ps(above, y, _mm512_set1_ps(INFINITY));
}

/* The tree of lane sums. */
TEMPLATE float lane_tree16(__m512 p)
{
    return lane_tree8(_mm256_add_ps(_mm512_castps512_ps256(p), _mm512_extractf32x8_ps(p, 1)));
}

/* The first n lanes, all of them when n >= 16; n > 0. */
TEMPLATE __mmask16 mask_avx512(int n)
{
    return (__mmask16)(n >= 16 ? 0xffff : (1u << n) - 1);
}

#endif
