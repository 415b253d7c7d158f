/* meta.c - see meta.h. Keys: docs/models.md and the GGUF specification. */
#include "convert/meta.h"

#include <stdio.h>
#include <string.h>

#include "convert/types.h"

typedef struct {
    gguf_writer *w;
    const char *arch; /* prefix of the keys */
} meta;

enum { MAX_KEY = 64 };

static const char *key_of(char key[MAX_KEY], const meta *m, const char *name)
{
    snprintf(key, MAX_KEY, "%s.%s", m->arch, name);
    return key;
}

static void put_u32(const meta *m, const char *name, int64_t v)
{
    char key[MAX_KEY];
    gguf_put_int(m->w, key_of(key, m, name), GGUF_U32, v);
}

static void put_f32(const meta *m, const char *name, double v)
{
    char key[MAX_KEY];
    gguf_put_f32(m->w, key_of(key, m, name), (float)v);
}

static void put_i32_array(const meta *m, const char *name, const int32_t *v, size_t n)
{
    char key[MAX_KEY];
    gguf_put_array(m->w, key_of(key, m, name), GGUF_I32, v, n);
}

/* The values of an I64 tensor, as u64. */
static void put_u64_array(const meta *m, const char *name, const st_tensor *t)
{
    uint64_t v[128];
    char key[MAX_KEY];
    size_t n = t->n < ARRAY_LEN(v) ? (size_t)t->n : ARRAY_LEN(v); /* hf_config: at most 128 heads */
    for (size_t i = 0; i < n; i++)
        v[i] = (uint64_t)plan_i64(t, i);
    gguf_put_array(m->w, key_of(key, m, name), GGUF_U64, v, n);
}

/* The draft head's block is full attention. */
static void put_layer_kinds(const meta *m, const hf_config *c)
{
    uint8_t recurrent[HF_MAX_LAYER] = {0};
    char key[MAX_KEY];
    put_u32(m, "full_attention_interval", c->interval);
    if (c->regular)
        return;
    for (int i = 0; i < c->n_layer; i++)
        recurrent[i] = !c->is_attn[i];
    gguf_put_array(m->w, key_of(key, m, "attention.recurrent_layers"), GGUF_BOOL, recurrent,
                   (size_t)(c->n_layer + c->n_mtp));
}

static void put_attention(const meta *m, const hf_config *c)
{
    put_u32(m, "attention.head_count", c->n_head);
    put_u32(m, "attention.head_count_kv", c->n_head_kv);
    put_u32(m, "attention.key_length", c->d_head);
    put_u32(m, "attention.value_length", c->d_head);
    put_f32(m, "attention.layer_norm_rms_epsilon", c->eps);
    put_f32(m, "rope.freq_base", c->rope_base);
    put_u32(m, "rope.dimension_count", c->n_rot);
    if (c->has_sections) {
        const int *s = c->rope_section;
        put_i32_array(m, "rope.dimension_sections", (int32_t[]){s[0], s[1], s[2], 0}, 4);
    }
}

static void put_delta_net(const meta *m, const hf_config *c)
{
    put_u32(m, "ssm.conv_kernel", c->n_conv);
    put_u32(m, "ssm.state_size", c->d_state);
    put_u32(m, "ssm.group_count", c->n_key_head);
    put_u32(m, "ssm.time_step_rank", c->n_val_head);
    put_u32(m, "ssm.inner_size", (int64_t)c->n_val_head * c->d_state);
}

static void put_ffn(const meta *m, const hf_config *c)
{
    if (c->n_expert == 0) {
        put_u32(m, "feed_forward_length", c->n_ff);
        return;
    }
    put_u32(m, "expert_count", c->n_expert);
    put_u32(m, "expert_used_count", c->n_expert_used);
    put_u32(m, "expert_feed_forward_length", c->n_ff_exp);
    put_u32(m, "expert_shared_feed_forward_length", c->n_ff_sh);
}

static void put_qwen4exp(const meta *m, const plan *p)
{
    const hf_config *c = &p->cfg;
    int32_t ratio[HF_MAX_LAYER] = {0};
    for (int i = 0; i < c->n_layer; i++)
        ratio[i] = c->is_attn[i] ? c->idx_ratio : 0;
    put_u32(m, "hyper_connection.count", c->n_hc);
    put_u32(m, "hyper_connection.low_rank", c->hc_rank);
    put_i32_array(m, "attention.compress_ratios", ratio, (size_t)(c->n_layer + c->n_mtp));
    put_u32(m, "attention.indexer.head_count", c->n_idx_head);
    put_u32(m, "attention.indexer.key_length", c->d_idx);
    put_u32(m, "attention.indexer.top_k", c->idx_budget);
    if (c->ple_layer < 0)
        return;
    put_i32_array(m, "ple.layers", (int32_t[]){c->ple_layer}, 1);
    put_u32(m, "ple.ngram_size", c->ple_ngram);
    put_u32(m, "ple.heads_per_ngram", c->ple_heads);
    put_u32(m, "ple.conv_kernel", c->ple_conv);
    put_u32(m, "ple.eos_token_id", c->eos);
    put_u32(m, "embedding_length_per_layer_input", c->ple_dim);
    put_u64_array(m, "ple.layer_multipliers", p->ple_mult);
    put_u64_array(m, "ple.head_offsets", p->ple_offset);
    put_u64_array(m, "ple.head_vocab_sizes", p->ple_vocab);
}

void meta_put(gguf_writer *w, const plan *p, const char *name, dtype matrices)
{
    const hf_config *c = &p->cfg;
    const meta m = {.w = w, .arch = hf_arch_name(c->arch)};
    gguf_put_str(w, "general.architecture", m.arch, strlen(m.arch));
    gguf_put_str(w, "general.name", name, strlen(name));
    gguf_put_int(w, "general.file_type", GGUF_U32, types_file_type(matrices));
    gguf_put_int(w, "general.quantization_version", GGUF_U32, 2);
    put_u32(&m, "block_count", c->n_layer + c->n_mtp);
    put_u32(&m, "nextn_predict_layers", c->n_mtp);
    put_u32(&m, "context_length", c->n_ctx);
    put_u32(&m, "embedding_length", c->n_embd);
    put_u32(&m, "vocab_size", c->n_vocab);
    put_layer_kinds(&m, c);
    put_attention(&m, c);
    put_delta_net(&m, c);
    put_ffn(&m, c);
    if (c->arch == HF_QWEN4EXP)
        put_qwen4exp(&m, p);
}
