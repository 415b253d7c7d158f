/* test_engine_batch.c - what a request gets never depends on those that share its steps: tokens, text,
 * every deciding row of logits and the state behind it are those of the request alone, bit for bit.
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

enum { N_CTX = 192, N_SLOT = 5, N_REQUEST = 15 };

static const model_arch family[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

static uint32_t next_random(uint64_t *x)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*x >> 33);
}

/* ---- The walk --------------------------------------------------------------------------------------- */

/* Requests with what they give alone. The plain trace is that without drafts; where the rule lets drafts
 * decide between texts, want is the trace of the same request alone. */
typedef struct {
    br_request r;
    br_trace *plain, *want;
} job;

static void make_jobs(ft_model *m, job *jobs)
{
    static const br_drafts kind[] = {BR_OWN, BR_RIGHT, BR_WRONG, BR_ALTERNATING, BR_NONE};
    for (int i = 0; i < N_REQUEST; i++) {
        job *j = &jobs[i];
        j->r = br_make(i);
        j->plain = br_solo(m, &j->r, NULL, N_CTX);
        assert_true(j->plain->n == j->r.p.n_max);
        br_draft(&j->r, kind[i % 5], 1 + i % 4);
        if (i % 5 == 3)
            j->r.p.draft_max = 3;
        if (i % 5 == 0 && i > 0) /* the draft head under rules whose text depends on the drafts */
            j->r.p.verify = i == 5 ? FT_VERIFY_BLOCK : FT_VERIFY_RATIO;
        j->want = br_solo(m, &j->r, j->plain, N_CTX);
        if (j->r.p.verify == FT_VERIFY_COUPLED)
            br_same(j->want, j->plain, "alone, with drafts");
        if (i == 0)
            j->r.p.draft_fixed = false; /* lengths that depend on the clock */
    }
}

/* One request behind the end: complete, or cut short by its cancellation. */
static void check_job(ft_model *m, br_slot *x, const job *j, const char *what)
{
    br_trace *t = &x->t;
    if (t->stats.finish != FT_FINISH_CANCELLED) {
        br_same(t, j->want, what);
        return;
    }
    br_prefix(t, j->want, what);
    assert_int_equal(t->stats.n_token, t->n);
    if (t->n == 0) { /* in the prompt, whose beginning stays */
        assert_int_equal(t->st, FT_CANCELLED);
        assert_int_equal(t->stats.n_prompt, ft_session_n_past(x->s));
        return;
    }
    assert_int_equal(t->st, FT_OK);
    if (j->r.p.verify != FT_VERIFY_COUPLED)
        return;
    br_request same = j->r; /* the request for so many tokens */
    br_draft(&same, BR_NONE, 0);
    same.p.n_max = t->n;
    br_trace *want = br_solo(m, &same, NULL, N_CTX);
    if (want->trunk != t->trunk || want->state != t->state)
        fail_msg("%s: another state behind %d tokens", what, t->n);
    free(want);
}

/* Counts of what the walk saw. */
typedef struct {
    int n_done, n_cut, n_full; /* requests complete and cut short; steps with every slot at work */
} walk_counts;

/* A random walk: requests join, leave and are cancelled, and slots are left out of steps, until
 * n of them have ended. */
