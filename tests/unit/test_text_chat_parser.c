/* test_text_chat_parser.c - answers taken apart: thinking, content, calls; damaged and quoted markup;
 * any cutting of the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/chat_events.h"
#include "support/slowdown.h"

/* What a case wants: t true when the prompt left a think block open. */
typedef struct {
    bool t;
    const char *text, *want;
} answer;

static size_t one_byte(void *ctx, size_t at, size_t n)
{
    (void)ctx;
    (void)at;
    (void)n;
    return 1;
}

/* Two pieces, cut at *ctx. */
static size_t two_pieces(void *ctx, size_t at, size_t n)
{
    size_t cut = *(size_t *)ctx;
    return at < cut && cut < n ? cut - at : n - at;
}

static size_t random_pieces(void *ctx, size_t at, size_t n)
{
    uint64_t *x = ctx;
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    size_t len = 1 + (size_t)(*x % 24);
    return len < n - at ? len : n - at;
}

static void expect_cut(const answer *a, const char *tools, chat_cut_fn *cut, void *ctx)
{
    chat_events e;
    ft_error err = {0};
    if (chat_events_of(&e, a->t, tools, a->text, strlen(a->text), cut, ctx, &err) != FT_OK)
        fail_msg("%s: %s", a->text, err.msg);
    if (strcmp(buf_cstr(&e.text), a->want) != 0)
        fail_msg("'%s': '%s', want '%s'", a->text, buf_cstr(&e.text), a->want);
    buf_deinit(&e.text);
}

/* Whole, byte by byte, in two pieces at every place, and cut at random. */
static void expect(const answer *a, const char *tools)
{
    expect_cut(a, tools, NULL, NULL);
    expect_cut(a, tools, one_byte, NULL);
    for (size_t cut = 1; cut < strlen(a->text); cut++)
        expect_cut(a, tools, two_pieces, &cut);
    uint64_t seed = 88172645463325252u;
    for (int i = 0; i < 50; i++)
        expect_cut(a, tools, random_pieces, &seed);
}

static void expect_all(const answer *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        expect(&a[i], NULL);
}

#define CALL(f, p) "<tool_call>\n<function=" f ">\n" p "</function>\n</tool_call>"
#define P(n, v)    "<parameter=" n ">\n" v "\n</parameter>\n"

/* Would catch: whitespace or tags that a user of the API would see, kinds mixed up. */
static void test_parser_thinking_and_content(void **state)
{
    (void)state;
    static const answer a[] = {
        {true, "I think.\n</think>\n\nHello.", "T(I think.)C(Hello.)"},
        {true, "\n\n I think. \n\n</think>Hello.\n", "T(I think.)C(Hello.)"},
        {true, "\n</think>\n\nHello.", "C(Hello.)"},
        {true, "</think>", ""},
        {true, "", ""},
        {false, "", ""},
        {false, " \n ", ""},
        {true, "still thinking", "T(still thinking)"},
        {true, "a\n\nb \n", "T(a\n\nb)"},
        {true, "<think>\nagain</think>b", "T(again)C(b)"},
        {false, "\n<think>\nby itself\n</think>\n\nb", "T(by itself)C(b)"},
        {false, "Hello\n\n  world  \n\n", "C(Hello\n\n  world)"},
        {false, "a <think> b </think> c", "C(a <think> b </think> c)"},
        {true, "a</think>b</think>c", "T(a)C(b</think>c)"},
        {false, "1 < 2 <", "C(1 < 2 <)"},
        {false, "<thin", "C(<thin)"},
        {true, "x</thin", "T(x</thin)"},
        {false, "\xE3\x80\x80\xC3\xA9\xF0\x9F\x98\x80\xE2\x80\x83", "C(\xC3\xA9\xF0\x9F\x98\x80)"},
        {false, "bad \xE3\x80 and \xFF\xC3", "C(bad \xE3\x80 and \xFF\xC3)"},
    };
    expect_all(a, ARRAY_LEN(a));
}

