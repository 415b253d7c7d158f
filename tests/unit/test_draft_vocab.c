/* test_draft_vocab.c - draft vocabularies: the file form, and the gathered rows of the head. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "draft/vocab.h"
#include "support/tinyopen.h"

#define HASH 0x93c467e37db0c7a4u
static const draft_vocab_fit fit = {.n_vocab = 512, .tokenizer = HASH};

#define HEAD "foretoken-draft-vocab 1\nvocab 512\ntokenizer 93c467e37db0c7a4\n"

static ft_status parse(const char *text, size_t n, int32_t **id, int *n_id, ft_error *err)
{
    /* In a block of its size, so that a sanitizer sees a read past the end. */
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    if (n)
        memcpy(copy, text, n);
    *err = (ft_error){0};
    ft_status st = draft_vocab_parse(id, n_id, copy, n, &fit, err);
    free(copy);
    return st;
}

static void assert_refused(const char *text, size_t n, ft_status status, const char *a,
                           const char *b)
{
    int32_t *id = (int32_t *)(uintptr_t)1;
    int n_id = 7;
    ft_error err;
    ft_status st = parse(text, n, &id, &n_id, &err);
    if (st != status || !strstr(err.msg, a) || !strstr(err.msg, b))
        fail_msg("status %d '%s', want %d with '%s' and '%s'", st, err.msg, status, a, b);
    assert_null(id);
    assert_int_equal(n_id, 0);
    for (const char *p = err.msg; *p; p++)
        assert_true(*p >= 0x20 && *p < 0x7f);
}

/* ---- The file --------------------------------------------------------------------------------- */

/* Catches a range that loses an end, and a form that reads otherwise than it was written. */
static void test_file_write_then_parse_gives_the_ids(void **state)
{
    (void)state;
    static const int32_t id[] = {0, 1, 2, 7, 9, 10, 100, 101, 102, 103, 510, 511};
    enum { N = ARRAY_LEN(id) };
    buf b;
    buf_init(&b, 1 << 16);
    draft_vocab_write(&b, id, N, &fit);
    assert_string_equal(buf_cstr(&b), HEAD "n 12\n0-2\n7\n9-10\n100-103\n510-511\nend\n");
    int32_t *got;
    int n;
    ft_error err;
    assert_int_equal(parse(buf_cstr(&b), b.len, &got, &n, &err), FT_OK);
    assert_int_equal(n, N);
    assert_memory_equal(got, id, sizeof id);
    mem_free(got);
    buf_deinit(&b);
}

/* Catches the smallest and the largest vocabulary being refused, and a split range being merged. */
static void test_file_accepts_every_way_to_write_ids(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int n, first, last;
    } good[] = {
        {HEAD "n 1\n0\nend\n", 1, 0, 0},           {HEAD "n 1\n511\nend\n", 1, 511, 511},
        {HEAD "n 512\n0-511\nend\n", 512, 0, 511}, {HEAD "n 4\n3\n4\n5-6\nend\n", 4, 3, 6},
        {HEAD "n 4\n3-4\n5-6\nend\n", 4, 3, 6},
    };
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        int32_t *id;
        int n;
        ft_error err;
        if (parse(good[i].text, strlen(good[i].text), &id, &n, &err) != FT_OK)
            fail_msg("%zu: %s", i, err.msg);
        assert_int_equal(n, good[i].n);
        for (int k = 0; k < n; k++)
            assert_int_equal(id[k], good[i].first + k);
        assert_int_equal(id[n - 1], good[i].last);
        mem_free(id);
    }
}

