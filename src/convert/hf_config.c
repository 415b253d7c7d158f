/* hf_config.c - see hf_config.h. */
#include "convert/hf_config.h"

#include <string.h>

#include "convert/json.h"

/* Upper ends of ranges: far above any model of these families, and small enough that products of
 * four of them fit in 63 bits. */
enum {
    MAX_WIDTH = 1 << 20,
    MAX_HEADS = 1 << 12,
    MAX_HEAD_DIM = 1 << 12,
    MAX_VOCAB = 1 << 24,
    MAX_EXPERTS = 1 << 14,
    MAX_CTX = 1 << 28,
    MAX_NGRAM = 8,
    MAX_NGRAM_HEADS = 128,
};

const char *hf_arch_name(hf_arch a)
{
    static const char *const name[] = {"qwen35", "qwen35moe", "qwen4exp"};
    return name[a];
}

static ft_status read_arch(hf_config *c, const char *type, ft_error *err)
{
    static const struct {
        const char *text, *multimodal;
        hf_arch arch;
    } known[] = {{"qwen3_5_text", "qwen3_5", HF_QWEN35},
                 {"qwen3_5_moe_text", "qwen3_5_moe", HF_QWEN35MOE},
                 {"qwen4_exp_text", "qwen4_exp", HF_QWEN4EXP}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (type && (strcmp(type, known[i].text) == 0 || strcmp(type, known[i].multimodal) == 0)) {
            c->arch = known[i].arch;
            return FT_OK;
        }
    }
    return err_set(err, FT_UNSUPPORTED,
                   "config.json: model_type '%.60s', want qwen3_5_text, qwen3_5_moe_text or "
                   "qwen4_exp_text (or a multimodal one with text_config)",
                   type ? type : "(none)");
}

/* A switch that has to stand at the one value that the engine computes. */
static void want_bool(js_reader *r, const char *key, bool want)
{
    if (js_bool_or(r, key, want) != want)
        js_fail(r, FT_UNSUPPORTED, "'%s' is %s, want %s", key, want ? "false" : "true",
                want ? "true" : "false");
}

static void want_str(js_reader *r, const char *key, const char *want)
{
    const char *s = js_str_or_null(r, key);
    if (s && strcmp(s, want) != 0)
        js_fail(r, FT_UNSUPPORTED, "'%s' is '%.40s', want '%s'", key, s, want);
}

static void want_multiple(js_reader *r, const char *key, int v, const char *of, int d)
{
    if (d > 0 && v % d != 0)
        js_fail(r, FT_FORMAT, "'%s' is %d, want a multiple of '%s', %d", key, v, of, d);
}

static void read_sections(hf_config *c, js_reader *r)
{
    const json_t *v = js_field(r, "mrope_section");
    if (!v)
        return;
    if (json_array_size(v) != ARRAY_LEN(c->rope_section)) {
        js_fail(r, FT_FORMAT, "'mrope_section' is no array of 3 integers");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(c->rope_section); i++) {
        const json_t *x = json_array_get(v, i);
        if (!json_is_integer(x) || json_integer_value(x) < 0 ||
            json_integer_value(x) > MAX_HEAD_DIM)
            js_fail(r, FT_FORMAT, "mrope_section[%zu] is no integer from 0 to %d", i, MAX_HEAD_DIM);
        c->rope_section[i] = (int)json_integer_value(x);
    }
    c->has_sections = true;
}

/* rope_parameters, or the same fields at the top of older files. */
static void read_rope(hf_config *c, js_reader *r)
{
    js_reader rope = *r;
    rope.obj = js_field(r, "rope_parameters");
    rope.next = r->obj;
    want_str(&rope, "rope_type", "default");
    c->rope_base = js_num_or(&rope, "rope_theta", 1.0, 1e12, 1e4);
    double part = js_num_or(&rope, "partial_rotary_factor", 0.0, 1.0, 0.25);
    c->n_rot = (int)(c->d_head * part);
    if (c->n_rot < 2 || c->n_rot % 2 != 0)
        js_fail(&rope, FT_UNSUPPORTED,
                "'partial_rotary_factor' %g of %d gives %d rotated values, want an even number > 0",
                part, c->d_head, c->n_rot);
    read_sections(c, &rope);
    r->st = rope.st;
}

static void read_attention(hf_config *c, js_reader *r)
{
    c->n_head = (int)js_int(r, "num_attention_heads", 1, MAX_HEADS);
    c->n_head_kv = (int)js_int(r, "num_key_value_heads", 1, MAX_HEADS);
    want_multiple(r, "num_attention_heads", c->n_head, "num_key_value_heads", c->n_head_kv);
    c->d_head = (int)js_int(r, "head_dim", 2, MAX_HEAD_DIM);
    want_bool(r, "attention_bias", false);
    want_bool(r, "attn_output_gate", true);
    read_rope(c, r);
}

