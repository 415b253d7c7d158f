/* bench_floor.c - the floors of `foretoken bench`: the bytes of each step by the engine's account, at the
 * bandwidth that was measured between the runs. */
#include <math.h>

#include "bench.h"

typedef struct {
    const bench_report *r;
    const ft_model *m;
    const model_args *a;
    ft_error err;
} floors;

static ft_status step_bytes(floors *f, ft_step step, int n_row, int depth, double *bytes)
{
    ft_account_params p = ft_account_params_default();
    ft_account account;
    p.step = step;
    p.n_row = n_row;
    p.depth = depth;
    p.kv_type = f->a->kv;
    p.sink = f->a->sink;
    p.window = f->a->window;
    ft_status st = ft_account_model(f->m, &p, &account, &f->err);
    if (st != FT_OK)
        return st;
    *bytes = account.bytes;
    ft_account_free(&account);
    return FT_OK;
}

/* Rows of a verification, to the nearest number where it varied. */
static int rows_of(const bench_line *l)
{
    return l->rounds ? (int)lround((double)l->drafted / (double)l->rounds) + 1 : 1;
}

static ft_status line_bytes(floors *f, bench_line *l)
{
    int depth = l->depth + f->r->plan->n_decode / 2; /* in the middle of a run */
    double step = 0, verify = 0;
    ft_status st = FT_OK;
    switch (l->what) {
    case BENCH_DECODE:
        return step_bytes(f, FT_STEP_VERIFY, 1, depth, &l->floor_bytes);
    case BENCH_STEP:
        return step_bytes(f, FT_STEP_DRAFT, 1, depth, &l->floor_bytes);
    case BENCH_VERIFY:
        return step_bytes(f, FT_STEP_VERIFY, rows_of(l), depth, &l->floor_bytes);
    case BENCH_DRAFTING:
        if (l->rounds == 0 || l->n_token == 0)
            return FT_OK;
        if (l->steps > 0)
            st = step_bytes(f, FT_STEP_DRAFT, 1, depth, &step);
        if (st == FT_OK)
            st = step_bytes(f, FT_STEP_VERIFY, rows_of(l), depth, &verify);
        l->floor_bytes =
            ((double)l->steps * step + (double)l->rounds * verify) / (double)l->n_token;
        return st;
    case BENCH_SAMPLE: /* the logits of a row, once */
        l->floor_bytes = 4.0 * f->r->info.n_vocab;
        return FT_OK;
    case BENCH_PROMPT:
    case BENCH_N_WHAT:
        break;
    }
    return FT_OK;
}

int bench_floors(bench_report *r, const ft_model *m, const model_args *a)
{
    floors f = {.r = r, .m = m, .a = a};
    ft_status st = FT_OK;
    for (int i = 0; i < r->n_line && st == FT_OK; i++) {
        bench_line *l = &r->line[i];
        st = line_bytes(&f, l);
        l->floor_ms = 1e3 * l->floor_bytes / r->bandwidth;
    }
    return st == FT_OK ? -1 : report_failure("bench", st, &f.err);
}
