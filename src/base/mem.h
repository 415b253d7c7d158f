/* mem.h - the one way to get memory, and checked size arithmetic.
 *
 * 1. Every allocation of the library goes through here, so tests can make the n-th one fail and
 *    can forbid allocation while a decode step runs.
 * 2. Sizes that come from a file or a request are multiplied with size_mul, added with size_add.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include "base/compiler.h"

#define MEM_ALIGN 64 /* alignment of mem_alloc_aligned: a cache line, and a zmm register */

/* Uninitialised memory for malloc's alignment; NULL when out of memory or when n is 0. */
void *mem_alloc(size_t n) MUST_CHECK;
/* Zeroed memory. NULL as above. */
void *mem_zalloc(size_t n) MUST_CHECK;
/* Zeroed array of n items of size bytes; NULL when the product overflows. */
void *mem_calloc(size_t n, size_t size) MUST_CHECK;
/* Grow or shrink p (NULL: allocate). On failure NULL is returned and p stays valid. */
void *mem_realloc(void *p, size_t n) MUST_CHECK;
/* Uninitialised memory aligned to MEM_ALIGN; freed with mem_free. */
void *mem_alloc_aligned(size_t n) MUST_CHECK;
/* Zeroed memory aligned to MEM_ALIGN; large blocks are committed page by page as they are touched.
 * Freed with mem_free_zaligned alone. */
void *mem_zalloc_aligned(size_t n) MUST_CHECK;
void mem_free_zaligned(void *p); /* NULL is allowed */
/* A copy of the n bytes at s with a NUL behind them. */
char *mem_strndup(const char *s, size_t n) MUST_CHECK;
void mem_free(void *p); /* NULL is allowed */

/* Bytes of memory of this machine; 0: unknown. */
uint64_t mem_physical(void);

/* *out = a * b, or false when it does not fit in size_t. */
static inline bool size_mul(size_t *out, size_t a, size_t b)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* *out = a + b, or false when it does not fit in size_t. */
static inline bool size_add(size_t *out, size_t a, size_t b)
{
    return !__builtin_add_overflow(a, b, out);
}

/* n rounded up to a multiple of align (a power of two); n <= SIZE_MAX - align. */
static inline size_t size_align(size_t n, size_t align)
{
    return (n + align - 1) & ~(align - 1);
}

/* For tests. Make the n-th allocation from now on (1 = the next) fail, once; 0: none. */
void mem_fail_at(long n);
/* For tests. Allocations made since the process started. */
long mem_count(void);
/* Between begin and end every allocation of this thread aborts the process: a decode step must
 * allocate nothing. Only in builds with FT_DEBUG; otherwise they do nothing. Nests. */
void mem_guard_begin(void);
void mem_guard_end(void);

#endif
