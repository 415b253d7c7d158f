/* test_gguf_shards.c - split files: any shard given, each one checked, none forgotten (B099). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "gguf/gguf.h"
#include "support/tmpdir.h"

typedef struct {
    int no, count;
    int total;        /* split.tensors.count */
    const char *name; /* of its one tensor; NULL: none */
    int alignment;    /* 0: not said */
} shard;

static const shard good[3] = {
    {0, 3, 2, NULL, 64}, {1, 3, 2, "blk.0.a", 0}, {2, 3, 2, "blk.1.a", 128}};

static void write_shard(const char *file, const shard *s)
{
    char path[TEST_PATH_MAX];
    ft_error err = {0};
    gguf_writer *w;
    assert_int_equal(gguf_writer_open(&w, test_path(path, file), &err), FT_OK);
    gguf_put_int(w, "split.no", GGUF_U16, s->no);
    gguf_put_int(w, "split.count", GGUF_U16, s->count);
    gguf_put_int(w, "split.tensors.count", GGUF_I32, s->total);
    if (s->alignment)
        gguf_put_int(w, "general.alignment", GGUF_U32, s->alignment);
    if (s->no == 0)
        gguf_put_str(w, "general.architecture", "qwen35", 6);
    if (s->name)
        gguf_declare(w, s->name, DTYPE_I32, 1, (uint64_t[]){1});
    if (gguf_writer_begin(w, &err) != FT_OK)
        fail_msg("%s", err.msg);
    if (s->name) {
        int32_t v = s->no;
        assert_int_equal(gguf_write_data(w, &v, sizeof v, &err), FT_OK);
    }
    if (gguf_writer_close(w, &err) != FT_OK)
        fail_msg("%s", err.msg);
}

static void write_split(const shard s[3])
{
    write_shard("m-00001-of-00003.gguf", &s[0]);
    write_shard("m-00002-of-00003.gguf", &s[1]);
    write_shard("m-00003-of-00003.gguf", &s[2]);
}

static void assert_fails(const char *file, ft_status want, const char *part, const char *part2)
{
    char path[TEST_PATH_MAX];
    ft_error err = {0};
    gguf_file *f;
    assert_int_equal(gguf_open(&f, test_path(path, file), &err), want);
    assert_null(f);
    if (!strstr(err.msg, part) || !strstr(err.msg, part2))
        fail_msg("'%s' lacks '%s' or '%s'", err.msg, part, part2);
}

/* Only the first shard read, or the given one taken for the first. */
static void test_shards_first_empty_any_given_opens_all(void **state)
{
    (void)state;
    write_split(good);
    for (int i = 1; i <= 3; i++) {
        char name[64], path[TEST_PATH_MAX];
        ft_error err = {0};
        gguf_file *f;
        snprintf(name, sizeof name, "m-%05d-of-00003.gguf", i);
        if (gguf_open(&f, test_path(path, name), &err) != FT_OK)
            fail_msg("%s", err.msg);
        assert_string_equal(gguf_path(f), path);
        assert_int_equal(gguf_n_shard(f), 3);
        assert_int_equal(gguf_n_tensor(f), 2);
        assert_int_equal(gguf_alignment(f), 64);
        assert_non_null(gguf_kv_find(f, "general.architecture"));
        const gguf_tensor *a = gguf_tensor_find(f, "blk.0.a");
        const gguf_tensor *b = gguf_tensor_find(f, "blk.1.a");
        assert_int_equal(a->shard, 1);
        assert_int_equal(b->shard, 2);
        assert_int_equal(*(const int32_t *)a->t.data, 1);
        assert_int_equal(*(const int32_t *)b->t.data, 2);
        assert_int_equal(b->file_offset % 128, 0);
        gguf_close(f);
    }
}

/* A download of which a part is missing. */
static void test_shards_one_missing_fails_with_its_name(void **state)
{
    (void)state;
    write_split(good);
    char path[TEST_PATH_MAX];
    assert_int_equal(unlink(test_path(path, "m-00002-of-00003.gguf")), 0);
    assert_fails("m-00003-of-00003.gguf", FT_IO, "m-00002-of-00003.gguf", "");
}

/* A shard of another file with the right name; a damaged last shard behind good ones. */
static void test_shards_foreign_one_fails_with_its_name(void **state)
{
    (void)state;
    shard s[3];
    const char *first = "m-00001-of-00003.gguf";
    const char *second = "m-00002-of-00003.gguf";

    memcpy(s, good, sizeof s);
    s[1].no = 2;
    write_split(s);
    assert_fails(first, FT_FORMAT, second, "'split.no': 2, want 1");

    memcpy(s, good, sizeof s);
    s[1].count = 4;
    write_split(s);
    assert_fails(first, FT_FORMAT, second, "'split.count': 4");

    memcpy(s, good, sizeof s);
    s[1].total = 9;
    write_split(s);
    assert_fails(first, FT_FORMAT, second, "'split.tensors.count': 9");

    memcpy(s, good, sizeof s);
    s[2].name = s[1].name;
    write_split(s);
    assert_fails(first, FT_FORMAT, "'blk.0.a'", "twice");

    write_split(good);
    char path[TEST_PATH_MAX];
    assert_int_equal(truncate(test_path(path, "m-00003-of-00003.gguf"), 200), 0);
    assert_fails(first, FT_FORMAT, "m-00003-of-00003.gguf", "");
}

