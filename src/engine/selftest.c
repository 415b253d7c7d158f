/* selftest.c - proofs that a user can run: that drafting leaves the distribution of texts alone. */
#include "base/mem.h"
#include "engine/engine.h"
#include "sample/proof.h"

/* Fewer texts, and greedy-match with an ordinary drafter drowns in the noise. */
#define N_TEXT_MIN 20000
#define N_TEXT_MAX 10000000

static const struct {
    proof_drafter drafter;
    bool argmax;
} drafters[] = {
    {PROOF_ORDINARY, false}, {PROOF_ORDINARY, true}, {PROOF_REDUCED, false}, {PROOF_WRONG, false},
    {PROOF_UNLIKELY, false}, {PROOF_BLIND, false},   {PROOF_CHAIN, true},
};

typedef struct {
    proof *toy; /* owned, like plain and got */
    proof_tally *plain, *got;
    double limit;
    uint64_t seed;
    int n_text, n_case; /* n_case: made so far, a part of their seeds */
    ft_selftest_fn *report;
    void *ctx;
    bool passed;
} selftest;

/* Texts of the i-th case get seeds of their own. */
static ft_status make_texts(selftest *t, proof_tally *out, proof_case *c, ft_error *err)
{
    c->n_text = t->n_text;
    c->end = -1;
    c->seed = t->seed + ((uint64_t)t->n_case++ << 32);
    return proof_run(t->toy, c, out, err);
}

static ft_status one_line(selftest *t, const char *rule, proof_case c, ft_error *err)
{
    TRY(make_texts(t, t->got, &c, err));
    ft_selftest_row row = {.rule = rule,
                           .drafter = proof_drafter_name(c.drafter),
                           .argmax = c.argmax,
                           .exact = c.rule != VERIFY_GREEDY_MATCH,
                           .variation = proof_distance(t->plain, t->got),
                           .limit = t->limit,
                           .tokens_per_round = (double)t->got->n_token / t->n_text};
    row.passed = row.exact ? row.variation < row.limit : row.variation > row.limit;
    t->passed = t->passed && row.passed;
    if (!t->report(t->ctx, &row))
        return err_set(err, FT_CANCELLED, "selftest: stopped by the caller");
    return FT_OK;
}

static ft_status all_lines(selftest *t, ft_error *err)
{
    proof_case plain = {.rule = VERIFY_COUPLED, .drafter = PROOF_NONE};
    TRY(make_texts(t, t->plain, &plain, err));
    TRY(one_line(t, "plain", plain, err));
    for (int rule = VERIFY_COUPLED; rule <= VERIFY_RATIO; rule++) {
        for (size_t i = 0; i < ARRAY_LEN(drafters); i++) {
            proof_case c = {(verify_rule)rule, drafters[i].drafter, drafters[i].argmax, 0, 0, -1};
            TRY(one_line(t, verify_rule_name(c.rule), c, err));
        }
    }
    const char *greedy = verify_rule_name(VERIFY_GREEDY_MATCH);
    proof_case c = {.rule = VERIFY_GREEDY_MATCH, .drafter = PROOF_ORDINARY};
    TRY(one_line(t, greedy, c, err));
    c.drafter = PROOF_CHAIN;
    c.argmax = true;
    return one_line(t, greedy, c, err);
}

ft_status ft_selftest_sampling(int n_text, uint64_t seed, ft_selftest_fn *report, void *ctx,
                               bool *passed, ft_error *err)
{
    *passed = false;
    if (n_text < N_TEXT_MIN || n_text > N_TEXT_MAX)
        return err_set(err, FT_ARG, "selftest: %d texts, want %d to %d", n_text, N_TEXT_MIN,
                       N_TEXT_MAX);
    if (!report)
        return err_set(err, FT_ARG, "selftest: no callback");
    selftest t = {.seed = seed,
                  .n_text = n_text,
                  .report = report,
                  .ctx = ctx,
                  .passed = true,
                  .plain = mem_zalloc(sizeof *t.plain),
                  .got = mem_zalloc(sizeof *t.got)};
    ft_status st = !t.plain || !t.got ? err_set(err, FT_NOMEM, "selftest: counts of texts")
                                      : proof_create(&t.toy, err);
    if (st == FT_OK) {
        double law[PROOF_N_TEXT];
        proof_law(t.toy, -1, law);
        t.limit = proof_noise(law, n_text);
        st = all_lines(&t, err);
    }
    *passed = st == FT_OK && t.passed;
    proof_free(t.toy);
    mem_free(t.plain);
    mem_free(t.got);
    return st;
}
