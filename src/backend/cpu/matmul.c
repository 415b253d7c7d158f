/* matmul.c - matrix products shared out over threads, plain and by expert.
 *
 * Threads share the weights' rows in tiles of KERN_ROW_TILE; every output is computed whole by one
 * thread, so their number changes nothing. Matrices that read the same rows share one region: a
 * team's start and end, and its wait for the last thread, are paid once. */
#include <assert.h>

#include "backend/cpu/share.h"

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

/* ---- Several matrices, one region --------------------------------------------------------------- */

/* Products whose tiles follow each other: those of product i begin at first[i]. */
typedef struct {
    kern_matmul a[BE_MAX_PRODUCT];
    kern_matmul_fn *f[BE_MAX_PRODUCT];
    int n_row[BE_MAX_PRODUCT];
    int first[BE_MAX_PRODUCT + 1];
    int n;
} products;

static int tiles_of(const tensor *w)
{
    return (w->n_row + KERN_ROW_TILE - 1) / KERN_ROW_TILE;
}

/* Matrix i of w for a product, in tiles where it has them. */
static kern_matmul_fn *matrix_of(const backend *be, kern_matmul *a, const tensor *w, int i)
{
    a->n_col = w->n_col;
    if (!w->tiles) {
        a->w = (const uint8_t *)w->data + (size_t)i * w->mat_bytes;
        a->w_stride = w->row_bytes;
        return be->k.matmul[w->type];
    }
    a->w_stride = kern_tiles_row_bytes((int)w->type, w->n_col);
    a->w =
        (const uint8_t *)w->tiles + (size_t)i * (size_t)tiles_of(w) * KERN_ROW_TILE * a->w_stride;
    return be->k.matmul_tiled[w->type];
}

static void add_product(backend *be, products *p, const be_product *one, be_act *x)
{
    const tensor *w = one->w;
    assert(w->n_col == x->n_col && backend_can_matmul(be, w->type) && p->n < BE_MAX_PRODUCT);
    kern_matmul *a = &p->a[p->n];
    *a = (kern_matmul){.y = one->y, .y_stride = one->y_stride, .n_tok = x->n_row};
    a->x = act_rows(be, x, w->type, &a->x_stride);
    p->f[p->n] = matrix_of(be, a, w, 0);
    p->n_row[p->n] = w->n_row;
    p->first[p->n + 1] = p->first[p->n] + tiles_of(w);
    p->n++;
}

/* Tiles t0 .. t1 - 1 of all products' tiles. */
static void run_tiles(const void *ctx, int t0, int t1)
{
    const products *p = ctx;
    for (int i = 0; i < p->n; i++) {
        int from = t0 > p->first[i] ? t0 : p->first[i], to = cpu_min(t1, p->first[i + 1]);
        if (from < to)
            p->f[i](&p->a[i], (from - p->first[i]) * KERN_ROW_TILE,
                    cpu_min((to - p->first[i]) * KERN_ROW_TILE, p->n_row[i]));
    }
}

void be_matmul_many(backend *be, const be_product *product, int n, be_act *x)
{
    if (x->n_row == 0)
        return;
    products p = {.n = 0};
    size_t work = 0;
    for (int i = 0; i < n; i++) {
        add_product(be, &p, &product[i], x);
        work += cpu_work(product[i].w->n_row, x->n_col) * (size_t)x->n_row;
    }
    cpu_share(be, work, p.first[n], run_tiles, &p);
}

void be_matmul(backend *be, float *y, size_t y_stride, const tensor *w, be_act *x)
{
    be_product p = {.y = y, .y_stride = y_stride, .w = w};
    be_matmul_many(be, &p, 1, x);
}

/* ---- Gate and up -------------------------------------------------------------------------------- */

typedef struct {
    const backend *be;
    products p; /* gate, up */
} gated;

/* Tiles t0 .. t1 - 1 of both matrices, then silu on what they gave, which is in the cache. */
static void run_gated(const void *ctx, int t0, int t1)
{
    const gated *s = ctx;
    const kern_matmul *gate = &s->p.a[0], *up = &s->p.a[1];
    int r0 = t0 * KERN_ROW_TILE, r1 = cpu_min(t1 * KERN_ROW_TILE, s->p.n_row[0]);
    s->p.f[0](gate, r0, r1);
    s->p.f[1](up, r0, r1);
    for (int t = 0; t < gate->n_tok; t++) {
        float *y = gate->y + (size_t)t * gate->y_stride + r0;
        s->be->k.silu_mul(y, y, up->y + (size_t)t * up->y_stride + r0, r1 - r0);
    }
}

