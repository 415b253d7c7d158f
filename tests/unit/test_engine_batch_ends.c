/* test_engine_batch_ends.c - generations in a batch that fail, are cancelled or left, what is refused, and
 * how tokens are taken.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/mem.h"
#include "support/batchrig.h"
#include "support/enginerig.h"

enum { N_CTX = 192, N_SLOT = 3 };

static const model_arch family[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

/* Three requests with right drafts, what they give alone, and a batch of three slots for them. */
typedef struct {
    ft_model *m;
    ft_batch *b;
    br_request r[N_SLOT];
    br_trace *want[N_SLOT];
    br_slot *x;
} trio;

static void trio_begin(trio *t, model_arch arch)
{
    t->m = rig_model(arch);
    t->b = br_batch(t->m, N_SLOT, 32, N_CTX);
    t->x = calloc(N_SLOT, sizeof *t->x);
    for (int i = 0; i < N_SLOT; i++) {
        t->r[i] = br_make(i + 4);
        t->r[i].p.n_max = 30;
        t->want[i] = br_solo(t->m, &t->r[i], NULL, N_CTX);
        br_draft(&t->r[i], BR_RIGHT, 3);
        br_open(&t->x[i], t->m, t->b, 0);
    }
}

static void trio_start(trio *t)
{
    for (int i = 0; i < N_SLOT; i++)
        br_begin(&t->x[i], &t->r[i], t->want[i]);
}

/* Every slot can be used: all requests again, all as they are alone. */
static void trio_all_well(trio *t, const char *what)
{
    trio_start(t);
    br_run(t->b, t->x, N_SLOT);
    for (int i = 0; i < N_SLOT; i++) {
        br_end(&t->x[i]);
        br_same(&t->x[i].t, t->want[i], what);
    }
}

static void trio_end(trio *t)
{
    for (int i = 0; i < N_SLOT; i++) {
        br_close(&t->x[i]);
        free(t->want[i]);
    }
    free(t->x);
    ft_batch_free(t->b);
    ft_model_close(t->m);
}

/* ---- Failures --------------------------------------------------------------------------------------- */

/* Catches a row of NaN that gives token 0 for ever, ends its neighbours or spoils what is shared: it fails
 * one generation, with a message; what was decided before stays in its session. B046 */
static void test_batch_nan_fails_one_generation(void **state)
{
    (void)state;
    for (int a = 0; a < 3; a++) {
        trio t;
        trio_begin(&t, family[a]);
        for (int at = 0; at < 30;
             at += 1 + at / 3) { /* in the prompt's row, in every row of a round */
            int who = at % N_SLOT;
            trio_start(&t);
            t.x[who].nan_row = at;
            br_run(t.b, t.x, N_SLOT);
            assert_int_equal(ft_generation_get_state(t.x[who].g), FT_GENERATION_FAILED);
            t.x[who].nan_row = -1;
            for (int i = 0; i < N_SLOT; i++) {
                br_slot *x = &t.x[i];
                br_end(x);
                if (i != who) {
                    br_same(&x->t, t.want[i], "a neighbour of NaN");
                    continue;
                }
                assert_int_equal(x->t.st, FT_DEVICE);
                assert_non_null(strstr(x->t.err.msg, "NaN"));
                assert_int_equal(x->t.n, at);
                assert_memory_equal(x->t.id, t.want[i]->id, (size_t)at * sizeof(int32_t));
                int n, n_prompt = t.r[i].n_prompt;
                const int32_t *tok = ft_session_tokens(x->s, &n);
                assert_int_equal(n, n_prompt + at);
                assert_memory_equal(tok + n_prompt, x->t.id, (size_t)at * sizeof(int32_t));
            }
        }
        trio_all_well(&t, "behind NaN");
        trio_end(&t);
    }
}

/* Catches a draft head whose NaN reaches the text, or ends the request: it costs the drafts. B046 */
static void test_batch_nan_in_the_draft_head_costs_drafts(void **state)
{
    (void)state;
    float nan[64];
    for (int i = 0; i < 64; i++)
        nan[i] = (float)NAN;
    for (int a = 0; a < 3; a++) {
        trio t;
        trio_begin(&t, family[a]);
        const float *good = t.m->dw->mtp.enorm;
        t.m->dw->mtp.enorm = nan;
        for (int i = 0; i < N_SLOT; i++)
            br_draft(&t.r[i], BR_OWN, 3);
        trio_start(&t);
        br_run(t.b, t.x, N_SLOT);
        for (int i = 0; i < N_SLOT; i++) {
            br_end(&t.x[i]);
            t.x[i].t.state = t.want[i]->state; /* the drafter's own cells are lost */
            br_same(&t.x[i].t, t.want[i], "NaN in the draft head");
            assert_int_equal(t.x[i].t.stats.draft.drafted, 0);
            assert_true(t.x[i].t.stats.draft.steps > 0);
        }
        t.m->dw->mtp.enorm = good;
        trio_all_well(&t, "behind NaN in the draft head");
        trio_end(&t);
    }
}

