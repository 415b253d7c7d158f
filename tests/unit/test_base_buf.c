/* test_base_buf.c - buffers with a limit, arenas, file maps. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "support/tmpdir.h"

#if defined(__SANITIZE_ADDRESS__)
#    define UNDER_ASAN 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer)
#        define UNDER_ASAN 1
#    endif
#endif
#ifdef UNDER_ASAN
#    include <sanitizer/asan_interface.h>
#endif

/* ---- buf ----------------------------------------------------------------------------------------- */

/* Catches a limit that is off by one, or a failed append that leaves a part behind. */
static void test_buf_limit_holds_exactly(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 10);
    buf_put(&b, "0123456789", 10);
    assert_false(b.failed);
    assert_string_equal(buf_cstr(&b), "0123456789");
    buf_putc(&b, 'x');
    assert_true(b.failed);
    assert_int_equal(b.len, 10);
    assert_null(buf_cstr(&b));
    buf_put(&b, "", 0); /* later appends do nothing */
    buf_puts(&b, "y");
    ft_error err = {0};
    assert_int_equal(buf_status(&b, "prompt", &err), FT_NOMEM);
    assert_string_equal(err.msg, "prompt: out of memory or over 10 bytes");
    buf_clear(&b);
    buf_puts(&b, "again");
    assert_string_equal(buf_cstr(&b), "again");
    buf_deinit(&b);
    buf_put(&b, "0123456789a", 11); /* the limit outlives deinit */
    assert_true(b.failed);
    buf_deinit(&b);
    buf_deinit(NULL);
}

/* Catches a buffer that cannot be empty, or whose NUL is counted. */
static void test_buf_empty_is_an_empty_string(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 0);
    assert_string_equal(buf_cstr(&b), "");
    buf_put(&b, "x", 0);
    buf_puts(&b, "");
    assert_false(b.failed);
    assert_non_null(buf_extend(&b, 0));
    assert_int_equal(b.len, 0);
    buf_putc(&b, 'x');
    assert_true(b.failed);
    buf_deinit(&b);
}

/* Catches growth that loses bytes, and printf without room for its NUL. */
static void test_buf_grows_and_prints(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 1 << 20);
    for (int i = 0; i < 5000; i++)
        buf_printf(&b, "%d,", i);
    const char *s = buf_cstr(&b);
    for (int i = 0; i < 5000; i++) {
        char want[16];
        int n = snprintf(want, sizeof want, "%d,", i);
        assert_memory_equal(s, want, (size_t)n);
        s += n;
    }
    assert_int_equal(*s, '\0');
    buf_deinit(&b);
    buf_init(&b, 4);
    buf_printf(&b, "%s", "12345");
    assert_true(b.failed);
    assert_int_equal(b.len, 0);
    buf_deinit(&b);
}

/* Catches a failed allocation that loses what was there. */
static void test_buf_failed_growth_keeps_the_content(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 1 << 20);
    buf_puts(&b, "kept");
    mem_fail_at(1);
    assert_null(buf_extend(&b, 1000));
    assert_true(b.failed);
    assert_int_equal(b.len, 4);
    assert_memory_equal(b.data, "kept", 4);
    assert_null(buf_extend(&b, 1)); /* failed stays failed */
    buf_deinit(&b);
    buf_init(&b, SIZE_MAX);
    assert_null(buf_extend(&b, PTRDIFF_MAX));
    assert_true(b.failed);
    buf_deinit(&b);
}

/* ---- arena --------------------------------------------------------------------------------------- */

/* Catches pieces that overlap, are not aligned, or go past the block. */
static void test_arena_pieces_are_apart_and_bounded(void **state)
{
    (void)state;
    arena a;
    size_t size = arena_cost(1) + arena_cost(100) + arena_cost(64);
    assert_int_equal(arena_init(&a, size, "scratch", NULL), FT_OK);
    uint8_t *p = arena_take(&a, 1), *q = arena_take(&a, 100);
    size_t mark = arena_mark(&a);
    uint8_t *r = arena_take(&a, 64);
    assert_non_null(r);
    assert_int_equal((uintptr_t)p % MEM_ALIGN + (uintptr_t)q % MEM_ALIGN + (uintptr_t)r % MEM_ALIGN,
                     0);
    memset(p, 1, 1);
    memset(q, 2, 100);
    memset(r, 3, 64);
    assert_int_equal(p[0] + q[99] + r[63], 6);
    assert_null(arena_take(&a, 1));
    assert_null(arena_take(&a, 0));
    assert_null(arena_take(&a, SIZE_MAX));
    assert_int_equal(a.used, size);
    arena_reset(&a, mark);
    assert_int_equal(a.peak, size);
    assert_ptr_equal(arena_take(&a, 64), r);
    arena_deinit(&a);
    assert_null(a.base);
    arena_deinit(&a);
    arena_deinit(NULL);
}

/* Catches an arena of nothing, and a failed block without a message. */
static void test_arena_empty_and_failed(void **state)
{
    (void)state;
    arena a;
    assert_int_equal(arena_init(&a, 0, "scratch", NULL), FT_OK);
    assert_null(arena_take(&a, 1));
    arena_reset(&a, 0);
    arena_deinit(&a);
    ft_error err = {0};
    mem_fail_at(1);
    assert_int_equal(arena_init(&a, 4096, "scratch", &err), FT_NOMEM);
    assert_string_equal(err.msg, "scratch: 4096 bytes");
    assert_null(arena_take(&a, 1));
    arena_deinit(&a);
}

