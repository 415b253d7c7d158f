/* cells_bytes.c - cells of positions as bytes, in their own or another type. See snapshot.h. */
#include <string.h>

#include "base/mem.h"
#include "state/parts.h"
#include "state/snapshot.h"

enum { AT_A_TIME = 64 }; /* cells that are converted together */

size_t snap_cells_bytes(dtype type, int n_val, int n)
{
    return (size_t)n * be_cell_bytes(type, n_val);
}

/* What a conversion needs. */
typedef struct {
    float *rows; /* [AT_A_TIME][n_val] */
    void *bytes; /* [AT_A_TIME] cells of the type in the file */
    be_cells c;  /* these cells */
} converter;

static ft_status converter_init(converter *v, const snap_cells *a, ft_error *err)
{
    const dtype_info *d = dtype_find((uint32_t)a->type);
    *v = (converter){0};
    if (a->type != DTYPE_F32 && a->type != DTYPE_F16 && a->type != DTYPE_Q8_0)
        return err_set(err, FT_ARG, "cells: type %d, want f32, f16 or q8_0", (int)a->type);
    if (a->n_val % d->block_values)
        return err_set(err, FT_ARG, "cells: %d values as %s, want a multiple of %d", a->n_val,
                       d->name, d->block_values);
    if (a->type == a->c->type)
        return FT_OK; /* the cells themselves */
    v->rows = mem_calloc(AT_A_TIME, (size_t)a->n_val * sizeof *v->rows);
    v->bytes = mem_calloc(AT_A_TIME, be_cell_bytes(a->type, a->n_val));
    if (!v->rows || !v->bytes) {
        mem_free(v->rows);
        mem_free(v->bytes);
        return err_set(err, FT_NOMEM, "cells: conversion to and from %s", d->name);
    }
    v->c = (be_cells){.page = &v->bytes,
                      .type = a->type,
                      .cell_bytes = be_cell_bytes(a->type, a->n_val),
                      .per_page = AT_A_TIME};
    return FT_OK;
}

static void converter_deinit(converter *v)
{
    mem_free(v->rows);
    mem_free(v->bytes);
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

ft_status snap_cells_write(const snap_cells *a, snap_write_fn *w, void *ctx, ft_error *err)
{
    converter v;
    TRY(converter_init(&v, a, err));
    ft_status st = FT_OK;
    for (int i = 0, n; st == FT_OK && i < a->n; i += n) {
        int at = a->first + i;
        if (!v.rows) {
            n = be_cells_run(a->c, at, a->n - i);
            st = w(ctx, be_cell(a->c, at), (size_t)n * a->c->cell_bytes, err);
            continue;
        }
        n = min_int(a->n - i, AT_A_TIME);
        be_load_cells(a->be, a->c, at, v.rows, n, a->n_val);
        be_store_cells(a->be, &v.c, 0, v.rows, n, a->n_val);
        st = w(ctx, v.bytes, (size_t)n * v.c.cell_bytes, err);
    }
    converter_deinit(&v);
    return st;
}

ft_status snap_cells_read(const snap_cells *a, snap_read_fn *r, void *ctx, ft_error *err)
{
    converter v;
    TRY(converter_init(&v, a, err));
    ft_status st = FT_OK;
    for (int i = 0, n; st == FT_OK && i < a->n; i += n) {
        int at = a->first + i;
        if (!v.rows) {
            n = be_cells_run(a->c, at, a->n - i);
            st = r(ctx, be_cell(a->c, at), (size_t)n * a->c->cell_bytes, err);
            continue;
        }
        n = min_int(a->n - i, AT_A_TIME);
        st = r(ctx, v.bytes, (size_t)n * v.c.cell_bytes, err);
        if (st != FT_OK)
            break;
        be_load_cells(a->be, &v.c, 0, v.rows, n, a->n_val);
        be_store_cells(a->be, a->c, at, v.rows, n, a->n_val);
    }
    converter_deinit(&v);
    return st;
}

/* ---- Of a state ------------------------------------------------------------------------------------ */

/* The kinds of cells that are stored, in order: kind i of layer l, in type when K and V are. */
static bool stored(const seq *s, int l, int i, dtype type, snap_cells *out)
{
    const seq_layer_shape *shape = &s->shape.layer[l];
    const seq_layer *layer = &s->layer[l];
    if (shape->kind != SEQ_ATTN || (i == 2 && shape->ratio == 0))
        return false;
    out->be = s->be;
    out->c = i == 0 ? &layer->kv.k : i == 1 ? &layer->kv.v : &layer->idx_raw;
    out->n_val = i == 2 ? shape->d_idx : shape->n_kv;
    out->type = i == 2 ? seq_idx_type(type) : type;
    return true;
}

enum { N_KIND = 3 };

size_t seq_cells_bytes(const seq *s, dtype type, int n)
{
    size_t bytes = 0;
    snap_cells c;
    for (int l = 0; l < s->shape.n_layer; l++)
        for (int i = 0; i < N_KIND; i++)
            if (stored(s, l, i, type, &c))
                bytes += snap_cells_bytes(c.type, c.n_val, n);
    return bytes;
}

ft_status seq_cells_write(const seq *s, dtype type, int first, int n, snap_write_fn *w, void *ctx,
                          ft_error *err)
{
    if (first < 0 || n < 0 || n > s->n_past - first)
        return err_set(err, FT_RANGE, "state: cells of %d positions from %d on, there are %d", n,
                       first, s->n_past);
    snap_cells c = {.first = first, .n = n};
    for (int l = 0; l < s->shape.n_layer; l++)
        for (int i = 0; i < N_KIND; i++)
            if (stored(s, l, i, type, &c))
                TRY(snap_cells_write(&c, w, ctx, err));
    return FT_OK;
}

ft_status seq_cells_read(seq *s, dtype type, int first, int n, snap_read_fn *r, void *ctx,
                         ft_error *err)
{
    if (first < 0 || n < 0 || n > s->shape.n_ctx - first)
        return err_set(err, FT_RANGE, "state: cells of %d positions from %d on, the limit is %d", n,
                       first, s->shape.n_ctx);
    TRY(pages_reserve(&s->pages, first, n, err));
    snap_cells c = {.first = first, .n = n};
    for (int l = 0; l < s->shape.n_layer; l++)
        for (int i = 0; i < N_KIND; i++)
            if (stored(s, l, i, type, &c))
                TRY(snap_cells_read(&c, r, ctx, err));
    return FT_OK;
}
