/* recurrent.c - the convolution's history and the gated delta net's state.
 *
 * A window's rows past the committed ones must not touch what a rollback returns to:
 * 1. The state in memory is always that of the committed rows (less those still pending).
 * 2. pend and hist are rewritten only after every reader of the old content is done.
 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"

/* Row i of a segment, counted from its first row; negative i: from the history. */
static const float *conv_row(const be_conv_seg *g, const float *x, int i, int n_col)
{
    if (i >= 0)
        return x + (size_t)(g->row + i) * (size_t)n_col;
    return g->hist + (size_t)(g->hist_n + i) * (size_t)n_col;
}

/* New history: the n_keep rows before the first uncommitted row, then the uncommitted ones. */
static void conv_keep(const be_conv_seg *g, const float *x, int n_keep, int n_col)
{
    int from = g->n_commit - n_keep; /* first row to keep */
    size_t row_bytes = (size_t)n_col * sizeof(float);
    int n_old = from < 0 ? -from : 0; /* of these, so many come from the history */
    if (n_old > g->n_row - from)
        n_old = g->n_row - from;
    if (n_old)
        memmove(g->hist, g->hist + (size_t)(g->hist_n + from) * (size_t)n_col,
                (size_t)n_old * row_bytes);
    int first = from < 0 ? 0 : from;
    if (g->n_row > first)
        memcpy(g->hist + (size_t)n_old * (size_t)n_col,
               x + (size_t)(g->row + first) * (size_t)n_col,
               (size_t)(g->n_row - first) * row_bytes);
}

/* The segment of a row. */
static const be_conv_seg *conv_seg_of(const be_conv_seg *seg, int n_seg, int row)
{
    int at = 0, end = n_seg; /* it is one of at .. end - 1 */
    while (end - at > 1) {
        int mid = at + (end - at) / 2;
        if (seg[mid].row <= row)
            at = mid;
        else
            end = mid;
    }
    return &seg[at];
}

/* One loop over the rows of all segments: rows of a window, or of many of them, are too little work each. */
void be_conv_silu(backend *be, float *y, const float *x, const float *w, int n_tap, int dilation,
                  int n_col, const be_conv_seg *seg, int n_seg)
{
    enum { MAX_TAP = 16, PIECE = 1024 };
    assert(n_tap <= MAX_TAP);
    int n_piece = (n_col + PIECE - 1) / PIECE, n_keep = (n_tap - 1) * dilation;
    int n_row = n_seg > 0 ? seg[n_seg - 1].row + seg[n_seg - 1].n_row : 0;
    CPU_FOR(be, 12 * cpu_work(n_row, n_col), collapse(2))
    for (int row = 0; row < n_row; row++)
        for (int p = 0; p < n_piece; p++) {
            const be_conv_seg *g = conv_seg_of(seg, n_seg, row);
            const float *tap[MAX_TAP];
            int c = p * PIECE, n = n_col - c < PIECE ? n_col - c : PIECE;
            for (int j = 0; j < n_tap; j++)
                tap[j] = conv_row(g, x, row - g->row - (n_tap - 1 - j) * dilation, n_col) + c;
            be->k.conv_silu(y + (size_t)row * (size_t)n_col + c, tap, w + c, (size_t)n_col, n_tap,
                            n);
        }
    CPU_FOR(be, 4 * cpu_work(n_seg, (n_keep + 1) * n_col)) /* invariant 2 */
    for (int s = 0; s < n_seg; s++)
        conv_keep(&seg[s], x, n_keep, n_col);
}

void be_gdn_norm_qk(backend *be, float *x, int n_row, size_t stride, int n_head, int d)
{
    float scale = 1.0f / sqrtf((float)d);
    CPU_FOR(be, 4 * cpu_work(n_row, n_head * d), collapse(2))
    for (int t = 0; t < n_row; t++)
        for (int h = 0; h < 2 * n_head; h++) {
            float *v = x + (size_t)t * stride + (size_t)h * (size_t)d;
            be->k.l2norm(v, v, d, 1e-6f, h < n_head ? scale : 1.0f);
        }
}

