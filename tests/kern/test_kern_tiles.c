/* test_kern_tiles.c - products with weights in tiles are those with the file's blocks, on every level. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/matmul_case.h"

enum { N_TOK_MAX = 131, GUARD = 0x7fc0dead };

static struct {
    kern_table table[4];
    int n;
} level;

static void find_levels(void)
{
    static const char *const names[] = {"avx2", "avx512", "neon", "i8mm"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        uint32_t flags;
        if (kern_cpu_parse(&flags, names[i]) && !(flags & ~kern_cpu_flags()))
            kern_select(&level.table[level.n++], flags);
    }
}

/* The whole matrix in tiles, ending where the allocation ends. */
static uint8_t *tiles_of(const kern_table *k, int type, const uint8_t *w, size_t stride, int n_row,
                         int n_col)
{
    int n_band = (n_row + KERN_ROW_TILE - 1) / KERN_ROW_TILE;
    size_t band_bytes = kern_tiles_row_bytes(type, n_col) * KERN_ROW_TILE;
    uint8_t *t = malloc((size_t)n_band * band_bytes);
    assert_non_null(t);
    memset(t, 0xee, (size_t)n_band * band_bytes);
    for (int i = 0; i < n_band; i++) {
        int left = n_row - i * KERN_ROW_TILE;
        kern_tiles_put(k, type, t + (size_t)i * band_bytes, w + (size_t)i * KERN_ROW_TILE * stride,
                       stride, left < KERN_ROW_TILE ? left : KERN_ROW_TILE, n_col);
    }
    return t;
}

static bool same_float(const float *a, const float *b)
{
    return (isnan(*a) && isnan(*b)) || memcmp(a, b, sizeof *a) == 0;
}

typedef struct {
    int type, n_row, n_col, n_tok;
    fill how;
    size_t stride; /* of the file's rows */
} shape;

static void fill_guard(float *y, int n)
{
    const uint32_t guard = GUARD;
    for (int i = 0; i < n; i++)
        memcpy(y + i, &guard, sizeof guard);
}

/* y of both layouts; in tiles by two calls, so that a call may begin behind row 0. */
static void compare(const kern_table *k, const shape *s, const uint8_t *w, const uint8_t *x)
{
    int n = s->n_tok * (s->n_row + 1);
    float *want = malloc((size_t)n * sizeof *want), *got = malloc((size_t)n * sizeof *got);
    assert_true(want && got);
    fill_guard(want, n);
    fill_guard(got, n);
    kern_matmul a = {.w = w,
                     .w_stride = s->stride,
                     .n_col = s->n_col,
                     .x = x,
                     .x_stride = kern_q8_row_bytes(s->n_col),
                     .y = want,
                     .y_stride = (size_t)s->n_row + 1,
                     .n_tok = s->n_tok};
    k->matmul[s->type](&a, 0, s->n_row);
    uint8_t *t = tiles_of(k, s->type, w, s->stride, s->n_row, s->n_col);
    a.w = t;
    a.w_stride = kern_tiles_row_bytes(s->type, s->n_col);
    a.y = got;
    int cut = s->n_row > KERN_ROW_TILE ? KERN_ROW_TILE : s->n_row;
    k->matmul_tiled[s->type](&a, 0, cut);
    k->matmul_tiled[s->type](&a, cut, s->n_row);
    for (int i = 0; i < n; i++)
        if (!same_float(got + i, want + i))
            fail_msg("%s, %s, %d x %d, %d tokens, fill %d: output %d: %a, want %a", k->name,
                     dtype_name((dtype)s->type), s->n_row, s->n_col, s->n_tok, (int)s->how, i,
                     (double)got[i], (double)want[i]);
    free(t);
    free(want);
    free(got);
}

static void each_level(const shape *of)
{
    shape copy = *of, *s = &copy;
    if (!kern_tiles_row_bytes(s->type, s->n_col))
        return;
    rng r = {.state = (uint64_t)(s->type + 1) * 77 + (uint64_t)s->n_col};
    size_t row_bytes = dtype_row_bytes((dtype)s->type, (size_t)s->n_col);
    s->stride = row_bytes + 6; /* rows of a part of a larger matrix */
    uint8_t *w = malloc((size_t)s->n_row * s->stride);
    uint8_t *x = mem_alloc_aligned((size_t)N_TOK_MAX * kern_q8_row_bytes(s->n_col));
    float *scratch = malloc((size_t)s->n_col * sizeof *scratch);
    assert_true(w && x && scratch);
    for (int i = 0; i < s->n_row; i++)
        fill_weights(w + (size_t)i * s->stride, s->type, (size_t)s->n_col, s->how, &r);
    for (int i = 0; i < level.n; i++) {
        const kern_table *k = &level.table[i];
        if (!kern_tiles_fit(k, s->type, s->n_col))
            continue;
        fill_x(k, KERN_ACT_Q8, x, kern_q8_row_bytes(s->n_col), s->n_tok, s->n_col, scratch, &r);
        compare(k, s, w, x);
    }
    free(w);
    mem_free(x);
    free(scratch);
}

/* Catches a field read from another's place, rows and columns mixed up, bands in the wrong order, rows
 * past the last written, and a chunk of tokens that goes on where the last one ended. */
static void test_tiles_any_shape_equals_file_layout(void **state)
{
    (void)state;
    static const int rows[] = {1, 16, 37}, cols[] = {256, 768}, toks[] = {1, 2, 7, N_TOK_MAX};
    for (int type = 0; type < KERN_N_TYPE; type++)
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
            for (size_t j = 0; j < ARRAY_LEN(cols); j++)
                for (size_t t = 0; t < ARRAY_LEN(toks); t++)
                    each_level(&(shape){.type = type,
                                        .n_row = rows[i],
                                        .n_col = cols[j],
                                        .n_tok = toks[t],
                                        .how = FILL_SANE,
                                        .stride = 0});
}

/* Catches signs, offsets and scales that only the extremes of a type show. */
static void test_tiles_extreme_values_equal_file_layout(void **state)
{
    (void)state;
    for (int type = 0; type < KERN_N_TYPE; type++)
        for (int how = 0; how < N_FILL; how++)
            each_level(
                &(shape){.type = type, .n_row = 21, .n_col = 512, .n_tok = 2, .how = (fill)how});
}

/* Catches a level whose common types have lost their tiles, so that nothing above was compared; rows that
 * are no whole tiles and types without a layout must be refused. */
static void test_tiles_fit_whole_superblocks_of_common_types(void **state)
{
    (void)state;
    static const int types[] = {DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q5_0, DTYPE_Q4_K, DTYPE_Q6_K};
    kern_table generic;
    kern_select(&generic, 0);
    assert_false(kern_tiles_fit(&generic, DTYPE_Q8_0, 256));
    for (int i = 0; i < level.n; i++) {
        const kern_table *k = &level.table[i];
        for (size_t j = 0; j < ARRAY_LEN(types); j++)
            assert_true(kern_tiles_fit(k, types[j], 1024));
        assert_false(kern_tiles_fit(k, DTYPE_Q8_0, 1024 + 32));
        assert_false(kern_tiles_fit(k, DTYPE_F32, 1024));
        assert_false(kern_tiles_fit(k, -1, 1024));
        assert_false(kern_tiles_fit(k, KERN_N_TYPE, 1024));
    }
}

int main(void)
{
    find_levels();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles_fit_whole_superblocks_of_common_types),
        cmocka_unit_test(test_tiles_any_shape_equals_file_layout),
        cmocka_unit_test(test_tiles_extreme_values_equal_file_layout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
