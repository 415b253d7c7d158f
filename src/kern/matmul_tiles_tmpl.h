/* matmul_tiles_tmpl.h - tiles of memory (tiles.h) into tiles that the products take. Private to kern/.
 *
 * Included by a file behind matmul_pack_tmpl.h, whose rules of the types it shares, which defines too:
 *   v_load(p)      a register from unaligned memory
 *   v_halves(p)    as many halves as it has lanes, as floats
 * The fields and their order are those of tiles.c. */
#include "kern/tiles.h"

/* Word i of every row. */
static ALWAYS_INLINE vec word(const uint8_t *w, int i)
{
    return v_load(w + (size_t)i * sizeof(vec));
}

/* Half i of those that begin behind n_word words. */
static ALWAYS_INLINE vecf half_behind(const uint8_t *w, int n_word, int i)
{
    return v_halves(w + (size_t)(2 * n_word + i) * (sizeof(vec) / 2));
}

static void read_q8_0(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    (void)stride;
    for (int g = 0; g < n_group; g++) {
        UNROLL
        for (int k = 0; k < 8; k++)
            put(t, g, k, v_xor(word(w, 8 * g + k), v_set8(WIDE_OFFSET)));
        put_scale(t, 0, g, half_behind(w, 64, g));
    }
}

static void read_q4_0(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    (void)stride;
    for (int g = 0; g < n_group; g++) {
        UNROLL
        for (int k = 0; k < 4; k++) {
            const vec v = word(w, 4 * g + k);
            put(t, g, k, field(v, 0, 15));
            put(t, g, k + 4, field(v, 4, 15));
        }
        put_scale(t, 0, g, half_behind(w, 32, g));
    }
}

static void read_iq4_nl(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    (void)stride;
    const vec table = lookup_table(kern_iq4_value, WIDE_OFFSET);
    for (int g = 0; g < n_group; g++) {
        UNROLL
        for (int k = 0; k < 4; k++) {
            const vec v = word(w, 4 * g + k);
            put(t, g, k, v_lookup(table, field(v, 0, 15)));
            put(t, g, k + 4, v_lookup(table, field(v, 4, 15)));
        }
        put_scale(t, 0, g, half_behind(w, 32, g));
    }
}

static void read_q5_0(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    (void)stride;
    for (int g = 0; g < n_group; g++) {
        const vec qh = word(w, 32 + g);
        UNROLL
        for (int k = 0; k < 4; k++) {
            const vec v = word(w, 4 * g + k);
            put(t, g, k, v_or(field(v, 0, 15), bits_to(qh, k, 16)));
            put(t, g, k + 4, v_or(field(v, 4, 15), bits_to(qh, k + 4, 16)));
        }
        put_scale(t, 0, g, half_behind(w, 40, g));
    }
}

static void read_q4_k(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    (void)stride;
    put_scales_k(t, word(w, 32), word(w, 33), word(w, 34), word(w, 35));
    for (int g = 0; g < n_group; g += 2) {
        UNROLL
        for (int k = 0; k < 8; k++) {
            const vec v = word(w, 4 * g + k);
            put(t, g, k, field(v, 0, 15));
            put(t, g + 1, k, field(v, 4, 15));
        }
    }
}

/* Behind the head the words are qh, then qs, as in the block. */
static void read_q5_k(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    (void)stride;
    (void)n_group; /* 8, as in every superblock */
    put_scales_k(t, word(w, 40), word(w, 41), word(w, 42), word(w, 43));
    UNROLL
    for (int j = 0; j < 4; j++) {
        UNROLL
        for (int k = 0; k < 8; k++) {
            const vec v = word(w, 8 + 8 * j + k), high = word(w, k);
            put(t, 2 * j, k, v_or(field(v, 0, 15), move_field(high, 2 * j, 4, 16)));
            put(t, 2 * j + 1, k, v_or(field(v, 4, 15), move_field(high, 2 * j + 1, 4, 16)));
        }
    }
}

static void read_q6_k(tile *t, const uint8_t *w, size_t stride, int n_group)
{
    (void)stride;
    const vecf d = half_behind(w, 52, 0);
    for (int g = 0; g < n_group; g += 2)
        put_scales_q6_k(t, g, word(w, 48 + g / 2), d);
    UNROLL
    for (int h = 0; h < 2; h++) {
        UNROLL
        for (int a = 0; a < 4; a++) {
            UNROLL
            for (int k = 0; k < 8; k++) {
                const vec low = word(w, 16 * h + 8 * (a % 2) + k), high = word(w, 32 + 8 * h + k);
                const vec nibble = field(low, 4 * (a / 2), 15);
                put(t, 4 * h + a, k, v_or(nibble, move_field(high, 2 * a, 4, 0x30)));
            }
        }
    }
}

/* The type's packer, for its tiles; pack is NULL for a type without tiles. */
static packer reader_of(int type)
{
    static pack_fn *const read[] = {
        [DTYPE_Q8_0] = read_q8_0, [DTYPE_Q4_0] = read_q4_0, [DTYPE_IQ4_NL] = read_iq4_nl,
        [DTYPE_Q5_0] = read_q5_0, [DTYPE_Q4_K] = read_q4_k, [DTYPE_Q5_K] = read_q5_k,
        [DTYPE_Q6_K] = read_q6_k,
    };
    packer p = packer_of(type);
    p.pack = (size_t)type < ARRAY_LEN(read) ? read[type] : NULL;
    return p;
}
