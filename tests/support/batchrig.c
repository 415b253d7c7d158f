/* batchrig.c - see batchrig.h. */
#include "support/batchrig.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/generate.h"
#include "support/enginerig.h"

static uint64_t digest(const float *x, int n)
{
    uint64_t h = 1469598103934665603u; /* FNV-1a over the words */
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * 1099511628211u;
    }
    return h;
}

static void on_row(void *ctx, int pos, const float *logits)
{
    (void)pos;
    br_slot *x = ctx;
    assert_true(x->t.n_row < BR_ROW);
    if (x->t.n_row == x->nan_row) {
        float *row = (float *)(uintptr_t)logits; /* the engine's own memory of this step */
        row[7] = (float)NAN;
    }
    x->t.row[x->t.n_row++] = digest(logits, x->s->model->m->h.n_vocab);
}

static int32_t script(void *ctx, int pos, int depth)
{
    (void)pos; /* turns may have been dropped: the count of tokens tells the place */
    static const int pattern[] = {3, 0, 3, 0, 1};
    br_slot *x = ctx;
    int n_vocab = x->s->model->m->h.n_vocab, at = x->g->stats.n_token + depth;
    int32_t right = at < x->truth->n ? x->truth->id[at] : 0, wrong = (right + 1) % n_vocab;
    x->n_round += depth == 0;
    switch (x->r->drafts) {
    case BR_NONE:
    case BR_OWN:
        break;
    case BR_RIGHT:
        return right;
    case BR_WRONG:
        return wrong;
    case BR_ALTERNATING:
        if (depth >= pattern[x->n_round % 5])
            return -1;
        return depth < x->n_round % 4 ? right : wrong;
    }
    return -1;
}

br_request br_make(int i)
{
    br_request r = {.n_prompt = 1 + (i * 37 + 5) % 100, .p = ft_generate_params_default()};
    for (int k = 0; k < r.n_prompt; k++)
        r.prompt[k] = rig_text(1000 * i + k);
    ft_sample_params *s = &r.p.sample;
    r.p.n_max = 8 + i * 13 % 30;
    r.p.ignore_eos = true;
    r.p.draft_max = 0;
    s->temp = (float[]){0, 0.6f, 1.2f}[i % 3];
    s->seed = (uint64_t)i * 77;
    s->top_k = i % 4 == 1 ? 0 : 40;
    s->repeat_penalty = i % 5 == 2 ? 1.3f : 1;
    s->frequency_penalty = i % 5 == 3 ? 0.5f : 0;
    s->penalty_last_n = i % 2 ? 16 : -1;
    r.p.n_min = i % 6 == 4 ? 3 : 0;
    r.p.logprobs = i % 2 == 0;
    r.p.n_top = i % 4;
    r.p.special = i % 3 == 1;
    return r;
}

void br_draft(br_request *r, br_drafts kind, int k)
{
    r->drafts = kind;
    r->p.draft_max = k;
    r->p.draft_fixed = true;
}

ft_batch *br_batch(ft_model *m, int n_session, int n_chunk, int n_ctx)
{
    ft_batch *b;
    ft_batch_params p = {.n_session = n_session, .n_chunk = n_chunk, .n_ctx = n_ctx};
    OK(ft_batch_create(&b, m, &p, &rig_err));
    return b;
}

void br_open(br_slot *x, ft_model *m, ft_batch *b, int n_ctx)
{
    ft_session_params p = ft_session_params_default();
    p.n_ctx = n_ctx;
    p.n_chunk = 37;
    p.window = 40;
    p.batch = b;
    *x = (br_slot){.nan_row = -1};
    OK(ft_session_create(&x->s, m, &p, &rig_err));
}

void br_close(br_slot *x)
{
    OK(ft_generation_end(x->g, NULL, &rig_err));
    ft_session_free(x->s);
    *x = (br_slot){0};
}

void br_begin(br_slot *x, const br_request *r, const br_trace *truth)
{
    ft_session *s = x->s;
    ft_session_reset(s);
    memset(&x->t, 0, sizeof x->t);
    x->r = r;
    x->truth = truth;
    x->n_round = 0;
    s->on_row = on_row;
    s->script = r->drafts >= BR_RIGHT ? script : NULL;
    s->hook_ctx = x;
    OK(ft_generation_begin(&x->g, s, r->prompt, r->n_prompt, &r->p, &rig_err));
}