/* Would catch: the end of the text that ends up in the answer, or text that only looks like it lost. */
static void test_parser_end_tokens(void **state)
{
    (void)state;
    static const answer a[] = {
        {false, "Hi.<|im_end|>", "C(Hi.)"},
        {false, "Hi.\n<|im_end|>", "C(Hi.)"},
        {false, "Hi.<|endoftext|>", "C(Hi.)"},
        {true, "I<|im_end|>", "T(I)"},
        {false, "<|im_end|>", ""},
        {false, "Say <|im_end|> twice: <|im_end|><|im_end|>",
         "C(Say <|im_end|> twice: <|im_end|>)"},
        {false, "Hi<|im_end", "C(Hi<|im_end)"},
        {false, "Hi<|im_end|> ", "C(Hi<|im_end|>)"},
        {false, CALL("f", "") "<|im_end|>", "F(f {})"},
        {false, "<tool_call>\n<function=f>\n</function>\n<|im_end|>", "F(f {})"},
        {false, "<tool_call>\n<function=f>\n<parameter=a>\n1<|im_end|>",
         "C(<tool_call>\n<function=f>\n<parameter=a>\n1)"},
    };
    expect_all(a, ARRAY_LEN(a));
}

/* Would catch: a call that leaks into the text, the second of two lost, order changed. B038 */
static void test_parser_calls(void **state)
{
    (void)state;
    static const answer a[] = {
        {false, CALL("f", P("a", "x")), "F(f {\"a\": \"x\"})"},
        {false, CALL("f", ""), "F(f {})"},
        {false, "Let me see.\n\n" CALL("f", P("b", "1") P("a", "two\nlines")),
         "C(Let me see.)F(f {\"b\": 1, \"a\": \"two\\nlines\"})"},
        {true, "hm\n</think>\n\n" CALL("f", P("a", "1")) "\n" CALL("g", P("a", "2")),
         "T(hm)F(f {\"a\": 1})F(g {\"a\": 2})"},
        {false, "a\n" CALL("f", "") "\n\nb\n", "C(a)F(f {})C(\n\n\nb)"},
        {false, CALL("f", "") "\n\nb", "F(f {})C(b)"},
        {false, CALL("f", P("a", "") P("b", "\n") P("c", " x ")),
         "F(f {\"a\": \"\", \"b\": \"\\n\", \"c\": \" x \"})"},
        {false, "<tool_call><function=f><parameter=a>x</parameter></function></tool_call>",
         "F(f {\"a\": \"x\"})"},
        {false, CALL("f", P("a", "1") P("b", "2") P("a", "3")), "F(f {\"b\": 2, \"a\": 3})"},
        {false, CALL("s\xC3\xB8k", P("\xC3\xA5", "\xF0\x9F\x98\x80")),
         "F(s\xC3\xB8k {\"\xC3\xA5\": \"\xF0\x9F\x98\x80\"})"},
        {false, "see<tool_call>\n<function=f>\n</function>\n</tool_call>", "C(see)F(f {})"},
    };
    expect_all(a, ARRAY_LEN(a));
}

