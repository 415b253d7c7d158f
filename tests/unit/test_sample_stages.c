/* The order of the stages: its names, every permutation against a plain implementation in double,
 * and parameters as absurd as they come. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sample/sample.h"

#define N_PERMUTATION 120
#define N_HIST_MAX    2000
#define N_BIAS_MAX    8
#define V_MAX         6000

/* ---- Help ------------------------------------------------------------------------------------- */

static uint64_t rng_state = 0xDA942042E4DD58B5ull;

static uint32_t rng(void) /* xorshift64 */
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return (uint32_t)(rng_state >> 32);
}

static int below(int n)
{
    return (int)(rng() % (unsigned)n);
}

static double rng_unit(void)
{
    return ((double)rng() + 0.5) / 4294967296.0;
}

static float rng_normal(void)
{
    return (float)(sqrt(-2 * log(rng_unit())) * cos(6.283185307179586 * rng_unit()));
}

/* ---- Names ------------------------------------------------------------------------------------ */

static void expect_stages(const char *text, const sample_stage *want, int n)
{
    sample_params p = sample_params_default();
    assert_int_equal(sample_stages_parse(&p, text, NULL), FT_OK);
    assert_int_equal(p.n_stage, n);
    assert_memory_equal(p.stage, want, (size_t)n * sizeof *want);
    assert_int_equal(sample_params_check(&p, NULL), FT_OK);
}

/* A separator is not seen, a name is taken for another, or the default is another order. */
static void test_stages_parse_reads_both_separators(void **state)
{
    (void)state;
    static const sample_stage all[] = {SAMPLE_PENALTIES, SAMPLE_TOP_K, SAMPLE_TEMP, SAMPLE_MIN_P,
                                       SAMPLE_TOP_P};
    static const sample_stage other[] = {SAMPLE_TOP_P, SAMPLE_TEMP, SAMPLE_PENALTIES};
    expect_stages("penalties;top_k;temp;min_p;top_p", all, 5);
    expect_stages("penalties,top_k;temp,min_p,top_p", all, 5);
    expect_stages("top_p,temp,penalties", other, 3);
    expect_stages("temp", other + 1, 1);
    sample_params d = sample_params_default();
    assert_int_equal(d.n_stage, 5);
    assert_memory_equal(d.stage, all, sizeof all);
}

/* A misspelt or forgotten stage is dropped without a word, or the old order is half overwritten. */
static void test_stages_parse_of_unknown_or_repeated_names_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"top-k", "'top-k', want some of penalties, top_k, temp, min_p, top_p"},
        {"temp;topk;min_p", "'topk'"},
        {"temp;TOP_K", "'TOP_K'"},
        {"temp;top_", "'top_'"},
        {"temp; top_k", "' top_k'"},
        {"", "''"},
        {";", "''"},
        {"temp;", "''"},
        {"temp,,min_p", "''"},
        {"temp;min_p;temp", "temp comes twice"},
        {"penalties;top_k;temp;min_p;top_p;top_p", "top_p comes twice"},
        {"temp;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        sample_params p = sample_params_default(), was = p;
        ft_error err = {0};
        assert_int_equal(sample_stages_parse(&p, cases[i].text, &err), FT_ARG);
        if (!strstr(err.msg, cases[i].message))
            fail_msg("'%s': %s", cases[i].text, err.msg);
        assert_int_equal(p.n_stage, was.n_stage);
        assert_memory_equal(p.stage, was.stage, sizeof p.stage);
    }
}

/* ---- The plain implementation ----------------------------------------------------------------- */

typedef struct {
    int32_t id;
    double x, p;
} item;

typedef struct {
    item *it;
    int m;
    double close; /* how near a border counts as a tie that rounding may decide */
    bool doubt;   /* such a tie was seen */
} plain;

static int by_rank(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->x != y->x)
        return x->x > y->x ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static int by_id(const void *a, const void *b)
{
    const item *x = a, *y = b;
    return x->id < y->id ? -1 : 1;
}

/* Sort by rank, and make the probabilities of the logits as they are. */
static void plain_rank(plain *s)
{
    qsort(s->it, (size_t)s->m, sizeof *s->it, by_rank);
    double sum = 0;
    for (int i = s->m - 1; i >= 0; i--)
        sum += s->it[i].p = exp(s->it[i].x - s->it[0].x);
    for (int i = 0; i < s->m; i++)
        s->it[i].p /= sum;
}

