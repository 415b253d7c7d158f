/* Tests of the safetensors reader: well formed files, and headers that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "convert/safetensors.h"
#include "support/hf_make.h"

/* Parse header + n_data zero bytes from a block of exactly that size. */
static ft_status parse_text(const char *header, size_t n_data, st_file *f, ft_error *err,
                            uint8_t **keep)
{
    size_t n = strlen(header);
    uint64_t len = n;
    uint8_t *bytes = calloc(1, 8 + n + n_data);
    assert_non_null(bytes);
    memcpy(bytes, &len, 8);
    memcpy(bytes + 8, header, n);
    ft_status st = st_parse(f, bytes, 8 + n + n_data, err);
    *keep = bytes;
    return st;
}

/* The header is refused with this status and a message that has `word`; nothing stays behind. */
static void refuse(const char *header, size_t n_data, ft_status want, const char *word)
{
    st_file f;
    ft_error err = {0};
    uint8_t *bytes;
    ft_status st = parse_text(header, n_data, &f, &err, &bytes);
    if (st != want || !strstr(err.msg, word))
        fail_msg("%s\n  -> %d '%s', want %d '%s'", header, st, err.msg, want, word);
    assert_null(f.tensor);
    assert_null(f.names);
    free(bytes);
}

#define T(dtype, shape, offsets) \
    "{\"a\": {\"dtype\": \"" dtype "\", \"shape\": " shape ", \"data_offsets\": " offsets "}}"

/* Bug: shapes turned around, data off by the header's length. */
static void test_parse_good_file_lists_tensors(void **state)
{
    (void)state;
    hf_make m;
    buf b;
    buf_init(&b, 1 << 20);
    hf_make_toy(&m, "F32", 1);
    hf_make_bytes(&m, 0, m.n, &b);
    st_file f;
    ft_error err = {0};
    assert_int_equal(st_parse(&f, b.data, b.len, &err), FT_OK);
    assert_int_equal(f.n_tensor, m.n);
    for (int i = 0; i < m.n; i++) {
        const st_tensor *t = &f.tensor[i]; /* in order of the data, as written */
        assert_string_equal(t->name, m.t[i].name);
        assert_int_equal(t->type, ST_F32);
        assert_int_equal(t->n_dim, m.t[i].n_dim);
        for (int k = 0; k < t->n_dim; k++)
            assert_int_equal(t->dim[k], m.t[i].dim[k]);
        float v;
        memcpy(&v, t->data + 4 * (t->n - 1), 4);
        assert_true(v == hf_value(t->name, t->n - 1));
    }
    st_free(&f);
    buf_deinit(&b);
}

/* Bug: an empty file, a scalar, an empty tensor or spaces behind the JSON refused. */
static void test_parse_unusual_but_legal_is_accepted(void **state)
{
    (void)state;
    static const char *const good[] = {"{}  ", "{\"__metadata__\": {\"x\": \"y\"}}",
                                       T("F32", "[]", "[0, 4]"), T("F32", "[0, 7]", "[4, 4]"),
                                       T("F8_E4M3", "[2, 3]", "[1, 7]")};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        st_file f;
        ft_error err = {0};
        uint8_t *bytes;
        assert_int_equal(parse_text(good[i], 8, &f, &err, &bytes), FT_OK);
        st_free(&f);
        free(bytes);
    }
}

/* B095, B097: offsets and shapes whose sums or products wrap, or leave the file. */
static void test_parse_lying_numbers_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header, *word;
    } bad[] = {
        {T("F32", "[2]", "[0, 12]"), "12 bytes, want 2 values"},
        {T("F32", "[4]", "[0, 16]"), "leave the 12 bytes"},
        {T("F32", "[1]", "[8, 4]"), "data_offsets"},
        {T("F32", "[1]", "[-4, 0]"), "data_offsets"},
        {T("F32", "[1]", "[9223372036854775804, 9223372036854775807]"), "leave"},
        {T("F32", "[1]", "[0, 9223372036854775808]"), "integer"},
        {T("F32", "[1]", "[0]"), "data_offsets"},
        {T("F32", "[1]", "[0, 4, 8]"), "data_offsets"},
        {T("F32", "[1]", "{\"0\": 4}"), "data_offsets"},
        {T("F32", "[1]", "[0, 4.0]"), "data_offsets"},
        {T("F32", "[4294967296, 4294967296]", "[0, 0]"), "overflows"},
        {T("F64", "[4611686018427387904]", "[0, 0]"), "0 bytes, want"},
        {T("F32", "[-1]", "[0, 4]"), "shape[0]"},
        {T("F32", "[\"1\"]", "[0, 4]"), "shape[0]"},
        {T("F32", "[1.5]", "[0, 4]"), "shape[0]"},
        {T("F32", "7", "[0, 4]"), "shape"},
        {T("F32", "[1,1,1,1,1,1,1,1,1]", "[0, 4]"), "shape"},
        {"{\"a\": 5}", "no JSON object"},
        {"{\"a\": {}}", "dtype"},
        {"{\"a\": {\"dtype\": 5}}", "dtype"},
        {"[]", "no JSON object"},
        {"", "header"},
        {"{", "header"},
        {"{\"a\": ", "header"},
        {"\xff\xfe{}", "header"},
        {"{\"a\\u0000b\": {}}", "header"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        refuse(bad[i].header, 12, FT_FORMAT, bad[i].word);
    refuse(T("Q9", "[1]", "[0, 4]"), 12, FT_UNSUPPORTED, "Q9");
}

#define TWO(n1, o1, n2, o2)                                                              \
    "{\"" n1 "\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": " o1 "}, \"" n2 \
    "\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": " o2 "}}"

