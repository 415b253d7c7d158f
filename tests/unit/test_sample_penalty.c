/* Penalties and logit bias of a distribution: values by hand, the window of the history, banned and
 * forced tokens, rows of fewer tokens. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sample/sample.h"

/* ---- Help ------------------------------------------------------------------------------------- */

static uint64_t rng_state = 0x853C49E6748FEA9Bull;

static uint32_t rng(void) /* xorshift64 */
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)(rng_state >> 32);
}

/* Temperature 1, no filter, no penalty, the whole history in the window. */
static sample_params open_params(void)
{
    sample_params p = sample_params_default();
    p.temp = 1;
    p.top_k = 0;
    p.top_p = 1;
    p.min_p = 0;
    p.penalty_last_n = -1;
    return p;
}

/* The distribution of row in a context for n_max tokens; the caller frees d. */
static ft_status run(sample_dist *d, const sample_row *row, int n_max, const sample_params *p,
                     ft_error *err)
{
    sample_ctx *c;
    assert_int_equal(sample_ctx_create(&c, n_max, NULL), FT_OK);
    assert_int_equal(sample_dist_init(d, n_max, NULL), FT_OK);
    ft_status st = sample_distribution(c, d, row, p, err);
    sample_ctx_free(c);
    return st;
}

/* Every token's logit as the distribution shows it: relative to the last token, which is 0. */
static void expect_logits(const sample_row *row, const sample_params *p, const double *want)
{
    sample_dist d;
    ft_error err = {0};
    if (run(&d, row, row->n, p, &err) != FT_OK)
        fail_msg("%s", err.msg);
    double zero = sample_dist_logp(&d, row->n - 1);
    for (int i = 0; i < row->n; i++) {
        double got = sample_dist_logp(&d, i) - zero;
        if (!(fabs(got - want[i]) < 1e-6))
            fail_msg("history of %d: token %d has logit %g, want %g", row->n_hist, i, got, want[i]);
    }
    sample_dist_deinit(&d);
}

#define EXPECT_LOGITS(row, p, ...)                         \
    do {                                                   \
        const double want_[] = {__VA_ARGS__};              \
        assert_int_equal((int)ARRAY_LEN(want_), (row)->n); \
        expect_logits(row, p, want_);                      \
    } while (0)

static void expect_same(const sample_dist *a, const sample_dist *b)
{
    assert_int_equal(a->n, b->n);
    size_t n = (size_t)a->n;
    assert_memory_equal(a->id, b->id, n * sizeof *a->id);
    assert_memory_equal(a->p, b->p, n * sizeof *a->p);
    assert_memory_equal(a->logp, b->logp, n * sizeof *a->logp);
}

/* The last token's logit is 0 and never penalised: what the others are measured against. */
static const float toy[6] = {4.0f, -2.0f, 3.0f, 0.5f, -1.0f, 0.0f};

/* ---- By hand ---------------------------------------------------------------------------------- */

/* Negative logits divided as well, which rewards them; a token penalised once per occurrence by the
 * repetition or the presence penalty, or once in all by the frequency penalty. */
static void test_penalty_of_each_kind_is_that_of_the_formula(void **state)
{
    (void)state;
    static const int32_t hist[] = {0, 1, 1, 1};
    sample_row row = {.logits = toy, .n = 6, .hist = hist, .n_hist = 4};
    sample_params p = open_params();
    EXPECT_LOGITS(&row, &p, 4, -2, 3, 0.5, -1, 0);
    p.repeat_penalty = 2;
    EXPECT_LOGITS(&row, &p, 2, -4, 3, 0.5, -1, 0);
    p.repeat_penalty = 0.5f; /* below 1: repetition is encouraged */
    EXPECT_LOGITS(&row, &p, 8, -1, 3, 0.5, -1, 0);
    p.repeat_penalty = 1;
    p.presence_penalty = 0.5f;
    EXPECT_LOGITS(&row, &p, 3.5, -2.5, 3, 0.5, -1, 0);
    p.presence_penalty = 0;
    p.frequency_penalty = 0.25f;
    EXPECT_LOGITS(&row, &p, 3.75, -2.75, 3, 0.5, -1, 0);
    p.repeat_penalty = 2; /* repetition first, then what is subtracted */
    p.presence_penalty = 0.5f;
    EXPECT_LOGITS(&row, &p, 1.25, -5.25, 3, 0.5, -1, 0);
    p.presence_penalty = -1; /* negative: encouraged */
    p.frequency_penalty = 0;
    EXPECT_LOGITS(&row, &p, 3, -3, 3, 0.5, -1, 0);
}

