/* test_engine_session_file.c - a session that is written and read again is the same session. */
#include <stdlib.h>
#include <unistd.h>

#include "engine/reuse.h"
#include "support/sessionrig.h"

enum { CTX = 512 };

static char path[TEST_PATH_MAX];

static ft_session_file_info info_of(const char *file)
{
    ft_session_file_info i;
    OK(ft_session_file_read_info(file, &i, &rig_err));
    return i;
}

/* Save s, open its model anew and load the file there, as after a restart. */
static ft_session *restarted(ft_session *s, const tiny_opts *o, const ft_save_params *p,
                             ft_model **m)
{
    OK(ft_session_save(s, test_path(path, "a.session"), p, NULL, &rig_err));
    *m = kept_model("again.gguf", o, 1 << 28);
    ft_session *t = kept_session(*m, CTX, 48);
    OK(ft_session_load(t, path, &rig_err));
    return t;
}

static void end(ft_session *s, ft_model *m)
{
    ft_session_free(s);
    ft_model_close(m);
}

/* ---- The same session ------------------------------------------------------------------------------------ */

/* Catches any part of a session that the file lacks: in the midst of a generation with drafts, its state and
 * what it goes on to say, drafts included, are those of the session that was never written. B041 B048 B056 */
static void test_session_file_goes_on_as_if_never_interrupted(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++) {
        tiny_opts o = tiny_default(rig_family[f]);
        ft_model *m = kept_model("kept.gguf", &o, 1 << 28), *m2;
        ft_session *s = kept_session(m, CTX, 48);
        int32_t tok[70];
        mix_texts(tok, 1, 70, 1, 70);
        rig_output a = {0}, b = {0};
        ft_generate_params ga = rig_params(&a, 10, 0.8f, 7), gb = rig_params(&b, 60, 0.8f, 7);
        ga.ignore_eos = gb.ignore_eos = true;
        ga.draft_fixed = gb.draft_fixed = true;
        rig_generate(s, tok, 70, &ga);
        s->n_dropped = 5; /* random numbers count from there */
        ft_session *t = restarted(s, &o, NULL, &m2);
        assert_int_equal(t->pending, s->pending);
        assert_int_equal(t->n_dropped, 5);
        assert_true(session_digest(t) == session_digest(s));
        int n_s, n_t;
        const int32_t *ts = ft_session_tokens(s, &n_s), *tt = ft_session_tokens(t, &n_t);
        assert_int_equal(n_s, 80);
        assert_int_equal(n_t, 80);
        assert_memory_equal(ts, tt, 80 * sizeof *ts);
        a = (rig_output){0};
        ga.n_max = 60;
        rig_generate(s, NULL, 0, &ga);
        rig_generate(t, NULL, 0, &gb);
        assert_int_equal(a.n, 60);
        assert_memory_equal(a.id, b.id, sizeof a.id);
        assert_true(a.stats.draft.drafted > 0);
        assert_int_equal(a.stats.draft.drafted, b.stats.draft.drafted);
        assert_int_equal(a.stats.draft.accepted, b.stats.draft.accepted);
        assert_true(session_digest(t) == session_digest(s));
        end(t, m2);
        end(s, m);
    }
}

/* Catches histories that are cut short: nothing, 1, 2, 3, ... tokens; block and page borders. B048 B049 B055 */
static void test_session_file_of_every_length(void **state)
{
    (void)state;
    static const int length[] = {0, 1, 2, 3, 4, 15, 16, 17, 63, 64, 65, 511, 512};
    for (int f = 0; f < 3; f++) {
        tiny_opts o = tiny_default(rig_family[f]);
        ft_model *m = kept_model("kept.gguf", &o, 1 << 28);
        ft_session *s = kept_session(m, CTX, 48), *t = kept_session(m, CTX, 48);
        int32_t tok[CTX + 1];
        mix_texts(tok, 1, CTX, 1, CTX + 1);
        for (size_t i = 0; i < ARRAY_LEN(length); i++) {
            int n = length[i];
            ft_session_reset(s);
            if (n > 0)
                OK(ft_session_eval(s, tok, n, NULL, &rig_err));
            OK(ft_session_save(s, test_path(path, "n.session"), NULL, NULL, &rig_err));
            OK(ft_session_load(t, path, &rig_err));
            assert_int_equal(ft_session_n_past(t), n);
            assert_true(session_digest(t) == session_digest(s));
            const float *a, *b;
            if (n == CTX)
                continue;
            OK(ft_session_eval(s, tok + n, 1, &a, &rig_err));
            OK(ft_session_eval(t, tok + n, 1, &b, &rig_err));
            assert_memory_equal(a, b, 320 * sizeof *a);
            assert_true(session_digest(t) == session_digest(s));
        }
        ft_session_free(t);
        end(s, m);
    }
}

