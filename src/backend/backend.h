/* backend.h - the operations of the forward pass on device buffers.
 *
 * A backend knows threads, memory and kernels, and nothing of models. Rows are float32, row-major,
 * one row per token unless said otherwise. Pointers named float * or void * are device memory (of
 * the CPU backend: plain memory); the structs and lists that describe a call are host memory.
 *
 * 1. Batch-invariant: a row's result depends on that row (and its sequence's state) alone, never
 *    on the other rows of the call, their number, or the threads. See kern/kern.h, invariant 1.
 * 2. No operation allocates. All scratch is passed in or lives on the stack.
 * 3. Outputs overlap no input unless said otherwise.
 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "base/err.h"
#include "base/tensor.h"

typedef struct backend backend;

typedef struct {
    int n_thread;      /* 0: one per usable core */
    const char *level; /* "generic", "avx2", "avx512", "neon", "i8mm"; NULL: the best */
} backend_params;

/* Errors: NOMEM; UNSUPPORTED when this processor lacks the level; ARG for an unknown name. */
ft_status backend_create(backend **out, const backend_params *p, ft_error *err) MUST_CHECK;
void backend_free(backend *be); /* NULL is allowed */
int backend_n_thread(const backend *be);
const char *backend_level(const backend *be);
/* Whether be_matmul takes weights of this type. */
bool backend_can_matmul(const backend *be, dtype type);

/* Zeroed device memory, 64-byte aligned, committed page by page as it is touched. NULL: out of
 * memory. */
void *be_alloc(backend *be, size_t n_bytes) MUST_CHECK;
void be_release(backend *be, void *p, size_t n_bytes);
void be_zero(backend *be, void *p, size_t n_bytes);
/* Copy inside device memory; the ranges may overlap. */
void be_move(backend *be, void *dst, const void *src, size_t n_bytes);

/* Read n_bytes from all threads at once, every byte once; p is 64-byte aligned, n_bytes a multiple of
 * 4096. Returns a value that depends on all of them, so that no read can be left out. */
uint64_t be_read_all(backend *be, const void *p, size_t n_bytes);
/* Write n_bytes from all threads, so that device memory is really there. The same conditions. */
void be_touch_all(backend *be, void *p, size_t n_bytes);

/* ---- Matrix products ------------------------------------------------------------------------ */

/* Rows that one or several matrices will read. The quantised form is made at its first use and
 * shared by the following products. */
typedef struct {
    const float *f32; /* [n_row][n_col] */
    void *q8;         /* be_act_bytes(n_row, n_col) bytes, 64-byte aligned */
    int n_row, n_col;
    bool has_q8;
} be_act;

static inline be_act be_act_of(const float *f32, int n_row, int n_col, void *q8)
{
    return (be_act){.f32 = f32, .q8 = q8, .n_row = n_row, .n_col = n_col};
}
size_t be_act_bytes(int n_row, int n_col);

/* y[t][r] = w[r] . x[t]; y [n_row of x][y_stride]. w has one matrix, w.n_col == x.n_col. */
void be_matmul(backend *be, float *y, size_t y_stride, const tensor *w, be_act *x);

/* Experts of a call: pair p = t * n_used + s says that row t uses expert id[p]. */
typedef struct {
    int n_row, n_used, n_expert;
    const int32_t *id;   /* [n_row][n_used], ascending within a row, each once */
    const float *weight; /* [n_row][n_used] */
    int32_t *first;      /* scratch [n_expert + 1] */
    int32_t *pair;       /* scratch [n_row * n_used]: pairs sorted by expert */
    int32_t *row;        /* scratch [n_row * n_used]: the row of each of these pairs */
} be_experts;

/* Sort the pairs by expert (fills first, pair, row). */
void be_experts_sort(backend *be, be_experts *e);
/* y[p] = w[id[p]] . x[row of p], y [n_row * n_used][w.n_row]; x has n_row rows. */
void be_matmul_experts(backend *be, float *y, const tensor *w, be_act *x, const be_experts *e);
/* y[p] = w[id[p]] . x[p]; x has n_row * n_used rows. */
void be_matmul_pairs(backend *be, float *y, const tensor *w, be_act *x, const be_experts *e);
/* y[t] = sum over s in ascending order of weight[t][s] * x[t * n_used + s]: the first term by a
 * product, the others by fma. */
