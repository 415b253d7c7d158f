/* test_backend_matmul.c - products that share a region are those of be_matmul, bit for bit, with any
 * number of threads. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "kern/kern.h"
#include "support/matmul_case.h"

/* Rows no multiple of a tile; together enough work for threads. */
enum { N_COL = 2048, N_TOK = 3, N_W = 3, MAX_ROW = 407, N_EXPERT = 5, N_USED = 2 };

static const int n_row_of[N_W] = {407, 16, 133};
static const dtype type_of[N_W] = {DTYPE_Q8_0, DTYPE_F32, DTYPE_Q4_0};
static const int threads[] = {1, 2, 3, 70};

static tensor make_weights(rng *r, dtype type, int n_mat, int n_row)
{
    size_t row_bytes = dtype_row_bytes(type, N_COL), n = (size_t)n_mat * (size_t)n_row;
    uint8_t *w = malloc(n * row_bytes);
    float *x = malloc(N_COL * sizeof *x);
    assert_true(w && x);
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < N_COL; k++)
            x[k] = rng_f32(r);
        assert_true(kern_encode((int)type, w + i * row_bytes, x, N_COL));
    }
    free(x);
    return (tensor){.data = w,
                    .type = type,
                    .n_col = N_COL,
                    .n_row = n_row,
                    .n_mat = n_mat,
                    .row_bytes = row_bytes,
                    .mat_bytes = row_bytes * (size_t)n_row};
}

static void free_weights(tensor *t)
{
    union {
        const void *c;
        void *v;
    } p = {.c = t->data};
    free(p.v);
}

static backend *open_backend(int n_thread)
{
    backend *be;
    backend_params p = {.n_thread = n_thread};
    assert_int_equal(backend_create(&be, &p, NULL), FT_OK);
    return be;
}

static float *random_rows(rng *r, int n)
{
    float *x = malloc((size_t)n * sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < n; i++)
        x[i] = rng_f32(r);
    return x;
}

/* Room for n rows of outputs, filled with a pattern. */
static float *outputs(int n)
{
    float *y = malloc((size_t)n * MAX_ROW * sizeof *y);
    assert_non_null(y);
    memset(y, 0x5a, (size_t)n * MAX_ROW * sizeof *y);
    return y;
}

static be_act act_of(const float *x, int n_row)
{
    void *q8 = mem_alloc_aligned(be_act_bytes(n_row, N_COL));
    assert_non_null(q8);
    return be_act_of(x, n_row, N_COL, q8);
}

static void assert_rows(const float *a, const float *b, int n)
{
    assert_memory_equal(a, b, (size_t)n * MAX_ROW * sizeof *a);
}

/* Catches tiles of one product counted as those of its neighbour, tiles done twice or by nobody, and a
 * type given another's form of the rows. */
static void test_matmul_many_equals_one_by_one(void **state)
{
    (void)state;
    rng r = {.state = 11};
    float *x = random_rows(&r, N_TOK * N_COL);
    tensor w[N_W];
    for (int i = 0; i < N_W; i++)
        w[i] = make_weights(&r, type_of[i], 1, n_row_of[i]);
    for (size_t k = 0; k < ARRAY_LEN(threads); k++) {
        backend *one = open_backend(1), *be = open_backend(threads[k]);
        be_act a = act_of(x, N_TOK), b = act_of(x, N_TOK);
        be_product p[N_W];
        float *want[N_W];
        for (int i = 0; i < N_W; i++) {
            want[i] = outputs(N_TOK);
            be_matmul(one, want[i], MAX_ROW, &w[i], &a);
            p[i] = (be_product){.y = outputs(N_TOK), .y_stride = MAX_ROW, .w = &w[i]};
        }
        be_matmul_many(be, p, N_W, &b);
        for (int i = 0; i < N_W; i++) {
            assert_rows(p[i].y, want[i], N_TOK);
            free(p[i].y);
            free(want[i]);
        }
        mem_free(a.q8);
        mem_free(b.q8);
        backend_free(one);
        backend_free(be);
    }
    for (int i = 0; i < N_W; i++)
        free_weights(&w[i]);
    free(x);
}

