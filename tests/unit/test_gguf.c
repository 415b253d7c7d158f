/* test_gguf.c - good files: what the writer (and an independent one) wrote is what is read. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "gguf/gguf.h"
#include "support/gguf_make.h"
#include "support/gguf_walk.h"
#include "support/tmpdir.h"

#define CORPUS "tests/fuzz/corpus/gguf/"

static void put_data(gguf_writer *w, size_t n, int first)
{
    ft_error err = {0};
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = (uint8_t)((size_t)first + i);
        assert_int_equal(gguf_write_data(w, &byte, 1, &err), FT_OK);
    }
}

static gguf_file *open_good(const char *path)
{
    ft_error err = {0};
    gguf_file *f;
    if (gguf_open(&f, path, &err) != FT_OK)
        fail_msg("%s", err.msg);
    assert_string_equal(gguf_path(f), path);
    return f;
}

static void write_good(const char *path, uint32_t alignment)
{
    ft_error err = {0};
    gguf_writer *w;
    assert_int_equal(gguf_writer_open(&w, path, &err), FT_OK);
    gguf_put_str(w, "general.architecture", "qwen35", 6);
    gguf_put_int(w, "general.alignment", GGUF_U32, alignment);
    gguf_put_int(w, "u8", GGUF_U8, 255);
    gguf_put_int(w, "i8", GGUF_I8, -128);
    gguf_put_int(w, "u16", GGUF_U16, 65535);
    gguf_put_int(w, "i16", GGUF_I16, -32768);
    gguf_put_int(w, "u32", GGUF_U32, UINT32_MAX);
    gguf_put_int(w, "i32", GGUF_I32, INT32_MIN);
    gguf_put_int(w, "u64", GGUF_U64, -1);
    gguf_put_int(w, "i64", GGUF_I64, INT64_MIN);
    gguf_put_int(w, "yes", GGUF_BOOL, 1);
    gguf_put_f32(w, "f32", 0.5f);
    double f64[] = {1e300, -2.5};
    gguf_put_array(w, "f64s", GGUF_F64, f64, 2);
    int16_t i16[] = {-1, 2, -3};
    gguf_put_array(w, "i16s", GGUF_I16, i16, 3);
    gguf_put_array(w, "none", GGUF_U32, NULL, 0);
    gguf_str words[] = {{"a", 1}, {"", 0}, {"b\0c", 3}};
    gguf_put_str_array(w, "words", words, 3);
    gguf_declare(w, "vector", DTYPE_F32, 1, (uint64_t[]){5});
    gguf_declare(w, "matrix", DTYPE_Q8_0, 2, (uint64_t[]){64, 3});
    gguf_declare(w, "four", DTYPE_F16, 4, (uint64_t[]){2, 3, 5, 7});
    if (gguf_writer_begin(w, &err) != FT_OK)
        fail_msg("%s", err.msg);
    put_data(w, 20, 1);
    put_data(w, 3 * 68, 2);
    put_data(w, 420, 3);
    if (gguf_writer_close(w, &err) != FT_OK)
        fail_msg("%s", err.msg);
}

static void assert_int(const gguf_file *f, const char *key, int64_t want)
{
    ft_error err = {0};
    int64_t v;
    if (gguf_get_int(f, key, INT64_MIN, INT64_MAX, &v, &err) != FT_OK)
        fail_msg("%s", err.msg);
    assert_true(v == want);
}

/* A value read with another width or sign than it was written with. */
static void test_values_round_trip_unchanged(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    write_good(test_path(path, "values.gguf"), 32);
    gguf_file *f = open_good(path);
    assert_int_equal(gguf_n_kv(f), 16);
    assert_int_equal(gguf_version(f), 3);
    assert_int(f, "u8", 255);
    assert_int(f, "i8", -128);
    assert_int(f, "u16", 65535);
    assert_int(f, "i16", -32768);
    assert_int(f, "u32", UINT32_MAX);
    assert_int(f, "i32", INT32_MIN);
    assert_int(f, "i64", INT64_MIN);
    assert_int(f, "yes", 1);
    bool yes = false;
    assert_int_equal(gguf_get_bool(f, "yes", &yes, NULL), FT_OK);
    assert_true(yes);
    double x;
    assert_int_equal(gguf_get_float(f, "f32", 0, 1, &x, NULL), FT_OK);
    assert_true(x == 0.5);
    assert_int_equal(gguf_get_float(f, "i8", -128, -128, &x, NULL), FT_OK);
    assert_true(x == -128);
    gguf_str s;
    assert_int_equal(gguf_get_str(f, "general.architecture", &s, NULL), FT_OK);
    assert_int_equal(s.len, 6);
    assert_memory_equal(s.s, "qwen35", 6);
    gguf_close(f);
}