/* Catches a fault of the file that is let through, or told without its line. B089 */
static void test_file_faults_are_refused_with_their_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        ft_status status;
        const char *a, *b;
    } bad[] = {
        {"", FT_FORMAT, "line 1: the file ends", "want"},
        {"foretoken-draft-vocab 1", FT_FORMAT, "line 1: the file ends",
         "'foretoken-draft-vocab 1'"},
        {"GGUF\n", FT_FORMAT, "line 1: 'GGUF'", "want 'foretoken-draft-vocab 1'"},
        {"foretoken-draft-vocab 2\n", FT_UNSUPPORTED, "line 1: version 2", "want 1"},
        {"foretoken-draft-vocab 1 \n", FT_FORMAT, "line 1", ""},
        {"foretoken-draft-vocab 1\r\n", FT_FORMAT, "line 1", "1?'"},
        {" foretoken-draft-vocab 1\n", FT_FORMAT, "line 1", ""},
        {"foretoken-draft-vocab 01\n", FT_FORMAT, "line 1", ""},
        {"foretoken-draft-vocab 1\n", FT_FORMAT, "line 2: the file ends", "'vocab '"},
        {"foretoken-draft-vocab 1\nvocab 513\n", FT_MISMATCH, "513 tokens", "the model has 512"},
        {"foretoken-draft-vocab 1\nvocab 0\n", FT_MISMATCH, "0 tokens", "512"},
        {"foretoken-draft-vocab 1\nvocab -512\n", FT_FORMAT, "line 2", "'vocab -512'"},
        {"foretoken-draft-vocab 1\nvocab 99999999999999999999512\n", FT_FORMAT, "line 2", "vocab"},
        {"foretoken-draft-vocab 1\nvocab\n", FT_FORMAT, "line 2", "'vocab'"},
        {"foretoken-draft-vocab 1\nvocab 512\nn 1\n", FT_FORMAT, "line 3: 'n 1'", "'tokenizer '"},
        {"foretoken-draft-vocab 1\nvocab 512\ntokenizer 93c467e37db0c7a5\n", FT_MISMATCH,
         "line 3: made for tokenizer 93c467e37db0c7a5", "the model's is 93c467e37db0c7a4"},
        {"foretoken-draft-vocab 1\nvocab 512\ntokenizer 93c467e37db0c7a\n", FT_FORMAT, "line 3",
         "16 digits"},
        {"foretoken-draft-vocab 1\nvocab 512\ntokenizer 093c467e37db0c7a4\n", FT_FORMAT, "line 3",
         "16 digits"},
        {"foretoken-draft-vocab 1\nvocab 512\ntokenizer 93C467E37DB0C7A4\n", FT_FORMAT, "line 3",
         "16 digits"},
        {"foretoken-draft-vocab 1\nvocab 512\ntokenizer \n", FT_FORMAT, "line 3", "16 digits"},
        {HEAD, FT_FORMAT, "line 4: the file ends", "'n '"},
        {HEAD "n 0\nend\n", FT_FORMAT, "line 4: 0 ids", "want 1 to 512"},
        {HEAD "n 513\n0-511\nend\n", FT_FORMAT, "line 4: 513 ids", "want 1 to 512"},
        {HEAD "n 2147483647\n0\nend\n", FT_FORMAT, "line 4: 2147483647 ids", "512"},
        {HEAD "n 2147483648\n0\nend\n", FT_FORMAT, "line 4", "a number of ids"},
        {HEAD "n 18446744073709551617\n0\nend\n", FT_FORMAT, "line 4", "a number of ids"},
        {HEAD "n 1\n", FT_FORMAT, "line 5: the file ends", "want"},
        {HEAD "n 1\n5", FT_FORMAT, "line 5: the file ends", "want"},
        {HEAD "n 1\n5\n", FT_FORMAT, "line 6: the file ends", "'end'"},
        {HEAD "n 1\n5\nend", FT_FORMAT, "line 6: the file ends", "'end'"},
        {HEAD "n 1\n512\nend\n", FT_FORMAT, "line 5: id 512", "want 0 to 511"},
        {HEAD "n 2\n511-512\nend\n", FT_FORMAT, "line 5: id 512", "want 0 to 511"},
        {HEAD "n 2\n0-2147483647\nend\n", FT_FORMAT, "line 5: id 2147483647", "want 0 to 511"},
        {HEAD "n 1\n2147483648\nend\n", FT_FORMAT, "line 5", "'2147483648'"},
        {HEAD "n 1\n-1\nend\n", FT_FORMAT, "line 5: '-1'", "a token id"},
        {HEAD "n 2\n5\n5\nend\n", FT_FORMAT, "line 6: id 5 behind 5", "each once"},
        {HEAD "n 2\n5\n4\nend\n", FT_FORMAT, "line 6: id 4 behind 5", "ascending"},
        {HEAD "n 5\n5-7\n7-8\nend\n", FT_FORMAT, "line 6: id 7 behind 7", "each once"},
        {HEAD "n 2\n5-4\nend\n", FT_FORMAT, "line 5: '5-4'", "a range"},
        {HEAD "n 1\n5-5\nend\n", FT_FORMAT, "line 5: '5-5'", "a range"},
        {HEAD "n 2\n5-\nend\n", FT_FORMAT, "line 5: '5-'", "a range"},
        {HEAD "n 2\n5-6-7\nend\n", FT_FORMAT, "line 5: '5-6-7'", "a range"},
        {HEAD "n 2\n5 6\nend\n", FT_FORMAT, "line 5: '5 6'", "a range"},
        {HEAD "n 1\n05\nend\n", FT_FORMAT, "line 5: '05'", "a token id"},
        {HEAD "n 1\n+5\nend\n", FT_FORMAT, "line 5: '+5'", "a token id"},
        {HEAD "n 1\n\nend\n", FT_FORMAT, "line 5: ''", "a token id"},
        {HEAD "n 1\n5\n6\nend\n", FT_FORMAT, "line 6: more ids than the 1 announced", ""},
        {HEAD "n 3\n0-511\nend\n", FT_FORMAT, "line 5: more ids than the 3 announced", ""},
        {HEAD "n 3\n5-6\nend\n", FT_FORMAT, "line 6: 2 ids, 3 were announced", ""},
        {HEAD "n 1\nend\n", FT_FORMAT, "line 5: 0 ids, 1 were announced", ""},
        {HEAD "n 1\n5\nEND\n", FT_FORMAT, "line 6: 'END'", "'end'"},
        {HEAD "n 1\n5\nend\n\n", FT_FORMAT, "line 7: 1 bytes behind the end", ""},
        {HEAD "n 1\n5\nend\nend\n", FT_FORMAT, "line 7: 4 bytes behind the end", ""},
        {HEAD "n 1\n5\x1b[31m7777777777777777777777777777777777777777\nend\n", FT_FORMAT,
         "line 5: '5?[31m77777777777777777777777777...'", ""},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_refused(bad[i].text, strlen(bad[i].text), bad[i].status, bad[i].a, bad[i].b);
    static const char nul[] = HEAD "n 1\n5\0\nend\n";
    assert_refused(nul, sizeof nul - 1, FT_FORMAT, "line 5: '5?'", "a token id");
    int32_t *id;
    int n;
    assert_int_equal(draft_vocab_parse(&id, &n, NULL, 0, &fit, NULL), FT_FORMAT);
}

