/* A long random walk of conversations over the draft head's cells, with a shadow that knows what every
 * cell really holds: no invalid cell is ever read. The naive rule - the window and the sink by position,
 * nothing tracked - walks the same way and reads hundreds of thousands, so the walk can see the fault. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "draft/cells.h"

#define N_CTX        6144
#define N_CELL       (N_CTX + 16)
#define N_ROUND      36000
#define N_CHECKPOINT 4
#define SINK         64
#define WINDOW       256

/* Text is the hash of the tokens so far, the conversation first: text[i] is that of i tokens. */
typedef struct {
    int n_tok;
    uint64_t conversation;
    uint64_t text[N_CTX + 1];
} tokens;

typedef struct {
    int n_tok;
    cells readable;
} checkpoint;

/* One conversation at a time, with everything that outlives it. */
typedef struct {
    uint64_t rng, n_conversation, round;
    tokens t;
    int hidden_from; /* the trunk's hiddens of tokens hidden_from .. n_tok - 1 are at hand */
    cells c;
    uint64_t held[N_CELL]; /* what each cell holds; 0: never written */
    int n_checkpoint;
    checkpoint cp[N_CHECKPOINT];
    bool saved; /* a session file: all of the above that is the conversation's */
    tokens saved_t;
    cells saved_c;
    uint64_t saved_held[N_CELL];
    bool naive;
    uint64_t n_read, n_invalid, n_step, n_refused, n_op[8];
} walk;

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9; /* splitmix64 */
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static int rng(walk *w, int n) /* 0 .. n - 1 */
{
    return (int)(mix(w->rng += 0x9e3779b97f4a7c15) % (uint64_t)n);
}

static bool chance(walk *w, int percent)
{
    return rng(w, 100) < percent;
}

/* ---- What cells hold -------------------------------------------------------------------------- */

/* Cell c encoded from the trunk's hidden of token c and from token c + 1. */
static uint64_t trunk_content(const walk *w, int cell)
{
    return mix(w->t.text[cell + 2]) | 1;
}

/* Cell c encoded in this round from the drafter's own hidden. */
static uint64_t chain_content(const walk *w, int cell)
{
    return mix((w->round << 16) + (uint64_t)cell) << 1 | 0x8000000000000000;
}

static void encode(walk *w, int first, int n)
{
    if (n <= 0)
        return;
    for (int cell = first; cell < first + n; cell++)
        w->held[cell] = trunk_content(w, cell);
    cells_wrote(&w->c, first, n);
}

static int naive_list(int cell, int32_t *list)
{
    int n = 0;
    for (int i = 0; i < SINK && i < cell - WINDOW; i++)
        list[n++] = i;
    for (int i = cell > WINDOW ? cell - WINDOW : 0; i <= cell; i++)
        list[n++] = i;
    return n;
}

/* A step of a cell: committed cells must hold what the trunk and the tokens of now give, the chain's
 * what this round wrote. */
static void step(walk *w, int cell)
{
    int32_t list[SINK + WINDOW + 1];
    int n = w->naive ? naive_list(cell, list) : cells_readable(&w->c, cell, list);
    const int n_committed = w->t.n_tok - 1;
    w->n_step++;
    w->n_read += (uint64_t)n;
    w->n_refused += n == 0;
    for (int i = 0; i < n; i++) {
        uint64_t want =
            list[i] < n_committed ? trunk_content(w, list[i]) : chain_content(w, list[i]);
        w->n_invalid += w->held[list[i]] != want || (i > 0 && list[i] <= list[i - 1]);
    }
}

/* ---- What the trunk does ---------------------------------------------------------------------- */

static void append(walk *w, int n)
{
    for (int i = 0; i < n; i++) {
        uint64_t token = (uint64_t)rng(w, 50);
        w->t.text[w->t.n_tok + 1] = mix(w->t.text[w->t.n_tok] * 31 + token + 1);
        w->t.n_tok++;
    }
}

