/* Parameters, random numbers and draws of the room sample. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sample/philox.h"
#include "sample/sample.h"

#define N_DRAW 100000

/* ---- Help ------------------------------------------------------------------------------------- */

static sample_params params_of(float temp, int top_k, float top_p, float min_p, uint64_t seed)
{
    sample_params p = sample_params_default();
    p.temp = temp;
    p.top_k = top_k;
    p.top_p = top_p;
    p.min_p = min_p;
    p.seed = seed;
    return p;
}

static sample_params plain_params(float temp)
{
    return params_of(temp, 0, 1.0f, 0.0f, 1);
}

/* The distribution of logits [n]; the caller frees d. */
static void make_dist(sample_dist *d, const float *logits, int n, const sample_params *p)
{
    ft_error err = {0};
    sample_ctx *c;
    assert_int_equal(sample_ctx_create(&c, n, &err), FT_OK);
    assert_int_equal(sample_dist_init(d, n, &err), FT_OK);
    sample_row row = {.logits = logits, .n = n};
    if (sample_distribution(c, d, &row, p, &err) != FT_OK)
        fail_msg("%s", err.msg);
    sample_ctx_free(c);
}

/* Value that a chi-square variable with df degrees of freedom passes once in about 10^5 draws
 * (Wilson and Hilferty's cube-root approximation, z = 4.265). */
static double chi2_limit(int df)
{
    double a = 2.0 / (9.0 * df);
    double t = 1.0 - a + 4.265 * sqrt(a);
    return df * t * t * t;
}

/* Chi-square of N_DRAW draws at consecutive positions against want [n]; a token with want 0 that
 * comes makes it infinite. *df: degrees of freedom. */
static double chi2_of_draws(const sample_dist *d, uint64_t seed, const double *want, int n, int *df)
{
    int count[16] = {0};
    for (int pos = 0; pos < N_DRAW; pos++) {
        int32_t id = sample_draw(d, seed, pos);
        assert_in_range(id, 0, n - 1);
        count[id]++;
    }
    double chi2 = 0;
    *df = -1;
    for (int i = 0; i < n; i++) {
        double expected = want[i] * N_DRAW;
        if (expected > 0) {
            chi2 += (count[i] - expected) * (count[i] - expected) / expected;
            (*df)++;
        } else if (count[i] > 0) {
            chi2 = (double)INFINITY;
        }
    }
    return chi2;
}

/* ---- Parameters ------------------------------------------------------------------------------- */

/* Defaults that the check refuses. */
static void test_params_default_pass_the_check(void **state)
{
    (void)state;
    sample_params p = sample_params_default();
    ft_error err = {0};
    assert_int_equal(sample_params_check(&p, &err), FT_OK);
}

typedef struct {
    const char *field; /* NULL: accepted */
    float temp;
    int top_k;
    float top_p, min_p;
} params_case;

static const params_case params_cases[] = {
    {NULL, 0.0f, 0, 0.0f, 0.0f},
    {NULL, -0.0f, 1, 1.0f, 1.0f},
    {NULL, 100.0f, INT32_MAX, 0.5f, 0.5f},
    {NULL, FLT_TRUE_MIN, 40, FLT_TRUE_MIN, FLT_TRUE_MIN},
    {NULL, 1e-38f, 40, 1e-38f, 1e-38f},
    {"temp", -1.0f, 40, 0.9f, 0.1f},
    {"temp", -FLT_TRUE_MIN, 40, 0.9f, 0.1f},
    {"temp", 999999.0f, 40, 0.9f, 0.1f},
    {"temp", 1e38f, 40, 0.9f, 0.1f},
    {"temp", INFINITY, 40, 0.9f, 0.1f},
    {"temp", -INFINITY, 40, 0.9f, 0.1f},
    {"temp", NAN, 40, 0.9f, 0.1f},
    {"top_k", 1.0f, -1, 0.9f, 0.1f},
    {"top_k", 1.0f, INT32_MIN, 0.9f, 0.1f},
    {"top_p", 1.0f, 40, -1.0f, 0.1f},
    {"top_p", 1.0f, 40, 1.0001f, 0.1f},
    {"top_p", 1.0f, 40, INFINITY, 0.1f},
    {"top_p", 1.0f, 40, NAN, 0.1f},
    {"min_p", 1.0f, 40, 0.9f, -0.5f},
    {"min_p", 1.0f, 40, 0.9f, 2.0f},
    {"min_p", 1.0f, 40, 0.9f, INFINITY},
    {"min_p", 1.0f, 40, 0.9f, NAN},
};

/* B020, B022: a value outside its range slips through, or is refused without saying which and why;
 * an extreme value inside it gives something that is no token. */
