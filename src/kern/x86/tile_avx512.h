/* tile_avx512.h - the packers of matmul_pack_avx512.c. */
#ifndef KERN_X86_TILE_AVX512_H
#define KERN_X86_TILE_AVX512_H

#define TILE_ROWS 16
#include "kern/matmul_tile_tmpl.h"

/* type has the integer form. 15 * stride must be below 2^31. */
packer kern_packer_avx512(int type);
/* The same for tiles in memory; type has a layout (tiles.h). */
packer kern_reader_avx512(int type);

#endif