static void plain_cut(plain *s, int k)
{
    plain_rank(s);
    if (k >= s->m)
        return;
    double gap = s->it[k - 1].x - s->it[k].x;
    s->doubt |= s->close > 1e-9 && gap < s->close; /* exact logits: equal ones are no doubt */
    s->m = k;
}

static void plain_top_p(plain *s, double top_p)
{
    double sum = 0;
    int keep = 0;
    plain_rank(s);
    while (keep < s->m && (keep == 0 || sum < top_p)) {
        sum += s->it[keep++].p;
        s->doubt |= fabs(sum - top_p) < s->close;
    }
    if (keep < s->m && s->close > 1e-9)
        s->doubt |= s->it[keep - 1].x - s->it[keep].x < s->close;
    s->m = keep;
}

static void plain_min_p(plain *s, double min_p)
{
    int keep = 0;
    plain_rank(s);
    while (keep < s->m && s->it[keep].p >= min_p * s->it[0].p)
        keep++;
    for (int i = 1; i < s->m; i++)
        s->doubt |= s->it[i].x < s->it[0].x &&
                    fabs(s->it[i].p / s->it[0].p / min_p - 1) < fmax(s->close, 1e-12);
    s->m = keep;
}

static void plain_penalties(plain *s, const sample_row *row, const sample_params *p, bool bias_only)
{
    int n =
        p->penalty_last_n < 0 || p->penalty_last_n > row->n_hist ? row->n_hist : p->penalty_last_n;
    for (int i = 0; i < s->m; i++) {
        item *it = &s->it[i];
        int count = 0;
        for (int j = 0; j < n && !bias_only; j++)
            count += row->hist[row->n_hist - 1 - j] == it->id;
        if (count > 0) {
            it->x =
                it->x > 0 ? it->x / (double)p->repeat_penalty : it->x * (double)p->repeat_penalty;
            it->x -= (double)p->presence_penalty;
            it->x -= count * (double)p->frequency_penalty;
        }
        for (int j = 0; j < p->n_bias; j++)
            it->x += p->bias[j].id == it->id ? (double)p->bias[j].bias : 0;
    }
}

/* The words of the header, one after the other. s->it [row->n] comes back ascending in id. */
static void plain_run(plain *s, const sample_row *row, const sample_params *p)
{
    bool listed = false;
    s->m = 0;
    for (int i = 0; i < row->n; i++) {
        int32_t id = row->id ? row->id[i] : i;
        bool out = row->logits[i] == -INFINITY;
        for (int j = 0; j < p->n_bias; j++)
            out |= p->bias[j].id == id && p->bias[j].bias == -INFINITY;
        if (!out)
            s->it[s->m++] = (item){.id = id, .x = (double)row->logits[i]};
    }
    for (int i = 0; i < p->n_stage; i++)
        listed |= p->stage[i] == SAMPLE_PENALTIES;
    if (!listed)
        plain_penalties(s, row, p, true);
    for (int i = 0; i < p->n_stage && s->m > 0; i++) {
        if (p->stage[i] == SAMPLE_PENALTIES)
            plain_penalties(s, row, p, false);
        else if (p->stage[i] == SAMPLE_TOP_K && p->top_k > 0)
            plain_cut(s, p->top_k);
        else if (p->stage[i] == SAMPLE_MIN_P && p->min_p > 0)
            plain_min_p(s, (double)p->min_p);
        else if (p->stage[i] == SAMPLE_TOP_P && p->top_p < 1)
            plain_top_p(s, (double)p->top_p);
        else if (p->stage[i] == SAMPLE_TEMP && p->temp > 0) {
            for (int j = 0; j < s->m; j++)
                s->it[j].x /= (double)p->temp;
        }
    }
    if (s->m > 0)
        plain_cut(s, p->temp == 0 ? 1 : s->m);
    plain_rank(s);
    while (s->m > 0 && s->it[s->m - 1].p == 0)
        s->m--;
    qsort(s->it, (size_t)s->m, sizeof *s->it, by_id);
}

/* ---- Every permutation ------------------------------------------------------------------------ */

static void nth_order(sample_params *p, int nth)
{
    sample_stage left[SAMPLE_N_STAGE];
    for (int i = 0; i < SAMPLE_N_STAGE; i++)
        left[i] = (sample_stage)i;
    for (int i = 0; i < SAMPLE_N_STAGE; i++) {
        int n = SAMPLE_N_STAGE - i, at = nth % n;
        nth /= n;
        p->stage[i] = left[at];
        for (int j = at; j < n - 1; j++)
            left[j] = left[j + 1];
    }
}

