/* test_engine_threads.c - what may run at the same time: sessions and batches of one model in threads of
 * their own, models opened and closed, cancellation from elsewhere.
 *
 * Run under ThreadSanitizer by tools/check-long.sh; without it the results are compared all the same.
 * Threads record, the main thread checks: a test may fail in the main thread alone.
 */
#include <foretoken/foretoken.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "support/tinymodel.h"
#include "support/tmpdir.h"

enum { N_THREAD = 3, N_TOKEN = 20, N_PROMPT = 90, N_CTX = 200, N_BATCH = 2 };

static const model_arch family[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

static void must(ft_status st, const ft_error *err)
{
    if (st != FT_OK)
        fail_msg("%s", err->msg);
}

static ft_model *open_tiny(model_arch arch, char path[TEST_PATH_MAX])
{
    tiny_opts o = tiny_default(arch);
    tiny_write(test_path(path, "threads.gguf"), &o);
    ft_model_params p = ft_model_params_default();
    p.n_thread = 2;
    ft_model *m;
    ft_error err = {0};
    must(ft_model_open(&m, path, &p, &err), &err);
    return m;
}

/* ---- Requests, for any thread ------------------------------------------------------------------------ */

/* The tokens of a request, as the callback gave them. */
typedef struct {
    int32_t id[N_TOKEN];
    int n;
} output;

static bool put(void *ctx, const ft_token *t)
{
    output *o = ctx;
    if (o->n < N_TOKEN)
        o->id[o->n++] = t->id;
    return true;
}

/* Request i: its prompt, which begins like all others do, and its parameters. */
static ft_generate_params request(int i, int32_t prompt[N_PROMPT], output *out)
{
    for (int k = 0; k < N_PROMPT; k++)
        prompt[k] = (k * 7 + (k < N_PROMPT / 2 ? 0 : i * 31)) % 300;
    ft_generate_params p = ft_generate_params_default();
    p.n_max = N_TOKEN;
    p.ignore_eos = true;
    p.sample.temp = i % 2 ? 0.8f : 0;
    p.sample.seed = (uint64_t)i;
    p.on_token = put;
    p.on_token_ctx = out;
    return p;
}

static ft_status run_request(ft_session *s, int i, output *out, ft_error *err)
{
    static const int mark[] = {20, N_PROMPT / 2};
    int32_t prompt[N_PROMPT];
    int n_known = 0;
    out->n = 0;
    ft_generate_params p = request(i, prompt, out);
    p.mark = mark;
    p.n_mark = 2;
    ft_status st = ft_session_reuse(s, prompt, N_PROMPT, &n_known, err);
    if (st != FT_OK)
        return st;
    return ft_session_generate(s, prompt + n_known, N_PROMPT - n_known, &p, NULL, err);
}

static ft_session_params session_params(ft_batch *b)
{
    ft_session_params p = ft_session_params_default();
    p.n_ctx = N_CTX;
    p.n_chunk = 64; /* enough rows for a team of threads */
    p.checkpoint_every = 32;
    p.batch = b;
    return p;
}

/* What every request gives when nothing else runs. */
static void alone(ft_model *m, output *want, int n)
{
    ft_session *s;
    ft_error err = {0};
    ft_session_params p = session_params(NULL);
    must(ft_session_create(&s, m, &p, &err), &err);
    for (int i = 0; i < n; i++) {
        must(run_request(s, i, &want[i], &err), &err);
        assert_int_equal(want[i].n, N_TOKEN);
    }
    ft_session_free(s);
}

static void assert_same(const output *a, const output *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->id, b->id, (size_t)b->n * sizeof *b->id);
}

/* A thread's work and what became of it. */
typedef struct {
    ft_model *m;
    const char *path;
    int first; /* request */
    output out[N_BATCH];
    ft_status st;
    ft_error err;
    bool same_text;
} worker;

static void run_workers(void *(*fn)(void *), worker *w, int n)
{
    pthread_t thread[N_THREAD];
    for (int i = 0; i < n; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fn, &w[i]), 0);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < n; i++)
        must(w[i].st, &w[i].err);
}

/* ---- Sessions, batches, models ------------------------------------------------------------------------ */

/* Tokenizes there and back. */
static void tokenize(worker *w)
{
    static const char text[] = "the hen in the thing, 12 \"others\" \xc3\xa9\xf0\x9f\x98\x80";
    int32_t *ids = NULL;
    char *back = NULL;
    size_t n, len;
    w->st = ft_tokenize(w->m, text, sizeof text - 1, false, &ids, &n, &w->err);
    if (w->st == FT_OK)
        w->st = ft_detokenize(w->m, ids, n, false, &back, &len, &w->err);
    w->same_text = w->st == FT_OK && len == sizeof text - 1 && memcmp(back, text, len) == 0;
    ft_free(ids);
    ft_free(back);
}

