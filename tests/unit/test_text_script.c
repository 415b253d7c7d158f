/* test_text_script.c - what characters, pieces of text and tokens are written in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "support/toy_tok.h"
#include "text/script.h"

/* ---- Against another table of Unicode --------------------------------------------------------- */

static size_t utf8_of(uint8_t out[4], uint32_t c)
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
    return n;
}

typedef struct {
    pcre2_code *code;
    pcre2_match_data *match;
} property;

static property property_open(const char *regex)
{
    int error;
    size_t at;
    property p = {.match = pcre2_match_data_create(1, NULL)};
    p.code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_ANCHORED,
                           &error, &at, NULL);
    if (!p.code)
        fail_msg("PCRE2 does not know %s", regex);
    pcre2_jit_compile(p.code, PCRE2_JIT_COMPLETE);
    return p;
}

static bool has(const property *p, uint32_t c)
{
    uint8_t s[4];
    size_t n = utf8_of(s, c);
    return pcre2_match(p->code, s, n, 0, PCRE2_NO_UTF_CHECK, p->match, NULL) >= 0;
}

static void property_close(property *p)
{
    pcre2_match_data_free(p->match);
    pcre2_code_free(p->code);
}

/* Catches a wrong bound in the table of ranges: every code point against the scripts that PCRE2 knows
 * them by, except what its version of Unicode has not assigned. */
static void test_script_every_code_point_agrees_with_pcre2(void **state)
{
    (void)state;
    static const struct {
        const char *regex;
        ft_script script;
    } known[] = {
        {"\\p{sc:Latin}", FT_SCRIPT_LATIN},
        {"\\p{sc:Cyrillic}", FT_SCRIPT_CYRILLIC},
        {"\\p{sc:Greek}", FT_SCRIPT_GREEK},
        {"\\p{sc:Arabic}", FT_SCRIPT_ARABIC},
        {"\\p{sc:Hebrew}", FT_SCRIPT_HEBREW},
        {"\\p{sc:Devanagari}", FT_SCRIPT_DEVANAGARI},
        {"\\p{sc:Thai}", FT_SCRIPT_THAI},
        {"\\p{sc:Han}", FT_SCRIPT_HAN},
        {"[\\p{sc:Hiragana}\\p{sc:Katakana}]", FT_SCRIPT_KANA},
        {"\\p{sc:Hangul}", FT_SCRIPT_HANGUL},
    };
    property unassigned = property_open("\\p{Cn}");
    for (size_t k = 0; k < ARRAY_LEN(known); k++) {
        property p = property_open(known[k].regex);
        int n = 0;
        for (uint32_t c = 0; c < 0x110000; c++) {
            if (c >= 0xd800 && c < 0xe000)
                continue;
            bool is = text_script_of(c) == known[k].script, want = has(&p, c);
            n += want;
            if (is != want && !has(&unassigned, c))
                fail_msg("U+%04X: %s, PCRE2 says %s", (unsigned)c,
                         ft_script_name(text_script_of(c)), want ? known[k].regex : "another one");
        }
        assert_true(n > 80);
        property_close(&p);
    }
    property_close(&unassigned);
}

