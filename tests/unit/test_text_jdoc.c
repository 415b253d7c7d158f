/* test_text_jdoc.c - JSON as a tree: what it takes and refuses, numbers and names as Python has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/slowdown.h"
#include "text/jdoc.h"

/* JSON in, JSON out as json.dumps prints it. */
static void expect(const char *json, const char *want)
{
    jdoc d;
    ft_error err = {0};
    if (jdoc_parse(&d, json, strlen(json), &err) != FT_OK)
        fail_msg("%s: %s", json, err.msg);
    buf out;
    buf_init(&out, 1 << 20);
    jdoc_print(&d, jdoc_root(&d), &out);
    assert_string_equal(buf_cstr(&out), want);
    buf_deinit(&out);
    jdoc_deinit(&d);
}

static void refuse(const char *json, size_t len, ft_status status, const char *words)
{
    jdoc d;
    ft_error err = {0};
    assert_int_equal(jdoc_parse(&d, json, len, &err), status);
    if (!strstr(err.msg, words))
        fail_msg("'%s', want '%s' in it", err.msg, words);
    assert_null(d.text);
    assert_null(d.node.data);
    jdoc_deinit(&d);
}

/* Would catch: separators, escapes and words that are not Python's, whitespace that is kept. */
static void test_jdoc_prints_as_python(void **state)
{
    (void)state;
    expect(" [ ] ", "[]");
    expect("{ }", "{}");
    expect("\t[1,2 ,[null,true,false] , {\"a\":{}}]\r\n",
           "[1, 2, [null, true, false], {\"a\": {}}]");
    expect("\"\\u0000\\u001f\\b\\f\\n\\r\\t\\\"\\\\\\/\x7f\"",
           "\"\\u0000\\u001f\\b\\f\\n\\r\\t\\\"\\\\/\x7f\"");
    expect("\"\\u00e9\\u20AC\\ud83d\\ude00\\uFFFF\\u0800\\u07ff\"",
           "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xEF\xBF\xBF\xE0\xA0\x80\xDF\xBF\"");
}

/* Would catch: digits lost in integers (jansson does), floats that are not Python's repr. */
static void test_jdoc_numbers_keep_their_value(void **state)
{
    (void)state;
    static const char *const number[][2] = {
        {"0", "0"},
        {"-0", "0"},
        {"-7", "-7"},
        {"1234567890123456789012345678901234567890", "1234567890123456789012345678901234567890"},
        {"1.0", "1.0"},
        {"-0.0", "-0.0"},
        {"1e5", "100000.0"},
        {"1E-5", "1e-05"},
        {"0.0001", "0.0001"},
        {"1e15", "1000000000000000.0"},
        {"1e16", "1e+16"},
        {"123456789.5e300", "1.234567895e+308"},
        {"0.1000", "0.1"},
        {"2.50e+0", "2.5"},
        {"5e-324", "5e-324"},
        {"1e-400", "0.0"},
        {"0e999999999999", "0.0"},
        {"9007199254740993.0", "9007199254740992.0"},
        {"3.14159265358979323846", "3.141592653589793"},
        {"7.120236347223045e-307", "7.120236347223045e-307"}, /* 2^-1017 */
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"4.35", "4.35"},
        {"100.0", "100.0"},
    };
    for (size_t i = 0; i < ARRAY_LEN(number); i++)
        expect(number[i][0], number[i][1]);
}

/* Would catch: a name twice that stands twice in the prompt, or counts with its first value. */
static void test_jdoc_name_twice_last_value_first_place(void **state)
{
    (void)state;
    expect("{\"a\":1,\"b\":2,\"a\":3}", "{\"a\": 3, \"b\": 2}");
    expect(
        "{\"a\":1,\"a\":[2,{\"x\":1,\"x\":2}],\"b\":0,\"c\":1,\"b\":{\"y\":1},\"c\":2,\"a\":[5]}",
        "{\"a\": [5], \"b\": {\"y\": 1}, \"c\": 2}");
    expect("{\"\\u0061\":1,\"ab\":2,\"a\":3,\"\":4,\"\":5}", "{\"a\": 3, \"ab\": 2, \"\": 5}");
}

