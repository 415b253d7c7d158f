/* write.c - writing GGUF version 3: everything is declared, then the header goes out, then data.
 *
 * COLLECTING -> WRITING   gguf_writer_begin   header written, offsets fixed
 * WRITING    -> (freed)   gguf_writer_close   all data there: fsync, rename
 * any        -> FAILED    the first failure, kept in w->err; nothing is written any more
 * any        -> (freed)   gguf_writer_close, gguf_writer_abort: the temporary file is removed
 *
 * 1. The file at path is touched by one rename of a complete file, or not at all.
 * 2. Every tensor's data begins at a multiple of the alignment; the last is padded too.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "gguf/file.h"

#define HEADER_BYTES_MAX ((size_t)1 << 32) /* of metadata and directory; real ones take 20 MiB */

typedef struct {
    char *key;     /* owned */
    buf value;     /* as it stands in the file, from the type on */
    bool replaced; /* a later entry has the same key */
} meta;

typedef struct {
    tensor t; /* name owned */
    int n_dim;
    uint64_t dim[GGUF_MAX_DIMS];
} declared;

struct gguf_writer {
    char *path;      /* owned */
    char *part_path; /* owned; the temporary file */
    int fd;          /* of the temporary file; -1: none */
    bool writing;
    ft_error err; /* the first failure */

    meta *kv; /* owned */
    size_t n_kv, cap_kv;
    declared *tensor; /* owned */
    size_t n_tensor, cap_tensor;

    size_t alignment;
    size_t i_tensor; /* whose data comes next */
    size_t n_done;   /* bytes of it that are written */
};

static ft_status report(const gguf_writer *w, ft_error *err)
{
    if (w->err.code == FT_OK)
        return FT_OK;
    return err_set(err, w->err.code, "%s", w->err.msg);
}

static bool failed(const gguf_writer *w)
{
    return w->err.code != FT_OK;
}

/* ---- The temporary file ------------------------------------------------------------------- */

/* Create "path.part-<process>-<n>", a name that nobody has yet. */
static void open_part(gguf_writer *w)
{
    struct stat st;
    if (stat(w->path, &st) == 0 &&
        S_ISDIR(st.st_mode)) { /* rename would fail, after all the work */
        err_set(&w->err, FT_IO, "%s: a directory, want a file name", w->path);
        return;
    }
    buf name;
    buf_init(&name, strlen(w->path) + 64);
    for (int n = 0; n < 100 && w->fd < 0; n++) {
        buf_clear(&name);
        buf_printf(&name, "%s.part-%ld-%d", w->path, (long)getpid(), n);
        const char *s = buf_cstr(&name);
        if (!s)
            break;
        w->fd = open(s, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd < 0 && errno != EEXIST) {
            err_set(&w->err, FT_IO, "%s: cannot create it: %s", s, strerror(errno));
            break;
        }
    }
    if (w->fd >= 0) {
        w->part_path = (char *)name.data; /* taken */
        return;
    }
    if (buf_status(&name, w->path, &w->err) == FT_OK)
        err_set(&w->err, FT_IO, "%s: every name for a temporary file beside it is taken", w->path);
    buf_deinit(&name);
}

static void write_all(gguf_writer *w, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    while (n > 0 && !failed(w)) {
        ssize_t got = write(w->fd, p, n < (1u << 30) ? n : 1u << 30);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            err_set(&w->err, FT_IO, "%s: cannot write: %s", w->part_path,
                    got < 0 ? strerror(errno) : "no bytes taken");
            return;
        }
        p += got;
        n -= (size_t)got;
    }
}

/* Zeros up to the next multiple of the alignment after n_bytes. */
static void write_padding(gguf_writer *w, size_t n_bytes)
{
    static const uint8_t zeros[4096];
    size_t n = size_align(n_bytes, w->alignment) - n_bytes;
    while (n > 0 && !failed(w)) {
        size_t step = n < sizeof zeros ? n : sizeof zeros;
        write_all(w, zeros, step);
        n -= step;
    }
}

