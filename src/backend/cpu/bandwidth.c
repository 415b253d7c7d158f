/* bandwidth.c - reading and writing a large buffer as fast as the threads can. */
#include "backend/cpu/cpu.h"

/* What one load of the processor family's baseline takes. Wider vectors would be kept in memory. */
typedef uint64_t vec __attribute__((vector_size(16), may_alias));

enum { PIECE = 4096, N_VEC = PIECE / sizeof(vec), N_CHAIN = 8 };

/* Piece i belongs to the same thread in both functions: on machines with several memories it then lies
 * beside that thread. */

void be_touch_all(backend *be, void *p, size_t n_bytes)
{
    CPU_FOR(be, n_bytes, schedule(static))
    for (size_t i = 0; i < n_bytes / PIECE; i++) {
        vec *x = (vec *)((uint8_t *)p + i * PIECE);
        for (size_t j = 0; j < N_VEC; j++)
            x[j] = (vec){i, j};
    }
}

/* All of a piece, in as many chains as hide the latency of a step. */
static uint64_t read_piece(const vec *x)
{
    vec a[N_CHAIN] = {{0}};
    for (size_t j = 0; j < N_VEC; j += N_CHAIN) {
        UNROLL
        for (size_t c = 0; c < N_CHAIN; c++)
            a[c] ^= x[j + c];
    }
    UNROLL
    for (size_t c = 1; c < N_CHAIN; c++)
        a[0] ^= a[c];
    return a[0][0] ^ a[0][1];
}

uint64_t be_read_all(backend *be, const void *p, size_t n_bytes)
{
    uint64_t sum = 0;
    CPU_FOR(be, n_bytes, schedule(static) reduction(^ : sum))
    for (size_t i = 0; i < n_bytes / PIECE; i++)
        sum ^= read_piece((const vec *)((const uint8_t *)p + i * PIECE));
    return sum;
}
