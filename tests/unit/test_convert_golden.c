/* Conversion of the three reference models: every value, in every place where it belongs.
 *
 * The expectations are written out here from the layout rules of docs/models.md, without the
 * converter's tables: name by name, head by head. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "convert/checkpoint.h"
#include "convert/convert.h"
#include "gguf/gguf.h"
#include "support/tmpdir.h"

#define GOLDEN "tests/golden/"
enum { H = 64, N_LAYER = 4, N_KEY = 2, N_VAL = 4, D_STATE = 16, N_EXPERT = 8, FF_EXP = 32 };

typedef struct {
    checkpoint ck;
    gguf_file *g;
} pair;

static void convert_to(const char *dir, const char *out, const char *type)
{
    ft_error err = {0};
    ft_convert_params p = {.dir = dir, .out = out, .type = type};
    if (convert_folder(&p, &err) != FT_OK)
        fail_msg("%s: %s", dir, err.msg);
}

static void open_pair(pair *p, const char *model)
{
    char dir[256], out[TEST_PATH_MAX];
    ft_error err = {0};
    snprintf(dir, sizeof dir, GOLDEN "%s", model);
    test_path(out, "golden.gguf");
    convert_to(dir, out, "f32");
    assert_int_equal(ckpt_open(&p->ck, dir, &err), FT_OK);
    assert_int_equal(gguf_open(&p->g, out, &err), FT_OK);
}

static void close_pair(pair *p)
{
    gguf_close(p->g);
    ckpt_close(&p->ck);
}

static const float *gguf_values(const pair *p, const char *name, int n_row, int n_col)
{
    const gguf_tensor *t = gguf_tensor_find(p->g, name);
    if (!t)
        fail_msg("'%s' is not in the GGUF", name);
    if (t->t.type != DTYPE_F32 || t->t.n_col != n_col || t->t.n_row * t->t.n_mat != n_row)
        fail_msg("'%s' is %d x %d x %d", name, t->t.n_mat, t->t.n_row, t->t.n_col);
    return t->t.data;
}

static float hf_at(const pair *p, const char *name, size_t i)
{
    const ckpt_tensor *t = ckpt_find(&p->ck, name);
    if (!t || i >= t->t->n)
        fail_msg("'%s'[%zu] is not in the checkpoint", name, i);
    float v;
    memcpy(&v, t->t->data + 4 * i, 4);
    return v;
}

typedef enum { SAME, PLUS_1 } rule;

/* All values in the same order. */
static void check_same(const pair *p, const char *gguf, const char *hf, int n_row, int n_col,
                       rule r)
{
    const float *v = gguf_values(p, gguf, n_row, n_col);
    for (size_t i = 0; i < (size_t)n_row * (size_t)n_col; i++)
        if (v[i] != hf_at(p, hf, i) + (r == PLUS_1 ? 1.0f : 0.0f))
            fail_msg("'%s'[%zu] = %g", gguf, i, (double)v[i]);
}

/* The checkpoint's value head that uses key head `key` as its `i`-th; GGUF has it at i * N_KEY + key. */
static int hf_head(int key, int i)
{
    return key * (N_VAL / N_KEY) + i;
}

/* Value heads of `unit` rows behind `first` rows that keep their place. */
static void check_heads(const pair *p, const char *gguf, const char *hf, int first, int unit,
                        int n_col)
{
    const float *v = gguf_values(p, gguf, first + N_VAL * unit, n_col);
    for (int i = 0; i < first * n_col; i++)
        assert_true(v[i] == hf_at(p, hf, (size_t)i));
    for (int key = 0; key < N_KEY; key++)
        for (int i = 0; i < N_VAL / N_KEY; i++)
            for (int k = 0; k < unit * n_col; k++) {
                int to = first * n_col + (i * N_KEY + key) * unit * n_col + k;
                int from = first * n_col + hf_head(key, i) * unit * n_col + k;
                if (v[to] != hf_at(p, hf, (size_t)from))
                    fail_msg("'%s': key head %d, its value head %d, value %d", gguf, key, i, k);
            }
}

