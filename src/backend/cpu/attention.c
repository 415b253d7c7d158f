/* attention.c - attention in spans of cells, and the block selection of sparse attention.
 *
 * The spans of a row are fixed by its own list of cells (BE_SPAN entries each), reduced one by one
 * and merged in ascending order: the bits depend on nothing else. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"

enum { MAX_HEAD = 512, MAX_GROUP = 32 };

_Static_assert(BE_PAGE == KERN_ATTN_PAGE && BE_PAGE == BE_SPAN, "one size of pages and spans");

/* A running softmax of the query heads of one KV head. */
typedef struct {
    float m[MAX_GROUP], l[MAX_GROUP], acc[MAX_GROUP * MAX_HEAD];
} partial;

static void partial_clear(partial *p, int n_q, int d)
{
    for (int h = 0; h < n_q; h++) {
        p->m[h] = -INFINITY;
        p->l[h] = 0;
    }
    memset(p->acc, 0, (size_t)n_q * (size_t)d * sizeof(float));
}

static void partial_merge(partial *a, const partial *b, int n_q, int d)
{
    for (int h = 0; h < n_q; h++) {
        float m = fmaxf(a->m[h], b->m[h]);
        float z = m == -INFINITY ? 0 : m; /* nothing but -inf so far: weights 0, not NaN */
        float ca = kern_exp(a->m[h] - z), cb = kern_exp(b->m[h] - z);
        a->m[h] = m;
        a->l[h] = fmaf(b->l[h], cb, a->l[h] * ca);
        float *x = a->acc + (size_t)h * (size_t)d;
        const float *y = b->acc + (size_t)h * (size_t)d;
        for (int i = 0; i < d; i++)
            x[i] = fmaf(y[i], cb, x[i] * ca);
    }
}

/* One row and one KV head: all spans of the row's list, merged. */
static void attend(const backend *be, float *o, const float *qg, const be_attn_row *row, int kvh,
                   int n_q, int d)
{
    const be_kv *kv = row->kv;
    size_t head_bytes = be_cell_bytes(kv->k.type, d) * (size_t)kvh;
    partial sum, span;
    kern_attn a = {.q = qg,
                   .q_stride = 2 * (size_t)d,
                   .n_q = n_q,
                   .d = d,
                   .page = (const void *const *)kv->k.page,
                   .k = kv->k.offset + head_bytes,
                   .v = kv->v.offset + head_bytes,
                   .cell_bytes = kv->k.cell_bytes,
                   .kv_type = (int)kv->k.type,
                   .scale = 1.0f / sqrtf((float)d)};
    for (int i = 0; i < row->n_cell; i += BE_SPAN) {
        partial *p = i == 0 ? &sum : &span;
        partial_clear(p, n_q, d);
        a.cell = row->cell ? row->cell + i : NULL;
        a.first = i;
        a.n_cell = row->n_cell - i < BE_SPAN ? row->n_cell - i : BE_SPAN;
        a.m = p->m;
        a.l = p->l;
        a.acc = p->acc;
        be->k.attn(&a);
        if (i > 0)
            partial_merge(&sum, &span, n_q, d);
    }
    for (int h = 0; h < n_q; h++) {
        const float *gate = qg + (size_t)h * 2 * (size_t)d + d;
        float *x = sum.acc + (size_t)h * (size_t)d;
        for (int i = 0; i < d; i++)
            x[i] /= sum.l[h];
        be->k.sigmoid_mul(o + (size_t)h * (size_t)d, gate, x, d);
    }
}

void be_attention(backend *be, float *o, const float *qg, const be_attn_row *row, int n_row,
                  int n_head, int n_head_kv, int d)
{
    int n_q = n_head / n_head_kv;
    assert(d <= MAX_HEAD && n_q <= MAX_GROUP);
    size_t work = 0;
    for (int t = 0; t < n_row; t++)
        work += 2 * cpu_work(row[t].n_cell, n_head * d);
    CPU_FOR(be, work, schedule(dynamic, 1) collapse(2))
    for (int t = 0; t < n_row; t++)
        for (int g = 0; g < n_head_kv; g++) {
            size_t head = (size_t)t * (size_t)n_head + (size_t)g * (size_t)n_q;
            attend(be, o + head * (size_t)d, qg + head * 2 * (size_t)d, &row[t], g, n_q, d);
        }
}

/* ---- QSA ---------------------------------------------------------------------------------------- */

