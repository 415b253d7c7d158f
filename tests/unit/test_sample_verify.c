/* The rules of verification at one position: law, acceptance, refusals. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sample/noise.h"
#include "sample/verify.h"
#include "support/dists.h"

#define N_TOK  6
#define N_DRAW 50000

static uint64_t rng = 0x9E3779B97F4A7C15u;

/* p, the row behind an accepted draft, and q. */
static sample_dist p[2], q;

static int setup(void **state)
{
    (void)state;
    return sample_dist_init(&p[0], N_TOK, NULL) == FT_OK &&
                   sample_dist_init(&p[1], N_TOK, NULL) == FT_OK &&
                   sample_dist_init(&q, N_TOK, NULL) == FT_OK
               ? 0
               : -1;
}

static int teardown(void **state)
{
    (void)state;
    sample_dist_deinit(&p[0]);
    sample_dist_deinit(&p[1]);
    sample_dist_deinit(&q);
    return 0;
}

typedef struct {
    double p[N_TOK], q[N_TOK];
} pair;

static const pair pairs[] = {
    {{0.5, 0.3, 0.2}, {1}},                             /* B007: a draft that is always token 0 */
    {{0.5, 0.3, 0.1, 0.1}, {0.25, 0.25, 0.25, 0.25}},   /* flat drafts */
    {{0.4, 0.3, 0.2, 0.1}, {0.4, 0.3, 0.2, 0.1}},       /* a perfect drafter */
    {{0.1, 0.2, 0.3, 0.4}, {0.4, 0.3, 0.2, 0.1}},       /* the wrong way round */
    {{0.5, 0.5}, {0, 0, 0.5, 0.5}},                     /* never right */
    {{0.3, 0.3, 0.2, 0.1, 0.1}, {0, 0.5, 0, 0.5}},      /* a part of the vocabulary */
    {{0, 0.6, 0, 0.4}, {0.2, 0.2, 0.2, 0.2, 0.1, 0.1}}, /* more than the target has */
    {{0.98, 0.01, 0.01}, {0.01, 0.98, 0.01}},           /* sharp and wrong */
    {{0.05, 0.9, 0.01, 0.01, 0.01, 0.02}, {0.1, 0.7, 0.05, 0.05, 0.05, 0.05}},
};

static void use(const pair *t)
{
    static const double after[N_TOK] = {0.1, 0.1, 0.1, 0.1, 0.2, 0.4};
    dists_set(&p[0], t->p, N_TOK);
    dists_set(&p[1], after, N_TOK);
    dists_set(&q, t->q, N_TOK);
}

/* What a round with one draft gave. */
typedef struct {
    int32_t draft, token;
    bool accepted;
} outcome;

static outcome one_round(verify_rule rule, bool argmax, uint64_t seed, int32_t pos)
{
    verify_round r = {.rule = rule, .argmax = argmax, .seed = seed, .first = pos, .n_draft = 1};
    int32_t draft = verify_draft(&r, 0, &q), top = 0;
    r.draft = &draft;
    r.q = argmax ? NULL : &q;
    r.p = p;
    r.top = &top;
    verify v;
    ft_error err = {0};
    if (verify_begin(&v, &r, &err) != FT_OK)
        fail_msg("%s", err.msg);
    verify_token t = verify_next(&v, &p[0]);
    assert_int_equal(t.last, !t.accepted);
    assert_true(!t.accepted || t.token == draft);
    return (outcome){draft, t.token, t.accepted};
}

static void as_array(double *out, const sample_dist *d)
{
    for (int x = 0; x < N_TOK; x++)
        out[x] = exp(sample_dist_logp(d, x));
}

/* q as verification sees it. */
static void drafted_law(double *out, bool argmax)
{
    as_array(out, &q);
    if (!argmax)
        return;
    verify_round r = {.argmax = true};
    int32_t best = verify_draft(&r, 0, &q);
    for (int x = 0; x < N_TOK; x++)
        out[x] = x == best;
}

static bool fits(const int *count, const double *want, int total)
{
    int df;
    double chi2 = dists_chi2(count, want, N_TOK, total, &df);
    return df <= 0 ? chi2 < 1e-9 : chi2 < dists_chi2_limit(df);
}

/* ---- The law of the token --------------------------------------------------------------------- */

