/* bench_kernels.c - matrix products one by one, as the forward pass runs them. */
#include "base/mem.h"
#include "base/stats.h"
#include "engine/engine.h"

enum { N_COL = 4096, N_ROW = 4096, MAX_TOK = 512, MAX_RUN = 1000, MIN_RUN = 5 };

static const int n_toks[] = {1, 2, 4, 8, 16, MAX_TOK};

typedef struct {
    const ft_kernel_params *p;
    backend *be;
    uint8_t *weights; /* [p->buffer_bytes], owned like the following */
    float *x;         /* [MAX_TOK][N_COL] */
    void *q8;
    float *y; /* [MAX_TOK][N_ROW] */
    ft_kernel_fn *report;
    void *ctx;
} bench;

/* Random bytes of the form x01xxxxx: wherever a format has its scales, they are normal numbers below 2,
 * and so are floats, so that no product is slow for its values. The same bytes serve every type. */
static void fill_weights(uint8_t *w, size_t n)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n / 8; i++) {
        uint64_t z = ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z ^= z >> 27;
        uint64_t *to = (uint64_t *)(void *)(w + 8 * i); /* aligned */
        *to = (z & 0xbfbfbfbfbfbfbfbfu) | 0x2020202020202020u;
    }
}

static ft_status reserve(bench *b, ft_error *err)
{
    size_t n = b->p->buffer_bytes & ~(size_t)63;
    b->weights = mem_alloc_aligned(n);
    b->x = mem_alloc_aligned(sizeof(float) * MAX_TOK * N_COL);
    b->y = mem_alloc_aligned(sizeof(float) * MAX_TOK * N_ROW);
    b->q8 = mem_alloc_aligned(be_act_bytes(MAX_TOK, N_COL));
    if (!b->weights || !b->x || !b->y || !b->q8)
        return err_set(err, FT_NOMEM, "kernels: buffers of %zu bytes", n);
    fill_weights(b->weights, n);
    for (int i = 0; i < MAX_TOK * N_COL; i++)
        b->x[i] = (float)(i * 37 % 255 - 127) / 64.0f;
    return FT_OK;
}

/* Every run takes the next matrix of the buffer. The activations are quantised before the first one, as
 * several products share them in the forward pass. */
static ft_status one_line(bench *b, dtype type, int n_tok, ft_error *err)
{
    double seconds[MAX_RUN];
    size_t row_bytes = dtype_row_bytes(type, N_COL), bytes = row_bytes * N_ROW;
    size_t n_copy = b->p->buffer_bytes / bytes;
    tensor w = {.type = type,
                .n_col = N_COL,
                .n_row = N_ROW,
                .n_mat = 1,
                .row_bytes = row_bytes,
                .mat_bytes = bytes,
                .name = "kernels"};
    be_act x = be_act_of(b->x, n_tok, N_COL, b->q8);
    int n = -1; /* a run to begin with is not counted */
    double start = engine_now();
    for (size_t i = 0; n < MAX_RUN && (n < MIN_RUN || engine_now() - start < b->p->seconds); i++) {
        w.data = b->weights + i % n_copy * bytes;
        double t = engine_now();
        be_matmul(b->be, b->y, N_ROW, &w, &x);
        t = engine_now() - t;
        if (n >= 0)
            seconds[n] = t;
        n++;
    }
    stats s = stats_of(seconds, n);
    ft_kernel_row row = {.type = dtype_name(type),
                         .n_tok = n_tok,
                         .n_row = N_ROW,
                         .n_col = N_COL,
                         .seconds = s.median,
                         .spread = stats_spread(&s),
                         .weight_bytes = (double)bytes,
                         .macs = (double)n_tok * N_ROW * N_COL};
    return b->report(b->ctx, &row) ? FT_OK
                                   : err_set(err, FT_CANCELLED, "kernels: stopped by the caller");
}

static ft_status one_type(bench *b, dtype type, ft_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(n_toks); i++)
        TRY(one_line(b, type, n_toks[i], err));
    return FT_OK;
}

static ft_status run(bench *b, ft_error *err)
{
    const dtype_info *only = b->p->type ? dtype_find_name(b->p->type) : NULL;
    TRY(backend_create(&b->be, &(backend_params){.n_thread = b->p->n_thread, .level = b->p->cpu},
                       err));
    if (b->p->type && (!only || !backend_can_matmul(b->be, only->type)))
        return err_set(err, only ? FT_UNSUPPORTED : FT_ARG, "type: '%.40s' cannot be multiplied",
                       b->p->type);
    TRY(reserve(b, err));
    if (only)
        return one_type(b, only->type, err);
    const dtype_info *d;
    for (size_t i = 0; (d = dtype_at(i)) != NULL; i++)
        if (backend_can_matmul(b->be, d->type))
            TRY(one_type(b, d->type, err));
    return FT_OK;
}

ft_kernel_params ft_kernel_params_default(void)
{
    return (ft_kernel_params){.buffer_bytes = (size_t)768 << 20, .seconds = 0.2};
}

ft_status ft_bench_kernels(const ft_kernel_params *p, ft_kernel_fn *report, void *ctx,
                           ft_error *err)
{
    ft_kernel_params defaults = ft_kernel_params_default();
    bench b = {.p = p ? p : &defaults, .report = report, .ctx = ctx};
    size_t least = sizeof(float) * N_ROW * N_COL; /* the largest matrix must fit */
    if (!report)
        return err_set(err, FT_ARG, "kernels: no callback");
    if (b.p->buffer_bytes < least)
        return err_set(err, FT_ARG, "buffer_bytes: %zu, want at least %zu", b.p->buffer_bytes,
                       least);
    if (!(b.p->seconds >= 0 && b.p->seconds <= 60))
        return err_set(err, FT_ARG, "seconds: %g, want 0 to 60", b.p->seconds);
    ft_status st = run(&b, err);
    backend_free(b.be);
    mem_free(b.weights);
    mem_free(b.x);
    mem_free(b.y);
    mem_free(b.q8);
    return st;
}
