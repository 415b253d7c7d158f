/* Block verification, computed exactly over all drafts of random little models: its law, and that it
 * accepts no fewer drafts than ratio. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sample/verify.h"
#include "support/dists.h"

enum { K_MAX = 4, TOK_MAX = 5, NODE_MAX = 1 + 5 + 25 + 125 + 625 };

/* A model and a drafter whose distributions depend on everything before: node x of a tree has the
 * children x * n_tok + 1 + token. */
static struct {
    int n_tok, k;
    sample_dist p[NODE_MAX], q[NODE_MAX];
} chain;

static uint64_t rng = 0xD1B54A32D192ED03u;

static int setup(void **state)
{
    (void)state;
    for (int i = 0; i < NODE_MAX; i++)
        if (sample_dist_init(&chain.p[i], TOK_MAX, NULL) != FT_OK ||
            sample_dist_init(&chain.q[i], TOK_MAX, NULL) != FT_OK)
            return -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < NODE_MAX; i++) {
        sample_dist_deinit(&chain.p[i]);
        sample_dist_deinit(&chain.q[i]);
    }
    return 0;
}

static int child(int node, int32_t token)
{
    return node * chain.n_tok + 1 + token;
}

static void random_chain(int n_tok, int k)
{
    chain.n_tok = n_tok;
    chain.k = k;
    int n_node = 1;
    for (int depth = 0, width = 1; depth < k; depth++)
        n_node += width *= n_tok;
    double x[TOK_MAX];
    for (int i = 0; i < n_node; i++) {
        dists_random(x, n_tok, &rng);
        dists_set(&chain.p[i], x, n_tok);
        dists_random(x, n_tok, &rng);
        if (dists_rng(&rng) % 8 == 0)
            for (int j = 0; j < n_tok; j++)
                x[j] = exp(sample_dist_logp(&chain.p[i], j)); /* a drafter that is right here */
        dists_set(&chain.q[i], x, n_tok);
    }
}

/* Drafts down to a node. */
typedef struct {
    verify_round r;
    int node[K_MAX + 1];
    int32_t draft[K_MAX];
    sample_dist p[K_MAX + 1], q[K_MAX];
} path;

static void path_init(path *t, verify_rule rule)
{
    *t = (path){.r = {.rule = rule, .n_draft = chain.k}};
    t->r.draft = t->draft;
    t->r.p = t->p;
    t->r.q = t->q;
    t->p[0] = chain.p[0];
    t->q[0] = chain.q[0];
}

static void path_step(path *t, int depth, int32_t token)
{
    t->draft[depth] = token;
    t->node[depth + 1] = child(t->node[depth], token);
    t->p[depth + 1] = chain.p[t->node[depth + 1]];
    if (depth + 1 < chain.k)
        t->q[depth + 1] = chain.q[t->node[depth + 1]];
}

/* ---- Tokens per round ------------------------------------------------------------------------- */

/* Drafts that block accepts on average below the depth that the path has reached, when it accepts
 * `so_far` unless it accepts more. */
static double block_accepted(path *t, int depth, double w, double so_far)
{
    if (depth == chain.k)
        return so_far;
    double sum = 0;
    const sample_dist *q = &chain.q[t->node[depth]];
    for (int i = 0; i < q->n; i++) {
        path_step(t, depth, q->id[i]);
        double w_next = w;
        double h = verify_block_chance(&t->r, depth + 1, &w_next);
        assert_true(h >= 0 && h <= 1 && w_next >= 0 && w_next <= 1);
        sum += q->p[i] * block_accepted(t, depth + 1, w_next, h * (depth + 1) + (1 - h) * so_far);
    }
    return sum;
}

/* The same of ratio: one draft after the other, with min(1, p / q). */
static double ratio_accepted(int node, int depth)
{
    if (depth == chain.k)
        return 0;
    double sum = 0;
    const sample_dist *q = &chain.q[node];
    for (int i = 0; i < q->n; i++) {
        double keep = fmin(1, exp(sample_dist_logp(&chain.p[node], q->id[i]) - q->logp[i]));
        sum += q->p[i] * keep * (1 + ratio_accepted(child(node, q->id[i]), depth + 1));
    }
    return sum;
}

