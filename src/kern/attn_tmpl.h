/* attn_tmpl.h - attention of one KV head: the walk over cells that the instruction sets share.
 *
 * Included once by a file that defines before:
 *   SCORE_CELLS, TILE_Q    cells of a score tile; query heads of a score and of a value tile
 *   SLAB                   columns of V taken at a time: 32 rows of 64 floats are 8 KiB
 *   load_floats            values i0 .. i0 + n - 1 of a cell's row
 *   score_tile, softmax_head, value_tile    see their calls
 *
 * 1. A block is KERN_ATTN_BLOCK cells. Every row of K and of V is converted once in a block, into
 *    a buffer that stays in the first level of cache, and used from there for all query heads.
 * 2. Lists of cells past the end of a block repeat its last cell: score tiles are always whole,
 *    and softmax_head drops the surplus scores.
 * 3. Rows of a head lie far apart, so the processor does not fetch ahead by itself: V of this block
 *    is asked for while its scores are made, K of the next one while its values are summed.
 */
typedef struct {
    _Alignas(64) float s[KERN_ATTN_MAX_Q][KERN_ATTN_BLOCK]; /* scores, then probabilities */
    float c[KERN_ATTN_MAX_Q];                               /* factor of what was before */
    const uint8_t
        *at[2][KERN_ATTN_BLOCK]; /* the cells, less the head's offset: this block, the next */
    size_t row_bytes, slab_bytes;
    int n; /* cells */
} attn_block;

/* Cells of the block of entries from i on; the last entry's where there are none left. */
static void find_cells(const uint8_t **at, const kern_attn *a, int i)
{
    for (int j = 0; j < KERN_ATTN_BLOCK; j++) {
        const int entry = i + j < a->n_cell ? i + j : a->n_cell - 1;
        const unsigned cell = (unsigned)(a->cell ? a->cell[entry] : a->first + entry);
        at[j] = (const uint8_t *)a->page[cell / KERN_ATTN_PAGE] +
                (size_t)(cell % KERN_ATTN_PAGE) * a->cell_bytes;
    }
}

static void prefetch(const uint8_t *p, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i += 64)
        __builtin_prefetch(p + i, 0, 2);
}

static void block_scores(attn_block *b, const kern_attn *a)
{
    _Alignas(64) float row[SCORE_CELLS][KERN_ATTN_MAX_D];
    for (int j = 0; j < b->n; j += SCORE_CELLS) {
        for (int c = 0; c < SCORE_CELLS; c++) {
            load_floats(row[c], b->at[0][j + c] + a->k, a->kv_type, 0, a->d);
            prefetch(b->at[0][j + c] + a->v, b->row_bytes);
        }
        for (int h = 0; h < a->n_q; h += TILE_Q)
            score_tile(&b->s[h][j], row[0], a->q + (size_t)h * a->q_stride, a->q_stride, a->d,
                       a->n_q - h);
    }
}

static void block_values(const attn_block *b, const kern_attn *a)
{
    _Alignas(64) float slab[KERN_ATTN_BLOCK][SLAB];
    size_t k = a->k;
    for (int i = 0; i < a->d; i += SLAB, k += b->slab_bytes) {
        const int width = a->d - i < SLAB ? a->d - i : SLAB;
        for (int j = 0; j < b->n; j++) {
            load_floats(slab[j], b->at[0][j] + a->v, a->kv_type, i, width);
            prefetch(b->at[1][j] + k, b->slab_bytes);
        }
        for (int h = 0; h < a->n_q; h += TILE_Q)
            value_tile(a->acc + (size_t)h * (size_t)a->d + i, (size_t)a->d, slab[0], b->s[h],
                       &b->c[h], b->n, width, a->n_q - h);
    }
}

static void attn(const kern_attn *a)
{
    attn_block b;
    b.row_bytes = dtype_row_bytes((dtype)a->kv_type, (size_t)a->d);
    b.slab_bytes = dtype_row_bytes((dtype)a->kv_type, SLAB);
    for (int i = 0; i < a->n_cell; i += KERN_ATTN_BLOCK) {
        const int left = a->n_cell - i;
        b.n = left < KERN_ATTN_BLOCK ? left : KERN_ATTN_BLOCK;
        find_cells(b.at[0], a, i);
        find_cells(b.at[1], a, i + KERN_ATTN_BLOCK);
        block_scores(&b, a);
        for (int h = 0; h < a->n_q; h++)
            b.c[h] = softmax_head(b.s[h], b.n, a->scale, &a->m[h], &a->l[h]);
        block_values(&b, a);
    }
}
