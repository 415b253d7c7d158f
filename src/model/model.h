/* model.h - hyper-parameters and weights bound to names. Every shape is checked once, here.
 *
 * 1. After model_open succeeds, every tensor of the structs below that its layer kind needs is
 *    present, has the shape written beside it and a type the kernels can decode; nothing that the
 *    forward pass does can fail because of the file.
 * 2. Vectors and small tables are float32 copies owned by the model; matrices stay in the file map
 *    in their own type.
 * 3. What the file has and the trunk does not need (the MTP block's indexer, unknown tensors) is
 *    not bound.
 *
 * Source of names, shapes and conventions: docs/models.md. H = n_embd, C = channels of the GDN
 * convolution = 2 n_key_head d_state + n_val_head d_state, S = n_hc streams.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include "base/err.h"
#include "base/tensor.h"
#include "gguf/gguf.h"

typedef enum { MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP } model_arch;

#define MODEL_MAX_LAYER       512
#define MODEL_MAX_NGRAM       8
#define MODEL_MAX_NGRAM_HEADS 128

typedef struct {
    model_arch arch;
    int n_layer; /* of the trunk, without MTP blocks */
    int n_embd;  /* H */
    int n_vocab;
    int n_ctx_train; /* context_length */
    float eps;
    int n_head, n_head_kv, d_head; /* full attention; n_head % n_head_kv == 0 */
    int n_rot;                     /* rotated values of a head, even, <= d_head */
    double rope_base;
    int n_key_head, n_val_head, d_state, n_conv; /* GDN; n_val_head % n_key_head == 0 */
    int n_ff;                                    /* dense FFN; 0: mixture of experts */
    int n_expert, n_expert_used, n_ff_exp, n_ff_shexp;
    int n_hc;                         /* S: residual streams; 1 in qwen35 and qwen35moe */
    int hc_rank;                      /* of the mixers; 0 when n_hc is 1 */
    int n_idx_head, d_idx, idx_top_k; /* QSA; 0: none. n_rot <= d_idx */
    int ple_layer;                    /* -1: none */
    int ple_ngram, ple_heads, ple_conv, ple_eos; /* heads: per order, orders 2 .. ple_ngram */
    int ple_dim;                                 /* values of a row of the table */
} model_hparams;

/* Hyper-connection mixer; absent (norm NULL) when n_hc is 1. */
typedef struct {
    const float *norm; /* [S * H] gamma, stream 0 first */
    tensor down;       /* [hc_rank][S * H] */
    tensor up;         /* [S * H][hc_rank] */
    tensor inject;     /* [S][S * H]; data NULL in final mixers */
} model_mixer;

typedef struct {
    tensor q;            /* [n_head * 2 * d_head][H]: per head the query, then the gate */
    tensor k, v;         /* [n_head_kv * d_head][H] */
    tensor out;          /* [H][n_head * d_head] */
    const float *q_norm; /* [d_head] */
    const float *k_norm; /* [d_head] */
    int ratio;           /* tokens per block of QSA; 0: dense, and the following are absent */
    tensor idx_q;        /* [n_idx_head * d_idx][H] */
    tensor idx_k;        /* [d_idx][H] */
    const float *idx_q_norm, *idx_k_norm; /* [d_idx] */
} model_attn;

typedef struct {
    tensor qkv;        /* [C][H]: q and k of all key heads, then v of all value heads */
    tensor gate;       /* [n_val_head * d_state][H]: z */
    tensor alpha;      /* [n_val_head][H] */
    tensor beta;       /* [n_val_head][H] */
    tensor out;        /* [H][n_val_head * d_state] */
    const float *conv; /* [n_conv][C]: tap-major copy, last tap = the current token */
    const float *a;    /* [n_val_head]: -exp(A_log) */
    const float *dt;   /* [n_val_head] */
    const float *norm; /* [d_state] */
} model_gdn;

