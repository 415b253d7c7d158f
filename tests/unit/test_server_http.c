/* test_server_http.c - a whole server on a tiny model, asked over its socket: every endpoint, and answers
 * that are the engine's own. */
#include "support/serverrig.h"

static rig_server rig;

static int start(void **state)
{
    (void)state;
    server_params p = rig_server_params();
    rig_server_start(&rig, &p);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rig_server_stop(&rig);
    return 0;
}

/* The engine's own text for a prompt, made without a server: in p as in a request. */
static void solo(const char *prompt, const ft_generate_params *params, rig_output *out)
{
    int32_t *tok;
    size_t n;
    OK(ft_tokenize(rig.m, prompt, strlen(prompt), true, &tok, &n, &rig_err));
    ft_session *s = rig_session(rig.m, 512, 64, "f16");
    ft_generate_params p = *params;
    p.on_token = rig_on_token;
    p.on_token_ctx = out;
    rig_generate(s, tok, (int)n, &p);
    ft_session_free(s);
    ft_free(tok);
}

static ft_generate_params api_params(int n_max, uint64_t seed)
{
    ft_generate_params p = ft_generate_params_default();
    p.sample = request_defaults_api().sample;
    p.sample.seed = seed;
    p.n_max = n_max;
    return p;
}

/* Would catch a route that is not there, or a HEAD that sends a body. */
static void test_small_endpoints_answer(void **state)
{
    (void)state;
    raw_reply r;
    raw_request(rig.port, "GET", "/health", NULL, NULL, &r);
    assert_int_equal(r.status, 200);
    assert_string_equal((char *)r.body.data, "{\"status\":\"ok\"}");
    raw_reply_free(&r);
    raw_request(rig.port, "HEAD", "/health", NULL, NULL, &r);
    assert_int_equal(r.status, 200);
    raw_reply_free(&r);
    raw_request(rig.port, "GET", "/v1/models?x=1", NULL, NULL, &r);
    json_t *j = rig_json(&r);
    assert_string_equal(rig_string(j, "object"), "list");
    assert_string_equal(rig_string(j, "data.0.id"), "tiny");
    assert_int_equal(rig_int(j, "data.0.meta.context"), 512);
    json_decref(j);
    raw_reply_free(&r);
    raw_request(rig.port, "GET", "/v1/models/tiny", NULL, NULL, &r);
    assert_int_equal(r.status, 200);
    raw_reply_free(&r);
    raw_request(rig.port, "GET", "/v1/models/other", NULL, NULL, &r);
    assert_int_equal(r.status, 404);
    raw_reply_free(&r);
}

/* Would catch tokens that do not come back as the text they came from. */
static void test_tokenize_and_detokenize_are_inverse(void **state)
{
    (void)state;
    json_t *j = rig_ask(&rig, "/tokenize", "{\"content\": \"the <|im_end|> h\\u00e9\"}");
    json_t *tokens = json_object_get(j, "tokens");
    assert_true(json_array_size(tokens) > 5);
    json_t *ask = json_pack("{s:O}", "tokens", tokens);
    char *body = json_dumps(ask, 0);
    json_t *back = rig_ask(&rig, "/detokenize", body);
    assert_string_equal(rig_string(back, "content"), "the <|im_end|> h\xc3\xa9");
    free(body);
    json_decref(ask);
    json_decref(back);
    size_t n_plain = json_array_size(tokens);
    json_decref(j);
    j = rig_ask(&rig, "/tokenize",
                "{\"content\": \"the <|im_end|> h\\u00e9\", \"parse_special\": true}");
    assert_true(json_array_size(json_object_get(j, "tokens")) < n_plain);
    json_decref(j);
    rig_refused(&rig, "/detokenize", "{\"tokens\": [99999]}", 400, "invalid_value", "99999");
}

