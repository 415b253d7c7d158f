/* matmul_pack_avx512.c - blocks of the file into tiles: AVX-512. */
#include <immintrin.h>

#include "kern/x86/tile_avx512.h"

typedef __m512i vec;
typedef __m512 vecf;

#define WIDE_OFFSET 128

#define v_load(p)          _mm512_loadu_si512(p)
#define v_halves(p)        _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(p)))
#define v_store(p, v)      _mm512_store_si512(p, v)
#define v_store_ps(p, v)   _mm512_store_ps(p, v)
#define v_set8(i)          _mm512_set1_epi8((char)(i))
#define v_set32(i)         _mm512_set1_epi32(i)
#define v_setf(f)          _mm512_set1_ps(f)
#define v_and(a, b)        _mm512_and_si512(a, b)
#define v_or(a, b)         _mm512_or_si512(a, b)
#define v_xor(a, b)        _mm512_xor_si512(a, b)
#define v_add(a, b)        _mm512_add_epi32(a, b)
#define v_sub(a, b)        _mm512_sub_epi32(a, b)
#define v_sll(a, n)        _mm512_slli_epi32(a, (unsigned)(n))
#define v_srl(a, n)        _mm512_srli_epi32(a, (unsigned)(n))
#define v_sra(a, n)        _mm512_srai_epi32(a, (unsigned)(n))
#define v_float(a)         _mm512_cvtepi32_ps(a)
#define v_as_float(a)      _mm512_castsi512_ps(a)
#define v_mul(a, b)        _mm512_mul_ps(a, b)
#define v_table(bytes)     _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(bytes)))
#define v_lookup(table, i) _mm512_shuffle_epi8(table, i)

static ALWAYS_INLINE __m512i load_lanes(const uint8_t *p, size_t stride)
{
    const size_t step = 4 * stride;
    __m512i z = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)p));
    z = _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)(p + step)), 1);
    z = _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)(p + 2 * step)), 2);
    return _mm512_inserti32x4(z, _mm_loadu_si128((const __m128i *)(p + 3 * step)), 3);
}

/* v[j] = bytes 4 j .. 4 j + 3 at p of each of 16 rows. */
static ALWAYS_INLINE void load16(__m512i v[4], const uint8_t *p, size_t stride)
{
    const __m512i r0 = load_lanes(p, stride); /* rows 0, 4, 8, 12 */
    const __m512i r1 = load_lanes(p + stride, stride);
    const __m512i r2 = load_lanes(p + 2 * stride, stride);
    const __m512i r3 = load_lanes(p + 3 * stride, stride);
    const __m512i lo01 = _mm512_unpacklo_epi32(r0, r1);
    const __m512i hi01 = _mm512_unpackhi_epi32(r0, r1);
    const __m512i lo23 = _mm512_unpacklo_epi32(r2, r3);
    const __m512i hi23 = _mm512_unpackhi_epi32(r2, r3);
    v[0] = _mm512_unpacklo_epi64(lo01, lo23);
    v[1] = _mm512_unpackhi_epi64(lo01, lo23);
    v[2] = _mm512_unpacklo_epi64(hi01, hi23);
    v[3] = _mm512_unpackhi_epi64(hi01, hi23);
}

typedef __m512i rows; /* their offsets */

static ALWAYS_INLINE rows rows_of(size_t stride)
{
    const __m512i i = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_mullo_epi32(i, _mm512_set1_epi32((int)stride));
}

static ALWAYS_INLINE __m512i gather(const uint8_t *p, rows at)
{
    return _mm512_i32gather_epi32(at, p, 1);
}

static ALWAYS_INLINE __m512 half_low(__m512i v)
{
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
}

static ALWAYS_INLINE __m512 negate(__m512 v)
{
    return _mm512_xor_ps(v, _mm512_set1_ps(-0.0f));
}

static ALWAYS_INLINE __m512i lane_base(void)
{
    return _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
}

/* Bytes whose bit 4 k + i of their lane is set, i their place in it. */
static ALWAYS_INLINE __mmask64 bit_mask(__m512i v, int k)
{
    const __m512i same = _mm512_set1_epi32(k / 2 * 0x01010101);
    const __m512i bytes = _mm512_shuffle_epi8(v, _mm512_or_si512(lane_base(), same));
    const __m512i bit = _mm512_set1_epi32(k % 2 ? (int)0x80402010 : 0x08040201);
    return _mm512_test_epi8_mask(bytes, bit);
}

static ALWAYS_INLINE __m512i bits_to(__m512i v, int k, int byte)
{
    return _mm512_maskz_mov_epi8(bit_mask(v, k), _mm512_set1_epi8((char)byte));
}

static ALWAYS_INLINE __m512i negate_where(__m512i v, __m512i bits, int k)
{
    return _mm512_mask_sub_epi8(v, bit_mask(bits, k), _mm512_setzero_si512(), v);
}

/* Reads 32 bits for each 16: the spare entry is for that. */
static ALWAYS_INLINE __m512i grid16(const uint16_t *table, __m512i index)
{
    return _mm512_i32gather_epi32(index, table, 2);
}

#include "kern/matmul_pack_tmpl.h"
#include "kern/matmul_tiles_tmpl.h"

packer kern_packer_avx512(int type)
{
    return packer_of(type);
}

packer kern_reader_avx512(int type)
{
    return reader_of(type);
}
