/* context.c - what happens when the context is full: the oldest turns are dropped, the rest is read
 * again. Nothing is shifted: recurrent states cannot forget.
 */
#include <string.h>

#include "base/mem.h"
#include "engine/generate.h"

/* Tokens that tell the kind of a message: its opening and its role. */
enum { N_HEAD = 2 };

/* Do the texts at two positions begin a message of the same role? */
static bool same_head(const int32_t *tok, int a, int b, int n)
{
    return a + N_HEAD <= n && b + N_HEAD <= n &&
           memcmp(tok + a, tok + b, N_HEAD * sizeof *tok) == 0;
}

/* Turns begin where messages of the first message's role behind the system message do. The first of them
 * to keep, by its mark: the one before which at least a quarter of the context lies, or else the last
 * one. 0: there is none to drop. What was made behind the prompt begins no turn, so that the answer does
 * not depend on how far a round has come. */
static int first_kept(const ft_generation *g)
{
    const seq *s = g->s->state;
    int best = 0;
    for (int i = 1; i < g->n_mark; i++) {
        if (g->mark[i] == g->mark[0] || !same_head(s->tok, g->mark[0], g->mark[i], g->prompt_end))
            continue;
        best = i;
        if (g->mark[i] - g->mark[0] >= s->shape.n_ctx / 4)
            break;
    }
    return best;
}

bool context_can_drop(const ft_generation *g)
{
    return g->p.context == FT_CONTEXT_DROP_TURNS && first_kept(g) > 0;
}

ft_status context_drop(ft_generation *g, ft_error *err)
{
    ft_session *s = g->s;
    const seq *q = s->state;
    int keep = first_kept(g), from = g->mark[0], n_drop = g->mark[keep] - from;
    int n = q->n_past - n_drop + 1, n_known;
    int32_t *tok = mem_calloc((size_t)n, sizeof *tok);
    if (!tok)
        return err_set(err, FT_NOMEM, "context: %d tokens to read again", n);
    memcpy(tok, q->tok, (size_t)from * sizeof *tok);
    memcpy(tok + from, q->tok + g->mark[keep], (size_t)(q->n_past - g->mark[keep]) * sizeof *tok);
    tok[n - 1] = s->pending;
    ft_status st = session_reuse(s, tok, n, &n_known, err);
    if (st != FT_OK) {
        mem_free(tok);
        return st;
    }
    mem_free(g->again);
    g->again = tok;
    g->input = tok + n_known;
    g->n_input = n - n_known;
    g->n_read = 0;
    g->rereading = true;
    g->state = FT_GENERATION_PROMPT;
    g->prompt_end -= n_drop;
    g->stats.n_dropped += n_drop;
    s->n_dropped += n_drop;
    for (int i = keep + 1; i < g->n_mark; i++)
        g->mark[i - keep] = g->mark[i] - n_drop;
    g->n_mark -= keep;
    return FT_OK;
}
