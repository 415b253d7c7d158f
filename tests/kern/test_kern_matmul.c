/* test_kern_matmul.c - matrix products of every type and every level of instruction sets: against
 * the reference by memcmp, and the reference against a computation in double precision.
 *
 * Options: --cpu LEVEL (that level alone), --bench (speeds, no tests).
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "kern/group.h"
#include "support/matmul_bench.h"
#include "support/matmul_case.h"

#define GUARD 0x7fc0dead /* bits of the floats that nobody may write */

/* ---- Levels ------------------------------------------------------------------------------- */

static struct {
    kern_table table[4];
    int n;
} level;

static kern_table ref;

static bool find_levels(const char *only)
{
    static const char *const names[] = {"avx2", "avx512", "neon", "i8mm"};
    kern_select(&ref, 0);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        uint32_t flags;
        if (!kern_cpu_parse(&flags, names[i]) || (flags & ~kern_cpu_flags()))
            continue;
        if (!only || strcmp(only, names[i]) == 0)
            kern_select(&level.table[level.n++], flags);
    }
    return !only || level.n > 0 || strcmp(only, "generic") == 0;
}

/* ---- Operands and results ----------------------------------------------------------------- */

/* A product with its memory. w ends where a page that cannot be read begins. */
typedef struct {
    kern_matmul a;
    int type;
    int n_row;
    uint8_t *map; /* owned, map_bytes */
    size_t map_bytes;
    uint8_t *x;     /* owned */
    float *scratch; /* owned */
} product;

static void product_make(product *p, int type, int n_row, int n_col, int n_tok, fill how,
                         uint64_t seed)
{
    const kern_act act = ref.act[type];
    const size_t row_bytes = dtype_row_bytes((dtype)type, (size_t)n_col);
    const size_t w_bytes = row_bytes * (size_t)n_row;
    const size_t page = 4096;
    const size_t used = size_align(w_bytes, page);
    rng r = {seed};
    p->map_bytes = used + page;
    p->map = mmap(NULL, p->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p->map != MAP_FAILED);
    assert_int_equal(mprotect(p->map + used, page, PROT_NONE), 0);
    uint8_t *w = p->map + used - w_bytes;
    fill_weights(w, type, (size_t)n_row * (size_t)n_col, how, &r);

    const size_t x_stride = x_row_bytes(act, n_col);
    p->type = type;
    p->n_row = n_row;
    p->x = mem_alloc_aligned(x_stride * (size_t)n_tok);
    p->scratch = mem_alloc((size_t)n_col * sizeof(float));
    assert_non_null(p->x);
    assert_non_null(p->scratch);
    fill_x(&ref, act, p->x, x_stride, n_tok, n_col, p->scratch, &r);
    p->a = (kern_matmul){.w = w,
                         .w_stride = row_bytes,
                         .n_col = n_col,
                         .x = p->x,
                         .x_stride = x_stride,
                         .n_tok = n_tok};
}

static void product_free(product *p)
{
    munmap(p->map, p->map_bytes);
    mem_free(p->x);
    mem_free(p->scratch);
}

/* n floats whose bits are GUARD. */
static float *guarded(size_t n)
{
    const uint32_t bits = GUARD;
    float *y = mem_alloc(n * sizeof *y);
    assert_non_null(y);
    for (size_t i = 0; i < n; i++)
        memcpy(&y[i], &bits, sizeof bits);
    return y;
}

/* Rows [row0, row1) by k into fresh memory of n_y rows of y_stride, guarded. */
static float *multiply(const kern_table *k, const product *p, size_t y_stride, size_t n_y, int row0,
                       int row1)
{
    kern_matmul a = p->a;
    a.y = guarded(n_y * y_stride);
    a.y_stride = y_stride;
    k->matmul[p->type](&a, row0, row1);
    return a.y;
}

/* Bits equal, or NaN on both sides (which NaN is left open). */
static bool same_float(float a, float b)
{
    return (a != a && b != b) || memcmp(&a, &b, sizeof a) == 0;
}

