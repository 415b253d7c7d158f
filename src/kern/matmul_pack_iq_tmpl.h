/* matmul_pack_iq_tmpl.h - blocks over codebooks, and of digits to base 3, into tiles. Private to
 * kern/.
 *
 * Included by matmul_pack_tmpl.h, whose registers and helpers it uses, and besides of the
 * instruction set:
 *   grid16(table, index)    table[index of each lane], in the low 16 bits; the others are anything
 *   negate_where(v, bits, k)    byte i of each lane negated, modulo 256, where bit 4 k + i of bits
 *                           is set
 *
 * 1. The entries of a codebook hold small indices of their coordinates (iq_tables.h): one load
 *    from a small table, then two shuffles, instead of loads from a table four times as large.
 * 2. Signs turn bytes modulo 256, so values with 128 added stay values with 128 added.
 * 3. The scales here are products of a half and of an odd number below 32, by a power of two: exact
 *    in any order.
 */

/* ---- Codebooks ---------------------------------------------------------------------------- */

/* (v >> from) & mask, at bit `to` of each lane; mask is that of the result. */
static ALWAYS_INLINE vec lane_move(vec v, int from, int to, int mask)
{
    return v_and(from >= to ? v_srl(v, from - to) : v_sll(v, to - from), v_set32(mask));
}

/* The four coordinates of 4 bits in the low half of each lane, one in each byte. */
static ALWAYS_INLINE vec spread4(vec v)
{
    const vec twice = v_lookup(v, v_or(lane_base(), v_set32(0x01010000)));
    return v_or(v_and(twice, v_set32(0x000f000f)), v_and(v_srl(twice, 4), v_set32(0x0f000f00)));
}

/* The sign bytes of four "even" codes, each in the low 7 bits of a byte whose bit 7 is 0. */
static ALWAYS_INLINE vec even_signs(vec code)
{
    static const int8_t odd[16] = {0,    -128, -128, 0,    -128, 0,    0,    -128,
                                   -128, 0,    0,    -128, 0,    -128, -128, 0};
    const vec nibble = v_xor(v_and(code, v_set8(15)), field(code, 4, 7));
    return v_or(code, v_lookup(lookup_table(odd, 0), nibble));
}

/* The sign bytes of four codes in the low 28 bits of each lane. */
static ALWAYS_INLINE vec even_signs28(vec aux)
{
    const vec low = v_or(lane_move(aux, 0, 0, 0x7f), lane_move(aux, 7, 8, 0x7f00));
    const vec high = v_or(lane_move(aux, 14, 16, 0x7f0000), lane_move(aux, 21, 24, 0x7f000000));
    return even_signs(v_or(low, high));
}

/* Eighth l of a group: the 8 coordinates of an entry, with the group's signs. */
static ALWAYS_INLINE void put_iq2(tile *t, int g, int l, vec entry, vec signs, vec table)
{
    UNROLL
    for (int h = 0; h < 2; h++)
        put(t, g, 2 * l + h, negate_where(spread2(entry, h, table), signs, 2 * l + h));
}

/* d * (2 * the 4 bits of sc from `bit` on + 1) */
static ALWAYS_INLINE vecf odd_scale(vecf d, vec sc, int bit)
{
    return v_mul(d, v_float(v_or(lane_move(sc, bit, 1, 30), v_set32(1))));
}

static void pack_iq2_xxs(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const vecf d = v_mul(half_low(gather(w, rows_of(stride))), v_setf(0.125f));
    const vec table = level_table(kern_iq2_level, WIDE_OFFSET);
    w += offsetof(kern_iq2_xxs, g);
    for (int g = 0; g < n_group; g += 2, w += 16) {
        vec v[4]; /* index, aux; index, aux */
        load16(v, w, stride);
        UNROLL
        for (int j = 0; j < 2; j++) {
            const vec signs = even_signs28(v[2 * j + 1]);
            put_scale(t, 0, g + j, odd_scale(d, v[2 * j + 1], 28));
            UNROLL
            for (int l = 0; l < 4; l++) {
                const vec entry = grid16(kern_iq2_xxs_grid, lane_field(v[2 * j], 8 * l, 255));
                put_iq2(t, g + j, l, entry, signs, table);
            }
        }
    }
}