/* Would catch: a value cut short by the markup it quotes. B037 */
static void test_parser_markup_inside_values(void **state)
{
    (void)state;
    static const answer a[] = {
        {false, CALL("f", P("a", "x </parameter> y")), "F(f {\"a\": \"x </parameter> y\"})"},
        {false, CALL("f", P("a", "<b>\n</parameter>\n</b>")),
         "F(f {\"a\": \"<b>\\n</parameter>\\n</b>\"})"},
        {false, CALL("f", P("a", "ends in </parameter>")),
         "F(f {\"a\": \"ends in </parameter>\"})"},
        {false, CALL("f", P("a", "<parameter=b>\n1") P("c", "2")),
         "F(f {\"a\": \"<parameter=b>\\n1\", \"c\": 2})"},
        {false, CALL("f", P("a", "</tool_call> </function> </think> <tool_call>")),
         "F(f {\"a\": \"</tool_call> </function> </think> <tool_call>\"})"},
        {false, CALL("f", P("a", "see:\n</function>\nmore")),
         "F(f {\"a\": \"see:\\n</function>\\nmore\"})"},
        {false, CALL("f", P("a", "</parameter>\n<parameter=\n>")),
         "F(f {\"a\": \"</parameter>\\n<parameter=\\n>\"})"},
        {false, CALL("f", P("a", "a < b << c </")), "F(f {\"a\": \"a < b << c </\"})"},
        {false,
         CALL("f", P("a", "So:\n" CALL("g", P("b", "1")) "\nand " CALL("h", "")) P("c", "2")),
         "F(f {\"a\": \"So:\\n<tool_call>\\n<function=g>\\n<parameter=b>\\n1\\n</parameter>\\n"
         "</function>\\n</tool_call>\\nand "
         "<tool_call>\\n<function=h>\\n</function>\\n</tool_call>\", "
         "\"c\": 2})"},
        {false, CALL("f", P("a", "<|im_end|>")), "F(f {\"a\": \"<|im_end|>\"})"},
    };
    expect_all(a, ARRAY_LEN(a));
}

/* Would catch: a damaged call that is an error, takes the rest of the text with it, or loses text. B035 */
static void test_parser_damaged_calls(void **state)
{
    (void)state;
#define OPEN "<tool_call>\n<function=f>\n"
    static const answer a[] = {
        /* closing tags too many */
        {false, OPEN "<parameter=a>\nx\n</parameter>\n</parameter>\n</function>\n</tool_call>",
         "F(f {\"a\": \"x\"})"},
        {false,
         OPEN "<parameter=a>\nx\n</parameter>\n</parameter>\n<parameter=b>\n1\n</parameter>\n"
              "</function>\n</tool_call>",
         "F(f {\"a\": \"x\", \"b\": 1})"},
        {false, OPEN P("a", "1") "</function>\n</function>\n</tool_call>\n", "F(f {\"a\": 1})"},
        {false, OPEN P("a", "1") "</function>\n</tool_call>\n</tool_call>\nok",
         "F(f {\"a\": 1})C(ok)"},
        {false, OPEN "</function>\n</parameter>\n</tool_call>", "F(f {})"},
        /* tags that are missing */
        {false, OPEN P("a", "1") "</tool_call>", "F(f {\"a\": 1})"},
        {false, OPEN P("a", "1") "</function>", "F(f {\"a\": 1})"},
        {false, OPEN P("a", "1") "</function>\n\nDone.", "F(f {\"a\": 1})C(Done.)"},
        {false, OPEN "<parameter=a>\n1\n</function>\n</tool_call>\nok", "F(f {\"a\": 1})C(ok)"},
        {false,
         OPEN P("a", "1") "</function>\n<function=g>\n" P("b", "2") "</function>\n</tool_call>",
         "F(f {\"a\": 1})F(g {\"b\": 2})"},
        {false, "<function=f>\n" P("a", "1") "</function>\n</tool_call>",
         "C(<function=f>\n" P("a", "1") "</function>\n</tool_call>)"},
        {false, "<tool_call>\n" P("a", "1") "</function>\n</tool_call>",
         "C(<tool_call>\n" P("a", "1") "</function>\n</tool_call>)"},
        /* another order, one in the other */
        {false, OPEN P("a", "1") "</tool_call>\n</function>", "F(f {\"a\": 1})"},
        {false, "<tool_call>\n" CALL("f", ""), "C(<tool_call>)F(f {})"},
        /* wrong names */
        {false, "<tool_call>\n<function=>\n</function>\n</tool_call>",
         "C(<tool_call>\n<function=>\n</function>\n</tool_call>)"},
        {false, "<tool_call>\n<function=f\n>\n</function>\n</tool_call>",
         "C(<tool_call>\n<function=f\n>\n</function>\n</tool_call>)"},
        {false, "<tool_call>\n<function=<f>>\n</function>\n</tool_call>",
         "C(<tool_call>\n<function=<f>>\n</function>\n</tool_call>)"},
        {false, OPEN "<parameter=>\n1\n</parameter>\n</function>\n</tool_call>",
         "C(" OPEN "<parameter=>\n1\n</parameter>\n</function>\n</tool_call>)"},
        /* other words in it */
        {false, "<tool_call>\n{\"name\": \"f\"}\n</tool_call>",
         "C(<tool_call>\n{\"name\": \"f\"}\n</tool_call>)"},
        {false, OPEN "hm\n</function>\n</tool_call>", "C(" OPEN "hm\n</function>\n</tool_call>)"},
        {false, "<tool_call>now\n<function=f>\n</function>\n</tool_call>",
         "C(<tool_call>now\n<function=f>\n</function>\n</tool_call>)"},
        /* cut off */
        {false, "a\n\n<tool_call>", "C(a\n\n<tool_call>)"},
        {false, "<tool_call>\n<func", "C(<tool_call>\n<func)"},
        {false, "<tool_call>\n<function=f", "C(<tool_call>\n<function=f)"},
        {false, OPEN, "C(<tool_call>\n<function=f>)"},
        {false, "a\n" OPEN "<parameter=a>\nx", "C(a\n" OPEN "<parameter=a>\nx)"},
        {false, OPEN "<parameter=a>\nx\n</parameter>", "C(" OPEN "<parameter=a>\nx\n</parameter>)"},
        {false, OPEN P("a", "1") "</functi", "C(" OPEN P("a", "1") "</functi)"},
        {false, CALL("f", "") "\n" OPEN "<parameter=a>\n1", "F(f {})C(" OPEN "<parameter=a>\n1)"},
        {true, "hm\n" OPEN "<parameter=a>\nx", "T(hm\n" OPEN "<parameter=a>\nx)"},
    };
    expect_all(a, ARRAY_LEN(a));
}

