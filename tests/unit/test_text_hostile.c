/* test_text_hostile.c - metadata that lies: refused with a message or taken as plain tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/tmpdir.h"
#include "support/toy_tok.h"

static toy_vocab toy;

/* ---- Metadata entries of a whole file ------------------------------------------------------ */

typedef struct {
    const char *drop; /* key to leave out; NULL: none */
    const char *key;  /* key to add or replace; NULL: none */
    gguf_type type;   /* of the replacement */
    int64_t value;    /* an integer, or elements of an array */
    const char *text; /* a string */
    const char *want; /* part of the message; NULL: accepted */
    int32_t eos;      /* expected where accepted */
} file_case;

#define T "tokenizer.ggml."

static const file_case file_cases[] = {
    {.want = NULL, .eos = -1},
    {.drop = T "model", .want = T "model"},
    {.key = T "model", .type = GGUF_STRING, .text = "llama", .want = "want 'gpt2'"},
    {.key = T "model", .type = GGUF_U32, .want = T "model"},
    {.drop = T "pre", .want = T "pre"},
    {.key = T "pre", .type = GGUF_STRING, .text = "", .want = "want 'qwen35' or 'qwen2'"},
    {.key = T "pre", .type = GGUF_STRING, .text = "qwen3", .want = "want 'qwen35' or 'qwen2'"},
    {.key = T "pre", .type = GGUF_STRING, .text = "qwen2", .eos = -1},
    {.drop = T "tokens", .want = "absent, want an array of strings"},
    {.key = T "tokens", .type = GGUF_STRING, .text = "a", .want = "want an array of strings"},
    {.key = T "tokens", .type = GGUF_ARRAY, .value = 300, .want = "want an array of strings"},
    {.drop = T "token_type", .eos = -1},
    {.key = T "token_type", .type = GGUF_ARRAY, .value = 0, .want = "one for each token"},
    {.key = T "token_type", .type = GGUF_ARRAY, .value = 257, .want = "one for each token"},
    {.key = T "token_type", .type = GGUF_U32, .value = 1, .want = "one for each token"},
    {.drop = T "merges", .want = T "merges"},
    {.key = T "merges", .type = GGUF_STRING, .text = "a b", .want = "want an array of strings"},
    {.key = T "eos_token_id", .type = GGUF_U32, .value = 257, .eos = 257},
    {.key = T "eos_token_id", .type = GGUF_U32, .value = 258, .want = "258, want less than 258"},
    {.key = T "eos_token_id", .type = GGUF_U32, .value = 0x80000000, .want = "2147483648"},
    {.key = T "eos_token_id", .type = GGUF_U32, .value = UINT32_MAX, .eos = -1},
    {.key = T "eos_token_id", .type = GGUF_I32, .value = -1, .eos = -1},
    {.key = T "eos_token_id", .type = GGUF_I32, .value = -2, .want = "-2, want less than"},
    {.key = T "eos_token_id", .type = GGUF_I64, .value = INT64_MIN, .want = "want less than"},
    {.key = T "eos_token_id", .type = GGUF_STRING, .text = "1", .want = T "eos_token_id"},
    {.key = T "eot_token_id", .type = GGUF_U32, .value = 999, .want = T "eot_token_id"},
    {.key = T "bos_token_id", .type = GGUF_U32, .value = 999, .want = T "bos_token_id"},
    {.key = T "padding_token_id", .type = GGUF_U32, .value = 999, .want = T "padding_token_id"},
};

static bool left_out(const file_case *c, const char *key)
{
    return (c->drop && strcmp(c->drop, key) == 0) || (c->key && strcmp(c->key, key) == 0);
}

static void write_file(const file_case *c, const char *path)
{
    static const uint32_t numbers[1024];
    gguf_writer *w;
    assert_int_equal(gguf_writer_open(&w, path, NULL), FT_OK);
    if (!left_out(c, T "model"))
        gguf_put_str(w, T "model", "gpt2", 4);
    if (!left_out(c, T "pre"))
        gguf_put_str(w, T "pre", "qwen35", 6);
    if (!left_out(c, T "tokens"))
        gguf_put_str_array(w, T "tokens", toy.token, toy.src.n_token);
    if (!left_out(c, T "token_type"))
        gguf_put_array(w, T "token_type", GGUF_U8, toy.type, toy.src.n_token);
    if (!left_out(c, T "merges"))
        gguf_put_str_array(w, T "merges", toy.merge, toy.src.n_merge);
    if (c->key && c->type == GGUF_STRING)
        gguf_put_str(w, c->key, c->text, strlen(c->text));
    else if (c->key && c->type == GGUF_ARRAY)
        gguf_put_array(w, c->key, GGUF_U32, numbers, (size_t)c->value);
    else if (c->key)
        gguf_put_int(w, c->key, c->type, c->value);
    assert_int_equal(gguf_writer_begin(w, NULL), FT_OK);
    assert_int_equal(gguf_writer_close(w, NULL), FT_OK);
}

