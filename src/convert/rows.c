/* rows.c - the rows of a planned tensor as float32: gathered, reordered, transformed. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "convert/plan.h"
#include "convert/types.h"
#include "kern/kern.h"

static uint64_t load_u64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

int64_t plan_i64(const st_tensor *t, uint64_t i)
{
    assert(t->type == ST_I64 && i < t->n);
    return (int64_t)load_u64(t->data + 8 * i);
}

/* n values of a source, from value `at` on. */
static void load_values(float *dst, const st_tensor *t, uint64_t at, uint64_t n)
{
    const uint8_t *src = t->data + at * st_dtype_bytes(t->type);
    if (t->type == ST_F64) {
        for (uint64_t i = 0; i < n; i++) {
            uint64_t bits = load_u64(src + 8 * i);
            double d;
            memcpy(&d, &bits, sizeof d);
            dst[i] = (float)d;
        }
        return;
    }
    int type = t->type == ST_BF16 ? DTYPE_BF16 : t->type == ST_F16 ? DTYPE_F16 : DTYPE_F32;
    bool ok = kern_decode(type, dst, src, n);
    assert(ok);
    (void)ok;
}

/* Where the value head that GGUF stores at place `head` stands in the checkpoint. */
static uint64_t source_head(const hf_config *c, uint64_t head)
{
    uint64_t n_key = (uint64_t)c->n_key_head, per_key = (uint64_t)c->n_val_head / n_key;
    return head % n_key * per_key + head / n_key;
}

static uint64_t source_row(const hf_config *c, const plan_perm *perm, uint64_t row)
{
    if (!perm->on || perm->of_cols || row < perm->first)
        return row;
    uint64_t i = row - perm->first;
    return perm->first + source_head(c, i / perm->unit) * perm->unit + i % perm->unit;
}

/* The piece that holds a row: the last one that begins at or before it. */
static const plan_piece *find_piece(const plan_piece *piece, size_t n, uint64_t row)
{
    size_t lo = 0, hi = n;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (piece[mid].first <= row)
            lo = mid;
        else
            hi = mid;
    }
    return &piece[lo];
}

/* Row `row` of a piece, counted over its matrices. */
static void load_row(float *dst, const plan_piece *p, uint64_t row)
{
    uint64_t src_row = row / p->n_row * p->mat_rows + p->row0 + row % p->n_row;
    load_values(dst, p->src, src_row * p->n_col, p->n_col);
}

static void gather_row(float *dst, const plan *p, const plan_tensor *t, uint64_t row)
{
    const plan_piece *piece = &p->piece[t->piece];
    if (t->side_by_side) {
        for (size_t i = 0; i < t->n_piece; i++)
            load_row(dst + piece[i].first, &piece[i], row);
        return;
    }
    row = source_row(&p->cfg, &t->perm, row);
    piece = find_piece(piece, t->n_piece, row);
    load_row(dst, piece, row - piece->first);
}

static void permute_cols(float *dst, const float *src, const hf_config *c, uint64_t unit)
{
    for (uint64_t h = 0; h < (uint64_t)c->n_val_head; h++)
        memcpy(dst + h * unit, src + source_head(c, h) * unit, unit * sizeof *dst);
}

static void read_row(const plan *p, const plan_tensor *t, uint64_t row, float *dst, float *scratch)
{
    const uint64_t n_col = t->dim[0];
    bool by_cols = t->perm.on && t->perm.of_cols;
    gather_row(by_cols ? scratch : dst, p, t, row);
    if (by_cols)
        permute_cols(dst, scratch, &p->cfg, t->perm.unit);
    if (t->op == PLAN_PLUS_1)
        for (uint64_t i = 0; i < n_col; i++)
            dst[i] += 1.0f;
    else if (t->op == PLAN_NEG_EXP)
        for (uint64_t i = 0; i < n_col; i++)
            dst[i] = (float)-exp((double)dst[i]);
}

void plan_read_rows(const plan *p, const plan_tensor *t, uint64_t row, uint64_t n, float *dst,
                    float *scratch)
{
    const uint64_t n_col = t->dim[0];
#pragma omp parallel for schedule(static) if (n * n_col >= TYPES_SHARED)
    for (uint64_t r = 0; r < n; r++)
        read_row(p, t, row + r, dst + r * n_col, scratch + r * n_col);
}
