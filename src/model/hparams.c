/* hparams.c - hyper-parameters from metadata. Keys and their meaning: docs/models.md.
 *
 * Every number has a range here (bind.h, invariant 2); what follows from two numbers is checked
 * where the second one is read.
 */
#include <stdio.h>
#include <string.h>

#include "model/bind.h"

#define MAX_HEAD   (1 << 10)
#define MAX_STREAM (1 << 4)
#define MAX_POS    (1 << 30)
#define MAX_TOP_K  (1 << 24)

/* Limits of kern_attn (kern/kern.h). */
#define ATTN_HEAD_STEP   16
#define ATTN_MAX_Q_OF_KV 32
#define ATTN_PAGE        512

#define KEY_MAX 96
typedef struct {
    const gguf_file *f;
    const char *arch;
    ft_error *err;
} reader;

static const char *const arch_names[] = {
    [MODEL_QWEN35] = "qwen35", [MODEL_QWEN35MOE] = "qwen35moe", [MODEL_QWEN4EXP] = "qwen4exp"};

const char *model_arch_name(model_arch a)
{
    return arch_names[a];
}

/* ---- Reading one key ------------------------------------------------------------------------ */

static const char *full_key(const reader *r, char out[KEY_MAX], const char *name)
{
    snprintf(out, KEY_MAX, "%s.%s", r->arch, name);
    return out;
}

static const gguf_kv *find(const reader *r, const char *name)
{
    char key[KEY_MAX];
    return gguf_kv_find(r->f, full_key(r, key, name));
}

static ft_status get_int(const reader *r, const char *name, int min, int max, int *out)
{
    char key[KEY_MAX];
    int64_t v;
    TRY(gguf_get_int(r->f, full_key(r, key, name), min, max, &v, r->err));
    *out = (int)v;
    return FT_OK;
}

/* absent: the value where the key is not there. */
static ft_status get_int_or(const reader *r, const char *name, int min, int max, int absent,
                            int *out)
{
    *out = absent;
    return find(r, name) ? get_int(r, name, min, max, out) : FT_OK;
}

static ft_status get_float(const reader *r, const char *name, double min, double max, double *out)
{
    char key[KEY_MAX];
    return gguf_get_float(r->f, full_key(r, key, name), min, max, out, r->err);
}

/* "file: key 'arch.name' is <v>, want <want>". */
static ft_status wrong(const reader *r, ft_status code, const char *name, int64_t v,
                       const char *want)
{
    return err_set(r->err, code, "%.80s: key '%s.%s' is %lld, want %s", bind_file_name(r->f),
                   r->arch, name, (long long)v, want);
}

static ft_status missing(const reader *r, const char *name)
{
    return err_set(r->err, FT_FORMAT, "%.80s: key '%s.%s' is missing", bind_file_name(r->f),
                   r->arch, name);
}

/* Value i of a list with one value per block; a scalar stands for all blocks. */
static ft_status list_int(const reader *r, const gguf_kv *kv, int i, int64_t *out)
{
    if (kv->type != GGUF_ARRAY)
        return gguf_kv_int(kv, 0, out, r->err);
    if ((uint64_t)i >= kv->n)
        return err_set(r->err, FT_FORMAT, "%.80s: key '%s' has %llu values, want one per block",
                       bind_file_name(r->f), kv->key, (unsigned long long)kv->n);
    return gguf_kv_int(kv, (uint64_t)i, out, r->err);
}

/* A number, or a list with one per block in which 0 stands for "none here" and the rest agree. */
static ft_status get_uniform(const reader *r, const char *name, int max, int *out)
{
    const gguf_kv *kv = find(r, name);
    if (!kv || kv->type != GGUF_ARRAY)
        return get_int(r, name, 1, max, out);
    int64_t found = 0;
    for (uint64_t i = 0; i < kv->n; i++) {
        int64_t v;
        TRY(gguf_kv_int(kv, i, &v, r->err));
        if (v == 0)
            continue;
        if (v < 0 || v > max)
            return wrong(r, FT_FORMAT, name, v, "small positive numbers");
        if (found && v != found)
            return wrong(r, FT_UNSUPPORTED, name, v, "the same number in all blocks that have one");
        found = v;
    }
    if (!found)
        return wrong(r, FT_FORMAT, name, 0, "a number above 0 in some block");
    *out = (int)found;
    return FT_OK;
}

