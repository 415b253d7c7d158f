/* matmul_pack_tmpl.h - blocks of the file into tiles, for any instruction set. Private to kern/.
 *
 * Included once by a file that defines before, for registers of TILE_ROWS lanes of 32 bits:
 *   vec, vecf             registers of integers and of floats
 *   load16(v, p, stride)  v[j] = bytes 4 j .. 4 j + 3 at p of each row, j < 4
 *   rows, rows_of(stride), gather(p, rows)    the four bytes at p of each row
 *   v_store, v_store_ps   to aligned memory
 *   v_set8, v_set32, v_setf    one value in every byte, in every lane
 *   v_and, v_or, v_xor; v_add, v_sub, v_sll, v_srl, v_sra in lanes; v_float, v_as_float, v_mul
 *   v_table(bytes), v_lookup(table, index)    16 bytes, indexed by each byte
 *   negate(floats)        the sign turned
 *   half_low              the half in the low 16 bits of each lane as float
 *   bits_to(v, k, byte)   byte i of each lane is `byte` where its bit 4 k + i is set, else 0
 *   lane_base()           each byte the number of its lane's first byte, for v_lookup: 0, 4, 8, 12
 *   WIDE_OFFSET           offset of types that need all 8 bits: 128 (unsigned) or 0 (signed)
 *
 * 1. The bytes of the rows are turned so that a lane is a row, and unpacked after that: then the
 *    unpacking needs no shuffles across lanes.
 * 2. A gather never leaves its block: a field at the end of a block is read as the upper half of
 *    the four bytes that end there.
 * The rules of the types stand in block.h; what matmul_pack_iq_tmpl.h needs besides, there.
 */
#include "base/dtype.h"
#include "kern/block.h"
#include "kern/iq_tables.h"

/* ---- Unpacking; shifts are constants after inlining --------------------------------------- */

/* (v >> shift) & mask in each byte. */
static ALWAYS_INLINE vec field(vec v, int shift, int mask)
{
    return v_and(v_srl(v, shift), v_set8(mask));
}

/* The field at `from` moved to bit `to`; mask is that of the result. */
static ALWAYS_INLINE vec move_field(vec v, int from, int to, int mask)
{
    return v_and(from >= to ? v_srl(v, from - to) : v_sll(v, to - from), v_set8(mask));
}

/* (v >> shift) & mask in each lane. */
static ALWAYS_INLINE vec lane_field(vec v, int shift, int mask)
{
    return v_and(v_srl(v, shift), v_set32(mask));
}

static ALWAYS_INLINE void load32(vec v[8], const uint8_t *p, size_t stride)
{
    load16(v, p, stride);
    load16(v + 4, p + 16, stride);
}

static ALWAYS_INLINE vecf half_high(vec v)
{
    return half_low(v_srl(v, 16));
}

static ALWAYS_INLINE void put(tile *t, int g, int k, vec q)
{
    v_store(t->q[g][k], q);
}

static ALWAYS_INLINE void put_scale(tile *t, int half, int g, vecf s)
{
    v_store_ps(t->s[half][g], s);
}

static ALWAYS_INLINE void put_min(tile *t, int half, int g, vecf m)
{
    v_store_ps(t->m[half][g], m);
}

/* 16 bytes of nibbles: the low ones are the first half of the group. */
static ALWAYS_INLINE void put_nibbles(tile *t, int g, const uint8_t *p, size_t stride)
{
    vec v[4];
    load16(v, p, stride);
    UNROLL
    for (int k = 0; k < 4; k++) {
        put(t, g, k, field(v[k], 0, 15));
        put(t, g, k + 4, field(v[k], 4, 15));
    }
}

/* The same with the fifth bits. */
static ALWAYS_INLINE void put_nibbles5(tile *t, int g, const uint8_t *p, size_t stride, vec qh)
{
    vec v[4];
    load16(v, p, stride);
    UNROLL
    for (int k = 0; k < 4; k++) {
        put(t, g, k, v_or(field(v[k], 0, 15), bits_to(qh, k, 16)));
        put(t, g, k + 4, v_or(field(v[k], 4, 15), bits_to(qh, k + 4, 16)));
    }
}

