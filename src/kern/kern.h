/* kern.h - the numeric kernels: contracts, and the table of the best ones for this processor.
 *
 * 1. Same bits everywhere. A result is defined by the formulas in this file down to the order of
 *    its sums, and every instruction set computes exactly that: a row's result never depends on
 *    how many rows share a call, on tiles, on threads - nor on the instruction set.
 *    `fma` below is one rounding (fmaf); all other operations round once each, in float32.
 * 2. No threads, no allocation, no state. Pointers may be unaligned unless said otherwise; outputs
 *    overlap no input unless said otherwise.
 * 3. "lane sum of f(k), k < n": 16 partial sums, p[j] = f(j), f(j+16), ... accumulated in
 *    ascending k starting from +0, then the fixed tree
 *      p[j] += p[j+8] (j < 8);  p[j] += p[j+4] (j < 4);  p[j] += p[j+2] (j < 2);  p[0] + p[1].
 */
#ifndef KERN_KERN_H
#define KERN_KERN_H

#include "base/compiler.h"

/* GGUF type numbers index the table; base/dtype.h has their names. */
#define KERN_N_TYPE 48

/* ---- Activations ------------------------------------------------------------------------ */

/* How a weight type wants its activations. */
typedef enum {
    KERN_ACT_NONE = 0, /* this type cannot be multiplied */
    KERN_ACT_F32 = 1,  /* rows of float */
    KERN_ACT_Q8 = 2,   /* rows in the layout below */
} kern_act;

/* A quantised row of n values (n % 32 == 0):
 *   int8  q[n]        -127..127
 *   float d[n / 32]   scale of each block of 32
 *   int16 s[n / 16]   sum of each 16 q
 * d of a block: amax = max |x|; d = amax / 127; id = d != 0 ? 1 / d : 0; q = round-to-nearest-even
 * of x * id, clamped to +-127, and 0 where x * id is NaN (id overflows when amax is below 2^-121). A
 * non-finite x gives an unspecified row, but no fault. */
static inline size_t kern_q8_row_bytes(int n)
{
    size_t bytes = (size_t)n + (size_t)n / 32 * 4 + (size_t)n / 16 * 2;
    return (bytes + 63) & ~(size_t)63;
}
static inline const float *kern_q8_d(const void *row, int n)
{
    return (const float *)(const void *)((const uint8_t *)row + n);
}
static inline const int16_t *kern_q8_s(const void *row, int n)
{
    return (const int16_t *)(const void *)((const uint8_t *)row + n + n / 32 * 4);
}

/* dst [kern_q8_row_bytes(n)], 64-byte aligned; x [n]. */
typedef void kern_quant_q8_fn(void *dst, const float *x, int n);

/* ---- Matrix products ---------------------------------------------------------------------- */

/* y[t][r] = sum over k of w[r][k] * x[t][k], for rows r in [row0, row1) and all t < n_tok.
 *
 * Weight types with KERN_ACT_F32 (F32, F16, BF16, and any type without an integer kernel, whose
 * rows are decoded to float first): lane sum of fma(w, x).
 *
 * Weight types with KERN_ACT_Q8: the row is a sequence of groups of 32 values. Group b decodes to
 * integers qw (|qw| <= 128) with either one scale s0, or two scales s0, s1 for its halves of 16,
 * and optionally minima m0, m1 of the halves (value = s * qw - m):
 *   i0, i1 = the exact integer dot products of the halves, dx = the activation's d of the group
 *   one scale:   acc = fma(s0 * dx, (float)(i0 + i1), acc)
 *   two scales:  acc = fma(dx, fma(s1, (float)i1, s0 * (float)i0), acc)
 *   minima, one: acc = fma(-(m0 * dx), (float)(xs0 + xs1), acc) behind the line above
 *   minima, two: acc = fma(-dx, fma(m1, (float)xs1, m0 * (float)xs0), acc)   (xs: the sums s)
 * in ascending b from acc = +0: one chain per output. The scales of each type are given in
 * block.h beside its layout. */
typedef struct {
    const void *w;   /* [n_row] rows */
    size_t w_stride; /* bytes */
    int n_col;
    const void *x;   /* rows of float or of q8, as the type wants; 64-byte aligned if q8 */
    size_t x_stride; /* bytes */
    float *y;
    size_t y_stride; /* floats */
    int n_tok;
    const int32_t *x_row; /* [n_tok] row of x that token t reads; NULL: t */
    const int32_t *y_row; /* [n_tok] row of y that token t writes; NULL: t */
} kern_matmul;

