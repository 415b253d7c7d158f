/* bench_kernels.c - `foretoken bench --kernels`: matrix products one by one. */
#include <string.h>

#include "bench.h"

typedef struct {
    double bandwidth;
    json_t *rows;     /* NULL: a table */
    buf *csv;         /* NULL: none */
    const char *last; /* type of the line before; static */
} kernels;

static double gb(const ft_kernel_row *r)
{
    return 1e-9 * r->weight_bytes / r->seconds;
}

static double gmac(const ft_kernel_row *r)
{
    return 1e-9 * r->macs / r->seconds;
}

static double share(const kernels *k, const ft_kernel_row *r)
{
    return 1e9 * gb(r) / k->bandwidth;
}

static void put_csv(const kernels *k, const ft_kernel_row *r)
{
    if (k->csv->len == 0)
        buf_puts(k->csv, "type,n_tok,n_row,n_col,ms,spread,gb_per_second,gmac_per_second,"
                         "bandwidth_share\n");
    buf_printf(k->csv, "%s,%d,%d,%d,%.6g,%.4g,%.6g,%.6g,%.6g\n", r->type, r->n_tok, r->n_row,
               r->n_col, 1e3 * r->seconds, r->spread, gb(r), gmac(r), share(k, r));
}

static void print_head(const kernels *k)
{
    printf("products of a 4096 x 4096 matrix with rows of activations; this machine reads %.1f "
           "GB/s\n\n%-9s %5s %10s %8s %9s %9s %11s\n",
           1e-9 * k->bandwidth, "type", "rows", "ms", "+-", "GB/s", "share", "GMAC/s");
}

static void print_row(const kernels *k, const ft_kernel_row *r)
{
    if (!k->last)
        print_head(k);
    printf("%-9s %5d %10.3f %6.1f %% %9.2f %7.0f %% %11.1f\n", k->last == r->type ? "" : r->type,
           r->n_tok, 1e3 * r->seconds, 100 * r->spread, gb(r), 100 * share(k, r), gmac(r));
    fflush(stdout); /* a line takes a while */
}

static json_t *row_json(const kernels *k, const ft_kernel_row *r)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "type", r->type, "n_tok",
                     r->n_tok, "n_row", r->n_row, "n_col", r->n_col, "ms", 1e3 * r->seconds,
                     "spread", r->spread, "gb_per_second", gb(r), "gmac_per_second", gmac(r),
                     "bandwidth_share", share(k, r));
}

static bool on_row(void *ctx, const ft_kernel_row *r)
{
    kernels *k = ctx;
    if (k->csv)
        put_csv(k, r);
    if (k->rows)
        json_array_append_new(k->rows, row_json(k, r));
    else
        print_row(k, r);
    k->last = r->type;
    return !interrupted();
}

int bench_kernels(const model_args *a, const char *type, bool json, buf *csv)
{
    kernels k = {.csv = csv};
    ft_error err = {0};
    ft_kernel_params p = ft_kernel_params_default();
    p.type = type;
    p.cpu = a->cpu;
    p.n_thread = a->n_thread;
    interrupt_install(NULL);
    ft_status st = ft_measure_bandwidth(a->n_thread, &k.bandwidth, &err);
    if (st == FT_OK && json)
        k.rows = json_array();
    if (st == FT_OK)
        st = ft_bench_kernels(&p, on_row, &k, &err);
    if (st != FT_OK) {
        json_decref(k.rows);
        return report_failure("bench", st, &err);
    }
    return json ? print_object("bench",
                               json_pack("{s:f, s:o}", "bandwidth", k.bandwidth, "kernels", k.rows))
                : EXIT_OK;
}