static float silu_mul(float g, float u)
{
    kern_table k;
    float y;
    kern_select(&k, 0);
    k.silu_mul(&y, &g, &u, 1);
    return y;
}

/* Catches SiLU before the tile's products are there, on the wrong rows, or with gate and up swapped. */
static void test_swiglu_equals_its_parts(void **state)
{
    (void)state;
    rng r = {.state = 12};
    float *x = random_rows(&r, N_TOK * N_COL);
    tensor gate = make_weights(&r, DTYPE_Q8_0, 1, MAX_ROW);
    tensor up = make_weights(&r, DTYPE_Q4_0, 1, MAX_ROW);
    float *g = outputs(N_TOK), *u = outputs(N_TOK), *y = outputs(N_TOK), *scratch = outputs(N_TOK);
    for (size_t k = 0; k < ARRAY_LEN(threads); k++) {
        backend *be = open_backend(threads[k]);
        be_act a = act_of(x, N_TOK);
        be_matmul(be, g, MAX_ROW, &gate, &a);
        be_matmul(be, u, MAX_ROW, &up, &a);
        for (int i = 0; i < N_TOK * MAX_ROW; i++)
            g[i] = silu_mul(g[i], u[i]);
        be_swiglu(be, y, scratch, &gate, &up, &a);
        assert_rows(y, g, N_TOK);
        mem_free(a.q8);
        backend_free(be);
    }
    free(g);
    free(u);
    free(y);
    free(scratch);
    free_weights(&gate);
    free_weights(&up);
    free(x);
}

/* Matrix i of several. */
static tensor matrix_of(const tensor *t, int i)
{
    tensor m = *t;
    m.data = (const uint8_t *)t->data + (size_t)i * t->mat_bytes;
    m.n_mat = 1;
    return m;
}

/* Catches experts without rows taken for used ones, and ranges of tiles that cross from an expert to
 * the next one wrongly. */
static void test_experts_equal_plain_products(void **state)
{
    (void)state;
    static const int32_t id[N_TOK * N_USED] = {0, 3, 3, 4, 0, 4}; /* 1 and 2 are not used */
    rng r = {.state = 13};
    float *x = random_rows(&r, N_TOK * N_COL);
    tensor gate = make_weights(&r, DTYPE_Q8_0, N_EXPERT, MAX_ROW);
    tensor up = make_weights(&r, DTYPE_Q8_0, N_EXPERT, MAX_ROW);
    enum { N_PAIR = N_TOK * N_USED };
    float *y = outputs(N_PAIR), *u = outputs(N_PAIR), *g1 = outputs(1), *u1 = outputs(1);
    for (size_t k = 0; k < ARRAY_LEN(threads); k++) {
        backend *be = open_backend(threads[k]);
        int32_t first[N_EXPERT + 1], pair[N_PAIR], row[N_PAIR], used[N_EXPERT];
        be_experts e = {.n_row = N_TOK,
                        .n_used = N_USED,
                        .n_expert = N_EXPERT,
                        .id = id,
                        .first = first,
                        .pair = pair,
                        .row = row,
                        .used = used};
        be_experts_sort(be, &e);
        assert_int_equal(e.n_distinct, 3);
        be_act a = act_of(x, N_TOK);
        be_swiglu_experts(be, y, u, &gate, &up, &a, &e);
        for (int p = 0; p < N_PAIR; p++) {
            tensor g = matrix_of(&gate, id[p]), up1 = matrix_of(&up, id[p]);
            be_act b = act_of(x + (size_t)(p / N_USED) * N_COL, 1);
            be_swiglu(be, g1, u1, &g, &up1, &b);
            assert_memory_equal(y + (size_t)p * MAX_ROW, g1, MAX_ROW * sizeof *y);
            mem_free(b.q8);
        }
        mem_free(a.q8);
        backend_free(be);
    }
    free(y);
    free(u);
    free(g1);
    free(u1);
    free_weights(&gate);
    free_weights(&up);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul_many_equals_one_by_one),
        cmocka_unit_test(test_swiglu_equals_its_parts),
        cmocka_unit_test(test_experts_equal_plain_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
