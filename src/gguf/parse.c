/* parse.c - the bytes of one GGUF file into a checked directory.
 *
 * A cursor walks the header; every step asks first whether the bytes are there.
 * 1. pos <= n_bytes always, and only need() and fits() decide whether it may move on.
 * 2. Memory grows with the entries that were really read, never with a declared count.
 * 3. A message names the file, the position, the thing being read, the value and the wish.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "gguf/file.h"

#define MAX_ARRAY_DEPTH 8

/* The least that one entry takes: a name of one byte, one value of one byte or one dimension. */
#define KV_BYTES_MIN     (8 + 1 + 4 + 1)
#define TENSOR_BYTES_MIN (8 + 1 + 4 + 8 + 4 + 8)

typedef struct {
    const uint8_t *bytes;
    size_t n_bytes;
    size_t pos;
    gguf_file *f; /* being filled */
    ft_error *err;
    char what[120]; /* the thing being read, for messages */
} reader;

static void set_what(reader *r, const char *kind, const char *name, size_t len)
{
    snprintf(r->what, sizeof r->what, "%s '%s'", kind, gguf_show(name, len).s);
}

static ft_status bad(const reader *r, const char *fmt, ...) PRINTF_LIKE(2, 3);

static ft_status bad(const reader *r, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(r->err, FT_FORMAT, "%s: byte %zu: %s: %s", gguf_show_file(r->f).s, r->pos,
                   r->what, text);
}

static ft_status no_memory(const reader *r)
{
    return err_set(r->err, FT_NOMEM, "%s: %s: out of memory", gguf_show_file(r->f).s, r->what);
}

/* ---- Steps of the cursor ------------------------------------------------------------------ */

static size_t left(const reader *r)
{
    return r->n_bytes - r->pos;
}

static ft_status need(const reader *r, uint64_t n)
{
    if (n <= left(r))
        return FT_OK;
    return bad(r, "%" PRIu64 " bytes wanted, the file has only %zu more", n, left(r));
}

/* n things of at least size bytes each may follow. */
static ft_status fits(const reader *r, uint64_t n, size_t size, const char *things)
{
    if (n <= left(r) / size)
        return FT_OK;
    return bad(r, "%" PRIu64 " %s announced, more than the %zu bytes left can hold", n, things,
               left(r));
}

static ft_status read_uint(reader *r, size_t size, uint64_t *out)
{
    TRY(need(r, size));
    *out = gguf_load(r->bytes + r->pos, size);
    r->pos += size;
    return FT_OK;
}

static ft_status read_str(reader *r, gguf_str *out)
{
    uint64_t len;
    TRY(read_uint(r, 8, &len));
    TRY(need(r, len));
    *out = (gguf_str){(const char *)r->bytes + r->pos, (size_t)len};
    r->pos += (size_t)len;
    return FT_OK;
}

/* A key or a tensor's name. */
static ft_status read_name(reader *r, gguf_str *out)
{
    TRY(read_str(r, out));
    const char *fault = gguf_name_fault(out->s, out->len);
    return fault ? bad(r, "its name %s", fault) : FT_OK;
}

static ft_status read_type(reader *r, gguf_type *out)
{
    uint64_t type;
    TRY(read_uint(r, 4, &type));
    if (type > GGUF_F64)
        return bad(r, "unknown value type %" PRIu64 ", want 0 to %d", type, GGUF_F64);
    *out = (gguf_type)type;
    return FT_OK;
}

/* ---- Metadata ----------------------------------------------------------------------------- */

static ft_status read_array_head(reader *r, gguf_type *elem, uint64_t *n)
{
    TRY(read_type(r, elem));
    return read_uint(r, 8, n);
}

/* Walk over n values; depth counts the arrays around them, so recursion ends. */
static ft_status skip_values(reader *r, gguf_type type, uint64_t n, int depth)
{
    size_t size = gguf_type_bytes(type);
    if (size) {
        TRY(fits(r, n, size, gguf_type_name(type)));
        r->pos += (size_t)n * size;
        return FT_OK;
    }
    if (type == GGUF_STRING) {
        TRY(fits(r, n, 8, "strings"));
        gguf_str s;
        for (uint64_t i = 0; i < n; i++)
            TRY(read_str(r, &s));
        return FT_OK;
    }
    if (depth >= MAX_ARRAY_DEPTH)
        return bad(r, "arrays nested deeper than %d", MAX_ARRAY_DEPTH);
    TRY(fits(r, n, 12, "arrays"));
    for (uint64_t i = 0; i < n; i++) {
        gguf_type elem = GGUF_U8;
        uint64_t n_elem;
        TRY(read_array_head(r, &elem, &n_elem));
        TRY(skip_values(r, elem, n_elem, depth + 1));
    }
    return FT_OK;
}

static ft_status read_value(reader *r, gguf_kv *kv)
{
    TRY(read_type(r, &kv->type));
    kv->elem = kv->type;
    kv->n = 1;
    if (kv->type == GGUF_ARRAY)
        TRY(read_array_head(r, &kv->elem, &kv->n));
    size_t start = r->pos;
    TRY(skip_values(r, kv->elem, kv->n, kv->type == GGUF_ARRAY ? 1 : 0));
    if (kv->type == GGUF_STRING)
        start += 8; /* behind its length */
    kv->raw = r->bytes + start;
    kv->raw_bytes = r->pos - start;
    return FT_OK;
}

