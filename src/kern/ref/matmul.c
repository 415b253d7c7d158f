/* matmul.c - matrix products in portable C, for every type that has a decoder.
 *
 * The oracle of the other instruction sets: the formulas of kern.h, read line by line. A weight is
 * decoded once per N_TOK tokens, so sums wait on the stack and y is written once.
 */
#include "kern/matmul.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "kern/group.h"
#include "kern/ref/math.h"
#include "kern/slots.h"

#define N_TOK 16

/* Floats decoded at a time: a multiple of the 16 lanes. */
#define N_VAL 256

/* ---- Types with activations of float ------------------------------------------------------ */

/* p[k % 16] = fma(w[k], x[k], p[k % 16]); x may be unaligned. */
static void add_lanes(float p[16], const float *w, const uint8_t *x, int n)
{
    for (int k = 0; k < n; k++) {
        float xk;
        memcpy(&xk, x + (size_t)k * sizeof xk, sizeof xk);
        p[k % 16] = fmaf(w[k], xk, p[k % 16]);
    }
}

static void float_row(const kern_matmul *a, int type, int r, int t0, int n_tok)
{
    const size_t value_bytes = type == DTYPE_F32 ? 4 : 2;
    const uint8_t *w = matmul_w_row(a, r);
    float p[N_TOK][16] = {{0}};
    for (int k0 = 0; k0 < a->n_col; k0 += N_VAL) {
        float value[N_VAL];
        const int n = a->n_col - k0 < N_VAL ? a->n_col - k0 : N_VAL;
        (void)kern_decode(type, value, w + (size_t)k0 * value_bytes, (size_t)n); /* cannot fail */
        for (int t = 0; t < n_tok; t++)
            add_lanes(p[t], value, matmul_x_row(a, t0 + t) + (size_t)k0 * sizeof(float), n);
    }
    for (int t = 0; t < n_tok; t++)
        matmul_y_row(a, t0 + t)[r] = lane_tree(p[t]);
}

/* ---- Types with the integer form ---------------------------------------------------------- */

static int dot16(const int8_t *w, const int8_t *x)
{
    int sum = 0;
    for (int i = 0; i < 16; i++)
        sum += w[i] * x[i];
    return sum;
}

/* acc plus group b of one row times one row of activations. */
static float add_group(float acc, const kern_group *g, const kern_group_traits *kind,
                       const uint8_t *x, int n_col, int b)
{
    const int8_t *xq = (const int8_t *)x + 32 * b;
    const float dx = kern_q8_d(x, n_col)[b];
    const int16_t *xs = kern_q8_s(x, n_col) + 2 * b;
    const int i0 = dot16(g->q, xq);
    const int i1 = dot16(g->q + 16, xq + 16);

    if (kind->two_scales)
        acc = fmaf(dx, fmaf(g->s[1], (float)i1, g->s[0] * (float)i0), acc);
    else
        acc = fmaf(g->s[0] * dx, (float)(i0 + i1), acc);
    if (!kind->has_min)
        return acc;
    if (kind->two_scales)
        return fmaf(-dx, fmaf(g->m[1], (float)xs[1], g->m[0] * (float)xs[0]), acc);
    return fmaf(-(g->m[0] * dx), (float)(xs[0] + xs[1]), acc);
}

static void group_row(const kern_matmul *a, int type, int r, int t0, int n_tok)
{
    const kern_group_traits *kind = kern_group_traits_of(type);
    const uint8_t *w = matmul_w_row(a, r);
    float acc[N_TOK] = {0};
    for (int b = 0; b < a->n_col / 32; b++) {
        kern_group g;
        kern_group_decode(type, w, b, &g);
        for (int t = 0; t < n_tok; t++)
            acc[t] = add_group(acc[t], &g, kind, matmul_x_row(a, t0 + t), a->n_col, b);
    }
    for (int t = 0; t < n_tok; t++)
        matmul_y_row(a, t0 + t)[r] = acc[t];
}

/* ---- The slots ---------------------------------------------------------------------------- */

typedef void row_fn(const kern_matmul *a, int type, int r, int t0, int n_tok);

static void each_row(const kern_matmul *a, int row0, int row1, int type, row_fn *row)
{
    for (int t0 = 0; t0 < a->n_tok; t0 += N_TOK) {
        const int n_tok = a->n_tok - t0 < N_TOK ? a->n_tok - t0 : N_TOK;
        for (int r = row0; r < row1; r++)
            row(a, type, r, t0, n_tok);
    }
}

#define FLOAT_SLOT(NAME)                                                \
    static void matmul_##NAME(const kern_matmul *a, int row0, int row1) \
    {                                                                   \
        each_row(a, row0, row1, DTYPE_##NAME, float_row);               \
    }
#define GROUP_SLOT(NAME)                                                \
    static void matmul_##NAME(const kern_matmul *a, int row0, int row1) \
    {                                                                   \
        each_row(a, row0, row1, DTYPE_##NAME, group_row);               \
    }
MATMUL_FLOAT_TYPES(FLOAT_SLOT)
MATMUL_GROUP_TYPES(GROUP_SLOT)

void kern_init_matmul_ref(kern_table *k)
{
    k->quant_q8 = kern_quant_q8_ref;
#define SET_FLOAT(NAME)                  \
    k->act[DTYPE_##NAME] = KERN_ACT_F32; \
    k->matmul[DTYPE_##NAME] = matmul_##NAME;
#define SET_GROUP(NAME)                 \
    k->act[DTYPE_##NAME] = KERN_ACT_Q8; \
    k->matmul[DTYPE_##NAME] = matmul_##NAME;
    MATMUL_FLOAT_TYPES(SET_FLOAT)
    MATMUL_GROUP_TYPES(SET_GROUP)
}
