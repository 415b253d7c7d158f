/* test_layer_snapshot_bytes.c - the state of a conversation as bytes: written and read again it is the same;
 * in another type as near as that type allows; cut off anywhere it is refused. */
#include "base/mem.h"
#include "kern/kern.h"
#include "state/snapshot.h"
#include "support/longseq.h"

static const dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};

static ft_status write_all(seq *s, dtype type, long_bytes *b, ft_error *err)
{
    seq_snap *n;
    TRY(seq_snap_take(&n, s, err));
    *b = (long_bytes){.cut = -1};
    ft_status st = seq_cells_write(s, type, 0, s->n_past, long_write, b, err);
    if (st == FT_OK) {
        assert_int_equal(b->len, seq_cells_bytes(s, type, s->n_past));
        st = seq_recurrent_write(n, long_write, b, err);
        assert_int_equal(b->len,
                         seq_cells_bytes(s, type, s->n_past) + seq_recurrent_bytes(&s->shape));
    }
    seq_snap_free(n);
    return st;
}

static ft_status read_all(const rig *r, seq *s, dtype type, const int32_t *tok, int n_past,
                          long_bytes *b, ft_error *err)
{
    b->at = 0;
    TRY(seq_cells_read(s, type, 0, n_past, long_read, b, err));
    TRY(seq_recurrent_read(s, tok, n_past, long_read, b, err));
    layer_pool_index(r->be, r->m, s, 0);
    return FT_OK;
}

/* B048, B049, B058. Catches a part that is not written, or goes to the wrong place: every family and type of
 * cells, around the border of a page. */
static void test_state_written_and_read_is_the_same(void **state)
{
    (void)state;
    static const int at[] = {0, 1, 3, 511, 512, 513};
    for (size_t a = 0; a < ARRAY_LEN(long_arch); a++)
        for (size_t t = 0; t < ARRAY_LEN(types); t++) {
            rig r;
            long_open(&r, long_arch[a], types[t]);
            seq *s = long_seq(&r, LONG_CTX, types[t]), *got = long_seq(&r, LONG_CTX, types[t]);
            for (size_t i = 0; i < ARRAY_LEN(at); i++) {
                long_bytes b;
                ft_error err = {0};
                seq_reset(s);
                long_feed(&r, s, 1, at[i]);
                assert_int_equal(write_all(s, types[t], &b, &err), FT_OK);
                seq_reset(got);
                long_feed(&r, got, 2, 20); /* something else was there */
                if (read_all(&r, got, types[t], s->tok, at[i], &b, &err) != FT_OK)
                    fail_msg("%s", err.msg);
                assert_int_equal(b.at, b.len);
                if (seq_digest(got) != seq_digest(s))
                    fail_msg("%s, %s, %d tokens: not the same when read",
                             model_arch_name(long_arch[a]), dtype_name(types[t]), at[i]);
                long_feed(&r, s, 1, 9);
                long_feed(&r, got, 1, 9);
                assert_true(seq_digest(got) == seq_digest(s));
                free(b.data);
            }
            seq_free(s);
            seq_free(got);
            rig_close(&r);
        }
}

/* Catches ranges that are cut, or put together, at the wrong cell: a state written in three pieces. */
static void test_state_cells_in_ranges_are_those_in_one(void **state)
{
    (void)state;
    static const int cut[] = {0, 500, 513, 600};
    rig r;
    long_open(&r, MODEL_QWEN4EXP, DTYPE_F16);
    seq *s = long_seq(&r, LONG_CTX, DTYPE_F16), *got = long_seq(&r, LONG_CTX, DTYPE_F16);
    long_feed(&r, s, 1, 600);
    seq_snap *n;
    assert_int_equal(seq_snap_take(&n, s, NULL), FT_OK);
    for (int i = 2; i >= 0; i--) {
        long_bytes b = {.cut = -1};
        int n_cell = cut[i + 1] - cut[i];
        assert_int_equal(seq_cells_write(s, DTYPE_F16, cut[i], n_cell, long_write, &b, NULL),
                         FT_OK);
        assert_int_equal(b.len, seq_cells_bytes(s, DTYPE_F16, n_cell));
        assert_int_equal(seq_cells_read(got, DTYPE_F16, cut[i], n_cell, long_read, &b, NULL),
                         FT_OK);
        free(b.data);
    }
    long_bytes b = {.cut = -1};
    assert_int_equal(seq_recurrent_write(n, long_write, &b, NULL), FT_OK);
    assert_int_equal(seq_recurrent_read(got, s->tok, 600, long_read, &b, NULL), FT_OK);
    layer_pool_index(r.be, r.m, got, 0);
    assert_true(seq_digest(got) == seq_digest(s));
    free(b.data);
    seq_snap_free(n);
    seq_free(s);
    seq_free(got);
    rig_close(&r);
}

/* Every value of K of a layer, as float. */
static float *keys(const rig *r, const seq *s)
{
    int n = s->shape.layer[3].n_kv;
    float *x = malloc((size_t)s->n_past * (size_t)n * sizeof *x);
    assert_non_null(x);
    be_load_cells(r->be, &s->layer[3].kv.k, 0, x, s->n_past, n);
    return x;
}

