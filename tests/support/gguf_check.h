/* gguf_check.h - parse bytes under test and check what comes back; include cmocka before. */
#ifndef TESTS_SUPPORT_GGUF_CHECK_H
#define TESTS_SUPPORT_GGUF_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/map.h"
#include "gguf/gguf.h"
#include "support/gguf_walk.h"

#define GOOD_GGUF "tests/fuzz/corpus/gguf/good_v3.gguf"

/* Parse a copy: refused with a message, or a directory as gguf.h promises it. */
static inline ft_status parse(const uint8_t *bytes, size_t n, ft_error *err)
{
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    if (n)
        memcpy(copy, bytes, n);
    gguf_file *f;
    *err = (ft_error){0};
    ft_status st = gguf_parse(&f, copy, n, err);
    if (st == FT_OK) {
        const char *fault = gguf_walk(f, copy, n);
        if (fault)
            fail_msg("%s", fault);
        assert_int_equal(err->code, FT_OK);
    } else {
        assert_null(f);
        assert_int_equal(err->code, st);
        assert_true(strlen(err->msg) > 10);
        for (const char *p = err->msg; *p; p++)
            assert_true(*p >= 0x20 && *p < 0x7f);
    }
    gguf_close(f);
    free(copy);
    return st;
}

/* The corpus file with something of everything; the caller frees with mem_free. */
static inline char *good_bytes(size_t *n)
{
    char *bytes;
    ft_error err = {0};
    if (file_read_all(&bytes, n, GOOD_GGUF, 1 << 20, &err) != FT_OK)
        fail_msg("%s", err.msg);
    return bytes;
}

#endif
