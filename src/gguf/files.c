/* files.c - opening one file or all shards of a split one, closing, and what is known of them.
 *
 * A split file is told by its name, "name-00002-of-00003.gguf", and must say the same inside:
 *   split.no = 1 (from 0), split.count = 3, split.tensors.count = tensors of all shards
 * Every shard is read and checked on its own, with its own alignment; then its tensors and its
 * mapping move to the first shard, whose metadata is that of the model (B099: the first shard may
 * hold nothing else).
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"
#include "gguf/file.h"

#define SHARD_SUFFIX_LEN (sizeof "-00001-of-00003.gguf" - 1)

/* ---- One file ----------------------------------------------------------------------------- */

void gguf_close(gguf_file *f)
{
    if (!f)
        return;
    union {
        const char *c;
        char *m;
    } name; /* the names are ours, const for the others */
    for (size_t i = 0; i < f->n_kv; i++) {
        name.c = f->kv[i].key;
        mem_free(name.m);
    }
    for (size_t i = 0; i < f->n_tensor; i++) {
        name.c = f->tensor[i].t.name;
        mem_free(name.m);
    }
    for (int i = 0; f->map && i < f->n_shard; i++)
        map_close(&f->map[i]);
    mem_free(f->kv);
    mem_free(f->tensor);
    mem_free(f->by_key);
    mem_free(f->by_name);
    mem_free(f->map);
    mem_free(f->path);
    mem_free(f);
}

static ft_status open_one(gguf_file **out, const char *path, ft_error *err)
{
    *out = NULL;
    gguf_file *f = mem_zalloc(sizeof *f);
    if (!f)
        return err_set(err, FT_NOMEM, "%s: out of memory for the file object", path);
    ft_status st = FT_NOMEM;
    f->path = mem_strndup(path, strlen(path));
    f->map = mem_calloc(1, sizeof *f->map);
    if (!f->path || !f->map) {
        err_set(err, st, "%s: out of memory for the file object", path);
        goto fail;
    }
    st = map_open(&f->map[0], path, err);
    if (st != FT_OK)
        goto fail;
    f->n_shard = 1;
    st = gguf_read(f, f->map[0].bytes, f->map[0].n_bytes, err);
    if (st != FT_OK)
        goto fail;
    *out = f;
    return FT_OK;

fail:
    gguf_close(f);
    return st;
}

/* ---- Shards ------------------------------------------------------------------------------- */

/* Five digits; -1 when they are not. */
static int five_digits(const char *s)
{
    int v = 0;
    for (int i = 0; i < 5; i++) {
        if (s[i] < '0' || s[i] > '9')
            return -1;
        v = v * 10 + (s[i] - '0');
    }
    return v;
}

/* Does the path end like a shard's? Then *prefix is the length before the suffix, *count the number
 * of shards; otherwise *count is 1 and *prefix 0. */
static ft_status split_name(const char *path, size_t *prefix, int *count, ft_error *err)
{
    *prefix = 0;
    *count = 1;
    size_t len = strlen(path);
    if (len < SHARD_SUFFIX_LEN)
        return FT_OK;
    const char *s = path + len - SHARD_SUFFIX_LEN; /* -NNNNN-of-NNNNN.gguf */
    int no = five_digits(s + 1);
    int n = five_digits(s + 10);
    if (s[0] != '-' || no < 0 || strncmp(s + 6, "-of-", 4) != 0 || n < 0 ||
        strcmp(s + 15, ".gguf") != 0)
        return FT_OK;
    if (no < 1 || no > n)
        return err_set(err, FT_FORMAT, "%s: shard %d of %d in the name, want 1 to %d", path, no, n,
                       n);
    *prefix = len - SHARD_SUFFIX_LEN;
    *count = n;
    return FT_OK;
}

/* key of f, when it is there or must be, has the value want. */
static ft_status expect(const gguf_file *f, const char *key, bool must, int64_t want, ft_error *err)
{
    int64_t v;
    if (must || gguf_kv_find(f, key))
        TRY(gguf_get_int(f, key, want, want, &v, err));
    return FT_OK;
}

/* A file opened alone is whole: either it says nothing of a split, or that it is 1 of 1 (or, as
 * files merged from shards do, of 0). */
static ft_status check_alone(const gguf_file *f, ft_error *err)
{
    int64_t count = 0;
    if (!gguf_kv_find(f, "split.count"))
        return FT_OK;
    TRY(gguf_get_int(f, "split.count", 0, INT64_MAX, &count, err));
    if (count > 1)
        return err_set(err, FT_FORMAT,
                       "%s: a shard of a file split in %" PRId64
                       ", but it is not named '...-00001-of-%05" PRId64 ".gguf'",
                       gguf_show_file(f).s, count, count);
    if (count == 1)
        TRY(expect(f, "split.tensors.count", false, (int64_t)f->n_tensor, err));
    return FT_OK;
}

/* Shard s, number i from 0 of count, belongs to the others; *total: of split.tensors.count, set by
 * the first. */
static ft_status check_shard(const gguf_file *s, int i, int count, int64_t *total, ft_error *err)
{
    TRY(expect(s, "split.no", true, i, err));
    TRY(expect(s, "split.count", i == 0, count, err));
    if (i == 0)
        return gguf_get_int(s, "split.tensors.count", 0, INT64_MAX, total, err);
    return expect(s, "split.tensors.count", false, *total, err);
}

