/* test_engine_reuse.c - going on from what is known gives what reading everything gives, and reads no more
 * than it must. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/reuse.h"
#include "support/sessionrig.h"

enum { CTX = 512 };

/* A model that keeps checkpoints, a session of it; the same model without, and a session of that. */
typedef struct {
    ft_model *m, *plain_m;
    ft_session *s, *plain;
} pair;

static pair open_pair(const tiny_opts *o)
{
    pair p = {.m = kept_model("kept.gguf", o, 1 << 28), .plain_m = kept_model("plain.gguf", o, 0)};
    p.s = kept_session(p.m, CTX, 48);
    p.plain = kept_session(p.plain_m, CTX, CTX);
    return p;
}

static void close_pair(pair *p)
{
    ft_session_free(p->s);
    ft_session_free(p->plain);
    ft_model_close(p->m);
    ft_model_close(p->plain_m);
}

static pair open_family(model_arch arch)
{
    tiny_opts o = tiny_default(arch);
    return open_pair(&o);
}

static ft_checkpoint_stats stats_of(const ft_model *m)
{
    ft_checkpoint_stats st;
    ft_model_checkpoint_stats(m, &st);
    return st;
}

/* ---- The same state ------------------------------------------------------------------------------------ */

/* Catches any part of the state that a checkpoint lacks, or shares with a session that goes on: texts that
 * begin like one before for 50 random lengths, each as if read in one go. B041 B057 B058 */
static void test_reuse_random_beginnings_as_if_read_in_one_go(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++) {
        pair p = open_family(rig_family[f]);
        int32_t tok[240];
        mix_texts(tok, 1, 240, 1, 240);
        for (int i = 0; i < 7; i++) { /* 29, 58, ... of the text that all begin with */
            OK(ft_session_eval(p.s, tok + 29 * i, 29, NULL, &rig_err));
            OK(ft_session_checkpoint(p.s, &rig_err));
        }
        for (int i = 0; i < 50; i++) {
            int n_a = (int)rig_text(i) % 200, n = n_a + 1 + (int)rig_text(i + 77) % 40;
            const float *a, *b;
            mix_texts(tok, 1, n_a, 2 + i % 7, n);
            int n_known = read_text(p.s, tok, n, &a);
            assert_true(n_known >= n_a / 29 * 29 && n_known < n);
            expect_as_read(p.s, p.plain, tok, n);
            ft_session_reset(p.plain);
            OK(ft_session_eval(p.plain, tok, n, &b, &rig_err));
            assert_memory_equal(a, b, 320 * sizeof *a);
            if (i % 3 == 0)
                OK(ft_session_checkpoint(p.s, &rig_err));
        }
        ft_checkpoint_stats st = stats_of(p.m);
        assert_true(st.hits > 10 && st.tokens_reused > 500 && st.n > 10);
        close_pair(&p);
    }
}

/* Catches histories (n-grams, convolutions) that a checkpoint of a short text lacks. B048 */
static void test_reuse_histories_of_one_to_five_tokens(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++) {
        pair p = open_family(rig_family[f]);
        int32_t tok[40];
        for (int n = 1; n <= 5; n++) {
            mix_texts(tok, 10 + n, n, 10 + n, n);
            ft_session_reset(p.s);
            OK(ft_session_eval(p.s, tok, n, NULL, &rig_err));
            OK(ft_session_checkpoint(p.s, &rig_err));
            OK(ft_session_eval(p.s, tok, n, NULL, &rig_err));
            for (int more = 1; more <= 4; more++) {
                const float *a, *b;
                mix_texts(tok, 10 + n, n, 2, n + more);
                assert_int_equal(read_text(p.s, tok, n + more, &a), more == 1 ? n : n + more - 1);
                expect_as_read(p.s, p.plain, tok, n + more);
                ft_session_reset(p.plain);
                OK(ft_session_eval(p.plain, tok, n + more, &b, &rig_err));
                assert_memory_equal(a, b, 320 * sizeof *a);
            }
        }
        close_pair(&p);
    }
}

