/* chunk.h - bounded buffers for tensors that pass through memory some rows at a time. */
#ifndef CONVERT_CHUNK_H
#define CONVERT_CHUNK_H

#include "base/dtype.h"
#include "base/err.h"

/* About this many values are held at once; one row at least. */
#define CHUNK_VALUES (1u << 21)

typedef struct {
    float *value;   /* [n_row][n_col]: as read */
    float *back;    /* the same, encoded and decoded again */
    float *scratch; /* the same; for reordering rows */
    uint8_t *coded;
    uint64_t n_row; /* rows at once */
    size_t cap_value, cap_coded;
} chunk;

/* Make room for rows of n_col values of a type; grows the buffers of earlier tensors.
 * Errors: NOMEM. */
ft_status chunk_reserve(chunk *c, uint64_t n_col, dtype type, ft_error *err) MUST_CHECK;
void chunk_free(chunk *c);

#endif
