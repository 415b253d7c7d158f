/* shapes.h - models without their files: hyper-parameters, tensors and types by name.
 *
 * A shape is what a file of that model would hold: the list of its tensors, in the order of a file,
 * and a `model` that describes the same matrices. For accounts of bytes and for synthetic files; the
 * same walk makes both, and model_open checks what is written from it.
 *
 * 1. In the described model every matrix has its shape, type, strides and name; data is not NULL and
 *    must not be read. Vectors and copied tables (float pointers) are NULL, file is NULL.
 * 2. Dimensions are slowest first, as everywhere behind the reader; GGUF's order is the reverse.
 *
 * Source of the hyper-parameters: the config.json of the checkpoints, as shape_info.source says.
 */
#ifndef MODEL_SHAPES_H
#define MODEL_SHAPES_H

#include "model/model.h"

/* Tensors that share an element type. */
typedef enum {
    SHAPE_EMBD,      /* token_embd */
    SHAPE_HEAD,      /* output */
    SHAPE_ATTN,      /* attn_q, attn_k, attn_v, attn_output */
    SHAPE_INDEXER,   /* indexer.q_proj, indexer.k_proj */
    SHAPE_GDN,       /* attn_qkv, attn_gate, ssm_out */
    SHAPE_GDN_GATE,  /* ssm_alpha, ssm_beta */
    SHAPE_FFN,       /* dense FFN, shared expert */
    SHAPE_EXPERT,    /* routed experts */
    SHAPE_ROUTER,    /* ffn_gate_inp */
    SHAPE_MIXER,     /* hyper-connections: down, up */
    SHAPE_INJECT,    /* hyper-connections: inject */
    SHAPE_PLE,       /* ple_key, ple_value */
    SHAPE_PLE_TABLE, /* per_layer_token_embd */
    SHAPE_EH,        /* nextn.eh_proj */
    SHAPE_VECTOR,    /* all else: norms, convolutions, biases */
    SHAPE_N_CLASS
} shape_class;

/* What its values are like, for files with made-up ones. */
typedef enum {
    SHAPE_MATRIX,  /* [rows][cols]: about N(0, 1 / cols) keeps rows of unit size so */
    SHAPE_EXPERTS, /* [matrices][rows][cols], likewise */
    SHAPE_TABLE,   /* [rows][cols]: rows are looked up, about N(0, 1) */
    SHAPE_CONV,    /* [channels][taps] */
    SHAPE_NORM,    /* [n], around 1 */
    SHAPE_DECAY,   /* [n], below 0: ssm_a */
    SHAPE_PLAIN,   /* [n], around 0 */
} shape_kind;

typedef struct {
    char name[64]; /* with ".weight" where the file has it */
    shape_kind kind;
    shape_class cls;
    dtype type;
    int n_dim;  /* 1..3 */
    int dim[3]; /* slowest first; [n_dim] */
    bool mtp;   /* of the draft head */
} shape_tensor;

typedef struct {
    dtype of[SHAPE_N_CLASS];
} shape_types;

/* A named shape. */
typedef struct {
    const char *name;   /* "qwen3.5-4b" */
    const char *source; /* where the numbers come from */
    model_hparams h;    /* every 4th layer is full attention */
    bool tied;          /* no output.weight */
    int ratio;          /* tokens per block of QSA; 0: dense attention */
    int n_draft_vocab;  /* of the published figures; 0: none, all tokens may be drafted */
    int ple_rows_base;  /* n-gram heads get the primes from here on as sizes */
    shape_types types;
} shape_info;

typedef struct {
    const shape_info *info; /* borrowed */
    model m;
    shape_tensor *tensor; /* [n_tensor], owned */
    int n_tensor;
} shape;

const shape_info *shape_at(int i);              /* NULL past the last one */
const shape_info *shape_find(const char *name); /* NULL: no such shape */

/* One type for the matrices, and F32 for what ft_quantize keeps so: routers, gates of the delta net,
 * injections, vectors. */
shape_types shape_types_of(dtype matrices);

/* types NULL: the shape's own. Rows that are no multiple of a type's block become F16, as ft_quantize
 * has it. info need not be one of the named ones; it outlives the shape. Errors: NOMEM. *out is NULL
 * after a failure. */
ft_status shape_create(shape **out, const shape_info *info, const shape_types *types,
                       ft_error *err) MUST_CHECK;
void shape_free(shape *s); /* NULL is allowed */

/* The metadata of a file with these tensors, but for general.name and a tokenizer. The multipliers
 * of the n-gram layer are stand-ins: a checkpoint's own are random numbers. */
void shape_put_metadata(gguf_writer *w, const shape *s);
/* Declare all tensors, in order; their data is then written in the same order. */
void shape_declare(gguf_writer *w, const shape *s);

#endif
