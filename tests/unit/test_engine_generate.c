/* test_engine_generate.c - generation: its ends, what stays in the session, seeds, cancelling. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "support/enginerig.h"

static const model_arch family[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

static void expect_same(const rig_output *a, const rig_output *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->id, b->id, (size_t)a->n * sizeof *a->id);
}

/* ---- Ends ---------------------------------------------------------------------------------------- */

/* Catches a context that overflows, is shifted in silence, or ends one token early or late: prompts
 * that leave 0, 1, 2, 5 places; n_max far above. B066 B068 */
static void test_generate_ends_with_the_context(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    int32_t tok[40];
    rig_prompt(tok, 40);
    static const int left[] = {0, 1, 2, 5};
    for (int i = 0; i < 8; i++) {
        ft_session *s = rig_session(m, 40, 16, "f16");
        rig_output out = {0};
        ft_generate_params p = rig_params(&out, i < 4 ? -1 : 1000000, 0.7f, 3);
        p.ignore_eos = true;
        rig_generate(s, tok, 40 - left[i % 4], &p);
        assert_int_equal(out.finish, FT_FINISH_CONTEXT);
        assert_int_equal(out.n, left[i % 4] + 1); /* the last one needs no place */
        assert_int_equal(out.stats.n_token, out.n);
        assert_int_equal(out.stats.n_prompt, 40 - left[i % 4]);
        assert_int_equal(ft_session_n_past(s), 40);
        FAILS(ft_session_generate(s, NULL, 0, &p, &out.stats, &rig_err), FT_RANGE,
              "context: 40 tokens used and 1 more wanted, the limit is 40");
        assert_int_equal(out.stats.n_token, 0);
        ft_session_free(s);
    }
    ft_model_close(m);
}