/* Tensors silently missing: fewer than announced (B094). */
static void test_shards_tensor_count_off_fails(void **state)
{
    (void)state;
    for (int total = 0; total < 5; total++) {
        shard s[3];
        memcpy(s, good, sizeof s);
        s[0].total = s[1].total = s[2].total = total;
        write_split(s);
        if (total != 2)
            assert_fails("m-00001-of-00003.gguf", FT_FORMAT, "split.tensors.count", "hold 2");
    }
}

/* A shard under another name would be opened alone, a part of the model taken for the whole. */
static void test_shards_name_and_keys_disagree_fails(void **state)
{
    (void)state;
    write_shard("alone.gguf", &good[1]);
    assert_fails("alone.gguf", FT_FORMAT, "alone.gguf", "split in 3");
    write_shard("x-00001-of-00001.gguf", &good[1]);
    assert_fails("x-00001-of-00001.gguf", FT_FORMAT, "split in 3", "");
    write_shard("x-00004-of-00003.gguf", &good[1]);
    assert_fails("x-00004-of-00003.gguf", FT_FORMAT, "shard 4 of 3", "");
    write_shard("x-00000-of-00003.gguf", &good[1]);
    assert_fails("x-00000-of-00003.gguf", FT_FORMAT, "shard 0 of 3", "");

    char path[TEST_PATH_MAX];
    ft_error err = {0};
    gguf_writer *w;
    test_path(path, "y-00001-of-00002.gguf");
    assert_int_equal(gguf_writer_open(&w, path, &err), FT_OK);
    assert_int_equal(gguf_writer_begin(w, &err), FT_OK);
    assert_int_equal(gguf_writer_close(w, &err), FT_OK);
    assert_fails("y-00001-of-00002.gguf", FT_FORMAT, "split.no", "missing");
}

/* Files that are whole: merged from shards (count 0), one of one, a name that only looks alike. */
static void test_shards_whole_file_opens_alone(void **state)
{
    (void)state;
    const shard merged = {0, 0, 7, "a", 0};
    const shard single = {0, 1, 1, "a", 0};
    const struct {
        const char *file;
        const shard *s;
    } whole[] = {{"merged.gguf", &merged},
                 {"m-00001-of-00001.gguf", &single},
                 {"m-00001-of-0003x.gguf", &single},
                 {"m_00001-of-00003.gguf", &single}};
    for (size_t i = 0; i < ARRAY_LEN(whole); i++) {
        char path[TEST_PATH_MAX];
        ft_error err = {0};
        gguf_file *f;
        write_shard(whole[i].file, whole[i].s);
        if (gguf_open(&f, test_path(path, whole[i].file), &err) != FT_OK)
            fail_msg("%s", err.msg);
        assert_int_equal(gguf_n_tensor(f), 1);
        gguf_close(f);
    }
    const shard lacking = {0, 1, 2, "a", 0};
    write_shard("lacking.gguf", &lacking);
    assert_fails("lacking.gguf", FT_FORMAT, "split.tensors.count", "want 1");
}

/* A leak, a crash or a silent success when memory ends between shards; for AddressSanitizer. */
static void test_shards_each_allocation_fails_with_nomem(void **state)
{
    (void)state;
    write_split(good);
    char path[TEST_PATH_MAX];
    test_path(path, "m-00002-of-00003.gguf");
    ft_status st;
    long at = 0;
    do {
        ft_error err = {0};
        gguf_file *f;
        mem_fail_at(++at);
        st = gguf_open(&f, path, &err);
        mem_fail_at(0);
        if (st != FT_OK) {
            assert_int_equal(st, FT_NOMEM);
            assert_null(f);
            assert_non_null(strstr(err.msg, "m-0000"));
        }
        gguf_close(f);
        assert_true(at < 1000);
    } while (st != FT_OK);
    assert_true(at > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shards_first_empty_any_given_opens_all),
        cmocka_unit_test(test_shards_one_missing_fails_with_its_name),
        cmocka_unit_test(test_shards_foreign_one_fails_with_its_name),
        cmocka_unit_test(test_shards_tensor_count_off_fails),
        cmocka_unit_test(test_shards_name_and_keys_disagree_fails),
        cmocka_unit_test(test_shards_whole_file_opens_alone),
        cmocka_unit_test(test_shards_each_allocation_fails_with_nomem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
