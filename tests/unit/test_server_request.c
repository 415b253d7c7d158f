/* test_server_request.c - bodies of requests: what is applied, what is refused and how. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/jsonin.h"
#include "server/request.h"

static bool parse(request *r, request_kind kind, const char *body, api_error *e)
{
    request_defaults d = request_defaults_api();
    *e = (api_error){0};
    return request_parse(r, kind, body, strlen(body), &d, e);
}

static void good(request *r, request_kind kind, const char *body)
{
    api_error e;
    if (!parse(r, kind, body, &e))
        fail_msg("%s: refused: %s", body, e.msg);
}

/* Refused with that code, field and words. */
static void bad(request_kind kind, const char *body, const char *code, const char *param,
                const char *words)
{
    request r;
    api_error e;
    if (parse(&r, kind, body, &e))
        fail_msg("%s: accepted", body);
    assert_int_equal(e.status, 400);
    assert_string_equal(e.code, code);
    assert_string_equal(e.param, param);
    if (!strstr(e.msg, words))
        fail_msg("'%s', want '%s' in it", e.msg, words);
    assert_null(r.json);
}

/* Would catch defaults of the sampler in place of the API's: temperature 1, nothing filtered, 16 tokens. */
static void test_completion_without_fields_has_the_defaults_of_the_api(void **state)
{
    (void)state;
    request r;
    good(&r, REQUEST_COMPLETION, "{\"prompt\": \"x\"}");
    assert_true(r.gen.sample.temp == 1 && r.gen.sample.top_p == 1 && r.gen.sample.min_p == 0);
    assert_int_equal(r.gen.sample.top_k, 0);
    assert_int_equal(r.gen.n_max, 16);
    assert_false(r.stream || r.usage || r.echo || r.logprobs || r.seed_given);
    request_deinit(&r);
    good(&r, REQUEST_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}");
    assert_int_equal(r.gen.n_max, -1);
    assert_true(r.thinking);
    assert_null(r.tools);
    request_deinit(&r);
}

/* Would catch a field that is read and then not used. */
static void test_completion_fields_are_applied(void **state)
{
    (void)state;
    request r;
    good(&r, REQUEST_COMPLETION,
         "{\"model\": \"m\", \"prompt\": \"a\\u0000b\", \"max_tokens\": 7, \"temperature\": 0, "
         "\"top_p\": 0.5, \"top_k\": 9, \"min_p\": 0.25, \"presence_penalty\": -2, "
         "\"frequency_penalty\": 1.5, \"repeat_penalty\": 1.25, \"repeat_last_n\": 33, \"seed\": "
         "-1, "
         "\"logit_bias\": {\"5\": -100, \"17\": 2.5}, \"stop\": [\"x\", \"yy\"], \"logprobs\": 3, "
         "\"stream\": true, \"stream_options\": {\"include_usage\": true}, \"n\": 1, "
         "\"best_of\": 1, \"user\": \"u\", \"ignore_eos\": true, \"min_tokens\": 2, "
         "\"draft_max\": 5, \"draft_fixed\": true, \"draft_p_min\": 0.5}");
    assert_string_equal(r.model, "m");
    assert_int_equal(r.prompt_len, 3);
    assert_memory_equal(r.prompt_text, "a\0b", 3);
    const ft_sample_params *s = &r.gen.sample;
    assert_true(s->temp == 0 && s->top_p == 0.5f && s->min_p == 0.25f && s->top_k == 9);
    assert_true(s->presence_penalty == -2 && s->frequency_penalty == 1.5f);
    assert_true(s->repeat_penalty == 1.25f && s->penalty_last_n == 33);
    assert_true(s->seed == UINT64_MAX && r.seed_given);
    assert_int_equal(s->n_bias, 2);
    assert_true(s->bias[0].id == 5 && s->bias[0].bias == -100);
    assert_true(s->bias[1].id == 17 && s->bias[1].bias == 2.5f);
    assert_int_equal(r.gen.n_stop, 2);
    assert_string_equal(r.gen.stop[1], "yy");
    assert_true(r.logprobs && r.gen.logprobs && r.gen.n_top == 3);
    assert_true(r.stream && r.usage && r.gen.ignore_eos);
    assert_true(r.gen.n_max == 7 && r.gen.n_min == 2 && r.gen.draft_max == 5);
    assert_true(r.gen.draft_fixed && r.gen.draft_p_min == 0.5f);
    request_deinit(&r);
}