void be_experts_sum(backend *be, float *y, const float *x, int n_col, const be_experts *e);

/* Router: p = softmax(logits[t]); the n_used largest (ties: lower id), renormalised to sum 1,
 * written in ascending id. scratch [n_row * n_expert]. */
void be_route(backend *be, int32_t *id, float *weight, const float *logits, int n_row, int n_expert,
              int n_used, float *scratch);

/* ---- Rows ----------------------------------------------------------------------------------- */

/* y[i] = row id[i] of table, decoded to float; 0 <= id[i] < table.n_row (checked by the caller). */
void be_get_rows(backend *be, float *y, const tensor *table, const int32_t *id, int n_row);
/* y[t][s] = x[t] for s < n: copies of a row side by side. */
void be_repeat(backend *be, float *y, const float *x, int n_row, int n, int n_col);
/* y[t][s] += x[t] for s < n. */
void be_add_repeat(backend *be, float *y, const float *x, int n_row, int n, int n_col);
/* y[t] = x[row[t]]. */
void be_gather(backend *be, float *y, const float *x, const int32_t *row, int n_row, int n_col);
/* y += x. */
void be_add(backend *be, float *y, const float *x, int n_row, int n_col);
/* Every row is n_group groups of n_col values; group g is normalised with w + g * n_col:
 * y = x / sqrt(mean x^2 + eps) * w. y may be x. */
void be_rmsnorm(backend *be, float *y, const float *x, const float *w, int n_row, int n_group,
                int n_col, float eps);
/* y = silu(g) * x;  y = silu(scale * x). y may be an input. */
void be_silu_mul(backend *be, float *y, const float *g, const float *x, int n_row, int n_col);
void be_silu(backend *be, float *y, const float *x, float scale, int n_row, int n_col);
/* y[t] += sigmoid(x[t] . w) * z[t]; x [n_row][n_x], w [n_x], y and z [n_row][n_col]. */
void be_add_gated(backend *be, float *y, const float *z, const float *x, const float *w, int n_row,
                  int n_x, int n_col);

/* ---- Hyper-connections ------------------------------------------------------------------------ */

/* m[t][i] = (sum over s of X[t][s][i] * sigmoid(G[t][s][i])) / n_hc. X and G [n_row][n_hc][n_col].
 * The sum is in ascending s. G is overwritten. */
void be_hc_mix(backend *be, float *m, const float *X, float *G, int n_row, int n_hc, int n_col);
/* R[t][s] = fma(2 * sigmoid(g[t][s] / n_hc), y[t], R[t][s]). inject out, [n_row][n_hc]: the factors;
 * may be g. */
void be_hc_add(backend *be, float *R, float *inject, const float *g, const float *y, int n_row,
               int n_hc, int n_col);

/* ---- Positions ---------------------------------------------------------------------------------- */

/* cos and sin [n_row][n_rot / 2] of pos * base^(-2 i / n_rot), computed in double. */
void be_rope_table(backend *be, float *cos, float *sin, const int32_t *pos, int n_row, int n_rot,
                   double base);
/* For every head of every row: RMS-normalise d values with w [d], then rotate the first n_rot.
 * In place; x is [n_row][n_head][stride]. */
void be_norm_rope(backend *be, float *x, const float *w, int n_row, int n_head, size_t stride,
                  int d, float eps, const float *cos, const float *sin, int n_rot);

/* ---- Attention ---------------------------------------------------------------------------------- */

#define BE_PAGE 512 /* positions of a page */

/* What a sequence keeps per position, or per block of positions, of one kind: cells in pages. Cell i is
 * at be_cell(). */
