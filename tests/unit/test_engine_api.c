/* test_engine_api.c - the public API: models, tokens and text, sessions and their limits. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/engine.h"
#include "support/enginerig.h"

static const model_arch family[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

/* ---- Models -------------------------------------------------------------------------------------- */

/* Catches a field of the info that is another's, or not filled. */
static void test_info_says_what_the_file_holds(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        ft_model *m = rig_model(family[i]);
        ft_model_info info;
        ft_model_get_info(m, &info);
        assert_string_equal(info.arch, model_arch_name(family[i]));
        assert_string_equal(info.name, "tiny");
        assert_int_equal(info.n_thread, 2);
        assert_int_equal(info.n_vocab, 320);
        assert_int_equal(info.n_embd, 64);
        assert_int_equal(info.n_layer, 4); /* the MTP block is none of them */
        assert_int_equal(info.n_ctx_train, 1024);
        assert_int_equal(info.hidden_width, family[i] == MODEL_QWEN4EXP ? 128 : 64);
        assert_true(info.has_mtp);
        assert_string_equal(info.no_mtp_reason, "");
        assert_true(info.has_tokenizer);
        assert_int_equal(info.eos, TINY_EOS);
        assert_true(info.file_bytes > 100000);
        assert_true(info.load_seconds >= 0 && info.load_seconds < 60);
        assert_true(strlen(info.cpu) > 0);
        ft_model_close(m);
    }
    ft_model_close(NULL);
}

/* Catches an instruction set that is ignored, and an unknown one that is not refused. */
static void test_open_cpu_levels(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    tiny_opts o = tiny_default(MODEL_QWEN35);
    tiny_write(test_path(path, "cpu.gguf"), &o);
    static const char *const level[] = {"generic", "avx2", "avx512", "neon", "i8mm"};
    int n_run = 0;
    for (int i = 0; i < (int)ARRAY_LEN(level); i++) {
        ft_model *m;
        ft_model_params p = {.n_thread = 1, .cpu = level[i]};
        rig_err = (ft_error){0};
        ft_status st = ft_model_open(&m, path, &p, &rig_err);
        if (st == FT_UNSUPPORTED) { /* by this processor */
            assert_non_null(strstr(rig_err.msg, level[i]));
            assert_null(m);
            continue;
        }
        OK(st);
        ft_model_info info;
        ft_model_get_info(m, &info);
        assert_string_equal(info.cpu, level[i]);
        ft_model_close(m);
        n_run++;
    }
    assert_true(n_run >= 1);
    ft_model *m;
    ft_model_params p = {.cpu = "sse9"};
    FAILS(ft_model_open(&m, path, &p, &rig_err), FT_ARG,
          "'sse9', want generic, avx2, avx512, neon or i8mm");
    p = (ft_model_params){.n_thread = -1};
    FAILS(ft_model_open(&m, path, &p, &rig_err), FT_ARG, "threads: -1");
    assert_null(m);
}

/* Catches a failure without the file's name, or one that leaves half a model. */
static void test_open_failures_name_the_file(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX], cut[TEST_PATH_MAX];
    ft_model *m = (ft_model *)path;
    FAILS(ft_model_open(&m, test_path(path, "nothing.gguf"), NULL, &rig_err), FT_IO,
          "nothing.gguf");
    assert_null(m);
    FAILS(ft_model_open(&m, test_tmpdir(), NULL, &rig_err), FT_IO, "not a regular file");
    FAILS(ft_model_open(&m, NULL, NULL, &rig_err), FT_ARG, "no path");
    tiny_opts o = tiny_default(MODEL_QWEN35);
    tiny_write(test_path(path, "whole.gguf"), &o);
    FILE *from = fopen(path, "rb"), *to = fopen(test_path(cut, "cut.gguf"), "wb");
    char *bytes = malloc(1 << 20);
    size_t n = fread(bytes, 1, 1 << 20, from);
    assert_true(n > 1000 && fwrite(bytes, 1, n - 100, to) == n - 100); /* B095 */
    free(bytes);
    fclose(from);
    fclose(to);
    FAILS(ft_model_open(&m, cut, NULL, &rig_err), FT_FORMAT, "cut.gguf");
    ft_model_params p = {.mtp_path = "tests/no-such.gguf"};
    FAILS(ft_model_open(&m, path, &p, &rig_err), FT_IO, "tests/no-such.gguf");
    o.no_tokenizer = true;
    o.omit = "blk.2.ssm_out.weight";
    tiny_write(path, &o);
    FAILS(ft_model_open(&m, path, NULL, &rig_err), FT_FORMAT, "blk.2.ssm_out");
    assert_null(m);
}