/* Would catch: anything but JSON taken, and a place that is told wrongly. */
static void test_jdoc_malformed_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char *const text[][2] = {
        {"", "line 1, column 1: the end, want a value"},
        {" \n", "line 2, column 1: the end"},
        {"[1,\n 2,\n x]", "line 3, column 2: want a value"},
        {"[1,]", "column 4: want a value"},
        {"[1 2]", "column 4: want ',' or ']'"},
        {"[", "column 2: the end, want a value"},
        {"{\"a\" 1}", "want ':' behind a name"},
        {"{a:1}", "want a name in quotes"},
        {"{\"a\":1,}", "want a name in quotes"},
        {"{\"a\":1", "want ',' or '}'"},
        {"1 2", "more text behind the value"},
        {"[]]", "more text behind the value"},
        {"01", "more text behind the value"},
        {"-", "want a digit"},
        {"1.", "want a digit"},
        {"1e+", "want a digit"},
        {".5", "want a value"},
        {"+1", "want a value"},
        {"NaN", "want a value"},
        {"Infinity", "want a value"},
        {"1e400", "a number out of range"},
        {"-1.8e308", "a number out of range"},
        {"nul", "want a value"},
        {"'a'", "want a value"},
        {"\"a", "column 1: a string without an end"},
        {"\"a\\", "an unknown escape"},
        {"\"\\x\"", "an unknown escape"},
        {"\"\\u12g4\"", "four hexadecimal digits"},
        {"\"\\u12", "four hexadecimal digits"},
        {"\"\\ud800\"", "half of a surrogate pair"},
        {"\"\\ud800\\u0041\"", "half of a surrogate pair"},
        {"\"\\udc00\"", "half of a surrogate pair"},
        {"\"a\nb\"", "a control character in a string"},
        {"\"\xC3(\"", "invalid UTF-8"},
        {"\"\xED\xA0\x80\"", "invalid UTF-8"},
        {"\xEF\xBB\xBF{}", "want a value"},
    };
    for (size_t i = 0; i < ARRAY_LEN(text); i++)
        refuse(text[i][0], strlen(text[i][0]), FT_FORMAT, text[i][1]);
    refuse("[\0]", 3, FT_FORMAT, "want a value");
    refuse("\"\0\"", 3, FT_FORMAT, "a control character");
}

/* n times a, then n times b. */
static void put_nested(buf *b, const char *a, const char *c, int n)
{
    buf_clear(b);
    for (int i = 0; i < n; i++)
        buf_puts(b, a);
    for (int i = 0; i < n; i++)
        buf_puts(b, c);
}

/* Would catch: recursion without a limit. B107 */
static void test_jdoc_deep_nesting_is_refused(void **state)
{
    (void)state;
    static const int depth[] = {JDOC_MAX_DEPTH + 1, 1000, 100000, 1000000};
    buf b;
    buf_init(&b, 1 << 24);
    put_nested(&b, "[", "]", JDOC_MAX_DEPTH);
    jdoc d;
    assert_int_equal(jdoc_parse(&d, buf_cstr(&b), b.len, NULL), FT_OK);
    jdoc_deinit(&d);
    for (size_t i = 0; i < ARRAY_LEN(depth); i++) {
        put_nested(&b, "[", "]", depth[i]);
        refuse(buf_cstr(&b), b.len, FT_FORMAT, "nested more than 128 deep");
        put_nested(&b, "{\"a\":", "}", depth[i]);
        refuse(buf_cstr(&b), b.len, FT_FORMAT, "nested more than 128 deep");
    }
    buf_deinit(&b);
}