static walk_counts walk(ft_model *m, const job *jobs, int n, int n_chunk, uint64_t seed)
{
    ft_batch *b = br_batch(m, N_SLOT, n_chunk, N_CTX);
    br_slot *x = calloc(N_SLOT, sizeof *x);
    const job *of[N_SLOT] = {NULL};
    walk_counts c = {0};
    for (int i = 0; i < N_SLOT; i++)
        br_open(&x[i], m, b, 0);
    for (int next = 0; c.n_done + c.n_cut < n;) {
        int busy = 0, first = (int)(next_random(&seed) % N_SLOT);
        for (int i = 0; i < N_SLOT; i++) {
            if (!of[i] && next < n && next_random(&seed) % 3 == 0) {
                of[i] = &jobs[next++ % N_REQUEST];
                br_begin(&x[i], &of[i]->r, of[i]->plain);
            }
            if (of[i] && next_random(&seed) % 60 == 0)
                ft_generation_cancel(x[i].g);
            busy += of[i] != NULL;
        }
        c.n_full += busy == N_SLOT;
        br_step(b, x + first, N_SLOT - first); /* some, then all the others or nobody */
        if (next_random(&seed) % 2)
            br_step(b, x, first);
        for (int i = 0; i < N_SLOT; i++) {
            if (!of[i] || br_running(&x[i]))
                continue;
            char what[64];
            snprintf(what, sizeof what, "request %d in slot %d", (int)(of[i] - jobs), i);
            br_end(&x[i]);
            check_job(m, &x[i], of[i], what);
            c.n_cut += x[i].t.stats.finish == FT_FINISH_CANCELLED;
            c.n_done += x[i].t.stats.finish != FT_FINISH_CANCELLED;
            of[i] = NULL;
            if (next_random(&seed) % 4 == 0) { /* the session goes too */
                br_close(&x[i]);
                br_open(&x[i], m, b, 0);
            }
        }
    }
    for (int i = 0; i < N_SLOT; i++)
        br_close(&x[i]);
    ft_batch_free(b);
    free(x);
    return c;
}

/* Catches any way in which requests of a batch touch each other: rows of the wrong slot, one generator or
 * one cancel flag for all, a scratch that is shared too long, rollback of a neighbour, a slot that
 * remembers its last request. B042 B043 B044 B047 B051 B072 B116 */
static void test_batch_random_walk_equals_requests_alone(void **state)
{
    (void)state;
    static const int chunk[] = {24, 7, 64};
    for (int a = 0; a < 3; a++) {
        ft_model *m = rig_model(family[a]);
        job *jobs = calloc(N_REQUEST, sizeof *jobs);
        make_jobs(m, jobs);
        walk_counts sum = {0};
        for (int w = 0; w < 3; w++) {
            walk_counts c = walk(m, jobs, 3 * N_REQUEST, chunk[w], 40 + (uint64_t)w);
            sum.n_done += c.n_done;
            sum.n_cut += c.n_cut;
            sum.n_full += c.n_full;
        }
        assert_true(sum.n_done > 60 && sum.n_cut > 10 && sum.n_full > 30);
        for (int i = 0; i < N_REQUEST; i++) {
            free(jobs[i].plain);
            free(jobs[i].want);
        }
        free(jobs);
        ft_model_close(m);
    }
}

/* ---- Two at a time ---------------------------------------------------------------------------------- */

static br_request with_drafts(int i, br_drafts kind, int k, int n_max)
{
    br_request r = br_make(i);
    r.p.n_max = n_max;
    br_draft(&r, kind, k);
    return r;
}

static br_trace *plain_of(ft_model *m, const br_request *r)
{
    br_request plain = *r;
    br_draft(&plain, BR_NONE, 0);
    return br_solo(m, &plain, NULL, N_CTX);
}

/* Catches a rollback, or a replay of accepted rows, that reaches the neighbour: in every step one slot
 * rejects all its drafts and the other none, in both orders. B042 */
static void test_batch_one_rejects_another_does_not(void **state)
{
    (void)state;
    for (int a = 0; a < 3; a++) {
        ft_model *m = rig_model(family[a]);
        for (int order = 0; order < 2; order++)
            for (int k = 1; k <= 7; k += 3) {
                br_request r[2] = {with_drafts(3, order ? BR_RIGHT : BR_WRONG, k, 40),
                                   with_drafts(7, order ? BR_WRONG : BR_RIGHT, k, 40)};
                br_trace *want[2] = {plain_of(m, &r[0]), plain_of(m, &r[1])};
                ft_batch *b = br_batch(m, 2, 64, N_CTX);
                br_slot *x = calloc(2, sizeof *x);
                for (int i = 0; i < 2; i++) {
                    br_open(&x[i], m, b, 0);
                    br_begin(&x[i], &r[i], want[i]);
                }
                br_run(b, x, 2);
                for (int i = 0; i < 2; i++) {
                    br_end(&x[i]);
                    br_same(&x[i].t, want[i], i ? "the second" : "the first");
                    const ft_draft_stats *d = &x[i].t.stats.draft;
                    assert_true(d->drafted > 0);
                    assert_int_equal(d->accepted, r[i].drafts == BR_RIGHT ? d->drafted : 0);
                    br_close(&x[i]);
                    free(want[i]);
                }
                free(x);
                ft_batch_free(b);
            }
        ft_model_close(m);
    }
}