/* Catches a cut file that passes for a whole one, and a count of lines that runs off. */
static void test_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    static const char whole[] = HEAD "n 40\n0-9\n12\n14-41\n400\nend\n";
    int32_t *id;
    int n;
    ft_error err;
    assert_int_equal(parse(whole, sizeof whole - 1, &id, &n, &err), FT_OK);
    mem_free(id);
    for (size_t cut = 0; cut < sizeof whole - 1; cut++)
        assert_refused(whole, cut, FT_FORMAT, "the file ends", "line ");
}

/* Catches a file whose announced number is memory asked for before it is checked, and a leak when
 * there is none. */
static void test_file_parse_without_memory_fails(void **state)
{
    (void)state;
    static const char text[] = HEAD "n 3\n5-7\nend\n";
    long before = mem_count();
    assert_refused(HEAD "n 2147483647\n", sizeof(HEAD "n 2147483647\n") - 1, FT_FORMAT, "line 4",
                   "");
    assert_int_equal(mem_count(), before);
    mem_fail_at(1);
    assert_refused(text, sizeof text - 1, FT_NOMEM, "3 ids", "");
    mem_fail_at(0);
}

/* ---- The rows --------------------------------------------------------------------------------- */

enum { N_COL = 256, N_ROW = 96, PAD = 24 };

