/* test_gguf_hostile.c - files made to break the reader: a status and a message each time.
 *
 * Inputs are parsed from blocks of exactly their size, so AddressSanitizer sees a read past them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "gguf/gguf.h"
#include "support/gguf_check.h"
#include "support/gguf_make.h"

#define DIMS(...)   \
    (uint64_t[])    \
    {               \
        __VA_ARGS__ \
    }

/* b is refused, and the message has that part in it. Empties b. */
static void assert_refused(buf *b, const char *part)
{
    ft_error err;
    assert_false(b->failed);
    assert_int_equal(parse(b->data, b->len, &err), FT_FORMAT);
    if (!strstr(err.msg, part))
        fail_msg("'%s' lacks '%s'", err.msg, part);
    buf_clear(b);
}

static void assert_good(buf *b)
{
    ft_error err;
    if (parse(b->data, b->len, &err) != FT_OK)
        fail_msg("%s", err.msg);
    buf_clear(b);
}

static buf new_buf(void)
{
    buf b;
    buf_init(&b, (size_t)1 << 26);
    return b;
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* One tensor of 64 bytes of data, its dims, type and offset as given. */
static void one_tensor(buf *b, uint32_t n_dim, const uint64_t *dim, uint32_t type, uint64_t offset)
{
    mk_header(b, 3, 1, 0);
    mk_tensor(b, "blk.0.x", n_dim, dim, type, offset);
    mk_data(b, 32, 64);
}

/* Dimensions out of range, products that wrap to something small, rows that are no whole blocks,
 * types that nobody knows (B093, B096, B097). */
static void test_hostile_shape_is_refused_with_the_tensors_name(void **state)
{
    (void)state;
    buf b = new_buf();
    one_tensor(&b, 1, DIMS(16), DTYPE_F32, 0);
    assert_good(&b);
    const uint32_t n_dims[] = {0, 5, 8, 9, 255, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(n_dims); i++) {
        mk_header(&b, 3, 1, 0);
        mk_str(&b, "blk.0.x");
        mk_uint(&b, n_dims[i], 4);
        mk_data(&b, 32, 200);
        assert_refused(&b, "tensor 'blk.0.x'");
    }
    const uint64_t dims[] = {0, 1ull << 31, 1ull << 32, 1ull << 63, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_LEN(dims); i++) {
        for (int at = 0; at < 4; at++) {
            uint64_t dim[4] = {1, 1, 1, 1};
            dim[at] = dims[i];
            one_tensor(&b, 4, dim, DTYPE_F32, 0);
            assert_refused(&b, "tensor 'blk.0.x': dimension");
        }
    }
    one_tensor(&b, 4, DIMS(INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX), DTYPE_F32, 0);
    assert_refused(&b, "tensor 'blk.0.x'");
    one_tensor(&b, 3, DIMS(1 << 30, 1 << 30, 16), DTYPE_I8, 0); /* 2^64 bytes */
    assert_refused(&b, "overflow");
    one_tensor(&b, 3, DIMS(1 << 30, 1 << 30, 2), DTYPE_F64, 0);
    assert_refused(&b, "overflow");
    one_tensor(&b, 4, DIMS(1, 1, 1 << 16, 1 << 16), DTYPE_I8, 0); /* n_mat is an int */
    assert_refused(&b, "matrices");
    one_tensor(&b, 1, DIMS(33), DTYPE_Q8_0, 0);
    assert_refused(&b, "tensor 'blk.0.x': rows of 33 values, want a multiple of Q8_0's block");
    one_tensor(&b, 2, DIMS(1, 32), DTYPE_Q8_0, 0);
    assert_refused(&b, "rows of 1 values");
    const uint32_t types[] = {4, 5, 9, 15, 31, 43, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        char want[64];
        snprintf(want, sizeof want, "tensor 'blk.0.x': unknown type %u", types[i]);
        one_tensor(&b, 1, DIMS(32), types[i], 0);
        assert_refused(&b, want);
    }
    buf_deinit(&b);
}

/* offset + size that wraps around, or ends one byte too late (B095). */
static void test_hostile_offset_is_refused(void **state)
{
    (void)state;
    buf b = new_buf();
    one_tensor(&b, 1, DIMS(32), DTYPE_I8, 32);
    assert_good(&b);
    const uint64_t offset[] = {1,          16,        33, 64, 96, 1ull << 63, 0 - (uint64_t)32,
                               UINT64_MAX, 1ull << 32};
    for (size_t i = 0; i < ARRAY_LEN(offset); i++) {
        one_tensor(&b, 1, DIMS(32), DTYPE_I8, offset[i]);
        assert_refused(&b, "tensor 'blk.0.x'");
    }
    one_tensor(&b, 1, DIMS(65), DTYPE_I8, 0);
    assert_refused(&b, "65 bytes at data offset 0, the data section has 64");
    one_tensor(&b, 1, DIMS(33), DTYPE_I8, 32);
    assert_refused(&b, "33 bytes at data offset 32, the data section has 64");
    /* 2^64 - 1 bytes: with 32 before them they seem to end at byte 31 */
    one_tensor(&b, 3, DIMS(1722007169, 2142470067, 5), DTYPE_I8, 32);
    assert_refused(&b, "18446744073709551615 bytes at data offset 32");
    buf_deinit(&b);
}

/* Two tensors that share bytes, in whatever order they stand (B095). */
static void test_hostile_tensors_overlapping_are_refused(void **state)
{
    (void)state;
    buf b = new_buf();
    const struct {
        uint64_t at[3], n[3];
        bool good;
    } all[] = {
        {{0, 32, 64}, {32, 32, 32}, true},  {{64, 32, 0}, {32, 32, 32}, true},
        {{0, 32, 64}, {33, 32, 32}, false}, {{0, 32, 32}, {32, 32, 32}, false},
        {{64, 0, 32}, {32, 32, 33}, false}, {{0, 32, 64}, {96, 32, 32}, false},
        {{32, 64, 0}, {1, 1, 65}, false},   {{0, 0, 32}, {1, 1, 1}, false},
    };
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        mk_header(&b, 3, 3, 0);
        for (int k = 0; k < 3; k++) {
            const char name[] = {(char)('a' + k), '\0'};
            mk_tensor(&b, name, 1, &all[i].n[k], DTYPE_I8, all[i].at[k]);
        }
        mk_data(&b, 32, 96);
        if (all[i].good)
            assert_good(&b);
        else
            assert_refused(&b, "overlaps tensor '");
    }
    buf_deinit(&b);
}

