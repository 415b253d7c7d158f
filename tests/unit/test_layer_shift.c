/* test_layer_shift.c - tokens dropped from the middle of a state: what moves, what stays, what is turned. */
#include <math.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "state/snapshot.h"
#include "support/longseq.h"

enum { N = 700, ATTN = 3 }; /* the layer with attention */

static be_rotary rotary(const rig *r)
{
    const model_hparams *h = &r->m->h;
    return (be_rotary){
        .n_head = h->n_head_kv, .d = h->d_head, .n_rot = h->n_rot, .base = h->rope_base};
}

static void shift(rig *r, seq *s, int first, int n)
{
    be_rotary rot = rotary(r);
    assert_int_equal(seq_shift(s, &rot, first, n, NULL), FT_OK);
    layer_pool_index(r->be, r->m, s, first);
}

static uint64_t sum_of(const be_cells *c, int first, int n)
{
    uint64_t h = 0;
    for (int i = first; i < first + n; i++)
        h = XXH3_64bits_withSeed(be_cell(c, i), c->cell_bytes, h);
    return h;
}

/* Gaps at the borders of pages and blocks, at the start, up to the end. */
static const int gaps[][2] = {{100, 50}, {0, 1},    {0, 600}, {511, 2},  {512, 100}, {1, 3},
                              {509, 4},  {660, 40}, {699, 1}, {37, 512}, {300, 7}};

/* Catches cells that are not where their token is, or that changed where nothing moved; recurrent parts and
 * histories that were touched. Checksums of every kind of cells in front of the gap and behind it. */
static void test_shift_moves_every_kind_of_cells(void **state)
{
    (void)state;
    rig r;
    long_open(&r, MODEL_QWEN4EXP, DTYPE_F32);
    seq *s = long_seq(&r, LONG_CTX, DTYPE_F32);
    long_feed(&r, s, 1, N);
    seq_snap *start;
    assert_int_equal(seq_snap_take(&start, s, NULL), FT_OK);
    uint64_t then = seq_digest(s);
    for (size_t i = 0; i < ARRAY_LEN(gaps); i++) {
        int first = gaps[i][0], n = gaps[i][1], behind = N - first - n;
        assert_int_equal(seq_snap_restore(s, start, NULL), FT_OK);
        const seq_layer *l = &s->layer[ATTN];
        const be_cells *kind[] = {&l->kv.v, &l->idx_raw, &l->kv.k};
        int ratio = s->shape.layer[ATTN].ratio;
        uint64_t head[3], tail[2], pool = sum_of(&l->idx_pool, 0, first / ratio);
        uint64_t gdn = XXH3_64bits(s->layer[0].gdn, 1000), ple = XXH3_64bits(s->ple_conv, 1000);
        for (int k = 0; k < 3; k++) {
            head[k] = sum_of(kind[k], 0, first);
            if (k < 2)
                tail[k] = sum_of(kind[k], first + n, behind);
        }
        shift(&r, s, first, n);
        assert_int_equal(s->n_past, N - n);
        for (int k = 0; k < s->n_past; k++)
            assert_int_equal(s->tok[k], rig_token(1, k < first ? k : k + n, r.n_vocab));
        for (int k = 0; k < 3; k++) {
            assert_true(sum_of(kind[k], 0, first) == head[k]);
            if (k < 2)
                assert_true(sum_of(kind[k], first, behind) == tail[k]);
        }
        assert_true(sum_of(&l->idx_pool, 0, first / ratio) == pool);
        uint64_t all = sum_of(&l->idx_pool, 0, s->n_past / ratio);
        assert_int_equal(pages_reserve(&s->pages, 0, s->n_past, NULL), FT_OK);
        layer_pool_index(r.be, r.m, s, 0);
        assert_true(sum_of(&l->idx_pool, 0, s->n_past / ratio) == all);
        assert_true(XXH3_64bits(s->layer[0].gdn, 1000) == gdn);
        assert_true(XXH3_64bits(s->ple_conv, 1000) == ple);
        assert_int_equal(pages_bytes(&s->pages),
                         (size_t)((s->n_past + BE_PAGE - 1) / BE_PAGE) * s->pages.page_bytes);
    }
    assert_int_equal(seq_snap_restore(s, start, NULL), FT_OK);
    assert_true(seq_digest(s) == then); /* nothing was written into the snapshot's pages */
    seq_snap_free(start);
    seq_free(s);
    rig_close(&r);
}

