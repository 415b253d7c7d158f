/* The readable cells of the draft head: each operation, and all of them against a plain model of
 * sets. What the cells really hold: test_draft_cells_walk.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "draft/cells.h"

#define N_CELL 16384 /* cells of the memory in all tests */

static int32_t list_buf[N_CELL];

static cells make(int sink, int window)
{
    cells c;
    cells_init(&c, sink, window);
    return c;
}

/* The list of a cell is [0, n_sink) and [first, cell]; n_sink 0 and first > cell: empty. */
static void expect_list(const cells *c, int cell, int n_sink, int first)
{
    int n = cells_readable(c, cell, list_buf);
    assert_int_equal(n, n_sink + cell + 1 - first);
    assert_true(n <= cells_list_max(c, N_CELL));
    for (int i = 0; i < n; i++)
        assert_int_equal(list_buf[i], i < n_sink ? i : first + i - n_sink);
}

static void expect_none(const cells *c, int cell)
{
    expect_list(c, cell, 0, cell + 1);
}

static void expect_state(const cells *c, int begin, int end, int sink_end)
{
    assert_int_equal(c->begin, begin);
    assert_int_equal(c->end, end);
    assert_int_equal(c->sink_end, sink_end);
    assert_int_equal(c->n_chain, 0);
    assert_true(cells_valid(c, N_CELL));
}

/* ---- Operations ------------------------------------------------------------------------------- */

/* A fresh memory taken for readable: zero keys still take their share of the softmax. */
static void test_cells_fresh_read_nothing(void **state)
{
    (void)state;
    cells c = make(64, 256);
    expect_state(&c, 0, 0, 0);
    expect_none(&c, 0);
    expect_none(&c, 5);
    expect_none(&c, -1);
}

typedef struct {
    int begin, end, sink_end; /* before: made by writes */
    int first, n;             /* the write */
    int want_begin, want_end, want_sink;
} write_case;

/* The state (begin, end, sink_end), by writes alone. */
static cells make_state(int sink, int window, int begin, int end, int sink_end)
{
    cells c = make(sink, window);
    cells_wrote(&c, 0, sink_end);
    cells_wrote(&c, begin, end - begin);
    return c;
}

/* A wrong edge of wrote: a run that does not grow, grows over a hole, or keeps stale cells. */
static void test_cells_wrote_every_position_gives_run_and_sink(void **state)
{
    (void)state;
    static const write_case table[] = {
        {0, 0, 0, 0, 10, 0, 10, 8},           /* the first write */
        {0, 0, 0, 0, 1, 0, 1, 1},             /* one cell */
        {0, 0, 0, 3, 4, 3, 7, 0},             /* a start behind a hole is no sink */
        {0, 5, 5, 5, 1, 0, 6, 6},             /* extends run and sink */
        {0, 5, 5, 5, 9, 0, 14, 8},            /* the sink ends where the setting says */
        {0, 5, 5, 6, 2, 6, 8, 5},             /* a gap of one: run again, sink stays */
        {0, 20, 8, 12, 3, 0, 15, 8},          /* rewinds inside the run */
        {0, 20, 8, 4, 2, 0, 6, 6},            /* rewinds into the sink */
        {0, 20, 8, 0, 2, 0, 2, 2},            /* rewinds to the start */
        {30, 50, 8, 30, 5, 30, 35, 8},        /* rewinds to the start of the run */
        {30, 50, 8, 29, 5, 29, 34, 8},        /* before it: only the write is left */
        {30, 50, 8, 3, 2, 3, 5, 5},           /* and into the sink */
        {30, 50, 4, 4, 1, 4, 5, 5},           /* the sink's next cell */
        {30, 50, 4, 5, 9, 5, 14, 4},          /* not the next one */
        {30, 50, 8, 50, 1, 30, 51, 8},        /* the common step */
        {30, 50, 8, 1000, 24, 1000, 1024, 8}, /* far ahead */
        {30, 50, 8, 40, 0, 30, 40, 8},        /* no cells: a truncation */
        {30, 50, 8, 60, 0, 30, 50, 8},        /* no cells, nothing stale */
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const write_case *t = &table[i];
        cells c = make_state(8, 16, t->begin, t->end, t->sink_end);
        expect_state(&c, t->begin, t->end, t->sink_end);
        cells_wrote(&c, t->first, t->n);
        expect_state(&c, t->want_begin, t->want_end, t->want_sink);
    }
}