/* ---- Metadata types ----------------------------------------------------------------------- */

/* A value type that nobody knows taken for one of the known ones, as value and as element. */
static void test_hostile_value_type_is_refused(void **state)
{
    (void)state;
    buf b = new_buf();
    const uint32_t types[] = {13, 14, 255, 1u << 31, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        char want[64];
        snprintf(want, sizeof want, "key 'k': unknown value type %u", types[i]);
        mk_header(&b, 3, 0, 1);
        mk_str(&b, "k");
        mk_uint(&b, types[i], 4);
        mk_uint(&b, 0, 8);
        assert_refused(&b, want);
        mk_header(&b, 3, 0, 1);
        mk_kv_array(&b, "k", types[i], 0);
        assert_refused(&b, want);
    }
    buf_deinit(&b);
}

/* ---- Names -------------------------------------------------------------------------------- */

static void mk_name(buf *b, const char *s, size_t len)
{
    mk_uint(b, len, 8);
    buf_put(b, s, len);
}

/* Names that are empty, too long, or hold a NUL and so would be two names for two readers. */
static void test_hostile_name_is_refused(void **state)
{
    (void)state;
    static char text[65537];
    memset(text, 'k', sizeof text);
    const struct {
        const char *s;
        size_t len;
        const char *want; /* NULL: good */
    } names[] = {{"", 0, "name is empty"},
                 {"a\0b", 3, "NUL"},
                 {"a\0", 2, "NUL"},
                 {text, 65537, "65536 bytes"},
                 {text, 65536, NULL}};
    buf b = new_buf();
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        mk_header(&b, 3, 0, 1);
        mk_name(&b, names[i].s, names[i].len);
        mk_uint(&b, GGUF_U8, 4);
        mk_uint(&b, 1, 8);
        if (names[i].want)
            assert_refused(&b, names[i].want);
        else
            assert_good(&b);
        mk_header(&b, 3, 1, 0);
        mk_name(&b, names[i].s, names[i].len);
        mk_uint(&b, 1, 4);
        mk_uint(&b, 1, 8);
        mk_uint(&b, DTYPE_I8, 4);
        mk_uint(&b, 0, 8);
        mk_data(&b, 32, 1);
        if (names[i].want)
            assert_refused(&b, names[i].want);
        else
            assert_good(&b);
    }
    buf_deinit(&b);
}

/* Terminal escapes and long names carried into a log by the message. */
static void test_hostile_name_in_a_message_is_escaped_and_cut(void **state)
{
    (void)state;
    buf b = new_buf();
    mk_header(&b, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        mk_str(&b, "a\x1b[2J\n\x7f\xff%s");
        mk_uint(&b, GGUF_U8, 4);
        mk_uint(&b, 1, 1);
    }
    assert_refused(&b, "key 'a\\x1b[2J\\x0a\\x7f\\xff%s' is there twice");
    static char text[60001];
    memset(text, '\n', sizeof text - 1);
    mk_header(&b, 3, 1, 0);
    mk_tensor(&b, text, 1, DIMS(1), 4, 0);
    assert_refused(&b, "\\x0a...': unknown type 4");
    buf_deinit(&b);
}