/* B116, B117: would catch a request's settings that do not reach the engine. */
static void test_completion_is_the_engines_text_for_the_seed(void **state)
{
    (void)state;
    for (int t = 0; t < 3; t++) {
        static const char *const temp[] = {"0", "0.7", "1"};
        char body[256];
        snprintf(body, sizeof body,
                 "{\"prompt\": \"the hen\", \"max_tokens\": 40, \"seed\": 5, \"temperature\": %s, "
                 "\"ignore_eos\": true}",
                 temp[t]);
        json_t *j = rig_ask(&rig, "/v1/completions", body);
        rig_output out = {.n = 0};
        ft_generate_params p = api_params(40, 5);
        p.sample.temp = strtof(temp[t], NULL);
        p.ignore_eos = true;
        solo("the hen", &p, &out);
        json_t *text = rig_at(j, "choices.0.text");
        assert_int_equal(json_string_length(text), out.n_text);
        assert_memory_equal(json_string_value(text), out.text, out.n_text);
        assert_string_equal(rig_string(j, "choices.0.finish_reason"), "length");
        assert_int_equal(rig_int(j, "usage.completion_tokens"), 40);
        assert_int_equal(rig_int(j, "usage.total_tokens"), 40 + rig_int(j, "usage.prompt_tokens"));
        assert_int_equal(rig_int(j, "timings.seed"), 5);
        json_decref(j);
    }
}

/* The events of a stream put together: text, last finish_reason, usage; returns the events. */
static int read_events(const raw_reply *r, buf *text, json_t **last, json_t **usage)
{
    int n = 0;
    bool done = false;
    *last = *usage = NULL;
    for (const char *at = (const char *)r->body.data; at && *at;) {
        const char *end = strstr(at, "\n\n");
        assert_non_null(end);
        if (strncmp(at, "data: [DONE]", 12) == 0) {
            done = true;
        } else if (at[0] != ':') {
            assert_false(done);
            assert_memory_equal(at, "data: ", 6);
            json_t *j = json_loadb(at + 6, (size_t)(end - at) - 6, JSON_ALLOW_NUL, NULL);
            assert_non_null(j);
            json_t *piece = rig_at(j, "choices.0.text");
            piece = piece ? piece : rig_at(j, "choices.0.delta.content");
            if (piece)
                buf_put(text, json_string_value(piece), json_string_length(piece));
            if (json_is_string(rig_at(j, "choices.0.finish_reason")))
                *last = json_incref(j);
            if (json_is_object(json_object_get(j, "usage")))
                *usage = json_incref(j);
            json_decref(j);
            n++;
        }
        at = end + 2;
    }
    assert_true(done);
    return n;
}

/* Would catch a stream that is another text than the whole answer, and usage that comes unasked. */
static void test_stream_is_the_same_text_as_the_whole(void **state)
{
    (void)state;
    for (int usage = 0; usage < 2; usage++) {
        raw_reply r;
        char body[256];
        snprintf(body, sizeof body,
                 "{\"prompt\": \"in the\", \"max_tokens\": 60, \"seed\": 3, \"ignore_eos\": true, "
                 "\"stream\": true, \"stream_options\": {\"include_usage\": %s}}",
                 usage ? "true" : "false");
        raw_post(rig.port, "/v1/completions", body, &r);
        assert_int_equal(r.status, 200);
        assert_true(r.chunked && r.complete);
        assert_non_null(strstr(r.head, "Content-Type: text/event-stream\r\n"));
        buf text;
        buf_init(&text, 1 << 20);
        json_t *last, *with_usage;
        int n = read_events(&r, &text, &last, &with_usage);
        assert_true(n >= 2);
        rig_output out = {.n = 0};
        ft_generate_params p = api_params(60, 3);
        p.ignore_eos = true;
        solo("in the", &p, &out);
        assert_int_equal(text.len, out.n_text);
        assert_memory_equal(text.data, out.text, out.n_text);
        assert_string_equal(rig_string(last, "choices.0.finish_reason"), "length");
        assert_true(rig_int(last, "timings.predicted_n") == 60);
        assert_int_equal(with_usage != NULL, usage);
        if (usage) {
            assert_int_equal(rig_int(with_usage, "usage.completion_tokens"), 60);
            assert_int_equal(json_array_size(rig_at(with_usage, "choices")), 0);
        }
        json_decref(last);
        json_decref(with_usage);
        buf_deinit(&text);
        raw_reply_free(&r);
    }
}

