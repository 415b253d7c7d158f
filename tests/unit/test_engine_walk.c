/* Random walks over everything that can be done with conversations, against a model that recomputes from
 * scratch: after every operation the digest of the state, and from time to time the next row of logits, are
 * those of a new session that was fed the same tokens.
 *
 * test_engine_walk [N]: N operations in all (default 1500; tools/check-long.sh: 20000). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "support/tinymodel.h"
#include "support/tmpdir.h"

enum { N_SESSION = 4, N_CTX = 700, N_KEPT = 6, N_FILE = 3, MAX_TOK = N_CTX + 8 };

static int n_ops = 1500;

typedef struct {
    int32_t tok[MAX_TOK];
    int n;
} text;

typedef struct {
    ft_model *m;
    ft_batch *batch;
    ft_session *s[N_SESSION];
    ft_session *fresh; /* recomputes; without a drafter */
    text truth[N_SESSION];
    text kept[N_KEPT]; /* conversations of the past, to come back to */
    text file[N_FILE]; /* what was saved; n < 0: nothing yet */
    char path[N_FILE][TEST_PATH_MAX];
    uint64_t random;
    uint64_t n_accepted, n_reused, n_rows; /* to see that the walk goes everywhere */
} walk;

#define MUST(expr)                        \
    do {                                  \
        ft_error must_err = {0};          \
        if ((expr) != FT_OK)              \
            fail_msg("%s", must_err.msg); \
    } while (0)

static uint32_t pick(walk *w, uint32_t n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->random >> 33) % n;
}

/* Mostly a few tokens, sometimes enough to cross a page. */
static int some_tokens(walk *w)
{
    return 1 + (int)(pick(w, 12) == 0 ? pick(w, 500) : pick(w, 24));
}

/* A letter of a small alphabet: conversations share beginnings, and drafts are sometimes right. */
static int32_t some_token(walk *w)
{
    return (int32_t)(97 + pick(w, 5));
}

static void append(text *t, const int32_t *tok, int n)
{
    assert_true(t->n + n <= MAX_TOK);
    memcpy(t->tok + t->n, tok, (size_t)n * sizeof *tok);
    t->n += n;
}

/* ---- The model that recomputes ------------------------------------------------------------------------ */

static void feed_fresh(walk *w, const int32_t *tok, int n)
{
    ft_session_reset(w->fresh);
    if (n > 0)
        MUST(ft_session_eval(w->fresh, tok, n, NULL, &must_err));
}

/* The state of session i is that of its tokens, and nothing else. */
static void check(walk *w, int i)
{
    ft_session *s = w->s[i];
    int n;
    const int32_t *tok = ft_session_tokens(s, &n);
    if (n != w->truth[i].n)
        fail_msg("session %d holds %d tokens, want %d", i, n, w->truth[i].n);
    assert_memory_equal(tok, w->truth[i].tok, (size_t)n * sizeof *tok);
    feed_fresh(w, tok, ft_session_n_past(s));
    assert_true(seq_digest(s->state) == seq_digest(w->fresh->state));
}

/* ---- Operations ----------------------------------------------------------------------------------------- */

static void op_append(walk *w, int i)
{
    int32_t tok[512];
    int n = some_tokens(w), room = N_CTX - w->truth[i].n;
    if (n > room) {
        ft_session_reset(w->s[i]);
        w->truth[i].n = 0;
    }
    for (int k = 0; k < n; k++)
        tok[k] = some_token(w);
    append(&w->truth[i], tok, n);
    MUST(ft_session_eval(w->s[i], tok, n, NULL, &must_err));
}

/* The next row of logits, by one more token. */
static void op_next_row(walk *w, int i)
{
    text *t = &w->truth[i];
    if (t->n == N_CTX)
        return;
    t->tok[t->n++] = some_token(w);
    const float *row, *want;
    MUST(ft_session_eval(w->s[i], t->tok + t->n - 1, 1, &row, &must_err));
    ft_session_reset(w->fresh);
    MUST(ft_session_eval(w->fresh, t->tok, t->n, &want, &must_err));
    assert_memory_equal(row, want, (size_t)w->m->m->h.n_vocab * sizeof *row);
    w->n_rows++;
}

typedef struct {
    text made;
    int stop_at;
} made_text;

static bool on_token(void *ctx, const ft_token *t)
{
    made_text *m = ctx;
    append(&m->made, &t->id, 1);
    return m->made.n != m->stop_at;
}

static ft_generate_params some_request(walk *w)
{
    ft_generate_params p = ft_generate_params_default();
    p.n_max = 1 + (int)pick(w, 20);
    p.ignore_eos = true;
    p.sample.temp = pick(w, 3) == 0 ? 0 : 0.9f;
    p.sample.seed = pick(w, 1000);
    p.sample.repeat_penalty = pick(w, 2) ? 1 : 1.1f;
    p.draft_max = (int)pick(w, 7);
    p.draft_fixed = pick(w, 2);
    return p;
}

