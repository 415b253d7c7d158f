/* weights_error.c - what low-bit types cost in accuracy, by random vectors (see weights.h). */
#include <math.h>

#include "base/mem.h"
#include "draft/weights.h"
#include "kern/kern.h"

/* Rows that are looked at, products that are made of them where memory allows, values of all x. */
enum { N_ROW = 256, N_PRODUCT = 4096, MIN_X = N_PRODUCT / N_ROW, MAX_VALUE = 1 << 24 };

/* Indexed by draft_code. */
static const struct {
    dtype type;
    bool fitted;
} code[DRAFT_N_CODE] = {
    [DRAFT_CODE_Q8_0] = {DTYPE_Q8_0, false},
    [DRAFT_CODE_Q5_0] = {DTYPE_Q5_0, false},
    [DRAFT_CODE_Q4_0_PLAIN] = {DTYPE_Q4_0, false},
    [DRAFT_CODE_Q4_0] = {DTYPE_Q4_0, true},
};

typedef struct {
    int n_row;    /* rows looked at */
    int n_x;      /* vectors: more for fewer rows, as chance would show otherwise */
    float *x;     /* [n_x][n_col] */
    float *w;     /* [n_col]: a row of W */
    float *delta; /* [n_col]: the same row of W' - W */
    void *block;  /* the row encoded */
    double sum;   /* of (W x)^2 */
    double sum_err[DRAFT_N_CODE];
} probe;

static uint64_t mix(uint64_t x) /* the finalizer of splitmix64 (Steele, Lea, Flood 2014) */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* N(0, 1), the i-th value of a fixed sequence: Box and Muller's method. */
static float gauss(uint64_t i)
{
    double u = ((double)(mix(2 * i) >> 11) + 0.5) * 0x1p-53;
    double v = ((double)(mix(2 * i + 1) >> 11) + 0.5) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

static double dot(const float *a, const float *b, int n)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Sum over all x of (row x)^2. */
static double sum_squares(const probe *p, const float *row, int n)
{
    double sum = 0;
    for (int i = 0; i < p->n_x; i++) {
        double y = dot(row, p->x + (size_t)i * (size_t)n, n);
        sum += y * y;
    }
    return sum;
}

/* (W' - W) x is summed as such, not as a difference of two large sums. */
static void add_row(probe *p, int n)
{
    p->sum += sum_squares(p, p->w, n);
    for (int c = 0; c < DRAFT_N_CODE; c++) {
        bool ok = code[c].fitted ? kern_encode_fitted((int)code[c].type, p->block, p->w, (size_t)n)
                                 : kern_encode((int)code[c].type, p->block, p->w, (size_t)n);
        ok = ok && kern_decode((int)code[c].type, p->delta, p->block, (size_t)n);
        for (int i = 0; i < n; i++)
            p->delta[i] = ok ? p->delta[i] - p->w[i] : NAN;
        p->sum_err[c] += sum_squares(p, p->delta, n);
    }
}

static ft_status probe_rows(probe *p, const tensor *w, ft_error *err)
{
    size_t n = (size_t)w->n_col;
    for (size_t i = 0; i < (size_t)p->n_x * n; i++)
        p->x[i] = gauss(i);
    for (int i = 0; i < p->n_row; i++) {
        size_t r = (size_t)i * (size_t)w->n_row / (size_t)p->n_row;
        const uint8_t *src = (const uint8_t *)w->data + r * w->row_bytes;
        if (!kern_decode((int)w->type, p->w, src, n))
            return err_set(err, FT_UNSUPPORTED,
                           "draft error: tensor '%s' is %s, which cannot be "
                           "decoded",
                           w->name, dtype_name(w->type));
        add_row(p, w->n_col);
    }
    return FT_OK;
}

ft_status draft_weights_error(double rel_rmse[DRAFT_N_CODE], const tensor *w, ft_error *err)
{
    if (w->n_col % 32 != 0)
        return err_set(err, FT_UNSUPPORTED,
                       "draft error: tensor '%s': rows of %d values, want a multiple of 32",
                       w->name, w->n_col);
    size_t n = (size_t)w->n_col;
    int n_row = w->n_row < N_ROW ? w->n_row : N_ROW, n_x = N_PRODUCT / n_row;
    if (n_x > MAX_VALUE / w->n_col)
        n_x = MAX_VALUE / w->n_col;
    if (n_x < MIN_X)
        n_x = MIN_X;
    probe p = {.n_row = n_row,
               .n_x = n_x,
               .x = mem_calloc((size_t)n_x * n, sizeof *p.x),
               .w = mem_calloc(n, sizeof *p.w),
               .delta = mem_calloc(n, sizeof *p.delta),
               .block = mem_alloc(dtype_row_bytes(DTYPE_Q8_0, n))};
    ft_status st =
        p.x && p.w && p.delta && p.block
            ? probe_rows(&p, w, err)
            : err_set(err, FT_NOMEM, "draft error: %d vectors of %d values", n_x, w->n_col);
    mem_free(p.x);
    mem_free(p.w);
    mem_free(p.delta);
    mem_free(p.block);
    if (st != FT_OK)
        return st;
    for (int c = 0; c < DRAFT_N_CODE; c++)
        rel_rmse[c] = p.sum == 0 ? 0 : sqrt(p.sum_err[c] / p.sum);
    return FT_OK;
}
