/* test_engine_shift.c - ft_session_shift, and a drafter without memory: neither changes what a text is. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "state/snapshot.h"
#include "support/draftone.h"
#include "support/enginerig.h"

static const model_arch family[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

enum { N = 600, N_MADE = 40 };

static ft_session *session(ft_model *m, bool no_draft)
{
    ft_session *s;
    ft_session_params p = ft_session_params_default();
    p.n_ctx = 1100;
    p.n_chunk = 64;
    p.sink = 8;
    p.window = 24;
    p.no_draft = no_draft;
    OK(ft_session_create(&s, m, &p, &rig_err));
    return s;
}

static rig_output *generate(ft_session *s, float temp)
{
    rig_output *out = calloc(1, sizeof *out);
    assert_non_null(out);
    ft_generate_params p = rig_params(out, N_MADE, temp, 11);
    p.ignore_eos = true;
    p.draft_max = 4;
    p.draft_fixed = true;
    rig_generate(s, (int32_t[]){33}, 1, &p);
    return out;
}

/* Catches a shift that a drafter makes another one of: the text behind it is bit for bit that of a session
 * without drafts, and there are drafts. In front of the drafter's window, through it, behind the sink, in it. */
static void test_shift_then_drafts_give_the_text_without_drafts(void **state)
{
    (void)state;
    static const int gaps[][2] = {{200, 100}, {560, 39}, {590, 5},  {4, 3},
                                  {0, 300},   {599, 1},  {100, 412}};
    int32_t tok[N];
    rig_prompt(tok, N);
    for (size_t a = 0; a < ARRAY_LEN(family); a++) {
        ft_model *m = rig_model(family[a]);
        ft_session *s = session(m, false), *plain = session(m, true);
        for (size_t i = 0; i < ARRAY_LEN(gaps); i++) {
            ft_session *both[] = {s, plain};
            rig_output *out[2];
            for (int k = 0; k < 2; k++) {
                ft_session_reset(both[k]);
                assert_false(both[k]->inexact);
                OK(ft_session_eval(both[k], tok, N, NULL, &rig_err));
                OK(ft_session_shift(both[k], gaps[i][0], gaps[i][1], &rig_err));
                assert_int_equal(ft_session_n_past(both[k]), N - gaps[i][1]);
                assert_true(both[k]->inexact);
                out[k] = generate(both[k], i % 2 ? 0.8f : 0);
            }
            assert_true(out[0]->stats.draft.drafted > 0);
            assert_int_equal(out[0]->n, N_MADE);
            assert_memory_equal(out[0]->id, out[1]->id, sizeof out[0]->id);
            assert_true(seq_digest(s->state) == seq_digest(plain->state));
            free(out[0]);
            free(out[1]);
        }
        ft_session_free(s);
        ft_session_free(plain);
        ft_model_close(m);
    }
}

/* Catches cells of the drafter that are read although they hold a pair that is gone, or lost although theirs
 * is still there: what the first draft behind a gap reads, counted. The prompt left cells 0 .. 7 and 574 .. 598,
 * the last hidden row waits. */
static void test_shift_keeps_the_drafter_cells_that_are_true(void **state)
{
    (void)state;
    static const struct {
        int first, n, want;
    } table[] = {
        {599, 1, 0},          /* the row that waits is gone: no draft */
        {200, 100, 8 + 25},   /* in the hole */
        {580, 10, 8 + 9 + 1}, /* cells 590 .. 598 moved, and the new one */
        {4, 3, 3 + 25},       /* cells 0 .. 2 are left of the sink */
        {0, 3, 5 + 25},       /* five of the sink moved */
        {590, 9, 8 + 1},      /* all that stood behind is the row that waits; cell 589 is stale */
    };
    int32_t tok[N];
    rig_prompt(tok, N);
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    ft_session *s = session(m, false);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        ft_session_reset(s);
        OK(ft_session_eval(s, tok, N, NULL, &rig_err));
        OK(ft_session_shift(s, table[i].first, table[i].n, &rig_err));
        int n_past = ft_session_n_past(s);
        assert_int_equal(draft_ready(s->drafter, n_past), table[i].want > 0);
        if (table[i].want == 0)
            continue;
        assert_non_null(draft_first(s->drafter, &s->batch->scratch, s->state->tok, n_past, 5,
                                    s->batch->logits));
        if (draft_last_read(s->drafter) != table[i].want)
            fail_msg("case %zu: %d cells read", i, draft_last_read(s->drafter));
        draft_end(s->drafter);
    }
    ft_session_free(s);
    ft_model_close(m);
}

/* B049. Catches pooled indexer keys of blocks that are there no more: made again from the raw ones, they are the
 * same. */
static void test_shift_makes_pooled_keys_again(void **state)
{
    (void)state;
    int32_t tok[N];
    rig_prompt(tok, N);
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    ft_session *s = session(m, false);
    OK(ft_session_eval(s, tok, N, NULL, &rig_err));
    OK(ft_session_shift(s, 101, 50, &rig_err));
    uint64_t then = seq_digest(s->state);
    layer_pool_index(m->be, m->m, s->state, 0);
    assert_true(seq_digest(s->state) == then);
    ft_session_free(s);
    ft_model_close(m);
}

