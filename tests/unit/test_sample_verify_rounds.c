/* Rounds one after the other: the coupled text, and noise that no two rounds share. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sample/noise.h"
#include "sample/verify.h"
#include "support/dists.h"

enum { N_TOK = 5, K_MAX = 15, N_TEXT = 300 };

/* A model and drafters whose distributions depend on the two tokens before. */
enum { OTHER, PERFECT, WRONG, FEW, N_DRAFTER };
static sample_dist model[N_TOK * N_TOK], drafter[N_DRAFTER][N_TOK * N_TOK];

static int setup(void **state)
{
    (void)state;
    uint64_t rng = 0xA0761D6478BD642Fu;
    for (int c = 0; c < N_TOK * N_TOK; c++) {
        double p[N_TOK], q[N_TOK];
        dists_random(p, N_TOK, &rng);
        for (int kind = -1; kind < N_DRAFTER; kind++) {
            sample_dist *d = kind < 0 ? &model[c] : &drafter[kind][c];
            if (sample_dist_init(d, N_TOK, NULL) != FT_OK)
                return -1;
            for (int x = 0; x < N_TOK; x++)
                q[x] = kind <= PERFECT && kind != OTHER ? p[x]
                       : kind == WRONG                  ? 1 - fmin(1, p[x])
                                                        : dists_unit(&rng) + 0.01;
            if (kind == FEW)
                q[0] = q[3] = q[4] = 0;
            dists_set(d, q, N_TOK);
        }
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int c = 0; c < N_TOK * N_TOK; c++) {
        sample_dist_deinit(&model[c]);
        for (int kind = 0; kind < N_DRAFTER; kind++)
            sample_dist_deinit(&drafter[kind][c]);
    }
    return 0;
}

/* The two tokens before the end of text [n], as an index. */
static int context(const int32_t *text, int n)
{
    int a = n > 1 ? text[n - 2] : 0, b = n > 0 ? text[n - 1] : 0;
    return a * N_TOK + b;
}

/* How a text is made. */
typedef struct {
    verify_rule rule;
    bool argmax;
    int drafter; /* < 0: another one in each round */
    int k;       /* < 0: another number in each round */
    int take;    /* tokens taken of a round at most, 0: all, < 0: another number in each round */
    uint64_t seed;
    void (*spoil)(verify *v); /* a wrong rule: decides again, for drafts with noise by position */
} manner;

/* One round behind text [n], of at most n_max tokens; how many it added. */
static int one_round(const manner *m, int32_t *text, int n, int n_max, uint64_t *rng)
{
    int kind = m->drafter < 0 ? (int)(dists_rng(rng) % N_DRAFTER) : m->drafter;
    int k = m->k < 0 ? (int)(dists_rng(rng) % (K_MAX + 1)) : m->k;
    int take = m->take < 0 ? 1 + (int)(dists_rng(rng) % 3) : m->take;
    int32_t draft[K_MAX], ahead[N_TEXT + K_MAX];
    sample_dist p[K_MAX + 1], q[K_MAX];
    verify_round r = {.rule = m->rule, .argmax = m->argmax, .seed = m->seed, .first = n};
    memcpy(ahead, text, (size_t)n * sizeof *text);
    for (int i = 0; i < k; i++) {
        p[i] = model[context(ahead, n + i)];
        q[i] = drafter[kind][context(ahead, n + i)];
        draft[i] = m->spoil ? noise_draw(&q[i], m->seed, n + i, SAMPLE_FOR_DRAFT, 0)
                            : verify_draft(&r, i, &q[i]);
        ahead[n + i] = draft[i];
    }
    p[k] = model[context(ahead, n + k)];
    r.n_draft = k;
    r.draft = draft;
    r.p = p;
    r.q = m->argmax ? NULL : q;
    verify v;
    assert_int_equal(verify_begin(&v, &r, NULL), FT_OK);
    if (m->spoil)
        m->spoil(&v);
    int made = 0;
    while (made < n_max && (take == 0 || made < take)) {
        verify_token t = verify_next(&v, &p[made]);
        text[n + made++] = t.token;
        if (t.last)
            break;
    }
    return made;
}

static void make_text(const manner *m, int32_t *text, int n_text)
{
    uint64_t rng = 0x2545F4914F6CDD1Du + m->seed;
    for (int n = 0; n < n_text;)
        n += one_round(m, text, n, n_text - n, &rng);
}

/* ---- Coupled ---------------------------------------------------------------------------------- */

/* B005, B019, B030, B116: a token that depends on the drafts, on their number, or on where a round
 * was cut short. */
static void test_coupled_text_is_the_plain_one_whatever_is_drafted(void **state)
{
    (void)state;
    int n_case = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        int32_t plain[N_TEXT];
        for (int n = 0; n < N_TEXT; n++)
            plain[n] = sample_draw(&model[context(plain, n)], seed, n);
        for (int kind = -1; kind < N_DRAFTER; kind++) {
            for (int k = -1; k <= K_MAX; k += k < 4 ? 1 : 11) {
                for (int take = -1; take <= 1; take++) {
                    manner m = {VERIFY_COUPLED, (seed + k) % 2, kind, k, take, seed, NULL};
                    int32_t text[N_TEXT];
                    make_text(&m, text, N_TEXT);
                    assert_memory_equal(text, plain, sizeof text);
                    n_case++;
                }
            }
        }
    }
    assert_int_equal(n_case, 20 * 5 * 7 * 3);
}

/* The test above that could not fail: under the other rules the text of a seed does depend on the
 * drafts, and without any it is the plain one. */