/* A table of 16 values, offset added, in each 16 bytes. */
static ALWAYS_INLINE vec lookup_table(const int8_t value[16], int offset)
{
    uint8_t byte[16];
    for (int i = 0; i < 16; i++)
        byte[i] = (uint8_t)(value[i] + offset);
    return v_table(byte);
}

static ALWAYS_INLINE void put_lookup(tile *t, int g, const uint8_t *p, size_t stride, vec table)
{
    vec v[4];
    load16(v, p, stride);
    UNROLL
    for (int k = 0; k < 4; k++) {
        put(t, g, k, v_lookup(table, field(v[k], 0, 15)));
        put(t, g, k + 4, v_lookup(table, field(v[k], 4, 15)));
    }
}

/* A table for spread2: a field of 2 bits may stand at bit 0 or at bit 2 of the index. */
static ALWAYS_INLINE vec level_table(const int8_t level[4], int offset)
{
    const int8_t value[16] = {level[0], level[1], level[2], level[3], level[1], 0, 0, 0,
                              level[2], 0,        0,        0,        level[3], 0, 0, 0};
    return lookup_table(value, offset);
}

/* The four values of 2 bits in byte b of each lane, through a level_table, one in each byte. */
static ALWAYS_INLINE vec spread2(vec v, int b, vec table)
{
    const vec same = v_lookup(v, v_or(lane_base(), v_set8(b)));
    const vec low = v_and(same, v_set32(0x00000c03));
    return v_lookup(table, v_or(low, v_and(v_srl(same, 4), v_set32(0x0c030000))));
}

/* ---- Blocks of 32 and 64 ------------------------------------------------------------------ */

static void pack_q8_0(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    for (int g = 0; g < n_group; g++, w += sizeof(kern_q8_0)) {
        vec v[8];
        load32(v, w + 2, stride);
        UNROLL
        for (int k = 0; k < 8; k++)
            put(t, g, k, v_xor(v[k], v_set8(WIDE_OFFSET))); /* + 128 or + 0 */
        put_scale(t, 0, g, half_low(gather(w, at)));
    }
}

static void pack_q4_0(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    for (int g = 0; g < n_group; g++, w += sizeof(kern_q4_0)) {
        put_nibbles(t, g, w + 2, stride);
        put_scale(t, 0, g, half_low(gather(w, at)));
    }
}

static void pack_q4_1(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    for (int g = 0; g < n_group; g++, w += sizeof(kern_q4_1)) {
        const vec dm = gather(w, at);
        put_nibbles(t, g, w + 4, stride);
        put_scale(t, 0, g, half_low(dm));
        put_min(t, 0, g, negate(half_high(dm)));
    }
}

static void pack_q5_0(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    for (int g = 0; g < n_group; g++, w += sizeof(kern_q5_0)) {
        put_nibbles5(t, g, w + 6, stride, gather(w + 2, at));
        put_scale(t, 0, g, half_low(gather(w, at)));
    }
}

static void pack_q5_1(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    for (int g = 0; g < n_group; g++, w += sizeof(kern_q5_1)) {
        const vec dm = gather(w, at);
        put_nibbles5(t, g, w + 8, stride, gather(w + 4, at));
        put_scale(t, 0, g, half_low(dm));
        put_min(t, 0, g, negate(half_high(dm)));
    }
}

static void pack_iq4_nl(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const vec table = lookup_table(kern_iq4_value, WIDE_OFFSET);
    for (int g = 0; g < n_group; g++, w += sizeof(kern_iq4_nl)) {
        put_lookup(t, g, w + 2, stride, table);
        put_scale(t, 0, g, half_low(gather(w, at)));
    }
}

/* 2^(e - 128): an exponent field of e - 1, or for e < 2 a subnormal. */
static ALWAYS_INLINE vecf e8m0_half(vec e)
{
    const vec normal = v_sll(v_sub(e, v_set32(1)), 23);
    const vec tiny = v_sll(v_add(e, v_set32(1)), 21);
    const vec is_tiny = v_sra(v_sub(e, v_set32(2)), 31);
    return v_as_float(v_xor(normal, v_and(v_xor(normal, tiny), is_tiny)));
}

