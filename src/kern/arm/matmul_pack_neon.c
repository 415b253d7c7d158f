/* matmul_pack_neon.c - blocks of the file into tiles: NEON. */
#include <arm_neon.h>
#include <string.h>

#include "kern/arm/tile_neon.h"

typedef uint32x4_t vec;
typedef float32x4_t vecf;

#define WIDE_OFFSET 0

/* Shifts are operators: the intrinsics with a constant refuse 0, which the template has. */
#define v_load(p)          vreinterpretq_u32_u8(vld1q_u8(p))
#define v_halves(p)        vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)))
#define v_store(p, v)      vst1q_u8((uint8_t *)(p), vreinterpretq_u8_u32(v))
#define v_store_ps(p, v)   vst1q_f32(p, v)
#define v_set8(i)          vreinterpretq_u32_u8(vdupq_n_u8((uint8_t)(i)))
#define v_set32(i)         vdupq_n_u32((uint32_t)(i))
#define v_setf(f)          vdupq_n_f32(f)
#define v_and(a, b)        vandq_u32(a, b)
#define v_or(a, b)         vorrq_u32(a, b)
#define v_xor(a, b)        veorq_u32(a, b)
#define v_add(a, b)        vaddq_u32(a, b)
#define v_sub(a, b)        vsubq_u32(a, b)
#define v_sll(a, n)        ((a) << (uint32_t)(n))
#define v_srl(a, n)        ((a) >> (uint32_t)(n))
#define v_sra(a, n)        vreinterpretq_u32_s32(vreinterpretq_s32_u32(a) >> (n))
#define v_float(a)         vcvtq_f32_s32(vreinterpretq_s32_u32(a))
#define v_as_float(a)      vreinterpretq_f32_u32(a)
#define v_mul(a, b)        vmulq_f32(a, b)
#define v_table(bytes)     vreinterpretq_u32_u8(vld1q_u8(bytes))
#define v_lookup(table, i) lookup(table, i)

static ALWAYS_INLINE uint32x4_t lookup(uint32x4_t table, uint32x4_t i)
{
    return vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(table), vreinterpretq_u8_u32(i)));
}

static ALWAYS_INLINE uint32x4_t load_row(const uint8_t *p)
{
    return vreinterpretq_u32_u8(vld1q_u8(p));
}

static ALWAYS_INLINE uint32x4_t zip_low64(uint32x4_t a, uint32x4_t b)
{
    return vcombine_u32(vget_low_u32(a), vget_low_u32(b));
}

static ALWAYS_INLINE uint32x4_t zip_high64(uint32x4_t a, uint32x4_t b)
{
    return vcombine_u32(vget_high_u32(a), vget_high_u32(b));
}

static ALWAYS_INLINE void load16(uint32x4_t v[4], const uint8_t *p, size_t stride)
{
    const uint32x4_t r0 = load_row(p);
    const uint32x4_t r1 = load_row(p + stride);
    const uint32x4_t r2 = load_row(p + 2 * stride);
    const uint32x4_t r3 = load_row(p + 3 * stride);
    const uint32x4_t lo01 = vzip1q_u32(r0, r1);
    const uint32x4_t hi01 = vzip2q_u32(r0, r1);
    const uint32x4_t lo23 = vzip1q_u32(r2, r3);
    const uint32x4_t hi23 = vzip2q_u32(r2, r3);
    v[0] = zip_low64(lo01, lo23);
    v[1] = zip_high64(lo01, lo23);
    v[2] = zip_low64(hi01, hi23);
    v[3] = zip_high64(hi01, hi23);
}

typedef size_t rows; /* their stride */

static ALWAYS_INLINE rows rows_of(size_t stride)
{
    return stride;
}

static ALWAYS_INLINE uint32_t load4(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static ALWAYS_INLINE uint32x4_t gather(const uint8_t *p, rows at)
{
    const uint32x4_t v = {load4(p), load4(p + at), load4(p + 2 * at), load4(p + 3 * at)};
    return v;
}

static ALWAYS_INLINE float32x4_t half_low(uint32x4_t v)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(v)));
}

static ALWAYS_INLINE float32x4_t negate(float32x4_t v)
{
    return vnegq_f32(v);
}

static ALWAYS_INLINE uint32x4_t lane_base(void)
{
    const uint32x4_t base = {0, 0x04040404, 0x08080808, 0x0c0c0c0c};
    return base;
}

/* All bits of the bytes whose bit 4 k + i of their lane is set, i their place in it. */
static ALWAYS_INLINE uint8x16_t bit_mask(uint32x4_t v, int k)
{
    const uint32x4_t at = vorrq_u32(lane_base(), vdupq_n_u32((uint32_t)k / 2 * 0x01010101));
    const uint32x4_t bit = vdupq_n_u32(k % 2 ? 0x80402010 : 0x08040201);
    return vtstq_u8(vreinterpretq_u8_u32(lookup(v, at)), vreinterpretq_u8_u32(bit));
}

static ALWAYS_INLINE uint32x4_t bits_to(uint32x4_t v, int k, int byte)
{
    return vreinterpretq_u32_u8(vandq_u8(bit_mask(v, k), vdupq_n_u8((uint8_t)byte)));
}

static ALWAYS_INLINE uint32x4_t negate_where(uint32x4_t v, uint32x4_t bits, int k)
{
    const uint8x16_t mask = bit_mask(bits, k);
    return vreinterpretq_u32_u8(vsubq_u8(veorq_u8(vreinterpretq_u8_u32(v), mask), mask));
}

static ALWAYS_INLINE uint32x4_t grid16(const uint16_t *table, uint32x4_t index)
{
    const uint32x4_t v = {table[vgetq_lane_u32(index, 0)], table[vgetq_lane_u32(index, 1)],
                          table[vgetq_lane_u32(index, 2)], table[vgetq_lane_u32(index, 3)]};
    return v;
}

#include "kern/matmul_pack_tmpl.h"
#include "kern/matmul_tiles_tmpl.h"

packer kern_packer_neon(int type)
{
    return packer_of(type);
}

packer kern_reader_neon(int type)
{
    return reader_of(type);
}