/* Would catch a null that is taken for a value, as clients send for what they leave out. */
static void test_null_is_as_if_left_out(void **state)
{
    (void)state;
    request r;
    good(&r, REQUEST_COMPLETION,
         "{\"prompt\": \"x\", \"max_tokens\": null, \"stop\": null, \"suffix\": null, "
         "\"logprobs\": null, \"stream_options\": null, \"seed\": null, \"logit_bias\": null}");
    assert_true(r.gen.n_max == 16 && r.gen.n_stop == 0 && !r.logprobs && !r.seed_given);
    request_deinit(&r);
    bad(REQUEST_COMPLETION, "{\"prompt\": null}", "missing_required_parameter", "prompt",
        "Missing required parameter");
}

/* Would catch prompts of several texts of which the first alone is answered. */
static void test_prompt_is_one_text_or_list_of_tokens(void **state)
{
    (void)state;
    request r;
    good(&r, REQUEST_COMPLETION, "{\"prompt\": [\"only\"]}");
    assert_string_equal(r.prompt_text, "only");
    request_deinit(&r);
    good(&r, REQUEST_COMPLETION, "{\"prompt\": [[1, 2, 3]]}");
    assert_int_equal(r.n_prompt_tok, 3);
    assert_int_equal(r.prompt_tok[2], 3);
    request_deinit(&r);
    good(&r, REQUEST_COMPLETION, "{\"prompt\": [7, 8]}");
    assert_int_equal(r.n_prompt_tok, 2);
    request_deinit(&r);
    good(&r, REQUEST_COMPLETION, "{\"prompt\": \"\"}");
    request_deinit(&r);
    bad(REQUEST_COMPLETION, "{\"prompt\": [\"a\", \"b\"]}", "unsupported_value", "prompt",
        "one per request");
    bad(REQUEST_COMPLETION, "{\"prompt\": [1, \"b\"]}", "invalid_type", "prompt[1]", "an integer");
    bad(REQUEST_COMPLETION, "{\"prompt\": [1, -1]}", "invalid_value", "prompt[1]", "-1");
    bad(REQUEST_COMPLETION, "{\"prompt\": {}}", "invalid_type", "prompt", "is an object");
}

/* Would catch fields that are overlooked: a client must hear of each that does nothing. */
static void test_unknown_and_unsupported_fields_are_refused(void **state)
{
    (void)state;
    bad(REQUEST_COMPLETION, "{\"prompt\": \"x\", \"temprature\": 1}", "unknown_parameter",
        "temprature", "Unknown parameter: 'temprature'");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"x\", \"messages\": []}", "unknown_parameter",
        "messages", "Unknown");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"x\", \"n\": 2}", "unsupported_value", "n",
        "one answer");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"x\", \"best_of\": 3}", "unsupported_value", "best_of",
        "one answer");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"x\", \"suffix\": \"y\"}", "unsupported_parameter",
        "suffix", "not supported");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"x\", \"echo\": true, \"logprobs\": 1}",
        "unsupported_value", "echo", "logprobs");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"x\", \"stream_options\": {}}", "invalid_value",
        "stream_options", "stream: true");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"x\", \"stream\": true, \"stream_options\": {\"a\": 1}}",
        "unknown_parameter", "stream_options", "stream_options.a");
}

/* Would catch values outside a range that are clamped, or types that are guessed. B022 */
static void test_values_outside_their_range_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *field, *value, *code;
    } row[] = {
        {"max_tokens", "-1", "invalid_value"},
        {"max_tokens", "1.5", "invalid_type"},
        {"max_tokens", "3000000000", "invalid_value"},
        {"temperature", "2.01", "invalid_value"},
        {"temperature", "-0.1", "invalid_value"},
        {"temperature", "\"1\"", "invalid_type"},
        {"top_p", "1.01", "invalid_value"},
        {"presence_penalty", "2.5", "invalid_value"},
        {"frequency_penalty", "-3", "invalid_value"},
        {"repeat_penalty", "0", "invalid_value"},
        {"logprobs", "21", "invalid_value"},
        {"logprobs", "true", "invalid_type"},
        {"stream", "1", "invalid_type"},
        {"seed", "1.0", "invalid_type"},
        {"stop", "\"\"", "invalid_value"},
        {"stop", "3", "invalid_type"},
        {"stop", "\"a\\u0000b\"", "invalid_value"},
        {"draft_max", "16", "invalid_value"},
        {"model", "7", "invalid_type"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"prompt\": \"x\", \"%s\": %s}", row[i].field, row[i].value);
        bad(REQUEST_COMPLETION, body, row[i].code, row[i].field, row[i].field);
    }
    bad(REQUEST_COMPLETION, "{\"prompt\": \"x\", \"logit_bias\": {\"a\": 1}}", "invalid_value",
        "logit_bias.a", "no token id");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"x\", \"logit_bias\": {\"99999999999\": 1}}",
        "invalid_value", "logit_bias.99999999999", "no token id");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"x\", \"logit_bias\": {\"1\": 101}}", "invalid_value",
        "logit_bias.1", "101");
}

