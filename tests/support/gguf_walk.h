/* gguf_walk.h - use everything that an open GGUF file offers, and say what is wrong with it.
 *
 * Under AddressSanitizer the walk itself is the test: every byte that the directory points to is
 * read. For unit tests and the fuzz target.
 */
#ifndef TESTS_SUPPORT_GGUF_WALK_H
#define TESTS_SUPPORT_GGUF_WALK_H

#include <string.h>

#include "gguf/gguf.h"

static inline unsigned walk_touch(const void *p, size_t n)
{
    const volatile uint8_t *b = p;
    unsigned sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += b[i];
    return sum;
}

static inline const char *walk_kv(const gguf_file *f, size_t i)
{
    const gguf_kv *kv = gguf_kv_at(f, i);
    if (gguf_kv_find(f, kv->key) != kv)
        return "a key is not found where it is";
    walk_touch(kv->raw, kv->raw_bytes);
    int64_t v;
    double x;
    gguf_str s;
    bool b;
    if (kv->type != GGUF_ARRAY && kv->n != 1)
        return "a scalar does not count 1";
    if (gguf_kv_int(kv, 0, &v, NULL) == FT_OK && kv->elem == GGUF_BOOL && v != 0 && v != 1)
        return "a bool is neither 0 nor 1";
    for (uint64_t k = 0; k < kv->n; k++) {
        ft_status as_int = gguf_kv_int(kv, k, &v, NULL);
        ft_status as_float = gguf_kv_float(kv, k, &x, NULL);
        if (as_int == FT_OK && as_float != FT_OK)
            return "an integer is no number";
        if (as_float != FT_OK)
            break;
    }
    size_t cursor = 0;
    uint64_t n_str = 0;
    while (gguf_kv_next_str(kv, &cursor, &s)) {
        walk_touch(s.s, s.len);
        n_str++;
    }
    if (kv->type == GGUF_ARRAY && kv->elem == GGUF_STRING && n_str != kv->n)
        return "an array of strings has another number of strings";
    if (gguf_get_str(f, kv->key, &s, NULL) == FT_OK)
        walk_touch(s.s, s.len);
    if (gguf_get_int(f, kv->key, -5, 5, &v, NULL) == FT_OK && (v < -5 || v > 5))
        return "gguf_get_int lets a value through";
    if (gguf_get_float(f, kv->key, -5, 5, &x, NULL) == FT_OK && !(x >= -5 && x <= 5))
        return "gguf_get_float lets a value through";
    if (gguf_get_bool(f, kv->key, &b, NULL) == FT_OK && kv->type != GGUF_BOOL)
        return "gguf_get_bool takes another type";
    return NULL;
}

/* Invariant 2 of gguf.h for tensor i of a file that is bytes [n_bytes]. */
static inline const char *walk_tensor(const gguf_file *f, size_t i, const uint8_t *bytes,
                                      size_t n_bytes)
{
    const gguf_tensor *g = gguf_tensor_at(f, i);
    const tensor *t = &g->t;
    if (gguf_tensor_find(f, t->name) != g)
        return "a tensor is not found where it is";
    const dtype_info *d = dtype_find((uint32_t)t->type);
    if (!d)
        return "a tensor's type is unknown";
    if (g->n_dim < 1 || g->n_dim > GGUF_MAX_DIMS || t->n_col < 1 || t->n_row < 1 || t->n_mat < 1)
        return "a tensor's dimensions are out of range";
    if (t->n_col % d->block_values != 0)
        return "a row is no multiple of the block";
    __extension__ typedef unsigned __int128 wide;
    wide size = (wide)(t->n_col / d->block_values) * (unsigned)d->block_bytes * (unsigned)t->n_row *
                (unsigned)t->n_mat;
    if (size != tensor_bytes(t) || t->mat_bytes != t->row_bytes * (size_t)t->n_row)
        return "a tensor's size does not follow from its type and dimensions";
    if (g->file_offset > n_bytes || size > n_bytes - g->file_offset)
        return "a tensor's data leaves the file";
    if (g->file_offset % gguf_alignment(f) != 0)
        return "a tensor's data is not aligned";
    if (t->data != bytes + g->file_offset)
        return "a tensor's data pointer and offset differ";
    for (size_t k = 0; k < i; k++) {
        const gguf_tensor *o = gguf_tensor_at(f, k);
        if (g->file_offset < o->file_offset + tensor_bytes(&o->t) &&
            o->file_offset < g->file_offset + size)
            return "two tensors overlap";
    }
    walk_touch(t->data, (size_t)size);
    return NULL;
}

/* NULL: all is as gguf.h promises for a file of one shard read from bytes. */
static inline const char *gguf_walk(const gguf_file *f, const uint8_t *bytes, size_t n_bytes)
{
    const char *fault = NULL;
    if (gguf_version(f) != 2 && gguf_version(f) != 3)
        return "the version is neither 2 nor 3";
    if (gguf_file_bytes(f) != n_bytes || gguf_n_shard(f) != 1)
        return "the file's size is wrong";
    for (size_t i = 0; i < gguf_n_kv(f) && !fault; i++)
        fault = walk_kv(f, i);
    for (size_t i = 0; i < gguf_n_tensor(f) && !fault; i++)
        fault = walk_tensor(f, i, bytes, n_bytes);
    return fault;
}

#endif
