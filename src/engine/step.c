/* step.c - ft_batch_step: rows of several generations in one forward call.
 *
 * 1. Every generation that is decoding gets its round in every step; prompts share n_chunk rows. So
 *    nobody waits for more than one step, and the oldest prompt is read fastest.
 * 2. What a generation gets never depends on the others: rows are computed for themselves (layer.h),
 *    drafts come from its own cells, random numbers are functions of its own seed and positions.
 * 3. What fails in one generation ends that one.
 */
#include <assert.h>

#include "engine/generate.h"

/* The generations that take part in a step, in the caller's order. */
typedef struct {
    ft_generation *read[BATCH_MAX_SESSION], *round[BATCH_MAX_SESSION];
    int n_read, n_round;
} parts;

static ft_status check(const ft_batch *b, ft_generation *const *g, int n, ft_error *err)
{
    if (n < 0 || n > b->n_session)
        return err_set(err, FT_ARG, "step: %d generations, want 0 to %d", n, b->n_session);
    for (int i = 0; i < n; i++) {
        if (!g[i] || g[i]->s->batch != b)
            return err_set(err, FT_ARG, "step: generation %d does not belong to this batch", i);
        for (int j = 0; j < i; j++)
            if (g[j] == g[i])
                return err_set(err, FT_ARG, "step: generation %d is there twice", i);
    }
    return FT_OK;
}

/* Who takes part: those that have not ended. */
static void divide(parts *p, ft_generation *const *g, int n)
{
    for (int i = 0; i < n; i++) {
        if (g[i]->state != FT_GENERATION_PROMPT && g[i]->state != FT_GENERATION_DECODE)
            continue;
        if (atomic_load(&g[i]->cancel) || atomic_load(&g[i]->s->cancel))
            generate_cancel(g[i]);
        else if (g[i]->state == FT_GENERATION_PROMPT)
            p->read[p->n_read++] = g[i];
        else
            p->round[p->n_round++] = g[i];
    }
}

/* Rows of the prompts: an even share each; what some leave goes to those before them in the list, so
 * that the first ones get a row each where there are more prompts than rows. */
static void share_rows(parts *p, int n_chunk)
{
    int left = n_chunk;
    for (int i = p->n_read - 1; i >= 0; i--) {
        int share = left / (i + 1);
        p->read[i]->n_row = share > 0 ? generate_chunk(p->read[i], share) : 0;
        left -= p->read[i]->n_row;
    }
}

/* Memory for the rows' cells. Who gets none fails alone. */
static void reserve(parts *p)
{
    ft_generation **list[] = {p->read, p->round};
    int *count[] = {&p->n_read, &p->n_round};
    for (int k = 0; k < 2; k++) {
        int n = 0;
        for (int i = 0; i < *count[k]; i++) {
            ft_generation *g = list[k][i];
            ft_error err = {0};
            if (g->n_row > 0 && seq_reserve(g->s->state, g->n_row, &err) != FT_OK)
                generate_fail(g, &err);
            else
                list[k][n++] = g;
        }
        *count[k] = n;
    }
}

/* Append the rows of one generation to the batch; tok: where they go. */
static void add_rows(ft_batch *b, layer_batch *lb, ft_generation *g, int n_row, int n_commit,
                     int n_want)
{
    g->want = lb->n_want;
    for (int i = 0; i < n_want; i++)
        b->want[lb->n_want++] = g->row + n_row - n_want + i;
    b->seg[lb->n_seg++] = (layer_seg){.s = g->s->state, .n_row = n_row, .n_commit = n_commit};
}

static int add_read(ft_batch *b, layer_batch *lb, ft_generation *g, int row)
{
    int32_t *tok = b->tok + row;
    int n_pending = g->s->pending >= 0, n_input = g->n_row - n_pending;
    g->row = row;
    if (n_pending)
        tok[0] = g->s->pending;
    for (int i = 0; i < n_input; i++)
        tok[n_pending + i] = g->input[g->n_read + i];
    bool last = g->n_read + n_input == g->n_input;
    add_rows(b, lb, g, g->n_row, g->n_row, last && g->p.n_max != 0);
    return row + g->n_row;
}

static int add_round(ft_batch *b, layer_batch *lb, ft_generation *g, int row)
{
    g->row = row;
    round_rows(g, b->tok + row);
    add_rows(b, lb, g, g->n_row, 1, g->n_row);
    return row + g->n_row;
}

/* The call was evaluated: each generation goes on, or ends. */
static void take_results(ft_batch *b, const parts *p, double seconds)
{
    size_t vocab = (size_t)b->model->m->h.n_vocab;
    size_t width = (size_t)layer_hidden_width(&b->model->m->h);
    for (int i = 0; i < p->n_read + p->n_round; i++) {
        bool reads = i < p->n_read;
        ft_generation *g = reads ? p->read[i] : p->round[i - p->n_read];
        if (g->n_row == 0)
            continue;
        const float *logits = b->logits + (size_t)g->want * vocab;
        const float *hidden = b->hidden + (size_t)g->row * width;
        ft_error err = {0};
        ft_status st = reads ? generate_read(g, logits, hidden, &err)
                             : round_finish(g, logits, hidden, seconds, &err);
        if (st != FT_OK)
            generate_fail(g, &err);
    }
}

/* The whole step's time is every generation's: all of them waited for it. */
static void count_time(const parts *p, double seconds)
{
    for (int i = 0; i < p->n_read; i++)
        p->read[i]->stats.prompt_seconds += seconds;
    for (int i = 0; i < p->n_round; i++)
        p->round[i]->stats.decode_seconds += seconds;
}

ft_status ft_batch_step(ft_batch *b, ft_generation *const *g, int n, ft_error *err)
{
    TRY(check(b, g, n, err));
    double t0 = engine_now();
    parts p = {.n_read = 0};
    divide(&p, g, n);
    share_rows(&p, b->n_chunk);
    for (int i = 0; i < p.n_round; i++)
        p.round[i]->alone = p.n_round == 1 && p.n_read == 0;
    if (p.n_round > 0)
        round_prepare(p.round, p.n_round);
    reserve(&p);
    layer_batch lb = {
        .tok = b->tok, .seg = b->seg, .want = b->want, .logits = b->logits, .hidden = b->hidden};
    int row = 0;
    for (int i = 0; i < p.n_read; i++)
        if (p.read[i]->n_row > 0)
            row = add_read(b, &lb, p.read[i], row);
    for (int i = 0; i < p.n_round; i++)
        row = add_round(b, &lb, p.round[i], row);
    assert(row <= b->n_row && lb.n_want <= b->n_want);
    if (row == 0)
        return FT_OK;
    double t1 = engine_now();
    ft_error failure = {0};
    if (batch_forward(b, &lb, &failure) == FT_OK) {
        take_results(b, &p, engine_now() - t1);
    } else {
        for (int i = 0; i < p.n_read + p.n_round; i++)
            generate_fail(i < p.n_read ? p.read[i] : p.round[i - p.n_read], &failure);
    }
    count_time(&p, engine_now() - t0);
    return FT_OK;
}
