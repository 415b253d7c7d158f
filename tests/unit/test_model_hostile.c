/* test_model_hostile.c - files with a tensor missing, of another shape, or with absurd metadata. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tinyopen.h"

#define MAX_NAMES 256

static const model_arch archs[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

/* Small files: this test writes hundreds. */
static tiny_opts small(model_arch arch)
{
    tiny_opts o = tiny_default(arch);
    o.n_embd = 16;
    o.n_vocab = 24;
    o.n_head = 2;
    o.d_head = 16;
    o.n_rot = 8;
    o.n_key_head = 1;
    o.n_val_head = 2;
    o.d_state = 8;
    o.n_ff = 24;
    o.n_expert = 4;
    o.n_ff_exp = o.n_ff_shexp = 8;
    o.hc_rank = 4;
    o.ple_dim = 4;
    o.no_tokenizer = true;
    o.ple_eos = 3;
    return o;
}

/* ---- Tensors -------------------------------------------------------------------------------- */

static bool is_optional(const char *name)
{
    static const char *const optional[] = {"output.weight", "nextn.shared_head_norm.weight",
                                           "blk.4.indexer."};
    for (size_t i = 0; i < ARRAY_LEN(optional); i++)
        if (strstr(name, optional[i]) == name || (i == 1 && strstr(name, optional[i])))
            return true;
    return false;
}

/* B100, B101. catches: any tensor whose absence goes unnoticed, or is blamed on another */
static void test_open_without_a_tensor_names_it(void **state)
{
    (void)state;
    static char name[MAX_NAMES][64];
    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        tiny_opts o = small(archs[a]);
        int n = tiny_names(&o, name, MAX_NAMES);
        assert_true(n > 50);
        for (int i = 0; i < n; i++) {
            o.omit = name[i];
            tiny_model t = tiny_open(&o, NULL);
            if (is_optional(name[i])) {
                assert_int_equal(t.st, FT_OK);
            } else {
                assert_int_equal(t.st, FT_FORMAT);
                assert_null(t.m);
                if (!strstr(t.err.msg, name[i]) || !strstr(t.err.msg, "missing"))
                    fail_msg("without '%s': %s", name[i], t.err.msg);
            }
            tiny_close(&t);
        }
    }
}

/* Tensors from which a size is taken: one more row shows in a tensor that must agree. */
static const char *blamed_for(const char *name, int dim)
{
    static const struct {
        const char *name;
        int dim;
        const char *blamed; /* NULL: no fault */
    } table[] = {
        {"token_embd.weight", 1, "output.weight"},
        {"per_layer_token_embd.weight", 0, "blk.1.ple_key.weight"},
        {"per_layer_token_embd.weight", 1, NULL},
        {"blk.0.hc_attn_down.weight", 1, "blk.0.hc_attn_up.weight"},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strcmp(table[i].name, name) == 0 && table[i].dim == dim)
            return table[i].blamed;
    return strstr(name, "blk.4.indexer.") ? NULL : name;
}

/* catches: any dimension of any tensor that is not compared */
static void test_open_with_a_wrong_shape_names_it(void **state)
{
    (void)state;
    static char name[MAX_NAMES][64];
    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        tiny_opts o = small(archs[a]);
        o.mtp_head = true;
        int n = tiny_names(&o, name, MAX_NAMES);
        for (int i = 0; i < n * 3; i++) {
            o.reshape = name[i / 3];
            o.reshape_dim = i % 3;
            if (strncmp(o.reshape, "blk.2.", 6) == 0)
                continue; /* of the same kind as layer 0 */
            const char *blamed = blamed_for(o.reshape, o.reshape_dim);
            tiny_model t = tiny_open(&o, NULL);
            if (!blamed) {
                assert_int_equal(t.st, FT_OK);
            } else {
                assert_true(t.st == FT_FORMAT || t.st == FT_MISMATCH);
                if (!strstr(t.err.msg, blamed))
                    fail_msg("dim %d of '%s': %s", o.reshape_dim, o.reshape, t.err.msg);
            }
            tiny_close(&t);
        }
    }
}