static void test_params_absurd_values_are_refused_or_give_a_valid_id(void **state)
{
    (void)state;
    static const float logits[] = {0.5f, -3.0f, 2.0f, 2.0f, -INFINITY, 1e30f, -1e30f};
    int n = (int)ARRAY_LEN(logits);
    for (size_t i = 0; i < ARRAY_LEN(params_cases); i++) {
        const params_case *t = &params_cases[i];
        sample_params p = params_of(t->temp, t->top_k, t->top_p, t->min_p, i);
        ft_error err = {0};
        sample_ctx *c;
        sample_dist d;
        assert_int_equal(sample_ctx_create(&c, n, NULL), FT_OK);
        assert_int_equal(sample_dist_init(&d, n, NULL), FT_OK);
        sample_row row = {.logits = logits, .n = n};
        ft_status st = sample_distribution(c, &d, &row, &p, &err);
        assert_int_equal(sample_params_check(&p, NULL), st);
        if (t->field) {
            assert_int_equal(st, FT_ARG);
            assert_non_null(strstr(err.msg, t->field));
            assert_non_null(strstr(err.msg, "want 0"));
            assert_int_equal(d.n, 0);
        } else {
            assert_int_equal(st, FT_OK);
            for (int pos = 0; pos < 100; pos++)
                assert_in_range(sample_draw(&d, 1, pos), 0, n - 1);
        }
        sample_dist_deinit(&d);
        sample_ctx_free(c);
    }
}

/* ---- Random numbers --------------------------------------------------------------------------- */

/* A wrong constant, round count or word order. Vectors: Random123's kat_vectors, "philox4x32 10". */
static void test_philox_published_vectors_match(void **state)
{
    (void)state;
    static const struct {
        uint32_t ctr[4], key[2], out[4];
    } v[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < ARRAY_LEN(v); i++) {
        uint32_t out[4];
        philox4x32(out, v[i].ctr, v[i].key);
        assert_memory_equal(out, v[i].out, sizeof out);
    }
}

/* 0 or 1 as a uniform number (an infinite Gumbel), or a mean or a variance that is off. */
static void test_uniform_is_inside_the_unit_interval_and_uniform(void **state)
{
    (void)state;
    double sum = 0, sum2 = 0;
    for (int i = 0; i < N_DRAW; i++) {
        double u = sample_uniform(42, i, i % 7, SAMPLE_FOR_TOKEN);
        assert_true(u > 0 && u < 1);
        sum += u;
        sum2 += u * u;
    }
    assert_true(fabs(sum / N_DRAW - 0.5) < 5 * sqrt(1.0 / 12 / N_DRAW));
    assert_true(fabs(sum2 / N_DRAW - 1.0 / 3) < 5 * sqrt(4.0 / 45 / N_DRAW));
}

typedef struct {
    uint64_t seed;
    int32_t pos, token;
    int purpose;
} stream;

/* Correlation of two streams, z-scored; stream b is a with something added. */
static double correlation(stream add, int pos_step, int token_step)
{
    double sum = 0;
    for (int i = 0; i < N_DRAW; i++) {
        int32_t pos = i * pos_step, tok = i * token_step;
        double a = sample_uniform(7, pos, tok, SAMPLE_FOR_TOKEN);
        double b = sample_uniform(7 + add.seed, pos + add.pos, tok + add.token,
                                  (sample_purpose)(SAMPLE_FOR_TOKEN + add.purpose));
        assert_true(a != b);
        sum += (a - 0.5) * (b - 0.5);
    }
    return sum / N_DRAW * 12 * sqrt((double)N_DRAW);
}

/* B116, B019: numbers of two positions, tokens, seeds or purposes that depend on each other (the
 * upper half of the seed ignored, position and token added up, ...). */
static void test_uniform_streams_are_independent(void **state)
{
    (void)state;
    static const stream add[] = {
        {.seed = 1},  {.seed = 1ull << 32}, {.seed = 1ull << 63},   {.pos = 1},
        {.token = 1}, {.purpose = 1},       {.pos = 1, .token = -1}};
    for (size_t i = 0; i < ARRAY_LEN(add); i++) {
        assert_true(fabs(correlation(add[i], 1, 0)) < 5);
        assert_true(fabs(correlation(add[i], 0, 1)) < 5);
    }
}

/* ---- Draws ------------------------------------------------------------------------------------ */

/* Toy p, whose logits are its logarithms. */
static const double toy[] = {0.5, 0.3, 0.1, 0.1};
#define N_TOY 4

static void toy_logits(float *out)
{
    for (int i = 0; i < N_TOY; i++)
        out[i] = (float)log(toy[i]);
}

