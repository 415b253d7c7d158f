/* The self-test of sampling through the public interface. */
#include <foretoken/foretoken.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"

typedef struct {
    int n, n_not_exact, stop_at;
    double variation; /* sum */
} seen;

static bool on_row(void *ctx, const ft_selftest_row *r)
{
    seen *s = ctx;
    assert_true(r->passed);
    assert_true(r->exact ? r->variation < r->limit : r->variation > r->limit);
    assert_true(r->tokens_per_round >= 1 && r->tokens_per_round <= 3);
    assert_int_equal(r->exact, strcmp(r->rule, "greedy-match") != 0);
    s->n_not_exact += !r->exact;
    s->variation += r->variation;
    return ++s->n != s->stop_at;
}

/* A verdict that forgets a line, or figures that are no function of the seed. */
static void test_selftest_passes_and_is_a_function_of_the_seed(void **state)
{
    (void)state;
    static const uint64_t seed[] = {7, 7, 8};
    seen s[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        bool passed = false;
        assert_int_equal(ft_selftest_sampling(20000, seed[i], on_row, &s[i], &passed, NULL), FT_OK);
        assert_true(passed);
        assert_true(s[i].n > 20 && s[i].n_not_exact == 2);
    }
    assert_true(s[0].variation == s[1].variation);
    assert_true(s[0].variation != s[2].variation);
}

/* "passed" after a run that was stopped, refused, or ran out of memory. */
static void test_selftest_that_did_not_end_has_not_passed(void **state)
{
    (void)state;
    seen s = {.stop_at = 2};
    bool passed = true;
    ft_error err = {0};
    assert_int_equal(ft_selftest_sampling(20000, 1, on_row, &s, &passed, &err), FT_CANCELLED);
    assert_false(passed);
    assert_int_equal(s.n, 2);
    static const int texts[] = {INT32_MIN, 0, 19999, 10000001};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        passed = true;
        assert_int_equal(ft_selftest_sampling(texts[i], 1, on_row, &s, &passed, NULL), FT_ARG);
        assert_false(passed);
    }
    assert_int_equal(ft_selftest_sampling(20000, 1, NULL, NULL, &passed, NULL), FT_ARG);
    for (long i = 1; i <= 300; i += i < 6 ? 1 : 70) {
        passed = true;
        mem_fail_at(i);
        assert_int_equal(ft_selftest_sampling(20000, 1, on_row, &s, &passed, NULL), FT_NOMEM);
        assert_false(passed);
    }
    mem_fail_at(0);
    assert_int_equal(s.n, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_selftest_passes_and_is_a_function_of_the_seed),
        cmocka_unit_test(test_selftest_that_did_not_end_has_not_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
