/* test_text_bpe.c - the merge loop against the textbook, and the time that huge texts take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

#include "support/slowdown.h"
#include "support/toy_tok.h"

static toy_vocab toy;

#define SPECIAL_NEAR 255 /* letters of a special token that the text almost holds */

static uint32_t next_random(uint32_t *seed)
{
    *seed ^= *seed << 13; /* xorshift32, Marsaglia 2003 */
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

typedef struct {
    int32_t left, right, result;
} naive_merge;

/* The rule word for word: merge the leftmost pair of the lowest rank, until there is none. */
static size_t naive_bpe(const naive_merge *m, size_t n_merge, int32_t *id, size_t n)
{
    for (size_t rank = 0; rank < n_merge;) {
        size_t i = 0;
        while (i + 1 < n && (id[i] != m[rank].left || id[i + 1] != m[rank].right))
            i++;
        if (i + 1 >= n) {
            rank++;
            continue;
        }
        id[i] = m[rank].result;
        memmove(id + i + 1, id + i + 2, (n - i - 2) * sizeof *id);
        n--;
        rank = 0; /* a merge may make a pair of lower rank */
    }
    return n;
}

/* Random merges over the letters a..c in any order: also ones whose parts are made later. */
static size_t random_merges(naive_merge *m, uint32_t *seed)
{
    char words[64][32] = {"a", "b", "c"};
    size_t n_word = 3, n = 0, n_want = 1 + next_random(seed) % 40;
    for (size_t i = 0; i < 200 && n < n_want; i++) {
        const char *left = words[next_random(seed) % n_word];
        const char *right = words[next_random(seed) % n_word];
        if (strlen(left) + strlen(right) > 8)
            continue;
        int32_t result = toy_merge(&toy, left, right);
        memcpy(words[n_word], left, strlen(left));
        memcpy(words[n_word++] + strlen(left), right, strlen(right) + 1);
        m[n++] = (naive_merge){toy_find(&toy, (gguf_str){left, strlen(left)}),
                               toy_find(&toy, (gguf_str){right, strlen(right)}), result};
    }
    /* Shuffle the ranks. */
    for (size_t i = n; i > 1; i--) {
        size_t k = next_random(seed) % i;
        naive_merge t = m[i - 1];
        gguf_str line = toy.merge[i - 1];
        m[i - 1] = m[k];
        toy.merge[i - 1] = toy.merge[k];
        m[k] = t;
        toy.merge[k] = line;
    }
    return n;
}

/* Would catch: a wrong order of merges, a stale pair merged, a pair forgotten. */
static void test_bpe_random_strings_equal_the_textbook(void **state)
{
    (void)state;
    uint32_t seed = 1;
    for (int round = 0; round < 200; round++) {
        toy_init(&toy);
        naive_merge m[64];
        size_t n_merge = random_merges(m, &seed);
        tokenizer *t;
        assert_int_equal(tok_create(&t, &toy.src, NULL), FT_OK);
        buf ids;
        buf_init(&ids, 1 << 16);
        for (int k = 0; k < 30; k++) {
            char text[100];
            int32_t want[100];
            size_t n = 1 + next_random(&seed) % sizeof text;
            for (size_t i = 0; i < n; i++) {
                text[i] = (char)('a' + next_random(&seed) % 3);
                want[i] = text[i];
            }
            size_t n_want = naive_bpe(m, n_merge, want, n);
            buf_clear(&ids);
            assert_int_equal(tok_encode(t, text, n, TOK_PLAIN, &ids, NULL), FT_OK);
            assert_int_equal(ids.len, n_want * sizeof *want);
            assert_memory_equal(ids.data, want, ids.len);
        }
        buf_deinit(&ids);
        tok_close(t);
    }
}

/* head, then unit over and over up to a megabyte, then tail. */
static void expect_fast(const tokenizer *t, const char *head, const char *unit, const char *tail)
{
    buf text, ids;
    buf_init(&text, 1 << 21);
    buf_init(&ids, 1 << 24);
    buf_puts(&text, head);
    while (text.len < 1000000)
        buf_puts(&text, unit);
    buf_puts(&text, tail);
    ft_error err = {0};
    clock_t begin = clock();
    ft_status st = tok_encode(t, (const char *)text.data, text.len, TOK_PARSE_SPECIAL, &ids, &err);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (st != FT_OK || seconds > TEST_SLOWDOWN)
        fail_msg("1 MB of '%s': %.2f s, %s", unit, seconds, err.msg);
    buf_deinit(&text);
    buf_deinit(&ids);
}

/* Would catch: anything quadratic in the split, the merge loop, NFC, the search for special tokens
 * or the treatment of invalid bytes; a split that overflows its stack or its limits. */
static void test_encode_megabyte_of_anything_takes_less_than_a_second(void **state)
{
    (void)state;
    static char many[SPECIAL_NEAR + 2];
    toy_init(&toy);
    static const char *const doubled[] = {"a", " ", "\n", "\xE4\xB8\x80"};
    for (size_t i = 0; i < ARRAY_LEN(doubled); i++) {
        char word[64];
        snprintf(word, sizeof word, "%s", doubled[i]);
        if (i == 3) {
            toy_merge(&toy, "\xE4", "\xB8");
            toy_merge(&toy, "\xE4\xB8", "\x80");
        }
        for (int k = 0; k < 4; k++) {
            char half[64];
            snprintf(half, sizeof half, "%s", word);
            toy_merge(&toy, half, half);
            snprintf(word, sizeof word, "%.31s%.31s", half, half);
        }
    }
    memset(many, 'a', SPECIAL_NEAR);
    many[SPECIAL_NEAR] = '!';
    toy_special(&toy, many, TOKEN_CONTROL);
    toy_special(&toy, "<|im_end|>", TOKEN_CONTROL);
    tokenizer *t;
    assert_int_equal(tok_create(&t, &toy.src, NULL), FT_OK);

    static const char *const units[] = {
        "a",
        " ",
        "\n",
        "\r",
        "\xE4\xB8\x80",
        "\xCC\x81",
        "\xF0\x9F\x98\x80",
        "\x80",
        "a\xFF",
        "9",
        "'",
        "'s",
        "<",
        "<|im_end|",
        "<|im_end|>",
        " a",
        "\n ",
        "\t\xC2\xA0",
        "e\xCC\x81",
        "\xED\xA0\x80",
        "\xE4",
        ".",
        "\xE1\x84\x80\xE1\x85\xA1",
    };
    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        expect_fast(t, "", units[i], "");
        expect_fast(t, "\n", units[i], "x");
    }
    tok_close(t);
}

