/* test_layer_snapshot.c - the state of a conversation kept and given back: bit for bit what it was, shared
 * until somebody writes, and of no effect on anybody else. */
#include "base/mem.h"
#include "state/snapshot.h"
#include "support/longseq.h"

static seq_snap *take(seq *s)
{
    seq_snap *n;
    ft_error err = {0};
    if (seq_snap_take(&n, s, &err) != FT_OK)
        fail_msg("%s", err.msg);
    return n;
}

static void restore(seq *s, const seq_snap *n)
{
    ft_error err = {0};
    if (seq_snap_restore(s, n, &err) != FT_OK)
        fail_msg("%s", err.msg);
}

enum { N_AFTER = 7 };

/* Logits behind a state: of N_AFTER rows in one call. */
static void rows_after(rig *r, seq *s, float *logits)
{
    int32_t tok[N_AFTER];
    for (int i = 0; i < N_AFTER; i++)
        tok[i] = rig_token(77, s->n_past + i, r->n_vocab);
    rig_feed(r, s, tok, N_AFTER, N_AFTER, logits, NULL);
}

/* B048, B058. Catches a part of the state that a snapshot lacks, at any phase of blocks, histories and pages;
 * and a restored conversation that goes on otherwise than the uninterrupted one. */
static void test_snapshot_restored_is_the_state_it_was_taken_of(void **state)
{
    (void)state;
    static const int at[] = {0, 1, 2, 3, 30, 511, 512, 513, 1025};
    for (size_t a = 0; a < ARRAY_LEN(long_arch); a++) {
        rig r;
        long_open(&r, long_arch[a], DTYPE_F16);
        size_t bytes = (size_t)r.n_vocab * N_AFTER * sizeof(float);
        float *want = malloc(bytes), *got = malloc(bytes);
        seq *s = long_seq(&r, LONG_CTX, DTYPE_F16), *other = long_seq(&r, 1060, DTYPE_F16);
        for (size_t i = 0; i < ARRAY_LEN(at); i++) {
            seq_reset(s);
            long_feed(&r, s, 1, at[i]);
            seq_snap *n = take(s);
            assert_int_equal(seq_snap_n_past(n), at[i]);
            uint64_t then = seq_digest(s);
            rows_after(&r, s, want);
            uint64_t later = seq_digest(s);
            long_feed(&r, s, 5, 20);
            for (int k = 0; k < 2; k++) { /* back in the same one, and in another */
                seq *t = k == 0 ? s : other;
                restore(t, n);
                assert_true(seq_digest(t) == then);
                assert_memory_equal(seq_snap_tok(n) ? seq_snap_tok(n) : t->tok, t->tok,
                                    (size_t)at[i] * sizeof *t->tok);
                rows_after(&r, t, got);
                if (memcmp(got, want, bytes) != 0 || seq_digest(t) != later)
                    fail_msg("%s: restored at %d, the rest differs", model_arch_name(long_arch[a]),
                             at[i]);
            }
            seq_snap_free(n);
        }
        seq_free(s);
        seq_free(other);
        free(want);
        free(got);
        rig_close(&r);
    }
}

/* B040, B041, B049, B052. Catches a snapshot with rows that were rejected, or without those that are accepted
 * and not applied yet: all k, j around the border of a page and of blocks. */
static void test_snapshot_of_a_window_kept_in_part_equals_plain_steps(void **state)
{
    (void)state;
    enum { K = 4 };
    for (size_t a = 0; a < ARRAY_LEN(long_arch); a++) {
        rig r;
        long_open(&r, long_arch[a], DTYPE_F16);
        seq *s = long_seq(&r, LONG_CTX, DTYPE_F16), *plain = long_seq(&r, LONG_CTX, DTYPE_F16);
        long_feed(&r, s, 1, 509);
        seq_snap *start = take(s);
        for (int j = 0; j <= K; j++) {
            int32_t tok[K + 1];
            restore(s, start);
            restore(plain, start);
            for (int i = 0; i <= K; i++)
                tok[i] = rig_token(4, i, r.n_vocab);
            rig_feed(&r, s, tok, K + 1, 1, NULL, NULL);
            seq_accept(s, j);
            seq_snap *n = take(s);
            for (int i = 0; i <= j; i++)
                rig_feed(&r, plain, tok + i, 1, 1, NULL, NULL);
            uint64_t want = seq_digest(plain);
            assert_true(seq_digest(s) == want); /* taking it has settled s, no more */
            seq_reset(s);
            restore(s, n);
            if (seq_digest(s) != want)
                fail_msg("%s: %d of %d kept, the snapshot differs", model_arch_name(long_arch[a]),
                         j, K);
            seq_snap_free(n);
        }
        seq_snap_free(start);
        seq_free(s);
        seq_free(plain);
        rig_close(&r);
    }
}

