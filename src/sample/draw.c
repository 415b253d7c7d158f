/* draw.c - random numbers keyed by what they are for, and the draw of a token. */
#include <math.h>

#include "sample/noise.h"
#include "sample/philox.h"
#include "sample/sample.h"

/* Above every -log(-log(u)): the largest u is 1 - 2^-53, whose value is 53 log 2 = 36.74. */
#define GUMBEL_MAX 37.0

double noise_uniform(uint64_t seed, int32_t pos, int32_t token, sample_purpose purpose,
                     int32_t round)
{
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t r[4] = {(uint32_t)token, (uint32_t)pos, (uint32_t)purpose, (uint32_t)round};
    philox4x32(r, r, key);
    /* 52 bits and a half: 2^-53 .. 1 - 2^-53, each exact in double */
    uint64_t bits = ((uint64_t)r[1] << 32 | r[0]) >> 12;
    return ((double)bits + 0.5) * 0x1p-52;
}

double noise_gumbel(double u)
{
    return -log(-log(u));
}

double sample_uniform(uint64_t seed, int32_t pos, int32_t token, sample_purpose purpose)
{
    return noise_uniform(seed, pos, token, purpose, NOISE_NO_ROUND);
}

int32_t noise_draw(const sample_dist *d, uint64_t seed, int32_t pos, sample_purpose purpose,
                   int32_t round)
{
    int32_t best_id = d->id[0];
    if (d->n == 1)
        return best_id; /* nothing to draw */
    double best = -(double)INFINITY;
    for (int i = 0; i < d->n; i++) {
        if (d->logp[i] + GUMBEL_MAX < best)
            continue; /* cannot win: spares most of a long tail */
        double x = d->logp[i] + noise_gumbel(noise_uniform(seed, pos, d->id[i], purpose, round));
        if (x > best) {
            best = x;
            best_id = d->id[i];
        }
    }
    return best_id;
}

int32_t sample_draw(const sample_dist *d, uint64_t seed, int32_t pos)
{
    return noise_draw(d, seed, pos, SAMPLE_FOR_TOKEN, NOISE_NO_ROUND);
}