/* Two or three functions of the C library in double: about 50 ns. */
enum { GATE_WORK = 1000 };

void be_gdn_gates(backend *be, float *alpha, float *beta, const float *a, const float *dt,
                  int n_row, int n_head)
{
    CPU_FOR(be, GATE_WORK * cpu_work(n_row, n_head))
    for (int t = 0; t < n_row; t++)
        for (int h = 0; h < n_head; h++) {
            size_t at = (size_t)t * (size_t)n_head + (size_t)h;
            double x = (double)alpha[at] + (double)dt[h];
            double softplus = x > 30 ? x : log1p(exp(x));
            alpha[at] = (float)exp((double)a[h] * softplus);
            beta[at] = (float)(1.0 / (1.0 + exp(-(double)beta[at])));
        }
}

/* ---- The recurrence --------------------------------------------------------------------------- */

enum { GDN_COLS = 64, GDN_MAX_D = 256 }; /* columns of a tile: 64 * 128 floats stay in L1 */

typedef struct {
    const float *q, *k, *v, *decay, *beta; /* of row 0; rows are stride floats apart */
    size_t stride, gate_stride;
    int n_key, n_val, d;
} gdn_rows;

/* Row t of head j through columns [c, c + n) of its state. o NULL: no output. */
static void gdn_row(const backend *be, const gdn_rows *r, float *S, size_t ld, int t, int j, int c,
                    int n, float *o)
{
    size_t key = (size_t)(j % r->n_key) * (size_t)r->d;
    size_t at = (size_t)t * r->stride;
    const float *v = r->v + at + (size_t)j * (size_t)r->d + c;
    size_t gate = (size_t)t * r->gate_stride + (size_t)j;
    be->k.gdn(S, ld, r->d, n, o ? r->q + at + key : NULL, r->k + at + key, v, r->decay[gate],
              r->beta[gate], o);
}

/* A pending row is [k of all key heads][v of all value heads][decay][beta]. */
static gdn_rows pend_rows(const float *pend, int n_key, int n_val, int d)
{
    size_t n = be_gdn_pend_floats(n_key, n_val, d);
    const float *v = pend + (size_t)n_key * (size_t)d, *decay = v + (size_t)n_val * (size_t)d;
    return (gdn_rows){.k = pend,
                      .v = v,
                      .decay = decay,
                      .beta = decay + n_val,
                      .stride = n,
                      .gate_stride = n,
                      .n_key = n_key,
                      .n_val = n_val,
                      .d = d};
}

/* What the rows of a segment are: x is qkv of all rows. */
static gdn_rows seg_rows(const be_gdn_seg *g, const gdn_rows *x)
{
    gdn_rows r = *x;
    size_t at = (size_t)g->row * x->stride, gate = (size_t)g->row * x->gate_stride;
    r.q += at;
    r.k += at;
    r.v += at;
    r.decay += gate;
    r.beta += gate;
    return r;
}

static void gdn_keep(const be_gdn_seg *g, const gdn_rows *x)
{
    gdn_rows r = seg_rows(g, x);
    size_t n = be_gdn_pend_floats(r.n_key, r.n_val, r.d);
    size_t n_k = (size_t)r.n_key * (size_t)r.d, n_v = (size_t)r.n_val * (size_t)r.d;
    for (int t = g->n_commit; t < g->n_row; t++) {
        float *p = g->pend + (size_t)(t - g->n_commit) * n;
        size_t at = (size_t)t * r.stride, gate = (size_t)t * r.gate_stride;
        memcpy(p, r.k + at, n_k * sizeof *p);
        memcpy(p + n_k, r.v + at, n_v * sizeof *p);
        memcpy(p + n_k + n_v, r.decay + gate, (size_t)r.n_val * sizeof *p);
        memcpy(p + n_k + n_v + r.n_val, r.beta + gate, (size_t)r.n_val * sizeof *p);
    }
}

