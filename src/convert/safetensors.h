/* safetensors.h - one safetensors file: untrusted bytes in, a checked list of tensors out.
 *
 * Format (public specification of the safetensors project), little-endian:
 *   u64 n   n bytes of JSON   data
 *   JSON: { "NAME": {"dtype": "BF16", "shape": [rows, cols], "data_offsets": [begin, end]}, ...,
 *           "__metadata__": {...} }    offsets count from the start of the data
 *
 * 1. After st_parse succeeds, every tensor's bytes lie inside the file, their number is that of its
 *    type and shape, no two tensors overlap, and names are unique.
 * 2. Shapes stay as the file has them: slowest first.
 */
#ifndef CONVERT_SAFETENSORS_H
#define CONVERT_SAFETENSORS_H

#include "base/err.h"

#define ST_MAX_DIMS         8
#define ST_MAX_HEADER_BYTES (100u << 20) /* the limit of the format's reference reader */

/* X(name, bytes): the types whose size is known. The converter reads BF16, F16, F32, F64, I64. */
#define ST_DTYPE_LIST(X) \
    X(BOOL, 1)           \
    X(U8, 1)             \
    X(I8, 1)             \
    X(F8_E5M2, 1)        \
    X(F8_E4M3, 1)        \
    X(F8_E8M0, 1)        \
    X(U16, 2)            \
    X(I16, 2)            \
    X(F16, 2)            \
    X(BF16, 2)           \
    X(U32, 4)            \
    X(I32, 4)            \
    X(F32, 4)            \
    X(U64, 8)            \
    X(I64, 8)            \
    X(F64, 8)            \
    X(C64, 8)

typedef enum {
#define ST_DTYPE_ENUM(name, bytes) ST_##name,
    ST_DTYPE_LIST(ST_DTYPE_ENUM)
#undef ST_DTYPE_ENUM
} st_dtype;

typedef struct {
    const char *name; /* NUL-terminated, owned by the file */
    st_dtype type;
    int n_dim; /* 0: a single value */
    uint64_t dim[ST_MAX_DIMS];
    uint64_t n;          /* values: the product of dim */
    const uint8_t *data; /* borrowed from the bytes; any alignment */
    uint64_t begin;      /* its offset in the data part */
} st_tensor;

typedef struct {
    st_tensor *tensor; /* [n_tensor], owned; in order of their data */
    size_t n_tensor;
    char *names; /* owned */
} st_file;

/* Parse a whole file; bytes stay borrowed by the tensors. *out is {0} after a failure.
 * Errors: FORMAT, UNSUPPORTED (a type that is not in the list), NOMEM. */
ft_status st_parse(st_file *out, const uint8_t *bytes, size_t n_bytes, ft_error *err) MUST_CHECK;
void st_free(st_file *f); /* NULL and {0} are allowed */

const char *st_dtype_name(st_dtype type);
size_t st_dtype_bytes(st_dtype type);

#endif
