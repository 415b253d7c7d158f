/* matmul_float_tmpl.h - products of float weights: the walk over tokens, rows and columns that the
 * instruction sets share. Private to kern/.
 *
 * Included once by a file that defines before:
 *   FLOAT_ROWS, FLOAT_TOK    of a block, whose 16-lane sums fit in the registers; FLOAT_TOK <= 6
 *   add_block(sums, w, x, n, type, n_tok)    the lanes of fma(w[i], x[j]) added to sums[i][j], for
 *                            FLOAT_ROWS rows, n_tok <= FLOAT_TOK tokens and n columns, of which
 *                            the first is lane 0
 *   widen(dst, w, n, type)   n weights as floats
 *   lane_sum(p)              the tree of the 16 lanes at p, which is aligned to 64 bytes
 *
 * Few tokens take the weights as they come from memory. For more, a panel of weights is widened to
 * floats once, in the nearest cache, and all tokens of a chunk pass by. Lanes wait in memory
 * between panels: a multiple of 16 columns wide, so every output is one lane sum over all columns,
 * whatever the number of tokens.
 */
#include <string.h>

#include "base/dtype.h"
#include "kern/matmul.h"

/* A panel, in floats, and the same columns of FLOAT_TOK tokens share a cache of 32 KiB. */
#define PANEL_ROWS 8
#define PANEL_COLS 512

/* Tokens that a panel is widened for. */
#define CHUNK_BLOCKS 16
#define CHUNK        (CHUNK_BLOCKS * FLOAT_TOK)

/* Blocks of tokens for which widening a panel does not pay. */
#define FEW_BLOCKS 2

typedef float block_sums[FLOAT_ROWS][FLOAT_TOK][16];

/* What add_block reads, and which weights: all that a block of sums depends on. */
typedef struct {
    const uint8_t *w[FLOAT_ROWS], *x[FLOAT_TOK];
    int n_col;
} block_in;

/* add_block with a constant number of tokens; type is one already. */
TEMPLATE void add_tokens(block_sums sums, const block_in *in, int type, int n_tok)
{
    switch (n_tok) {
    case 1:
        add_block(sums, in->w, in->x, in->n_col, type, 1);
        break;
    case 2:
        add_block(sums, in->w, in->x, in->n_col, type, 2);
        break;
    case 3:
        add_block(sums, in->w, in->x, in->n_col, type, 3);
        break;
#if FLOAT_TOK > 3
    case 4:
        add_block(sums, in->w, in->x, in->n_col, type, 4);
        break;
    case 5:
        add_block(sums, in->w, in->x, in->n_col, type, 5);
        break;
    case 6:
        add_block(sums, in->w, in->x, in->n_col, type, 6);
        break;
#endif
    }
}

static void add_f32(block_sums sums, const block_in *in, int n_tok)
{
    add_tokens(sums, in, DTYPE_F32, n_tok);
}

/* The outputs of a block: rows r .. r + n_row - 1, tokens t .. t + n_tok - 1. */
static void store_block(const kern_matmul *a, block_sums sums, int r, int n_row, int t, int n_tok)
{
    for (int j = 0; j < n_tok; j++) {
        float *y = matmul_y_row(a, t + j) + r;
        for (int i = 0; i < n_row; i++)
            y[i] = lane_sum(sums[i][j]);
    }
}

static int at_most(int n, int max)
{
    return n < max ? n : max;
}

/* Blocks of as many tokens, at most FLOAT_TOK, as leave no small one at the end. */
static int tokens_per_block(int n_tok)
{
    const int n_block = (n_tok + FLOAT_TOK - 1) / FLOAT_TOK;
    return (n_tok + n_block - 1) / n_block;
}

/* ---- Few tokens --------------------------------------------------------------------------- */