/* Catches an announced draft head that fails the load, or is missed without a word. B100 */
static void test_open_announced_mtp_absent_says_why(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.n_mtp = 0;
    ft_model *m = rig_model_of(&o, 1, NULL);
    ft_model_info info;
    ft_model_get_info(m, &info);
    assert_false(info.has_mtp);
    assert_int_equal(info.n_layer, 4);
    assert_non_null(strstr(info.no_mtp_reason, "nextn_predict_layers is 1"));
    ft_model_close(m);
}

/* Catches a side file that is not read, and one of another model that is taken. B101 */
static void test_open_separate_mtp_file(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX], side[TEST_PATH_MAX];
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    tiny_write_mtp(test_path(side, "side.gguf"), &o);
    o.n_mtp = o.n_mtp_told = 0;
    tiny_write(test_path(path, "trunk.gguf"), &o);
    ft_model *m;
    ft_model_params p = {.mtp_path = side, .n_thread = 1};
    OK(ft_model_open(&m, path, &p, &rig_err));
    ft_model_info with, without;
    ft_model_get_info(m, &with);
    assert_true(with.has_mtp);
    ft_model_close(m);
    OK(ft_model_open(&m, path, NULL, &rig_err));
    ft_model_get_info(m, &without);
    assert_false(without.has_mtp);
    assert_true(with.file_bytes > without.file_bytes);
    ft_model_close(m);
    o.n_embd = 96;
    o.n_mtp_told = 1;
    tiny_write_mtp(side, &o);
    FAILS(ft_model_open(&m, path, &p, &rig_err), FT_MISMATCH, "embedding_length");
}

/* ---- Tokens and text ----------------------------------------------------------------------------- */

static void check_round_trip(const ft_model *m, const char *text, size_t len, bool special)
{
    int32_t *ids;
    size_t n, back_len;
    char *back;
    OK(ft_tokenize(m, text, len, special, &ids, &n, &rig_err));
    for (size_t i = 0; i < n; i++)
        assert_in_range(ids[i], 0, 319);
    OK(ft_detokenize(m, ids, n, true, &back, &back_len, &rig_err));
    assert_int_equal(back_len, len);
    assert_memory_equal(back, text, len);
    assert_int_equal(back[len], '\0');
    ft_free(ids);
    ft_free(back);
}

/* Catches lost bytes, NUL taken for an end, a wrong empty result. */
static void test_text_round_trips(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    static const char text[] = "The cat\0 in the\r\n  hat; \xE2\x82\xAC 12345 <think>x</think>";
    check_round_trip(m, text, sizeof text - 1, false);
    check_round_trip(m, text, sizeof text - 1, true);
    check_round_trip(m, "", 0, false);
    int32_t *ids;
    size_t n = 7;
    OK(ft_tokenize(m, NULL, 0, false, &ids, &n, &rig_err));
    assert_null(ids);
    assert_int_equal(n, 0);
    ft_free(NULL);
    ft_model_close(m);
}

/* Catches a control token made from plain text, or not made where it was asked for. B106 */
static void test_tokenize_special_only_on_request(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    const char *text = "a<|im_end|>";
    int32_t *ids;
    size_t n;
    OK(ft_tokenize(m, text, strlen(text), false, &ids, &n, &rig_err));
    for (size_t i = 0; i < n; i++)
        assert_true(ids[i] < TINY_EOS);
    ft_free(ids);
    OK(ft_tokenize(m, text, strlen(text), true, &ids, &n, &rig_err));
    assert_int_equal(n, 2);
    assert_int_equal(ids[1], TINY_IM_END);
    char *back;
    size_t len;
    OK(ft_detokenize(m, ids, n, false, &back, &len, &rig_err));
    assert_string_equal(back, "a"); /* special tokens left out */
    ft_free(back);
    OK(ft_detokenize(m, ids, n, true, &back, &len, &rig_err));
    assert_string_equal(back, text);
    ft_free(back);
    ft_free(ids);
    ft_model_close(m);
}