/* Catches checkpoints at the borders of blocks of the sparse attention, one less, one more. B049 B058 */
static void test_reuse_around_block_borders(void **state)
{
    (void)state;
    pair p = open_family(MODEL_QWEN4EXP);
    int32_t tok[100];
    for (int at = 28; at <= 36; at++) {
        mix_texts(tok, at, at, at, 100);
        ft_session_reset(p.s);
        OK(ft_session_eval(p.s, tok, at, NULL, &rig_err));
        OK(ft_session_checkpoint(p.s, &rig_err));
        mix_texts(tok, at, at, 2, 100);
        assert_int_equal(read_text(p.s, tok, 100, NULL), at);
        expect_as_read(p.s, p.plain, tok, 100);
        mix_texts(tok, at, at, 3, 100);
        assert_int_equal(read_text(p.s, tok, 100, NULL), at); /* again: it was not written to */
        expect_as_read(p.s, p.plain, tok, 100);
    }
    close_pair(&p);
}

/* Catches a checkpoint of a round with rejected drafts, or one that a generation goes on writing to: after
 * every few tokens of it, its text so far, taken up by another session. B040 B052 */
static void test_reuse_inside_a_generation(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++) {
        pair p = open_family(rig_family[f]);
        ft_session *other = kept_session(p.m, CTX, 48);
        int32_t tok[200];
        int n = 20;
        mix_texts(tok, 1, n, 1, n);
        rig_output out = {0};
        ft_generate_params g = rig_params(&out, 0, 0.9f, 3);
        g.ignore_eos = true;
        g.draft_fixed = true;
        for (int i = 0; i < 12; i++) {
            g.n_max = 1 + i % 5;
            rig_generate(p.s, i ? NULL : tok, i ? 0 : n, &g);
            OK(ft_session_checkpoint(p.s, &rig_err));
            int have;
            const int32_t *all = ft_session_tokens(p.s, &have);
            assert_int_equal(have, n + out.n);
            memcpy(tok, all, (size_t)have * sizeof *tok);
            tok[have] = 5;
            /* what is pending is not in the checkpoint */
            assert_int_equal(read_text(other, tok, have + 1, NULL), have - 1);
            expect_as_read(other, p.plain, tok, have + 1);
        }
        rig_output whole = {0};
        ft_generate_params w = rig_params(&whole, out.n, 0.9f, 3);
        w.ignore_eos = true;
        ft_session_reset(p.plain);
        rig_generate(p.plain, tok, n, &w);
        assert_memory_equal(whole.id, out.id, (size_t)out.n * sizeof *out.id);
        ft_session_free(other);
        close_pair(&p);
    }
}

/* Catches drafts that come out otherwise behind a restored state: the same text, the same drafts made and
 * accepted, as in a session that read it all. B056 */
static void test_reuse_then_generate_with_drafts(void **state)
{
    (void)state;
    for (int f = 0; f < 3; f++) {
        pair p = open_family(rig_family[f]);
        int32_t tok[120];
        mix_texts(tok, 1, 120, 1, 120);
        OK(ft_session_eval(p.s, tok, 90, NULL, &rig_err));
        OK(ft_session_checkpoint(p.s, &rig_err));
        OK(ft_session_eval(p.s, tok, 60, NULL, &rig_err));
        int n_known;
        OK(ft_session_reuse(p.s, tok, 120, &n_known, &rig_err));
        assert_int_equal(n_known, 90);
        rig_output a = {0}, b = {0};
        ft_generate_params ga = rig_params(&a, 60, 0.8f, 9), gb = rig_params(&b, 60, 0.8f, 9);
        ga.ignore_eos = gb.ignore_eos = true;
        ga.draft_fixed = gb.draft_fixed = true;
        rig_generate(p.s, tok + n_known, 120 - n_known, &ga);
        rig_generate(p.plain, tok, 120, &gb);
        assert_int_equal(a.n, 60);
        assert_memory_equal(a.id, b.id, sizeof a.id);
        assert_true(a.stats.draft.drafted > 0);
        assert_int_equal(a.stats.draft.drafted, b.stats.draft.drafted);
        assert_int_equal(a.stats.draft.accepted, b.stats.draft.accepted);
        assert_true(session_digest(p.s) == session_digest(p.plain));
        close_pair(&p);
    }
}