/* B007, B008: a token that leans to what the drafter likes, under any exact rule. */
static void test_verify_token_has_the_target_law_under_exact_rules(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        use(&pairs[i]);
        double want[N_TOK];
        as_array(want, &p[0]);
        for (int rule = VERIFY_COUPLED; rule <= VERIFY_RATIO; rule++) {
            for (int argmax = 0; argmax < 2; argmax++) {
                int count[N_TOK] = {0};
                for (int pos = 0; pos < N_DRAW; pos++)
                    count[one_round((verify_rule)rule, argmax, 11, pos).token]++;
                if (!fits(count, want, N_DRAW))
                    fail_msg("%s, pair %zu, argmax %d", verify_rule_name((verify_rule)rule), i,
                             argmax);
            }
        }
    }
}

/* A wrong residual whose error another one hides: the tokens of accepted drafts are min(p, q), those
 * of rejected ones max(p - q, 0). Block with one draft is ratio. */
static void test_verify_token_given_acceptance_or_rejection_has_its_law(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        use(&pairs[i]);
        for (int argmax = 0; argmax < 2; argmax++) {
            double pp[N_TOK], qq[N_TOK], kept[N_TOK], left[N_TOK], sum = 0;
            as_array(pp, &p[0]);
            drafted_law(qq, argmax);
            for (int x = 0; x < N_TOK; x++)
                sum += fmin(pp[x], qq[x]);
            for (int x = 0; x < N_TOK; x++) {
                kept[x] = sum > 0 ? fmin(pp[x], qq[x]) / sum : 0;
                left[x] = sum < 1 - 1e-9 ? fmax(pp[x] - qq[x], 0) / (1 - sum) : 0;
            }
            for (int rule = VERIFY_BLOCK; rule <= VERIFY_RATIO; rule++) {
                int count[2][N_TOK] = {{0}}, n_accept = 0;
                for (int pos = 0; pos < N_DRAW; pos++) {
                    outcome o = one_round((verify_rule)rule, argmax, 12, pos);
                    n_accept += o.accepted;
                    count[o.accepted][o.token]++;
                }
                assert_true(fabs(n_accept - sum * N_DRAW) < 5 * sqrt(N_DRAW * 0.25));
                assert_true(fits(count[1], kept, n_accept));
                assert_true(fits(count[0], left, N_DRAW - n_accept));
            }
        }
    }
}

typedef int32_t wrong_rule(int32_t pos);

static double chance(const sample_dist *d, int32_t x)
{
    return exp(sample_dist_logp(d, x));
}

static int32_t draft_at(int32_t pos)
{
    return noise_draw(&q, 13, pos, SAMPLE_FOR_DRAFT, pos);
}

/* B007: accepted when the target's own draw agrees or the ratio test passes. */
static int32_t two_chances(int32_t pos)
{
    int32_t d = draft_at(pos), own = sample_draw(&p[0], 13, pos);
    double u = sample_uniform(13, pos, 0, SAMPLE_FOR_ACCEPT);
    return d == own || u < chance(&p[0], d) / chance(&q, d) ? d : own;
}

/* B003: the drafts were sampled, and q is taken for certain in the one place and not in the other. */
static int32_t q_half_forgotten(int32_t pos)
{
    int32_t d = draft_at(pos);
    if (sample_uniform(13, pos, 0, SAMPLE_FOR_ACCEPT) < chance(&p[0], d))
        return d;
    for (int32_t again = pos;; again += N_DRAW) {
        int32_t own = noise_draw(&p[0], 13, again, SAMPLE_FOR_CORRECT, 0);
        if (sample_uniform(13, again, N_TOK, SAMPLE_FOR_CORRECT) <
            1 - chance(&q, own) / chance(&p[0], own))
            return own; /* by rejection, a draw from max(p - q, 0) */
    }
}

/* The right acceptance, but a draw from p behind a rejection. */
static int32_t no_residual(int32_t pos)
{
    int32_t d = draft_at(pos);
    double u = sample_uniform(13, pos, 0, SAMPLE_FOR_ACCEPT);
    return u < chance(&p[0], d) / chance(&q, d) ? d : sample_draw(&p[0], 13, pos);
}

/* The number that drew the draft decides on it as well. */
static int32_t shared_noise(int32_t pos)
{
    int32_t d = draft_at(pos);
    double u = noise_uniform(13, pos, d, SAMPLE_FOR_DRAFT, pos);
    return u < chance(&p[0], d) / chance(&q, d) ? d : sample_draw(&p[0], 13, pos);
}

