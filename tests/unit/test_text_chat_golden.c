/* test_text_chat_golden.c - conversations against the text of the published chat template, and their
 * ids against those of another tokenizer (tests/golden/chat/README.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "text/chat.h"

static const char *const files[] = {"tests/golden/chat/cases.jsonl",
                                    "tests/golden/chat/more.jsonl"};

typedef void case_fn(void *ctx, jdoc *d, const char *line, size_t len);

static char *read_file(const char *path)
{
    char *text;
    size_t n;
    ft_error err = {0};
    if (file_read_all(&text, &n, path, 1 << 24, &err) != FT_OK)
        fail_msg("%s", err.msg);
    return text;
}

/* Call fn for every line of both files; returns how many there were. */
static int for_each_case(case_fn *fn, void *ctx)
{
    int n = 0;
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        char *text = read_file(files[i]);
        for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, n++) {
            jdoc d;
            assert_int_equal(jdoc_parse(&d, line, (size_t)(end - line), NULL), FT_OK);
            fn(ctx, &d, line, (size_t)(end - line));
            jdoc_deinit(&d);
        }
        mem_free(text);
    }
    return n;
}

static bool same(const buf *b, jdoc_str s)
{
    return b->len == s.len && (s.len == 0 || memcmp(b->data, s.s, s.len) == 0);
}

static void check_text(void *ctx, jdoc *d, const char *line, size_t len)
{
    int *n_error = ctx;
    jdoc_str name = jdoc_text(d, jdoc_get(d, jdoc_root(d), "name"));
    const jdoc_node *want = jdoc_get(d, jdoc_root(d), "rendered");
    chat_text c;
    ft_error err = {0};
    ft_status st = chat_render(&c, line, len, &err);
    if (want) {
        if (st != FT_OK)
            fail_msg("%.*s: %s", (int)name.len, name.s, err.msg);
        if (!same(&c.text, jdoc_text(d, want)))
            fail_msg("%.*s: '%s'", (int)name.len, name.s, buf_cstr(&c.text));
    } else {
        assert_non_null(jdoc_get(d, jdoc_root(d), "error"));
        assert_int_equal(st, FT_FORMAT);
        assert_non_null(strstr(err.msg, "messages"));
        assert_null(c.text.data);
        ++*n_error;
    }
    chat_text_deinit(&c);
}

/* Would catch: any byte that differs from the published template, and a request it refuses taken. */
static void test_golden_texts_equal_the_template(void **state)
{
    (void)state;
    int n_error = 0;
    assert_int_equal(for_each_case(check_text, &n_error), 55);
    assert_int_equal(n_error, 9);
}

/* ---- Ids --------------------------------------------------------------------------------------- */

typedef struct {
    tokenizer *tok;
    char *ids; /* the file */
    int n_seen;
} id_check;

/* The line "IDS NAME" of the file; NULL: none. */
static const char *find_ids(const char *text, jdoc_str name)
{
    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        const char *at = strchr(line, ' ') + 1;
        if ((size_t)(end - at) == name.len && memcmp(at, name.s, name.len) == 0)
            return line;
    }
    return NULL;
}

static void check_ids(void *ctx, jdoc *d, const char *line, size_t len)
{
    id_check *k = ctx;
    jdoc_str name = jdoc_text(d, jdoc_get(d, jdoc_root(d), "name"));
    const char *want = find_ids(k->ids, name);
    if (!want)
        return;
    chat_text c;
    buf ids, mark, whole;
    buf_init(&ids, 1 << 20);
    buf_init(&mark, 1 << 20);
    buf_init(&whole, 1 << 20);
    assert_int_equal(chat_render(&c, line, len, NULL), FT_OK);
    assert_int_equal(chat_encode(&c, k->tok, &ids, &mark, NULL), FT_OK);
    const int32_t *id = (const int32_t *)(const void *)ids.data;
    size_t n = 0;
    for (char *end; *want != ' '; want = *end == ',' ? end + 1 : end, n++)
        if (n >= ids.len / sizeof *id || id[n] != strtol(want, &end, 10))
            fail_msg("%.*s: id %zu differs", (int)name.len, name.s, n);
    assert_int_equal(n, ids.len / sizeof *id);

    const char *text = (const char *)c.text.data;
    assert_int_equal(tok_encode(k->tok, text, c.text.len, TOK_PARSE_SPECIAL, &whole, NULL), FT_OK);
    assert_true(same(&ids, (jdoc_str){(const char *)whole.data, whole.len}));
    const int *m = (const int *)(const void *)mark.data;
    const size_t *turn = (const size_t *)(const void *)c.turn_end.data;
    assert_int_equal(mark.len / sizeof *m, c.turn_end.len / sizeof *turn);
    for (size_t i = 0; i < mark.len / sizeof *m;
         i++) { /* as many ids as the text up to there has */
        buf_clear(&whole);
        assert_int_equal(tok_encode(k->tok, text, turn[i], TOK_PARSE_SPECIAL, &whole, NULL), FT_OK);
        assert_int_equal(m[i], whole.len / sizeof *id);
    }
    k->n_seen++;
    chat_text_deinit(&c);
    buf_deinit(&ids);
    buf_deinit(&mark);
    buf_deinit(&whole);
}

/* Would catch: text cut into runs where the published tokenizer sees one, markup that is no special
 * token, marks beside the ends of turns. */
static void test_golden_ids_equal_those_of_the_whole_text(void **state)
{
    (void)state;
    id_check k = {.ids = read_file("tests/golden/chat/ids.txt")};
    gguf_file *f;
    assert_int_equal(gguf_open(&f, "tests/golden/tokenizer/vocab.gguf", NULL), FT_OK);
    assert_int_equal(tok_open(&k.tok, f, NULL), FT_OK);
    gguf_close(f);
    for_each_case(check_ids, &k);
    assert_int_equal(k.n_seen, 35);
    tok_close(k.tok);
    mem_free(k.ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_texts_equal_the_template),
        cmocka_unit_test(test_golden_ids_equal_those_of_the_whole_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