/* B014, B016, B017: rows of a window that count the newest token twice, miss it, or are not
 * penalised at all. Against values by hand and against three plain steps. */
static void test_penalty_rows_of_a_window_equal_plain_steps(void **state)
{
    (void)state;
    static const int32_t all[] = {2, 2, 4}; /* conversation [2], window [2, 4] */
    static const int32_t step0[] = {2}, step1[] = {2, 2}, step2[] = {2, 2, 4};
    static const int32_t *const steps[] = {step0, step1, step2};
    static const double want[3][6] = {{4, -2, 1.5 - 0.4 - 0.25, 0.5, -1, 0},
                                      {4, -2, 1.5 - 0.4 - 0.50, 0.5, -1, 0},
                                      {4, -2, 1.5 - 0.4 - 0.50, 0.5, -2 - 0.4 - 0.25, 0}};
    sample_params p = open_params();
    p.repeat_penalty = 2;
    p.presence_penalty = 0.4f;
    p.frequency_penalty = 0.25f;
    for (int i = 0; i < 3; i++) {
        sample_row row = {.logits = toy, .n = 6, .hist = all, .n_hist = i + 1};
        sample_row plain = {.logits = toy, .n = 6, .hist = steps[i], .n_hist = i + 1};
        expect_logits(&row, &p, want[i]);
        sample_dist a, b;
        assert_int_equal(run(&a, &row, 6, &p, NULL), FT_OK);
        assert_int_equal(run(&b, &plain, 6, &p, NULL), FT_OK);
        expect_same(&a, &b);
        sample_dist_deinit(&a);
        sample_dist_deinit(&b);
    }
}

/* B019: a context remembers the counts of an earlier row, one that was refused included. */
static void test_penalty_leaves_no_trace_in_the_context(void **state)
{
    (void)state;
    static const int32_t before[] = {0, 1, 2, 3, 4, 5}, after[] = {1};
    static const float nan_row[6] = {0, 0, NAN, 0, 0, 0};
    static const sample_bias bias[] = {{.id = 3, .bias = 2}};
    sample_params p = open_params(), q = p;
    p.frequency_penalty = q.frequency_penalty = 1;
    q.bias = bias;
    q.n_bias = 1;
    sample_ctx *c;
    sample_dist a, b;
    assert_int_equal(sample_ctx_create(&c, 6, NULL), FT_OK);
    assert_int_equal(sample_dist_init(&a, 6, NULL), FT_OK);
    sample_row row = {.logits = toy, .n = 6, .hist = before, .n_hist = 6};
    assert_int_equal(sample_distribution(c, &a, &row, &q, NULL), FT_OK);
    row.logits = nan_row;
    assert_int_equal(sample_distribution(c, &a, &row, &q, NULL), FT_DEVICE);
    row = (sample_row){.logits = toy, .n = 6, .hist = after, .n_hist = 1};
    assert_int_equal(sample_distribution(c, &a, &row, &p, NULL), FT_OK);
    assert_int_equal(run(&b, &row, 6, &p, NULL), FT_OK);
    expect_same(&a, &b);
    sample_dist_deinit(&a);
    sample_dist_deinit(&b);
    sample_ctx_free(c);
}

