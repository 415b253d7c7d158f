/* test_server_answer.c - tokens to the API's objects, with texts that no random model writes: thinking,
 * tool calls, markup cut anywhere, log-probabilities of what is left. */
#include "server/answer.h"
#include "server/trace.h"
#include "support/serverrig.h"

static ft_model *m;

static int open_tiny(void **state)
{
    (void)state;
    m = rig_model(MODEL_QWEN35);
    return 0;
}

static int close_tiny(void **state)
{
    (void)state;
    ft_model_close(m);
    return 0;
}

/* An answer that is fed n_per_box bytes at a time, each a token of its own, for a chat with these
 * members; its JSON, or with stream its events, in out. Returns the tokens that were wanted. */
static int answer_of(const char *members, const char *text, int n_per_box, bool thinking, buf *out)
{
    char body[1024];
    snprintf(body, sizeof body,
             "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": "
             "[{\"type\": \"function\", \"function\": {\"name\": \"get\", "
             "\"parameters\": {\"type\": \"object\", \"properties\": "
             "{\"city\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}}}}}]%s}",
             members);
    request r;
    api_error e = {0};
    request_defaults d = request_defaults_api();
    if (!request_parse(&r, REQUEST_CHAT, body, strlen(body), &d, &e))
        fail_msg("%s", e.msg);
    answer_params p = {.model = m,
                       .req = &r,
                       .model_name = "tiny",
                       .fingerprint = "fp",
                       .thinking = thinking,
                       .n_prompt = 7};
    answer *a;
    OK(answer_create(&a, &p, &rig_err));
    job *j = job_create(&r, NULL, 0, NULL, 0, 0);
    job_box box;
    job_box_init(&box);
    int n = (int)strlen(text), i = 0;
    bool enough = false;
    while (i < n && !enough) {
        for (int k = 0; k < n_per_box && i < n; k++, i++) {
            ft_token t = {
                .id = (unsigned char)text[i], .text = text + i, .len = 1, .logprob = -i - 1};
            OK(job_put(j, &t, &rig_err));
        }
        job_post(j);
        assert_int_equal(job_wait(j, &box, 0), JOB_TOKENS);
        OK(answer_put(a, &box, &enough, &rig_err));
    }
    job_result result = {.gen = {.n_token = i, .finish = FT_FINISH_STOP}};
    result.gen.draft.off_reason = "";
    OK(answer_finish(a, &result, &rig_err));
    buf_put(out, answer_out(a)->data, answer_out(a)->len);
    assert_non_null(buf_cstr(out));
    job_unref(j);
    job_box_deinit(&box);
    answer_free(a);
    request_deinit(&r);
    return i;
}

static json_t *whole(const char *members, const char *text, int n_per_box, bool thinking)
{
    buf out;
    buf_init(&out, 1 << 22);
    answer_of(members, text, n_per_box, thinking, &out);
    json_t *j = json_loadb((const char *)out.data, out.len, 0, NULL);
    assert_non_null(j);
    buf_deinit(&out);
    return j;
}

/* What a client puts together from a stream: a message as the whole answer has it. */
static json_t *streamed(const char *members, const char *text, int n_per_box, bool thinking)
{
    buf out, part[2];
    buf_init(&out, 1 << 22);
    for (int i = 0; i < 2; i++)
        buf_init(&part[i], 1 << 16);
    char more[256];
    snprintf(more, sizeof more, "%s, \"stream\": true", members);
    answer_of(more, text, n_per_box, thinking, &out);
    json_t *calls = json_array(), *reason = NULL;
    for (const char *at = buf_cstr(&out); *at;) {
        const char *end = strstr(at, "\n\n");
        assert_non_null(end);
        json_t *j = json_loadb(at + 6, (size_t)(end - at) - 6, 0, NULL), *delta, *call;
        if (j) {
            size_t i;
            delta = rig_at(j, "choices.0.delta");
            const char *content = json_string_value(json_object_get(delta, "content"));
            const char *thought = json_string_value(json_object_get(delta, "reasoning_content"));
            assert_false(thought && content); /* an event has one kind */
            buf_puts(&part[0], content ? content : "");
            buf_puts(&part[1], thought ? thought : "");
            json_array_foreach(json_object_get(delta, "tool_calls"), i, call)
            {
                assert_int_equal(rig_int(call, "index"), json_array_size(calls));
                json_array_append(calls, call);
            }
            if (json_is_string(rig_at(j, "choices.0.finish_reason")))
                reason = json_incref(rig_at(j, "choices.0.finish_reason"));
            json_decref(j);
        } else {
            assert_memory_equal(at, "data: [DONE]", 12);
        }
        at = end + 2;
    }
    json_t *o =
        json_pack("{s:s, s:s, s:o, s:o}", "content", buf_cstr(&part[0]), "reasoning_content",
                  buf_cstr(&part[1]), "tool_calls", calls, "finish_reason", reason);
    assert_non_null(o);
    for (int i = 0; i < 2; i++)
        buf_deinit(&part[i]);
    buf_deinit(&out);
    return o;
}