/* toy at a temperature, of the tokens in the mask alone. */
static void toy_at(double *out, double temp, unsigned mask)
{
    double sum = 0;
    for (int i = 0; i < N_TOY; i++) {
        out[i] = mask >> i & 1 ? pow(toy[i], 1.0 / temp) : 0;
        sum += out[i];
    }
    for (int i = 0; i < N_TOY; i++)
        out[i] /= sum;
}

static const struct {
    float temp;
    int top_k;
    float top_p, min_p;
    unsigned mask;
} toy_cases[] = {
    {1.0f, 0, 1.0f, 0.0f, 15}, /* B005: every temperature is its own distribution */
    {0.2f, 0, 1.0f, 0.0f, 15},  {0.7f, 0, 1.0f, 0.0f, 15}, {1.5f, 0, 1.0f, 0.0f, 15},
    {1.0f, 0, 1.0f, 0.3f, 3}, /* B018: tokens 2 and 3 never appear */
    {1.0f, 0, 0.75f, 0.0f, 3},  {1.0f, 0, 0.85f, 0.0f, 7}, {1.0f, 3, 1.0f, 0.0f, 7},
    {0.6f, 3, 0.97f, 0.05f, 7}, {1.0f, 1, 1.0f, 0.0f, 1}, /* B006 */
};

/* B001, B004, B005, B018: drawn frequencies that are not those of the parameters. */
static void test_draw_frequencies_match_the_exact_distribution(void **state)
{
    (void)state;
    float logits[N_TOY];
    toy_logits(logits);
    for (size_t i = 0; i < ARRAY_LEN(toy_cases); i++) {
        sample_params p = params_of(toy_cases[i].temp, toy_cases[i].top_k, toy_cases[i].top_p,
                                    toy_cases[i].min_p, 0);
        double want[N_TOY];
        toy_at(want, (double)p.temp, toy_cases[i].mask);
        sample_dist d;
        make_dist(&d, logits, N_TOY, &p);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            int df;
            double chi2 = chi2_of_draws(&d, seed, want, N_TOY, &df);
            if (!(df == 0 ? chi2 == 0 : chi2 < chi2_limit(df)))
                fail_msg("case %zu, seed %d: chi2 %g", i, (int)seed, chi2);
        }
        sample_dist_deinit(&d);
    }
}

/* The test above that could not fail: it must see a temperature, a top-p and a min-p that are
 * slightly or wholly ignored. */
static void test_draw_frequencies_of_wrong_parameters_are_seen(void **state)
{
    (void)state;
    float logits[N_TOY];
    toy_logits(logits);
    sample_params p = plain_params(0.7f);
    sample_dist d;
    make_dist(&d, logits, N_TOY, &p);
    double want[N_TOY];
    int df;
    toy_at(want, 0.72, 15);
    assert_true(chi2_of_draws(&d, 1, want, N_TOY, &df) > chi2_limit(3));
    toy_at(want, 0.7, 7);
    assert_true(chi2_of_draws(&d, 1, want, N_TOY, &df) > chi2_limit(2));
    sample_dist_deinit(&d);
}

/* B116: a draw that depends on how many draws came before, or a distribution that depends on what
 * its workspace held. */
static void test_draw_same_key_gives_the_same_token_in_any_order(void **state)
{
    (void)state;
    enum { N = 500 };
    float logits[12];
    for (int i = 0; i < 12; i++)
        logits[i] = (float)(i * 7 % 12) * 0.3f;
    sample_params p = plain_params(1.0f);
    sample_dist d;
    make_dist(&d, logits, 12, &p);
    int32_t forward[N];
    int n_other_seed = 0;
    for (int pos = 0; pos < N; pos++)
        forward[pos] = sample_draw(&d, 99, pos);
    for (int pos = N - 1; pos >= 0; pos--) {
        n_other_seed += sample_draw(&d, 100, pos) != forward[pos];
        assert_int_equal(sample_draw(&d, 99, pos), forward[pos]);
    }
    assert_true(n_other_seed > N / 2);
    sample_dist_deinit(&d);
}

/* Positions whose draws influence each other: the pairs of neighbours are not the product. */
static void test_draw_neighbouring_positions_are_independent(void **state)
{
    (void)state;
    float logits[N_TOY];
    toy_logits(logits);
    sample_params p = plain_params(1.0f);
    sample_dist d;
    make_dist(&d, logits, N_TOY, &p);
    int count[N_TOY][N_TOY] = {{0}};
    for (int i = 0; i < N_DRAW; i++)
        count[sample_draw(&d, 5, 2 * i)][sample_draw(&d, 5, 2 * i + 1)]++;
    double chi2 = 0;
    for (int a = 0; a < N_TOY; a++) {
        for (int b = 0; b < N_TOY; b++) {
            double expected = toy[a] * toy[b] * N_DRAW;
            chi2 += (count[a][b] - expected) * (count[a][b] - expected) / expected;
        }
    }
    assert_true(chi2 < chi2_limit(N_TOY * N_TOY - 1));
    sample_dist_deinit(&d);
}

