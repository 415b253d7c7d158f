/* test_kern_rows.c - kernels on rows: every level against the reference, bit by bit, and the
 * reference against formulas in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kern/rig.h"

#define ULP 0x1p-23

static const int more_sizes[] = {127, 128, 129, 130, 256, 1000};

/* 1..70, then the others; 0 past the last. */
static int size_at(int i)
{
    if (i < 70)
        return i + 1;
    return i - 70 < (int)ARRAY_LEN(more_sizes) ? more_sizes[i - 70] : 0;
}

/* Every kernel in one form: y [n] holds c on entry. */
typedef void op_fn(const kern_table *k, float *y, const float *a, const float *b, int n);

static void op_dot(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    y[0] = k->dot(a, b, n);
}
static void op_rmsnorm(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    k->rmsnorm(y, a, b, n, 1e-6f);
}
static void op_rmsnorm_in_place(const kern_table *k, float *y, const float *a, const float *b,
                                int n)
{
    (void)a;
    k->rmsnorm(y, y, b, n, 1e-6f);
}
static void op_l2norm(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    (void)b;
    k->l2norm(y, a, n, 1e-6f, 0.08838835f);
}
static void op_l2norm_in_place(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    (void)a;
    (void)b;
    k->l2norm(y, y, n, 1e-6f, 1.0f);
}
static void op_silu_mul(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    k->silu_mul(y, a, b, n);
}
static void op_silu_mul_gate(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    (void)b;
    k->silu_mul(y, y, a, n);
}
static void op_silu_mul_value(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    (void)b;
    k->silu_mul(y, a, y, n);
}
static void op_sigmoid_mul(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    k->sigmoid_mul(y, a, b, n);
}
static void op_sigmoid_mul_value(const kern_table *k, float *y, const float *a, const float *b,
                                 int n)
{
    (void)b;
    k->sigmoid_mul(y, a, y, n);
}
static void op_silu(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    k->silu(y, a, b[0], n);
}
static void op_silu_in_place(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    (void)a;
    k->silu(y, y, b[0], n);
}
static void op_axpy(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    k->axpy(y, b[0], a, n);
}
static void op_rope(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    k->rope(y, a, b, n / 2 * 2);
}
static void op_softmax(const kern_table *k, float *y, const float *a, const float *b, int n)
{
    (void)a;
    (void)b;
    k->softmax(y, n);
}

static const struct {
    const char *name;
    op_fn *run;
} op[] = {
    {"dot", op_dot},
    {"rmsnorm", op_rmsnorm},
    {"rmsnorm in place", op_rmsnorm_in_place},
    {"l2norm", op_l2norm},
    {"l2norm in place", op_l2norm_in_place},
    {"silu_mul", op_silu_mul},
    {"silu_mul over the gate", op_silu_mul_gate},
    {"silu_mul over the value", op_silu_mul_value},
    {"sigmoid_mul", op_sigmoid_mul},
    {"sigmoid_mul over the value", op_sigmoid_mul_value},
    {"silu", op_silu},
    {"silu in place", op_silu_in_place},
    {"axpy", op_axpy},
    {"rope", op_rope},
    {"softmax", op_softmax},
};

static void compare_op(const kern_table *ref, const kern_table *k, size_t i, int n, rig_kind kind,
                       uint64_t *seed)
{
    float *a = rig_input((size_t)n, seed, kind);
    float *b = rig_input((size_t)n, seed, kind);
    float *c = rig_input((size_t)n, seed, kind);
    rig_mem m0, m1;
    float *want = rig_floats(&m0, (size_t)n, 0);
    float *got = rig_floats(&m1, (size_t)n, (size_t)n % 5);
    memcpy(want, c, (size_t)n * sizeof *c);
    memcpy(got, c, (size_t)n * sizeof *c);
    op[i].run(ref, want, a, b, n);
    op[i].run(k, got, a, b, n);
    rig_same(got, want, (size_t)n, op[i].name, k->name, n);
    rig_free(&m0);
    rig_free(&m1);
    free(a);
    free(b);
    free(c);
}

/* Bug: a tail, an order of summation or a special value that one instruction set treats its own
 * way; a write past the row; an alias that the contract allows. */
