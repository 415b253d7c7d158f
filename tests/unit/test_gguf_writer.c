/* test_gguf_writer.c - the writer: misuse is a status, the old file survives, nothing is left. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "gguf/gguf.h"
#include "support/tmpdir.h"

static int n_files(void)
{
    DIR *dir = opendir(test_tmpdir());
    assert_non_null(dir);
    int n = 0;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

static gguf_writer *begin_write(const char *file)
{
    char path[TEST_PATH_MAX];
    ft_error err = {0};
    gguf_writer *w;
    if (gguf_writer_open(&w, test_path(path, file), &err) != FT_OK)
        fail_msg("%s", err.msg);
    return w;
}

static gguf_file *open_file(const char *file)
{
    char path[TEST_PATH_MAX];
    ft_error err = {0};
    gguf_file *f;
    if (gguf_open(&f, test_path(path, file), &err) != FT_OK)
        fail_msg("%s", err.msg);
    return f;
}

static void finish(gguf_writer *w)
{
    ft_error err = {0};
    if (gguf_writer_begin(w, &err) != FT_OK || gguf_writer_close(w, &err) != FT_OK)
        fail_msg("%s", err.msg);
}

/* A file of a version number, for "does the old one survive?" */
static void write_version(const char *file, int version)
{
    gguf_writer *w = begin_write(file);
    gguf_put_int(w, "version", GGUF_I32, version);
    finish(w);
}

static int read_version(const char *file)
{
    int64_t v;
    gguf_file *f = open_file(file);
    assert_int_equal(gguf_get_int(f, "version", 0, 99, &v, NULL), FT_OK);
    gguf_close(f);
    return (int)v;
}

/* Both values in the file, or the first kept. */
static void test_writer_key_twice_keeps_the_last(void **state)
{
    (void)state;
    gguf_writer *w = begin_write("twice.gguf");
    gguf_put_int(w, "version", GGUF_I32, 1);
    gguf_put_str(w, "b", "x", 1);
    gguf_put_int(w, "version", GGUF_I32, 2);
    gguf_put_f32(w, "b", 1.0f);
    gguf_put_int(w, "version", GGUF_U8, 3);
    finish(w);
    assert_int_equal(read_version("twice.gguf"), 3);
    gguf_file *f = open_file("twice.gguf");
    assert_int_equal(gguf_n_kv(f), 2);
    assert_int_equal(gguf_kv_find(f, "b")->type, GGUF_F32);
    gguf_close(f);
}

/* An entry that changes when it is copied: arrays of arrays, strings, every type. */
static void test_writer_put_kv_copies_every_type(void **state)
{
    (void)state;
    gguf_file *f;
    ft_error err = {0};
    assert_int_equal(gguf_open(&f, "tests/fuzz/corpus/gguf/good_v3.gguf", &err), FT_OK);
    gguf_writer *w = begin_write("copy.gguf");
    for (size_t i = 0; i < gguf_n_kv(f); i++)
        gguf_put_kv(w, gguf_kv_at(f, i));
    finish(w);
    gguf_file *g = open_file("copy.gguf");
    assert_int_equal(gguf_n_kv(g), gguf_n_kv(f));
    for (size_t i = 0; i < gguf_n_kv(f); i++) {
        const gguf_kv *a = gguf_kv_at(f, i);
        const gguf_kv *b = gguf_kv_at(g, i);
        assert_string_equal(a->key, b->key);
        assert_int_equal(a->type, b->type);
        assert_int_equal(a->elem, b->elem);
        assert_int_equal(a->n, b->n);
        assert_int_equal(a->raw_bytes, b->raw_bytes);
        assert_memory_equal(a->raw, b->raw, a->raw_bytes);
    }
    gguf_close(f);
    gguf_close(g);
}