static void new_conversation(walk *w)
{
    w->t.n_tok = 0;
    w->t.conversation = ++w->n_conversation;
    w->t.text[0] = mix(w->t.conversation);
    w->hidden_from = 0;
    w->n_checkpoint = 0;
    cells_clear(&w->c); /* the memory stays as it is */
}

static void save_checkpoint(walk *w)
{
    if (w->n_checkpoint == N_CHECKPOINT) {
        memmove(w->cp, w->cp + 1, (N_CHECKPOINT - 1) * sizeof w->cp[0]);
        w->n_checkpoint--;
    }
    w->cp[w->n_checkpoint++] = (checkpoint){.n_tok = w->t.n_tok, .readable = w->c};
}

/* Keep the first n tokens; with_hidden: that of the last one is at hand. */
static void keep(walk *w, int n, bool with_hidden)
{
    w->t.n_tok = n;
    w->hidden_from = with_hidden && n > 0 ? n - 1 : n;
    while (w->n_checkpoint > 0 && w->cp[w->n_checkpoint - 1].n_tok > n)
        w->n_checkpoint--;
}

/* ---- Operations ------------------------------------------------------------------------------- */

/* A prompt behind what is there, in chunks; the hidden of a chunk's last token waits for the next. */
static void prompt(walk *w)
{
    static const int longest[] = {20, 200, 700, 5000};
    const int n_new = 1 + rng(w, longest[rng(w, 4)]), chunk = 1 + rng(w, chance(w, 50) ? 64 : 900);
    if (w->t.n_tok + n_new + 1 > N_CTX)
        new_conversation(w);
    const int n_end = w->t.n_tok + n_new < N_CTX ? w->t.n_tok + n_new : N_CTX - 1;
    const bool total_known = chance(w, 50);
    const int cancelled_at = chance(w, 5) ? rng(w, n_end) : n_end;
    while (w->t.n_tok < n_end && w->t.n_tok <= cancelled_at) {
        const int n_chunk = n_end - w->t.n_tok < chunk ? n_end - w->t.n_tok : chunk;
        append(w, n_chunk);
        const int first = w->hidden_from, n = w->t.n_tok - 1 - first;
        cells_range range[2];
        cells_truncate(&w->c, first);
        int n_range = cells_plan(&w->c, first, n, total_known ? n_end - 1 : 0, range);
        for (int i = 0; i < n_range; i++)
            encode(w, range[i].first, range[i].n);
        w->hidden_from = w->t.n_tok - 1;
        if (chance(w, 10))
            save_checkpoint(w);
    }
}

/* The drafter's part of a round: catch up, draft 0, the chain. The token behind is decided. */
static void draft(walk *w, int k)
{
    append(w, 1);
    encode(w, w->hidden_from, w->t.n_tok - 1 - w->hidden_from); /* the last is draft 0's own cell */
    step(w, w->t.n_tok - 2);
    for (int i = 1; i < k; i++) {
        int cell = w->t.n_tok - 2 + i;
        w->held[cell] = chain_content(w, cell);
        cells_chained(&w->c, cell);
        step(w, cell);
    }
    w->hidden_from = w->t.n_tok - 1;
}

/* A round: k drafts of which some are accepted, or none when drafting pauses. */
static void decode(walk *w)
{
    const int k = rng(w, 9);
    if (w->t.n_tok == 0 || w->hidden_from >= w->t.n_tok || w->t.n_tok + k + 2 > N_CTX)
        return; /* no hidden to draft from, or no room */
    w->round++;
    if (k > 0)
        draft(w, k);
    else
        append(w, 1);
    append(w, k > 0 && chance(w, 70) ? rng(w, k + 1) : 0);
    if (chance(w, 20)) /* or the next write or round says it */
        cells_chain_end(&w->c);
    if (w->t.n_tok - w->hidden_from > 24) /* a long pause: the oldest hiddens are dropped */
        w->hidden_from = w->t.n_tok - 8;
}