static void expect_same(const float *got, const float *want, size_t n, const product *p,
                        const char *name)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &want[i], sizeof bits);
        if (bits == GUARD ? memcmp(&got[i], &want[i], 4) == 0 : same_float(got[i], want[i]))
            continue;
        fail_msg("%s %s: %d x %d, %d tokens: value %zu is %a, want %a", name,
                 dtype_name((dtype)p->type), p->n_row, p->a.n_col, p->a.n_tok, i, (double)got[i],
                 (double)want[i]);
    }
}

/* Every level against the reference, rows [row0, row1). */
static void expect_levels_equal_ref(const product *p, size_t y_stride, size_t n_y, int row0,
                                    int row1)
{
    float *want = multiply(&ref, p, y_stride, n_y, row0, row1);
    for (int i = 0; i < level.n; i++) {
        float *got = multiply(&level.table[i], p, y_stride, n_y, row0, row1);
        expect_same(got, want, n_y * y_stride, p, level.table[i].name);
        mem_free(got);
    }
    mem_free(want);
}

/* ---- Walking over types and shapes -------------------------------------------------------- */

typedef void type_fn(int type);

static void each_type(type_fn *f)
{
    for (int type = 0; type < KERN_N_TYPE; type++)
        if (ref.act[type] != KERN_ACT_NONE)
            f(type);
}

/* The i-th number of columns for a type, 0 past the last. */
static int columns(int type, int i)
{
    static const int any[] = {1, 7, 15, 16, 17, 31, 64, 100, 257, 1040, 0};
    static const int by32[] = {32, 64, 96, 224, 256, 288, 608, 0};
    static const int by64[] = {64, 192, 256, 320, 576, 0};
    static const int by256[] = {256, 512, 1280, 0};
    switch (dtype_find((uint32_t)type)->block_values) {
    case 1:
        return any[i];
    case 32:
        return by32[i];
    case 64:
        return by64[i];
    default:
        return by256[i];
    }
}

/* A number of columns with a remainder of every kind, for tests that vary something else. */
static int some_columns(int type)
{
    switch (dtype_find((uint32_t)type)->block_values) {
    case 1:
        return 333;
    case 32:
        return 352;
    case 64:
        return 320;
    default:
        return 512;
    }
}

/* ---- Tests -------------------------------------------------------------------------------- */

/* A slot forgotten: a type with a decoder but no product, or the other way round. */
static void test_table_every_decodable_type_has_a_product(void **state)
{
    (void)state;
    for (int type = 0; type < KERN_N_TYPE; type++) {
        assert_int_equal(ref.act[type] != KERN_ACT_NONE, kern_can_decode(type));
        assert_int_equal(ref.act[type] == KERN_ACT_Q8, kern_group_traits_of(type)->has_int);
        for (int i = 0; i < level.n; i++) {
            assert_int_equal(level.table[i].act[type], ref.act[type]);
            assert_int_equal(!level.table[i].matmul[type], ref.act[type] == KERN_ACT_NONE);
        }
    }
}

static void shapes_equal(int type)
{
    static const int rows[] = {1, 3, 8, 15, 16, 17, 32, 41};
    for (int i = 0; columns(type, i); i++) {
        for (size_t j = 0; j < ARRAY_LEN(rows); j++) {
            const int n_tok = 1 + (i + (int)j) % 9;
            product p;
            product_make(&p, type, rows[j], columns(type, i), n_tok, FILL_SANE, 7 * j + i + 1);
            expect_levels_equal_ref(&p, (size_t)rows[j], (size_t)n_tok, 0, rows[j]);
            product_free(&p);
        }
    }
}

/* A tail of rows, columns or groups handled otherwise than its kind; a read past the last block. */
static void test_matmul_any_shape_equals_ref(void **state)
{
    (void)state;
    each_type(shapes_equal);
}