static const char with_call[] =
    "Let me look.\n</think>\n\nI ask.\n\n<tool_call>\n<function=get>\n<parameter=city>\nOslo\n"
    "</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n"
    "<function=get>\n<parameter=city>\nRome\n</parameter>\n</function>\n</tool_call><|im_end|>";

/* B038: would catch markup that leaks, or a second call that is lost, however the text is cut. */
static void test_calls_and_thinking_come_in_their_fields_cut_anywhere(void **state)
{
    (void)state;
    for (int n = 1; n < (int)sizeof with_call; n += n < 20 ? 1 : 37) {
        json_t *j = whole("", with_call, n, true);
        json_t *msg = rig_at(j, "choices.0.message");
        assert_string_equal(rig_string(msg, "reasoning_content"), "Let me look.");
        assert_string_equal(rig_string(msg, "content"), "I ask.");
        assert_string_equal(rig_string(j, "choices.0.finish_reason"), "tool_calls");
        assert_int_equal(json_array_size(rig_at(msg, "tool_calls")), 2);
        assert_string_equal(rig_string(msg, "tool_calls.0.type"), "function");
        assert_string_equal(rig_string(msg, "tool_calls.0.function.name"), "get");
        json_t *args = json_loads(rig_string(msg, "tool_calls.0.function.arguments"), 0, NULL);
        assert_string_equal(rig_string(args, "city"), "Oslo");
        assert_int_equal(rig_int(args, "n"), 3);
        json_decref(args);
        assert_null(rig_at(msg, "tool_calls.0.index"));
        assert_string_not_equal(rig_string(msg, "tool_calls.0.id"),
                                rig_string(msg, "tool_calls.1.id"));
        json_int_t n_thought = rig_int(j, "usage.completion_tokens_details.reasoning_tokens");
        assert_true(n_thought >= 12 && n_thought <= 12 + 1 + 8 + 2 + 1); /* with </think> */
        json_t *s = streamed("", with_call, n, true);
        assert_string_equal(rig_string(s, "content"), "I ask.");
        assert_string_equal(rig_string(s, "reasoning_content"), "Let me look.");
        assert_string_equal(rig_string(s, "finish_reason"), "tool_calls");
        assert_int_equal(json_array_size(rig_at(s, "tool_calls")), 2);
        assert_string_equal(rig_string(s, "tool_calls.1.function.arguments"),
                            rig_string(msg, "tool_calls.1.function.arguments"));
        json_decref(s);
        json_decref(j);
    }
}

/* Would catch an answer of calls alone whose content is an empty text instead of null. */
static void test_calls_alone_have_null_content(void **state)
{
    (void)state;
    json_t *j = whole("", strstr(with_call, "<tool_call>"), 5, false);
    assert_true(json_is_null(rig_at(j, "choices.0.message.content")));
    assert_null(rig_at(j, "choices.0.message.reasoning_content"));
    json_decref(j);
}

/* Would catch parallel_tool_calls: false that gives two calls all the same. */
static void test_one_call_ends_the_answer(void **state)
{
    (void)state;
    for (int n = 1; n < 400; n += 13) {
        json_t *j = whole(", \"parallel_tool_calls\": false", with_call, n, true);
        assert_int_equal(json_array_size(rig_at(j, "choices.0.message.tool_calls")), 1);
        assert_string_equal(rig_string(j, "choices.0.finish_reason"), "tool_calls");
        json_decref(j);
    }
    buf out;
    buf_init(&out, 1 << 20);
    int used = answer_of(", \"parallel_tool_calls\": false", with_call, 1, true, &out);
    assert_true(used < (int)sizeof with_call - 60); /* the second was not waited for */
    buf_deinit(&out);
}

