/* account.h - what one step has to read, tensor by tensor, from shapes and types alone. The one place
 * that knows it. Private to engine/.
 *
 * 1. Each matrix counts once per call, whatever the number of rows, as the engine reads it; of
 *    experts those that the rows chose, of tables the rows looked up, of K/V the cells attended to
 *    (the row's own included), of recurrent states and histories one read and one write.
 * 2. Where several rows choose for themselves (experts, blocks of QSA), the number of different ones
 *    is the expected one for uniform, independent choices: n (1 - (1 - k / n)^rows). Rows of one text
 *    choose more alike, so it is an upper estimate of the truth.
 * 3. Left out: norms, biases, convolution taps and other vectors, activations, and the writing of new
 *    cells.
 */
#ifndef ENGINE_ACCOUNT_H
#define ENGINE_ACCOUNT_H

#include "model/model.h"

/* Lines of an account. X(enum, text) */
#define ACCOUNT_GROUPS(X)           \
    X(EMBD, "embedding")            \
    X(NGRAM, "n-gram layer")        \
    X(FC_EMBEDDING, "fc_embedding") \
    X(FC_HIDDEN, "fc_hidden")       \
    X(MIXERS, "mixers")             \
    X(GDN, "delta net")             \
    X(KV, "k, v")                   \
    X(Q, "q")                       \
    X(O, "o")                       \
    X(INDEXER, "indexer")           \
    X(ROUTER, "router")             \
    X(SHARED, "shared expert")      \
    X(EXPERTS, "routed experts")    \
    X(FFN, "feed-forward")          \
    X(HEAD, "head")                 \
    X(CELLS, "cells")               \
    X(KEYS, "indexer keys")         \
    X(STATES, "delta-net states")   \
    X(HISTORIES, "convolution histories")

typedef enum {
#define ACCOUNT_ENUM(name, text) ACCOUNT_##name,
    ACCOUNT_GROUPS(ACCOUNT_ENUM)
#undef ACCOUNT_ENUM
        ACCOUNT_N_GROUP
} account_group;
const char *account_group_name(account_group g);
/* Cells, keys, states and histories: not weights. */
static inline bool account_is_state(account_group g)
{
    return g >= ACCOUNT_CELLS;
}

/* One tensor, or one part of the state of one layer. */
typedef struct {
    account_group group;
    const char *part; /* "attn_q", ...: the same in every layer */
    const char *name; /* of the tensor in the file; "" for state */
    dtype type;
    int n_mat, n_row, n_col;
    int n_pick;   /* of what a call reads a part of: of so many matrices or rows, */
    double n_got; /* so many; n_pick 0: all of it */
    int times;    /* how often it is read; read and written: 2 */
    double bytes; /* read, all told */
} account_item;

typedef void account_fn(void *ctx, const account_item *i);

/* Of a draft step. */
typedef struct {
    int n_cell; /* that it reads, its own included */
    dtype kv;
    int n_head; /* rows of the head */
    bool naive; /* fc_hidden once per stream, and the indexer's projections run: to compare with */
} account_draft_opts;
/* w: the draft head as it is held, m->mtp or a copy. The model has one. */
void account_draft(const model *m, const model_mtp *w, const account_draft_opts *o, account_fn *fn,
                   void *ctx);

/* Of a forward call of the trunk. */
typedef struct {
    int n_row, depth; /* rows of one conversation; tokens before them */
    dtype kv;
    bool head; /* logits are wanted */
} account_trunk_opts;
void account_trunk(const model *m, const account_trunk_opts *o, account_fn *fn, void *ctx);

/* Bytes of a draft step: all of account_draft's items. */
uint64_t account_draft_bytes(const model *m, const model_mtp *w, const account_draft_opts *o);

/* Cells that a draft step reads with depth tokens before it, its own included, when every cell that
 * it may read was encoded (draft/cells.h). */
int account_draft_cells(int depth, int sink, int window);

#endif