/* Would catch: the insertion sort of marks inside the Unicode library: hours for this text. */
static void test_encode_megabyte_of_marks_in_wrong_order_takes_less_than_a_second(void **state)
{
    (void)state;
    toy_init(&toy);
    tokenizer *t;
    assert_int_equal(tok_create(&t, &toy.src, NULL), FT_OK);
    buf text, ids;
    buf_init(&text, 1 << 21);
    buf_init(&ids, 1 << 24);
    buf_puts(&text, "e");
    for (int i = 0; i < 500000; i++) /* class 230, then class 220: all must change places */
        buf_puts(&text, i < 250000 ? "\xCC\x80" : "\xCC\xA3");
    clock_t begin = clock();
    ft_status st = tok_encode(t, (const char *)text.data, text.len, TOK_PLAIN, &ids, NULL);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    assert_int_equal(st, FT_OK);
    assert_true(seconds < TEST_SLOWDOWN);
    int32_t first[3]; /* e and the dot below compose: U+1EB9 */
    memcpy(first, ids.data, sizeof first);
    assert_true(first[0] == 0xE1 && first[1] == 0xBA && first[2] == 0xB9);
    buf_deinit(&text);
    buf_deinit(&ids);
    tok_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe_random_strings_equal_the_textbook),
        cmocka_unit_test(test_encode_megabyte_of_anything_takes_less_than_a_second),
        cmocka_unit_test(test_encode_megabyte_of_marks_in_wrong_order_takes_less_than_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
