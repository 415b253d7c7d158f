/* repack.c - see repack.h.
 *
 * The rule of "auto": of every type with enough bytes a sample is laid out anew and multiplied with one
 * row in both forms, in turn. The kernels alone do not decide: where memory is slower than both, the
 * copy gains nothing and is not made. */
#include "engine/repack.h"

#include <string.h>

#include "base/mem.h"
#include "engine/matrices.h"

enum {
    PAIRS = 5,
    MIN_TYPE_BYTES = 16 << 20,   /* a type with less decides nothing about a step's time */
    MIN_SAMPLE_BYTES = 64 << 20, /* both forms together: more than most caches hold */
};
#define MIN_GAIN 1.05

typedef struct {
    ft_model *m;
    tensor **t; /* [n], owned; room for cap */
    int n, cap;
    dtype type; /* of the round */
    float *x, *y;
    void *q8;
} job;

static ft_status count_one(void *ctx, tensor *t, ft_error *err)
{
    (void)err;
    job *j = ctx;
    j->cap += be_tiles_bytes(j->m->be, t) > 0;
    return FT_OK;
}

static ft_status take_one(void *ctx, tensor *t, ft_error *err)
{
    (void)err;
    job *j = ctx;
    if (be_tiles_bytes(j->m->be, t) > 0)
        j->t[j->n++] = t;
    return FT_OK;
}

static ft_status walk(job *j, matrix_fn *fn, ft_error *err)
{
    TRY(matrices_of_trunk(j->m->m, fn, j, err));
    return j->m->dw ? matrices_of_draft(&j->m->dw->mtp, fn, j, err) : FT_OK;
}

/* An earlier matrix of the list that is the same one: the drafter's head is often the trunk's. */
static const tensor *same_before(const job *j, int i)
{
    for (int k = 0; k < i; k++)
        if (j->t[k]->data == j->t[i]->data && j->t[k]->n_row == j->t[i]->n_row &&
            j->t[k]->row_bytes == j->t[i]->row_bytes && j->t[k]->n_mat == j->t[i]->n_mat &&
            j->t[k]->n_col == j->t[i]->n_col)
            return j->t[k];
    return NULL;
}

static size_t tiles_bytes(const job *j, int i)
{
    return size_align(be_tiles_bytes(j->m->be, j->t[i]), MEM_ALIGN);
}

/* Bytes of all tiles of the round's type, or of every type. */
static size_t sum_bytes(const job *j, bool every)
{
    size_t sum = 0;
    for (int i = 0; i < j->n; i++)
        if ((every || j->t[i]->type == j->type) && !same_before(j, i) &&
            !size_add(&sum, sum, tiles_bytes(j, i)))
            return SIZE_MAX;
    return sum;
}

/* ---- The measurement -------------------------------------------------------------------------- */

static ft_status reserve_rows(job *j, ft_error *err)
{
    int n_col = 0, n_row = 0;
    for (int i = 0; i < j->n; i++) {
        n_col = j->t[i]->n_col > n_col ? j->t[i]->n_col : n_col;
        n_row = j->t[i]->n_row > n_row ? j->t[i]->n_row : n_row;
    }
    j->x = mem_calloc((size_t)n_col, sizeof *j->x);
    j->y = mem_calloc((size_t)n_row, sizeof *j->y);
    j->q8 = mem_alloc_aligned(be_act_bytes(1, n_col));
    if (!j->x || !j->y || !j->q8)
        return err_set(err, FT_NOMEM, "repack: rows of %d and %d values", n_col, n_row);
    for (int k = 0; k < n_col; k++)
        j->x[k] = (float)(k * 37 % 255 - 127) / 64.0f;
    return FT_OK;
}

/* Seconds of one row through the first n_sample matrices of the type, in tiles or not. */
static double one_pass(const job *j, int n_sample, bool tiled)
{
    double t0 = engine_now();
    for (int i = 0; i < n_sample; i++) {
        tensor w = *j->t[i];
        if (w.type != j->type || !w.tiles)
            continue;
        const uint8_t *tiles = w.tiles;
        size_t step = be_tiles_bytes(j->m->be, &w) / (size_t)w.n_mat;
        be_act x = be_act_of(j->x, 1, w.n_col, j->q8);
        for (int k = 0; k < w.n_mat; k++) {
            w.data = (const uint8_t *)j->t[i]->data + (size_t)k * w.mat_bytes;
            w.tiles = tiled ? tiles + (size_t)k * step : NULL;
            be_matmul(j->m->be, j->y, (size_t)w.n_row, &w, &x);
        }
    }
    return engine_now() - t0;
}

/* The passes of a pair follow each other, and every pair must agree: a burst of other work on the machine
 * slows down one or two. */
static bool pays(const job *j, int n_sample)
{
    for (int i = 0; i < PAIRS; i++) {
        double file = one_pass(j, n_sample, false), tiles = one_pass(j, n_sample, true);
        if (tiles * MIN_GAIN > file)
            return false;
    }
    return true;
}

