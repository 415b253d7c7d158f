/* parts.h - the recurrent part of a state as a list of pieces of memory, in one order for all who copy,
 * hash or write it. Private to state/.
 *
 * A settled seq has it at the start of these pieces: for every layer the delta net's state and the
 * convolution's history, then the history of the n-gram layer. */
#ifndef STATE_PARTS_H
#define STATE_PARTS_H

#include "state/state.h"

int part_count(const seq_shape *s);
size_t part_bytes(const seq_shape *s,
                  int i); /* 0 where there is none; seq_size has been true of s */
float *part_of(const seq *s, int i);

/* Type of raw indexer keys beside K and V of a type. */
dtype seq_idx_type(dtype kv_type);

#endif
