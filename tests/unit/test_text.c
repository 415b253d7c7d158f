/* test_text.c - encoding: special tokens, normalisation, invalid bytes, limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/toy_tok.h"

enum { HE = 256, LL, HELL, OPEN, CLOSE, END, THINK, LONG, UNUSED };

static toy_vocab toy;

/* "he", "ll", "hell"; <|s|> <|e|> <|im_end|> control, <t> and <t>! user-defined, an unused one. */
static tokenizer *make(const char *pre)
{
    toy_init(&toy);
    toy.src.pre = (gguf_str){pre, strlen(pre)};
    assert_int_equal(toy_merge(&toy, "h", "e"), HE);
    assert_int_equal(toy_merge(&toy, "l", "l"), LL);
    assert_int_equal(toy_merge(&toy, "he", "ll"), HELL);
    assert_int_equal(toy_special(&toy, "<|s|>", TOKEN_CONTROL), OPEN);
    assert_int_equal(toy_special(&toy, "<|e|>", TOKEN_CONTROL), CLOSE);
    assert_int_equal(toy_special(&toy, "<|im_end|>", TOKEN_CONTROL), END);
    assert_int_equal(toy_special(&toy, "<t>", TOKEN_USER_DEFINED), THINK);
    assert_int_equal(toy_special(&toy, "<t>!", TOKEN_USER_DEFINED), LONG);
    assert_int_equal(toy_special(&toy, "[PAD]", TOKEN_UNUSED), UNUSED);
    tokenizer *t;
    ft_error err = {0};
    if (tok_create(&t, &toy.src, &err) != FT_OK)
        fail_msg("%s", err.msg);
    return t;
}

static int setup(void **state)
{
    *state = make("qwen35");
    return 0;
}

static int teardown(void **state)
{
    tok_close(*state);
    return 0;
}

static void decode(const tokenizer *t, const buf *ids, buf *out)
{
    for (size_t i = 0; i < ids->len; i += sizeof(int32_t)) {
        int32_t id;
        size_t n;
        memcpy(&id, ids->data + i, sizeof id);
        const char *s = tok_bytes(t, id, false, &n);
        buf_put(out, s, n);
    }
}

/* text[n] gives the n_want ids, and these give back[n_back]. */
static void expect(const tokenizer *t, const char *text, size_t n, tok_mode mode,
                   const int32_t *want, size_t n_want, const char *back, size_t n_back)
{
    buf ids, out;
    buf_init(&ids, 1 << 20);
    buf_init(&out, 1 << 20);
    ft_error err = {0};
    assert_int_equal(tok_encode(t, text, n, mode, &ids, &err), FT_OK);
    if (want) {
        assert_int_equal(ids.len, n_want * sizeof *want);
        if (n_want)
            assert_memory_equal(ids.data, want, ids.len);
    }
    decode(t, &ids, &out);
    assert_int_equal(out.len, n_back);
    if (n_back)
        assert_memory_equal(out.data, back, n_back);
    buf_deinit(&ids);
    buf_deinit(&out);
}

#define IDS(...)              (const int32_t[]){__VA_ARGS__}, ARRAY_LEN(((const int32_t[]){__VA_ARGS__}))
#define SAME(s)               (s), sizeof(s) - 1
#define ROUND_TRIP(t, s)      expect((t), SAME(s), TOK_PLAIN, NULL, 0, SAME(s))
#define BECOMES(t, s, result) expect((t), SAME(s), TOK_PLAIN, NULL, 0, SAME(result))

/* Would catch: a merge missed, or made across pieces. */
static void test_encode_words_are_merged_within_pieces(void **state)
{
    expect(*state, SAME("hello"), TOK_PLAIN, IDS(HELL, 'o'), SAME("hello"));
    expect(*state, SAME("h ell"), TOK_PLAIN, IDS('h', ' ', 'e', LL), SAME("h ell"));
    expect(*state, SAME("h1e"), TOK_PLAIN, IDS('h', '1', 'e'), SAME("h1e"));
    expect(*state, SAME(""), TOK_PARSE_SPECIAL, NULL, 0, SAME(""));
}

/* Would catch: text equal to a special token not found, a longer one not preferred, a near miss
 * taken for one, text beside it lost. */