/* A case; all that it points to is static. exact: every value is a small dyadic fraction, so that
 * nothing is rounded anywhere and equal logits are equal. */
typedef struct {
    sample_row row;
    sample_params p;
    int v;
} order_case;

static void random_row(order_case *c, bool exact)
{
    static float x[V_MAX];
    static int32_t id[V_MAX], hist[N_HIST_MAX];
    static const int sizes[] = {1, 2, 5, 12, 40, 70};
    c->v = below(100) ? sizes[below(6)] : 3000 + below(3000);
    bool map = below(3) == 0;
    int n = 0;
    for (int i = 0; i < c->v; i++) {
        if (map && below(2) && !(i == c->v - 1 && n == 0))
            continue;
        id[n] = i;
        x[n++] = exact ? (float)(below(1024) - 512) / 64.0f : rng_normal() * 3;
        if (below(20) == 0 && n > 1)
            x[n - 1] = -INFINITY;
    }
    int n_hist = below(3) ? below(20) : below(c->v > 100 ? N_HIST_MAX : 100);
    for (int i = 0; i < n_hist; i++)
        hist[i] = below(c->v + 1) - (below(50) == 0);
    c->row = (sample_row){.logits = x, .n = n, .id = map ? id : NULL, .hist = hist};
    c->row.n_hist = n_hist;
}

static void random_params(order_case *c, bool exact)
{
    static sample_bias bias[N_BIAS_MAX];
    static const float temps[] = {0.0f, 0.25f, 0.5f, 1.0f, 2.0f}, repeats[] = {1.0f, 2.0f, 0.5f};
    static const int windows[] = {-1, -1, 0, 1, 5, 64};
    sample_params *p = &c->p;
    p->temp = exact || below(4) == 0 ? temps[below(5)] : (float)(0.2 + 2 * rng_unit());
    p->top_k = below(3) ? below(c->v > 100 ? 60 : c->v + 2) : 0;
    p->top_p = below(2) ? (float)rng_unit() : 1.0f;
    p->min_p = below(2) ? (float)(rng_unit() * (below(2) ? 0.1 : 1)) : 0.0f;
    p->repeat_penalty = exact ? repeats[below(3)] : (float)(0.5 + rng_unit());
    p->presence_penalty = (float)below(33) / 16.0f - 1.0f;
    p->frequency_penalty = below(2) ? (float)below(9) / 32.0f : 0.0f;
    p->penalty_last_n = windows[below(6)];
    int n_vocab = c->row.id ? c->v : c->row.n;
    p->bias = bias;
    p->n_bias = below(2) ? below(N_BIAS_MAX + 1) : 0;
    for (int i = 0; i < p->n_bias; i++) {
        float b = (float)below(161) / 16.0f - 5.0f;
        bias[i] = (sample_bias){below(n_vocab), below(5) ? b : -INFINITY};
    }
}

/* False: rounding may decide this case, nothing was compared. */
static bool expect_plain(sample_ctx *ctx, sample_dist *d, const order_case *c, bool exact)
{
    static item it[V_MAX];
    plain s = {.it = it, .close = exact ? 1e-12 : 1e-4};
    plain_run(&s, &c->row, &c->p);
    ft_error err = {0};
    ft_status st = sample_distribution(ctx, d, &c->row, &c->p, &err);
    if (s.m == 0) { /* all banned or masked */
        assert_true(st == FT_ARG || st == FT_DEVICE);
        return true;
    }
    if (st != FT_OK)
        fail_msg("%s", err.msg);
    if (s.doubt)
        return false;
    const sample_params *p = &c->p;
    if (d->n != s.m)
        fail_msg(
            "n %d order %d%d%d%d%d (%d) temp %g top_k %d top_p %g min_p %g: %d tokens, want %d",
            c->row.n, p->stage[0], p->stage[1], p->stage[2], p->stage[3], p->stage[4], p->n_stage,
            (double)p->temp, p->top_k, (double)p->top_p, (double)p->min_p, d->n, s.m);
    double slack = exact ? 1e-9 : 1e-4;
    for (int i = 0; i < s.m; i++) {
        assert_int_equal(d->id[i], it[i].id);
        assert_true(fabs(d->p[i] - it[i].p) <= slack * it[i].p + 1e-14);
        assert_true(it[i].p < 1e-250 || fabs(d->logp[i] - log(it[i].p)) < slack);
    }
    return true;
}

