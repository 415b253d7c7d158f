/* cells.c - the readable cells of the draft head. Invariants: cells.h. */
#include "draft/cells.h"

#include <assert.h>

static int32_t min_i32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t max_i32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static bool settings_valid(const cells *c)
{
    return c->sink >= 0 && c->sink <= CELLS_SINK_MAX && c->window >= 0;
}

static bool run_valid(const cells *c)
{
    return c->begin == 0 ? c->end >= 0 : c->begin > 0 && c->begin < c->end; /* invariant 1 */
}

static bool sink_valid(const cells *c)
{
    if (c->sink_end < 0 || c->sink_end > c->sink) /* invariant 2 */
        return false;
    if (c->end == 0)
        return true;
    return c->sink_end < c->begin || c->sink_end == min_i32(c->sink, c->end); /* invariant 3 */
}

static bool chain_valid(const cells *c)
{
    return c->n_chain >= 0 && (c->n_chain == 0 || c->end > 0) &&
           c->n_chain <= INT32_MAX - c->end; /* invariant 4 */
}

static bool valid(const cells *c)
{
    return settings_valid(c) && run_valid(c) && sink_valid(c) && chain_valid(c);
}

void cells_init(cells *c, int sink, int window)
{
    *c = (cells){.sink = sink, .window = window};
    assert(valid(c));
}

void cells_clear(cells *c)
{
    cells_truncate(c, 0);
}

void cells_truncate(cells *c, int n)
{
    assert(n >= 0 && valid(c));
    c->n_chain = 0;
    c->end = min_i32(c->end, n);
    if (c->end <= c->begin)
        c->begin = c->end = 0;
    c->sink_end = min_i32(c->sink_end, n);
    assert(valid(c));
}

void cells_wrote(cells *c, int first, int n)
{
    assert(first >= 0 && n >= 0 && n <= INT32_MAX - first);
    cells_truncate(c, first); /* first: a write past the end must not hide stale cells before it */
    if (n == 0)
        return;
    if (c->end != first)
        c->begin = first; /* a gap, or no run: it starts again */
    c->end = first + n;
    if (c->sink_end == first)
        c->sink_end = min_i32(c->sink, c->end);
    assert(valid(c));
}

void cells_chained(cells *c, int cell)
{
    assert(c->end > 0 && cell == c->end + c->n_chain);
    c->n_chain++;
    assert(valid(c));
}

void cells_chain_end(cells *c)
{
    c->n_chain = 0;
}

int cells_readable(const cells *c, int cell, int32_t *list)
{
    assert(valid(c));
    if (cell < c->begin || cell >= c->end + c->n_chain)
        return 0;
    const int32_t first = max_i32(c->begin, cell - c->window);
    const int32_t n_sink = min_i32(c->sink_end, first);
    int n = 0;
    for (int32_t i = 0; i < n_sink; i++)
        list[n++] = i;
    for (int32_t i = first; i <= cell; i++)
        list[n++] = i;
    return n;
}

int cells_end(const cells *c)
{
    return max_i32(c->end, c->sink_end);
}

int cells_ranges(const cells *c, cells_range out[2])
{
    assert(valid(c));
    const int32_t sink = c->end > 0 ? min_i32(c->sink_end, c->begin) : c->sink_end;
    int n = 0;
    if (sink > 0)
        out[n++] = (cells_range){.first = 0, .n = sink};
    if (c->end > 0)
        out[n++] = (cells_range){.first = c->begin, .n = c->end - c->begin};
    return n;
}

void cells_shift(cells *c, int first, int n)
{
    assert(valid(c) && first >= 0 && n >= 0 && n <= INT32_MAX - first);
    if (n == 0)
        return;
    const cells was = *c;
    cells_truncate(c, max_i32(first - 1, 0));
    if (first == 0)
        c->sink_end = max_i32(was.sink_end - n, 0);
    if (was.end <= first + n)
        return; /* of the run nothing stood behind */
    c->begin = max_i32(was.begin - n, first);
    c->end = was.end - n;
    if (c->sink_end >= c->begin)
        c->sink_end = min_i32(c->sink, c->end);
    assert(valid(c));
}

int cells_list_max(const cells *c, int n_cell)
{
    const int64_t most = (int64_t)c->sink + c->window + 1;
    return most < n_cell ? (int)most : n_cell;
}

int cells_plan(const cells *c, int first, int n, int total, cells_range out[2])
{
    assert(valid(c) && first >= 0 && n >= 0 && n <= INT32_MAX - first);
    assert(c->end <= first); /* else stale cells would stay readable where nothing is encoded */
    const int32_t end = first + n;
    const int32_t last = max_i32(total, end);
    const int32_t tail = min_i32(end, max_i32(first, last - c->window - 1));
    const bool sink_goes_on = c->sink_end == first; /* cells behind a hole are no sink */
    const int32_t sink = sink_goes_on ? min_i32(end, max_i32(first, c->sink)) : first;

    int n_out = 0;
    if (sink >= tail) { /* they touch */
        if (n > 0)
            out[n_out++] = (cells_range){.first = first, .n = n};
        return n_out;
    }
    if (sink > first)
        out[n_out++] = (cells_range){.first = first, .n = sink - first};
    if (tail < end)
        out[n_out++] = (cells_range){.first = tail, .n = end - tail};
    return n_out;
}

bool cells_valid(const cells *c, int n_cell)
{
    return valid(c) && c->end <= n_cell - c->n_chain && c->sink_end <= n_cell;
}

bool cells_restore(cells *c, const cells *saved, int n_cell)
{
    if (!cells_valid(saved, n_cell))
        return false;
    c->begin = saved->begin;
    c->end = saved->end;
    c->n_chain = 0;
    /* The saved sink may have been shorter or longer than c's. */
    const bool reaches_run = c->end > 0 && saved->sink_end >= c->begin;
    c->sink_end = min_i32(c->sink, reaches_run ? c->end : saved->sink_end);
    assert(valid(c));
    return true;
}

bool cells_equal(const cells *a, const cells *b)
{
    return a->sink == b->sink && a->window == b->window && a->begin == b->begin &&
           a->end == b->end && a->sink_end == b->sink_end && a->n_chain == b->n_chain;
}

uint64_t cells_digest(const cells *c)
{
    const int32_t field[] = {c->sink, c->window, c->begin, c->end, c->sink_end, c->n_chain};
    uint64_t h = 0xcbf29ce484222325; /* FNV-1a, a field at a time */
    for (size_t i = 0; i < ARRAY_LEN(field); i++)
        h = (h ^ (uint32_t)field[i]) * 0x100000001b3;
    return h;
}
