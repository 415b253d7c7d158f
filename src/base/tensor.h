/* tensor.h - a weight as the engine sees it: shape slowest first, values of a row contiguous. */
#ifndef BASE_TENSOR_H
#define BASE_TENSOR_H

#include "base/dtype.h"

/* [n_mat][n_row][n_col]; a vector is one row. GGUF's fastest-first dims end in the reader: ne[0]
 * is n_col, ne[1] n_row, ne[2] n_mat. A tensor may be a part of a larger one (some columns, or
 * some rows of each matrix): the strides are then those of the whole. */
typedef struct {
    const void *data; /* borrowed from the file map or an owned copy; NULL: absent */
    dtype type;
    int n_col;
    int n_row;
    int n_mat;
    size_t row_bytes; /* from a row to the next */
    size_t mat_bytes; /* from a matrix to the next */
    const void
        *tiles; /* the same values for be_matmul (be_tiles_put); borrowed; NULL: none. Whoever gives
                          a tensor other data must clear it */
    const char *name; /* borrowed from the file's directory; for messages */
} tensor;

/* Bytes of the values themselves, whatever the strides. */
static inline size_t tensor_bytes(const tensor *t)
{
    return dtype_row_bytes(t->type, (size_t)t->n_col) * (size_t)t->n_row * (size_t)t->n_mat;
}

#endif