/* A hundred thousand names with one there twice: not seen, or found in quadratic time. */
static void test_hostile_name_twice_among_many_is_found_quickly(void **state)
{
    (void)state;
    const int n = 100000;
    const int twice[] = {0, n / 2, n - 1};
    buf b = new_buf();
    clock_t start = clock();
    for (size_t i = 0; i < ARRAY_LEN(twice); i++) {
        char name[32], want[32];
        snprintf(want, sizeof want, "'name.%d' is there twice", twice[i]);
        mk_header(&b, 3, 0, (uint64_t)n + 1);
        for (int k = 0; k <= n; k++) {
            snprintf(name, sizeof name, "name.%d", k < n ? k : twice[i]);
            mk_kv_u32(&b, name, 1);
        }
        assert_refused(&b, want);
        mk_header(&b, 3, (uint64_t)n + 1, 1);
        mk_kv_u32(&b, "general.alignment", 1);
        for (int k = 0; k <= n; k++) {
            snprintf(name, sizeof name, "name.%d", k < n ? k : twice[i]);
            mk_tensor(&b, name, 1, DIMS(1), DTYPE_I8, (uint64_t)k);
        }
        mk_data(&b, 1, (size_t)n + 1);
        assert_refused(&b, want);
    }
    buf_deinit(&b);
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 10);
}

/* ---- Small files with large wishes -------------------------------------------------------- */

static const uint64_t large[] = {1ull << 20, 1ull << 31, 1ull << 32,
                                 1ull << 61, 1ull << 63, UINT64_MAX};

#define N_GREEDY 9

/* The i-th kind of a file of some 60 bytes that asks for n of something. */
static void mk_greedy(buf *b, int i, uint64_t n)
{
    static const uint32_t elem[] = {GGUF_U8, GGUF_U64, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY};
    if (i < 2) {
        mk_header(b, 3, i == 0 ? n : 0, i == 1 ? n : 0);
        mk_kv_u32(b, "k", 1);
    } else if (i == 2) {
        mk_header(b, 3, 0, 1);
        mk_uint(b, n, 8); /* the key's length */
        mk_data(b, 1, 20);
    } else if (i == 3) {
        mk_header(b, 3, 0, 1);
        mk_str(b, "k");
        mk_uint(b, GGUF_STRING, 4);
        mk_uint(b, n, 8);
        mk_data(b, 1, 12);
    } else {
        mk_header(b, 3, 0, 1);
        mk_kv_array(b, "k", elem[i - 4], n);
        mk_data(b, 1, 8);
    }
}

/* Memory or time taken for a declared count (B097): a few small allocations, microseconds. */
static void test_hostile_count_in_a_small_file_is_refused_at_once(void **state)
{
    (void)state;
    buf b = new_buf();
    clock_t start = clock();
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < N_GREEDY; i++) {
            for (size_t k = 0; k < ARRAY_LEN(large); k++) {
                buf_clear(&b);
                mk_greedy(&b, i, large[k]);
                assert_true(b.len <= 64);
                long before = mem_count();
                gguf_file *f;
                assert_int_equal(gguf_parse(&f, b.data, b.len, NULL), FT_FORMAT);
                assert_true(mem_count() - before <= 4);
            }
        }
    }
    for (int i = 0; i < 2; i++) { /* seen in the header, before anything is read */
        buf_clear(&b);
        mk_greedy(&b, i, 1ull << 31);
        assert_refused(&b, i == 0 ? "header: 2147483648 tensors" : "header: 2147483648 metadata");
    }
    buf_deinit(&b);
    /* 5400 files, about a microsecond each; a sanitizer takes its share */
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 1);
}

#if defined(__SANITIZE_ADDRESS__)
#    define HAVE_SANITIZER 1
#elif defined(__has_feature)
#    if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
        __has_feature(thread_sanitizer)
#        define HAVE_SANITIZER 1
#    endif
#endif