/* The scales of IQ2_XS and IQ2_S, of group g from byte j of sc. */
static ALWAYS_INLINE void put_scales_iq2(tile *t, int g, vecf d, vec sc, int j)
{
    put_scale(t, 0, g, odd_scale(d, sc, 8 * j));
    put_scale(t, 1, g, odd_scale(d, sc, 8 * j + 4));
}

static void pack_iq2_xs(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const vecf d = v_mul(half_low(gather(w, at)), v_setf(0.125f));
    const vec table = level_table(kern_iq2_level, WIDE_OFFSET);
    for (int g = 0; g < n_group; g += 4) {
        const vec sc = gather(w + offsetof(kern_iq2_xs, scales) + g, at);
        vec v[8]; /* two entries each */
        load32(v, w + offsetof(kern_iq2_xs, qs) + 8 * g, stride);
        UNROLL
        for (int j = 0; j < 4; j++) {
            const vec v0 = v[2 * j], v1 = v[2 * j + 1];
            const vec low = v_or(lane_move(v0, 9, 0, 0x7f), lane_move(v0, 25, 8, 0x7f00));
            const vec high =
                v_or(lane_move(v1, 9, 16, 0x7f0000), lane_move(v1, 25, 24, 0x7f000000));
            const vec signs = even_signs(v_or(low, high));
            put_scales_iq2(t, g + j, d, sc, j);
            UNROLL
            for (int l = 0; l < 4; l++) {
                const vec index = lane_field(v[2 * j + l / 2], 16 * (l % 2), 511);
                put_iq2(t, g + j, l, grid16(kern_iq2_xs_grid, index), signs, table);
            }
        }
    }
}

static void pack_iq2_s(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const vecf d = v_mul(half_low(gather(w, at)), v_setf(0.125f));
    const vec table = level_table(kern_iq2_level, WIDE_OFFSET);
    for (int g = 0; g < n_group; g += 4) {
        const vec sc = gather(w + offsetof(kern_iq2_s, scales) + g, at);
        const vec qh = gather(w + offsetof(kern_iq2_s, qh) + g, at);
        vec v[4], signs[4];
        load16(v, w + offsetof(kern_iq2_s, qs) + 4 * g, stride);
        load16(signs, w + offsetof(kern_iq2_s, signs) + 4 * g, stride);
        UNROLL
        for (int j = 0; j < 4; j++) {
            put_scales_iq2(t, g + j, d, sc, j);
            UNROLL
            for (int l = 0; l < 4; l++) {
                const vec high = lane_move(qh, 8 * j + 2 * l, 8, 0x300);
                const vec index = v_or(lane_field(v[j], 8 * l, 255), high);
                put_iq2(t, g + j, l, grid16(kern_iq2_s_grid, index), signs[j], table);
            }
        }
    }
}

static void pack_iq3_xxs(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    static const int8_t level[16] = {4, 12, 20, 28, 36, 44, 52, 62}; /* kern_iq3_level */
    const vecf d = v_mul(half_low(gather(w, rows_of(stride))), v_setf(0.25f));
    const vec table = lookup_table(level, WIDE_OFFSET);
    for (int g = 0; g < n_group; g += 4) {
        vec v[8], aux[4];
        load32(v, w + offsetof(kern_iq3_xxs, qs) + 8 * g, stride);
        load16(aux, w + offsetof(kern_iq3_xxs, aux) + 4 * g, stride);
        UNROLL
        for (int j = 0; j < 4; j++) {
            const vec signs = even_signs28(aux[j]);
            put_scale(t, 0, g + j, odd_scale(d, aux[j], 28));
            UNROLL
            for (int k = 0; k < 8; k++) {
                const vec index = lane_field(v[2 * j + k / 4], 8 * (k % 4), 255);
                const vec level4 = v_lookup(table, spread4(grid16(kern_iq3_xxs_grid, index)));
                put(t, g + j, k, negate_where(level4, signs, k));
            }
        }
    }
}

