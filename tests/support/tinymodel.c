/* tinymodel.c - see tinymodel.h. Names and shapes follow docs/models.md. */
#include "tinymodel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kern/kern.h"
#include "tinymodel_meta.h"

#define MAX_SPEC 1024

/* How a tensor's values are drawn. */
typedef enum { FILL_WEIGHT, FILL_TABLE, FILL_GAMMA, FILL_GAMMA0, FILL_A, FILL_DT } fill;
/* A tensor made of two others, whose values it takes. */
typedef enum { JOIN_NONE, JOIN_ROWS, JOIN_COLS } join;

typedef struct {
    char name[64];
    char source[64]; /* the name that its values are drawn by */
    tiny_class cls;
    fill how;
    dtype type;
    int n_dim;
    uint64_t dim[3]; /* fastest first */
    join join;
    char part[2][64];
    uint64_t half; /* rows or columns of a part */
} spec;

typedef struct {
    const tiny_opts *o;
    const char *prefix; /* of the names being added */
    spec *spec;         /* [MAX_SPEC], owned */
    int n_spec;
} maker;

tiny_opts tiny_default(model_arch arch)
{
    tiny_opts o = {
        .arch = arch,
        .seed = 1,
        .n_layer = 4,
        .n_embd = 64,
        .n_vocab = 320,
        .n_ctx = 1024,
        .n_head = 2,
        .n_head_kv = 1,
        .d_head = 32,
        .n_rot = 16,
        .n_key_head = 2,
        .n_val_head = 4,
        .d_state = 16,
        .n_conv = 4,
        .n_ff = 96,
        .n_expert = 8,
        .n_expert_used = 3,
        .n_ff_exp = 32,
        .n_ff_shexp = 32,
        .n_hc = 2,
        .hc_rank = 8,
        .n_idx_head = 2,
        .d_idx = 16,
        .idx_top_k = 16,
        .ratio = 4,
        .ple_layer = 1,
        .ple_ngram = 3,
        .ple_heads = 2,
        .ple_conv = 4,
        .ple_dim = 16,
        .ple_eos = TINY_EOS,
        .n_mtp = 1,
        .n_mtp_told = 1,
    };
    for (int i = 0; i < TINY_N_CLASS; i++)
        o.type[i] = DTYPE_F32;
    return o;
}

/* ---- Values -------------------------------------------------------------------------------- */

