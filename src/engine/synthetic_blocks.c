/* synthetic_blocks.c - see synthetic_blocks.h. The layouts and rules stand in kern/block.h.
 *
 * Quants are random and all scales of a block the same, so that values are spread evenly over the levels
 * of the type; the factors of the block give them the deviation that is wanted.
 */
#include "engine/synthetic_blocks.h"

#include <string.h>

#include "kern/block.h"
#include "kern/kern.h"

/* Scale and minimum 32 for all groups of Q4_K and Q5_K, of 6 bits each: their upper two bits are 2. */
static void put_scales(uint8_t scales[12])
{
    memset(scales, 0xa0, 8);
    memset(scales + 8, 0, 4);
}

static void make_q4_k(kern_q4_k *b, float deviation)
{
    const float d = deviation / (32 * 4.61f); /* of a level of 0 .. 15, whose deviation is 4.61 */
    b->d = kern_f32_to_f16(d);
    b->dmin = kern_f32_to_f16(7.5f * d);
    put_scales(b->scales);
}

static void make_q5_k(kern_q5_k *b, float deviation)
{
    const float d = deviation / (32 * 9.23f); /* 0 .. 31 */
    b->d = kern_f32_to_f16(d);
    b->dmin = kern_f32_to_f16(15.5f * d);
    put_scales(b->scales);
}

static void make_q6_k(kern_q6_k *b, float deviation)
{
    b->d = kern_f32_to_f16(deviation / (16 * 18.5f)); /* -32 .. 31 */
    memset(b->scales, 16, sizeof b->scales);
}

static void make_iq4_xs(kern_iq4_xs *b, float deviation)
{
    b->d = kern_f32_to_f16(deviation / (16 * 67.1f)); /* of the 16 levels in kern_iq4_value */
    b->scales_h = 0xffff;                             /* 48 - 32 for all groups */
    memset(b->scales_l, 0, sizeof b->scales_l);
}

bool synthetic_has_blocks(dtype type)
{
    return type == DTYPE_Q4_K || type == DTYPE_Q5_K || type == DTYPE_Q6_K || type == DTYPE_IQ4_XS;
}

void synthetic_blocks(dtype type, uint8_t *out, const uint8_t *bits, size_t n, float deviation)
{
    const size_t size = dtype_row_bytes(type, 256);
    memcpy(out, bits, n);
    for (size_t at = 0; at < n; at += size) {
        void *b = out + at;
        if (type == DTYPE_Q4_K)
            make_q4_k(b, deviation);
        else if (type == DTYPE_Q5_K)
            make_q5_k(b, deviation);
        else if (type == DTYPE_Q6_K)
            make_q6_k(b, deviation);
        else
            make_iq4_xs(b, deviation);
    }
}
