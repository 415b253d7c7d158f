/* test_kern_lloyd.c - kern_encode_fitted: Q4_0 with fitted scales against the plain rule. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "kern/block.h"
#include "kern/kern.h"

#define N       32
#define N_BLOCK 100000 /* of each of eleven kinds */
#define GUARD   0xa5

static uint64_t mix(uint64_t x) /* the finalizer of splitmix64 */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static double uniform(uint64_t *s) /* 0 < u < 1 */
{
    return ((double)(mix((*s)++) >> 11) + 0.5) * 0x1p-53;
}

static double gauss(uint64_t *s)
{
    double r = sqrt(-2 * log(uniform(s)));
    return r * cos(6.283185307179586 * uniform(s));
}

/* ---- Kinds of blocks -------------------------------------------------------------------------- */

typedef void fill_fn(float x[N], uint64_t *s);

static void fill_gauss(float x[N], uint64_t *s)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)(0.02 * gauss(s));
}

static void fill_uniform(float x[N], uint64_t *s)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)(2 * uniform(s) - 1);
}

static void fill_heavy(float x[N], uint64_t *s) /* Student's t with 3 degrees of freedom */
{
    for (int i = 0; i < N; i++) {
        double a = gauss(s), b = gauss(s), c = gauss(s);
        x[i] = (float)(gauss(s) / sqrt((a * a + b * b + c * c) / 3 + 1e-9));
    }
}

static void fill_sparse(float x[N], uint64_t *s)
{
    for (int i = 0; i < N; i++)
        x[i] = uniform(s) < 0.1 ? (float)gauss(s) : 0;
}

static void fill_outlier(float x[N], uint64_t *s)
{
    fill_gauss(x, s);
    x[mix((*s)++) % N] *= 30;
}

static void fill_scaled(float x[N], uint64_t *s, double lo, double hi) /* powers of 2 */
{
    fill_gauss(x, s);
    double scale = exp2(lo + (hi - lo) * uniform(s));
    for (int i = 0; i < N; i++)
        x[i] = (float)((double)x[i] * scale);
}

static void fill_tiny(float x[N], uint64_t *s) /* around the smallest halves, and far below */
{
    fill_scaled(x, s, -30, -8);
}

static void fill_denormal(float x[N], uint64_t *s)
{
    fill_scaled(x, s, -140, -120);
}

static void fill_large(float x[N], uint64_t *s) /* around the largest half as scale, and above */
{
    fill_scaled(x, s, 18, 26);
}

static void fill_few_values(float x[N], uint64_t *s) /* many ties */
{
    for (int i = 0; i < N; i++)
        x[i] = (float)(int)(mix((*s)++) % 5) - 2.0f;
}

static void fill_one_sided(float x[N], uint64_t *s)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)fabs(gauss(s));
}

/* One extreme value, some zeros, and one to four other values: the best scale may give the extreme
 * any code. */
static void fill_levels(float x[N], uint64_t *s)
{
    float level[4];
    int n_level = 1 + (int)(mix((*s)++) % 4), n_zero = (int)(mix((*s)++) % 32);
    for (int i = 0; i < 4; i++)
        level[i] = (float)(2 * uniform(s) - 1);
    for (int i = 0; i < N; i++)
        x[i] = i == 0 ? 1 : i <= n_zero ? 0 : level[mix((*s)++) % (uint64_t)n_level];
}

static const struct {
    const char *name;
    fill_fn *fill;
    double most; /* sum of squared errors, fitted / plain; measured: the second number */
} kinds[] = {
    {"gauss", fill_gauss, 0.90},      /* 0.890 */
    {"uniform", fill_uniform, 0.84},  /* 0.826 */
    {"heavy", fill_heavy, 0.95},      /* 0.937 */
    {"sparse", fill_sparse, 0.65},    /* 0.617 */
    {"outlier", fill_outlier, 0.995}, /* 0.988: the outlier takes all codes */
    {"tiny", fill_tiny, 0.90},        /* 0.892 */
    {"denormal", fill_denormal, 1.0}, /* 1: all decode to 0 */
    {"large", fill_large, 0.90},      /* 0.893 */
    {"few", fill_few_values, 0.001},  /* 0: on a grid of the format */
    {"one-sided", fill_one_sided, 0.90}, {"levels", fill_levels, 0.32} /* 0.297 */,
};

static double squared_error(const float *x, const void *block)
{
    float y[N];
    double sum = 0;
    assert_true(kern_decode(DTYPE_Q4_0, y, block, N));
    for (int i = 0; i < N; i++) {
        double e = (double)x[i] - (double)y[i];
        sum += e * e;
    }
    return sum;
}

/* catches: an end that is kept though the scale's rounding, or the plain rule, beats it; an
 * iteration that runs and gains nothing */
