/* tinymodel_meta.c - see tinymodel_meta.h. Keys follow docs/models.md. */
#include "tinymodel_meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BLOCK 64
#define N_SPECIAL 8

void tiny_check(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "tiny model: %s\n", what);
    abort();
}

/* ---- Keys ---------------------------------------------------------------------------------- */

typedef struct {
    gguf_writer *w;
    const tiny_opts *o;
    char key[96];
} keys;

/* The key of this arch; NULL when the options leave it out. */
static const char *arch_key(keys *k, const char *name)
{
    snprintf(k->key, sizeof k->key, "%s.%s", model_arch_name(k->o->arch), name);
    return k->o->omit_key && strcmp(k->o->omit_key, k->key) == 0 ? NULL : k->key;
}

static void put_int(keys *k, const char *name, int64_t v)
{
    const char *key = arch_key(k, name);
    if (key)
        gguf_put_int(k->w, key, GGUF_U32, v);
}

static void put_f32(keys *k, const char *name, float v)
{
    const char *key = arch_key(k, name);
    if (key)
        gguf_put_f32(k->w, key, v);
}

static void put_array(keys *k, const char *name, gguf_type elem, const void *v, int n)
{
    const char *key = arch_key(k, name);
    if (key)
        gguf_put_array(k->w, key, elem, v, (size_t)n);
}

/* One value per block: n on attention blocks, other on the rest. */
static void put_per_block(keys *k, const char *name, int n, int other)
{
    int32_t v[MAX_BLOCK];
    int n_block = k->o->n_layer + k->o->n_mtp_told;
    tiny_check(n_block <= MAX_BLOCK, "too many blocks");
    for (int i = 0; i < n_block; i++)
        v[i] = i >= k->o->n_layer || (i + 1) % 4 == 0 ? n : other;
    put_array(k, name, GGUF_I32, v, n_block);
}

static void put_head_counts(keys *k)
{
    const tiny_opts *o = k->o;
    if (o->head_arrays) {
        put_per_block(k, "attention.head_count", o->n_head, o->n_head);
        put_per_block(k, "attention.head_count_kv", o->n_head_kv, 0);
    } else {
        put_int(k, "attention.head_count", o->n_head);
        put_int(k, "attention.head_count_kv", o->n_head_kv);
    }
}

static void put_layer_kinds(keys *k)
{
    uint8_t recurrent[MAX_BLOCK];
    const tiny_opts *o = k->o;
    if (!o->layer_array) {
        put_int(k, "full_attention_interval", 4);
        return;
    }
    int n_block = o->n_layer + o->n_mtp_told;
    for (int i = 0; i < n_block; i++)
        recurrent[i] = i < o->n_layer && (i + 1) % 4 != 0;
    put_array(k, "attention.recurrent_layers", GGUF_BOOL, recurrent, n_block);
}

static void put_common(keys *k)
{
    const tiny_opts *o = k->o;
    put_int(k, "block_count", o->n_layer + o->n_mtp_told);
    if (o->n_mtp_told)
        put_int(k, "nextn_predict_layers", o->n_mtp_told);
    put_int(k, "context_length", o->n_ctx);
    put_int(k, "embedding_length", o->n_embd);
    put_int(k, "vocab_size", o->n_vocab);
    put_head_counts(k);
    put_layer_kinds(k);
    put_int(k, "attention.key_length", o->d_head);
    put_int(k, "attention.value_length", o->d_head);
    put_f32(k, "attention.layer_norm_rms_epsilon", 1e-6f);
    put_f32(k, "rope.freq_base", 10000.0f);
    put_int(k, "rope.dimension_count", o->n_rot);
    put_int(k, "ssm.conv_kernel", o->n_conv);
    put_int(k, "ssm.state_size", o->d_state);
    put_int(k, "ssm.group_count", o->n_key_head);
    put_int(k, "ssm.time_step_rank", o->n_val_head);
    put_int(k, "ssm.inner_size", o->n_val_head * o->d_state);
}

/* The smallest prime above n. */
static int64_t next_prime(int64_t n)
{
    for (n++;; n++) {
        int64_t d = 2;
        while (d * d <= n && n % d != 0)
            d++;
        if (d * d > n)
            return n;
    }
}

