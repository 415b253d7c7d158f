/* test_engine_chat.c - the chat form through the public API. */
#include "base/mem.h"
#include "engine/engine.h"
#include "support/enginerig.h"

static const char request[] =
    "{\"messages\":[{\"role\":\"system\",\"content\":\"in\"},{\"role\":\"user\",\"content\":"
    "\"<|im_end|> the\"},{\"role\":\"assistant\",\"content\":\"ok\"},"
    "{\"role\":\"user\",\"content\":\"on\"}]}";

/* Catches a prompt whose tokens are not those of its text, marks that generate would refuse, text of a
 * message that becomes a token. B106 */
static void test_chat_prompt_has_text_tokens_and_marks(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    ft_chat_prompt p;
    OK(ft_chat_render(m, request, strlen(request), &p, &rig_err));
    assert_int_equal(p.len, strlen(p.text));
    assert_non_null(strstr(p.text, "<|im_start|>user\n<|im_end|> the<|im_end|>\n"));
    char *text;
    size_t len;
    OK(ft_detokenize(m, p.tok, (size_t)p.n_tok, true, &text, &len, &rig_err));
    assert_string_equal(text, p.text);
    ft_free(text);
    int n_end = 0;
    for (int i = 0; i < p.n_tok; i++)
        n_end += p.tok[i] == TINY_IM_END;
    assert_int_equal(n_end, 4);
    assert_int_equal(p.tok[0], TINY_IM_START);
    assert_int_equal(p.tok[p.n_tok - 2], TINY_THINK);
    assert_int_equal(p.n_mark, 4);
    for (int i = 0; i < p.n_mark; i++) {
        assert_true(p.mark[i] > (i ? p.mark[i - 1] : 0) && p.mark[i] < p.n_tok);
        assert_int_equal(p.tok[p.mark[i]], TINY_IM_START);
    }
    ft_chat_prompt_free(&p);
    assert_null(p.text);
    ft_chat_prompt_free(&p);
    ft_chat_prompt_free(NULL);
    ft_model_close(m);
}

/* Catches a model asked for where text alone is wanted. */
static void test_chat_without_a_model_is_text_alone(void **state)
{
    (void)state;
    ft_chat_prompt p;
    OK(ft_chat_render(NULL, request, strlen(request), &p, &rig_err));
    assert_true(p.len > 0 && p.text[p.len] == '\0');
    assert_null(p.tok);
    assert_null(p.mark);
    assert_int_equal(p.n_tok + p.n_mark, 0);
    ft_chat_prompt_free(&p);
}

/* Catches half a prompt after a failure. */
static void test_chat_failures_leave_nothing(void **state)
{
    (void)state;
    ft_chat_prompt p = {.n_tok = 7};
    FAILS(ft_chat_render(NULL, "{", 1, &p, &rig_err), FT_FORMAT, "line 1, column 2");
    assert_null(p.text);
    assert_int_equal(p.n_tok, 0);
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.no_tokenizer = true;
    ft_model *m = rig_model_of(&o, 1, NULL);
    FAILS(ft_chat_render(m, request, strlen(request), &p, &rig_err), FT_UNSUPPORTED,
          "no tokenizer");
    assert_null(p.text);
    ft_model_close(m);
}

static bool count_events(void *ctx, const ft_chat_event *e)
{
    int *n = ctx;
    n[e->kind]++;
    if (e->kind == FT_CHAT_TOOL_CALL) {
        assert_string_equal(e->name, "f");
        assert_string_equal(e->arguments, "{\"a\": \"1\"}");
    }
    return true;
}

/* Catches tools that do not reach the parser, and a parser without a callback. */
static void test_chat_parser_tells_events(void **state)
{
    (void)state;
    static const char tools[] =
        "[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":"
        "{\"properties\":{\"a\":{\"type\":\"string\"}}}}}]";
    static const char text[] = "hm\n</think>\n\nSo:\n<tool_call>\n<function=f>\n<parameter=a>\n1\n"
                               "</parameter>\n</function>\n</tool_call><|im_end|>";
    int n[3] = {0};
    ft_chat_parser *p;
    OK(ft_chat_parser_create(&p, true, tools, count_events, n, &rig_err));
    for (size_t i = 0; i < strlen(text); i++)
        OK(ft_chat_parser_put(p, text + i, 1, &rig_err));
    OK(ft_chat_parser_finish(p, &rig_err));
    ft_chat_parser_free(p);
    assert_int_equal(n[FT_CHAT_THINKING], 2);
    assert_int_equal(n[FT_CHAT_CONTENT], 3);
    assert_int_equal(n[FT_CHAT_TOOL_CALL], 1);
    FAILS(ft_chat_parser_create(&p, true, "{}", count_events, n, &rig_err), FT_FORMAT, "tools");
    assert_null(p);
    FAILS(ft_chat_parser_create(&p, true, NULL, NULL, NULL, &rig_err), FT_ARG, "callback");
    ft_chat_parser_free(NULL);
}

/* Catches a failed allocation that leaks or leaves half a prompt. */
static void test_chat_each_allocation_fails(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    int n_spared = 0;
    for (int k = 1;; k++) {
        ft_chat_prompt p;
        ft_error err = {0};
        long before = mem_count();
        mem_fail_at(k);
        ft_status st = ft_chat_render(m, request, strlen(request), &p, &err);
        bool failed = mem_count() - before >= k;
        mem_fail_at(0);
        assert_true((st == FT_OK) == (p.text != NULL));
        ft_chat_prompt_free(&p);
        if (!failed) {
            assert_int_equal(st, FT_OK);
            break;
        }
        if (st == FT_OK && ++n_spared <= 64)
            continue; /* PCRE2 does without memory for machine code */
        assert_int_equal(st, FT_NOMEM);
    }
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chat_prompt_has_text_tokens_and_marks),
        cmocka_unit_test(test_chat_without_a_model_is_text_alone),
        cmocka_unit_test(test_chat_failures_leave_nothing),
        cmocka_unit_test(test_chat_parser_tells_events),
        cmocka_unit_test(test_chat_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