static void values_equal(int type)
{
    for (int how = 0; how < N_FILL; how++) {
        product p;
        product_make(&p, type, 19, some_columns(type), 5, (fill)how, 99 + (uint64_t)how);
        expect_levels_equal_ref(&p, 19, 5, 0, 19);
        if (p.a.n_col >= 32 && ref.act[type] == KERN_ACT_Q8) {
            /* the largest activations, too: int16 sums that saturate */
            for (size_t t = 0; t < 5; t++) {
                uint8_t *row = p.x + t * p.a.x_stride;
                for (int i = 0; i < p.a.n_col; i++)
                    p.scratch[i] = t == 0 || (t == 1 && i % 2) ? -1.0f : 1.0f;
                ref.quant_q8(row, p.scratch, p.a.n_col);
            }
            expect_levels_equal_ref(&p, 19, 5, 0, 19);
        }
        product_free(&p);
    }
}

/* A weight of -128 negated in 8 bits; a pair of products past 32767; scales that are inf, NaN or
 * subnormal in a hostile file. */
static void test_matmul_extreme_values_equal_ref(void **state)
{
    (void)state;
    each_type(values_equal);
}

static void zero_sum_equal(int type)
{
    const float small = 0x1p-24f;
    product p;
    if (ref.act[type] != KERN_ACT_F32)
        return;
    product_make(&p, type, 3, 19, 2, FILL_SANE, 1);
    const size_t value_bytes = p.a.w_stride / 19;
    uint8_t *w = p.map + ((const uint8_t *)p.a.w - p.map);
    for (size_t i = 0; i < 3 * 19; i++)
        kern_encode(type, w + i * value_bytes, &small, 1);
    for (size_t i = 0; i < 2 * 19; i++)
        ((float *)(void *)p.x)[i] = -0x1p-140f;
    float *want = multiply(&ref, &p, 3, 2, 0, 3);
    assert_true(want[0] == 0 && signbit(want[0]));
    expect_levels_equal_ref(&p, 3, 2, 0, 3);
    mem_free(want);
    product_free(&p);
}

/* Lanes past the last column that take part: where every product underflows to -0, +0 comes out. */
static void test_matmul_lanes_past_the_end_keep_their_zero(void **state)
{
    (void)state;
    each_type(zero_sum_equal);
}

static void batch_equals_rows(const kern_table *k, const product *p)
{
    const size_t n_row = (size_t)p->n_row;
    for (int n_tok = 1; n_tok <= p->a.n_tok; n_tok += n_tok < 9 ? 1 : 61) {
        product all = *p;
        all.a.n_tok = n_tok;
        float *got = multiply(k, &all, n_row, (size_t)n_tok, 0, p->n_row);
        product one = *p;
        one.a.n_tok = 1;
        for (int t = 0; t < n_tok; t++) {
            one.a.x = (const uint8_t *)p->a.x + (size_t)t * p->a.x_stride;
            float *want = multiply(k, &one, n_row, 1, 0, p->n_row);
            expect_same(got + (size_t)t * n_row, want, n_row, &all, k->name);
            mem_free(want);
        }
        mem_free(got);
    }
}

static void batches_equal(int type)
{
    /* floats: several panels of columns, too, and the last a part of one */
    const int n_col = ref.act[type] == KERN_ACT_F32 ? 1043 : some_columns(type);
    product p;
    product_make(&p, type, 21, n_col, 140, FILL_SANE, 5);
    batch_equals_rows(&ref, &p);
    for (int i = 0; i < level.n; i++)
        batch_equals_rows(&level.table[i], &p);
    product_free(&p);
}

/* B118: greedy text that depends on how many rows are computed at once. */
static void test_matmul_n_tokens_equal_n_calls_of_one(void **state)
{
    (void)state;
    each_type(batches_equal);
}

static void parts_equal(int type)
{
    static const int cut[] = {0, 5, 16, 17, 40, 41, 53};
    const size_t n_row = 53;
    product p;
    product_make(&p, type, (int)n_row, some_columns(type), 3, FILL_SANE, 11);
    float *want = multiply(&ref, &p, n_row, 3, 0, (int)n_row);
    for (int i = 0; i < level.n; i++) {
        kern_matmul a = p.a;
        a.y = guarded(3 * n_row);
        a.y_stride = n_row;
        for (size_t j = 0; j + 1 < ARRAY_LEN(cut); j++)
            level.table[i].matmul[type](&a, cut[j], cut[j + 1]);
        expect_same(a.y, want, 3 * n_row, &p, level.table[i].name);
        mem_free(a.y);
    }
    /* one part writes its rows only */
    expect_levels_equal_ref(&p, n_row + 9, 3, 17, 40);
    product_free(&p);
    mem_free(want);
}