/* A block rule that is exact and gains nothing, or that loses to ratio somewhere. */
static void test_block_never_accepts_fewer_drafts_than_ratio(void **state)
{
    (void)state;
    enum { N = 10000 };
    int n_above = 0, n_deep = 0;
    for (int i = 0; i < N; i++) {
        random_chain(3 + (int)(dists_rng(&rng) % 3), 1 + (int)(dists_rng(&rng) % 4));
        path t;
        path_init(&t, VERIFY_BLOCK);
        double block = block_accepted(&t, 0, 1, 0), ratio = ratio_accepted(0, 0);
        if (block < ratio - 1e-12)
            fail_msg("chain %d: block %.15g, ratio %.15g", i, block, ratio);
        if (chain.k == 1)
            assert_true(fabs(block - ratio) < 1e-12); /* with one draft they are one rule */
        n_deep += chain.k > 1;
        n_above += block > ratio + 0.01;
    }
    assert_true(n_deep > N / 2);
    assert_true(n_above > n_deep / 2);
}

/* ---- The law ---------------------------------------------------------------------------------- */

/* Mass that block gives to each text of k + 1 tokens, and that the model does; index: digits of
 * n_tok. */
static double block_law[5 * 625], model_law[5 * 625];

/* The model goes on behind a node until the text has k + 1 tokens. */
static void go_on(double *law, int node, int depth, int code, double mass)
{
    if (depth == chain.k + 1) {
        law[code] += mass;
        return;
    }
    const sample_dist *p = &chain.p[node];
    for (int i = 0; i < p->n; i++)
        go_on(law, child(node, p->id[i]), depth + 1, code * chain.n_tok + p->id[i], mass * p->p[i]);
}

/* Exactly i drafts of the path are accepted with this mass: the token behind them, then the model. */
static void corrected(const path *t, int i, double w, double mass)
{
    const sample_dist *p = &t->p[i];
    double left[TOK_MAX], sum = 0;
    int code = 0;
    for (int j = 0; j < i; j++)
        code = code * chain.n_tok + t->draft[j];
    for (int j = 0; j < p->n; j++) {
        double q = i < chain.k ? exp(sample_dist_logp(&t->q[i], p->id[j])) : 0;
        left[j] = i < chain.k ? fmax(w * p->p[j] - q, 0) : p->p[j];
        sum += left[j];
    }
    for (int j = 0; j < p->n && sum > 0; j++)
        go_on(block_law, child(t->node[i], p->id[j]), i + 1, code * chain.n_tok + p->id[j],
              mass * left[j] / sum);
}

/* All drafts; distort: a factor on the chances, for the proof that this can fail. */
static void all_rounds(path *t, int depth, double mass, double distort)
{
    if (depth < chain.k) {
        const sample_dist *q = &chain.q[t->node[depth]];
        for (int i = 0; i < q->n; i++) {
            path_step(t, depth, q->id[i]);
            all_rounds(t, depth + 1, mass * q->p[i], distort);
        }
        return;
    }
    double w[K_MAX + 1] = {1}, h[K_MAX + 1] = {1}, behind = 1; /* chance that no longer one is */
    for (int i = 1; i <= chain.k; i++) {
        w[i] = w[i - 1];
        h[i] = distort * verify_block_chance(&t->r, i, &w[i]);
    }
    for (int i = chain.k; i >= 0; i--) {
        corrected(t, i, w[i], mass * behind * h[i]);
        behind *= 1 - h[i];
    }
}

