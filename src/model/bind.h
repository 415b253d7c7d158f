/* bind.h - inside the model room: reading keys, finding tensors, checking shapes.
 *
 * 1. A tensor is found under its name of docs/models.md with ".weight" behind it, else as it
 *    stands there (ssm_a, ssm_dt.bias).
 * 2. The ranges of hparams.c bound every size by 2^20, head counts and head sizes by 2^10, streams
 *    by 2^4 and n-gram heads by 2^7: every product that is the dimension of a tensor fits in int.
 * 3. Memory is allocated for a tensor only after its shape was compared, so never for more values
 *    than the file holds.
 */
#ifndef MODEL_BIND_H
#define MODEL_BIND_H

#include "model/model.h"

#define HP_MAX_SIZE (1 << 20) /* of most dimensions */
#define HP_MAX_TAP  64        /* of a convolution */

/* What a file says about its blocks. */
typedef struct {
    int n_block; /* block_count: MTP blocks included */
    int n_nextn; /* nextn_predict_layers; <= n_block */
} hp_blocks;

/* Where tensors are looked up and who owns their copies. */
typedef struct {
    model *m;
    const gguf_file *f;
    int i_block; /* names get "blk.<i>." in front; -1: nothing */
    ft_error *err;
} binder;

/* ---- hparams.c ------------------------------------------------------------------------------ */

/* Keys that the trunk and a separate MTP file share. n_layer, n_vocab, hc_rank and what the next
 * three functions read are not filled. */
ft_status hparams_read(model_hparams *h, hp_blocks *b, const gguf_file *f,
                       ft_error *err) MUST_CHECK;
/* Keys of the delta net. */
ft_status hparams_gdn(model_hparams *h, const gguf_file *f, ft_error *err) MUST_CHECK;
/* Kind and QSA ratio of each of the h.n_layer layers, and the indexer's sizes. */
ft_status hparams_layers(model *m, const gguf_file *f, ft_error *err) MUST_CHECK;
/* The n-gram layer: everything but ple_dim and the table's bounds. h.n_layer is known. */
ft_status hparams_ple(model *m, const gguf_file *f, ft_error *err) MUST_CHECK;
/* vocab_size, where it is given, against h.n_vocab. */
ft_status hparams_vocab(const model_hparams *h, const gguf_file *f, ft_error *err) MUST_CHECK;
/* MISMATCH, naming the first key in which a separate MTP file differs from its trunk. */
ft_status hparams_compare(const model_hparams *trunk, const model_hparams *mtp, const gguf_file *f,
                          ft_error *err) MUST_CHECK;

/* ---- bind.c --------------------------------------------------------------------------------- */

/* The path without its folders, for messages. */
const char *bind_file_name(const gguf_file *f);
/* Block number of "blk.<i>.rest" and the rest; -1: no such name. */
int bind_block_of(const char *name, const char **rest);

const gguf_tensor *bind_find(const binder *b, const char *name); /* NULL: absent */
/* name, or other where only that is in the file. */
const char *bind_either(const binder *b, const char *name, const char *other);

/* A matrix, or n_mat of them, in place. FORMAT: absent, another shape. UNSUPPORTED: a type without
 * kernel. */
ft_status bind_mats(const binder *b, tensor *out, const char *name, int n_mat, int n_row,
                    int n_col) MUST_CHECK;
ft_status bind_mat(const binder *b, tensor *out, const char *name, int n_row, int n_col) MUST_CHECK;
/* A vector of n values as an owned float32 copy. Errors as above, NOMEM. */
ft_status bind_vec(const binder *b, const float **out, const char *name, int n) MUST_CHECK;
/* A norm's gamma: the same, and a mean near 0 leaves a warning in the model. */
ft_status bind_gamma(const binder *b, const float **out, const char *name, int n) MUST_CHECK;
/* A convolution [n_channel][n_tap] as an owned copy [n_tap][n_channel]. */
ft_status bind_conv(const binder *b, const float **out, const char *name, int n_channel,
                    int n_tap) MUST_CHECK;
void bind_free_owned(model *m);

/* ---- bind_block.c --------------------------------------------------------------------------- */

/* Tensors name_norm, name_down, name_up and name_inject (if inject); other, if not NULL, is a
 * second spelling of name. */
ft_status bind_mixer(const binder *b, model_mixer *x, const char *name, const char *other,
                     bool inject) MUST_CHECK;
/* All tensors of one block; l->is_attn and l->attn.ratio are set. */
ft_status bind_block(const binder *b, model_layer *l) MUST_CHECK;
ft_status bind_ple(const binder *b, model_ple *p) MUST_CHECK;

/* ---- bind_mtp.c ----------------------------------------------------------------------------- */

/* Decide from what f says and holds how many layers the trunk has (h.n_layer) and which block is
 * the draft head: *i_mtp, or -1 with no_mtp_reason. FORMAT: what it says and holds contradict each
 * other. */
ft_status mtp_plan(model *m, const hp_blocks *blocks, int *i_mtp, ft_error *err) MUST_CHECK;
/* The same for a separate file, which must fit the trunk. Errors: MISMATCH, FORMAT, UNSUPPORTED. */
ft_status mtp_plan_side(const model *m, const gguf_file *f, int *i_mtp, ft_error *err) MUST_CHECK;
/* Bind block i_mtp of f. The trunk is bound. */
ft_status mtp_bind(model *m, const gguf_file *f, int i_mtp, ft_error *err) MUST_CHECK;

#endif