/* A thread that writes rows of its neighbour, or whose rows depend on where its part begins. */
static void test_matmul_any_parts_equal_whole(void **state)
{
    (void)state;
    each_type(parts_equal);
}

static void lists_equal(int type)
{
    static const int32_t x_row[] = {6, 0, 3, 3, 1, 5, 2};
    static const int32_t y_row[] = {2, 9, 0, 7, 4, 1, 8};
    product p;
    product_make(&p, type, 18, some_columns(type), 7, FILL_SANE, 13);
    p.a.x_row = x_row;
    p.a.y_row = y_row;
    expect_levels_equal_ref(&p, 31, 10, 0, 18);

    float *got = multiply(&ref, &p, 31, 10, 0, 18);
    for (int t = 0; t < 7; t++) {
        product one = p;
        one.a.n_tok = 1;
        one.a.x_row = one.a.y_row = NULL;
        one.a.x = p.x + (size_t)x_row[t] * p.a.x_stride;
        float *want = multiply(&ref, &one, 18, 1, 0, 18);
        expect_same(got + 31 * y_row[t], want, 18, &one, "generic, lists");
        mem_free(want);
    }
    mem_free(got);
    product_free(&p);
}

/* B044: a strided view taken for a contiguous one; lists of rows ignored or swapped. */
static void test_matmul_row_lists_and_strides_are_followed(void **state)
{
    (void)state;
    each_type(lists_equal);
}

/* Wider strides of w and x than their rows need, w at odd addresses. */
static void wide_equal(int type)
{
    const int n_row = 20, n_col = some_columns(type), n_tok = 4;
    product p;
    product_make(&p, type, n_row, n_col, n_tok, FILL_SANE, 17);
    float *want = multiply(&ref, &p, (size_t)n_row, (size_t)n_tok, 0, n_row);

    product wide = p;
    wide.a.w_stride = p.a.w_stride + 37;
    wide.a.x_stride = p.a.x_stride + 128;
    uint8_t *w = mem_zalloc(wide.a.w_stride * (size_t)n_row + 1);
    uint8_t *x = mem_alloc_aligned(wide.a.x_stride * (size_t)n_tok);
    assert_non_null(w);
    assert_non_null(x);
    for (size_t i = 0; i < (size_t)n_row; i++)
        memcpy(w + 1 + i * wide.a.w_stride, (const uint8_t *)p.a.w + i * p.a.w_stride,
               p.a.w_stride);
    for (size_t i = 0; i < (size_t)n_tok; i++)
        memcpy(x + i * wide.a.x_stride, p.x + i * p.a.x_stride, p.a.x_stride);
    wide.a.w = w + 1;
    wide.a.x = x;
    for (int i = -1; i < level.n; i++) {
        const kern_table *k = i < 0 ? &ref : &level.table[i];
        float *got = multiply(k, &wide, (size_t)n_row, (size_t)n_tok, 0, n_row);
        expect_same(got, want, (size_t)(n_row * n_tok), &p, k->name);
        mem_free(got);
    }
    mem_free(want);
    mem_free(w);
    mem_free(x);
    product_free(&p);
}

/* An aligned load of weights, which a file may put anywhere. */
static void test_matmul_unaligned_strided_weights_equal(void **state)
{
    (void)state;
    each_type(wide_equal);
}

static void far_rows_equal(int type)
{
    const int n_col = some_columns(type) & ~255;
    const size_t stride = (size_t)150 << 20;
    product p;
    product_make(&p, type, 16, n_col, 2, FILL_SANE, 19);
    const size_t n_bytes = 16 * stride;
    uint8_t *w = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(w != MAP_FAILED);
    for (size_t i = 0; i < 16; i++)
        memcpy(w + i * stride, (const uint8_t *)p.a.w + i * p.a.w_stride, p.a.w_stride);
    p.a.w = w;
    p.a.w_stride = stride;
    expect_levels_equal_ref(&p, 16, 2, 0, 16);
    munmap(w, n_bytes);
    product_free(&p);
}

