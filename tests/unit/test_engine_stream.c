/* Long prompts: a drafter that is fed chunk by chunk, and encodes only what it will read, drafts exactly
 * as one that has encoded every row (B075 to B079). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "support/draftone.h"
#include "support/tinymodel.h"
#include "support/tmpdir.h"

static void must(ft_status st, const ft_error *err)
{
    if (st != FT_OK)
        fail_msg("%s", err->msg);
}

/* A drafter beside the session's own, with every row of the text encoded in its cell. */
static drafter *encode_all(ft_session *s, const int32_t *tok, int n, int chunk, int sink,
                           int window, arena *scratch)
{
    const model *m = s->model->m;
    ft_error err = {0};
    drafter *d;
    draft_params p = {.n_ctx = s->state->shape.n_ctx,
                      .n_window = s->state->shape.n_window,
                      .sink = sink,
                      .window = window,
                      .kv_type = s->state->shape.kv_type,
                      .w = &s->model->dw->mtp,
                      .head = &m->mtp.head};
    must(draft_create(&d, s->model->be, m, &p, &err), &err);
    must(arena_init(scratch, draft_rows_scratch(d, chunk) + draft_scratch(m, &p, chunk, 1), "test",
                    &err),
         &err);
    size_t width = (size_t)layer_hidden_width(&m->h), vocab = (size_t)m->h.n_vocab;
    float *hidden = calloc((size_t)chunk + 1, width * sizeof *hidden);
    float *logits = calloc((size_t)chunk, vocab * sizeof *logits);
    ft_session_reset(s);
    for (int i = 0; i < n; i += chunk) {
        int rows = n - i < chunk ? n - i : chunk;
        ft_eval_out out = {.hidden = hidden};
        must(ft_session_eval_rows(s, tok + i, rows, &out, &err), &err);
        int known = i + rows < n ? rows : rows - 1; /* the last row's token is not decided */
        draft_rows_args a = {
            .first = i, .n = known, .next = tok + i + 1, .hidden = hidden, .logits = logits};
        if (known > 0)
            must(draft_rows(d, scratch, &a, &err), &err);
        if (i + rows == n)
            draft_observe(d, scratch, tok, n - 1, 1, hidden + (size_t)known * width, n);
    }
    free(hidden);
    free(logits);
    return d;
}

/* The chain of drafts behind a text must be the same bits. */
static void check_stream(ft_model *m, const int32_t *tok, int n, int chunk, int sink, int window)
{
    ft_session *s;
    ft_error err = {0};
    ft_session_params sp = ft_session_params_default();
    sp.n_ctx = n + 64;
    sp.n_chunk = chunk;
    sp.sink = sink;
    sp.window = window;
    must(ft_session_create(&s, m, &sp, &err), &err);
    arena scratch;
    drafter *all = encode_all(s, tok, n, chunk, sink, window, &scratch);
    ft_session_reset(s);
    must(ft_session_eval(s, tok, n, NULL, &err), &err);

    size_t bytes = (size_t)s->head_n * sizeof(float);
    float *a = malloc(bytes), *b = malloc(bytes);
    assert_true(a && b);
    draft_first(s->drafter, &s->batch->scratch, tok, n, tok[0], a);
    draft_first(all, &scratch, tok, n, tok[0], b);
    for (int i = 0; i < 4; i++) {
        if (memcmp(a, b, bytes) != 0)
            fail_msg("chunk %d sink %d window %d: draft %d differs", chunk, sink, window, i);
        int want = sink + window + 1;
        if (window != FT_WINDOW_ALL && n > want + 4)
            assert_int_equal(draft_last_read(s->drafter), want);
        assert_int_equal(draft_last_read(s->drafter), draft_last_read(all));
        draft_on(s->drafter, &s->batch->scratch, tok[i], a);
        draft_on(all, &scratch, tok[i], b);
    }
    free(a);
    free(b);
    draft_free(all);
    arena_deinit(&scratch);
    ft_session_free(s);
}

static void test_streamed_prompt_drafts_as_if_every_row_was_seen(void **state)
{
    (void)state;
    static const model_arch arch[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};
    enum { N = 700 };
    int32_t tok[N];
    for (int i = 0; i < N; i++)
        tok[i] = (int32_t)((uint32_t)(i * 2654435761u) >> 8) % 300;
    for (size_t a = 0; a < ARRAY_LEN(arch); a++) {
        char path[TEST_PATH_MAX];
        ft_model *m;
        ft_error err = {0};
        tiny_opts o = tiny_default(arch[a]);
        tiny_write(test_path(path, "stream.gguf"), &o);
        must(ft_model_open(&m, path, NULL, &err), &err);
        static const int chunk[] = {N, 256, 33}; /* 700 = 2 * 256 + 188 = 21 * 33 + 7 */
        for (size_t c = 0; c < ARRAY_LEN(chunk); c++) {
            check_stream(m, tok, N, chunk[c], 64, 256);
            check_stream(m, tok, N, chunk[c], 0, 40);
            check_stream(m, tok, N, chunk[c], 8, FT_WINDOW_ALL);
        }
        ft_model_close(m);
    }
}

/* 12,000 tokens in chunks of 512 leave a last chunk of 224 rows, shorter than the window. */
static void test_twelve_thousand_tokens_leave_no_hole(void **state)
{
    (void)state;
    enum { N = 12000 };
    static int32_t tok[N];
    for (int i = 0; i < N; i++)
        tok[i] = (int32_t)((uint32_t)(i * 2654435761u) >> 8) % 4000;
    ft_model *m;
    ft_error err = {0};
    must(ft_model_open(&m, "models/foretoken-sample.gguf", NULL, &err), &err);
    check_stream(m, tok, N, 512, 64, 256);
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_streamed_prompt_drafts_as_if_every_row_was_seen),
        cmocka_unit_test(test_twelve_thousand_tokens_leave_no_hole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
