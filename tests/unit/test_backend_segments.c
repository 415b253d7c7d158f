/* test_backend_segments.c - operations with a state per sequence: several sequences in one call, on several
 * threads, give what each gives alone on one thread, bit for bit, states included. Sizes are such that the
 * loops are shared out.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"

enum { N_SEG = 5, WINDOW = 16 };

/* A prompt's chunk, windows of a round, a single row, and rows that wait to be applied. */
static const struct {
    int n_row, n_commit, n_apply, n_extra;
} part[N_SEG] = {{4, 1, 0, 0}, {37, 37, 2, 2}, {1, 1, 3, 3}, {5, 1, 4, 4}, {1, 0, 0, 1}};

static int rows_before(int seg)
{
    int n = 0;
    for (int i = 0; i < seg; i++)
        n += part[i].n_row;
    return n;
}

/* n numbers in [lo, hi), the same for the same seed. */
static float *numbers(size_t n, uint32_t seed, float lo, float hi)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = lo + (hi - lo) * (float)(seed >> 8) * 0x1p-24f;
    }
    return x;
}

static backend *make(int n_thread)
{
    backend *be;
    backend_params p = {.n_thread = n_thread};
    assert_int_equal(backend_create(&be, &p, NULL), FT_OK);
    return be;
}

static void same(const float *a, const float *b, size_t n)
{
    assert_memory_equal(a, b, n * sizeof *a);
}

/* Catches rows that take the history of a neighbour, and a history that is rewritten while rows are still
 * read from it; taps a row apart (delta net) and three (n-gram embedding). B041 B042 */
static void test_conv_of_several_sequences_equals_each_alone(void **state)
{
    (void)state;
    enum { N_COL = 5000, N_TAP = 4 };
    backend *one = make(1), *many = make(4);
    size_t n_row = (size_t)rows_before(N_SEG);
    float *x = numbers(n_row * N_COL, 1, -1, 1), *w = numbers(N_TAP * N_COL, 2, -1, 1);
    for (int dilation = 1; dilation <= 3; dilation += 2) {
        int n_old = (N_TAP - 1) * dilation;
        size_t n_hist = (size_t)(n_old + WINDOW) * N_COL;
        float *y = malloc(n_row * N_COL * sizeof *y), *alone = malloc(n_row * N_COL * sizeof *y);
        float *hist[2][N_SEG];
        be_conv_seg seg[N_SEG];
        for (int i = 0; i < N_SEG; i++) {
            be_conv_seg g = {.row = rows_before(i),
                             .n_row = part[i].n_row,
                             .n_commit = part[i].n_commit,
                             .hist_n = n_old + part[i].n_extra};
            for (int k = 0; k < 2; k++)
                hist[k][i] = numbers(n_hist, 10 + (uint32_t)i, -1, 1);
            seg[i] = g;
            seg[i].hist = hist[0][i];
            g.hist = hist[1][i];
            g.row = 0;
            size_t at = (size_t)seg[i].row * N_COL;
            be_conv_silu(one, alone + at, x + at, w, N_TAP, dilation, N_COL, &g, 1);
        }
        be_conv_silu(many, y, x, w, N_TAP, dilation, N_COL, seg, N_SEG);
        same(y, alone, n_row * N_COL);
        for (int i = 0; i < N_SEG; i++) {
            same(hist[0][i], hist[1][i], n_hist);
            free(hist[0][i]);
            free(hist[1][i]);
        }
        free(y);
        free(alone);
    }
    free(x);
    free(w);
    backend_free(one);
    backend_free(many);
}

/* Catches a state that moves on by a neighbour's rows, rows that are applied twice or to another, and kept rows
 * that are overwritten before the last head has read them. B040 B042 */
