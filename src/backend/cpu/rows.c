/* rows.c - operations that treat every row on its own. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"

void be_get_rows(backend *be, float *y, const tensor *table, const int32_t *id, int n_row)
{
    CPU_FOR(be, cpu_work(n_row, table->n_col))
    for (int t = 0; t < n_row; t++) {
        const uint8_t *row = (const uint8_t *)table->data + (size_t)id[t] * table->row_bytes;
        bool ok = kern_decode((int)table->type, y + (size_t)t * (size_t)table->n_col, row,
                              (size_t)table->n_col);
        (void)ok; /* checked when the model was bound */
    }
}

void be_repeat(backend *be, float *y, const float *x, int n_row, int n, int n_col)
{
    (void)be;
    size_t bytes = (size_t)n_col * sizeof(float);
    for (int t = 0; t < n_row; t++)
        for (int s = 0; s < n; s++)
            memcpy(y + ((size_t)t * (size_t)n + (size_t)s) * (size_t)n_col,
                   x + (size_t)t * (size_t)n_col, bytes);
}

void be_add_repeat(backend *be, float *y, const float *x, int n_row, int n, int n_col)
{
    (void)be;
    for (int i = 0; i < n_row * n; i++)
        for (int k = 0; k < n_col; k++)
            y[(size_t)i * (size_t)n_col + (size_t)k] +=
                x[(size_t)(i / n) * (size_t)n_col + (size_t)k];
}

void be_gather(backend *be, float *y, const float *x, const int32_t *row, int n_row, int n_col)
{
    (void)be;
    for (int t = 0; t < n_row; t++)
        memcpy(y + (size_t)t * (size_t)n_col, x + (size_t)row[t] * (size_t)n_col,
               (size_t)n_col * sizeof(float));
}

void be_add(backend *be, float *y, const float *x, int n_row, int n_col)
{
    CPU_FOR(be, cpu_work(n_row, n_col))
    for (int t = 0; t < n_row; t++)
        for (size_t i = (size_t)t * (size_t)n_col; i < (size_t)(t + 1) * (size_t)n_col; i++)
            y[i] += x[i];
}

void be_rmsnorm(backend *be, float *y, const float *x, const float *w, int n_row, int n_group,
                int n_col, float eps)
{
    int n = n_row * n_group;
    CPU_FOR(be, 3 * cpu_work(n, n_col))
    for (int i = 0; i < n; i++)
        be->k.rmsnorm(y + (size_t)i * (size_t)n_col, x + (size_t)i * (size_t)n_col,
                      w + (size_t)(i % n_group) * (size_t)n_col, n_col, eps);
}

void be_silu(backend *be, float *y, const float *x, float scale, int n_row, int n_col)
{
    CPU_FOR(be, 10 * cpu_work(n_row, n_col))
    for (int t = 0; t < n_row; t++)
        be->k.silu(y + (size_t)t * (size_t)n_col, x + (size_t)t * (size_t)n_col, scale, n_col);
}

void be_add_gated(backend *be, float *y, const float *z, const float *x, const float *w, int n_row,
                  int n_x, int n_col)
{
    CPU_FOR(be, cpu_work(n_row, n_x + n_col))
    for (int t = 0; t < n_row; t++) {
        float one = 1.0f, gate = be->k.dot(x + (size_t)t * (size_t)n_x, w, n_x);
        be->k.sigmoid_mul(&gate, &gate, &one, 1);
        be->k.axpy(y + (size_t)t * (size_t)n_col, gate, z + (size_t)t * (size_t)n_col, n_col);
    }
}

void be_hc_mix(backend *be, float *m, const float *X, float *G, int n_row, int n_hc, int n_col)
{
    size_t wide = (size_t)n_hc * (size_t)n_col;
    CPU_FOR(be, 10 * cpu_work(n_row, n_hc * n_col))
    for (int t = 0; t < n_row; t++) {
        const float *xt = X + (size_t)t * wide;
        float *gt = G + (size_t)t * wide;
        float *mt = m + (size_t)t * (size_t)n_col;
        be->k.sigmoid_mul(gt, gt, xt, n_hc * n_col);
        for (int i = 0; i < n_col; i++) {
            float sum = gt[i];
            for (int s = 1; s < n_hc; s++)
                sum += gt[(size_t)s * (size_t)n_col + (size_t)i];
            mt[i] = sum / (float)n_hc;
        }
    }
}

