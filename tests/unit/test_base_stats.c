/* Medians and spreads of measurements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/stats.h"

static bool near(double a, double b)
{
    double d = a - b;
    return d < 1e-12 && d > -1e-12;
}

/* Catches a median of unsorted values, or of the wrong element of an even number. */
static void test_stats_of_odd_and_even_numbers_give_the_median(void **state)
{
    (void)state;
    double odd[] = {5, 1, 4, 2, 3}, even[] = {4, 1, 3, 2};
    assert_true(near(stats_of(odd, 5).median, 3));
    assert_true(near(stats_of(even, 4).median, 2.5));
}

/* Catches quartiles that are read past the ends or are not interpolated. */
static void test_stats_quartiles_are_interpolated(void **state)
{
    (void)state;
    double x[] = {40, 10, 30, 20};
    stats s = stats_of(x, 4);
    assert_true(near(s.low, 17.5) && near(s.high, 32.5));
    assert_true(near(s.min, 10) && near(s.max, 40) && s.n == 4);
    assert_true(near(stats_spread(&s), 0.3));
}

/* Catches a spread or an index out of range where there is nothing to compare. */
static void test_stats_of_one_or_no_value_have_no_spread(void **state)
{
    (void)state;
    double one[] = {7};
    stats s = stats_of(one, 1);
    assert_true(near(s.median, 7) && near(s.low, 7) && near(s.high, 7));
    assert_true(near(stats_spread(&s), 0));
    s = stats_of(one, 0);
    assert_true(s.n == 0 && near(s.median, 0) && near(stats_spread(&s), 0));
}

/* Catches one slow run that moves the figures: that is what medians are for. */
static void test_stats_outlier_moves_neither_median_nor_spread(void **state)
{
    (void)state;
    double x[] = {10, 10, 10, 10, 1000};
    stats s = stats_of(x, 5);
    assert_true(near(s.median, 10) && near(stats_spread(&s), 0) && near(s.max, 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stats_of_odd_and_even_numbers_give_the_median),
        cmocka_unit_test(test_stats_quartiles_are_interpolated),
        cmocka_unit_test(test_stats_of_one_or_no_value_have_no_spread),
        cmocka_unit_test(test_stats_outlier_moves_neither_median_nor_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
