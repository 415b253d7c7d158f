/* Files with random weights: they open, run, and are a function of their parameters. */
#include <math.h>

#include "base/map.h"
#include "base/mem.h"
#include "engine/synthetic.h"
#include "engine/synthetic_blocks.h"
#include "kern/kern.h"
#include "support/enginerig.h"

/* Small shapes of each family, with everything that the named ones have. */
#define SMALL                                                                                      \
    .n_layer = 4, .n_embd = 128, .n_vocab = 1200, .n_ctx_train = 512, .eps = 1e-6f, .n_head = 4,   \
    .n_head_kv = 2, .d_head = 64, .n_rot = 16, .rope_base = 1e6, .n_key_head = 2, .n_val_head = 4, \
    .d_state = 32, .n_conv = 4

static const shape_info small[] = {
    {.name = "small-dense",
     .h = {SMALL, .arch = MODEL_QWEN35, .n_hc = 1, .ple_layer = -1, .n_ff = 256},
     .tied = true},
    {.name = "small-moe",
     .h = {SMALL, .arch = MODEL_QWEN35MOE, .n_hc = 1, .ple_layer = -1, .n_expert = 8,
           .n_expert_used = 2, .n_ff_exp = 64, .n_ff_shexp = 64}},
    {.name = "small-next",
     .h = {SMALL, .arch = MODEL_QWEN4EXP, .n_hc = 4, .hc_rank = 32, .n_expert = 8,
           .n_expert_used = 2, .n_ff_exp = 64, .n_ff_shexp = 64, .n_idx_head = 2, .d_idx = 32,
           .idx_top_k = 32, .ple_layer = 1, .ple_ngram = 3, .ple_heads = 2, .ple_conv = 4,
           .ple_eos = 1197, .ple_dim = 32},
     .ratio = 4,
     .ple_rows_base = 500},
};

static void write_small(char path[TEST_PATH_MAX], const char *name, int i, dtype type,
                        uint64_t seed)
{
    shape *s;
    shape_types types = shape_types_of(type);
    OK(shape_create(&s, &small[i], &types, &rig_err));
    OK(synthetic_write(s, seed, test_path(path, name), NULL, NULL, &rig_err));
    shape_free(s);
}

static void expect_finite(const float *x, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(x[i]))
            fail_msg("logit %d is %g", i, (double)x[i]);
}

/* Catches blocks whose scales are packed wrongly: values far from what was asked for. */
static void test_synthetic_blocks_have_the_deviation_asked_for(void **state)
{
    (void)state;
    static const dtype type[] = {DTYPE_Q4_K, DTYPE_Q5_K, DTYPE_Q6_K, DTYPE_IQ4_XS};
    enum { N = 256 * 64 };
    static uint8_t bits[4 * N], out[4 * N];
    static float x[N];
    uint32_t r = 1;
    for (size_t i = 0; i < sizeof bits; i++) {
        r = r * 1664525u + 1013904223u;
        bits[i] = (uint8_t)(r >> 24);
    }
    for (size_t i = 0; i < ARRAY_LEN(type); i++) {
        assert_true(synthetic_has_blocks(type[i]) && !kern_can_encode((int)type[i]));
        synthetic_blocks(type[i], out, bits, dtype_row_bytes(type[i], N), 0.05f);
        assert_true(kern_decode((int)type[i], x, out, N));
        double sum = 0, sum_sq = 0;
        for (int k = 0; k < N; k++) {
            sum += (double)x[k];
            sum_sq += (double)x[k] * (double)x[k];
        }
        double mean = sum / N, deviation = sqrt(sum_sq / N - mean * mean);
        if (fabs(mean) > 0.006 || fabs(deviation / 0.05 - 1) > 0.04)
            fail_msg("%s: mean %g, deviation %g", dtype_name(type[i]), mean, deviation);
    }
    assert_false(synthetic_has_blocks(DTYPE_Q8_0));
}