static void test_other_rules_text_depends_on_the_drafts_alone(void **state)
{
    (void)state;
    int32_t plain[N_TEXT], text[N_TEXT], again[N_TEXT];
    for (int n = 0; n < N_TEXT; n++)
        plain[n] = sample_draw(&model[context(plain, n)], 5, n);
    for (int rule = VERIFY_BLOCK; rule <= VERIFY_RATIO; rule++) {
        manner m = {(verify_rule)rule, false, OTHER, 0, 0, 5, NULL};
        make_text(&m, text, N_TEXT);
        assert_memory_equal(text, plain, sizeof text);
        m.k = 3;
        make_text(&m, text, N_TEXT);
        make_text(&m, again, N_TEXT);
        assert_memory_equal(text, again, sizeof text);
        assert_memory_not_equal(text, plain, sizeof text);
    }
}

/* ---- Streams ---------------------------------------------------------------------------------- */

typedef struct {
    sample_purpose purpose;
    int32_t round, pos;
} stream;

/* Correlation of the numbers of two streams over seeds, z-scored. */
static double correlation(stream a, stream b)
{
    enum { N = 50000 };
    double sum = 0;
    for (uint64_t seed = 0; seed < N; seed++)
        sum += (noise_uniform(seed, a.pos, 3, a.purpose, a.round) - 0.5) *
               (noise_uniform(seed, b.pos, 3, b.purpose, b.round) - 0.5);
    return sum / N * 12 * sqrt((double)N);
}

/* B009, B019: drafting, accepting and correcting share numbers, with each other, with the draws of
 * tokens, or with the next round or position. */
static void test_streams_of_purposes_and_rounds_are_independent(void **state)
{
    (void)state;
    stream s[16];
    int n = 0;
    for (int purpose = SAMPLE_FOR_TOKEN; purpose <= SAMPLE_FOR_CORRECT; purpose++)
        for (int round = 0; round < 2; round++)
            for (int pos = 1; pos < 3; pos++)
                s[n++] = (stream){(sample_purpose)purpose, round, pos};
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            assert_true(fabs(correlation(s[i], s[j])) < 5);
    assert_true(correlation(s[0], s[0]) > 100);
}

/* ---- Noise between rounds --------------------------------------------------------------------- */

enum { N_SEED = 60000, N_LAW = N_TOK * N_TOK * N_TOK };

static bool text_has_the_models_law(const manner *how)
{
    static double law[N_LAW];
    static int count[N_LAW];
    memset(count, 0, sizeof count);
    for (int code = 0; code < N_LAW; code++) {
        int32_t t[] = {code / (N_TOK * N_TOK), code / N_TOK % N_TOK, code % N_TOK};
        law[code] = 1;
        for (int n = 0; n < 3; n++)
            law[code] *= exp(sample_dist_logp(&model[context(t, n)], t[n]));
    }
    for (int i = 0; i < N_SEED; i++) {
        manner m = *how;
        m.seed = (uint64_t)i << 8;
        int32_t t[3];
        make_text(&m, t, 3);
        count[t[0] * N_TOK * N_TOK + t[1] * N_TOK + t[2]]++;
    }
    int df;
    double chi2 = dists_chi2(count, law, N_LAW, N_SEED, &df);
    return chi2 < dists_chi2_limit(df);
}

/* B023, B025, B028: what a round looked at behind its last token leaks into the next one; or tokens
 * that depend on whether a round was cut short. Drafts reach past the end of the text. */
static void test_text_of_many_rounds_has_the_models_law(void **state)
{
    (void)state;
    for (int rule = VERIFY_BLOCK; rule <= VERIFY_RATIO; rule++) {
        for (int take = -1; take <= 0; take++) {
            for (int k = 2; k <= 4; k += 2) {
                manner m = {(verify_rule)rule, false, OTHER, k, take, 0, NULL};
                if (!text_has_the_models_law(&m))
                    fail_msg("%s, %d drafts, take %d", verify_rule_name(m.rule), k, take);
            }
        }
        manner any = {(verify_rule)rule, false, -1, -1, -1, 0, NULL};
        assert_true(text_has_the_models_law(&any));
    }
}

/* Decide block with numbers that are functions of the position alone, as the drafts are. */
static void by_position(verify *v)
{
    double w = 1;
    v->n_block = 0;
    v->w = 1;
    for (int i = 1; i <= v->r.n_draft; i++) {
        double h = verify_block_chance(&v->r, i, &w);
        if (sample_uniform(v->r.seed, v->r.first + i - 1, 0, SAMPLE_FOR_ACCEPT) <= h) {
            v->n_block = i;
            v->w = w;
        }
    }
}

/* Why numbers of drafts belong to a round: block looks at all drafts before it keeps a few. If the
 * next round drafts the same positions with the same numbers, the text has another law; this must be
 * seen. Ratio looks at nothing behind the draft that it rejects. */
static void test_block_with_noise_by_position_alone_is_seen(void **state)
{
    (void)state;
    manner m = {VERIFY_BLOCK, false, OTHER, 3, 0, 0, by_position};
    assert_false(text_has_the_models_law(&m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coupled_text_is_the_plain_one_whatever_is_drafted),
        cmocka_unit_test(test_other_rules_text_depends_on_the_drafts_alone),
        cmocka_unit_test(test_streams_of_purposes_and_rounds_are_independent),
        cmocka_unit_test(test_text_of_many_rounds_has_the_models_law),
        cmocka_unit_test(test_block_with_noise_by_position_alone_is_seen),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
