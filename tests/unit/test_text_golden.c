/* test_text_golden.c - the tokenizer against ids written by the reference implementation.
 *
 * Another folder with vocab.gguf and cases.txt may be given as an argument (tests/dev/README.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "support/slowdown.h"
#include "text/text.h"

static const char *folder = "tests/golden/tokenizer";

static int open_tokenizer(void **state)
{
    char path[512];
    ft_error err = {0};
    gguf_file *f;
    snprintf(path, sizeof path, "%s/vocab.gguf", folder);
    if (gguf_open(&f, path, &err) != FT_OK || tok_open((tokenizer **)state, f, &err) != FT_OK) {
        print_error("%s\n", err.msg);
        return -1;
    }
    gguf_close(f); /* the tokenizer must not need it any more */
    return 0;
}

static int close_tokenizer(void **state)
{
    tok_close(*state);
    return 0;
}

/* The next column of a line, "-" for an empty one; ends at a space or the end of the line. */
static char *column(char **p)
{
    char *s = *p;
    size_t n = strcspn(s, " \n");
    *p = s + n + 1;
    s[n] = '\0';
    return strcmp(s, "-") == 0 ? s + 1 : s;
}

static void put_hex(buf *b, const char *hex)
{
    for (; hex[0] && hex[1]; hex += 2) {
        char digits[3] = {hex[0], hex[1], 0};
        buf_putc(b, (int)strtol(digits, NULL, 16));
    }
}

static void put_ids(buf *b, char *list)
{
    for (char *end; *list; list = *end ? end + 1 : end) {
        int32_t id = (int32_t)strtol(list, &end, 10);
        buf_put(b, &id, sizeof id);
    }
}

static bool same(const buf *a, const buf *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* One line: true when ids, raw bytes and streamed text are those of the line. */
static bool check_line(const tokenizer *t, char *line)
{
    buf text, want_ids, want_text, ids, bytes, streamed;
    buf *all[] = {&text, &want_ids, &want_text, &ids, &bytes, &streamed};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        buf_init(all[i], 1 << 24);
    put_hex(&text, column(&line));
    put_ids(&want_ids, column(&line));
    put_hex(&want_text, column(&line));

    ft_error err = {0};
    const char *s = buf_cstr(&text);
    bool ok = tok_encode(t, s, text.len, TOK_PARSE_SPECIAL, &ids, &err) == FT_OK;
    detok d = {0};
    for (size_t i = 0; i < ids.len; i += sizeof(int32_t)) {
        int32_t id;
        size_t n;
        memcpy(&id, ids.data + i, sizeof id);
        const char *piece = tok_bytes(t, id, false, &n);
        buf_put(&bytes, piece, n);
        detok_put(&d, t, id, false, &streamed);
    }
    detok_flush(&d, &streamed);
    ok = ok && same(&ids, &want_ids) && same(&bytes, &want_text) && same(&streamed, &want_text);
    if (!ok)
        print_error("differs: %s '%s'\n", err.msg, s);
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        buf_deinit(all[i]);
    return ok;
}

/* Would catch: any wrong rule of splitting, merging, normalising or special tokens. */
static void test_golden_all_cases_equal_the_reference(void **state)
{
    char path[512], *text;
    size_t n_bytes;
    ft_error err = {0};
    snprintf(path, sizeof path, "%s/cases.txt", folder);
    assert_int_equal(file_read_all(&text, &n_bytes, path, 1 << 26, &err), FT_OK);
    int n_case = 0, n_good = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        n_case++;
        n_good += check_line(*state, line);
    }
    mem_free(text);
    print_message("%d of %d cases equal\n", n_good, n_case);
    assert_true(n_case >= 200);
    assert_int_equal(n_good, n_case);
}

static void expect_fast(const tokenizer *t, const char *unit)
{
    buf text, ids;
    buf_init(&text, 1 << 21);
    buf_init(&ids, 1 << 24);
    while (text.len < 1000000)
        buf_puts(&text, unit);
    ft_error err = {0};
    clock_t begin = clock();
    ft_status st = tok_encode(t, (const char *)text.data, text.len, TOK_PARSE_SPECIAL, &ids, &err);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    assert_int_equal(st, FT_OK);
    print_message("1 MB of '%s': %zu tokens, %.2f s\n", *unit == '\n' ? "\\n" : unit, ids.len / 4,
                  seconds);
    assert_true(seconds < TEST_SLOWDOWN);
    buf_deinit(&text);
    buf_deinit(&ids);
}

/* Would catch: a quadratic merge loop, split or special search (one huge piece, many small ones). */
static void test_golden_megabyte_of_one_thing_takes_less_than_a_second(void **state)
{
    static const char *const units[] = {"a",    " ",       "\n", "\xE4\xB8\x80",
                                        "the ", "<|im_en", "' ", "7"};
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        expect_fast(*state, units[i]);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        folder = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_all_cases_equal_the_reference),
        cmocka_unit_test(test_golden_megabyte_of_one_thing_takes_less_than_a_second),
    };
    return cmocka_run_group_tests(tests, open_tokenizer, close_tokenizer);
}