typedef struct {
    void *const *page; /* host list of device memory; NULL where nothing was written */
    size_t offset;     /* of these cells in every page */
    dtype type;        /* F32, F16, Q8_0 */
    size_t cell_bytes;
    int per_page; /* BE_PAGE, or BE_PAGE / ratio for cells of blocks */
} be_cells;

static inline void *be_cell(const be_cells *c, int i)
{
    return (uint8_t *)c->page[i / c->per_page] + c->offset +
           (size_t)(i % c->per_page) * c->cell_bytes;
}
/* How many of cells i .. i + n - 1 lie side by side from cell i on. */
static inline int be_cells_run(const be_cells *c, int i, int n)
{
    int left = c->per_page - i % c->per_page;
    return n < left ? n : left;
}

/* Keys and values of one layer of one sequence, cells of [n_head_kv][d] values; in the same pages, of the
 * same type. */
typedef struct {
    be_cells k, v;
} be_kv;

/* Bytes of one cell of n values. */
size_t be_cell_bytes(dtype type, int n);
/* Store rows of n values as cells first .. first + n_row - 1, whose pages are there. */
void be_store_cells(backend *be, const be_cells *c, int first, const float *rows, int n_row, int n);

/* Decode them to rows of n values. */
void be_load_cells(backend *be, const be_cells *c, int first, float *rows, int n_row, int n);

/* How keys are rotated: the first n_rot of the d values of each head (be_norm_rope, be_rope_table). */
typedef struct {
    int n_head, d, n_rot;
    double base;
} be_rotary;
/* Cells dst .. dst + n - 1 become what cells src, src + 1, ... were; dst < src, per_page is BE_PAGE. r: they
 * are keys, which are decoded, turned by dst - src positions (angles in double) and encoded again; NULL:
 * bytes are moved. */
void be_move_cells(backend *be, const be_cells *c, int dst, int src, int n, const be_rotary *r);

/* What one row attends to. */
typedef struct {
    const be_kv *kv;
    const int32_t *cell; /* device, [n_cell] ascending; NULL: cells 0 .. n_cell - 1 */
    int n_cell;          /* >= 1 */
} be_attn_row;

/* o[t][h] = (softmax over cells of q[t][h] . k / sqrt(d)) v * sigmoid(gate[t][h]).
 * qg [n_row][n_head][2][d]: the query, then the gate. o [n_row][n_head * d]. Query head h reads KV
 * head h / (n_head / n_head_kv). Cells are taken in list order in spans of BE_SPAN entries; each
 * span is reduced on its own and the spans are merged in ascending order:
 *   m = max(m1, m2); c = exp(m_i - m), 0 when m is -inf; l = fma(l2, c2, l1 * c1); acc = fma(acc2, c2, acc1 * c1). */
#define BE_SPAN 512
void be_attention(backend *be, float *o, const float *qg, const be_attn_row *row, int n_row,
                  int n_head, int n_head_kv, int d);

/* QSA, source: models.md. Block keys are pooled once, when their last token is known:
 * pool[b] = rope(rmsnorm(mean of the ratio raw keys of block b, w), position b * ratio).
 * raw: cells of d values; pool: those of blocks, f32. ratio divides BE_PAGE. Blocks b0 <= b < b1. */
typedef struct {
    const be_cells *raw, *pool;
    int ratio, d, n_rot;
    double rope_base;
    const float *w;
    float eps;
} be_qsa_pool_args;
void be_qsa_pool(backend *be, const be_qsa_pool_args *a, int b0, int b1);

/* Choose the cells of each row: scores of its complete blocks c = (pos + 1) / ratio
 *   score[b] = (sum over heads, ascending, of max(q_h . pool[b], 0)) / sqrt(d)
 * the best top_k / ratio blocks (ties: lower block), ascending, then the tail ratio * c .. pos.
 * q [n_row][n_head][d]. cell [n_row][top_k + ratio] device, n_cell [n_row] host.
 * score: scratch [backend_n_thread()][max_block]. */
