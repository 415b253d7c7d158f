/* The proof by counting texts: 400,000 of 3 tokens from a toy model, under every rule and drafter. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sample/proof.h"
#include "support/dists.h"
#include "support/slowdown.h"

/* Fewer under sanitizers; the limits follow. */
#define N_TEXT (TEST_SLOWDOWN > 1 ? 40000 : 400000)
#define N_FEW  (N_TEXT / 4)

static proof *toy;
static double law[PROOF_N_TEXT]; /* of texts that no token ends */

static int setup(void **state)
{
    (void)state;
    if (proof_create(&toy, NULL) != FT_OK)
        return -1;
    proof_law(toy, -1, law);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    proof_free(toy);
    return 0;
}

static proof_tally run(int n_text, verify_rule rule, proof_drafter drafter, bool argmax,
                       uint64_t seed)
{
    proof_case c = {rule, drafter, argmax, seed << 32, n_text, -1};
    proof_tally t;
    ft_error err = {0};
    if (proof_run(toy, &c, &t, &err) != FT_OK)
        fail_msg("%s", err.msg);
    return t;
}

static bool has_law(const proof_tally *t, const double *want)
{
    int df;
    double chi2 = dists_chi2(t->count, want, PROOF_N_TEXT, t->n_text, &df);
    return chi2 < dists_chi2_limit(df);
}

static double tokens_per_round(const proof_tally *t)
{
    return (double)t->n_token / t->n_text;
}

/* A toy that is too simple to show anything: it must have several tokens in most places, depend on
 * what stands before, and have filters and penalties that matter. */
static void test_proof_toy_has_something_to_go_wrong(void **state)
{
    (void)state;
    int n = 0;
    double sum = 0, squares = 0;
    for (int i = 0; i < PROOF_N_TEXT; i++) {
        n += law[i] > 0;
        sum += law[i];
        squares += law[i] * law[i];
    }
    assert_true(fabs(sum - 1) < 1e-12);
    assert_true(n > 30 && n < 150);
    assert_true(1 / squares > 8); /* as many texts of equal probability */
    int32_t text[] = {1, 2};
    assert_int_equal(proof_code(text, 2), 1 * 49 + 2 * 7 + 6);
    assert_string_equal(proof_drafter_name(PROOF_CHAIN), "chain");
    assert_string_equal(proof_drafter_name(PROOF_N_DRAFTER), "unknown");
}

/* B001-B011: any rule that leans to its drafter; by the total variation from one token at a time, and
 * by the sharper chi-square against the exact law. */
static void test_proof_exact_rules_are_at_the_noise_floor(void **state)
{
    (void)state;
    proof_tally plain = run(N_TEXT, VERIFY_COUPLED, PROOF_NONE, false, 1);
    proof_tally again = run(N_TEXT, VERIFY_COUPLED, PROOF_NONE, false, 2);
    double limit = proof_noise(law, N_TEXT);
    assert_true(limit < 0.009 * sqrt(400000.0 / N_TEXT));
    assert_true(has_law(&plain, law));
    assert_true(proof_distance(&plain, &again) < limit);
    assert_true(proof_distance(&plain, &again) > limit / 10);
    uint64_t seed = 3;
    for (int rule = VERIFY_COUPLED; rule <= VERIFY_RATIO; rule++) {
        for (int kind = PROOF_ORDINARY; kind < PROOF_N_DRAFTER; kind++) {
            for (int argmax = 0; argmax < 2; argmax++) {
                if (argmax && kind != PROOF_ORDINARY && kind != PROOF_CHAIN)
                    continue;
                proof_tally t = run(N_TEXT, (verify_rule)rule, (proof_drafter)kind, argmax, seed++);
                double tv = proof_distance(&plain, &t);
                if (!(tv < limit) || !has_law(&t, law))
                    fail_msg("%s, %s%s: %.4f, limit %.4f", verify_rule_name((verify_rule)rule),
                             proof_drafter_name((proof_drafter)kind), argmax ? ", argmax" : "", tv,
                             limit);
                if (kind == PROOF_WRONG)
                    assert_true(tokens_per_round(&t) < 1.1);
            }
        }
    }
}

/* B008, B010, B011: the proof above that could not fail: a rule that keeps what is most likely. */
static void test_proof_greedy_match_is_far_off(void **state)
{
    (void)state;
    proof_tally plain = run(N_TEXT, VERIFY_COUPLED, PROOF_NONE, false, 1);
    proof_tally t = run(N_TEXT, VERIFY_GREEDY_MATCH, PROOF_ORDINARY, false, 40);
    double tv = proof_distance(&plain, &t);
    assert_true(tv > 0.05 && tv < 0.07);
    t = run(N_FEW, VERIFY_GREEDY_MATCH, PROOF_CHAIN, true, 41);
    tv = proof_distance(&plain, &t);
    assert_true(tv > 0.77 && tv < 0.81);
    assert_true(tokens_per_round(&t) == 3);
    for (int rule = VERIFY_COUPLED; rule <= VERIFY_RATIO; rule++) {
        t = run(N_FEW, (verify_rule)rule, PROOF_CHAIN, true, 42 + (uint64_t)rule);
        assert_true(fabs(tokens_per_round(&t) - 1.83) < 0.03);
    }
}