/* ---- Lifetime ----------------------------------------------------------------------------- */

static void writer_free(gguf_writer *w)
{
    union {
        const char *c;
        char *m;
    } name; /* the names are ours */
    for (size_t i = 0; i < w->n_kv; i++) {
        mem_free(w->kv[i].key);
        buf_deinit(&w->kv[i].value);
    }
    for (size_t i = 0; i < w->n_tensor; i++) {
        name.c = w->tensor[i].t.name;
        mem_free(name.m);
    }
    mem_free(w->kv);
    mem_free(w->tensor);
    mem_free(w->path);
    mem_free(w->part_path);
    mem_free(w);
}

ft_status gguf_writer_open(gguf_writer **out, const char *path, ft_error *err)
{
    *out = NULL;
    gguf_writer *w = mem_zalloc(sizeof *w);
    if (!w)
        return err_set(err, FT_NOMEM, "%s: out of memory for the writer", path);
    w->fd = -1;
    w->path = mem_strndup(path, strlen(path));
    if (!w->path)
        err_set(&w->err, FT_NOMEM, "%s: out of memory for the writer", path);
    else
        open_part(w);
    ft_status st = report(w, err);
    if (st == FT_OK)
        *out = w;
    else
        writer_free(w);
    return st;
}

void gguf_writer_abort(gguf_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    unlink(w->part_path);
    writer_free(w);
}

static void check_complete(gguf_writer *w)
{
    if (!w->writing)
        err_set(&w->err, FT_ARG, "%s: closed before its header was written", w->path);
    else if (w->i_tensor < w->n_tensor)
        err_set(&w->err, FT_ARG, "%s: tensor '%s': closed with %zu of %zu bytes written", w->path,
                w->tensor[w->i_tensor].t.name, w->n_done, tensor_bytes(&w->tensor[w->i_tensor].t));
}

ft_status gguf_writer_close(gguf_writer *w, ft_error *err)
{
    if (!w)
        return FT_OK;
    check_complete(w);
    if (!failed(w) && fsync(w->fd) != 0)
        err_set(&w->err, FT_IO, "%s: fsync: %s", w->part_path, strerror(errno));
    if (close(w->fd) != 0)
        err_set(&w->err, FT_IO, "%s: close: %s", w->part_path, strerror(errno));
    w->fd = -1;
    if (!failed(w) && rename(w->part_path, w->path) != 0)
        err_set(&w->err, FT_IO, "%s: cannot rename it to '%s': %s", w->part_path, w->path,
                strerror(errno));
    ft_status st = report(w, err);
    if (st != FT_OK)
        unlink(w->part_path);
    writer_free(w);
    return st;
}

/* ---- Metadata ----------------------------------------------------------------------------- */

static void put_uint(buf *b, uint64_t v, size_t n)
{
    buf_put(b, &v, n);
}

static void put_text(buf *b, const char *s, size_t len)
{
    put_uint(b, len, 8);
    buf_put(b, s, len);
}

/* A new entry of that type, whose value the caller appends and hands to put_end; NULL: failed. */
static buf *put_begin(gguf_writer *w, const char *key, gguf_type type)
{
    if (failed(w))
        return NULL;
    const char *fault =
        w->writing ? "comes after the header was written" : gguf_name_fault(key, strlen(key));
    if (fault) {
        err_set(&w->err, FT_ARG, "%s: key '%s' %s", w->path, gguf_show(key, strlen(key)).s, fault);
        return NULL;
    }
    void *p = w->kv;
    bool grown = gguf_grow(&p, &w->cap_kv, w->n_kv + 1, sizeof *w->kv);
    w->kv = p;
    char *copy = grown ? mem_strndup(key, strlen(key)) : NULL;
    if (!copy) {
        err_set(&w->err, FT_NOMEM, "%s: key '%s': out of memory", w->path, key);
        return NULL;
    }
    meta *m = &w->kv[w->n_kv++];
    *m = (meta){.key = copy};
    buf_init(&m->value, HEADER_BYTES_MAX);
    put_uint(&m->value, type, 4);
    return &m->value;
}