/* ---- No more than it must ------------------------------------------------------------------------------- */

/* Catches a restore after which all is computed again: the same text, a token more, a token less. B053 */
static void test_reuse_counts_what_it_evaluates(void **state)
{
    (void)state;
    pair p = open_family(MODEL_QWEN35);
    int32_t tok[200];
    mix_texts(tok, 1, 200, 1, 200);
    OK(ft_session_eval(p.s, tok, 99, NULL, &rig_err));
    OK(ft_session_checkpoint(p.s, &rig_err));
    OK(ft_session_eval(p.s, tok + 99, 21, NULL, &rig_err));
    static const struct {
        int n, known;
    } step[] = {
        {121, 120}, /* goes on */
        {121, 99},  /* the state of 121 tokens has read the last one already; it is kept */
        {120, 99},  {119, 99}, /* the state of 120 tokens is kept */
        {130, 121}, {122, 121}, {121, 120},
    };
    uint64_t sum = evaluated(p.s), reused = 0;
    assert_int_equal(sum, 120);
    for (size_t i = 0; i < ARRAY_LEN(step); i++) {
        assert_int_equal(read_text(p.s, tok, step[i].n, NULL), step[i].known);
        sum += (uint64_t)(step[i].n - step[i].known);
        reused += i > 0 ? (uint64_t)step[i].known : 0; /* the first one was the session's own */
        assert_int_equal(evaluated(p.s), sum);
        expect_as_read(p.s, p.plain, tok, step[i].n);
    }
    ft_session_info info;
    ft_session_get_info(p.s, &info);
    assert_int_equal(info.n_reused, reused);
    assert_int_equal(stats_of(p.m).hits, ARRAY_LEN(step));
    assert_int_equal(stats_of(p.m).tokens_reused, reused + 120);
    close_pair(&p);
}

/* Catches a live state that hides a longer checkpoint, and a checkpoint that hides a longer live state.
 * B054 */
static void test_reuse_takes_the_longest_of_live_and_kept(void **state)
{
    (void)state;
    pair p = open_family(MODEL_QWEN35);
    int32_t tok[200];
    mix_texts(tok, 1, 200, 1, 200);
    OK(ft_session_eval(p.s, tok, 100, NULL, &rig_err));
    OK(ft_session_checkpoint(p.s, &rig_err));
    ft_session_reset(p.s);
    OK(ft_session_eval(p.s, tok, 10, NULL, &rig_err));
    assert_int_equal(read_text(p.s, tok, 150, NULL), 100);
    assert_int_equal(read_text(p.s, tok, 160, NULL), 150);
    expect_as_read(p.s, p.plain, tok, 160);
    close_pair(&p);
}

static void stop_after(pair *p, const int32_t *tok, int n, int n_made, const int *mark)
{
    rig_output out = {.stop_at = n_made};
    ft_generate_params g = rig_params(&out, 100, 0.9f, 4);
    g.ignore_eos = true;
    g.mark = mark;
    g.n_mark = mark ? 1 : 0;
    int n_known;
    OK(ft_session_reuse(p->s, tok, n, &n_known, &rig_err));
    rig_generate(p->s, tok + n_known, n - n_known, &g);
    assert_int_equal(out.finish, FT_FINISH_CANCELLED);
}

/* Catches an answer that is regenerated, or was stopped, and makes the same prompt cold: reading it again
 * costs a chunk at most, with a mark at its last turn, and without. B059 */
