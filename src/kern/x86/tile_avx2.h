/* tile_avx2.h - the packers of matmul_pack_avx2.c. */
#ifndef KERN_X86_TILE_AVX2_H
#define KERN_X86_TILE_AVX2_H

#define TILE_ROWS 8
#include "kern/matmul_tile_tmpl.h"

/* type has the integer form. */
packer kern_packer_avx2(int type);
/* The same for tiles in memory; type has a layout (tiles.h). */
packer kern_reader_avx2(int type);

#endif
