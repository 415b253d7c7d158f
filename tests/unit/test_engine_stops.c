/* Stop strings and log-probabilities: the same with and without drafts, wherever tokens are cut. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/stops.h"
#include "support/tmpdir.h"

/* ---- The matcher -------------------------------------------------------------------------------------- */

/* The text in pieces cut by the bits of `cuts`: what is let through, and whether a stop was seen. */
static bool feed(const char *text, const char *const *stop, int n_stop, unsigned cuts, char *out)
{
    stop_matcher m;
    buf b;
    stops_init(&m, stop, n_stop);
    buf_init(&b, 1000);
    bool found = false;
    size_t from = 0, len = strlen(text);
    for (size_t i = 1; i <= len && !found; i++)
        if (i == len || (cuts >> i & 1)) {
            found = stops_put(&m, text + from, i - from, &b);
            from = i;
        }
    if (!found)
        stops_flush(&m, &b);
    snprintf(out, 100, "%s", buf_cstr(&b));
    stops_deinit(&m);
    buf_deinit(&b);
    return found;
}

/* Catches a stop missed over a border of tokens, text behind it, or text lost in front of it (B026): every
 * way to cut the text. */
static void test_stops_are_found_wherever_tokens_are_cut(void **state)
{
    (void)state;
    static const char *const stop[] = {"aab", "xyz", "\xe4\xb8\xad"};
    static const struct {
        const char *text, *want;
        bool found;
    } t[] = {
        {"caaab--", "ca", true},           {"caaxyaab", "caaxy", true},
        {"aaxyaaxy", "aaxyaaxy", false},   {"xxyxyz", "xxy", true},
        {"b\xe4\xb8\xad", "b", true},      {"aa", "aa", false},
        {"q\xe4\xb8", "q\xe4\xb8", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        for (unsigned cuts = 0; cuts < 512; cuts++) {
            char out[100] = {0};
            assert_int_equal(feed(t[i].text, stop, 3, cuts, out), t[i].found);
            assert_string_equal(out, t[i].want);
        }
}

/* Of two stops in one piece the one that begins first cuts; one that is complete does not wait for another
 * that only began. */
static void test_stops_that_overlap_end_at_the_first_complete(void **state)
{
    (void)state;
    static const char *const stop[] = {"abcX", "b", "cd"};
    char out[100] = {0};
    assert_true(feed("zabcX", stop, 3, 0, out));
    assert_string_equal(out, "z");
    memset(out, 0, sizeof out);
    assert_true(feed("zabcX", stop, 3, ~0u, out)); /* a token a byte: "b" is complete first */
    assert_string_equal(out, "za");
}

/* ---- Generation --------------------------------------------------------------------------------------- */

typedef struct {
    char text[4096];
    int32_t id[600];
    double logprob[600], sampled[600], top[600];
    int n;
} trace;

static bool on_token(void *ctx, const ft_token *t)
{
    trace *r = ctx;
    snprintf(r->text + strlen(r->text), sizeof r->text - strlen(r->text), "%s", t->text);
    r->logprob[r->n] = t->logprob;
    r->sampled[r->n] = t->logprob_sampled;
    r->top[r->n] = 0;
    for (int i = 0; i < t->n_top; i++) {
        r->top[r->n] += (i + 1) * t->top[i].logprob + t->top[i].id;
        if (i > 0)
            assert_true(t->top[i].logprob <= t->top[i - 1].logprob);
    }
    r->id[r->n++] = t->id;
    return true;
}

static trace generate(ft_model *m, const ft_generate_params *p, ft_generate_stats *stats,
                      uint64_t *end)
{
    static const char prompt[] =
        "It was a dark night, and the old man had no light but that of the moon.";
    ft_session *s;
    ft_error err = {0};
    int32_t *ids;
    size_t n;
    trace t = {{0}, {0}, {0}, {0}, {0}, 0};
    ft_generate_params request = *p;
    request.on_token = on_token;
    request.on_token_ctx = &t;
    assert_int_equal(ft_session_create(&s, m, NULL, &err), FT_OK);
    assert_int_equal(ft_tokenize(m, prompt, strlen(prompt), false, &ids, &n, &err), FT_OK);
    if (ft_session_generate(s, ids, (int)n, &request, stats, &err) != FT_OK)
        fail_msg("%s", err.msg);
    *end = session_digest(s);
    ft_free(ids);
    ft_session_free(s);
    return t;
}

static ft_model *bundled(void)
{
    ft_model *m;
    ft_error err = {0};
    if (ft_model_open(&m, "models/foretoken-sample.gguf", NULL, &err) != FT_OK)
        fail_msg("%s", err.msg);
    return m;
}

/* Catches a stop inside an accepted draft that is passed over, text behind it, and state that is not rolled
 * back to it (B026 to B030): stops that span tokens, at many places of the text. */
static void test_stop_strings_end_the_text_as_without_drafts(void **state)
{
    (void)state;
    ft_model *m = bundled();
    ft_generate_params p = ft_generate_params_default();
    p.n_max = 120;
    p.sample.temp = 0.7f;
    p.sample.seed = 5;
    p.draft_max = 0;
    ft_generate_stats stats;
    uint64_t end, want;
    trace whole = generate(m, &p, &stats, &end);
    size_t len = strlen(whole.text);
    assert_true(len > 200);
    for (size_t at = 5; at + 8 < len; at += 17) {
        char stop[8] = {0};
        memcpy(stop, whole.text + at, 3 + at % 4);
        const char *list[] = {stop, "\x01never"};
        p.stop = list;
        p.n_stop = 2;
        p.draft_max = 0;
        trace plain = generate(m, &p, &stats, &want);
        assert_int_equal(stats.finish, FT_FINISH_STOP);
        char *first = strstr(whole.text, stop);
        assert_int_equal(strlen(plain.text), (size_t)(first - whole.text));
        assert_memory_equal(plain.text, whole.text, strlen(plain.text));
        for (int k = 1; k <= 7; k += 3) {
            p.draft_max = k;
            p.draft_fixed = true;
            trace t = generate(m, &p, &stats, &end);
            assert_int_equal(stats.finish, FT_FINISH_STOP);
            assert_string_equal(t.text, plain.text);
            assert_int_equal(t.n, plain.n);
            assert_int_equal(stats.n_token, plain.n);
            assert_memory_equal(t.id, plain.id, (size_t)t.n * sizeof *t.id);
            assert_true(end == want);
        }
    }
    ft_model_close(m);
}

/* Catches log-probabilities that are zero, or those of another row or distribution, under drafting (B115). */
static void test_logprobs_are_those_without_drafts(void **state)
{
    (void)state;
    ft_model *m = bundled();
    static const float temp[] = {0, 0.7f, 1};
    for (int i = 0; i < 3; i++) {
        ft_generate_params p = ft_generate_params_default();
        ft_generate_stats stats;
        uint64_t end;
        p.n_max = 60;
        p.logprobs = true;
        p.n_top = 5;
        p.sample.temp = temp[i];
        p.sample.top_k = 0;
        p.sample.top_p = 1;
        p.sample.min_p = 0;
        p.sample.seed = 3;
        p.draft_max = 0;
        trace plain = generate(m, &p, &stats, &end);
        p.draft_max = 5;
        p.draft_fixed = true;
        trace t = generate(m, &p, &stats, &end);
        assert_true(stats.draft.accepted > 10);
        assert_memory_equal(t.id, plain.id, sizeof t.id);
        assert_memory_equal(t.logprob, plain.logprob, sizeof t.logprob);
        assert_memory_equal(t.sampled, plain.sampled, sizeof t.sampled);
        assert_memory_equal(t.top, plain.top, sizeof t.top);
        for (int k = 0; k < t.n; k++) {
            assert_true(t.logprob[k] < 0);
            if (temp[i] == 0)
                assert_true(t.sampled[k] == 0); /* certain */
            else if (temp[i] == 1)              /* no filters: the model's own */
                assert_true(fabs(t.sampled[k] - t.logprob[k]) < 1e-6);
        }
    }
    ft_model_close(m);
}

static void test_absurd_stops_and_tops_are_refused(void **state)
{
    (void)state;
    ft_model *m = bundled();
    ft_session *s;
    assert_int_equal(ft_session_create(&s, m, NULL, NULL), FT_OK);
    const char *empty[] = {""};
    int32_t id = 5;
    ft_error err = {0};
    ft_generate_params p = ft_generate_params_default();
    p.stop = empty;
    p.n_stop = 1;
    assert_int_equal(ft_session_generate(s, &id, 1, &p, NULL, &err), FT_ARG);
    assert_non_null(strstr(err.msg, "string 0 is empty"));
    p.n_stop = 0;
    p.n_top = FT_TOP_MAX + 1;
    assert_int_equal(ft_session_generate(s, &id, 1, &p, NULL, NULL), FT_ARG);
    assert_int_equal(ft_session_n_past(s), 0);
    ft_session_free(s);
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stops_are_found_wherever_tokens_are_cut),
        cmocka_unit_test(test_stops_that_overlap_end_at_the_first_complete),
        cmocka_unit_test(test_stop_strings_end_the_text_as_without_drafts),
        cmocka_unit_test(test_logprobs_are_those_without_drafts),
        cmocka_unit_test(test_absurd_stops_and_tops_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
