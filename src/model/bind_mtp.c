/* bind_mtp.c - the draft head: is there one, where, and its tensors.
 *
 * 1. A block that holds nextn.* tensors is never run as a layer of the trunk, and a layer of the
 *    trunk is never taken for the draft head.
 * 2. No draft head at all is a reason, a part of one is an error that names the missing tensor.
 * 3. The block's indexer is not bound: it attends densely (docs/models.md, The MTP block).
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "model/bind.h"

/* ---- Where it is ---------------------------------------------------------------------------- */

/* Blocks that hold nextn.* tensors; first INT_MAX and last -1: none. */
typedef struct {
    int first, last;
} nextn_range;

static nextn_range find_nextn(const gguf_file *f)
{
    nextn_range r = {INT_MAX, -1};
    for (size_t i = 0; i < gguf_n_tensor(f); i++) {
        const char *rest;
        int block = bind_block_of(gguf_tensor_at(f, i)->t.name, &rest);
        if (block < 0 || strncmp(rest, "nextn.", 6) != 0)
            continue;
        r.first = block < r.first ? block : r.first;
        r.last = block > r.last ? block : r.last;
    }
    return r;
}

/* True when block i holds a tensor whose name goes on with part. */
static bool block_has(const gguf_file *f, int i, const char *part)
{
    for (size_t k = 0; k < gguf_n_tensor(f); k++) {
        const char *rest;
        if (bind_block_of(gguf_tensor_at(f, k)->t.name, &rest) == i &&
            strncmp(rest, part, strlen(part)) == 0)
            return true;
    }
    return false;
}

/* Blocks in [from, to) for which block_has(part) holds. */
static int count_blocks(const gguf_file *f, int from, int to, const char *part)
{
    int n = 0;
    for (int i = from; i < to; i++)
        n += block_has(f, i, part);
    return n;
}

static ft_status contradiction(const gguf_file *f, int i_block, const hp_blocks *said,
                               const char *what, ft_error *err)
{
    return err_set(err, FT_FORMAT,
                   "%.80s: blk.%d %s, but block_count is %d and nextn_predict_layers %d",
                   bind_file_name(f), i_block, what, said->n_block, said->n_nextn);
}

/* nextn_predict_layers is 0 or absent. Blocks at the end that are draft heads all the same are
 * left out of the trunk. */
static ft_status plan_unannounced(model *m, const hp_blocks *said, const nextn_range *r,
                                  ft_error *err)
{
    const gguf_file *f = m->file;
    m->h.n_layer = said->n_block;
    if (r->last < 0) {
        snprintf(m->no_mtp_reason, sizeof m->no_mtp_reason, "the file has no MTP block");
        return FT_OK;
    }
    snprintf(m->no_mtp_reason, sizeof m->no_mtp_reason,
             "blk.%d holds an MTP block, but nextn_predict_layers is 0", r->first);
    if (r->first >= said->n_block)
        return FT_OK;
    m->h.n_layer = r->first;
    if (count_blocks(f, r->first, said->n_block, "nextn.") != said->n_block - r->first)
        return contradiction(f, r->first, said, "holds nextn tensors in the midst of the trunk",
                             err);
    return FT_OK;
}

static ft_status plan_announced(model *m, const hp_blocks *said, const nextn_range *r, int *i_mtp,
                                ft_error *err)
{
    const gguf_file *f = m->file;
    int begin = said->n_block - said->n_nextn;
    m->h.n_layer = begin;
    if (r->first < begin)
        return contradiction(f, r->first, said, "of the trunk holds nextn tensors", err);
    if (count_blocks(f, begin, said->n_block, "") == 0) {
        snprintf(m->no_mtp_reason, sizeof m->no_mtp_reason,
                 "nextn_predict_layers is %d, but blk.%d is not in the file", said->n_nextn, begin);
        return FT_OK;
    }
    for (int i = begin; i < said->n_block; i++)
        if (!block_has(f, i, "nextn."))
            return contradiction(f, i, said, "holds no nextn tensors", err);
    if (said->n_nextn > 1) {
        snprintf(m->no_mtp_reason, sizeof m->no_mtp_reason,
                 "the file has %d MTP blocks in a chain, one is supported", said->n_nextn);
        return FT_OK;
    }
    *i_mtp = begin;
    return FT_OK;
}

ft_status mtp_plan(model *m, const hp_blocks *blocks, int *i_mtp, ft_error *err)
{
    nextn_range r = find_nextn(m->file);
    *i_mtp = -1;
    if (blocks->n_nextn > 0)
        TRY(plan_announced(m, blocks, &r, i_mtp, err));
    else
        TRY(plan_unannounced(m, blocks, &r, err));
    if (r.last >= 0 && !block_has(m->file, 0, ""))
        return err_set(err, FT_FORMAT,
                       "%.80s: holds an MTP block without a trunk: give it beside the trunk's file",
                       bind_file_name(m->file));
    if (m->h.n_layer < 1)
        return err_set(err, FT_FORMAT, "%.80s: %d blocks, %d of them MTP: no trunk is left",
                       bind_file_name(m->file), blocks->n_block, blocks->n_nextn);
    return FT_OK;
}

/* ---- A separate file ------------------------------------------------------------------------ */

