/* matmul_tile_tmpl.h - a tile of weights, ready for a vector product. Private to kern/.
 *
 * Included by the files of an instruction set that fill tiles and that use them, which define
 * TILE_ROWS before, the lanes of a register. A lane is a row: the four weights of a lane meet the
 * same four activations in every lane, so one broadcast serves all rows, and the sums of a row
 * never leave its lane.
 */
#include "base/compiler.h"

#define TILE_GROUP 8 /* groups of 32 columns */

typedef struct {
    _Alignas(64) uint8_t q[TILE_GROUP][8][TILE_ROWS][4]; /* [group][k / 4][row][k % 4] */
    float s[2][TILE_GROUP][TILE_ROWS]; /* scales of the halves; s[1] only for two scales */
    float m[2][TILE_GROUP][TILE_ROWS]; /* minima, likewise; only for types with minima */
} tile;

/* Fill groups 0 .. n_group - 1 of a tile from TILE_ROWS rows of w, which points into the first of
 * them at a multiple of 256 columns; stride is in bytes. */
typedef void pack_fn(tile *t, const uint8_t *w, size_t stride, int n_group);

typedef struct {
    pack_fn *pack;
    int offset; /* q of the tile is the integer weight + offset; 0 for types with minima */
    int max;    /* q is in 0 .. max; 255: in 0 .. 255 if offset is 128, else in -128 .. 127 */
} packer;

/* Tokens that one call of add_tile_fn takes at most, a power of two. */
#define TILE_TOK 8

/* What a block of tokens reads: rows of activations, and where in them the tile's columns are. */
typedef struct {
    const uint8_t *row[TILE_TOK];
    size_t q, d, s; /* bytes from the row's start */
} tile_x;

/* Add the first n_group groups of a tile to the sums of as many tokens as the function is for. */
typedef void add_tile_fn(float (*sums)[TILE_ROWS], const tile *t, const tile_x *x, int n_group,
                         int offset);
