/* test_server_page.c - what the page at / needs of the server: itself with its policy, and streams that
 * tell of every token and of the figures so far. The page itself is driven in tests/client/. */
#include "server/job.h"
#include "support/serverrig.h"

static rig_server rig;

static int start(void **state)
{
    (void)state;
    server_params p = rig_server_params();
    p.api_key = "k3y";
    rig_server_start(&rig, &p);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rig_server_stop(&rig);
    return 0;
}

/* B113: would catch a page that needs the key it is to ask for, or one whose policy lets in what is not
 * its own. */
static void test_page_is_open_and_has_a_strict_policy(void **state)
{
    (void)state;
    raw_reply r;
    raw_request(rig.port, "GET", "/", NULL, NULL, &r);
    assert_int_equal(r.status, 200);
    const char *policy = strstr(r.head, "Content-Security-Policy: default-src 'none'; ");
    assert_non_null(policy);
    assert_non_null(strstr(policy, "script-src 'sha256-"));
    assert_non_null(strstr(policy, "frame-ancestors 'none'"));
    assert_null(strstr(policy, "unsafe"));
    assert_null(strstr(policy, "http:"));
    assert_non_null(strstr(r.head, "Content-Type: text/html; charset=utf-8"));
    assert_non_null(strstr(r.head, "X-Content-Type-Options: nosniff"));
    const char *page = (const char *)r.body.data;
    assert_memory_equal(page, "<!DOCTYPE html>", 15);
    assert_memory_equal(page + r.body.len - 8, "</html>\n", 8);
    assert_null(strstr(page, "://"));
    raw_reply_free(&r);
    raw_request(rig.port, "POST", "/", NULL, "{}", &r);
    assert_int_equal(r.status, 405);
    raw_reply_free(&r);
}

/* The next event of a stream as JSON, NULL: "[DONE]" or the end. */
static json_t *next_event(const char **at)
{
    static const char mark[] = "data: ";
    const char *line = strstr(*at, mark);
    if (!line || line[sizeof mark - 1] != '{')
        return NULL;
    line += sizeof mark - 1;
    const char *end = strchr(line, '\n');
    *at = end;
    return json_loadb(line, (size_t)(end - line), JSON_ALLOW_NUL, NULL);
}

/* B120: would catch figures of the middle that do not grow into those of the end, or count other tokens
 * than the ones that were sent. */
static void test_stream_with_details_tells_figures_as_it_goes(void **state)
{
    (void)state;
    raw_reply r;
    raw_request(rig.port, "POST", "/v1/completions",
                "Content-Type: application/json\r\nAuthorization: Bearer k3y\r\n",
                "{\"prompt\": \"the\", \"max_tokens\": 400, \"seed\": 2, \"ignore_eos\": true, "
                "\"draft_max\": 3, \"draft_fixed\": true, \"stream\": true, "
                "\"token_details\": true}",
                &r);
    assert_int_equal(r.status, 200);
    const char *at = (const char *)r.body.data;
    json_int_t n = 0, n_event = 0, last[3] = {0};
    static const char *const key[] = {"timings.draft.accepted", "timings.draft.rounds",
                                      "timings.predicted_n"};
    for (json_t *j; (j = next_event(&at)) != NULL; n_event++) {
        n += (json_int_t)json_array_size(rig_at(j, "choices.0.tokens"));
        for (int i = 0; i < 3; i++) {
            assert_true(rig_int(j, key[i]) >= last[i]);
            last[i] = rig_int(j, key[i]);
        }
        assert_int_equal(last[2], n);
        assert_int_equal(rig_int(j, "timings.seed"), 2);
        if (last[1] > 0)
            assert_string_equal(rig_string(j, "timings.draft.off_reason"), "");
        json_decref(j);
    }
    assert_int_equal(n, 400);
    assert_true(n_event > 400 / JOB_BOX); /* all that one event can hold */
    raw_reply_free(&r);
}

/* Would catch figures that nobody asked for: every event of every stream would be three times as long. */
static void test_stream_without_details_tells_figures_once(void **state)
{
    (void)state;
    raw_reply r;
    raw_request(rig.port, "POST", "/v1/completions",
                "Content-Type: application/json\r\nAuthorization: Bearer k3y\r\n",
                "{\"prompt\": \"the\", \"max_tokens\": 20, \"ignore_eos\": true, \"stream\": true}",
                &r);
    const char *at = strstr((const char *)r.body.data, "\"timings\"");
    assert_non_null(at);
    assert_null(strstr(at + 1, "\"timings\""));
    raw_reply_free(&r);
}

/* B104: would catch part of a character without its bytes: a reader could not put it together. */
static void test_details_of_parts_of_characters_have_bytes(void **state)
{
    (void)state;
    raw_reply r;
    raw_request(
        rig.port, "POST", "/v1/completions",
        "Content-Type: application/json\r\nAuthorization: Bearer k3y\r\n",
        "{\"prompt\": \"h\", \"max_tokens\": 4, \"token_details\": true, \"temperature\": 0, "
        "\"logit_bias\": {\"195\": 100}}",
        &r);
    json_t *j = rig_json(&r);
    assert_int_equal(rig_int(j, "choices.0.tokens.0.id"), 195);
    assert_int_equal(rig_int(j, "choices.0.tokens.0.bytes.0"), 0xC3);
    json_decref(j);
    raw_reply_free(&r);
    raw_request(
        rig.port, "POST", "/v1/completions",
        "Content-Type: application/json\r\nAuthorization: Bearer k3y\r\n",
        "{\"prompt\": \"h\", \"max_tokens\": 4, \"token_details\": true, \"temperature\": 0, "
        "\"logit_bias\": {\"104\": 100}}",
        &r);
    j = rig_json(&r);
    assert_string_equal(rig_string(j, "choices.0.tokens.0.text"), "h");
    assert_null(rig_at(j, "choices.0.tokens.0.bytes"));
    json_decref(j);
    raw_reply_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_is_open_and_has_a_strict_policy),
        cmocka_unit_test(test_stream_with_details_tells_figures_as_it_goes),
        cmocka_unit_test(test_stream_without_details_tells_figures_once),
        cmocka_unit_test(test_details_of_parts_of_characters_have_bytes),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