static void test_reuse_regenerate_costs_a_chunk_at_most(void **state)
{
    (void)state;
    pair p = open_family(MODEL_QWEN35MOE);
    int32_t tok[300];
    static const int mark[] = {90};
    for (int c = 0; c < 2; c++) {
        int n = c ? 300 : 110;
        mix_texts(tok, 1 + c, n, 1 + c, n);
        stop_after(&p, tok, n, 1, c ? NULL : mark);
        for (int n_made = 1; n_made < 12; n_made++) {
            uint64_t before = evaluated(p.s);
            stop_after(&p, tok, n, n_made, c ? NULL : mark);
            uint64_t cost = evaluated(p.s) - before;
            assert_true(cost <= 48 + (uint64_t)n_made);
        }
    }
    close_pair(&p);
}

/* Catches a pending token that is lost, doubled or taken for an evaluated one: a turn is answered, the
 * answer with another turn behind it comes back as one text. */
static void test_reuse_goes_on_behind_an_answer(void **state)
{
    (void)state;
    pair p = open_family(MODEL_QWEN4EXP);
    int32_t tok[200];
    int n = 30;
    mix_texts(tok, 1, n, 1, n);
    for (int turn = 0; turn < 5; turn++) {
        rig_output out = {0};
        ft_generate_params g = rig_params(&out, 8, 0.7f, 5);
        g.ignore_eos = true;
        int n_known;
        OK(ft_session_reuse(p.s, tok, n, &n_known, &rig_err));
        assert_int_equal(n_known,
                         turn ? n - 12 - 1 : 0); /* all but the pending one and the new turn */
        rig_generate(p.s, tok + n_known, n - n_known, &g);
        memcpy(tok + n, out.id, 8 * sizeof *tok);
        int have;
        const int32_t *all = ft_session_tokens(p.s, &have);
        assert_int_equal(have, n + 8);
        assert_memory_equal(all, tok, (size_t)have * sizeof *tok);
        rig_output plain = {0};
        ft_generate_params h = rig_params(&plain, 8, 0.7f, 5);
        h.ignore_eos = true;
        ft_session_reset(p.plain);
        rig_generate(p.plain, tok, n, &h);
        assert_memory_equal(plain.id, out.id, 8 * sizeof *tok);
        n += 8;
        for (int i = 0; i < 12; i++)
            tok[n++] = text_token(2 + turn, i);
    }
    int n_known;
    tok[n - 12 - 1]++; /* the answer's last token, which waited, is another one in the text */
    OK(ft_session_reuse(p.s, tok, n, &n_known, &rig_err));
    assert_int_equal(n_known, n - 12 - 1);
    OK(ft_session_eval(p.s, tok + n_known, n - n_known, NULL, &rig_err));
    expect_as_read(p.s, p.plain, tok, n);
    OK(ft_session_checkpoint(p.s, &rig_err));
    rig_output out = {0};
    ft_generate_params g = rig_params(&out, 4, 0, 0);
    g.ignore_eos = true;
    rig_generate(p.s, tok, 3,
                 &g); /* leaves one waiting, which the state gone back to knows nothing of */
    tok[n] = text_token(9, 0);
    assert_int_equal(read_text(p.s, tok, n + 1, NULL), n);
    expect_as_read(p.s, p.plain, tok, n + 1);
    close_pair(&p);
}

/* ---- What is refused, and what fails ---------------------------------------------------------------------- */

