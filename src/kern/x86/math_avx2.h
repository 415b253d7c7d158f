/* math_avx2.h - exp, lane sums and loads of part of a vector, 8 lanes wide.
 *
 * For files built with AVX2, FMA and F16C only. The formula of exp stands in ref/math.h. */
#ifndef KERN_X86_MATH_AVX2_H
#define KERN_X86_MATH_AVX2_H

#include <immintrin.h>

#include "kern/ref/math.h"

TEMPLATE __m256 exp_avx2(__m256 x)
{
    const __m256 lo = _mm256_set1_ps(EXP_MIN);
    const __m256 hi = _mm256_set1_ps(EXP_MAX);
    const __m256 magic = _mm256_set1_ps(EXP_MAGIC);
    const __m256 one = _mm256_set1_ps(1.0f);
    /* max and min return their second operand when one is NaN */
    const __m256 in = _mm256_min_ps(hi, _mm256_max_ps(lo, x));
    const __m256 t = _mm256_fmadd_ps(in, _mm256_set1_ps(EXP_LOG2E), magic);
    const __m256 n = _mm256_sub_ps(t, magic);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_HI), in);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(EXP_LN2_LO), r);
    __m256 y = _mm256_set1_ps(EXP_C6);
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C5));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C4));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C3));
    y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(EXP_C2));
    y = _mm256_fmadd_ps(y, r, one);
    y = _mm256_fmadd_ps(y, r, one);
    const __m256i scale = _mm256_slli_epi32(_mm256_castps_si256(t), 23);
    y = _mm256_mul_ps(y, _mm256_castsi256_ps(scale));
    y = _mm256_andnot_ps(_mm256_cmp_ps(x, lo, _CMP_LT_OQ), y);
    return _mm256_blendv_ps(y, _mm256_set1_ps(INFINITY), _mm256_cmp_ps(x, hi, _CMP_GT_OQ));
}

/* The end of the tree of lane sums, from 4 lanes and from 8. */
TEMPLATE float lane_tree4(__m128 p)
{
    p = _mm_add_ps(p, _mm_movehl_ps(p, p));
    return _mm_cvtss_f32(_mm_add_ss(p, _mm_movehdup_ps(p)));
}
TEMPLATE float lane_tree8(__m256 p)
{
    return lane_tree4(_mm_add_ps(_mm256_castps256_ps128(p), _mm256_extractf128_ps(p, 1)));
}

/* The first n lanes, all of them when n >= 8, none when n <= 0. */
TEMPLATE __m256i mask_avx2(int n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
}

/* Lanes past n: zero when loaded, untouched when stored. */
TEMPLATE __m256 load_avx2(const float *p, int n)
{
    return n >= 8 ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, mask_avx2(n));
}
TEMPLATE void store_avx2(float *p, int n, __m256 x)
{
    if (n >= 8)
        _mm256_storeu_ps(p, x);
    else
        _mm256_maskstore_ps(p, mask_avx2(n), x);
}

#endif