/* One tile of columns: pending rows, committed rows in place; the rest on a copy (invariant 1). */
static void gdn_tile(const backend *be, const be_gdn_seg *g, const gdn_rows *x, int j, int c, int n,
                     float *o)
{
    int d = x->d;
    gdn_rows rows = seg_rows(g, x), pend = pend_rows(g->pend, x->n_key, x->n_val, d);
    float *S = g->state + (size_t)j * (size_t)d * (size_t)d + c;
    for (int t = 0; t < g->n_apply; t++)
        gdn_row(be, &pend, S, (size_t)d, t, j, c, n, NULL);
    size_t o_stride = (size_t)rows.n_val * (size_t)d;
    float *out = o + (size_t)g->row * o_stride + (size_t)j * (size_t)d + c;
    for (int t = 0; t < g->n_commit; t++)
        gdn_row(be, &rows, S, (size_t)d, t, j, c, n, out + (size_t)t * o_stride);
    if (g->n_commit == g->n_row)
        return;
    float copy[GDN_MAX_D * GDN_COLS];
    for (int i = 0; i < d; i++)
        memcpy(copy + (size_t)i * GDN_COLS, S + (size_t)i * (size_t)d, (size_t)n * sizeof *copy);
    for (int t = g->n_commit; t < g->n_row; t++)
        gdn_row(be, &rows, copy, GDN_COLS, t, j, c, n, out + (size_t)t * o_stride);
}

/* Tiles outside, segments inside: each thread has its share of every segment, however long they are. */
void be_gdn(backend *be, float *o, const float *qkv, const float *decay, const float *beta,
            int n_key, int n_val, int d, const be_gdn_seg *seg, int n_seg)
{
    assert(d <= GDN_MAX_D);
    size_t key = (size_t)n_key * (size_t)d;
    gdn_rows x = {.q = qkv,
                  .k = qkv + key,
                  .v = qkv + 2 * key,
                  .decay = decay,
                  .beta = beta,
                  .stride = 2 * key + (size_t)n_val * (size_t)d,
                  .gate_stride = (size_t)n_val,
                  .n_key = n_key,
                  .n_val = n_val,
                  .d = d};
    int n_tile = (d + GDN_COLS - 1) / GDN_COLS, n_step = 0, n_keep = 0;
    for (int s = 0; s < n_seg; s++) {
        n_step += seg[s].n_row + seg[s].n_apply;
        n_keep += seg[s].n_row - seg[s].n_commit;
    }
    CPU_FOR(be, 4 * cpu_work(n_step, n_val * d) * (size_t)d, collapse(2))
    for (int j = 0; j < n_val; j++)
        for (int i = 0; i < n_tile; i++) {
            int c = i * GDN_COLS, n = d - c < GDN_COLS ? d - c : GDN_COLS;
            for (int s = 0; s < n_seg; s++)
                gdn_tile(be, &seg[s], &x, j, c, n, o);
        }
    CPU_FOR(be, 4 * cpu_work(n_keep, (n_key + n_val) * d)) /* invariant 2 */
    for (int s = 0; s < n_seg; s++)
        gdn_keep(&seg[s], &x);
}

void be_gdn_apply(backend *be, float *state, const float *pend, int n, int n_key, int n_val, int d)
{
    gdn_rows rows = pend_rows(pend, n_key, n_val, d);
    CPU_FOR(be, 4 * cpu_work(n, n_val * d) * (size_t)d)
    for (int j = 0; j < n_val; j++)
        for (int t = 0; t < n; t++)
            gdn_row(be, &rows, state + (size_t)j * (size_t)d * (size_t)d, (size_t)d, t, j, 0, d,
                    NULL);
}