/* B115: would catch log-probabilities that drafting changes, or that belong to another token. */
static void test_logprobs_are_those_without_drafts(void **state)
{
    (void)state;
    json_t *j[2];
    for (int draft = 0; draft < 2; draft++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"prompt\": \"then\", \"max_tokens\": 30, \"seed\": 9, \"logprobs\": 3, "
                 "\"ignore_eos\": true, \"draft_max\": %d, \"draft_fixed\": true}",
                 draft ? 4 : 0);
        j[draft] = rig_ask(&rig, "/v1/completions", body);
    }
    assert_int_equal(rig_int(j[0], "timings.draft.drafted"), 0);
    assert_true(rig_int(j[1], "timings.draft.drafted") > 0);
    json_t *a = rig_at(j[0], "choices.0.logprobs"), *b = rig_at(j[1], "choices.0.logprobs");
    assert_true(json_equal(a, b));
    json_t *list = json_object_get(a, "token_logprobs");
    int n = (int)json_array_size(list);
    assert_true(n > 0 && n <= 30); /* special tokens are no text */
    for (int i = 0; i < n; i++) {
        double lp = json_number_value(json_array_get(list, (size_t)i));
        assert_true(lp < 0 && lp > -50);
        json_t *top = json_array_get(json_object_get(a, "top_logprobs"), (size_t)i);
        assert_true(json_object_size(top) >= 1 && json_object_size(top) <= 3);
    }
    json_decref(j[0]);
    json_decref(j[1]);
}

/* B027: would catch tokens behind the stop in logprobs, or text that they do not add up to. */
static void test_logprobs_end_where_a_stop_ends_the_text(void **state)
{
    (void)state;
    json_t *whole = rig_ask(&rig, "/v1/completions",
                            "{\"prompt\": \"a\", \"max_tokens\": 60, \"seed\": 4, "
                            "\"ignore_eos\": true, \"logit_bias\": {\"101\": 30, \"116\": 30}}");
    const char *text = rig_string(whole, "choices.0.text");
    assert_non_null(strstr(text, "tet")); /* e and t alone */
    size_t at = (size_t)(strstr(text, "tet") - text);
    json_t *j = rig_ask(&rig, "/v1/completions",
                        "{\"prompt\": \"a\", \"max_tokens\": 60, \"seed\": 4, \"logprobs\": 0, "
                        "\"ignore_eos\": true, \"stop\": [\"tet\"], "
                        "\"logit_bias\": {\"101\": 30, \"116\": 30}}");
    const char *cut = rig_string(j, "choices.0.text");
    assert_int_equal(strlen(cut), at);
    assert_memory_equal(cut, text, at);
    assert_string_equal(rig_string(j, "choices.0.finish_reason"), "stop");
    buf joined;
    buf_init(&joined, 1 << 16);
    size_t i;
    json_t *token;
    json_array_foreach(rig_at(j, "choices.0.logprobs.tokens"), i, token)
    {
        buf_puts(&joined, json_string_value(token));
    }
    if (joined.len < at || joined.len > at + 3)
        fail_msg("'%s', want '%s' and at most the stop", buf_cstr(&joined), cut);
    assert_memory_equal(joined.data, cut, at);
    assert_int_equal(json_array_size(rig_at(j, "choices.0.logprobs.tokens")), i);
    assert_true(rig_int(j, "usage.completion_tokens") >= (json_int_t)i);
    buf_deinit(&joined);
    json_decref(j);
    json_decref(whole);
}

