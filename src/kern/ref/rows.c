/* rows.c - kernels on rows in portable C: the contracts of kern.h, read line by line. */
#include "kern/ref/math.h"
#include "kern/slots.h"

static float dot(const float *a, const float *b, int n)
{
    float p[16] = {0};
    for (int i = 0; i < n; i++)
        p[i % 16] = fmaf(a[i], b[i], p[i % 16]);
    return lane_tree(p);
}

static void rmsnorm(float *y, const float *x, const float *w, int n, float eps)
{
    const float ms = dot(x, x, n) / (float)n;
    const float inv = 1.0f / sqrtf(ms + eps);
    for (int i = 0; i < n; i++)
        y[i] = (x[i] * inv) * w[i];
}

static void l2norm(float *y, const float *x, int n, float eps, float scale)
{
    const float inv = 1.0f / sqrtf(dot(x, x, n) + eps);
    for (int i = 0; i < n; i++)
        y[i] = (x[i] * inv) * scale;
}

static float silu_f32(float g)
{
    return g / (1.0f + exp_f32(-g));
}

static void silu_mul(float *y, const float *g, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = silu_f32(g[i]) * x[i];
}

static void sigmoid_mul(float *y, const float *g, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = 1.0f / (1.0f + exp_f32(-g[i])) * x[i];
}

static void silu(float *y, const float *x, float scale, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = silu_f32(scale * x[i]);
}

static void axpy(float *y, float a, const float *x, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void rope(float *x, const float *cos, const float *sin, int n_rot)
{
    const int h = n_rot / 2;
    for (int i = 0; i < h; i++) {
        const float x0 = x[i];
        const float x1 = x[i + h];
        x[i] = fmaf(x0, cos[i], -(x1 * sin[i]));
        x[i + h] = fmaf(x1, cos[i], x0 * sin[i]);
    }
}

static void conv_silu(float *y, const float *const *x, const float *w, size_t w_stride, int n_tap,
                      int n)
{
    for (int c = 0; c < n; c++) {
        float acc = w[c] * x[0][c];
        for (int j = 1; j < n_tap; j++)
            acc = fmaf(w[(size_t)j * w_stride + (size_t)c], x[j][c], acc);
        y[c] = silu_f32(acc);
    }
}

static void softmax(float *x, int n)
{
    float m = -INFINITY;
    for (int i = 0; i < n; i++)
        if (x[i] > m)
            m = x[i];
    float p[16] = {0};
    for (int i = 0; i < n; i++) {
        x[i] = exp_f32(x[i] - m);
        p[i % 16] += x[i];
    }
    const float sum = lane_tree(p);
    for (int i = 0; i < n; i++)
        x[i] = x[i] / sum;
}

float kern_exp(float x)
{
    return exp_f32(x);
}

void kern_init_rows_ref(kern_table *k)
{
    k->dot = dot;
    k->rmsnorm = rmsnorm;
    k->l2norm = l2norm;
    k->silu_mul = silu_mul;
    k->sigmoid_mul = sigmoid_mul;
    k->silu = silu;
    k->axpy = axpy;
    k->rope = rope;
    k->conv_silu = conv_silu;
    k->softmax = softmax;
}
