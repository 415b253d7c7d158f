/* inspect_json.c - see inspect_json.h. Long arrays are cut to their first elements ("first"); a
 * u64 that JSON's integers of 64 bits with a sign cannot hold is a string of its digits. */
#include "engine/inspect_json.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { FIRST = 8 };

/* A JSON string of any bytes: what is not valid UTF-8 becomes '?' byte by byte. */
static json_t *text(const char *s, size_t len)
{
    json_t *j = json_stringn(s, len);
    if (j)
        return j;
    char clean[256];
    size_t n = len < sizeof clean ? len : sizeof clean;
    for (size_t i = 0; i < n; i++)
        clean[i] = (unsigned char)s[i] < 0x80 ? s[i] : '?';
    return json_stringn(clean, n);
}

static json_t *element(const gguf_kv *kv, uint64_t i, size_t *cursor)
{
    gguf_str s;
    int64_t v;
    double d;
    if (kv->elem == GGUF_STRING)
        return gguf_kv_next_str(kv, cursor, &s) ? text(s.s, s.len) : json_null();
    if (kv->elem == GGUF_BOOL && gguf_kv_int(kv, i, &v, NULL) == FT_OK)
        return json_boolean(v);
    if (gguf_kv_int(kv, i, &v, NULL) == FT_OK)
        return kv->elem == GGUF_U64 && v < 0 ? json_sprintf("%llu", (unsigned long long)v)
                                             : json_integer(v);
    if (gguf_kv_float(kv, i, &d, NULL) == FT_OK && isfinite(d))
        return json_real(d);
    return json_null(); /* JSON has no NaN and no infinities */
}

static json_t *value(const gguf_kv *kv)
{
    size_t cursor = 0;
    if (kv->type == GGUF_STRING)
        return text((const char *)kv->raw, kv->raw_bytes);
    if (kv->type != GGUF_ARRAY)
        return element(kv, 0, &cursor);
    json_t *first = json_array();
    for (uint64_t i = 0; i < kv->n && i < FIRST && kv->elem != GGUF_ARRAY; i++)
        json_array_append_new(first, element(kv, i, &cursor));
    return json_pack("{s:I, s:o}", "n", (json_int_t)kv->n, "first", first);
}

static json_t *sum(const inspect_sum *s)
{
    return json_pack("{s:I, s:I, s:I}", "tensors", (json_int_t)s->n_tensor, "values",
                     (json_int_t)s->n_value, "bytes", (json_int_t)s->n_bytes);
}

static json_t *tensors(const gguf_file *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < gguf_n_tensor(f); i++) {
        const gguf_tensor *g = gguf_tensor_at(f, i);
        json_t *shape = json_array();
        if (g->t.n_mat > 1)
            json_array_append_new(shape, json_integer(g->t.n_mat));
        if (g->n_dim > 1)
            json_array_append_new(shape, json_integer(g->t.n_row));
        json_array_append_new(shape, json_integer(g->t.n_col));
        json_array_append_new(list, json_pack("{s:o, s:s, s:o, s:I, s:i, s:I}", "name",
                                              text(g->t.name, strlen(g->t.name)), "type",
                                              dtype_name(g->t.type), "shape", shape, "bytes",
                                              (json_int_t)tensor_bytes(&g->t), "shard", g->shard,
                                              "offset", (json_int_t)g->file_offset));
    }
    return list;
}

static json_t *features(const inspection *in)
{
    return json_pack("{s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:b}", "mtp", in->has_mtp,
                     "mtp_announced", in->mtp_announced, "moe", in->has_moe, "fused_experts",
                     in->fused_experts, "qsa", in->has_qsa, "hyper_connections", in->has_hc, "ple",
                     in->has_ple, "tied_output", in->tied_output, "tokenizer", in->has_tokenizer);
}

static json_t *report(const inspection *in)
{
    const gguf_file *f = in->f;
    json_t *meta = json_object(), *parts = json_object(), *types = json_object();
    for (size_t i = 0; i < gguf_n_kv(f); i++) {
        const gguf_kv *kv = gguf_kv_at(f, i);
        json_object_set_new(meta, kv->key, value(kv)); /* a key that is not UTF-8 is left out */
    }
    for (int i = 0; i < INSPECT_N_PART; i++)
        if (in->part[i].n_tensor)
            json_object_set_new(parts, inspect_part_name((inspect_part)i), sum(&in->part[i]));
    for (int i = 0; i < INSPECT_N_TYPE; i++)
        if (in->type[i].n_tensor)
            json_object_set_new(types, dtype_name((dtype)i), sum(&in->type[i]));
    json_t *blocks = in->n_block < 0 ? json_null() : json_integer(in->n_block);
    return json_pack("{s:o, s:i, s:i, s:I, s:I, s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "path", text(gguf_path(f), strlen(gguf_path(f))), "version", gguf_version(f),
                     "shards", gguf_n_shard(f), "bytes", (json_int_t)gguf_file_bytes(f),
                     "alignment", (json_int_t)gguf_alignment(f), "architecture",
                     text(in->arch, strlen(in->arch)), "blocks", blocks, "mtp_blocks",
                     (json_int_t)in->n_mtp, "features", features(in), "total", sum(&in->total),
                     "parts", parts, "types", types, "metadata", meta, "tensors", tensors(f));
}

typedef struct {
    ft_write_fn *write;
    void *ctx;
} sink;

static int put(const char *bytes, size_t n, void *ctx)
{
    const sink *s = ctx;
    return s->write(s->ctx, bytes, n) ? 0 : -1;
}

ft_status inspect_write_json(const inspection *in, ft_write_fn *write, void *ctx, ft_error *err)
{
    json_t *j = report(in);
    if (!j)
        return err_set(err, FT_NOMEM, "inspect: JSON");
    sink s = {write, ctx};
    int rc = json_dump_callback(j, put, &s, JSON_INDENT(2));
    json_decref(j);
    if (rc != 0 || !write(ctx, "\n", 1))
        return err_set(err, FT_CANCELLED, "inspect: stopped by the caller");
    return FT_OK;
}