/* Catches a token that is in the session and was never delivered, or the other way round, when memory ends
 * while tokens are kept for their taker. */
static void test_generation_out_of_memory_keeps_what_was_delivered(void **state)
{
    (void)state;
    trio t;
    trio_begin(&t, MODEL_QWEN35);
    int n_failed = 0;
    for (long at = 1; at < 12; at++) {
        br_slot *x = &t.x[0];
        br_begin(x, &t.r[0], t.want[0]);
        x->hold = true;
        mem_fail_at(at);
        br_run(t.b, x, 1);
        mem_fail_at(0);
        br_end(x);
        x->hold = false;
        n_failed += x->t.st == FT_NOMEM;
        int n, n_prompt = t.r[0].n_prompt;
        const int32_t *tok = ft_session_tokens(x->s, &n);
        if (n < n_prompt) { /* no page for the cells of the prompt */
            assert_int_equal(x->t.st, FT_NOMEM);
            assert_int_equal(x->t.n, 0);
            continue;
        }
        assert_int_equal(n, n_prompt + x->t.n);
        assert_memory_equal(tok + n_prompt, t.want[0]->id, (size_t)x->t.n * sizeof *tok);
        assert_memory_equal(x->t.id, t.want[0]->id, (size_t)x->t.n * sizeof *tok);
    }
    assert_true(n_failed >= 3);
    trio_all_well(&t, "behind failed allocations");
    trio_end(&t);
}

/* ---- Cancelling ------------------------------------------------------------------------------------- */

typedef struct {
    ft_generation *victim;
    br_trace t;
    int at;
} canceller;

static bool cancel_other(void *ctx, const ft_token *t)
{
    canceller *c = ctx;
    c->t.id[c->t.n++] = t->id;
    if (c->t.n == c->at)
        ft_generation_cancel(c->victim);
    return true;
}

/* Catches a flag that the wrong request takes: A is cancelled while B's tokens are delivered. B is
 * complete, A stops within the round. B070 B072 */
static void test_batch_cancel_a_during_bs_round(void **state)
{
    (void)state;
    trio t;
    trio_begin(&t, MODEL_QWEN4EXP);
    for (int at = 1; at <= 30; at += 3)
        for (int first = 0; first < 2;
             first++) { /* is A's share of the step before B's or behind? */
            br_slot *a = &t.x[0], *b = &t.x[1];
            canceller *c = calloc(1, sizeof *c);
            c->at = at;
            br_request r = t.r[1];
            r.p.on_token = cancel_other;
            r.p.on_token_ctx = c;
            br_begin(a, &t.r[0], t.want[0]);
            br_begin(b, &r, t.want[1]);
            c->victim = a->g;
            ft_generation *both[2] = {first ? a->g : b->g, first ? b->g : a->g};
            int made = 0;
            while (br_running(b)) {
                bool told = c->t.n >= at;
                OK(ft_batch_step(t.b, both, 2, &rig_err));
                if (told) /* a whole step later it stands still */
                    assert_false(br_running(a));
                if (told && made)
                    assert_int_equal(ft_session_n_past(a->s), made);
                made = told ? ft_session_n_past(a->s) : 0;
            }
            br_end(a);
            br_end(b);
            assert_int_equal(c->t.n, 30);
            assert_memory_equal(c->t.id, t.want[1]->id, 30 * sizeof(int32_t));
            assert_int_equal(b->t.stats.finish, FT_FINISH_LENGTH);
            assert_true(b->t.trunk == t.want[1]->trunk && b->t.state == t.want[1]->state);
            if (a->t.stats.finish != FT_FINISH_CANCELLED)
                assert_int_equal(a->t.n, 30); /* it had ended before */
            br_prefix(&a->t, t.want[0], "the one that is cancelled");
            free(c);
        }
    trio_all_well(&t, "behind cancellations");
    trio_end(&t);
}

/* Catches a generation that cannot be left in some state: before its first step, in its prompt, while it
 * decodes, cancelled, done, failed; and a slot that is not free afterwards. B070 B071 */