/* Stages in another order than asked, a stage that sees what it should not, the temperature missing
 * from a penalty behind it, equal logits out of order, a stage that is not listed and acts. */
static void test_every_order_of_stages_equals_the_plain_implementation(void **state)
{
    (void)state;
    sample_ctx *ctx;
    sample_dist d;
    int n_compared = 0;
    assert_int_equal(sample_ctx_create(&ctx, V_MAX, NULL), FT_OK);
    assert_int_equal(sample_dist_init(&d, V_MAX, NULL), FT_OK);
    for (int i = 0; i < N_PERMUTATION * 100; i++) {
        order_case c = {.p = sample_params_default()};
        bool exact = i / N_PERMUTATION % 2 == 0;
        nth_order(&c.p, i % N_PERMUTATION);
        if (below(4) == 0)
            c.p.n_stage = below(SAMPLE_N_STAGE);
        random_row(&c, exact);
        random_params(&c, exact);
        n_compared += expect_plain(ctx, &d, &c, exact);
    }
    assert_true(n_compared > N_PERMUTATION * 95);
    sample_dist_deinit(&d);
    sample_ctx_free(ctx);
}

/* ---- Absurd values ---------------------------------------------------------------------------- */

static float absurd(float usual)
{
    static const float x[] = {0.0f,     -0.0f,     1.0f,         -1.0f,     1e-9f,  1e-38f,
                              1e38f,    FLT_MAX,   FLT_TRUE_MIN, 0.5f,      100.0f, -100.0f,
                              INFINITY, -INFINITY, NAN,          999999.0f, 0.01f,  -FLT_TRUE_MIN};
    return below(6) ? usual : x[below((int)ARRAY_LEN(x))];
}

static int absurd_int(int usual)
{
    static const int x[] = {0, 1, -1, -2, 7, 1000, INT32_MAX, INT32_MIN};
    return below(6) ? usual : x[below((int)ARRAY_LEN(x))];
}

static sample_params absurd_params(sample_bias *bias, int n_bias)
{
    sample_params p = sample_params_default();
    p.temp = absurd(0.7f);
    p.top_k = absurd_int(3);
    p.top_p = absurd(0.9f);
    p.min_p = absurd(0.05f);
    p.repeat_penalty = absurd(1.1f);
    p.presence_penalty = absurd(0.5f);
    p.frequency_penalty = absurd(0.1f);
    p.penalty_last_n = absurd_int(64);
    nth_order(&p, below(N_PERMUTATION));
    p.n_stage = below(8) ? SAMPLE_N_STAGE : below(SAMPLE_N_STAGE + 3) - 1;
    if (below(20) == 0)
        p.stage[below(SAMPLE_N_STAGE)] = (sample_stage)below(7);
    for (int i = 0; i < n_bias; i++)
        bias[i] = (sample_bias){below(30) ? below(10) : absurd_int(1), absurd(2.0f)};
    p.bias = bias;
    p.n_bias = below(3) ? below(n_bias + 1) : 0;
    return p;
}

/* B020, B022: some combination hangs, crashes, or gives an id that is none or is banned. */
static void test_absurd_parameters_give_a_valid_id_or_a_refusal(void **state)
{
    (void)state;
    static const float x[10] = {0.5f, -3, 2, 2, -INFINITY, FLT_MAX, -FLT_MAX, 0, -0.0f, 1e-40f};
    static const int32_t hist[] = {5, 5, 2, 6, -1, 3, 99, 6};
    sample_ctx *ctx;
    sample_dist d;
    int n_ok = 0;
    assert_int_equal(sample_ctx_create(&ctx, 10, NULL), FT_OK);
    assert_int_equal(sample_dist_init(&d, 10, NULL), FT_OK);
    for (int round = 0; round < 30000; round++) {
        sample_bias bias[3];
        sample_params p = absurd_params(bias, 3);
        sample_row row = {.logits = x, .n = 10, .hist = hist, .n_hist = below(9)};
        ft_error err = {0};
        ft_status st = sample_distribution(ctx, &d, &row, &p, &err);
        if (st != FT_OK) {
            assert_int_equal(st, FT_ARG);
            assert_memory_equal(err.msg, "sample: ", 8);
            assert_int_equal(d.n, 0);
            continue;
        }
        n_ok++;
        assert_in_range(d.n, 1, 9);
        double sum = 0;
        for (int i = 0; i < d.n; i++) {
            sum += d.p[i];
            assert_true(d.p[i] > 0 && d.id[i] != 4 && (i == 0 || d.id[i] > d.id[i - 1]));
            for (int j = 0; j < p.n_bias; j++)
                assert_true(bias[j].id != d.id[i] || bias[j].bias >= -1000);
        }
        assert_true(fabs(sum - 1) < 1e-12);
        assert_true(sample_dist_logp(&d, sample_draw(&d, 3, round)) <= 0);
    }
    assert_true(n_ok > 3000);
    sample_dist_deinit(&d);
    sample_ctx_free(ctx);
}