static void check_delta_net(const pair *p, int layer)
{
    char g[80], h[120], a[120];
#define NAMES(gguf, hf)                            \
    (snprintf(g, sizeof g, "blk.%d." gguf, layer), \
     snprintf(h, sizeof h, "model.layers.%d.linear_attn." hf, layer))
    NAMES("attn_qkv.weight", "in_proj_qkv.weight");
    check_heads(p, g, h, 2 * N_KEY * D_STATE, D_STATE, H);
    NAMES("ssm_conv1d.weight", "conv1d.weight");
    check_heads(p, g, h, 2 * N_KEY * D_STATE, D_STATE, 4);
    NAMES("attn_gate.weight", "in_proj_z.weight");
    check_heads(p, g, h, 0, D_STATE, H);
    NAMES("ssm_alpha.weight", "in_proj_a.weight");
    check_heads(p, g, h, 0, 1, H);
    NAMES("ssm_beta.weight", "in_proj_b.weight");
    check_heads(p, g, h, 0, 1, H);
    NAMES("ssm_norm.weight", "norm.weight");
    check_same(p, g, h, 1, D_STATE, SAME);

    /* vectors of one value per head */
    NAMES("ssm_dt.bias", "dt_bias");
    const float *dt = gguf_values(p, g, 1, N_VAL);
    snprintf(g, sizeof g, "blk.%d.ssm_a", layer);
    snprintf(a, sizeof a, "model.layers.%d.linear_attn.A_log", layer);
    const float *decay = gguf_values(p, g, 1, N_VAL);
    for (int key = 0; key < N_KEY; key++)
        for (int i = 0; i < N_VAL / N_KEY; i++) {
            size_t from = (size_t)hf_head(key, i);
            assert_true(dt[i * N_KEY + key] == hf_at(p, h, from));
            assert_true(decay[i * N_KEY + key] == (float)-exp((double)hf_at(p, a, from)));
        }

    /* the columns of the output projection */
    NAMES("ssm_out.weight", "out_proj.weight");
    const float *out = gguf_values(p, g, H, N_VAL * D_STATE);
    for (int row = 0; row < H; row++)
        for (int key = 0; key < N_KEY; key++)
            for (int i = 0; i < N_VAL / N_KEY; i++)
                for (int k = 0; k < D_STATE; k++) {
                    int to = row * N_VAL * D_STATE + (i * N_KEY + key) * D_STATE + k;
                    int from = row * N_VAL * D_STATE + hf_head(key, i) * D_STATE + k;
                    assert_true(out[to] == hf_at(p, h, (size_t)from));
                }
#undef NAMES
}

/* gguf "blk.N." + g against hf prefix + h. */
typedef struct {
    const char *g, *h;
    int n_row, n_col;
    rule r;
} same;

static void check_list(const pair *p, int block, const char *prefix, const same *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char g[80], h[160];
        snprintf(g, sizeof g, "blk.%d.%s", block, list[i].g);
        snprintf(h, sizeof h, "%s%s", prefix, list[i].h);
        check_same(p, g, h, list[i].n_row, list[i].n_col, list[i].r);
    }
}

static const same attention[] = {
    {"attn_q.weight", "self_attn.q_proj.weight", 128, H, SAME},
    {"attn_k.weight", "self_attn.k_proj.weight", 32, H, SAME},
    {"attn_v.weight", "self_attn.v_proj.weight", 32, H, SAME},
    {"attn_output.weight", "self_attn.o_proj.weight", H, 64, SAME},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", 1, 32, PLUS_1},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", 1, 32, PLUS_1},
};

static const same narrow[] = {
    {"attn_norm.weight", "input_layernorm.weight", 1, H, PLUS_1},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", 1, H, PLUS_1},
};

static const same dense[] = {
    {"ffn_gate.weight", "mlp.gate_proj.weight", 96, H, SAME},
    {"ffn_up.weight", "mlp.up_proj.weight", 96, H, SAME},
    {"ffn_down.weight", "mlp.down_proj.weight", H, 96, SAME},
};

