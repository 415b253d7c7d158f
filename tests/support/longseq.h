/* longseq.h - conversations over several pages of cells, and bytes in memory, for tests of snapshots. */
#ifndef TESTS_SUPPORT_LONGSEQ_H
#define TESTS_SUPPORT_LONGSEQ_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/rig.h"
#include "support/tmpdir.h"

enum { LONG_CTX = 1100 };

static const model_arch long_arch[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

/* A tiny model, opened with room for LONG_CTX tokens. */
static inline void long_open(rig *r, model_arch arch, dtype kv_type)
{
    char path[TEST_PATH_MAX], name[64];
    tiny_opts o = tiny_default(arch);
    o.type[TINY_GDN] = o.type[TINY_EXPERT] = DTYPE_Q8_0;
    snprintf(name, sizeof name, "long-%s.gguf", model_arch_name(arch));
    tiny_write(test_path(path, name), &o);
    rig_open(r, path, NULL, 1, kv_type);
    arena_deinit(&r->scratch);
    size_t n = layer_scratch(r->be, r->m, RIG_ROWS, RIG_ROWS, LONG_CTX);
    assert_int_equal(arena_init(&r->scratch, n, "long", NULL), FT_OK);
}

static inline seq *long_seq(rig *r, int n_ctx, dtype kv_type)
{
    seq_layer_shape layer[MODEL_MAX_LAYER];
    seq_shape shape;
    seq *s;
    layer_state_shape(r->m, n_ctx, RIG_WINDOW, kv_type, layer, &shape);
    assert_int_equal(seq_create(&s, r->be, &shape, NULL), FT_OK);
    return s;
}

/* Feed the tokens n_past .. n_past + n - 1 of a text. */
static inline void long_feed(rig *r, seq *s, uint64_t text, int n)
{
    int32_t tok[RIG_ROWS];
    while (n > 0) {
        int m = n < RIG_ROWS ? n : RIG_ROWS;
        for (int i = 0; i < m; i++)
            tok[i] = rig_token(text, s->n_past + i, r->n_vocab);
        rig_feed(r, s, tok, m, m, NULL, NULL);
        n -= m;
    }
}

/* Bytes written and read again. cut >= 0: reading fails with FT_FORMAT behind so many bytes. */
typedef struct {
    uint8_t *data;
    size_t len, at;
    long cut;
} long_bytes;

static inline ft_status long_write(void *ctx, const void *bytes, size_t n, ft_error *err)
{
    (void)err;
    long_bytes *b = ctx;
    b->data = realloc(b->data, b->len + n);
    assert_true(n > 0 && b->data);
    memcpy(b->data + b->len, bytes, n);
    b->len += n;
    return FT_OK;
}

static inline ft_status long_read(void *ctx, void *bytes, size_t n, ft_error *err)
{
    long_bytes *b = ctx;
    if (b->at + n > b->len || (b->cut >= 0 && b->at + n > (size_t)b->cut))
        return err_set(err, FT_FORMAT, "cut off at %zu", b->at);
    memcpy(bytes, b->data + b->at, n);
    b->at += n;
    return FT_OK;
}

#endif