static void pack_mxfp4(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const vec table = lookup_table(kern_fp4_value, 12);
    for (int g = 0; g < n_group; g++, w += sizeof(kern_mxfp4)) {
        put_lookup(t, g, w + 1, stride, table);
        put_scale(t, 0, g, e8m0_half(lane_field(gather(w, at), 0, 255)));
    }
}

/* E4M3 / 2 of the byte, its bit 7 ignored: the bits are those of a half that is 2^-8 of the value.
 * 0x7f is 0. */
static ALWAYS_INLINE vecf e4m3_half(vec byte)
{
    const vec not_7f = v_sra(v_sub(v_set32(0), v_xor(byte, v_set32(0x7f))), 31);
    const vec half = v_sll(v_and(byte, v_set32(0x7f)), 7);
    return v_mul(half_low(v_and(half, not_7f)), v_setf(128));
}

static void pack_nvfp4(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const vec table = lookup_table(kern_fp4_value, 12);
    for (int g = 0; g < n_group; g += 2, w += sizeof(kern_nvfp4)) {
        const vec d = gather(w, at);
        vec v[8];
        load32(v, w + offsetof(kern_nvfp4, qs), stride);
        UNROLL
        for (int j = 0; j < 8; j++) { /* 8 bytes: the low nibbles are 8 values, the high ones 8 */
            const int k = j / 2 * 4 + j % 2;
            put(t, g + k / 8, k % 8, v_lookup(table, field(v[j], 0, 15)));
            put(t, g + k / 8, k % 8 + 2, v_lookup(table, field(v[j], 4, 15)));
        }
        UNROLL
        for (int j = 0; j < 4; j++)
            put_scale(t, j % 2, g + j / 2, e4m3_half(lane_field(d, 8 * j, 255)));
    }
}

static void pack_q2_0(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    static const int8_t level[4] = {0, 1, 2, 3};
    const rows at = rows_of(stride);
    const vec table = level_table(level, 0);
    for (int g = 0; g < n_group; g += 2, w += sizeof(kern_q2_0)) {
        vec v[4];
        load16(v, w + 2, stride);
        UNROLL
        for (int j = 0; j < 16; j++)
            put(t, g + j / 8, j % 8, spread2(v[j / 4], j % 4, table));
        const vecf d = half_low(gather(w, at));
        put_scale(t, 0, g, d);
        put_scale(t, 0, g + 1, d);
    }
}

/* ---- Superblocks of 256 ------------------------------------------------------------------- */

/* 64 bytes of 2-bit fields: each 32 bytes hold four groups, the lowest bits the first. */
static ALWAYS_INLINE void put_twos(tile *t, const uint8_t *p, size_t stride)
{
    for (int h = 0; h < 2; h++) {
        vec v[8];
        load32(v, p + 32 * h, stride);
        UNROLL
        for (int a = 0; a < 4; a++) {
            UNROLL
            for (int k = 0; k < 8; k++)
                put(t, 4 * h + a, k, field(v[k], 2 * a, 3));
        }
    }
}

static void pack_q2_k(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const vec dm = gather(w + offsetof(kern_q2_k, d), at);
    const vecf d = half_low(dm);
    const vecf dmin = half_high(dm);
    for (int g = 0; g < n_group; g += 2) {
        const vec sc = gather(w + 2 * g, at);
        UNROLL
        for (int j = 0; j < 4; j++) {
            put_scale(t, j % 2, g + j / 2, v_mul(d, v_float(lane_field(sc, 8 * j, 15))));
            put_min(t, j % 2, g + j / 2, v_mul(dmin, v_float(lane_field(sc, 8 * j + 4, 15))));
        }
    }
    put_twos(t, w + offsetof(kern_q2_k, qs), stride);
}

/* The scale j of Q3_K, from the three words of its field. */
static ALWAYS_INLINE vecf scale_q3_k(const vec sc[3], int j)
{
    const vec low = move_field(sc[j / 4 % 2], 4 * (j / 8), 0, 15);
    const vec high = move_field(sc[2], 2 * (j / 4), 4, 0x30);
    const vec all = v_srl(v_or(low, high), 8 * (j % 4));
    return v_float(v_sub(v_and(all, v_set32(63)), v_set32(32)));
}