/* Catches a category taken for another, and code points past the end that index nothing. */
static void test_script_without_letters_goes_by_category(void **state)
{
    (void)state;
    static const struct {
        uint32_t c;
        ft_script want;
    } known[] = {
        {'0', FT_SCRIPT_DIGIT},     {'9', FT_SCRIPT_DIGIT},      {0x00B2, FT_SCRIPT_DIGIT},
        {0x0660, FT_SCRIPT_ARABIC}, {'!', FT_SCRIPT_PUNCT},      {' ', FT_SCRIPT_PUNCT},
        {'\n', FT_SCRIPT_PUNCT},    {0x00A0, FT_SCRIPT_PUNCT},   {0x3000, FT_SCRIPT_PUNCT},
        {'+', FT_SCRIPT_PUNCT},     {'$', FT_SCRIPT_PUNCT},      {'_', FT_SCRIPT_PUNCT},
        {0x3001, FT_SCRIPT_PUNCT},  {0x200D, FT_SCRIPT_PUNCT},   {0x1F600, FT_SCRIPT_OTHER},
        {0x10D0, FT_SCRIPT_OTHER},  {0x0B95, FT_SCRIPT_OTHER},   {0x0301, FT_SCRIPT_OTHER},
        {0xD800, FT_SCRIPT_OTHER},  {0xE000, FT_SCRIPT_OTHER},   {0x10FFFF, FT_SCRIPT_OTHER},
        {0x1D7CE, FT_SCRIPT_DIGIT}, {0x110000, FT_SCRIPT_OTHER}, {UINT32_MAX, FT_SCRIPT_OTHER},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (text_script_of(known[i].c) != known[i].want)
            fail_msg("U+%04X: %s", (unsigned)known[i].c,
                     ft_script_name(text_script_of(known[i].c)));
}

/* ---- Pieces ------------------------------------------------------------------------------------ */

/* Catches the first letter looked for in the wrong place, and bytes of half a character read past the
 * end. */
static void test_piece_first_letter_decides(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        ft_script want;
    } known[] = {
        {" the", FT_SCRIPT_LATIN},
        {"2nd", FT_SCRIPT_LATIN},
        {" \xD0\x9F\xD1\x80\xD0\xB8", FT_SCRIPT_CYRILLIC},
        {"\xE2\x80\x9C\xCE\xB1", FT_SCRIPT_GREEK},    /* a quotation mark, alpha */
        {"\xE4\xB8\xAD\xE3\x81\xAE", FT_SCRIPT_HAN},  /* Han, then Hiragana */
        {"\xE3\x81\xAE\xE4\xB8\xAD", FT_SCRIPT_KANA}, /* the other way round */
        {"\xED\x95\x9C", FT_SCRIPT_HANGUL},           /* a syllable */
        {"\xE0\xA5\xAD", FT_SCRIPT_DEVANAGARI},       /* digit seven of Devanagari */
        {"\xE0\xB8\xB1", FT_SCRIPT_THAI},             /* a vowel sign alone */
        {"\xE1\x83\x90 a", FT_SCRIPT_OTHER},          /* Georgian first */
        {"\xF0\x9F\x98\x80 ok", FT_SCRIPT_LATIN},     /* a symbol is no letter */
        {"\xF0\x9F\x98\x80!", FT_SCRIPT_OTHER},
        {"3.14", FT_SCRIPT_DIGIT},
        {"\xF0\x9F\x98\x80 7", FT_SCRIPT_DIGIT},
        {" (", FT_SCRIPT_PUNCT},
        {"\n\n", FT_SCRIPT_PUNCT},
        {"\xE4\xB8", FT_SCRIPT_PART}, /* the start of a character */
        {"\xAD", FT_SCRIPT_PART},     /* the end of one */
        {" \xD0", FT_SCRIPT_PART},
        {"\xAD\xE4\xB8\xAD", FT_SCRIPT_HAN}, /* the end of one, then a whole one */
        {"\xFF", FT_SCRIPT_PART},
        {"", FT_SCRIPT_OTHER},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        size_t n = strlen(known[i].s);
        uint8_t exact[32]; /* without the NUL behind it */
        memset(exact, 0x80, sizeof exact);
        memcpy(exact, known[i].s, n);
        ft_script got = text_script_of_piece(exact, n);
        if (got != known[i].want)
            fail_msg("piece %zu: %s, want %s", i, ft_script_name(got),
                     ft_script_name(known[i].want));
    }
}

/* Catches a control token that counts as its letters, and an id outside the vocabulary. */
static void test_token_control_is_special(void **state)
{
    (void)state;
    static toy_vocab v;
    toy_init(&v);
    int32_t end = toy_token(&v, (gguf_str){"<|end|>", 7}, TOKEN_CONTROL);
    int32_t user = toy_token(&v, (gguf_str){"<tag>", 5}, TOKEN_USER_DEFINED);
    int32_t word = toy_token(&v, toy_alphabet(&v, " \xD0\xBC\xD0\xB8\xD1\x80", 7), TOKEN_NORMAL);
    tokenizer *t;
    assert_int_equal(tok_create(&t, &v.src, NULL), FT_OK);
    assert_int_equal(tok_script(t, end), FT_SCRIPT_SPECIAL);
    assert_int_equal(tok_script(t, user), FT_SCRIPT_LATIN);
    assert_int_equal(tok_script(t, word), FT_SCRIPT_CYRILLIC);
    assert_int_equal(tok_script(t, 'a'), FT_SCRIPT_LATIN);
    assert_int_equal(tok_script(t, 0xD0), FT_SCRIPT_PART);
    assert_int_equal(tok_script(t, -1), FT_SCRIPT_OTHER);
    assert_int_equal(tok_script(t, tok_n_vocab(t)), FT_SCRIPT_OTHER);
    tok_close(t);
}

/* Catches a name that is another script's, and one past the list. */
static void test_script_name_every_value(void **state)
{
    (void)state;
    assert_string_equal(ft_script_name(FT_SCRIPT_LATIN), "Latin");
    assert_string_equal(ft_script_name(FT_SCRIPT_HAN), "Han");
    assert_string_equal(ft_script_name(FT_SCRIPT_SPECIAL), "special");
    assert_string_equal(ft_script_name(FT_N_SCRIPT), "unknown");
    assert_string_equal(ft_script_name((ft_script)-1), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_script_every_code_point_agrees_with_pcre2),
        cmocka_unit_test(test_script_without_letters_goes_by_category),
        cmocka_unit_test(test_piece_first_letter_decides),
        cmocka_unit_test(test_token_control_is_special),
        cmocka_unit_test(test_script_name_every_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