/* ---- Groups of keys ------------------------------------------------------------------------- */

static ft_status read_arch(reader *r, model_hparams *h)
{
    gguf_str s;
    TRY(gguf_get_str(r->f, "general.architecture", &s, r->err));
    for (size_t i = 0; i < ARRAY_LEN(arch_names); i++) {
        if (s.len == strlen(arch_names[i]) && memcmp(s.s, arch_names[i], s.len) == 0) {
            h->arch = (model_arch)i;
            r->arch = arch_names[i];
            return FT_OK;
        }
    }
    int shown = s.len < 40 ? (int)s.len : 40;
    return err_set(r->err, FT_UNSUPPORTED,
                   "%.80s: general.architecture is '%.*s', want qwen35, qwen35moe or qwen4exp",
                   bind_file_name(r->f), shown, s.s);
}

/* For keys of an architecture that is known. */
static reader reader_of(const model_hparams *h, const gguf_file *f, ft_error *err)
{
    return (reader){.f = f, .arch = arch_names[h->arch], .err = err};
}

/* Scaled rotary positions are refused, not ignored: the text would go wrong past the native
 * context without a word. */
static ft_status read_rope(const reader *r, model_hparams *h)
{
    TRY(get_float(r, "rope.freq_base", 1.0, 1e15, &h->rope_base));
    TRY(get_int_or(r, "rope.dimension_count", 2, h->d_head, h->d_head, &h->n_rot));
    if (h->n_rot % 2 != 0)
        return wrong(r, FT_FORMAT, "rope.dimension_count", h->n_rot, "an even number");
    if (find(r, "rope.scaling.type")) {
        char key[KEY_MAX];
        gguf_str s;
        TRY(gguf_get_str(r->f, full_key(r, key, "rope.scaling.type"), &s, r->err));
        if (s.len == 4 && memcmp(s.s, "none", 4) == 0)
            return FT_OK;
        int shown = s.len < 40 ? (int)s.len : 40;
        return err_set(r->err, FT_UNSUPPORTED, "%.80s: key '%s' is '%.*s', want 'none'",
                       bind_file_name(r->f), key, shown, s.s);
    }
    if (find(r, "rope.scaling.factor")) {
        double factor;
        TRY(get_float(r, "rope.scaling.factor", 0.0, 1e9, &factor));
        if (factor != 1.0 && factor != 0.0)
            return err_set(r->err, FT_UNSUPPORTED,
                           "%.80s: key '%s.rope.scaling.factor' is %g, want 1 (no scaling)",
                           bind_file_name(r->f), r->arch, factor);
    }
    return FT_OK;
}

static ft_status read_attention(const reader *r, model_hparams *h)
{
    int d_value;
    double eps;
    TRY(get_uniform(r, "attention.head_count", MAX_HEAD, &h->n_head));
    TRY(get_uniform(r, "attention.head_count_kv", MAX_HEAD, &h->n_head_kv));
    TRY(get_int(r, "attention.key_length", 1, MAX_HEAD, &h->d_head));
    TRY(get_int_or(r, "attention.value_length", 1, MAX_HEAD, h->d_head, &d_value));
    TRY(get_float(r, "attention.layer_norm_rms_epsilon", 1e-12, 1.0, &eps));
    h->eps = (float)eps;
    if (h->n_head % h->n_head_kv != 0)
        return wrong(r, FT_FORMAT, "attention.head_count", h->n_head,
                     "a multiple of attention.head_count_kv");
    if (h->n_head / h->n_head_kv > ATTN_MAX_Q_OF_KV)
        return wrong(r, FT_UNSUPPORTED, "attention.head_count", h->n_head,
                     "at most 32 for each of attention.head_count_kv");
    if (h->d_head % ATTN_HEAD_STEP != 0)
        return wrong(r, FT_UNSUPPORTED, "attention.key_length", h->d_head, "a multiple of 16");
    if (d_value != h->d_head)
        return wrong(r, FT_UNSUPPORTED, "attention.value_length", d_value,
                     "the same as attention.key_length");
    return read_rope(r, h);
}