/* Catches checkpoints that do not travel: after a restart the same text, a token more, a token less cost the
 * rest of it, not all; 50 random beginnings give what reading all gives. B053 B057 */
static void test_session_file_checkpoints_travel(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++) {
        tiny_opts o = tiny_default(rig_family[f]);
        ft_model *m = kept_model("kept.gguf", &o, 1 << 28), *m2;
        ft_model *plain_m = kept_model("plain.gguf", &o, 0);
        ft_session *s = kept_session(m, CTX, 48), *plain = kept_session(plain_m, CTX, CTX);
        int32_t tok[200];
        mix_texts(tok, 1, 200, 1, 200);
        for (int i = 0; i < 4; i++) {
            OK(ft_session_eval(s, tok + 40 * i, 40, NULL, &rig_err));
            OK(ft_session_checkpoint(s, &rig_err)); /* 40, 80, 120, 160 */
        }
        OK(ft_session_eval(s, tok + 160, 10, NULL, &rig_err));
        ft_session *t = restarted(s, &o, NULL, &m2);
        assert_int_equal(info_of(path).n_checkpoint, 4);
        assert_int_equal(info_of(path).n_token, 170);
        assert_int_equal(evaluated(t), 0);
        assert_int_equal(read_text(t, tok, 171, NULL), 170);
        for (int n = 169; n <= 171; n++) {
            OK(ft_session_load(t, path, &rig_err));
            assert_int_equal(read_text(t, tok, n, NULL), n == 171 ? 170 : 160);
        }
        for (int i = 0; i < 50; i++) {
            int n_a = (int)rig_text(i) % 170, n = n_a + 1 + (int)rig_text(i + 77) % 20;
            mix_texts(tok, 1, n_a, 2, n);
            assert_true(read_text(t, tok, n, NULL) >= n_a / 40 * 40);
            expect_as_read(t, plain, tok, n);
        }
        ft_save_params none = {.no_checkpoints = true};
        uint64_t n_bytes, n_less;
        OK(ft_session_save(s, path, NULL, &n_bytes, &rig_err));
        OK(ft_session_save(s, path, &none, &n_less, &rig_err));
        assert_true(n_less < n_bytes);
        assert_int_equal(info_of(path).n_checkpoint, 0);
        end(t, m2);
        end(plain, plain_m);
        end(s, m);
    }
}

/* Catches types of cells that are mixed up: sessions of each type, files of each. Exact is what the file
 * says is exact, and only that may give checkpoints. */
static void test_session_file_types_of_cells(void **state)
{
    (void)state;
    static const char *const type[] = {"f32", "f16", "q8_0"};
    ft_model *m = kept_family(MODEL_QWEN4EXP, 1 << 28);
    int32_t tok[100];
    mix_texts(tok, 1, 100, 1, 100);
    for (int i = 0; i < 9; i++) {
        ft_session_params sp = ft_session_params_default();
        sp.n_ctx = CTX;
        sp.kv_type = type[i / 3];
        ft_session *s, *t;
        OK(ft_session_create(&s, m, &sp, &rig_err));
        OK(ft_session_create(&t, m, &sp, &rig_err));
        OK(ft_session_eval(s, tok, 50, NULL, &rig_err));
        OK(ft_session_checkpoint(s, &rig_err));
        OK(ft_session_eval(s, tok + 50, 50, NULL, &rig_err));
        ft_save_params p = {.kv_type = type[i % 3]};
        OK(ft_session_save(s, test_path(path, "t.session"), &p, NULL, &rig_err));
        bool exact = i / 3 == i % 3 || i == 3; /* f16 fits into f32 */
        ft_session_file_info info = info_of(path);
        assert_string_equal(info.kv_type, type[i % 3]);
        assert_int_equal(info.exact, exact);
        assert_int_equal(info.n_checkpoint, exact);
        OK(ft_session_load(t, path, &rig_err));
        assert_int_equal(ft_session_n_past(t), 100);
        ft_session_info si;
        ft_session_get_info(t, &si);
        assert_int_equal(si.inexact, !exact);
        bool narrower = i == 1 || i == 2 || i == 5;
        if (exact || narrower) /* a wider type may or may not give the same back */
            assert_int_equal(session_digest(s) == session_digest(t), exact);
        OK(ft_session_eval(t, tok, 20, NULL, &rig_err));
        ft_session_free(s);
        ft_session_free(t);
    }
    ft_session *s = kept_session(m, CTX, 48);
    ft_save_params p = {.kv_type = "q4_0"};
    FAILS(ft_session_save(s, path, &p, NULL, &rig_err), FT_ARG, "kv_type: 'q4_0', want");
    end(s, m);
}