/* A rollback that leaves a rejected cell readable. */
static void test_cells_truncate_drops_what_is_past(void **state)
{
    (void)state;
    static const struct {
        int n, begin, end, sink_end;
    } table[] = {{51, 30, 50, 8}, {50, 30, 50, 8}, {49, 30, 49, 8}, {31, 30, 31, 8}, {30, 0, 0, 8},
                 {9, 0, 0, 8},    {8, 0, 0, 8},    {7, 0, 0, 7},    {1, 0, 0, 1},    {0, 0, 0, 0}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        cells c = make_state(8, 16, 30, 50, 8);
        cells_truncate(&c, table[i].n);
        expect_state(&c, table[i].begin, table[i].end, table[i].sink_end);
        expect_none(&c, table[i].n);
    }
}

/* An earlier conversation's cells read by the next one. */
static void test_cells_clear_keeps_settings_only(void **state)
{
    (void)state;
    cells c = make_state(8, 16, 30, 50, 8);
    cells_chained(&c, 50);
    cells_clear(&c);
    cells fresh = make(8, 16);
    assert_true(cells_equal(&c, &fresh));
}

/* The three limits of the window: its length, the run's start, the sink that it would read twice. */
static void test_cells_readable_is_sink_and_window(void **state)
{
    (void)state;
    cells c = make_state(64, 256, 0, 1000, 64);
    expect_list(&c, 0, 0, 0);
    expect_list(&c, 63, 0, 0);
    expect_list(&c, 256, 0, 0); /* the window begins at 0: no sink apart */
    expect_list(&c, 257, 1, 1);
    expect_list(&c, 300, 44, 44); /* sink and window touch */
    expect_list(&c, 320, 64, 64);
    expect_list(&c, 321, 64, 65);
    expect_list(&c, 999, 64, 743);
    expect_none(&c, 1000);

    c = make_state(64, 256, 500, 1000, 20); /* a short sink, a late run */
    expect_list(&c, 500, 20, 500);
    expect_list(&c, 756, 20, 500);
    expect_list(&c, 757, 20, 501);
    expect_none(&c, 499);
    expect_none(&c, 10); /* a sink cell has no step of its own */
}

/* Sink off, window 0, and the window that holds everything. */
static void test_cells_readable_at_the_ends_of_the_settings(void **state)
{
    (void)state;
    cells c = make_state(0, 256, 0, 1000, 0);
    expect_list(&c, 999, 0, 743);
    c = make_state(64, 0, 0, 1000, 64);
    expect_list(&c, 999, 64, 999);
    assert_int_equal(cells_list_max(&c, N_CELL), 65);
    c = make_state(64, CELLS_ALL, 0, 1000, 64);
    expect_list(&c, 999, 0, 0);
    c = make_state(64, CELLS_ALL, 500, 1000, 64);
    expect_list(&c, 999, 64, 500);
    assert_int_equal(cells_list_max(&c, N_CELL), N_CELL);
    c = make(CELLS_SINK_MAX, CELLS_WINDOW_DEFAULT);
    cells_wrote(&c, 0, N_CELL);
    expect_list(&c, N_CELL - 1, 1024, N_CELL - 257);
    assert_int_equal(cells_list_max(&c, N_CELL), 1024 + 257);
    c = make(CELLS_SINK_DEFAULT, CELLS_WINDOW_DEFAULT);
    assert_int_equal(cells_list_max(&c, N_CELL), 321);
}

/* A rejected draft's cell read after its round, or a step of the chain blind to the one before. */
static void test_cells_chain_is_readable_until_the_next_operation(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        cells c = make_state(64, 256, 0, 500, 64), before = c;
        cells_chained(&c, 500);
        expect_list(&c, 500, 64, 244);
        cells_chained(&c, 501);
        cells_chained(&c, 502);
        expect_list(&c, 502, 64, 246);
        expect_none(&c, 503);
        assert_false(cells_equal(&c, &before));
        if (how == 0)
            cells_chain_end(&c);
        if (how == 1)
            cells_truncate(&c, 500);
        if (how == 2)
            cells_truncate(&c, 503); /* even one that drops no cell of the run */
        if (how < 3) {
            assert_true(cells_equal(&c, &before));
        } else {
            cells_wrote(&c, 500, 2); /* caught up: two of the three, now the trunk's own */
            expect_state(&c, 0, 502, 64);
        }
        expect_none(&c, 502);
    }
}