/* Would catch: sizes without a limit, and an object of many names that takes quadratic time. */
static void test_jdoc_large_documents(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, (size_t)1 << 26);
    buf_puts(&b, "[0");
    for (size_t i = 0; i < JDOC_MAX_NODE; i++)
        buf_puts(&b, ",0");
    buf_putc(&b, ']');
    refuse(buf_cstr(&b), b.len, FT_RANGE, "over 1048576 values");
    buf_clear(&b);
    memset(buf_extend(&b, JDOC_MAX_BYTES + 1), ' ', JDOC_MAX_BYTES + 1);
    refuse(buf_cstr(&b), b.len, FT_RANGE, "want at most 33554432");
    buf_clear(&b);
    for (int i = 0; i < 200000; i++)
        buf_printf(&b, "%s\"%d\":%d", i ? "," : "{", i % 150000, i);
    buf_putc(&b, '}');
    jdoc d;
    clock_t begin = clock();
    assert_int_equal(jdoc_parse(&d, buf_cstr(&b), b.len, NULL), FT_OK);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    int n = 0;
    for (const jdoc_node *v = jdoc_first(&d, jdoc_root(&d)); v; v = jdoc_next(&d, v))
        n++;
    assert_int_equal(n, 150000);
    assert_int_equal(jdoc_text(&d, jdoc_get(&d, jdoc_root(&d), "7")).len, 6); /* 150007 */
    assert_true(seconds < TEST_SLOWDOWN);
    jdoc_deinit(&d);
    char digits[1100];
    memset(digits, '1', sizeof digits);
    digits[1] = '.';
    refuse(digits, JDOC_MAX_FLOAT + 1, FT_FORMAT, "over 1000 characters");
    buf_deinit(&b);
}

/* Would catch: null taken for a value, members of other kinds, names that only begin alike. */
static void test_jdoc_looking_up(void **state)
{
    (void)state;
    static const char json[] = "{\"a\":null,\"bc\":\"x\",\"b\":[7],\"d\":\"\"}";
    jdoc d;
    assert_int_equal(jdoc_parse(&d, json, strlen(json), NULL), FT_OK);
    const jdoc_node *root = jdoc_root(&d);
    assert_null(jdoc_get(&d, root, "a"));
    assert_null(jdoc_get(&d, root, "e"));
    assert_null(jdoc_get(&d, NULL, "a"));
    const jdoc_node *b = jdoc_get(&d, root, "b");
    assert_true(jdoc_is(b, JDOC_ARRAY));
    assert_null(jdoc_get(&d, b, "a"));
    assert_true(jdoc_str_is(jdoc_text(&d, jdoc_first(&d, b)), "7"));
    assert_null(jdoc_next(&d, jdoc_first(&d, b)));
    assert_true(jdoc_str_is(jdoc_text(&d, jdoc_get(&d, root, "bc")), "x"));
    assert_true(jdoc_is(jdoc_get(&d, root, "d"), JDOC_STRING));
    assert_string_equal(jdoc_kind_name(jdoc_first(&d, root)), "null");
    assert_string_equal(jdoc_kind_name(NULL), "absent");
    jdoc_deinit(&d);
}

/* Would catch: a failed allocation that leaks, crashes, or reads as success. */
static void test_jdoc_each_allocation_fails(void **state)
{
    (void)state;
    static const char json[] = "{\"a\":[1,2,3,4,5,6,7,8,9],\"b\":{\"x\":1,\"y\":2,\"x\":3}}";
    for (int k = 1;; k++) {
        jdoc d;
        ft_error err = {0};
        long before = mem_count();
        mem_fail_at(k);
        ft_status st = jdoc_parse(&d, json, strlen(json), &err);
        bool failed = mem_count() - before >= k;
        mem_fail_at(0);
        jdoc_deinit(&d);
        if (!failed) {
            assert_int_equal(st, FT_OK);
            assert_true(k > 3);
            return;
        }
        assert_int_equal(st, FT_NOMEM);
        assert_true(err.msg[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jdoc_prints_as_python),
        cmocka_unit_test(test_jdoc_numbers_keep_their_value),
        cmocka_unit_test(test_jdoc_name_twice_last_value_first_place),
        cmocka_unit_test(test_jdoc_malformed_is_refused_with_its_place),
        cmocka_unit_test(test_jdoc_deep_nesting_is_refused),
        cmocka_unit_test(test_jdoc_large_documents),
        cmocka_unit_test(test_jdoc_looking_up),
        cmocka_unit_test(test_jdoc_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