/* Catches a refusal that changes the session. B055 */
static void test_reuse_refuses_and_changes_nothing(void **state)
{
    (void)state;
    pair p = open_family(MODEL_QWEN35);
    static int32_t tok[CTX + 1];
    mix_texts(tok, 1, CTX + 1, 1, CTX + 1);
    rig_output out = {0};
    ft_generate_params g = rig_params(&out, 4, 0, 0);
    g.ignore_eos = true;
    rig_generate(p.s, tok, 30, &g);
    uint64_t digest = session_digest(p.s);
    int n = -7;
    FAILS(ft_session_reuse(p.s, tok, 0, &n, &rig_err), FT_ARG, "reuse: 0 tokens");
    FAILS(ft_session_reuse(p.s, tok, CTX + 1, &n, &rig_err), FT_RANGE,
          "513 tokens wanted, the limit is 512");
    tok[5] = 320;
    FAILS(ft_session_reuse(p.s, tok, 9, &n, &rig_err), FT_RANGE, "token 5: id 320");
    tok[5] = -1;
    FAILS(ft_session_reuse(p.s, tok, 9, &n, &rig_err), FT_RANGE, "token 5: id -1");
    assert_int_equal(n, -7);
    assert_true(session_digest(p.s) == digest);
    assert_int_equal(stats_of(p.m).hits + stats_of(p.m).misses, 0);
    close_pair(&p);
}

/* Catches states of inexact sessions in the store, and exact ones that replace what such a session wanted to
 * keep; emptied, it is as any other. */
static void test_reuse_of_an_inexact_session_touches_no_checkpoint(void **state)
{
    (void)state;
    pair p = open_family(MODEL_QWEN35);
    int32_t tok[100];
    mix_texts(tok, 1, 100, 1, 100);
    OK(ft_session_eval(p.s, tok, 50, NULL, &rig_err));
    OK(ft_session_checkpoint(p.s, &rig_err));
    ft_session_reset(p.s);
    OK(ft_session_eval(p.s, tok, 40, NULL, &rig_err));
    p.s->inexact = true;
    OK(ft_session_checkpoint(p.s, &rig_err));
    assert_int_equal(stats_of(p.m).n, 1);
    int n;
    OK(ft_session_reuse(p.s, tok, 60, &n, &rig_err));
    assert_int_equal(n, 40);
    assert_true(p.s->inexact);
    tok[3]++;
    OK(ft_session_reuse(p.s, tok, 60, &n, &rig_err));
    assert_int_equal(n, 0);
    assert_false(p.s->inexact);
    assert_int_equal(stats_of(p.m).n, 1); /* what it held did not become one */
    tok[3]--;
    OK(ft_session_reuse(p.s, tok, 60, &n, &rig_err));
    assert_int_equal(n, 50);
    close_pair(&p);
}

/* Catches sessions of other settings that are served each other's states. B056 */
static void test_reuse_keeps_settings_apart(void **state)
{
    (void)state;
    pair p = open_family(MODEL_QWEN35);
    int32_t tok[60];
    mix_texts(tok, 1, 60, 1, 60);
    OK(ft_session_eval(p.s, tok, 50, NULL, &rig_err));
    OK(ft_session_checkpoint(p.s, &rig_err));
    for (int i = 0; i < 6; i++) {
        ft_session_params sp = ft_session_params_default();
        sp.n_ctx = i == 0 ? 100 : CTX; /* another context is no other setting */
        sp.kv_type = i == 1 ? "f32" : i == 2 ? "q8_0" : "f16";
        sp.no_draft = i == 3;
        sp.sink = i == 4 ? 3 : sp.sink;
        sp.window = i == 5 ? FT_WINDOW_ALL : sp.window;
        ft_session *t;
        OK(ft_session_create(&t, p.m, &sp, &rig_err));
        assert_int_equal(read_text(t, tok, 60, NULL), i == 0 ? 50 : 0);
        ft_session_free(t);
    }
    close_pair(&p);
}

/* Catches a failed allocation that leaves half a state, or that fails a request for want of memory for a
 * checkpoint alone. B055 */