/* A u64 above INT64_MAX taken for a negative number that is inside the range. */
static void test_u64_above_int64_is_out_of_range(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    write_good(test_path(path, "u64.gguf"), 32);
    gguf_file *f = open_good(path);
    ft_error err = {0};
    int64_t v = 7;
    assert_int_equal(gguf_get_int(f, "u64", INT64_MIN, INT64_MAX, &v, &err), FT_FORMAT);
    assert_true(v == 7);
    assert_non_null(strstr(err.msg, "18446744073709551615"));
    assert_int_equal(gguf_kv_int(gguf_kv_find(f, "u64"), 0, &v, NULL), FT_OK);
    assert_true((uint64_t)v == UINT64_MAX);
    double x;
    assert_int_equal(gguf_get_float(f, "u64", 0, 1e30, &x, NULL), FT_OK);
    assert_true(x == 18446744073709551616.0);
    gguf_close(f);
}

/* Elements of arrays read at the wrong place, an empty array, one element too many. */
static void test_arrays_round_trip_unchanged(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    write_good(test_path(path, "arrays.gguf"), 32);
    gguf_file *f = open_good(path);
    const gguf_kv *kv = gguf_kv_find(f, "i16s");
    int64_t v;
    double x;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(gguf_kv_int(kv, (uint64_t)i, &v, NULL), FT_OK);
        assert_true(v == (i % 2 ? i + 1 : -i - 1));
    }
    assert_int_equal(gguf_kv_int(kv, 3, &v, NULL), FT_FORMAT);
    assert_int_equal(gguf_kv_float(gguf_kv_find(f, "f64s"), 1, &x, NULL), FT_OK);
    assert_true(x == -2.5);
    assert_int_equal(gguf_kv_int(gguf_kv_find(f, "f64s"), 1, &v, NULL), FT_FORMAT);
    assert_int_equal(gguf_kv_find(f, "none")->n, 0);
    assert_int_equal(gguf_kv_int(gguf_kv_find(f, "none"), 0, &v, NULL), FT_FORMAT);

    kv = gguf_kv_find(f, "words");
    size_t cursor = 0;
    gguf_str s;
    const char *want[] = {"a", "", "b\0c"};
    const size_t len[] = {1, 0, 3};
    for (int i = 0; i < 3; i++) {
        assert_true(gguf_kv_next_str(kv, &cursor, &s));
        assert_int_equal(s.len, len[i]);
        assert_memory_equal(s.s, want[i], len[i]);
    }
    assert_false(gguf_kv_next_str(kv, &cursor, &s));
    cursor = 0;
    assert_false(gguf_kv_next_str(gguf_kv_find(f, "i16s"), &cursor, &s));
    assert_false(gguf_kv_next_str(gguf_kv_find(f, "absent"), &cursor, &s));
    gguf_close(f);
}

/* Dims not turned around, strides or data of the wrong tensor. */
static void test_tensors_round_trip_turned_around(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    write_good(test_path(path, "tensors.gguf"), 64);
    gguf_file *f = open_good(path);
    assert_int_equal(gguf_alignment(f), 64);
    assert_int_equal(gguf_n_tensor(f), 3);
    const gguf_tensor *g = gguf_tensor_find(f, "four");
    assert_ptr_equal(g, gguf_tensor_at(f, 2));
    assert_int_equal(g->n_dim, 4);
    assert_int_equal(g->t.n_col, 2);
    assert_int_equal(g->t.n_row, 3);
    assert_int_equal(g->t.n_mat, 35);
    assert_int_equal(g->t.row_bytes, 4);
    assert_int_equal(g->t.mat_bytes, 12);
    assert_int_equal(g->file_offset % 64, 0);
    const uint8_t *data = g->t.data;
    assert_int_equal(data[0], 3);
    assert_int_equal(data[419], (3 + 419) & 255);
    g = gguf_tensor_find(f, "matrix");
    assert_int_equal(g->t.type, DTYPE_Q8_0);
    assert_int_equal(g->t.row_bytes, 68);
    assert_int_equal(*(const uint8_t *)g->t.data, 2);
    assert_null(gguf_tensor_find(f, "matri"));
    assert_null(gguf_tensor_find(f, "zzz"));
    assert_null(gguf_tensor_at(f, 3));
    assert_null(gguf_kv_at(f, 16));
    gguf_close(f);
}