static ft_status read_ffn(const reader *r, model_hparams *h)
{
    if (h->arch == MODEL_QWEN35)
        return get_int(r, "feed_forward_length", 1, HP_MAX_SIZE, &h->n_ff);
    TRY(get_int(r, "expert_count", 1, 1 << 16, &h->n_expert));
    TRY(get_int(r, "expert_used_count", 1, h->n_expert, &h->n_expert_used));
    TRY(get_int(r, "expert_feed_forward_length", 1, HP_MAX_SIZE, &h->n_ff_exp));
    return get_int_or(r, "expert_shared_feed_forward_length", 1, HP_MAX_SIZE, h->n_ff_exp,
                      &h->n_ff_shexp);
}

ft_status hparams_read(model_hparams *h, hp_blocks *b, const gguf_file *f, ft_error *err)
{
    reader r = {.f = f, .err = err};
    *h = (model_hparams){.n_hc = 1, .ple_layer = -1};
    TRY(read_arch(&r, h));
    TRY(get_int(&r, "block_count", 1, MODEL_MAX_LAYER, &b->n_block));
    TRY(get_int_or(&r, "nextn_predict_layers", 0, b->n_block, 0, &b->n_nextn));
    TRY(get_int(&r, "embedding_length", 1, HP_MAX_SIZE, &h->n_embd));
    TRY(get_int(&r, "context_length", 1, MAX_POS, &h->n_ctx_train));
    TRY(read_attention(&r, h));
    TRY(read_ffn(&r, h));
    if (h->arch == MODEL_QWEN4EXP)
        TRY(get_int(&r, "hyper_connection.count", 2, MAX_STREAM, &h->n_hc));
    return FT_OK;
}

ft_status hparams_gdn(model_hparams *h, const gguf_file *f, ft_error *err)
{
    reader r = reader_of(h, f, err);
    int inner;
    TRY(get_int(&r, "ssm.group_count", 1, MAX_HEAD, &h->n_key_head));
    TRY(get_int(&r, "ssm.time_step_rank", 1, MAX_HEAD, &h->n_val_head));
    TRY(get_int(&r, "ssm.state_size", 1, MAX_HEAD, &h->d_state));
    TRY(get_int(&r, "ssm.conv_kernel", 1, HP_MAX_TAP, &h->n_conv));
    if (h->n_val_head % h->n_key_head != 0)
        return wrong(&r, FT_FORMAT, "ssm.time_step_rank", h->n_val_head,
                     "a multiple of ssm.group_count");
    int want = h->n_val_head * h->d_state;
    TRY(get_int_or(&r, "ssm.inner_size", 1, HP_MAX_SIZE, want, &inner));
    if (inner != want)
        return wrong(&r, FT_FORMAT, "ssm.inner_size", inner, "ssm.time_step_rank * ssm.state_size");
    return FT_OK;
}

/* ---- Per layer ------------------------------------------------------------------------------ */

static ft_status read_kinds(const reader *r, model *m)
{
    int interval;
    const gguf_kv *kv = find(r, "attention.recurrent_layers");
    TRY(get_int_or(r, "full_attention_interval", 1, MODEL_MAX_LAYER, 4, &interval));
    for (int i = 0; i < m->h.n_layer; i++) {
        int64_t recurrent = (i + 1) % interval != 0;
        if (kv)
            TRY(list_int(r, kv, i, &recurrent));
        m->layer[i].is_attn = !recurrent;
    }
    return FT_OK;
}

