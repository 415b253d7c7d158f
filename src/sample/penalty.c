/* penalty.c - the tokens that history and bias change: counted, put in order, applied.
 *
 * Counting costs a step per token of the window; the order comes from a bitmap of the vocabulary
 * (31 KiB at 248,320 tokens), read once. Nothing of a call is left for the next one, so rejected
 * drafts have no counts to take back.
 */
#include <float.h>
#include <math.h>

#include "sample/list.h"

#define WORD_BITS 64

static bool penalises(const sample_params *p)
{
    bool listed = false;
    for (int i = 0; i < p->n_stage; i++)
        listed |= p->stage[i] == SAMPLE_PENALTIES;
    return listed &&
           (p->repeat_penalty != 1 || p->presence_penalty != 0 || p->frequency_penalty != 0);
}

static void mark(sample_ctx *c, int32_t id)
{
    c->mark[id / WORD_BITS] |= (uint64_t)1 << id % WORD_BITS;
}

static void count_window(sample_ctx *c, const sample_row *row, int last_n)
{
    int n = last_n >= 0 && last_n < row->n_hist ? last_n : row->n_hist;
    for (int i = row->n_hist - n; i < row->n_hist; i++) {
        int32_t id = row->hist[i];
        if (id < 0 || id >= c->n_max)
            continue;
        c->count[id]++;
        mark(c, id);
    }
}

/* Every marked token becomes a change, ascending; counts and marks are 0 behind. */
static void list_changes(sample_ctx *c)
{
    int n_word = c->n_max / WORD_BITS + 1;
    c->n_change = 0;
    for (int i = 0; i < n_word; i++) {
        for (uint64_t bits = c->mark[i]; bits != 0; bits &= bits - 1) {
            int32_t id = i * WORD_BITS + __builtin_ctzll(bits);
            c->change[c->n_change++] = (sample_change){.id = id, .count = c->count[id]};
            c->count[id] = 0;
        }
        c->mark[i] = 0;
    }
}

/* The change of a token that has one. */
static sample_change *find_change(const sample_ctx *c, int32_t id)
{
    int lo = 0, hi = c->n_change - 1;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (c->change[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return &c->change[lo];
}

void penalty_prepare(sample_ctx *c, const sample_row *row, const sample_params *p)
{
    bool counts = penalises(p) && row->n_hist > 0;
    c->n_change = 0;
    if (!counts && p->n_bias == 0)
        return;
    if (counts)
        count_window(c, row, p->penalty_last_n);
    for (int i = 0; i < p->n_bias; i++)
        mark(c, p->bias[i].id);
    list_changes(c);
    for (int i = 0; i < p->n_bias; i++)
        find_change(c, p->bias[i].id)->bias += (double)p->bias[i].bias;
}

float penalty_of(const sample_ctx *c, const sample_change *ch, const sample_params *p, float x)
{
    double y = (double)x, add = ch->bias;
    if (ch->count > 0) {
        double r = (double)p->repeat_penalty;
        y = x > 0 ? y / r : y * r;
        add -= (double)p->presence_penalty + ch->count * (double)p->frequency_penalty;
    }
    y += c->penalty_temp * add;
    if (isfinite(y)) /* huge logits stay in the order that they can have */
        y = fmin(fmax(y, -(double)FLT_MAX), (double)FLT_MAX);
    return (float)y + 0.0f; /* no -0 */
}

void penalty_apply(sample_ctx *c, const sample_params *p)
{
    int at = 0;
    for (int i = 0; i < c->n; i++) {
        while (at < c->n_change && c->change[at].id < c->id[i])
            at++;
        if (at < c->n_change && c->change[at].id == c->id[i])
            c->logit[i] = penalty_of(c, &c->change[at], p, c->logit[i]);
    }
    c->weighed = false;
}
