/* test_text_detok.c - token bytes to whole characters, as they come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "support/slowdown.h"
#include "support/toy_tok.h"

static toy_vocab toy;

static int setup(void **state)
{
    toy_init(&toy);
    return tok_create((tokenizer **)state, &toy.src, NULL) == FT_OK ? 0 : -1;
}

static int teardown(void **state)
{
    tok_close(*state);
    return 0;
}

/* bytes[n], one token each, give want. */
static void expect(const tokenizer *t, const char *bytes, size_t n, const char *want)
{
    detok d = {0};
    buf out;
    buf_init(&out, 1 << 10);
    for (size_t i = 0; i < n; i++)
        detok_put(&d, t, (unsigned char)bytes[i], true, &out);
    detok_flush(&d, &out);
    assert_int_equal(d.n_tail, 0);
    assert_string_equal(buf_cstr(&out), want);
    buf_deinit(&out);
}

#define GIVES(t, s, want) expect((t), (s), sizeof(s) - 1, (want))
#define FFFD              "\xEF\xBF\xBD"

/* B103. Would catch: an invalid byte that ends the text, is passed on, or swallows its neighbour.
 * The examples are those of Unicode 15, tables 3-8 to 3-11: one mark for each maximal subpart. */
static void test_detok_invalid_bytes_become_replacement_characters(void **state)
{
    GIVES(*state, "\x80", FFFD);
    GIVES(*state, "\xC3\x28", FFFD "(");
    GIVES(*state, "\xED\xA0\x80", FFFD FFFD FFFD);
    GIVES(*state, "\xFF", FFFD);
    GIVES(*state, "\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41",
          FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
    GIVES(*state, "\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41",
          FFFD FFFD FFFD FFFD FFFD FFFD FFFD FFFD "A");
    GIVES(*state, "\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42",
          FFFD FFFD FFFD FFFD FFFD "A" FFFD FFFD "B");
    GIVES(*state, "\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", FFFD FFFD FFFD FFFD "A");
    GIVES(*state, "\xE4\xB8\xE4\xB8\x80", FFFD "\xE4\xB8\x80");
}

/* Would catch: a cut character lost at the end of the text, or marked byte by byte. */
static void test_detok_end_inside_a_character_gives_one_mark(void **state)
{
    GIVES(*state, "a\xF0", "a" FFFD);
    GIVES(*state, "a\xF0\x9F", "a" FFFD);
    GIVES(*state, "a\xF0\x9F\x98", "a" FFFD);
    GIVES(*state, "a\xF0\x9F\x98\x80", "a\xF0\x9F\x98\x80");
}

static size_t put_char(char *out, uint32_t c)
{
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 63));
        out[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 63));
    out[2] = (char)(0x80 | (c >> 6 & 63));
    out[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* B104. Would catch: the same, for all 1,111,936 characters beyond ASCII, byte by byte. */
static void test_detok_every_character_byte_by_byte_comes_out_at_its_last(void **state)
{
    buf out;
    buf_init(&out, 64);
    for (uint32_t c = 0x80; c <= 0x10FFFF; c++) {
        if (c == 0xD800)
            c = 0xE000;
        char bytes[4];
        size_t n = put_char(bytes, c);
        detok d = {0};
        buf_clear(&out);
        for (size_t i = 0; i + 1 < n; i++)
            detok_put(&d, *state, (unsigned char)bytes[i], true, &out);
        bool early = out.len > 0;
        detok_put(&d, *state, (unsigned char)bytes[n - 1], true, &out);
        if (early || out.len != n || memcmp(out.data, bytes, n) != 0 || d.n_tail != 0)
            fail_msg("U+%04X", c);
    }
    buf_deinit(&out);
}

/* B104. Would catch: a character cut over tokens that comes out damaged, early or twice. Every
 * 2-byte character, many of 3 and 4 bytes, every cut: "x" and the character's head in one token, its tail and "y" in
 * another, decoded through a copy of the state as a rollback would. */
static void test_detok_each_character_cut_at_each_byte_comes_out_whole(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 64);
    for (uint32_t c = 0x80; c <= 0x10FFFF; c += c < 0x800 ? 1 : 197) {
        if (c >= 0xD800 && c <= 0xDFFF)
            continue;
        char whole[6] = "x";
        size_t n = put_char(whole + 1, c);
        whole[n + 1] = 'y';
        toy_init(&toy);
        int32_t id[4];
        for (size_t cut = 1; cut < n; cut++) {
            char head[6] = {0}, tail[6] = {0};
            memcpy(head, whole, cut + 1);
            memcpy(tail, whole + cut + 1, n + 1 - cut);
            id[cut] = toy_token(&toy, toy_alphabet(&toy, head, cut + 1), TOKEN_NORMAL);
            toy_token(&toy, toy_alphabet(&toy, tail, n + 1 - cut), TOKEN_NORMAL);
        }
        tokenizer *t;
        assert_int_equal(tok_create(&t, &toy.src, NULL), FT_OK);
        for (size_t cut = 1; cut < n; cut++) {
            detok d = {0};
            buf_clear(&out);
            detok_put(&d, t, id[cut], true, &out);
            assert_int_equal(out.len, 1); /* the character's head is held back */
            detok saved = d;
            detok_put(&d, t, 'z', true, &out); /* a token that is then rolled back */
            d = saved;
            out.len = 1;
            detok_put(&d, t, id[cut] + 1, true, &out);
            assert_int_equal(out.len, n + 2);
            assert_memory_equal(out.data, whole, n + 2);
            assert_int_equal(d.n_tail, 0);
        }
        tok_close(t);
    }
    buf_deinit(&out);
}