/* Would catch a server's limit that cuts answers in silence. */
static void test_more_tokens_than_the_server_allows_are_refused(void **state)
{
    (void)state;
    request r;
    api_error e = {0};
    request_defaults d = request_defaults_api();
    d.max_tokens = 100;
    const char *body = "{\"prompt\": \"x\", \"max_tokens\": 101}";
    assert_false(request_parse(&r, REQUEST_COMPLETION, body, strlen(body), &d, &e));
    assert_non_null(strstr(e.msg, "want 0 to 100"));
    body = "{\"messages\": [{}]}";
    e = (api_error){0};
    assert_true(request_parse(&r, REQUEST_CHAT, body, strlen(body), &d, &e));
    assert_int_equal(r.gen.n_max, 100);
    request_deinit(&r);
}

/* Would catch tools that a choice of "none" leaves in the prompt, and thinking that cannot be ended. */
static void test_chat_fields_are_applied(void **state)
{
    (void)state;
    static const char tools[] =
        "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\"}}]";
    static const char messages[] = "\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]";
    char body[512];
    request r;
    snprintf(body, sizeof body,
             "{%s, %s, \"parallel_tool_calls\": false, \"logprobs\": true, "
             "\"top_logprobs\": 4, \"max_completion_tokens\": 9, \"reasoning_effort\": \"none\", "
             "\"response_format\": {\"type\": \"text\"}, \"store\": false, \"metadata\": {}}",
             messages, tools);
    good(&r, REQUEST_CHAT, body);
    assert_true(r.one_call && r.logprobs && r.gen.n_top == 4 && r.gen.n_max == 9 && !r.thinking);
    assert_non_null(strstr(r.tools, "\"name\":\"f\""));
    assert_non_null(strstr(r.chat, "\"tools\":"));
    assert_non_null(strstr(r.chat, "\"enable_thinking\":false"));
    request_deinit(&r);
    snprintf(body, sizeof body, "{%s, %s, \"tool_choice\": \"none\"}", messages, tools);
    good(&r, REQUEST_CHAT, body);
    assert_null(r.tools);
    assert_null(strstr(r.chat, "tools"));
    request_deinit(&r);
    snprintf(body, sizeof body, "{%s, \"chat_template_kwargs\": {\"enable_thinking\": false}}",
             messages);
    good(&r, REQUEST_CHAT, body);
    assert_false(r.thinking);
    request_deinit(&r);
}

/* Would catch a client of the newer API refused for the name of its first message. */
static void test_chat_developer_message_is_the_system_message(void **state)
{
    (void)state;
    request r;
    good(&r, REQUEST_CHAT,
         "{\"messages\": [{\"role\": \"developer\", \"content\": \"a\"}, {\"role\": \"user\", "
         "\"content\": \"developer\"}]}");
    assert_non_null(strstr(r.chat, "{\"role\":\"system\",\"content\":\"a\"}"));
    assert_non_null(strstr(r.chat, "{\"role\":\"user\",\"content\":\"developer\"}"));
    request_deinit(&r);
}

/* Would catch a promise that is not kept: a forced call, JSON by schema, an effort. B108 */
static void test_chat_promises_that_cannot_be_kept_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *field, *value, *code;
    } row[] = {
        {"tool_choice", "\"required\"", "unsupported_value"},
        {"tool_choice", "{\"type\": \"function\"}", "unsupported_value"},
        {"response_format", "{\"type\": \"json_object\"}", "unsupported_value"},
        {"response_format", "{\"type\": \"json_schema\", \"json_schema\": {}}",
         "unsupported_value"},
        {"reasoning_effort", "\"high\"", "unsupported_value"},
        {"functions", "[{}]", "unsupported_parameter"},
        {"audio", "{}", "unsupported_parameter"},
        {"modalities", "[\"text\", \"audio\"]", "unsupported_value"},
        {"service_tier", "\"flex\"", "unsupported_value"},
        {"top_logprobs", "2", "invalid_value"},
        {"grammar", "\"root ::= root\"", "unknown_parameter"},
    };
    for (size_t i = 0; i < ARRAY_LEN(row); i++) {
        char body[256];
        snprintf(body, sizeof body, "{\"messages\": [{}], \"%s\": %s}", row[i].field, row[i].value);
        bad(REQUEST_CHAT, body, row[i].code, row[i].field, row[i].field);
    }
    bad(REQUEST_CHAT, "{\"messages\": []}", "invalid_type", "messages", "at least one");
    bad(REQUEST_CHAT, "{}", "missing_required_parameter", "messages", "messages");
    bad(REQUEST_CHAT, "{\"messages\": [{}], \"max_tokens\": 0}", "invalid_value", "max_tokens",
        "1");
    bad(REQUEST_CHAT, "{\"messages\": [{}], \"max_tokens\": 1, \"max_completion_tokens\": 1}",
        "invalid_value", "max_tokens", "exclude");
}

