/* matmul.c - matrix products shared out over threads, plain and by expert.
 *
 * Threads share the weight's rows in tiles of KERN_ROW_TILE; every output is computed whole by one
 * thread, so their number changes nothing. */
#include <assert.h>

#include "backend/cpu/cpu.h"

/* The rows in the form that this weight type multiplies with. */
static const void *act_rows(backend *be, be_act *x, dtype type, size_t *stride)
{
    if (be->k.act[type] == KERN_ACT_F32) {
        *stride = (size_t)x->n_col * sizeof(float);
        return x->f32;
    }
    *stride = kern_q8_row_bytes(x->n_col);
    if (!x->has_q8) {
        uint8_t *q8 = x->q8;
        size_t row_bytes = *stride;
        CPU_FOR(be, 2 * cpu_work(x->n_row, x->n_col))
        for (int t = 0; t < x->n_row; t++)
            be->k.quant_q8(q8 + (size_t)t * row_bytes, x->f32 + (size_t)t * (size_t)x->n_col,
                           x->n_col);
        x->has_q8 = true;
    }
    return x->q8;
}

void be_matmul(backend *be, float *y, size_t y_stride, const tensor *w, be_act *x)
{
    assert(w->n_col == x->n_col && backend_can_matmul(be, w->type));
    if (x->n_row == 0)
        return;
    kern_matmul a = {.w = w->data,
                     .w_stride = w->row_bytes,
                     .n_col = w->n_col,
                     .y = y,
                     .y_stride = y_stride,
                     .n_tok = x->n_row};
    a.x = act_rows(be, x, w->type, &a.x_stride);
    kern_matmul_fn *f = be->k.matmul[w->type];
    int n_tile = (w->n_row + KERN_ROW_TILE - 1) / KERN_ROW_TILE;
    size_t work = cpu_work(w->n_row, w->n_col) * (size_t)x->n_row;
    int team = cpu_team(be, work);
    if (team == 1) {
        f(&a, 0, w->n_row);
        return;
    }
    /* A few pieces per thread: enough to even out, long enough to stream. */
    int n_piece = team * 4 < n_tile ? team * 4 : n_tile;
    CPU_FOR(be, work, schedule(dynamic, 1))
    for (int i = 0; i < n_piece; i++) {
        int64_t t0 = (int64_t)n_tile * i / n_piece, t1 = (int64_t)n_tile * (i + 1) / n_piece;
        int r0 = (int)t0 * KERN_ROW_TILE, r1 = (int)t1 * KERN_ROW_TILE;
        f(&a, r0, r1 < w->n_row ? r1 : w->n_row);
    }
}

void be_experts_sort(backend *be, be_experts *e)
{
    (void)be;
    int n_pair = e->n_row * e->n_used;
    for (int i = 0; i <= e->n_expert; i++)
        e->first[i] = 0;
    for (int p = 0; p < n_pair; p++)
        e->first[e->id[p] + 1]++;
    for (int i = 0; i < e->n_expert; i++)
        e->first[i + 1] += e->first[i];
    for (int p = 0; p < n_pair; p++)
        e->pair[e->first[e->id[p]]++] = p;
    for (int i = e->n_expert; i > 0; i--) /* first[i] has moved to the start of i + 1 */
        e->first[i] = e->first[i - 1];
    e->first[0] = 0;
    for (int i = 0; i < n_pair; i++)
        e->row[i] = e->pair[i] / e->n_used;
}