/* A size that does not follow from the type's block (B096). */
static void test_every_type_has_its_size(void **state)
{
    (void)state;
    const dtype_info *d;
    for (size_t i = 0; (d = dtype_at(i)) != NULL; i++) {
        char path[TEST_PATH_MAX];
        ft_error err = {0};
        gguf_writer *w;
        test_path(path, "type.gguf");
        assert_int_equal(gguf_writer_open(&w, path, &err), FT_OK);
        uint64_t dim[] = {(uint64_t)d->block_values * 2, 3};
        gguf_declare(w, d->name, d->type, 2, dim);
        gguf_declare(w, "next", DTYPE_F32, 1, (uint64_t[]){1});
        assert_int_equal(gguf_writer_begin(w, &err), FT_OK);
        put_data(w, (size_t)d->block_bytes * 6, 0);
        put_data(w, 4, 9);
        assert_int_equal(gguf_writer_close(w, &err), FT_OK);
        gguf_file *f = open_good(path);
        assert_int_equal(tensor_bytes(&gguf_tensor_at(f, 0)->t), d->block_bytes * 6);
        assert_int_equal(*(const uint8_t *)gguf_tensor_at(f, 1)->t.data, 9);
        gguf_close(f);
    }
}

/* Any power of two up to 65536 is good, nothing else is (B093: division by zero). */
static void test_alignment_is_a_power_of_two(void **state)
{
    (void)state;
    const uint32_t all[] = {0,  1,   2,   3,    4,     8,     16,       24,       32,        33,
                            64, 128, 256, 4096, 65535, 65536, 1u << 17, 1u << 30, UINT32_MAX};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        uint32_t a = all[i];
        bool good = a && a <= 65536 && (a & (a - 1)) == 0;
        buf b;
        buf_init(&b, 1 << 20);
        mk_header(&b, 3, 2, 1);
        mk_kv_u32(&b, "general.alignment", a);
        mk_tensor(&b, "x", 1, (uint64_t[]){3}, DTYPE_I8, 0);
        mk_tensor(&b, "y", 1, (uint64_t[]){1}, DTYPE_I8, a > 3 ? a : 4); /* behind x */
        mk_data(&b, good ? a : 32, 3);
        mk_data(&b, good ? a : 32, 4);
        ft_error err = {0};
        gguf_file *f;
        ft_status st = gguf_parse(&f, b.data, b.len, &err);
        assert_int_equal(st, good ? FT_OK : FT_FORMAT);
        if (!good)
            assert_non_null(strstr(err.msg, "general.alignment"));
        else
            assert_null(gguf_walk(f, b.data, b.len));
        gguf_close(f);
        buf_deinit(&b);
    }
}

/* A boolean taken raw from the file: 2 and 255 are true, and 1 for who reads integers (B098). */
static void test_bool_other_than_0_and_1_reads_as_1(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 1 << 20);
    mk_header(&b, 3, 0, 2);
    mk_kv_array(&b, "flags", GGUF_BOOL, 4);
    buf_put(&b, "\x00\x01\x02\xff", 4);
    mk_str(&b, "flag");
    mk_uint(&b, GGUF_BOOL, 4);
    mk_uint(&b, 2, 1);
    gguf_file *f;
    assert_int_equal(gguf_parse(&f, b.data, b.len, NULL), FT_OK);
    int64_t v;
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(gguf_kv_int(gguf_kv_find(f, "flags"), i, &v, NULL), FT_OK);
        assert_true(v == (i > 0));
    }
    assert_int(f, "flag", 1);
    bool flag = false;
    assert_int_equal(gguf_get_bool(f, "flag", &flag, NULL), FT_OK);
    assert_true(flag);
    gguf_close(f);
    buf_deinit(&b);
}