/* Offsets of rows that wrap in 32 bits: 16 rows of 150 MB. */
static void test_matmul_rows_far_apart_equal_ref(void **state)
{
    (void)state;
    each_type(far_rows_equal);
}

/* Activation j of a row as the type reads it. */
static double x_value(const uint8_t *row, int n_col, kern_act act, int j)
{
    float x;
    if (act == KERN_ACT_Q8)
        return (double)(int8_t)row[j] * (double)kern_q8_d(row, n_col)[j / 32];
    memcpy(&x, row + (size_t)j * sizeof x, sizeof x);
    return (double)x;
}

/* The minimum that value j of a row of weights has had taken off. */
static double minimum(int type, const uint8_t *w, int j)
{
    if (!kern_group_traits_of(type)->has_min)
        return 0;
    kern_group g;
    kern_group_decode(type, w, j / 32, &g);
    return (double)g.m[j / 16 % 2];
}

/* |y - sum in double| is at most (n / 16 + 8) * 2^-23 * sum of |x| (|w| + 2 |m|), m the minimum:
 * no chain has more than n / 16 + 4 roundings, each of at most 2^-24 of the sum of the sizes. */
static void ref_close(int type)
{
    const int n_col = some_columns(type);
    product p;
    product_make(&p, type, 9, n_col, 3, FILL_SANE, 23);
    float *y = multiply(&ref, &p, 9, 3, 0, 9);
    for (size_t i = 0; i < 27; i++) {
        const uint8_t *x = p.x + i / 9 * p.a.x_stride;
        const uint8_t *w = (const uint8_t *)p.a.w + i % 9 * p.a.w_stride;
        double sum = 0, size = 0;
        kern_decode(type, p.scratch, w, (size_t)n_col);
        for (int j = 0; j < n_col; j++) {
            const double wj = (double)p.scratch[j];
            const double xj = x_value(x, n_col, ref.act[type], j);
            sum += wj * xj;
            size += (fabs(wj) + 2 * fabs(minimum(type, w, j))) * fabs(xj);
        }
        if (fabs(sum - (double)y[i]) > ((double)n_col / 16 + 8) * 0x1p-23 * size)
            fail_msg("%s: value %zu is %.9g, in double %.9g", dtype_name((dtype)type), i,
                     (double)y[i], sum);
    }
    mem_free(y);
    product_free(&p);
}

/* The formulas themselves wrong: a scale of the wrong half, a minimum with the wrong sign. */
static void test_matmul_ref_is_close_to_double(void **state)
{
    (void)state;
    each_type(ref_close);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_every_decodable_type_has_a_product),
        cmocka_unit_test(test_matmul_any_shape_equals_ref),
        cmocka_unit_test(test_matmul_extreme_values_equal_ref),
        cmocka_unit_test(test_matmul_lanes_past_the_end_keep_their_zero),
        cmocka_unit_test(test_matmul_n_tokens_equal_n_calls_of_one),
        cmocka_unit_test(test_matmul_any_parts_equal_whole),
        cmocka_unit_test(test_matmul_row_lists_and_strides_are_followed),
        cmocka_unit_test(test_matmul_unaligned_strided_weights_equal),
        cmocka_unit_test(test_matmul_rows_far_apart_equal_ref),
        cmocka_unit_test(test_matmul_ref_is_close_to_double),
    };
    const char *only = NULL;
    const char *bench = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--cpu") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(argv[i], "--bench") == 0)
            bench = i + 1 < argc && argv[i + 1][0] != '-' ? argv[++i] : "";
    }
    if (!find_levels(only)) {
        fprintf(stderr, "--cpu %s: not a level of this processor\n", only);
        return 2;
    }
    if (bench) {
        bench_matmul(level.n ? level.table : &ref, level.n ? level.n : 1, bench);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
