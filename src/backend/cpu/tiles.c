/* tiles.c - weights in tiles: made once, from all threads. */
#include "backend/cpu/cpu.h"
#include "base/mem.h"

static int bands_of(const tensor *w)
{
    return (w->n_row + KERN_ROW_TILE - 1) / KERN_ROW_TILE;
}

static size_t band_bytes(const tensor *w)
{
    return kern_tiles_row_bytes((int)w->type, w->n_col) * KERN_ROW_TILE;
}

size_t be_tiles_bytes(const backend *be, const tensor *w)
{
    size_t n;
    if (!kern_tiles_fit(&be->k, (int)w->type, w->n_col) ||
        !size_mul(&n, band_bytes(w), (size_t)bands_of(w)) || !size_mul(&n, n, (size_t)w->n_mat))
        return 0;
    return n;
}

/* Bands in stretches, as products take them: on machines with several memories a thread's weights then
 * lie beside it. */
void be_tiles_put(backend *be, void *dst, const tensor *w)
{
    size_t n_band = (size_t)bands_of(w), n = n_band * (size_t)w->n_mat, bytes = band_bytes(w);
    CPU_FOR(be, n * bytes, schedule(static))
    for (size_t i = 0; i < n; i++) {
        int r = (int)(i % n_band) * KERN_ROW_TILE;
        const uint8_t *src =
            (const uint8_t *)w->data + i / n_band * w->mat_bytes + (size_t)r * w->row_bytes;
        kern_tiles_put(&be->k, (int)w->type, (uint8_t *)dst + i * bytes, src, w->row_bytes,
                       cpu_min(w->n_row - r, KERN_ROW_TILE), w->n_col);
    }
}
