/* tile_neon.h - the packers of matmul_pack_neon.c. */
#ifndef KERN_ARM_TILE_NEON_H
#define KERN_ARM_TILE_NEON_H

#define TILE_ROWS 4
#include "kern/matmul_tile_tmpl.h"

/* type has the integer form. */
packer kern_packer_neon(int type);
/* The same for tiles in memory; type has a layout (tiles.h). */
packer kern_reader_neon(int type);

#endif
