/* rig.h - what the tests of kernels share: levels, random rows, guarded memory, comparison of bits.
 *
 * Include after cmocka.h. Memory comes from malloc at its exact size, so that AddressSanitizer sees
 * a read past an input; outputs have guard bytes behind them for builds without it. */
#ifndef TESTS_KERN_RIG_H
#define TESTS_KERN_RIG_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "kern/kern.h"

#define RIG_GUARD 64
#define RIG_BYTE  0xa5

/* The i-th table that this processor offers, the reference first; false past the last. */
static inline bool rig_level(kern_table *k, int i)
{
    static const uint32_t level[] = {0, KERN_CPU_AVX2, KERN_CPU_AVX2 | KERN_CPU_AVX512,
                                     KERN_CPU_NEON, KERN_CPU_NEON | KERN_CPU_I8MM};
    const uint32_t have = kern_cpu_flags();
    for (size_t j = 0; j < ARRAY_LEN(level); j++) {
        if ((level[j] & have) == level[j] && i-- == 0) {
            kern_select(k, level[j]);
            return true;
        }
    }
    return false;
}

/* ---- Random values: xorshift64*, Vigna 2016 ------------------------------------------------- */

static inline uint64_t rig_bits(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * 0x2545f4914f6cdd1dull;
}

/* In [0, 1). */
static inline double rig_unit(uint64_t *state)
{
    return (double)(rig_bits(state) >> 11) * 0x1p-53;
}

typedef enum {
    RIG_PLAIN,   /* about N(0, 1) */
    RIG_WIDE,    /* all exponents, denormals too */
    RIG_TINY,    /* products that underflow to a signed zero */
    RIG_SPECIAL, /* plain with infinities, NaN and zeros between */
    RIG_N_KIND
} rig_kind;

static inline float rig_value(uint64_t *state, rig_kind kind)
{
    static const float special[] = {INFINITY, -INFINITY, NAN,    0.0f,      -0.0f,  1e-40f,
                                    -1e-42f,  3e38f,     -3e38f, -88.0001f, -87.0f, 88.0f};
    if (kind == RIG_WIDE) {
        const uint32_t b = (uint32_t)(rig_bits(state) >> 32);
        float f;
        memcpy(&f, &b, sizeof f);
        return isfinite(f) ? f : 0.0f;
    }
    if (kind == RIG_SPECIAL && rig_bits(state) % 24 == 0)
        return special[rig_bits(state) % ARRAY_LEN(special)];
    double sum = -6.0;
    for (int i = 0; i < 12; i++)
        sum += rig_unit(state);
    return (float)(kind == RIG_TINY ? sum * 0x1p-76 : sum);
}

static inline void rig_fill(float *x, size_t n, uint64_t *state, rig_kind kind)
{
    for (size_t i = 0; i < n; i++)
        x[i] = rig_value(state, kind);
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* n bytes that start `shift` bytes past the alignment of malloc; a guard before and behind. */
typedef struct {
    uint8_t *base;
    uint8_t *p;
    size_t n, shift;
} rig_mem;

static inline rig_mem rig_alloc(size_t n, size_t shift)
{
    rig_mem m = {.n = n, .shift = RIG_GUARD + shift};
    m.base = malloc(m.shift + n + RIG_GUARD);
    assert_non_null(m.base);
    memset(m.base, RIG_BYTE, m.shift + n + RIG_GUARD);
    m.p = m.base + m.shift;
    return m;
}

static inline float *rig_floats(rig_mem *m, size_t n, size_t shift)
{
    *m = rig_alloc(n * sizeof(float), shift * sizeof(float));
    return (float *)(void *)m->p;
}

static inline void rig_check(const rig_mem *m)
{
    for (size_t i = 0; i < m->shift; i++)
        assert_int_equal(m->base[i], RIG_BYTE);
    for (size_t i = 0; i < RIG_GUARD; i++)
        assert_int_equal(m->p[m->n + i], RIG_BYTE);
}

static inline void rig_free(rig_mem *m)
{
    rig_check(m);
    free(m->base);
}

/* An input: n values of a kind, nothing readable behind them. */
static inline float *rig_input(size_t n, uint64_t *state, rig_kind kind)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    rig_fill(x, n, state, kind);
    return x;
}

/* ---- Comparison ----------------------------------------------------------------------------- */

/* Index of the first value whose bits differ (two NaN count as equal), -1 for none. */
static inline long rig_differ(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return (long)i;
    return -1;
}

static inline void rig_same(const float *got, const float *want, size_t n, const char *what,
                            const char *level, long size)
{
    const long i = rig_differ(got, want, n);
    if (i >= 0)
        fail_msg("%s %s size %ld: [%ld] is %a, want %a", level, what, size, i, (double)got[i],
                 (double)want[i]);
}

/* ---- Time ----------------------------------------------------------------------------------- */

/* Of this process: other work on the machine hardly counts. */
static inline double rig_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