/* Catches ids that index past a table, and text that is not UTF-8. B103 */
static void test_detokenize_hostile_ids(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    char *text = (char *)m;
    size_t len = 7;
    int32_t ids[] = {'a', 320};
    FAILS(ft_detokenize(m, ids, 2, false, &text, &len, &rig_err), FT_RANGE,
          "token 1: id 320, want 0 to 319");
    assert_null(text);
    assert_int_equal(len, 0);
    ids[1] = -1;
    FAILS(ft_detokenize(m, ids, 2, false, &text, &len, &rig_err), FT_RANGE, "id -1");
    int32_t bytes[] = {0x80, 'a', 0xC3, 0x28, 0xFF, 0xE2, 0x82};
    OK(ft_detokenize(m, bytes, 7, false, &text, &len, &rig_err));
    assert_string_equal(text, "\xEF\xBF\xBD"
                              "a\xEF\xBF\xBD(\xEF\xBF\xBD\xEF\xBF\xBD");
    ft_free(text);
    OK(ft_detokenize(m, NULL, 0, false, &text, &len, &rig_err));
    assert_string_equal(text, "");
    ft_free(text);
    ft_model_close(m);
}

/* Catches a crash, or an invented text, where the file has no tokenizer. */
static void test_model_without_tokenizer_works_on_ids(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35MOE);
    o.no_tokenizer = true;
    ft_model *m = rig_model_of(&o, 1, NULL);
    ft_model_info info;
    ft_model_get_info(m, &info);
    assert_false(info.has_tokenizer);
    assert_int_equal(info.eos, -1);
    int32_t *ids, tok[3];
    size_t n;
    char *text;
    FAILS(ft_tokenize(m, "a", 1, false, &ids, &n, &rig_err), FT_UNSUPPORTED, "no tokenizer");
    FAILS(ft_detokenize(m, tok, 0, false, &text, &n, &rig_err), FT_UNSUPPORTED, "no tokenizer");
    ft_session *s = rig_session(m, 64, 512, "f16");
    rig_output out = {0};
    ft_generate_params p = rig_params(&out, 60, 0, 0);
    rig_prompt(tok, 3);
    rig_generate(s, tok, 3, &p);
    assert_int_equal(out.n, 60); /* no token ends a text here */
    assert_int_equal(out.n_text, 0);
    ft_session_free(s);
    ft_model_close(m);
}

/* ---- Sessions -------------------------------------------------------------------------------------- */