static void test_generation_ends_in_every_state(void **state)
{
    (void)state;
    trio t;
    trio_begin(&t, MODEL_QWEN35MOE);
    br_slot *x = &t.x[1];
    ft_generate_stats stats;
    assert_true(t.r[1].n_prompt > 32);
    for (int how = 0; how < 7; how++) {
        br_begin(x, &t.r[1], t.want[1]);
        assert_int_equal(ft_generation_get_state(x->g), FT_GENERATION_PROMPT);
        if (how == 1 || how == 2) { /* cancelled before the first step, or in the middle */
            if (how == 2)
                br_step(t.b, x, 1);
            ft_generation_cancel(x->g);
            br_step(t.b, x, 1);
            assert_int_equal(ft_generation_get_state(x->g), FT_GENERATION_DONE);
            char words[64];
            snprintf(words, sizeof words, "stopped after %d of %d prompt tokens", how == 2 ? 32 : 0,
                     t.r[1].n_prompt);
            FAILS(ft_generation_end(x->g, &stats, &rig_err), FT_CANCELLED, words);
            assert_int_equal(stats.finish, FT_FINISH_CANCELLED);
            assert_int_equal(stats.n_prompt, how == 2 ? 32 : 0);
            assert_int_equal(ft_session_n_past(x->s), stats.n_prompt);
            x->g = NULL;
            continue;
        }
        x->nan_row = how == 6 ? 5 : -1;
        for (int i = 0; i < how - 2 || (how >= 5 && br_running(x)); i++)
            br_step(t.b, x, 1);
        bool done = how == 5;
        ft_status st = ft_generation_end(x->g, &stats, NULL);
        x->g = NULL;
        x->nan_row = -1;
        assert_int_equal(st, how == 6 ? FT_DEVICE : FT_OK);
        if (how < 6)
            assert_int_equal(stats.finish, done ? FT_FINISH_LENGTH : FT_FINISH_CANCELLED);
        int n;
        ft_session_tokens(x->s, &n);
        assert_int_equal(n, stats.n_prompt + stats.n_token);
        trio_all_well(&t, "behind one that was left");
    }
    OK(ft_generation_end(NULL, &stats, &rig_err));
    trio_all_well(&t, "in the end");
    trio_end(&t);
}

/* ---- What is refused ---------------------------------------------------------------------------------- */

/* Catches a step that does half of a wrong list, and a session that two generations write to. */
static void test_batch_refuses_wrong_lists_and_busy_sessions(void **state)
{
    (void)state;
    trio t;
    trio_begin(&t, MODEL_QWEN35);
    br_slot *own = calloc(1, sizeof *own);
    br_open(own, t.m, NULL, N_CTX);
    br_begin(own, &t.r[0], t.want[0]);
    trio_start(&t);
    ft_generation *g[4] = {t.x[0].g, t.x[1].g, t.x[0].g, NULL};
    FAILS(ft_batch_step(t.b, g, 3, &rig_err), FT_ARG, "generation 2 is there twice");
    FAILS(ft_batch_step(t.b, g, 4, &rig_err), FT_ARG, "4 generations, want 0 to 3");
    FAILS(ft_batch_step(t.b, g, -1, &rig_err), FT_ARG, "-1 generations");
    g[2] = own->g;
    FAILS(ft_batch_step(t.b, g, 3, &rig_err), FT_ARG, "generation 2 does not belong");
    FAILS(ft_batch_step(t.b, g + 3, 1, &rig_err), FT_ARG, "generation 0 does not belong");
    for (int i = 0; i < N_SLOT; i++)
        assert_int_equal(ft_session_n_past(t.x[i].s), 0);

    ft_session *s = t.x[0].s;
    int32_t tok[4] = {1, 2, 3, 4};
    ft_generate_params p = ft_generate_params_default();
    ft_generation *second;
    ft_eval_out rows = {.logits = NULL};
    int n;
    FAILS(ft_generation_begin(&second, s, tok, 4, &p, &rig_err), FT_ARG, "under way; end it first");
    assert_null(second);
    FAILS(ft_session_generate(s, tok, 4, &p, NULL, &rig_err), FT_ARG, "under way");
    FAILS(ft_session_eval(s, tok, 4, NULL, &rig_err), FT_ARG, "under way");
    FAILS(ft_session_eval_rows(s, tok, 4, &rows, &rig_err), FT_ARG, "under way");
    FAILS(ft_session_reuse(s, tok, 4, &n, &rig_err), FT_ARG, "under way");

    ft_session *more;
    ft_session_params sp = ft_session_params_default();
    sp.batch = t.b;
    FAILS(ft_session_create(&more, t.m, &sp, &rig_err), FT_ARG, "it has its 3 sessions");
    ft_model *other = rig_model(MODEL_QWEN35);
    FAILS(ft_session_create(&more, other, &sp, &rig_err), FT_ARG, "belongs to another model");
    ft_model_close(other);
    ft_batch *b;
    ft_batch_params bp = {.n_session = 0, .n_chunk = 8};
    FAILS(ft_batch_create(&b, t.m, &bp, &rig_err), FT_ARG, "n_session: 0, want 1 to 256");
    bp.n_session = 257;
    FAILS(ft_batch_create(&b, t.m, &bp, &rig_err), FT_ARG, "n_session: 257");
    bp = (ft_batch_params){.n_session = 1, .n_chunk = 4097};
    FAILS(ft_batch_create(&b, t.m, &bp, &rig_err), FT_ARG, "n_chunk: 4097, want 1 to 4096");
    bp = (ft_batch_params){.n_session = 1, .n_chunk = 1, .n_ctx = -1};
    FAILS(ft_batch_create(&b, t.m, &bp, &rig_err), FT_ARG, "n_ctx: -1, want 1 to");
    assert_null(b);

    br_run(t.b, t.x, N_SLOT); /* nothing of all that did any harm */
    for (int i = 0; i < N_SLOT; i++) {
        br_end(&t.x[i]);
        br_same(&t.x[i].t, t.want[i], "behind refusals");
    }
    br_close(own);
    free(own);
    trio_end(&t);
}