/* A prompt, which leaves room for an answer. */
static int some_prompt(walk *w, int i, int32_t *tok)
{
    int n = some_tokens(w);
    if (w->truth[i].n + n > N_CTX - 30) {
        ft_session_reset(w->s[i]);
        w->truth[i].n = 0;
    }
    for (int k = 0; k < n; k++)
        tok[k] = some_token(w);
    return n;
}

/* What a request without drafts gives in a new session. */
static void check_made(walk *w, const text *before, const int32_t *tok, int n,
                       const ft_generate_params *p, const made_text *got)
{
    made_text want = {.stop_at = got->made.n};
    ft_generate_params plain = *p;
    plain.draft_max = 0;
    plain.on_token = on_token;
    plain.on_token_ctx = &want;
    feed_fresh(w, before->tok, before->n);
    MUST(ft_session_generate(w->fresh, tok, n, &plain, NULL, &must_err));
    assert_int_equal(want.made.n, got->made.n);
    assert_memory_equal(want.made.tok, got->made.tok, (size_t)got->made.n * sizeof *tok);
}

static void op_generate(walk *w, int i)
{
    int32_t tok[512];
    int n = some_prompt(w, i, tok);
    made_text got = {.stop_at = pick(w, 3) == 0 ? 1 + (int)pick(w, 20) : 0};
    ft_generate_params p = some_request(w);
    ft_generate_stats st;
    p.on_token = on_token;
    p.on_token_ctx = &got;
    text before = w->truth[i];
    MUST(ft_session_generate(w->s[i], tok, n, &p, &st, &must_err));
    w->n_accepted += st.draft.accepted;
    check_made(w, &before, tok, n, &p, &got);
    append(&w->truth[i], tok, n);
    append(&w->truth[i], got.made.tok, got.made.n);
}

/* Several sessions in one batch, steps for random ones of them, some of them ended early. */
static void op_together(walk *w)
{
    static int32_t tok[N_SESSION][512];
    static made_text got[N_SESSION];
    ft_generation *g[N_SESSION];
    ft_generate_params p[N_SESSION];
    int n[N_SESSION], n_open = 0;
    bool open[N_SESSION];
    for (int i = 0; i < N_SESSION; i++) {
        n[i] = some_prompt(w, i, tok[i]);
        got[i] = (made_text){.stop_at = 0};
        p[i] = some_request(w);
        p[i].on_token = on_token;
        p[i].on_token_ctx = &got[i];
        MUST(ft_generation_begin(&g[i], w->s[i], tok[i], n[i], &p[i], &must_err));
        open[i] = true;
        n_open++;
    }
    while (n_open > 0) {
        ft_generation *now[N_SESSION];
        int n_now = 0;
        for (int i = 0; i < N_SESSION; i++)
            if (open[i] && pick(w, 4) > 0)
                now[n_now++] = g[i];
        MUST(ft_batch_step(w->batch, now, n_now, &must_err));
        for (int i = 0; i < N_SESSION; i++) {
            if (!open[i])
                continue;
            ft_generation_state at = ft_generation_get_state(g[i]);
            assert_int_not_equal(at, FT_GENERATION_FAILED);
            if (at != FT_GENERATION_DONE && !(at == FT_GENERATION_DECODE && pick(w, 25) == 0))
                continue;
            ft_generate_stats st;
            MUST(ft_generation_end(g[i], &st, &must_err));
            w->n_accepted += st.draft.accepted;
            open[i] = false;
            n_open--;
        }
    }
    for (int i = 0; i < N_SESSION; i++) {
        check_made(w, &w->truth[i], tok[i], n[i], &p[i], &got[i]);
        append(&w->truth[i], tok[i], n[i]);
        append(&w->truth[i], got[i].made.tok, got[i].made.n);
        check(w, i);
    }
}

/* Go on with another text that begins like a known one: an edited turn, an old conversation, the own one
 * again. */
static void op_edit(walk *w, int i)
{
    text t;
    switch (pick(w, 3)) {
    case 0:
        t = w->truth[i];
        break;
    case 1:
        t = w->truth[pick(w, N_SESSION)];
        break;
    default:
        t = w->kept[pick(w, N_KEPT)];
        break;
    }
    t.n = t.n > 0 ? (int)pick(w, (uint32_t)t.n + 1) : 0;
    for (int k = (int)pick(w, 20); k >= 0 && t.n < N_CTX; k--)
        t.tok[t.n++] = some_token(w);
    if (t.n == 0)
        return;
    int n_known;
    MUST(ft_session_reuse(w->s[i], t.tok, t.n, &n_known, &must_err));
    assert_in_range(n_known, 0, t.n - 1);
    w->n_reused += (uint64_t)n_known;
    int n;
    ft_session_tokens(w->s[i], &n);
    assert_int_equal(n, n_known);
    if (n_known < t.n)
        MUST(ft_session_eval(w->s[i], t.tok + n_known, t.n - n_known, NULL, &must_err));
    w->truth[i] = t;
}

