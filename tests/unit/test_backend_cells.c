/* test_backend_cells.c - cells in pages: stored, loaded, and moved to other positions. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"

enum { D = 64, N_ROT = 48, N_HEAD = 3, N_VAL = D * N_HEAD, N_PAGE = 3, N_CELL = N_PAGE * BE_PAGE };

static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
static const be_rotary rot = {.n_head = N_HEAD, .d = D, .n_rot = N_ROT, .base = 1e6};

/* Pages with other bytes before and behind these cells, and rows to store. */
typedef struct {
    backend *be;
    be_cells c;
    void *page[N_PAGE];
    size_t page_bytes;
    float *rows; /* [N_CELL][N_VAL] */
} fixture;

static void open_fixture(fixture *f, dtype type, int n_thread)
{
    backend_params p = {.n_thread = n_thread};
    assert_int_equal(backend_create(&f->be, &p, NULL), FT_OK);
    f->c = (be_cells){.page = f->page,
                      .offset = 192,
                      .type = type,
                      .cell_bytes = be_cell_bytes(type, N_VAL),
                      .per_page = BE_PAGE};
    f->page_bytes = 192 + BE_PAGE * f->c.cell_bytes + 64;
    for (int i = 0; i < N_PAGE; i++) {
        f->page[i] = malloc(f->page_bytes);
        assert_non_null(f->page[i]);
        memset(f->page[i], 0xa5, f->page_bytes);
    }
    f->rows = malloc((size_t)N_CELL * N_VAL * sizeof *f->rows);
    assert_non_null(f->rows);
    uint32_t x = 7;
    for (int i = 0; i < N_CELL * N_VAL; i++) {
        x = x * 1664525u + 1013904223u;
        f->rows[i] = (float)(int32_t)x * 0x1p-31f;
    }
    be_store_cells(f->be, &f->c, 0, f->rows, N_CELL, N_VAL);
}

static void close_fixture(fixture *f)
{
    for (int i = 0; i < N_PAGE; i++) {
        const uint8_t *p = f->page[i];
        for (size_t k = 0; k < 192; k++)
            assert_int_equal(p[k], 0xa5);
        for (size_t k = f->page_bytes - 64; k < f->page_bytes; k++)
            assert_int_equal(p[k], 0xa5);
        free(f->page[i]);
    }
    free(f->rows);
    backend_free(f->be);
}

/* Copies of all cells. */
static uint8_t *copy_of(const fixture *f)
{
    uint8_t *x = malloc(N_CELL * f->c.cell_bytes);
    assert_non_null(x);
    for (int i = 0; i < N_CELL; i++)
        memcpy(x + (size_t)i * f->c.cell_bytes, be_cell(&f->c, i), f->c.cell_bytes);
    return x;
}

/* Catches runs of cells that do not end with their page, and cells stored beside their place. */
static void test_cells_stored_over_pages_are_loaded_again(void **state)
{
    (void)state;
    static const int at[] = {0, 510, 511, 512, 513, 1023};
    fixture f;
    open_fixture(&f, DTYPE_F32, 1);
    float got[3 * N_VAL];
    for (size_t i = 0; i < ARRAY_LEN(at); i++) {
        be_load_cells(f.be, &f.c, at[i], got, 3, N_VAL);
        assert_memory_equal(got, f.rows + (size_t)at[i] * N_VAL, sizeof got);
        assert_int_equal(be_cells_run(&f.c, at[i], 3),
                         at[i] % BE_PAGE < 510 ? 3 : 512 - at[i] % BE_PAGE);
    }
    be_cells blocks = f.c;
    blocks.per_page = BE_PAGE / 4;
    assert_ptr_equal(be_cell(&blocks, 128), (uint8_t *)f.page[1] + 192);
    assert_int_equal(be_cells_run(&blocks, 120, 100), 8);
    close_fixture(&f);
}

typedef struct {
    int dst, src, n;
} move;

/* Short and long ways, within a page, over its border, onto what is still to be read. */
static const move moves[] = {
    {0, 1, 1},     {0, 1, 1535},   {3, 10, 500},         {500, 515, 40}, {511, 512, 513},
    {0, 512, 512}, {5, 1024, 511}, {600, 600 + 77, 800}, {10, 1500, 0},
};