static uint64_t hash_name(const char *s)
{
    uint64_t h = 1469598103934665603u; /* FNV-1a */
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

static uint64_t mix(uint64_t x) /* the finalizer of splitmix64 */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* About N(0, 1): the sum of four uniforms of 16 bits, the same on every machine. */
static float normal(uint64_t key, uint64_t i)
{
    uint64_t r = mix(key ^ mix(i));
    int sum =
        (int)(r & 0xffff) + (int)(r >> 16 & 0xffff) + (int)(r >> 32 & 0xffff) + (int)(r >> 48);
    return (float)(sum - 131070) * (1.7320508f / 65536.0f);
}

static float shape_value(fill how, uint64_t n_in, float z)
{
    switch (how) {
    case FILL_WEIGHT:
        return z / sqrtf((float)n_in);
    case FILL_TABLE:
        return z;
    case FILL_GAMMA:
        return 1.0f + 0.1f * z;
    case FILL_GAMMA0:
        return 0.1f * z;
    case FILL_A:
        return -expf(-1.0f + 0.5f * z);
    case FILL_DT:
        return 0.1f * z;
    }
    return 0.0f;
}

/* Row r of matrix m of t into x [dim[0]]. */
static void fill_row(const maker *k, const spec *t, uint64_t m, uint64_t r, float *x)
{
    uint64_t n_col = t->dim[0], n_row = t->dim[1];
    for (uint64_t c = 0; c < n_col; c++) {
        const char *name = t->source;
        uint64_t i = (m * n_row + r) * n_col + c;
        if (t->join == JOIN_ROWS) {
            name = t->part[r >= t->half];
            i = (m * t->half + r % t->half) * n_col + c;
        } else if (t->join == JOIN_COLS) {
            name = t->part[c >= t->half];
            i = r * t->half + c % t->half;
        }
        uint64_t n_in = t->join == JOIN_COLS ? t->half : n_col;
        x[c] = shape_value(t->how, n_in, normal(mix(k->o->seed) ^ hash_name(name), i));
    }
}

/* ---- The list of tensors ------------------------------------------------------------------- */

static bool matches(const char *pattern, const char *name)
{
    if (!pattern)
        return false;
    size_t n = strlen(pattern);
    if (n > 0 && pattern[n - 1] == '*')
        return strncmp(pattern, name, n - 1) == 0;
    return strcmp(pattern, name) == 0;
}

static void full_name(const maker *k, char out[64], const char *name)
{
    tiny_check(snprintf(out, 64, "%s%s", k->prefix, name) < 64, name);
}

/* Adds prefix + name; NULL when the options leave it out. d1 0: a vector; d2 0: no third one. */
static spec *add(maker *k, const char *name, tiny_class cls, fill how, int d0, int d1, int d2)
{
    tiny_check(k->n_spec < MAX_SPEC, "too many tensors");
    spec *t = &k->spec[k->n_spec];
    *t = (spec){.cls = cls, .how = how};
    full_name(k, t->name, name);
    full_name(k, t->source, name);
    if (matches(k->o->omit, t->name))
        return NULL;
    if (matches(k->o->zero_gamma, t->name))
        t->how = FILL_GAMMA0;
    k->n_spec++;
    t->dim[0] = (uint64_t)d0;
    t->dim[1] = d1 ? (uint64_t)d1 : 1;
    t->dim[2] = d2 ? (uint64_t)d2 : 1;
    t->n_dim = d2 ? 3 : d1 ? 2 : 1;
    if (matches(k->o->reshape, t->name)) {
        t->dim[k->o->reshape_dim]++;
        if (t->n_dim <= k->o->reshape_dim)
            t->n_dim = k->o->reshape_dim + 1;
    }
    t->type = k->o->type[cls];
    const dtype_info *d = dtype_find((uint32_t)t->type);
    if (t->dim[0] % (uint64_t)d->block_values != 0)
        t->type = DTYPE_F16;
    if (matches(k->o->retype, t->name))
        t->type = k->o->retype_to;
    return t;
}

/* t takes its values from the tensors a and b; NULL is allowed. */
static void join_parts(const maker *k, spec *t, join how, const char *a, const char *b)
{
    if (!t)
        return;
    t->join = how;
    t->half = t->dim[how == JOIN_COLS ? 0 : 1] / 2;
    full_name(k, t->part[0], a);
    full_name(k, t->part[1], b);
}

/* Another spelling of a tensor has its values. */
static void spelled(const maker *k, spec *t, const char *usual)
{
    if (t)
        full_name(k, t->source, usual);
}

static void gamma_of(maker *k, const char *name, int n)
{
    add(k, name, TINY_VECTOR, FILL_GAMMA, n, 0, 0);
}

static void matrix(maker *k, const char *name, tiny_class cls, int n_in, int n_out)
{
    add(k, name, cls, FILL_WEIGHT, n_in, n_out, 0);
}

/* usual: the name that the values are drawn by. */
static void add_mixer(maker *k, const char *name, const char *usual, bool inject)
{
    const tiny_opts *o = k->o;
    int wide = o->n_hc * o->n_embd;
    const struct {
        const char *part;
        tiny_class cls;
        fill how;
        int d0, d1;
    } parts[] = {
        {"norm", TINY_VECTOR, FILL_GAMMA, wide, 0},
        {"down", TINY_MIXER, FILL_WEIGHT, wide, o->hc_rank},
        {"up", TINY_MIXER, FILL_WEIGHT, o->hc_rank, wide},
        {"inject", TINY_MIXER, FILL_WEIGHT, wide, o->n_hc},
    };
    for (int i = 0; i < (inject ? 4 : 3); i++) {
        char s[2][48];
        snprintf(s[0], sizeof s[0], "%s_%s.weight", name, parts[i].part);
        snprintf(s[1], sizeof s[1], "%s_%s.weight", usual, parts[i].part);
        spelled(k, add(k, s[0], parts[i].cls, parts[i].how, parts[i].d0, parts[i].d1, 0), s[1]);
    }
}

static void add_attn(maker *k)
{
    const tiny_opts *o = k->o;
    matrix(k, "attn_q.weight", TINY_ATTN, o->n_embd, o->n_head * 2 * o->d_head);
    matrix(k, "attn_k.weight", TINY_ATTN, o->n_embd, o->n_head_kv * o->d_head);
    matrix(k, "attn_v.weight", TINY_ATTN, o->n_embd, o->n_head_kv * o->d_head);
    matrix(k, "attn_output.weight", TINY_ATTN, o->n_head * o->d_head, o->n_embd);
    gamma_of(k, "attn_q_norm.weight", o->d_head);
    gamma_of(k, "attn_k_norm.weight", o->d_head);
    if (o->arch != MODEL_QWEN4EXP || o->ratio == 0)
        return;
    matrix(k, "indexer.q_proj.weight", TINY_ATTN, o->n_embd, o->n_idx_head * o->d_idx);
    matrix(k, "indexer.k_proj.weight", TINY_ATTN, o->n_embd, o->d_idx);
    gamma_of(k, "indexer.q_norm.weight", o->d_idx);
    gamma_of(k, "indexer.k_norm.weight", o->d_idx);
}

static void add_gdn(maker *k)
{
    const tiny_opts *o = k->o;
    int channels = (2 * o->n_key_head + o->n_val_head) * o->d_state;
    int inner = o->n_val_head * o->d_state;
    matrix(k, "attn_qkv.weight", TINY_GDN, o->n_embd, channels);
    matrix(k, "attn_gate.weight", TINY_GDN, o->n_embd, inner);
    matrix(k, "ssm_alpha.weight", TINY_GDN, o->n_embd, o->n_val_head);
    matrix(k, "ssm_beta.weight", TINY_GDN, o->n_embd, o->n_val_head);
    matrix(k, "ssm_out.weight", TINY_GDN, inner, o->n_embd);
    matrix(k, "ssm_conv1d.weight", TINY_VECTOR, o->n_conv, channels);
    const char *a = o->a_weight ? "ssm_a.weight" : "ssm_a";
    spelled(k, add(k, a, TINY_VECTOR, FILL_A, o->n_val_head, 0, 0), "ssm_a");
    add(k, "ssm_dt.bias", TINY_VECTOR, FILL_DT, o->n_val_head, 0, 0);
    gamma_of(k, "ssm_norm.weight", o->d_state);
}

static void add_experts(maker *k)
{
    const tiny_opts *o = k->o;
    int h = o->n_embd, f = o->n_ff_exp, e = o->n_expert;
    matrix(k, "ffn_gate_inp.weight", TINY_ROUTER, h, e);
    if (o->fused_experts) {
        spec *t = add(k, "ffn_gate_up_exps.weight", TINY_EXPERT, FILL_WEIGHT, h, 2 * f, e);
        join_parts(k, t, JOIN_ROWS, "ffn_gate_exps.weight", "ffn_up_exps.weight");
    } else {
        add(k, "ffn_gate_exps.weight", TINY_EXPERT, FILL_WEIGHT, h, f, e);
        add(k, "ffn_up_exps.weight", TINY_EXPERT, FILL_WEIGHT, h, f, e);
    }
    add(k, "ffn_down_exps.weight", TINY_EXPERT, FILL_WEIGHT, f, h, e);
    add(k, "ffn_gate_inp_shexp.weight", TINY_VECTOR, FILL_WEIGHT, h, o->column_vec, 0);
    matrix(k, "ffn_gate_shexp.weight", TINY_FFN, h, o->n_ff_shexp);
    matrix(k, "ffn_up_shexp.weight", TINY_FFN, h, o->n_ff_shexp);
    matrix(k, "ffn_down_shexp.weight", TINY_FFN, o->n_ff_shexp, h);
}

static void add_ffn(maker *k)
{
    const tiny_opts *o = k->o;
    if (o->arch != MODEL_QWEN35) {
        add_experts(k);
        return;
    }
    matrix(k, "ffn_gate.weight", TINY_FFN, o->n_embd, o->n_ff);
    matrix(k, "ffn_up.weight", TINY_FFN, o->n_embd, o->n_ff);
    matrix(k, "ffn_down.weight", TINY_FFN, o->n_ff, o->n_embd);
}

static void add_block(maker *k, bool is_attn)
{
    if (k->o->arch == MODEL_QWEN4EXP) {
        add_mixer(k, "hc_attn", "hc_attn", true);
        add_mixer(k, "hc_ffn", "hc_ffn", true);
    } else {
        gamma_of(k, "attn_norm.weight", k->o->n_embd);
        gamma_of(k, "post_attention_norm.weight", k->o->n_embd);
    }
    if (is_attn)
        add_attn(k);
    else
        add_gdn(k);
    add_ffn(k);
}

static void add_ple(maker *k)
{
    const tiny_opts *o = k->o;
    int e = (o->ple_ngram - 1) * o->ple_heads * o->ple_dim, wide = o->n_hc * o->n_embd;
    matrix(k, "ple_key.weight", TINY_PLE, e, wide);
    matrix(k, "ple_value.weight", TINY_PLE, e, o->n_embd);
    matrix(k, "ple_conv1d.weight", TINY_VECTOR, o->ple_conv, wide);
    gamma_of(k, "ple_norm_key.weight", wide);
    gamma_of(k, "ple_norm_query.weight", wide);
    gamma_of(k, "ple_norm_conv.weight", wide);
}

static void add_mtp(maker *k)
{
    const tiny_opts *o = k->o;
    int h = o->n_embd, wide = o->arch == MODEL_QWEN4EXP ? o->n_hc * h : h;
    add_block(k, true);
    if (o->split_eh) {
        matrix(k, "nextn.fc_embd.weight", TINY_EH, h, h);
        matrix(k, "nextn.fc_hidden.weight", TINY_EH, h, h);
    } else {
        spec *t = add(k, "nextn.eh_proj.weight", TINY_EH, FILL_WEIGHT, 2 * h, h, 0);
        join_parts(k, t, JOIN_COLS, "nextn.fc_embd.weight", "nextn.fc_hidden.weight");
    }
    gamma_of(k, "nextn.enorm.weight", h);
    gamma_of(k, "nextn.hnorm.weight", wide);
    if (o->mtp_embd)
        add(k, "nextn.embed_tokens.weight", TINY_EMBD, FILL_TABLE, h, o->n_vocab, 0);
    if (o->mtp_head)
        matrix(k, "nextn.shared_head_head.weight", TINY_HEAD, h, o->n_vocab);
    if (o->arch == MODEL_QWEN4EXP)
        add_mixer(k, o->short_hc ? "nextn.hc" : "nextn.hc_head", "nextn.hc_head", false);
    else if (!o->mtp_no_norm)
        gamma_of(k, "nextn.shared_head_norm.weight", h);
}

static void add_table(maker *k)
{
    add(k, "token_embd.weight", TINY_EMBD, FILL_TABLE, k->o->n_embd, k->o->n_vocab, 0);
}

static void add_head(maker *k)
{
    if (!k->o->tied)
        matrix(k, "output.weight", TINY_HEAD, k->o->n_embd, k->o->n_vocab);
}

static void add_trunk(maker *k)
{
    const tiny_opts *o = k->o;
    bool has_ple = o->arch == MODEL_QWEN4EXP && o->ple_layer >= 0;
    add_table(k);
    add_head(k);
    if (o->arch == MODEL_QWEN4EXP)
        add_mixer(k, "output_hc", "output_hc", false);
    else
        gamma_of(k, "output_norm.weight", o->n_embd);
    if (has_ple)
        add(k, "per_layer_token_embd.weight", TINY_PLE, FILL_TABLE, o->ple_dim, tiny_ple_rows(o),
            0);
    for (int i = 0; i < o->n_layer; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blk.%d.", i);
        k->prefix = prefix;
        add_block(k, (i + 1) % 4 == 0);
        if (has_ple && i == o->ple_layer)
            add_ple(k);
        k->prefix = "";
    }
}

static void add_mtp_at(maker *k, int i_block)
{
    char prefix[32];
    snprintf(prefix, sizeof prefix, "blk.%d.", i_block);
    k->prefix = prefix;
    add_mtp(k);
    k->prefix = "";
}

/* ---- Writing ------------------------------------------------------------------------------- */

static void write_tensor(const maker *k, gguf_writer *w, const spec *t)
{
    ft_error err = {0};
    size_t row_bytes = dtype_row_bytes(t->type, (size_t)t->dim[0]);
    float *x = calloc((size_t)t->dim[0], sizeof *x);
    uint8_t *y = calloc(1, row_bytes);
    tiny_check(x && y, "out of memory");
    for (uint64_t m = 0; m < t->dim[2]; m++) {
        for (uint64_t r = 0; r < t->dim[1]; r++) {
            fill_row(k, t, m, r, x);
            bool ok = kern_encode((int)t->type, y, x, (size_t)t->dim[0]);
            tiny_check(ok || matches(k->o->retype, t->name), t->name);
            tiny_check(gguf_write_data(w, y, row_bytes, &err) == FT_OK, err.msg);
        }
    }
    free(x);
    free(y);
}

static void write_file(const maker *k, const char *path)
{
    ft_error err = {0};
    gguf_writer *w;
    tiny_check(gguf_writer_open(&w, path, &err) == FT_OK, err.msg);
    tiny_put_metadata(w, k->o);
    for (int i = 0; i < k->n_spec; i++)
        gguf_declare(w, k->spec[i].name, k->spec[i].type, k->spec[i].n_dim, k->spec[i].dim);
    tiny_check(gguf_writer_begin(w, &err) == FT_OK, err.msg);
    for (int i = 0; i < k->n_spec; i++)
        write_tensor(k, w, &k->spec[i]);
    tiny_check(gguf_writer_close(w, &err) == FT_OK, err.msg);
}

static maker begin(const tiny_opts *o)
{
    maker k = {.o = o, .prefix = "", .spec = calloc(MAX_SPEC, sizeof(spec))};
    tiny_check(k.spec != NULL, "out of memory");
    return k;
}

static maker whole(const tiny_opts *o)
{
    maker k = begin(o);
    add_trunk(&k);
    for (int i = 0; i < o->n_mtp; i++)
        add_mtp_at(&k, o->n_layer + i);
    return k;
}

void tiny_write(const char *path, const tiny_opts *o)
{
    maker k = whole(o);
    write_file(&k, path);
    free(k.spec);
}

void tiny_write_mtp(const char *path, const tiny_opts *o)
{
    maker k = begin(o);
    if (o->side_embd)
        add_table(&k);
    if (o->side_head)
        add_head(&k);
    if (o->side_norm)
        gamma_of(&k, "output_norm.weight", o->n_embd);
    for (int i = 0; i == 0 || i < o->n_mtp; i++)
        add_mtp_at(&k, o->n_layer + i);
    write_file(&k, path);
    free(k.spec);
}

int tiny_names(const tiny_opts *o, char (*name)[64], int max)
{
    maker k = whole(o);
    tiny_check(k.n_spec <= max, "tiny_names: more tensors than room");
    for (int i = 0; i < k.n_spec; i++)
        memcpy(name[i], k.spec[i].name, sizeof name[i]);
    int n = k.n_spec;
    free(k.spec);
    return n;
}
