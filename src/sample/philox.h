/* philox.h - a counter-based random generator: a keyed function, no state. */
#ifndef SAMPLE_PHILOX_H
#define SAMPLE_PHILOX_H

#include "base/compiler.h"

/* Philox4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as
 * 1, 2, 3"). out [4] may be ctr. */
void philox4x32(uint32_t out[4], const uint32_t ctr[4], const uint32_t key[2]);

#endif