/* ---- The copy --------------------------------------------------------------------------------- */

/* Products need matrix i in the file no more: at once, so that memory never holds both forms of all. */
static void give_back(const job *j, int i)
{
    const tensor *t = j->t[i];
    size_t n = (size_t)(t->n_mat - 1) * t->mat_bytes + (size_t)(t->n_row - 1) * t->row_bytes +
               dtype_row_bytes(t->type, (size_t)t->n_col);
    gguf_give_back(j->m->file, t->data, n);
    if (j->m->mtp_file)
        gguf_give_back(j->m->mtp_file, t->data, n);
}

/* Tiles for the type's matrices from the given one on, until at least so many bytes are made; all: not for a
 * sample. Returns the first one that is not done. */
static int lay_out(const job *j, uint8_t *mem, size_t *used, int from, size_t least, bool all)
{
    size_t end = least > SIZE_MAX - *used ? SIZE_MAX : *used + least;
    int i = from;
    for (; i < j->n && *used < end; i++) {
        tensor *t = j->t[i];
        if (t->type != j->type)
            continue;
        const tensor *same = same_before(j, i);
        if (!same) {
            be_tiles_put(j->m->be, mem + *used, t);
            t->tiles = mem + *used;
            *used += tiles_bytes(j, i);
        } else {
            t->tiles = same->tiles;
        }
        if (all)
            give_back(j, i);
    }
    return i;
}

static void drop_tiles(job *j)
{
    for (int i = 0; i < j->n; i++)
        if (j->t[i]->type == j->type)
            j->t[i]->tiles = NULL;
}

static ft_status one_type(job *j, bool always, ft_error *err)
{
    size_t n_bytes = sum_bytes(j, false), used = 0;
    repacked *r = &j->m->repack;
    if (r->n_type == REPACK_MAX_TYPE || (!always && n_bytes < MIN_TYPE_BYTES))
        return FT_OK;
    uint8_t *mem = be_alloc(j->m->be, n_bytes);
    if (!mem)
        return always ? err_set(err, FT_NOMEM, "repack: %zu bytes for matrices of type %s", n_bytes,
                                dtype_name(j->type))
                      : FT_OK;
    int next = lay_out(j, mem, &used, 0, always ? SIZE_MAX : MIN_SAMPLE_BYTES, always);
    if (!always && !pays(j, next)) {
        drop_tiles(j);
        be_release(j->m->be, mem, n_bytes);
        return FT_OK;
    }
    for (int i = 0; i < next; i++)
        if (j->t[i]->type == j->type)
            give_back(j, i);
    lay_out(j, mem, &used, next, SIZE_MAX, true);
    r->mem[r->n_type] = mem;
    r->size[r->n_type++] = n_bytes;
    r->n_bytes += n_bytes;
    return FT_OK;
}

static ft_status each_type(job *j, bool always, ft_error *err)
{
    bool done[64] = {false};
    TRY(reserve_rows(j, err));
    for (int i = 0; i < j->n; i++) {
        unsigned type = (unsigned)j->t[i]->type;
        if (type >= ARRAY_LEN(done) || done[type])
            continue;
        done[type] = true;
        j->type = j->t[i]->type;
        TRY(one_type(j, always, err));
    }
    return FT_OK;
}

/* File and copy side by side in memory: what a page fault reads back must not push out what is in use. */
static bool memory_holds(const job *j)
{
    const ft_model *m = j->m;
    uint64_t file = gguf_file_bytes(m->file) + (m->mtp_file ? gguf_file_bytes(m->mtp_file) : 0);
    uint64_t all = mem_physical(), tiles = sum_bytes(j, true);
    return tiles < all && file < all - tiles;
}

ft_status repack_model(ft_model *m, const char *how, ft_error *err)
{
    bool always = how && strcmp(how, "always") == 0;
    if (how && strcmp(how, "off") == 0)
        return FT_OK;
    if (how && !always && strcmp(how, "auto") != 0)
        return err_set(err, FT_ARG, "repack: '%.40s', want auto, always or off", how);
    job j = {.m = m};
    TRY(walk(&j, count_one, err));
    if (j.cap == 0)
        return FT_OK;
    j.t = mem_calloc((size_t)j.cap, sizeof *j.t);
    ft_status st =
        j.t ? walk(&j, take_one, err) : err_set(err, FT_NOMEM, "repack: %d names", j.cap);
    if (st == FT_OK && (always || memory_holds(&j)))
        st = each_type(&j, always, err);
    mem_free(j.t);
    mem_free(j.x);
    mem_free(j.y);
    mem_free(j.q8);
    return st;
}

void repack_free(ft_model *m)
{
    for (int i = 0; i < m->repack.n_type; i++)
        be_release(m->be, m->repack.mem[i], m->repack.size[i]);
}