/* FLOAT_ROWS rows, or fewer, from r on, for all tokens, step of them a block. */
TEMPLATE void run_rows(const kern_matmul *a, int r, int n_row, int step, int type)
{
    block_in in = {.n_col = a->n_col};
    for (int i = 0; i < FLOAT_ROWS; i++) /* surplus rows repeat the last */
        in.w[i] = matmul_w_row(a, r + at_most(i, n_row - 1));
    for (int t = 0; t < a->n_tok; t += step) {
        const int n_in = at_most(a->n_tok - t, step);
        _Alignas(64) block_sums sums;
        memset(sums, 0, sizeof sums);
        for (int j = 0; j < n_in; j++)
            in.x[j] = matmul_x_row(a, t + j);
        add_tokens(sums, &in, type, n_in);
        store_block(a, sums, r, n_row, t, n_in);
    }
}

/* ---- A chunk of tokens -------------------------------------------------------------------- */

/* PANEL_COLS columns, or fewer, of the panel's rows; rows past the last stay as they are. */
typedef struct {
    _Alignas(64) float w[PANEL_ROWS][PANEL_COLS];
    _Alignas(64) block_sums sums[CHUNK_BLOCKS][PANEL_ROWS / FLOAT_ROWS];
} panel;

/* The panel's n columns from the k-th on, times all tokens of the chunk, step of them a block. */
static void add_panel(panel *p, const kern_matmul *a, int n_row, int k, int n, int t0, int n_tok,
                      int step)
{
    block_in in = {.n_col = n};
    for (int t = 0; t < n_tok; t += step) {
        const int n_in = at_most(n_tok - t, step);
        for (int j = 0; j < n_in; j++)
            in.x[j] = matmul_x_row(a, t0 + t + j) + sizeof(float) * (size_t)k;
        for (int i = 0; i < n_row; i += FLOAT_ROWS) {
            for (int l = 0; l < FLOAT_ROWS; l++)
                in.w[l] = (const uint8_t *)p->w[i + l];
            add_f32(p->sums[t / step][i / FLOAT_ROWS], &in, n_in);
        }
    }
}

/* Rows r .. r + n_row - 1, at most PANEL_ROWS, for a chunk of tokens. */
TEMPLATE void run_panels(panel *p, const kern_matmul *a, int r, int n_row, int t0, int n_tok,
                         int type)
{
    const size_t w_bytes = type == DTYPE_F32 ? 4 : 2;
    const int step = tokens_per_block(n_tok);
    memset(p->sums, 0, (size_t)at_most(n_tok, CHUNK_BLOCKS) * sizeof p->sums[0]);
    for (int k = 0; k < a->n_col; k += PANEL_COLS) {
        const int n = at_most(a->n_col - k, PANEL_COLS);
        for (int i = 0; i < n_row; i++)
            widen(p->w[i], matmul_w_row(a, r + i) + w_bytes * (size_t)k, n, type);
        add_panel(p, a, n_row, k, n, t0, n_tok, step);
    }
    for (int t = 0; t < n_tok; t += step)
        for (int i = 0; i < n_row; i += FLOAT_ROWS)
            store_block(a, p->sums[t / step][i / FLOAT_ROWS], r + i, at_most(n_row - i, FLOAT_ROWS),
                        t0 + t, at_most(n_tok - t, step));
}

TEMPLATE void run(const kern_matmul *a, int row0, int row1, int type)
{
    if (a->n_tok <= FEW_BLOCKS * FLOAT_TOK) {
        const int step = tokens_per_block(a->n_tok);
        for (int r = row0; r < row1; r += FLOAT_ROWS)
            run_rows(a, r, at_most(row1 - r, FLOAT_ROWS), step, type);
        return;
    }
    panel p;
    memset(p.w, 0, sizeof p.w);
    for (int t = 0; t < a->n_tok; t += CHUNK)
        for (int r = row0; r < row1; r += PANEL_ROWS)
            run_panels(&p, a, r, at_most(row1 - r, PANEL_ROWS), t, at_most(a->n_tok - t, CHUNK),
                       type);
}

#define SLOT(NAME)                                                      \
    static void matmul_##NAME(const kern_matmul *a, int row0, int row1) \
    {                                                                   \
        run(a, row0, row1, DTYPE_##NAME);                               \
    }
MATMUL_FLOAT_TYPES(SLOT)

static void set_float_slots(kern_table *k)
{
#define SET(NAME) k->matmul[DTYPE_##NAME] = matmul_##NAME;
    MATMUL_FLOAT_TYPES(SET)
}