/* Values are odd, 1 to 15: 16 more is a 1 at bit 4, and of 16 less all bits but the lowest turn. */
static void pack_iq3_s(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const vecf d = half_low(gather(w, at));
    for (int g = 0; g < n_group; g += 4) {
        const vec sc = gather(w + offsetof(kern_iq3_s, scales) - 2 + g / 2, at); /* upper half */
        const vec qh = gather(w + offsetof(kern_iq3_s, qh) + g, at);
        vec v[8], signs[4];
        load32(v, w + offsetof(kern_iq3_s, qs) + 8 * g, stride);
        load16(signs, w + offsetof(kern_iq3_s, signs) + 4 * g, stride);
        UNROLL
        for (int j = 0; j < 4; j++) {
            put_scale(t, 0, g + j, odd_scale(d, sc, 16 + 4 * j));
            UNROLL
            for (int k = 0; k < 8; k++) {
                const vec low = lane_field(v[2 * j + k / 4], 8 * (k % 4), 255);
                const vec index = v_or(low, lane_move(qh, 8 * j + k, 8, 256));
                const vec twice = v_sll(spread4(grid16(kern_iq3_s_grid, index)), 1);
                const vec turned = bits_to(signs[j], k, 0x1e);
                put(t, g + j, k, v_xor(v_or(twice, v_set8(17)), turned));
            }
        }
    }
}

/* ---- Values in eighths -------------------------------------------------------------------- */

/* IQ1_S, IQ1_M: 8 i - 8 -+ 1 for the index i, and 9 more: 8 i, and 2 unless down. */
static ALWAYS_INLINE void put_iq1(tile *t, int g, int l, vec index, vec down, vec table)
{
    const vec entry = grid16(kern_iq1_grid, index);
    const vec up2 = v_and(v_xor(down, v_set8(255)), v_set8(2));
    UNROLL
    for (int h = 0; h < 2; h++)
        put(t, g, 2 * l + h, v_or(spread2(entry, h, table), up2));
}

static ALWAYS_INLINE vec iq1_table(void)
{
    static const int8_t level[4] = {0, 8, 16, 0};
    return level_table(level, 0);
}

/* All bits of each lane are its bit b. */
static ALWAYS_INLINE vec lane_bit(vec v, int b)
{
    return v_sra(v_sll(v, 31 - b), 31);
}

/* d * (2 * the 3 bits of sc from `bit` on + 1) */
static ALWAYS_INLINE vecf odd_scale3(vecf d, vec sc, int bit)
{
    return v_mul(d, v_float(v_or(lane_move(sc, bit, 1, 14), v_set32(1))));
}

static void pack_iq1_s(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const vecf d = v_mul(half_low(gather(w, at)), v_setf(0.125f));
    const vec table = iq1_table();
    for (int g = 0; g < n_group; g += 4) {
        const uint8_t *p = w + offsetof(kern_iq1_s, qh) + 2 * g;
        const vec qh[2] = {gather(p, at), gather(p + 4, at)};
        vec v[4];
        load16(v, w + offsetof(kern_iq1_s, qs) + 4 * g, stride);
        UNROLL
        for (int j = 0; j < 4; j++) {
            const int bit = 16 * (j % 2);
            const vec down = lane_bit(qh[j / 2], bit + 15);
            put_scale(t, 0, g + j, odd_scale3(d, qh[j / 2], bit + 12));
            UNROLL
            for (int l = 0; l < 4; l++) {
                const vec high = lane_move(qh[j / 2], bit + 3 * l, 8, 0x700);
                put_iq1(t, g + j, l, v_or(lane_field(v[j], 8 * l, 255), high), down, table);
            }
        }
    }
}

