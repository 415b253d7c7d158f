/* weights.h - the drafter's own copy of the MTP block's wide matrices, in fewer bits.
 *
 * A draft step reads every weight of the MTP block once, so its time is bytes; drafts stay exact
 * whatever the weights are. What may be held in another type, and what may not:
 * 1. Wide matrices: attn_q, attn_output, both halves of eh_proj, the shared expert - or, in a block
 *    without experts, the dense FFN, which is read as wholly as a shared expert is.
 * 2. Mixers (down and up of hc_attn, hc_ffn and the head's), which are the most sensitive part: by
 *    a switch of their own.
 * 3. Everything else stays in the file: keys and values, router, gates, norms, injections, routed
 *    experts, tables.
 *
 * Q8_0 and Q5_0 by the public rule, Q4_0 with fitted scales (kern_encode_fitted).
 */
#ifndef DRAFT_WEIGHTS_H
#define DRAFT_WEIGHTS_H

#include "model/model.h"

typedef enum {
    DRAFT_QUANT_DEFAULT, /* Q8_0 for what the file holds as F32, F16 or BF16, else as in the file */
    DRAFT_QUANT_FILE,    /* as in the file */
    DRAFT_QUANT_Q8_0,
    DRAFT_QUANT_Q5_0,
    DRAFT_QUANT_Q4_0,
} draft_quant;

/* By name: "default", "file", "q8_0", "q5_0", "q4_0". Errors: ARG, the message lists them. */
ft_status draft_quant_parse(draft_quant *out, const char *name, ft_error *err) MUST_CHECK;

typedef struct {
    draft_quant wide;
    draft_quant mixers;
} draft_weights_opts;

/* Wide matrices by DRAFT_QUANT_DEFAULT, mixers as in the file. */
draft_weights_opts draft_weights_opts_default(void);

/* What became of a matrix. */
typedef enum {
    DRAFT_CONVERTED,
    DRAFT_KEPT_FILE,   /* the wish is the type that it has */
    DRAFT_KEPT_BITS,   /* it has no more bits per weight than the wished type */
    DRAFT_KEPT_ROWS,   /* its rows are no multiple of 32 */
    DRAFT_KEPT_VALUES, /* a value is not finite, or too large for the wished type */
} draft_fate;
const char *draft_fate_text(draft_fate f); /* for people; "" for DRAFT_CONVERTED */

/* ---- The matrices --------------------------------------------------------------------------- */

#define DRAFT_N_PART 16

/* Matrix i (0 .. DRAFT_N_PART - 1) of those that may be converted; NULL: this family has none. */
const tensor *draft_part(const model_mtp *p, int i);
/* "fc_embedding", "fc_hidden" (the halves of eh_proj), "attn_q", "shared_down", ... */
const char *draft_part_name(int i);

/* ---- The copy ------------------------------------------------------------------------------- */

typedef struct {
    int part;
    const char *name; /* of the tensor; borrowed from the model */
    draft_fate fate;
    dtype from, to;
    size_t bytes_from, bytes_to;
} draft_weight;

typedef struct {
    model_mtp mtp; /* converted tensors point into owned memory, all else where the model's do */
    draft_weight item[DRAFT_N_PART]; /* in the order of draft_part, absent ones left out */
    int n_item;
    size_t n_bytes;            /* owned, without this struct */
    void *owned[DRAFT_N_PART]; /* [n_item], each 64-byte aligned, rows dense; NULL: not converted */
} draft_weights;

/* Make the copy. Reads the file's weights once, row by row. o NULL: the defaults. m outlives it.
 * Errors: UNSUPPORTED (the model has no MTP block: says why; a type without decoder), ARG (a wish
 * that is not in the list), NOMEM (says how much for what). *out is NULL after a failure. */
ft_status draft_weights_create(draft_weights **out, const model *m, const draft_weights_opts *o,
                               ft_error *err) MUST_CHECK;
void draft_weights_free(draft_weights *w); /* NULL is allowed */

/* The types that the copy would have, for accounts: *out is m's draft head in which each matrix that
 * would be converted has its type and strides, and no values to read. No value is looked at, so one
 * that would be kept for its values (DRAFT_KEPT_VALUES) counts as converted. m has a draft head.
 * Errors: ARG. */
ft_status draft_weights_plan(model_mtp *out, const model *m, const draft_weights_opts *o,
                             ft_error *err) MUST_CHECK;

/* ---- What it costs in accuracy -------------------------------------------------------------- */

typedef enum {
    DRAFT_CODE_Q8_0,
    DRAFT_CODE_Q5_0,
    DRAFT_CODE_Q4_0_PLAIN, /* scales by the public rule: to compare with */
    DRAFT_CODE_Q4_0,       /* fitted scales */
    DRAFT_N_CODE
} draft_code;

/* Relative error of W x for Gaussian x, W' being W in another type:
 * rel_rmse[code] = sqrt(sum (W' x - W x)^2 / sum (W x)^2) over 256 rows spread evenly, or all if W
 * has fewer, and vectors x of a fixed seed: 16, or for fewer rows as many as make 4096 products. 0
 * where W is 0; NaN where values are not finite. W is the tensor as the file has it; the first
 * matrix, if it has several.
 * Errors: UNSUPPORTED (rows no multiple of 32, a type without decoder), NOMEM. */
ft_status draft_weights_error(double rel_rmse[DRAFT_N_CODE], const tensor *w,
                              ft_error *err) MUST_CHECK;

#endif
