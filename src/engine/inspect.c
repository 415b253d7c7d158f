/* inspect.c - ft_inspect: collecting, and the report for people. JSON: inspect_json.c. */
#include "engine/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "engine/inspect_json.h"

const char *inspect_part_name(inspect_part p)
{
    static const char *const name[] = {
#define INSPECT_NAME(e, text) text,
        INSPECT_PARTS(INSPECT_NAME)
#undef INSPECT_NAME
    };
    return name[p];
}

static bool starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* The number behind "blk.", and in *rest what follows it; -1 for other names. */
static long block_of(const char *name, const char **rest)
{
    if (!starts(name, "blk."))
        return -1;
    char *end;
    long n = strtol(name + 4, &end, 10);
    if (end == name + 4 || *end != '.' || n < 0)
        return -1;
    *rest = end + 1;
    return n;
}

static inspect_part block_part(const char *rest)
{
    static const struct {
        const char *piece; /* found anywhere in the name; the first that fits */
        inspect_part part;
    } rule[] = {
        {"indexer.", INSPECT_INDEXER}, {"hc_", INSPECT_MIXER},    {"ple_", INSPECT_PLE},
        {"_exps", INSPECT_EXPERTS},    {"shexp", INSPECT_SHARED}, {"ffn_gate_inp", INSPECT_ROUTER},
        {"ssm_", INSPECT_GDN},         {"attn_qkv", INSPECT_GDN}, {"attn_gate", INSPECT_GDN},
        {"_norm", INSPECT_NORM},       {"attn_", INSPECT_ATTN},   {"ffn_", INSPECT_FFN},
    };
    for (size_t i = 0; i < ARRAY_LEN(rule); i++)
        if (strstr(rest, rule[i].piece))
            return rule[i].part;
    return INSPECT_OTHER;
}

inspect_part inspect_part_of(const inspection *in, const char *name)
{
    const char *rest;
    long block = block_of(name, &rest);
    if (block >= 0) {
        if (strstr(rest, "nextn.") || (in->n_block > 0 && block >= in->n_block - in->n_mtp))
            return INSPECT_MTP;
        return block_part(rest);
    }
    if (starts(name, "token_embd"))
        return INSPECT_EMBD;
    if (starts(name, "per_layer_token_embd"))
        return INSPECT_PLE_TABLE;
    if (starts(name, "output_hc_"))
        return INSPECT_MIXER;
    if (starts(name, "output_norm"))
        return INSPECT_NORM;
    return starts(name, "output") ? INSPECT_HEAD : INSPECT_OTHER;
}

static void add(inspect_sum *s, const tensor *t)
{
    s->n_tensor++;
    s->n_value += (uint64_t)t->n_col * (uint64_t)t->n_row * (uint64_t)t->n_mat;
    s->n_bytes += tensor_bytes(t);
}

static int64_t arch_int(const inspection *in, const char *key, int64_t def)
{
    char full[128];
    snprintf(full, sizeof full, "%s.%s", in->arch, key);
    int64_t v;
    return gguf_get_int(in->f, full, 0, INT32_MAX, &v, NULL) == FT_OK ? v : def;
}

void inspect_collect(inspection *in, const gguf_file *f)
{
    *in = (inspection){.f = f, .n_block = -1};
    gguf_str arch;
    if (gguf_get_str(f, "general.architecture", &arch, NULL) == FT_OK && arch.len < sizeof in->arch)
        memcpy(in->arch, arch.s, arch.len);
    in->n_block = arch_int(in, "block_count", -1);
    in->n_mtp = arch_int(in, "nextn_predict_layers", 0);
    in->mtp_announced = in->n_mtp > 0;
    for (size_t i = 0; i < gguf_n_tensor(f); i++) {
        const gguf_tensor *g = gguf_tensor_at(f, i);
        inspect_part p = inspect_part_of(in, g->t.name);
        add(&in->total, &g->t);
        add(&in->part[p], &g->t);
        add(&in->type[(unsigned)g->t.type % INSPECT_N_TYPE], &g->t);
        if (strstr(g->t.name, "nextn."))
            in->has_mtp = true;
        if (strstr(g->t.name, "ffn_gate_up_exps"))
            in->fused_experts = true;
    }
    in->has_qsa = in->part[INSPECT_INDEXER].n_tensor > 0;
    in->has_ple = in->part[INSPECT_PLE_TABLE].n_tensor > 0;
    in->has_hc = in->part[INSPECT_MIXER].n_tensor > 0;
    in->has_moe = in->part[INSPECT_EXPERTS].n_tensor > 0;
    in->tied_output = in->part[INSPECT_EMBD].n_tensor > 0 && in->part[INSPECT_HEAD].n_tensor == 0;
    in->has_tokenizer = gguf_kv_find(f, "tokenizer.ggml.tokens") != NULL;
}

/* ---- The report for people ------------------------------------------------------------------------- */

/* Text from a file, printable: other bytes as '.', at most n of them. */
static void put_text(buf *b, const char *s, size_t len, size_t n)
{
    for (size_t i = 0; i < len && i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        buf_putc(b, c < 32 || c == 127 ? '.' : c);
    }
    if (len > n)
        buf_puts(b, "...");
}