/* B028: would catch more or fewer tokens than asked for, or counted. */
static void test_max_tokens_is_kept_exactly(void **state)
{
    (void)state;
    for (int n = 1; n <= 9; n++) {
        char body[200];
        snprintf(
            body, sizeof body,
            "{\"prompt\": \"ab\", \"max_tokens\": %d, \"temperature\": 0, \"ignore_eos\": true, "
            "\"draft_max\": 4, \"draft_fixed\": true, \"token_details\": true}",
            n);
        json_t *j = rig_ask(&rig, "/v1/completions", body);
        assert_int_equal(rig_int(j, "usage.completion_tokens"), n);
        assert_int_equal(json_array_size(rig_at(j, "choices.0.tokens")), n);
        json_decref(j);
    }
    json_t *j =
        rig_ask(&rig, "/v1/completions", "{\"prompt\": \"ab\", \"max_tokens\": 0, \"echo\": true}");
    assert_string_equal(rig_string(j, "choices.0.text"), "ab");
    assert_int_equal(rig_int(j, "usage.completion_tokens"), 0);
    json_decref(j);
}

/* B120: would catch counts by depth that do not add up to the tokens. */
static void test_timings_of_drafts_add_up(void **state)
{
    (void)state;
    json_t *j = rig_ask(&rig, "/v1/completions",
                        "{\"prompt\": \"the\", \"max_tokens\": 100, \"seed\": 1, "
                        "\"ignore_eos\": true, \"draft_max\": 3, \"draft_fixed\": true}");
    json_int_t accepted = rig_int(j, "timings.draft.accepted");
    json_int_t rounds = rig_int(j, "timings.draft.rounds");
    assert_true(accepted <= rig_int(j, "timings.draft.drafted"));
    json_int_t at_depth = 0;
    size_t i;
    json_t *depth;
    json_array_foreach(rig_at(j, "timings.draft.by_depth"), i, depth)
    {
        assert_true(rig_int(depth, "accepted") <= rig_int(depth, "verified"));
        at_depth += rig_int(depth, "accepted");
    }
    assert_int_equal(at_depth, accepted);
    json_int_t emitted = accepted + rounds + 1; /* the first token comes with the prompt */
    assert_true(emitted >= 100 && emitted <= 100 + 3);
    json_decref(j);
}