static ft_status read_kv(reader *r)
{
    gguf_file *f = r->f;
    snprintf(r->what, sizeof r->what, "metadata entry %zu", f->n_kv);
    gguf_str key;
    TRY(read_name(r, &key));
    set_what(r, "key", key.s, key.len);
    gguf_kv kv = {0};
    TRY(read_value(r, &kv));

    void *p = f->kv;
    bool grown = gguf_grow(&p, &f->cap_kv, f->n_kv + 1, sizeof kv);
    f->kv = p;
    kv.key = grown ? mem_strndup(key.s, key.len) : NULL;
    if (!kv.key)
        return no_memory(r);
    f->kv[f->n_kv++] = kv;
    return FT_OK;
}

static ft_status read_alignment(gguf_file *f, ft_error *err)
{
    int64_t alignment = GGUF_ALIGNMENT_DEFAULT;
    if (gguf_kv_find(f, "general.alignment"))
        TRY(gguf_get_int(f, "general.alignment", 1, GGUF_ALIGNMENT_MAX, &alignment, err));
    if (!gguf_alignment_ok(alignment))
        return err_set(err, FT_FORMAT,
                       "%s: key 'general.alignment': %" PRId64 ", want a power of two",
                       gguf_show_file(f).s, alignment);
    f->alignment = (uint32_t)alignment;
    return FT_OK;
}

/* ---- Tensors ------------------------------------------------------------------------------ */

/* One entry of the directory; its file_offset is still counted from the data section. */
static ft_status read_tensor(reader *r)
{
    gguf_file *f = r->f;
    snprintf(r->what, sizeof r->what, "tensor %zu", f->n_tensor);
    gguf_str name;
    TRY(read_name(r, &name));
    set_what(r, "tensor", name.s, name.len);

    uint64_t n_dim, type, offset, dim[GGUF_MAX_DIMS];
    TRY(read_uint(r, 4, &n_dim));
    if (n_dim < 1 || n_dim > GGUF_MAX_DIMS)
        return bad(r, "%" PRIu64 " dimensions, want 1 to %d", n_dim, GGUF_MAX_DIMS);
    for (uint64_t i = 0; i < n_dim; i++)
        TRY(read_uint(r, 8, &dim[i]));
    TRY(read_uint(r, 4, &type));
    TRY(read_uint(r, 8, &offset));

    gguf_tensor g = {.n_dim = (int)n_dim, .file_offset = offset};
    char why[128];
    if (!gguf_shape(&g.t, (uint32_t)type, (int)n_dim, dim, why))
        return bad(r, "%s", why);

    void *p = f->tensor;
    bool grown = gguf_grow(&p, &f->cap_tensor, f->n_tensor + 1, sizeof g);
    f->tensor = p;
    g.t.name = grown ? mem_strndup(name.s, name.len) : NULL;
    if (!g.t.name)
        return no_memory(r);
    f->tensor[f->n_tensor++] = g;
    return FT_OK;
}

/* The directory is read: find each tensor's data. */
static ft_status place_tensors(reader *r)
{
    gguf_file *f = r->f;
    if (f->n_tensor == 0)
        return FT_OK;
    snprintf(r->what, sizeof r->what, "padding");
    size_t start = size_align(r->pos, f->alignment);
    TRY(need(r, start - r->pos));
    r->pos = start;
    for (size_t i = 0; i < f->n_tensor; i++) {
        gguf_tensor *g = &f->tensor[i];
        set_what(r, "tensor", g->t.name, strlen(g->t.name));
        size_t n_bytes = tensor_bytes(&g->t);
        if (g->file_offset % f->alignment != 0)
            return bad(r, "data offset %" PRIu64 ", want a multiple of %" PRIu32, g->file_offset,
                       f->alignment);
        if (g->file_offset > left(r) || n_bytes > left(r) - g->file_offset)
            return bad(r, "%zu bytes at data offset %" PRIu64 ", the data section has %zu bytes",
                       n_bytes, g->file_offset, left(r));
        g->file_offset += start;
        g->t.data = r->bytes + g->file_offset;
    }
    return gguf_check_overlap(f, r->err);
}

/* ---- The file ----------------------------------------------------------------------------- */

static ft_status read_version(reader *r)
{
    if (left(r) < 4 || memcmp(r->bytes, GGUF_MAGIC, 4) != 0)
        return bad(r, "not a GGUF file, it does not begin with '" GGUF_MAGIC "'");
    r->pos = 4;
    uint64_t version;
    TRY(read_uint(r, 4, &version));
    if (version != 0 && (version & 0xffff) == 0)
        return bad(r, "big-endian files are not supported");
    if (version != 2 && version != 3)
        return bad(r, "version %" PRIu64 ", want 2 or 3", version);
    r->f->version = (uint32_t)version;
    return FT_OK;
}

ft_status gguf_read(gguf_file *f, const uint8_t *bytes, size_t n_bytes, ft_error *err)
{
    reader r = {.bytes = bytes, .n_bytes = n_bytes, .f = f, .err = err, .what = "header"};
    f->n_bytes = n_bytes;
    TRY(read_version(&r));
    uint64_t n_tensor, n_kv;
    TRY(read_uint(&r, 8, &n_tensor));
    TRY(read_uint(&r, 8, &n_kv));
    TRY(fits(&r, n_tensor, TENSOR_BYTES_MIN, "tensors"));
    TRY(fits(&r, n_kv, KV_BYTES_MIN, "metadata entries"));

    while (f->n_kv < n_kv)
        TRY(read_kv(&r));
    TRY(gguf_index_keys(f, err));
    TRY(read_alignment(f, err));
    while (f->n_tensor < n_tensor)
        TRY(read_tensor(&r));
    return place_tensors(&r);
}