/* Tokens per round in the wrong order: block at least ratio, ratio at least coupled, sampled drafts
 * above argmax drafts for a drafter that is often right. */
static void test_proof_rules_differ_in_tokens_per_round_alone(void **state)
{
    (void)state;
    double got[3];
    for (int rule = VERIFY_COUPLED; rule <= VERIFY_RATIO; rule++) {
        proof_tally t = run(N_FEW, (verify_rule)rule, PROOF_ORDINARY, false, 50 + (uint64_t)rule);
        got[rule] = tokens_per_round(&t);
    }
    assert_true(got[VERIFY_BLOCK] > got[VERIFY_RATIO] + 0.01);
    assert_true(got[VERIFY_RATIO] > got[VERIFY_COUPLED] + 0.01);
    proof_tally t = run(N_FEW, VERIFY_RATIO, PROOF_ORDINARY, true, 54);
    assert_true(got[VERIFY_RATIO] > tokens_per_round(&t));
}

/* B005, B116: coupled texts are those of the seed, one by one, not in distribution alone. */
static void test_proof_coupled_texts_of_a_seed_are_the_plain_ones(void **state)
{
    (void)state;
    proof_tally plain = run(N_FEW, VERIFY_COUPLED, PROOF_NONE, false, 1);
    for (int kind = PROOF_ORDINARY; kind < PROOF_N_DRAFTER; kind++) {
        proof_tally t = run(N_FEW, VERIFY_COUPLED, (proof_drafter)kind, kind % 2, 1);
        assert_memory_equal(t.count, plain.count, sizeof t.count);
        assert_true(proof_distance(&plain, &t) == 0);
    }
    proof_tally t = run(N_FEW, VERIFY_BLOCK, PROOF_ORDINARY, false, 1);
    assert_true(proof_distance(&plain, &t) > 0);
}

/* B023, B024, B025: an end of text inside an accepted block, or proposed by a draft, comes more or
 * less often than it should; or text goes on behind it. */
static void test_proof_texts_that_a_token_ends_have_their_law(void **state)
{
    (void)state;
    int n_end = 0;
    for (int32_t end = 0; end < PROOF_N_TOK; end++) {
        double ended[PROOF_N_TEXT];
        proof_law(toy, end, ended);
        int32_t alone[] = {end};
        double at_once = ended[proof_code(alone, 1)];
        if (at_once < 0.02 || at_once > 0.5)
            continue;
        n_end++;
        for (int rule = VERIFY_COUPLED; rule <= VERIFY_RATIO; rule++) {
            proof_case c = {(verify_rule)rule,   PROOF_ORDINARY, end % 2,
                            (uint64_t)end << 40, N_FEW,          end};
            proof_tally t;
            assert_int_equal(proof_run(toy, &c, &t, NULL), FT_OK);
            assert_true(has_law(&t, ended));
            assert_false(has_law(&t, law));
        }
    }
    assert_true(n_end >= 2);
}

/* Half an object when memory runs out; a run that allocates. */
static void test_proof_failed_allocations_leave_nothing_behind(void **state)
{
    (void)state;
    for (long i = 1; i <= 40; i++) {
        proof *f = toy;
        ft_error err = {0};
        mem_fail_at(i * 22 + 1);
        assert_int_equal(proof_create(&f, &err), FT_NOMEM);
        assert_null(f);
        assert_true(err.msg[0] != '\0');
    }
    mem_fail_at(0);
    long before = mem_count();
    mem_guard_begin();
    proof_case c = {VERIFY_BLOCK, PROOF_REDUCED, false, 0, 100, -1};
    proof_tally t;
    assert_int_equal(proof_run(toy, &c, &t, NULL), FT_OK);
    mem_guard_end();
    assert_int_equal(mem_count(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proof_toy_has_something_to_go_wrong),
        cmocka_unit_test(test_proof_exact_rules_are_at_the_noise_floor),
        cmocka_unit_test(test_proof_greedy_match_is_far_off),
        cmocka_unit_test(test_proof_rules_differ_in_tokens_per_round_alone),
        cmocka_unit_test(test_proof_coupled_texts_of_a_seed_are_the_plain_ones),
        cmocka_unit_test(test_proof_texts_that_a_token_ends_have_their_law),
        cmocka_unit_test(test_proof_failed_allocations_leave_nothing_behind),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