typedef void kern_matmul_fn(const kern_matmul *a, int row0, int row1);

/* Threads share a product in pieces of this many rows. */
#define KERN_ROW_TILE 16

/* ---- Rows --------------------------------------------------------------------------------- */

/* exp as all kernels compute it: for x in [-87, 88] a polynomial with relative error under 2^-22;
 * below -87 the result is 0, above 88 it is +inf, NaN stays NaN. kern/ref/math.h has the formula. */
float kern_exp(float x);

/* lane sum of fma(a, b). */
typedef float kern_dot_fn(const float *a, const float *b, int n);

/* ms = (lane sum of fma(x, x)) / n;  y = (x * (1 / sqrt(ms + eps))) * w.  y may be x. */
typedef void kern_rmsnorm_fn(float *y, const float *x, const float *w, int n, float eps);

/* ss = lane sum of fma(x, x);  y = (x * (1 / sqrt(ss + eps))) * scale.  y may be x. */
typedef void kern_l2norm_fn(float *y, const float *x, int n, float eps, float scale);

/* sigmoid(g) = 1 / (1 + exp(-g));  silu(g) = g / (1 + exp(-g)). y may be any of the inputs. */
typedef void kern_silu_mul_fn(float *y, const float *g, const float *x, int n); /* silu(g) * x */
typedef void kern_sigmoid_mul_fn(float *y, const float *g, const float *x, int n);
typedef void kern_silu_fn(float *y, const float *x, float scale, int n); /* silu(scale * x) */
/* y = fma(a, x, y): add a scaled row. */
typedef void kern_axpy_fn(float *y, float a, const float *x, int n);

/* NEOX rotation of the first n_rot values in place, h = n_rot / 2, i < h:
 *   x[i] = fma(x0, c, -(x1 * s)),  x[i + h] = fma(x1, c, x0 * s)   with x0 = x[i], x1 = x[i + h] */
typedef void kern_rope_fn(float *x, const float *cos, const float *sin, int n_rot);

/* Causal depthwise convolution of one row: acc = w[0][c] * x[0][c]; acc = fma(w[j][c], x[j][c], acc)
 * for j = 1 .. n_tap-1; y[c] = silu(acc).
 * x [n_tap] pointers to rows, oldest first; w [n_tap][w_stride] floats. */
typedef void kern_conv_silu_fn(float *y, const float *const *x, const float *w, size_t w_stride,
                               int n_tap, int n);

/* softmax in place: m = max; e = exp(x - m); sum = lane sum of e; x = e / sum. A NaN, a +inf, or
 * nothing but -inf makes every x NaN. */
typedef void kern_softmax_fn(float *x, int n);

/* ---- Gated delta net ---------------------------------------------------------------------- */

/* One row through n_col columns of one head's state S [d_k][ld] (S points to the first column):
 *   s' = S[i][j] * decay;  r[j] = fma(s'[i][j], k[i], r[j]) over ascending i from +0
 *   u[j] = beta * (v[j] - r[j]);  S[i][j] = fma(k[i], u[j], s'[i][j])
 *   o[j] = fma(S[i][j], q[i], o[j]) over ascending i from +0
 * o NULL: the state alone is updated. Fastest with S aligned to 64 bytes, ld and n_col multiples of
 * 64. Source: models.md, Gated delta net. */
typedef void kern_gdn_fn(float *S, size_t ld, int d_k, int n_col, const float *q, const float *k,
                         const float *v, float decay, float beta, float *o);

/* ---- Attention ---------------------------------------------------------------------------- */

#define KERN_ATTN_BLOCK 32  /* cells of a step of the running softmax */
#define KERN_ATTN_MAX_Q 32  /* query heads in a call */
#define KERN_ATTN_MAX_D 512 /* head size */
#define KERN_ATTN_PAGE  512 /* cells of a page */

/* One KV head, the n_q query heads that share it, a span of cells: continues the running softmax
 * (m, l, acc) of each query head over cells in list order, KERN_ATTN_BLOCK at a time:
 *   s[j] = (lane sum of fma(k, q)) * scale
 *   m' = max(m, s[0], s[1], ...) + 0, a NaN in s passed over;  z = m', or 0 if m' is -inf
 *   c = exp(m - z);  p[j] = exp(s[j] - z)
 *   l = fma(l, c, lane sum of p);  acc[i] = acc[i] * c, then
 *   acc[i] = fma(p[j], v[j][i], acc[i]) in ascending j;  m = m'
 * (+ 0 makes -0 into +0; by z a block of scores -inf alone adds nothing; a score NaN makes l and
 * acc NaN.) So a span cut at multiples of KERN_ATTN_BLOCK list entries into calls gives the bits of
 * one call. K and V values are converted to float first (Q8_0: d * q, one rounding).
 * Cells lie in pages: this head's row of cell i is k (or v) + i % KERN_ATTN_PAGE * cell_bytes bytes behind
 * the start of page i / KERN_ATTN_PAGE. */
