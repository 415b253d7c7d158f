/* rows_avx512.c - kernels on rows, 16 lanes wide: a vector is the 16 lanes of a lane sum.
 *
 * Every step is masked: a full mask costs nothing, and the tail needs no code of its own. */
#include "kern/slots.h"
#include "kern/x86/math_avx512.h"

static float dot(const float *a, const float *b, int n)
{
    __m512 p = _mm512_setzero_ps();
    for (int i = 0; i < n; i += 16) {
        const __mmask16 k = mask_avx512(n - i);
        const __m512 ai = _mm512_maskz_loadu_ps(k, a + i);
        p = _mm512_mask3_fmadd_ps(ai, _mm512_maskz_loadu_ps(k, b + i), p, k);
    }
    return lane_tree16(p);
}

static float inv_sqrt(float x)
{
    return 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
}

static void rmsnorm(float *y, const float *x, const float *w, int n, float eps)
{
    const float ms = dot(x, x, n) / (float)n;
    const __m512 inv = _mm512_set1_ps(inv_sqrt(ms + eps));
    for (int i = 0; i < n; i += 16) {
        const __mmask16 k = mask_avx512(n - i);
        const __m512 unit = _mm512_mul_ps(_mm512_maskz_loadu_ps(k, x + i), inv);
        const __m512 wi = _mm512_maskz_loadu_ps(k, w + i);
        _mm512_mask_storeu_ps(y + i, k, _mm512_mul_ps(unit, wi));
    }
}

static void l2norm(float *y, const float *x, int n, float eps, float scale)
{
    const __m512 inv = _mm512_set1_ps(inv_sqrt(dot(x, x, n) + eps));
    for (int i = 0; i < n; i += 16) {
        const __mmask16 k = mask_avx512(n - i);
        const __m512 unit = _mm512_mul_ps(_mm512_maskz_loadu_ps(k, x + i), inv);
        _mm512_mask_storeu_ps(y + i, k, _mm512_mul_ps(unit, _mm512_set1_ps(scale)));
    }
}

/* a / (1 + exp(-g)) */
TEMPLATE __m512 over_exp(__m512 a, __m512 g)
{
    const __m512 minus_g = _mm512_xor_ps(g, _mm512_set1_ps(-0.0f));
    return _mm512_div_ps(a, _mm512_add_ps(_mm512_set1_ps(1.0f), exp_avx512(minus_g)));
}

static void silu_mul(float *y, const float *g, const float *x, int n)
{
    for (int i = 0; i < n; i += 16) {
        const __mmask16 k = mask_avx512(n - i);
        const __m512 gi = _mm512_maskz_loadu_ps(k, g + i);
        const __m512 xi = _mm512_maskz_loadu_ps(k, x + i);
        _mm512_mask_storeu_ps(y + i, k, _mm512_mul_ps(over_exp(gi, gi), xi));
    }
}

static void sigmoid_mul(float *y, const float *g, const float *x, int n)
{
    for (int i = 0; i < n; i += 16) {
        const __mmask16 k = mask_avx512(n - i);
        const __m512 gi = _mm512_maskz_loadu_ps(k, g + i);
        const __m512 xi = _mm512_maskz_loadu_ps(k, x + i);
        _mm512_mask_storeu_ps(y + i, k, _mm512_mul_ps(over_exp(_mm512_set1_ps(1.0f), gi), xi));
    }
}

static void silu(float *y, const float *x, float scale, int n)
{
    for (int i = 0; i < n; i += 16) {
        const __mmask16 k = mask_avx512(n - i);
        const __m512 g = _mm512_mul_ps(_mm512_set1_ps(scale), _mm512_maskz_loadu_ps(k, x + i));
        _mm512_mask_storeu_ps(y + i, k, over_exp(g, g));
    }
}

static void axpy(float *y, float a, const float *x, int n)
{
    const __m512 va = _mm512_set1_ps(a);
    for (int i = 0; i < n; i += 16) {
        const __mmask16 k = mask_avx512(n - i);
        const __m512 xi = _mm512_maskz_loadu_ps(k, x + i);
        const __m512 yi = _mm512_maskz_loadu_ps(k, y + i);
        _mm512_mask_storeu_ps(y + i, k, _mm512_fmadd_ps(va, xi, yi));
    }
}

static void rope(float *x, const float *cos, const float *sin, int n_rot)
{
    const int h = n_rot / 2;
    for (int i = 0; i < h; i += 16) {
        const __mmask16 k = mask_avx512(h - i);
        const __m512 c = _mm512_maskz_loadu_ps(k, cos + i);
        const __m512 s = _mm512_maskz_loadu_ps(k, sin + i);
        const __m512 x0 = _mm512_maskz_loadu_ps(k, x + i);
        const __m512 x1 = _mm512_maskz_loadu_ps(k, x + i + h);
        _mm512_mask_storeu_ps(x + i, k, _mm512_fmsub_ps(x0, c, _mm512_mul_ps(x1, s)));
        _mm512_mask_storeu_ps(x + i + h, k, _mm512_fmadd_ps(x1, c, _mm512_mul_ps(x0, s)));
    }
}

static void conv_silu(float *y, const float *const *x, const float *w, size_t w_stride, int n_tap,
                      int n)
{
    for (int i = 0; i < n; i += 16) {
        const __mmask16 k = mask_avx512(n - i);
        const __m512 w0 = _mm512_maskz_loadu_ps(k, w + i);
        __m512 acc = _mm512_mul_ps(w0, _mm512_maskz_loadu_ps(k, x[0] + i));
        for (int j = 1; j < n_tap; j++) {
            const __m512 wj = _mm512_maskz_loadu_ps(k, w + (size_t)j * w_stride + i);
            acc = _mm512_fmadd_ps(wj, _mm512_maskz_loadu_ps(k, x[j] + i), acc);
        }
        _mm512_mask_storeu_ps(y + i, k, over_exp(acc, acc));
    }
}

/* The largest of x, a NaN passed over; -inf for none. */
static float row_max(const float *x, int n)
{
    __m512 m = _mm512_set1_ps(-INFINITY);
    for (int i = 0; i < n; i += 16) {
        const __mmask16 k = mask_avx512(n - i);
        const __m512 xi = _mm512_maskz_loadu_ps(k, x + i);
        m = _mm512_mask_max_ps(m, k, xi, m); /* NaN in the first operand: the second */
    }
    return _mm512_reduce_max_ps(m);
}

static void softmax(float *x, int n)
{
    const __m512 m = _mm512_set1_ps(row_max(x, n));
    __m512 p = _mm512_setzero_ps();
    for (int i = 0; i < n; i += 16) {
        const __mmask16 k = mask_avx512(n - i);
        const __m512 e = exp_avx512(_mm512_sub_ps(_mm512_maskz_loadu_ps(k, x + i), m));
        _mm512_mask_storeu_ps(x + i, k, e);
        p = _mm512_mask_add_ps(p, k, p, e);
    }
    const __m512 sum = _mm512_set1_ps(lane_tree16(p));
    for (int i = 0; i < n; i += 16) {
        const __mmask16 k = mask_avx512(n - i);
        _mm512_mask_storeu_ps(x + i, k, _mm512_div_ps(_mm512_maskz_loadu_ps(k, x + i), sum));
    }
}

void kern_init_rows_avx512(kern_table *k)
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