/* The tests above that could not fail: they must see rules that other engines had. */
static void test_verify_wrong_rules_are_seen_by_the_chi_square(void **state)
{
    (void)state;
    static wrong_rule *const wrong[] = {two_chances, q_half_forgotten, no_residual, shared_noise};
    use(&pairs[1]);
    double want[N_TOK];
    as_array(want, &p[0]);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        int count[N_TOK] = {0};
        for (int pos = 0; pos < N_DRAW; pos++)
            count[wrong[i](pos)]++;
        if (fits(count, want, N_DRAW))
            fail_msg("wrong rule %zu goes unnoticed", i);
    }
}

/* ---- Acceptance ------------------------------------------------------------------------------- */

static double accepted_share(verify_rule rule)
{
    int n = 0;
    for (int pos = 0; pos < N_DRAW; pos++)
        n += one_round(rule, false, 14, pos).accepted;
    return (double)n / N_DRAW;
}

/* Of p [0] and q: sum of min; of p q; and sum over x of 1 / sum over y of max(p_y/p_x, q_y/q_x). */
static void acceptance(double *ratio, double *product, double *coupled)
{
    double a[N_TOK], b[N_TOK];
    as_array(a, &p[0]);
    as_array(b, &q);
    *ratio = *product = *coupled = 0;
    for (int x = 0; x < N_TOK; x++) {
        *ratio += fmin(a[x], b[x]);
        *product += a[x] * b[x];
        double sum = 0;
        for (int y = 0; y < N_TOK && a[x] > 0 && b[x] > 0; y++)
            sum += fmax(a[y] / a[x], b[y] / b[x]);
        *coupled += sum > 0 ? 1 / sum : 0;
    }
}

/* B008: a rule that is exact and accepts too little (coupled with other noise accepts sum p q), or
 * one that accepts more than an exact rule can. */
static void test_verify_acceptance_is_that_of_the_formulas(void **state)
{
    (void)state;
    enum { N_RANDOM = 12 };
    for (size_t i = 0; i < ARRAY_LEN(pairs) + N_RANDOM; i++) {
        pair t = {{0}, {0}};
        if (i < ARRAY_LEN(pairs)) {
            t = pairs[i];
        } else {
            dists_random(t.p, N_TOK, &rng);
            dists_random(t.q, N_TOK, &rng);
        }
        use(&t);
        double ratio, product, coupled;
        acceptance(&ratio, &product, &coupled);
        double got_coupled = accepted_share(VERIFY_COUPLED);
        double noise = 5 * sqrt(0.25 / N_DRAW);
        assert_true(fabs(got_coupled - coupled) < noise);
        assert_true(fabs(accepted_share(VERIFY_RATIO) - ratio) < noise);
        assert_true(fabs(accepted_share(VERIFY_BLOCK) - ratio) < noise);
        assert_true(coupled <= ratio + 1e-12);
        assert_true(coupled >= ratio / (2 - ratio) - 1e-12); /* (1 - TV) / (1 + TV) */
        if (i == 8)
            assert_true(got_coupled > product + 0.1);
    }
}

/* B001: acceptance that drops off a cliff somewhere above temperature 0; 1 for a perfect drafter at
 * every temperature, and falling smoothly for an ordinary one. */
static void test_verify_acceptance_has_no_cliff_in_the_temperature(void **state)
{
    (void)state;
    static const float temps[] = {0.0f, 0.1f, 0.3f, 0.7f, 1.0f, 1.5f};
    static const float own[N_TOK] = {2.0f, 1.5f, 1.0f, 0.0f, -1.0f, -2.0f};
    static const float other[N_TOK] = {2.2f, 1.4f, 1.2f, -0.5f, -1.0f, -1.0f};
    sample_ctx *c;
    assert_int_equal(sample_ctx_create(&c, N_TOK, NULL), FT_OK);
    for (int rule = VERIFY_COUPLED; rule <= VERIFY_RATIO; rule++) {
        for (size_t i = 0; i < ARRAY_LEN(temps); i++) {
            use(&pairs[0]);
            sample_params s = sample_params_default();
            s.temp = temps[i];
            sample_row row = {.logits = own, .n = N_TOK};
            assert_int_equal(sample_distribution(c, &p[0], &row, &s, NULL), FT_OK);
            assert_int_equal(sample_distribution(c, &q, &row, &s, NULL), FT_OK);
            assert_true(accepted_share((verify_rule)rule) == 1);
            row.logits = other;
            assert_int_equal(sample_distribution(c, &q, &row, &s, NULL), FT_OK);
            assert_true(accepted_share((verify_rule)rule) > 0.85);
        }
    }
    sample_ctx_free(c);
}