/* ---- Metadata ------------------------------------------------------------------------------- */

typedef struct {
    char key[96];
    gguf_type type; /* INT64, F32, F64 or STRING */
    int64_t i;
    double d;
} edit;

static void put_edit(gguf_writer *w, void *ctx)
{
    const edit *e = ctx;
    if (e->type == GGUF_STRING)
        gguf_put_str(w, e->key, "x", 1);
    else if (e->type == GGUF_F32)
        gguf_put_f32(w, e->key, (float)e->d);
    else
        gguf_put_int(w, e->key, e->type, e->i);
}

static ft_status open_edited(model_arch arch, edit *e, ft_error *err)
{
    tiny_opts o = small(arch);
    o.edit = put_edit;
    o.edit_ctx = e;
    tiny_model t = tiny_open(&o, NULL);
    ft_status st = t.st;
    *err = t.err;
    tiny_close(&t);
    return st;
}

static const char *const int_keys[] = {
    "block_count",
    "nextn_predict_layers",
    "context_length",
    "embedding_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "full_attention_interval",
    "attention.key_length",
    "attention.value_length",
    "rope.dimension_count",
    "ssm.conv_kernel",
    "ssm.state_size",
    "ssm.group_count",
    "ssm.time_step_rank",
    "ssm.inner_size",
    "expert_count",
    "expert_used_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "hyper_connection.count",
    "attention.indexer.head_count",
    "attention.indexer.key_length",
    "attention.indexer.top_k",
    "ple.ngram_size",
    "ple.heads_per_ngram",
    "ple.conv_kernel",
    "ple.eos_token_id",
};

/* B097. catches: a size from the file used before it is compared with anything */
static void test_open_absurd_integers_are_refused(void **state)
{
    (void)state;
    static const int64_t bad[] = {0,         -1,       -4, INT64_C(1) << 31, INT64_C(1) << 32,
                                  INT64_MAX, INT64_MIN};
    for (size_t k = 0; k < ARRAY_LEN(int_keys); k++) {
        for (size_t v = 0; v < ARRAY_LEN(bad); v++) {
            bool zero_is_fine = strcmp(int_keys[k], "nextn_predict_layers") == 0 ||
                                strcmp(int_keys[k], "ple.eos_token_id") == 0;
            if (bad[v] == 0 && zero_is_fine)
                continue;
            edit e = {.type = GGUF_I64, .i = bad[v]};
            ft_error err;
            snprintf(e.key, sizeof e.key, "qwen4exp.%s", int_keys[k]);
            ft_status st = open_edited(MODEL_QWEN4EXP, &e, &err);
            if (st != FT_FORMAT || !strstr(err.msg, int_keys[k]))
                fail_msg("%s = %lld: status %d '%s'", e.key, (long long)bad[v], st, err.msg);
        }
    }
    edit e = {.key = "qwen35.feed_forward_length", .type = GGUF_I64};
    ft_error err;
    assert_int_equal(open_edited(MODEL_QWEN35, &e, &err), FT_FORMAT);
}

