/* test_engine_batch_rows.c - who gets which rows of a step, that every token of a prompt is evaluated
 * once, what drafts made together count for, and what happens near the end of the context.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/batchrig.h"
#include "support/enginerig.h"

enum { N_CTX = 160, MANY = 40 };

static const model_arch family[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

static br_request prompt_of(int i, int n_prompt, int n_max)
{
    br_request r = br_make(i);
    r.n_prompt = n_prompt;
    for (int k = 0; k < n_prompt; k++)
        r.prompt[k] = rig_text(1000 * i + k);
    r.p.n_max = n_max;
    return r;
}

/* ---- Shares ------------------------------------------------------------------------------------------- */

/* Catches shares of a step that are not as documented: even ones, the rest to the oldest, and what a short
 * prompt leaves to those before it. */
static void test_batch_prompts_share_the_rows_of_a_step(void **state)
{
    (void)state;
    static const struct {
        int n_chunk, n, prompt[4], rows[4]; /* of the first step */
    } c[] = {
        {12, 1, {50}, {12}},
        {12, 2, {50, 50}, {6, 6}},
        {12, 3, {50, 50, 50}, {4, 4, 4}},
        {11, 3, {50, 50, 50}, {4, 4, 3}},
        {5, 3, {50, 50, 50}, {2, 2, 1}},
        {3, 4, {50, 50, 50, 50}, {1, 1, 1, 0}},
        {1, 2, {50, 50}, {1, 0}},
        {12, 3, {50, 50, 2}, {5, 5, 2}},
        {12, 3, {50, 1, 50}, {7, 1, 4}},
    };
    ft_model *m = rig_model(MODEL_QWEN35);
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        ft_batch *b = br_batch(m, 4, c[i].n_chunk, N_CTX);
        br_slot *x = calloc(4, sizeof *x);
        br_request r[4];
        for (int k = 0; k < c[i].n; k++) {
            r[k] = prompt_of(k, c[i].prompt[k], 1);
            br_open(&x[k], m, b, 0);
            br_begin(&x[k], &r[k], NULL);
        }
        br_step(b, x, c[i].n);
        for (int k = 0; k < c[i].n; k++) {
            if (ft_session_n_past(x[k].s) != c[i].rows[k])
                fail_msg("case %zu: prompt %d got %d rows, want %d", i, k,
                         ft_session_n_past(x[k].s), c[i].rows[k]);
            br_close(&x[k]);
        }
        free(x);
        ft_batch_free(b);
    }
    ft_model_close(m);
}

/* Catches a request that starves: 39 prompts against 8 rows a step, with one that decodes. The prompts
 * are read in a bounded number of steps, in their order at the latest; who decodes gets a token in every
 * step, whatever is read beside it. B074 */
static void test_batch_nobody_starves(void **state)
{
    (void)state;
    enum { N_CHUNK = 8 };
    ft_model *m = rig_model(MODEL_QWEN35MOE);
    ft_batch *b = br_batch(m, MANY, N_CHUNK, N_CTX);
    br_slot *x = calloc(MANY, sizeof *x);
    br_request *r = calloc(MANY, sizeof *r);
    br_trace *want[MANY];
    int n_total = 0, n_step = 0;
    for (int i = 0; i < MANY; i++) {
        r[i] = prompt_of(i, i == 0 ? 3 : 1 + (i * 29) % 60, i == 0 ? 140 : 5);
        want[i] = br_solo(m, &r[i], NULL, N_CTX);
        br_open(&x[i], m, b, 0);
        br_begin(&x[i], &r[i], NULL);
        n_total += r[i].n_prompt;
    }
    br_step(b, x, 1);
    assert_int_equal(x[0].t.n, 1);
    bool reading = true;
    for (; reading; n_step++) {
        int before[MANY], read = 0;
        bool was_reading[MANY], was_decoding[MANY];
        for (int i = 0; i < MANY; i++) {
            ft_generation_state g = ft_generation_get_state(x[i].g);
            before[i] = i && g == FT_GENERATION_PROMPT ? ft_session_n_past(x[i].s) : x[i].t.n;
            was_reading[i] = g == FT_GENERATION_PROMPT;
            was_decoding[i] = g == FT_GENERATION_DECODE;
        }
        br_step(b, x, MANY);
        reading = false;
        for (int i = 0; i < MANY; i++) {
            if (was_decoding[i])
                assert_int_equal(x[i].t.n, before[i] + 1);
            if (was_reading[i])
                read += ft_session_n_past(x[i].s) - before[i];
            reading |= ft_generation_get_state(x[i].g) == FT_GENERATION_PROMPT;
        }
        assert_true(read <= N_CHUNK);
        if (reading) /* no row is wasted while there are as many prompts as rows */
            assert_true(read >= 1);
        assert_true(n_step < n_total); /* and so it ends */
    }
    /* Prompts behind the first few wait for those before them, and no longer. */
    assert_true(n_step <= n_total / N_CHUNK + 2 * 60);
    br_run(b, x, MANY);
    for (int i = 0; i < MANY; i++) {
        br_end(&x[i]);
        br_same(&x[i].t, want[i], "one of many");
        br_close(&x[i]);
        free(want[i]);
    }
    free(r);
    free(x);
    ft_batch_free(b);
    ft_model_close(m);
}

