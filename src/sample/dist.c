/* dist.c - the distribution of a row: one scan that gathers candidates, then the stages in their order.
 *
 * 1. Gathering waits until a stage needs the list, so that penalties and top-k happen in the scan
 *    itself, and nothing is copied.
 * 2. Banned tokens are never gathered. So no order of stages can leave an empty list.
 * 3. Every value depends on the row and the parameters alone.
 */
#include <math.h>

#include "sample/list.h"

/* Logits looked at together in the scan. 32: 0.091 ms at V = 248,320 and top-k 40, 0.098 with 16,
 * 0.097 with 64 (2-core Xeon, test_sample_dist --bench). */
#define BLOCK 32
/* Candidates that may pile up beyond 2 k before the worst are dropped. 1024: 0.091 ms at top-k 40
 * and 2.9 in ascending order; 256: 0.08 and 5.2; 4096: 0.18 and 2.4 (as above). */
#define SLACK 1024

static int stage_index(const sample_params *p, sample_stage s)
{
    for (int i = 0; i < p->n_stage; i++) {
        if (p->stage[i] == s)
            return i;
    }
    return -1;
}

int sample_dist_need(const sample_params *p, int n_vocab)
{
    if (p->temp == 0.0f)
        return 1;
    bool top_k = stage_index(p, SAMPLE_TOP_K) >= 0 && p->top_k > 0 && p->top_k < n_vocab;
    return top_k ? p->top_k : n_vocab;
}

/* ---- The scan --------------------------------------------------------------------------------- */

typedef struct {
    sample_ctx *c;
    const sample_row *row;
    const sample_params *p;
    bool penalised; /* changes apply now; otherwise their bans alone */
    int k, room;    /* candidates wanted, and kept at most; room > k, or the whole row */
    float floor;    /* what is not above it is not among the best k */
    int i_change;   /* the next one */
    int i_row;      /* where its logit is looked for */
} scan;

static int32_t token_at(const sample_row *row, int i)
{
    return row->id ? row->id[i] : i;
}

/* Inlined: 0.094 ms instead of 0.101 at top-k 40 (as above). */
static ALWAYS_INLINE void add(scan *s, int32_t id, float x)
{
    sample_ctx *c = s->c;
    if (!(x > s->floor))
        return;
    c->id[c->n] = id;
    c->logit[c->n] = x + 0.0f; /* -0 becomes +0: equal logits have equal keys */
    c->n++;
    if (c->n == s->room && s->room < s->row->n)
        s->floor = list_top_k(c, s->k);
}

/* Add the changed tokens up to last, with their own values. True: last is one of them. */
static bool add_changed(scan *s, int32_t last)
{
    const sample_row *row = s->row;
    for (; s->i_change < s->c->n_change; s->i_change++) {
        const sample_change *ch = &s->c->change[s->i_change];
        if (ch->id > last)
            break;
        if (!row->id)
            s->i_row = ch->id;
        while (s->i_row < row->n && token_at(row, s->i_row) < ch->id)
            s->i_row++;
        if (s->i_row >= row->n || token_at(row, s->i_row) != ch->id || isinf(ch->bias))
            continue;
        float x = row->logits[s->i_row];
        add(s, ch->id, s->penalised ? penalty_of(s->c, ch, s->p, x) : x);
    }
    return s->i_change > 0 && s->c->change[s->i_change - 1].id == last;
}

/* True when one of x[BLOCK] is above floor, or NaN. */
static bool any_above(const float *x, float floor)
{
    int hit = 0;
    for (int i = 0; i < BLOCK; i++)
        hit |= !(x[i] <= floor);
    return hit != 0;
}

/* The k highest logits become the list; -inf never does. Only values above the lowest of the best k
 * so far are looked at one by one. Returns how many logits are NaN or +inf. */
static int gather(sample_ctx *c, const sample_row *row, const sample_params *p, bool penalised,
                  int k)
{
    const float *logits = row->logits;
    int n = row->n, n_bad = 0;
    int room = k < (n - SLACK) / 2 ? 2 * k + SLACK : n;
    scan s = {c, row, p, penalised, k, room, -INFINITY, 0, 0};
    c->n = 0;
    for (int i0 = 0; i0 < n; i0 += BLOCK) {
        int i1 = n - i0 < BLOCK ? n : i0 + BLOCK;
        if (i1 - i0 == BLOCK && !any_above(logits + i0, s.floor))
            continue;
        for (int i = i0; i < i1; i++) {
            float x = logits[i];
            if (x <= s.floor)
                continue;
            if (!(x < INFINITY)) {
                n_bad++;
                continue;
            }
            int32_t id = token_at(row, i);
            if (c->n_change == 0 || !add_changed(&s, id))
                add(&s, id, x);
        }
    }
    (void)add_changed(&s, INT32_MAX);
    if (c->n > k)
        list_top_k(c, k);
    return n_bad;
}