/* Catches a key turned by another angle than its way: every pair against a rotation in double. */
static void test_shift_turns_keys_by_the_way_they_moved(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARRAY_LEN(long_arch); a++) {
        enum { FIRST = 500, GAP = 30 };
        rig r;
        long_open(&r, long_arch[a], DTYPE_F32);
        seq *s = long_seq(&r, LONG_CTX, DTYPE_F32);
        long_feed(&r, s, 1, N);
        be_rotary rot = rotary(&r);
        const be_cells *k = &s->layer[ATTN].kv.k;
        size_t n_val = (size_t)rot.n_head * (size_t)rot.d;
        float *was = malloc(N * n_val * sizeof *was), *is = malloc(N * n_val * sizeof *is);
        be_load_cells(r.be, k, 0, was, N, (int)n_val);
        shift(&r, s, FIRST, GAP);
        be_load_cells(r.be, k, 0, is, N - GAP, (int)n_val);
        assert_memory_equal(is, was, FIRST * n_val * sizeof *is);
        int half = rot.n_rot / 2;
        for (int c = FIRST; c < N - GAP; c++)
            for (int h = 0; h < rot.n_head; h++)
                for (int i = 0; i < half; i++) {
                    size_t at = (size_t)h * (size_t)rot.d + (size_t)i,
                           from = (size_t)(c + GAP) * n_val + at;
                    double x = (double)was[from], y = (double)was[from + (size_t)half];
                    double angle = -GAP * pow(rot.base, -2.0 * i / rot.n_rot);
                    double u = x * cos(angle) - y * sin(angle), v = y * cos(angle) + x * sin(angle);
                    double size = sqrt(x * x + y * y);
                    const float *got = is + (size_t)c * n_val + at;
                    assert_true(fabs((double)got[0] - u) <= 0x1p-22 * size);
                    assert_true(fabs((double)got[half] - v) <= 0x1p-22 * size);
                }
        free(was);
        free(is);
        seq_free(s);
        rig_close(&r);
    }
}

/* Catches rows that still wait in a window, or a state that cannot go on, when tokens were dropped: windows
 * kept in part equal plain steps afterwards as before. */
static void test_shift_leaves_a_state_that_goes_on(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARRAY_LEN(long_arch); a++) {
        rig r;
        long_open(&r, long_arch[a], DTYPE_F16);
        seq *s = long_seq(&r, LONG_CTX, DTYPE_F16), *plain = long_seq(&r, LONG_CTX, DTYPE_F16);
        int32_t tok[5] = {9, 8, 7, 6, 5};
        long_feed(&r, s, 1, 550);
        long_feed(&r, plain, 1, 550);
        rig_feed(&r, s, tok, 5, 1, NULL, NULL);
        seq_accept(s, 2); /* pending while tokens are dropped */
        rig_feed(&r, plain, tok, 3, 3, NULL, NULL);
        shift(&r, s, 200, 313);
        shift(&r, plain, 200, 313);
        rig_feed(&r, s, tok, 5, 0, NULL, NULL);
        seq_accept(s, 3);
        for (int i = 0; i < 3; i++)
            rig_feed(&r, plain, tok + i, 1, 1, NULL, NULL);
        assert_true(seq_digest(s) == seq_digest(plain));
        long_feed(&r, s, 2, 600);
        long_feed(&r, plain, 2, 600);
        assert_true(seq_digest(s) == seq_digest(plain));
        seq_free(s);
        seq_free(plain);
        rig_close(&r);
    }
}

/* Catches a state half moved when memory for its own pages is wanting; and one moved although broken. */
static void test_shift_that_fails_changes_nothing(void **state)
{
    (void)state;
    rig r;
    long_open(&r, MODEL_QWEN4EXP, DTYPE_F16);
    seq *s = long_seq(&r, LONG_CTX, DTYPE_F16);
    be_rotary rot = rotary(&r);
    long_feed(&r, s, 1, N);
    uint64_t then = seq_digest(s);
    seq_snap *n;
    assert_int_equal(seq_snap_take(&n, s, NULL), FT_OK);
    for (int k = 1; k <= 4; k++) { /* two pages of two allocations */
        ft_error err = {0};
        assert_int_equal(seq_snap_restore(s, n, NULL), FT_OK);
        mem_fail_at(k);
        assert_int_equal(seq_shift(s, &rot, 300, 10, &err), FT_NOMEM);
        assert_true(err.msg[0] && seq_digest(s) == then);
    }
    mem_fail_at(0);
    assert_int_equal(seq_shift(s, &rot, 300, 0, NULL), FT_OK);
    assert_true(seq_digest(s) == then);
    assert_int_equal(seq_reserve(s, 1, NULL), FT_OK);
    assert_int_equal(seq_begin(s, (int32_t[]){1}, 1, 1, NULL), FT_OK);
    assert_int_equal(seq_shift(s, &rot, 300, 10, NULL), FT_DEVICE);
    assert_int_equal(s->n_past, N);
    seq_snap_free(n);
    seq_free(s);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shift_moves_every_kind_of_cells),
        cmocka_unit_test(test_shift_turns_keys_by_the_way_they_moved),
        cmocka_unit_test(test_shift_leaves_a_state_that_goes_on),
        cmocka_unit_test(test_shift_that_fails_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