/* Catches a prompt read in part before it is refused. B066 */
static void test_generate_prompt_over_the_context_reads_nothing(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35MOE);
    ft_session *s = rig_session(m, 40, 16, "f16");
    int32_t tok[41];
    rig_prompt(tok, 41);
    rig_output out = {0};
    ft_generate_params p = rig_params(&out, 3, 0, 0);
    FAILS(ft_session_generate(s, tok, 41, &p, NULL, &rig_err), FT_RANGE,
          "0 tokens used and 41 more wanted, the limit is 40");
    assert_int_equal(ft_session_n_past(s), 0);
    rig_generate(s, tok, 30, &p);
    uint64_t before = seq_digest(s->state);
    int32_t pending = s->pending;
    /* 32 in it, one pending, 8 more: 41 */
    FAILS(ft_session_generate(s, tok, 8, &p, NULL, &rig_err), FT_RANGE,
          "32 tokens used and 9 more wanted");
    tok[2] = 320;
    FAILS(ft_session_generate(s, tok, 3, &p, NULL, &rig_err), FT_RANGE, "token 2: id 320");
    tok[2] = 2;
    p.n_max = -2;
    FAILS(ft_session_generate(s, tok, 3, &p, NULL, &rig_err), FT_ARG, "n_max: -2, want -1");
    p.n_max = 1;
    FAILS(ft_session_generate(s, tok, -1, &p, NULL, &rig_err), FT_ARG, "prompt: -1");
    p.sample.top_p = 1.5f;
    FAILS(ft_session_generate(s, tok, 3, &p, NULL, &rig_err), FT_ARG, "top_p is 1.5, want 0 to 1");
    assert_int_equal(s->pending, pending);
    assert_true(seq_digest(s->state) == before);
    assert_int_equal(out.n, 3);
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a generation from nothing: there is no row to draw from. */
static void test_generate_from_nothing_is_refused(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    ft_session *s = rig_session(m, 40, 16, "f16");
    rig_output out = {0};
    ft_generate_params p = rig_params(&out, 3, 0, 0);
    FAILS(ft_session_generate(s, NULL, 0, &p, NULL, &rig_err), FT_ARG, "prompt: no tokens");
    OK(ft_session_eval(s, (int32_t[]){1, 2}, 2, NULL, &rig_err));
    FAILS(ft_session_generate(s, NULL, 0, &p, NULL, &rig_err), FT_ARG, "prompt: no tokens");
    rig_generate(s, (int32_t[]){3}, 1, &p);
    rig_generate(s, NULL, 0, &p); /* goes on with the pending one */
    ft_session_reset(s);
    FAILS(ft_session_generate(s, NULL, 0, &p, NULL, &rig_err), FT_ARG, "prompt: no tokens");
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches limits that are off by one, and n_max 0 that makes a token or forgets the prompt. */
static void test_generate_n_max(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    ft_session *s = rig_session(m, 100, 16, "f16"), *t = rig_session(m, 100, 16, "f16");
    int32_t tok[12];
    rig_prompt(tok, 12);
    rig_output out = {0}, twin = {0};
    ft_generate_params p = rig_params(&out, 0, 0, 0), q = rig_params(&twin, 6, 0, 0);
    p.ignore_eos = q.ignore_eos = true;
    rig_generate(s, tok, 11, &p);
    assert_int_equal(out.n, 0);
    assert_int_equal(out.finish, FT_FINISH_LENGTH);
    assert_int_equal(out.stats.n_prompt, 11);
    assert_int_equal(ft_session_n_past(s), 11);
    for (int n = 1; n <= 3; n++) { /* 1 + 2 + 3 tokens; B028: delivered = counted = limit */
        p.n_max = n;
        rig_generate(s, n == 1 ? tok + 11 : NULL, n == 1, &p);
        assert_int_equal(out.stats.n_token, n);
        assert_int_equal(out.finish, FT_FINISH_LENGTH);
    }
    assert_int_equal(ft_session_n_past(s), 12 + 5);
    rig_generate(t, tok, 12, &q);
    expect_same(&out, &twin);
    ft_session_free(s);
    ft_session_free(t);
    ft_model_close(m);
}

/* Catches a pending token that is lost or read twice: 5 + 5 tokens are 10, what was evaluated between
 * is what a plain evaluation sees, on every family. */
static void test_generate_goes_on_where_it_stopped(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        ft_model *m = rig_model(family[i]);
        ft_session *s = rig_session(m, 100, 16, "f16"), *t = rig_session(m, 100, 16, "f16");
        int32_t tok[20];
        rig_prompt(tok, 20);
        rig_output two = {0}, one = {0};
        ft_generate_params p = rig_params(&two, 5, 0.9f, 11), q = rig_params(&one, 10, 0.9f, 11);
        p.ignore_eos = q.ignore_eos = true;
        rig_generate(s, tok, 20, &p);
        rig_generate(s, NULL, 0, &p);
        rig_generate(t, tok, 20, &q);
        expect_same(&two, &one);
        assert_true(seq_digest(s->state) == seq_digest(t->state));

        const float *a, *b;
        OK(ft_session_eval(s, tok, 4, &a, &rig_err)); /* the pending one goes first */
        assert_int_equal(ft_session_n_past(s), 20 + 10 + 4);
        ft_session_reset(t);
        OK(ft_session_eval(t, tok, 20, NULL, &rig_err));
        OK(ft_session_eval(t, two.id, 10, NULL, &rig_err));
        OK(ft_session_eval(t, tok, 4, &b, &rig_err));
        assert_memory_equal(a, b, 320 * sizeof *a);
        assert_true(seq_digest(s->state) == seq_digest(t->state));

        rig_generate(s, tok, 2, &p); /* and rows after a generation, pending one first */
        float *rows = calloc(3 * 320, sizeof *rows);
        ft_eval_out out = {.logits = rows};
        OK(ft_session_eval_rows(s, tok, 3, &out, &rig_err));
        OK(ft_session_eval(t, tok, 2, NULL, &rig_err));
        OK(ft_session_eval(t, two.id + 10, 5, NULL, &rig_err));
        OK(ft_session_eval(t, tok, 3, &b, &rig_err));
        assert_memory_equal(rows + 2 * 320, b, 320 * sizeof *b);
        free(rows);
        ft_session_free(s);
        ft_session_free(t);
        ft_model_close(m);
    }
}