static void test_encode_parse_special_finds_leftmost_longest(void **state)
{
    expect(*state, SAME("he<|s|>ll<|e|>"), TOK_PARSE_SPECIAL, IDS(HE, OPEN, LL, CLOSE),
           SAME("he<|s|>ll<|e|>"));
    expect(*state, SAME("<t>!<t><|s|><t"), TOK_PARSE_SPECIAL, IDS(LONG, THINK, OPEN, '<', 't'),
           SAME("<t>!<t><|s|><t"));
    expect(*state, SAME("<<|s|>|s|>"), TOK_PARSE_SPECIAL, IDS('<', OPEN, '|', 's', '|', '>'),
           SAME("<<|s|>|s|>"));
    expect(*state, SAME("[PAD]"), TOK_PARSE_SPECIAL, IDS('[', 'P', 'A', 'D', ']'), SAME("[PAD]"));
}

/* B106. Would catch: user text that closes its own turn. */
static void test_encode_plain_special_text_stays_text(void **state)
{
    static const char *const texts[] = {"<|s|>", "<|e|>", "<|im_end|>", "<t>", "<t>!"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        buf ids;
        buf_init(&ids, 1 << 10);
        size_t n = strlen(texts[i]);
        assert_int_equal(tok_encode(*state, texts[i], n, TOK_PLAIN, &ids, NULL), FT_OK);
        assert_int_equal(ids.len, n * sizeof(int32_t)); /* no merges among these bytes */
        for (size_t k = 0; k < n; k++) {
            int32_t id;
            memcpy(&id, ids.data + k * sizeof id, sizeof id);
            assert_int_equal(id, (unsigned char)texts[i][k]);
        }
        buf_deinit(&ids);
    }
}

/* Would catch: special tokens looked for after normalisation: '>' and U+0338 compose to U+226F. */
static void test_encode_special_is_found_before_normalisation(void **state)
{
    expect(*state, SAME("<|s|>\xCC\xB8"), TOK_PARSE_SPECIAL, IDS(OPEN, 0xCC, 0xB8),
           SAME("<|s|>\xCC\xB8"));
    BECOMES(*state, "<|s|>\xCC\xB8", "<|s|\xE2\x89\xAF");
}

/* Would catch: composition, order of marks, Hangul, exclusions, or a mark lost at a segment's edge. */
static void test_encode_text_is_normalised_to_nfc(void **state)
{
    BECOMES(*state, "e\xCC\x81", "\xC3\xA9");
    BECOMES(*state, "xe\xCC\x81y", "x\xC3\xA9y");
    BECOMES(*state, "\xC3\xA9\xCC\xA3", "\xE1\xBA\xB9\xCC\x81"); /* e' . -> e. ' */
    BECOMES(*state, "q\xCC\x87\xCC\xA3", "q\xCC\xA3\xCC\x87");
    BECOMES(*state, "\xE2\x84\xAB", "\xC3\x85");                             /* angstrom sign */
    BECOMES(*state, "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81"); /* Hangul */
    BECOMES(*state, "\xE0\xA5\x98", "\xE0\xA4\x95\xE0\xA4\xBC"); /* composition exclusion */
    BECOMES(*state, "\xF0\x9D\x85\x9E", "\xF0\x9D\x85\x97\xF0\x9D\x85\xA5");
    BECOMES(*state, "\xE1\xBE\x82", "\xE1\xBE\x82"); /* four code points and back */
    ROUND_TRIP(*state, "\xC3\xA9 \xE4\xB8\x80 \xCC\x81\xCC\x81");
}

/* Would catch: invalid bytes dropped, replaced, or normalised with their neighbours; NUL as an end. */
static void test_encode_invalid_bytes_come_back(void **state)
{
    ROUND_TRIP(*state, "\x80");
    ROUND_TRIP(*state, "a\xFF\xFE z\xC3");
    ROUND_TRIP(*state, "\xC3\x28\xED\xA0\x80\xC0\x80\xF4\x90\x80\x80\xE4\xB8");
    ROUND_TRIP(*state, "a\0b\0");
    BECOMES(*state,
            "\xFF"
            "e\xCC\x81\xFF\xCC\x81",
            "\xFF\xC3\xA9\xFF\xCC\x81");
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            char s[] = {'e', (char)a, (char)b, (char)0xFF};
            if (a >= 0xCC && a <= 0xCE)
                continue; /* U+0300..U+03BF: some of them compose with e, or change alone */
            expect(*state, s, sizeof s, TOK_PARSE_SPECIAL, NULL, 0, s, sizeof s);
        }
}

