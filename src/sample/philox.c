/* philox.c - see philox.h. */
#include "sample/philox.h"

#define N_ROUND 10

/* Multipliers and key increments of the paper. */
#define MUL_0      0xD2511F53u
#define MUL_1      0xCD9E8D57u
#define KEY_STEP_0 0x9E3779B9u
#define KEY_STEP_1 0xBB67AE85u

void philox4x32(uint32_t out[4], const uint32_t ctr[4], const uint32_t key[2])
{
    uint32_t x0 = ctr[0], x1 = ctr[1], x2 = ctr[2], x3 = ctr[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int i = 0; i < N_ROUND; i++) {
        uint64_t a = (uint64_t)MUL_0 * x0;
        uint64_t b = (uint64_t)MUL_1 * x2;
        x0 = (uint32_t)(b >> 32) ^ x1 ^ k0;
        x1 = (uint32_t)b;
        x2 = (uint32_t)(a >> 32) ^ x3 ^ k1;
        x3 = (uint32_t)a;
        k0 += KEY_STEP_0;
        k1 += KEY_STEP_1;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}
