/* test_base.c - messages, memory, size arithmetic, element types, statuses. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/err.h"
#include "base/mem.h"

/* ---- err ----------------------------------------------------------------------------------------- */

/* Catches a later failure (of the clean-up, say) that hides the first. */
static void test_err_second_failure_keeps_the_first_message(void **state)
{
    (void)state;
    ft_error err = {0};
    assert_int_equal(err_set(&err, FT_IO, "file '%s': %d", "a", 7), FT_IO);
    assert_int_equal(err_set(&err, FT_NOMEM, "second"), FT_NOMEM);
    assert_int_equal(err.code, FT_IO);
    assert_string_equal(err.msg, "file 'a': 7");
}

/* Catches a write through a NULL error, and a status that is lost with it. */
static void test_err_null_struct_returns_the_code(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, FT_RANGE, "x"), FT_RANGE);
    assert_int_equal(err_prefix(NULL, FT_RANGE, "x"), FT_RANGE);
}

/* Catches a message without its NUL when a file's name is long. */
static void test_err_long_message_is_cut(void **state)
{
    (void)state;
    char name[400];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    ft_error err = {0};
    assert_int_equal(err_set(&err, FT_FORMAT, "%s", name), FT_FORMAT);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
}

/* Catches a prefix that eats the message, or runs over the struct. */
static void test_err_prefix_goes_before_and_is_cut(void **state)
{
    (void)state;
    ft_error err = {0};
    assert_int_equal(err_prefix(&err, FT_IO, "none"), FT_IO);
    assert_string_equal(err.msg, ""); /* no failure recorded: nothing to name */
    assert_int_equal(err_set(&err, FT_FORMAT, "bad count"), FT_FORMAT);
    assert_int_equal(err_prefix(&err, FT_FORMAT, "shard %d", 3), FT_FORMAT);
    assert_string_equal(err.msg, "shard 3: bad count");
    assert_int_equal(err_prefix(&err, FT_FORMAT, "%0240d", 0), FT_FORMAT);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    assert_int_equal(err_prefix(&err, FT_FORMAT, "%0300d", 0), FT_FORMAT);
    assert_true(memchr(err.msg, '\0', sizeof err.msg) != NULL);
}

/* ---- mem ----------------------------------------------------------------------------------------- */

/* Catches products that wrap: the small sums of hostile files. */
static void test_size_arithmetic_refuses_overflow(void **state)
{
    (void)state;
    size_t n = 0;
    assert_true(size_mul(&n, SIZE_MAX / 2, 2));
    assert_int_equal(n, SIZE_MAX - 1);
    assert_false(size_mul(&n, SIZE_MAX / 2 + 1, 2));
    assert_true(size_mul(&n, 0, SIZE_MAX));
    assert_int_equal(n, 0);
    assert_true(size_add(&n, SIZE_MAX - 1, 1));
    assert_false(size_add(&n, SIZE_MAX, 1));
    assert_int_equal(size_align(0, 64), 0);
    assert_int_equal(size_align(1, 64), 64);
    assert_int_equal(size_align(64, 64), 64);
}

/* Catches a huge or empty request that reaches malloc, whose answer for them is its own. */
static void test_mem_absurd_sizes_return_null(void **state)
{
    (void)state;
    assert_null(mem_alloc(0));
    assert_null(mem_zalloc(0));
    assert_null(mem_calloc(0, 8));
    assert_null(mem_alloc((size_t)PTRDIFF_MAX + 1));
    assert_null(mem_calloc(SIZE_MAX / 4, 8));
    assert_null(mem_alloc_aligned(PTRDIFF_MAX));
    assert_null(mem_alloc_aligned(0));
    assert_null(mem_strndup("", SIZE_MAX));
    mem_free(NULL);
}

/* Catches memory that is not zero, not aligned, or lost by realloc. */
static void test_mem_gives_what_it_says(void **state)
{
    (void)state;
    uint8_t *p = mem_calloc(100, 7);
    assert_non_null(p);
    for (int i = 0; i < 700; i++)
        assert_int_equal(p[i], 0);
    p[699] = 9;
    p = mem_realloc(p, 100000);
    assert_non_null(p);
    assert_int_equal(p[699], 9);
    mem_free(p);
    for (size_t n = 1; n < 200; n += 13) {
        p = mem_alloc_aligned(n);
        assert_int_equal((uintptr_t)p % MEM_ALIGN, 0);
        memset(p, 1, n);
        mem_free(p);
    }
    char *s = mem_strndup("abcdef", 3);
    assert_string_equal(s, "abc");
    mem_free(s);
}