/* catches: a text taken for a number, a missing key taken for 0 */
static void test_open_keys_of_another_type_or_missing_are_refused(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LEN(int_keys); k++) {
        edit e = {.type = GGUF_STRING};
        ft_error err;
        snprintf(e.key, sizeof e.key, "qwen4exp.%s", int_keys[k]);
        assert_int_equal(open_edited(MODEL_QWEN4EXP, &e, &err), FT_FORMAT);
        assert_non_null(strstr(err.msg, int_keys[k]));
    }
    static const char *const needed[] = {"block_count",
                                         "embedding_length",
                                         "attention.head_count",
                                         "attention.key_length",
                                         "attention.layer_norm_rms_epsilon",
                                         "rope.freq_base",
                                         "ssm.state_size",
                                         "expert_count",
                                         "hyper_connection.count",
                                         "attention.compress_ratios",
                                         "attention.indexer.top_k",
                                         "ple.ngram_size",
                                         "ple.head_offsets",
                                         "ple.layer_multipliers"};
    for (size_t k = 0; k < ARRAY_LEN(needed); k++) {
        char key[96];
        tiny_opts o = small(MODEL_QWEN4EXP);
        snprintf(key, sizeof key, "qwen4exp.%s", needed[k]);
        o.omit_key = key;
        tiny_model t = tiny_open(&o, NULL);
        assert_int_equal(t.st, FT_FORMAT);
        assert_non_null(strstr(t.err.msg, key));
        tiny_close(&t);
    }
}

/* catches: NaN passing a comparison that it makes false */
static void test_open_absurd_floats_are_refused(void **state)
{
    (void)state;
    static const char *const keys[] = {"qwen35.attention.layer_norm_rms_epsilon",
                                       "qwen35.rope.freq_base"};
    const double bad[] = {(double)NAN, (double)INFINITY, -(double)INFINITY, -1.0, 0.0, 1e30};
    for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
        for (size_t v = 0; v < ARRAY_LEN(bad); v++) {
            edit e = {.type = GGUF_F32, .d = bad[v]};
            ft_error err;
            snprintf(e.key, sizeof e.key, "%s", keys[k]);
            assert_int_equal(open_edited(MODEL_QWEN35, &e, &err), FT_FORMAT);
            assert_non_null(strstr(err.msg, keys[k]));
        }
    }
}

/* B082. catches: scaled positions run unscaled without a word; sizes that no kernel has */
static void test_open_unsupported_values_are_named(void **state)
{
    (void)state;
    static const edit cases[] = {
        {"general.architecture", GGUF_STRING, 0, 0.0},
        {"qwen35.rope.scaling.type", GGUF_STRING, 0, 0.0},
        {"qwen35.rope.scaling.factor", GGUF_F32, 0, 4.0},
        {"qwen35.attention.value_length", GGUF_I64, 32, 0.0},
        {"qwen35.attention.key_length", GGUF_I64, 24, 0.0},
        {"qwen35.attention.head_count", GGUF_I64, 64, 0.0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        edit e = cases[i];
        ft_error err;
        ft_status st = open_edited(MODEL_QWEN35, &e, &err);
        if (st != FT_UNSUPPORTED || !strstr(err.msg, e.key) || !strstr(err.msg, "tiny.gguf"))
            fail_msg("%s: status %d '%s'", e.key, st, err.msg);
    }
}

/* catches: blocks that a page of the cache holds no whole number of */
static void test_open_block_size_that_no_page_holds_is_named(void **state)
{
    (void)state;
    static const int64_t ratio[] = {3, 1024};
    for (size_t i = 0; i < ARRAY_LEN(ratio); i++) {
        edit e = {"qwen4exp.attention.compress_ratios", GGUF_I64, ratio[i], 0.0};
        ft_error err;
        ft_status st = open_edited(MODEL_QWEN4EXP, &e, &err);
        if (st != FT_UNSUPPORTED || !strstr(err.msg, e.key) || !strstr(err.msg, "512"))
            fail_msg("%lld: status %d '%s'", (long long)ratio[i], st, err.msg);
    }
}

/* catches: two numbers that are fine alone and do not go together */
static void test_open_numbers_that_contradict_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        int64_t v;
        const char *named; /* what the message speaks of; NULL: the key */
    } cases[] = {
        {"attention.head_count_kv", 3, "attention.head_count"},
        {"attention.head_count_kv", 2, "blk.3.attn_k.weight"},
        {"rope.dimension_count", 7, NULL},
        {"rope.dimension_count", 18, NULL},
        {"ssm.group_count", 4, "ssm.time_step_rank"},
        {"ssm.inner_size", 8, NULL},
        {"expert_used_count", 5, NULL},
        {"attention.indexer.top_k", 18, NULL},
        {"attention.indexer.key_length", 4, NULL},
        {"ple.eos_token_id", 24, NULL},
        {"vocab_size", 25, NULL},
        {"ple.heads_per_ngram", 3, "ple.head_offsets"},
        {"ple.ngram_size", 4, "ple.layer_multipliers"},
        {"ple.ngram_size", 9, NULL},
        {"ple.layers", 4, NULL},
        {"ple.layers", -1, NULL},
        {"ple.layer_multipliers", 1, NULL},
        {"ple.head_offsets", 0, NULL},
        {"attention.compress_ratios", -4, NULL},
        {"attention.compress_ratios", 32, "attention.indexer.top_k"},
        {"attention.recurrent_layers", 1, "blk.3.attn_qkv.weight"},
        {"attention.recurrent_layers", 0, "blk.0.attn_q.weight"},
        {"full_attention_interval", 2, "blk.1.attn_q.weight"},
        {"block_count", 4, "blk.3"},
        {"block_count", 6, "blk.4"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        edit e = {.type = GGUF_I64, .i = cases[i].v};
        ft_error err;
        snprintf(e.key, sizeof e.key, "qwen4exp.%s", cases[i].key);
        ft_status st = open_edited(MODEL_QWEN4EXP, &e, &err);
        const char *named = cases[i].named ? cases[i].named : cases[i].key;
        if (st != FT_FORMAT || !strstr(err.msg, named))
            fail_msg("%s = %lld: status %d '%s'", e.key, (long long)e.i, st, err.msg);
    }
}

