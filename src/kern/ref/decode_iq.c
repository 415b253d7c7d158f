/* decode_iq.c - superblocks of 256 values over codebooks: the IQ2, IQ3 and IQ1 types. The rules
 * stand in block.h, the codebooks in iq_tables.c. */
#include "kern/block.h"
#include "kern/iq_tables.h"
#include "kern/kern.h"
#include "kern/ref/decode.h"

/* Eight coordinates of 2 bits with signs. */
static void put_iq2(int8_t q[8], uint16_t entry, uint8_t signs)
{
    for (int c = 0; c < 8; c++) {
        int level = kern_iq2_level[entry >> 2 * c & 3];
        q[c] = (int8_t)(signs >> c & 1 ? -level : level);
    }
}

/* Twice four coordinates of 4 bits with signs; level[8] translates the coordinates. */
static void put_iq3(int8_t q[8], const uint16_t entry[2], uint8_t signs, const int8_t *level)
{
    for (int c = 0; c < 8; c++) {
        int v = level[entry[c / 4] >> 4 * (c % 4) & 7];
        q[c] = (int8_t)(signs >> c & 1 ? -v : v);
    }
}

/* Eight coordinates -1, 0, 1 in eighths, shifted by one eighth up or down. */
static void put_iq1(int8_t q[8], uint16_t entry, bool down)
{
    for (int c = 0; c < 8; c++)
        q[c] = (int8_t)(8 * ((entry >> 2 * c & 3) - 1) + (down ? -1 : 1));
}

void kern_group_iq2_xxs(const void *block, int i, kern_group *g)
{
    const kern_iq2_xxs *b = block;
    uint32_t aux = b->g[i].aux;
    kern_group_both(g->s, kern_f16_to_f32(b->d) * (0.5f + (float)(aux >> 28)) * 0.25f);
    for (int l = 0; l < 4; l++)
        put_iq2(g->q + 8 * l, kern_iq2_xxs_grid[b->g[i].index[l]], kern_iq_signs(aux >> 7 * l));
}

/* The scales of the halves of IQ2_XS and IQ2_S. */
static void iq2_scales(float s[2], uint16_t d, uint8_t scales)
{
    s[0] = kern_f16_to_f32(d) * (0.5f + (float)(scales & 15)) * 0.25f;
    s[1] = kern_f16_to_f32(d) * (0.5f + (float)(scales >> 4)) * 0.25f;
}

void kern_group_iq2_xs(const void *block, int i, kern_group *g)
{
    const kern_iq2_xs *b = block;
    iq2_scales(g->s, b->d, b->scales[i]);
    for (int l = 0; l < 4; l++) {
        uint32_t e = b->qs[4 * i + l];
        put_iq2(g->q + 8 * l, kern_iq2_xs_grid[e & 511], kern_iq_signs(e >> 9));
    }
}

void kern_group_iq2_s(const void *block, int i, kern_group *g)
{
    const kern_iq2_s *b = block;
    iq2_scales(g->s, b->d, b->scales[i]);
    for (int l = 0; l < 4; l++) {
        int index = b->qs[4 * i + l] | (b->qh[i] >> 2 * l & 3) << 8;
        put_iq2(g->q + 8 * l, kern_iq2_s_grid[index], b->signs[4 * i + l]);
    }
}

void kern_group_iq3_xxs(const void *block, int i, kern_group *g)
{
    const kern_iq3_xxs *b = block;
    uint32_t aux = b->aux[i];
    kern_group_both(g->s, kern_f16_to_f32(b->d) * (0.5f + (float)(aux >> 28)) * 0.5f);
    for (int l = 0; l < 4; l++) {
        const uint8_t *index = b->qs + 8 * i + 2 * l;
        uint16_t entry[2] = {kern_iq3_xxs_grid[index[0]], kern_iq3_xxs_grid[index[1]]};
        put_iq3(g->q + 8 * l, entry, kern_iq_signs(aux >> 7 * l), kern_iq3_level);
    }
}

void kern_group_iq3_s(const void *block, int i, kern_group *g)
{
    static const int8_t odd[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    const kern_iq3_s *b = block;
    int scale = b->scales[i / 2] >> 4 * (i % 2) & 15;
    kern_group_both(g->s, kern_f16_to_f32(b->d) * (float)(1 + 2 * scale));
    for (int l = 0; l < 4; l++) {
        uint16_t entry[2];
        for (int half = 0; half < 2; half++) {
            int bit = b->qh[i] >> (2 * l + half) & 1;
            entry[half] = kern_iq3_s_grid[b->qs[8 * i + 2 * l + half] | bit << 8];
        }
        put_iq3(g->q + 8 * l, entry, b->signs[4 * i + l], odd);
    }
}

void kern_group_iq1_s(const void *block, int i, kern_group *g)
{
    const kern_iq1_s *b = block;
    int qh = b->qh[i];
    kern_group_both(g->s, kern_f16_to_f32(b->d) * (float)(2 * (qh >> 12 & 7) + 1) * 0.125f);
    for (int l = 0; l < 4; l++) {
        int index = b->qs[4 * i + l] | (qh >> 3 * l & 7) << 8;
        put_iq1(g->q + 8 * l, kern_iq1_grid[index], qh >> 15);
    }
}

void kern_group_iq1_m(const void *block, int i, kern_group *g)
{
    const kern_iq1_m *b = block;
    int bits = 0;
    for (int j = 0; j < 4; j++)
        bits |= b->scales[j] >> 12 << 4 * j;
    float d = kern_f16_to_f32((uint16_t)bits);

    for (int h = 0; h < 2; h++) {
        int scale = b->scales[i / 2] >> (6 * (i % 2) + 3 * h) & 7;
        g->s[h] = d * (float)(2 * scale + 1) * 0.125f;
    }
    for (int l = 0; l < 4; l++) {
        int t = b->qh[2 * i + l / 2] >> 4 * (l % 2) & 15;
        put_iq1(g->q + 8 * l, kern_iq1_grid[b->qs[4 * i + l] | (t & 7) << 8], t >> 3);
    }
}
