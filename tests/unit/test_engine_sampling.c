/* Sampling settings under drafting: the same text as without drafts in the coupled mode, the same
 * distribution in the other exact ones. */
#include <foretoken/foretoken.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/tinymodel.h"
#include "support/tmpdir.h"

static void must(ft_status st, const ft_error *err)
{
    if (st != FT_OK)
        fail_msg("%s", err->msg);
}

static const ft_model_params one_thread = {.n_thread = 1};

typedef struct {
    int32_t id[600];
    int n;
} trace;

static bool on_token(void *ctx, const ft_token *t)
{
    trace *r = ctx;
    r->id[r->n++] = t->id;
    return true;
}

static trace generate(ft_session *s, const int32_t *prompt, int n_prompt,
                      const ft_generate_params *p, ft_generate_stats *stats)
{
    trace t = {{0}, 0};
    ft_error err = {0};
    ft_generate_params request = *p;
    request.on_token = on_token;
    request.on_token_ctx = &t;
    ft_session_reset(s);
    must(ft_session_generate(s, prompt, n_prompt, &request, stats, &err), &err);
    return t;
}

/* Catches a setting that verified rows see otherwise than plain decoding (B014 to B018): a grid of penalties,
 * windows, bias, orders, filters and lengths. */
static void test_grid_of_settings_coupled_text_is_that_without_drafts(void **state)
{
    (void)state;
    ft_model *m;
    ft_session *s;
    ft_error err = {0};
    int32_t *prompt;
    size_t n;
    static const char text[] = "It was a dark night, and the old man, the old man had no light.";
    must(ft_model_open(&m, "models/foretoken-sample.gguf", &one_thread, &err), &err);
    must(ft_session_create(&s, m, NULL, &err), &err);
    must(ft_tokenize(m, text, strlen(text), false, &prompt, &n, &err), &err);
    static const char *const order[] = {NULL, "top_k;penalties;temp",
                                        "temp,top_p,min_p,top_k,penalties", "top_p", "penalties"};
    static const float repeat[] = {1, 1.3f, 0.8f}, presence[] = {0, 1.5f, -0.5f};
    static const int last_n[] = {64, 0, -1, 5};
    int n_different = 0;
    trace first = {{0}, 0};
    uint64_t accepted = 0;
    for (int i = 0; i < 30; i++) {
        ft_generate_stats stats;
        ft_generate_params p = ft_generate_params_default();
        ft_logit_bias bias[] = {{11, -INFINITY}, {(int32_t)(300 + i), 3}, {(int32_t)(900 + i), -2}};
        p.n_max = 40;
        p.n_min = i % 4 == 3 ? 20 : 0;
        p.sample.temp = i % 5 == 0 ? 0 : 0.4f + 0.2f * (float)(i % 5);
        p.sample.top_k = i % 3 == 0 ? 0 : 5 * (i % 7);
        p.sample.top_p = i % 4 == 1 ? 0.8f : 1;
        p.sample.min_p = i % 6 == 2 ? 0.1f : 0;
        p.sample.seed = (uint64_t)i / 2;
        p.sample.repeat_penalty = repeat[i % 3];
        p.sample.presence_penalty = presence[i / 3 % 3];
        p.sample.frequency_penalty = i % 2 ? 0.4f : 0;
        p.sample.penalty_last_n = last_n[i / 2 % 4];
        p.sample.samplers = order[i % 5];
        p.sample.bias = bias;
        p.sample.n_bias = i % 3;
        p.draft_max = 0;
        trace plain = generate(s, prompt, (int)n, &p, &stats);
        for (int k = 1; k <= 7; k += 3) {
            p.draft_max = k;
            p.draft_fixed = true;
            p.draft_argmax = k == 4; /* what is proposed does not matter */
            trace t = generate(s, prompt, (int)n, &p, &stats);
            if (t.n != plain.n || memcmp(t.id, plain.id, (size_t)t.n * sizeof *t.id) != 0)
                fail_msg("setting %d, %d drafts: another text", i, k);
            accepted += stats.draft.accepted;
        }
        if (i == 0)
            first = plain;
        n_different += memcmp(first.id, plain.id, sizeof first.id) != 0;
    }
    assert_true(n_different > 24); /* the settings do something */
    assert_true(accepted > 500);
    ft_free(prompt);
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a ban that only some rows see (B015, B018): 5,000 tokens without it. */
static void test_banned_token_never_comes_in_any_exact_rule(void **state)
{
    (void)state;
    ft_model *m;
    ft_session *s;
    ft_error err = {0};
    must(ft_model_open(&m, "models/foretoken-sample.gguf", &one_thread, &err), &err);
    must(ft_session_create(&s, m, NULL, &err), &err);
    int32_t prompt[] = {100, 200};
    ft_generate_stats stats;
    ft_generate_params p = ft_generate_params_default();
    p.n_max = 556;
    p.ignore_eos = true;
    p.sample.temp = 1;
    trace free_text = generate(s, prompt, 2, &p, &stats);
    int32_t wanted = -1; /* the token that comes most often */
    int most = 0;
    for (int i = 0; i < free_text.n; i++) {
        int count = 0;
        for (int j = 0; j < free_text.n; j++)
            count += free_text.id[j] == free_text.id[i];
        if (count > most) {
            most = count;
            wanted = free_text.id[i];
        }
    }
    assert_true(most > 10);
    ft_logit_bias ban = {wanted, -INFINITY};
    p.sample.bias = &ban;
    p.sample.n_bias = 1;
    p.draft_fixed = true;
    for (int i = 0; i < 9; i++) {
        p.verify = (ft_verify)(i % 3);
        p.sample.seed = (uint64_t)i;
        trace t = generate(s, prompt, 2, &p, &stats);
        assert_int_equal(t.n, 556);
        for (int j = 0; j < t.n; j++)
            assert_int_not_equal(t.id[j], wanted);
    }
    ft_session_free(s);
    ft_model_close(m);
}

/* ---- Block and ratio ---------------------------------------------------------------------------------- */

enum { N_SEED = 300, N_POS = 6, N_ID = 4096 };

/* How often each token came at each position, over seeds. */
static void count(ft_session *s, const ft_generate_params *base, int (*c)[N_ID], uint64_t *accepted)
{
    int32_t prompt[] = {100, 200, 300, 400};
    *accepted = 0;
    for (int seed = 0; seed < N_SEED; seed++) {
        ft_generate_stats stats;
        ft_generate_params p = *base;
        p.sample.seed = (uint64_t)seed + 1000;
        trace t = generate(s, prompt, 4, &p, &stats);
        for (int i = 0; i < t.n; i++)
            c[i][t.id[i]]++;
        *accepted += stats.draft.accepted;
    }
}

/* Chi-square of two samples over the tokens that are not too rare, as a multiple of its standard deviation
 * from its mean. */
static double two_sample(const int *a, const int *b)
{
    double chi = 0, rest_a = 0, rest_b = 0;
    int df = -1;
    for (int i = 0; i < N_ID; i++) {
        double x = a[i], y = b[i];
        if (x + y < 20) {
            rest_a += x;
            rest_b += y;
            continue;
        }
        chi += (x - y) * (x - y) / (x + y);
        df++;
    }
    if (rest_a + rest_b >= 20) {
        chi += (rest_a - rest_b) * (rest_a - rest_b) / (rest_a + rest_b);
        df++;
    }
    return df > 0 ? (chi - df) / sqrt(2.0 * df) : 0;
}

/* Catches a rule that is not exact end to end: tokens by position over 300 seeds, against plain decoding;
 * greedy-match, which is no sampler, must be seen to be off. */
static void test_block_and_ratio_keep_the_distribution_end_to_end(void **state)
{
    (void)state;
    ft_model *m;
    ft_session *s;
    ft_error err = {0};
    must(ft_model_open(&m, "models/foretoken-sample.gguf", &one_thread, &err), &err);
    ft_session_params sp = ft_session_params_default();
    sp.n_ctx = 32;
    must(ft_session_create(&s, m, &sp, &err), &err);
    ft_generate_params p = ft_generate_params_default();
    p.n_max = N_POS;
    p.ignore_eos = true;
    p.sample.temp = 0.9f;
    p.sample.top_k = 12;
    p.sample.presence_penalty = 0.5f;
    p.draft_max = 0;
    static int plain[N_POS][N_ID], c[N_POS][N_ID];
    uint64_t accepted;
    count(s, &p, plain, &accepted);
    p.draft_max = 4;
    p.draft_fixed = true;
    for (int rule = FT_VERIFY_BLOCK; rule <= FT_VERIFY_GREEDY_MATCH; rule++)
        for (int argmax = rule == FT_VERIFY_GREEDY_MATCH; argmax < 2; argmax++) {
            if (rule == FT_VERIFY_BLOCK && argmax)
                continue; /* the same as ratio then */
            double worst = 0;
            memset(c, 0, sizeof c);
            p.verify = (ft_verify)rule;
            p.draft_argmax = argmax;
            count(s, &p, c, &accepted);
            for (int i = 0; i < N_POS; i++)
                worst = fmax(worst, two_sample(plain[i], c[i]));
            if (rule != FT_VERIFY_GREEDY_MATCH && worst > 4.5)
                fail_msg("rule %d argmax %d: %.1f deviations off", rule, argmax, worst);
            if (rule == FT_VERIFY_GREEDY_MATCH && worst < 10)
                fail_msg("greedy-match looks exact (%.1f deviations): the test is blind", worst);
            assert_true(accepted > N_SEED / 2);
        }
    ft_session_free(s);
    ft_model_close(m);
}

static void test_absurd_settings_are_refused_by_name(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    ft_model *m;
    ft_session *s;
    ft_error err = {0};
    tiny_opts o = tiny_default(MODEL_QWEN35);
    tiny_write(test_path(path, "absurd.gguf"), &o);
    must(ft_model_open(&m, path, NULL, &err), &err);
    must(ft_session_create(&s, m, NULL, &err), &err);
    int32_t id = 5;
    ft_logit_bias far = {320000, 1};
    for (int i = 0; i < 7; i++) { /* B020, B022 */
        static const char *const word[] = {"repeat_penalty", "presence_penalty", "penalty_last_n",
                                           "bias",           "samplers",         "n_min",
                                           "verify"};
        ft_generate_params p = ft_generate_params_default();
        p.sample.repeat_penalty = i == 0 ? 0 : 1;
        p.sample.presence_penalty = i == 1 ? NAN : 0;
        p.sample.penalty_last_n = i == 2 ? -2 : 64;
        p.sample.bias = &far;
        p.sample.n_bias = i == 3;
        p.sample.samplers = i == 4 ? "top_k;nonsense" : NULL;
        p.n_min = i == 5 ? -1 : 0;
        p.verify = i == 6 ? (ft_verify)9 : FT_VERIFY_COUPLED;
        err = (ft_error){0};
        assert_int_equal(ft_session_generate(s, &id, 1, &p, NULL, &err), FT_ARG);
        if (!strstr(err.msg, word[i]) && i != 4)
            fail_msg("%s: '%s'", word[i], err.msg);
        assert_int_equal(ft_session_n_past(s), 0);
    }
    ft_session_free(s);
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid_of_settings_coupled_text_is_that_without_drafts),
        cmocka_unit_test(test_banned_token_never_comes_in_any_exact_rule),
        cmocka_unit_test(test_block_and_ratio_keep_the_distribution_end_to_end),
        cmocka_unit_test(test_absurd_settings_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
