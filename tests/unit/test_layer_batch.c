/* Not one bit: a row's logits, hidden row and state are the same whatever shares its call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kern/kern.h"
#include "support/rig.h"
#include "support/tmpdir.h"

enum { N_TEXT = 90 };

/* Results of a whole text. */
typedef struct {
    float *logits, *hidden;
    uint64_t digest;
} result;

static result result_of(rig *r)
{
    return (result){.logits = calloc((size_t)N_TEXT * (size_t)r->n_vocab, sizeof(float)),
                    .hidden = calloc((size_t)N_TEXT * (size_t)r->width, sizeof(float))};
}

static void result_free(result *x)
{
    free(x->logits);
    free(x->hidden);
}

static void text_of(uint64_t text, int n_vocab, int32_t *tok)
{
    for (int i = 0; i < N_TEXT; i++)
        tok[i] = rig_token(text, i, n_vocab);
}

/* The text in calls of `chunk` rows. */
static result run_chunks(rig *r, uint64_t text, int chunk)
{
    int32_t tok[N_TEXT];
    text_of(text, r->n_vocab, tok);
    result out = result_of(r);
    seq *s = rig_seq(r);
    for (int i = 0; i < N_TEXT; i += chunk) {
        int n = N_TEXT - i < chunk ? N_TEXT - i : chunk;
        rig_feed(r, s, tok + i, n, n, out.logits + (size_t)i * (size_t)r->n_vocab,
                 out.hidden + (size_t)i * (size_t)r->width);
    }
    out.digest = seq_digest(s);
    seq_free(s);
    return out;
}

static void assert_same(const rig *r, const result *a, const result *b, const char *what)
{
    size_t n_l = (size_t)N_TEXT * (size_t)r->n_vocab * sizeof(float);
    size_t n_h = (size_t)N_TEXT * (size_t)r->width * sizeof(float);
    if (memcmp(a->logits, b->logits, n_l) != 0)
        fail_msg("%s: logits differ", what);
    if (memcmp(a->hidden, b->hidden, n_h) != 0)
        fail_msg("%s: hidden rows differ", what);
    if (a->digest != b->digest)
        fail_msg("%s: states differ", what);
}

/* A model of a family with all matrices of one type (those that fit its block). */
static const char *model_file(model_arch arch, dtype type, char path[TEST_PATH_MAX])
{
    char name[64];
    snprintf(name, sizeof name, "%s-%s.gguf", model_arch_name(arch), dtype_name(type));
    tiny_opts o = tiny_default(arch);
    for (int i = 0; i < TINY_N_CLASS; i++)
        if (i != TINY_VECTOR && i != TINY_ROUTER)
            o.type[i] = type;
    test_path(path, name);
    tiny_write(path, &o);
    return path;
}