/* ---- The end token --------------------------------------------------------------------------------- */

typedef struct {
    int32_t end, eot;
} end_ids;

static void put_ends(gguf_writer *w, void *ctx)
{
    const end_ids *e = ctx;
    gguf_put_int(w, "tokenizer.ggml.eos_token_id", GGUF_U32, e->end);
    gguf_put_int(w, "tokenizer.ggml.eot_token_id", GGUF_U32, e->eot);
}

/* Catches an end that is missed, counted wrongly, or spelled into the text; ignore_eos goes on past
 * it. The end is declared to be the token that the model makes as its k-th. B023 B024 */
static void test_generate_stops_at_the_end_token(void **state)
{
    (void)state;
    int32_t tok[8];
    rig_prompt(tok, 8);
    ft_model *m = rig_model(MODEL_QWEN35);
    ft_session *s = rig_session(m, 100, 16, "f16");
    rig_output all = {0};
    ft_generate_params p = rig_params(&all, 24, 0.8f, 5);
    p.ignore_eos = true;
    rig_generate(s, tok, 8, &p);
    assert_int_equal(all.n, 24);
    ft_session_free(s);
    ft_model_close(m);
    for (int k = 0; k < 24; k += 7) {
        int first = 0; /* where the k-th token occurs first */
        while (all.id[first] != all.id[k])
            first++;
        for (int as_eot = 0; as_eot < 2; as_eot++) {
            end_ids ends = {as_eot ? TINY_EOS : all.id[k], as_eot ? all.id[k] : TINY_IM_END};
            tiny_opts o = tiny_default(MODEL_QWEN35);
            o.edit = put_ends;
            o.edit_ctx = &ends;
            m = rig_model_of(&o, 2, NULL);
            s = rig_session(m, 100, 16, "f16");
            rig_output out = {0};
            p = rig_params(&out, 24, 0.8f, 5);
            rig_generate(s, tok, 8, &p);
            assert_int_equal(out.finish, FT_FINISH_STOP);
            assert_int_equal(out.n, first + 1); /* the end token is delivered and counted */
            assert_memory_equal(out.id, all.id, (size_t)out.n * sizeof *out.id);
            assert_int_equal(out.stats.n_token, out.n);
            ft_session_reset(s);
            rig_output on = {0};
            p = rig_params(&on, 24, 0.8f, 5);
            p.ignore_eos = true;
            rig_generate(s, tok, 8, &p);
            expect_same(&on, &all);
            ft_session_free(s);
            ft_model_close(m);
        }
    }
}

/* The text, which may hold NUL bytes, has the word in it. */
static bool text_has(const rig_output *o, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= o->n_text; i++)
        if (memcmp(o->text + i, word, n) == 0)
            return true;
    return false;
}