/* Would catch a parser that recurses over what a client sends, known field or not. B107 */
static void test_json_nested_deeply_is_refused(void **state)
{
    (void)state;
    static const int depth[] = {65, 1000, 100000, 1000000};
    static const char *const head[] = {
        "{\"prompt\": \"x\", \"unknown\": ", "{\"stop\": ", "{\"messages\": "};
    for (size_t d = 0; d < ARRAY_LEN(depth); d++)
        for (size_t h = 0; h < 2 * ARRAY_LEN(head); h++) {
            bool object = h % 2;
            buf b;
            buf_init(&b, 1 << 24);
            buf_puts(&b, head[h / 2]);
            for (int i = 0; i < depth[d]; i++)
                buf_puts(&b, object ? "{\"a\":" : "[");
            bad(REQUEST_COMPLETION, buf_cstr(&b), "invalid_json", "", "nested deeper than 64");
            buf_deinit(&b);
        }
    request r; /* 64 in all is allowed */
    buf b;
    buf_init(&b, 1 << 12);
    buf_puts(&b, "{\"messages\": ");
    for (int i = 0; i < 63; i++)
        buf_putc(&b, '[');
    for (int i = 0; i < 63; i++)
        buf_putc(&b, ']');
    buf_putc(&b, '}');
    good(&r, REQUEST_CHAT, buf_cstr(&b));
    request_deinit(&r);
    buf_deinit(&b);
}

/* Would catch brackets inside strings that count, and texts that end inside one. */
static void test_brackets_in_strings_do_not_nest(void **state)
{
    (void)state;
    request r;
    buf b;
    buf_init(&b, 1 << 16);
    buf_puts(&b, "{\"prompt\": \"\\\"");
    for (int i = 0; i < 1000; i++)
        buf_puts(&b, "[{\\\\\\\",");
    buf_puts(&b, "\"}");
    good(&r, REQUEST_COMPLETION, buf_cstr(&b));
    assert_int_equal(r.prompt_len, 1 + 5 * 1000);
    request_deinit(&r);
    buf_deinit(&b);
    bad(REQUEST_COMPLETION, "{\"prompt\": \"\\", "invalid_json", "", "line 1");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"", "invalid_json", "", "line 1");
}

/* Would catch a body of small values that takes a hundred times its size. */
static void test_json_of_too_many_values_is_refused(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 1 << 24);
    buf_puts(&b, "{\"prompt\": [");
    for (int i = 0; i < (1 << 20) + 1; i++)
        buf_puts(&b, "1,");
    buf_puts(&b, "1]}");
    bad(REQUEST_COMPLETION, buf_cstr(&b), "invalid_json", "", "more than 1048576 values");
    assert_true(jsonin_cost((const char *)b.data, b.len) > (size_t)100 << 20);
    buf_deinit(&b);
}

/* Would catch bytes that get into a prompt although they are no text, and members that hide others. */
static void test_what_is_no_json_is_refused_with_its_place(void **state)
{
    (void)state;
    bad(REQUEST_COMPLETION, "", "invalid_json", "", "empty");
    bad(REQUEST_COMPLETION, "[]", "invalid_json", "", "no JSON object");
    bad(REQUEST_COMPLETION, "\"x\"", "invalid_json", "", "no JSON object");
    bad(REQUEST_COMPLETION, "{\n\"prompt\": \"x\",\n}", "invalid_json", "", "line 3");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"\xff\"}", "invalid_json", "", "line 1");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"\xed\xa0\x80\"}", "invalid_json", "", "line 1");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"\\ud800\"}", "invalid_json", "", "line 1");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"a\", \"prompt\": \"b\"}", "invalid_json", "",
        "duplicate");
    bad(REQUEST_COMPLETION, "{\"prompt\": \"a\"} x", "invalid_json", "", "end of file");
    bad(REQUEST_COMPLETION, "{\"seed\": 99999999999999999999}", "invalid_json", "", "integer");
    bad(REQUEST_COMPLETION, "{\"temperature\": NaN}", "invalid_json", "", "line 1");
}

