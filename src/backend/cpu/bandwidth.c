/* bandwidth.c - reading and writing a large buffer as fast as the threads can. */
#include "backend/cpu/cpu.h"

/* What a cache line holds; the compiler makes vector loads of it. */
typedef uint64_t line __attribute__((vector_size(64), may_alias));

enum { PIECE = 4096 };

/* Piece i belongs to the same thread in both functions: on machines with several memories it then lies
 * beside that thread. */

void be_touch_all(backend *be, void *p, size_t n_bytes)
{
    CPU_FOR(be, n_bytes, schedule(static))
    for (size_t i = 0; i < n_bytes / PIECE; i++) {
        line *x = (line *)((uint8_t *)p + i * PIECE);
        for (size_t j = 0; j < PIECE / sizeof *x; j++)
            x[j] = (line){i, j};
    }
}

static uint64_t fold(const line *x)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof *x / sizeof sum; i++)
        sum ^= (*x)[i];
    return sum;
}

uint64_t be_read_all(backend *be, const void *p, size_t n_bytes)
{
    uint64_t sum = 0;
    CPU_FOR(be, n_bytes, schedule(static) reduction(^ : sum))
    for (size_t i = 0; i < n_bytes / PIECE; i++) {
        const line *x = (const line *)((const uint8_t *)p + i * PIECE);
        line a = {0}, b = {0};
        for (size_t j = 0; j < PIECE / sizeof *x; j += 2) { /* two chains: a load never waits */
            a ^= x[j];
            b ^= x[j + 1];
        }
        a ^= b;
        sum ^= fold(&a);
    }
    return sum;
}