/* B069: a second chained step at the position of the first. B067: two counts that disagree. */
static void test_cells_chain_positions_rise_and_unknown_cells_read_nothing(void **state)
{
    (void)state;
    cells c = make_state(64, 256, 0, 500, 64);
    for (int i = 0; i < 8; i++) {
        expect_none(&c, 500 + i); /* before it is recorded: the caller must not run the step */
        cells_chained(&c, 500 + i);
        expect_list(&c, 500 + i, 64, 244 + i);
    }
}

/* ---- Against sets ----------------------------------------------------------------------------- */

#define N_SET 96

/* The same rules as sets of cells, a flag per cell. */
typedef struct {
    bool run[N_SET], sink[N_SET], chain[N_SET];
    int n_sink, window;
} set_model;

static void set_truncate(set_model *m, int n)
{
    for (int i = 0; i < N_SET; i++) {
        m->chain[i] = false;
        m->run[i] = m->run[i] && i < n;
        m->sink[i] = m->sink[i] && i < n;
    }
}

static void set_wrote(set_model *m, int first, int n)
{
    set_truncate(m, first);
    if (n > 0 && (first == 0 || !m->run[first - 1]))
        memset(m->run, 0, sizeof m->run);
    bool whole = true; /* every cell before is of the sink */
    for (int i = 0; i < first; i++)
        whole = whole && m->sink[i];
    for (int i = first; i < first + n; i++) {
        m->run[i] = true;
        m->sink[i] = whole && i < m->n_sink;
    }
}

static int set_readable(const set_model *m, int cell, int32_t *list)
{
    int n = 0;
    if (!m->run[cell] && !m->chain[cell])
        return 0;
    for (int i = 0; i <= cell; i++) {
        bool near = i >= cell - m->window && (m->run[i] || m->chain[i]);
        if (m->sink[i] || near)
            list[n++] = i;
    }
    return n;
}

static uint64_t rng_state;

static int rng(int n) /* 0 .. n - 1 */
{
    uint64_t z = rng_state += 0x9e3779b97f4a7c15; /* splitmix64 */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (int)((z ^ (z >> 31)) % (uint64_t)n);
}

static void set_step(set_model *m, cells *c)
{
    int what = rng(8);
    int first = rng(3) ? (c->end < N_SET ? c->end : 0) : rng(N_SET);
    int n = rng(rng(3) ? 4 : N_SET - first + 1);
    n = n < N_SET - first ? n : N_SET - first;
    if (what == 0) {
        cells_truncate(c, first);
        set_truncate(m, first);
    } else if (what == 1 && rng(6) == 0) {
        cells_clear(c);
        set_truncate(m, 0);
    } else if (what < 5) {
        cells_wrote(c, first, n);
        set_wrote(m, first, n);
    } else if (what == 5) {
        cells_chain_end(c);
        memset(m->chain, 0, sizeof m->chain);
    } else if (c->end > 0 && c->end + c->n_chain < N_SET) {
        int cell = c->end + c->n_chain;
        cells_chained(c, cell);
        m->chain[cell] = true;
    }
}

/* Any sequence of operations that three counts describe otherwise than sets would. */
static void test_cells_random_operations_match_sets(void **state)
{
    (void)state;
    static const int sinks[] = {0, 1, 7, 40, 96}, windows[] = {0, 1, 5, 30, CELLS_ALL};
    int32_t want[N_SET], got[N_SET];
    for (int setting = 0; setting < 25; setting++) {
        rng_state = (uint64_t)setting;
        set_model m = {.n_sink = sinks[setting / 5], .window = windows[setting % 5]};
        cells c = make(m.n_sink, m.window);
        for (int step = 0; step < 600; step++) {
            set_step(&m, &c);
            assert_true(cells_valid(&c, N_SET));
            for (int cell = 0; cell < N_SET; cell++) {
                int n = set_readable(&m, cell, want);
                assert_int_equal(cells_readable(&c, cell, got), n);
                assert_true(n <= cells_list_max(&c, N_SET));
                assert_memory_equal(got, want, (size_t)n * sizeof want[0]);
            }
        }
    }
}

/* ---- Prompts in chunks ------------------------------------------------------------------------ */

/* Encode a prompt of n cells from first on in chunks; the number of cells encoded. */
static int stream(cells *c, int first, int n, int chunk, bool total_known)
{
    int n_encoded = 0;
    cells_truncate(c, first);
    for (int at = first; at < first + n; at += chunk) {
        cells_range r[2];
        int n_row = first + n - at < chunk ? first + n - at : chunk;
        int n_range = cells_plan(c, at, n_row, total_known ? first + n : 0, r);
        assert_in_range(n_range, 0, 2);
        assert_true(n_range < 2 || r[0].first + r[0].n < r[1].first); /* apart: else one call */
        for (int i = 0; i < n_range; i++) {
            assert_true(r[i].n > 0 && r[i].first >= at && r[i].first + r[i].n <= at + n_row);
            cells_wrote(c, r[i].first, r[i].n);
            n_encoded += r[i].n;
        }
    }
    return n_encoded;
}