/* The window is one too long or too short, starts at the wrong end, or 0 and -1 mean each other. */
static void test_penalty_window_ends_exactly_at_last_n(void **state)
{
    (void)state;
    static const int32_t hist[] = {0, 1, 2, 3};
    sample_row row = {.logits = toy, .n = 6, .hist = hist, .n_hist = 4};
    sample_params p = open_params();
    p.presence_penalty = 1;
    p.penalty_last_n = 0;
    EXPECT_LOGITS(&row, &p, 4, -2, 3, 0.5, -1, 0);
    p.penalty_last_n = 1;
    EXPECT_LOGITS(&row, &p, 4, -2, 3, -0.5, -1, 0);
    p.penalty_last_n = 3;
    EXPECT_LOGITS(&row, &p, 4, -3, 2, -0.5, -1, 0);
    for (int n = 4; n < 7; n++) { /* exactly all, and more than there are */
        p.penalty_last_n = n == 6 ? INT32_MAX : n;
        EXPECT_LOGITS(&row, &p, 3, -3, 2, -0.5, -1, 0);
    }
    p.penalty_last_n = -1;
    EXPECT_LOGITS(&row, &p, 3, -3, 2, -0.5, -1, 0);
    row.n_hist = 0;
    EXPECT_LOGITS(&row, &p, 4, -2, 3, 0.5, -1, 0);
    row.hist = NULL;
    EXPECT_LOGITS(&row, &p, 4, -2, 3, 0.5, -1, 0);
}

/* B021: an id that is no token is used as an index. */
static void test_penalty_of_ids_outside_the_vocabulary_is_none(void **state)
{
    (void)state;
    static const int32_t hist[] = {-1, 6, INT32_MAX, INT32_MIN, 0};
    sample_row row = {.logits = toy, .n = 6, .hist = hist, .n_hist = 5};
    sample_params p = open_params();
    p.presence_penalty = 1;
    EXPECT_LOGITS(&row, &p, 3, -2, 3, 0.5, -1, 0);
    sample_dist d;
    row.n_hist = -1;
    assert_int_equal(run(&d, &row, 6, &p, NULL), FT_ARG);
    sample_dist_deinit(&d);
    row = (sample_row){.logits = toy, .n = 6, .hist = NULL, .n_hist = 1};
    assert_int_equal(run(&d, &row, 6, &p, NULL), FT_ARG);
    sample_dist_deinit(&d);
}

/* Logits near the ends of float become infinite, or NaN. */
static void test_penalty_of_huge_logits_stays_finite(void **state)
{
    (void)state;
    static const float x[] = {FLT_MAX, -FLT_MAX, 0.0f, -INFINITY};
    static const int32_t hist[] = {0, 1, 2, 3};
    static const float repeat[] = {0.01f, 100.0f};
    for (int i = 0; i < 2; i++) {
        sample_row row = {.logits = x, .n = 4, .hist = hist, .n_hist = 4};
        sample_params p = open_params();
        p.repeat_penalty = repeat[i];
        sample_dist d;
        assert_int_equal(run(&d, &row, 4, &p, NULL), FT_OK);
        assert_int_equal(d.n, 1);
        assert_int_equal(d.id[0], 0);
        assert_true(d.p[0] == 1);
        sample_dist_deinit(&d);
    }
}

/* ---- Temperature 0 ---------------------------------------------------------------------------- */

static int32_t only_token(const sample_row *row, const sample_params *p)
{
    sample_dist d;
    assert_int_equal(run(&d, row, row->n, p, NULL), FT_OK);
    assert_int_equal(d.n, 1);
    int32_t id = d.id[0];
    sample_dist_deinit(&d);
    return id;
}

/* The argmax is taken of the raw row; of equal penalised logits not the lowest id wins. */
static void test_temperature_zero_is_the_argmax_after_penalties_and_bias(void **state)
{
    (void)state;
    static const int32_t hist[] = {0};
    sample_bias bias[] = {{.id = 5, .bias = 3.0f}};
    sample_row row = {.logits = toy, .n = 6, .hist = hist, .n_hist = 1};
    sample_params p = sample_params_default();
    p.temp = 0;
    assert_int_equal(only_token(&row, &p), 0);
    p.presence_penalty = 1; /* tokens 0 and 2 are 3 both */
    assert_int_equal(only_token(&row, &p), 0);
    p.presence_penalty = 1.5f;
    assert_int_equal(only_token(&row, &p), 2);
    p.bias = bias;
    p.n_bias = 1; /* tokens 2 and 5 are 3 both */
    assert_int_equal(only_token(&row, &p), 2);
    bias[0].bias = 3.5f;
    assert_int_equal(only_token(&row, &p), 5);
    p.top_k = 1; /* filters in front of the penalties count, those behind them change nothing */
    assert_int_equal(only_token(&row, &p), 5);
    assert_int_equal(sample_stages_parse(&p, "top_k,penalties", NULL), FT_OK);
    assert_int_equal(only_token(&row, &p), 0);
}