/* A wrong read that gives no status, or a message that does not say what to look for. */
static void test_typed_read_of_wrong_value_names_key_and_wish(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    write_good(test_path(path, "wrong.gguf"), 32);
    gguf_file *f = open_good(path);
    int64_t v = 7;
    double x = 7;
    bool flag = true;
    gguf_str s = {"7", 1};
    ft_error e[7];
    memset(e, 0, sizeof e);
    assert_int_equal(gguf_get_int(f, "u8", 0, 254, &v, &e[0]), FT_FORMAT);
    assert_int_equal(gguf_get_int(f, "f32", 0, 254, &v, &e[1]), FT_FORMAT);
    assert_int_equal(gguf_get_int(f, "absent", 0, 254, &v, &e[2]), FT_FORMAT);
    assert_int_equal(gguf_get_int(f, "i16s", 0, 254, &v, &e[3]), FT_FORMAT);
    assert_int_equal(gguf_get_float(f, "words", 0, 1, &x, &e[4]), FT_FORMAT);
    assert_int_equal(gguf_get_bool(f, "u8", &flag, &e[5]), FT_FORMAT);
    assert_int_equal(gguf_get_str(f, "words", &s, &e[6]), FT_FORMAT);
    const char *want[] = {"key 'u8': 255, want 0 to 254",
                          "key 'f32': its type is f32",
                          "key 'absent' is missing",
                          "key 'i16s': its type is array",
                          "key 'words'",
                          "want bool",
                          "want string"};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_non_null(strstr(e[i].msg, want[i]));
        assert_non_null(strstr(e[i].msg, "wrong.gguf"));
    }
    assert_true(v == 7 && x == 7 && flag && s.len == 1);
    gguf_close(f);
}

/* NaN passes every comparison that asks for "outside". */
static void test_float_nan_is_refused(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    ft_error err = {0};
    gguf_writer *w;
    assert_int_equal(gguf_writer_open(&w, test_path(path, "nan.gguf"), &err), FT_OK);
    gguf_put_f32(w, "nan", nanf(""));
    assert_int_equal(gguf_writer_begin(w, &err), FT_OK);
    assert_int_equal(gguf_writer_close(w, &err), FT_OK);
    gguf_file *f = open_good(path);
    double x;
    assert_int_equal(gguf_get_float(f, "nan", -HUGE_VAL, HUGE_VAL, &x, &err), FT_FORMAT);
    gguf_close(f);
}

/* A reader that only understands its own writer. */
static void test_files_of_another_writer_open(void **state)
{
    (void)state;
    gguf_file *f = open_good(CORPUS "good_v3.gguf");
    assert_int_equal(gguf_n_kv(f), 18);
    assert_int_equal(gguf_n_tensor(f), 4);
    assert_int(f, "a.i32", INT32_MIN);
    const gguf_tensor *g = gguf_tensor_find(f, "blk.0.four.weight");
    assert_int_equal(g->t.n_mat, 4);
    assert_int_equal(*(const uint8_t *)g->t.data, 3 * 31);
    gguf_close(f);
    const char *good[] = {"good_v2",         "good_align_1", "good_align_256",
                          "good_no_tensors", "good_empty",   "good_depth_8"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        char path[TEST_PATH_MAX];
        snprintf(path, sizeof path, CORPUS "%s.gguf", good[i]);
        f = open_good(path);
        assert_int_equal(gguf_version(f), i == 0 ? 2 : 3);
        gguf_close(f);
    }
}

/* A file that is not there, a folder, an empty file. */
static void test_open_of_no_file_fails_with_its_path(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    ft_error err = {0};
    gguf_file *f;
    assert_int_equal(gguf_open(&f, test_path(path, "nowhere.gguf"), &err), FT_IO);
    assert_null(f);
    assert_non_null(strstr(err.msg, "nowhere.gguf"));
    assert_int_equal(gguf_open(&f, test_tmpdir(), NULL), FT_IO);
    FILE *empty = fopen(test_path(path, "empty.gguf"), "wb");
    assert_non_null(empty);
    fclose(empty);
    assert_int_equal(gguf_open(&f, path, NULL), FT_FORMAT);
    gguf_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_round_trip_unchanged),
        cmocka_unit_test(test_u64_above_int64_is_out_of_range),
        cmocka_unit_test(test_arrays_round_trip_unchanged),
        cmocka_unit_test(test_tensors_round_trip_turned_around),
        cmocka_unit_test(test_every_type_has_its_size),
        cmocka_unit_test(test_alignment_is_a_power_of_two),
        cmocka_unit_test(test_bool_other_than_0_and_1_reads_as_1),
        cmocka_unit_test(test_typed_read_of_wrong_value_names_key_and_wish),
        cmocka_unit_test(test_float_nan_is_refused),
        cmocka_unit_test(test_files_of_another_writer_open),
        cmocka_unit_test(test_open_of_no_file_fails_with_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
