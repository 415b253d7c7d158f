/* matmul_group_tmpl.h - products of quantised weights and activations: the walk over tokens, rows
 * and superblocks that the instruction sets share. Private to kern/.
 *
 * Included once by a file that has included matmul_tile_tmpl.h and defines before:
 *   packer_for(type)                the type's packer
 *   reader_for(type)                the same for weights in tiles (tiles.h)
 *   add_tiles(packer, traits)       functions for 1, 2, 4 .. 2^MAX_LOG2 tokens
 *   store_sums(y, sums, n_row)      the first n_row lanes
 *   MAX_STRIDE                      bytes from row to row that the packers can span
 *
 * For a chunk of tokens and TILE_ROWS rows: superblock after superblock, the weights are packed
 * into a tile and the tile is run over the tokens. Sums wait in memory between superblocks, so
 * every output is one chain in ascending groups, whatever the number of tokens.
 */
#include <string.h>

#include "base/dtype.h"
#include "kern/group.h"
#include "kern/matmul.h"
#include "kern/tiles.h"

/* Tokens whose sums wait on the stack; a tile is packed once for them. */
#define CHUNK 128

/* Bytes of 256 columns, at most: eight blocks of Q8_0. */
#define STAGE_BYTES 272

typedef struct {
    const kern_matmul *a;
    packer packer;
    add_tile_fn *const *add; /* [MAX_LOG2 + 1] */
    size_t tile_bytes;       /* of 256 columns of a row; in tiles: of a tile */
} product;

/* One packed superblock for all tokens of the chunk. */
static void run_tile(const product *p, float (*sums)[TILE_ROWS], const tile *t, int group0,
                     int n_group, int t0, int n_tok)
{
    const kern_matmul *a = p->a;
    tile_x x;
    x.q = 32 * (size_t)group0;
    x.d = (size_t)a->n_col + 4 * (size_t)group0;
    x.s = (size_t)a->n_col / 32 * 4 + x.d;
    for (int i = 0, log2_n = MAX_LOG2; i < n_tok; i += 1 << log2_n) {
        while (i + (1 << log2_n) > n_tok)
            log2_n--;
        for (int j = 0; j < 1 << log2_n; j++)
            x.row[j] = matmul_x_row(a, t0 + i + j);
        p->add[log2_n](sums + i, t, &x, n_group, p->packer.offset);
    }
}

/* Ask for the same columns of the next tile's rows: in a superblock's time just as many bytes as
 * it reads, and no row begins cold. Past the last row it asks in vain, which is harmless. With one
 * token: Q4_0 +40%, Q4_K +38%, Q6_K +11%, Q8_0 0 (Xeon of model 207, 1 thread, --bench).
 * Inline: gcc drops calls of a function that does nothing else. */
static ALWAYS_INLINE void prefetch_next(const uint8_t *w, size_t stride, size_t n_byte)
{
    w += TILE_ROWS * stride;
    for (int r = 0; r < TILE_ROWS; r++, w += stride)
        for (size_t i = 0; i < n_byte; i += 64)
            __builtin_prefetch(w + i, 0, 2);
}

/* Ask for bytes that a stream will reach. */
static ALWAYS_INLINE void prefetch_ahead(const uint8_t *w, size_t n_byte)
{
    for (size_t i = 0; i < n_byte; i += 64)
        __builtin_prefetch(w + i, 0, 2);
}

/* Rows r .. r + n_row - 1 (at most TILE_ROWS) for a chunk of tokens. A tile always packs
 * TILE_ROWS: fewer are copied to a stage whose other rows are zero, and so are rows too far apart
 * for the packer. */