typedef struct {
    tensor gate, up;       /* dense: [n_ff][H]; experts: [n_expert][n_ff_exp][H] */
    tensor down;           /* dense: [H][n_ff]; experts: [n_expert][H][n_ff_exp] */
    tensor router;         /* [n_expert][H]; data NULL: dense, and the following are absent */
    tensor sh_gate, sh_up; /* [n_ff_shexp][H] */
    tensor sh_down;        /* [H][n_ff_shexp] */
    const float *sh_inp;   /* [H]: gate of the shared expert */
} model_ffn;

/* n-gram embedding layer (PLE). n_head_all = (ple_ngram - 1) * ple_heads, E = n_head_all * ple_dim */
typedef struct {
    tensor table;                                   /* [rows][ple_dim] */
    tensor key;                                     /* [S * H][E] */
    tensor value;                                   /* [H][E] */
    const float *norm_key, *norm_query, *norm_conv; /* [S * H] */
    const float *conv;                              /* [ple_conv][S * H], tap-major copy */
    uint64_t mult[MODEL_MAX_NGRAM];
    int64_t head_off[MODEL_MAX_NGRAM_HEADS];
    int64_t head_vocab[MODEL_MAX_NGRAM_HEADS]; /* > 0; off + vocab <= rows of the table */
} model_ple;

typedef struct {
    bool is_attn;           /* full attention, else GDN */
    const float *attn_norm; /* [H]; NULL when n_hc > 1 */
    const float *post_norm; /* [H]; NULL when n_hc > 1 */
    model_mixer hc_attn, hc_ffn;
    model_attn attn;
    model_gdn gdn;
    model_ffn ffn;
} model_layer;

/* The draft head: one more attention layer with its way in and its way out. */
typedef struct {
    model_layer block;      /* is_attn, ratio 0 */
    tensor w_e, w_h;        /* [H][H]: the two halves of eh_proj */
    const float *enorm;     /* [H] */
    const float *hnorm;     /* [S * H] */
    tensor embd;            /* [n_vocab][H]: nextn.embed_tokens, else the trunk's */
    tensor head;            /* [n_vocab][H]: nextn.shared_head_head, else the trunk's output */
    const float *head_norm; /* [H]; NULL when n_hc > 1 */
    model_mixer head_mixer; /* n_hc > 1 */
} model_mtp;

typedef struct model {
    model_hparams h;
    tensor token_embd;        /* [n_vocab][H] */
    tensor output;            /* [n_vocab][H]; token_embd when the file ties them */
    const float *output_norm; /* [H]; NULL when n_hc > 1 */
    model_mixer output_mixer; /* n_hc > 1 */
    model_layer *layer;       /* [n_layer], owned */
    model_ple ple;            /* of layer h.ple_layer */
    bool has_mtp;
    model_mtp mtp;
    char no_mtp_reason[160];   /* why has_mtp is false; "" otherwise */
    char warning[160];         /* what looks wrong in a usable file; "" if nothing does */
    const gguf_file *file;     /* borrowed */
    const gguf_file *mtp_file; /* borrowed; NULL: none */
    void *owned;               /* the float32 copies */
} model;

/* Bind f, and the MTP block from mtp_f if not NULL (else from f if it is there). Both stay open
 * until model_free. A file that announces an MTP block and holds none of its tensors is bound
 * without one (no_mtp_reason says so); one that holds a part of it is refused.
 * Errors: FORMAT (missing key or tensor, wrong shape: the message names file, tensor, found and
 * wanted), UNSUPPORTED (another architecture, a tensor type without kernel), MISMATCH (mtp_f does
 * not fit f), NOMEM. */
ft_status model_open(model **out, const gguf_file *f, const gguf_file *mtp_f,
                     ft_error *err) MUST_CHECK;
void model_free(model *m); /* NULL is allowed */

const char *model_arch_name(model_arch a);
/* Channels of the GDN convolution (C). */
static inline int model_conv_channels(const model_hparams *h)
{
    return (2 * h->n_key_head + h->n_val_head) * h->d_state;
}

#endif