/* Move the tensors and the mapping of shard s to f and close what is left of s. */
static ft_status absorb(gguf_file *f, gguf_file *s, ft_error *err)
{
    void *p = f->tensor;
    bool ok = gguf_grow(&p, &f->cap_tensor, f->n_tensor + s->n_tensor, sizeof *f->tensor);
    f->tensor = p;
    file_map *map = ok ? mem_realloc(f->map, (size_t)(f->n_shard + 1) * sizeof *map) : NULL;
    if (!map) {
        ft_status st = err_set(err, FT_NOMEM, "%s: out of memory for %zu tensors",
                               gguf_show_file(s).s, s->n_tensor);
        gguf_close(s);
        return st;
    }
    f->map = map;
    f->map[f->n_shard] = s->map[0];
    for (size_t i = 0; i < s->n_tensor; i++) {
        f->tensor[f->n_tensor] = s->tensor[i];
        f->tensor[f->n_tensor++].shard = f->n_shard;
    }
    f->n_shard++;
    f->n_bytes += s->n_bytes;
    s->n_tensor = 0; /* moved */
    s->n_shard = 0;
    gguf_close(s);
    return FT_OK;
}

/* All shards of path, count > 1, into *out. */
static ft_status open_shards(gguf_file **out, const char *path, size_t prefix, int count,
                             ft_error *err)
{
    gguf_file *f = NULL;
    int64_t total = 0;
    ft_status st = FT_OK;
    buf name;
    buf_init(&name, prefix + SHARD_SUFFIX_LEN);
    for (int i = 0; i < count && st == FT_OK; i++) {
        buf_clear(&name);
        buf_put(&name, path, prefix);
        buf_printf(&name, "-%05d-of-%05d.gguf", i + 1, count);
        st = buf_status(&name, path, err);
        gguf_file *s = NULL;
        if (st == FT_OK)
            st = open_one(&s, buf_cstr(&name), err);
        if (st == FT_OK)
            st = check_shard(s, i, count, &total, err);
        if (st != FT_OK)
            gguf_close(s);
        else if (i == 0)
            f = s;
        else
            st = absorb(f, s, err);
    }
    buf_deinit(&name);
    if (st == FT_OK && (uint64_t)total != f->n_tensor)
        st = err_set(err, FT_FORMAT,
                     "%s: key 'split.tensors.count': %" PRId64 ", but the shards hold %zu tensors",
                     gguf_show_file(f).s, total, f->n_tensor);
    if (st != FT_OK)
        gguf_close(f);
    else
        *out = f;
    return st;
}

/* ---- The public face ---------------------------------------------------------------------- */

/* The last step of both ways in: *out = f, or f closed. */
static ft_status finish(gguf_file **out, gguf_file *f, ft_status st, ft_error *err)
{
    if (st == FT_OK)
        st = gguf_index_names(f, err);
    if (st == FT_OK)
        *out = f;
    else
        gguf_close(f);
    return st;
}

ft_status gguf_open(gguf_file **out, const char *path, ft_error *err)
{
    *out = NULL;
    size_t prefix;
    int count;
    TRY(split_name(path, &prefix, &count, err));
    gguf_file *f = NULL;
    if (count == 1) {
        TRY(open_one(&f, path, err));
        return finish(out, f, check_alone(f, err), err);
    }
    TRY(open_shards(&f, path, prefix, count, err));
    ft_status st = FT_OK;
    char *as_opened = mem_strndup(path, strlen(path));
    if (as_opened) {
        mem_free(f->path);
        f->path = as_opened;
    } else {
        st = err_set(err, FT_NOMEM, "%s: out of memory for the path", path);
    }
    return finish(out, f, st, err);
}

ft_status gguf_parse(gguf_file **out, const uint8_t *bytes, size_t n_bytes, ft_error *err)
{
    *out = NULL;
    gguf_file *f = mem_zalloc(sizeof *f);
    if (!f)
        return err_set(err, FT_NOMEM, "gguf: out of memory for the file object");
    f->n_shard = 1;
    ft_status st = gguf_read(f, bytes, n_bytes, err);
    if (st == FT_OK)
        st = check_alone(f, err);
    return finish(out, f, st, err);
}

const char *gguf_path(const gguf_file *f)
{
    return f->path ? f->path : "(memory)";
}

int gguf_version(const gguf_file *f)
{
    return (int)f->version;
}

uint32_t gguf_alignment(const gguf_file *f)
{
    return f->alignment;
}

uint64_t gguf_file_bytes(const gguf_file *f)
{
    return f->n_bytes;
}

void gguf_give_back(const gguf_file *f, const void *p, size_t n)
{
    for (int i = 0; f->map && i < f->n_shard; i++)
        map_give_back(&f->map[i], p, n);
}

int gguf_n_shard(const gguf_file *f)
{
    return f->n_shard;
}

size_t gguf_n_kv(const gguf_file *f)
{
    return f->n_kv;
}

const gguf_kv *gguf_kv_at(const gguf_file *f, size_t i)
{
    return i < f->n_kv ? &f->kv[i] : NULL;
}

size_t gguf_n_tensor(const gguf_file *f)
{
    return f->n_tensor;
}

const gguf_tensor *gguf_tensor_at(const gguf_file *f, size_t i)
{
    return i < f->n_tensor ? &f->tensor[i] : NULL;
}