static void put_value(buf *b, const gguf_kv *kv)
{
    bool array = kv->type == GGUF_ARRAY;
    if (kv->type == GGUF_STRING) {
        put_text(b, (const char *)kv->raw, kv->raw_bytes, 60);
        return;
    }
    gguf_str str;
    size_t cursor = 0;
    if (array)
        buf_printf(b, "[%llu] ", (unsigned long long)kv->n);
    if (kv->elem == GGUF_ARRAY) {
        buf_puts(b, "(arrays)");
        return;
    }
    for (uint64_t i = 0; i < kv->n && i < 8; i++) {
        int64_t v;
        double d;
        if (i > 0)
            buf_puts(b, ", ");
        if (kv->elem == GGUF_STRING && gguf_kv_next_str(kv, &cursor, &str))
            put_text(b, str.s, str.len, 16);
        else if (kv->elem == GGUF_U64 && gguf_kv_int(kv, i, &v, NULL) == FT_OK)
            buf_printf(b, "%llu", (unsigned long long)v);
        else if (gguf_kv_int(kv, i, &v, NULL) == FT_OK)
            buf_printf(b, "%lld", (long long)v);
        else if (gguf_kv_float(kv, i, &d, NULL) == FT_OK)
            buf_printf(b, "%g", d);
    }
    if (kv->n > 8)
        buf_puts(b, ", ...");
}

static void put_sum(buf *b, const char *name, const inspect_sum *s, uint64_t total)
{
    double share = total ? 100.0 * (double)s->n_bytes / (double)total : 0;
    buf_printf(b, "  %-26s %6llu tensors %14llu values %14llu bytes %5.1f %%\n", name,
               (unsigned long long)s->n_tensor, (unsigned long long)s->n_value,
               (unsigned long long)s->n_bytes, share);
}

static void put_features(buf *b, const inspection *in)
{
    const struct {
        bool on;
        const char *text;
    } feature[] = {
        {in->has_mtp, "draft head (MTP)"},
        {in->mtp_announced && !in->has_mtp,
         "draft head announced, its tensors are not in this file"},
        {in->has_moe, "mixture of experts"},
        {in->fused_experts, "fused gate and up experts"},
        {in->has_qsa, "sparse attention (QSA)"},
        {in->has_hc, "hyper-connections"},
        {in->has_ple, "n-gram embedding (PLE)"},
        {in->tied_output, "output head tied to the token embedding"},
        {in->has_tokenizer, "tokenizer"},
    };
    buf_puts(b, "features\n");
    for (size_t i = 0; i < ARRAY_LEN(feature); i++)
        if (feature[i].on)
            buf_printf(b, "  %s\n", feature[i].text);
}

static void put_report(buf *b, const inspection *in)
{
    const gguf_file *f = in->f;
    buf_printf(b, "file          %s\n", gguf_path(f));
    buf_printf(b, "format        GGUF version %d, %d shard%s, %llu bytes, alignment %u\n",
               gguf_version(f), gguf_n_shard(f), gguf_n_shard(f) == 1 ? "" : "s",
               (unsigned long long)gguf_file_bytes(f), gguf_alignment(f));
    buf_puts(b, "architecture  ");
    put_text(b, in->arch[0] ? in->arch : "(none)", strlen(in->arch[0] ? in->arch : "(none)"), 60);
    if (in->n_block < 0)
        buf_puts(b, "\nblocks        (none)\n");
    else
        buf_printf(b, "\nblocks        %lld, of them MTP %lld\n", (long long)in->n_block,
                   (long long)in->n_mtp);
    put_features(b, in);
    buf_puts(b, "parts\n");
    for (int i = 0; i < INSPECT_N_PART; i++)
        if (in->part[i].n_tensor)
            put_sum(b, inspect_part_name((inspect_part)i), &in->part[i], in->total.n_bytes);
    put_sum(b, "total", &in->total, in->total.n_bytes);
    buf_puts(b, "types\n");
    for (int i = 0; i < INSPECT_N_TYPE; i++)
        if (in->type[i].n_tensor)
            put_sum(b, dtype_name((dtype)i), &in->type[i], in->total.n_bytes);
    buf_printf(b, "metadata (%zu keys)\n", gguf_n_kv(f));
    for (size_t i = 0; i < gguf_n_kv(f); i++) {
        const gguf_kv *kv = gguf_kv_at(f, i);
        buf_puts(b, "  ");
        put_text(b, kv->key, strlen(kv->key), 80);
        buf_puts(b, " = ");
        put_value(b, kv);
        buf_putc(b, '\n');
    }
    buf_printf(b, "tensors (%zu)\n", gguf_n_tensor(f));
    for (size_t i = 0; i < gguf_n_tensor(f); i++) {
        const gguf_tensor *g = gguf_tensor_at(f, i);
        buf_puts(b, "  ");
        put_text(b, g->t.name, strlen(g->t.name), 60);
        buf_printf(b, "  %s [", dtype_name(g->t.type));
        if (g->t.n_mat > 1)
            buf_printf(b, "%d, ", g->t.n_mat);
        if (g->n_dim > 1)
            buf_printf(b, "%d, ", g->t.n_row);
        buf_printf(b, "%d]  %zu bytes\n", g->t.n_col, tensor_bytes(&g->t));
    }
}

ft_status ft_inspect(const char *path, bool json, ft_write_fn *write, void *ctx, ft_error *err)
{
    gguf_file *f;
    TRY(gguf_open(&f, path, err));
    inspection in;
    inspect_collect(&in, f);
    ft_status st;
    if (json) {
        st = inspect_write_json(&in, write, ctx, err);
    } else {
        buf b;
        buf_init(&b, 1 << 28);
        put_report(&b, &in);
        st = buf_status(&b, "inspect", err);
        if (st == FT_OK && !write(ctx, buf_cstr(&b), b.len))
            st = err_set(err, FT_CANCELLED, "inspect: stopped by the caller");
        buf_deinit(&b);
    }
    gguf_close(f);
    return st;
}