/* Would catch a name cut inside a character that makes the error object itself invalid. */
static void test_error_object_is_json_whatever_it_quotes(void **state)
{
    (void)state;
    buf b, out;
    buf_init(&b, 1 << 12);
    buf_init(&out, 1 << 12);
    for (int pad = 0; pad < 4; pad++) {
        buf_clear(&b);
        buf_puts(&b, "{\"");
        for (int i = 0; i < pad; i++)
            buf_putc(&b, 'a');
        for (int i = 0; i < 200; i++)
            buf_puts(&b, "\xe2\x82\xac");
        buf_puts(&b, "\": 1}");
        request r;
        api_error e;
        assert_false(parse(&r, REQUEST_CHAT, buf_cstr(&b), &e));
        buf_clear(&out);
        api_error_write(&e, &out);
        json_t *j = json_loadb((const char *)out.data, out.len, 0, NULL);
        assert_non_null(j);
        json_t *o = json_object_get(j, "error");
        assert_string_equal(json_string_value(json_object_get(o, "code")), "unknown_parameter");
        assert_string_equal(json_string_value(json_object_get(o, "type")), "invalid_request_error");
        json_decref(j);
    }
    buf_deinit(&b);
    buf_deinit(&out);
}

/* Would catch a leak or a crash where memory ends in the middle of a request. */
static void test_request_without_memory_is_an_error(void **state)
{
    (void)state;
    static const char body[] = "{\"prompt\": [1, 2], \"logit_bias\": {\"1\": 2}, \"stop\": \"x\"}";
    request_defaults d = request_defaults_api();
    long before = mem_count();
    request r;
    good(&r, REQUEST_COMPLETION, body);
    request_deinit(&r);
    long n = mem_count() - before;
    assert_true(n >= 2);
    for (long i = 1; i <= n; i++) {
        api_error e = {0};
        mem_fail_at(i);
        assert_false(request_parse(&r, REQUEST_COMPLETION, body, sizeof body - 1, &d, &e));
        assert_int_equal(e.status, 500);
    }
    mem_fail_at(0);
}

/* Would catch the small endpoints taking a misspelt field for the default. */
static void test_token_requests(void **state)
{
    (void)state;
    token_request r;
    api_error e = {0};
    const char *body = "{\"content\": \"ab\", \"parse_special\": true}";
    assert_true(token_request_parse(&r, false, body, strlen(body), &e));
    assert_true(r.len == 2 && r.special);
    token_request_deinit(&r);
    body = "{\"tokens\": [3, 4]}";
    assert_true(token_request_parse(&r, true, body, strlen(body), &e));
    assert_true(r.n_tok == 2 && r.tok[1] == 4 && r.special);
    token_request_deinit(&r);
    static const char *const wrong[] = {"{}", "{\"content\": 1}", "{\"content\": \"a\", \"x\": 1}",
                                        "{\"tokens\": [\"a\"]}", "[]"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        for (int detokenize = 0; detokenize < 2; detokenize++) {
            e = (api_error){0};
            assert_false(token_request_parse(&r, detokenize, wrong[i], strlen(wrong[i]), &e));
            assert_int_equal(e.status, 400);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_completion_without_fields_has_the_defaults_of_the_api),
        cmocka_unit_test(test_completion_fields_are_applied),
        cmocka_unit_test(test_null_is_as_if_left_out),
        cmocka_unit_test(test_prompt_is_one_text_or_list_of_tokens),
        cmocka_unit_test(test_unknown_and_unsupported_fields_are_refused),
        cmocka_unit_test(test_values_outside_their_range_are_refused),
        cmocka_unit_test(test_more_tokens_than_the_server_allows_are_refused),
        cmocka_unit_test(test_chat_fields_are_applied),
        cmocka_unit_test(test_chat_developer_message_is_the_system_message),
        cmocka_unit_test(test_chat_promises_that_cannot_be_kept_are_refused),
        cmocka_unit_test(test_json_nested_deeply_is_refused),
        cmocka_unit_test(test_brackets_in_strings_do_not_nest),
        cmocka_unit_test(test_json_of_too_many_values_is_refused),
        cmocka_unit_test(test_what_is_no_json_is_refused_with_its_place),
        cmocka_unit_test(test_error_object_is_json_whatever_it_quotes),
        cmocka_unit_test(test_request_without_memory_is_an_error),
        cmocka_unit_test(test_token_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
