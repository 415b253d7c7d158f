/* The forward pass against the reference vectors of tests/golden/: every case of the trunk, from the
 * checkpoints through our own converter. */
#include <foretoken/foretoken.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/golden.h"
#include "support/tmpdir.h"

/* The reference's own rounding noise is 4e-5; the bound that the project promises is 1e-3. */
static const double TOLERANCE = 2e-4;

typedef struct {
    const char *dir;     /* of the vectors */
    const char *weights; /* folder of the checkpoint */
    const char *cpu;
    ft_model *m;
    ft_session *s;
} fixture;

static void fixture_open(fixture *f, const char *dir, const char *sub, const char *cpu)
{
    char from[256], name[64], to[TEST_PATH_MAX];
    snprintf(from, sizeof from, "%s/%s", dir, sub);
    snprintf(name, sizeof name, "%s%s.gguf", strrchr(dir, '/') + 1, *sub ? "-fused" : "");
    ft_error err = {0};
    ft_convert_params cp = {.dir = from, .out = test_path(to, name), .type = "f32"};
    if (ft_convert(&cp, &err) != FT_OK)
        fail_msg("%s", err.msg);
    ft_model_params mp = {.n_thread = 2, .cpu = cpu};
    if (ft_model_open(&f->m, to, &mp, &err) != FT_OK)
        fail_msg("%s", err.msg);
    ft_session_params sp = {.n_ctx = 1024, .n_chunk = 512, .kv_type = "f32"};
    if (ft_session_create(&f->s, f->m, &sp, &err) != FT_OK)
        fail_msg("%s", err.msg);
    f->dir = dir;
}

static void fixture_close(fixture *f)
{
    ft_session_free(f->s);
    ft_model_close(f->m);
}

/* ---- Stages ------------------------------------------------------------------------------------------ */