/* Catches "<|endoftext|>" in the text, or no way to see it; seeds are tried until one ends. */
static void test_generate_end_token_is_not_in_the_text(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35MOE);
    ft_session *s = rig_session(m, 600, 16, "f16");
    int n_stop = 0;
    for (uint64_t seed = 0; seed < 40 && n_stop < 3; seed++) {
        rig_output out = {0}, shown = {0};
        ft_generate_params p = rig_params(&out, 100, 1.5f, seed);
        p.sample.top_k = 0;
        p.sample.top_p = 1;
        p.sample.min_p = 0;
        ft_session_reset(s);
        rig_generate(s, (int32_t[]){'a'}, 1, &p);
        if (out.finish != FT_FINISH_STOP)
            continue;
        int32_t end = out.id[out.n - 1];
        assert_true(end == TINY_EOS || end == TINY_IM_END);
        const char *spelled = end == TINY_EOS ? "<|endoftext|>" : "<|im_end|>";
        assert_false(text_has(&out, spelled));
        p.special = true;
        p.on_token_ctx = &shown;
        ft_session_reset(s);
        rig_generate(s, (int32_t[]){'a'}, 1, &p);
        expect_same(&out, &shown);
        assert_true(text_has(&shown, spelled));
        n_stop++;
    }
    assert_int_equal(n_stop, 3);
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches text that is not what the ids decode to: halves of characters, lost tails. B104 */
static void test_generate_text_is_the_decoded_ids(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    ft_session *s = rig_session(m, 400, 16, "f16");
    for (uint64_t seed = 0; seed < 4; seed++) {
        rig_output out = {0};
        ft_generate_params p = rig_params(&out, 200, 1.5f, seed);
        p.sample.top_k = 0;
        p.sample.min_p = 0;
        p.ignore_eos = true;
        ft_session_reset(s);
        rig_generate(s, (int32_t[]){'a'}, 1, &p);
        char *text;
        size_t len;
        OK(ft_detokenize(m, out.id, (size_t)out.n, false, &text, &len, &rig_err));
        assert_int_equal(out.n_text, len);
        assert_memory_equal(out.text, text, len);
        ft_free(text);
    }
    ft_session_free(s);
    ft_model_close(m);
}

/* ---- Seeds, chunks, threads ------------------------------------------------------------------------ */

static const float temps[] = {0, 0.6f, 1.2f};

/* Catches text that depends on the chunk size or the number of threads. B116 B118 B119 */
static void test_generate_same_text_for_any_chunk_and_threads(void **state)
{
    (void)state;
    static const int chunk[] = {1, 7, 64, 512};
    int32_t tok[90];
    rig_prompt(tok, 90);
    for (int i = 0; i < 3; i++) {
        tiny_opts o = tiny_default(family[i]);
        rig_output *want = calloc(3, sizeof *want);
        for (int n_thread = 1; n_thread <= 2; n_thread++) {
            ft_model *m = rig_model_of(&o, n_thread, NULL);
            for (int c = 0; c < 4; c++) {
                ft_session *s = rig_session(m, 160, chunk[c], "f16");
                for (int t = 0; t < 3; t++) {
                    bool first = n_thread == 1 && c == 0;
                    rig_output now = {0}, *out = first ? &want[t] : &now;
                    ft_generate_params p = rig_params(out, 24, temps[t], 42);
                    p.ignore_eos = true;
                    ft_session_reset(s);
                    rig_generate(s, tok, 90, &p);
                    assert_int_equal(out->n, 24);
                    expect_same(out, &want[t]);
                    assert_memory_equal(out->text, want[t].text, want[t].n_text);
                }
                ft_session_free(s);
            }
            ft_model_close(m);
        }
        free(want);
    }
}

/* Catches a seed that does nothing, a draw that remembers the draw before, a random branch at
 * temperature 0, and a temperature near 0 that is another thing. B116 B117 */