/* The shortcut over the long tail drops a token that could have won: a plain argmax over all says
 * otherwise. */
static void test_draw_of_a_long_tail_equals_the_plain_argmax(void **state)
{
    (void)state;
    enum { N = 3000 };
    static float logits[N];
    for (int i = 0; i < N; i++)
        logits[i] = -0.02f * (float)((i * 1237) % N);
    sample_params p = plain_params(1.0f);
    sample_dist d;
    make_dist(&d, logits, N, &p);
    for (int pos = 0; pos < 300; pos++) {
        int best = 0;
        double top = -(double)INFINITY;
        for (int i = 0; i < d.n; i++) {
            double g = -log(-log(sample_uniform(3, pos, d.id[i], SAMPLE_FOR_TOKEN)));
            if (d.logp[i] + g > top) {
                top = d.logp[i] + g;
                best = d.id[i];
            }
        }
        assert_int_equal(sample_draw(&d, 3, pos), best);
    }
    sample_dist_deinit(&d);
}

/* B117: temperature 0 takes a random branch; B118: near ties. 20 runs, seeds and positions differ. */
static void test_draw_at_zero_temperature_is_the_argmax(void **state)
{
    (void)state;
    static const float logits[] = {1.0f, 3.0f, 2.999f, 3.0f, -1.0f};
    for (int run = 0; run < 20; run++) {
        sample_params p = plain_params(0.0f);
        p.seed = (uint64_t)run * 12345;
        sample_dist d;
        make_dist(&d, logits, 5, &p);
        assert_int_equal(d.n, 1);
        assert_true(d.p[0] == 1 && d.logp[0] == 0);
        assert_int_equal(sample_draw(&d, p.seed, run), 1); /* the lowest of the tied 1 and 3 */
        sample_dist_deinit(&d);
    }
}

/* B117: a temperature near 0 overflows, or draws anything but the highest. */
static void test_draw_at_tiny_temperature_is_the_argmax(void **state)
{
    (void)state;
    static const float logits[] = {1.0f, 3.0f, 2.999f, 3.001f, -1.0f};
    static const float temp[] = {1e-9f, 1e-38f, FLT_TRUE_MIN};
    for (int run = 0; run < 20; run++) {
        sample_params p = plain_params(temp[run % 3]);
        sample_dist d;
        make_dist(&d, logits, 5, &p);
        assert_int_equal(d.n, 1);
        assert_int_equal(sample_draw(&d, (uint64_t)run, run), 3);
        sample_dist_deinit(&d);
    }
}

/* A draw or a distribution that allocates. */
static void test_draw_and_distribution_allocate_nothing(void **state)
{
    (void)state;
    float logits[N_TOY];
    toy_logits(logits);
    sample_params p = sample_params_default();
    sample_ctx *c;
    sample_dist d;
    assert_int_equal(sample_ctx_create(&c, N_TOY, NULL), FT_OK);
    assert_int_equal(sample_dist_init(&d, sample_dist_need(&p, N_TOY), NULL), FT_OK);
    sample_row row = {.logits = logits, .n = N_TOY};
    long before = mem_count();
    mem_guard_begin();
    assert_int_equal(sample_distribution(c, &d, &row, &p, NULL), FT_OK);
    (void)sample_draw(&d, 1, 1);
    mem_guard_end();
    assert_int_equal(mem_count(), before);
    sample_dist_deinit(&d);
    sample_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_params_default_pass_the_check),
        cmocka_unit_test(test_params_absurd_values_are_refused_or_give_a_valid_id),
        cmocka_unit_test(test_philox_published_vectors_match),
        cmocka_unit_test(test_uniform_is_inside_the_unit_interval_and_uniform),
        cmocka_unit_test(test_uniform_streams_are_independent),
        cmocka_unit_test(test_draw_frequencies_match_the_exact_distribution),
        cmocka_unit_test(test_draw_frequencies_of_wrong_parameters_are_seen),
        cmocka_unit_test(test_draw_same_key_gives_the_same_token_in_any_order),
        cmocka_unit_test(test_draw_neighbouring_positions_are_independent),
        cmocka_unit_test(test_draw_of_a_long_tail_equals_the_plain_argmax),
        cmocka_unit_test(test_draw_at_zero_temperature_is_the_argmax),
        cmocka_unit_test(test_draw_at_tiny_temperature_is_the_argmax),
        cmocka_unit_test(test_draw_and_distribution_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