/* Would catch: PCRE2's own \s, which takes U+180E for a space (it is none since Unicode 6.3), and
 * a white space beyond ASCII that is taken for a letter or a sign. */
static void test_split_white_space_is_unicode_white_space(void **state)
{
    (void)state;
    tokenizer *t;
    toy_init(&toy);
    int32_t spaces = toy_merge(&toy, "\n", " "), a = toy_merge(&toy, "\xA0", "!");
    int32_t b = toy_merge(&toy, "\x8E", "!");
    assert_int_equal(tok_create(&t, &toy.src, NULL), FT_OK);
    expect(t, SAME("\n  "), TOK_PLAIN, IDS('\n', ' ', ' '), SAME("\n  "));
    expect(t, SAME("\r\n !"), TOK_PLAIN, IDS('\r', '\n', ' ', '!'), SAME("\r\n !"));
    expect(t, SAME("\xC2\xA0!"), TOK_PLAIN, IDS(0xC2, 0xA0, '!'), SAME("\xC2\xA0!"));
    expect(t, SAME("\xE1\xA0\x8E!"), TOK_PLAIN, IDS(0xE1, 0xA0, b), SAME("\xE1\xA0\x8E!"));
    assert_true(spaces > 0 && a > 0);
    tok_close(t);
}

/* Would catch: the two rules mixed up. A mark is part of a word for qwen35, not for qwen2. */
static void test_split_marks_belong_to_words_in_qwen35_only(void **state)
{
    (void)state;
    static const char *const pre[] = {"qwen35", "qwen2"};
    for (int i = 0; i < 2; i++) {
        toy_init(&toy);
        toy.src.pre = (gguf_str){pre[i], strlen(pre[i])};
        int32_t both = toy_merge(&toy, "q", "\xCC"); /* q and the first byte of U+0301 */
        tokenizer *t;
        assert_int_equal(tok_create(&t, &toy.src, NULL), FT_OK);
        if (i == 0)
            expect(t, SAME("q\xCC\x81"), TOK_PLAIN, IDS(both, 0x81), SAME("q\xCC\x81"));
        else
            expect(t, SAME("q\xCC\x81"), TOK_PLAIN, IDS('q', 0xCC, 0x81), SAME("q\xCC\x81"));
        tok_close(t);
    }
}

/* B021. Would catch: an absent id (-1) that equals an end, or is used as an index. */
static void test_ids_absent_and_out_of_range_are_nothing(void **state)
{
    const tokenizer *t = *state;
    static const int32_t bad[] = {-1, INT32_MIN, INT32_MAX, UNUSED + 1};
    assert_int_equal(tok_n_vocab(t), UNUSED + 1);
    assert_int_equal(tok_eos(t), -1);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        size_t n = 1;
        assert_false(tok_is_end(t, bad[i]));
        assert_false(tok_is_special(t, bad[i]));
        assert_non_null(tok_bytes(t, bad[i], false, &n));
        assert_int_equal(n, 0);
        detok d = {0};
        buf out;
        buf_init(&out, 16);
        detok_put(&d, t, bad[i], false, &out);
        detok_flush(&d, &out);
        assert_int_equal(out.len, 0);
        buf_deinit(&out);
    }
}

/* Would catch: an end token missed, or a user-defined one skipped with the control tokens. */
static void test_questions_about_tokens_are_answered(void **state)
{
    const tokenizer *t = *state;
    size_t n;
    assert_true(tok_is_end(t, END)); /* by its text */
    assert_false(tok_is_end(t, OPEN));
    assert_true(tok_is_special(t, OPEN));
    assert_false(tok_is_special(t, THINK));
    assert_int_equal(tok_find(t, "<|e|>", 5), CLOSE);
    assert_int_equal(tok_find(t, "hell", 4), HELL);
    assert_int_equal(tok_find(t, "hel", 3), -1);
    assert_int_equal(tok_find(t, "", 0), -1);
    assert_memory_equal(tok_bytes(t, THINK, true, &n), "<t>", 3);
    assert_int_equal(n, 3);
    (void)tok_bytes(t, OPEN, true, &n);
    assert_int_equal(n, 0);
    assert_memory_equal(tok_bytes(t, OPEN, false, &n), "<|s|>", 5);

    toy.src.eos = HE;
    toy.src.eot = LL;
    tokenizer *other;
    assert_int_equal(tok_create(&other, &toy.src, NULL), FT_OK);
    assert_int_equal(tok_eos(other), HE);
    assert_true(tok_is_end(other, HE) && tok_is_end(other, LL) && tok_is_end(other, END));
    tok_close(other);
}