/* Would catch: a call that is swallowed by thinking which never ended. B036 */
static void test_parser_call_ends_open_thinking(void **state)
{
    (void)state;
    static const answer a[] = {
        {true, "I need data.\n\n" CALL("f", P("a", "1")), "T(I need data.)F(f {\"a\": 1})"},
        {true, CALL("f", P("b", "1") P("a", "2")), "F(f {\"b\": 1, \"a\": 2})"},
        {true, "hm\n" CALL("f", "") "\nthen", "T(hm)F(f {})C(then)"},
        {true, "hm\n  " CALL("f", "") "\n" CALL("g", ""), "T(hm)F(f {})F(g {})"},
    };
    expect_all(a, ARRAY_LEN(a));
}

/* Would catch: thinking or content that ends, or a tool that is called, because markup is spoken
 * about. B037 */
static void test_parser_quoted_markup_is_text(void **state)
{
    (void)state;
    static const answer a[] = {
        {true,
         "The tags are `</think>`, \"</think>\", '<tool_call>' and </parameter>.\n</think>\nOk",
         "T(The tags are `</think>`, \"</think>\", '<tool_call>' and </parameter>.)C(Ok)"},
        {true, "He said \"</think> so", "T(He said \")C(so)"},
        {true,
         "I write <tool_call>\n<function=f>\n</function>\n</tool_call>, as told.\n</think>\nOk",
         "T(I write <tool_call>\n<function=f>\n</function>\n</tool_call>, as told.)C(Ok)"},
        {true, "So:\n```xml\n" CALL("f", P("a", "1")) "\n```\n</think>\n\n" CALL("g", ""),
         "T(So:\n```xml\n" CALL("f", P("a", "1")) "\n```)F(g {})"},
        {true, "```\nan open fence\n</think>\n\n" CALL("f", ""), "T(```\nan open fence)F(f {})"},
        {false, "Like this:\n\n```xml\n" CALL("f", P("a", "1")) "\n```\nDone.",
         "C(Like this:\n\n```xml\n" CALL("f", P("a", "1")) "\n```\nDone.)"},
        {false, "~~~\n" CALL("f", "") "\n```\n~~~~ \n" CALL("g", ""),
         "C(~~~\n" CALL("f", "") "\n```\n~~~~)F(g {})"},
        {false, "````\n```\n" CALL("f", "") "\n````\n" CALL("g", ""),
         "C(````\n```\n" CALL("f", "") "\n````)F(g {})"},
        {false, "```\n``` x\n" CALL("f", "") "\n```\n" CALL("g", ""),
         "C(```\n``` x\n" CALL("f", "") "\n```)F(g {})"},
        {false, "```code``` inline\n" CALL("f", ""), "C(```code``` inline)F(f {})"},
        {false, "`" CALL("f", "") "`", "C(`" CALL("f", "") "`)"},
        {false, "It opens with <tool_call> and <function=f>.",
         "C(It opens with <tool_call> and <function=f>.)"},
        {false, "</tool_call></function></parameter>", "C(</tool_call></function></parameter>)"},
    };
    expect_all(a, ARRAY_LEN(a));
}