static void test_fitted_error_is_never_above_plain_and_less_on_average(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        uint64_t s = 1000 * k;
        double sum_plain = 0, sum_fitted = 0;
        for (int b = 0; b < N_BLOCK; b++) {
            float x[N];
            kern_q4_0 plain, fitted;
            kinds[k].fill(x, &s);
            assert_true(kern_encode(DTYPE_Q4_0, &plain, x, N));
            assert_true(kern_encode_fitted(DTYPE_Q4_0, &fitted, x, N));
            double ep = squared_error(x, &plain), ef = squared_error(x, &fitted);
            if (!isfinite(ep)) { /* the scale is no half */
                assert_memory_equal(&fitted, &plain, sizeof plain);
                continue;
            }
            if (!(ef <= ep * (1 + 1e-13))) /* the order of the sum is another one here */
                fail_msg("%s, block %d: squared error %.17g, plain %.17g", kinds[k].name, b, ef,
                         ep);
            sum_plain += ep;
            sum_fitted += ef;
        }
        print_message("    %-9s squared error fitted / plain %.4f\n", kinds[k].name,
                      sum_fitted / sum_plain);
        if (sum_fitted > kinds[k].most * sum_plain)
            fail_msg("%s: ratio %.4f, want at most %.4f", kinds[k].name, sum_fitted / sum_plain,
                     kinds[k].most);
    }
}

/* The least error of the scales from half lo to half hi, both signs, with their nearest codes. */
static double least_error(const float *x, int lo, int hi, int step)
{
    double best = HUGE_VAL;
    for (int h = lo; h <= hi; h += step)
        for (int sign = 0; sign < 2; sign++) {
            double d = (double)kern_f16_to_f32((uint16_t)(h | sign << 15)), sum = 0;
            for (int i = 0; i < N; i++) {
                double e = (double)x[i] - d * fmin(fmax(nearbyint((double)x[i] / d), -8), 7);
                sum += e * e;
            }
            best = fmin(best, sum);
        }
    return best;
}

static double scanned_error(const float *x)
{
    float extreme = 0;
    for (int i = 0; i < N; i++)
        extreme = fmaxf(extreme, fabsf(x[i]));
    return least_error(x, kern_f32_to_f16(extreme / 16), kern_f32_to_f16(extreme / 4), 4);
}

/* catches: starts from which the iteration ends in poor optima */
static void test_fitted_error_is_near_that_of_a_dense_scan(void **state)
{
    (void)state;
    for (size_t k = 0; k < 3; k++) { /* gauss, uniform, heavy */
        uint64_t s = 77 + k;
        double sum_fitted = 0, sum_best = 0;
        for (int b = 0; b < 200; b++) {
            float x[N];
            kern_q4_0 fitted;
            kinds[k].fill(x, &s);
            assert_true(kern_encode_fitted(DTYPE_Q4_0, &fitted, x, N));
            sum_fitted += squared_error(x, &fitted);
            sum_best += scanned_error(x);
        }
        double ratio = sqrt(sum_fitted / sum_best);
        if (!(ratio >= 0.999 && ratio < 1.008)) /* 1.002 to 1.005 measured */
            fail_msg("%s: error %.4f of the least", kinds[k].name, ratio);
    }
}

/* catches: an iteration over scales of which the half has only a few; a sign never tried */
static void test_fitted_tiny_blocks_have_the_least_error_of_all_scales(void **state)
{
    (void)state;
    uint64_t s = 21;
    for (int b = 0; b < 2000; b++) {
        float x[N];
        kern_q4_0 fitted;
        for (int i = 0; i < N; i++)
            x[i] = (float)ldexp(40 * (2 * uniform(&s) - 1) * uniform(&s), -24);
        assert_true(kern_encode_fitted(DTYPE_Q4_0, &fitted, x, N));
        double best = least_error(x, 1, 41, 1);
        if (squared_error(x, &fitted) > best * (1 + 1e-13))
            fail_msg("block %d: squared error %g, least %g", b, squared_error(x, &fitted), best);
    }
}

/* catches: values that drift when a file is encoded again */
static void test_fitted_encode_of_decoded_values_changes_nothing(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        uint64_t s = 5000 + 1000 * k;
        for (int b = 0; b < N_BLOCK / 4; b++) {
            float x[N], y[N], z[N];
            kern_q4_0 first, again;
            kinds[k].fill(x, &s);
            assert_true(kern_encode_fitted(DTYPE_Q4_0, &first, x, N));
            assert_true(kern_decode(DTYPE_Q4_0, y, &first, N));
            assert_true(kern_encode_fitted(DTYPE_Q4_0, &again, y, N));
            assert_true(kern_decode(DTYPE_Q4_0, z, &again, N));
            for (int i = 0; i < N; i++)
                if (isfinite(y[0]) && y[i] != z[i])
                    fail_msg("%s, block %d, value %d: %.9g became %.9g", kinds[k].name, b, i,
                             (double)y[i], (double)z[i]);
        }
    }
}

/* catches: state between blocks; a block that depends on its neighbours or its address; a write
 * past the end */
