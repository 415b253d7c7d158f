/* noise.h - random numbers that belong to a round of drafts. Private to sample/. */
#ifndef SAMPLE_NOISE_H
#define SAMPLE_NOISE_H

#include "sample/sample.h"

/* The round of numbers that belong to none: those of sample_uniform. */
#define NOISE_NO_ROUND 0

/* Uniform as sample_uniform, for the round whose first row decides position `round`. Two rounds of a
 * text start at different positions, so what one round looked at beyond its last accepted draft has
 * no part in what the next one does there. */
double noise_uniform(uint64_t seed, int32_t pos, int32_t token, sample_purpose purpose,
                     int32_t round);

/* What is added to a log-probability: -log(-log(u)). */
double noise_gumbel(double u);

/* sample_draw with the numbers of a purpose and a round. */
int32_t noise_draw(const sample_dist *d, uint64_t seed, int32_t pos, sample_purpose purpose,
                   int32_t round);

#endif