static ft_status read_ratios(const reader *r, model *m)
{
    const char *name = "attention.compress_ratios";
    const gguf_kv *kv = find(r, name);
    if (!kv)
        return missing(r, name);
    for (int i = 0; i < m->h.n_layer; i++) {
        int64_t ratio;
        TRY(list_int(r, kv, i, &ratio));
        if (ratio < 0 || ratio > HP_MAX_SIZE)
            return wrong(r, FT_FORMAT, name, ratio, "0 (dense) or a small number of tokens");
        if (!m->layer[i].is_attn)
            continue;
        if (ratio > 0 && ATTN_PAGE % ratio != 0) /* pages hold whole blocks */
            return wrong(r, FT_UNSUPPORTED, name, ratio, "0 or a divisor of 512");
        m->layer[i].attn.ratio = (int)ratio;
    }
    return FT_OK;
}

/* The indexer's sizes, if any layer selects blocks. */
static ft_status read_indexer(const reader *r, model *m)
{
    model_hparams *h = &m->h;
    int top_k = 0;
    for (int i = 0; i < h->n_layer; i++) {
        int ratio = m->layer[i].attn.ratio;
        if (ratio == 0)
            continue;
        if (top_k == 0)
            TRY(get_int(r, "attention.indexer.top_k", 1, MAX_TOP_K, &top_k));
        if (top_k % ratio != 0)
            return wrong(r, FT_FORMAT, "attention.indexer.top_k", top_k,
                         "a multiple of every ratio in attention.compress_ratios");
    }
    if (top_k == 0)
        return FT_OK;
    h->idx_top_k = top_k;
    TRY(get_int(r, "attention.indexer.head_count", 1, MAX_HEAD, &h->n_idx_head));
    TRY(get_int(r, "attention.indexer.key_length", 1, MAX_HEAD, &h->d_idx));
    if (h->d_idx < h->n_rot)
        return wrong(r, FT_FORMAT, "attention.indexer.key_length", h->d_idx,
                     "at least rope.dimension_count");
    return FT_OK;
}

ft_status hparams_layers(model *m, const gguf_file *f, ft_error *err)
{
    reader r = reader_of(&m->h, f, err);
    TRY(read_kinds(&r, m));
    if (m->h.arch != MODEL_QWEN4EXP)
        return FT_OK;
    TRY(read_ratios(&r, m));
    return read_indexer(&r, m);
}

/* ---- The n-gram layer ----------------------------------------------------------------------- */

/* A list of exactly n integers. */
static ft_status get_list(const reader *r, const char *name, int n, const gguf_kv **out)
{
    const gguf_kv *kv = find(r, name);
    if (!kv)
        return missing(r, name);
    if (kv->n != (uint64_t)n)
        return err_set(r->err, FT_FORMAT, "%.80s: key '%s' has %llu values, want %d",
                       bind_file_name(r->f), kv->key, (unsigned long long)kv->n, n);
    *out = kv;
    return FT_OK;
}

/* Number of the layer in ple.layers; -1 where there is none. */
static ft_status read_ple_layer(const reader *r, model_hparams *h)
{
    const gguf_kv *kv = find(r, "ple.layers");
    if (!kv || kv->n == 0)
        return FT_OK;
    if (kv->n != 1)
        return err_set(r->err, FT_UNSUPPORTED, "%.80s: key '%s' has %llu layers, want at most one",
                       bind_file_name(r->f), kv->key, (unsigned long long)kv->n);
    int64_t layer;
    TRY(gguf_kv_int(kv, 0, &layer, r->err));
    if (layer < 0 || layer >= h->n_layer)
        return wrong(r, FT_FORMAT, "ple.layers", layer, "a layer of the trunk");
    h->ple_layer = (int)layer;
    return FT_OK;
}