static void test_rows_every_level_has_the_bits_of_ref(void **state)
{
    (void)state;
    kern_table ref, k;
    rig_level(&ref, 0);
    uint64_t seed = 1;
    for (int level = 1; rig_level(&k, level); level++)
        for (size_t i = 0; i < ARRAY_LEN(op); i++)
            for (int j = 0; size_at(j); j++)
                for (rig_kind kind = 0; kind < RIG_N_KIND; kind++)
                    compare_op(&ref, &k, i, size_at(j), kind, &seed);
}

/* Bug: masked lanes that turn a lane's -0 into +0, or +0 into -0. */
static void test_dot_sums_of_negative_zeros_keep_their_sign(void **state)
{
    (void)state;
    kern_table ref, k;
    rig_level(&ref, 0);
    float a[40], b[40];
    for (int i = 0; i < 40; i++) {
        a[i] = 1e-40f;
        b[i] = -1e-40f; /* the product, alone in a lane, rounds to -0 */
    }
    for (int n = 1; n <= 40; n++) {
        const float want = ref.dot(a, b, n);
        assert_true(want == 0.0f && (signbit(want) != 0) == (n >= 16));
        for (int level = 1; rig_level(&k, level); level++) {
            const float got = k.dot(a, b, n);
            rig_same(&got, &want, 1, "dot", k.name, n);
        }
    }
}

/* Bug: taps in another order, the stride of the weights taken for the width (B044), tails. */
static void test_conv_silu_every_level_has_the_bits_of_ref(void **state)
{
    (void)state;
    kern_table ref, k;
    rig_level(&ref, 0);
    uint64_t seed = 2;
    for (int level = 1; rig_level(&k, level); level++) {
        for (int i = 0; size_at(i); i++) {
            const size_t n = (size_t)size_at(i);
            const int n_tap = 1 + i % 5;
            const rig_kind kind = (rig_kind)(i / 5 % RIG_N_KIND);
            const size_t stride = n + (size_t)i % 3;
            float *w = rig_input((size_t)(n_tap - 1) * stride + n, &seed, kind);
            float *x[5];
            for (int j = 0; j < n_tap; j++)
                x[j] = rig_input(n, &seed, kind);
            rig_mem m0, m1;
            float *want = rig_floats(&m0, n, 0);
            float *got = rig_floats(&m1, n, 1);
            ref.conv_silu(want, (const float *const *)x, w, stride, n_tap, (int)n);
            k.conv_silu(got, (const float *const *)x, w, stride, n_tap, (int)n);
            rig_same(got, want, n, "conv_silu", k.name, (long)n);
            rig_free(&m0);
            rig_free(&m1);
            free(w);
            for (int j = 0; j < n_tap; j++)
                free(x[j]);
        }
    }
}

/* Floats from -90 to 90 in steps of `step` units in the last place, away from zero. */
#define SWEEP_STEP 331

/* Bug: a wrong coefficient or reduction, a wrong scale at the ends of the range. */
static void test_exp_sweep_is_within_its_bound(void **state)
{
    (void)state;
    double worst = 0.0;
    for (int sign = 0; sign < 2; sign++) {
        for (uint32_t b = 0; b <= 0x42b40000u; b += SWEEP_STEP) {
            const uint32_t bits = b | (uint32_t)sign << 31;
            float x;
            memcpy(&x, &bits, sizeof x);
            const double y = (double)kern_exp(x);
            if (x < -87.0f)
                assert_true(y == 0.0 && !signbit(y));
            else if (x > 88.0f)
                assert_true(isinf(y));
            else
                worst = fmax(worst, fabs(y / exp((double)x) - 1.0));
        }
    }
    print_message("exp: worst relative error 2^%.3f\n", log2(worst));
    assert_true(worst < 0x1p-22);
    assert_true(worst < ULP); /* what ref/math.h claims */
}

/* Bug: the ends of the range off by one value, NaN turned into a number. */
static void test_exp_ends_and_specials_are_as_stated(void **state)
{
    (void)state;
    assert_true(kern_exp(0.0f) == 1.0f && kern_exp(-0.0f) == 1.0f);
    assert_true(kern_exp(1e-40f) == 1.0f);
    assert_true(kern_exp(-87.0f) > 0x1p-126f && kern_exp(nextafterf(-87.0f, -100.0f)) == 0.0f);
    assert_true(kern_exp(88.0f) < 2e38f && isinf(kern_exp(nextafterf(88.0f, 100.0f))));
    assert_true(kern_exp(-INFINITY) == 0.0f && isinf(kern_exp(INFINITY)));
    assert_true(isnan(kern_exp(NAN)) && isnan(kern_exp(-NAN)));
}