/* Catches a parameter that is taken as it is, or refused without its name, by create or by size. */
static void test_session_params_are_refused_by_name(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    static const struct {
        ft_session_params p;
        const char *words;
    } bad[] = {
        {{.n_ctx = -1, .n_chunk = 1}, "n_ctx: -1, want 1 to 16777216"},
        {{.n_ctx = (1 << 24) + 1, .n_chunk = 1}, "n_ctx: 16777217"},
        {{.n_ctx = INT32_MAX, .n_chunk = 1}, "n_ctx"},
        {{.n_chunk = 0}, "n_chunk: 0, want 1 to 4096"},
        {{.n_chunk = -5}, "n_chunk: -5"},
        {{.n_chunk = 4097}, "n_chunk: 4097"},
        {{.n_chunk = 1, .kv_type = "q4_0"}, "kv_type: 'q4_0', want f16, f32 or q8_0"},
        {{.n_chunk = 1, .kv_type = ""}, "kv_type: ''"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ft_session *s = (ft_session *)m;
        size_t n;
        FAILS(ft_session_create(&s, m, &bad[i].p, &rig_err), FT_ARG, bad[i].words);
        assert_null(s);
        FAILS(ft_session_size(m, &bad[i].p, &n, &rig_err), FT_ARG, bad[i].words);
    }
    ft_session_free(NULL);
    ft_model_close(m);
}

/* Catches a block type whose blocks do not fit a cell: an assertion in the arithmetic of sizes. */
static void test_session_q8_of_odd_cells_is_refused(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.d_head = 16; /* one K/V head: cells of 16 values */
    ft_model *m = rig_model_of(&o, 1, NULL);
    ft_session_params p = {.n_chunk = 8, .kv_type = "q8_0"};
    size_t n;
    ft_session *s;
    FAILS(ft_session_size(m, &p, &n, &rig_err), FT_ARG, "kv_type: 'q8_0', want f16 or f32");
    FAILS(ft_session_create(&s, m, &p, &rig_err), FT_ARG, "kv_type: 'q8_0', want f16 or f32");
    ft_model_close(m);
}

/* Catches a size that is told wrong: a full context takes what size said, for every kind. */
static void test_session_size_is_what_a_full_context_takes(void **state)
{
    (void)state;
    static const char *const kv[] = {"f32", "f16", "q8_0", NULL};
    for (int i = 0; i < 3; i++) {
        ft_model *m = rig_model(family[i]);
        size_t last = SIZE_MAX;
        for (int k = 0; k < 4; k++) {
            ft_session_params p = {.n_ctx = 200, .n_chunk = 16, .kv_type = kv[k]};
            size_t n;
            OK(ft_session_size(m, &p, &n, &rig_err));
            ft_session *s = rig_session(m, 200, 16, kv[k]);
            assert_int_equal(ft_session_n_ctx(s), 200);
            rig_output out = {0};
            ft_generate_params gp = rig_params(&out, 2, 0, 0);
            rig_generate(s, (int32_t[]){1, 2, 3}, 3, &gp);
            assert_int_equal(n, out.stats.state_bytes + out.stats.scratch_bytes); /* one page */
            assert_true(s->batch->scratch.peak <= s->batch->scratch.size &&
                        s->batch->scratch.used == 0);
            if (k < 3) {
                assert_true(n < last); /* f32 > f16 > q8_0 */
                last = n;
            }
            ft_session_free(s);
        }
        ft_model_close(m);
    }
}

/* Catches a default context that is not the model's, or not bounded. */
static void test_session_default_context(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.n_ctx = 20000;
    ft_model *m = rig_model_of(&o, 1, NULL);
    ft_session *s;
    OK(ft_session_create(&s, m, NULL, &rig_err));
    assert_int_equal(ft_session_n_ctx(s), 8192);
    ft_session_free(s);
    ft_model_close(m);
    o.n_ctx = 100;
    m = rig_model_of(&o, 1, NULL);
    OK(ft_session_create(&s, m, NULL, &rig_err));
    assert_int_equal(ft_session_n_ctx(s), 100);
    assert_int_equal(ft_session_n_past(s), 0);
    ft_session_free(s);
    ft_model_close(m);
}

/* ---- Evaluation -------------------------------------------------------------------------------------- */

/* Catches a prompt that is cut, shifted, or read in part before it is refused. B066 */
static void test_eval_over_the_context_changes_nothing(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    ft_session *s = rig_session(m, 40, 8, "f16");
    int32_t tok[64];
    rig_prompt(tok, 64);
    const float *logits;
    OK(ft_session_eval(s, tok, 20, &logits, &rig_err));
    uint64_t before = seq_digest(s->state);
    FAILS(ft_session_eval(s, tok, 21, NULL, &rig_err), FT_RANGE,
          "context: 20 tokens used and 21 more wanted, the limit is 40");
    tok[5] = 320;
    FAILS(ft_session_eval(s, tok, 10, NULL, &rig_err), FT_RANGE, "token 5: id 320, want 0 to 319");
    tok[5] = -1;
    FAILS(ft_session_eval(s, tok, 10, NULL, &rig_err), FT_RANGE, "token 5: id -1");
    tok[5] = 5;
    FAILS(ft_session_eval(s, tok, 0, NULL, &rig_err), FT_ARG, "0 tokens, want at least 1");
    FAILS(ft_session_eval(s, tok, -3, NULL, &rig_err), FT_ARG, "-3");
    ft_eval_out out = {0};
    FAILS(ft_session_eval_rows(s, tok, 9, &out, &rig_err), FT_RANGE, "want 1 to 8");
    FAILS(ft_session_eval_rows(s, tok, 0, &out, &rig_err), FT_RANGE, "want 1 to 8");
    assert_int_equal(ft_session_n_past(s), 20);
    assert_true(seq_digest(s->state) == before);
    OK(ft_session_eval(s, tok, 20, NULL, &rig_err)); /* exactly full */
    FAILS(ft_session_eval(s, tok, 1, NULL, &rig_err), FT_RANGE, "40 tokens used");
    FAILS(ft_session_eval_rows(s, tok, 1, &out, &rig_err), FT_RANGE, "40 tokens used");
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches rows that depend on the chunk, and a reset that leaves something behind. */
static void test_eval_rows_equal_eval(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        ft_model *m = rig_model(family[i]);
        ft_session *s = rig_session(m, 128, 64, "f16"), *t = rig_session(m, 128, 7, "f16");
        int32_t tok[64];
        rig_prompt(tok, 64);
        float *rows = calloc(64 * 320, sizeof *rows);
        ft_eval_out out = {.logits = rows};
        const float *logits;
        OK(ft_session_eval(s, tok + 3, 33, NULL, &rig_err));
        ft_session_reset(s);
        assert_int_equal(ft_session_n_past(s), 0);
        OK(ft_session_eval_rows(s, tok, 64, &out, &rig_err));
        OK(ft_session_eval(t, tok, 50, &logits, &rig_err));
        assert_memory_equal(logits, rows + 49 * 320, 320 * sizeof *rows);
        OK(ft_session_eval(t, tok + 50, 14, &logits, &rig_err));
        assert_memory_equal(logits, rows + 63 * 320, 320 * sizeof *rows);
        assert_true(seq_digest(s->state) == seq_digest(t->state));
        free(rows);
        ft_session_free(s);
        ft_session_free(t);
        ft_model_close(m);
    }
}

/* ---- Texts of values ----------------------------------------------------------------------------- */

/* Catches a value without a text. */
static void test_status_and_finish_have_texts(void **state)
{
    (void)state;
    for (int st = 0; st >= -9; st--)
        assert_string_not_equal(ft_status_text((ft_status)st), "unknown status");
    assert_string_equal(ft_status_text((ft_status)1), "unknown status");
    assert_string_equal(ft_status_text((ft_status)-10), "unknown status");
    assert_string_equal(ft_finish_text(FT_FINISH_LENGTH), "length");
    assert_string_equal(ft_finish_text(FT_FINISH_STOP), "stop");
    assert_string_equal(ft_finish_text(FT_FINISH_CONTEXT), "context");
    assert_string_equal(ft_finish_text(FT_FINISH_CANCELLED), "cancelled");
    assert_string_equal(ft_finish_text((ft_finish)77), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_info_says_what_the_file_holds),
        cmocka_unit_test(test_open_cpu_levels),
        cmocka_unit_test(test_open_failures_name_the_file),
        cmocka_unit_test(test_open_announced_mtp_absent_says_why),
        cmocka_unit_test(test_open_separate_mtp_file),
        cmocka_unit_test(test_text_round_trips),
        cmocka_unit_test(test_tokenize_special_only_on_request),
        cmocka_unit_test(test_detokenize_hostile_ids),
        cmocka_unit_test(test_model_without_tokenizer_works_on_ids),
        cmocka_unit_test(test_session_params_are_refused_by_name),
        cmocka_unit_test(test_session_q8_of_odd_cells_is_refused),
        cmocka_unit_test(test_session_size_is_what_a_full_context_takes),
        cmocka_unit_test(test_session_default_context),
        cmocka_unit_test(test_eval_over_the_context_changes_nothing),
        cmocka_unit_test(test_eval_rows_equal_eval),
        cmocka_unit_test(test_status_and_finish_have_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