/* Catches bytes overwritten before they were moved, and cells beside the range that change. */
static void test_values_moved_are_the_same_bytes(void **state)
{
    (void)state;
    for (size_t t = 0; t < ARRAY_LEN(types); t++)
        for (size_t i = 0; i < ARRAY_LEN(moves); i++)
            for (int n_thread = 1; n_thread <= 2; n_thread++) {
                fixture f;
                open_fixture(&f, types[t], n_thread);
                const move *m = &moves[i];
                uint8_t *was = copy_of(&f);
                be_move_cells(f.be, &f.c, m->dst, m->src, m->n, NULL);
                for (int k = 0; k < N_CELL; k++) {
                    int from = k >= m->dst && k < m->dst + m->n ? k - m->dst + m->src : k;
                    assert_memory_equal(be_cell(&f.c, k), was + (size_t)from * f.c.cell_bytes,
                                        f.c.cell_bytes);
                }
                free(was);
                close_fixture(&f);
            }
}

/* Rows as keys of positions first, first + 1, ...: normalised and rotated. */
static void make_keys(const fixture *f, float *x, int row, int n, int first)
{
    float *c = malloc((size_t)n * N_ROT / 2 * sizeof *c),
          *s = malloc((size_t)n * N_ROT / 2 * sizeof *s);
    int32_t *pos = malloc((size_t)n * sizeof *pos);
    float w[D];
    assert_true(c && s && pos);
    for (int i = 0; i < n; i++)
        pos[i] = first + i;
    for (int i = 0; i < D; i++)
        w[i] = 1;
    memcpy(x, f->rows + (size_t)row * N_VAL, (size_t)n * N_VAL * sizeof *x);
    be_rope_table(f->be, c, s, pos, n, N_ROT, rot.base);
    be_norm_rope(f->be, x, w, n, N_HEAD, D, D, 1e-6f, c, s, N_ROT);
    free(c);
    free(s);
    free(pos);
}

/* Catches keys turned the wrong way, by the wrong angle or in the wrong pairs: a key moved from p to p - n is
 * the key computed for position p - n, but for roundings. Values up to 8, so 2^-20 are a few units. */
static void test_keys_moved_are_those_of_their_new_positions(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(moves); i++) {
        const move *m = &moves[i];
        fixture f;
        open_fixture(&f, DTYPE_F32, 2);
        float *want = malloc((size_t)N_CELL * N_VAL * sizeof *want);
        float *got = malloc((size_t)N_CELL * N_VAL * sizeof *got);
        assert_true(want && got);
        make_keys(&f, got, 0, N_CELL, 0);
        be_store_cells(f.be, &f.c, 0, got, N_CELL, N_VAL);
        uint8_t *was = copy_of(&f);
        be_move_cells(f.be, &f.c, m->dst, m->src, m->n, &rot);
        for (int k = 0; k < N_CELL; k++)
            if (k < m->dst || k >= m->dst + m->n)
                assert_memory_equal(be_cell(&f.c, k), was + (size_t)k * f.c.cell_bytes,
                                    f.c.cell_bytes);
        if (m->n > 0) {
            make_keys(&f, want, m->src, m->n, m->dst);
            be_load_cells(f.be, &f.c, m->dst, got, m->n, N_VAL);
        }
        for (int k = 0; k < m->n * N_VAL; k++) {
            assert_true(fabsf(got[k] - want[k]) <= 0x1p-20f);
            if (k % D >= N_ROT) /* what is not rotated keeps its bits */
                assert_true(got[k] == want[k]);
        }
        free(was);
        free(want);
        free(got);
        close_fixture(&f);
    }
}

/* Catches a key that is not decoded, turned and encoded in its own type: within a unit of the type's rounding
 * (F16: 2^-11 of the value; Q8_0: half a step of the block's largest, twice). */
static void test_keys_of_16_and_8_bits_are_turned_too(void **state)
{
    (void)state;
    static const float bound[] = {0x1p-20f, 0x1p-10f, 0x1p-6f};
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        enum { DST = 500, SRC = 530, N = 60 };
        fixture f;
        open_fixture(&f, types[t], 1);
        static float key[N_CELL * N_VAL], want[N * N_VAL], got[N * N_VAL];
        make_keys(&f, key, 0, N_CELL, 0);
        be_store_cells(f.be, &f.c, 0, key, N_CELL, N_VAL);
        be_move_cells(f.be, &f.c, DST, SRC, N, &rot);
        make_keys(&f, want, SRC, N, DST);
        be_load_cells(f.be, &f.c, DST, got, N, N_VAL);
        for (int k = 0; k < N * N_VAL; k++)
            assert_true(fabsf(got[k] - want[k]) <= 4 * bound[t]);
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_stored_over_pages_are_loaded_again),
        cmocka_unit_test(test_values_moved_are_the_same_bytes),
        cmocka_unit_test(test_keys_moved_are_those_of_their_new_positions),
        cmocka_unit_test(test_keys_of_16_and_8_bits_are_turned_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