/* Would catch a chat answer outside its fields: thinking in the content, a role that is missing. */
static void test_chat_answers_in_its_fields(void **state)
{
    (void)state;
    static const char ask[] = "{\"messages\": [{\"role\": \"system\", \"content\": \"be\"}, "
                              "{\"role\": \"user\", \"content\": \"the hen\"}], "
                              "\"max_tokens\": 40, \"seed\": 2%s}";
    char body[512];
    snprintf(body, sizeof body, ask, ", \"chat_template_kwargs\": {\"enable_thinking\": false}");
    json_t *j = rig_ask(&rig, "/v1/chat/completions", body);
    assert_string_equal(rig_string(j, "object"), "chat.completion");
    assert_string_equal(rig_string(j, "choices.0.message.role"), "assistant");
    assert_true(json_is_string(rig_at(j, "choices.0.message.content")));
    assert_int_equal(rig_int(j, "usage.completion_tokens_details.reasoning_tokens"), 0);
    buf content;
    buf_init(&content, 1 << 16);
    buf_puts(&content, rig_string(j, "choices.0.message.content"));
    json_decref(j);
    snprintf(body, sizeof body, ask,
             ", \"chat_template_kwargs\": {\"enable_thinking\": false}, \"stream\": true");
    raw_reply r;
    raw_post(rig.port, "/v1/chat/completions", body, &r);
    buf text;
    buf_init(&text, 1 << 16);
    json_t *last, *usage;
    read_events(&r, &text, &last, &usage);
    assert_non_null(
        strstr((char *)r.body.data, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}"));
    assert_string_equal(buf_cstr(&text), buf_cstr(&content));
    assert_string_equal(rig_string(last, "object"), "chat.completion.chunk");
    json_decref(last);
    raw_reply_free(&r);
    snprintf(body, sizeof body, ask, "");
    j = rig_ask(&rig, "/v1/chat/completions", body); /* a random model does not close the block */
    assert_true(json_is_string(rig_at(j, "choices.0.message.reasoning_content")));
    json_int_t n = rig_int(j, "usage.completion_tokens_details.reasoning_tokens");
    assert_true(n > 0 && n <= rig_int(j, "usage.completion_tokens")); /* B029 */
    json_decref(j);
    buf_deinit(&text);
    buf_deinit(&content);
}

/* Would catch logprobs of a chat that are not its content's tokens. */
static void test_chat_logprobs_are_the_contents_tokens(void **state)
{
    (void)state;
    json_t *j = rig_ask(&rig, "/v1/chat/completions",
                        "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], "
                        "\"reasoning_effort\": \"none\", \"max_tokens\": 50, \"seed\": 6, "
                        "\"logprobs\": true, \"top_logprobs\": 2}");
    json_t *content = rig_at(j, "choices.0.message.content"), *entry;
    buf bytes;
    buf_init(&bytes, 1 << 16);
    size_t i;
    json_array_foreach(rig_at(j, "choices.0.logprobs.content"), i, entry)
    {
        size_t k;
        json_t *byte;
        assert_true(json_number_value(json_object_get(entry, "logprob")) < 0);
        assert_int_equal(json_array_size(json_object_get(entry, "top_logprobs")), 2);
        json_array_foreach(json_object_get(entry, "bytes"), k, byte)
        {
            buf_putc(&bytes, (int)json_integer_value(byte));
        }
    }
    assert_true(i > 10);
    /* The content is trimmed; bytes that are no characters became marks. Compare the ASCII parts. */
    size_t at = 0;
    const char *text = json_string_value(content);
    for (size_t k = 0; k < json_string_length(content); k++) {
        if ((unsigned char)text[k] >= 0x80 || text[k] == '\0')
            continue;
        while (at < bytes.len && bytes.data[at] != (uint8_t)text[k])
            at++;
        assert_true(at++ < bytes.len);
    }
    buf_deinit(&bytes);
    json_decref(j);
}

/* Would catch errors without the API's object, or with the wrong status. */
static void test_errors_have_status_and_object(void **state)
{
    (void)state;
    rig_refused(&rig, "/v1/completions", "{\"prompt\": ", 400, "invalid_json", "line 1");
    rig_refused(&rig, "/v1/completions", "{\"prompt\": \"x\", \"model\": \"gpt\"}", 404,
                "model_not_found", "'gpt'");
    rig_refused(&rig, "/v1/completions", "{\"prompt\": [320]}", 400, "invalid_value", "320");
    rig_refused(&rig, "/v1/completions", "{\"prompt\": \"x\", \"logit_bias\": {\"400\": 1}}", 400,
                "invalid_value", "400");
    rig_refused(&rig, "/v1/embeddings", "{}", 404, "unknown_url", "POST /v1/embeddings");
    rig_refused(&rig, "/health", "{}", 405, "method_not_allowed", "GET");
    rig_refused(&rig, "/v1/chat/completions",
                "{\"messages\": [{\"role\": \"wizard\", \"content\": \"x\"}]}", 400,
                "invalid_value", "wizard");
    raw_reply r;
    raw_request(rig.port, "GET", "/v1/completions", NULL, NULL, &r);
    assert_int_equal(r.status, 405);
    assert_non_null(strstr(r.head, "Allow: POST\r\n"));
    raw_reply_free(&r);
    int fd = raw_connect(rig.port); /* what a page's form can send without asking */
    raw_puts(fd, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
                 "Content-Length: 2\r\n\r\n{}");
    raw_read(fd, &r, 10, NULL, false);
    assert_int_equal(r.status, 415);
    raw_reply_free(&r);
    close(fd);
}

/* Would catch a prompt that is cut, or an answer past the context. */
static void test_context_limits_prompt_and_answer(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 1 << 16);
    buf_puts(&b, "{\"prompt\": [");
    for (int i = 0; i < 512; i++)
        buf_printf(&b, "%s%d", i ? "," : "", 97 + i % 20);
    buf_puts(&b, "]}");
    rig_refused(&rig, "/v1/completions", buf_cstr(&b), 400, "context_length_exceeded", "512");
    buf_clear(&b);
    buf_puts(&b, "{\"max_tokens\": 1000, \"ignore_eos\": true, \"prompt\": [");
    for (int i = 0; i < 500; i++)
        buf_printf(&b, "%s%d", i ? "," : "", 97 + i % 20);
    buf_puts(&b, "]}");
    json_t *j = rig_ask(&rig, "/v1/completions", buf_cstr(&b));
    assert_int_equal(rig_int(j, "usage.prompt_tokens"), 500);
    assert_true(rig_int(j, "usage.completion_tokens") >= 12);
    assert_true(rig_int(j, "usage.completion_tokens") <= 13);
    assert_string_equal(rig_string(j, "choices.0.finish_reason"), "length");
    json_decref(j);
    buf_deinit(&b);
}