/* B076, B079: drafter primed with the last chunk only, which has 224 of the 256 rows. */
static void test_cells_plan_of_12000_in_chunks_of_512_leaves_a_whole_window(void **state)
{
    (void)state;
    for (int known = 0; known < 2; known++) {
        cells c = make(64, 256);
        int n_encoded = stream(&c, 0, 12000, 512, known);
        assert_true(c.end == 12000 && c.begin <= 12000 - 256 && c.sink_end == 64);
        if (known)
            assert_int_equal(n_encoded, 64 + 257); /* and not a row more */
        cells_wrote(&c, 12000, 1);                 /* draft 0 */
        expect_list(&c, 12000, 64, 12000 - 256);
    }
}

/* B075, B076, B077, B078: lengths and chunks for which a hole is left, or the sink is cut short. */
static void test_cells_plan_of_any_length_and_chunk_leaves_no_hole(void **state)
{
    (void)state;
    static const int lengths[] = {1, 2, 10, 11, 12, 31, 32, 33, 40, 41, 42, 43, 64, 65, 97, 200};
    static const int chunks[] = {1, 2, 3, 7, 10, 31, 32, 33, 64, 199, 200, 512};
    for (size_t l = 0; l < sizeof lengths / sizeof lengths[0]; l++) {
        for (size_t k = 0; k < sizeof chunks / sizeof chunks[0]; k++) {
            for (int known = 0; known < 2; known++) {
                cells c = make(10, 30), whole = make(10, 30);
                const int n = lengths[l];
                int n_encoded = stream(&c, 0, n, chunks[k], known);
                cells_wrote(&whole, 0, n);
                assert_int_equal(c.sink_end, whole.sink_end);
                if (known)
                    assert_true(n_encoded <= 10 + 31);
                for (int cell = n; cell < n + 40; cell++) { /* as if all had been encoded */
                    cells_wrote(&c, cell, 1);
                    cells_wrote(&whole, cell, 1);
                    int n_list = cells_readable(&whole, cell, list_buf);
                    assert_int_equal(cells_readable(&c, cell, list_buf + n_list), n_list);
                    assert_memory_equal(list_buf, list_buf + n_list, (size_t)n_list * 4);
                }
            }
        }
    }
}

/* A second turn that starts the run again though it could go on, or a sink that is mended over a
 * hole. */
static void test_cells_plan_of_a_later_turn_continues_what_is_there(void **state)
{
    (void)state;
    cells_range r[2];
    cells c = make_state(64, 256, 0, 1000, 64);
    assert_int_equal(stream(&c, 1000, 100, 512, true), 100);
    expect_state(&c, 0, 1100, 64);
    assert_int_equal(stream(&c, 1100, 5000, 512, true), 257);
    expect_state(&c, 6100 - 257, 6100, 64);

    c = make_state(64, 256, 20, 30, 5); /* cells 5 .. 19 were never encoded */
    assert_int_equal(cells_plan(&c, 30, 500, 5000, r), 0);
    c = make_state(64, 256, 0, 30, 30); /* the sink's other half is to come */
    assert_int_equal(cells_plan(&c, 30, 500, 5000, r), 1);
    assert_int_equal(r[0].first, 30);
    assert_int_equal(r[0].n, 34);
    assert_int_equal(cells_plan(&c, 30, 0, 5000, r), 0);
    c = make(64, CELLS_ALL);
    assert_int_equal(stream(&c, 0, 5000, 512, true), 5000);
}

/* B064: the size of the memory must not show in what is read. */
static void test_cells_lists_do_not_depend_on_the_size_of_the_memory(void **state)
{
    (void)state;
    cells c = make_state(64, 256, 0, 1000, 64);
    for (int n_cell = 1001; n_cell <= N_CELL; n_cell += 256)
        assert_true(cells_list_max(&c, n_cell) == 321);
}

/* ---- Copies ----------------------------------------------------------------------------------- */