bool br_running(const br_slot *x)
{
    return x->g && ft_generation_get_state(x->g) <= FT_GENERATION_DECODE;
}

static void take(br_slot *x)
{
    ft_token t;
    while (ft_generation_poll(x->g, &t)) {
        br_trace *o = &x->t;
        assert_true(o->n < BR_TOKEN && o->n_text + t.len < BR_TEXT);
        assert_int_equal(t.text[t.len], '\0');
        assert_int_equal(t.n_top, x->r->p.logprobs ? x->r->p.n_top : 0);
        o->id[o->n++] = t.id;
        if (t.len)
            memcpy(o->text + o->n_text, t.text, t.len);
        o->n_text += t.len;
        o->logprob += t.logprob + t.logprob_sampled;
        for (int i = 0; i < t.n_top; i++)
            o->logprob += t.top[i].logprob * (i + 2) + t.top[i].id;
    }
}

void br_step(ft_batch *b, br_slot *x, int n)
{
    ft_generation *g[BR_SLOT] = {NULL};
    int n_g = 0;
    for (int i = 0; i < n; i++)
        if (x[i].g)
            g[n_g++] = x[i].g;
    OK(ft_batch_step(b, g, n_g, &rig_err));
    for (int i = 0; i < n; i++)
        if (x[i].g && !x[i].hold)
            take(&x[i]);
}

void br_run(ft_batch *b, br_slot *x, int n)
{
    for (;;) {
        bool more = false;
        for (int i = 0; i < n; i++)
            more |= br_running(&x[i]);
        if (!more)
            return;
        br_step(b, x, n);
    }
}

void br_end(br_slot *x)
{
    take(x);
    x->t.err = (ft_error){0};
    x->t.st = ft_generation_end(x->g, &x->t.stats, &x->t.err);
    x->g = NULL;
    x->t.trunk = seq_digest(x->s->state);
    x->t.state = session_digest(x->s);
}

br_trace *br_solo(ft_model *m, const br_request *r, const br_trace *truth, int n_ctx)
{
    br_slot *x = calloc(1, sizeof *x);
    br_trace *t = calloc(1, sizeof *t);
    assert_true(x && t);
    br_open(x, m, NULL, n_ctx);
    br_begin(x, r, truth);
    br_run(x->s->batch, x, 1);
    br_end(x);
    if (x->t.st != FT_OK)
        fail_msg("alone: %s", x->t.err.msg);
    *t = x->t;
    br_close(x);
    free(x);
    return t;
}

void br_prefix(const br_trace *a, const br_trace *b, const char *what)
{
    if (a->n > b->n || memcmp(a->id, b->id, (size_t)a->n * sizeof *a->id) != 0)
        fail_msg("%s: other tokens", what);
    if (a->n_row > b->n_row || memcmp(a->row, b->row, (size_t)a->n_row * sizeof *a->row) != 0)
        fail_msg("%s: other logits", what);
}

void br_same(const br_trace *a, const br_trace *b, const char *what)
{
    br_prefix(a, b, what);
    if (a->n != b->n || a->n_row != b->n_row)
        fail_msg("%s: %d tokens of %d rows, want %d of %d", what, a->n, a->n_row, b->n, b->n_row);
    if (a->n_text != b->n_text || memcmp(a->text, b->text, a->n_text) != 0)
        fail_msg("%s: another text", what);
    if (a->st != b->st || a->stats.finish != b->stats.finish)
        fail_msg("%s: another end, %d %s", what, (int)a->st, a->err.msg);
    if (a->stats.n_prompt != b->stats.n_prompt || a->stats.n_token != b->stats.n_token)
        fail_msg("%s: other counts", what);
    if (memcmp(&a->logprob, &b->logprob, sizeof a->logprob) != 0)
        fail_msg("%s: other log-probabilities", what);
    if (a->trunk != b->trunk)
        fail_msg("%s: another state of the trunk", what);
    if (a->state != b->state)
        fail_msg("%s: another state of the drafter, or another pending token", what);
}