static void pack_q3_k(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    (void)n_group; /* 8, as in every superblock */
    const rows at = rows_of(stride);
    const uint8_t *scales = w + offsetof(kern_q3_k, scales);
    const vec sc[3] = {gather(scales, at), gather(scales + 4, at), gather(scales + 8, at)};
    const vecf d = half_high(gather(w + offsetof(kern_q3_k, d) - 2, at));
    UNROLL
    for (int j = 0; j < 16; j++)
        put_scale(t, j % 2, j / 2, v_mul(d, scale_q3_k(sc, j)));

    vec high[8];
    load32(high, w + offsetof(kern_q3_k, hmask), stride);
    UNROLL
    for (int h = 0; h < 2; h++) {
        vec v[8];
        load32(v, w + offsetof(kern_q3_k, qs) + 32 * h, stride);
        UNROLL
        for (int a = 0; a < 4; a++) {
            UNROLL
            for (int k = 0; k < 8; k++) {
                const vec third = move_field(high[k], 4 * h + a, 2, 4);
                put(t, 4 * h + a, k, v_or(field(v[k], 2 * a, 3), third));
            }
        }
    }
}

/* Scales and minima of Q4_K and Q5_K from the first four words of their blocks, which begin alike. */
static ALWAYS_INLINE void put_scales_k(tile *t, vec dm, vec sc, vec mn, vec both)
{
    const vecf d = half_low(dm);
    const vecf dmin = half_high(dm);
    const vec sc_high = v_or(field(both, 0, 15), move_field(sc, 6, 4, 0x30));
    const vec mn_high = v_or(field(both, 4, 15), move_field(mn, 6, 4, 0x30));
    UNROLL
    for (int j = 0; j < 4; j++) {
        put_scale(t, 0, j, v_mul(d, v_float(lane_field(sc, 8 * j, 63))));
        put_scale(t, 0, j + 4, v_mul(d, v_float(lane_field(sc_high, 8 * j, 63))));
        put_min(t, 0, j, v_mul(dmin, v_float(lane_field(mn, 8 * j, 63))));
        put_min(t, 0, j + 4, v_mul(dmin, v_float(lane_field(mn_high, 8 * j, 63))));
    }
}

static ALWAYS_INLINE void pack_scales_k(tile *t, const uint8_t *w, rows at)
{
    const uint8_t *scales = w + offsetof(kern_q4_k, scales);
    put_scales_k(t, gather(w, at), gather(scales, at), gather(scales + 4, at),
                 gather(scales + 8, at));
}

static void pack_q4_k(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    pack_scales_k(t, w, rows_of(stride));
    w += offsetof(kern_q4_k, qs);
    for (int g = 0; g < n_group; g += 2, w += 32) {
        vec v[8];
        load32(v, w, stride);
        UNROLL
        for (int k = 0; k < 8; k++) {
            put(t, g, k, field(v[k], 0, 15));
            put(t, g + 1, k, field(v[k], 4, 15));
        }
    }
}

static void pack_q5_k(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    (void)n_group; /* 8, as in every superblock */
    pack_scales_k(t, w, rows_of(stride));
    vec high[8];
    load32(high, w + offsetof(kern_q5_k, qh), stride);
    UNROLL
    for (int j = 0; j < 4; j++) {
        vec v[8];
        load32(v, w + offsetof(kern_q5_k, qs) + 32 * j, stride);
        UNROLL
        for (int k = 0; k < 8; k++) {
            const vec even = move_field(high[k], 2 * j, 4, 16);
            const vec odd = move_field(high[k], 2 * j + 1, 4, 16);
            put(t, 2 * j, k, v_or(field(v[k], 0, 15), even));
            put(t, 2 * j + 1, k, v_or(field(v[k], 4, 15), odd));
        }
    }
}

/* The four scales in sc, those of groups g and g + 1. */
static ALWAYS_INLINE void put_scales_q6_k(tile *t, int g, vec sc, vecf d)
{
    UNROLL
    for (int j = 0; j < 4; j++) {
        const vec s = v_sra(v_sll(sc, 24 - 8 * j), 24);
        put_scale(t, j % 2, g + j / 2, v_mul(d, v_float(s)));
    }
}