/* Catches a failure that comes at the wrong allocation, comes twice, or is not counted. */
static void test_mem_fail_at_fails_the_nth_once(void **state)
{
    (void)state;
    mem_fail_at(3);
    long before = mem_count();
    void *p[4];
    for (int i = 0; i < 4; i++)
        p[i] = mem_alloc(8);
    assert_non_null(p[0]);
    assert_non_null(p[1]);
    assert_null(p[2]);
    assert_non_null(p[3]);
    assert_int_equal(mem_count() - before, 4);
    mem_fail_at(1);
    assert_null(mem_realloc(p[0], 80)); /* p[0] stays valid */
    mem_fail_at(1);
    mem_fail_at(0); /* taken back */
    void *q = mem_zalloc(8);
    assert_non_null(q);
    mem_free(q);
    for (int i = 0; i < 4; i++)
        mem_free(p[i]);
}

/* The status of a child that allocates under n guards, one of them ended again. */
static int child_under_guard(int n)
{
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGABRT, SIG_DFL);
        for (int i = 0; i < n; i++)
            mem_guard_begin();
        if (n > 0)
            mem_guard_end();
        void *p = mem_alloc(8);
        mem_free(p);
        _exit(p ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Catches a guard that does not guard (debug builds), does not end, or does not nest. */
static void test_mem_guard_aborts_on_allocation(void **state)
{
    (void)state;
    assert_int_equal(child_under_guard(0), 0);
    assert_int_equal(child_under_guard(1), 0);
    int status = child_under_guard(2);
#ifdef FT_DEBUG
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
    assert_int_equal(status, 0);
#endif
}

/* ---- dtype and statuses --------------------------------------------------------------------------- */

/* Catches a table entry that its number or its name does not find. */
static void test_dtype_table_is_consistent(void **state)
{
    (void)state;
    int n = 0;
    for (const dtype_info *d; (d = dtype_at((size_t)n)) != NULL; n++) {
        assert_ptr_equal(dtype_find((uint32_t)d->type), d);
        assert_ptr_equal(dtype_find_name(d->name), d);
        assert_string_equal(dtype_name(d->type), d->name);
        assert_int_equal(dtype_row_bytes(d->type, 3 * (size_t)d->block_values), 3 * d->block_bytes);
    }
    assert_int_equal(n, 32);
    assert_null(dtype_at(SIZE_MAX));
}

/* Catches removed type numbers (4, 5) taken for a type, and names that are matched in part. */
static void test_dtype_unknown_is_null(void **state)
{
    (void)state;
    assert_null(dtype_find(4));
    assert_null(dtype_find(5));
    assert_null(dtype_find(1000));
    assert_null(dtype_find(UINT32_MAX));
    assert_null(dtype_find_name("q8"));
    assert_null(dtype_find_name("q8_00"));
    assert_null(dtype_find_name(""));
    assert_ptr_equal(dtype_find_name("q8_0"), dtype_find_name("Q8_0"));
    assert_int_equal(dtype_row_bytes(DTYPE_Q8_0, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_err_second_failure_keeps_the_first_message),
        cmocka_unit_test(test_err_null_struct_returns_the_code),
        cmocka_unit_test(test_err_long_message_is_cut),
        cmocka_unit_test(test_err_prefix_goes_before_and_is_cut),
        cmocka_unit_test(test_size_arithmetic_refuses_overflow),
        cmocka_unit_test(test_mem_absurd_sizes_return_null),
        cmocka_unit_test(test_mem_gives_what_it_says),
        cmocka_unit_test(test_mem_fail_at_fails_the_nth_once),
        cmocka_unit_test(test_mem_guard_aborts_on_allocation),
        cmocka_unit_test(test_dtype_table_is_consistent),
        cmocka_unit_test(test_dtype_unknown_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
