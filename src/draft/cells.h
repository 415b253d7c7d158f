/* cells.h - which K/V cells of the draft head may be read. Nothing else decides it.
 *
 * Cell c belongs to the pair (hidden of token c, token c + 1) of a conversation. The drafter does not
 * encode every pair, and cells hold what earlier conversations, rejected drafts and shorter prefixes
 * left in them, so what may be read is tracked: a run of cells up to the newest one, and a sink of
 * the first ones. Both hold only cells that were encoded, from the trunk's own hiddens, for the
 * tokens that the conversation has now.
 *
 *        sink                           run            chain
 *     |======|..........................|==============|~~~~~|.........
 *     0      sink_end               begin            end     end + n_chain
 *
 * 1. 0 <= begin < end, or both are 0: no run.
 * 2. 0 <= sink_end <= sink.
 * 3. With a run: sink_end <= end, and sink_end == min(sink, end) when the sink reaches the run
 *    (sink_end >= begin). So one state has one form, and two can be compared.
 * 4. n_chain >= 0, and 0 without a run. The chain's cells lie directly behind the run; they were
 *    written from the drafter's own hiddens and are read by later steps of the same round alone.
 *
 * Not known here: the K/V memory itself, tokens, models. A cells is plain data: a checkpoint copies
 * it. It tells the truth about the memory as long as no cell below its ends was written since, so a
 * checkpoint keeps the pages beside it, which nobody writes then.
 */
#ifndef DRAFT_CELLS_H
#define DRAFT_CELLS_H

#include "base/compiler.h"

#define CELLS_SINK_DEFAULT   64
#define CELLS_SINK_MAX       1024
#define CELLS_WINDOW_DEFAULT 256
#define CELLS_ALL            INT32_MAX /* a window that holds every earlier cell */

typedef struct cells {
    int32_t sink;       /* setting: cells 0 .. sink - 1 may be a sink; 0: none */
    int32_t window;     /* setting: a step reads this many cells before its own */
    int32_t begin, end; /* the run */
    int32_t sink_end;
    int32_t n_chain;
} cells;

/* Nothing is readable. sink 0 .. CELLS_SINK_MAX, window 0 .. CELLS_ALL: the caller has checked. */
void cells_init(cells *c, int sink, int window);
/* A new conversation: nothing is readable any more. Settings stay. */
void cells_clear(cells *c);

/* n >= 0 cells from first on now hold committed pairs. Whatever was at or past first before is stale,
 * the chain too. n = 0 is cells_truncate(c, first). */
void cells_wrote(cells *c, int first, int n);
/* Cells at or past n, and the chain, are stale: a rollback, a shorter prefix. */
void cells_truncate(cells *c, int n);

/* A step of the chain writes this cell: the one behind the run and the chain so far. */
void cells_chained(cells *c, int cell);
/* The round is over. (Any write, truncation or clearing of cells says so as well.) */
void cells_chain_end(cells *c);

/* The cells that the step of a cell reads, its own included, which must have been recorded before:
 * [0, min(sink_end, first)) and [first, cell], where first = max(begin, cell - window).
 *
 * list     out, [cells_list_max()] ids, ascending, each once.
 * Returns  how many; 0 when the cell is neither in the run nor in the chain: the caller's counts
 *          disagree with what was recorded, and the step must not be run. */
int cells_readable(const cells *c, int cell, int32_t *list);
/* Most ids of a list, for a memory of n_cell cells. */
int cells_list_max(const cells *c, int n_cell);

typedef struct {
    int32_t first, n;
} cells_range;

/* Behind the last readable cell, the chain left out; 0: there is none. */
int cells_end(const cells *c);
/* The readable cells but the chain as ranges, ascending and apart. Returns how many, 0 .. 2. */
int cells_ranges(const cells *c, cells_range out[2]);

/* The n tokens first .. first + n - 1 are dropped, and what stood behind them moves down by n. A cell behind
 * them moves too; cell first - 1 is stale, for it holds the pair with a token that is gone. The chain
 * ends. What moves, and where to, is what cells_ranges then says of cells from first on. */
void cells_shift(cells *c, int first, int n);

/* Which cells of a prompt's chunk to encode, while the trunk's hiddens of the chunk are there: those
 * that extend the sink, and those that the prompt's last cell will read, itself included: the last
 * window + 1. (If that one still waits for its token and is not counted in total, the one behind
 * reads them too, and one is to spare.)
 *
 * first, n  the chunk's cells. All before it has been recorded; cells at or past first are stale.
 * total     cells that the prompt will have in the end. When that is unknown, 0: the chunk is taken
 *           for the last one, which encodes more but never leaves a hole behind a short last chunk.
 * out       out, ascending and apart; cells_wrote is to be called for each when it is encoded.
 * Returns   how many ranges, 0 .. 2. */
int cells_plan(const cells *c, int first, int n, int total, cells_range out[2]);

/* Take over what a checkpoint or session file says is readable, under c's own settings, without its
 * chain. False, and c is unchanged, when saved is not valid for a memory of n_cell cells. */
bool cells_restore(cells *c, const cells *saved, int n_cell) MUST_CHECK;
/* The invariants hold, the settings are in range, and no cell is past n_cell. For foreign bytes. */
bool cells_valid(const cells *c, int n_cell);

/* Same settings, same readable cells. */
bool cells_equal(const cells *a, const cells *b);
/* A number for the digest of a conversation's state: equal for equal cells. */
uint64_t cells_digest(const cells *c);

#endif
