/* "Evaluate k rows, keep j" leaves the same state as "evaluate j rows", bit for bit (B040, B041, B048,
 * B049): every part of it, and every logits row that follows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/rig.h"
#include "support/tmpdir.h"

enum { N_BEFORE = 21, N_AFTER = 9, MAX_K = 8 };

static void open_family(rig *r, model_arch arch, dtype kv_type)
{
    char path[TEST_PATH_MAX], name[64];
    tiny_opts o = tiny_default(arch);
    o.type[TINY_GDN] = o.type[TINY_EXPERT] = DTYPE_Q8_0;
    snprintf(name, sizeof name, "roll-%s.gguf", model_arch_name(arch));
    tiny_write(test_path(path, name), &o);
    rig_open(r, path, NULL, 1, kv_type);
}

static void fill(int32_t *tok, int n, uint64_t text, int n_vocab)
{
    for (int i = 0; i < n; i++)
        tok[i] = rig_token(text, i, n_vocab);
}

static const model_arch arch[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

/* Catches a trace of rejected rows anywhere: all k <= 8, j <= k, the prompt ending at every phase of
 * the QSA blocks and of the convolutions. */
static void check_pairs(dtype kv_type)
{
    for (size_t a = 0; a < ARRAY_LEN(arch); a++) {
        rig r;
        open_family(&r, arch[a], kv_type);
        size_t v = (size_t)r.n_vocab;
        float *want = calloc(v * N_AFTER, sizeof *want), *got = calloc(v * N_AFTER, sizeof *got);
        int32_t before[N_BEFORE], draft[MAX_K + 1], after[N_AFTER];
        fill(before, N_BEFORE, 1, r.n_vocab);
        fill(draft, MAX_K + 1, 2, r.n_vocab);
        fill(after, N_AFTER, 3, r.n_vocab);
        seq *plain = rig_seq(&r), *s = rig_seq(&r);
        for (int k = 0; k <= MAX_K; k++)
            for (int j = 0; j <= k; j++) {
                int n_before = N_BEFORE - (k + j) % 6;
                seq_reset(plain);
                rig_feed(&r, plain, before, n_before, n_before, NULL, NULL);
                for (int i = 0; i < 1 + j; i++)
                    rig_feed(&r, plain, draft + i, 1, 1, NULL, NULL);
                seq_reset(s);
                rig_feed(&r, s, before, n_before, n_before, NULL, NULL);
                rig_feed(&r, s, draft, k + 1, 1, NULL, NULL);
                seq_accept(s, j);
                rig_feed(&r, plain, after, N_AFTER, N_AFTER, want, NULL);
                rig_feed(&r, s, after, N_AFTER, N_AFTER, got, NULL);
                if (memcmp(want, got, v * N_AFTER * sizeof *want) != 0)
                    fail_msg("%s: k %d j %d: logits after the rollback differ",
                             model_arch_name(arch[a]), k, j);
                if (seq_digest(plain) != seq_digest(s))
                    fail_msg("%s: k %d j %d: states differ", model_arch_name(arch[a]), k, j);
            }
        seq_free(plain);
        seq_free(s);
        free(want);
        free(got);
        rig_close(&r);
    }
}

static void test_window_kept_in_part_equals_plain_steps(void **state)
{
    (void)state;
    check_pairs(DTYPE_F16);
}

static void test_window_kept_in_part_equals_plain_steps_q8_cells(void **state)
{
    (void)state;
    check_pairs(DTYPE_Q8_0);
}

/* Catches state left pending over several windows (B043): rounds of changing k and j, digests taken
 * only now and then, since taking one settles the state. */
static void test_windows_in_a_row_equal_plain_steps(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARRAY_LEN(arch); a++) {
        rig r;
        open_family(&r, arch[a], DTYPE_F16);
        size_t v = (size_t)r.n_vocab;
        float *rows = calloc(v * (MAX_K + 1), sizeof *rows), *one = calloc(v, sizeof *one);
        seq *plain = rig_seq(&r), *s = rig_seq(&r);
        int32_t tok[MAX_K + 1];
        uint64_t x = 12345;
        for (int round = 0; s->n_past < RIG_CTX - MAX_K - 1; round++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            int k = (int)(x >> 33) % (MAX_K + 1), j = (int)(x >> 41) % (k + 1);
            int n_commit = (int)(x >> 50) % 2; /* both ways of calling must do */
            for (int i = 0; i <= k; i++)
                tok[i] = rig_token(9, s->n_past + i, r.n_vocab);
            rig_feed(&r, s, tok, k + 1, n_commit, rows, NULL);
            seq_accept(s, j + (1 - n_commit));
            for (int i = 0; i <= j; i++) {
                rig_feed(&r, plain, tok + i, 1, 1, one, NULL);
                if (memcmp(one, rows + (size_t)i * v, v * sizeof *one) != 0)
                    fail_msg("%s: round %d: row %d of the window differs", model_arch_name(arch[a]),
                             round, i);
            }
            assert_int_equal(s->n_past, plain->n_past);
            if (round % 5 == 4)
                assert_true(seq_digest(s) == seq_digest(plain));
        }
        assert_true(seq_digest(s) == seq_digest(plain));
        free(rows);
        free(one);
        seq_free(plain);
        seq_free(s);
        rig_close(&r);
    }
}

/* Catches a digest that is blind: a changed token, cell, history or state must show. */
static void test_digest_sees_every_part(void **state)
{
    (void)state;
    rig r;
    open_family(&r, MODEL_QWEN4EXP, DTYPE_F16);
    int32_t tok[20];
    fill(tok, 20, 4, r.n_vocab);
    seq *s = rig_seq(&r);
    rig_feed(&r, s, tok, 20, 20, NULL, NULL);
    uint64_t was = seq_digest(s);
    seq_layer *gdn = &s->layer[0], *attn = &s->layer[3];
    uint8_t *part[] = {(uint8_t *)gdn->gdn,        (uint8_t *)gdn->conv,
                       be_cell(&attn->kv.k, 0),    be_cell(&attn->kv.v, 0),
                       be_cell(&attn->idx_raw, 0), be_cell(&attn->idx_pool, 0),
                       (uint8_t *)s->ple_conv,     (uint8_t *)s->tok};
    for (size_t i = 0; i < ARRAY_LEN(part); i++) {
        part[i][5] ^= 1;
        if (seq_digest(s) == was)
            fail_msg("part %zu is not in the digest", i);
        part[i][5] ^= 1;
    }
    assert_true(seq_digest(s) == was);
    seq_free(s);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window_kept_in_part_equals_plain_steps),
        cmocka_unit_test(test_window_kept_in_part_equals_plain_steps_q8_cells),
        cmocka_unit_test(test_windows_in_a_row_equal_plain_steps),
        cmocka_unit_test(test_digest_sees_every_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