static void put_end(gguf_writer *w, const buf *b, const char *key)
{
    if (buf_status(b, key, &w->err) != FT_OK)
        err_prefix(&w->err, w->err.code, "%s", w->path);
}

/* Does v fit the integer type? A u64 takes all, as gguf_kv_int gives it back. */
static bool int_fits(gguf_type type, int64_t v)
{
    if (type == GGUF_BOOL)
        return v == 0 || v == 1;
    if (type == GGUF_U64 || type == GGUF_I64)
        return true;
    int bits = 8 * (int)gguf_type_bytes(type);
    bool is_signed = type == GGUF_I8 || type == GGUF_I16 || type == GGUF_I32;
    int64_t top = (int64_t)1 << (is_signed ? bits - 1 : bits);
    return v < top && v >= (is_signed ? -top : 0);
}

void gguf_put_int(gguf_writer *w, const char *key, gguf_type type, int64_t v)
{
    size_t size = gguf_type_bytes(type);
    bool is_int = size && type != GGUF_F32 && type != GGUF_F64;
    if (!is_int || !int_fits(type, v)) {
        err_set(&w->err, FT_ARG, "%s: key '%s': %" PRId64 " is no value of type %s", w->path, key,
                v, gguf_type_name(type));
        return;
    }
    buf *b = put_begin(w, key, type);
    if (!b)
        return;
    put_uint(b, (uint64_t)v, size);
    put_end(w, b, key);
}

void gguf_put_f32(gguf_writer *w, const char *key, float v)
{
    buf *b = put_begin(w, key, GGUF_F32);
    if (!b)
        return;
    buf_put(b, &v, sizeof v);
    put_end(w, b, key);
}

void gguf_put_str(gguf_writer *w, const char *key, const char *s, size_t len)
{
    buf *b = put_begin(w, key, GGUF_STRING);
    if (!b)
        return;
    put_text(b, s, len);
    put_end(w, b, key);
}

void gguf_put_array(gguf_writer *w, const char *key, gguf_type elem, const void *v, size_t n)
{
    size_t n_bytes;
    size_t size = gguf_type_bytes(elem);
    if (size == 0 || !size_mul(&n_bytes, n, size)) {
        err_set(&w->err, FT_ARG, "%s: key '%s': no array of %zu values of type %s", w->path, key, n,
                gguf_type_name(elem));
        return;
    }
    buf *b = put_begin(w, key, GGUF_ARRAY);
    if (!b)
        return;
    put_uint(b, elem, 4);
    put_uint(b, n, 8);
    buf_put(b, v, n_bytes);
    put_end(w, b, key);
}

void gguf_put_str_array(gguf_writer *w, const char *key, const gguf_str *v, size_t n)
{
    buf *b = put_begin(w, key, GGUF_ARRAY);
    if (!b)
        return;
    put_uint(b, GGUF_STRING, 4);
    put_uint(b, n, 8);
    for (size_t i = 0; i < n; i++)
        put_text(b, v[i].s, v[i].len);
    put_end(w, b, key);
}

void gguf_put_kv(gguf_writer *w, const gguf_kv *kv)
{
    buf *b = put_begin(w, kv->key, kv->type);
    if (!b)
        return;
    if (kv->type == GGUF_ARRAY) {
        put_uint(b, kv->elem, 4);
        put_uint(b, kv->n, 8);
    } else if (kv->type == GGUF_STRING) {
        put_uint(b, kv->raw_bytes, 8);
    }
    buf_put(b, kv->raw, kv->raw_bytes);
    put_end(w, b, kv->key);
}