static void *own_session(void *ctx)
{
    worker *w = ctx;
    ft_session *s = NULL;
    ft_session_params p = session_params(NULL);
    tokenize(w);
    if (w->st == FT_OK)
        w->st = ft_session_create(&s, w->m, &p, &w->err);
    for (int i = 0; i < N_BATCH && w->st == FT_OK; i++)
        w->st = run_request(s, w->first + i, &w->out[i], &w->err);
    ft_session_free(s);
    return NULL;
}

/* Catches anything of a model that its sessions write to: they run in a thread each, drafts, checkpoints and
 * the tokenizer included. B047 */
static void test_threads_sessions_of_one_model(void **state)
{
    (void)state;
    for (int a = 0; a < 3; a++) {
        char path[TEST_PATH_MAX];
        ft_model *m = open_tiny(family[a], path);
        output want[N_THREAD * N_BATCH];
        alone(m, want, N_THREAD * N_BATCH);
        worker w[N_THREAD];
        memset(w, 0, sizeof w);
        for (int i = 0; i < N_THREAD; i++)
            w[i] = (worker){.m = m, .first = i * N_BATCH};
        run_workers(own_session, w, N_THREAD);
        for (int i = 0; i < N_THREAD * N_BATCH; i++) {
            assert_same(&w[i / N_BATCH].out[i % N_BATCH], &want[i]);
            assert_true(w[i / N_BATCH].same_text);
        }
        ft_model_close(m);
    }
}

static void *own_batch(void *ctx)
{
    worker *w = ctx;
    ft_batch *b = NULL;
    ft_session *s[N_BATCH] = {NULL};
    ft_generation *g[N_BATCH] = {NULL};
    int32_t prompt[N_BATCH][N_PROMPT];
    ft_batch_params bp = {.n_session = N_BATCH, .n_chunk = 64, .n_ctx = N_CTX};
    w->st = ft_batch_create(&b, w->m, &bp, &w->err);
    ft_session_params p = session_params(b);
    for (int i = 0; i < N_BATCH && w->st == FT_OK; i++) {
        ft_generate_params gp = request(w->first + i, prompt[i], &w->out[i]);
        w->st = ft_session_create(&s[i], w->m, &p, &w->err);
        if (w->st == FT_OK)
            w->st = ft_generation_begin(&g[i], s[i], prompt[i], N_PROMPT, &gp, &w->err);
    }
    for (bool more = true; more && w->st == FT_OK;) {
        w->st = ft_batch_step(b, g, N_BATCH, &w->err);
        more = false;
        for (int i = 0; i < N_BATCH; i++)
            more |= ft_generation_get_state(g[i]) <= FT_GENERATION_DECODE;
    }
    for (int i = 0; i < N_BATCH; i++) {
        ft_status st = ft_generation_end(g[i], NULL, &w->err);
        w->st = w->st == FT_OK ? st : w->st;
        ft_session_free(s[i]);
    }
    ft_batch_free(b);
    return NULL;
}

/* Catches memory of a step that two batches share. */
static void test_threads_batches_of_one_model(void **state)
{
    (void)state;
    for (int a = 0; a < 3; a++) {
        char path[TEST_PATH_MAX];
        ft_model *m = open_tiny(family[a], path);
        output want[2 * N_BATCH];
        alone(m, want, 2 * N_BATCH);
        worker w[2];
        memset(w, 0, sizeof w);
        for (int i = 0; i < 2; i++)
            w[i] = (worker){.m = m, .first = i * N_BATCH};
        run_workers(own_batch, w, 2);
        for (int i = 0; i < 2 * N_BATCH; i++)
            assert_same(&w[i / N_BATCH].out[i % N_BATCH], &want[i]);
        ft_model_close(m);
    }
}

static void *own_model(void *ctx)
{
    worker *w = ctx;
    for (int i = 0; i < N_BATCH && w->st == FT_OK; i++) {
        ft_model *m = NULL, *none = NULL;
        ft_error ignored = {0};
        ft_session *s = NULL;
        ft_session_params p = session_params(NULL);
        if (ft_model_open(&none, "no-such-file", NULL, &ignored) != FT_IO)
            w->st = FT_MISMATCH;
        if (w->st == FT_OK)
            w->st = ft_model_open(&m, w->path, NULL, &w->err);
        w->m = m;
        if (w->st == FT_OK)
            tokenize(w);
        if (w->st == FT_OK)
            w->st = ft_session_create(&s, m, &p, &w->err);
        if (w->st == FT_OK)
            w->st = run_request(s, w->first + i, &w->out[i], &w->err);
        ft_session_free(s);
        ft_model_close(m);
    }
    return NULL;
}

