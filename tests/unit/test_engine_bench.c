/* ft_bench_kernels: every line comes, with figures that belong together, and mistakes are named. */
#include "support/enginerig.h"

typedef struct {
    int n, stop_at;
    int n_tok[16];
    double seconds[16];
} lines;

static bool on_row(void *ctx, const ft_kernel_row *r)
{
    lines *l = ctx;
    assert_true(l->n < 16);
    assert_string_equal(r->type, "Q4_0");
    assert_true(r->seconds > 0 && r->spread >= 0);
    assert_true(r->weight_bytes == (double)r->n_row * r->n_col / 32 * 18);
    assert_true(r->macs == (double)r->n_tok * r->n_row * r->n_col);
    l->n_tok[l->n] = r->n_tok;
    l->seconds[l->n++] = r->seconds;
    return l->n != l->stop_at;
}

static ft_kernel_params quick(void)
{
    ft_kernel_params p = ft_kernel_params_default();
    p.type = "q4_0";
    p.buffer_bytes = (size_t)64 << 20;
    p.seconds = 0;
    p.n_thread = 2;
    return p;
}

/* Catches lines that are left out, and bytes or multiplications that are not those of the call. */
static void test_kernels_report_a_line_for_each_number_of_rows(void **state)
{
    (void)state;
    static const int want[] = {1, 2, 4, 8, 16, 512};
    ft_kernel_params p = quick();
    lines l = {0};
    OK(ft_bench_kernels(&p, on_row, &l, &rig_err));
    assert_int_equal(l.n, 6);
    assert_memory_equal(l.n_tok, want, sizeof want);
    assert_true(l.seconds[5] > l.seconds[0]); /* 512 times the work */
}

/* Catches a callback's wish to stop that is passed over. */
static void test_kernels_stop_when_told(void **state)
{
    (void)state;
    ft_kernel_params p = quick();
    lines l = {.stop_at = 2};
    FAILS(ft_bench_kernels(&p, on_row, &l, &rig_err), FT_CANCELLED, "stopped by the caller");
    assert_int_equal(l.n, 2);
}

/* Catches parameters that crash or are taken for something else. */
static void test_kernels_wrong_parameters_are_named(void **state)
{
    (void)state;
    lines l = {0};
    ft_kernel_params p = quick();
    FAILS(ft_bench_kernels(&p, NULL, NULL, &rig_err), FT_ARG, "no callback");
    p.type = "q9";
    FAILS(ft_bench_kernels(&p, on_row, &l, &rig_err), FT_ARG, "'q9' cannot be multiplied");
    p.type = "i32";
    FAILS(ft_bench_kernels(&p, on_row, &l, &rig_err), FT_UNSUPPORTED, "'i32' cannot be multiplied");
    p = quick();
    p.buffer_bytes = 1 << 20; /* smaller than the largest matrix */
    FAILS(ft_bench_kernels(&p, on_row, &l, &rig_err), FT_ARG, "buffer_bytes: 1048576");
    p = quick();
    p.seconds = -1;
    FAILS(ft_bench_kernels(&p, on_row, &l, &rig_err), FT_ARG, "seconds: -1");
    p = quick();
    p.cpu = "abacus";
    FAILS(ft_bench_kernels(&p, on_row, &l, &rig_err), FT_ARG, "abacus");
    assert_int_equal(l.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kernels_report_a_line_for_each_number_of_rows),
        cmocka_unit_test(test_kernels_stop_when_told),
        cmocka_unit_test(test_kernels_wrong_parameters_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