/* B021. Would catch: an entry of another type, length or range that is believed. */
static void test_open_each_wrong_entry_is_refused_by_name(void **state)
{
    (void)state;
    toy_init(&toy);
    toy_merge(&toy, "a", "b");
    toy_special(&toy, "<|x|>", TOKEN_CONTROL);
    char path[TEST_PATH_MAX];
    test_path(path, "vocab.gguf");
    for (size_t i = 0; i < ARRAY_LEN(file_cases); i++) {
        const file_case *c = &file_cases[i];
        write_file(c, path);
        gguf_file *f;
        assert_int_equal(gguf_open(&f, path, NULL), FT_OK);
        ft_error err = {0};
        tokenizer *t = (tokenizer *)&err;
        ft_status st = tok_open(&t, f, &err);
        gguf_close(f);
        if (c->want) {
            if (st == FT_OK || t || !strstr(err.msg, c->want))
                fail_msg("case %zu: '%s', want '%s'", i, err.msg, c->want);
            continue;
        }
        if (st != FT_OK)
            fail_msg("case %zu: %s", i, err.msg);
        assert_int_equal(tok_eos(t), c->eos);
        tok_close(t);
    }
}

/* Would catch: a type out of range used as one, and a leak when any allocation of the reading
 * layer fails. */
static void test_open_types_out_of_range_and_failing_allocations_are_refused(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    test_path(path, "types.gguf");
    for (int type = 6; type <= 7; type++) {
        toy_init(&toy);
        toy.type[65] = (uint8_t)type;
        write_file(&(file_case){0}, path);
        gguf_file *f;
        assert_int_equal(gguf_open(&f, path, NULL), FT_OK);
        bool reached = true;
        for (long n = 1; reached; n++) {
            ft_error err = {0};
            tokenizer *t;
            long before = mem_count();
            mem_fail_at(n);
            ft_status st = tok_open(&t, f, &err);
            mem_fail_at(0);
            reached = mem_count() - before >= n;
            tok_close(t);
            if (!reached && type == 6)
                assert_int_equal(st, FT_OK);
            if (!reached && type == 7)
                assert_non_null(strstr(err.msg, "token_type[65]: 7, want 0..6"));
            assert_true(st == FT_OK || err.msg[0]);
        }
        gguf_close(f);
    }
}

/* ---- Token and merge texts ----------------------------------------------------------------- */

/* B102. Would catch: a token's text parsed as more than text, a read past a short one, a duplicate
 * that hides the first. */
static void test_tokens_of_odd_text_are_plain_tokens(void **state)
{
    (void)state;
    static const gguf_str odd[] = {
        {"<0x-1>", 6}, {"<0x100>", 7}, {"<0x>", 4}, {"<0x0A>", 6},       {"", 0},  {NULL, 0},
        {"\xFF", 1},   {"\xC4", 1},    {"a\0b", 3}, {"\xE6\x97\xA5", 3}, {" ", 1}, {"<0x-1>", 6},
    };
    static char huge[1 << 20];
    memset(huge, 'h', sizeof huge);
    for (int type = TOKEN_UNDEFINED; type <= TOKEN_BYTE; type++) {
        toy_init(&toy);
        for (size_t i = 0; i < ARRAY_LEN(odd); i++)
            toy_token(&toy, odd[i], (token_type)type);
        int32_t id_huge = toy_token(&toy, (gguf_str){huge, sizeof huge}, (token_type)type);
        tokenizer *t;
        ft_error err = {0};
        assert_int_equal(tok_create(&t, &toy.src, &err), FT_OK);
        size_t n;
        for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
            const char *s = tok_bytes(t, 256 + (int32_t)i, false, &n);
            assert_int_equal(n, odd[i].len);
            if (n)
                assert_memory_equal(s, odd[i].s, n);
        }
        assert_int_equal(tok_find(t, "<0x-1>", 6), 256);
        assert_int_equal(tok_find(t, "\xFF", 1), 255); /* the byte's own token came first */
        (void)tok_bytes(t, id_huge, false, &n);
        assert_int_equal(n, sizeof huge);
        buf ids;
        buf_init(&ids, 1 << 24);
        assert_int_equal(tok_encode(t, huge, sizeof huge, TOK_PARSE_SPECIAL, &ids, &err), FT_OK);
        assert_int_equal(ids.len, sizeof huge * sizeof(int32_t)); /* too long to be looked for */
        assert_int_equal(tok_encode(t, "<0x-1>\xFF", 7, TOK_PARSE_SPECIAL, &ids, &err), FT_OK);
        buf_deinit(&ids);
        tok_close(t);
    }
}