/* ---- Lists ---------------------------------------------------------------------------------- */

typedef struct {
    const char *key;
    gguf_type elem;
    int n;
    int64_t v[8];
    ft_status want;
} list_edit;

static void put_list(gguf_writer *w, void *ctx)
{
    const list_edit *e = ctx;
    gguf_put_array(w, e->key, e->elem, e->v, (size_t)e->n);
}

/* B098. catches: short lists read past their end, disagreeing head counts, rows past the table */
static void test_open_bad_lists_are_refused(void **state)
{
    (void)state;
    static list_edit cases[] = {
        {"qwen4exp.attention.head_count", GGUF_I64, 5, {2, 2, 2, 4, 2}, FT_UNSUPPORTED},
        {"qwen4exp.attention.head_count", GGUF_I64, 2, {0, 0}, FT_FORMAT},
        {"qwen4exp.attention.head_count", GGUF_I64, 0, {0}, FT_FORMAT},
        {"qwen4exp.attention.head_count_kv", GGUF_I64, 3, {0, 0, 0}, FT_FORMAT},
        {"qwen4exp.attention.head_count_kv", GGUF_I64, 5, {0, 0, 0, -1, 1}, FT_FORMAT},
        {"qwen4exp.attention.head_count_kv", GGUF_I64, 5, {0, 0, 0, INT64_MAX, 1}, FT_FORMAT},
        {"qwen4exp.attention.compress_ratios", GGUF_I64, 3, {0, 0, 0}, FT_FORMAT},
        {"qwen4exp.attention.compress_ratios", GGUF_F64, 5, {0, 0, 0, 0, 0}, FT_FORMAT},
        {"qwen4exp.attention.recurrent_layers", GGUF_I64, 2, {1, 1}, FT_FORMAT},
        {"qwen4exp.ple.layers", GGUF_I64, 2, {0, 1}, FT_UNSUPPORTED},
        {"qwen4exp.ple.head_offsets", GGUF_I64, 4, {0, 97, 198, -1}, FT_FORMAT},
        {"qwen4exp.ple.head_offsets", GGUF_I64, 4, {0, 97, 198, 406}, FT_FORMAT},
        {"qwen4exp.ple.head_offsets", GGUF_I64, 4, {0, 97, 198, INT64_MAX}, FT_FORMAT},
        {"qwen4exp.ple.head_offsets", GGUF_I64, 5, {0, 97, 198, 301, 408}, FT_FORMAT},
        {"qwen4exp.ple.head_vocab_sizes", GGUF_I64, 4, {97, 101, 0, 107}, FT_FORMAT},
        {"qwen4exp.ple.head_vocab_sizes", GGUF_I64, 4, {97, 101, INT64_MAX, 107}, FT_FORMAT},
        {"qwen4exp.ple.head_vocab_sizes", GGUF_I64, 4, {97, 101, INT64_MIN, 107}, FT_FORMAT},
        {"qwen4exp.ple.layer_multipliers", GGUF_I64, 2, {3, 5}, FT_FORMAT},
        {"qwen4exp.attention.compress_ratios", GGUF_I64, 4, {0, 0, 0, 4}, FT_OK},
        {"qwen4exp.attention.head_count_kv", GGUF_I64, 5, {0, 0, 0, 1, 1}, FT_OK},
        {"qwen4exp.ple.head_offsets", GGUF_I64, 4, {0, 97, 198, 405}, FT_OK},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        tiny_opts o = small(MODEL_QWEN4EXP);
        o.edit = put_list;
        o.edit_ctx = &cases[i];
        tiny_model t = tiny_open(&o, NULL);
        if (t.st != cases[i].want)
            fail_msg("case %zu %s: status %d '%s'", i, cases[i].key, t.st, t.err.msg);
        if (t.st != FT_OK && !strstr(t.err.msg, strrchr(cases[i].key, '.')) &&
            !strstr(t.err.msg, "n-gram head"))
            fail_msg("%s is not named: '%s'", cases[i].key, t.err.msg);
        tiny_close(&t);
    }
}

