/* test_base_newfile.c - a file that appears when it is complete; temporaries of others, living and dead. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/newfile.h"
#include "support/tmpdir.h"

static bool there(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

static void expect_content(const char *path, const char *want)
{
    char *got;
    size_t n;
    assert_int_equal(file_read_all(&got, &n, path, 1000, NULL), FT_OK);
    assert_string_equal(got, want);
    mem_free(got);
}

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void write_one(const char *path, const char *text)
{
    newfile f;
    assert_int_equal(newfile_open(&f, path, NULL), FT_OK);
    assert_int_equal(newfile_put(&f, text, strlen(text), NULL), FT_OK);
    assert_int_equal(newfile_commit(&f, NULL), FT_OK);
    assert_int_equal(f.fd, -1);
    newfile_abort(&f); /* nothing to give up any more */
    expect_content(path, text);
}

/* Catches a file that shows before it is whole, an old one that is gone before, and a temporary that stays. */
static void test_newfile_appears_at_commit_alone(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX], part[TEST_PATH_MAX];
    test_path(path, "a");
    test_path(part, "a.part-0");
    newfile f;
    assert_int_equal(newfile_open(&f, path, NULL), FT_OK);
    assert_int_equal(newfile_put(&f, "...def", 6, NULL), FT_OK);
    assert_int_equal(newfile_put_at(&f, 0, "abc", 3, NULL), FT_OK);
    assert_int_equal(f.n_bytes, 6);
    assert_true(there(part) && !there(path));
    assert_int_equal(newfile_commit(&f, NULL), FT_OK);
    assert_false(there(part));
    expect_content(path, "abcdef");
    assert_int_equal(newfile_open(&f, path, NULL), FT_OK);
    assert_int_equal(newfile_put(&f, "new", 3, NULL), FT_OK);
    expect_content(path, "abcdef");
    newfile_abort(&f);
    newfile_abort(&f);
    assert_false(there(part));
    expect_content(path, "abcdef");
    write_one(path, "again");
}

/* Catches temporaries that pile up: what a killed process left goes with the next write; that of a living one
 * is left alone, and written beside. */
static void test_newfile_removes_what_nobody_writes(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX], part0[TEST_PATH_MAX], part1[TEST_PATH_MAX];
    test_path(path, "b");
    test_path(part0, "b.part-0");
    test_path(part1, "b.part-1");
    put_file(part0, "half");
    write_one(path, "one");
    assert_false(there(part0));
    newfile f, g;
    assert_int_equal(newfile_open(&f, path, NULL), FT_OK);
    assert_int_equal(newfile_open(&g, path, NULL), FT_OK); /* at the same time */
    assert_true(there(part0) && there(part1));
    assert_int_equal(newfile_put(&f, "f", 1, NULL), FT_OK);
    assert_int_equal(newfile_put(&g, "g", 1, NULL), FT_OK);
    assert_int_equal(newfile_commit(&g, NULL), FT_OK);
    expect_content(path, "g");
    assert_int_equal(newfile_commit(&f, NULL), FT_OK);
    expect_content(path, "f");
    assert_false(there(part0) || there(part1));
}

/* Catches a link that somebody put in the way, through which another file would be overwritten. */
static void test_newfile_follows_no_link(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX], part[TEST_PATH_MAX], victim[TEST_PATH_MAX];
    test_path(path, "c");
    test_path(part, "c.part-0");
    test_path(victim, "victim");
    put_file(victim, "mine");
    assert_int_equal(symlink(victim, part), 0);
    write_one(path, "text");
    expect_content(victim, "mine");
}

/* Catches a failure without the reason, or that leaves something behind. */
static void test_newfile_failures_name_the_file(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    newfile f;
    ft_error err = {0};
    assert_int_equal(newfile_open(&f, test_path(path, "no/x"), &err), FT_IO);
    assert_non_null(strstr(err.msg, "no/x.part-0: cannot create it: No such file"));
    assert_int_equal(f.fd, -1);
    err = (ft_error){0};
    assert_int_equal(newfile_open(&f, test_tmpdir(), &err), FT_IO);
    assert_non_null(strstr(err.msg, "a folder, want the name of a file"));
    for (int k = 1; k <= 2; k++) {
        mem_fail_at(k);
        assert_int_equal(newfile_open(&f, test_path(path, "d"), NULL), FT_NOMEM);
        mem_fail_at(0);
    }
    assert_int_equal(newfile_open(&f, path, NULL), FT_OK);
    assert_int_equal(mkdir(path, 0700), 0); /* in the way of the name */
    err = (ft_error){0};
    assert_int_equal(newfile_commit(&f, &err), FT_IO);
    assert_non_null(strstr(err.msg, "cannot rename it to"));
    assert_false(there(test_path(path, "d.part-0")));
}

/* Catches names without a folder in them. */
static void test_newfile_in_the_current_folder(void **state)
{
    (void)state;
    char cwd[TEST_PATH_MAX];
    assert_non_null(getcwd(cwd, sizeof cwd));
    test_tmpdir();
    assert_int_equal(chdir(test_tmpdir()), 0);
    write_one("plain", "text");
    assert_int_equal(chdir(cwd), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_newfile_appears_at_commit_alone),
        cmocka_unit_test(test_newfile_removes_what_nobody_writes),
        cmocka_unit_test(test_newfile_follows_no_link),
        cmocka_unit_test(test_newfile_failures_name_the_file),
        cmocka_unit_test(test_newfile_in_the_current_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