/* B035: would catch a damaged call that ends the stream with an error. */
static void test_damaged_calls_end_as_content(void **state)
{
    (void)state;
    static const char *const damaged[] = {
        "<tool_call>\n<function=get>\n<parameter=city>\nOslo",
        "<tool_call>\n</tool_call>\n",
        "</tool_call></parameter></function>",
        "a <tool_call> b",
        "<tool_call>\n<function=get>\n<parameter=city>\nOslo\n</parameter>\n</parameter>\n</"
        "function>\n"
        "</tool_call>",
    };
    for (size_t i = 0; i < ARRAY_LEN(damaged); i++)
        for (int n = 1; n < 20; n += 6) {
            json_t *s = streamed("", damaged[i], n, false), *j = whole("", damaged[i], n, false);
            assert_true(json_array_size(json_object_get(s, "tool_calls")) > 0 ||
                        json_string_length(json_object_get(s, "content")) > 0);
            json_t *content = rig_at(j, "choices.0.message.content");
            if (json_is_string(content))
                assert_string_equal(json_string_value(content), rig_string(s, "content"));
            json_decref(s);
            json_decref(j);
        }
}

/* B027: would catch entries of markup, thinking or the end among the content's tokens. */
static void test_logprobs_are_of_the_content_alone(void **state)
{
    (void)state;
    static const char text[] = "think think\n</think>\n\nthe <b> thing </thin\n  end <|im_end|>";
    static const char want[] = "the <b> thing </thin\n  end";
    for (int n = 1; n < (int)sizeof text; n++) {
        json_t *j = whole(", \"logprobs\": true", text, n, true), *entry;
        assert_string_equal(rig_string(j, "choices.0.message.content"), want);
        json_t *list = rig_at(j, "choices.0.logprobs.content");
        assert_int_equal(json_array_size(list), sizeof want - 1);
        size_t i, first = (size_t)(strstr(text, want) - text);
        json_array_foreach(list, i, entry)
        {
            char c[2] = {want[i], '\0'};
            assert_string_equal(rig_string(entry, "token"), c);
            assert_true(json_number_value(json_object_get(entry, "logprob")) ==
                        -(double)(first + i) - 1);
        }
        json_decref(j);
    }
}

/* Would catch an error event that clients do not see as one. */
static void test_failure_in_a_stream_is_an_event(void **state)
{
    (void)state;
    request r;
    api_error e = {0};
    request_defaults d = request_defaults_api();
    const char *body = "{\"prompt\": \"x\", \"stream\": true}";
    assert_true(request_parse(&r, REQUEST_COMPLETION, body, strlen(body), &d, &e));
    answer_params p = {.model = m, .req = &r, .model_name = "tiny", .fingerprint = "fp"};
    answer *a;
    OK(answer_create(&a, &p, &rig_err));
    job_cancel_error(JOB_CANCEL_TIME, &e);
    answer_fail(a, &e);
    const char *text = buf_cstr(answer_out(a));
    assert_memory_equal(text, "data: {\"error\":{\"message\":", 26);
    assert_non_null(strstr(text, "\"code\":\"timeout\"}}\n\n"));
    answer_free(a);
    request_deinit(&r);
}

/* ---- Which tokens a piece was made of ---- */

static void note(void *ctx, const job_token *t)
{
    buf_printf(ctx, "%d ", t->id);
}

/* Would catch a token that comes out twice, or one without text of its own that is lost. */
static void test_trace_gives_each_token_once(void **state)
{
    (void)state;
    trace t;
    buf got;
    trace_init(&t);
    buf_init(&got, 256);
    static const char *const piece[] = {"ab", "", "", "cd", "</x>", "e", "", "fg"};
    for (int i = 0; i < 8; i++) {
        job_token token = {.id = i};
        trace_put(&t, &token, piece[i], strlen(piece[i]));
    }
    trace_out(&t, "a", 1, true, note, &got);
    trace_out(&t, "bc", 2, true, note, &got);
    trace_out(&t, "d", 1, true, note, &got);
    trace_out(&t, "ef", 2, false, note, &got); /* </x> was left out */
    trace_out(&t, "g", 1, true, note, &got);
    assert_string_equal(buf_cstr(&got), "0 1 2 3 5 6 7 ");
    assert_int_equal(t.text.len, 0);
    assert_int_equal(t.tok.len, 0);
    buf_deinit(&got);
    trace_deinit(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_and_thinking_come_in_their_fields_cut_anywhere),
        cmocka_unit_test(test_calls_alone_have_null_content),
        cmocka_unit_test(test_one_call_ends_the_answer),
        cmocka_unit_test(test_damaged_calls_end_as_content),
        cmocka_unit_test(test_logprobs_are_of_the_content_alone),
        cmocka_unit_test(test_failure_in_a_stream_is_an_event),
        cmocka_unit_test(test_trace_gives_each_token_once),
    };
    return cmocka_run_group_tests(tests, open_tiny, close_tiny);
}