static void read_delta_net(hf_config *c, js_reader *r)
{
    c->n_key_head = (int)js_int(r, "linear_num_key_heads", 1, MAX_HEADS);
    c->n_val_head = (int)js_int(r, "linear_num_value_heads", 1, MAX_HEADS);
    want_multiple(r, "linear_num_value_heads", c->n_val_head, "linear_num_key_heads",
                  c->n_key_head);
    c->d_state = (int)js_int(r, "linear_key_head_dim", 1, MAX_HEAD_DIM);
    int d_value = (int)js_int(r, "linear_value_head_dim", 1, MAX_HEAD_DIM);
    if (d_value != c->d_state)
        js_fail(r, FT_UNSUPPORTED,
                "'linear_value_head_dim' is %d, want that of linear_key_head_dim, %d", d_value,
                c->d_state);
    c->n_conv = (int)js_int(r, "linear_conv_kernel_dim", 2, 64);
}

static void read_layer_types(hf_config *c, js_reader *r, const json_t *types)
{
    if (json_array_size(types) != (size_t)c->n_layer) {
        js_fail(r, FT_FORMAT, "'layer_types' has %zu entries, want one per layer, %d",
                json_array_size(types), c->n_layer);
        return;
    }
    for (int i = 0; i < c->n_layer; i++) {
        const char *s = json_string_value(json_array_get(types, (size_t)i));
        bool is_attn =
            s && (strcmp(s, "full_attention") == 0 || strcmp(s, "qwen_sparse_attention") == 0);
        if (!is_attn && (!s || strcmp(s, "linear_attention") != 0)) {
            js_fail(r, FT_UNSUPPORTED,
                    "layer_types[%d] is '%.40s', want linear_attention, full_attention or "
                    "qwen_sparse_attention",
                    i, s ? s : "(no string)");
            return;
        }
        c->is_attn[i] = is_attn;
    }
}

/* The kinds of the layers, from layer_types or from the interval alone. */
static void read_layers(hf_config *c, js_reader *r)
{
    c->n_layer = (int)js_int(r, "num_hidden_layers", 1, HF_MAX_LAYER - 1);
    const json_t *types = js_field(r, "layer_types");
    if (types)
        read_layer_types(c, r, types);
    int first = 0;
    while (first < c->n_layer && !c->is_attn[first])
        first++;
    int dflt = types && first < c->n_layer ? first + 1 : 4;
    c->interval = (int)js_int_or(r, "full_attention_interval", 1, HF_MAX_LAYER, dflt);
    c->regular = true;
    for (int i = 0; i < c->n_layer; i++) {
        bool want = (i + 1) % c->interval == 0;
        if (!types)
            c->is_attn[i] = want;
        else if (c->is_attn[i] != want)
            c->regular = false;
    }
}

static void read_experts(hf_config *c, js_reader *r)
{
    c->n_expert = (int)js_int(r, "num_experts", 1, MAX_EXPERTS);
    c->n_expert_used = (int)js_int(r, "num_experts_per_tok", 1, c->n_expert);
    c->n_ff_exp = (int)js_int(r, "moe_intermediate_size", 1, MAX_WIDTH);
    c->n_ff_sh = (int)js_int(r, "shared_expert_intermediate_size", 1, MAX_WIDTH);
    want_bool(r, "norm_topk_prob", true);
}

static void read_ple(hf_config *c, js_reader *r)
{
    const json_t *ids = js_field(r, "ple_layer_ids");
    if (!ids || json_array_size(ids) == 0)
        return;
    json_int_t id = json_integer_value(json_array_get(ids, 0));
    if (json_array_size(ids) != 1 || id < 1 || id > c->n_layer) {
        js_fail(r, FT_UNSUPPORTED, "'ple_layer_ids' has %zu entries, want one from 1 to %d",
                json_array_size(ids), c->n_layer);
        return;
    }
    c->ple_layer = (int)id - 1;
    c->ple_ngram = (int)js_int(r, "ngram_size", 2, MAX_NGRAM);
    c->ple_heads = (int)js_int(r, "heads_per_ngram", 1, MAX_NGRAM_HEADS / (c->ple_ngram - 1));
    c->ple_conv = (int)js_int(r, "ple_conv_kernel_size", 2, 64);
    int width = (int)js_int(r, "ple_embed_dim", 1, MAX_WIDTH);
    want_multiple(r, "ple_embed_dim", width, "heads of all n-grams", hf_ple_heads(c));
    c->ple_dim = width / hf_ple_heads(c);
}

