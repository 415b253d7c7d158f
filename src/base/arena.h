/* arena.h - memory that lives as long as one call: bump allocation from one block, freed at once.
 *
 * The block is reserved when the owner is created; taking from it cannot grow it. Every piece is
 * aligned to MEM_ALIGN. Under AddressSanitizer the gaps and the free rest are poisoned.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/err.h"

typedef struct {
    uint8_t *base; /* owned */
    size_t size;
    size_t used;
    size_t peak;
} arena;

ft_status arena_init(arena *a, size_t size, const char *what, ft_error *err) MUST_CHECK;
void arena_deinit(arena *a);
/* n bytes (n > 0), or NULL when the block is full: the owner reserved too little, a bug of ours. */
void *arena_take(arena *a, size_t n) MUST_CHECK;
/* Bytes that arena_take(n) uses up. */
size_t arena_cost(size_t n);
size_t arena_mark(const arena *a);
/* Give back everything taken since the mark. */
void arena_reset(arena *a, size_t mark);

#endif
