/* The draft head against the reference vectors: teacher-forced rows, the chain of four, and the same
 * with a sink and a window. */
#include <foretoken/foretoken.h>
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

static const double TOLERANCE = 2e-4;

typedef struct {
    const char *dir, *case_name;
    int n_checked;
} stage_check;

static void on_stage(void *ctx, const char *name, const void *rows, bool is_int, int n_row,
                     int n_col)
{
    stage_check *c = ctx;
    golden g;
    if (is_int || !golden_load(&g, c->dir, c->case_name, name))
        return;
    assert_int_equal(n_row, g.n_row);
    assert_int_equal(n_col, g.n_col);
    double d = golden_rel_diff(rows, g.v.f, (size_t)n_row * (size_t)n_col);
    if (!(d <= TOLERANCE))
        fail_msg("%s %s: %s differs by %g", c->dir, c->case_name, name, d);
    c->n_checked++;
    golden_free(&g);
}

static void check_case(const char *dir, const char *path, const char *case_name, int sink,
                       int window, int chunk)
{
    ft_model *m;
    ft_session *s;
    ft_error err = {0};
    golden tok, logits, argmax, chain, chain_tok, chain_hidden;
    assert_true(golden_load(&tok, dir, case_name, "tokens"));
    assert_true(golden_load(&logits, dir, case_name, "logits"));
    assert_true(golden_load(&argmax, dir, case_name, "argmax"));
    assert_true(golden_load(&chain, dir, case_name, "chain_logits"));
    assert_true(golden_load(&chain_tok, dir, case_name, "chain_tokens"));
    assert_true(golden_load(&chain_hidden, dir, case_name, "chain_hidden"));
    if (ft_model_open(&m, path, NULL, &err) != FT_OK)
        fail_msg("%s", err.msg);
    ft_session_params sp = {.n_ctx = 128, .n_chunk = chunk, .kv_type = "f32"};
    if (ft_session_create(&s, m, &sp, &err) != FT_OK)
        fail_msg("%s", err.msg);
    ft_model_info info;
    ft_model_get_info(m, &info);
    size_t v = (size_t)info.n_vocab, w = (size_t)info.hidden_width;
    int n = tok.n_col, n_chain = chain.n_row;
    float *rows = calloc((size_t)(n - 1 + n_chain) * v, sizeof *rows);
    float *hidden = calloc((size_t)n_chain * w, sizeof *hidden);
    int32_t ids[16];
    stage_check stages = {.dir = dir, .case_name = case_name};
    ft_draft_eval e = {.sink = sink,
                       .window = window,
                       .n_chain = n_chain,
                       .logits = rows,
                       .chain_tokens = ids,
                       .chain_hidden = hidden};
    if (chunk >= n) { /* the recorded stages are those of all rows together */
        e.stage = on_stage;
        e.stage_ctx = &stages;
    }
    if (ft_session_eval_draft(s, tok.v.i, n, &e, &err) != FT_OK)
        fail_msg("%s", err.msg);
    double d = golden_rel_diff(rows, logits.v.f, (size_t)(n - 1) * v);
    if (!(d <= TOLERANCE))
        fail_msg("%s %s: rows differ by %g", dir, case_name, d);
    d = golden_rel_diff(rows + (size_t)(n - 1) * v, chain.v.f, (size_t)n_chain * v);
    if (!(d <= TOLERANCE))
        fail_msg("%s %s: the chain differs by %g", dir, case_name, d);
    d = golden_rel_diff(hidden, chain_hidden.v.f, (size_t)n_chain * w);
    if (!(d <= TOLERANCE))
        fail_msg("%s %s: the chain's hidden rows differ by %g", dir, case_name, d);
    assert_memory_equal(ids, chain_tok.v.i, (size_t)(n_chain + 1) * sizeof *ids);
    if (chunk >= n)
        assert_int_equal(stages.n_checked, 5);
    free(rows);
    free(hidden);
    ft_session_free(s);
    ft_model_close(m);
    golden *all[] = {&tok, &logits, &argmax, &chain, &chain_tok, &chain_hidden};
    for (int i = 0; i < 6; i++)
        golden_free(all[i]);
}

static void check_model(const char *dir, const char *sub)
{
    char from[256], name[64], path[TEST_PATH_MAX];
    ft_error err = {0};
    snprintf(from, sizeof from, "%s/%s", dir, sub);
    snprintf(name, sizeof name, "%s%s.gguf", strrchr(dir, '/') + 1, *sub ? "-fused" : "");
    ft_convert_params cp = {.dir = from, .out = test_path(path, name), .type = "f32"};
    if (ft_convert(&cp, &err) != FT_OK)
        fail_msg("%s", err.msg);
    static const int chunk[] = {128, 1, 7};
    for (int i = 0; i < 3; i++) {
        check_case(dir, path, "mtp", 64, FT_WINDOW_ALL, chunk[i]);
        check_case(dir, path, "mtp_window", 4, 7, chunk[i]);
    }
}

/* Catches the MTP block's usual faults (B075, B080, B081, B084): a wrong pairing of hidden row and token,
 * the hidden row before instead of behind the norm, streams averaged, the chain fed with the wrong row;
 * and a window or sink that is off by one. */
static void test_draft_head_qwen35_equals_reference(void **state)
{
    (void)state;
    check_model("tests/golden/tiny-qwen35", "");
}

static void test_draft_head_qwen35moe_equals_reference(void **state)
{
    (void)state;
    check_model("tests/golden/tiny-qwen35moe", "");
    check_model("tests/golden/tiny-qwen35moe", "fused");
}

static void test_draft_head_qwen4exp_equals_reference(void **state)
{
    (void)state;
    check_model("tests/golden/tiny-qwen4exp", "");
    check_model("tests/golden/tiny-qwen4exp", "fused");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_head_qwen35_equals_reference),
        cmocka_unit_test(test_draft_head_qwen35moe_equals_reference),
        cmocka_unit_test(test_draft_head_qwen4exp_equals_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