static void test_reuse_failed_allocations_leave_a_whole_state(void **state)
{
    (void)state;
    pair p = open_family(MODEL_QWEN4EXP);
    int32_t tok[100], other[100];
    mix_texts(tok, 1, 100, 1, 100);
    mix_texts(other, 1, 50, 2, 100);
    int n_failed = 0;
    for (int k = 1;; k++) {
        ft_session_reset(p.s);
        OK(ft_session_eval(p.s, tok, 50, NULL, &rig_err));
        OK(ft_session_checkpoint(p.s, &rig_err));
        OK(ft_session_eval(p.s, tok + 50, 30 + k % 20, NULL,
                           &rig_err)); /* worth keeping, each time */
        uint64_t digest = session_digest(p.s);
        long before = mem_count();
        int n = -1;
        ft_error err = {0};
        mem_fail_at(k);
        ft_status st = ft_session_reuse(p.s, other, 100, &n, &err);
        bool failed = mem_count() - before >= k;
        mem_fail_at(0);
        if (st != FT_OK) {
            assert_int_equal(st, FT_NOMEM);
            assert_true(err.msg[0] != 0);
            assert_true(session_digest(p.s) == digest);
            n_failed++;
        } else {
            assert_int_equal(n, 50);
            OK(ft_session_eval(p.s, other + 50, 50, NULL, &rig_err));
            expect_as_read(p.s, p.plain, other, 100);
        }
        if (!failed)
            break;
        assert_true(k < 100);
    }
    for (int k = 1;; k++) { /* ft_session_checkpoint itself tells */
        ft_session_reset(p.s);
        mix_texts(tok, 10 + k, 20, 10 + k, 20);
        OK(ft_session_eval(p.s, tok, 20, NULL, &rig_err));
        uint64_t digest = session_digest(p.s);
        long before = mem_count();
        int had = stats_of(p.m).n;
        mem_fail_at(k);
        ft_status st = ft_session_checkpoint(p.s, NULL);
        bool failed = mem_count() - before >= k;
        mem_fail_at(0);
        assert_int_equal(st, failed ? FT_NOMEM : FT_OK);
        assert_int_equal(stats_of(p.m).n, had + !failed);
        assert_true(session_digest(p.s) == digest);
        if (!failed)
            break;
        n_failed++;
    }
    assert_true(n_failed > 2);
    close_pair(&p);
}

/* Catches a store whose limit is 0 and that keeps something, or a reuse that needs one. */
static void test_reuse_without_room_reads_everything(void **state)
{
    (void)state;
    pair p = open_family(MODEL_QWEN35);
    int32_t tok[60];
    mix_texts(tok, 1, 60, 1, 60);
    assert_int_equal(read_text(p.plain, tok, 40, NULL), 0);
    OK(ft_session_checkpoint(p.plain, &rig_err));
    assert_int_equal(read_text(p.plain, tok, 60, NULL), 40); /* its own state */
    assert_int_equal(read_text(p.plain, tok, 50, NULL), 0);
    ft_checkpoint_stats st = stats_of(p.plain_m);
    assert_true(st.n == 0 && st.bytes == 0 && st.limit == 0 && st.taken == 0);
    assert_int_equal(st.hits, 1);
    assert_int_equal(st.misses, 2);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reuse_random_beginnings_as_if_read_in_one_go),
        cmocka_unit_test(test_reuse_histories_of_one_to_five_tokens),
        cmocka_unit_test(test_reuse_around_block_borders),
        cmocka_unit_test(test_reuse_inside_a_generation),
        cmocka_unit_test(test_reuse_then_generate_with_drafts),
        cmocka_unit_test(test_reuse_counts_what_it_evaluates),
        cmocka_unit_test(test_reuse_takes_the_longest_of_live_and_kept),
        cmocka_unit_test(test_reuse_regenerate_costs_a_chunk_at_most),
        cmocka_unit_test(test_reuse_goes_on_behind_an_answer),
        cmocka_unit_test(test_reuse_refuses_and_changes_nothing),
        cmocka_unit_test(test_reuse_of_an_inexact_session_touches_no_checkpoint),
        cmocka_unit_test(test_reuse_keeps_settings_apart),
        cmocka_unit_test(test_reuse_failed_allocations_leave_a_whole_state),
        cmocka_unit_test(test_reuse_without_room_reads_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