/* Catches a converted file whose reader passes it on as exact. */
static void test_session_file_inexact_stays_inexact(void **state)
{
    (void)state;
    ft_model *m = kept_family(MODEL_QWEN35, 1 << 28);
    ft_session *s = kept_session(m, CTX, 48), *t = kept_session(m, CTX, 48);
    int32_t tok[60];
    mix_texts(tok, 1, 60, 1, 60);
    OK(ft_session_eval(s, tok, 60, NULL, &rig_err));
    ft_save_params p = {.kv_type = "q8_0"};
    OK(ft_session_save(s, test_path(path, "q.session"), &p, NULL, &rig_err));
    OK(ft_session_load(t, path, &rig_err));
    OK(ft_session_save(t, path, NULL, NULL, &rig_err)); /* cells as they are, yet not what s had */
    assert_true(info_of(path).exact);
    OK(ft_session_load(s, path, &rig_err));
    assert_true(s->inexact);
    assert_true(session_digest(s) == session_digest(t));
    ft_checkpoint_stats st;
    ft_model_checkpoint_stats(m, &st);
    assert_int_equal(st.n, 0);
    ft_session_reset(s);
    assert_false(s->inexact);
    ft_session_free(t);
    end(s, m);
}

typedef struct {
    ft_session *other;
    int n;
} neighbour;

static bool go_on(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    (void)what;
    (void)done;
    (void)total;
    neighbour *b = ctx;
    int32_t tok[40];
    mix_texts(tok, 1, 20, 3 + b->n++, 40);
    read_text(b->other, tok, 40, NULL);
    OK(ft_session_checkpoint(b->other, &rig_err));
    return true;
}

/* Catches a lock that is held while a file is written: other sessions of the model read texts and keep
 * checkpoints meanwhile, and do not get into the file. B061 */
static void test_session_file_is_written_while_others_go_on(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    ft_model *m = kept_model("kept.gguf", &o, 1 << 20),
             *m2; /* so small that checkpoints are evicted */
    ft_session *s = kept_session(m, CTX, 48);
    neighbour b = {.other = kept_session(m, CTX, 48)};
    int32_t tok[100];
    mix_texts(tok, 1, 100, 1, 100);
    for (int i = 0; i < 5; i++) {
        OK(ft_session_eval(s, tok + 20 * i, 20, NULL, &rig_err));
        OK(ft_session_checkpoint(s, &rig_err));
    }
    ft_save_params p = {.progress = go_on, .progress_ctx = &b};
    ft_session *t = restarted(s, &o, &p, &m2);
    assert_true(b.n > 3);
    assert_true(session_digest(t) == session_digest(s));
    ft_checkpoint_stats st;
    ft_model_checkpoint_stats(m2, &st);
    assert_int_equal(st.n, info_of(path).n_checkpoint);
    assert_int_equal(read_text(t, tok, 100, NULL), 80);
    end(t, m2);
    ft_session_free(b.other);
    end(s, m);
}

/* ---- What does not belong together -------------------------------------------------------------------------- */

/* The session answers as before a failure: it holds the same, and says the same next. B055 */
static void expect_refused(ft_session *s, const char *file, ft_status st, const char *words)
{
    uint64_t digest = session_digest(s);
    FAILS(ft_session_load(s, file, &rig_err), st, words);
    assert_non_null(strstr(rig_err.msg, file));
    assert_true(session_digest(s) == digest);
}

