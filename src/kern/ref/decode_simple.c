/* decode_simple.c - blocks of 32 or 64 values with one scale: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_0,
 * IQ4_NL, MXFP4 and NVFP4. The rules stand in block.h. */
#include <math.h>
#include <string.h>

#include "kern/block.h"
#include "kern/iq_tables.h"
#include "kern/kern.h"
#include "kern/ref/decode.h"

/* 16 bytes hold 32 nibbles: the low ones are values 0..15, the high ones 16..31. */
static void nibbles(int8_t q[32], const uint8_t *qs, int offset)
{
    for (int j = 0; j < 16; j++) {
        q[j] = (int8_t)((qs[j] & 15) + offset);
        q[j + 16] = (int8_t)((qs[j] >> 4) + offset);
    }
}

/* As above with a fifth bit per value. */
static void nibbles_and_bit(int8_t q[32], const uint8_t *qs, uint32_t qh, int offset)
{
    nibbles(q, qs, offset);
    for (int j = 0; j < 32; j++)
        q[j] = (int8_t)(q[j] + (int)(qh >> j & 1) * 16);
}

static void nibbles_by_table(int8_t q[32], const uint8_t *qs, const int8_t table[16])
{
    for (int j = 0; j < 16; j++) {
        q[j] = table[qs[j] & 15];
        q[j + 16] = table[qs[j] >> 4];
    }
}

void kern_group_q4_0(const void *block, int i, kern_group *g)
{
    (void)i;
    const kern_q4_0 *b = block;
    kern_group_both(g->s, kern_f16_to_f32(b->d));
    nibbles(g->q, b->qs, -8);
}

void kern_group_q4_1(const void *block, int i, kern_group *g)
{
    (void)i;
    const kern_q4_1 *b = block;
    kern_group_both(g->s, kern_f16_to_f32(b->d));
    kern_group_both(g->m, -kern_f16_to_f32(b->m));
    nibbles(g->q, b->qs, 0);
}

void kern_group_q5_0(const void *block, int i, kern_group *g)
{
    (void)i;
    const kern_q5_0 *b = block;
    kern_group_both(g->s, kern_f16_to_f32(b->d));
    nibbles_and_bit(g->q, b->qs, b->qh, -16);
}

void kern_group_q5_1(const void *block, int i, kern_group *g)
{
    (void)i;
    const kern_q5_1 *b = block;
    kern_group_both(g->s, kern_f16_to_f32(b->d));
    kern_group_both(g->m, -kern_f16_to_f32(b->m));
    nibbles_and_bit(g->q, b->qs, b->qh, 0);
}

void kern_group_q8_0(const void *block, int i, kern_group *g)
{
    (void)i;
    const kern_q8_0 *b = block;
    kern_group_both(g->s, kern_f16_to_f32(b->d));
    memcpy(g->q, b->qs, 32);
}

void kern_group_q2_0(const void *block, int i, kern_group *g)
{
    const kern_q2_0 *b = block;
    const uint8_t *qs = b->qs + 8 * i;
    kern_group_both(g->s, kern_f16_to_f32(b->d));
    for (int j = 0; j < 32; j++)
        g->q[j] = (int8_t)((qs[j / 4] >> 2 * (j % 4) & 3) - 1);
}

void kern_group_iq4_nl(const void *block, int i, kern_group *g)
{
    (void)i;
    const kern_iq4_nl *b = block;
    kern_group_both(g->s, kern_f16_to_f32(b->d));
    nibbles_by_table(g->q, b->qs, kern_iq4_value);
}

void kern_group_mxfp4(const void *block, int i, kern_group *g)
{
    (void)i;
    const kern_mxfp4 *b = block;
    kern_group_both(g->s, ldexpf(1.0f, b->e - 128));
    nibbles_by_table(g->q, b->qs, kern_fp4_value);
}

/* Half of an unsigned E4M3 (bias 7): the halving pairs with the doubled E2M1 values. */
static float half_of_e4m3(uint8_t code)
{
    int exponent = code >> 3 & 15;
    int fraction = code & 7;
    if (code == 0x7f)
        return 0;
    if (exponent == 0)
        return ldexpf((float)fraction, -10);
    return ldexpf((float)(8 + fraction), exponent - 11);
}

void kern_group_nvfp4(const void *block, int i, kern_group *g)
{
    const kern_nvfp4 *b = block;
    for (int h = 0; h < 2; h++) {
        const uint8_t *qs = b->qs + 16 * i + 8 * h;
        int8_t *q = g->q + 16 * h;
        g->s[h] = half_of_e4m3(b->d[2 * i + h]);
        for (int j = 0; j < 8; j++) {
            q[j] = kern_fp4_value[qs[j] & 15];
            q[j + 8] = kern_fp4_value[qs[j] >> 4];
        }
    }
}
