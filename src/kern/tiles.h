/* tiles.h - weights in the order in which registers take them. Private to kern/.
 *
 * TILE_ROWS rows and 256 columns are a tile. A row's part of it is cut into words of 4 bytes and halves
 * of 2; element i of all rows lies together, then element i + 1. What a file scatters over rows is
 * then one load, with no shuffles and no gathers. Elements are in the order of the fields, a field's in
 * that of the blocks. The rows of a tile are padded with zeros to `image` bytes.
 * Tiles of a band of rows follow each other, then those of the next band; rows past the last are 0. */
#ifndef KERN_TILES_H
#define KERN_TILES_H

#include "kern/kern.h"

typedef struct {
    int width; /* 4 or 2; 0: no more fields */
    int n;     /* elements in a block */
    int from;  /* bytes from the block's start */
} tiles_field;

typedef struct {
    int image; /* bytes of a row in a tile; 0: this type has no tiles */
    int n_block, block_bytes;
    tiles_field field[3];
} tiles_layout;

/* Never NULL. */
const tiles_layout *kern_tiles_layout(int type);

#endif
