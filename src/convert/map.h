/* map.h - the tables: Hugging Face name -> GGUF name, shape, transformation. Data only.
 *
 * Names and layouts: docs/models.md. A '#' in a name stands for a running number.
 */
#ifndef CONVERT_MAP_H
#define CONVERT_MAP_H

#include "convert/plan.h"

/* Sizes that shapes are made of; map_dim computes them. */
typedef enum {
    D_0,
    D_1,
    D_H, /* width */
    D_2H,
    D_S,    /* residual streams */
    D_SH,   /* streams x width */
    D_RANK, /* of the mixers */
    D_VOCAB,
    D_QG, /* query and gate rows of all heads */
    D_KV,
    D_Q, /* values of all query heads */
    D_HEAD,
    D_IQ, /* indexer: query rows, the key's rows, both */
    D_IK,
    D_IQK,
    D_CONV_CH, /* channels of the delta net's convolution */
    D_CONV,
    D_VALUE, /* values of all value heads */
    D_NVAL,  /* value heads */
    D_STATE,
    D_FF,
    D_EXPERT,
    D_FFE, /* an expert's width */
    D_2FFE,
    D_FFS,   /* the shared expert's width */
    D_PLE_E, /* the n-gram embedding of a token */
    D_PLE_ROW,
    D_PLE_CONV,
} map_dim_code;

typedef enum {
    F_VEC,     /* [cols] */
    F_ROW,     /* [1, cols], a vector in GGUF */
    F_MAT,     /* [rows, cols] */
    F_CONV,    /* [rows, 1, cols], a matrix in GGUF */
    F_EXPERTS, /* hf: one [rows, cols] per expert; alt: [experts, src_rows, cols] */
    F_SHARDS,  /* hf: [any, cols]; alt: the same cut into numbered pieces */
    F_BESIDE,  /* hf and alt, each [rows, cols / 2], side by side */
} map_form;

typedef enum {
    P_NONE,
    P_ROWS,   /* value heads of d_state rows */
    P_ROWS_1, /* of one row */
    P_QKV,    /* of d_state rows, behind q and k */
    P_COLS,   /* of d_state columns */
    P_COLS_1, /* of one column */
} map_perm;

/* What a layer (or the model) must be for a row of a table to apply: all bits. */
enum {
    N_NARROW = 1, /* plain residual */
    N_WIDE = 2,   /* hyper-connections */
    N_ATTN = 4,
    N_GDN = 8,
    N_DENSE = 16,
    N_MOE = 32,
    N_PLE = 64, /* the layer with the n-gram table */
    N_UNTIED = 128,
};

typedef struct {
    unsigned need;
    const char *hf, *gguf;
    map_form form;
    map_dim_code rows, cols; /* as stored in GGUF; rows of one matrix */
    plan_op op;
    map_perm perm;
    const char *alt;
    map_dim_code src_rows, row0; /* a part of the source's rows; D_0, D_0: all of them */
} map_entry;

/* Lists end with an entry whose hf is NULL. */
extern const map_entry map_model[]; /* whole names on both sides */
extern const map_entry map_layer[]; /* behind "model.layers.N." or "mtp.layers.0." -> "blk.N." */
extern const map_entry map_mtp[];   /* whole names -> behind "blk.N." */

uint64_t map_dim(const hf_config *c, map_dim_code d);

#endif