/* At a border, equal penalised logits do not keep the lowest ids. */
static void test_ties_under_penalties_keep_the_lowest_ids(void **state)
{
    (void)state;
    static const float x[] = {2.0f, 4.0f, 2.0f, 4.0f, 2.0f};
    static const int32_t hist[] = {3, 1};
    sample_row row = {.logits = x, .n = 5, .hist = hist, .n_hist = 2};
    sample_params p = open_params();
    p.repeat_penalty = 2;
    for (int k = 1; k <= 5; k++) {
        p.top_k = k;
        sample_dist d;
        assert_int_equal(run(&d, &row, 5, &p, NULL), FT_OK);
        assert_int_equal(d.n, k);
        for (int i = 0; i < k; i++)
            assert_int_equal(d.id[i], i);
        sample_dist_deinit(&d);
    }
    static const float tiny[] = {-FLT_TRUE_MIN, 0.0f}; /* a penalised logit rounds to -0 */
    static const int32_t first[] = {0};
    row = (sample_row){.logits = tiny, .n = 2, .hist = first, .n_hist = 1};
    p.repeat_penalty = 0.01f;
    p.min_p = 0.5f;
    p.top_k = 1;
    assert_int_equal(sample_stages_parse(&p, "min_p;penalties;top_k", NULL), FT_OK);
    assert_int_equal(only_token(&row, &p), 0);
}

/* ---- Bias ------------------------------------------------------------------------------------- */

/* B015, B018: a banned token comes all the same, or takes a place that a filter counts. */
static void test_bias_of_minus_infinity_bans_the_token(void **state)
{
    (void)state;
    static const sample_bias ban[] = {{0, -INFINITY}, {5, -INFINITY}, {0, 1000}};
    static const char *const order[] = {"penalties;top_k;temp;min_p;top_p", "top_k;penalties;temp",
                                        "temp"};
    sample_row row = {.logits = toy, .n = 6};
    for (size_t i = 0; i < ARRAY_LEN(order); i++) {
        sample_params p = open_params();
        assert_int_equal(sample_stages_parse(&p, order[i], NULL), FT_OK);
        p.temp = 5;
        p.top_k = 2;
        p.bias = ban;
        p.n_bias = 3;
        sample_dist d;
        assert_int_equal(run(&d, &row, 6, &p, NULL), FT_OK);
        assert_int_equal(d.n, i == 2 ? 4 : 2);
        assert_true(isinf(sample_dist_logp(&d, 0)) && isinf(sample_dist_logp(&d, 5)));
        for (int pos = 0; pos < 5000; pos++) {
            int32_t id = sample_draw(&d, 7, pos);
            assert_true(id > 0 && id < 5);
        }
        sample_dist_deinit(&d);
        p.temp = 0;
        assert_int_equal(only_token(&row, &p), 2);
    }
}

/* B015: a bias that shall force a token does not. */
static void test_bias_of_100_forces_the_token(void **state)
{
    (void)state;
    static const sample_bias force[] = {{4, 100}};
    static const int32_t hist[] = {4, 4, 4};
    sample_row row = {.logits = toy, .n = 6, .hist = hist, .n_hist = 3};
    sample_params p = sample_params_default();
    p.temp = 1;
    p.repeat_penalty = 1.5f;
    p.frequency_penalty = 2;
    p.bias = force;
    p.n_bias = 1;
    sample_dist d;
    assert_int_equal(run(&d, &row, 6, &p, NULL), FT_OK);
    for (int pos = 0; pos < 5000; pos++)
        assert_int_equal(sample_draw(&d, 7, pos), 4);
    sample_dist_deinit(&d);
}

