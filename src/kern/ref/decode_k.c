/* decode_k.c - superblocks of 256 values without a codebook: the K types, the ternary types and
 * IQ4_XS. The rules stand in block.h. */
#include "kern/block.h"
#include "kern/iq_tables.h"
#include "kern/kern.h"
#include "kern/ref/decode.h"

/* The layout that Q2_K, Q3_K and TQ2_0 share: 32 bytes hold two bits of four groups each. */
static void two_bits(int8_t q[32], const uint8_t qs[64], int i, int offset)
{
    const uint8_t *p = qs + 32 * (i / 4);
    for (int j = 0; j < 32; j++)
        q[j] = (int8_t)((p[j] >> 2 * (i % 4) & 3) + offset);
}

void kern_group_q2_k(const void *block, int i, kern_group *g)
{
    const kern_q2_k *b = block;
    float d = kern_f16_to_f32(b->d);
    float dmin = kern_f16_to_f32(b->dmin);
    for (int h = 0; h < 2; h++) {
        uint8_t sc = b->scales[2 * i + h];
        g->s[h] = d * (float)(sc & 15);
        g->m[h] = dmin * (float)(sc >> 4);
    }
    two_bits(g->q, b->qs, i, 0);
}

/* Scale j of 16, -32..31. */
static int q3_k_scale(const uint8_t sc[12], int j)
{
    int low = sc[j % 8] >> 4 * (j / 8) & 15;
    int high = sc[8 + j % 4] >> 2 * (j / 4) & 3;
    return (low | high << 4) - 32;
}

void kern_group_q3_k(const void *block, int i, kern_group *g)
{
    const kern_q3_k *b = block;
    float d = kern_f16_to_f32(b->d);
    for (int h = 0; h < 2; h++)
        g->s[h] = d * (float)q3_k_scale(b->scales, 2 * i + h);
    two_bits(g->q, b->qs, i, -4);
    for (int j = 0; j < 32; j++)
        g->q[j] = (int8_t)(g->q[j] + (b->hmask[j] >> i & 1) * 4);
}

/* Scale and minimum of group i of Q4_K and Q5_K. */
static void k4_scales(kern_group *g, const uint8_t sc[12], int i, uint16_t d, uint16_t dmin)
{
    int scale, min;
    if (i < 4) {
        scale = sc[i] & 63;
        min = sc[i + 4] & 63;
    } else {
        scale = (sc[i + 4] & 15) | sc[i - 4] >> 6 << 4;
        min = sc[i + 4] >> 4 | sc[i] >> 6 << 4;
    }
    kern_group_both(g->s, kern_f16_to_f32(d) * (float)scale);
    kern_group_both(g->m, kern_f16_to_f32(dmin) * (float)min);
}

/* 32 bytes hold four bits of two groups each. */
static void four_bits(int8_t q[32], const uint8_t qs[128], int i)
{
    const uint8_t *p = qs + 32 * (i / 2);
    for (int j = 0; j < 32; j++)
        q[j] = (int8_t)(p[j] >> 4 * (i % 2) & 15);
}

void kern_group_q4_k(const void *block, int i, kern_group *g)
{
    const kern_q4_k *b = block;
    k4_scales(g, b->scales, i, b->d, b->dmin);
    four_bits(g->q, b->qs, i);
}

void kern_group_q5_k(const void *block, int i, kern_group *g)
{
    const kern_q5_k *b = block;
    k4_scales(g, b->scales, i, b->d, b->dmin);
    four_bits(g->q, b->qs, i);
    for (int j = 0; j < 32; j++)
        g->q[j] = (int8_t)(g->q[j] + (b->qh[j] >> i & 1) * 16);
}

void kern_group_q6_k(const void *block, int i, kern_group *g)
{
    const kern_q6_k *b = block;
    float d = kern_f16_to_f32(b->d);
    int a = i % 4;
    const uint8_t *ql = b->ql + 64 * (i / 4) + 32 * (a % 2);
    const uint8_t *qh = b->qh + 32 * (i / 4);
    for (int h = 0; h < 2; h++)
        g->s[h] = d * (float)b->scales[2 * i + h];
    for (int j = 0; j < 32; j++) {
        int low = ql[j] >> 4 * (a / 2) & 15;
        int high = qh[j] >> 2 * a & 3;
        g->q[j] = (int8_t)((low | high << 4) - 32);
    }
}

/* Digit n of a byte that holds five base-3 digits as the fraction byte / 256, first digit first. */
static int trit(uint8_t byte, int n)
{
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    uint8_t rest = (uint8_t)(byte * pow3[n]);
    return rest * 3 >> 8;
}

/* Value k of the block, -1..1. */
static int tq1_0_value(const kern_tq1_0 *b, int k)
{
    if (k < 160)
        return trit(b->qs[k % 32], k / 32) - 1;
    if (k < 240)
        return trit(b->qs[32 + k % 16], (k - 160) / 16) - 1;
    return trit(b->qh[k % 4], (k - 240) / 4) - 1;
}

void kern_group_tq1_0(const void *block, int i, kern_group *g)
{
    const kern_tq1_0 *b = block;
    kern_group_both(g->s, kern_f16_to_f32(b->d));
    for (int j = 0; j < 32; j++)
        g->q[j] = (int8_t)tq1_0_value(b, 32 * i + j);
}

void kern_group_tq2_0(const void *block, int i, kern_group *g)
{
    const kern_tq2_0 *b = block;
    kern_group_both(g->s, kern_f16_to_f32(b->d));
    two_bits(g->q, b->qs, i, -1);
}

void kern_group_iq4_xs(const void *block, int i, kern_group *g)
{
    const kern_iq4_xs *b = block;
    int low = b->scales_l[i / 2] >> 4 * (i % 2) & 15;
    int high = b->scales_h >> 2 * i & 3;
    const uint8_t *qs = b->qs + 16 * i;
    kern_group_both(g->s, kern_f16_to_f32(b->d) * (float)((low | high << 4) - 32));
    for (int j = 0; j < 16; j++) {
        g->q[j] = kern_iq4_value[qs[j] & 15];
        g->q[j + 16] = kern_iq4_value[qs[j] >> 4];
    }
}
