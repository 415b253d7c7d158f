/* matmul_group_avx512.c - products of quantised weights and activations: AVX-512 with VNNI.
 *
 * The weights of a tile are unsigned, as vpdpbusd wants them: integer weight + offset. The sum of
 * the group's activations times -offset is where the integer sum starts; all of that is exact.
 *
 * Loops over tokens are bounded by a constant besides n_tok: clang unrolls a template's loops
 * before it knows the arguments, and would leave the registers in memory.
 */
#include <immintrin.h>
#include <string.h>

#include "kern/group.h"
#include "kern/slots.h"
#include "kern/x86/tile_avx512.h"

static ALWAYS_INLINE __m512i broadcast4(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return _mm512_set1_epi32(v);
}

static ALWAYS_INLINE __m512 broadcast_ps(const uint8_t *p)
{
    return _mm512_castsi512_ps(broadcast4(p));
}

/* The minima of one group for n_tok tokens. n_tok and two are constants after inlining. */
TEMPLATE void add_minima(__m512 *acc, const tile *t, int g, const tile_x *x, int n_tok, bool two)
{
    const __m512i ones = _mm512_set1_epi16(1);
    const size_t d = x->d + 4 * (size_t)g;
    const size_t s = x->s + 4 * (size_t)g;
    const __m512 m0 = _mm512_load_ps(t->m[0][g]);
    const __m512 m1 = two ? _mm512_load_ps(t->m[1][g]) : m0;
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++) {
        const __m512 dx = broadcast_ps(x->row[j] + d);
        const __m512i sum = broadcast4(x->row[j] + s);
        if (two) {
            const __m512i xs0 = _mm512_srai_epi32(_mm512_slli_epi32(sum, 16), 16);
            const __m512i xs1 = _mm512_srai_epi32(sum, 16);
            const __m512 half0 = _mm512_mul_ps(m0, _mm512_cvtepi32_ps(xs0));
            const __m512 both = _mm512_fmadd_ps(m1, _mm512_cvtepi32_ps(xs1), half0);
            acc[j] = _mm512_fnmadd_ps(dx, both, acc[j]);
        } else {
            const __m512 xs = _mm512_cvtepi32_ps(_mm512_madd_epi16(sum, ones));
            acc[j] = _mm512_fnmadd_ps(_mm512_mul_ps(m0, dx), xs, acc[j]);
        }
    }
}

/* One group for n_tok tokens. n_tok, two and min are constants after inlining. */
TEMPLATE void add_group(__m512 *acc, const tile *t, int g, const tile_x *x, __m512i minus_offset,
                        int n_tok, bool two, bool min)
{
    /* The sums of both halves, in one register of pairs: (low, high). */
    const __m512i low = _mm512_set1_epi32(0xffff);
    const size_t q = x->q + 32 * (size_t)g;
    const size_t d = x->d + 4 * (size_t)g;
    const size_t s = x->s + 4 * (size_t)g;
    __m512i i0[TILE_TOK], i1[TILE_TOK];

    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++) {
        i0[j] = i1[j] = _mm512_setzero_si512();
        if (min)
            continue; /* the offset is 0 */
        const __m512i sum = broadcast4(x->row[j] + s);
        if (two) {
            i0[j] = _mm512_madd_epi16(sum, _mm512_and_si512(minus_offset, low));
            i1[j] = _mm512_madd_epi16(sum, _mm512_andnot_si512(low, minus_offset));
        } else {
            i0[j] = _mm512_madd_epi16(sum, minus_offset);
        }
    }
    UNROLL
    for (int k = 0; k < 8; k++) {
        const __m512i w = _mm512_load_si512(t->q[g][k]);
        __m512i *sum = two && k >= 4 ? i1 : i0;
        UNROLL
        for (int j = 0; j < TILE_TOK && j < n_tok; j++)
            sum[j] = _mm512_dpbusd_epi32(sum[j], w, broadcast4(x->row[j] + q + 4 * k));
    }
    const __m512 s0 = _mm512_load_ps(t->s[0][g]);
    const __m512 s1 = two ? _mm512_load_ps(t->s[1][g]) : s0;
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++) {
        const __m512 dx = broadcast_ps(x->row[j] + d);
        if (two) {
            const __m512 half0 = _mm512_mul_ps(s0, _mm512_cvtepi32_ps(i0[j]));
            const __m512 both = _mm512_fmadd_ps(s1, _mm512_cvtepi32_ps(i1[j]), half0);
            acc[j] = _mm512_fmadd_ps(dx, both, acc[j]);
        } else {
            acc[j] = _mm512_fmadd_ps(_mm512_mul_ps(s0, dx), _mm512_cvtepi32_ps(i0[j]), acc[j]);
        }
    }
}

TEMPLATE void add_tile(float (*sums)[TILE_ROWS], const tile *t, const tile_x *x, int n_group,
                       int offset, int n_tok, bool two, bool min)
{
    const __m512i minus_offset = _mm512_set1_epi16((short)-offset);
    __m512 acc[TILE_TOK];
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++)
        acc[j] = _mm512_load_ps(sums[j]);
    for (int g = 0; g < n_group; g++) {
        add_group(acc, t, g, x, minus_offset, n_tok, two, min);
        if (min)
            add_minima(acc, t, g, x, n_tok, two);
    }
    UNROLL
    for (int j = 0; j < TILE_TOK && j < n_tok; j++)
        _mm512_store_ps(sums[j], acc[j]);
}

#define ADD_TILE(name, n_tok, two, min)                                                    \
    static void name(float(*sums)[TILE_ROWS], const tile *t, const tile_x *x, int n_group, \
                     int offset)                                                           \
    {                                                                                      \
        add_tile(sums, t, x, n_group, offset, n_tok, two, min);                            \
    }
#define ADD_TILES(n_tok)                              \
    ADD_TILE(add_one_##n_tok, n_tok, false, false)    \
    ADD_TILE(add_one_min_##n_tok, n_tok, false, true) \
    ADD_TILE(add_two_##n_tok, n_tok, true, false)     \
    ADD_TILE(add_two_min_##n_tok, n_tok, true, true)
ADD_TILES(1)
ADD_TILES(2)
ADD_TILES(4)
ADD_TILES(8)

#define MAX_LOG2 3
#define FUNCTIONS(name)                        \
    {                                          \
        name##_1, name##_2, name##_4, name##_8 \
    }

static add_tile_fn *const *add_tiles(const packer *p, const kern_group_traits *kind)
{
    static add_tile_fn *const table[2][2][MAX_LOG2 + 1] = {
        {FUNCTIONS(add_one), FUNCTIONS(add_one_min)},
        {FUNCTIONS(add_two), FUNCTIONS(add_two_min)},
    };
    (void)p;
    return table[kind->two_scales][kind->has_min];
}

static void store_sums(float *y, const float *sums, int n_row)
{
    _mm512_mask_storeu_ps(y, (__mmask16)((1u << n_row) - 1), _mm512_load_ps(sums));
}

#define MAX_STRIDE       (INT32_MAX / TILE_ROWS) /* offsets of a gather have 32 bits */
#define packer_for(type) kern_packer_avx512(type)
#define reader_for(type) kern_reader_avx512(type)
#include "kern/matmul_group_tmpl.h"

void kern_init_matmul_avx512(kern_table *k)
{
    k->quant_q8 = kern_quant_q8_avx512;
    kern_init_matmul_float_avx512(k);
    set_group_slots(k);
}
