/* index.c - finding keys and tensors by name: sorted arrays of pointers, searched by halves.
 *
 * Sorting also finds what is there twice, in n log n whatever the names are; a hash table would
 * need a secret seed to promise that.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "gguf/file.h"

static int compare_keys(const void *a, const void *b)
{
    const gguf_kv *x = *(const gguf_kv *const *)a;
    const gguf_kv *y = *(const gguf_kv *const *)b;
    return strcmp(x->key, y->key);
}

static int compare_names(const void *a, const void *b)
{
    const gguf_tensor *x = *(const gguf_tensor *const *)a;
    const gguf_tensor *y = *(const gguf_tensor *const *)b;
    return strcmp(x->t.name, y->t.name);
}

static int compare_offsets(const void *a, const void *b)
{
    const gguf_tensor *x = *(const gguf_tensor *const *)a;
    const gguf_tensor *y = *(const gguf_tensor *const *)b;
    return (x->file_offset > y->file_offset) - (x->file_offset < y->file_offset);
}

static int find_key(const void *key, const void *item)
{
    const gguf_kv *kv = *(const gguf_kv *const *)item;
    return strcmp(key, kv->key);
}

static int find_name(const void *name, const void *item)
{
    const gguf_tensor *g = *(const gguf_tensor *const *)item;
    return strcmp(name, g->t.name);
}

static ft_status no_memory(const gguf_file *f, size_t n, ft_error *err)
{
    return err_set(err, FT_NOMEM, "%s: out of memory for an index of %zu entries",
                   gguf_show_file(f).s, n);
}

ft_status gguf_index_keys(gguf_file *f, ft_error *err)
{
    if (f->n_kv == 0)
        return FT_OK;
    const gguf_kv **p = mem_calloc(f->n_kv, sizeof *p);
    if (!p)
        return no_memory(f, f->n_kv, err);
    f->by_key = p;
    for (size_t i = 0; i < f->n_kv; i++)
        p[i] = &f->kv[i];
    qsort(p, f->n_kv, sizeof *p, compare_keys);
    for (size_t i = 1; i < f->n_kv; i++)
        if (strcmp(p[i - 1]->key, p[i]->key) == 0)
            return err_set(err, FT_FORMAT, "%s: key '%s' is there twice", gguf_show_file(f).s,
                           gguf_show(p[i]->key, strlen(p[i]->key)).s);
    return FT_OK;
}

/* All tensors of f, sorted; the caller owns the array. NULL: out of memory. */
static const gguf_tensor **sorted(const gguf_file *f, int (*compare)(const void *, const void *))
{
    const gguf_tensor **p = mem_calloc(f->n_tensor, sizeof *p);
    if (!p)
        return NULL;
    for (size_t i = 0; i < f->n_tensor; i++)
        p[i] = &f->tensor[i];
    qsort(p, f->n_tensor, sizeof *p, compare);
    return p;
}

ft_status gguf_index_names(gguf_file *f, ft_error *err)
{
    if (f->n_tensor == 0)
        return FT_OK;
    const gguf_tensor **p = f->by_name = sorted(f, compare_names);
    if (!p)
        return no_memory(f, f->n_tensor, err);
    for (size_t i = 1; i < f->n_tensor; i++)
        if (strcmp(p[i - 1]->t.name, p[i]->t.name) == 0)
            return err_set(err, FT_FORMAT, "%s: tensor '%s' is there twice", gguf_show_file(f).s,
                           gguf_show(p[i]->t.name, strlen(p[i]->t.name)).s);
    return FT_OK;
}

ft_status gguf_check_overlap(const gguf_file *f, ft_error *err)
{
    if (f->n_tensor < 2)
        return FT_OK;
    const gguf_tensor **p = sorted(f, compare_offsets);
    if (!p)
        return no_memory(f, f->n_tensor, err);
    ft_status st = FT_OK;
    for (size_t i = 1; i < f->n_tensor && st == FT_OK; i++) {
        const gguf_tensor *a = p[i - 1];
        const gguf_tensor *b = p[i];
        if (tensor_bytes(&a->t) > b->file_offset - a->file_offset)
            st = err_set(
                err, FT_FORMAT,
                "%s: tensor '%.60s' (%zu bytes at %" PRIu64 ") overlaps tensor '%.60s' at %" PRIu64,
                gguf_show_file(f).s, gguf_show(a->t.name, strlen(a->t.name)).s, tensor_bytes(&a->t),
                a->file_offset, gguf_show(b->t.name, strlen(b->t.name)).s, b->file_offset);
    }
    mem_free(p);
    return st;
}

const gguf_kv *gguf_kv_find(const gguf_file *f, const char *key)
{
    if (f->n_kv == 0)
        return NULL;
    const gguf_kv **p = bsearch(key, f->by_key, f->n_kv, sizeof *p, find_key);
    return p ? *p : NULL;
}

const gguf_tensor *gguf_tensor_find(const gguf_file *f, const char *name)
{
    if (f->n_tensor == 0)
        return NULL;
    const gguf_tensor **p = bsearch(name, f->by_name, f->n_tensor, sizeof *p, find_name);
    return p ? *p : NULL;
}
