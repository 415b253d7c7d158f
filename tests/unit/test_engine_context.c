/* test_engine_context.c - FT_CONTEXT_DROP_TURNS: the oldest turns go, the rest is read again, and what
 * follows is what a new session would make of the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/batchrig.h"
#include "support/enginerig.h"

/* A context of 64, whose quarter is 16: SYSTEM tokens, turns of a question and an answer, and a question
 * that is being answered. */
enum { N_CTX = 64, SYSTEM = 5, QUESTION = 6, ANSWER = 4, TURN = QUESTION + ANSWER, MARKS = 32 };

static const model_arch family[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

/* A conversation with its marks. */
typedef struct {
    br_request r;
    int mark[MARKS], n_mark;
} talk;

/* A message of n tokens: its opening, its role, some text. */
static void say(talk *t, int role, int n)
{
    br_request *r = &t->r;
    r->prompt[r->n_prompt++] = TINY_IM_START;
    r->prompt[r->n_prompt++] = role;
    for (int i = 2; i < n; i++, r->n_prompt++)
        r->prompt[r->n_prompt] = rig_text(7 * r->n_prompt + i);
    t->mark[t->n_mark++] = r->n_prompt;
}

enum { ROLE_SYSTEM = 's', ROLE_USER = 'u', ROLE_MODEL = 'a' };

/* n_turn complete turns, then the question. The opening of the answer belongs to no message. */
static void make_talk(talk *t, int i, int n_turn, int n_max, float temp)
{
    *t = (talk){.r = br_make(i)};
    br_request *r = &t->r;
    r->n_prompt = 0;
    r->p.n_max = n_max;
    r->p.sample.temp = temp;
    r->p.context = FT_CONTEXT_DROP_TURNS;
    say(t, ROLE_SYSTEM, SYSTEM);
    for (int k = 0; k < n_turn; k++) {
        say(t, ROLE_USER, QUESTION);
        say(t, ROLE_MODEL, ANSWER);
    }
    say(t, ROLE_USER, QUESTION);
    r->prompt[r->n_prompt++] = TINY_IM_START;
    r->prompt[r->n_prompt++] = ROLE_MODEL;
    r->p.mark = t->mark;
    r->p.n_mark = t->n_mark;
}

/* Catches a drop that comes a token early or late, or takes the wrong turns, with drafts; and drafts that
 * change anything: every drafter and length gives the tokens, the rows, the counts and the state that plain
 * decoding gives. Several drops in one generation. */
static void test_context_drops_are_the_same_with_drafts(void **state)
{
    (void)state;
    for (int a = 0; a < 3; a++) {
        ft_model *m = rig_model(family[a]);
        for (int i = 0; i < 2; i++) {
            talk t;
            make_talk(&t, i, 4, 70, i == 0 ? 0 : 0.8f);
            br_trace *plain = br_solo(m, &t.r, NULL, N_CTX);
            assert_true(plain->stats.n_dropped == 4 * TURN && plain->stats.n_reread > N_CTX);
            for (int kind = BR_OWN; kind <= BR_ALTERNATING; kind++)
                for (int k = 1; k <= 7; k += 3) {
                    br_draft(&t.r, (br_drafts)kind, k);
                    br_trace *with = br_solo(m, &t.r, plain, N_CTX);
                    br_same(with, plain, "drops with drafts");
                    assert_int_equal(with->stats.n_dropped, plain->stats.n_dropped);
                    assert_int_equal(with->stats.n_reread, plain->stats.n_reread);
                    assert_true(kind != BR_RIGHT || with->stats.draft.accepted > 10);
                    free(with);
                }
            free(plain);
        }
        ft_model_close(m);
    }
}

/* r alone in a session whose random numbers count n_dropped positions more; free(). */
static br_trace *as_if_dropped(ft_model *m, const br_request *r, int n_dropped)
{
    br_slot *x = calloc(1, sizeof *x);
    br_trace *t = calloc(1, sizeof *t);
    assert_true(x && t);
    br_open(x, m, NULL, N_CTX);
    br_begin(x, r, NULL);
    x->s->n_dropped = n_dropped;
    br_run(x->s->batch, x, 1);
    br_end(x);
    *t = x->t;
    br_close(x);
    free(x);
    return t;
}

/* Catches what is dropped, kept and counted otherwise than documented, and a trace of the dropped turns in
 * what follows: the rest is continued, row by row, as by a new session that reads it; at a temperature the
 * random numbers go on with the position in the whole conversation, so that none comes twice. */
static void test_context_behind_a_drop_is_a_new_session(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        ft_model *m = rig_model(family[i / 2]);
        const float temp = i % 2 ? 0.8f : 0;
        talk t;
        make_talk(&t, 1, 4, 40, temp);
        const int n_prompt = t.r.n_prompt,
                  n_first = N_CTX - n_prompt + 1; /* tokens before the drop */
        br_trace *dropped = br_solo(m, &t.r, NULL, N_CTX);
        /* A quarter of the context lies in two turns. */
        int kept = N_CTX + 1 - 2 * TURN, n_second = N_CTX - kept + 1;
        assert_true(n_first + n_second < 40);

        br_request rest = t.r; /* system message, the other turns, question, answer so far */
        rest.p.context = FT_CONTEXT_STOP;
        rest.p.n_mark = 0;
        rest.n_prompt = SYSTEM;
        for (int k = SYSTEM + 2 * TURN; k < n_prompt; k++)
            rest.prompt[rest.n_prompt++] = t.r.prompt[k];
        for (int k = 0; k < n_first; k++)
            rest.prompt[rest.n_prompt++] = dropped->id[k];
        assert_int_equal(rest.n_prompt, kept);
        rest.p.n_max = -1;
        br_trace *fresh = as_if_dropped(m, &rest, temp > 0 ? 2 * TURN : 0);
        assert_int_equal(fresh->n, n_second);
        assert_memory_equal(fresh->id, dropped->id + n_first, (size_t)n_second * sizeof(int32_t));
        assert_memory_equal(fresh->row, dropped->row + n_first,
                            (size_t)n_second * sizeof(uint64_t));

        /* Up to the drop it is the text without one, and nothing was dropped before it was necessary. */
        br_request stops = t.r;
        stops.p.context = FT_CONTEXT_STOP;
        br_trace *before = br_solo(m, &stops, NULL, N_CTX);
        assert_int_equal(before->n, n_first);
        assert_int_equal(before->stats.finish, FT_FINISH_CONTEXT);
        assert_memory_equal(before->id, dropped->id, (size_t)n_first * sizeof(int32_t));
        assert_int_equal(dropped->stats.n_prompt, n_prompt);
        assert_int_equal(dropped->stats.finish, FT_FINISH_LENGTH);
        assert_int_equal(dropped->stats.n_token, 40);
        assert_int_equal(dropped->stats.n_dropped, 4 * TURN);
        assert_int_equal(dropped->stats.n_reread, 2 * kept);
        free(before);
        free(fresh);
        free(dropped);
        ft_model_close(m);
    }
}