static void run_rows(const product *p, int r, int n_row, int t0, int n_tok)
{
    const kern_matmul *a = p->a;
    const int n_group = a->n_col / 32;
    const bool staged = n_row < TILE_ROWS || a->w_stride > MAX_STRIDE;
    uint8_t stage[TILE_ROWS][STAGE_BYTES];
    tile t;
    _Alignas(64) float sums[CHUNK][TILE_ROWS];

    if (staged)
        memset(stage, 0, sizeof stage);
    memset(sums, 0, (size_t)n_tok * sizeof sums[0]);
    for (int g = 0; g < n_group; g += TILE_GROUP) {
        const int n = n_group - g < TILE_GROUP ? n_group - g : TILE_GROUP;
        const size_t skip = (size_t)(g / TILE_GROUP) * p->tile_bytes;
        if (staged) {
            const size_t n_byte = p->tile_bytes * (size_t)n / TILE_GROUP;
            for (int i = 0; i < n_row; i++)
                memcpy(stage[i], matmul_w_row(a, r + i) + skip, n_byte);
            p->packer.pack(&t, stage[0], STAGE_BYTES, n);
        } else {
            const uint8_t *w = matmul_w_row(a, r) + skip;
            prefetch_next(w, a->w_stride, p->tile_bytes);
            p->packer.pack(&t, w, a->w_stride, n);
        }
        run_tile(p, sums, &t, g, n, t0, n_tok);
    }
    for (int i = 0; i < n_tok; i++)
        store_sums(matmul_y_row(a, t0 + i) + r, sums[i], n_row);
}

/* The same for weights in tiles: whole ones always, and none has to wait for the next one's rows. */
static void run_tiled_rows(const product *p, int r, int n_row, int t0, int n_tok)
{
    const kern_matmul *a = p->a;
    const uint8_t *w = matmul_w_row(a, r);
    tile t;
    _Alignas(64) float sums[CHUNK][TILE_ROWS];

    memset(sums, 0, (size_t)n_tok * sizeof sums[0]);
    for (int g = 0; g < a->n_col / 32; g += TILE_GROUP, w += p->tile_bytes) {
        prefetch_ahead(w + 2 * p->tile_bytes, p->tile_bytes);
        p->packer.pack(&t, w, 0, TILE_GROUP);
        run_tile(p, sums, &t, g, TILE_GROUP, t0, n_tok);
    }
    for (int i = 0; i < n_tok; i++)
        store_sums(matmul_y_row(a, t0 + i) + r, sums[i], n_row);
}

static void run_tiled(const kern_matmul *a, int row0, int row1, int type)
{
    product p = {.a = a, .packer = reader_for(type)};
    p.add = add_tiles(&p.packer, kern_group_traits_of(type));
    p.tile_bytes = (size_t)kern_tiles_layout(type)->image * TILE_ROWS;
    for (int t0 = 0; t0 < a->n_tok; t0 += CHUNK) {
        const int n_tok = a->n_tok - t0 < CHUNK ? a->n_tok - t0 : CHUNK;
        for (int r = row0; r < row1; r += TILE_ROWS)
            run_tiled_rows(&p, r, row1 - r < TILE_ROWS ? row1 - r : TILE_ROWS, t0, n_tok);
    }
}

static void run(const kern_matmul *a, int row0, int row1, int type)
{
    product p = {.a = a, .packer = packer_for(type)};
    p.add = add_tiles(&p.packer, kern_group_traits_of(type));
    p.tile_bytes = dtype_row_bytes((dtype)type, 256);
    for (int t0 = 0; t0 < a->n_tok; t0 += CHUNK) {
        const int n_tok = a->n_tok - t0 < CHUNK ? a->n_tok - t0 : CHUNK;
        for (int r = row0; r < row1; r += TILE_ROWS)
            run_rows(&p, r, row1 - r < TILE_ROWS ? row1 - r : TILE_ROWS, t0, n_tok);
    }
}

#define SLOT(NAME)                                                      \
    static void matmul_##NAME(const kern_matmul *a, int row0, int row1) \
    {                                                                   \
        run(a, row0, row1, DTYPE_##NAME);                               \
    }
MATMUL_GROUP_TYPES(SLOT)

#define TILED_SLOT(NAME)                                               \
    static void tiled_##NAME(const kern_matmul *a, int row0, int row1) \
    {                                                                  \
        run_tiled(a, row0, row1, DTYPE_##NAME);                        \
    }
MATMUL_TILED_TYPES(TILED_SLOT)

static void set_group_slots(kern_table *k)
{
#define SET(NAME)       k->matmul[DTYPE_##NAME] = matmul_##NAME;
#define SET_TILED(NAME) k->matmul_tiled[DTYPE_##NAME] = tiled_##NAME;
    MATMUL_GROUP_TYPES(SET)
    MATMUL_TILED_TYPES(SET_TILED)
    k->tile_rows = TILE_ROWS;
}