/* B068. Catches wishes that reach memory unchecked, and a shift of nothing that changes something. */
static void test_shift_out_of_range_is_refused(void **state)
{
    (void)state;
    static const int bad[][2] = {
        {-1, 2}, {0, -1}, {0, 31}, {30, 1}, {31, 0}, {5, INT32_MAX}, {INT32_MAX, INT32_MAX}};
    int32_t tok[30];
    rig_prompt(tok, 30);
    ft_model *m = rig_model(MODEL_QWEN35);
    ft_session *s = session(m, false);
    OK(ft_session_shift(s, 0, 0, &rig_err));
    OK(ft_session_eval(s, tok, 30, NULL, &rig_err));
    uint64_t then = session_digest(s);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        FAILS(ft_session_shift(s, bad[i][0], bad[i][1], &rig_err), FT_RANGE, "there are 30");
    OK(ft_session_shift(s, 10, 0, &rig_err));
    OK(ft_session_shift(s, 30, 0, &rig_err));
    assert_true(session_digest(s) == then && !s->inexact);
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a session that is called empty and remembers: with all tokens dropped it is as new. */
static void test_shift_of_all_tokens_is_a_reset(void **state)
{
    (void)state;
    int32_t tok[30];
    rig_prompt(tok, 30);
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    ft_session *s = session(m, false), *fresh = session(m, false);
    OK(ft_session_eval(s, tok, 30, NULL, &rig_err));
    OK(ft_session_shift(s, 3, 4, &rig_err));
    OK(ft_session_shift(s, 0, 26, &rig_err));
    assert_true(!s->inexact && session_digest(s) == session_digest(fresh));
    rig_output *a = generate(s, 0), *b = generate(fresh, 0);
    assert_memory_equal(a->id, b->id, sizeof a->id);
    free(a);
    free(b);
    ft_session_free(s);
    ft_session_free(fresh);
    ft_model_close(m);
}

/* Catches a shift without memory that leaves the session half moved. Pages of the state that a snapshot shares
 * must be copied; the drafter's are its own. */
static void test_shift_without_memory_changes_nothing(void **state)
{
    (void)state;
    int32_t tok[N];
    rig_prompt(tok, N);
    ft_model *m = rig_model(MODEL_QWEN4EXP);
    ft_session *s = session(m, false);
    OK(ft_session_eval(s, tok, N, NULL, &rig_err));
    seq_snap *n;
    OK(seq_snap_take(&n, s->state, &rig_err));
    uint64_t then = session_digest(s);
    int k = 1;
    for (;; k++) {
        rig_err = (ft_error){0};
        mem_fail_at(k);
        ft_status st = ft_session_shift(s, 300, 10, &rig_err);
        mem_fail_at(0);
        if (st == FT_OK)
            break;
        assert_int_equal(st, FT_NOMEM);
        assert_true(rig_err.msg[0] && session_digest(s) == then && !s->inexact);
        OK(seq_snap_restore(s->state, n, &rig_err));
    }
    assert_int_equal(k, 5); /* two pages of two allocations each */
    seq_snap_free(n);
    ft_session_free(s);
    ft_model_close(m);
}

/* B046. Catches a drafter without memory for its cells that ends a request or changes its text: a generation over
 * the border of a page, each allocation failing in turn. */
static void test_drafter_without_memory_leaves_the_text(void **state)
{
    (void)state;
    enum { AT = 505 };
    int32_t tok[N];
    rig_prompt(tok, N);
    ft_model *m = rig_model(MODEL_QWEN35);
    ft_session *s = session(m, false);
    OK(ft_session_eval(s, tok, AT, NULL, &rig_err));
    rig_output *want = generate(s, 0.8f), *out = calloc(1, sizeof *out);
    assert_int_equal(want->stats.draft.failed, 0);
    int n_counted = 0;
    for (int k = 1; k < 1000; k++) {
        ft_session_reset(s);
        OK(ft_session_eval(s, tok, AT, NULL, &rig_err));
        *out = (rig_output){0};
        ft_generate_params p = rig_params(out, N_MADE, 0.8f, 11);
        p.ignore_eos = true;
        p.draft_max = 4;
        p.draft_fixed = true;
        ft_error err = {0};
        long before = mem_count();
        mem_fail_at(k);
        ft_status st = ft_session_generate(s, (int32_t[]){33}, 1, &p, &out->stats, &err);
        mem_fail_at(0);
        if (mem_count() - before < k)
            break;
        assert_memory_equal(out->id, want->id, (size_t)out->n * sizeof *out->id);
        if (st != FT_OK) {
            assert_int_equal(st, FT_NOMEM);
            continue;
        }
        assert_int_equal(out->n, N_MADE);
        n_counted += out->stats.draft.failed == 1;
    }
    assert_int_equal(n_counted, 2); /* of a page's memory, and of what counts its owners */
    free(want);
    free(out);
    ft_session_free(s);
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shift_then_drafts_give_the_text_without_drafts),
        cmocka_unit_test(test_shift_keeps_the_drafter_cells_that_are_true),
        cmocka_unit_test(test_shift_makes_pooled_keys_again),
        cmocka_unit_test(test_shift_out_of_range_is_refused),
        cmocka_unit_test(test_shift_of_all_tokens_is_a_reset),
        cmocka_unit_test(test_shift_without_memory_changes_nothing),
        cmocka_unit_test(test_drafter_without_memory_leaves_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