static ft_status gather_checked(sample_ctx *c, const sample_row *row, const sample_params *p,
                                bool penalised, int k, ft_error *err)
{
    int n_bad = gather(c, row, p, penalised, k);
    if (n_bad > 0)
        return err_set(err, FT_DEVICE, "sample: %d of %d logits are NaN or +inf, want none", n_bad,
                       row->n);
    if (c->n > 0)
        return FT_OK;
    for (int i = 0; i < row->n; i++) {
        if (row->logits[i] > -INFINITY)
            return err_set(err, FT_ARG,
                           "sample: logit_bias bans every token that could come, want one left");
    }
    return err_set(err, FT_DEVICE, "sample: all %d logits are -inf, want one finite", row->n);
}

/* ---- The stages ------------------------------------------------------------------------------- */

/* The stages of one call. */
typedef struct {
    sample_ctx *c;
    const sample_row *row;
    const sample_params *p;
    bool gathered, penalised;
} run;

/* The k highest candidates; the first time, of the row. */
static ft_status keep(run *r, int k, ft_error *err)
{
    if (!r->gathered)
        TRY(gather_checked(r->c, r->row, r->p, r->penalised, k, err));
    else if (k < r->c->n)
        list_top_k(r->c, k);
    r->gathered = true;
    return FT_OK;
}

static void penalties(run *r)
{
    r->c->penalty_temp = r->c->temp;
    if (r->gathered)
        penalty_apply(r->c, r->p);
    r->penalised = true;
}

static void temperature(run *r)
{
    if (r->p->temp > 0.0f) { /* 0 is no scale: the highest is taken at the end */
        r->c->temp = (double)r->p->temp;
        r->c->weighed = false;
    }
}

static ft_status stage(run *r, sample_stage s, ft_error *err)
{
    const sample_params *p = r->p;
    switch (s) {
    case SAMPLE_PENALTIES:
        penalties(r);
        break;
    case SAMPLE_TEMP:
        temperature(r);
        break;
    case SAMPLE_TOP_K:
        if (p->top_k > 0)
            TRY(keep(r, p->top_k, err));
        break;
    case SAMPLE_MIN_P:
        if (p->min_p > 0.0f) {
            TRY(keep(r, r->row->n, err));
            list_min_p(r->c, (double)p->min_p);
        }
        break;
    case SAMPLE_TOP_P:
        if (p->top_p < 1.0f) {
            TRY(keep(r, r->row->n, err));
            list_top_p(r->c, (double)p->top_p);
        }
        break;
    case SAMPLE_N_STAGE:
        break;
    }
    return FT_OK;
}

/* ---- Putting it together ---------------------------------------------------------------------- */

static ft_status check_call(const sample_ctx *c, const sample_dist *d, const sample_row *row,
                            const sample_params *p, ft_error *err)
{
    TRY(sample_params_check(p, err));
    if (row->n < 1 || row->n > c->n_max)
        return err_set(err, FT_ARG, "sample: row of %d logits, want 1 to %d", row->n, c->n_max);
    if (row->n_hist < 0 || (row->n_hist > 0 && !row->hist))
        return err_set(err, FT_ARG, "sample: history of %d tokens%s, want 0 or more", row->n_hist,
                       row->hist ? "" : " and no array");
    TRY(sample_bias_check(p, row->id ? c->n_max : row->n, err));
    int need = sample_dist_need(p, row->n);
    if (d->cap < need)
        return err_set(err, FT_RANGE, "sample: distribution has room for %d tokens, want %d",
                       d->cap, need);
    return FT_OK;
}

ft_status sample_distribution(sample_ctx *c, sample_dist *d, const sample_row *row,
                              const sample_params *p, ft_error *err)
{
    d->n = 0;
    TRY(check_call(c, d, row, p, err));
    penalty_prepare(c, row, p);
    c->temp = c->penalty_temp = 1;
    c->weighed = false;
    int i_penalties = stage_index(p, SAMPLE_PENALTIES);
    run r = {.c = c, .row = row, .p = p, .gathered = false, .penalised = i_penalties < 0};
    /* the highest logit survives every filter: at temperature 0 those behind the penalties are idle */
    int n_stage = p->temp == 0.0f ? i_penalties + 1 : p->n_stage;
    for (int i = 0; i < n_stage; i++)
        TRY(stage(&r, p->stage[i], err));
    TRY(keep(&r, p->temp == 0.0f ? 1 : row->n, err));
    list_result(c, d);
    return FT_OK;
}