/* Would catch: names and gaps without a limit, which would hold back any amount of text. */
static void test_parser_limits_of_names_and_gaps(void **state)
{
    (void)state;
    char text[800], want[900];
    for (int n = 255; n <= 257; n++) {
        snprintf(text, sizeof text, "<tool_call>\n<function=%0*d>\n</function>\n</tool_call>", n,
                 7);
        if (n <= 256)
            snprintf(want, sizeof want, "F(%0*d {})", n, 7);
        else
            snprintf(want, sizeof want, "C(%s)", text);
        expect_cut(&(answer){false, text, want}, NULL, NULL, NULL);
        expect_cut(&(answer){false, text, want}, NULL, one_byte, NULL);
    }
    for (int n = 63; n <= 65; n++) {
        snprintf(text, sizeof text, "<tool_call>%*s<function=f>\n</function>\n</tool_call>", n, "");
        if (n <= 64)
            snprintf(want, sizeof want, "F(f {})");
        else
            snprintf(want, sizeof want, "C(%s)", text);
        expect_cut(&(answer){false, text, want}, NULL, NULL, NULL);
        expect_cut(&(answer){false, text, want}, NULL, one_byte, NULL);
    }
}

static const char tools[] =
    "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"type\":\"object\","
    "\"properties\":{\"s\":{\"type\":\"string\"},\"i\":{\"type\":\"integer\"},"
    "\"n\":{\"type\":\"number\"},\"b\":{\"type\":\"boolean\"},\"l\":{\"type\":\"array\"},"
    "\"o\":{\"type\":\"object\"},\"u\":{\"type\":[\"string\",\"null\",\"integer\"]},"
    "\"any\":{\"description\":\"x\"},\"a\":{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]},"
    "\"e\":{\"enum\":[\"1\",\"2\"]},\"e2\":{\"enum\":[1,null]},\"c\":{\"const\":\"1\"},"
    "\"r\":{\"oneOf\":[{\"$ref\":\"#/x\"}]},\"w\":{\"type\":\"text\"}}}}},"
    "{\"name\":\"g\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"}}}}]";