/* Tokens are taken back, as by a stop text or a changed turn; the hidden of the last may be lost. */
static void rollback(walk *w)
{
    if (w->t.n_tok < 2)
        return;
    const int most = chance(w, 70) && w->t.n_tok > 12 ? 12 : w->t.n_tok;
    const int n = w->t.n_tok - rng(w, most);
    keep(w, n, chance(w, 50));
    cells_truncate(&w->c, n - 1); /* the pair (n - 1, n) has lost its second half */
}

static void restore_checkpoint(walk *w)
{
    if (w->n_checkpoint == 0)
        return;
    const checkpoint cp = w->cp[chance(w, 50) ? w->n_checkpoint - 1 : rng(w, w->n_checkpoint)];
    keep(w, cp.n_tok, true);
    assert_true(cells_restore(&w->c, &cp.readable, N_CELL));
}

static void save_session(walk *w)
{
    w->saved = true;
    w->saved_t = w->t;
    w->saved_c = w->c;
    memcpy(w->saved_held, w->held, sizeof w->held);
}

static void load_session(walk *w)
{
    if (!w->saved)
        return;
    w->t = w->saved_t;
    w->n_checkpoint = 0;
    keep(w, w->t.n_tok, true);
    memcpy(w->held, w->saved_held, sizeof w->held);
    assert_true(cells_restore(&w->c, &w->saved_c, N_CELL));
}

static void one_round(walk *w)
{
    const int dice = rng(w, 1000);
    const int op = dice < 860   ? 0
                   : dice < 900 ? 1
                   : dice < 930 ? 2
                   : dice < 960 ? 3
                   : dice < 975 ? 4
                   : dice < 987 ? 5
                   : dice < 990 ? 6
                                : 7;
    static void (*const act[8])(walk *) = {
        decode,          prompt,           rollback,     restore_checkpoint,
        save_checkpoint, new_conversation, save_session, load_session};
    w->n_op[op]++;
    act[op](w);
    assert_true(cells_valid(&w->c, N_CELL));
}

static walk the_walk;

static const walk *run(uint64_t seed, bool naive)
{
    memset(&the_walk, 0, sizeof the_walk);
    the_walk.rng = mix(seed);
    the_walk.naive = naive;
    cells_init(&the_walk.c, SINK, WINDOW);
    new_conversation(&the_walk);
    for (int i = 0; i < N_ROUND; i++)
        one_round(&the_walk);
    return &the_walk;
}

/* ---- Tests ------------------------------------------------------------------------------------ */

/* A cell read that was never written, belongs to another conversation, to dropped tokens, or to the
 * chain of an earlier round. */
static void test_walk_tracked_cells_reads_nothing_invalid(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const walk *w = run(seed, false);
        assert_int_equal(w->n_invalid, 0);
        assert_int_equal(w->n_refused, 0); /* B065, B078: every step found its own cell readable */
        assert_true(w->n_step > 70000);
        assert_true(w->n_read > w->n_step * 60); /* and most had a window behind them */
        for (int op = 0; op < 8; op++)
            assert_true(w->n_op[op] > 60);
        print_message("seed %d: %llu steps, %llu cells read, 0 invalid\n", (int)seed,
                      (unsigned long long)w->n_step, (unsigned long long)w->n_read);
    }
}

/* A walk that could not see the fault. */
static void test_walk_naive_rule_reads_many_invalid(void **state)
{
    (void)state;
    uint64_t n_invalid = 0;
    for (uint64_t seed = 1; seed <= 3; seed++)
        n_invalid += run(seed, true)->n_invalid;
    assert_true(n_invalid >= 100000);
    print_message("naive rule: %llu invalid reads\n", (unsigned long long)n_invalid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walk_tracked_cells_reads_nothing_invalid),
        cmocka_unit_test(test_walk_naive_rule_reads_many_invalid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