typedef struct {
    const float *q;
    const be_cells *const *pool; /* host, [n_row]: the pool of each row's sequence */
    const int32_t *pos;          /* host, [n_row] */
    int n_row, n_head, d, ratio, top_k;
    int max_block;
    float *score;
    int32_t *cell;
    int *n_cell;
} be_qsa_args;
void be_qsa_select(backend *be, const be_qsa_args *a);

/* ---- Recurrent layers ----------------------------------------------------------------------------- */

/* Rows of one sequence in a call: n_row consecutive rows from row on; segments follow each other, the first
 * has row 0. The first n_commit rows are final; the others can be taken back. */
typedef struct {
    int row, n_row, n_commit;
    float *hist; /* convolution history of this sequence: rows before the first row end at hist_n */
    int hist_n;  /* rows of hist that are valid as history: the last ones are the newest */
} be_conv_seg;

/* Causal depthwise convolution of x [n_row][n_col], taps dilation rows apart, weights w
 * [n_tap][n_col] (last tap: the row itself), then SiLU: y[t] = silu(sum_j w[j] * x[t - (n_tap - 1 - j) * dilation]).
 * hist [(n_tap - 1) * dilation + n_window][n_col]: hist_n rows are valid, at its start, and
 * hist_n >= (n_tap - 1) * dilation. On return hist holds the last (n_tap - 1) * dilation rows
 * before the first row that is not committed, then the rows not committed. y is not x. */
void be_conv_silu(backend *be, float *y, const float *x, const float *w, int n_tap, int dilation,
                  int n_col, const be_conv_seg *seg, int n_seg);

/* q and k of every key head to unit length, q also times 1 / sqrt(d): x [n_row][stride], q of head h
 * at h * d, k at (n_head + h) * d. In place. */
void be_gdn_norm_qk(backend *be, float *x, int n_row, size_t stride, int n_head, int d);
/* decay = exp(a * softplus(alpha + dt)); beta = sigmoid(beta); in place, [n_row][n_head]. */
void be_gdn_gates(backend *be, float *alpha, float *beta, const float *a, const float *dt,
                  int n_row, int n_head);

/* A window's rows, kept so that the accepted ones can be applied when the state is next read. */
typedef struct {
    int row, n_row, n_commit;
    float *state; /* [n_val][d][d] */
    float *pend;  /* [n_window][be_gdn_pend_floats()] */
    int n_apply;  /* rows of pend to apply first */
} be_gdn_seg;
static inline size_t be_gdn_pend_floats(int n_key, int n_val, int d)
{
    return (size_t)(n_key + n_val) * (size_t)d + 2 * (size_t)n_val;
}

/* The recurrence. qkv [n_row][(2 n_key + n_val) * d] after convolution and norms, decay and beta
 * [n_row][n_val], o [n_row][n_val * d]. Value head j uses key head j % n_key. For every segment the
 * state is read once and written once: pend's accepted rows, then the committed rows change it; the
 * remaining rows run on from it without changing it and become the new pend. */
void be_gdn(backend *be, float *o, const float *qkv, const float *decay, const float *beta,
            int n_key, int n_val, int d, const be_gdn_seg *seg, int n_seg);
/* Apply n pending rows to a state alone. */
void be_gdn_apply(backend *be, float *state, const float *pend, int n, int n_key, int n_val, int d);
/* o[t][h] = rmsnorm(o[t][h], w) * act(z[t][h]); act: SiLU, or sigmoid. In place. */
void be_gated_norm(backend *be, float *o, const float *z, const float *w, int n_row, int n_head,
                   int d, float eps, bool sigmoid);

/* ---- n-gram embedding (PLE) -------------------------------------------------------------------------- */

/* s = (key[t][h] . qry[t][h]) / sqrt(n_col); s = sign(s) sqrt(max(|s|, 1e-6));
 * gv[t][h] = sigmoid(s) * val[t]. key, qry, gv [n_row][n_hc][n_col], val [n_row][n_col]. */
void be_ple_gate(backend *be, float *gv, const float *key, const float *qry, const float *val,
                 int n_row, int n_hc, int n_col);

#endif