void be_qsa_pool(backend *be, const be_qsa_pool_args *a, int b0, int b1)
{
    int d = a->d, h = a->n_rot / 2;
    assert(d <= MAX_HEAD);
    CPU_FOR(be, 40 * cpu_work(b1 - b0, a->ratio * d))
    for (int b = b0; b < b1; b++) {
        float sum[MAX_HEAD], key[MAX_HEAD], c[MAX_HEAD / 2], s[MAX_HEAD / 2];
        memset(sum, 0, (size_t)d * sizeof *sum);
        for (int i = 0; i < a->ratio; i++) {
            bool ok =
                kern_decode((int)a->raw->type, key, be_cell(a->raw, b * a->ratio + i), (size_t)d);
            (void)ok; /* a type of the state */
            for (int k = 0; k < d; k++)
                sum[k] += key[k];
        }
        for (int k = 0; k < d; k++)
            sum[k] /= (float)a->ratio;
        float *out = be_cell(a->pool, b);
        be->k.rmsnorm(out, sum, a->w, d, a->eps);
        for (int k = 0; k < h; k++) {
            double angle = (double)b * a->ratio * pow(a->rope_base, -2.0 * k / a->n_rot);
            c[k] = (float)cos(angle);
            s[k] = (float)sin(angle);
        }
        be->k.rope(out, c, s, a->n_rot);
    }
}

/* Worse: a smaller score, or the same at a higher index. */
static bool worse(const float *score, int32_t a, int32_t b)
{
    return score[a] < score[b] || (score[a] == score[b] && a > b);
}

static void sift_down(const float *score, int32_t *heap, int n, int i)
{
    for (;;) {
        int worst = i, l = 2 * i + 1, r = l + 1;
        if (l < n && worse(score, heap[l], heap[worst]))
            worst = l;
        if (r < n && worse(score, heap[r], heap[worst]))
            worst = r;
        if (worst == i)
            return;
        int32_t tmp = heap[i];
        heap[i] = heap[worst];
        heap[worst] = tmp;
        i = worst;
    }
}

/* The worst of the n_best of score [n], n >= n_best: a heap of the best so far with their worst on
 * top, O(n log n_best). heap is scratch [n_best]. */
static int32_t worst_of_best(const float *score, int n, int32_t *heap, int n_best)
{
    for (int i = 0; i < n_best; i++)
        heap[i] = i;
    for (int i = n_best / 2 - 1; i >= 0; i--)
        sift_down(score, heap, n_best, i);
    for (int i = n_best; i < n; i++)
        if (worse(score, heap[0], i)) {
            heap[0] = i;
            sift_down(score, heap, n_best, 0);
        }
    return heap[0];
}

static void select_row(const backend *be, const be_qsa_args *a, int t)
{
    int pos = a->pos[t], n_block = (pos + 1) / a->ratio, n_best = a->top_k / a->ratio;
    int32_t *cell = a->cell + (size_t)t * (size_t)(a->top_k + a->ratio);
    int n = 0;
    if (n_block <= n_best) {
        for (int i = 0; i <= pos; i++)
            cell[n++] = i;
        a->n_cell[t] = n;
        return;
    }
    float *score = a->score + (size_t)cpu_thread() * (size_t)a->max_block;
    float root = sqrtf((float)a->d);
    const float *q = a->q + (size_t)t * (size_t)a->n_head * (size_t)a->d;
    for (int b = 0; b < n_block; b++) {
        const float *key = be_cell(a->pool[t], b);
        float sum = 0;
        for (int h = 0; h < a->n_head; h++) {
            float dot = be->k.dot(q + (size_t)h * (size_t)a->d, key, a->d);
            sum += dot > 0 ? dot : 0;
        }
        score[b] = sum / root;
    }
    int32_t last = worst_of_best(score, n_block, cell, n_best); /* the list itself as scratch */
    for (int b = 0; b < n_block; b++)
        if (!worse(score, b, last))
            for (int k = 0; k < a->ratio; k++)
                cell[n++] = b * a->ratio + k;
    for (int i = n_block * a->ratio; i <= pos; i++)
        cell[n++] = i;
    a->n_cell[t] = n;
}

void be_qsa_select(backend *be, const be_qsa_args *a)
{
    size_t work = 0;
    for (int t = 0; t < a->n_row; t++)
        work += 2 * cpu_work(a->pos[t] / a->ratio, a->n_head * a->d);
    CPU_FOR(be, work, schedule(dynamic, 1))
    for (int t = 0; t < a->n_row; t++)
        select_row(be, a, t);
}