/* Catches a state that is loaded under settings it was not made with, or into other weights. B056 B057 */
static void test_session_file_of_other_settings_is_refused(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    ft_model *m = kept_model("kept.gguf", &o, 0);
    ft_session *s = kept_session(m, CTX, 48);
    int32_t tok[130];
    mix_texts(tok, 1, 130, 1, 130);
    OK(ft_session_eval(s, tok, 120, NULL, &rig_err));
    OK(ft_session_save(s, test_path(path, "s.session"), NULL, NULL, &rig_err));
    static const char *const words[] = {
        "kv_type: f16 in the file, the session has f32",
        "drafter: one in the file, the session has none",
        "sink 64 and window 256 in the file, the session has 3 and 256",
        "sink 64 and window 256 in the file, the session has 64 and 512",
        "context: 120 tokens in the file, the limit is 119"};
    for (int i = 0; i < 6; i++) {
        ft_session_params sp = ft_session_params_default();
        sp.n_ctx = i == 4 ? 119 : i == 5 ? 120 : CTX;
        sp.kv_type = i == 0 ? "f32" : "f16";
        sp.no_draft = i == 1;
        sp.sink = i == 2 ? 3 : sp.sink;
        sp.window = i == 3 ? 2 * sp.window : sp.window;
        ft_session *t;
        OK(ft_session_create(&t, m, &sp, &rig_err));
        OK(ft_session_eval(t, tok + 120, 10, NULL, &rig_err));
        if (i == 5) /* another context is no other setting */
            OK(ft_session_load(t, path, &rig_err));
        else
            expect_refused(t, path, i == 4 ? FT_RANGE : FT_MISMATCH, words[i]);
        ft_session_free(t);
    }
    for (int i = 0; i < 4;
         i++) { /* other weights, another family, other metadata, other draft types */
        tiny_opts q = tiny_default(i == 1 ? MODEL_QWEN35MOE : MODEL_QWEN35);
        char file[TEST_PATH_MAX];
        q.seed += i == 0;
        q.n_ctx += i == 2;
        tiny_write(test_path(file, "other.gguf"), &q);
        ft_model_params mp = {.n_thread = 1, .draft_quant = i == 3 ? "q4_0" : NULL};
        ft_model *other;
        OK(ft_model_open(&other, file, &mp, &rig_err));
        ft_session *t = kept_session(other, CTX, 48);
        OK(ft_session_eval(t, tok + 120, 10, NULL, &rig_err));
        expect_refused(t, path, FT_MISMATCH,
                       i == 3 ? "made with another draft head" : "belongs to another model");
        end(t, other);
    }
    end(s, m);
}

/* Catches a wrong description, and one that needs the model. */
static void test_session_file_info(void **state)
{
    (void)state;
    ft_model *m = kept_family(MODEL_QWEN35MOE, 1 << 28);
    ft_session *s = kept_session(m, CTX, 48);
    int32_t tok[60];
    mix_texts(tok, 1, 60, 1, 60);
    rig_output out = {0};
    ft_generate_params g = rig_params(&out, 3, 0, 0);
    g.ignore_eos = true;
    rig_generate(s, tok, 40, &g);
    OK(ft_session_checkpoint(s, &rig_err));
    uint64_t n_bytes;
    OK(ft_session_save(s, test_path(path, "i.session"), NULL, &n_bytes, &rig_err));
    ft_session_file_info i = info_of(path);
    assert_int_equal(i.version, 1);
    assert_string_equal(i.arch, "qwen35moe");
    assert_string_equal(i.kv_type, "f16");
    assert_true(i.exact && i.has_drafter && i.model_fingerprint != 0);
    assert_int_equal(i.sink, 64);
    assert_int_equal(i.window, 256);
    assert_int_equal(i.n_token, 43);
    assert_int_equal(i.n_checkpoint, 1);
    assert_true(i.file_bytes == n_bytes);
    assert_true(i.cell_bytes > 0 && i.recurrent_bytes > 0 && i.drafter_bytes > 0);
    assert_true(i.cell_bytes + i.recurrent_bytes + i.drafter_bytes < n_bytes);
    assert_int_equal(access(path, R_OK), 0);
    FAILS(ft_session_file_read_info(test_path(path, "none"), &i, &rig_err), FT_IO, "none: No such");
    assert_int_equal(i.version, 0);
    end(s, m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session_file_goes_on_as_if_never_interrupted),
        cmocka_unit_test(test_session_file_of_every_length),
        cmocka_unit_test(test_session_file_checkpoints_travel),
        cmocka_unit_test(test_session_file_is_written_while_others_go_on),
        cmocka_unit_test(test_session_file_types_of_cells),
        cmocka_unit_test(test_session_file_inexact_stays_inexact),
        cmocka_unit_test(test_session_file_of_other_settings_is_refused),
        cmocka_unit_test(test_session_file_info),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