/* B117: at temperature 0 every exact rule gives the argmax, whatever is drafted. */
static void test_verify_at_zero_temperature_is_greedy(void **state)
{
    (void)state;
    static const pair t[] = {{{1}, {0, 1}}, {{1}, {1}}, {{1}, {0.2, 0.8}}, {{0, 1}, {1}}};
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        use(&t[i]);
        for (int rule = VERIFY_COUPLED; rule <= VERIFY_RATIO; rule++) {
            for (int pos = 0; pos < 200; pos++) {
                outcome o = one_round((verify_rule)rule, pos % 2, 15, pos);
                assert_int_equal(o.token, p[0].id[0]);
                assert_int_equal(o.accepted, o.draft == p[0].id[0]);
            }
        }
    }
}

/* ---- Drafts and their q ----------------------------------------------------------------------- */

/* B002, B004: q is changed by the draw or by verification, or the drafts are not drawn from it. The
 * logits of tokens 0 and 1 are equal when rounded to bfloat16. */
static void test_verify_drafts_are_drawn_from_q_and_leave_it_alone(void **state)
{
    (void)state;
    static const float logits[N_TOK] = {1.0f, 1.003f, 0.5f, 0.0f, -1.0f, -4.0f};
    sample_params s = sample_params_default();
    sample_row row = {.logits = logits, .n = N_TOK};
    sample_ctx *c;
    assert_int_equal(sample_ctx_create(&c, N_TOK, NULL), FT_OK);
    use(&pairs[1]);
    s.temp = 0.02f; /* the difference that rounding would lose counts */
    assert_int_equal(sample_distribution(c, &q, &row, &s, NULL), FT_OK);
    sample_ctx_free(c);
    double before[2 * N_TOK], want[N_TOK];
    as_array(want, &q);
    memcpy(before, q.p, (size_t)q.n * sizeof *q.p);
    memcpy(before + N_TOK, q.logp, (size_t)q.n * sizeof *q.logp);
    for (int rule = VERIFY_COUPLED; rule <= VERIFY_RATIO; rule++) {
        int count[N_TOK] = {0};
        for (int pos = 0; pos < N_DRAW; pos++)
            count[one_round((verify_rule)rule, false, 16, pos).draft]++;
        assert_true(fits(count, want, N_DRAW));
        assert_memory_equal(before, q.p, (size_t)q.n * sizeof *q.p);
        assert_memory_equal(before + N_TOK, q.logp, (size_t)q.n * sizeof *q.logp);
    }
    want[0] = want[1] = 0.5 * (want[0] + want[1]); /* the histogram that could not fail */
    int count[N_TOK] = {0};
    for (int pos = 0; pos < N_DRAW; pos++)
        count[one_round(VERIFY_RATIO, false, 16, pos).draft]++;
    assert_false(fits(count, want, N_DRAW));
}

/* An argmax draft that is not the most probable token, or not the lowest of equals. */
static void test_verify_argmax_draft_is_the_most_probable_token(void **state)
{
    (void)state;
    static const double t[] = {0.1, 0.3, 0.3, 0.2, 0.1, 0};
    dists_set(&q, t, N_TOK);
    for (int rule = 0; rule < VERIFY_N_RULE; rule++) {
        verify_round r = {.rule = (verify_rule)rule, .argmax = true, .seed = 3, .first = rule};
        assert_int_equal(verify_draft(&r, 2, &q), 1);
    }
    static const float x[] = {NAN, -INFINITY, 2.0f, NAN, 2.0f, 1.0f};
    assert_int_equal(verify_top(x, 6), 2);
    assert_int_equal(verify_top(x, 1), 0);
}

/* ---- greedy-match ----------------------------------------------------------------------------- */

/* The comparison that is no comparison: greedy-match keeps drafts by the row's highest logit alone,
 * so an unlikely token comes as often as it is drafted. */
