/* enginerig.h - tiny models and sessions through the public API alone, for tests of the engine. */
#ifndef TESTS_SUPPORT_ENGINERIG_H
#define TESTS_SUPPORT_ENGINERIG_H

#include <foretoken/foretoken.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "support/tinymodel.h"
#include "support/tmpdir.h"

/* Where the calls inside OK and FAILS put their message. */
static ft_error rig_err;

/* FT_OK, or the test fails with the message. */
#define OK(expr)                         \
    do {                                 \
        rig_err = (ft_error){0};         \
        if ((expr) != FT_OK)             \
            fail_msg("%s", rig_err.msg); \
    } while (0)

/* The call fails with the status, and its message holds the words. */
#define FAILS(expr, status, words)                                           \
    do {                                                                     \
        rig_err = (ft_error){0};                                             \
        assert_int_equal((expr), (status));                                  \
        assert_int_equal(rig_err.code, (status));                            \
        if (!strstr(rig_err.msg, (words)))                                   \
            fail_msg("message '%s', want '%s' in it", rig_err.msg, (words)); \
    } while (0)

/* A tiny model of a family, written and opened with n threads. */
static inline ft_model *rig_model_of(const tiny_opts *o, int n_thread, const char *cpu)
{
    char path[TEST_PATH_MAX];
    tiny_write(test_path(path, "model.gguf"), o);
    ft_model *m;
    ft_model_params p = {.n_thread = n_thread, .cpu = cpu};
    OK(ft_model_open(&m, path, &p, &rig_err));
    return m;
}

static inline ft_model *rig_model(model_arch arch)
{
    tiny_opts o = tiny_default(arch);
    return rig_model_of(&o, 2, NULL);
}

static inline ft_session *rig_session(ft_model *m, int n_ctx, int n_chunk, const char *kv)
{
    ft_session *s;
    ft_session_params p = {.n_ctx = n_ctx, .n_chunk = n_chunk, .kv_type = kv};
    OK(ft_session_create(&s, m, &p, &rig_err));
    return s;
}

/* The i-th token of a fixed text without end tokens. */
static inline int32_t rig_text(int i)
{
    uint32_t x = ((uint32_t)i + 1) * 2654435761u;
    return (int32_t)((x ^ x >> 15) % 312);
}

static inline void rig_prompt(int32_t *tok, int n)
{
    for (int i = 0; i < n; i++)
        tok[i] = rig_text(i);
}

/* What a generation gave, by its callback. */
typedef struct {
    int32_t id[2048];
    int n;
    char text[16384];
    size_t n_text;
    int stop_at;        /* return false at that many tokens; 0: never */
    ft_session *cancel; /* cancelled at cancel_at tokens; NULL: never */
    int cancel_at;
    ft_finish finish;
    ft_generate_stats stats;
} rig_output;

static inline bool rig_on_token(void *ctx, const ft_token *t)
{
    rig_output *o = ctx;
    assert_true(o->n < 2048 && o->n_text + t->len < sizeof o->text);
    o->id[o->n++] = t->id;
    if (t->len)
        memcpy(o->text + o->n_text, t->text, t->len);
    assert_int_equal(t->text[t->len], '\0');
    o->n_text += t->len;
    if (o->cancel && o->n == o->cancel_at)
        ft_session_cancel(o->cancel);
    return o->stop_at == 0 || o->n < o->stop_at;
}

static inline ft_generate_params rig_params(rig_output *out, int n_max, float temp, uint64_t seed)
{
    ft_generate_params p = ft_generate_params_default();
    p.n_max = n_max;
    p.sample.temp = temp;
    p.sample.seed = seed;
    p.on_token = rig_on_token;
    p.on_token_ctx = out;
    return p;
}

/* Generate and expect success; appends to out. */
static inline void rig_generate(ft_session *s, const int32_t *tok, int n_tok,
                                const ft_generate_params *p)
{
    rig_output *out = p->on_token_ctx;
    OK(ft_session_generate(s, tok, n_tok, p, &out->stats, &rig_err));
    out->finish = out->stats.finish;
}

#endif