/* Added before the repetition penalty, twice, scaled, or only the last of several. */
static void test_bias_is_added_to_the_penalised_logit(void **state)
{
    (void)state;
    static const sample_bias bias[] = {{2, 0.25f}, {0, -1}, {2, 0.5f}};
    static const int32_t hist[] = {0, 2};
    sample_row row = {.logits = toy, .n = 6, .hist = hist, .n_hist = 2};
    sample_params p = open_params();
    p.bias = bias;
    p.n_bias = 3;
    EXPECT_LOGITS(&row, &p, 3, -2, 3.75, 0.5, -1, 0);
    p.repeat_penalty = 2;
    EXPECT_LOGITS(&row, &p, 1, -2, 2.25, 0.5, -1, 0);
    assert_int_equal(sample_stages_parse(&p, "temp", NULL), FT_OK);
    EXPECT_LOGITS(&row, &p, 3, -2, 3.75, 0.5, -1, 0); /* bias without penalties */
    p.temp = 0.5f;
    EXPECT_LOGITS(&row, &p, 6, -4, 7.5, 1, -2, 0); /* and before the temperature */
    assert_int_equal(sample_stages_parse(&p, "temp;penalties", NULL), FT_OK);
    p.repeat_penalty = 1;
    EXPECT_LOGITS(&row, &p, 7, -4, 6.75, 1, -2, 0);
}

/* B018: min-p of p = (.5, .3, .1, .1), and of the biased p, at every row of a window. */
static void test_min_p_sees_the_biased_distribution(void **state)
{
    (void)state;
    const float x[] = {(float)log(.5), (float)log(.3), (float)log(.1), (float)log(.1)};
    const sample_bias bias[] = {{2, (float)log(4)}};
    static const int32_t hist[] = {1, 1, 1};
    for (int n_hist = 0; n_hist < 4; n_hist++) {
        sample_row row = {.logits = x, .n = 4, .hist = hist, .n_hist = n_hist};
        sample_params p = open_params();
        p.min_p = 0.3f;
        sample_dist d;
        assert_int_equal(run(&d, &row, 4, &p, NULL), FT_OK);
        assert_int_equal(d.n, 2);
        assert_int_equal(d.id[1], 1);
        sample_dist_deinit(&d);
        p.bias = bias;
        p.n_bias = 1;
        assert_int_equal(run(&d, &row, 4, &p, NULL), FT_OK);
        assert_int_equal(d.n, 3);
        assert_int_equal(d.id[2], 2);
        sample_dist_deinit(&d);
    }
}

/* ---- Refusals --------------------------------------------------------------------------------- */

/* A biased id outside the row is read or written out of bounds; a NaN hides behind a ban; a ban of
 * everything gives a token all the same. */
