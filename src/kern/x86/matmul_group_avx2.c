/* matmul_group_avx2.c - products of quantised weights and activations: AVX2 and FMA.
 *
 * vpmaddubsw adds two products of an unsigned and a signed byte in 16 bits, where 2 * 128 * 127
 * fits. Weights 0 .. max are its unsigned side, and as many such pairs as fit in 16 bits are added
 * before they widen to 32 (PAIRS). Weights of all 8 bits are split: |w| is the unsigned side,
 * -128 becoming 128, and x with the sign of w the signed one.
 *
 * Loops over tokens are bounded by a constant besides n_tok, see matmul_group_avx512.c.
 */
#include <immintrin.h>
#include <string.h>

#include "kern/group.h"
#include "kern/slots.h"
#include "kern/x86/tile_avx2.h"

/* Additions of 2 * max * 127 that stay below 2^15: 8 for max 15, 4 for 31, 2 for 63; 1 for |w|. */
#define PAIRS_15   8
#define PAIRS_31   4
#define PAIRS_63   2
#define PAIRS_WIDE 1

static ALWAYS_INLINE __m256i broadcast4(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm256_set1_epi32(v);
}

static ALWAYS_INLINE __m256 broadcast_ps(const uint8_t *p)
{
    return _mm256_castsi256_ps(broadcast4(p));
}

/* The integer sums of columns 4 k0 .. 4 k1 - 1 of a group, added to sum[n_tok]. */
TEMPLATE void add_products(__m256i *sum, const tile *t, int g, int k0, int k1, const tile_x *x,
                           int n_tok, int pairs)
{
    const __m256i ones = _mm256_set1_epi16(1);
    const size_t q = x->q + 32 * (size_t)g;
    __m256i part[TILE_TOK];
    UNROLL
    for (int k = k0; k < k1; k++) {
        const __m256i w = _mm256_load_si256((const __m256i *)(const void *)t->q[g][k]);
        const __m256i size = pairs == PAIRS_WIDE ? _mm256_abs_epi8(w) : w;
        UNROLL
        for (int j = 0; j < TILE_TOK && j < n_tok; j++) {
            __m256i xk = broadcast4(x->row[j] + q + 4 * k);
            if (pairs == PAIRS_WIDE)
                xk = _mm256_sign_epi8(xk, w);
            const __m256i pair = _mm256_maddubs_epi16(size, xk);
            part[j] = (k - k0) % pairs == 0 ? pair : _mm256_add_epi16(part[j], pair);
            if ((k - k0) % pairs == pairs - 1 || k == k1 - 1)
                sum[j] = _mm256_add_epi32(sum[j], _mm256_madd_epi16(part[j], ones));
        }
    }
}

/* The sums of a group for a type with one scale. */
TEMPLATE void add_one_scale(__m256 *acc, const tile *t, int g, const tile_x *x, int offset,
                            int n_tok, int pairs)
{
    const __m256 s0 = _mm256_load_ps(t->s[0][g]);
    const __m256i minus_offset = _mm256_set1_epi16((short)-offset);
    __m256i i0[TILE_TOK];
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++)
        i0[j] = _mm256_madd_epi16(broadcast4(x->row[j] + x->s + 4 * (size_t)g), minus_offset);
    add_products(i0, t, g, 0, 8, x, n_tok, pairs);
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++) {
        const __m256 s = _mm256_mul_ps(s0, broadcast_ps(x->row[j] + x->d + 4 * (size_t)g));
        acc[j] = _mm256_fmadd_ps(s, _mm256_cvtepi32_ps(i0[j]), acc[j]);
    }
}

/* The same for two scales. */
TEMPLATE void add_two_scales(__m256 *acc, const tile *t, int g, const tile_x *x, int offset,
                             int n_tok, int pairs)
{
    const __m256 s0 = _mm256_load_ps(t->s[0][g]);
    const __m256 s1 = _mm256_load_ps(t->s[1][g]);
    const __m256i low = _mm256_set1_epi32(-offset & 0xffff);
    const __m256i high = _mm256_slli_epi32(low, 16);
    __m256i i0[TILE_TOK], i1[TILE_TOK];
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++) {
        const __m256i sums = broadcast4(x->row[j] + x->s + 4 * (size_t)g);
        i0[j] = _mm256_madd_epi16(sums, low);
        i1[j] = _mm256_madd_epi16(sums, high);
    }
    add_products(i0, t, g, 0, 4, x, n_tok, pairs);
    add_products(i1, t, g, 4, 8, x, n_tok, pairs);
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++) {
        const __m256 dx = broadcast_ps(x->row[j] + x->d + 4 * (size_t)g);
        const __m256 half0 = _mm256_mul_ps(s0, _mm256_cvtepi32_ps(i0[j]));
        acc[j] = _mm256_fmadd_ps(dx, _mm256_fmadd_ps(s1, _mm256_cvtepi32_ps(i1[j]), half0), acc[j]);
    }
}