void be_hc_add(backend *be, float *R, float *inject, const float *g, const float *y, int n_row,
               int n_hc, int n_col)
{
    CPU_FOR(be, cpu_work(n_row, n_hc * n_col))
    for (int t = 0; t < n_row; t++)
        for (int s = 0; s < n_hc; s++) {
            size_t at = (size_t)t * (size_t)n_hc + (size_t)s;
            float two = 2.0f, f = g[at] / (float)n_hc;
            be->k.sigmoid_mul(&f, &f, &two, 1);
            inject[at] = f;
            be->k.axpy(R + at * (size_t)n_col, f, y + (size_t)t * (size_t)n_col, n_col);
        }
}

void be_rope_table(backend *be, float *cos_t, float *sin_t, const int32_t *pos, int n_row,
                   int n_rot, double base)
{
    (void)be;
    int h = n_rot / 2;
    for (int i = 0; i < h; i++) {
        double freq = pow(base, -2.0 * i / n_rot);
        for (int t = 0; t < n_row; t++) {
            double angle = pos[t] * freq;
            cos_t[(size_t)t * (size_t)h + (size_t)i] = (float)cos(angle);
            sin_t[(size_t)t * (size_t)h + (size_t)i] = (float)sin(angle);
        }
    }
}

void be_norm_rope(backend *be, float *x, const float *w, int n_row, int n_head, size_t stride,
                  int d, float eps, const float *cos_t, const float *sin_t, int n_rot)
{
    size_t h = (size_t)n_rot / 2;
    CPU_FOR(be, 4 * cpu_work(n_row, n_head * d), collapse(2))
    for (int t = 0; t < n_row; t++)
        for (int i = 0; i < n_head; i++) {
            float *v = x + ((size_t)t * (size_t)n_head + (size_t)i) * stride;
            be->k.rmsnorm(v, v, w, d, eps);
            be->k.rope(v, cos_t + (size_t)t * h, sin_t + (size_t)t * h, n_rot);
        }
}

void be_gated_norm(backend *be, float *o, const float *z, const float *w, int n_row, int n_head,
                   int d, float eps, bool sigmoid)
{
    CPU_FOR(be, 12 * cpu_work(n_row, n_head * d), collapse(2))
    for (int t = 0; t < n_row; t++)
        for (int i = 0; i < n_head; i++) {
            size_t at = ((size_t)t * (size_t)n_head + (size_t)i) * (size_t)d;
            be->k.rmsnorm(o + at, o + at, w, d, eps);
            if (sigmoid)
                be->k.sigmoid_mul(o + at, z + at, o + at, d);
            else
                be->k.silu_mul(o + at, z + at, o + at, d);
        }
}

void be_ple_gate(backend *be, float *gv, const float *key, const float *qry, const float *val,
                 int n_row, int n_hc, int n_col)
{
    float root = sqrtf((float)n_col);
    CPU_FOR(be, 2 * cpu_work(n_row, n_hc * n_col), collapse(2))
    for (int t = 0; t < n_row; t++)
        for (int h = 0; h < n_hc; h++) {
            size_t at = ((size_t)t * (size_t)n_hc + (size_t)h) * (size_t)n_col;
            float s = be->k.dot(key + at, qry + at, n_col) / root;
            float size = sqrtf(fmaxf(fabsf(s), 1e-6f));
            float one = 1.0f, gate = s > 0 ? size : s < 0 ? -size : 0.0f;
            be->k.sigmoid_mul(&gate, &gate, &one, 1);
            for (int i = 0; i < n_col; i++)
                gv[at + (size_t)i] = gate * val[(size_t)t * (size_t)n_col + (size_t)i];
        }
}