/* Would catch: a string that becomes a number, or a number that stays text, against the schema. */
static void test_parser_values_follow_the_schema(void **state)
{
    (void)state;
    static const char *const value[][3] = {
        /* parameter, value as written, JSON */
        {"s", "5", "\"5\""},
        {"s", "true", "\"true\""},
        {"s", "[1, 2]", "\"[1, 2]\""},
        {"s", "\"q\"", "\"\\\"q\\\"\""},
        {"s", "null", "\"null\""},
        {"i", "5", "5"},
        {"i", " 5 ", "5"},
        {"i", "123456789012345678901234567890", "123456789012345678901234567890"},
        {"i", "five", "\"five\""},
        {"i", "true", "\"true\""},
        {"n", "1.50", "1.5"},
        {"n", "1e999", "\"1e999\""},
        {"n", "NaN", "\"NaN\""},
        {"b", "True", "true"},
        {"b", "false", "false"},
        {"b", "None", "\"None\""},
        {"b", "yes", "\"yes\""},
        {"l", "[1,\"a\"]", "[1, \"a\"]"},
        {"l", "[1,", "\"[1,\""},
        {"o", "{\"a\":1,\"a\":2}", "{\"a\": 2}"},
        {"o", "[]", "\"[]\""},
        {"u", "5", "5"},
        {"u", "None", "null"},
        {"u", "null", "null"},
        {"u", "true", "\"true\""},
        {"a", "null", "null"},
        {"a", "5", "\"5\""},
        {"any", "5", "5"},
        {"any", "\"q\"", "\"q\""},
        {"any", "True", "\"True\""},
        {"any", "text", "\"text\""},
        {"e", "1", "\"1\""},
        {"e2", "1", "1"},
        {"e2", "None", "null"},
        {"c", "1", "\"1\""},
        {"r", "1", "1"},
        {"w", "1", "1"},
        {"unknown", "1", "1"},
    };
    for (size_t i = 0; i < ARRAY_LEN(value); i++) {
        char text[400], want[400];
        snprintf(text, sizeof text, CALL("f", P("%s", "%s")), value[i][0], value[i][1]);
        snprintf(want, sizeof want, "F(f {\"%s\": %s})", value[i][0], value[i][2]);
        expect(&(answer){false, text, want}, tools);
    }
    expect(&(answer){false, CALL("g", P("s", "5")), "F(g {\"s\": \"5\"})"}, tools);
    expect(&(answer){false, CALL("h", P("s", "5")), "F(h {\"s\": 5})"}, tools);
    expect(&(answer){false, CALL("f", P("s", "5")), "F(f {\"s\": 5})"}, "null");
    expect(&(answer){false, CALL("f", P("s", "5")), "F(f {\"s\": 5})"}, "[]");
}

/* Would catch: tools of a wrong shape taken for none. */
static void test_parser_refuses_wrong_tools(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {{"{}", "tools: an object, want an array"},
                                           {"[{},3]", "tools[1]: a number, want an object"},
                                           {"[", "tools: JSON: line 1"},
                                           {"", "tools: JSON: line 1"}};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        chat_events e;
        ft_error err = {0};
        assert_int_equal(chat_events_of(&e, false, wrong[i][0], "x", 1, NULL, NULL, &err),
                         FT_FORMAT);
        assert_non_null(strstr(err.msg, wrong[i][1]));
        buf_deinit(&e.text);
    }
}

/* Would catch: an event after the caller had enough. */
static void test_parser_stops_when_told(void **state)
{
    (void)state;
    static const char text[] = "a\n" CALL("f", "") "b";
    for (int stop = 1; stop <= 3; stop++) {
        chat_events e = {.kind = -1, .stop_at = stop};
        buf_init(&e.text, 1 << 16);
        chat_parser *p;
        ft_error err = {0};
        assert_int_equal(chat_parser_create(&p, false, NULL, chat_events_put, &e, NULL), FT_OK);
        assert_int_equal(chat_parser_put(p, text, strlen(text), &err), FT_CANCELLED);
        assert_int_equal(e.n_event, stop);
        chat_parser_free(p);
        buf_deinit(&e.text);
    }
    chat_parser_free(NULL);
}

/* Would catch: text held back though nothing can come of it. B038 */
static void test_parser_holds_back_no_more_than_it_must(void **state)
{
    (void)state;
    static const char text[] = "It is 1 < 2, <b>bold</b>, <tool_box> and <tool_call> or not. ";
    chat_events e = {.kind = -1};
    buf_init(&e.text, 1 << 16);
    chat_parser *p;
    assert_int_equal(chat_parser_create(&p, false, NULL, chat_events_put, &e, NULL), FT_OK);
    for (size_t n = 0; n < strlen(text); n++) {
        assert_int_equal(chat_parser_put(p, text + n, 1, NULL), FT_OK);
        assert_true(n + 1 - e.bytes <= strlen("<tool_call> o"));
    }
    assert_int_equal(e.bytes, strlen(text) - 1); /* the last space waits */
    chat_parser_free(p);
    buf_deinit(&e.text);
}