static void test_gdn_of_several_sequences_equals_each_alone(void **state)
{
    (void)state;
    enum { N_KEY = 4, N_VAL = 8, D = 128, STRIDE = (2 * N_KEY + N_VAL) * D, OUT = N_VAL * D };
    backend *one = make(1), *many = make(4);
    size_t n_row = (size_t)rows_before(N_SEG), n_state = (size_t)N_VAL * D * D;
    size_t n_pend = WINDOW * be_gdn_pend_floats(N_KEY, N_VAL, D);
    float *qkv = numbers(n_row * STRIDE, 1, -0.1f, 0.1f);
    float *decay = numbers(n_row * N_VAL, 2, 0.5f, 1), *beta = numbers(n_row * N_VAL, 3, 0, 1);
    float *o = malloc(n_row * OUT * sizeof *o), *alone = malloc(n_row * OUT * sizeof *o);
    float *S[2][N_SEG], *pend[2][N_SEG];
    be_gdn_seg seg[N_SEG];
    for (int i = 0; i < N_SEG; i++) {
        for (int k = 0; k < 2; k++) {
            S[k][i] = numbers(n_state, 20 + (uint32_t)i, -1, 1);
            pend[k][i] = numbers(n_pend, 30 + (uint32_t)i, 0, 0.2f);
        }
        seg[i] = (be_gdn_seg){.row = rows_before(i),
                              .n_row = part[i].n_row,
                              .n_commit = part[i].n_commit,
                              .n_apply = part[i].n_apply,
                              .state = S[0][i],
                              .pend = pend[0][i]};
        be_gdn_seg g = seg[i];
        size_t row = (size_t)g.row;
        g.row = 0;
        g.state = S[1][i];
        g.pend = pend[1][i];
        be_gdn(one, alone + row * OUT, qkv + row * STRIDE, decay + row * N_VAL, beta + row * N_VAL,
               N_KEY, N_VAL, D, &g, 1);
    }
    be_gdn(many, o, qkv, decay, beta, N_KEY, N_VAL, D, seg, N_SEG);
    same(o, alone, n_row * OUT);
    for (int i = 0; i < N_SEG; i++) {
        same(S[0][i], S[1][i], n_state);
        same(pend[0][i], pend[1][i], n_pend);
        for (int k = 0; k < 2; k++) {
            free(S[k][i]);
            free(pend[k][i]);
        }
    }
    free(qkv);
    free(decay);
    free(beta);
    free(o);
    free(alone);
    backend_free(one);
    backend_free(many);
}

/* Catches gates that depend on the threads or the rows beside them. */
static void test_gates_of_many_rows_equal_each_alone(void **state)
{
    (void)state;
    enum { N_ROW = 40, N_HEAD = 32 };
    backend *one = make(1), *many = make(4);
    float *a = numbers(N_HEAD, 1, -8, 0), *dt = numbers(N_HEAD, 2, -4, 4);
    float *x[2], *b[2];
    for (int k = 0; k < 2; k++) {
        x[k] = numbers((size_t)N_ROW * N_HEAD, 3, -40, 40);
        b[k] = numbers((size_t)N_ROW * N_HEAD, 4, -40, 40);
    }
    be_gdn_gates(many, x[0], b[0], a, dt, N_ROW, N_HEAD);
    for (size_t t = 0; t < N_ROW; t++)
        be_gdn_gates(one, x[1] + t * N_HEAD, b[1] + t * N_HEAD, a, dt, 1, N_HEAD);
    for (int k = 0; k < 2; k++)
        assert_true(isfinite(x[k][7]) && b[k][7] >= 0 && b[k][7] <= 1);
    same(x[0], x[1], (size_t)N_ROW * N_HEAD);
    same(b[0], b[1], (size_t)N_ROW * N_HEAD);
    for (int k = 0; k < 2; k++) {
        free(x[k]);
        free(b[k]);
    }
    free(a);
    free(dt);
    backend_free(one);
    backend_free(many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv_of_several_sequences_equals_each_alone),
        cmocka_unit_test(test_gdn_of_several_sequences_equals_each_alone),
        cmocka_unit_test(test_gates_of_many_rows_equal_each_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