static double law_difference(double distort)
{
    memset(block_law, 0, sizeof block_law);
    memset(model_law, 0, sizeof model_law);
    path t;
    path_init(&t, VERIFY_BLOCK);
    all_rounds(&t, 0, 1, distort);
    go_on(model_law, 0, 0, 0, 1);
    double sum = 0, total = 0;
    for (size_t i = 0; i < ARRAY_LEN(block_law); i++) {
        sum += fabs(block_law[i] - model_law[i]);
        total += model_law[i];
    }
    assert_true(fabs(total - 1) < 1e-9);
    return sum / 2;
}

/* Weights or chances that are off by a row or a factor: every text has the model's probability, to
 * rounding. */
static void test_block_law_is_the_models_to_rounding(void **state)
{
    (void)state;
    for (int i = 0; i < 400; i++) {
        random_chain(3 + i % 2, 1 + i % 3);
        assert_true(law_difference(1) < 1e-12);
    }
    random_chain(4, 3);
    assert_true(law_difference(0.99) > 1e-4);
}

/* 0 times infinity: behind a draft that cannot be, one that the drafter thought next to impossible. */
static void test_block_accepts_nothing_behind_an_impossible_draft(void **state)
{
    (void)state;
    static const double yes[] = {1, 0}, both[] = {1, 1};
    random_chain(3, 2);
    dists_set(&chain.p[0], yes, 2);
    dists_set(&chain.q[0], both, 2);
    dists_set(&chain.p[child(0, 1)], yes, 2);
    sample_dist *q = &chain.q[child(0, 1)];
    dists_set(q, both, 2);
    q->logp[0] = -740; /* p / q is beyond a double */
    q->p[0] = exp(-740);
    path t;
    path_init(&t, VERIFY_BLOCK);
    path_step(&t, 0, 1);
    path_step(&t, 1, 0);
    double w = 1;
    assert_true(verify_block_chance(&t.r, 1, &w) == 0 && w == 0);
    assert_true(verify_block_chance(&t.r, 2, &w) == 0 && w == 0);
}

/* ---- The rounds themselves -------------------------------------------------------------------- */

/* Drafts as the engine draws them, decided by verify_next: how many are accepted. text [k + 1]. */
static int real_round(verify_rule rule, uint64_t seed, int32_t first, int32_t *text)
{
    path t;
    path_init(&t, rule);
    t.r.seed = seed;
    t.r.first = first;
    for (int i = 0; i < chain.k; i++)
        path_step(&t, i, verify_draft(&t.r, i, &chain.q[t.node[i]]));
    verify v;
    assert_int_equal(verify_begin(&v, &t.r, NULL), FT_OK);
    for (int i = 0;; i++) {
        verify_token next = verify_next(&v, &t.p[i]);
        text[i] = next.token;
        if (next.last)
            return i;
        assert_int_equal(next.token, t.draft[i]);
    }
}

/* The chances above are right and the rounds do not follow them: a uniform number used twice, the
 * first success taken instead of the last. */
static void test_block_rounds_accept_as_often_as_computed(void **state)
{
    (void)state;
    enum { N = 40000 };
    for (int i = 0; i < 6; i++) {
        random_chain(3 + i % 3, 2 + i % 3);
        path t;
        path_init(&t, VERIFY_BLOCK);
        double want[2] = {block_accepted(&t, 0, 1, 0), ratio_accepted(0, 0)};
        for (int rule = VERIFY_BLOCK; rule <= VERIFY_RATIO; rule++) {
            double sum = 0;
            int32_t text[K_MAX + 1];
            for (int pos = 0; pos < N; pos++)
                sum += real_round((verify_rule)rule, 21, pos, text);
            double noise = 5 * 0.5 * chain.k / sqrt((double)N);
            assert_true(fabs(sum / N - want[rule - VERIFY_BLOCK]) < noise);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_block_never_accepts_fewer_drafts_than_ratio),
        cmocka_unit_test(test_block_law_is_the_models_to_rounding),
        cmocka_unit_test(test_block_accepts_nothing_behind_an_impossible_draft),
        cmocka_unit_test(test_block_rounds_accept_as_often_as_computed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