/* Catches a drop of the turn that is being made, of the system message, or for ever: with so many turns in
 * front, all of them go in steps of two, then the text ends with the context. */
static void test_context_last_turn_is_never_dropped(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    for (int n_turn = 0; n_turn <= 4; n_turn++)
        for (int n_max = -1; n_max <= 200; n_max += 201) {
            talk t;
            make_talk(&t, 2, n_turn, n_max, 0.7f);
            br_slot *x = calloc(1, sizeof *x);
            br_open(x, m, NULL, N_CTX);
            br_begin(x, &t.r, NULL);
            br_run(x->s->batch, x, 1);
            br_end(x);
            assert_int_equal(x->t.st, FT_OK);
            assert_int_equal(x->t.stats.finish, FT_FINISH_CONTEXT);
            assert_int_equal(x->t.stats.n_dropped, n_turn * TURN);
            int last = SYSTEM + QUESTION + 2, n, made = x->t.n;
            assert_int_equal(made, N_CTX - last + 1);
            const int32_t *tok = ft_session_tokens(x->s, &n);
            assert_int_equal(n, N_CTX + 1);
            assert_memory_equal(tok, t.r.prompt, SYSTEM * sizeof *tok);
            assert_memory_equal(tok + SYSTEM, t.r.prompt + SYSTEM + n_turn * TURN,
                                (QUESTION + 2) * sizeof *tok);
            assert_memory_equal(tok + last, x->t.id, (size_t)made * sizeof *tok);
            br_close(x);
            free(x);
        }
    ft_model_close(m);
}

/* Catches a turn that cannot be told: without marks, with marks that begin no turn, with several at one
 * place (a turn of no tokens, dropped for ever), or in text that the model makes, nothing is dropped, and
 * drafts do not matter. */