/* Sizes and places of the n-gram heads in the table; returns their number. */
static int ple_heads(const tiny_opts *o, int64_t *vocab, int64_t *off)
{
    int n = (o->ple_ngram - 1) * o->ple_heads;
    tiny_check(n <= MODEL_MAX_NGRAM_HEADS, "too many n-gram heads");
    int64_t prime = 96, at = 0;
    for (int i = 0; i < n; i++) {
        prime = next_prime(prime);
        vocab[i] = prime;
        off[i] = at;
        at += prime;
    }
    off[n] = at;
    return n;
}

int tiny_ple_rows(const tiny_opts *o)
{
    int64_t vocab[MODEL_MAX_NGRAM_HEADS], off[MODEL_MAX_NGRAM_HEADS + 1];
    int n = ple_heads(o, vocab, off);
    return (int)((off[n] + 127) / 128 * 128);
}

static void put_ple(keys *k)
{
    static const uint64_t mult[MODEL_MAX_NGRAM] = {
        0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u, 0xd6e8feb86659fd93u,
        0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu, 0x8ebc6af09c88c6e3u, 0x589965cc75374cc3u,
    };
    const tiny_opts *o = k->o;
    int64_t vocab[MODEL_MAX_NGRAM_HEADS], off[MODEL_MAX_NGRAM_HEADS + 1];
    int n = ple_heads(o, vocab, off);
    int32_t layer = o->ple_layer;
    put_array(k, "ple.layers", GGUF_I32, &layer, 1);
    put_int(k, "ple.ngram_size", o->ple_ngram);
    put_int(k, "ple.heads_per_ngram", o->ple_heads);
    put_int(k, "ple.conv_kernel", o->ple_conv);
    put_int(k, "ple.eos_token_id", o->ple_eos);
    put_array(k, "ple.layer_multipliers", GGUF_U64, mult, o->ple_ngram);
    put_array(k, "ple.head_vocab_sizes", GGUF_I64, vocab, n);
    put_array(k, "ple.head_offsets", GGUF_I64, off, n);
}

static void put_family(keys *k)
{
    const tiny_opts *o = k->o;
    if (o->arch == MODEL_QWEN35) {
        put_int(k, "feed_forward_length", o->n_ff);
        return;
    }
    put_int(k, "expert_count", o->n_expert);
    put_int(k, "expert_used_count", o->n_expert_used);
    put_int(k, "expert_feed_forward_length", o->n_ff_exp);
    put_int(k, "expert_shared_feed_forward_length", o->n_ff_shexp);
    if (o->arch != MODEL_QWEN4EXP)
        return;
    put_int(k, "hyper_connection.count", o->n_hc);
    put_per_block(k, "attention.compress_ratios", o->ratio, 0);
    put_int(k, "attention.indexer.head_count", o->n_idx_head);
    put_int(k, "attention.indexer.key_length", o->d_idx);
    put_int(k, "attention.indexer.top_k", o->idx_top_k);
    if (o->ple_layer >= 0)
        put_ple(k);
}

/* ---- Tokenizer ----------------------------------------------------------------------------- */

/* Each makes one token; '_' stands for the byte-level sign of a space, U+0120. */
static const char *const merges[] = {
    "_ t",  "h e", "i n", "_ a",  "o n",  "r e",   "e r",  "_t he", "a t",  "e n", "o r", "_ s",
    "e s",  "_ w", "a n", "i s",  "i t",  "_ o",   "_ c",  "_ b",   "_ f",  "_ m", "_ p", "_ d",
    "n d",  "o u", "a l", "in g", "e d",  "_a nd", "_o f", "_ in",  "_t o", "a r", "l l", "_ h",
    "_ l",  "_ n", "_ i", "_i s", "_i t", "s t",   "c h",  "l e",   "v e",  "o m", "r o", "l o",
    "_w h", "a s", "u r", "i c",  "u t",  "_ y",   "ou r", "en t",
};

static const char *const specials[N_SPECIAL] = {
    "<|endoftext|>",  "<|im_start|>",   "<|im_end|>", "<|fim_prefix|>",
    "<|fim_middle|>", "<|fim_suffix|>", "<think>",    "</think>",
};