/* A head of any type: random bytes, rows further apart than they are long. */
static tensor random_head(dtype type, uint8_t **bytes)
{
    size_t row = dtype_row_bytes(type, N_COL) + PAD;
    *bytes = malloc(N_ROW * row);
    assert_non_null(*bytes);
    uint32_t x = 12345 + (uint32_t)type;
    for (size_t i = 0; i < N_ROW * row; i++) {
        x = x * 1664525u + 1013904223u;
        (*bytes)[i] = (uint8_t)(x >> 24);
    }
    return (tensor){.data = *bytes,
                    .type = type,
                    .n_col = N_COL,
                    .n_row = N_ROW,
                    .n_mat = 1,
                    .row_bytes = row,
                    .mat_bytes = N_ROW * row,
                    .name = "output.weight"};
}

/* Catches rows that were requantised, shifted, or taken by position instead of by id - in every type
 * that a file can have. B089 B090 */
static void test_gather_every_type_has_the_rows_of_the_head(void **state)
{
    (void)state;
    static const int32_t id[] = {0, 3, 4, 31, 64, 95};
    enum { N = ARRAY_LEN(id) };
    for (size_t k = 0; dtype_at(k); k++) {
        uint8_t *bytes;
        tensor head = random_head(dtype_at(k)->type, &bytes);
        draft_vocab *v;
        ft_error err = {0};
        assert_int_equal(draft_vocab_create(&v, id, N, &head, &err), FT_OK);
        size_t row = dtype_row_bytes(head.type, N_COL);
        assert_int_equal(v->n, N);
        assert_memory_equal(v->id, id, sizeof id);
        assert_int_equal(v->head.type, head.type);
        assert_int_equal(v->head.n_row, N); /* B090: as many rows as ids */
        assert_int_equal(v->head.n_col, N_COL);
        assert_int_equal(v->head.n_mat, 1);
        assert_int_equal(v->head.row_bytes, row);
        assert_int_equal(v->head.mat_bytes, N * row);
        assert_string_equal(v->head.name, "output.weight");
        assert_int_equal((uintptr_t)v->head.data % MEM_ALIGN, 0);
        for (int r = 0; r < N; r++)
            assert_memory_equal((const uint8_t *)v->head.data + (size_t)r * row,
                                bytes + (size_t)id[r] * head.row_bytes, row);
        draft_vocab_free(v);
        free(bytes);
    }
    draft_vocab_free(NULL);
}

/* Catches ids that do not name rows: each is a read outside the head, or a token drafted twice. B089 */
static void test_gather_wrong_ids_are_refused(void **state)
{
    (void)state;
    static const struct {
        int32_t id[3];
        int n;
        const char *words;
    } bad[] = {
        {{0}, 0, "0 ids, want 1 to 96"},
        {{0}, -1, "-1 ids, want 1 to 96"},
        {{0}, N_ROW + 1, "97 ids, want 1 to 96"},
        {{-1, 2, 3}, 3, "id -1, want 0 to 95"},
        {{1, 2, N_ROW}, 3, "id 96, want 0 to 95"},
        {{1, 2, INT32_MAX}, 3, "id 2147483647, want 0 to 95"},
        {{5, 5, 6}, 3, "id 5 behind 5"},
        {{5, 4, 6}, 3, "id 4 behind 5, want ascending ids, each once"},
    };
    uint8_t *bytes;
    tensor head = random_head(DTYPE_Q8_0, &bytes);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        draft_vocab *v = (draft_vocab *)&head;
        ft_error err = {0};
        assert_int_equal(draft_vocab_create(&v, bad[i].id, bad[i].n, &head, &err), FT_ARG);
        assert_non_null(strstr(err.msg, bad[i].words));
        assert_null(v);
    }
    free(bytes);
}

/* Catches a failed allocation that is used, or leaks what came before it. */
static void test_gather_every_allocation_may_fail(void **state)
{
    (void)state;
    static const int32_t id[] = {1, 2, 90};
    uint8_t *bytes;
    tensor head = random_head(DTYPE_Q4_K, &bytes);
    int n_failed = 0;
    for (;; n_failed++) {
        draft_vocab *v;
        ft_error err = {0};
        mem_fail_at(n_failed + 1);
        ft_status st = draft_vocab_create(&v, id, 3, &head, &err);
        mem_fail_at(0);
        if (st == FT_OK) {
            draft_vocab_free(v);
            break;
        }
        assert_int_equal(st, FT_NOMEM);
        assert_null(v);
        assert_non_null(strstr(err.msg, "draft vocabulary"));
    }
    assert_int_equal(n_failed, 3);
    free(bytes);
}

