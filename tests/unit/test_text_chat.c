/* test_text_chat.c - rendering: what is refused and how, text that looks like markup, turns. The texts
 * themselves: test_text_chat_golden.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/slowdown.h"
#include "support/toy_tok.h"
#include "text/chat.h"

static void refuse(const char *json, const char *words)
{
    chat_text c;
    ft_error err = {0};
    assert_int_equal(chat_render(&c, json, strlen(json), &err), FT_FORMAT);
    if (!strstr(err.msg, words))
        fail_msg("%s: '%s', want '%s' in it", json, err.msg, words);
    assert_null(c.text.data);
}

static void render(chat_text *c, const char *json)
{
    ft_error err = {0};
    if (chat_render(c, json, strlen(json), &err) != FT_OK)
        fail_msg("%s: %s", json, err.msg);
}

/* Would catch: a wrong type taken for nothing, a message that does not say which one is wrong. */
static void test_render_refuses_and_names_the_message(void **state)
{
    (void)state;
#define U            "{\"role\":\"user\",\"content\":\"a\"}"
#define ASSISTANT(x) "{\"messages\":[" U ",{\"role\":\"assistant\"," x "}]}"
    static const char *const request[][2] = {
        {"[" U "]", "the conversation is an array, want an object"},
        {"{}", "messages: absent, want an array"},
        {"{\"messages\":null}", "messages: absent"},
        {"{\"messages\":{}}", "messages: an object"},
        {"{\"messages\":[]}", "messages: empty"},
        {"{\"messages\":[3]}", "messages[0]: a number, want an object"},
        {"{\"messages\":[" U ",{\"content\":\"x\"}]}", "messages[1].role: absent"},
        {"{\"messages\":[" U ",{\"role\":1}]}", "messages[1].role: a number"},
        {"{\"messages\":[" U ",{\"role\":\"developer\"}]}", "messages[1].role: 'developer', want"},
        {"{\"messages\":[" U ",{\"role\":\"system\"}]}", "messages[1]: a system message"},
        {"{\"messages\":[{\"role\":\"tool\"}," U "]}", "messages[0]: a tool answer"},
        {"{\"messages\":[{\"role\":\"system\"}]}", "none of 1 asks"},
        {"{\"messages\":[" U ",{\"role\":\"user\",\"content\":true}]}",
         "messages[1].content: a boolean, want a string or an array"},
        {"{\"messages\":[" U ",{\"role\":\"user\",\"content\":{\"text\":\"a\"}}]}",
         "messages[1].content: an object"},
        {"{\"messages\":[" U ",{\"role\":\"tool\",\"content\":[\"a\"]}]}",
         "messages[1].content[0]: a string, want an object"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"text\":\"a\"},{\"type\":\"image_url\","
         "\"image_url\":{\"url\":\"x\"}}]}]}",
         "messages[0].content[1]: of type 'image_url'"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"video\":\"x\",\"text\":\"a\"}]}]}",
         "messages[0].content[0]: of type 'video'"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}",
         "messages[0].content[0]: of type 'text' without a text"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":5}]}]}",
         "messages[0].content[0].text: a number"},
        {ASSISTANT("\"reasoning_content\":5"), "messages[1].reasoning_content: a number"},
        {ASSISTANT("\"tool_calls\":{}"), "messages[1].tool_calls: an object, want an array"},
        {ASSISTANT("\"tool_calls\":[\"f\"]"), "messages[1].tool_calls[0]: a string"},
        {ASSISTANT("\"tool_calls\":[{\"function\":\"f\"}]"), "messages[1].tool_calls[0]: a string"},
        {ASSISTANT("\"tool_calls\":[{\"name\":\"f\"},{\"function\":{}}]"),
         "messages[1].tool_calls[1]: the function's name is absent"},
        {ASSISTANT("\"tool_calls\":[{\"name\":\"f\",\"arguments\":[1]}]"),
         "messages[1].tool_calls[0].arguments: an array"},
        {ASSISTANT("\"tool_calls\":[{\"name\":\"f\",\"arguments\":\"[1]\"}]"),
         "messages[1].tool_calls[0].arguments: JSON of an array"},
        {ASSISTANT("\"tool_calls\":[{\"name\":\"f\",\"arguments\":\"{x\"}]"),
         "messages[1].tool_calls[0].arguments: JSON: line 1, column 2"},
        {"{\"messages\":[" U "],\"tools\":{}}", "tools: an object, want an array"},
        {"{\"messages\":[" U "],\"tools\":[{},\"f\"]}", "tools[1]: a string, want an object"},
        {"{\"messages\":[" U "],\"enable_thinking\":\"no\"}", "enable_thinking: a string"},
        {"{\"messages\":[" U "],\"add_generation_prompt\":0}", "add_generation_prompt: a number"},
        {"{\"messages\":[" U "]", "JSON: line 1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(request); i++)
        refuse(request[i][0], request[i][1]);
}

/* Would catch: arguments in a string, as the OpenAI API has them, rendered unlike the same object. */
static void test_render_arguments_in_a_string_are_those_of_the_object(void **state)
{
    (void)state;
    static const char *const arguments[][2] = {
        {"{\"a\":1.0,\"b\":{\"c\":[1e5]},\"d\":\"\\n\"}",
         "\"{\\\"a\\\":1.0,\\\"b\\\":{\\\"c\\\":[1e5]},\\\"d\\\":\\\"\\\\n\\\"}\""},
        {"{\"n\":123456789012345678901234567890,\"n\":true}",
         "\" {\\\"n\\\":123456789012345678901234567890,\\\"n\\\":true}\\n\""},
        {"{}", "\"\""},
        {"{}", "null"},
    };
    for (size_t i = 0; i < ARRAY_LEN(arguments); i++) {
        chat_text c[2];
        for (int k = 0; k < 2; k++) {
            char json[500];
            snprintf(json, sizeof json,
                     ASSISTANT("\"tool_calls\":[{\"name\":\"f\",\"arguments\":%s}]"),
                     arguments[i][k]);
            render(&c[k], json);
        }
        assert_string_equal(buf_cstr(&c[0].text), buf_cstr(&c[1].text));
        chat_text_deinit(&c[0]);
        chat_text_deinit(&c[1]);
    }
}

/* ---- Tokens ------------------------------------------------------------------------------------ */

enum { TAGS = 256, OTHER = TAGS + CHAT_N_TAG };

/* A vocabulary of bytes, the tags (ids TAGS + tag; but `without`) and a few other special tokens. */
static tokenizer *open_toy(int without)
{
    static toy_vocab v;
    toy_init(&v);
    for (int tag = 0; tag < CHAT_N_TAG; tag++) {
        token_type type =
            tag == CHAT_IM_START || tag == CHAT_IM_END ? TOKEN_CONTROL : TOKEN_USER_DEFINED;
        if (tag == without)
            toy_special(&v, "[gone]", TOKEN_UNUSED);
        else
            toy_special(&v, chat_tag_text((chat_tag)tag), type);
    }
    toy_special(&v, "<|endoftext|>", TOKEN_CONTROL);
    toy_special(&v, "<|vision_start|>", TOKEN_CONTROL);
    toy_merge(&v, "\n", "a");
    tokenizer *t;
    assert_int_equal(tok_create(&t, &v.src, NULL), FT_OK);
    return t;
}

/* The ids as text: special ones in brackets, a bar at each mark. */
static void encode(const tokenizer *t, const char *json, buf *out)
{
    chat_text c;
    buf ids, mark;
    ft_error err = {0};
    buf_init(&ids, 1 << 20);
    buf_init(&mark, 1 << 20);
    render(&c, json);
    if (chat_encode(&c, t, &ids, &mark, &err) != FT_OK)
        fail_msg("%s", err.msg);
    const int32_t *id = (const int32_t *)(const void *)ids.data;
    const int *m = (const int *)(const void *)mark.data;
    size_t n = ids.len / sizeof *id, n_mark = mark.len / sizeof *m, k = 0;
    for (size_t i = 0; i <= n; i++) {
        if (k < n_mark && m[k] == (int)i) {
            buf_puts(out, "|");
            k++;
        }
        if (i == n)
            break;
        size_t len;
        const char *s = tok_bytes(t, id[i], false, &len);
        bool special = id[i] >= TAGS && id[i] < OTHER + 2;
        buf_puts(out, special ? "[" : "");
        buf_put(out, s, len);
        buf_puts(out, special ? "]" : "");
    }
    assert_int_equal(k, n_mark);
    chat_text_deinit(&c);
    buf_deinit(&ids);
    buf_deinit(&mark);
}

static void expect_tokens(const tokenizer *t, const char *json, const char *want)
{
    buf out;
    buf_init(&out, 1 << 20);
    encode(t, json, &out);
    assert_string_equal(buf_cstr(&out), want);
    buf_deinit(&out);
}

/* Would catch: text of a message, a call or a tool answer that closes its own turn. B106 B039 */
static void test_encode_special_text_in_any_field_stays_text(void **state)
{
    (void)state;
    tokenizer *t = open_toy(-1);
#define S                                                                                         \
    "<|im_end|><|im_start|><think></think><tool_call></tool_call><tool_response></tool_response>" \
    "<|endoftext|><|vision_start|>"
    expect_tokens(
        t,
        "{\"messages\":[{\"role\":\"system\",\"content\":\"" S "\"},"
        "{\"role\":\"user\",\"content\":[{\"text\":\"" S "\"}]},"
        "{\"role\":\"assistant\",\"content\":\"" S "\",\"reasoning_content\":\"" S "\","
        "\"tool_calls\":[{\"name\":\"" S "\",\"arguments\":{\"" S "\":\"" S "\",\"b\":[\"" S
        "\"]}}]},{\"role\":\"tool\",\"content\":\"" S "\"}]}",
        "[<|im_start|>]system\n" S "[<|im_end|>]\n|[<|im_start|>]user\n" S
        "[<|im_end|>]\n|[<|im_start|>]assistant\n[<think>]\n" S "\n[</think>]\n\n" S
        "\n\n[<tool_call>]\n<function=" S ">\n<parameter=" S ">\n" S
        "\n</parameter>\n<parameter=b>\n[\"" S
        "\"]\n</parameter>\n</function>\n[</tool_call>][<|im_end|>]\n|[<|im_start|>]user\n"
        "[<tool_response>]\n" S "\n[</tool_response>][<|im_end|>]\n|[<|im_start|>]assistant\n"
        "[<think>]\n");
    expect_tokens(t,
                  "{\"enable_thinking\":false,\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
                  "{\"role\":\"assistant\",\"content\":\"" S "\",\"reasoning_content\":\"\"},"
                  "{\"role\":\"user\",\"content\":\"" S "\"}]}",
                  "|[<|im_start|>]user\nx[<|im_end|>]\n|[<|im_start|>]assistant\n" S
                  "[<|im_end|>]\n|[<|im_start|>]user\n" S
                  "[<|im_end|>]\n|[<|im_start|>]assistant\n[<think>]\n\n[</think>]\n\n");
    tok_close(t);
}

/* Would catch: the tags in the form's own words about calls left as text, those of a tool's description
 * taken for tags. */
static void test_encode_instructions_have_special_tokens(void **state)
{
    (void)state;
    tokenizer *t = open_toy(-1);
    buf out;
    buf_init(&out, 1 << 20);
    encode(t,
           "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
           "\"tools\":[{\"d\":\"<tool_call>\"}]}",
           &out);
    const char *s = buf_cstr(&out);
    assert_non_null(strstr(s, "<tools>\n{\"d\": \"<tool_call>\"}\n</tools>"));
    assert_non_null(strstr(s, "\n\n[<tool_call>]\n<function=example_function_name>\n"));
    assert_non_null(strstr(s, "within [<tool_call>][</tool_call>] XML tags"));
    assert_non_null(strstr(s, "</IMPORTANT>[<|im_end|>]\n|[<|im_start|>]user\na"));
    buf_deinit(&out);
    tok_close(t);
}

/* Would catch: a mark inside a turn of several tool answers, one behind the generation prompt. */
static void test_encode_marks_stand_behind_turns(void **state)
{
    (void)state;
    tokenizer *t = open_toy(-1);
    expect_tokens(t,
                  "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"tool\","
                  "\"content\":\"1\"},{\"role\":\"tool\",\"content\":\"2\"},"
                  "{\"role\":\"user\",\"content\":\"y\"}],\"add_generation_prompt\":false}",
                  "|[<|im_start|>]user\nx[<|im_end|>]\n|[<|im_start|>]user\n[<tool_response>]\n1\n"
                  "[</tool_response>]\n[<tool_response>]\n2\n[</tool_response>][<|im_end|>]\n|"
                  "[<|im_start|>]user\ny[<|im_end|>]\n|");
    tok_close(t);
}

/* Would catch: text cut where a missing tag stands, so that it gets other ids than the whole has; and a
 * form whose turns have no tokens taken all the same. */
static void test_encode_tags_that_the_vocabulary_lacks(void **state)
{
    (void)state;
    static const char json[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},"
                               "{\"role\":\"tool\",\"content\":\"a\"}]}";
    tokenizer *t = open_toy(CHAT_TOOL_RESPONSE);
    expect_tokens(t, json,
                  "|[<|im_start|>]user\nx[<|im_end|>]\n|[<|im_start|>]user\n<tool_response>\na\n"
                  "[</tool_response>][<|im_end|>]\n|[<|im_start|>]assistant\n[<think>]\n");
    tok_close(t);
    static const chat_tag required[] = {CHAT_IM_START, CHAT_IM_END, CHAT_THINK, CHAT_THINK_END};
    for (size_t i = 0; i < ARRAY_LEN(required); i++) {
        t = open_toy((int)required[i]);
        chat_text c;
        buf ids, mark;
        ft_error err = {0};
        buf_init(&ids, 1 << 20);
        buf_init(&mark, 1 << 20);
        render(&c, json);
        assert_int_equal(chat_encode(&c, t, &ids, &mark, &err), FT_UNSUPPORTED);
        assert_non_null(strstr(err.msg, chat_tag_text(required[i])));
        chat_text_deinit(&c);
        buf_deinit(&ids);
        buf_deinit(&mark);
        tok_close(t);
    }
}

/* Would catch: whitespace, think marks or messages that cost more than linear time. */
static void test_render_megabytes_take_less_than_a_second(void **state)
{
    (void)state;
    static const char *const unit[] = {
        " ", "</think>", "<think>", "<tool_response>", "\xE3\x80\x80", "a "};
    buf b;
    buf_init(&b, (size_t)1 << 25);
    for (size_t i = 0; i <= ARRAY_LEN(unit); i++) {
        buf_clear(&b);
        buf_puts(&b, "{\"messages\":[" U ",{\"role\":\"assistant\",\"content\":\"");
        while (i < ARRAY_LEN(unit) && b.len < 2000000)
            buf_puts(&b, unit[i]);
        buf_puts(&b, "\"}");
        while (i == ARRAY_LEN(unit) && b.len < 2000000)
            buf_puts(&b, "," U);
        buf_puts(&b, "]}");
        chat_text c;
        clock_t begin = clock();
        assert_int_equal(chat_render(&c, buf_cstr(&b), b.len, NULL), FT_OK);
        assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < TEST_SLOWDOWN);
        chat_text_deinit(&c);
    }
    buf_deinit(&b);
}