/* The mistakes of a caller, one each time. */
static void misuse(gguf_writer *w, int what)
{
    const uint64_t dim[] = {32, 1, 1, 1, 1};
    const uint64_t zero[] = {32, 0};
    const uint64_t huge[] = {1u << 31};
    const uint64_t odd[] = {33};
    const uint64_t wraps[] = {INT32_MAX, INT32_MAX, INT32_MAX};
    switch (what) {
    case 0:
        gguf_put_int(w, "bad", GGUF_U8, 256);
        break;
    case 1:
        gguf_put_int(w, "bad", GGUF_I8, -129);
        break;
    case 2:
        gguf_put_int(w, "bad", GGUF_BOOL, 2);
        break;
    case 3:
        gguf_put_int(w, "bad", GGUF_F32, 1);
        break;
    case 4:
        gguf_put_int(w, "", GGUF_U8, 1);
        break;
    case 5:
        gguf_put_array(w, "bad", GGUF_STRING, NULL, 0);
        break;
    case 6:
        gguf_put_array(w, "bad", GGUF_U64, NULL, SIZE_MAX / 4);
        break;
    case 7:
        gguf_put_int(w, "general.alignment", GGUF_U32, 48); /* bad */
        break;
    case 8:
        gguf_put_str(w, "general.alignment", "bad", 3);
        break;
    case 9:
        gguf_declare(w, "bad", DTYPE_F32, 0, dim);
        break;
    case 10:
        gguf_declare(w, "bad", DTYPE_F32, 5, dim);
        break;
    case 11:
        gguf_declare(w, "bad", (dtype)4, 1, dim);
        break;
    case 12:
        gguf_declare(w, "bad", DTYPE_F32, 2, zero);
        break;
    case 13:
        gguf_declare(w, "bad", DTYPE_F32, 1, huge);
        break;
    case 14:
        gguf_declare(w, "bad", DTYPE_Q8_0, 1, odd);
        break;
    case 15:
        gguf_declare(w, "bad", DTYPE_F64, 3, wraps);
        break;
    case 16:
        gguf_declare(w, "bad", DTYPE_F32, 1, dim);
        gguf_declare(w, "bad", DTYPE_F32, 1, dim);
        break;
    default:
        gguf_declare(w, "", DTYPE_F32, 1, dim);
        break;
    }
}

/* A mistake that is forgotten by the time of begin, or a file in spite of it. */
static void test_writer_misuse_is_reported_and_leaves_the_old_file(void **state)
{
    (void)state;
    write_version("misuse.gguf", 1);
    int before = n_files();
    for (int what = 0; what < 18; what++) {
        ft_error err = {0};
        gguf_writer *w = begin_write("misuse.gguf");
        gguf_put_int(w, "version", GGUF_I32, 2);
        misuse(w, what);
        gguf_put_int(w, "after", GGUF_I32, 2);
        gguf_declare(w, "after", DTYPE_F32, 1, (uint64_t[]){1});
        assert_int_equal(gguf_writer_begin(w, &err), FT_ARG);
        assert_non_null(strstr(err.msg, "misuse.gguf"));
        assert_null(strstr(err.msg, "after"));
        assert_int_equal(gguf_write_data(w, "1234", 4, NULL), FT_ARG);
        assert_int_equal(gguf_writer_close(w, NULL), FT_ARG);
        assert_int_equal(read_version("misuse.gguf"), 1);
        assert_int_equal(n_files(), before);
    }
}

/* A half-written file renamed over a good one. */
static void test_writer_close_before_all_data_keeps_the_old_file(void **state)
{
    (void)state;
    write_version("half.gguf", 1);
    int before = n_files();
    for (size_t n = 0; n <= 9; n++) {
        ft_error err = {0};
        gguf_writer *w = begin_write("half.gguf");
        gguf_put_int(w, "version", GGUF_I32, 2);
        gguf_declare(w, "a", DTYPE_F32, 1, (uint64_t[]){1});
        gguf_declare(w, "b", DTYPE_F32, 1, (uint64_t[]){1});
        assert_int_equal(gguf_writer_begin(w, &err), FT_OK);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(gguf_write_data(w, "x", 1, &err), i < 8 ? FT_OK : FT_ARG);
        ft_error end = {0};
        assert_int_equal(gguf_writer_close(w, &end), n == 8 ? FT_OK : FT_ARG);
        if (n < 8)
            assert_non_null(strstr(end.msg, n < 4 ? "tensor 'a'" : "tensor 'b'"));
        assert_int_equal(read_version("half.gguf"), n < 8 ? 1 : 2);
        assert_int_equal(n_files(), before);
    }
}