static const model_arch arch[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

/* Catches any dependence on the number of rows in a call (B118, B077, B079): chunks of 1, 7, 64 and the
 * whole text give the same bits, in logits, hidden rows and the whole state, on every level, with one
 * thread and two. */
static void check_chunks(dtype type)
{
    static const char *const level[] = {"generic", "avx2", "avx512", "neon", "i8mm"};
    uint32_t have = kern_cpu_flags();
    for (size_t a = 0; a < ARRAY_LEN(arch); a++) {
        char path[TEST_PATH_MAX], what[96];
        model_file(arch[a], type, path);
        result first = {0};
        for (size_t l = 0; l < ARRAY_LEN(level); l++) {
            uint32_t want;
            assert_true(kern_cpu_parse(&want, level[l]));
            if (want & ~have)
                continue;
            for (int n_thread = 1; n_thread <= 2; n_thread++) {
                rig r;
                rig_open(&r, path, level[l], n_thread, DTYPE_F16);
                static const int chunk[] = {1, 7, 64, N_TEXT};
                for (size_t c = 0; c < ARRAY_LEN(chunk); c++) {
                    result x = run_chunks(&r, 1, chunk[c]);
                    snprintf(what, sizeof what, "%s %s %s %d threads chunk %d",
                             model_arch_name(arch[a]), dtype_name(type), level[l], n_thread,
                             chunk[c]);
                    if (!first.logits) {
                        first = x;
                        continue;
                    }
                    assert_same(&r, &first, &x, what);
                    result_free(&x);
                }
                rig_close(&r);
            }
        }
        result_free(&first);
    }
}

static void test_rows_f32_same_bits_for_any_chunk_level_thread(void **state)
{
    (void)state;
    check_chunks(DTYPE_F32);
}

static void test_rows_bf16_same_bits_for_any_chunk_level_thread(void **state)
{
    (void)state;
    check_chunks(DTYPE_BF16);
}

static void test_rows_q8_0_same_bits_for_any_chunk_level_thread(void **state)
{
    (void)state;
    check_chunks(DTYPE_Q8_0);
}

static void test_rows_q4_0_same_bits_for_any_chunk_level_thread(void **state)
{
    (void)state;
    check_chunks(DTYPE_Q4_0);
}

/* Catches a conversation that reads or damages its neighbour's rows or state (B042, B044, B047, B051):
 * three texts in one batch, in pieces of unequal length, equal their solo runs. */
static void test_sequences_in_one_batch_equal_solo_runs(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARRAY_LEN(arch); a++) {
        char path[TEST_PATH_MAX];
        rig r;
        rig_open(&r, model_file(arch[a], DTYPE_Q8_0, path), NULL, 2, DTYPE_F16);
        enum { N = 3 };
        result solo[N], shared[N];
        seq *s[N];
        int32_t tok[N][N_TEXT];
        int done[N] = {0};
        for (int i = 0; i < N; i++) {
            solo[i] = run_chunks(&r, (uint64_t)i + 5, 11);
            shared[i] = result_of(&r);
            s[i] = rig_seq(&r);
            text_of((uint64_t)i + 5, r.n_vocab, tok[i]);
        }
        float *logits = calloc((size_t)RIG_ROWS * (size_t)r.n_vocab, sizeof *logits);
        float *hidden = calloc((size_t)RIG_ROWS * (size_t)r.width, sizeof *hidden);
        for (int round = 0;; round++) {
            layer_seg seg[N];
            int32_t batch[RIG_ROWS], want[RIG_ROWS];
            int which[N], n_seg = 0, n_row = 0;
            for (int i = 0; i < N; i++) {
                int n = 1 + (round * 7 + i * 5) % 13;
                n = n < N_TEXT - done[i] ? n : N_TEXT - done[i];
                if (n == 0)
                    continue;
                memcpy(batch + n_row, tok[i] + done[i], (size_t)n * sizeof *batch);
                which[n_seg] = i;
                seg[n_seg++] = (layer_seg){.s = s[i], .n_row = n, .n_commit = n};
                n_row += n;
            }
            if (n_seg == 0)
                break;
            for (int i = 0; i < n_row; i++)
                want[i] = i;
            layer_batch b = {.tok = batch,
                             .seg = seg,
                             .n_seg = n_seg,
                             .want = want,
                             .n_want = n_row,
                             .logits = logits,
                             .hidden = hidden};
            for (int i = 0; i < n_seg; i++)
                assert_int_equal(seq_reserve(seg[i].s, seg[i].n_row, NULL), FT_OK);
            assert_int_equal(layer_forward(r.be, r.m, &r.scratch, &b, NULL), FT_OK);
            for (int k = 0, row = 0; k < n_seg; row += seg[k++].n_row) {
                size_t v = (size_t)r.n_vocab, w = (size_t)r.width;
                int i = which[k];
                memcpy(shared[i].logits + (size_t)done[i] * v, logits + (size_t)row * v,
                       (size_t)seg[k].n_row * v * sizeof(float));
                memcpy(shared[i].hidden + (size_t)done[i] * w, hidden + (size_t)row * w,
                       (size_t)seg[k].n_row * w * sizeof(float));
                done[i] += seg[k].n_row;
            }
        }
        for (int i = 0; i < N; i++) {
            shared[i].digest = seq_digest(s[i]);
            assert_same(&r, &solo[i], &shared[i], model_arch_name(arch[a]));
            result_free(&solo[i]);
            result_free(&shared[i]);
            seq_free(s[i]);
        }
        free(logits);
        free(hidden);
        rig_close(&r);
    }
}

/* Catches a full context that is overrun, or a batch that is half applied when one of its
 * conversations cannot take its rows. */
static void test_batch_with_a_full_context_changes_nothing(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    rig r;
    rig_open(&r, model_file(MODEL_QWEN4EXP, DTYPE_F32, path), NULL, 1, DTYPE_F16);
    seq *a = rig_seq(&r), *b = rig_seq(&r);
    int32_t tok[RIG_CTX];
    for (int i = 0; i < RIG_CTX; i++)
        tok[i] = rig_token(3, i, r.n_vocab);
    rig_feed(&r, b, tok, RIG_CTX - 1, RIG_CTX - 1, NULL, NULL);
    uint64_t da = seq_digest(a), db = seq_digest(b);
    layer_seg seg[] = {{.s = a, .n_row = 2, .n_commit = 2}, {.s = b, .n_row = 2, .n_commit = 2}};
    layer_batch batch = {.tok = tok, .seg = seg, .n_seg = 2};
    ft_error err = {0};
    assert_int_equal(seq_reserve(a, 2, &err), FT_OK);
    assert_int_equal(layer_forward(r.be, r.m, &r.scratch, &batch, &err), FT_RANGE);
    assert_non_null(strstr(err.msg, "255 tokens used and 2 more wanted, the limit is 256"));
    assert_true(seq_digest(a) == da && seq_digest(b) == db);
    rig_feed(&r, b, tok, 1, 1, NULL, NULL); /* the last cell still fits */
    assert_int_equal(b->n_past, RIG_CTX);
    seq_free(a);
    seq_free(b);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_f32_same_bits_for_any_chunk_level_thread),
        cmocka_unit_test(test_rows_bf16_same_bits_for_any_chunk_level_thread),
        cmocka_unit_test(test_rows_q8_0_same_bits_for_any_chunk_level_thread),
        cmocka_unit_test(test_rows_q4_0_same_bits_for_any_chunk_level_thread),
        cmocka_unit_test(test_sequences_in_one_batch_equal_solo_runs),
        cmocka_unit_test(test_batch_with_a_full_context_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
