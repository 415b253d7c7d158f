/* run.c - what the parts of a forward call share: scratch rows, and the reports of stages. */
#include "layer/run.h"

#include <assert.h>
#include <stdio.h>

float *run_take(run *r, int n_row, int n_col)
{
    float *p = arena_take(r->a, (size_t)n_row * (size_t)n_col * sizeof(float));
    assert(p || n_row * n_col == 0);
    return p;
}

int32_t *run_take_int(run *r, int n_row, int n_col)
{
    int32_t *p = arena_take(r->a, (size_t)n_row * (size_t)n_col * sizeof(int32_t));
    assert(p || n_row * n_col == 0);
    return p;
}

be_act run_act(run *r, const float *x, int n_row, int n_col)
{
    void *q8 = arena_take(r->a, be_act_bytes(n_row, n_col));
    assert(q8);
    return be_act_of(x, n_row, n_col, q8);
}

size_t take_cost(int n_row, int n_col)
{
    return arena_cost((size_t)n_row * (size_t)n_col * sizeof(float));
}

size_t act_cost(int n_row, int n_col)
{
    return arena_cost(be_act_bytes(n_row, n_col));
}

static void stage(const run *r, const char *what, const void *rows, bool is_int, int n_row,
                  int n_col)
{
    if (!r->b->stage)
        return;
    char name[64];
    if (r->i_layer < 0)
        snprintf(name, sizeof name, "stage_%s", what);
    else
        snprintf(name, sizeof name, "stage_L%d.%s", r->i_layer, what);
    r->b->stage(r->b->stage_ctx, name, rows, is_int, n_row, n_col);
}

void run_stage(const run *r, const char *what, const float *rows, int n_row, int n_col)
{
    stage(r, what, rows, false, n_row, n_col);
}

void run_stage_int(const run *r, const char *what, const int32_t *rows, int n_row, int n_col)
{
    stage(r, what, rows, true, n_row, n_col);
}