void be_swiglu(backend *be, float *y, float *u, const tensor *gate, const tensor *up, be_act *x)
{
    if (x->n_row == 0)
        return;
    assert(gate->n_row == up->n_row);
    size_t stride = (size_t)gate->n_row;
    gated s = {.be = be};
    add_product(be, &s.p, &(be_product){.y = y, .y_stride = stride, .w = gate}, x);
    add_product(be, &s.p, &(be_product){.y = u, .y_stride = stride, .w = up}, x);
    size_t work = 2 * cpu_work(gate->n_row, x->n_col) * (size_t)x->n_row;
    cpu_share(be, work, tiles_of(gate), run_gated, &s);
}

/* ---- Experts ------------------------------------------------------------------------------------ */

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
    e->n_distinct = 0;
    for (int i = 0; i < e->n_expert; i++)
        if (e->first[i + 1] > e->first[i])
            e->used[e->n_distinct++] = i;
    for (int i = 0; i < n_pair; i++)
        e->row[i] = e->pair[i] / e->n_used;
}

/* One product per expert over the pairs that use it. Tiles: those of the first expert that is used, of
 * the second, ... */
typedef struct {
    const backend *be;
    const be_experts *e;
    const tensor *w;
    kern_matmul a; /* without weights and rows */
    const int32_t *x_row;
    int n_tile; /* of an expert */
} expert_job;

static void run_expert(const expert_job *j, int used, int t0, int t1)
{
    const be_experts *e = j->e;
    int i = e->used[used];
    kern_matmul a = j->a;
    kern_matmul_fn *f = matrix_of(j->be, &a, j->w, i);
    a.n_tok = e->first[i + 1] - e->first[i];
    a.x_row = j->x_row + e->first[i];
    a.y_row = e->pair + e->first[i];
    f(&a, t0 * KERN_ROW_TILE, cpu_min(t1 * KERN_ROW_TILE, j->w->n_row));
}

static void run_experts(const void *ctx, int t0, int t1)
{
    const expert_job *j = ctx;
    for (int used = t0 / j->n_tile; t0 < t1; used++) {
        int base = used * j->n_tile, end = cpu_min(t1, base + j->n_tile);
        run_expert(j, used, t0 - base, end - base);
        t0 = end;
    }
}

static expert_job expert_job_of(backend *be, float *y, const tensor *w, be_act *x,
                                const be_experts *e, const int32_t *x_row)
{
    assert(w->n_col == x->n_col && backend_can_matmul(be, w->type));
    expert_job j = {.be = be, .e = e, .w = w, .x_row = x_row, .n_tile = tiles_of(w)};
    j.a = (kern_matmul){.y = y, .y_stride = (size_t)w->n_row};
    j.a.x = act_rows(be, x, w->type, &j.a.x_stride);
    return j;
}

static size_t expert_work(const tensor *w, const be_experts *e)
{
    return cpu_work(w->n_row, w->n_col) * (size_t)e->n_row * (size_t)e->n_used;
}

void be_matmul_pairs(backend *be, float *y, const tensor *w, be_act *x, const be_experts *e)
{
    expert_job j = expert_job_of(be, y, w, x, e, e->pair);
    cpu_share(be, expert_work(w, e), e->n_distinct * j.n_tile, run_experts, &j);
}

/* Tiles of gate and up of the same experts, and silu on what they gave. */
typedef struct {
    expert_job gate, up;
} expert_gated;

static void run_expert_gated(const void *ctx, int t0, int t1)
{
    const expert_gated *s = ctx;
    const be_experts *e = s->gate.e;
    run_experts(&s->gate, t0, t1);
    run_experts(&s->up, t0, t1);
    for (int used = t0 / s->gate.n_tile; t0 < t1; used++) {
        int base = used * s->gate.n_tile, end = cpu_min(t1, base + s->gate.n_tile);
        int n_row = s->gate.w->n_row, r0 = (t0 - base) * KERN_ROW_TILE;
        int r1 = cpu_min((end - base) * KERN_ROW_TILE, n_row), i = e->used[used];
        for (int p = e->first[i]; p < e->first[i + 1]; p++) {
            size_t at = (size_t)e->pair[p] * (size_t)n_row + (size_t)r0;
            float *y = s->gate.a.y + at;
            s->gate.be->k.silu_mul(y, y, s->up.a.y + at, r1 - r0);
        }
        t0 = end;
    }
}

void be_swiglu_experts(backend *be, float *y, float *u, const tensor *gate, const tensor *up,
                       be_act *x, const be_experts *e)
{
    assert(gate->n_row == up->n_row);
    expert_gated s = {.gate = expert_job_of(be, y, gate, x, e, e->row),
                      .up = expert_job_of(be, u, up, x, e, e->row)};
    cpu_share(be, 2 * expert_work(gate, e), e->n_distinct * s.gate.n_tile, run_expert_gated, &s);
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