/* Catches tensors that the loader refuses, and weights that overflow on the way through the layers. */
static void test_synthetic_of_each_family_and_type_opens_and_runs_finite(void **state)
{
    (void)state;
    static const dtype type[] = {DTYPE_F32, DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_Q2_0};
    char path[TEST_PATH_MAX];
    int32_t tok[40];
    rig_prompt(tok, 40);
    for (size_t i = 0; i < ARRAY_LEN(small) * ARRAY_LEN(type); i++) {
        write_small(path, "run.gguf", (int)(i / ARRAY_LEN(type)), type[i % ARRAY_LEN(type)], 1);
        ft_model *m;
        OK(ft_model_open(&m, path, NULL, &rig_err));
        ft_model_info info;
        ft_model_get_info(m, &info);
        assert_true(info.has_mtp && info.has_tokenizer && info.eos == info.n_vocab - 3);
        ft_session *s = rig_session(m, 128, 16, "f16");
        const float *logits;
        OK(ft_session_eval(s, tok, 40, &logits, &rig_err));
        expect_finite(logits, info.n_vocab);
        rig_output out = {0};
        ft_generate_params p = rig_params(&out, 24, 0.7f, 3);
        p.draft_fixed = p.ignore_eos = true;
        rig_generate(s, tok, 1, &p);
        assert_int_equal(out.n, 24);
        assert_true(out.stats.draft.drafted > 0);
        ft_session_free(s);
        ft_model_close(m);
    }
}

/* Catches weights that all look alike: a model whose logits hardly differ measures no sampling. */
static void test_synthetic_logits_spread_like_those_of_a_model(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    for (int i = 0; i < (int)ARRAY_LEN(small); i++) {
        write_small(path, "spread.gguf", i, DTYPE_Q8_0, 1);
        ft_model *m;
        OK(ft_model_open(&m, path, NULL, &rig_err));
        ft_session *s = rig_session(m, 64, 16, "f16");
        const float *x;
        OK(ft_session_eval(s, (int32_t[]){5, 6, 7}, 3, &x, &rig_err));
        double sum = 0, square = 0;
        for (int k = 0; k < small[i].h.n_vocab; k++) {
            sum += (double)x[k];
            square += (double)x[k] * (double)x[k];
        }
        double mean = sum / small[i].h.n_vocab;
        double deviation = sqrt(square / small[i].h.n_vocab - mean * mean);
        if (!(deviation > 0.05 && deviation < 50))
            fail_msg("%s: deviation of the logits %g", small[i].name, deviation);
        ft_session_free(s);
        ft_model_close(m);
    }
}

static bool same_files(const char *a, const char *b)
{
    file_map x, y;
    OK(map_open(&x, a, &rig_err));
    OK(map_open(&y, b, &rig_err));
    bool same = x.n_bytes == y.n_bytes && memcmp(x.bytes, y.bytes, x.n_bytes) == 0;
    map_close(&x);
    map_close(&y);
    return same;
}

/* Catches memory that was never written in a file, and a seed that is not used. */
static void test_synthetic_file_is_a_function_of_the_seed(void **state)
{
    (void)state;
    char a[TEST_PATH_MAX], b[TEST_PATH_MAX], c[TEST_PATH_MAX];
    write_small(a, "a.gguf", 2, DTYPE_Q4_0, 7);
    write_small(b, "b.gguf", 2, DTYPE_Q4_0, 7);
    write_small(c, "c.gguf", 2, DTYPE_Q4_0, 8);
    assert_true(same_files(a, b));
    assert_false(same_files(a, c));
}

/* Catches a tokenizer that does not give a text back, or merges that are not in the vocabulary. */
static void test_synthetic_tokenizer_gives_any_text_back(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    static const char text[] = "the hen\n\x01 \xc3\xa9 \xe4\xb8\xad w900";
    write_small(path, "tok.gguf", 0, DTYPE_Q8_0, 1);
    ft_model *m;
    OK(ft_model_open(&m, path, NULL, &rig_err));
    int32_t *ids;
    char *back;
    size_t n, len;
    OK(ft_tokenize(m, text, sizeof text - 1, false, &ids, &n, &rig_err));
    assert_true(n < sizeof text - 1); /* "th", "he" and "en" are tokens */
    OK(ft_detokenize(m, ids, n, false, &back, &len, &rig_err));
    assert_int_equal(len, sizeof text - 1);
    assert_memory_equal(back, text, len);
    ft_free(ids);
    ft_free(back);
    ft_model_close(m);
}

