/* mem.c - see mem.h. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_long n_alloc;
static atomic_long fail_at; /* value of n_alloc at which to fail; 0: never */

#ifdef FT_DEBUG
static _Thread_local int guard;
#endif

/* Counts one allocation; true when it must fail. */
static bool refuse(size_t n)
{
#ifdef FT_DEBUG
    if (guard > 0)
        abort(); /* an allocation inside a decode step: a bug of ours */
#endif
    long at = atomic_fetch_add(&n_alloc, 1) + 1;
    long want = atomic_load(&fail_at);
    if (want != 0 && at == want) {
        atomic_store(&fail_at, 0);
        return true;
    }
    return n == 0 || n > PTRDIFF_MAX;
}

void *mem_alloc(size_t n)
{
    return refuse(n) ? NULL : malloc(n);
}

void *mem_zalloc(size_t n)
{
    return refuse(n) ? NULL : calloc(1, n);
}

void *mem_calloc(size_t n, size_t size)
{
    size_t total;
    return size_mul(&total, n, size) ? mem_zalloc(total) : NULL;
}

void *mem_realloc(void *p, size_t n)
{
    return refuse(n) ? NULL : realloc(p, n);
}

void *mem_alloc_aligned(size_t n)
{
    if (refuse(n))
        return NULL;
    return n > PTRDIFF_MAX - MEM_ALIGN ? NULL : aligned_alloc(MEM_ALIGN, size_align(n, MEM_ALIGN));
}

/* The system hands out large zeroed blocks as untouched pages, but not aligned ones: so a little
 * more is taken, and the block's own address kept in front of the aligned part. */
void *mem_zalloc_aligned(size_t n)
{
    size_t total;
    if (refuse(n) || !size_add(&total, n, MEM_ALIGN + sizeof(void *)))
        return NULL;
    uint8_t *block = calloc(1, total);
    if (!block)
        return NULL;
    uintptr_t at = (uintptr_t)block + sizeof(void *);
    uint8_t *p = block + sizeof(void *) + (size_align(at, MEM_ALIGN) - at);
    memcpy(p - sizeof(void *), &block, sizeof block);
    return p;
}

void mem_free_zaligned(void *p)
{
    if (!p)
        return;
    void *block;
    memcpy(&block, (uint8_t *)p - sizeof(void *), sizeof block);
    free(block);
}

char *mem_strndup(const char *s, size_t n)
{
    size_t total;
    char *p = size_add(&total, n, 1) ? mem_alloc(total) : NULL;
    if (!p)
        return NULL;
    if (n)
        memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

void mem_free(void *p)
{
    free(p);
}

uint64_t mem_physical(void)
{
    long n = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return n > 0 && bytes > 0 ? (uint64_t)n * (uint64_t)bytes : 0;
}

void mem_fail_at(long n)
{
    atomic_store(&fail_at, n > 0 ? atomic_load(&n_alloc) + n : 0);
}

long mem_count(void)
{
    return atomic_load(&n_alloc);
}

void mem_guard_begin(void)
{
#ifdef FT_DEBUG
    guard++;
#endif
}

void mem_guard_end(void)
{
#ifdef FT_DEBUG
    guard--;
#endif
}
