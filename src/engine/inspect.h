/* inspect.h - what a GGUF holds, added up for a report. Private to engine/. */
#ifndef ENGINE_INSPECT_H
#define ENGINE_INSPECT_H

#include "gguf/gguf.h"

/* Parts of a model, by tensor name. X(enum, name) */
#define INSPECT_PARTS(X)                   \
    X(EMBD, "token embedding")             \
    X(ATTN, "full attention")              \
    X(INDEXER, "sparse-attention indexer") \
    X(GDN, "gated delta net")              \
    X(FFN, "dense feed-forward")           \
    X(ROUTER, "router")                    \
    X(EXPERTS, "routed experts")           \
    X(SHARED, "shared expert")             \
    X(MIXER, "hyper-connection mixers")    \
    X(PLE, "n-gram layer")                 \
    X(PLE_TABLE, "n-gram table")           \
    X(NORM, "norms")                       \
    X(HEAD, "output head")                 \
    X(MTP, "MTP block (draft head)")       \
    X(OTHER, "other")

typedef enum {
#define INSPECT_ENUM(name, text) INSPECT_##name,
    INSPECT_PARTS(INSPECT_ENUM)
#undef INSPECT_ENUM
        INSPECT_N_PART
} inspect_part;

typedef struct {
    uint64_t n_tensor, n_value, n_bytes;
} inspect_sum;

#define INSPECT_N_TYPE 64

typedef struct {
    const gguf_file *f;
    char arch[64];   /* "" when the key is missing */
    int64_t n_block; /* block_count; -1: unknown */
    int64_t n_mtp;   /* nextn_predict_layers */
    inspect_sum total, part[INSPECT_N_PART], type[INSPECT_N_TYPE];
    bool has_mtp, has_qsa, has_ple, has_hc, has_moe, fused_experts, tied_output, has_tokenizer;
    bool mtp_announced; /* announced, whether there or not */
} inspection;

void inspect_collect(inspection *in, const gguf_file *f);
const char *inspect_part_name(inspect_part p);
inspect_part inspect_part_of(const inspection *in, const char *tensor_name);

#endif