/* Catches a search that misses the first or last id, or finds one that is not there. */
static void test_find_every_id_gives_its_row_or_none(void **state)
{
    (void)state;
    uint8_t *bytes;
    tensor head = random_head(DTYPE_F16, &bytes);
    for (int n = 1; n <= 9; n++) {
        int32_t id[9];
        for (int i = 0; i < n; i++)
            id[i] = 3 * i + 2;
        draft_vocab *v;
        assert_int_equal(draft_vocab_create(&v, id, n, &head, NULL), FT_OK);
        for (int32_t t = -2; t < N_ROW + 2; t++) {
            int want = t >= 0 && t % 3 == 2 && t / 3 < n ? t / 3 : -1;
            assert_int_equal(draft_vocab_find(v, t), want);
        }
        assert_int_equal(draft_vocab_find(v, INT32_MAX), -1);
        assert_int_equal(draft_vocab_find(v, INT32_MIN), -1);
        draft_vocab_free(v);
    }
    free(bytes);
}

/* Catches a product over the gathered rows that differs from the whole head's by a bit: then a draft
 * vocabulary of all tokens would not be the same as none. 64 of 512 tokens. B089 */
static void test_logits_of_gathered_rows_are_those_of_the_head(void **state)
{
    (void)state;
    static const dtype type[] = {DTYPE_F32,  DTYPE_F16,  DTYPE_BF16,   DTYPE_Q8_0,
                                 DTYPE_Q5_0, DTYPE_Q4_0, DTYPE_IQ4_NL, DTYPE_Q2_0};
    backend *be;
    backend_params bp = {.n_thread = 2};
    assert_int_equal(backend_create(&be, &bp, NULL), FT_OK);
    int32_t id[64];
    for (int i = 0; i < 64; i++)
        id[i] = 8 * i + (i * 5) % 8; /* one of each eight, at changing places */
    for (size_t k = 0; k < ARRAY_LEN(type); k++) {
        tiny_opts o = tiny_default(MODEL_QWEN4EXP);
        o.n_vocab = 512;
        o.type[TINY_HEAD] = type[k];
        tiny_model t = tiny_open(&o, NULL);
        assert_int_equal(t.st, FT_OK);
        const tensor *head = &t.m->mtp.head;
        draft_vocab *v;
        assert_int_equal(draft_vocab_create(&v, id, 64, head, NULL), FT_OK);
        assert_true(backend_can_matmul(be, head->type));
        static float x[2 * 1024], full[2 * 512], part[2 * 64];
        int n_col = head->n_col;
        assert_true(n_col <= 1024);
        for (int i = 0; i < 2 * n_col; i++)
            x[i] = (float)((i * 37 + 11) % 101 - 50) / 64.0f;
        void *q8 = mem_alloc_aligned(be_act_bytes(2, n_col));
        assert_non_null(q8);
        be_act a = be_act_of(x, 2, n_col, q8), b = be_act_of(x, 2, n_col, q8);
        be_matmul(be, full, 512, head, &a);
        be_matmul(be, part, 64, &v->head, &b);
        for (int i = 0; i < 2; i++)
            for (int r = 0; r < 64; r++)
                assert_memory_equal(&part[i * 64 + r], &full[i * 512 + id[r]], sizeof(float));
        mem_free(q8);
        draft_vocab_free(v);
        tiny_close(&t);
    }
    backend_free(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_file_write_then_parse_gives_the_ids),
        cmocka_unit_test(test_file_accepts_every_way_to_write_ids),
        cmocka_unit_test(test_file_faults_are_refused_with_their_line),
        cmocka_unit_test(test_file_cut_anywhere_is_refused),
        cmocka_unit_test(test_file_parse_without_memory_fails),
        cmocka_unit_test(test_gather_every_type_has_the_rows_of_the_head),
        cmocka_unit_test(test_gather_wrong_ids_are_refused),
        cmocka_unit_test(test_gather_every_allocation_may_fail),
        cmocka_unit_test(test_find_every_id_gives_its_row_or_none),
        cmocka_unit_test(test_logits_of_gathered_rows_are_those_of_the_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
