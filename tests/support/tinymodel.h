/* tinymodel.h - complete random models of a few hundred kilobytes, written as GGUF files.
 *
 * 1. The same options give the same bytes. A tensor's values depend on its name and the seed alone,
 *    so options that only change how things are stored (fused experts, a split eh_proj, the MTP
 *    block in a file of its own, other spellings) keep the model the same.
 * 2. Sane numbers: weights N(0, 1 / n_in), gammas around 1, decays below 0; logits about N(0, 1).
 * 3. Whatever goes wrong ends the process with a message: a test has no use for half a model.
 *
 *     char path[TEST_PATH_MAX];
 *     tiny_opts o = tiny_default(MODEL_QWEN4EXP);
 *     o.type[TINY_EXPERT] = DTYPE_Q8_0;
 *     tiny_write(test_path(path, "a.gguf"), &o);
 */
#ifndef TESTS_SUPPORT_TINYMODEL_H
#define TESTS_SUPPORT_TINYMODEL_H

#include "gguf/gguf.h"
#include "model/model.h"

/* Classes of tensors that share an element type. */
typedef enum {
    TINY_EMBD,   /* token_embd, nextn.embed_tokens */
    TINY_HEAD,   /* output, nextn.shared_head_head */
    TINY_ATTN,   /* q, k, v, output, the indexer's projections */
    TINY_GDN,    /* qkv, gate, alpha, beta, out */
    TINY_FFN,    /* dense FFN and shared expert */
    TINY_EXPERT, /* routed experts */
    TINY_ROUTER, /* ffn_gate_inp */
    TINY_MIXER,  /* hyper-connection down, up, inject */
    TINY_PLE,    /* n-gram table, key, value */
    TINY_EH,     /* eh_proj, or its two parts */
    TINY_VECTOR, /* all the rest: norms, a, dt, convolutions, the shared expert's gate */
    TINY_N_CLASS
} tiny_class;

/* The tokenizer's special tokens are the last eight of the first 320 ids. Ids 0..255 are the bytes
 * of their value, 256..311 merged ones ("he", " the", ...), 320 and above unused. */
enum {
    TINY_EOS = 312, /* <|endoftext|>; also ple_eos by default */
    TINY_IM_START = 313,
    TINY_IM_END = 314,
    TINY_THINK = 318,
    TINY_THINK_END = 319,
};

/* Sizes that the family does not have are ignored; see tinymodel.c for the defaults. */
typedef struct {
    model_arch arch;
    uint64_t seed;
    int n_layer; /* of the trunk; every 4th is full attention */
    int n_embd, n_vocab, n_ctx;
    int n_head, n_head_kv, d_head, n_rot;
    int n_key_head, n_val_head, d_state, n_conv;
    int n_ff;
    int n_expert, n_expert_used, n_ff_exp, n_ff_shexp;
    int n_hc, hc_rank;
    int n_idx_head, d_idx, idx_top_k, ratio; /* ratio 0: dense attention, no indexer tensors */
    int ple_layer;                           /* -1: none */
    int ple_ngram, ple_heads, ple_conv, ple_dim, ple_eos;
    dtype type[TINY_N_CLASS]; /* F32; rows that are no multiple of the block become F16 */

    int n_mtp;        /* MTP blocks in the file behind the trunk: 0, 1, ... */
    int n_mtp_told;   /* nextn_predict_layers; block_count is n_layer + n_mtp_told */
    bool mtp_embd;    /* with nextn.embed_tokens, values of its own */
    bool mtp_head;    /* with nextn.shared_head_head, values of its own */
    bool mtp_no_norm; /* without nextn.shared_head_norm */
    bool side_embd;   /* tiny_write_mtp: with token_embd, the trunk's values */
    bool side_head;   /* tiny_write_mtp: with output, the trunk's values */
    bool side_norm;   /* tiny_write_mtp: with output_norm, the trunk's values */

    bool tied;          /* no output.weight */
    bool fused_experts; /* ffn_gate_up_exps */
    bool split_eh;      /* nextn.fc_embd and nextn.fc_hidden instead of nextn.eh_proj */
    bool short_hc;      /* nextn.hc_* instead of nextn.hc_head_* */
    bool a_weight;      /* ssm_a.weight instead of ssm_a */
    bool column_vec;    /* the shared expert's gate as [H, 1] */
    bool head_arrays;   /* head counts as arrays, one per block, 0 where there are none */
    bool layer_array;   /* attention.recurrent_layers instead of full_attention_interval */
    bool no_tokenizer;

    /* To damage the file. Names and keys are whole ones, keys with the arch in front. */
    const char *omit;     /* tensor left out; a '*' at the end: all that begin so */
    const char *omit_key; /* metadata left out */
    const char *reshape;  /* tensor whose dimension reshape_dim (0: fastest) is one larger */
    int reshape_dim;
    const char *retype; /* tensor of type retype_to; zeros where kern cannot encode it */
    dtype retype_to;
    const char *zero_gamma;                  /* norm stored zero-centred, as checkpoints have it */
    void (*edit)(gguf_writer *w, void *ctx); /* called after all metadata: later keys win */
    void *edit_ctx;
} tiny_opts;

/* A whole model with its MTP block in the file. */
tiny_opts tiny_default(model_arch arch);

/* The trunk, and n_mtp MTP blocks behind it. */
void tiny_write(const char *path, const tiny_opts *o);
/* The MTP block alone (n_mtp of them, at least one), with all metadata; to be used beside the trunk
 * (n_mtp = 0) of the same options. */
void tiny_write_mtp(const char *path, const tiny_opts *o);

/* For tests of the reader's callers: names of all tensors that tiny_write puts into the file, in
 * order; returns how many there are. name [max]; more than max ends the process. */
int tiny_names(const tiny_opts *o, char (*name)[64], int max);

#endif