static void test_generate_seed_decides(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    ft_session *s = rig_session(m, 100, 16, "f16");
    int32_t tok[10];
    rig_prompt(tok, 10);
    rig_output *out = calloc(6, sizeof *out);
    static const struct {
        float temp;
        uint64_t seed;
    } run[] = {{1.0f, 1}, {1.0f, 2}, {1.0f, 1}, {0, 1}, {0, 99}, {1e-9f, 7}};
    for (int i = 0; i < 6; i++) {
        ft_generate_params p = rig_params(&out[i], 40, run[i].temp, run[i].seed);
        p.ignore_eos = true;
        ft_session_reset(s);
        rig_generate(s, tok, 10, &p);
    }
    expect_same(&out[0], &out[2]);
    assert_memory_not_equal(out[0].id, out[1].id, 40 * sizeof(int32_t));
    assert_memory_not_equal(out[0].id, out[3].id, 40 * sizeof(int32_t));
    expect_same(&out[3], &out[4]);
    expect_same(&out[3], &out[5]);
    free(out);
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a cache type that does not work, or is not the one that was asked for. */
static void test_generate_kv_types(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        ft_model *m = rig_model(family[i]);
        int32_t tok[30];
        rig_prompt(tok, 30);
        const char *kv[] = {"f32", "f16", "q8_0"};
        float row[3][320];
        for (int k = 0; k < 3; k++) {
            ft_session *s = rig_session(m, 64, 16, kv[k]);
            const float *logits;
            OK(ft_session_eval(s, tok, 30, &logits, &rig_err));
            memcpy(row[k], logits, sizeof row[k]);
            rig_output out = {0};
            ft_generate_params p = rig_params(&out, 5, 0, 0);
            p.ignore_eos = true;
            rig_generate(s, tok, 1, &p);
            assert_int_equal(out.n, 5);
            ft_session_free(s);
        }
        for (int k = 1; k < 3; k++) { /* close to f32, and not the same */
            double worst = 0;
            for (int j = 0; j < 320; j++) {
                double d = (double)row[k][j] - (double)row[0][j];
                worst = d > worst ? d : -d > worst ? -d : worst;
            }
            assert_true(worst > 0 && worst < 0.3);
        }
        ft_model_close(m);
    }
}

/* ---- Cancelling -------------------------------------------------------------------------------------- */