/* ---- Taking tokens ------------------------------------------------------------------------------------ */

/* Catches tokens that come twice, late or without their text: the callback, the pull interface, polling
 * behind every step and polling at the very end give the same. */
static void test_generation_poll_and_next_give_what_the_callback_gives(void **state)
{
    (void)state;
    static const char *const stop[] = {"\x01zz", "qqqq"};
    for (int a = 0; a < 3; a++) {
        trio t;
        trio_begin(&t, family[a]);
        for (int i = 0; i < N_SLOT; i++) {
            br_slot *x = &t.x[i];
            t.r[i].p.stop = stop; /* text is held back now and then */
            t.r[i].p.n_stop = 2;
            rig_output *push = calloc(1, sizeof *push), *pull = calloc(1, sizeof *pull);
            ft_generate_params p = t.r[i].p;
            p.on_token = rig_on_token;
            p.on_token_ctx = push;
            ft_session_reset(x->s);
            rig_generate(x->s, t.r[i].prompt, t.r[i].n_prompt, &p);

            br_begin(x, &t.r[i], t.want[i]);
            ft_token tok;
            while (ft_generation_next(x->g, &tok))
                rig_on_token(pull, &tok);
            assert_false(ft_generation_next(x->g, &tok) || ft_generation_poll(x->g, &tok));
            OK(ft_generation_end(x->g, &pull->stats, &rig_err));
            assert_int_equal(pull->n, push->n);
            assert_memory_equal(pull->id, push->id, (size_t)push->n * sizeof *push->id);
            assert_int_equal(pull->n_text, push->n_text);
            assert_memory_equal(pull->text, push->text, push->n_text);
            assert_int_equal(pull->stats.n_token, push->stats.n_token);

            for (int late = 0; late < 2; late++) {
                br_begin(x, &t.r[i], t.want[i]);
                x->hold = late;
                br_run(t.b, x, 1);
                br_end(x);
                x->hold = false;
                br_same(&x->t, t.want[i], late ? "taken at the end" : "taken at once");
                assert_int_equal(x->t.n_text, push->n_text);
                assert_memory_equal(x->t.text, push->text, push->n_text);
            }

            /* With a callback there is nothing to take. */
            rig_output *only = calloc(1, sizeof *only);
            p.on_token_ctx = only;
            ft_session_reset(x->s);
            OK(ft_generation_begin(&x->g, x->s, t.r[i].prompt, t.r[i].n_prompt, &p, &rig_err));
            assert_false(ft_generation_next(x->g, &tok));
            OK(ft_generation_end(x->g, NULL, &rig_err));
            x->g = NULL;
            assert_int_equal(only->n, push->n);
            free(only);
            free(push);
            free(pull);
        }
        trio_end(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_nan_fails_one_generation),
        cmocka_unit_test(test_batch_nan_in_the_draft_head_costs_drafts),
        cmocka_unit_test(test_generation_out_of_memory_keeps_what_was_delivered),
        cmocka_unit_test(test_batch_cancel_a_during_bs_round),
        cmocka_unit_test(test_generation_ends_in_every_state),
        cmocka_unit_test(test_batch_refuses_wrong_lists_and_busy_sessions),
        cmocka_unit_test(test_generation_poll_and_next_give_what_the_callback_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
