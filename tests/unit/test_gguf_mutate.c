/* test_gguf_mutate.c - a good file with one thing changed, each thing in turn (B093-B098).
 *
 * Property: gguf_parse refuses with a message or gives a directory as gguf.h promises it. Inputs
 * are parsed from blocks of exactly their size, so AddressSanitizer sees a read past them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "gguf/gguf.h"
#include "support/gguf_check.h"
#include "support/gguf_make.h"

typedef struct {
    size_t pos;
    int size;
    bool is_offset; /* of a tensor's data */
} field;

typedef struct {
    const uint8_t *p;
    size_t pos;
    field f[256];
    size_t n;
} fields;

static uint64_t take(fields *l, int size, bool is_offset)
{
    assert_true(l->n < ARRAY_LEN(l->f));
    l->f[l->n++] = (field){l->pos, size, is_offset};
    uint64_t v = 0;
    memcpy(&v, l->p + l->pos, (size_t)size);
    l->pos += (size_t)size;
    return v;
}

static void take_str(fields *l)
{
    uint64_t len = take(l, 8, false); /* in this order: take moves pos */
    l->pos += len;
}

static void take_value(fields *l, uint64_t type)
{
    static const int size[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == GGUF_STRING) {
        take_str(l);
    } else if (type == GGUF_ARRAY) {
        uint64_t elem = take(l, 4, false);
        uint64_t n = take(l, 8, false);
        for (uint64_t i = 0; i < n; i++)
            take_value(l, elem);
    } else {
        take(l, size[type], false);
    }
}

/* Every field of the header of a good file, by a walk of its own. */
static void list_fields(fields *l, const uint8_t *bytes)
{
    l->p = bytes;
    l->pos = 4;
    l->n = 0;
    take(l, 4, false);
    uint64_t n_tensor = take(l, 8, false);
    uint64_t n_kv = take(l, 8, false);
    for (uint64_t i = 0; i < n_kv; i++) {
        take_str(l);
        take_value(l, take(l, 4, false));
    }
    for (uint64_t i = 0; i < n_tensor; i++) {
        take_str(l);
        uint64_t n_dim = take(l, 4, false);
        for (uint64_t k = 0; k < n_dim; k++)
            take(l, 8, false);
        take(l, 4, false);
        take(l, 8, true);
    }
}

/* A count, length, type, dimension or offset that is used before it is checked (B093-B098). A bad
 * tensor offset must be an error wherever the tensor stands (B094). */
static void test_mutate_field_changed_is_refused_or_sound(void **state)
{
    (void)state;
    size_t n;
    char *good = good_bytes(&n);
    fields l;
    list_fields(&l, (const uint8_t *)good);
    assert_true(l.n > 100 && l.pos < n);
    int n_offset = 0;
    for (size_t i = 0; i < l.n; i++) {
        const field *f = &l.f[i];
        uint64_t old = 0;
        memcpy(&old, good + f->pos, (size_t)f->size);
        const uint64_t nasty[] = {0,          1,
                                  2,          255,
                                  INT32_MAX,  1ull << 31,
                                  UINT32_MAX, 1ull << 32,
                                  INT64_MAX,  1ull << 63,
                                  UINT64_MAX, old + 1,
                                  old - 1,    UINT64_MAX - old,
                                  old + 32,   old + (1ull << 63),
                                  0 - old,    UINT64_MAX - 31};
        for (size_t k = 0; k < ARRAY_LEN(nasty); k++) {
            memcpy(good + f->pos, &nasty[k], (size_t)f->size);
            ft_error err;
            ft_status st = parse((const uint8_t *)good, n, &err);
            if (f->is_offset && nasty[k] != old)
                assert_int_equal(st, FT_FORMAT);
        }
        memcpy(good + f->pos, &old, (size_t)f->size);
        n_offset += f->is_offset;
    }
    assert_int_equal(n_offset, 4);
    mem_free(good);
}

/* Any single byte changed. */
static void test_mutate_byte_changed_is_refused_or_sound(void **state)
{
    (void)state;
    size_t n;
    char *good = good_bytes(&n);
    for (size_t i = 0; i < n; i++) {
        char old = good[i];
        const char other[] = {0, 1, 9, 12, 13, 127, -128, -1, (char)(old ^ 1), (char)(old ^ 64)};
        for (size_t k = 0; k < ARRAY_LEN(other); k++) {
            good[i] = other[k];
            ft_error err;
            ft_status st = parse((const uint8_t *)good, n, &err);
            assert_true(st == FT_OK || st == FT_FORMAT);
        }
        good[i] = old;
    }
    mem_free(good);
}

/* A truncated download that loads: every byte of the header, 100 places of the data (B095). */
static void test_mutate_file_cut_is_refused(void **state)
{
    (void)state;
    ft_error err;
    size_t n;
    char *good = good_bytes(&n);
    assert_int_equal(parse((const uint8_t *)good, n, &err), FT_OK);
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(parse((const uint8_t *)good, cut, &err), FT_FORMAT);
    mem_free(good);

    buf b;
    buf_init(&b, 1 << 20);
    mk_header(&b, 3, 2, 0);
    mk_tensor(&b, "a", 1, (uint64_t[]){50000}, DTYPE_I8, 0);
    mk_tensor(&b, "b", 1, (uint64_t[]){50000}, DTYPE_I8, 50016);
    mk_data(&b, 32, 50000);
    size_t start = b.len - 50000;
    mk_data(&b, 32, 50000);
    assert_int_equal(parse(b.data, b.len, &err), FT_OK);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(parse(b.data, start + i * (b.len - start) / 100, &err), FT_FORMAT);
    buf_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutate_field_changed_is_refused_or_sound),
        cmocka_unit_test(test_mutate_byte_changed_is_refused_or_sound),
        cmocka_unit_test(test_mutate_file_cut_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