/* B104: would catch characters cut over events: all text is valid, whatever bytes the model makes. */
static void test_any_bytes_of_the_model_are_valid_text(void **state)
{
    (void)state;
    for (int seed = 0; seed < 4; seed++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"prompt\": [195, 237, 160], \"max_tokens\": 120, \"seed\": %d, "
                 "\"ignore_eos\": true, \"temperature\": 2, \"stream\": true, "
                 "\"logit_bias\": {\"195\": 4, \"128\": 4, \"237\": 4, \"160\": 4, \"0\": 4}}",
                 seed);
        raw_reply r;
        raw_post(rig.port, "/v1/completions", body, &r);
        buf text;
        buf_init(&text, 1 << 20);
        json_t *last, *usage;
        assert_true(read_events(&r, &text, &last, &usage) > 5);
        assert_true(text.len > 100);
        json_decref(last);
        buf_deinit(&text);
        raw_reply_free(&r);
    }
}

/* Would catch prompts, answers or keys in the log, or requests that are missing there. */
static void test_log_has_every_request_and_no_text(void **state)
{
    (void)state;
    json_t *j =
        rig_ask(&rig, "/v1/completions", "{\"prompt\": \"xyzzy secret\", \"max_tokens\": 3}");
    const char *id = rig_string(j, "id");
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* written behind the last byte */
    pthread_mutex_lock(&rig.lock);
    const char *log = buf_cstr(&rig.log);
    assert_non_null(strstr(log, id));
    assert_null(strstr(log, "xyzzy"));
    assert_null(strstr(log, "/v1/models/other"));
    assert_non_null(strstr(log, "\"path\":\"/v1/models/*\""));
    pthread_mutex_unlock(&rig.lock);
    json_decref(j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_endpoints_answer),
        cmocka_unit_test(test_tokenize_and_detokenize_are_inverse),
        cmocka_unit_test(test_completion_is_the_engines_text_for_the_seed),
        cmocka_unit_test(test_stream_is_the_same_text_as_the_whole),
        cmocka_unit_test(test_logprobs_are_those_without_drafts),
        cmocka_unit_test(test_logprobs_end_where_a_stop_ends_the_text),
        cmocka_unit_test(test_max_tokens_is_kept_exactly),
        cmocka_unit_test(test_timings_of_drafts_add_up),
        cmocka_unit_test(test_chat_answers_in_its_fields),
        cmocka_unit_test(test_chat_logprobs_are_the_contents_tokens),
        cmocka_unit_test(test_errors_have_status_and_object),
        cmocka_unit_test(test_context_limits_prompt_and_answer),
        cmocka_unit_test(test_any_bytes_of_the_model_are_valid_text),
        cmocka_unit_test(test_log_has_every_request_and_no_text),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