/* Catches gaps and given-back pieces that AddressSanitizer would not see being read. */
static void test_arena_gaps_are_poisoned(void **state)
{
    (void)state;
#ifdef UNDER_ASAN
    arena a;
    assert_int_equal(arena_init(&a, 4096, "scratch", NULL), FT_OK);
    uint8_t *p = arena_take(&a, 100);
    size_t mark = arena_mark(&a);
    uint8_t *q = arena_take(&a, 10);
    assert_false(__asan_address_is_poisoned(p));
    assert_false(__asan_address_is_poisoned(p + 99));
    for (uint8_t *gap = p + 100; gap < q; gap++)
        assert_true(__asan_address_is_poisoned(gap));
    assert_true(q >= p + 128 + 64); /* there is a gap even behind a multiple of the alignment */
    assert_true(__asan_address_is_poisoned(q + 10));
    arena_reset(&a, mark);
    assert_true(__asan_address_is_poisoned(q));
    assert_false(__asan_address_is_poisoned(p));
    arena_deinit(&a);
#else
    skip(); /* poison exists under AddressSanitizer alone */
#endif
}

/* ---- maps and files -------------------------------------------------------------------------------- */

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Catches a map of the wrong bytes, an empty file taken for a failure, hints that fault. */
static void test_map_shows_the_file(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    file_map m;
    write_file(test_path(path, "map"), "hello", 5);
    assert_int_equal(map_open(&m, path, NULL), FT_OK);
    assert_int_equal(m.n_bytes, 5);
    assert_memory_equal(m.bytes, "hello", 5);
    map_will_need(&m, 0, SIZE_MAX);
    map_will_need(&m, 4, 1);
    map_will_need(&m, 5, 1);
    map_will_need(&m, SIZE_MAX, SIZE_MAX);
    map_close(&m);
    map_close(&m);
    map_close(NULL);
    write_file(path, "", 0);
    assert_int_equal(map_open(&m, path, NULL), FT_OK);
    assert_null(m.bytes);
    assert_int_equal(m.n_bytes, 0);
    map_will_need(&m, 0, 1);
    map_close(&m);
}

/* Catches a message without the path and the reason. */
static void test_map_failures_name_the_path(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    file_map m;
    ft_error err = {0};
    test_path(path, "not-there");
    assert_int_equal(map_open(&m, path, &err), FT_IO);
    assert_non_null(strstr(err.msg, "not-there: No such file"));
    assert_null(m.bytes);
    err = (ft_error){0};
    assert_int_equal(map_open(&m, test_tmpdir(), &err), FT_IO);
    assert_non_null(strstr(err.msg, "not a regular file"));
}

/* Catches a limit that is off by one, a missing NUL, and a directory read as an empty file. */
static void test_read_all_limits_and_failures(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX], *text;
    size_t n;
    ft_error err = {0};
    write_file(test_path(path, "text"), "ab\0cd", 5);
    assert_int_equal(file_read_all(&text, &n, path, 5, &err), FT_OK);
    assert_int_equal(n, 5);
    assert_memory_equal(text, "ab\0cd", 6);
    mem_free(text);
    assert_int_equal(file_read_all(&text, &n, path, 4, &err), FT_RANGE);
    assert_non_null(strstr(err.msg, "larger than the limit of 4 bytes"));
    assert_null(text);
    assert_int_equal(file_read_all(&text, &n, "tests/no/such", 4, NULL), FT_IO);
    assert_int_equal(file_read_all(&text, &n, "tests", 4, NULL), FT_IO);
    mem_fail_at(1);
    assert_int_equal(file_read_all(&text, &n, path, 5, NULL), FT_NOMEM);
    write_file(path, "", 0);
    assert_int_equal(file_read_all(&text, &n, path, 0, NULL), FT_OK);
    assert_int_equal(n, 0);
    assert_string_equal(text, "");
    mem_free(text);
}

/* Catches a reader that asks a pipe for its size. */
static void test_read_all_reads_a_pipe(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX], *text;
    size_t n;
    assert_int_equal(mkfifo(test_path(path, "pipe"), 0600), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_WRONLY);
        for (int i = 0; i < 5000; i++)
            if (write(fd, "0123456789", 10) != 10)
                _exit(1);
        _exit(0);
    }
    assert_int_equal(file_read_all(&text, &n, path, 1 << 20, NULL), FT_OK);
    assert_int_equal(n, 50000);
    assert_memory_equal(text + 49990, "0123456789", 11);
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buf_limit_holds_exactly),
        cmocka_unit_test(test_buf_empty_is_an_empty_string),
        cmocka_unit_test(test_buf_grows_and_prints),
        cmocka_unit_test(test_buf_failed_growth_keeps_the_content),
        cmocka_unit_test(test_arena_pieces_are_apart_and_bounded),
        cmocka_unit_test(test_arena_empty_and_failed),
        cmocka_unit_test(test_arena_gaps_are_poisoned),
        cmocka_unit_test(test_map_shows_the_file),
        cmocka_unit_test(test_map_failures_name_the_path),
        cmocka_unit_test(test_read_all_limits_and_failures),
        cmocka_unit_test(test_read_all_reads_a_pipe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