/* Would catch: ids that keep a part of a text that did not fit, or lose what was there. */
static void test_encode_over_the_limit_leaves_ids_unchanged(void **state)
{
    buf ids;
    buf_init(&ids, 3 * sizeof(int32_t));
    ft_error err = {0};
    assert_int_equal(tok_encode(*state, "he", 2, TOK_PLAIN, &ids, &err), FT_OK);
    assert_int_equal(tok_encode(*state, "x<|s|>y", 7, TOK_PARSE_SPECIAL, &ids, &err), FT_RANGE);
    assert_non_null(strstr(err.msg, "over 3 tokens"));
    assert_int_equal(ids.len, sizeof(int32_t));
    assert_false(ids.failed);
    assert_int_equal(tok_encode(*state, "x<|s|>", 6, TOK_PARSE_SPECIAL, &ids, NULL), FT_OK);
    assert_memory_equal(ids.data, ((int32_t[]){HE, 'x', OPEN}), sizeof(int32_t[3]));
    buf_deinit(&ids);
}

/* Would catch: a leak, a crash or a half result when any one allocation fails. */
static void test_encode_each_allocation_failing_leaves_ids_unchanged(void **state)
{
    static const char text[] = "hello <|s|> e\xCC\x81 \xFF \xE4\xB8\x80 and more text than before";
    buf ids;
    buf_init(&ids, 1 << 10);
    for (long n = 1;; n++) {
        ft_error err = {0};
        buf_deinit(&ids); /* so that its own growth is among the failures */
        long before = mem_count();
        mem_fail_at(n);
        ft_status st = tok_encode(*state, text, sizeof text - 1, TOK_PARSE_SPECIAL, &ids, &err);
        mem_fail_at(0);
        if (mem_count() - before < n) {
            assert_int_equal(st, FT_OK);
            assert_true(n > 6);
            break;
        }
        if (st != FT_OK) {
            assert_int_equal(st, FT_NOMEM);
            assert_int_equal(ids.len, 0);
            assert_false(ids.failed);
            assert_true(err.msg[0] != '\0');
        }
    }
    buf_deinit(&ids);
}

/* Would catch: the same while the tokenizer is made. */
static void test_create_each_allocation_failing_is_a_status(void **state)
{
    (void)state; /* make() of the setup has filled toy */
    for (long n = 1;; n++) {
        ft_error err = {0};
        tokenizer *t = NULL;
        long before = mem_count();
        mem_fail_at(n);
        ft_status st = tok_create(&t, &toy.src, &err);
        mem_fail_at(0);
        bool reached = mem_count() - before >= n;
        if (st == FT_OK) {
            tok_close(t); /* the compiled fast path is optional: its failure is none */
        } else {
            assert_int_equal(st, FT_NOMEM);
            assert_null(t);
            assert_true(err.msg[0] != '\0');
        }
        if (!reached) {
            assert_int_equal(st, FT_OK);
            assert_true(n > 10);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode_words_are_merged_within_pieces),
        cmocka_unit_test(test_encode_parse_special_finds_leftmost_longest),
        cmocka_unit_test(test_encode_plain_special_text_stays_text),
        cmocka_unit_test(test_encode_special_is_found_before_normalisation),
        cmocka_unit_test(test_encode_text_is_normalised_to_nfc),
        cmocka_unit_test(test_encode_invalid_bytes_come_back),
        cmocka_unit_test(test_ids_absent_and_out_of_range_are_nothing),
        cmocka_unit_test(test_encode_over_the_limit_leaves_ids_unchanged),
        cmocka_unit_test(test_encode_each_allocation_failing_leaves_ids_unchanged),
        cmocka_unit_test(test_create_each_allocation_failing_is_a_status),
        cmocka_unit_test(test_questions_about_tokens_are_answered),
        cmocka_unit_test(test_split_white_space_is_unicode_white_space),
        cmocka_unit_test(test_split_marks_belong_to_words_in_qwen35_only),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