/* Data of one tensor running into the next, data too early, entries too late. */
static void test_writer_calls_out_of_order_fail(void **state)
{
    (void)state;
    int before = n_files();
    gguf_writer *w = begin_write("order.gguf");
    assert_int_equal(gguf_write_data(w, "x", 1, NULL), FT_ARG);
    gguf_writer_abort(w);

    w = begin_write("order.gguf");
    gguf_declare(w, "a", DTYPE_F32, 1, (uint64_t[]){1});
    gguf_declare(w, "b", DTYPE_F32, 1, (uint64_t[]){1});
    assert_int_equal(gguf_writer_begin(w, NULL), FT_OK);
    assert_int_equal(gguf_write_data(w, "12345678", 8, NULL), FT_ARG);
    gguf_writer_abort(w);

    for (int i = 0; i < 3; i++) {
        w = begin_write("order.gguf");
        assert_int_equal(gguf_writer_begin(w, NULL), FT_OK);
        if (i == 0)
            gguf_put_int(w, "late", GGUF_U8, 1);
        else if (i == 1)
            gguf_declare(w, "late", DTYPE_F32, 1, (uint64_t[]){1});
        else
            assert_int_equal(gguf_writer_begin(w, NULL), FT_ARG);
        assert_int_equal(gguf_writer_close(w, NULL), FT_ARG);
    }
    assert_int_equal(gguf_writer_close(begin_write("order.gguf"), NULL), FT_ARG);
    assert_int_equal(gguf_writer_close(NULL, NULL), FT_OK);
    gguf_writer_abort(NULL);
    assert_int_equal(n_files(), before);
}

