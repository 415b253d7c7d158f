/* test_draft_cells_shift.c - readable cells of the draft head when tokens are dropped from the middle, and
 * the ranges that they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "draft/cells.h"

enum { N_CELL = 80 };

/* The state (begin, end, sink_end), by writes alone. */
static cells make_state(int sink, int begin, int end, int sink_end)
{
    cells c;
    cells_init(&c, sink, 16);
    cells_wrote(&c, 0, sink_end);
    if (end > 0)
        cells_wrote(&c, begin, end - begin);
    else
        c = (cells){.sink = sink, .window = 16, .sink_end = sink_end};
    return c;
}

/* Catches a wrong edge: the cell before the gap kept, one behind it lost, a sink that no longer is one. */
static void test_cells_shift_every_position_of_the_gap(void **state)
{
    (void)state;
    static const struct {
        int begin, end, sink_end; /* before */
        int first, n;
        int want_begin, want_end, want_sink;
    } table[] = {
        {0, 50, 8, 20, 5, 20, 45, 8}, /* inside the run: cell 19 is stale, the sink is far */
        {0, 50, 8, 20, 30, 0, 19, 8}, /* up to the end of the run: what stood before it is left */
        {0, 50, 8, 20, 40, 0, 19, 8}, /* and past it */
        {0, 50, 8, 50, 5, 0, 49, 8},  /* directly behind: the pair with the token that is gone */
        {0, 50, 8, 51, 5, 0, 50, 8},  /* behind the run: all stays */
        {0, 50, 8, 0, 5, 0, 45, 8},   /* from the start: the run moves, and holds the sink again */
        {0, 50, 8, 0, 49, 0, 1, 1},   /* all but one */
        {0, 50, 8, 0, 50, 0, 0, 0},   /* all */
        {0, 50, 8, 1, 5, 1, 45, 0},   /* cell 0 is stale: no sink */
        {0, 50, 8, 4, 5, 4, 45, 3},   /* inside the sink */
        {0, 50, 8, 8, 5, 8, 45, 7},   /* at its end */
        {0, 50, 8, 9, 5, 9, 45, 8},   /* one behind it */
        {30, 50, 8, 10, 15, 15, 35, 8}, /* in the hole: the run moves as it is */
        {30, 50, 8, 10, 20, 10, 30, 8}, /* up to the run */
        {30, 50, 8, 10, 25, 10, 25, 8}, /* into it */
        {30, 50, 8, 30, 5, 30, 45, 8},  /* its first cells */
        {30, 50, 8, 31, 5, 31, 45, 8},  /* its first cell stays out, as the pair is gone */
        {30, 50, 8, 0, 3, 27, 47, 5},   /* sink and run move, apart */
        {30, 50, 8, 0, 8, 22, 42, 0},   /* the sink is gone */
        {30, 50, 8, 0, 30, 0, 20, 8},   /* the run comes to the start: it holds a sink */
        {0, 0, 6, 3, 2, 0, 0, 2},       /* no run: a sink alone */
        {0, 0, 6, 0, 2, 0, 0, 4},       {30, 50, 8, 40, 0, 30, 50, 8}, /* nothing dropped */
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        cells c = make_state(8, table[i].begin, table[i].end, table[i].sink_end);
        cells_shift(&c, table[i].first, table[i].n);
        if (c.begin != table[i].want_begin || c.end != table[i].want_end ||
            c.sink_end != table[i].want_sink || c.n_chain != 0)
            fail_msg("case %zu: run %d to %d, sink %d", i, c.begin, c.end, c.sink_end);
        assert_true(cells_valid(&c, N_CELL));
    }
}

/* Catches a cell called readable that holds another pair than the shorter text has there: all states and gaps
 * of a small text, against the pairs themselves. */
static void test_cells_shift_leaves_only_pairs_of_the_new_text(void **state)
{
    (void)state;
    enum { N = 12, SINK = 4 };
    for (int sink_end = 0; sink_end <= SINK; sink_end++)
        for (int begin = 0; begin <= N; begin++)
            for (int end = begin; end <= N; end++) {
                if ((begin > 0 && end == begin) || (end > 0 && sink_end > end))
                    continue;
                cells was = make_state(SINK, begin, end, sink_end);
                for (int first = 0; first <= N; first++)
                    for (int n = 1; n <= N - first; n++) {
                        cells c = was;
                        cells_range r[2];
                        bool readable[N + 1] = {false};
                        int n_range = cells_ranges(&was, r);
                        for (int k = 0; k < n_range; k++)
                            for (int i = 0; i < r[k].n; i++)
                                readable[r[k].first + i] = true;
                        cells_shift(&c, first, n);
                        n_range = cells_ranges(&c, r);
                        for (int k = 0; k < n_range; k++)
                            for (int i = r[k].first; i < r[k].first + r[k].n; i++) {
                                int from = i >= first ? i + n : i;
                                assert_true(from <= N && readable[from] && i != first - 1);
                            }
                        if (was.end > first + n) /* the newest cells are never given up */
                            assert_int_equal(c.end, was.end - n);
                    }
            }
}

/* Catches ranges that overlap, or leave out cells: what cells_readable lists for the newest cell is in them. */
static void test_cells_ranges_are_the_readable_cells_once(void **state)
{
    (void)state;
    static const struct {
        int begin, end, sink_end, n;
        cells_range want[2];
    } table[] = {
        {0, 0, 0, 0, {{0, 0}}},     {0, 9, 8, 1, {{0, 9}}},
        {0, 3, 3, 1, {{0, 3}}},     {30, 50, 8, 2, {{0, 8}, {30, 20}}},
        {30, 50, 0, 1, {{30, 20}}}, {0, 0, 5, 1, {{0, 5}}},
    };
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        cells c = make_state(8, table[i].begin, table[i].end, table[i].sink_end);
        cells_range r[2];
        assert_int_equal(cells_ranges(&c, r), table[i].n);
        assert_memory_equal(r, table[i].want, (size_t)table[i].n * sizeof *r);
        int last = table[i].n ? r[table[i].n - 1].first + r[table[i].n - 1].n : 0;
        assert_int_equal(cells_end(&c), last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_shift_every_position_of_the_gap),
        cmocka_unit_test(test_cells_shift_leaves_only_pairs_of_the_new_text),
        cmocka_unit_test(test_cells_ranges_are_the_readable_cells_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