/* Catches a conversion by another way than decode and encode, or of the wrong cells; a size told wrong. */
static void test_state_in_another_type_is_its_values_in_that_type(void **state)
{
    (void)state;
    enum { N = 530 };
    rig r;
    long_open(&r, MODEL_QWEN4EXP, DTYPE_F32);
    seq *s = long_seq(&r, LONG_CTX, DTYPE_F32);
    long_feed(&r, s, 1, N);
    float *want = keys(&r, s);
    size_t n = (size_t)N * (size_t)s->shape.layer[3].n_kv;
    size_t last = SIZE_MAX;
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        long_bytes b;
        ft_error err = {0};
        assert_int_equal(write_all(s, types[t], &b, &err), FT_OK);
        assert_true(b.len < last);
        last = b.len;
        void *code = malloc(dtype_row_bytes(types[t], n));
        float *back = malloc(n * sizeof *back);
        assert_true(code && back);
        assert_true(kern_encode((int)types[t], code, want, n));
        assert_memory_equal(b.data, code, dtype_row_bytes(types[t], n)); /* K of the first layer */
        assert_true(kern_decode((int)types[t], back, code, n));
        seq *got = long_seq(&r, LONG_CTX, DTYPE_F32);
        assert_int_equal(read_all(&r, got, types[t], s->tok, N, &b, &err), FT_OK);
        float *is = keys(&r, got);
        assert_memory_equal(is, back, n * sizeof *is);
        if (types[t] == DTYPE_F32)
            assert_true(seq_digest(got) == seq_digest(s));
        seq_free(got);
        free(is);
        free(code);
        free(back);
        free(b.data);
    }
    free(want);
    seq_free(s);
    rig_close(&r);
}

/* B055. Catches bytes that end too early and are taken for good: the status comes through, s can be reset and
 * is as new. */
static void test_state_cut_off_anywhere_is_refused(void **state)
{
    (void)state;
    rig r;
    long_open(&r, MODEL_QWEN4EXP, DTYPE_F16);
    seq *s = long_seq(&r, LONG_CTX, DTYPE_F16), *got = long_seq(&r, LONG_CTX, DTYPE_F16);
    long_feed(&r, s, 1, 70);
    long_bytes b;
    ft_error err = {0};
    assert_int_equal(write_all(s, DTYPE_Q8_0, &b, &err), FT_OK);
    for (long cut = 0; cut < (long)b.len; cut += (long)b.len / 97 + 1) {
        err = (ft_error){0};
        b.cut = cut;
        assert_int_equal(read_all(&r, got, DTYPE_Q8_0, s->tok, 70, &b, &err), FT_FORMAT);
        assert_non_null(strstr(err.msg, "cut off"));
        seq_snap *none;
        if (got->broken) /* the recurrent part was begun */
            assert_int_equal(seq_snap_take(&none, got, NULL), FT_DEVICE);
        seq_reset(got);
    }
    b.cut = -1;
    assert_int_equal(read_all(&r, got, DTYPE_Q8_0, s->tok, 70, &b, &err), FT_OK);
    long_feed(&r, got, 1, 5);
    free(b.data);
    seq_free(s);
    seq_free(got);
    rig_close(&r);
}

/* Catches wishes that reach memory unchecked: ranges, types, contexts; and failed allocations. */
static void test_state_bytes_out_of_range_are_refused(void **state)
{
    (void)state;
    rig r;
    long_open(&r, MODEL_QWEN35, DTYPE_F16);
    seq *s = long_seq(&r, 50, DTYPE_F16);
    long_feed(&r, s, 1, 40);
    uint64_t then = seq_digest(s);
    long_bytes b = {.cut = -1};
    static const int bad[][2] = {{-1, 2}, {0, -1}, {0, 51}, {50, 1}, {1, INT32_MAX}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ft_error err = {0};
        assert_int_equal(seq_cells_write(s, DTYPE_F16, bad[i][0], bad[i][1], long_write, &b, &err),
                         FT_RANGE);
        assert_int_equal(seq_cells_read(s, DTYPE_F16, bad[i][0], bad[i][1], long_read, &b, NULL),
                         FT_RANGE);
        assert_non_null(strstr(err.msg, "positions from"));
    }
    assert_int_equal(seq_cells_write(s, DTYPE_F16, 0, 41, long_write, &b, NULL), FT_RANGE);
    assert_int_equal(seq_cells_write(s, DTYPE_BF16, 0, 4, long_write, &b, NULL), FT_ARG);
    assert_int_equal(seq_recurrent_read(s, s->tok, 51, long_read, &b, NULL), FT_RANGE);
    assert_int_equal(seq_recurrent_read(s, s->tok, -1, long_read, &b, NULL), FT_RANGE);
    for (int k = 1; k <= 2; k++) {
        mem_fail_at(k);
        assert_int_equal(seq_cells_write(s, DTYPE_Q8_0, 0, 4, long_write, &b, NULL), FT_NOMEM);
    }
    mem_fail_at(0);
    assert_true(b.len == 0 && seq_digest(s) == then);
    seq_free(s);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_written_and_read_is_the_same),
        cmocka_unit_test(test_state_cells_in_ranges_are_those_in_one),
        cmocka_unit_test(test_state_in_another_type_is_its_values_in_that_type),
        cmocka_unit_test(test_state_cut_off_anywhere_is_refused),
        cmocka_unit_test(test_state_bytes_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