/* Catches rows to verify that are taken for a prompt's, or a prompt's for those: one slot decodes with k
 * drafts in every round while another reads its prompt in chunks of exactly k + 1 rows. B050 */
static void test_batch_prompt_in_chunks_of_k_plus_1_rows(void **state)
{
    (void)state;
    for (int a = 0; a < 3; a++) {
        ft_model *m = rig_model(family[a]);
        for (int k = 1; k <= 4; k++) {
            br_request reads = with_drafts(2, BR_OWN, k, 6),
                       writes = with_drafts(4, BR_RIGHT, k, 100);
            br_trace *read = plain_of(m, &reads), *written = plain_of(m, &writes);
            ft_batch *b = br_batch(m, 2, k + 1, N_CTX);
            br_slot *x = calloc(2, sizeof *x);
            br_open(&x[0], m, b, 0);
            br_open(&x[1], m, b, 0);
            br_begin(&x[0], &writes, written);
            while (ft_generation_get_state(x[0].g) == FT_GENERATION_PROMPT)
                br_step(b, x, 1);
            br_begin(&x[1], &reads, read);
            int n_both = 0;
            while (ft_generation_get_state(x[1].g) == FT_GENERATION_PROMPT && br_running(&x[0])) {
                int before = ft_session_n_past(x[1].s), wrote = ft_session_n_past(x[0].s);
                br_step(b, x, 2);
                n_both += ft_session_n_past(x[1].s) - before == k + 1 &&
                          ft_session_n_past(x[0].s) - wrote == k + 1;
            }
            assert_true(n_both >= 10);
            br_run(b, x, 2);
            for (int i = 0; i < 2; i++)
                br_end(&x[i]);
            br_same(&x[0].t, written, "the one that writes");
            br_same(&x[1].t, read, "the one that reads");
            for (int i = 0; i < 2; i++)
                br_close(&x[i]);
            free(x);
            free(read);
            free(written);
            ft_batch_free(b);
        }
        ft_model_close(m);
    }
}

/* Catches rounds that expect one common position: the second request joins when the first has made n
 * tokens, for every n. B073 B074 */
static void test_batch_second_joins_after_n_tokens(void **state)
{
    (void)state;
    for (int a = 0; a < 3; a++) {
        ft_model *m = rig_model(family[a]);
        br_request r[2] = {with_drafts(1, BR_OWN, 3, 30), with_drafts(5, BR_ALTERNATING, 3, 20)};
        br_trace *want[2] = {plain_of(m, &r[0]), plain_of(m, &r[1])};
        ft_batch *b = br_batch(m, 2, 32, N_CTX);
        br_slot *x = calloc(2, sizeof *x);
        br_open(&x[0], m, b, 0);
        br_open(&x[1], m, b, 0);
        for (int n = 1; n <= 20; n++) {
            br_begin(&x[0], &r[0], want[0]);
            while (x[0].t.n < n)
                br_step(b, x, 1);
            br_begin(&x[1], &r[1], want[1]);
            br_run(b, x, 2);
            for (int i = 0; i < 2; i++) {
                br_end(&x[i]);
                br_same(&x[i].t, want[i], i ? "the one that joins" : "the one that was there");
            }
        }
        for (int i = 0; i < 2; i++) {
            br_close(&x[i]);
            free(want[i]);
        }
        free(x);
        ft_batch_free(b);
        ft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_random_walk_equals_requests_alone),
        cmocka_unit_test(test_batch_one_rejects_another_does_not),
        cmocka_unit_test(test_batch_prompt_in_chunks_of_k_plus_1_rows),
        cmocka_unit_test(test_batch_second_joins_after_n_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