/* Would catch: a control token's text in the answer, or a user-defined one's missing. */
static void test_detok_skips_control_tokens_only(void **state)
{
    (void)state;
    toy_init(&toy);
    int32_t end = toy_special(&toy, "<|im_end|>", TOKEN_CONTROL);
    int32_t think = toy_special(&toy, "<think>", TOKEN_USER_DEFINED);
    tokenizer *t;
    assert_int_equal(tok_create(&t, &toy.src, NULL), FT_OK);
    detok d = {0};
    buf out;
    buf_init(&out, 64);
    detok_put(&d, t, 0xE4, true, &out);
    detok_put(&d, t, end, true, &out); /* no text: the held bytes stay held */
    detok_put(&d, t, 0xB8, true, &out);
    detok_put(&d, t, 0x80, true, &out);
    detok_put(&d, t, think, true, &out);
    detok_put(&d, t, end, false, &out);
    assert_string_equal(buf_cstr(&out), "\xE4\xB8\x80<think><|im_end|>");
    buf_deinit(&out);
    tok_close(t);
}

static double time_tokens(const tokenizer *t, const int32_t *id, size_t n_id, int n)
{
    detok d = {0};
    buf out;
    buf_init(&out, 1 << 26);
    clock_t begin = clock();
    for (int i = 0; i < n; i++)
        detok_put(&d, t, id[(size_t)i % n_id], true, &out);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    buf_deinit(&out);
    return seconds;
}

/* B105. Would catch: work that grows with the text before. Quadratic, these would take minutes. */
static void test_detok_50000_partial_tokens_take_linear_time(void **state)
{
    static const int32_t lead[] = {0xF0}, part[] = {0xF0, 0x9F}, none[] = {0x10FFFF},
                         stray[] = {0x80};
    assert_true(time_tokens(*state, lead, 1, 50000) < 0.5 * TEST_SLOWDOWN);
    assert_true(time_tokens(*state, part, 2, 50000) < 0.5 * TEST_SLOWDOWN);
    assert_true(time_tokens(*state, none, 1, 50000) < 0.5 * TEST_SLOWDOWN);
    assert_true(time_tokens(*state, stray, 1, 50000) < 0.5 * TEST_SLOWDOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_detok_invalid_bytes_become_replacement_characters),
        cmocka_unit_test(test_detok_end_inside_a_character_gives_one_mark),
        cmocka_unit_test(test_detok_50000_partial_tokens_take_linear_time),
        cmocka_unit_test(test_detok_skips_control_tokens_only),
        cmocka_unit_test(test_detok_every_character_byte_by_byte_comes_out_at_its_last),
        cmocka_unit_test(test_detok_each_character_cut_at_each_byte_comes_out_whole),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