typedef struct {
    const float *q;          /* [n_q][q_stride] */
    size_t q_stride;         /* floats */
    int n_q;                 /* 1..KERN_ATTN_MAX_Q */
    int d;                   /* head size, a multiple of 16; of 32 for Q8_0; <= KERN_ATTN_MAX_D */
    const void *const *page; /* read where a cell of the span is */
    size_t k, v;             /* bytes from a page's start to this head's row of its first cell */
    size_t cell_bytes;       /* from a cell to the next; the same for K and V */
    int kv_type;             /* F32, F16 or Q8_0, as a GGUF type number */
    const int32_t *cell;     /* [n_cell] ascending; NULL: first, first + 1, ... */
    int first;
    int n_cell;
    float scale;
    float *m, *l; /* [n_q]; start as -inf and 0 */
    float *acc;   /* [n_q][d]; start as 0 */
} kern_attn;
typedef void kern_attn_fn(const kern_attn *a);

/* ---- The table ---------------------------------------------------------------------------- */

typedef struct {
    /* Of the strongest level in it: "generic", "avx2", "avx512", "neon", "i8mm". */
    const char *name;
    kern_quant_q8_fn *quant_q8;
    kern_act act[KERN_N_TYPE];
    kern_matmul_fn *matmul[KERN_N_TYPE]; /* NULL where act is KERN_ACT_NONE */
    kern_dot_fn *dot;
    kern_rmsnorm_fn *rmsnorm;
    kern_l2norm_fn *l2norm;
    kern_silu_mul_fn *silu_mul;
    kern_sigmoid_mul_fn *sigmoid_mul;
    kern_silu_fn *silu;
    kern_axpy_fn *axpy;
    kern_rope_fn *rope;
    kern_conv_silu_fn *conv_silu;
    kern_softmax_fn *softmax;
    kern_gdn_fn *gdn;
    kern_attn_fn *attn;
} kern_table;

/* Levels of instruction sets. A level implies those below it of its family. */
#define KERN_CPU_AVX2   (1u << 0) /* AVX2, FMA, F16C */
#define KERN_CPU_AVX512 (1u << 1) /* AVX-512 F BW VL DQ VNNI */
#define KERN_CPU_NEON   (1u << 8) /* NEON with dotprod and fp16 */
#define KERN_CPU_I8MM   (1u << 9) /* the products of 8-bit matrices */
#define KERN_CPU_ALL    0xffffffffu

/* Levels that this processor has and this system saves the registers of. */
uint32_t kern_cpu_flags(void);
/* Flags of a level's name and those below it ("generic": 0); false for an unknown name. */
bool kern_cpu_parse(uint32_t *flags, const char *name);
/* Fill every slot with the best kernel that flags allow; flags is a subset of kern_cpu_flags(). */
void kern_select(kern_table *k, uint32_t flags);

/* ---- Codecs ------------------------------------------------------------------------------- */

/* Decode n values (a multiple of the block) of a type; exact, the same on every machine.
 * false: the type has no decoder. */
bool kern_decode(int type, float *dst, const void *src, size_t n);
bool kern_can_decode(int type);

/* Encode n values (a multiple of the block). Types: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1,
 * IQ4_NL, Q2_0: bit-exact with the public reference rules of these formats (ggml, Q2_0 as in
 * block.h). false: the type has no encoder. */
bool kern_encode(int type, void *dst, const float *src, size_t n);
bool kern_can_encode(int type);

/* The same with scales fitted to each block (Lloyd's iteration) instead of read off its largest
 * value. Type: Q4_0. On no block is the squared error of the decoded values above kern_encode's;
 * blocks with a value that is not finite, or too large for a half as scale, are kern_encode's, bit
 * for bit. About five times slower. false: another type; dst is unchanged. */
bool kern_encode_fitted(int type, void *dst, const float *src, size_t n);

/* IEEE half and bfloat16, round to nearest even, NaN kept (quiet). */
float kern_f16_to_f32(uint16_t h);
uint16_t kern_f32_to_f16(float f);
float kern_bf16_to_f32(uint16_t h);
uint16_t kern_f32_to_bf16(float f);

#endif