/* Catches globals behind the opening of a file: tables made at first use, the choice of kernels. */
static void test_threads_open_and_close_models(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    ft_model *m = open_tiny(MODEL_QWEN4EXP, path);
    output want[N_THREAD * N_BATCH];
    alone(m, want, N_THREAD * N_BATCH);
    ft_model_close(m);
    worker w[N_THREAD];
    memset(w, 0, sizeof w);
    for (int i = 0; i < N_THREAD; i++)
        w[i] = (worker){.path = path, .first = i * N_BATCH};
    run_workers(own_model, w, N_THREAD);
    for (int i = 0; i < N_THREAD * N_BATCH; i++) {
        assert_same(&w[i / N_BATCH].out[i % N_BATCH], &want[i]);
        assert_true(w[i / N_BATCH].same_text);
    }
}

/* ---- Cancelling --------------------------------------------------------------------------------------- */

/* A thread that cancels when so many steps were made. */
typedef struct {
    ft_generation *g; /* or */
    ft_session *s;
    int at;
    atomic_int *n_step;
    atomic_bool done;
} canceller;

static void *cancel_at(void *ctx)
{
    canceller *c = ctx;
    const struct timespec nap = {.tv_nsec = 50000};
    while (atomic_load(c->n_step) < c->at)
        nanosleep(&nap, NULL);
    if (c->g)
        ft_generation_cancel(c->g);
    else
        ft_session_cancel(c->s);
    atomic_store(&c->done, true);
    return NULL;
}

static bool runs(const ft_generation *g)
{
    return ft_generation_get_state(g) <= FT_GENERATION_DECODE;
}

/* Two of three generations are cancelled by other threads behind so many steps; none runs on for more than
 * the step that was under way; the third gets what it gets alone. */
static void cancel_two(ft_model *m, const output *want, int at)
{
    ft_error err = {0};
    ft_batch *b;
    ft_session *s[3];
    ft_generation *g[3];
    output out[3] = {{.n = 0}};
    int32_t prompt[3][N_PROMPT];
    ft_batch_params bp = {.n_session = 3, .n_chunk = 24, .n_ctx = N_CTX};
    must(ft_batch_create(&b, m, &bp, &err), &err);
    ft_session_params p = session_params(b);
    atomic_int n_step = 0;
    for (int i = 0; i < 3; i++) {
        ft_generate_params gp = request(i, prompt[i], &out[i]);
        must(ft_session_create(&s[i], m, &p, &err), &err);
        must(ft_generation_begin(&g[i], s[i], prompt[i], N_PROMPT, &gp, &err), &err);
    }
    canceller c[2] = {{.g = g[0], .at = at, .n_step = &n_step},
                      {.s = s[1], .at = at + 2, .n_step = &n_step}};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, cancel_at, &c[i]), 0);
    bool late = false;
    while (runs(g[0]) || runs(g[1]) || runs(g[2])) {
        bool done[2] = {atomic_load(&c[0].done), atomic_load(&c[1].done)};
        must(ft_batch_step(b, g, 3, &err), &err);
        for (int i = 0; i < 2; i++)
            late |= done[i] && runs(g[i]);
        atomic_fetch_add(&n_step, 1);
    }
    atomic_fetch_add(&n_step, 1000);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    assert_false(late);
    for (int i = 0; i < 3; i++) {
        ft_generate_stats stats;
        ft_status st = ft_generation_end(g[i], &stats, NULL);
        bool cut = stats.finish == FT_FINISH_CANCELLED;
        assert_int_equal(st, cut && stats.n_token == 0 ? FT_CANCELLED : FT_OK);
        assert_int_equal(out[i].n, stats.n_token);
        assert_memory_equal(out[i].id, want[i].id, (size_t)out[i].n * sizeof *out[i].id);
        if (i == 2)
            assert_same(&out[i], &want[i]);
        ft_session_free(s[i]);
    }
    ft_batch_free(b);
}

/* Catches a flag that is read and written without order, lost, or taken by another request, during prompts
 * and rounds. B070 B071 B072 */
static void test_threads_cancel_from_elsewhere(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    ft_model *m = open_tiny(MODEL_QWEN4EXP, path);
    output want[3];
    alone(m, want, 3);
    for (int at = 0; at < 30; at += 3) /* about 12 steps read the prompts */
        cancel_two(m, want, at);
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads_sessions_of_one_model),
        cmocka_unit_test(test_threads_batches_of_one_model),
        cmocka_unit_test(test_threads_open_and_close_models),
        cmocka_unit_test(test_threads_cancel_from_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