typedef struct {
    const char *field;
    sample_params p;
} refusal;

/* B020: a value outside its range is refused without naming it, or let through. */
static void test_refusals_name_the_field_and_the_range(void **state)
{
    (void)state;
    static const float bad_repeat[] = {0, -0.0f, -1, 0.0099f, 100.5f, 1e-38f, 1e38f, NAN, INFINITY};
    static const float bad_penalty[] = {-101, 100.5f, 1e38f, NAN, INFINITY, -INFINITY};
    static const float bad_bias[] = {1000.5f, -1001, INFINITY, NAN};
    for (size_t i = 0; i < ARRAY_LEN(bad_repeat); i++) {
        sample_params p = sample_params_default();
        ft_error err = {0};
        p.repeat_penalty = bad_repeat[i];
        assert_int_equal(sample_params_check(&p, &err), FT_ARG);
        assert_non_null(strstr(err.msg, "repeat_penalty is "));
        assert_non_null(strstr(err.msg, "want 0.01 to 100 (1: off)"));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad_penalty); i++) {
        sample_params p = sample_params_default(), q = p;
        ft_error err = {0}, err2 = {0};
        p.presence_penalty = q.frequency_penalty = bad_penalty[i];
        assert_int_equal(sample_params_check(&p, &err), FT_ARG);
        assert_int_equal(sample_params_check(&q, &err2), FT_ARG);
        assert_non_null(strstr(err.msg, "presence_penalty is "));
        assert_non_null(strstr(err2.msg, "frequency_penalty is "));
        assert_non_null(strstr(err2.msg, "want -100 to 100"));
    }
    for (size_t i = 0; i < ARRAY_LEN(bad_bias); i++) {
        sample_bias b[] = {{3, 0}, {7, bad_bias[i]}};
        sample_params p = sample_params_default();
        ft_error err = {0};
        p.bias = b;
        p.n_bias = 2;
        assert_int_equal(sample_params_check(&p, &err), FT_ARG);
        assert_non_null(strstr(err.msg, "logit_bias of token 7"));
        assert_non_null(strstr(err.msg, "-1000 to 1000"));
    }
}

/* Counts and orders that lead out of an array. */
static void test_refusals_of_counts_and_orders(void **state)
{
    (void)state;
    static const sample_bias negative[] = {{-1, 1}};
    sample_params base = sample_params_default();
    refusal cases[] = {{"penalty_last_n is -2", base},
                       {"logit_bias has -1", base},
                       {"logit_bias has 1 entries and no array", base},
                       {"logit_bias has 4097", base},
                       {"logit_bias of token -1", base},
                       {"-1 stages", base},
                       {"6 stages", base},
                       {"stage 5", base},
                       {"stage top_k comes twice", base}};
    cases[0].p.penalty_last_n = -2;
    cases[1].p.n_bias = -1;
    cases[2].p.n_bias = 1;
    cases[3].p.bias = negative;
    cases[3].p.n_bias = SAMPLE_MAX_BIAS + 1;
    cases[4].p.bias = negative;
    cases[4].p.n_bias = 1;
    cases[5].p.n_stage = -1;
    cases[6].p.n_stage = SAMPLE_N_STAGE + 1;
    cases[7].p.stage[4] = SAMPLE_N_STAGE;
    cases[8].p.stage[4] = SAMPLE_TOP_K;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        ft_error err = {0};
        assert_int_equal(sample_params_check(&cases[i].p, &err), FT_ARG);
        if (!strstr(err.msg, cases[i].field))
            fail_msg("'%s', want '%s'", err.msg, cases[i].field);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_parse_reads_both_separators),
        cmocka_unit_test(test_stages_parse_of_unknown_or_repeated_names_is_refused),
        cmocka_unit_test(test_every_order_of_stages_equals_the_plain_implementation),
        cmocka_unit_test(test_absurd_parameters_give_a_valid_id_or_a_refusal),
        cmocka_unit_test(test_refusals_name_the_field_and_the_range),
        cmocka_unit_test(test_refusals_of_counts_and_orders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