/* A full disk taken for success: here a limit on the size of files plays the disk. */
static void test_writer_disk_full_is_io_and_keeps_the_old_file(void **state)
{
    (void)state;
    static const uint8_t zeros[65536];
    write_version("full.gguf", 1);
    int before = n_files();
    struct rlimit old, low;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    low = old;
    low.rlim_cur = 32768;
    ft_error err = {0};
    gguf_writer *w = begin_write("full.gguf");
    gguf_declare(w, "a", DTYPE_I8, 1, (uint64_t[]){sizeof zeros});
    assert_int_equal(gguf_writer_begin(w, &err), FT_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    ft_status st = gguf_write_data(w, zeros, sizeof zeros, &err);
    ft_status st_close = gguf_writer_close(w, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(st, FT_IO);
    assert_int_equal(st_close, FT_IO);
    assert_non_null(strstr(err.msg, "full.gguf"));
    assert_int_equal(read_version("full.gguf"), 1);
    assert_int_equal(n_files(), before);
}

/* A folder that is not there, a target that cannot be replaced. */
static void test_writer_unwritable_place_is_io(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    ft_error err = {0};
    gguf_writer *w;
    assert_int_equal(gguf_writer_open(&w, test_path(path, "no/such/x.gguf"), &err), FT_IO);
    assert_null(w);
    assert_non_null(strstr(err.msg, "no/such/x.gguf"));
    assert_int_equal(mkdir(test_path(path, "folder.gguf"), 0700), 0);
    int before = n_files();
    err = (ft_error){0};
    assert_int_equal(gguf_writer_open(&w, path, &err), FT_IO); /* before any work is done */
    assert_non_null(strstr(err.msg, "a directory, want a file name"));
    w = begin_write("later.gguf"); /* and one that becomes a directory meanwhile */
    assert_int_equal(mkdir(test_path(path, "later.gguf"), 0700), 0);
    assert_int_equal(gguf_writer_begin(w, NULL), FT_OK);
    assert_int_equal(gguf_writer_close(w, NULL), FT_IO);
    assert_int_equal(n_files(), before + 1);
}

static ft_status write_all_kinds(const char *path, ft_error *err)
{
    gguf_writer *w;
    ft_status st = gguf_writer_open(&w, path, err);
    if (st != FT_OK)
        return st;
    gguf_put_int(w, "general.alignment", GGUF_U32, 8);
    gguf_put_str(w, "s", "a long text, longer than the first piece of memory of a buffer is", 64);
    gguf_put_str_array(w, "a", (gguf_str[]){{"x", 1}, {"y", 1}}, 2);
    gguf_put_array(w, "n", GGUF_U8, "123", 3);
    gguf_put_f32(w, "f", 1);
    gguf_declare(w, "t", DTYPE_F32, 1, (uint64_t[]){1});
    gguf_declare(w, "u", DTYPE_F32, 1, (uint64_t[]){1});
    st = gguf_writer_begin(w, err);
    if (st == FT_OK)
        st = gguf_write_data(w, "1234", 4, err);
    if (st == FT_OK)
        st = gguf_write_data(w, "5678", 4, err);
    ft_status st_close = gguf_writer_close(w, err);
    assert_true(st == FT_OK || st == st_close);
    return st_close;
}

/* A leak, a crash or a silent success when memory ends; run under AddressSanitizer. */
static void test_writer_each_allocation_fails_with_nomem(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    test_path(path, "nomem.gguf");
    int before = n_files();
    ft_status st;
    long n = 0;
    do {
        ft_error err = {0};
        mem_fail_at(++n);
        st = write_all_kinds(path, &err);
        mem_fail_at(0);
        if (st != FT_OK) {
            assert_int_equal(st, FT_NOMEM);
            assert_int_equal(err.code, FT_NOMEM);
            assert_non_null(strstr(err.msg, "nomem.gguf"));
            assert_int_equal(n_files(), before);
        }
        assert_true(n < 1000);
    } while (st != FT_OK);
    assert_true(n > 20);
    gguf_close(open_file("nomem.gguf"));
}

/* Quadratic time for a key that is looked for among all others. */
static void test_writer_many_keys_take_no_time(void **state)
{
    (void)state;
    gguf_writer *w = begin_write("many.gguf");
    for (int i = 0; i < 100000; i++) {
        char key[32];
        snprintf(key, sizeof key, "key.%d", i % 90000);
        gguf_put_int(w, key, GGUF_I32, i);
    }
    clock_t start = clock();
    finish(w);
    gguf_file *f = open_file("many.gguf");
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_int_equal(gguf_n_kv(f), 90000);
    int64_t v;
    assert_int_equal(gguf_get_int(f, "key.5", 90005, 90005, &v, NULL), FT_OK);
    assert_int_equal(gguf_get_int(f, "key.50000", 50000, 50000, &v, NULL), FT_OK);
    gguf_close(f);
    assert_true(seconds < 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer_key_twice_keeps_the_last),
        cmocka_unit_test(test_writer_put_kv_copies_every_type),
        cmocka_unit_test(test_writer_misuse_is_reported_and_leaves_the_old_file),
        cmocka_unit_test(test_writer_close_before_all_data_keeps_the_old_file),
        cmocka_unit_test(test_writer_calls_out_of_order_fail),
        cmocka_unit_test(test_writer_disk_full_is_io_and_keeps_the_old_file),
        cmocka_unit_test(test_writer_unwritable_place_is_io),
        cmocka_unit_test(test_writer_each_allocation_fails_with_nomem),
        cmocka_unit_test(test_writer_many_keys_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