static void pack_q6_k(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const vecf d = half_high(gather(w + offsetof(kern_q6_k, d) - 2, at));
    for (int g = 0; g < n_group; g += 2)
        put_scales_q6_k(t, g, gather(w + offsetof(kern_q6_k, scales) + 2 * g, at), d);
    UNROLL
    for (int h = 0; h < 2; h++) {
        vec low[16], high[8];
        load32(low, w + 64 * h, stride);
        load32(low + 8, w + 64 * h + 32, stride);
        load32(high, w + offsetof(kern_q6_k, qh) + 32 * h, stride);
        UNROLL
        for (int a = 0; a < 4; a++) {
            UNROLL
            for (int k = 0; k < 8; k++) {
                const vec nibble = field(low[8 * (a % 2) + k], 4 * (a / 2), 15);
                put(t, 4 * h + a, k, v_or(nibble, move_field(high[k], 2 * a, 4, 0x30)));
            }
        }
    }
}

static void pack_tq2_0(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const vecf d = half_high(gather(w + offsetof(kern_tq2_0, d) - 2, rows_of(stride)));
    for (int g = 0; g < n_group; g++)
        put_scale(t, 0, g, d);
    put_twos(t, w, stride);
}

static void pack_iq4_xs(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const vec table = lookup_table(kern_iq4_value, WIDE_OFFSET);
    const vec dh = gather(w, at);
    const vec scales_l = gather(w + offsetof(kern_iq4_xs, scales_l), at);
    const vecf d = half_low(dh);
    UNROLL
    for (int g = 0; g < 8; g++) {
        const vec high = v_sll(lane_field(dh, 16 + 2 * g, 3), 4);
        const vec s = v_sub(v_or(lane_field(scales_l, 4 * g, 15), high), v_set32(32));
        put_scale(t, 0, g, v_mul(d, v_float(s)));
    }
    w += offsetof(kern_iq4_xs, qs);
    for (int g = 0; g < n_group; g++)
        put_lookup(t, g, w + 16 * g, stride, table);
}

#include "kern/matmul_pack_iq_tmpl.h"

/* pack is NULL for a type without one of the above. */
static packer packer_of(int type)
{
    static const packer special[] = {
        [DTYPE_Q4_0] = {pack_q4_0, 8, 15},
        [DTYPE_Q4_1] = {pack_q4_1, 0, 15},
        [DTYPE_Q5_0] = {pack_q5_0, 16, 31},
        [DTYPE_Q5_1] = {pack_q5_1, 0, 31},
        [DTYPE_Q8_0] = {pack_q8_0, WIDE_OFFSET, 255},
        [DTYPE_Q2_K] = {pack_q2_k, 0, 3},
        [DTYPE_Q3_K] = {pack_q3_k, 4, 7},
        [DTYPE_Q4_K] = {pack_q4_k, 0, 15},
        [DTYPE_Q5_K] = {pack_q5_k, 0, 31},
        [DTYPE_Q6_K] = {pack_q6_k, 32, 63},
        [DTYPE_IQ4_NL] = {pack_iq4_nl, WIDE_OFFSET, 255},
        [DTYPE_IQ4_XS] = {pack_iq4_xs, WIDE_OFFSET, 255},
        [DTYPE_IQ2_XXS] = {pack_iq2_xxs, WIDE_OFFSET, 255},
        [DTYPE_IQ2_XS] = {pack_iq2_xs, WIDE_OFFSET, 255},
        [DTYPE_IQ2_S] = {pack_iq2_s, WIDE_OFFSET, 255},
        [DTYPE_IQ3_XXS] = {pack_iq3_xxs, WIDE_OFFSET, 255},
        [DTYPE_IQ3_S] = {pack_iq3_s, 16, 31},
        [DTYPE_IQ1_S] = {pack_iq1_s, 9, 31},
        [DTYPE_IQ1_M] = {pack_iq1_m, 9, 31},
        [DTYPE_TQ1_0] = {pack_tq1_0, 1, 3},
        [DTYPE_TQ2_0] = {pack_tq2_0, 1, 3},
        [DTYPE_MXFP4] = {pack_mxfp4, 12, 31},
        [DTYPE_NVFP4] = {pack_nvfp4, 12, 31},
        [DTYPE_Q2_0] = {pack_q2_0, 1, 3},
    };
    if ((size_t)type < ARRAY_LEN(special) && special[type].pack)
        return special[type];
    return (packer){NULL, WIDE_OFFSET, 255};
}