/* Catches a callback that is not obeyed at once, and a session that cannot go on afterwards. B072 */
static void test_generate_cancel_from_the_callback(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    ft_session *s = rig_session(m, 100, 16, "f16");
    int32_t tok[10];
    rig_prompt(tok, 10);
    for (int how = 0; how < 2; how++) {
        rig_output out = {.stop_at = how ? 0 : 4, .cancel = how ? s : NULL, .cancel_at = 4};
        rig_output all = {0};
        ft_generate_params p = rig_params(&out, 30, 0.8f, 9), q = rig_params(&all, 12, 0.8f, 9);
        p.ignore_eos = q.ignore_eos = true;
        ft_session_reset(s);
        rig_generate(s, tok, 10, &p);
        assert_int_equal(out.finish, FT_FINISH_CANCELLED);
        assert_int_equal(out.n, 4);
        assert_int_equal(out.stats.n_token, 4);
        out.stop_at = 0;
        out.cancel = NULL;
        p.n_max = 8;
        rig_generate(s, NULL, 0, &p); /* the flag is gone, the text goes on */
        assert_int_equal(out.finish, FT_FINISH_LENGTH);
        ft_session_reset(s);
        rig_generate(s, tok, 10, &q);
        expect_same(&out, &all);
    }
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a last token whose reason is hidden by a callback that stops at the same time. */
static void test_generate_cancel_at_the_last_token_keeps_the_reason(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    ft_session *s = rig_session(m, 100, 16, "f16");
    rig_output out = {.stop_at = 4};
    ft_generate_params p = rig_params(&out, 4, 0.8f, 9);
    p.ignore_eos = true;
    rig_generate(s, (int32_t[]){1}, 1, &p);
    assert_int_equal(out.finish, FT_FINISH_LENGTH);
    ft_session_free(s);
    ft_model_close(m);
}

typedef struct {
    ft_session *s; /* cancelled after `after` calls; NULL: the callback refuses then */
    int n, after;
    uint64_t done, total;
} prompt_watch;

static bool on_prompt(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    prompt_watch *w = ctx;
    assert_string_equal(what, "prompt");
    assert_true(done > w->done && done <= total);
    w->done = done;
    w->total = total;
    if (++w->n != w->after)
        return true;
    if (w->s)
        ft_session_cancel(w->s);
    return w->s != NULL;
}

/* Catches a long prompt that cannot be stopped, and wrong counts of what was read. */
static void test_generate_cancel_while_the_prompt_is_read(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    ft_session *s = rig_session(m, 200, 10, "f16");
    int32_t tok[95];
    rig_prompt(tok, 95);
    for (int how = 0; how < 2; how++) {
        prompt_watch w = {.s = how ? s : NULL, .after = 3};
        rig_output out = {0};
        ft_generate_params p = rig_params(&out, 5, 0, 0);
        p.on_prompt = on_prompt;
        p.on_prompt_ctx = &w;
        ft_session_reset(s);
        FAILS(ft_session_generate(s, tok, 95, &p, &out.stats, &rig_err), FT_CANCELLED,
              "stopped after 30 of 95 prompt tokens");
        assert_int_equal(out.stats.finish, FT_FINISH_CANCELLED);
        assert_int_equal(out.stats.n_prompt, 30);
        assert_int_equal(out.n, 0);
        assert_int_equal(ft_session_n_past(s), 30);
        w = (prompt_watch){.after = -1};
        p.ignore_eos = true;
        rig_generate(s, tok + 30, 65, &p); /* the rest of it */
        assert_int_equal(w.n, 7);
        assert_int_equal(w.done, 65);
        rig_output all = {0};
        ft_generate_params q = rig_params(&all, 5, 0, 0);
        q.ignore_eos = true;
        ft_session_reset(s);
        rig_generate(s, tok, 95, &q);
        expect_same(&out, &all);
    }
    ft_session_free(s);
    ft_model_close(m);
}

typedef struct {
    ft_session *s;
    atomic_int n_seen;
    atomic_bool done;
} shared_run;

static bool count_token(void *ctx, const ft_token *t)
{
    (void)t;
    atomic_fetch_add(&((shared_run *)ctx)->n_seen, 1);
    return true;
}

static void *cancel_soon(void *ctx)
{
    shared_run *r = ctx;
    while (atomic_load(&r->n_seen) < 3 && !atomic_load(&r->done))
        sched_yield();
    ft_session_cancel(r->s);
    return NULL;
}

/* Catches a flag of one thread that another never sees. */
static void test_generate_cancel_from_another_thread(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.n_ctx = 1 << 20;
    ft_model *m = rig_model_of(&o, 1, NULL);
    ft_session *s = rig_session(m, 50000, 16, "f16");
    shared_run r = {.s = s};
    ft_generate_params p = ft_generate_params_default();
    p.ignore_eos = true;
    p.on_token = count_token;
    p.on_token_ctx = &r;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, &r), 0);
    ft_generate_stats stats;
    OK(ft_session_generate(s, (int32_t[]){1}, 1, &p, &stats, &rig_err));
    atomic_store(&r.done, true);
    pthread_join(thread, NULL);
    assert_int_equal(stats.finish, FT_FINISH_CANCELLED);
    assert_true(stats.n_token >= 3 && stats.n_token < 49000);
    ft_session_free(s);
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generate_ends_with_the_context),
        cmocka_unit_test(test_generate_prompt_over_the_context_reads_nothing),
        cmocka_unit_test(test_generate_from_nothing_is_refused),
        cmocka_unit_test(test_generate_n_max),
        cmocka_unit_test(test_generate_goes_on_where_it_stopped),
        cmocka_unit_test(test_generate_stops_at_the_end_token),
        cmocka_unit_test(test_generate_end_token_is_not_in_the_text),
        cmocka_unit_test(test_generate_text_is_the_decoded_ids),
        cmocka_unit_test(test_generate_same_text_for_any_chunk_and_threads),
        cmocka_unit_test(test_generate_seed_decides),
        cmocka_unit_test(test_generate_kv_types),
        cmocka_unit_test(test_generate_cancel_from_the_callback),
        cmocka_unit_test(test_generate_cancel_at_the_last_token_keeps_the_reason),
        cmocka_unit_test(test_generate_cancel_while_the_prompt_is_read),
        cmocka_unit_test(test_generate_cancel_from_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
