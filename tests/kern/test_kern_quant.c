/* test_kern_quant.c - rows of activations to 8 bits, and the choice of the kernels. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/matmul_case.h"

#define N     352 /* 11 blocks */
#define GUARD 0xa5

static const char *const level_names[] = {"generic", "avx2", "avx512", "neon", "i8mm"};

/* The table of a level; false if this processor does not have it. */
static bool level_table(kern_table *k, const char *name)
{
    uint32_t flags;
    assert_true(kern_cpu_parse(&flags, name));
    if (flags & ~kern_cpu_flags())
        return false;
    kern_select(k, flags);
    return true;
}

typedef void level_fn(const kern_table *k);

static void each_level(level_fn *f)
{
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
        kern_table k;
        if (level_table(&k, level_names[i]))
            f(&k);
    }
}

/* ---- quant_q8 ----------------------------------------------------------------------------- */

/* A quantised row without the bytes that round it up, then GUARD. */
typedef struct {
    _Alignas(64) uint8_t bytes[N + N / 32 * 4 + N / 16 * 2 + 64 + 64];
} q8_row;

static void quantise(q8_row *row, const kern_table *k, const float *x)
{
    memset(row->bytes, GUARD, sizeof row->bytes);
    k->quant_q8(row->bytes, x, N);
}

/* The rule of kern.h in other words, for finite x. */
static void expect_rule(const q8_row *row, const float *x)
{
    const int8_t *q = (const int8_t *)row->bytes;
    for (int b = 0; b < N / 32; b++) {
        double amax = 0;
        int sum[2] = {0, 0};
        for (int i = 32 * b; i < 32 * b + 32; i++)
            amax = fmax(amax, fabs((double)x[i]));
        const float d = (float)amax / 127;
        assert_memory_equal(&kern_q8_d(row->bytes, N)[b], &d, sizeof d);
        for (int i = 32 * b; i < 32 * b + 32; i++) {
            assert_in_range(q[i] + 127, 0, 254);
            sum[i / 16 % 2] += q[i];
            const double want = d > 0 ? (double)x[i] / (double)d : 0;
            if (d >= FLT_MIN || d == 0) /* else 1 / d may have overflowed */
                assert_true(fabs(want - q[i]) <= 0.5 + 1e-4);
        }
        assert_int_equal(kern_q8_s(row->bytes, N)[2 * b], sum[0]);
        assert_int_equal(kern_q8_s(row->bytes, N)[2 * b + 1], sum[1]);
    }
    for (size_t i = kern_q8_row_bytes(N); i < sizeof row->bytes; i++)
        assert_int_equal(row->bytes[i], GUARD);
}

/* Rows of x: random; zeros of both signs; subnormal; huge; ties of rounding; one large value;
 * tiny; zeros among subnormal ones. */
static void fill_row(float *x, int kind)
{
    rng r = {(uint64_t)kind + 1};
    for (int i = 0; i < N; i++) {
        const float f = rng_f32(&r);
        const float value[] = {f,
                               i % 2 ? 0.0f : -0.0f,
                               f * 0x1p-130f,
                               f * FLT_MAX,
                               i % 32 == 0 ? 127.0f : (float)(i % 40) - 20.5f,
                               i % 32 == 7 ? -1e20f : f,
                               f * 0x1p-120f,
                               i % 3 ? f * 0x1p-130f : 0.0f};
        x[i] = value[kind];
    }
}
#define N_KIND 8

static void levels_equal(const kern_table *k)
{
    kern_table ref;
    kern_select(&ref, 0);
    for (int kind = 0; kind < N_KIND; kind++) {
        float x[N];
        q8_row got, want;
        fill_row(x, kind);
        quantise(&want, &ref, x);
        quantise(&got, k, x);
        expect_rule(&want, x);
        assert_memory_equal(got.bytes, want.bytes, sizeof got.bytes);
    }
}

/* Rounding half up, -128, 0 * inf for a tiny scale, sums of the wrong half, bytes past the row. */
static void test_quant_q8_every_level_follows_the_rule(void **state)
{
    (void)state;
    each_level(levels_equal);
}

