/* matmul_bench.h - speed of the matrix products, one thread; see tests/kern/test_kern_matmul.c.
 *
 * GB/s counts the bytes of the weights, GMAC/s the multiplications. The best of the runs within a
 * time limit is printed. With one token the weights are spread over more memory than the caches
 * hold, as in decoding.
 */
#ifndef TESTS_SUPPORT_MATMUL_BENCH_H
#define TESTS_SUPPORT_MATMUL_BENCH_H

#include <stdio.h>
#include <time.h>

#include "support/matmul_case.h"

#define BENCH_COL     4096
#define BENCH_ROW     4096
#define BENCH_TOK     512
#define BENCH_SECONDS 0.1
#define BENCH_SPREAD  ((size_t)768 << 20) /* bytes of weights walked over */

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); /* a busy machine disturbs less */
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Random bytes of the form x01xxxxx: wherever a format has its scales, they are normal numbers, and
 * the entries of codebooks are any. */
static inline void bench_fill(uint8_t *w, size_t n)
{
    rng r = {7};
    for (size_t i = 0; i + 4 <= n; i += 4) {
        const uint32_t v = (rng_u32(&r) & 0xbfbfbfbfu) | 0x20202020u;
        memcpy(w + i, &v, sizeof v);
    }
}

/* GB/s of one thread that reads memory in order, the best of some passes. */
static inline double bench_read_bandwidth(const uint8_t *w, size_t n)
{
    double best = 0;
    for (int pass = 0; pass < 4; pass++) {
        uint64_t sum = 0;
        const double t0 = bench_now();
        for (size_t i = 0; i + 64 <= n; i += 64) { /* one word brings the line */
            uint64_t v;
            memcpy(&v, w + i, sizeof v);
            sum ^= v;
        }
        const double s = bench_now() - t0;
        volatile uint64_t sink = sum;
        (void)sink;
        best = (double)n / s > best ? (double)n / s : best;
    }
    return best * 1e-9;
}

/* Seconds of one product, the best within the limit; every run takes the next copy of the weights. */
static inline double bench_one(kern_matmul_fn *f, kern_matmul *a, const uint8_t *w)
{
    const size_t n_byte = a->w_stride * BENCH_ROW;
    const size_t n_copy = BENCH_SPREAD / n_byte;
    const double start = bench_now();
    double best = 1e9;
    for (size_t i = 0; i < 2 || bench_now() - start < BENCH_SECONDS; i++) {
        a->w = w + i % n_copy * n_byte;
        const double t0 = bench_now();
        f(a, 0, BENCH_ROW);
        const double s = bench_now() - t0;
        best = s < best ? s : best;
    }
    return best;
}

/* tiled: the same bytes are taken for weights in tiles. */
static inline void bench_type(const kern_table *k, int type, bool tiled, const uint8_t *w,
                              uint8_t *x, float *y, double peak)
{
    static const int n_tok[] = {1, 2, 3, 4, 8, 16, 128, 512};
    static float scratch[BENCH_COL];
    rng r = {1};
    const size_t x_stride = x_row_bytes(k->act[type], BENCH_COL);
    fill_x(k, k->act[type], x, x_stride, BENCH_TOK, BENCH_COL, scratch, &r);
    kern_matmul a = {.w_stride = tiled ? kern_tiles_row_bytes(type, BENCH_COL)
                                       : dtype_row_bytes((dtype)type, BENCH_COL),
                     .n_col = BENCH_COL,
                     .x = x,
                     .x_stride = x_stride,
                     .y = y,
                     .y_stride = BENCH_ROW};
    printf("%-8s%-8s%-6s", k->name, dtype_name((dtype)type), tiled ? "tiles" : "file");
    for (size_t i = 0; i < ARRAY_LEN(n_tok); i++) {
        a.n_tok = n_tok[i];
        const double s = bench_one(tiled ? k->matmul_tiled[type] : k->matmul[type], &a, w);
        const double gb = (double)a.w_stride * BENCH_ROW / s * 1e-9;
        const double gmac = (double)BENCH_COL * BENCH_ROW * a.n_tok / s * 1e-9;
        if (i == 0)
            printf("%6.1f GB/s %3.0f%%", gb, 100 * gb / peak);
        printf("%7.1f", gmac);
        fflush(stdout);
    }
    printf("\n");
}

/* filter: a type's name, or "" for all. */
static inline void bench_matmul(const kern_table *k, int n_level, const char *filter)
{
    uint8_t *w = mem_alloc_aligned(BENCH_SPREAD);
    uint8_t *x = mem_alloc_aligned(BENCH_TOK * BENCH_COL * sizeof(float));
    float *y = mem_alloc_aligned(BENCH_TOK * BENCH_ROW * sizeof(float));
    if (!w || !x || !y) {
        printf("out of memory\n");
        return;
    }
    memset(y, 0, BENCH_TOK * BENCH_ROW * sizeof(float));
    bench_fill(w, BENCH_SPREAD);
    const double peak = bench_read_bandwidth(w, BENCH_SPREAD);
    printf("one thread reads %.1f GB/s; weights %d x %d\n", peak, BENCH_ROW, BENCH_COL);
    printf("level   type    layout 1 token: weights  GMAC/s with 1, 2, 3, 4, 8, 16, 128, 512 "
           "tokens\n");
    for (int i = 0; i < n_level; i++)
        for (int type = 0; type < KERN_N_TYPE; type++)
            if (k[i].act[type] != KERN_ACT_NONE &&
                (!*filter || strcmp(filter, dtype_name((dtype)type)) == 0))
                for (int tiled = 0; tiled <= kern_tiles_fit(&k[i], type, BENCH_COL); tiled++)
                    bench_type(&k[i], type, tiled, w, x, y, peak);
    mem_free(w);
    mem_free(x);
    mem_free(y);
}

#endif