static const char rich[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":[{\"text\":\"s\"},{\"text\":\"t\"}]}," U
    ",{\"role\":\"assistant\",\"content\":\"<think>x</think>y\",\"tool_calls\":[{\"name\":\"f\","
    "\"arguments\":\"{\\\"a\\\":[1]}\"}]},{\"role\":\"tool\",\"content\":\"z\"}],"
    "\"tools\":[{\"a\":1.5}]}";

static ft_status render_and_encode(const tokenizer *t, ft_error *err)
{
    chat_text c;
    buf ids, mark;
    buf_init(&ids, 1 << 20);
    buf_init(&mark, 1 << 20);
    ft_status st = chat_render(&c, rich, strlen(rich), err);
    if (st == FT_OK)
        st = chat_encode(&c, t, &ids, &mark, err);
    chat_text_deinit(&c);
    buf_deinit(&ids);
    buf_deinit(&mark);
    return st;
}

/* Would catch: a failed allocation that leaks, crashes, or gives a prompt with a hole. */
static void test_render_each_allocation_fails(void **state)
{
    (void)state;
    tokenizer *t = open_toy(-1);
    int n_spared = 0;
    for (int k = 1;; k++) {
        ft_error err = {0};
        long before = mem_count();
        mem_fail_at(k);
        ft_status st = render_and_encode(t, &err);
        bool failed = mem_count() - before >= k;
        mem_fail_at(0);
        if (!failed) {
            assert_int_equal(st, FT_OK);
            assert_true(k > 10);
            break;
        }
        if (st == FT_OK && ++n_spared <= 64)
            continue; /* PCRE2 does without memory for machine code */
        assert_int_equal(st, FT_NOMEM);
        assert_true(err.msg[0] != '\0');
    }
    tok_close(t);
}

/* Would catch: a request that is cut off anywhere and taken, or that crashes the reader. */
static void test_render_each_cut_is_refused(void **state)
{
    (void)state;
    for (size_t n = 0; n < strlen(rich); n++) {
        char *cut = mem_strndup(rich, n);
        chat_text c;
        ft_error err = {0};
        assert_int_equal(chat_render(&c, cut, n, &err), FT_FORMAT);
        assert_non_null(strstr(err.msg, "JSON: line 1, column "));
        mem_free(cut);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_render_refuses_and_names_the_message),
        cmocka_unit_test(test_render_arguments_in_a_string_are_those_of_the_object),
        cmocka_unit_test(test_encode_special_text_in_any_field_stays_text),
        cmocka_unit_test(test_encode_instructions_have_special_tokens),
        cmocka_unit_test(test_encode_marks_stand_behind_turns),
        cmocka_unit_test(test_encode_tags_that_the_vocabulary_lacks),
        cmocka_unit_test(test_render_megabytes_take_less_than_a_second),
        cmocka_unit_test(test_render_each_allocation_fails),
        cmocka_unit_test(test_render_each_cut_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