static void test_fitted_blocks_are_independent_and_repeatable(void **state)
{
    (void)state;
    enum { ROW = 64 };
    static float x[ROW * N + 1];
    static uint8_t row[ROW * 18 + 2], one[18];
    uint64_t s = 9;
    for (int b = 0; b < ROW; b++)
        kinds[(size_t)b % ARRAY_LEN(kinds)].fill(x + 1 + b * N, &s);
    memset(row, GUARD, sizeof row);
    assert_true(kern_encode_fitted(DTYPE_Q4_0, row + 1, x + 1, ROW * N));
    assert_int_equal(row[0], GUARD);
    assert_int_equal(row[sizeof row - 1], GUARD);
    for (int b = ROW - 1; b >= 0; b--) {
        assert_true(kern_encode_fitted(DTYPE_Q4_0, one, x + 1 + b * N, N));
        assert_memory_equal(one, row + 1 + 18 * b, sizeof one);
    }
}

static void assert_plain(const float x[N])
{
    kern_q4_0 plain, fitted;
    assert_true(kern_encode(DTYPE_Q4_0, &plain, x, N));
    assert_true(kern_encode_fitted(DTYPE_Q4_0, &fitted, x, N));
    assert_memory_equal(&fitted, &plain, sizeof plain);
}

/* catches: a division by 0, a conversion out of range (under UBSan), damage that a fitted scale
 * hides */
static void test_fitted_special_blocks_are_those_of_the_plain_rule(void **state)
{
    (void)state;
    const float special[] = {0.0f, -0.0f, NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, 1e6f};
    for (size_t k = 0; k < ARRAY_LEN(special); k++) {
        float x[N];
        for (int i = 0; i < N; i++)
            x[i] = special[k];
        assert_plain(x);
        if (k < 2) /* one value among others of size 1 */
            continue;
        for (int i = 0; i < N; i++)
            x[i] = i == 13 ? special[k] : (float)(i - 15) / 16;
        assert_plain(x);
    }
}

/* catches: a zero block with values */
static void test_fitted_zero_and_smallest_blocks_decode_to_zero(void **state)
{
    (void)state;
    const float below[] = {0.0f, FLT_TRUE_MIN, -FLT_TRUE_MIN, FLT_MIN, 0x1p-26f, -0x1.fffp-26f};
    for (size_t k = 0; k < ARRAY_LEN(below); k++) {
        float x[N], y[N];
        kern_q4_0 b;
        for (int i = 0; i < N; i++)
            x[i] = i % 3 ? below[k] : 0;
        assert_true(kern_encode_fitted(DTYPE_Q4_0, &b, x, N));
        assert_true(kern_decode(DTYPE_Q4_0, y, &b, N));
        for (int i = 0; i < N; i++)
            assert_true(y[i] == 0);
    }
}

/* catches: a scale that vanishes as a half though a subnormal one serves */
static void test_fitted_multiples_of_the_smallest_half_are_exact(void **state)
{
    (void)state;
    uint64_t s = 3;
    for (int n = 0; n < 1000; n++) {
        float x[N], y[N];
        kern_q4_0 b;
        float step = 0x1p-24f * (float)(1 + mix(s++) % 7);
        for (int i = 0; i < N; i++)
            x[i] = step * (float)((int)(mix(s++) % 16) - 8);
        assert_true(kern_encode_fitted(DTYPE_Q4_0, &b, x, N));
        assert_true(kern_decode(DTYPE_Q4_0, y, &b, N));
        for (int i = 0; i < N; i++)
            assert_true(x[i] == y[i]);
    }
}

/* catches: a type that is encoded by another one's rule */
static void test_fitted_other_type_is_refused(void **state)
{
    (void)state;
    float x[N] = {1};
    uint8_t out[128];
    for (int type = -1; type <= KERN_N_TYPE; type++) {
        if (type == DTYPE_Q4_0)
            continue;
        memset(out, GUARD, sizeof out);
        assert_false(kern_encode_fitted(type, out, x, N));
        for (size_t i = 0; i < sizeof out; i++)
            assert_int_equal(out[i], GUARD);
    }
    assert_true(kern_encode_fitted(DTYPE_Q4_0, out, x, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fitted_error_is_never_above_plain_and_less_on_average),
        cmocka_unit_test(test_fitted_error_is_near_that_of_a_dense_scan),
        cmocka_unit_test(test_fitted_tiny_blocks_have_the_least_error_of_all_scales),
        cmocka_unit_test(test_fitted_encode_of_decoded_values_changes_nothing),
        cmocka_unit_test(test_fitted_blocks_are_independent_and_repeatable),
        cmocka_unit_test(test_fitted_special_blocks_are_those_of_the_plain_rule),
        cmocka_unit_test(test_fitted_zero_and_smallest_blocks_decode_to_zero),
        cmocka_unit_test(test_fitted_multiples_of_the_smallest_half_are_exact),
        cmocka_unit_test(test_fitted_other_type_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