/* Catches a failure that is found only after gigabytes were written, or that leaves a file. */
static void test_synthetic_refuses_before_it_writes(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    ft_synthetic_params p = ft_synthetic_params_default();
    p.out = test_path(path, "refused.gguf");
    FAILS(ft_write_synthetic(&p, &rig_err), FT_ARG, "want one of qwen3.5-0.8b");
    p.shape = "qwen3.5";
    FAILS(ft_write_synthetic(&p, &rig_err), FT_ARG, "shape: 'qwen3.5', want one of");
    p.shape = "qwen3.5-0.8b";
    p.type = "q9";
    FAILS(ft_write_synthetic(&p, &rig_err), FT_ARG, "type: 'q9', want f32");
    p.type = "q3_k";
    FAILS(ft_write_synthetic(&p, &rig_err), FT_ARG, "type: 'q3_k', want f32");
    p.type = "q8_0";
    p.n_layer = 25;
    FAILS(ft_write_synthetic(&p, &rig_err), FT_ARG, "n_layer: 25, want 0 (all) or 4 to 24");
    p.n_layer = 4;
    p.n_ngram_row = 10;
    FAILS(ft_write_synthetic(&p, &rig_err), FT_ARG, "n_ngram_row: 10, want 0 (all) to 0");
    p.n_ngram_row = 0;
    p.out = NULL;
    FAILS(ft_write_synthetic(&p, &rig_err), FT_ARG, "out is NULL");
    file_map f;
    ft_error err = {0};
    assert_int_equal(map_open(&f, path, &err), FT_IO);
}

static bool stop_at_once(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    int *calls = ctx;
    assert_true(what[0] && done > 0 && done <= total);
    return ++*calls < 3;
}

/* Catches a cancelled file that stays, half written. */
static void test_synthetic_cancelled_leaves_no_file(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    shape *s;
    int calls = 0;
    shape_types types = shape_types_of(DTYPE_Q8_0);
    OK(shape_create(&s, &small[0], &types, &rig_err));
    FAILS(synthetic_write(s, 1, test_path(path, "cancel.gguf"), stop_at_once, &calls, &rig_err),
          FT_CANCELLED, "cancelled at");
    assert_int_equal(calls, 3);
    file_map f;
    ft_error err = {0};
    assert_int_equal(map_open(&f, path, &err), FT_IO);
    shape_free(s);
}

/* Catches a leak or a crash when memory runs out on the way. */
static void test_synthetic_without_memory_fails_cleanly(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    shape *s;
    shape_types types = shape_types_of(DTYPE_Q4_0);
    OK(shape_create(&s, &small[0], &types, &rig_err));
    test_path(path, "nomem.gguf");
    for (long n = 1;; n++) {
        ft_error err = {0};
        mem_fail_at(n);
        ft_status st = synthetic_write(s, 1, path, NULL, NULL, &err);
        mem_fail_at(0);
        if (st == FT_OK)
            break;
        assert_int_equal(st, FT_NOMEM);
        assert_true(err.msg[0]);
        assert_true(n < 5000);
    }
    shape_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synthetic_blocks_have_the_deviation_asked_for),
        cmocka_unit_test(test_synthetic_of_each_family_and_type_opens_and_runs_finite),
        cmocka_unit_test(test_synthetic_logits_spread_like_those_of_a_model),
        cmocka_unit_test(test_synthetic_file_is_a_function_of_the_seed),
        cmocka_unit_test(test_synthetic_tokenizer_gives_any_text_back),
        cmocka_unit_test(test_synthetic_refuses_before_it_writes),
        cmocka_unit_test(test_synthetic_cancelled_leaves_no_file),
        cmocka_unit_test(test_synthetic_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
