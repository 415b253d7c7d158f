/* rows_avx2.c - kernels on rows, 8 lanes wide; the 16 lanes of a lane sum are two vectors. */
#include "kern/slots.h"
#include "kern/x86/math_avx2.h"

/* p = fma(a, b, p) in the first n lanes; the others keep even the sign of their zero. */
TEMPLATE __m256 lane_fma(__m256 p, const float *a, const float *b, int n)
{
    const __m256 y = _mm256_fmadd_ps(load_avx2(a, n), load_avx2(b, n), p);
    return n >= 8 ? y : _mm256_blendv_ps(p, y, _mm256_castsi256_ps(mask_avx2(n)));
}

static float dot(const float *a, const float *b, int n)
{
    __m256 p0 = _mm256_setzero_ps();
    __m256 p1 = _mm256_setzero_ps();
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        p0 = lane_fma(p0, a + i, b + i, 8);
        p1 = lane_fma(p1, a + i + 8, b + i + 8, 8);
    }
    if (i < n)
        p0 = lane_fma(p0, a + i, b + i, n - i);
    if (i + 8 < n)
        p1 = lane_fma(p1, a + i + 8, b + i + 8, n - i - 8);
    return lane_tree8(_mm256_add_ps(p0, p1));
}

static float inv_sqrt(float x)
{
    return 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
}

static void rmsnorm(float *y, const float *x, const float *w, int n, float eps)
{
    const float ms = dot(x, x, n) / (float)n;
    const __m256 inv = _mm256_set1_ps(inv_sqrt(ms + eps));
    for (int i = 0; i < n; i += 8) {
        const __m256 unit = _mm256_mul_ps(load_avx2(x + i, n - i), inv);
        store_avx2(y + i, n - i, _mm256_mul_ps(unit, load_avx2(w + i, n - i)));
    }
}

static void l2norm(float *y, const float *x, int n, float eps, float scale)
{
    const __m256 inv = _mm256_set1_ps(inv_sqrt(dot(x, x, n) + eps));
    for (int i = 0; i < n; i += 8) {
        const __m256 unit = _mm256_mul_ps(load_avx2(x + i, n - i), inv);
        store_avx2(y + i, n - i, _mm256_mul_ps(unit, _mm256_set1_ps(scale)));
    }
}

/* a / (1 + exp(-g)) */
TEMPLATE __m256 over_exp(__m256 a, __m256 g)
{
    const __m256 minus_g = _mm256_xor_ps(g, _mm256_set1_ps(-0.0f));
    return _mm256_div_ps(a, _mm256_add_ps(_mm256_set1_ps(1.0f), exp_avx2(minus_g)));
}

static void silu_mul(float *y, const float *g, const float *x, int n)
{
    for (int i = 0; i < n; i += 8) {
        const __m256 gi = load_avx2(g + i, n - i);
        const __m256 xi = load_avx2(x + i, n - i);
        store_avx2(y + i, n - i, _mm256_mul_ps(over_exp(gi, gi), xi));
    }
}

static void sigmoid_mul(float *y, const float *g, const float *x, int n)
{
    for (int i = 0; i < n; i += 8) {
        const __m256 gi = load_avx2(g + i, n - i);
        const __m256 xi = load_avx2(x + i, n - i);
        store_avx2(y + i, n - i, _mm256_mul_ps(over_exp(_mm256_set1_ps(1.0f), gi), xi));
    }
}

static void silu(float *y, const float *x, float scale, int n)
{
    for (int i = 0; i < n; i += 8) {
        const __m256 g = _mm256_mul_ps(_mm256_set1_ps(scale), load_avx2(x + i, n - i));
        store_avx2(y + i, n - i, over_exp(g, g));
    }
}

static void axpy(float *y, float a, const float *x, int n)
{
    const __m256 va = _mm256_set1_ps(a);
    for (int i = 0; i < n; i += 8) {
        const __m256 yi = load_avx2(y + i, n - i);
        store_avx2(y + i, n - i, _mm256_fmadd_ps(va, load_avx2(x + i, n - i), yi));
    }
}

static void rope(float *x, const float *cos, const float *sin, int n_rot)
{
    const int h = n_rot / 2;
    for (int i = 0; i < h; i += 8) {
        const __m256 c = load_avx2(cos + i, h - i);
        const __m256 s = load_avx2(sin + i, h - i);
        const __m256 x0 = load_avx2(x + i, h - i);
        const __m256 x1 = load_avx2(x + i + h, h - i);
        store_avx2(x + i, h - i, _mm256_fmsub_ps(x0, c, _mm256_mul_ps(x1, s)));
        store_avx2(x + i + h, h - i, _mm256_fmadd_ps(x1, c, _mm256_mul_ps(x0, s)));
    }
}

static void conv_silu(float *y, const float *const *x, const float *w, size_t w_stride, int n_tap,
                      int n)
{
    for (int i = 0; i < n; i += 8) {
        __m256 acc = _mm256_mul_ps(load_avx2(w + i, n - i), load_avx2(x[0] + i, n - i));
        for (int j = 1; j < n_tap; j++) {
            const float *wj = w + (size_t)j * w_stride;
            acc = _mm256_fmadd_ps(load_avx2(wj + i, n - i), load_avx2(x[j] + i, n - i), acc);
        }
        store_avx2(y + i, n - i, over_exp(acc, acc));
    }
}

/* The largest of x, a NaN passed over; -inf for none. */
static float row_max(const float *x, int n)
{
    __m256 m = _mm256_set1_ps(-INFINITY);
    int i = 0;
    for (; i + 8 <= n; i += 8)
        m = _mm256_max_ps(_mm256_loadu_ps(x + i), m); /* NaN in the first operand: the second */
    float best[8];
    _mm256_storeu_ps(best, m);
    for (int j = 1; j < 8; j++)
        best[0] = best[j] > best[0] ? best[j] : best[0];
    for (; i < n; i++)
        best[0] = x[i] > best[0] ? x[i] : best[0];
    return best[0];
}

/* x = exp(x - m) in the first n lanes; returns p + x there. */
TEMPLATE __m256 lane_exp(__m256 p, float *x, int n, __m256 m)
{
    __m256 e = exp_avx2(_mm256_sub_ps(load_avx2(x, n), m));
    store_avx2(x, n, e);
    if (n < 8) /* p >= +0: adding +0 changes nothing */
        e = _mm256_and_ps(e, _mm256_castsi256_ps(mask_avx2(n)));
    return _mm256_add_ps(p, e);
}

static void softmax(float *x, int n)
{
    const __m256 m = _mm256_set1_ps(row_max(x, n));
    __m256 p0 = _mm256_setzero_ps();
    __m256 p1 = _mm256_setzero_ps();
    for (int i = 0; i < n; i += 16) {
        p0 = lane_exp(p0, x + i, n - i, m);
        if (i + 8 < n)
            p1 = lane_exp(p1, x + i + 8, n - i - 8, m);
    }
    const __m256 sum = _mm256_set1_ps(lane_tree8(_mm256_add_ps(p0, p1)));
    for (int i = 0; i < n; i += 8)
        store_avx2(x + i, n - i, _mm256_div_ps(load_avx2(x + i, n - i), sum));
}

void kern_init_rows_avx2(kern_table *k)
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