static void read_qwen4exp(hf_config *c, js_reader *r)
{
    c->n_hc = (int)js_int(r, "hc_count", 2, 64);
    c->hc_rank = (int)js_int(r, "hc_lowrank", 1, MAX_WIDTH);
    c->n_idx_head = (int)js_int(r, "indexer_n_heads", 1, MAX_HEADS);
    if (js_int_or(r, "indexer_kv_heads", 1, MAX_HEADS, 1) != 1)
        js_fail(r, FT_UNSUPPORTED, "'indexer_kv_heads' is more than 1, want 1");
    c->d_idx = (int)js_int(r, "indexer_head_dim", 2, MAX_HEAD_DIM);
    if (c->n_rot > c->d_idx)
        js_fail(r, FT_UNSUPPORTED, "'indexer_head_dim' is %d, want at least the rotated values, %d",
                c->d_idx, c->n_rot);
    c->idx_budget = (int)js_int(r, "indexer_budget", 1, MAX_CTX);
    c->idx_ratio = (int)js_int(r, "indexer_compress_ratio", 1, MAX_CTX);
    want_multiple(r, "indexer_budget", c->idx_budget, "indexer_compress_ratio", c->idx_ratio);
    want_str(r, "output_gate_type", "sigmoid");
    read_ple(c, r);
}

ft_status hf_token_ids(int *ids, int *n, const json_t *v, const char *file, const char *key,
                       int n_vocab, ft_error *err)
{
    *n = 0;
    if (!v || json_is_null(v))
        return FT_OK;
    size_t n_id = json_is_array(v) ? json_array_size(v) : 1;
    if (n_id > HF_MAX_EOS)
        return err_set(err, FT_FORMAT, "%s: '%s' has %zu ids, want at most %d", file, key, n_id,
                       HF_MAX_EOS);
    for (size_t i = 0; i < n_id; i++) {
        const json_t *x = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_integer(x) || json_integer_value(x) < 0 || json_integer_value(x) >= n_vocab)
            return err_set(err, FT_FORMAT, "%s: '%s' is no token id below %d (nor a list of them)",
                           file, key, n_vocab);
        ids[(*n)++] = (int)json_integer_value(x);
    }
    return FT_OK;
}

/* The first id of a field of config.json; -1: none. */
static int first_id(const hf_config *c, js_reader *r, const char *key)
{
    int ids[HF_MAX_EOS], n;
    ft_status st = hf_token_ids(ids, &n, js_field(r, key), r->file, key, c->n_vocab, r->err);
    if (r->st == FT_OK)
        r->st = st;
    return n > 0 ? ids[0] : -1;
}

ft_status hf_config_parse(hf_config *c, json_t *root, ft_error *err)
{
    *c = (hf_config){.n_hc = 1, .ple_layer = -1, .n_mtp = -1};
    const json_t *text = json_object_get(root, "text_config");
    js_reader r = {.file = "config.json",
                   .obj = json_is_object(text) ? text : root,
                   .next = json_is_object(text) ? root : NULL,
                   .err = err};
    if (!json_is_object(root))
        return err_set(err, FT_FORMAT, "config.json: no JSON object");
    const char *type = json_string_value(js_field(&r, "model_type"));
    TRY(read_arch(c, type, err));

    c->n_embd = (int)js_int(&r, "hidden_size", 1, MAX_WIDTH);
    c->n_vocab = (int)js_int(&r, "vocab_size", 1, MAX_VOCAB);
    c->n_ctx = (int)js_int(&r, "max_position_embeddings", 1, MAX_CTX);
    c->eps = js_num_or(&r, "rms_norm_eps", 1e-12, 1.0, 1e-6);
    c->tied = js_bool_or(&r, "tie_word_embeddings", false);
    want_str(&r, "hidden_act", "silu");
    read_layers(c, &r);
    read_attention(c, &r);
    read_delta_net(c, &r);
    if (c->arch == HF_QWEN35)
        c->n_ff = (int)js_int(&r, "intermediate_size", 1, MAX_WIDTH);
    else
        read_experts(c, &r);
    if (c->arch == HF_QWEN4EXP)
        read_qwen4exp(c, &r);
    c->n_mtp = (int)js_int_or(&r, "mtp_num_hidden_layers", 0, 1, -1);
    c->eos = first_id(c, &r, "eos_token_id");
    c->bos = first_id(c, &r, "bos_token_id");
    c->pad = first_id(c, &r, "pad_token_id");
    if (c->ple_layer >= 0 && c->eos < 0)
        js_fail(&r, FT_FORMAT, "'eos_token_id' is missing, want the id that cuts n-grams");
    return r.st;
}
