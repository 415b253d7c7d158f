/* test_engine_perplexity.c - ft_perplexity against sums made by hand from evaluated rows. */
#include <math.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "support/enginerig.h"

enum { N_TOK = 150, N_VOCAB = 320 };

static double row_nll(const float *row, int32_t id)
{
    double max = (double)row[0], sum = 0;
    for (int i = 1; i < N_VOCAB; i++)
        max = (double)row[i] > max ? (double)row[i] : max;
    for (int i = 0; i < N_VOCAB; i++)
        sum += exp((double)row[i] - max);
    return max + log(sum) - (double)row[id];
}

/* Sums over the tokens that a window scores, one plain evaluation a window. */
typedef struct {
    int n;
    double sum, sum_sq;
} score;

static void score_window(ft_session *s, const int32_t *tok, int n, int from, score *out, int *times)
{
    float *rows = calloc((size_t)n * N_VOCAB, sizeof *rows);
    ft_session_reset(s);
    ft_eval_out eval = {.logits = rows};
    OK(ft_session_eval_rows(s, tok, n, &eval, &rig_err));
    for (int i = from; i < n; i++) {
        double x = row_nll(rows + (size_t)(i - 1) * N_VOCAB, tok[i]);
        out->n++;
        out->sum += x;
        out->sum_sq += x * x;
        times[i]++;
    }
    free(rows);
}

static void check_windows(ft_model *m, ft_session *s, int n_tok, int n_window, int n_skip)
{
    int32_t tok[N_TOK];
    int times[N_TOK] = {0};
    rig_prompt(tok, N_TOK);
    int skip = n_skip < 0 ? n_window / 2 : n_skip;
    score want = {0};
    for (int at = 0;; at += n_window - skip) {
        int n = n_tok - at < n_window ? n_tok - at : n_window;
        score_window(s, tok + at, n, at == 0 ? 1 : skip, &want, times + at);
        if (at + n == n_tok)
            break;
    }
    for (int i = 0; i < n_tok; i++) /* every token but the first, once */
        assert_int_equal(times[i], i > 0);
    for (int chunk = 3; chunk < 300; chunk *= 27) {
        ft_session_params sp = {.n_chunk = chunk, .kv_type = "f32"};
        ft_perplexity_params p = {.n_window = n_window, .n_skip = n_skip};
        ft_perplexity_result r;
        OK(ft_perplexity(m, tok, (size_t)n_tok, &sp, &p, &r, &rig_err));
        double mean = want.sum / want.n, var = 0;
        if (want.n > 1)
            var = (want.sum_sq - want.n * mean * mean) / (want.n - 1);
        assert_int_equal(r.n_scored, n_tok - 1);
        assert_true(fabs(r.nll - mean) < 1e-9);
        assert_true(fabs(r.nll_error - sqrt(fmax(var, 0) / want.n)) < 1e-9);
        assert_true(fabs(r.perplexity / exp(mean) - 1) < 1e-9);
        assert_true(fabs(r.perplexity_error - r.perplexity * r.nll_error) < 1e-9);
    }
}

/* Catches tokens scored twice or never, a row scored against the wrong token, a window that starts
 * from the one before, results that depend on the chunk. */
static void test_perplexity_equals_the_direct_sum(void **state)
{
    (void)state;
    static const struct {
        int n_tok, n_window, n_skip;
    } c[] = {{150, 32, -1}, {150, 32, 1}, {60, 9, 8}, {32, 32, -1}, {33, 32, -1},
             {47, 32, 16},  {2, 32, -1},  {5, 2, 1},  {48, 32, 16}, {49, 32, 16}};
    static const model_arch family[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};
    for (int i = 0; i < 3; i++) {
        ft_model *m = rig_model(family[i]);
        ft_session *s = rig_session(m, 64, 64, "f32");
        for (size_t k = i ? 2 : 0; k < (i ? 5 : ARRAY_LEN(c)); k++)
            check_windows(m, s, c[k].n_tok, c[k].n_window, c[k].n_skip);
        ft_session_free(s);
        ft_model_close(m);
    }
}

/* Catches sizes that divide by zero, loop for ever, or are refused without a name. */
static void test_perplexity_bad_arguments_are_refused(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    int32_t tok[20];
    rig_prompt(tok, 20);
    static const struct {
        int n_tok, n_window, n_skip;
        ft_status st;
        const char *words;
    } bad[] = {
        {20, 1, -1, FT_ARG, "n_window: 1, want at least 2"},
        {20, -7, 1, FT_ARG, "n_window: -7"},
        {20, 8, 0, FT_ARG, "n_skip: 0, want 1 to 7"},
        {20, 8, 8, FT_ARG, "n_skip: 8, want 1 to 7"},
        {1, 8, -1, FT_ARG, "text: 1 tokens, want at least 2"},
        {0, 8, -1, FT_ARG, "text: 0 tokens"},
    };
    ft_perplexity_result r;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ft_perplexity_params p = {.n_window = bad[i].n_window, .n_skip = bad[i].n_skip};
        FAILS(ft_perplexity(m, tok, (size_t)bad[i].n_tok, NULL, &p, &r, &rig_err), bad[i].st,
              bad[i].words);
        assert_int_equal(r.n_scored, 0);
    }
    ft_perplexity_params p = {.n_window = 8, .n_skip = -1};
    ft_session_params sp = {.n_chunk = 4, .kv_type = "q1"};
    FAILS(ft_perplexity(m, tok, 20, &sp, &p, &r, &rig_err), FT_ARG, "kv_type: 'q1'");
    tok[19] = 320;
    FAILS(ft_perplexity(m, tok, 20, NULL, &p, &r, &rig_err), FT_RANGE, "id 320, want 0 to 319");
    ft_model_close(m);
}

typedef struct {
    uint64_t last, total;
    int n, stop_at;
} progress;

static bool watch(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    progress *w = ctx;
    assert_string_equal(what, "perplexity");
    assert_true(done > w->last && done <= total);
    w->last = done;
    w->total = total;
    return ++w->n != w->stop_at;
}

/* Catches progress that does not end at the total, and a cancelled run that gives a number. */
static void test_perplexity_progress_and_cancel(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    int32_t tok[60];
    rig_prompt(tok, 60);
    progress w = {0};
    ft_perplexity_params p = {.n_window = 20, .n_skip = 10, .progress = watch, .progress_ctx = &w};
    ft_perplexity_result r;
    OK(ft_perplexity(m, tok, 60, NULL, &p, &r, &rig_err));
    assert_int_equal(w.n, 5);
    assert_int_equal(w.last, 60);
    assert_int_equal(w.total, 60);
    w = (progress){.stop_at = 2};
    FAILS(ft_perplexity(m, tok, 60, NULL, &p, &r, &rig_err), FT_CANCELLED, "after 30 of 60 tokens");
    assert_int_equal(r.n_scored, 0);
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_perplexity_equals_the_direct_sum),
        cmocka_unit_test(test_perplexity_bad_arguments_are_refused),
        cmocka_unit_test(test_perplexity_progress_and_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
