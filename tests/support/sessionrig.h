/* sessionrig.h - tiny models whose sessions keep checkpoints, and what a state should be. */
#ifndef TESTS_SUPPORT_SESSIONRIG_H
#define TESTS_SUPPORT_SESSIONRIG_H

#include "engine/engine.h"
#include "support/enginerig.h"

static const model_arch rig_family[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

/* A tiny model under a name of its own, whose store may hold so many bytes. */
static inline ft_model *kept_model(const char *name, const tiny_opts *o, uint64_t mem)
{
    char path[TEST_PATH_MAX];
    tiny_write(test_path(path, name), o);
    ft_model *m;
    ft_model_params p = {.n_thread = 2, .checkpoint_mem = mem};
    OK(ft_model_open(&m, path, &p, &rig_err));
    return m;
}

static inline ft_model *kept_family(model_arch arch, uint64_t mem)
{
    tiny_opts o = tiny_default(arch);
    return kept_model("kept.gguf", &o, mem);
}

static inline ft_session *kept_session(ft_model *m, int n_ctx, int n_chunk)
{
    ft_session *s;
    ft_session_params p = ft_session_params_default();
    p.n_ctx = n_ctx;
    p.n_chunk = n_chunk;
    OK(ft_session_create(&s, m, &p, &rig_err));
    return s;
}

/* The i-th token of text number `text`: texts differ from the first token on. */
static inline int32_t text_token(int text, int i)
{
    return rig_text(1000 * text + i);
}

/* tok [n]: a beginning of text a, then text b from its position on. */
static inline void mix_texts(int32_t *tok, int a, int n_a, int b, int n)
{
    for (int i = 0; i < n; i++)
        tok[i] = text_token(i < n_a ? a : b, i);
}

/* Read tok [n] as a server would: take up what is known, evaluate the rest. Returns what was known; *logits
 * (NULL: not wanted) as ft_session_eval gives them. */
static inline int read_text(ft_session *s, const int32_t *tok, int n, const float **logits)
{
    int n_known;
    OK(ft_session_reuse(s, tok, n, &n_known, &rig_err));
    assert_int_equal(ft_session_n_past(s), n_known);
    assert_true(n_known < n);
    OK(ft_session_eval(s, tok + n_known, n - n_known, logits, &rig_err));
    assert_int_equal(ft_session_n_past(s), n);
    return n_known;
}

/* s holds what a fresh session holds that read the same tokens in one go, and makes the same token. plain:
 * a session of the same settings whose model keeps no checkpoints. */
static inline void expect_as_read(ft_session *s, ft_session *plain, const int32_t *tok, int n)
{
    ft_session_reset(plain);
    OK(ft_session_eval(plain, tok, n, NULL, &rig_err));
    assert_int_equal(ft_session_n_past(s), n);
    assert_true(session_digest(s) == session_digest(plain));
}

static inline uint64_t evaluated(const ft_session *s)
{
    ft_session_info i;
    ft_session_get_info(s, &i);
    return i.n_evaluated;
}

#endif