/* ---- Tensors ------------------------------------------------------------------------------ */

void gguf_declare(gguf_writer *w, const char *name, dtype type, int n_dim, const uint64_t *dim)
{
    if (failed(w))
        return;
    declared d = {.n_dim = n_dim};
    char why[128] = "";
    const char *fault =
        w->writing ? "comes after the header was written" : gguf_name_fault(name, strlen(name));
    if (fault)
        snprintf(why, sizeof why, "%s", fault);
    else if (n_dim < 1 || n_dim > GGUF_MAX_DIMS)
        snprintf(why, sizeof why, "%d dimensions, want 1 to %d", n_dim, GGUF_MAX_DIMS);
    else if (gguf_shape(&d.t, (uint32_t)type, n_dim, dim, why))
        memcpy(d.dim, dim, (size_t)n_dim * sizeof *dim);
    if (why[0]) {
        err_set(&w->err, FT_ARG, "%s: tensor '%s': %s", w->path, gguf_show(name, strlen(name)).s,
                why);
        return;
    }
    void *p = w->tensor;
    bool grown = gguf_grow(&p, &w->cap_tensor, w->n_tensor + 1, sizeof d);
    w->tensor = p;
    d.t.name = grown ? mem_strndup(name, strlen(name)) : NULL;
    if (!d.t.name) {
        err_set(&w->err, FT_NOMEM, "%s: tensor '%s': out of memory", w->path, name);
        return;
    }
    w->tensor[w->n_tensor++] = d;
}

/* ---- The header --------------------------------------------------------------------------- */

/* By key; of equal keys the later one last: both point into one array. */
static int compare_meta(const void *a, const void *b)
{
    const meta *x = *(meta *const *)a;
    const meta *y = *(meta *const *)b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x > y) - (x < y);
}

static int compare_declared(const void *a, const void *b)
{
    const declared *x = *(const declared *const *)a;
    const declared *y = *(const declared *const *)b;
    return strcmp(x->t.name, y->t.name);
}

/* Mark the entries whose key comes again; *n_left: how many stay. */
static ft_status mark_replaced(gguf_writer *w, size_t *n_left)
{
    *n_left = w->n_kv;
    if (w->n_kv == 0)
        return FT_OK;
    meta **p = mem_calloc(w->n_kv, sizeof *p);
    if (!p)
        return err_set(&w->err, FT_NOMEM, "%s: out of memory for the header", w->path);
    for (size_t i = 0; i < w->n_kv; i++)
        p[i] = &w->kv[i];
    qsort(p, w->n_kv, sizeof *p, compare_meta);
    for (size_t i = 1; i < w->n_kv; i++) {
        if (strcmp(p[i - 1]->key, p[i]->key) == 0) {
            p[i - 1]->replaced = true;
            --*n_left;
        }
    }
    mem_free(p);
    return FT_OK;
}

static ft_status check_names(gguf_writer *w)
{
    if (w->n_tensor == 0)
        return FT_OK;
    const declared **p = mem_calloc(w->n_tensor, sizeof *p);
    if (!p)
        return err_set(&w->err, FT_NOMEM, "%s: out of memory for the header", w->path);
    for (size_t i = 0; i < w->n_tensor; i++)
        p[i] = &w->tensor[i];
    qsort(p, w->n_tensor, sizeof *p, compare_declared);
    for (size_t i = 1; i < w->n_tensor; i++)
        if (strcmp(p[i - 1]->t.name, p[i]->t.name) == 0)
            err_set(&w->err, FT_ARG, "%s: tensor '%s' is declared twice", w->path, p[i]->t.name);
    mem_free(p);
    return w->err.code;
}