static void test_context_without_turns_ends_the_text(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35MOE);
    talk t;
    make_talk(&t, 3, 3, -1, 0.5f);
    int answers[MARKS], same[MARKS], ahead[MARKS], n_answer = 0, n_ahead = 1;
    for (int i = 0; i < t.n_mark; i++)
        if (i == 0 || t.r.prompt[t.mark[i]] != TINY_IM_START ||
            t.r.prompt[t.mark[i] + 1] == ROLE_MODEL)
            answers[n_answer++] = t.mark[i];
    for (int i = 0; i < MARKS; i++)
        same[i] = SYSTEM;
    ahead[0] = t.r.n_prompt - 2; /* and every place behind the prompt */
    for (int i = t.r.n_prompt; n_ahead < MARKS; i++)
        ahead[n_ahead++] = i;
    const struct {
        const int *mark;
        int n;
    } c[] = {{NULL, 0}, {t.mark, 1}, {answers, n_answer}, {same, MARKS}, {ahead, MARKS}};
    const ft_logit_bias bias[] = {{TINY_IM_START, 1000}, {ROLE_MODEL, 999}};
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        br_draft(&t.r, BR_NONE, 0);
        t.r.p.mark = c[i].mark;
        t.r.p.n_mark = c[i].n;
        /* An answer that repeats its own opening looks like turns. */
        t.r.p.sample.bias = bias;
        t.r.p.sample.n_bias = i == 4 ? 2 : 0;
        t.r.p.sample.presence_penalty = 100;
        t.r.p.sample.penalty_last_n = 1;
        br_trace *plain = br_solo(m, &t.r, NULL, N_CTX);
        assert_int_equal(plain->stats.finish, FT_FINISH_CONTEXT);
        assert_int_equal(plain->stats.n_dropped, 0);
        assert_int_equal(plain->n, N_CTX - t.r.n_prompt + 1);
        br_draft(&t.r, BR_RIGHT, 5);
        br_trace *with = br_solo(m, &t.r, plain, N_CTX);
        br_same(with, plain, "nothing to drop");
        free(with);
        free(plain);
    }
    ft_generation *g;
    ft_session *s = rig_session(m, N_CTX, 16, "f16");
    t.r.p.mark = (const int[]){4, 3};
    t.r.p.n_mark = 2;
    FAILS(ft_generation_begin(&g, s, t.r.prompt, 8, &t.r.p, &rig_err), FT_ARG, "mark: 3 behind 4");
    t.r.p.mark = (const int[]){-1};
    t.r.p.n_mark = 1;
    FAILS(ft_generation_begin(&g, s, t.r.prompt, 8, &t.r.p, &rig_err), FT_ARG, "mark: -1");
    t.r.p.mark = NULL;
    FAILS(ft_generation_begin(&g, s, t.r.prompt, 8, &t.r.p, &rig_err), FT_ARG, "n_mark: 1, want");
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches turns that are counted from the prompt instead of the conversation: most of it was read by
 * earlier requests, and one of those answers was made here. */
static void test_context_marks_count_from_the_start_of_the_conversation(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    talk t;
    make_talk(&t, 4, 4, 40, 0);
    br_trace *want = br_solo(m, &t.r, NULL, N_CTX);
    ft_session *s = rig_session(m, N_CTX, 16, "f16");
    OK(ft_session_eval(s, t.r.prompt, 30, NULL, &rig_err));
    rig_output *out = calloc(1, sizeof *out);
    ft_generate_params p = t.r.p;
    p.on_token = rig_on_token;
    p.on_token_ctx = out;
    rig_generate(s, t.r.prompt + 30, t.r.n_prompt - 30, &p);
    assert_int_equal(out->n, want->n);
    assert_memory_equal(out->id, want->id, (size_t)want->n * sizeof(int32_t));
    assert_int_equal(out->stats.n_dropped, want->stats.n_dropped);
    free(out);
    free(want);
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a drop in one slot that its neighbours notice, and one that cannot be cancelled. */
static void test_context_drop_in_a_batch_touches_nobody(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    talk t[3];
    br_trace *want[3];
    ft_batch *b = br_batch(m, 3, 16, N_CTX);
    br_slot *x = calloc(3, sizeof *x);
    for (int i = 0; i < 3; i++) {
        make_talk(&t[i], i, 2 + i, 60, 0.6f);
        want[i] = br_solo(m, &t[i].r, NULL, N_CTX);
        assert_true(want[i]->stats.n_dropped > 0);
        br_draft(&t[i].r, i == 1 ? BR_OWN : BR_RIGHT, 3);
        br_open(&x[i], m, b, 0);
        br_begin(&x[i], &t[i].r, want[i]);
    }
    br_run(b, x, 3);
    for (int i = 0; i < 3; i++) {
        br_end(&x[i]);
        br_same(&x[i].t, want[i], "drops side by side");
        assert_int_equal(x[i].t.stats.n_dropped, want[i]->stats.n_dropped);
    }
    br_begin(&x[0], &t[2].r, want[2]);
    while (ft_generation_get_state(x[0].g) == FT_GENERATION_PROMPT)
        br_step(b, x, 1);
    while (ft_generation_get_state(x[0].g) == FT_GENERATION_DECODE)
        br_step(b, x, 1);
    assert_int_equal(ft_generation_get_state(x[0].g), FT_GENERATION_PROMPT); /* again */
    br_step(b, x, 1);
    ft_generation_cancel(x[0].g);
    br_step(b, x, 1);
    ft_generate_stats stats;
    FAILS(ft_generation_end(x[0].g, &stats, &rig_err), FT_CANCELLED, "tokens to read again");
    x[0].g = NULL;
    assert_int_equal(ft_session_n_past(x[0].s), stats.n_reread);
    assert_true(stats.n_reread > 0);
    for (int i = 0; i < 3; i++) {
        br_close(&x[i]);
        free(want[i]);
    }
    free(x);
    ft_batch_free(b);
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_context_drops_are_the_same_with_drafts),
        cmocka_unit_test(test_context_behind_a_drop_is_a_new_session),
        cmocka_unit_test(test_context_last_turn_is_never_dropped),
        cmocka_unit_test(test_context_without_turns_ends_the_text),
        cmocka_unit_test(test_context_marks_count_from_the_start_of_the_conversation),
        cmocka_unit_test(test_context_drop_in_a_batch_touches_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