/* catches: a list shorter than the trunk read past its end */
static void test_open_list_shorter_than_trunk_says_so(void **state)
{
    (void)state;
    list_edit e = {"qwen4exp.attention.compress_ratios", GGUF_I64, 3, {0, 0, 0}, FT_FORMAT};
    tiny_opts o = small(MODEL_QWEN4EXP);
    o.edit = put_list;
    o.edit_ctx = &e;
    tiny_model t = tiny_open(&o, NULL);
    assert_non_null(strstr(t.err.msg, "3 values, want one per block"));
    tiny_close(&t);
}

/* catches: ids that have no row in the embedding */
static void test_open_tokenizer_larger_than_embedding_is_refused(void **state)
{
    (void)state;
    list_edit e = {"tokenizer.ggml.tokens", GGUF_I64, 8, {0}, FT_OK};
    tiny_opts o = small(MODEL_QWEN35);
    o.n_vocab = 7;
    o.edit = put_list;
    o.edit_ctx = &e;
    tiny_model t = tiny_open(&o, NULL);
    assert_int_equal(t.st, FT_FORMAT);
    assert_non_null(strstr(t.err.msg, "8 tokens"));
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_without_a_tensor_names_it),
        cmocka_unit_test(test_open_with_a_wrong_shape_names_it),
        cmocka_unit_test(test_open_absurd_integers_are_refused),
        cmocka_unit_test(test_open_keys_of_another_type_or_missing_are_refused),
        cmocka_unit_test(test_open_absurd_floats_are_refused),
        cmocka_unit_test(test_open_unsupported_values_are_named),
        cmocka_unit_test(test_open_block_size_that_no_page_holds_is_named),
        cmocka_unit_test(test_open_numbers_that_contradict_are_refused),
        cmocka_unit_test(test_open_bad_lists_are_refused),
        cmocka_unit_test(test_open_list_shorter_than_trunk_says_so),
        cmocka_unit_test(test_open_tokenizer_larger_than_embedding_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