/* Bug: a vector exp that rounds differently from the scalar one somewhere on its range. */
static void test_exp_every_level_has_the_bits_of_ref(void **state)
{
    (void)state;
    enum { N = 1024 };
    static float x[N], want[N], got[N];
    kern_table ref, k;
    rig_level(&ref, 0);
    for (int level = 1; rig_level(&k, level); level++) {
        uint32_t b = 0;
        while (b <= 0x42b40000u) {
            for (int i = 0; i < N; i++, b += 7 * SWEEP_STEP) {
                const uint32_t bits = b | 0x80000000u; /* -b: exp(-b) and, by silu, exp(b) */
                memcpy(&x[i], &bits, sizeof x[i]);
            }
            ref.silu(want, x, 1.0f, N);
            k.silu(got, x, 1.0f, N);
            rig_same(got, want, N, "silu", k.name, N);
            x[N - 1] = 0.0f; /* the maximum: the others' exponents are themselves */
            memcpy(want, x, sizeof x);
            memcpy(got, x, sizeof x);
            ref.softmax(want, N);
            k.softmax(got, N);
            rig_same(got, want, N, "softmax", k.name, N);
        }
    }
}

/* |got - want| <= bound, with the place in the message. */
static void near(float got, double want, double bound, const char *what, int n, int i)
{
    if (!(fabs((double)got - want) <= bound))
        fail_msg("%s n %d [%d]: %a, want %a within %g", what, n, i, (double)got, want, bound);
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* Bug: a formula of kern.h misread (mean for sum, eps outside, halves of rope exchanged). Bounds:
 * one ULP for each rounding on the longest path, relative to the terms' absolute sum. */
static void test_ref_rows_follow_the_formulas(void **state)
{
    (void)state;
    kern_table k;
    rig_level(&k, 0);
    uint64_t seed = 3;
    for (int t = 0; size_at(t); t++) {
        const int n = size_at(t);
        const double steps = n / 16 + 8;
        float *a = rig_input((size_t)n, &seed, RIG_PLAIN);
        float *b = rig_input((size_t)n, &seed, RIG_PLAIN);
        float *y = rig_input((size_t)n, &seed, RIG_PLAIN);
        double ab = 0.0, abs_ab = 0.0, aa = 0.0;
        for (int i = 0; i < n; i++) {
            ab += (double)a[i] * (double)b[i];
            abs_ab += fabs((double)a[i] * (double)b[i]);
            aa += (double)a[i] * (double)a[i];
        }
        near(k.dot(a, b, n), ab, steps * ULP * abs_ab, "dot", n, 0);

        k.rmsnorm(y, a, b, n, 1e-3f);
        for (int i = 0; i < n; i++) {
            const double want = (double)a[i] / sqrt(aa / n + 1e-3) * (double)b[i];
            near(y[i], want, steps * ULP * fabs(want), "rmsnorm", n, i);
        }
        k.l2norm(y, a, n, 1e-3f, 0.25f);
        for (int i = 0; i < n; i++) {
            const double want = (double)a[i] / sqrt(aa + 1e-3) * 0.25;
            near(y[i], want, steps * ULP * fabs(want), "l2norm", n, i);
        }
        k.silu_mul(y, a, b, n);
        for (int i = 0; i < n; i++) {
            const double want = (double)a[i] * sigmoid((double)a[i]) * (double)b[i];
            near(y[i], want, 4 * ULP * fabs(want), "silu_mul", n, i);
        }
        k.sigmoid_mul(y, a, b, n);
        for (int i = 0; i < n; i++) {
            const double want = sigmoid((double)a[i]) * (double)b[i];
            near(y[i], want, 4 * ULP * fabs(want), "sigmoid_mul", n, i);
        }
        k.silu(y, a, 0.5f, n);
        for (int i = 0; i < n; i++) {
            const double g = 0.5 * (double)a[i];
            near(y[i], g * sigmoid(g), 4 * ULP * fabs(g * sigmoid(g)), "silu", n, i);
        }
        memcpy(y, b, (size_t)n * sizeof *y);
        k.axpy(y, 3.0f, a, n);
        for (int i = 0; i < n; i++)
            near(y[i], 3.0 * (double)a[i] + (double)b[i], ULP * fabs((double)y[i]), "axpy", n, i);
        free(a);
        free(b);
        free(y);
    }
}

/* Bug: halves exchanged, a sign, values past n_rot touched. */
static void test_ref_rope_turns_each_pair(void **state)
{
    (void)state;
    kern_table k;
    rig_level(&k, 0);
    enum { N = 64, ROT = 48, H = ROT / 2 };
    float x[N], was[N], c[H], s[H];
    uint64_t seed = 4;
    rig_fill(was, N, &seed, RIG_PLAIN);
    memcpy(x, was, sizeof x);
    for (int i = 0; i < H; i++) {
        c[i] = (float)cos(0.3 * i);
        s[i] = (float)sin(0.3 * i);
    }
    k.rope(x, c, s, ROT);
    for (int i = 0; i < H; i++) {
        const double x0 = (double)was[i], x1 = (double)was[i + H];
        const double co = cos(0.3 * i), si = sin(0.3 * i), bound = 2 * ULP * (fabs(x0) + fabs(x1));
        near(x[i], x0 * co - x1 * si, bound, "rope", N, i);
        near(x[i + H], x1 * co + x0 * si, bound, "rope", N, i + H);
    }
    assert_memory_equal(x + ROT, was + ROT, (N - ROT) * sizeof *x);
}

/* Bug: taps reversed, the activation left out. Bound: the sum's roundings through silu, whose
 * slope is at most 1.1, and those of silu. */
static void test_ref_conv_silu_follows_the_formula(void **state)
{
    (void)state;
    kern_table k;
    rig_level(&k, 0);
    enum { N = 33, TAPS = 4 };
    float x[TAPS][N], w[TAPS][N + 2], y[N];
    const float *row[TAPS] = {x[0], x[1], x[2], x[3]};
    uint64_t seed = 5;
    rig_fill(x[0], TAPS * N, &seed, RIG_PLAIN);
    rig_fill(w[0], TAPS * (N + 2), &seed, RIG_PLAIN);
    k.conv_silu(y, row, w[0], N + 2, TAPS, N);
    for (int i = 0; i < N; i++) {
        double acc = 0.0, abs_acc = 0.0;
        for (int j = 0; j < TAPS; j++) {
            acc += (double)w[j][i] * (double)x[j][i];
            abs_acc += fabs((double)w[j][i] * (double)x[j][i]);
        }
        const double want = acc * sigmoid(acc);
        near(y[i], want, 1.1 * TAPS * ULP * abs_acc + 4 * ULP * fabs(want), "conv_silu", N, i);
    }
}

/* Bug: no shift by the maximum, a sum that loses terms. Bound: exp's argument is rounded at its
 * own size, then exp, the lane sum and the division. */
static void test_ref_softmax_follows_the_formula(void **state)
{
    (void)state;
    kern_table k;
    rig_level(&k, 0);
    uint64_t seed = 6;
    for (int t = 0; size_at(t); t++) {
        const int n = size_at(t);
        float *x = rig_input((size_t)n, &seed, RIG_PLAIN);
        float *y = malloc((size_t)n * sizeof *y);
        assert_non_null(y);
        double m = -HUGE_VAL, sum = 0.0;
        for (int i = 0; i < n; i++) {
            x[i] = x[i] * 8.0f + 500.0f;
            m = fmax(m, (double)x[i]);
        }
        for (int i = 0; i < n; i++)
            sum += exp((double)x[i] - m);
        memcpy(y, x, (size_t)n * sizeof *y);
        k.softmax(y, n);
        for (int i = 0; i < n; i++) {
            const double want = exp((double)x[i] - m) / sum;
            const double steps = m - (double)x[i] + n / 16 + 8;
            near(y[i], want, steps * ULP * want, "softmax", n, i);
        }
        free(x);
        free(y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_every_level_has_the_bits_of_ref),
        cmocka_unit_test(test_dot_sums_of_negative_zeros_keep_their_sign),
        cmocka_unit_test(test_conv_silu_every_level_has_the_bits_of_ref),
        cmocka_unit_test(test_exp_sweep_is_within_its_bound),
        cmocka_unit_test(test_exp_ends_and_specials_are_as_stated),
        cmocka_unit_test(test_exp_every_level_has_the_bits_of_ref),
        cmocka_unit_test(test_ref_rows_follow_the_formulas),
        cmocka_unit_test(test_ref_rope_turns_each_pair),
        cmocka_unit_test(test_ref_conv_silu_follows_the_formula),
        cmocka_unit_test(test_ref_softmax_follows_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