/* Byte by byte, unit again and again: linear. */
static void expect_fast(const char *begin, const char *unit)
{
    buf b;
    buf_init(&b, 1 << 22);
    buf_puts(&b, begin);
    while (b.len < 500000)
        buf_puts(&b, unit);
    chat_events e;
    clock_t t0 = clock();
    assert_int_equal(
        chat_events_of(&e, false, NULL, (const char *)b.data, b.len, one_byte, NULL, NULL), FT_OK);
    double seconds = (double)(clock() - t0) / CLOCKS_PER_SEC;
    if (seconds >= 2 * TEST_SLOWDOWN)
        fail_msg("'%s' '%s': %.2f s", begin, unit, seconds);
    buf_deinit(&e.text);
    buf_deinit(&b);
}

/* Would catch: held text that is searched from its start with every piece. B105 */
static void test_parser_half_megabyte_byte_by_byte_is_fast(void **state)
{
    (void)state;
    static const char *const unit[] = {" ",
                                       "<",
                                       "a",
                                       "\n",
                                       "\xE3\x80\x80",
                                       "<|im_end|>",
                                       "<tool_call>",
                                       OPEN,
                                       OPEN "<parameter=",
                                       CALL("f", P("a", "1")),
                                       "</parameter>",
                                       "</parameter>\n",
                                       "</function>\n"};
    for (size_t i = 0; i < ARRAY_LEN(unit); i++) {
        expect_fast("", unit[i]);
        expect_fast("<think>", unit[i]);
        expect_fast(OPEN "<parameter=a>\n", unit[i]);
        expect_fast(CALL("f", ""), unit[i]);
    }
    expect_fast("", OPEN "<parameter=a>\n");
}

/* Would catch: a failed allocation that leaks, crashes, or loses text without a word. */
static void test_parser_each_allocation_fails(void **state)
{
    (void)state;
    static const char text[] =
        "<think>a \n\nb</think>c \n\n" CALL("f", P("s", "5") P("o", "{\"a\":[1]}"));
    for (int k = 1;; k++) {
        chat_events e;
        ft_error err = {0};
        buf_init(&e.text, 0);
        long before = mem_count();
        mem_fail_at(k);
        ft_status st = chat_events_of(&e, false, tools, text, strlen(text), NULL, NULL, &err);
        bool failed = mem_count() - before >= k;
        mem_fail_at(0);
        bool helper = e.text.failed; /* the test's own memory */
        buf_deinit(&e.text);
        if (!failed) {
            assert_int_equal(st, FT_OK);
            assert_true(k > 10);
            return;
        }
        if (helper)
            continue;
        assert_int_equal(st, FT_NOMEM);
        assert_true(err.msg[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parser_thinking_and_content),
        cmocka_unit_test(test_parser_end_tokens),
        cmocka_unit_test(test_parser_calls),
        cmocka_unit_test(test_parser_markup_inside_values),
        cmocka_unit_test(test_parser_damaged_calls),
        cmocka_unit_test(test_parser_call_ends_open_thinking),
        cmocka_unit_test(test_parser_quoted_markup_is_text),
        cmocka_unit_test(test_parser_limits_of_names_and_gaps),
        cmocka_unit_test(test_parser_values_follow_the_schema),
        cmocka_unit_test(test_parser_refuses_wrong_tools),
        cmocka_unit_test(test_parser_stops_when_told),
        cmocka_unit_test(test_parser_holds_back_no_more_than_it_must),
        cmocka_unit_test(test_parser_half_megabyte_byte_by_byte_is_fast),
        cmocka_unit_test(test_parser_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
