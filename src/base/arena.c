/* arena.c - see arena.h. */
#include "base/arena.h"

#include "base/mem.h"

#if defined(__SANITIZE_ADDRESS__)
#    define POISONING 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define POISONING 1
#    endif
#endif

#ifdef POISONING
#    include <sanitizer/asan_interface.h>
#    define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#    define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#    define GAP            MEM_ALIGN
#else
#    define POISON(p, n)   ((void)(p), (void)(n))
#    define UNPOISON(p, n) ((void)(p), (void)(n))
#    define GAP            0
#endif

ft_status arena_init(arena *a, size_t size, const char *what, ft_error *err)
{
    *a = (arena){0};
    if (size == 0)
        return FT_OK;
    a->base = mem_alloc_aligned(size);
    if (!a->base)
        return err_set(err, FT_NOMEM, "%s: %zu bytes", what, size);
    a->size = size;
    POISON(a->base, size);
    return FT_OK;
}

void arena_deinit(arena *a)
{
    if (!a)
        return;
    if (a->base)
        UNPOISON(a->base, a->size);
    mem_free(a->base);
    *a = (arena){0};
}

size_t arena_cost(size_t n)
{
    return size_align(n, MEM_ALIGN) + GAP;
}

void *arena_take(arena *a, size_t n)
{
    if (n == 0 || n > a->size || arena_cost(n) > a->size - a->used)
        return NULL;
    uint8_t *p = a->base + a->used;
    a->used += arena_cost(n);
    if (a->used > a->peak)
        a->peak = a->used;
    UNPOISON(p, n);
    return p;
}

size_t arena_mark(const arena *a)
{
    return a->used;
}

void arena_reset(arena *a, size_t mark)
{
    if (a->base)
        POISON(a->base + mark, a->size - mark);
    a->used = mark;
}
