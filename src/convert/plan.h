/* plan.h - what a conversion will write: every tensor of the GGUF, and where its rows come from.
 *
 * plan_build walks the tables of map.c (Hugging Face name -> GGUF name, shape, transformation) for
 * every layer, checks every shape and that nothing of the checkpoint is left over. Then
 * plan_read_rows delivers the rows of any tensor of the plan as float32.
 */
#ifndef CONVERT_PLAN_H
#define CONVERT_PLAN_H

#include "base/dtype.h"
#include "convert/checkpoint.h"
#include "convert/hf_config.h"

#define PLAN_MAX_NAME 64 /* bytes of a tensor's name with its NUL, as GGUF readers expect */

typedef enum {
    PLAN_COPY,
    PLAN_PLUS_1,  /* 1 + w: zero-centred gammas */
    PLAN_NEG_EXP, /* -exp(w): decay of the delta net */
} plan_op;

/* Value heads: the checkpoint groups them by key head, GGUF tiles them (GGUF head j belongs to key
 * head j mod n_key). Heads are `unit` rows (or columns) each and begin at row (column) `first`. */
typedef struct {
    bool on, of_cols;
    uint64_t first, unit;
} plan_perm;

/* Some rows of each matrix of a source. */
typedef struct {
    const st_tensor *src;
    uint64_t n_mat, mat_rows; /* the source: [n_mat][mat_rows][n_col] */
    uint64_t row0, n_row;     /* taken of each matrix */
    uint64_t n_col;
    uint64_t first; /* row of the output that the piece begins at; side by side: the column */
} plan_piece;

typedef struct {
    char name[PLAN_MAX_NAME];
    int n_dim;       /* 1 .. 3 */
    uint64_t dim[3]; /* fastest first, as GGUF has it */
    uint64_t n_row;  /* of all matrices */
    plan_op op;
    plan_perm perm;
    bool side_by_side;     /* the pieces are joined along the columns, else along the rows */
    size_t piece, n_piece; /* in plan.piece */
    dtype type;            /* to be written */
} plan_tensor;

typedef struct {
    hf_config cfg;       /* n_mtp is 0 or 1 */
    plan_tensor *tensor; /* [n_tensor], owned */
    size_t n_tensor, cap_tensor;
    plan_piece *piece; /* [n_piece], owned */
    size_t n_piece, cap_piece;
    bool mtp_missing; /* config.json announces a draft head, the checkpoint has none of it */
    /* The constants of the n-gram table; NULL without one. Borrowed from the checkpoint: I64. */
    const st_tensor *ple_mult, *ple_offset, *ple_vocab;
} plan;

/* want: the type of matrices; NULL: each in its own. *p is {0} after a failure; the checkpoint must
 * outlive the plan.
 * Errors: MISMATCH (missing tensor, wrong shape, a tensor that nothing needs), UNSUPPORTED (a type
 * that is not read), FORMAT, NOMEM. */
ft_status plan_build(plan *p, const hf_config *cfg, const checkpoint *ck, const dtype *want,
                     ft_error *err) MUST_CHECK;
void plan_free(plan *p); /* {0} is allowed */

/* Rows [row, row + n) of a tensor, transformed: dst and scratch [n][t->dim[0]]. Cannot fail:
 * plan_build has checked types and shapes. */
void plan_read_rows(const plan *p, const plan_tensor *t, uint64_t row, uint64_t n, float *dst,
                    float *scratch);

/* Element i of an I64 tensor. */
int64_t plan_i64(const st_tensor *t, uint64_t i);

#endif