/* The half whose bits lie in the top nibbles of the four scales. */
static ALWAYS_INLINE vecf iq1_m_d(vec s01, vec s23)
{
    const vec low = v_or(lane_move(s01, 12, 0, 0xf), lane_move(s01, 28, 4, 0xf0));
    const vec high = v_or(lane_move(s23, 12, 8, 0xf00), lane_move(s23, 28, 12, 0xf000));
    return half_low(v_or(low, high));
}

static void pack_iq1_m(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const uint8_t *scales = w + offsetof(kern_iq1_m, scales);
    const vecf d = v_mul(iq1_m_d(gather(scales, at), gather(scales + 4, at)), v_setf(0.125f));
    const vec table = iq1_table();
    for (int g = 0; g < n_group; g += 4) {
        const uint8_t *p = w + offsetof(kern_iq1_m, qh) + 2 * g;
        const vec qh[2] = {gather(p, at), gather(p + 4, at)};
        const vec sc = gather(scales + g, at);
        vec v[4];
        load16(v, w + offsetof(kern_iq1_m, qs) + 4 * g, stride);
        UNROLL
        for (int j = 0; j < 4; j++) {
            put_scale(t, 0, g + j, odd_scale3(d, sc, 16 * (j / 2) + 6 * (j % 2)));
            put_scale(t, 1, g + j, odd_scale3(d, sc, 16 * (j / 2) + 6 * (j % 2) + 3));
            UNROLL
            for (int l = 0; l < 4; l++) {
                const int bit = 16 * (j % 2) + 4 * l;
                const vec high = lane_move(qh[j / 2], bit, 8, 0x700);
                const vec down = lane_bit(qh[j / 2], bit + 3);
                put_iq1(t, g + j, l, v_or(lane_field(v[j], 8 * l, 255), high), down, table);
            }
        }
    }
}

/* ---- Digits to base 3 --------------------------------------------------------------------- */

/* Bytes 0 and 2, and bytes 1 and 3 of each lane, in 16 bits each. */
typedef struct {
    vec even, odd;
} digits;

static ALWAYS_INLINE digits digits_of(vec v)
{
    return (digits){v_and(v, v_set32(0x00ff00ff)), lane_move(v, 8, 0, 0x00ff00ff)};
}

/* The next digit of each byte: what three times it has above 255. The rest stays. */
static ALWAYS_INLINE vec next_digit(digits *b)
{
    const vec even = v_add(b->even, v_sll(b->even, 1));
    const vec odd = v_add(b->odd, v_sll(b->odd, 1));
    b->even = v_and(even, v_set32(0x00ff00ff));
    b->odd = v_and(odd, v_set32(0x00ff00ff));
    return v_or(lane_move(even, 8, 0, 0x00030003), v_and(odd, v_set32(0x03000300)));
}

static void pack_tq1_0(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    const rows at = rows_of(stride);
    const vecf d = half_high(gather(w + offsetof(kern_tq1_0, d) - 2, at));
    for (int g = 0; g < n_group; g++)
        put_scale(t, 0, g, d);
    vec v[8];
    load32(v, w, stride);
    UNROLL
    for (int k = 0; k < 8; k++) {
        digits b = digits_of(v[k]);
        UNROLL
        for (int g = 0; g < 5; g++)
            put(t, g, k, next_digit(&b));
    }
    load16(v, w + 32, stride);
    UNROLL
    for (int k = 0; k < 4; k++) {
        digits b = digits_of(v[k]);
        UNROLL
        for (int half = 10; half < 15; half++)
            put(t, half / 2, 4 * (half % 2) + k, next_digit(&b));
    }
    digits b = digits_of(gather(w + offsetof(kern_tq1_0, qh), at));
    UNROLL
    for (int k = 4; k < 8; k++)
        put(t, 7, k, next_digit(&b));
}
