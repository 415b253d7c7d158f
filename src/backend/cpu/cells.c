/* cells.c - cells of a sequence stored, loaded and moved. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"

enum { MAX_HEAD = 512 };

size_t be_cell_bytes(dtype type, int n)
{
    return dtype_row_bytes(type, (size_t)n);
}

void be_store_cells(backend *be, const be_cells *c, int first, const float *rows, int n_row, int n)
{
    (void)be;
    for (int i = 0; i < n_row; i++) {
        bool ok = kern_encode((int)c->type, be_cell(c, first + i), rows + (size_t)i * (size_t)n,
                              (size_t)n);
        (void)ok; /* the state's types all have an encoder */
    }
}

void be_load_cells(backend *be, const be_cells *c, int first, float *rows, int n_row, int n)
{
    (void)be;
    for (int i = 0; i < n_row; i++) {
        bool ok = kern_decode((int)c->type, rows + (size_t)i * (size_t)n, be_cell(c, first + i),
                              (size_t)n);
        (void)ok; /* a type of the state */
    }
}

/* ---- Moving --------------------------------------------------------------------------------------- */

/* cos and sin of the angle by which each pair of a key turns when it moves so many positions. */
typedef struct {
    float cos[MAX_HEAD / 2], sin[MAX_HEAD / 2];
} turn;

static void turn_init(turn *t, const be_rotary *r, int n_pos)
{
    assert(r->d <= MAX_HEAD && r->n_rot <= r->d);
    for (int i = 0; i < r->n_rot / 2; i++) {
        double angle = n_pos * pow(r->base, -2.0 * i / r->n_rot);
        t->cos[i] = (float)cos(angle);
        t->sin[i] = (float)sin(angle);
    }
}

static void move_key(const backend *be, const be_cells *c, int dst, int src, const be_rotary *r,
                     const turn *t)
{
    size_t head_bytes = be_cell_bytes(c->type, r->d);
    float x[MAX_HEAD];
    for (int h = 0; h < r->n_head; h++) {
        size_t at = (size_t)h * head_bytes;
        bool ok = kern_decode((int)c->type, x, (const uint8_t *)be_cell(c, src) + at, (size_t)r->d);
        be->k.rope(x, t->cos, t->sin, r->n_rot);
        ok = ok && kern_encode((int)c->type, (uint8_t *)be_cell(c, dst) + at, x, (size_t)r->d);
        (void)ok; /* a type of the state */
    }
}

/* As many cells at a time as lie between a cell and its new place: none of them is overwritten before it
 * was read, in whatever order threads take them. */
void be_move_cells(backend *be, const be_cells *c, int dst, int src, int n, const be_rotary *r)
{
    assert(dst < src && c->per_page == BE_PAGE);
    turn t;
    if (r)
        turn_init(&t, r, dst - src);
    for (int i = 0, m; i < n; i += m) {
        m = n - i < src - dst ? n - i : src - dst;
        size_t work = r ? 8 * cpu_work(m, r->n_head * r->d) : cpu_work(m, (int)c->cell_bytes / 16);
        CPU_FOR(be, work)
        for (int j = i; j < i + m; j++) {
            if (r)
                move_key(be, c, dst + j, src + j, r, &t);
            else
                memcpy(be_cell(c, dst + j), be_cell(c, src + j), c->cell_bytes);
        }
    }
}