typedef struct {
    const char *merge;
    size_t len;
    const char *want; /* NULL: accepted */
} merge_case;

#define LINE(s) (s), sizeof(s) - 1

/* Would catch: a merge of unknown tokens or of none, that is believed or read past its end. */
static void test_merges_of_odd_text_are_refused_by_number(void **state)
{
    (void)state;
    static const merge_case cases[] = {
        {LINE("a b"), NULL},
        {LINE(""), "want 'left right'"},
        {LINE(" "), "want 'left right'"},
        {LINE("ab"), "want 'left right'"},
        {LINE("abc"), "want 'left right'"},
        {LINE(" ab"), "want 'left right'"},
        {LINE("ab "), "want 'left right'"},
        {LINE("abab "), "want 'left right'"},
        {LINE("a  b"), "right half"},
        {LINE("a b c"), "right half"},
        {LINE("zz b"), "left half"},
        {LINE("a zz"), "right half"},
        {LINE("b a"), "result"},
        {LINE("\xFF \xFF"), "result"},
        {LINE("\xC4 \xA0"), "result"},
        {LINE("\0 \0"), "result"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        toy_init(&toy);
        toy_merge(&toy, "a", "b");
        toy.merge[toy.src.n_merge++] = (gguf_str){cases[i].merge, cases[i].len};
        tokenizer *t;
        ft_error err = {0};
        ft_status st = tok_create(&t, &toy.src, &err);
        bool good = cases[i].want ? st == FT_FORMAT && strstr(err.msg, "merges[1]") &&
                                        strstr(err.msg, cases[i].want)
                                  : st == FT_OK;
        if (!good)
            fail_msg("case %zu: '%s'", i, err.msg);
        tok_close(t);
    }
}

/* B106. Would catch: merges that lead from plain text to a control token. */
static void test_merges_into_a_control_token_are_left_out(void **state)
{
    (void)state;
    toy_init(&toy);
    toy_merge(&toy, "e", "n");
    toy.type[toy_merge(&toy, "en", "d")] = TOKEN_CONTROL;
    tokenizer *t;
    assert_int_equal(tok_create(&t, &toy.src, NULL), FT_OK);
    buf ids;
    buf_init(&ids, 64);
    assert_int_equal(tok_encode(t, "end", 3, TOK_PLAIN, &ids, NULL), FT_OK);
    for (size_t i = 0; i < ids.len; i += sizeof(int32_t)) {
        int32_t id;
        memcpy(&id, ids.data + i, sizeof id);
        assert_false(tok_is_special(t, id));
    }
    buf_deinit(&ids);
    tok_close(t);
}

/* Would catch: a vocabulary in which some byte has no token, found out while a request runs. */
static void test_vocabulary_without_a_byte_is_refused(void **state)
{
    (void)state;
    tokenizer *t;
    for (int b = 0; b < 256; b++) {
        ft_error err = {0};
        char want[16] = {0};
        toy_init(&toy);
        toy.token[b] = (gguf_str){"taken", 5};
        want[0] = "0123456789ABCDEF"[b >> 4];
        want[1] = "0123456789ABCDEF"[b & 15];
        assert_int_equal(tok_create(&t, &toy.src, &err), FT_FORMAT);
        assert_non_null(strstr(strstr(err.msg, "0x"), want));
    }
    toy_init(&toy);
    toy.type['a'] = TOKEN_CONTROL;
    assert_int_equal(tok_create(&t, &toy.src, NULL), FT_FORMAT);
    toy.src.n_token = 0;
    assert_int_equal(tok_create(&t, &toy.src, NULL), FT_FORMAT);
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_each_wrong_entry_is_refused_by_name),
        cmocka_unit_test(test_open_types_out_of_range_and_failing_allocations_are_refused),
        cmocka_unit_test(test_tokens_of_odd_text_are_plain_tokens),
        cmocka_unit_test(test_merges_of_odd_text_are_refused_by_number),
        cmocka_unit_test(test_merges_into_a_control_token_are_left_out),
        cmocka_unit_test(test_vocabulary_without_a_byte_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