/* B042, B047. Catches a conversation that writes into what it shares: two go on from one snapshot in turns,
 * one of them with rejected windows; each equals its solo run, and the snapshot stays what it was. */
static void test_two_from_one_snapshot_diverge_without_a_trace(void **state)
{
    (void)state;
    static const int at[] = {100, 511, 512, 513};
    for (size_t a = 0; a < ARRAY_LEN(long_arch); a++) {
        rig r;
        long_open(&r, long_arch[a], DTYPE_F16);
        seq *s = long_seq(&r, LONG_CTX, DTYPE_F16), *t = long_seq(&r, LONG_CTX, DTYPE_F16);
        seq *solo = long_seq(&r, LONG_CTX, DTYPE_F16);
        for (size_t i = 0; i < ARRAY_LEN(at); i++) {
            seq_reset(s);
            long_feed(&r, s, 1, at[i]);
            seq_snap *n = take(s);
            uint64_t then = seq_digest(s);
            restore(t, n);
            for (int k = 0; k < 6; k++) {
                int32_t drop[4] = {1, 2, 3, 4};
                long_feed(&r, s, 2, 3);
                rig_feed(&r, t, drop, 4, 0, NULL, NULL);
                seq_accept(t, 0);
                long_feed(&r, t, 3, 2);
            }
            for (int k = 0; k < 2; k++) {
                seq_reset(solo);
                long_feed(&r, solo, 1, at[i]);
                long_feed(&r, solo, k == 0 ? 2 : 3, k == 0 ? 18 : 12);
                if (seq_digest(solo) != seq_digest(k == 0 ? s : t))
                    fail_msg("%s: conversation %d from %d on is not its solo run",
                             model_arch_name(long_arch[a]), k, at[i]);
            }
            restore(solo, n);
            assert_true(seq_digest(solo) == then);
            seq_snap_free(n);
        }
        seq_free(s);
        seq_free(t);
        seq_free(solo);
        rig_close(&r);
    }
}

/* Catches a snapshot that copies cells, a write that copies more than its page, bytes told wrong. */
static void test_snapshot_shares_cells_until_they_are_written(void **state)
{
    (void)state;
    rig r;
    long_open(&r, MODEL_QWEN4EXP, DTYPE_F16);
    seq *s = long_seq(&r, LONG_CTX, DTYPE_F16);
    size_t page = s->pages.page_bytes, size = 0;
    assert_true(seq_size(&s->shape, &size));
    assert_int_equal(size, s->n_bytes + 3 * page); /* 1100 positions */
    assert_int_equal(seq_bytes(s), s->n_bytes);
    long_feed(&r, s, 1, 600);
    assert_int_equal(seq_bytes(s), s->n_bytes + 2 * page);
    seq_snap *n = take(s);
    assert_int_equal(pages_shared_bytes(&s->pages), 2 * page);
    assert_int_equal(pages_shared_bytes(seq_snap_pages(n)), 2 * page);
    assert_true(seq_snap_bytes(n) >= seq_recurrent_bytes(&s->shape) + 600 * sizeof(int32_t));
    assert_true(seq_snap_bytes(n) < seq_recurrent_bytes(&s->shape) + 600 * sizeof(int32_t) + 4096);
    long_feed(&r, s, 1, 1);
    assert_int_equal(pages_shared_bytes(&s->pages), page);
    assert_int_equal(seq_bytes(s), s->n_bytes + 2 * page);
    seq_reset(s);
    assert_int_equal(pages_bytes(&s->pages), 0);
    assert_int_equal(pages_shared_bytes(seq_snap_pages(n)), 0);
    assert_int_equal(pages_bytes(seq_snap_pages(n)), 2 * page);
    seq_snap_free(n);
    seq_free(s);
    rig_close(&r);
}

