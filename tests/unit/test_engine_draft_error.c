/* test_engine_draft_error.c - ft_draft_error: which matrices it reports, and their order of errors. */
#include <foretoken/foretoken.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/tinymodel.h"
#include "support/tmpdir.h"

typedef struct {
    int n, n_without;
    char last[64];
} seen;

static void on_matrix(void *ctx, const ft_draft_error_report *r)
{
    seen *s = ctx;
    s->n++;
    assert_non_null(strstr(r->name, "blk.4."));
    assert_string_equal(r->type, "BF16");
    assert_true(strlen(r->part) < sizeof s->last);
    strncpy(s->last, r->part, sizeof s->last - 1);
    if (r->no_error[0]) {
        s->n_without++;
        assert_int_not_equal(r->n_col % 32, 0);
        return;
    }
    assert_true(r->q8_0 > 0.003 && r->q8_0 < 0.01);
    assert_true(r->q5_0 > 5 * r->q8_0 && r->q4_0_plain > 1.5 * r->q5_0);
    assert_true(r->q4_0 < r->q4_0_plain && r->q4_0 > 1.4 * r->q5_0);
}

static ft_model *open_model(const tiny_opts *o)
{
    char path[TEST_PATH_MAX];
    ft_error err = {0};
    ft_model *m;
    tiny_write(test_path(path, "m.gguf"), o);
    if (ft_model_open(&m, path, NULL, &err) != FT_OK)
        fail_msg("%s", err.msg);
    return m;
}

/* catches: a family's matrices forgotten, routed experts reported as a dense FFN */
static void test_draft_error_reports_the_wide_matrices_of_each_family(void **state)
{
    (void)state;
    static const struct {
        model_arch arch;
        int n, n_without;
        const char *last;
    } c[] = {{MODEL_QWEN35, 7, 0, "ffn_down"},
             {MODEL_QWEN35MOE, 7, 0, "shared_down"},
             {MODEL_QWEN4EXP, 13, 3, "hc_head_up"} /* up has rows of 8 */};
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        tiny_opts o = tiny_default(c[i].arch);
        for (int k = 0; k < TINY_VECTOR; k++)
            o.type[k] = DTYPE_BF16;
        o.type[TINY_MIXER] = DTYPE_BF16;
        ft_model *m = open_model(&o);
        seen s = {0};
        assert_int_equal(ft_draft_error(m, on_matrix, &s, NULL), FT_OK);
        assert_int_equal(s.n, c[i].n);
        assert_int_equal(s.n_without, c[i].n_without);
        assert_string_equal(s.last, c[i].last);
        ft_model_close(m);
    }
}

/* catches: a model without a draft head read all the same */
static void test_draft_error_refusals_name_the_reason(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.n_mtp = o.n_mtp_told = 0;
    ft_model *m = open_model(&o);
    seen s = {0};
    ft_error err = {0};
    assert_int_equal(ft_draft_error(m, on_matrix, &s, &err), FT_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "the file has no MTP block"));
    err = (ft_error){0};
    assert_int_equal(ft_draft_error(m, NULL, &s, &err), FT_ARG);
    assert_non_null(strstr(err.msg, "callback"));
    assert_int_equal(s.n, 0);
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_error_reports_the_wide_matrices_of_each_family),
        cmocka_unit_test(test_draft_error_refusals_name_the_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