static const same experts[] = {
    {"ffn_gate_inp.weight", "mlp.gate.weight", N_EXPERT, H, SAME},
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight", 1, H, SAME},
    {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight", 32, H, SAME},
    {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight", 32, H, SAME},
    {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight", H, 32, SAME},
};

static const same mixers[] = {
    {"hc_attn_norm.weight", "attn_hyper_connection.hc_norm.weight", 1, 2 * H, PLUS_1},
    {"hc_attn_down.weight", "attn_hyper_connection.input_mix_weight_down.weight", 8, 2 * H, SAME},
    {"hc_attn_up.weight", "attn_hyper_connection.input_mix_weight_up.weight", 2 * H, 8, SAME},
    {"hc_attn_inject.weight", "attn_hyper_connection.block_inject_weight.weight", 2, 2 * H, SAME},
    {"hc_ffn_norm.weight", "mlp_hyper_connection.hc_norm.weight", 1, 2 * H, PLUS_1},
    {"hc_ffn_down.weight", "mlp_hyper_connection.input_mix_weight_down.weight", 8, 2 * H, SAME},
    {"hc_ffn_up.weight", "mlp_hyper_connection.input_mix_weight_up.weight", 2 * H, 8, SAME},
    {"hc_ffn_inject.weight", "mlp_hyper_connection.block_inject_weight.weight", 2, 2 * H, SAME},
};

static const same indexer[] = {
    {"indexer.q_norm.weight", "self_attn.indexer.q_layernorm.weight", 1, 16, PLUS_1},
    {"indexer.k_norm.weight", "self_attn.indexer.k_layernorm.weight", 1, 16, PLUS_1},
};

#define LIST(p, block, prefix, list) check_list(p, block, prefix, list, ARRAY_LEN(list))

/* One matrix per expert in the checkpoint, one stack in GGUF. */
static void check_experts(const pair *p, int block, const char *prefix)
{
    static const struct {
        const char *gguf, *hf;
        int n_row, n_col;
    } part[] = {{"ffn_gate_exps", "gate_proj", FF_EXP, H},
                {"ffn_up_exps", "up_proj", FF_EXP, H},
                {"ffn_down_exps", "down_proj", H, FF_EXP}};
    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        char g[80], h[160];
        int n = part[i].n_row * part[i].n_col;
        snprintf(g, sizeof g, "blk.%d.%s.weight", block, part[i].gguf);
        const float *v = gguf_values(p, g, N_EXPERT * part[i].n_row, part[i].n_col);
        assert_int_equal(gguf_tensor_find(p->g, g)->t.n_mat, N_EXPERT);
        for (int e = 0; e < N_EXPERT; e++) {
            snprintf(h, sizeof h, "%smlp.experts.%d.%s.weight", prefix, e, part[i].hf);
            for (int k = 0; k < n; k++)
                assert_true(v[e * n + k] == hf_at(p, h, (size_t)k));
        }
    }
}

static void check_indexer(const pair *p, int block, const char *prefix)
{
    char g[80], h[160];
    snprintf(h, sizeof h, "%sself_attn.indexer.index_qk_proj.weight", prefix);
    snprintf(g, sizeof g, "blk.%d.indexer.q_proj.weight", block);
    const float *q = gguf_values(p, g, 32, H);
    snprintf(g, sizeof g, "blk.%d.indexer.k_proj.weight", block);
    const float *k = gguf_values(p, g, 16, H);
    for (int i = 0; i < 32 * H; i++)
        assert_true(q[i] == hf_at(p, h, (size_t)i));
    for (int i = 0; i < 16 * H; i++)
        assert_true(k[i] == hf_at(p, h, (size_t)(32 * H + i)));
    LIST(p, block, prefix, indexer);
}

static void check_trunk_layers(const pair *p, bool wide, bool moe)
{
    for (int i = 0; i < N_LAYER; i++) {
        char prefix[40];
        snprintf(prefix, sizeof prefix, "model.layers.%d.", i);
        if (i == 3)
            LIST(p, i, prefix, attention);
        else
            check_delta_net(p, i);
        if (wide && i == 3)
            check_indexer(p, i, prefix);
        if (wide)
            LIST(p, i, prefix, mixers);
        else
            LIST(p, i, prefix, narrow);
        if (moe) {
            LIST(p, i, prefix, experts);
            check_experts(p, i, prefix);
        } else {
            LIST(p, i, prefix, dense);
        }
    }
}

static int64_t int_key(const pair *p, const char *key)
{
    int64_t v = -1;
    ft_error err = {0};
    if (gguf_get_int(p->g, key, INT64_MIN, INT64_MAX, &v, &err) != FT_OK)
        fail_msg("%s", err.msg);
    return v;
}

static void check_common_keys(const pair *p, const char *arch)
{
    static const struct {
        const char *key;
        int64_t want;
    } keys[] = {{"block_count", 5},
                {"nextn_predict_layers", 1},
                {"context_length", 1024},
                {"embedding_length", H},
                {"vocab_size", 320},
                {"attention.head_count", 2},
                {"attention.head_count_kv", 1},
                {"attention.key_length", 32},
                {"attention.value_length", 32},
                {"rope.dimension_count", 16}, /* rope_parameters' 0.5, not the outer 0.25 */
                {"full_attention_interval", 4},
                {"ssm.conv_kernel", 4},
                {"ssm.state_size", D_STATE},
                {"ssm.group_count", N_KEY},
                {"ssm.time_step_rank", N_VAL},
                {"ssm.inner_size", N_VAL * D_STATE}};
    char key[96];
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        snprintf(key, sizeof key, "%s.%s", arch, keys[i].key);
        if (int_key(p, key) != keys[i].want)
            fail_msg("%s is %lld", key, (long long)int_key(p, key));
    }
    double base = 0;
    snprintf(key, sizeof key, "%s.rope.freq_base", arch);
    assert_int_equal(gguf_get_float(p->g, key, 0, 1e9, &base, NULL), FT_OK);
    assert_true(base == 10000.0);
    assert_int_equal(int_key(p, "general.file_type"), 0);
    assert_int_equal(int_key(p, "tokenizer.ggml.eos_token_id"), 319);
    assert_null(gguf_kv_find(p->g, "tokenizer.ggml.model"));
    assert_null(gguf_kv_find(p->g, "tokenizer.ggml.tokens"));
    snprintf(key, sizeof key, "%s.attention.recurrent_layers", arch);
    assert_null(gguf_kv_find(p->g, key)); /* the layers follow the interval */
}

static void check_ends(const pair *p)
{
    check_same(p, "token_embd.weight", "model.embed_tokens.weight", 320, H, SAME);
    check_same(p, "output.weight", "lm_head.weight", 320, H, SAME);
}

/* Bug: a wrong name, order, gamma or head place in the dense family. */
static void test_golden_qwen35_values_are_in_place(void **state)
{
    (void)state;
    pair p;
    open_pair(&p, "tiny-qwen35");
    check_common_keys(&p, "qwen35");
    assert_int_equal(int_key(&p, "qwen35.feed_forward_length"), 96);
    check_ends(&p);
    check_same(&p, "output_norm.weight", "model.norm.weight", 1, H, PLUS_1);
    check_trunk_layers(&p, false, false);
    LIST(&p, 4, "mtp.layers.0.", attention);
    LIST(&p, 4, "mtp.layers.0.", narrow);
    LIST(&p, 4, "mtp.layers.0.", dense);
    check_same(&p, "blk.4.nextn.eh_proj.weight", "mtp.fc.weight", H, 2 * H, SAME);
    check_same(&p, "blk.4.nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight", 1, H, PLUS_1);
    check_same(&p, "blk.4.nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight", 1, H, PLUS_1);
    check_same(&p, "blk.4.nextn.shared_head_norm.weight", "mtp.norm.weight", 1, H, PLUS_1);
    assert_int_equal(gguf_n_tensor(p.g), p.ck.n_tensor); /* one to one in this family */
    close_pair(&p);
}

/* Bug: the same for the mixture of experts. */
static void test_golden_qwen35moe_values_are_in_place(void **state)
{
    (void)state;
    pair p;
    open_pair(&p, "tiny-qwen35moe");
    check_common_keys(&p, "qwen35moe");
    assert_int_equal(int_key(&p, "qwen35moe.expert_count"), N_EXPERT);
    assert_int_equal(int_key(&p, "qwen35moe.expert_used_count"), 3);
    assert_int_equal(int_key(&p, "qwen35moe.expert_feed_forward_length"), FF_EXP);
    assert_int_equal(int_key(&p, "qwen35moe.expert_shared_feed_forward_length"), 32);
    check_ends(&p);
    check_trunk_layers(&p, false, true);
    LIST(&p, 4, "mtp.layers.0.", experts);
    check_experts(&p, 4, "mtp.layers.0.");
    close_pair(&p);
}

static void check_int_array(const pair *p, const char *key, const int64_t *want, size_t n)
{
    const gguf_kv *kv = gguf_kv_find(p->g, key);
    assert_non_null(kv);
    assert_int_equal(kv->n, n);
    for (size_t i = 0; i < n; i++) {
        int64_t v = -1;
        assert_int_equal(gguf_kv_int(kv, i, &v, NULL), FT_OK);
        assert_true(v == want[i]);
    }
}

static void check_ngram_constants(const pair *p, const char *key, const char *hf, size_t n)
{
    char name[160];
    int64_t want[8];
    snprintf(name, sizeof name, "model.layers.1.ple.ple_embedding.%s", hf);
    const ckpt_tensor *t = ckpt_find(&p->ck, name);
    assert_non_null(t);
    memcpy(want, t->t->data, n * 8);
    check_int_array(p, key, want, n);
}

static void check_ple(const pair *p)
{
    static const same ple[] = {
        {"ple_key.weight", "ple.key_proj.weight", 2 * H, 64, SAME},
        {"ple_value.weight", "ple.value_proj.weight", H, 64, SAME},
        {"ple_norm_key.weight", "ple.norm_key.weight", 1, 2 * H, PLUS_1},
        {"ple_norm_query.weight", "ple.norm_query.weight", 1, 2 * H, PLUS_1},
        {"ple_norm_conv.weight", "ple.norm_conv.weight", 1, 2 * H, PLUS_1},
        {"ple_conv1d.weight", "ple.conv1d.weight", 2 * H, 4, SAME},
    };
    LIST(p, 1, "model.layers.1.", ple);
    const float *table = gguf_values(p, "per_layer_token_embd.weight", 512, 16);
    for (int i = 0; i < 512 * 16; i++) {
        char h[160];
        snprintf(h, sizeof h, "model.layers.1.ple.ple_embedding.ngram_embedding.shard_%d.weight",
                 i / (128 * 16));
        assert_true(table[i] == hf_at(p, h, (size_t)(i % (128 * 16))));
    }
    check_int_array(p, "qwen4exp.ple.layers", (int64_t[]){1}, 1); /* the checkpoint says 2 */
    check_ngram_constants(p, "qwen4exp.ple.layer_multipliers", "layer_multipliers", 3);
    check_ngram_constants(p, "qwen4exp.ple.head_offsets", "ngram_heads_offsets", 4);
    check_ngram_constants(p, "qwen4exp.ple.head_vocab_sizes", "ngram_heads_vocab_sizes", 4);
    assert_int_equal(int_key(p, "qwen4exp.ple.ngram_size"), 3);
    assert_int_equal(int_key(p, "qwen4exp.ple.heads_per_ngram"), 2);
    assert_int_equal(int_key(p, "qwen4exp.ple.conv_kernel"), 4);
    assert_int_equal(int_key(p, "qwen4exp.ple.eos_token_id"), 319);
}

static void check_wide_draft_head(const pair *p)
{
    LIST(p, 4, "mtp.layers.0.", attention);
    LIST(p, 4, "mtp.layers.0.", mixers);
    LIST(p, 4, "mtp.layers.0.", experts);
    check_experts(p, 4, "mtp.layers.0.");
    check_indexer(p, 4, "mtp.layers.0.");
    const float *eh = gguf_values(p, "blk.4.nextn.eh_proj.weight", H, 2 * H);
    for (int row = 0; row < H; row++)
        for (int i = 0; i < H; i++) {
            size_t from = (size_t)(row * H + i);
            assert_true(eh[row * 2 * H + i] == hf_at(p, "mtp.fc_embedding.weight", from));
            assert_true(eh[row * 2 * H + H + i] == hf_at(p, "mtp.fc_hidden.weight", from));
        }
    static const same ends[] = {
        {"nextn.enorm.weight", "pre_fc_norm_embedding.weight", 1, H, PLUS_1},
        {"nextn.hnorm.weight", "pre_fc_norm_hidden.weight", 1, 2 * H, PLUS_1},
        {"nextn.hc_head_norm.weight", "hyper_connection_mixer.hc_norm.weight", 1, 2 * H, PLUS_1},
        {"nextn.hc_head_down.weight", "hyper_connection_mixer.input_mix_weight_down.weight", 8,
         2 * H, SAME},
        {"nextn.hc_head_up.weight", "hyper_connection_mixer.input_mix_weight_up.weight", 2 * H, 8,
         SAME},
    };
    LIST(p, 4, "mtp.", ends);
}

/* Bug: the same for hyper-connections, the indexer, the n-gram table and the wide draft head. */
static void test_golden_qwen4exp_values_are_in_place(void **state)
{
    (void)state;
    pair p;
    open_pair(&p, "tiny-qwen4exp");
    check_common_keys(&p, "qwen4exp");
    assert_int_equal(int_key(&p, "qwen4exp.hyper_connection.count"), 2);
    assert_int_equal(int_key(&p, "qwen4exp.attention.indexer.head_count"), 2);
    assert_int_equal(int_key(&p, "qwen4exp.attention.indexer.key_length"), 16);
    assert_int_equal(int_key(&p, "qwen4exp.attention.indexer.top_k"), 16);
    check_int_array(&p, "qwen4exp.attention.compress_ratios", (int64_t[]){0, 0, 0, 4, 0}, 5);
    check_ends(&p);
    const char *mixer = "model.hyper_connection_mixer.";
    char h[120];
    snprintf(h, sizeof h, "%shc_norm.weight", mixer);
    check_same(&p, "output_hc_norm.weight", h, 1, 2 * H, PLUS_1);
    snprintf(h, sizeof h, "%sinput_mix_weight_down.weight", mixer);
    check_same(&p, "output_hc_down.weight", h, 8, 2 * H, SAME);
    snprintf(h, sizeof h, "%sinput_mix_weight_up.weight", mixer);
    check_same(&p, "output_hc_up.weight", h, 2 * H, 8, SAME);
    check_trunk_layers(&p, true, true);
    check_ple(&p);
    check_wide_draft_head(&p);
    close_pair(&p);
}

/* Bug: fused experts with the halves swapped, a whole n-gram table read otherwise than its shards. */
static void test_golden_fused_names_give_the_same_tensors(void **state)
{
    (void)state;
    static const char *const models[] = {"tiny-qwen35moe", "tiny-qwen4exp"};
    for (size_t m = 0; m < ARRAY_LEN(models); m++) {
        char dir[256], fused[256], a_path[TEST_PATH_MAX], b_path[TEST_PATH_MAX];
        snprintf(dir, sizeof dir, GOLDEN "%s", models[m]);
        snprintf(fused, sizeof fused, GOLDEN "%s/fused", models[m]);
        convert_to(dir, test_path(a_path, "split.gguf"), "q8_0");
        convert_to(fused, test_path(b_path, "fused.gguf"), "q8_0");
        gguf_file *a, *b;
        assert_int_equal(gguf_open(&a, a_path, NULL), FT_OK);
        assert_int_equal(gguf_open(&b, b_path, NULL), FT_OK);
        assert_int_equal(gguf_n_tensor(a), gguf_n_tensor(b));
        for (size_t i = 0; i < gguf_n_tensor(a); i++) {
            const gguf_tensor *x = gguf_tensor_at(a, i), *y = gguf_tensor_at(b, i);
            assert_string_equal(x->t.name, y->t.name);
            assert_int_equal(x->t.type, y->t.type);
            assert_int_equal(tensor_bytes(&x->t), tensor_bytes(&y->t));
            assert_memory_equal(x->t.data, y->t.data, tensor_bytes(&x->t));
        }
        gguf_close(a);
        gguf_close(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_qwen35_values_are_in_place),
        cmocka_unit_test(test_golden_qwen35moe_values_are_in_place),
        cmocka_unit_test(test_golden_qwen4exp_values_are_in_place),
        cmocka_unit_test(test_golden_fused_names_give_the_same_tensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