typedef struct {
    const char *dir;
    int n_checked;
    double worst;
    char worst_name[64];
} stage_check;

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int by_size(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

static void check_stage(void *ctx, const char *name, const void *rows, bool is_int, int n_row,
                        int n_col)
{
    stage_check *c = ctx;
    golden g;
    const char *key = strstr(name, "ple_rows") ? "ple_rows" : name;
    if (!golden_load(&g, c->dir, "short", key))
        return; /* a stage that the reference did not record */
    assert_int_equal(n_row, g.n_row);
    assert_int_equal(n_col, g.n_col);
    assert_int_equal(is_int, g.is_int);
    size_t n = (size_t)n_row * (size_t)n_col;
    if (strstr(name, "router_experts")) { /* recorded by weight, ours by id */
        for (int i = 0; i < n_row; i++)
            qsort(g.v.i + (size_t)i * (size_t)n_col, (size_t)n_col, sizeof(int32_t), by_value);
    }
    float *sorted = NULL;
    if (strstr(name, "router_weights")) {
        sorted = malloc(n * sizeof *sorted);
        memcpy(sorted, rows, n * sizeof *sorted);
        for (int i = 0; i < n_row; i++)
            qsort(sorted + (size_t)i * (size_t)n_col, (size_t)n_col, sizeof(float), by_size);
        rows = sorted;
    }
    if (is_int) {
        assert_memory_equal(rows, g.v.i, n * sizeof(int32_t));
    } else {
        double d = golden_rel_diff(rows, g.v.f, n);
        if (!(d <= c->worst)) {
            c->worst = d;
            snprintf(c->worst_name, sizeof c->worst_name, "%s", name);
        }
    }
    c->n_checked++;
    free(sorted);
    golden_free(&g);
}

/* ---- Cases ------------------------------------------------------------------------------------------- */

/* Evaluate all tokens of a case, `chunk` rows a call, the last n_single ones alone; compare the rows
 * that the reference recorded (the last ones, when not all). */
static void check_case(fixture *f, const char *case_name, int chunk, int n_single)
{
    golden tok, logits, hidden, argmax;
    ft_model_info info;
    ft_error err = {0};
    ft_model_get_info(f->m, &info);
    assert_true(golden_load(&tok, f->dir, case_name, "tokens"));
    int n = tok.n_col;
    size_t n_vocab = (size_t)info.n_vocab, width = (size_t)info.hidden_width;
    float *l = calloc((size_t)n * n_vocab, sizeof *l), *h = calloc((size_t)n * width, sizeof *h);
    ft_session_reset(f->s);
    for (int i = 0; i < n;) {
        int rows = i < n - n_single ? n - n_single - i : 1;
        rows = rows < chunk ? rows : chunk;
        ft_eval_out out = {.logits = l + (size_t)i * n_vocab, .hidden = h + (size_t)i * width};
        if (ft_session_eval_rows(f->s, tok.v.i + i, rows, &out, &err) != FT_OK)
            fail_msg("%s", err.msg);
        i += rows;
    }
    assert_true(golden_load(&logits, f->dir, case_name, "logits"));
    size_t from = (size_t)(n - logits.n_row);
    double d = golden_rel_diff(l + from * n_vocab, logits.v.f, (size_t)logits.n_row * n_vocab);
    if (!(d <= TOLERANCE))
        fail_msg("%s %s: logits differ by %g", f->dir, case_name, d);
    const char *hidden_key = strcmp(case_name, "long") == 0 ? "hidden_last8" : "hidden";
    if (golden_load(&hidden, f->dir, case_name, hidden_key)) {
        d = golden_rel_diff(h + (size_t)(n - hidden.n_row) * width, hidden.v.f,
                            (size_t)hidden.n_row * width);
        if (!(d <= TOLERANCE))
            fail_msg("%s %s: hidden rows differ by %g", f->dir, case_name, d);
        golden_free(&hidden);
    }
    if (golden_load(&argmax, f->dir, case_name, "argmax")) {
        for (int t = 0; t < n; t++) {
            const float *row = l + (size_t)t * n_vocab;
            int best = 0;
            for (int i = 1; i < info.n_vocab; i++)
                if (row[i] > row[best])
                    best = i;
            assert_int_equal(best, argmax.v.i[t]);
        }
        golden_free(&argmax);
    }
    golden_free(&tok);
    golden_free(&logits);
    free(l);
    free(h);
}

static void check_all_cases(const char *dir, const char *sub, const char *cpu)
{
    fixture f;
    fixture_open(&f, dir, sub, cpu);
    check_case(&f, "short", 512, 0);
    check_case(&f, "short", 7, 0);
    check_case(&f, "dense", 512, 0);
    check_case(&f, "long", 512, 0);
    check_case(&f, "long", 1, 0);
    check_case(&f, "eos", 512, 0);
    check_case(&f, "decode", 512, 12);
    check_case(&f, "decode_long", 16, 8);
    fixture_close(&f);
}

/* Catches any error in the mathematics of a family: all cases, from plain checkpoints. */
static void test_trunk_qwen35_equals_reference(void **state)
{
    (void)state;
    check_all_cases("tests/golden/tiny-qwen35", "", NULL);
}

static void test_trunk_qwen35moe_equals_reference(void **state)
{
    (void)state;
    check_all_cases("tests/golden/tiny-qwen35moe", "", NULL);
}

static void test_trunk_qwen4exp_equals_reference(void **state)
{
    (void)state;
    check_all_cases("tests/golden/tiny-qwen4exp", "", NULL);
}

/* Catches a converter that reads fused experts or the whole n-gram table differently. */
static void test_trunk_fused_checkpoints_equal_reference(void **state)
{
    (void)state;
    check_all_cases("tests/golden/tiny-qwen35moe", "fused", NULL);
    check_all_cases("tests/golden/tiny-qwen4exp", "fused", NULL);
}

/* Catches a reference kernel that only its faster twins cover. */
static void test_trunk_generic_kernels_equal_reference(void **state)
{
    (void)state;
    check_all_cases("tests/golden/tiny-qwen4exp", "", "generic");
}

/* Catches two errors that cancel in the logits: every intermediate row that the reference kept. */
static void test_stages_equal_reference(void **state)
{
    (void)state;
    static const char *const dir[] = {"tests/golden/tiny-qwen35", "tests/golden/tiny-qwen35moe",
                                      "tests/golden/tiny-qwen4exp"};
    static const int want[] = {21, 33, 43};
    for (int i = 0; i < 3; i++) {
        fixture f;
        golden tok;
        ft_error err = {0};
        fixture_open(&f, dir[i], "", NULL);
        assert_true(golden_load(&tok, dir[i], "short", "tokens"));
        stage_check c = {.dir = dir[i]};
        ft_eval_out out = {.stage = check_stage, .stage_ctx = &c};
        assert_int_equal(ft_session_eval_rows(f.s, tok.v.i, tok.n_col, &out, &err), FT_OK);
        if (!(c.worst <= TOLERANCE))
            fail_msg("%s: %s differs by %g", dir[i], c.worst_name, c.worst);
        if (c.n_checked < want[i])
            fail_msg("%s: %d stages compared, want %d", dir[i], c.n_checked, want[i]);
        golden_free(&tok);
        fixture_close(&f);
    }
}

/* ---- Selected cells ------------------------------------------------------------------------------- */

typedef struct {
    const int32_t *mask; /* [n][n] of the reference */
    int n, n_row_seen;
} mask_check;

static void check_mask(void *ctx, const char *name, const void *rows, bool is_int, int n_row,
                       int n_col)
{
    mask_check *c = ctx;
    if (strcmp(name, "stage_L3.selected") != 0)
        return;
    assert_true(is_int);
    for (int t = 0; t < n_row; t++) {
        int32_t *seen = calloc((size_t)c->n, sizeof *seen);
        for (int i = 0; i < n_col; i++) {
            int32_t cell = ((const int32_t *)rows)[t * n_col + i];
            if (cell < 0)
                break;
            assert_in_range(cell, 0, c->n - 1);
            assert_int_equal(seen[cell]++, 0); /* each cell once */
        }
        int pos = c->n_row_seen + t;
        assert_memory_equal(seen, c->mask + (size_t)pos * (size_t)c->n,
                            (size_t)c->n * sizeof *seen);
        free(seen);
    }
    c->n_row_seen += n_row;
}

/* Catches a wrong score, budget, tail or tie rule of the sparse attention: for every position of a
 * prompt beyond the budget exactly the reference's cells, whatever the chunk. */
static void test_qsa_selects_the_references_cells(void **state)
{
    (void)state;
    fixture f;
    golden tok, mask;
    fixture_open(&f, "tests/golden/tiny-qwen4exp", "", NULL);
    assert_true(golden_load(&tok, f.dir, "long", "tokens"));
    assert_true(golden_load(&mask, f.dir, "long", "mask_L3"));
    static const int chunk[] = {60, 1, 7};
    for (int k = 0; k < 3; k++) {
        mask_check c = {.mask = mask.v.i, .n = tok.n_col};
        ft_session_reset(f.s);
        for (int i = 0; i < tok.n_col; i += chunk[k]) {
            ft_eval_out out = {.stage = check_mask, .stage_ctx = &c};
            int n = tok.n_col - i < chunk[k] ? tok.n_col - i : chunk[k];
            assert_int_equal(ft_session_eval_rows(f.s, tok.v.i + i, n, &out, NULL), FT_OK);
        }
        assert_int_equal(c.n_row_seen, tok.n_col);
    }
    golden_free(&tok);
    golden_free(&mask);
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trunk_qwen35_equals_reference),
        cmocka_unit_test(test_trunk_qwen35moe_equals_reference),
        cmocka_unit_test(test_trunk_qwen4exp_equals_reference),
        cmocka_unit_test(test_trunk_fused_checkpoints_equal_reference),
        cmocka_unit_test(test_trunk_generic_kernels_equal_reference),
        cmocka_unit_test(test_stages_equal_reference),
        cmocka_unit_test(test_qsa_selects_the_references_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