/* ---- Every token once ----------------------------------------------------------------------------------- */

/* Catches a tail of a prompt that is lost or read twice in some band of lengths: for every length up to
 * four chunks and one more token, beside a neighbour that decodes, each token is evaluated once and the last
 * one, a needle, decides. B077 B078 */
static void test_batch_reads_every_token_once(void **state)
{
    (void)state;
    enum { N_CHUNK = 8 };
    for (int a = 0; a < 3; a++) {
        ft_model *m = rig_model(family[a]);
        ft_batch *b = br_batch(m, 2, N_CHUNK, N_CTX);
        br_slot *x = calloc(2, sizeof *x);
        br_request other = prompt_of(99, 2, 120);
        br_open(&x[0], m, b, 0);
        br_open(&x[1], m, b, 0);
        for (int n = 1; n <= 4 * N_CHUNK + 1; n++) {
            br_request r = prompt_of(2, n, 4);
            r.p.sample.temp = 0;
            uint64_t row[2];
            for (int needle = 0; needle < 2; needle++) {
                r.prompt[n - 1] = needle ? 17 : 23;
                br_draft(&r, BR_OWN, 3);
                br_begin(&x[0], &other, NULL);
                br_step(b, x, 1);
                br_begin(&x[1], &r, NULL);
                ft_session_info before, after;
                ft_session_get_info(x[1].s, &before);
                while (ft_generation_get_state(x[1].g) == FT_GENERATION_PROMPT)
                    br_step(b, x, 2);
                ft_session_get_info(x[1].s, &after);
                assert_int_equal(after.n_evaluated - before.n_evaluated, n);
                assert_int_equal(after.n_past, n);
                int n_tok;
                const int32_t *tok = ft_session_tokens(x[1].s, &n_tok);
                assert_int_equal(n_tok, n + 1);
                assert_memory_equal(tok, r.prompt, (size_t)n * sizeof *tok);
                br_run(b, x + 1, 1);
                br_end(&x[1]);
                assert_int_equal(x[1].t.stats.n_prompt, n);
                if (n > 1)
                    assert_true(x[1].t.stats.draft.drafted > 0);
                br_trace *want = br_solo(m, &r, NULL, N_CTX);
                br_same(&x[1].t, want, "the one that reads");
                free(want);
                row[needle] = x[1].t.row[0];
                OK(ft_generation_end(x[0].g, NULL, &rig_err));
                x[0].g = NULL;
            }
            assert_true(row[0] != row[1]);
        }
        for (int i = 0; i < 2; i++)
            br_close(&x[i]);
        free(x);
        ft_batch_free(b);
        ft_model_close(m);
    }
}

/* ---- Drafts made together ------------------------------------------------------------------------------- */

/* Catches a shared draft step that counts for one of those who took part, or for one who did not: two make
 * the same number of drafts, in the same steps, and the third has them from elsewhere. What is not shared
 * of a step's time is a hundredth of it or so, so that a busy machine cannot hide a time that is missing. */
static void test_batch_drafts_made_together_count_for_each(void **state)
{
    (void)state;
    enum { N_MADE = 40, K = 3 };
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    ft_batch *b = br_batch(m, 3, 64, 192);
    br_slot *x = calloc(3, sizeof *x);
    br_request r[3];
    for (int i = 0; i < 3; i++) {
        r[i] = prompt_of(1, 20, N_MADE);
        r[i].p.sample.temp = 0; /* drawing takes next to no time */
        br_draft(&r[i], i < 2 ? BR_OWN : BR_WRONG, K);
    }
    br_trace *want = br_solo(m, &r[0], NULL, 192);
    for (int i = 0; i < 3; i++) {
        br_open(&x[i], m, b, 0);
        br_begin(&x[i], &r[i], want);
    }
    br_run(b, x, 3);
    const ft_draft_stats *d[3];
    for (int i = 0; i < 3; i++) {
        br_end(&x[i]);
        d[i] = &x[i].t.stats.draft;
        assert_true(d[i]->drafted >= N_MADE / 2);
    }
    assert_int_equal(d[0]->steps, d[0]->drafted);
    assert_int_equal(d[1]->steps, d[0]->steps);
    assert_true(d[0]->draft_seconds > 0.1 * d[1]->draft_seconds);
    assert_true(d[1]->draft_seconds > 0.1 * d[0]->draft_seconds);
    assert_true(d[0]->draft_seconds < x[0].t.stats.decode_seconds);
    assert_true(d[2]->steps == 0 && d[2]->draft_seconds == 0);
    for (int i = 0; i < 3; i++)
        br_close(&x[i]);
    free(want);
    free(x);
    ft_batch_free(b);
    ft_model_close(m);
}