static void ties_to_even(const kern_table *k)
{
    float x[N] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f};
    static const int8_t want[] = {127, 0, 2, 2, 0, -2, -2, 126};
    q8_row row;
    quantise(&row, k, x);
    assert_memory_equal(row.bytes, want, sizeof want);
}

/* lround instead of rint. */
static void test_quant_q8_ties_go_to_even(void **state)
{
    (void)state;
    each_level(ties_to_even);
}

static void non_finite_in_range(const kern_table *k)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        float x[N];
        q8_row row;
        fill_row(x, 0);
        x[40] = bad[i];
        quantise(&row, k, x);
        for (int j = 0; j < N; j++)
            assert_int_not_equal((int8_t)row.bytes[j], -128);
        /* other blocks are those of the row without it */
        q8_row clean;
        x[40] = 0;
        quantise(&clean, k, x);
        assert_memory_equal(row.bytes, clean.bytes, 32);
        assert_memory_equal(row.bytes + 64, clean.bytes + 64, N - 64);
    }
}

/* A conversion of NaN or inf that gives -128, which a product would negate in 8 bits. */
static void test_quant_q8_non_finite_stays_in_range(void **state)
{
    (void)state;
    each_level(non_finite_in_range);
}

/* ---- Selection ---------------------------------------------------------------------------- */

/* A name that opens a level it does not mean, or an unknown one that passes for generic. */
static void test_cpu_parse_knows_the_levels_only(void **state)
{
    (void)state;
    static const char *const bad[] = {"", "AVX2", "avx", "avx2 ", "avx5121", "sse2"};
    uint32_t flags = 77;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(kern_cpu_parse(&flags, bad[i]));
    assert_int_equal(flags, 77);
    assert_true(kern_cpu_parse(&flags, "generic"));
    assert_int_equal(flags, 0);
    assert_true(kern_cpu_parse(&flags, "avx512"));
    assert_int_equal(flags, KERN_CPU_AVX2 | KERN_CPU_AVX512);
    assert_true(kern_cpu_parse(&flags, "i8mm"));
    assert_int_equal(flags, KERN_CPU_NEON | KERN_CPU_I8MM);
}

/* A level announced without the one below it, or a bit that no level has. */
static void test_cpu_flags_are_levels(void **state)
{
    (void)state;
    const uint32_t flags = kern_cpu_flags();
    const uint32_t x86 = KERN_CPU_AVX2 | KERN_CPU_AVX512;
    assert_int_equal(flags & ~(x86 | KERN_CPU_NEON | KERN_CPU_I8MM), 0);
    assert_true(!(flags & KERN_CPU_AVX512) || (flags & KERN_CPU_AVX2));
    assert_true(!(flags & KERN_CPU_I8MM) || (flags & KERN_CPU_NEON));
    assert_int_equal(flags, kern_cpu_flags());
}

static void slots_filled(const kern_table *k)
{
    assert_non_null(k->quant_q8);
    assert_non_null(k->dot);
    assert_non_null(k->rmsnorm);
    assert_non_null(k->l2norm);
    assert_non_null(k->silu_mul);
    assert_non_null(k->sigmoid_mul);
    assert_non_null(k->silu);
    assert_non_null(k->axpy);
    assert_non_null(k->rope);
    assert_non_null(k->conv_silu);
    assert_non_null(k->softmax);
    assert_non_null(k->gdn);
    assert_non_null(k->attn);
}

/* A slot that no level fills; a level that does not say its name. */
static void test_select_fills_every_slot(void **state)
{
    (void)state;
    each_level(slots_filled);
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
        kern_table k;
        if (level_table(&k, level_names[i]))
            assert_string_equal(k.name, level_names[i]);
    }
    kern_table generic, half;
    kern_select(&generic, 0);
    kern_select(&half, KERN_CPU_AVX512 | KERN_CPU_I8MM); /* without those below them: none */
    assert_string_equal(half.name, generic.name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quant_q8_every_level_follows_the_rule),
        cmocka_unit_test(test_quant_q8_ties_go_to_even),
        cmocka_unit_test(test_quant_q8_non_finite_stays_in_range),
        cmocka_unit_test(test_cpu_parse_knows_the_levels_only),
        cmocka_unit_test(test_cpu_flags_are_levels),
        cmocka_unit_test(test_select_fills_every_slot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