/* Catches a failed allocation that leaves half a snapshot or touches the conversation. */
static void test_snapshot_without_memory_changes_nothing(void **state)
{
    (void)state;
    rig r;
    long_open(&r, MODEL_QWEN4EXP, DTYPE_F16);
    seq *s = long_seq(&r, LONG_CTX, DTYPE_F16);
    long_feed(&r, s, 1, 512);
    uint64_t then = seq_digest(s);
    seq_snap *n = NULL;
    int k = 1;
    for (;; k++) {
        ft_error err = {0};
        mem_fail_at(k);
        ft_status st = seq_snap_take(&n, s, &err);
        mem_fail_at(0);
        assert_true(seq_digest(s) == then);
        if (st == FT_OK)
            break;
        assert_int_equal(st, FT_NOMEM);
        assert_true(n == NULL && err.msg[0]);
        assert_int_equal(pages_shared_bytes(&s->pages), 0);
    }
    assert_true(k >= 6);
    for (int i = 1; i <= 2; i++) { /* a new page, and one that is shared */
        seq_reset(s);
        long_feed(&r, s, 1, i == 1 ? 512 : 500);
        seq_snap *m = take(s);
        then = seq_digest(s);
        for (int f = 1; f <= 2; f++) {
            ft_error err = {0};
            mem_fail_at(f);
            assert_int_equal(seq_reserve(s, 3, &err), FT_NOMEM);
            mem_fail_at(0);
            assert_non_null(strstr(err.msg, "bytes for cells"));
            assert_true(seq_digest(s) == then);
        }
        assert_int_equal(seq_reserve(s, 3, NULL), FT_OK);
        seq_snap_free(m);
    }
    seq_snap_free(n);
    seq_free(s);
    rig_close(&r);
}

static void expect_refused(seq *s, const seq_snap *n, ft_status st, const char *words)
{
    ft_error err = {0};
    uint64_t then = seq_digest(s);
    assert_int_equal(seq_snap_restore(s, n, &err), st);
    if (!strstr(err.msg, words))
        fail_msg("message '%s', want '%s' in it", err.msg, words);
    assert_true(seq_digest(s) == then);
}

/* B055. Catches a snapshot of something else that is taken in part before it is refused. */
static void test_snapshot_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    rig r, q;
    long_open(&r, MODEL_QWEN35, DTYPE_F16);
    long_open(&q, MODEL_QWEN4EXP, DTYPE_F16);
    seq *s = long_seq(&r, LONG_CTX, DTYPE_F16), *other = long_seq(&r, LONG_CTX, DTYPE_F32);
    seq *small = long_seq(&r, 39, DTYPE_F16), *foreign = long_seq(&q, LONG_CTX, DTYPE_F16);
    long_feed(&r, s, 1, 40);
    seq_snap *n = take(s);
    long_feed(&r, small, 2, 5);
    long_feed(&q, foreign, 2, 5);
    r.kv_type = DTYPE_F32;
    long_feed(&r, other, 2, 5);
    expect_refused(other, n, FT_MISMATCH, "cells of F16, want F32");
    expect_refused(small, n, FT_RANGE, "40 tokens, the limit of this session is 39");
    expect_refused(foreign, n, FT_MISMATCH, "layers of another model");
    seq_snap_free(n);
    seq_free(s);
    seq_free(other);
    seq_free(small);
    seq_free(foreign);
    rig_close(&r);
    rig_close(&q);
}

/* Catches a snapshot of a state that a failed step left half done; and a broken state that a good snapshot
 * does not mend. */
static void test_snapshot_of_a_broken_state_is_refused_and_mends_one(void **state)
{
    (void)state;
    rig r;
    long_open(&r, MODEL_QWEN35MOE, DTYPE_F16);
    seq *s = long_seq(&r, LONG_CTX, DTYPE_F16);
    long_feed(&r, s, 1, 40);
    seq_snap *n = take(s), *none;
    uint64_t then = seq_digest(s);
    int32_t tok[2] = {1, 2};
    ft_error err = {0};
    assert_int_equal(seq_reserve(s, 2, NULL), FT_OK);
    assert_int_equal(seq_begin(s, tok, 2, 2, NULL), FT_OK); /* and never seq_end */
    assert_int_equal(seq_snap_take(&none, s, &err), FT_DEVICE);
    assert_true(none == NULL && strstr(err.msg, "half way"));
    restore(s, n);
    assert_true(seq_digest(s) == then);
    long_feed(&r, s, 1, 3);
    seq_snap_free(n);
    seq_free(s);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshot_restored_is_the_state_it_was_taken_of),
        cmocka_unit_test(test_snapshot_of_a_window_kept_in_part_equals_plain_steps),
        cmocka_unit_test(test_two_from_one_snapshot_diverge_without_a_trace),
        cmocka_unit_test(test_snapshot_shares_cells_until_they_are_written),
        cmocka_unit_test(test_snapshot_without_memory_changes_nothing),
        cmocka_unit_test(test_snapshot_that_does_not_fit_is_refused),
        cmocka_unit_test(test_snapshot_of_a_broken_state_is_refused_and_mends_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
