/* rows_neon.c - kernels on rows, 4 lanes wide; the 16 lanes of a lane sum are four vectors. */
#include "kern/arm/math_neon.h"
#include "kern/slots.h"

/* p = fma(a, b, p) in the first n lanes; the others keep even the sign of their zero. */
TEMPLATE float32x4_t lane_fma(float32x4_t p, const float *a, const float *b, int n)
{
    const float32x4_t y = vfmaq_f32(p, load_neon(a, n), load_neon(b, n));
    return n >= 4 ? y : vbslq_f32(mask_neon(n), y, p);
}

static float dot(const float *a, const float *b, int n)
{
    float32x4_t p[4];
    UNROLL
    for (int j = 0; j < 4; j++)
        p[j] = vdupq_n_f32(0.0f);
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        UNROLL
        for (int j = 0; j < 4; j++)
            p[j] = vfmaq_f32(p[j], vld1q_f32(a + i + 4 * j), vld1q_f32(b + i + 4 * j));
    }
    UNROLL
    for (int j = 0; j < 4; j++)
        if (i + 4 * j < n)
            p[j] = lane_fma(p[j], a + i + 4 * j, b + i + 4 * j, n - i - 4 * j);
    return lane_tree16(p);
}

static void rmsnorm(float *y, const float *x, const float *w, int n, float eps)
{
    const float ms = dot(x, x, n) / (float)n;
    const float inv = 1.0f / sqrtf(ms + eps);
    for (int i = 0; i < n; i += 4) {
        const float32x4_t unit = vmulq_n_f32(load_neon(x + i, n - i), inv);
        store_neon(y + i, n - i, vmulq_f32(unit, load_neon(w + i, n - i)));
    }
}

static void l2norm(float *y, const float *x, int n, float eps, float scale)
{
    const float inv = 1.0f / sqrtf(dot(x, x, n) + eps);
    for (int i = 0; i < n; i += 4) {
        const float32x4_t unit = vmulq_n_f32(load_neon(x + i, n - i), inv);
        store_neon(y + i, n - i, vmulq_n_f32(unit, scale));
    }
}

/* a / (1 + exp(-g)) */
TEMPLATE float32x4_t over_exp(float32x4_t a, float32x4_t g)
{
    return vdivq_f32(a, vaddq_f32(vdupq_n_f32(1.0f), exp_neon(vnegq_f32(g))));
}

static void silu_mul(float *y, const float *g, const float *x, int n)
{
    for (int i = 0; i < n; i += 4) {
        const float32x4_t gi = load_neon(g + i, n - i);
        const float32x4_t xi = load_neon(x + i, n - i);
        store_neon(y + i, n - i, vmulq_f32(over_exp(gi, gi), xi));
    }
}

static void sigmoid_mul(float *y, const float *g, const float *x, int n)
{
    for (int i = 0; i < n; i += 4) {
        const float32x4_t gi = load_neon(g + i, n - i);
        const float32x4_t xi = load_neon(x + i, n - i);
        store_neon(y + i, n - i, vmulq_f32(over_exp(vdupq_n_f32(1.0f), gi), xi));
    }
}

static void silu(float *y, const float *x, float scale, int n)
{
    for (int i = 0; i < n; i += 4) {
        const float32x4_t g = vmulq_n_f32(load_neon(x + i, n - i), scale);
        store_neon(y + i, n - i, over_exp(g, g));
    }
}

static void axpy(float *y, float a, const float *x, int n)
{
    const float32x4_t va = vdupq_n_f32(a);
    for (int i = 0; i < n; i += 4) {
        const float32x4_t yi = load_neon(y + i, n - i);
        store_neon(y + i, n - i, vfmaq_f32(yi, va, load_neon(x + i, n - i)));
    }
}

static void rope(float *x, const float *cos, const float *sin, int n_rot)
{
    const int h = n_rot / 2;
    for (int i = 0; i < h; i += 4) {
        const float32x4_t c = load_neon(cos + i, h - i);
        const float32x4_t s = load_neon(sin + i, h - i);
        const float32x4_t x0 = load_neon(x + i, h - i);
        const float32x4_t x1 = load_neon(x + i + h, h - i);
        store_neon(x + i, h - i, vfmaq_f32(vnegq_f32(vmulq_f32(x1, s)), x0, c));
        store_neon(x + i + h, h - i, vfmaq_f32(vmulq_f32(x0, s), x1, c));
    }
}

static void conv_silu(float *y, const float *const *x, const float *w, size_t w_stride, int n_tap,
                      int n)
{
    for (int i = 0; i < n; i += 4) {
        float32x4_t acc = vmulq_f32(load_neon(w + i, n - i), load_neon(x[0] + i, n - i));
        for (int j = 1; j < n_tap; j++) {
            const float *wj = w + (size_t)j * w_stride;
            acc = vfmaq_f32(acc, load_neon(wj + i, n - i), load_neon(x[j] + i, n - i));
        }
        store_neon(y + i, n - i, over_exp(acc, acc));
    }
}

/* The largest of x, -inf for none. A NaN may win: it makes every x NaN in any case. */
static float row_max(const float *x, int n)
{
    float32x4_t m = vdupq_n_f32(-INFINITY);
    int i = 0;
    for (; i + 4 <= n; i += 4)
        m = vmaxq_f32(m, vld1q_f32(x + i));
    float best = vmaxvq_f32(m);
    for (; i < n; i++)
        best = x[i] > best ? x[i] : best;
    return best;
}

/* x = exp(x - m) in the first n lanes; returns p + x there. */
TEMPLATE float32x4_t lane_exp(float32x4_t p, float *x, int n, float32x4_t m)
{
    const float32x4_t e = exp_neon(vsubq_f32(load_neon(x, n), m));
    store_neon(x, n, e);
    const float32x4_t sum = vaddq_f32(p, e);
    return n >= 4 ? sum : vbslq_f32(mask_neon(n), sum, p);
}

static void softmax(float *x, int n)
{
    const float32x4_t m = vdupq_n_f32(row_max(x, n));
    float32x4_t p[4];
    UNROLL
    for (int j = 0; j < 4; j++)
        p[j] = vdupq_n_f32(0.0f);
    for (int i = 0; i < n; i += 16) {
        UNROLL
        for (int j = 0; j < 4; j++)
            if (i + 4 * j < n)
                p[j] = lane_exp(p[j], x + i + 4 * j, n - i - 4 * j, m);
    }
    const float32x4_t sum = vdupq_n_f32(lane_tree16(p));
    for (int i = 0; i < n; i += 4)
        store_neon(x + i, n - i, vdivq_f32(load_neon(x + i, n - i), sum));
}

void kern_init_rows_neon(kern_table *k)
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
