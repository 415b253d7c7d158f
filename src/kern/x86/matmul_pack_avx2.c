/* matmul_pack_avx2.c - blocks of the file into tiles: AVX2. */
#include <immintrin.h>
#include <string.h>

#include "kern/x86/tile_avx2.h"

typedef __m256i vec;
typedef __m256 vecf;

#define WIDE_OFFSET 0

#define v_load(p)          _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define v_halves(p)        _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p)))
#define v_store(p, v)      _mm256_store_si256((__m256i *)(void *)(p), v)
#define v_store_ps(p, v)   _mm256_store_ps(p, v)
#define v_set8(i)          _mm256_set1_epi8((char)(i))
#define v_set32(i)         _mm256_set1_epi32(i)
#define v_setf(f)          _mm256_set1_ps(f)
#define v_and(a, b)        _mm256_and_si256(a, b)
#define v_or(a, b)         _mm256_or_si256(a, b)
#define v_xor(a, b)        _mm256_xor_si256(a, b)
#define v_add(a, b)        _mm256_add_epi32(a, b)
#define v_sub(a, b)        _mm256_sub_epi32(a, b)
#define v_sll(a, n)        _mm256_slli_epi32(a, n)
#define v_srl(a, n)        _mm256_srli_epi32(a, n)
#define v_sra(a, n)        _mm256_srai_epi32(a, n)
#define v_float(a)         _mm256_cvtepi32_ps(a)
#define v_as_float(a)      _mm256_castsi256_ps(a)
#define v_mul(a, b)        _mm256_mul_ps(a, b)
#define v_table(bytes)     _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(bytes)))
#define v_lookup(table, i) _mm256_shuffle_epi8(table, i)

/* Rows 0 and 4 from p on. */
static ALWAYS_INLINE __m256i load_lanes(const uint8_t *p, size_t stride)
{
    const __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)p));
    return _mm256_inserti128_si256(v, _mm_loadu_si128((const __m128i *)(p + 4 * stride)), 1);
}

static ALWAYS_INLINE void load16(__m256i v[4], const uint8_t *p, size_t stride)
{
    const __m256i r0 = load_lanes(p, stride);
    const __m256i r1 = load_lanes(p + stride, stride);
    const __m256i r2 = load_lanes(p + 2 * stride, stride);
    const __m256i r3 = load_lanes(p + 3 * stride, stride);
    const __m256i lo01 = _mm256_unpacklo_epi32(r0, r1);
    const __m256i hi01 = _mm256_unpackhi_epi32(r0, r1);
    const __m256i lo23 = _mm256_unpacklo_epi32(r2, r3);
    const __m256i hi23 = _mm256_unpackhi_epi32(r2, r3);
    v[0] = _mm256_unpacklo_epi64(lo01, lo23);
    v[1] = _mm256_unpackhi_epi64(lo01, lo23);
    v[2] = _mm256_unpacklo_epi64(hi01, hi23);
    v[3] = _mm256_unpackhi_epi64(hi01, hi23);
}

typedef size_t rows; /* their stride */

static ALWAYS_INLINE rows rows_of(size_t stride)
{
    return stride;
}

static ALWAYS_INLINE int load4(const uint8_t *p)
{
    int v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Eight loads: the instruction for it is slow on the processors that stop at AVX2. */
static ALWAYS_INLINE __m256i gather(const uint8_t *p, rows at)
{
    return _mm256_setr_epi32(load4(p), load4(p + at), load4(p + 2 * at), load4(p + 3 * at),
                             load4(p + 4 * at), load4(p + 5 * at), load4(p + 6 * at),
                             load4(p + 7 * at));
}

static ALWAYS_INLINE __m256 half_low(__m256i v)
{
    v = _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
    return _mm256_cvtph_ps(
        _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}

static ALWAYS_INLINE __m256 negate(__m256 v)
{
    return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f));
}

static ALWAYS_INLINE __m256i lane_base(void)
{
    return _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808,
                             0x0c0c0c0c);
}

/* All bits of the bytes whose bit 4 k + i of their lane is set, i their place in it. */
static ALWAYS_INLINE __m256i bit_mask(__m256i v, int k)
{
    const __m256i same = _mm256_set1_epi32(k / 2 * 0x01010101);
    const __m256i bit = _mm256_set1_epi32(k % 2 ? (int)0x80402010 : 0x08040201);
    const __m256i bytes = _mm256_shuffle_epi8(v, _mm256_or_si256(lane_base(), same));
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
}

static ALWAYS_INLINE __m256i bits_to(__m256i v, int k, int byte)
{
    return _mm256_and_si256(bit_mask(v, k), _mm256_set1_epi8((char)byte));
}

static ALWAYS_INLINE __m256i negate_where(__m256i v, __m256i bits, int k)
{
    const __m256i mask = bit_mask(bits, k);
    return _mm256_sub_epi8(_mm256_xor_si256(v, mask), mask);
}

/* Eight loads, as in gather. */
static ALWAYS_INLINE __m256i grid16(const uint16_t *table, __m256i index)
{
    _Alignas(32) uint32_t i[8];
    _mm256_store_si256((__m256i *)(void *)i, index);
    return _mm256_setr_epi32(table[i[0]], table[i[1]], table[i[2]], table[i[3]], table[i[4]],
                             table[i[5]], table[i[6]], table[i[7]]);
}

#include "kern/matmul_pack_tmpl.h"
#include "kern/matmul_tiles_tmpl.h"

packer kern_packer_avx2(int type)
{
    return packer_of(type);
}

packer kern_reader_avx2(int type)
{
    return reader_of(type);
}