/* A checkpoint or session file believed whatever it says. */
static void test_cells_valid_refuses_broken_states(void **state)
{
    (void)state;
    static const cells good = {64, 256, 100, 200, 64, 3};
    static const cells bad[] = {
        {-1, 256, 100, 200, 0, 0},
        {1025, 256, 100, 200, 64, 0},
        {64, -1, 100, 200, 64, 0},
        {64, 256, -1, 200, 64, 0},
        {64, 256, 200, 200, 64, 0},
        {64, 256, 201, 200, 64, 0},
        {64, 256, 0, -1, 0, 0},
        {64, 256, 100, 200, -1, 0},
        {64, 256, 100, 200, 65, 0},
        {64, 256, 20, 30, 31, 0},
        {64, 256, 20, 30, 20, 0},
        {64, 256, 0, 30, 0, 0},
        {64, 256, 100, 200, 64, -1},
        {64, 256, 0, 0, 64, 1},
        {64, 256, 100, 200, 64, 101},
        {64, 256, 100, 301, 64, 0},
        {64, 256, 100, 200, 64, INT32_MAX},
        {64, 256, INT32_MIN, INT32_MIN, INT32_MIN, INT32_MIN},
        {INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX},
    };
    assert_true(cells_valid(&good, 203));
    assert_false(cells_valid(&good, 202));
    assert_false(cells_valid(&good, 0));
    cells kept = make_state(8, 16, 30, 50, 8), c = kept;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(cells_valid(&bad[i], 300));
        assert_false(cells_restore(&c, &bad[i], 300));
        assert_true(cells_equal(&c, &kept));
    }
}

/* A session saved under other settings: a sink longer than what was encoded, or too long. */
static void test_cells_restore_goes_by_the_own_settings(void **state)
{
    (void)state;
    cells saved = make_state(64, 256, 100, 200, 64);
    cells_chained(&saved, 200);
    cells c = make(64, 256);
    assert_true(cells_restore(&c, &saved, N_CELL));
    expect_state(&c, 100, 200, 64); /* the chain stays behind */
    c = make(16, 30);
    assert_true(cells_restore(&c, &saved, N_CELL));
    expect_state(&c, 100, 200, 16);
    c = make(200, 30);
    assert_true(cells_restore(&c, &saved, N_CELL));
    expect_state(&c, 100, 200, 64); /* cells 64 .. 99 were not encoded */
    saved = make_state(64, 256, 0, 150, 64);
    assert_true(cells_restore(&c, &saved, N_CELL));
    expect_state(&c, 0, 150, 150); /* here they were */
    saved = make_state(64, 256, 0, 0, 0);
    assert_true(cells_restore(&c, &saved, N_CELL));
    expect_state(&c, 0, 0, 0);
}

/* B067: a digest that does not see a part of the state. */
static void test_cells_digest_sees_every_field(void **state)
{
    (void)state;
    const cells base = {64, 256, 100, 200, 64, 3};
    cells same = base;
    assert_true(cells_equal(&base, &same));
    assert_true(cells_digest(&base) == cells_digest(&same));
    for (size_t i = 0; i < sizeof base / sizeof(int32_t); i++) {
        int32_t field[sizeof base / sizeof(int32_t)];
        memcpy(field, &base, sizeof base);
        field[i]++;
        memcpy(&same, field, sizeof base);
        assert_false(cells_equal(&base, &same));
        assert_true(cells_digest(&base) != cells_digest(&same));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells_fresh_read_nothing),
        cmocka_unit_test(test_cells_wrote_every_position_gives_run_and_sink),
        cmocka_unit_test(test_cells_truncate_drops_what_is_past),
        cmocka_unit_test(test_cells_clear_keeps_settings_only),
        cmocka_unit_test(test_cells_readable_is_sink_and_window),
        cmocka_unit_test(test_cells_readable_at_the_ends_of_the_settings),
        cmocka_unit_test(test_cells_chain_is_readable_until_the_next_operation),
        cmocka_unit_test(test_cells_chain_positions_rise_and_unknown_cells_read_nothing),
        cmocka_unit_test(test_cells_random_operations_match_sets),
        cmocka_unit_test(test_cells_plan_of_12000_in_chunks_of_512_leaves_a_whole_window),
        cmocka_unit_test(test_cells_plan_of_any_length_and_chunk_leaves_no_hole),
        cmocka_unit_test(test_cells_plan_of_a_later_turn_continues_what_is_there),
        cmocka_unit_test(test_cells_lists_do_not_depend_on_the_size_of_the_memory),
        cmocka_unit_test(test_cells_valid_refuses_broken_states),
        cmocka_unit_test(test_cells_restore_goes_by_the_own_settings),
        cmocka_unit_test(test_cells_digest_sees_every_field),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