/* The character that stands for a byte in byte-level BPE: itself where it is printable in Latin-1,
 * else the next one from U+0100 on. Returns the length of its UTF-8. */
static size_t byte_char(char *out, int byte)
{
    int next = 256, cp = 0;
    for (int b = 0; b <= byte; b++) {
        bool plain = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        cp = plain ? b : next++;
    }
    if (cp < 128) {
        out[0] = (char)cp;
        return 1;
    }
    out[0] = (char)(0xc0 | cp >> 6);
    out[1] = (char)(0x80 | (cp & 0x3f));
    return 2;
}

/* A rule of the list above as the file has it, or the token that it makes. */
static size_t merge_text(char out[16], const char *rule, bool token)
{
    size_t n = 0;
    for (; *rule; rule++) {
        if (*rule == '_') {
            out[n++] = '\xc4';
            out[n++] = '\xa0';
        } else if (*rule != ' ' || !token) {
            out[n++] = *rule;
        }
    }
    return n;
}

/* The text of token id into out [32]; returns its type of tokenizer.ggml.token_type. */
static int32_t token_text(char *out, gguf_str *text, int id)
{
    int n_merge = (int)ARRAY_LEN(merges);
    *text = (gguf_str){.s = out};
    if (id < 256) {
        text->len = byte_char(out, id);
        return 1; /* normal */
    }
    if (id < 256 + n_merge) {
        text->len = merge_text(out, merges[id - 256], true);
        return 1;
    }
    int i = id - 256 - n_merge;
    if (i < N_SPECIAL)
        text->len = (size_t)snprintf(out, 32, "%s", specials[i]);
    else
        text->len = (size_t)snprintf(out, 32, "[unused%d]", i);
    return i < 3 ? 3 : i < N_SPECIAL ? 4 : 5; /* control, user-defined, unused */
}

static void put_tokenizer(gguf_writer *w, const tiny_opts *o)
{
    _Static_assert(256 + ARRAY_LEN(merges) == TINY_EOS, "ids of the header");
    size_t n = (size_t)o->n_vocab;
    tiny_check(n >= 256 + ARRAY_LEN(merges) + N_SPECIAL, "n_vocab under 320");
    char(*room)[32] = calloc(n, sizeof *room);
    gguf_str *text = calloc(n, sizeof *text);
    int32_t *type = calloc(n, sizeof *type);
    char rule_room[ARRAY_LEN(merges)][16];
    gguf_str rule[ARRAY_LEN(merges)];
    tiny_check(room && text && type, "out of memory");
    for (size_t i = 0; i < n; i++)
        type[i] = token_text(room[i], &text[i], (int)i);
    for (size_t i = 0; i < ARRAY_LEN(merges); i++)
        rule[i] = (gguf_str){rule_room[i], merge_text(rule_room[i], merges[i], false)};

    gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
    gguf_put_str(w, "tokenizer.ggml.pre", "qwen35", 6);
    gguf_put_str_array(w, "tokenizer.ggml.tokens", text, n);
    gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, type, n);
    gguf_put_str_array(w, "tokenizer.ggml.merges", rule, ARRAY_LEN(merges));
    gguf_put_int(w, "tokenizer.ggml.eos_token_id", GGUF_U32, TINY_EOS);
    gguf_put_int(w, "tokenizer.ggml.padding_token_id", GGUF_U32, TINY_EOS);
    gguf_put_int(w, "tokenizer.ggml.add_bos_token", GGUF_BOOL, 0);
    free(room);
    free(text);
    free(type);
}

void tiny_put_metadata(gguf_writer *w, const tiny_opts *o)
{
    keys k = {.w = w, .o = o};
    const char *arch = model_arch_name(o->arch);
    gguf_put_str(w, "general.architecture", arch, strlen(arch));
    gguf_put_str(w, "general.name", "tiny", 4);
    put_common(&k);
    put_family(&k);
    if (!o->no_tokenizer)
        put_tokenizer(w, o);
    if (o->edit)
        o->edit(w, o->edit_ctx);
}