/* ---- The end of the context ------------------------------------------------------------------------------ */

/* Catches drafts past the end of the context, a token lost or too many there, and a prompt shortened in
 * silence: prompts of limit - k - 2 .. limit + 1 tokens, side by side, with far more tokens wanted than
 * fit. B065 B066 B068 */
static void test_batch_near_the_end_of_the_context(void **state)
{
    (void)state;
    enum { LIMIT = 48, K = 4, N = K + 3 };
    for (int a = 0; a < 3; a++) {
        ft_model *m = rig_model(family[a]);
        ft_batch *b = br_batch(m, N + 1, 64, LIMIT);
        br_slot *x = calloc(N + 1, sizeof *x);
        br_request *r = calloc(N + 1, sizeof *r);
        for (int kind = BR_OWN; kind <= BR_ALTERNATING; kind++) {
            br_trace *want[N];
            for (int i = 0; i < N; i++) {
                r[i] = prompt_of(i, LIMIT - K - 2 + i, kind % 2 ? -1 : 1000000);
                want[i] = br_solo(m, &r[i], NULL, LIMIT);
                assert_int_equal(want[i]->n, LIMIT - r[i].n_prompt + 1);
                assert_int_equal(want[i]->stats.finish, FT_FINISH_CONTEXT);
                br_draft(&r[i], (br_drafts)kind, K);
                br_open(&x[i], m, b, 0);
                br_begin(&x[i], &r[i], want[i]);
            }
            r[N] = prompt_of(N, LIMIT + 1, 5);
            br_open(&x[N], m, b, 0);
            FAILS(ft_generation_begin(&x[N].g, x[N].s, r[N].prompt, LIMIT + 1, &r[N].p, &rig_err),
                  FT_RANGE, "0 tokens used and 49 more wanted, the limit is 48");
            assert_null(x[N].g);
            assert_int_equal(ft_session_n_past(x[N].s), 0);
            br_run(b, x, N + 1);
            for (int i = 0; i < N; i++) {
                br_end(&x[i]);
                br_same(&x[i].t, want[i], "near the end of the context");
                assert_int_equal(ft_session_n_past(x[i].s), LIMIT);
                br_close(&x[i]);
                free(want[i]);
            }
            br_close(&x[N]);
        }
        free(r);
        free(x);
        ft_batch_free(b);
        ft_model_close(m);
    }
}

/* Catches limits taken from the sum of all slots, or from a context of its own for the draft head: one to
 * three slots of tiny, odd and large contexts, whose texts, drafts and acceptance are all the same. B063
 * B064 */
static void test_batch_size_of_the_context_changes_nothing(void **state)
{
    (void)state;
    enum { N_TEXT = 24 };
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    br_request r[3];
    br_trace *want[3];
    for (int i = 0; i < 3; i++) {
        r[i] = prompt_of(i, 20 + i, N_TEXT);
        br_draft(&r[i], BR_OWN, 3);
        want[i] = br_solo(m, &r[i], NULL, 1000);
        assert_true(want[i]->stats.draft.drafted > 10);
    }
    for (int size = 0; size < 40; size++) {
        int n_slot = 1 + size % 3, n_ctx = size == 39 ? 1 << 16 : 21 + N_TEXT + size * size;
        ft_batch *b = br_batch(m, n_slot, 16, n_ctx);
        br_slot *x = calloc(3, sizeof *x);
        for (int i = 0; i < n_slot; i++) {
            br_open(&x[i], m, b, 0);
            br_begin(&x[i], &r[i], NULL);
        }
        br_run(b, x, n_slot);
        for (int i = 0; i < n_slot; i++) {
            br_end(&x[i]);
            br_same(&x[i].t, want[i], "another context");
            assert_int_equal(x[i].t.stats.draft.drafted, want[i]->stats.draft.drafted);
            assert_int_equal(x[i].t.stats.draft.accepted, want[i]->stats.draft.accepted);
            br_close(&x[i]);
        }
        free(x);
        ft_batch_free(b);
    }
    for (int i = 0; i < 3; i++)
        free(want[i]);
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_prompts_share_the_rows_of_a_step),
        cmocka_unit_test(test_batch_nobody_starves),
        cmocka_unit_test(test_batch_reads_every_token_once),
        cmocka_unit_test(test_batch_drafts_made_together_count_for_each),
        cmocka_unit_test(test_batch_near_the_end_of_the_context),
        cmocka_unit_test(test_batch_size_of_the_context_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