/* Tables must be the trunk's vocabulary, whatever the number of their rows is padded to. */
static ft_status check_vocab(const model *m, const gguf_file *f, ft_error *err)
{
    const char *key = "tokenizer.ggml.tokens";
    const gguf_kv *a = gguf_kv_find(m->file, key), *b = gguf_kv_find(f, key);
    if (a && b && a->n != b->n)
        return err_set(err, FT_MISMATCH, "%.80s: key '%s' has %llu entries, the trunk's has %llu",
                       bind_file_name(f), key, (unsigned long long)b->n, (unsigned long long)a->n);
    return FT_OK;
}

ft_status mtp_plan_side(const model *m, const gguf_file *f, int *i_mtp, ft_error *err)
{
    model_hparams h;
    hp_blocks blocks;
    TRY(hparams_read(&h, &blocks, f, err));
    TRY(hparams_compare(&m->h, &h, f, err));
    TRY(check_vocab(m, f, err));
    nextn_range r = find_nextn(f);
    if (r.last < 0)
        return err_set(err, FT_FORMAT, "%.80s: holds no MTP block (no tensor blk.N.nextn.*)",
                       bind_file_name(f));
    if (r.first != r.last)
        return err_set(err, FT_UNSUPPORTED, "%.80s: MTP blocks blk.%d to blk.%d, want one",
                       bind_file_name(f), r.first, r.last);
    *i_mtp = r.first;
    return FT_OK;
}

/* ---- Its tensors ---------------------------------------------------------------------------- */

/* eh_proj = [W_e | W_h], or two matrices. */
static ft_status bind_eh(const binder *b, model_mtp *p)
{
    int n = b->m->h.n_embd;
    tensor both;
    if (!bind_find(b, "nextn.eh_proj") &&
        (bind_find(b, "nextn.fc_embd") || bind_find(b, "nextn.fc_hidden"))) {
        TRY(bind_mat(b, &p->w_e, "nextn.fc_embd", n, n));
        return bind_mat(b, &p->w_h, "nextn.fc_hidden", n, n);
    }
    TRY(bind_mat(b, &both, "nextn.eh_proj", n, 2 * n));
    int block = dtype_find((uint32_t)both.type)->block_values;
    if (n % block != 0)
        return err_set(b->err, FT_UNSUPPORTED,
                       "%.80s: tensor '%s' has blocks of %d values, which %d does not divide into",
                       bind_file_name(b->f), both.name, block, n);
    both.n_col = n; /* row_bytes stays that of the whole */
    p->w_e = both;
    p->w_h = both;
    p->w_h.data = (const uint8_t *)both.data + dtype_row_bytes(both.type, (size_t)n);
    return FT_OK;
}

/* A table over the vocabulary: the block's own, else the side file's, else the trunk's. */
static ft_status bind_table(const binder *b, tensor *out, const char *own, const char *plain,
                            const tensor *trunk)
{
    const model *m = b->m;
    binder at = *b;
    const char *name = own;
    if (!bind_find(&at, name)) {
        at.i_block = -1;
        name = plain;
        if (b->f == m->file || !bind_find(&at, name)) {
            *out = *trunk;
            return FT_OK;
        }
    }
    const tensor *t = &bind_find(&at, name)->t;
    if (t->n_row != m->h.n_vocab)
        return err_set(b->err, FT_MISMATCH, "%.80s: tensor '%s' has %d rows, the trunk's has %d",
                       bind_file_name(b->f), t->name, t->n_row, m->h.n_vocab);
    return bind_mat(&at, out, name, m->h.n_vocab, m->h.n_embd);
}

/* The norm before the head: the block's own, else the side file's, else the trunk's. */
static ft_status bind_head_norm(const binder *b, model_mtp *p)
{
    const model *m = b->m;
    const binder global = {.m = b->m, .f = b->f, .i_block = -1, .err = b->err};
    if (bind_find(b, "nextn.shared_head_norm"))
        return bind_gamma(b, &p->head_norm, "nextn.shared_head_norm", m->h.n_embd);
    if (b->f != m->file && bind_find(&global, "output_norm"))
        return bind_gamma(&global, &p->head_norm, "output_norm", m->h.n_embd);
    p->head_norm = m->output_norm;
    return FT_OK;
}

ft_status mtp_bind(model *m, const gguf_file *f, int i_mtp, ft_error *err)
{
    const binder b = {.m = m, .f = f, .i_block = i_mtp, .err = err};
    model_mtp *p = &m->mtp;
    p->block.is_attn = true;
    TRY(bind_eh(&b, p));
    TRY(bind_gamma(&b, &p->enorm, "nextn.enorm", m->h.n_embd));
    TRY(bind_gamma(&b, &p->hnorm, "nextn.hnorm", m->h.n_hc * m->h.n_embd));
    TRY(bind_block(&b, &p->block));
    TRY(bind_table(&b, &p->embd, "nextn.embed_tokens", "token_embd", &m->token_embd));
    TRY(bind_table(&b, &p->head, "nextn.shared_head_head", "output", &m->output));
    if (m->h.n_hc > 1)
        TRY(bind_mixer(&b, &p->head_mixer, "nextn.hc_head", "nextn.hc", false));
    else
        TRY(bind_head_norm(&b, p));
    m->has_mtp = true;
    m->no_mtp_reason[0] = '\0';
    return FT_OK;
}
