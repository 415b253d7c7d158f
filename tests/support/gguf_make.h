/* gguf_make.h - GGUF bytes written by hand, piece by piece, right or wrong as a test wants them.
 *
 * Knows nothing of src/gguf's writer, so that the two check each other. Functions append to a buf.
 */
#ifndef TESTS_SUPPORT_GGUF_MAKE_H
#define TESTS_SUPPORT_GGUF_MAKE_H

#include <string.h>

#include "base/buf.h"
#include "gguf/gguf.h"

static inline void mk_uint(buf *b, uint64_t v, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        buf_putc(b, (int)(v >> (8 * i) & 0xff));
}

static inline void mk_str(buf *b, const char *s)
{
    mk_uint(b, strlen(s), 8);
    buf_puts(b, s);
}

static inline void mk_header(buf *b, uint32_t version, uint64_t n_tensor, uint64_t n_kv)
{
    buf_puts(b, "GGUF");
    mk_uint(b, version, 4);
    mk_uint(b, n_tensor, 8);
    mk_uint(b, n_kv, 8);
}

static inline void mk_kv_u32(buf *b, const char *key, uint32_t v)
{
    mk_str(b, key);
    mk_uint(b, GGUF_U32, 4);
    mk_uint(b, v, 4);
}

/* Key, type ARRAY, element type and count; the elements are the caller's business. */
static inline void mk_kv_array(buf *b, const char *key, uint32_t elem, uint64_t n)
{
    mk_str(b, key);
    mk_uint(b, GGUF_ARRAY, 4);
    mk_uint(b, elem, 4);
    mk_uint(b, n, 8);
}

static inline void mk_tensor(buf *b, const char *name, uint32_t n_dim, const uint64_t *dim,
                             uint32_t type, uint64_t offset)
{
    mk_str(b, name);
    mk_uint(b, n_dim, 4);
    for (uint32_t i = 0; i < n_dim; i++)
        mk_uint(b, dim[i], 8);
    mk_uint(b, type, 4);
    mk_uint(b, offset, 8);
}

/* Zeros up to a multiple of align, then n bytes 1, 2, 3, ... */
static inline void mk_data(buf *b, size_t align, size_t n)
{
    while (b->len % align)
        buf_putc(b, 0);
    for (size_t i = 0; i < n; i++)
        buf_putc(b, (int)((i + 1) & 0xff));
}

#endif