/* B095: two tensors that share bytes; the same name twice. */
static void test_parse_overlaps_and_twins_are_refused(void **state)
{
    (void)state;
    refuse(TWO("a", "[0, 8]", "b", "[4, 12]"), 12, FT_FORMAT, "overlap");
    refuse(TWO("a", "[0, 8]", "b", "[0, 8]"), 12, FT_FORMAT, "overlap");
    refuse(TWO("b", "[4, 12]", "a", "[0, 8]"), 12, FT_FORMAT, "'a' and 'b' overlap");
    refuse(TWO("a", "[0, 8]", "a", "[8, 16]"), 16, FT_FORMAT, "duplicate");
}

/* B097: a header length that is not the file's. */
static void test_parse_header_length_past_file_is_refused(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {3, 100, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        uint8_t *bytes = malloc(10);
        assert_non_null(bytes);
        memcpy(bytes, &lengths[i], 8);
        memcpy(bytes + 8, "{}", 2);
        st_file f;
        ft_error err = {0};
        assert_int_equal(st_parse(&f, bytes, 10, &err), FT_FORMAT);
        assert_non_null(strstr(err.msg, "header of"));
        free(bytes);
    }
}

/* B097: recursion without end. */
static void test_parse_deep_json_is_refused(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    char *text = malloc(DEPTH + 16);
    assert_non_null(text);
    memcpy(text, "{\"a\":", 5);
    memset(text + 5, '[', DEPTH);
    text[5 + DEPTH] = '\0';
    refuse(text, 0, FT_FORMAT, "depth");
    free(text);
}

/* B095: a download cut anywhere; a read past the end shows under the sanitizer. */
static void test_parse_every_cut_is_refused(void **state)
{
    (void)state;
    hf_make m;
    buf b;
    buf_init(&b, 1 << 20);
    hf_make_toy(&m, "BF16", 0);
    hf_make_bytes(&m, 0, 3, &b);
    for (size_t n = 0; n < b.len; n++) {
        uint8_t *cut = malloc(n ? n : 1);
        assert_non_null(cut);
        memcpy(cut, b.data, n);
        st_file f;
        ft_error err = {0};
        assert_int_equal(st_parse(&f, cut, n, &err), FT_FORMAT);
        assert_true(err.msg[0] != '\0');
        free(cut);
    }
    buf_deinit(&b);
}

/* Bug: a header byte that changes the meaning crashes instead of being refused or read. */
static void test_parse_any_changed_byte_never_crashes(void **state)
{
    (void)state;
    hf_make m;
    buf b;
    buf_init(&b, 1 << 20);
    hf_make_toy(&m, "BF16", 0);
    hf_make_bytes(&m, 0, 2, &b);
    static const uint8_t other[] = {0, '"', '9', '-', ']', '}', ',', 0xff, 'e', '\\'};
    for (size_t i = 0; i < 300 && i < b.len; i++) {
        uint8_t old = b.data[i];
        for (size_t k = 0; k < ARRAY_LEN(other); k++) {
            b.data[i] = other[k];
            st_file f;
            ft_error err = {0};
            ft_status st = st_parse(&f, b.data, b.len, &err);
            assert_true(st == FT_OK || err.msg[0] != '\0');
            st_free(&f);
        }
        b.data[i] = old;
    }
    buf_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_good_file_lists_tensors),
        cmocka_unit_test(test_parse_unusual_but_legal_is_accepted),
        cmocka_unit_test(test_parse_lying_numbers_are_refused),
        cmocka_unit_test(test_parse_overlaps_and_twins_are_refused),
        cmocka_unit_test(test_parse_header_length_past_file_is_refused),
        cmocka_unit_test(test_parse_deep_json_is_refused),
        cmocka_unit_test(test_parse_every_cut_is_refused),
        cmocka_unit_test(test_parse_any_changed_byte_never_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