/* The alignment is the caller's, when the metadata has one. */
static ft_status find_alignment(gguf_writer *w)
{
    int64_t alignment = GGUF_ALIGNMENT_DEFAULT;
    for (size_t i = 0; i < w->n_kv; i++) {
        const meta *m = &w->kv[i];
        if (m->replaced || strcmp(m->key, "general.alignment") != 0)
            continue;
        gguf_type type = (gguf_type)gguf_load(m->value.data, 4);
        gguf_kv kv = {.key = m->key, .type = type, .elem = type, .n = 1, .raw = m->value.data + 4};
        if (gguf_kv_int(&kv, 0, &alignment, NULL) != FT_OK)
            alignment = 0; /* no number: refused below */
    }
    if (!gguf_alignment_ok(alignment))
        return err_set(&w->err, FT_ARG,
                       "%s: key 'general.alignment': %" PRId64 ", want a power of two up to %d",
                       w->path, alignment, GGUF_ALIGNMENT_MAX);
    w->alignment = (size_t)alignment;
    return FT_OK;
}

static ft_status build_header(gguf_writer *w, buf *b, size_t n_kv)
{
    buf_put(b, GGUF_MAGIC, 4);
    put_uint(b, 3, 4);
    put_uint(b, w->n_tensor, 8);
    put_uint(b, n_kv, 8);
    for (size_t i = 0; i < w->n_kv; i++) {
        const meta *m = &w->kv[i];
        if (m->replaced)
            continue;
        put_text(b, m->key, strlen(m->key));
        buf_put(b, m->value.data, m->value.len);
    }
    size_t offset = 0;
    for (size_t i = 0; i < w->n_tensor; i++) {
        const declared *d = &w->tensor[i];
        put_text(b, d->t.name, strlen(d->t.name));
        put_uint(b, (uint64_t)d->n_dim, 4);
        for (int k = 0; k < d->n_dim; k++)
            put_uint(b, d->dim[k], 8);
        put_uint(b, d->t.type, 4);
        put_uint(b, offset, 8);
        if (!size_add(&offset, offset, tensor_bytes(&d->t)) || offset > INT64_MAX)
            return err_set(&w->err, FT_ARG, "%s: tensor '%s' ends beyond 2^63 bytes", w->path,
                           d->t.name);
        offset = size_align(offset, w->alignment);
    }
    return buf_status(b, w->path, &w->err);
}

ft_status gguf_writer_begin(gguf_writer *w, ft_error *err)
{
    if (w->writing)
        err_set(&w->err, FT_ARG, "%s: the header is already written", w->path);
    size_t n_kv;
    buf b;
    buf_init(&b, HEADER_BYTES_MAX);
    if (!failed(w) && mark_replaced(w, &n_kv) == FT_OK && check_names(w) == FT_OK &&
        find_alignment(w) == FT_OK && build_header(w, &b, n_kv) == FT_OK) {
        write_all(w, b.data, b.len);
        write_padding(w, b.len);
        w->writing = true;
    }
    buf_deinit(&b);
    return report(w, err);
}

ft_status gguf_write_data(gguf_writer *w, const void *data, size_t n_bytes, ft_error *err)
{
    if (failed(w))
        return report(w, err);
    if (!w->writing || w->i_tensor == w->n_tensor) {
        err_set(&w->err, FT_ARG, "%s: %zu bytes of data %s", w->path, n_bytes,
                w->writing ? "after the last tensor" : "before the header");
        return report(w, err);
    }
    const tensor *t = &w->tensor[w->i_tensor].t;
    size_t total = tensor_bytes(t);
    if (n_bytes > total - w->n_done) {
        err_set(&w->err, FT_ARG, "%s: tensor '%s': %zu bytes of data, want %zu more", w->path,
                t->name, n_bytes, total - w->n_done);
        return report(w, err);
    }
    write_all(w, data, n_bytes);
    w->n_done += n_bytes;
    if (w->n_done == total) {
        write_padding(w, total);
        w->i_tensor++;
        w->n_done = 0;
    }
    return report(w, err);
}
