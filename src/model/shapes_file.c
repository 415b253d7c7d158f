/* shapes_file.c - a shape's metadata and tensors for the writer of GGUF files. The keys are those
 * that hparams.c reads. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "model/shapes.h"

#define KEY_MAX 96

typedef struct {
    gguf_writer *w;
    const shape *s;
} keys;

static const char *full_key(const keys *k, char out[KEY_MAX], const char *name)
{
    snprintf(out, KEY_MAX, "%s.%s", model_arch_name(k->s->m.h.arch), name);
    return out;
}

static void put_int(const keys *k, const char *name, int v)
{
    char key[KEY_MAX];
    gguf_put_int(k->w, full_key(k, key, name), GGUF_U32, v);
}

static void put_f32(const keys *k, const char *name, double v)
{
    char key[KEY_MAX];
    gguf_put_f32(k->w, full_key(k, key, name), (float)v);
}

static void put_array(const keys *k, const char *name, gguf_type elem, const void *v, int n)
{
    char key[KEY_MAX];
    gguf_put_array(k->w, full_key(k, key, name), elem, v, (size_t)n);
}

static void put_common(const keys *k)
{
    const model_hparams *h = &k->s->m.h;
    put_int(k, "block_count", h->n_layer + 1);
    put_int(k, "nextn_predict_layers", 1);
    put_int(k, "context_length", h->n_ctx_train);
    put_int(k, "embedding_length", h->n_embd);
    put_int(k, "vocab_size", h->n_vocab);
    put_int(k, "attention.head_count", h->n_head);
    put_int(k, "attention.head_count_kv", h->n_head_kv);
    put_int(k, "attention.key_length", h->d_head);
    put_int(k, "attention.value_length", h->d_head);
    put_f32(k, "attention.layer_norm_rms_epsilon", (double)h->eps);
    put_int(k, "full_attention_interval", 4);
    put_f32(k, "rope.freq_base", h->rope_base);
    put_int(k, "rope.dimension_count", h->n_rot);
    put_int(k, "ssm.conv_kernel", h->n_conv);
    put_int(k, "ssm.state_size", h->d_state);
    put_int(k, "ssm.group_count", h->n_key_head);
    put_int(k, "ssm.time_step_rank", h->n_val_head);
    put_int(k, "ssm.inner_size", h->n_val_head * h->d_state);
}

static void put_ffn(const keys *k)
{
    const model_hparams *h = &k->s->m.h;
    if (h->n_expert == 0) {
        put_int(k, "feed_forward_length", h->n_ff);
        return;
    }
    put_int(k, "expert_count", h->n_expert);
    put_int(k, "expert_used_count", h->n_expert_used);
    put_int(k, "expert_feed_forward_length", h->n_ff_exp);
    put_int(k, "expert_shared_feed_forward_length", h->n_ff_shexp);
}

/* Tokens per block for each block of the file, the draft head's included. */
static void put_ratios(const keys *k)
{
    int32_t ratio[MODEL_MAX_LAYER + 1] = {0};
    const model_hparams *h = &k->s->m.h;
    assert(h->n_layer <= MODEL_MAX_LAYER);
    for (int i = 0; i <= h->n_layer; i++)
        if (i == h->n_layer || k->s->m.layer[i].is_attn)
            ratio[i] = k->s->info->ratio;
    put_array(k, "attention.compress_ratios", GGUF_I32, ratio, h->n_layer + 1);
    if (k->s->info->ratio == 0)
        return;
    put_int(k, "attention.indexer.head_count", h->n_idx_head);
    put_int(k, "attention.indexer.key_length", h->d_idx);
    put_int(k, "attention.indexer.top_k", h->idx_top_k);
}

static void put_ngrams(const keys *k)
{
    /* Odd, large, all different; see shapes.h. */
    static const uint64_t mult[MODEL_MAX_NGRAM] = {
        0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u, 0xd6e8feb86659fd93u,
        0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu, 0x8ebc6af09c88c6e3u, 0x589965cc75374cc3u,
    };
    const model_hparams *h = &k->s->m.h;
    const model_ple *p = &k->s->m.ple;
    int32_t layer = h->ple_layer;
    int n_head = (h->ple_ngram - 1) * h->ple_heads;
    put_array(k, "ple.layers", GGUF_I32, &layer, 1);
    put_int(k, "ple.ngram_size", h->ple_ngram);
    put_int(k, "ple.heads_per_ngram", h->ple_heads);
    put_int(k, "ple.conv_kernel", h->ple_conv);
    put_int(k, "ple.eos_token_id", h->ple_eos);
    put_array(k, "ple.layer_multipliers", GGUF_U64, mult, h->ple_ngram);
    put_array(k, "ple.head_vocab_sizes", GGUF_I64, p->head_vocab, n_head);
    put_array(k, "ple.head_offsets", GGUF_I64, p->head_off, n_head);
}

void shape_put_metadata(gguf_writer *w, const shape *s)
{
    const keys k = {.w = w, .s = s};
    const char *arch = model_arch_name(s->m.h.arch);
    gguf_put_str(w, "general.architecture", arch, strlen(arch));
    put_common(&k);
    put_ffn(&k);
    if (s->m.h.arch != MODEL_QWEN4EXP)
        return;
    put_int(&k, "hyper_connection.count", s->m.h.n_hc);
    put_ratios(&k);
    if (s->m.h.ple_layer >= 0)
        put_ngrams(&k);
}

void shape_declare(gguf_writer *w, const shape *s)
{
    for (int i = 0; i < s->n_tensor; i++) {
        const shape_tensor *t = &s->tensor[i];
        uint64_t dim[3];
        for (int j = 0; j < t->n_dim; j++)
            dim[j] = (uint64_t)t->dim[t->n_dim - 1 - j];
        gguf_declare(w, t->name, t->type, t->n_dim, dim);
    }
}