static void test_verify_greedy_match_keeps_the_highest_logit(void **state)
{
    (void)state;
    use(&pairs[3]);
    int32_t draft[2] = {0, 3}, top[2] = {0, 5};
    for (int pos = 0; pos < 100; pos++) {
        verify_round r = {.rule = VERIFY_GREEDY_MATCH,
                          .seed = 17,
                          .first = pos,
                          .n_draft = 2,
                          .draft = draft,
                          .top = top};
        verify v;
        assert_int_equal(verify_begin(&v, &r, NULL), FT_OK);
        verify_token t = verify_next(&v, &p[0]);
        assert_true(t.accepted && !t.last && t.token == 0);
        t = verify_next(&v, &p[1]);
        assert_true(!t.accepted && t.last);
        assert_int_equal(t.token, sample_draw(&p[1], 17, pos + 1));
    }
}

/* ---- Refusals --------------------------------------------------------------------------------- */

static void refused(verify_round r, const char *words)
{
    verify v;
    ft_error err = {0};
    assert_int_equal(verify_begin(&v, &r, &err), FT_ARG);
    if (!strstr(err.msg, words))
        fail_msg("'%s' is not in '%s'", words, err.msg);
}

/* B003: a verifier that is told nothing of q assumes something; a draft that was not drawn from its
 * q (a row that moved, a filter that came later) is divided by zero. */
static void test_verify_rounds_that_cannot_be_exact_are_refused(void **state)
{
    (void)state;
    use(&pairs[5]); /* q has tokens 1 and 3 */
    int32_t draft[] = {1, 0};
    sample_dist qq[] = {q, q};
    verify_round good = {.seed = 1, .n_draft = 2, .draft = draft, .q = qq, .p = p};
    for (int rule = VERIFY_BLOCK; rule <= VERIFY_RATIO; rule++) {
        verify_round r = good;
        r.rule = (verify_rule)rule;
        refused(r, "draft 1 is token 0, which its q of 2 tokens does not have");
        r.q = NULL;
        refused(r, "2 sampled drafts, but without their q");
        r.q = qq;
        r.argmax = true;
        refused(r, "come with q");
    }
    verify_round r = good;
    r.rule = VERIFY_BLOCK;
    r.p = NULL;
    refused(r, "without the rows' distributions");
    r = good;
    r.rule = VERIFY_GREEDY_MATCH;
    refused(r, "without the rows' highest logits");
    r.rule = VERIFY_N_RULE;
    refused(r, "rule 4, want 0 to 3");
    r = good;
    r.n_draft = -1;
    refused(r, "-1 drafts");
    r = good;
    r.first = INT32_MAX - 1;
    refused(r, "from position 2147483646");
    r = good;
    r.draft = NULL;
    refused(r, "no drafts");
}

/* A rule that is known by another name than the option's. */
static void test_verify_rules_have_names(void **state)
{
    (void)state;
    assert_string_equal(verify_rule_name(VERIFY_COUPLED), "coupled");
    assert_string_equal(verify_rule_name(VERIFY_GREEDY_MATCH), "greedy-match");
    assert_string_equal(verify_rule_name(VERIFY_N_RULE), "unknown");
}

/* A round that allocates. */
static void test_verify_allocates_nothing(void **state)
{
    (void)state;
    use(&pairs[8]);
    long before = mem_count();
    mem_guard_begin();
    for (int pos = 0; pos < 1000; pos++)
        (void)one_round((verify_rule)(pos % VERIFY_N_RULE), pos % 3 == 0, 18, pos);
    mem_guard_end();
    assert_int_equal(mem_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verify_token_has_the_target_law_under_exact_rules),
        cmocka_unit_test(test_verify_token_given_acceptance_or_rejection_has_its_law),
        cmocka_unit_test(test_verify_wrong_rules_are_seen_by_the_chi_square),
        cmocka_unit_test(test_verify_acceptance_is_that_of_the_formulas),
        cmocka_unit_test(test_verify_acceptance_has_no_cliff_in_the_temperature),
        cmocka_unit_test(test_verify_at_zero_temperature_is_greedy),
        cmocka_unit_test(test_verify_drafts_are_drawn_from_q_and_leave_it_alone),
        cmocka_unit_test(test_verify_argmax_draft_is_the_most_probable_token),
        cmocka_unit_test(test_verify_greedy_match_keeps_the_highest_logit),
        cmocka_unit_test(test_verify_rounds_that_cannot_be_exact_are_refused),
        cmocka_unit_test(test_verify_rules_have_names),
        cmocka_unit_test(test_verify_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