static ft_status read_ple_lists(const reader *r, const model_hparams *h, model_ple *p)
{
    const gguf_kv *mult, *off, *vocab;
    int n_head = (h->ple_ngram - 1) * h->ple_heads;
    TRY(get_list(r, "ple.layer_multipliers", h->ple_ngram, &mult));
    TRY(get_list(r, "ple.head_offsets", n_head, &off));
    TRY(get_list(r, "ple.head_vocab_sizes", n_head, &vocab));
    for (int i = 0; i < h->ple_ngram; i++) {
        int64_t v;
        TRY(gguf_kv_int(mult, (uint64_t)i, &v, r->err));
        p->mult[i] = (uint64_t)v;
    }
    for (int i = 0; i < n_head; i++) {
        TRY(gguf_kv_int(off, (uint64_t)i, &p->head_off[i], r->err));
        TRY(gguf_kv_int(vocab, (uint64_t)i, &p->head_vocab[i], r->err));
        if (p->head_off[i] < 0)
            return wrong(r, FT_FORMAT, "ple.head_offsets", p->head_off[i], "0 or more");
        if (p->head_vocab[i] < 1)
            return wrong(r, FT_FORMAT, "ple.head_vocab_sizes", p->head_vocab[i], "1 or more");
    }
    return FT_OK;
}

ft_status hparams_ple(model *m, const gguf_file *f, ft_error *err)
{
    model_hparams *h = &m->h;
    reader r = reader_of(h, f, err);
    if (h->arch != MODEL_QWEN4EXP)
        return FT_OK;
    TRY(read_ple_layer(&r, h));
    if (h->ple_layer < 0)
        return FT_OK;
    TRY(get_int(&r, "ple.ngram_size", 2, MODEL_MAX_NGRAM, &h->ple_ngram));
    TRY(get_int(&r, "ple.heads_per_ngram", 1, MODEL_MAX_NGRAM_HEADS / (h->ple_ngram - 1),
                &h->ple_heads));
    TRY(get_int(&r, "ple.conv_kernel", 1, HP_MAX_TAP, &h->ple_conv));
    TRY(get_int(&r, "ple.eos_token_id", 0, INT32_MAX, &h->ple_eos));
    return read_ple_lists(&r, h, &m->ple);
}

ft_status hparams_vocab(const model_hparams *h, const gguf_file *f, ft_error *err)
{
    reader r = reader_of(h, f, err);
    int n;
    return get_int_or(&r, "vocab_size", 1, h->n_vocab, h->n_vocab, &n);
}

/* ---- A separate MTP file -------------------------------------------------------------------- */

ft_status hparams_compare(const model_hparams *trunk, const model_hparams *mtp, const gguf_file *f,
                          ft_error *err)
{
    if (trunk->arch != mtp->arch)
        return err_set(err, FT_MISMATCH, "%.80s: general.architecture is %s, the trunk's is %s",
                       bind_file_name(f), arch_names[mtp->arch], arch_names[trunk->arch]);
#define SAME(field, key)                              \
    {                                                 \
        key, (double)trunk->field, (double)mtp->field \
    }
    const struct {
        const char *key;
        double want, found;
    } same[] = {
        SAME(n_embd, "embedding_length"),
        SAME(n_head, "attention.head_count"),
        SAME(n_head_kv, "attention.head_count_kv"),
        SAME(d_head, "attention.key_length"),
        SAME(n_rot, "rope.dimension_count"),
        SAME(rope_base, "rope.freq_base"),
        SAME(eps, "attention.layer_norm_rms_epsilon"),
        SAME(n_ff, "feed_forward_length"),
        SAME(n_expert, "expert_count"),
        SAME(n_expert_used, "expert_used_count"),
        SAME(n_ff_exp, "expert_feed_forward_length"),
        SAME(n_ff_shexp, "expert_shared_feed_forward_length"),
        SAME(n_hc, "hyper_connection.count"),
    };
#undef SAME
    for (size_t i = 0; i < ARRAY_LEN(same); i++)
        if (same[i].found != same[i].want)
            return err_set(err, FT_MISMATCH, "%.80s: key '%s.%s' is %g, the trunk's is %g",
                           bind_file_name(f), arch_names[mtp->arch], same[i].key, same[i].found,
                           same[i].want);
    return FT_OK;
}
