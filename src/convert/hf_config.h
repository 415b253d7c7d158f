/* hf_config.h - config.json of a Hugging Face folder, checked.
 *
 * model_type qwen3_5_text, qwen3_5_moe_text, qwen4_exp_text; or the multimodal ones (qwen3_5,
 * qwen3_5_moe, qwen4_exp) that hold the same under "text_config".
 *
 * Every number is inside a range whose products fit in 63 bits; what the engine cannot compute
 * (another activation, biases, scaled rotary embeddings, ...) is refused here by name.
 */
#ifndef CONVERT_HF_CONFIG_H
#define CONVERT_HF_CONFIG_H

#include <jansson.h>

#include "base/err.h"

#define HF_MAX_LAYER 512
#define HF_MAX_EOS   8

typedef enum { HF_QWEN35, HF_QWEN35MOE, HF_QWEN4EXP } hf_arch;

typedef struct {
    hf_arch arch;
    int n_layer; /* of the trunk */
    int n_mtp;   /* blocks of the draft head, 0 or 1; -1: config.json says nothing */
    int n_embd, n_vocab, n_ctx;
    int n_head, n_head_kv, d_head, n_rot;
    double eps, rope_base;
    int rope_section[3];
    bool has_sections;
    int interval;               /* every interval-th layer is full attention, if regular */
    bool regular;               /* is_attn follows interval */
    bool is_attn[HF_MAX_LAYER]; /* [n_layer] full attention, else gated delta net */
    int n_key_head, n_val_head, d_state, n_conv;
    int n_ff;                                       /* dense; 0 in the others */
    int n_expert, n_expert_used, n_ff_exp, n_ff_sh; /* mixture of experts; 0 in qwen35 */
    int n_hc, hc_rank;                              /* qwen4exp; 1 and 0 in the others */
    int n_idx_head, d_idx, idx_budget, idx_ratio;   /* qwen4exp */
    int ple_layer;                                  /* from 0; -1: none */
    int ple_ngram, ple_heads, ple_conv, ple_dim;    /* ple_dim: values of a row of the table */
    bool tied;                                      /* output = token embedding */
    int eos;                                        /* of config.json; -1: none */
    int bos, pad;                                   /* -1: none */
} hf_config;

/* Errors: FORMAT, UNSUPPORTED; the message names the field, its value and what is accepted. */
ft_status hf_config_parse(hf_config *c, json_t *root, ft_error *err) MUST_CHECK;

/* ids [HF_MAX_EOS] from a field that holds an id, a list of them, or null; n: how many, 0 when
 * absent. Errors: FORMAT (an id outside [0, n_vocab), too many). file is for the message. */
ft_status hf_token_ids(int *ids, int *n, const json_t *v, const char *file, const char *key,
                       int n_vocab, ft_error *err) MUST_CHECK;

/* "qwen35", "qwen35moe", "qwen4exp" */
const char *hf_arch_name(hf_arch a);
/* Heads of the n-gram table over all orders. */
static inline int hf_ple_heads(const hf_config *c)
{
    return (c->ple_ngram - 1) * c->ple_heads;
}

#endif