#ifndef HAVE_SANITIZER
/* In a process of its own: every greedy file under a cap on memory. 0: all refused as malformed. */
static int refuse_all_under_cap(void)
{
    const struct rlimit cap = {(rlim_t)16 << 20, (rlim_t)16 << 20};
    buf b = new_buf();
    if (setrlimit(RLIMIT_DATA, &cap) != 0)
        return 2;
    for (int i = 0; i < N_GREEDY; i++) {
        for (size_t k = 0; k < ARRAY_LEN(large); k++) {
            buf_clear(&b);
            mk_greedy(&b, i, large[k]);
            gguf_file *f;
            if (gguf_parse(&f, b.data, b.len, NULL) != FT_FORMAT)
                return 1;
        }
    }
    buf_deinit(&b);
    return 0;
}
#endif

/* Gigabytes asked for and refused by the system instead of by the reader: NOMEM, not FORMAT. */
static void test_hostile_count_takes_no_memory(void **state)
{
    (void)state;
#ifdef HAVE_SANITIZER
    skip(); /* a sanitizer's shadow memory does not fit under the cap */
#else
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(refuse_all_under_cap());
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#endif
}

/* Arrays in arrays until the stack is full (B097): 8 levels are good, 9 and 100,000 are not. */
static void test_hostile_arrays_nested_deeply_are_refused(void **state)
{
    (void)state;
    buf b = new_buf();
    const int depth[] = {8, 9, 1000, 100000};
    for (size_t i = 0; i < ARRAY_LEN(depth); i++) {
        mk_header(&b, 3, 0, 1);
        mk_str(&b, "k");
        mk_uint(&b, GGUF_ARRAY, 4);
        for (int k = 1; k < depth[i]; k++) {
            mk_uint(&b, GGUF_ARRAY, 4);
            mk_uint(&b, 1, 8);
        }
        mk_uint(&b, GGUF_U8, 4);
        mk_uint(&b, 1, 8);
        mk_uint(&b, 7, 1);
        if (depth[i] == 8)
            assert_good(&b);
        else
            assert_refused(&b, "key 'k': arrays nested deeper than 8");
    }
    buf_deinit(&b);
}

/* Something that is no GGUF, or a version that is read as if it were known. */
static void test_hostile_magic_or_version_is_refused(void **state)
{
    (void)state;
    buf b = new_buf();
    const uint32_t versions[] = {0, 1, 4, 2u << 16, 3u << 24, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        mk_header(&b, versions[i], 0, 0);
        assert_refused(&b, i < 3 ? "want 2 or 3" : i < 5 ? "big-endian" : "want 2 or 3");
    }
    buf_puts(&b, "version https://git-lfs.github.com/spec/v1");
    assert_refused(&b, "not a GGUF file");
    buf_deinit(&b);
}

/* A shard read from memory would be taken for the whole model. */
static void test_hostile_shard_in_memory_is_refused(void **state)
{
    (void)state;
    buf b = new_buf();
    mk_header(&b, 3, 0, 1);
    mk_kv_u32(&b, "split.count", 2);
    assert_refused(&b, "split in 2");
    buf_deinit(&b);
}

/* A leak, a crash or a silent success when memory ends; run under AddressSanitizer. */
static void test_hostile_each_allocation_fails_with_nomem(void **state)
{
    (void)state;
    size_t n;
    char *good = good_bytes(&n);
    for (int from_file = 0; from_file < 2; from_file++) {
        ft_status st;
        long at = 0;
        do {
            ft_error err = {0};
            gguf_file *f;
            mem_fail_at(++at);
            st = from_file ? gguf_open(&f, GOOD_GGUF, &err)
                           : gguf_parse(&f, (const uint8_t *)good, n, &err);
            mem_fail_at(0);
            if (st != FT_OK) {
                assert_int_equal(st, FT_NOMEM);
                assert_null(f);
                assert_non_null(strstr(err.msg, "memory"));
            }
            gguf_close(f);
            assert_true(at < 1000);
        } while (st != FT_OK);
        assert_true(at > 20);
    }
    mem_free(good);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_shape_is_refused_with_the_tensors_name),
        cmocka_unit_test(test_hostile_offset_is_refused),
        cmocka_unit_test(test_hostile_tensors_overlapping_are_refused),
        cmocka_unit_test(test_hostile_value_type_is_refused),
        cmocka_unit_test(test_hostile_name_is_refused),
        cmocka_unit_test(test_hostile_name_in_a_message_is_escaped_and_cut),
        cmocka_unit_test(test_hostile_name_twice_among_many_is_found_quickly),
        cmocka_unit_test(test_hostile_count_in_a_small_file_is_refused_at_once),
        cmocka_unit_test(test_hostile_count_takes_no_memory),
        cmocka_unit_test(test_hostile_arrays_nested_deeply_are_refused),
        cmocka_unit_test(test_hostile_magic_or_version_is_refused),
        cmocka_unit_test(test_hostile_shard_in_memory_is_refused),
        cmocka_unit_test(test_hostile_each_allocation_fails_with_nomem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