static void test_bias_outside_the_vocabulary_or_of_everything_is_refused(void **state)
{
    (void)state;
    static const float bad[6] = {0, NAN, 1, 2, INFINITY, 3},
                       masked[6] = {-INFINITY, 0, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
    sample_bias bias[6] = {{6, 1}};
    sample_params p = open_params();
    p.bias = bias;
    p.n_bias = 1;
    sample_row row = {.logits = toy, .n = 6};
    sample_dist d;
    ft_error err = {0};
    assert_int_equal(run(&d, &row, 100, &p, &err), FT_ARG);
    assert_non_null(strstr(err.msg, "logit_bias of token 6, want 0 to 5"));
    sample_dist_deinit(&d);
    assert_int_equal(sample_bias_check(&p, 6, NULL), FT_ARG);
    assert_int_equal(sample_bias_check(&p, 7, NULL), FT_OK);

    for (int i = 0; i < 6; i++)
        bias[i] = (sample_bias){i, -INFINITY};
    p.n_bias = 6;
    err = (ft_error){0};
    assert_int_equal(run(&d, &row, 6, &p, &err), FT_ARG);
    assert_non_null(strstr(err.msg, "logit_bias bans every token"));
    assert_int_equal(d.n, 0);
    sample_dist_deinit(&d);
    p.n_bias = 2;
    row.logits = masked;
    assert_int_equal(run(&d, &row, 6, &p, NULL), FT_ARG);
    sample_dist_deinit(&d);
    p.n_bias = 5;
    row.logits = bad;
    err = (ft_error){0};
    assert_int_equal(run(&d, &row, 6, &p, &err), FT_DEVICE);
    assert_non_null(strstr(err.msg, "2 of 6"));
    sample_dist_deinit(&d);
}

/* ---- Rows of fewer tokens --------------------------------------------------------------------- */

/* Penalties and bias hit the row's index instead of the token; results are indices; a token that the
 * row lacks shifts the others. Equal to the full row with all other tokens masked, bit for bit. */
static void test_row_with_an_id_map_equals_the_masked_full_row(void **state)
{
    (void)state;
    enum { V = 9000, N_HIST = 300 };
    static float full[V], part[V];
    static int32_t id[V], hist[N_HIST];
    for (int round = 0; round < 200; round++) {
        int n = 0, share = 1 + (int)(rng() % 8), v = round % 2 ? V : 40;
        for (int i = 0; i < v; i++) {
            full[i] = -INFINITY;
            if (rng() % 8 < (unsigned)share || i == v / 2) {
                full[i] = part[n] = (float)(int)(rng() % 4000) / 128.0f - 20.0f;
                id[n++] = i;
            }
        }
        for (int i = 0; i < N_HIST; i++)
            hist[i] = (int32_t)(rng() % (unsigned)v);
        sample_bias bias[4];
        for (int i = 0; i < 4; i++)
            bias[i] = (sample_bias){(int32_t)(rng() % (unsigned)v),
                                    i ? (float)(rng() % 20) - 5 : -INFINITY};
        bias[0].id = v / 2 ? v / 2 - 1 : 0;
        sample_params p = open_params();
        p.temp = round % 5 ? 0.7f : 0;
        p.top_k = round % 3 ? 40 : 0;
        p.repeat_penalty = 1.3f;
        p.frequency_penalty = 0.125f;
        p.bias = bias;
        p.n_bias = n > 1 ? 4 : 0;
        sample_row a = {.logits = full, .n = v, .hist = hist, .n_hist = N_HIST};
        sample_row b = {.logits = part, .n = n, .id = id, .hist = hist, .n_hist = N_HIST};
        sample_dist x, y;
        assert_int_equal(run(&x, &a, v, &p, NULL), FT_OK);
        assert_int_equal(run(&y, &b, v, &p, NULL), FT_OK);
        expect_same(&x, &y);
        sample_dist_deinit(&x);
        sample_dist_deinit(&y);
    }
}

/* Counting a history, or keeping it, allocates. */
static void test_penalties_allocate_nothing(void **state)
{
    (void)state;
    static const int32_t hist[] = {0, 1, 2, 2};
    static const sample_bias bias[] = {{3, 1}, {4, -INFINITY}};
    sample_params p = open_params();
    p.repeat_penalty = 1.1f;
    p.bias = bias;
    p.n_bias = 2;
    sample_ctx *c;
    sample_dist d;
    assert_int_equal(sample_ctx_create(&c, 6, NULL), FT_OK);
    assert_int_equal(sample_dist_init(&d, 6, NULL), FT_OK);
    sample_row row = {.logits = toy, .n = 6, .hist = hist, .n_hist = 4};
    long before = mem_count();
    mem_guard_begin();
    assert_int_equal(sample_distribution(c, &d, &row, &p, NULL), FT_OK);
    mem_guard_end();
    assert_int_equal(mem_count(), before);
    sample_dist_deinit(&d);
    sample_ctx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_penalty_of_each_kind_is_that_of_the_formula),
        cmocka_unit_test(test_penalty_rows_of_a_window_equal_plain_steps),
        cmocka_unit_test(test_penalty_leaves_no_trace_in_the_context),
        cmocka_unit_test(test_penalty_window_ends_exactly_at_last_n),
        cmocka_unit_test(test_penalty_of_ids_outside_the_vocabulary_is_none),
        cmocka_unit_test(test_penalty_of_huge_logits_stays_finite),
        cmocka_unit_test(test_temperature_zero_is_the_argmax_after_penalties_and_bias),
        cmocka_unit_test(test_ties_under_penalties_keep_the_lowest_ids),
        cmocka_unit_test(test_bias_of_minus_infinity_bans_the_token),
        cmocka_unit_test(test_bias_of_100_forces_the_token),
        cmocka_unit_test(test_bias_is_added_to_the_penalised_logit),
        cmocka_unit_test(test_min_p_sees_the_biased_distribution),
        cmocka_unit_test(test_bias_outside_the_vocabulary_or_of_everything_is_refused),
        cmocka_unit_test(test_row_with_an_id_map_equals_the_masked_full_row),
        cmocka_unit_test(test_penalties_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