TEMPLATE void add_minima(__m256 *acc, const tile *t, int g, const tile_x *x, int n_tok, bool two)
{
    const __m256 m0 = _mm256_load_ps(t->m[0][g]);
    const __m256 m1 = two ? _mm256_load_ps(t->m[1][g]) : m0;
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++) {
        const __m256 dx = broadcast_ps(x->row[j] + x->d + 4 * (size_t)g);
        const __m256i sums = broadcast4(x->row[j] + x->s + 4 * (size_t)g);
        const __m256 xs1 = _mm256_cvtepi32_ps(_mm256_srai_epi32(sums, 16));
        const __m256 xs0 = _mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(sums, 16), 16));
        if (two) {
            const __m256 both = _mm256_fmadd_ps(m1, xs1, _mm256_mul_ps(m0, xs0));
            acc[j] = _mm256_fnmadd_ps(dx, both, acc[j]);
        } else { /* the sum of the sums is exact in float as it is in integers */
            acc[j] = _mm256_fnmadd_ps(_mm256_mul_ps(m0, dx), _mm256_add_ps(xs0, xs1), acc[j]);
        }
    }
}

TEMPLATE void add_tile(float (*sums)[TILE_ROWS], const tile *t, const tile_x *x, int n_group,
                       int offset, int n_tok, int pairs, bool two, bool min)
{
    __m256 acc[TILE_TOK];
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++)
        acc[j] = _mm256_load_ps(sums[j]);
    for (int g = 0; g < n_group; g++) {
        if (two)
            add_two_scales(acc, t, g, x, offset, n_tok, pairs);
        else
            add_one_scale(acc, t, g, x, offset, n_tok, pairs);
        if (min)
            add_minima(acc, t, g, x, n_tok, two);
    }
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++)
        _mm256_store_ps(sums[j], acc[j]);
}

#define ADD_TILE(name, n_tok, pairs, two, min)                                          \
    static void name##_##n_tok(float(*sums)[TILE_ROWS], const tile *t, const tile_x *x, \
                               int n_group, int offset)                                 \
    {                                                                                   \
        add_tile(sums, t, x, n_group, offset, n_tok, pairs, two, min);                  \
    }
#define ADD_TILES(name, pairs, two, min) \
    ADD_TILE(name, 1, pairs, two, min)   \
    ADD_TILE(name, 2, pairs, two, min)   \
    ADD_TILE(name, 4, pairs, two, min)   \
    static add_tile_fn *const name[] = {name##_1, name##_2, name##_4};
#define MAX_LOG2 2

ADD_TILES(one_15, PAIRS_15, false, false)
ADD_TILES(one_31, PAIRS_31, false, false)
ADD_TILES(one_wide, PAIRS_WIDE, false, false)
ADD_TILES(one_min_31, PAIRS_31, false, true)
ADD_TILES(two_63, PAIRS_63, true, false)
ADD_TILES(two_wide, PAIRS_WIDE, true, false)
ADD_TILES(two_min_63, PAIRS_63, true, true)

/* A function for a larger maximum serves a smaller one; types with minima are never wide. */
static add_tile_fn *const *add_tiles(const packer *p, const kern_group_traits *kind)
{
    if (kind->two_scales)
        return kind->has_min ? two_min_63 : p->max <= 63 ? two_63 : two_wide;
    if (kind->has_min)
        return one_min_31;
    return p->max <= 15 ? one_15 : p->max <= 31 ? one_31 : one_wide;
}

static void store_sums(float *y, const float *sums, int n_row)
{
    memcpy(y, sums, (size_t)n_row * sizeof *y);
}

#define MAX_STRIDE       SIZE_MAX
#define packer_for(type) kern_packer_avx2(type)
#define reader_for(type) kern_reader_avx2(type)
#include "kern/matmul_group_tmpl.h"

void kern_init_matmul_avx2(kern_table *k)
{
    k->quant_q8 = kern_quant_q8_avx2;
    kern_init_matmul_float_avx2(k);
    set_group_slots(k);
}