/* One product per expert over the pairs that use it; the pieces are (expert, part of its rows). */
static void by_expert(backend *be, float *y, const tensor *w, be_act *x, const be_experts *e,
                      const int32_t *x_row)
{
    assert(w->n_col == x->n_col && backend_can_matmul(be, w->type));
    size_t x_stride;
    const void *xs = act_rows(be, x, w->type, &x_stride);
    kern_matmul_fn *f = be->k.matmul[w->type];
    enum { PIECE = 8 * KERN_ROW_TILE };
    int n_part = (w->n_row + PIECE - 1) / PIECE;
    size_t work = cpu_work(w->n_row, w->n_col) * (size_t)e->n_row * (size_t)e->n_used;
    CPU_FOR(be, work, schedule(dynamic, 1) collapse(2))
    for (int i = 0; i < e->n_expert; i++) {
        for (int part = 0; part < n_part; part++) {
            int n = e->first[i + 1] - e->first[i];
            if (n == 0)
                continue;
            kern_matmul a = {.w = (const uint8_t *)w->data + (size_t)i * w->mat_bytes,
                             .w_stride = w->row_bytes,
                             .n_col = w->n_col,
                             .x = xs,
                             .x_stride = x_stride,
                             .y = y,
                             .y_stride = (size_t)w->n_row,
                             .n_tok = n,
                             .x_row = x_row + e->first[i],
                             .y_row = e->pair + e->first[i]};
            int r0 = part * PIECE, r1 = r0 + PIECE;
            f(&a, r0, r1 < w->n_row ? r1 : w->n_row);
        }
    }
}

void be_matmul_experts(backend *be, float *y, const tensor *w, be_act *x, const be_experts *e)
{
    by_expert(be, y, w, x, e, e->row);
}

void be_matmul_pairs(backend *be, float *y, const tensor *w, be_act *x, const be_experts *e)
{
    by_expert(be, y, w, x, e, e->pair);
}

void be_experts_sum(backend *be, float *y, const float *x, int n_col, const be_experts *e)
{
    int n_used = e->n_used;
    CPU_FOR(be, cpu_work(e->n_row * n_used, n_col))
    for (int t = 0; t < e->n_row; t++) {
        float *yt = y + (size_t)t * (size_t)n_col;
        const float *xt = x + (size_t)t * (size_t)n_used * (size_t)n_col;
        const float *weight = e->weight + (size_t)t * (size_t)n_used;
        for (int i = 0; i < n_col; i++)
            yt[i] = weight[0] * xt[i];
        for (int s = 1; s < n_used; s++)
            be->k.axpy(yt, weight[s], xt + (size_t)s * (size_t)n_col, n_col);
    }
}

/* The n_used largest of p [n], ties to the lower index, as ascending ids. Selection by repeated
 * maximum: n_used is small (10 of 512 in the largest models). */
static void top_ids(int32_t *id, float *p, int n, int n_used)
{
    for (int s = 0; s < n_used; s++) {
        int best = -1;
        for (int i = 0; i < n; i++)
            if (p[i] >= 0 && (best < 0 || p[i] > p[best]))
                best = i;
        if (best < 0) { /* all NaN: any ids serve, but each once */
            for (best = 0; p[best] == -1.0f; best++) {
            }
        }
        p[best] = -1.0f; /* taken; probabilities are never negative */
        int at = s;
        for (; at > 0 && id[at - 1] > best; at--)
            id[at] = id[at - 1];
        id[at] = best;
    }
}

void be_route(backend *be, int32_t *id, float *weight, const float *logits, int n_row, int n_expert,
              int n_used, float *scratch)
{
    CPU_FOR(be, 10 * cpu_work(n_row, n_expert))
    for (int t = 0; t < n_row; t++) {
        float *p = scratch + (size_t)t * (size_t)n_expert;
        const float *lt = logits + (size_t)t * (size_t)n_expert;
        int32_t *it = id + (size_t)t * (size_t)n_used;
        float *wt = weight + (size_t)t * (size_t)n_used;
        for (int i = 0; i < n_expert; i++)
            p[i] = lt[i];
        be->k.softmax(p, n_expert);
        top_ids(it, p, n_expert, n_used);
        /* top_ids marked what it took, so the probabilities are made once more. */
        for (int i = 0; i < n_expert; i++)
            p[i] = lt[i];
        be->k.softmax(p, n_expert);
        float sum = 0;
        for (int s = 0; s < n_used; s++)
            sum += p[it[s]];
        for (int s = 0; s < n_used; s++)
            wt[s] = p[it[s]] / sum;
    }
}
