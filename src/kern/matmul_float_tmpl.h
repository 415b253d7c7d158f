/* matmul_float_tmpl.h - products of float weights: the walk over tokens and rows that the
 * instruction sets share. Private to kern/.
 *
 * Included once by a file that defines before:
 *   FLOAT_ROWS, FLOAT_TOK    of a block, whose 16-lane sums fit in the registers
 *   add_block(y, w, x, n, type, n_tok)    y[i][j] = lane sum of fma(w[i], x[j]), for FLOAT_ROWS
 *                            rows and n_tok <= FLOAT_TOK tokens
 */
#include "base/dtype.h"
#include "kern/matmul.h"

/* Tokens whose rows stay in the cache while all rows of weights pass by. */
#define CHUNK 16

TEMPLATE void run_block(const kern_matmul *a, int r, int n_row, int t, int type, int n_tok)
{
    float y[FLOAT_ROWS][FLOAT_TOK];
    const uint8_t *w[FLOAT_ROWS], *x[FLOAT_TOK];
    for (int i = 0; i < FLOAT_ROWS; i++) /* surplus rows repeat the last */
        w[i] = matmul_w_row(a, r + (i < n_row ? i : n_row - 1));
    for (int j = 0; j < n_tok; j++)
        x[j] = matmul_x_row(a, t + j);
    add_block(y, w, x, a->n_col, type, n_tok);
    for (int j = 0; j < n_tok; j++)
        for (int i = 0; i < FLOAT_ROWS && i < n_row; i++)
            matmul_y_row(a, t + j)[r + i] = y[i][j];
}

TEMPLATE void run(const kern_matmul *a, int row0, int row1, int type)
{
    for (int t0 = 0; t0 < a->n_tok; t0 += CHUNK) {
        const int t1 = a->n_tok - t0 < CHUNK ? a->n_tok : t0 + CHUNK;
        for (int r = row0; r < row1; r += FLOAT_ROWS) {
            const int n_row = row1 - r < FLOAT_ROWS ? row1 - r : FLOAT_ROWS;
            int t = t0;
            for (; t + FLOAT_TOK <= t1; t += FLOAT_TOK)
                run_block(a, r, n_row, t, type, FLOAT_TOK);
            for (; t < t1; t++)
                run_block(a, r, n_row, t, type, 1);
        }
    }
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
