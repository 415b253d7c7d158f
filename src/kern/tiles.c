/* tiles.c - see tiles.h, and kern.h (Weights in tiles). */
#include "kern/tiles.h"

#include <string.h>

#include "base/dtype.h"
#include "kern/block.h"

const tiles_layout *kern_tiles_layout(int type)
{
    static const tiles_layout none = {0};
    static const tiles_layout layout[] = {
        [DTYPE_Q8_0] = {272, 8, sizeof(kern_q8_0), {{4, 8, 2}, {2, 1, 0}}},
        [DTYPE_Q4_0] = {144, 8, sizeof(kern_q4_0), {{4, 4, 2}, {2, 1, 0}}},
        [DTYPE_IQ4_NL] = {144, 8, sizeof(kern_iq4_nl), {{4, 4, 2}, {2, 1, 0}}},
        [DTYPE_Q5_0] = {176, 8, sizeof(kern_q5_0), {{4, 4, 6}, {4, 1, 2}, {2, 1, 0}}},
        [DTYPE_Q4_K] = {144, 1, sizeof(kern_q4_k), {{4, 32, 16}, {4, 4, 0}}},
        [DTYPE_Q5_K] = {176, 1, sizeof(kern_q5_k), {{4, 40, 16}, {4, 4, 0}}},
        [DTYPE_Q6_K] = {212, 1, sizeof(kern_q6_k), {{4, 52, 0}, {2, 1, 208}}},
    };
    if ((size_t)type < ARRAY_LEN(layout))
        return &layout[type];
    return &none;
}

bool kern_tiles_fit(const kern_table *k, int type, int n_col)
{
    return (unsigned)type < KERN_N_TYPE && k->matmul_tiled[type] && n_col % 256 == 0;
}

size_t kern_tiles_row_bytes(int type, int n_col)
{
    return (size_t)kern_tiles_layout(type)->image * (size_t)(n_col / 256);
}

/* One element of every row. */
static uint8_t *put_element(uint8_t *dst, const uint8_t *src, size_t stride, int n_row, int n_lane,
                            int width)
{
    for (int r = 0; r < n_row; r++, src += stride, dst += width)
        memcpy(dst, src, (size_t)width);
    const size_t rest = (size_t)(n_lane - n_row) * (size_t)width;
    memset(dst, 0, rest);
    return dst + rest;
}

static void put_tile(uint8_t *dst, const uint8_t *src, size_t stride, int n_row, int n_lane,
                     const tiles_layout *l)
{
    const uint8_t *end = dst + (size_t)l->image * (size_t)n_lane;
    for (const tiles_field *f = l->field; f < l->field + ARRAY_LEN(l->field) && f->width; f++)
        for (int b = 0; b < l->n_block; b++)
            for (int i = 0; i < f->n; i++) {
                const uint8_t *from = src + b * l->block_bytes + f->from + i * f->width;
                /* width is a constant in each call, so memcpy is a move */
                dst = f->width == 4 ? put_element(dst, from, stride, n_row, n_lane, 4)
                                    : put_element(dst, from, stride, n_row, n_lane, 2);
            }
    memset(dst, 0, (size_t)(end - dst));
}

void kern_tiles_put(const kern_table *k, int type, void *dst, const void *src, size_t stride,
                    int n_row, int n_col)
{
    const tiles_layout *l = kern_tiles_layout(type);
    const int n_lane = k->tile_rows;
    const size_t tile_bytes = (size_t)l->image * (size_t)n_lane;
    const size_t src_bytes = (size_t)l->n_block * (size_t)l->block_bytes;
    uint8_t *to = dst;
    for (int r = 0; r < KERN_ROW_TILE; r += n_lane) {
        const int n = n_row - r < 0 ? 0 : n_row - r < n_lane ? n_row - r : n_lane;
        const uint8_t *from = (const uint8_t *)src + (size_t)r * stride;
        for (int c = 0; c < n_col; c += 256, to += tile_bytes, from += src_bytes)
            put_tile(to, from, stride, n, n_lane, l);
    }
}