static void op_checkpoint(walk *w, int i)
{
    MUST(ft_session_checkpoint(w->s[i], &must_err));
    w->kept[pick(w, N_KEPT)] = w->truth[i];
}

static void op_save(walk *w, int i)
{
    int f = (int)pick(w, N_FILE);
    MUST(ft_session_save(w->s[i], w->path[f], NULL, NULL, &must_err));
    w->file[f] = w->truth[i];
}

static void op_load(walk *w, int i)
{
    int f = (int)pick(w, N_FILE);
    if (w->file[f].n < 0)
        return;
    MUST(ft_session_load(w->s[i], w->path[f], &must_err));
    w->truth[i] = w->file[f];
}

static void step(walk *w)
{
    int i = (int)pick(w, N_SESSION);
    switch (pick(w, 16)) {
    case 0:
    case 1:
    case 2:
        op_append(w, i);
        break;
    case 3:
    case 4:
    case 5:
        op_generate(w, i);
        break;
    case 6:
        op_together(w);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        op_edit(w, i);
        break;
    case 11:
    case 12:
        op_checkpoint(w, i);
        break;
    case 13:
        op_save(w, i);
        break;
    case 14:
        op_load(w, i);
        break;
    default:
        ft_session_reset(w->s[i]);
        w->truth[i].n = 0;
        break;
    }
    check(w, i);
    if (pick(w, 4) == 0)
        op_next_row(w, i);
}

static void open_walk(walk *w, model_arch arch)
{
    char path[TEST_PATH_MAX];
    tiny_opts o = tiny_default(arch);
    o.n_ctx = N_CTX;
    tiny_write(test_path(path, "model.gguf"), &o);
    ft_model_params mp = ft_model_params_default();
    mp.checkpoint_mem = 3u << 20; /* some twenty checkpoints: they come and go */
    mp.n_thread = 2;
    MUST(ft_model_open(&w->m, path, &mp, &must_err));
    ft_batch_params bp = {.n_session = N_SESSION, .n_chunk = 64, .n_ctx = N_CTX};
    MUST(ft_batch_create(&w->batch, w->m, &bp, &must_err));
    ft_session_params sp = ft_session_params_default();
    sp.batch = w->batch;
    sp.window = 40; /* smaller than the texts */
    sp.sink = 8;
    sp.checkpoint_every = 100;
    for (int i = 0; i < N_SESSION; i++)
        MUST(ft_session_create(&w->s[i], w->m, &sp, &must_err));
    ft_session_params plain = {.n_ctx = N_CTX, .n_chunk = 512, .no_draft = true};
    MUST(ft_session_create(&w->fresh, w->m, &plain, &must_err));
    for (int f = 0; f < N_FILE; f++) {
        char name[32];
        snprintf(name, sizeof name, "walk-%d.session", f);
        test_path(w->path[f], name);
        w->file[f].n = -1;
    }
}

static void walk_family(model_arch arch, int n)
{
    static walk w;
    w = (walk){.random = 99 + (uint64_t)arch};
    open_walk(&w, arch);
    for (int k = 0; k < n; k++)
        step(&w);
    ft_checkpoint_stats st;
    ft_model_checkpoint_stats(w.m, &st);
    assert_true(st.bytes <= st.limit);
    assert_true(w.n_accepted > 0 && w.n_reused > 0 && w.n_rows > 0 && st.hits > 0 &&
                st.evicted > 0);
    ft_session_free(w.fresh);
    for (int i = 0; i < N_SESSION; i++)
        ft_session_free(w.s[i]);
    ft_batch_free(w.batch);
    ft_model_close(w.m);
}

/* Catches whatever leaves a trace in a state: a rollback, a checkpoint of the wrong moment, a shared page
 * that somebody writes, a file that misses a part. */
static void test_walk_qwen35_states_are_those_of_their_tokens(void **state)
{
    (void)state;
    walk_family(MODEL_QWEN35, n_ops / 3);
}

static void test_walk_qwen35moe_states_are_those_of_their_tokens(void **state)
{
    (void)state;
    walk_family(MODEL_QWEN35MOE, n_ops / 3);
}

static void test_walk_qwen4exp_states_are_those_of_their_tokens(void **state)
{
    (void)state;
    walk_family(MODEL_QWEN4EXP, n_ops / 3);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        n_ops = (int)strtol(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk_qwen35_states_are_those_of_their_tokens),
        cmocka_unit_test(test_walk_qwen35moe_states_are_those_of_their_tokens),
        cmocka_unit_test(test_walk_qwen4exp_states_are_those_of_their_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
