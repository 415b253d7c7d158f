/* test_draft_snapshot.c - the drafter's cells in pages: taken as they are needed, kept and given back, as
 * bytes, moved; and what happens when there is no memory for them. Hidden rows are made up. */
#include "base/mem.h"
#include "draft/snapshot.h"
#include "support/draftone.h"
#include "support/longseq.h"

enum { WINDOW = 20, SINK = 8, ROWS = 64, N_TOK = 3000 };

typedef struct {
    rig r;
    draft_params p;
    arena scratch;
    int32_t tok[N_TOK + 1];
    float *hidden; /* [N_TOK][width] */
} fixture;

static void open_fixture(fixture *f, model_arch arch, dtype kv_type)
{
    long_open(&f->r, arch, kv_type);
    const model *m = f->r.m;
    f->p = (draft_params){.n_ctx = N_TOK,
                          .n_window = RIG_WINDOW,
                          .sink = SINK,
                          .window = WINDOW,
                          .kv_type = kv_type,
                          .w = &m->mtp,
                          .head = &m->mtp.head};
    assert_int_equal(arena_init(&f->scratch, draft_scratch(m, &f->p, ROWS, 1), "test", NULL),
                     FT_OK);
    for (int i = 0; i <= N_TOK; i++)
        f->tok[i] = rig_token(1, i, f->r.n_vocab);
    size_t n = (size_t)N_TOK * (size_t)f->r.width;
    f->hidden = malloc(n * sizeof *f->hidden);
    assert_non_null(f->hidden);
    uint32_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        f->hidden[i] = (float)(int32_t)x * 0x1p-31f;
    }
}

static void close_fixture(fixture *f)
{
    free(f->hidden);
    arena_deinit(&f->scratch);
    rig_close(&f->r);
}

static drafter *make(const fixture *f)
{
    drafter *d;
    assert_int_equal(draft_create(&d, f->r.be, f->r.m, &f->p, NULL), FT_OK);
    return d;
}

/* Observe positions first .. end - 1 of a text that ends there. */
static void observe(fixture *f, drafter *d, int first, int end)
{
    for (int i = first; i < end; i += ROWS) {
        int n = end - i < ROWS ? end - i : ROWS;
        draft_observe(d, &f->scratch, f->tok, i, n, f->hidden + (size_t)i * (size_t)f->r.width,
                      end);
    }
    draft_settle(d, &f->scratch, f->tok);
}

/* Logits of a chain of three behind n_past tokens. */
static void chain(fixture *f, drafter *d, int n_past, float *logits)
{
    size_t v = (size_t)f->p.head->n_row;
    for (int i = 0; i < 3; i++) {
        float *row = logits + (size_t)i * v;
        assert_ptr_equal(i == 0 ? draft_first(d, &f->scratch, f->tok, n_past, f->tok[n_past], row)
                                : draft_on(d, &f->scratch, i, row),
                         row);
    }
    draft_end(d);
}

static float *rows(const fixture *f)
{
    float *x = malloc(3 * (size_t)f->p.head->n_row * sizeof *x);
    assert_non_null(x);
    return x;
}

static void same_chain(fixture *f, drafter *a, drafter *b, int n_past)
{
    float *x = rows(f), *y = rows(f);
    chain(f, a, n_past, x);
    chain(f, b, n_past, y);
    assert_memory_equal(x, y, 3 * (size_t)f->p.head->n_row * sizeof *x);
    free(x);
    free(y);
}

/* Catches memory for cells that are never written: a long prompt, of which the sink and the window count. */
static void test_drafter_takes_pages_of_the_cells_it_writes(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, MODEL_QWEN35, DTYPE_F16);
    drafter *d = make(&f);
    size_t none = draft_bytes(d);
    observe(&f, d, 0, 1);
    assert_int_equal(draft_bytes(d), none); /* its hidden row waits */
    observe(&f, d, 1, 400);
    size_t page = draft_bytes(d) - none;
    assert_true(page > 0);
    draft_reset(d);
    assert_int_equal(draft_bytes(d), none);
    observe(&f, d, 0, 2900);
    assert_int_equal(draft_bytes(d), none + 2 * page); /* of 6: the first one, and the window's */
    draft_free(d);
    close_fixture(&f);
}

/* B056, B058. Catches a part of the drafter that is not kept, and writes through to a snapshot: around the border
 * of a page, back in the same drafter and in another. */
static void test_drafter_restored_is_what_it_was(void **state)
{
    (void)state;
    static const int at[] = {1, 2, 30, 511, 512, 513, 514, 530, 1100};
    for (size_t a = 0; a < ARRAY_LEN(long_arch); a++) {
        fixture f;
        open_fixture(&f, long_arch[a], DTYPE_F16);
        drafter *d = make(&f), *other = make(&f);
        for (size_t i = 0; i < ARRAY_LEN(at); i++) {
            draft_reset(d);
            observe(&f, d, 0, at[i]);
            uint64_t then = draft_digest(d);
            draft_snap *n;
            assert_int_equal(draft_snap_take(&n, d, NULL), FT_OK);
            assert_true(draft_digest(d) == then);
            f.tok[at[i] + 2]++;
            observe(&f, d, at[i], at[i] + 40);
            f.tok[at[i] + 2]--;
            assert_true(draft_digest(d) != then);
            assert_int_equal(draft_snap_restore(d, n, NULL), FT_OK);
            assert_int_equal(draft_snap_restore(other, n, NULL), FT_OK);
            assert_true(draft_digest(d) == then && draft_digest(other) == then);
            same_chain(&f, d, other, at[i]);
            draft_snap_free(n);
        }
        draft_free(d);
        draft_free(other);
        close_fixture(&f);
    }
}

static ft_status write_read(drafter *d, drafter *to, dtype type, int n_past, long_bytes *b,
                            ft_error *err)
{
    draft_snap *n;
    TRY(draft_snap_take(&n, d, err));
    *b = (long_bytes){.cut = -1};
    ft_status st = draft_write(n, type, long_write, b, err);
    if (st == FT_OK) {
        assert_int_equal(b->len, draft_file_bytes(n, type));
        st = draft_read(to, type, n_past, long_read, b, err);
    }
    draft_snap_free(n);
    return st;
}

/* Catches a part that is not written, ranges in the wrong order, a size told wrong. */
static void test_drafter_written_and_read_is_the_same(void **state)
{
    (void)state;
    static const int at[] = {1, 2, 513, 1100};
    static const dtype type[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    for (size_t t = 0; t < ARRAY_LEN(type); t++) {
        fixture f;
        open_fixture(&f, MODEL_QWEN4EXP, type[t]);
        drafter *d = make(&f), *to = make(&f);
        for (size_t i = 0; i < ARRAY_LEN(at); i++) {
            long_bytes b;
            draft_reset(d);
            observe(&f, d, 0, at[i]);
            assert_int_equal(write_read(d, to, type[t], at[i], &b, NULL), FT_OK);
            assert_int_equal(b.at, b.len);
            assert_true(draft_digest(to) == draft_digest(d));
            assert_true(draft_ready(to, at[i]));
            free(b.data);
            assert_int_equal(write_read(d, to, DTYPE_Q8_0, at[i], &b, NULL), FT_OK);
            free(b.data);
        }
        draft_free(d);
        draft_free(to);
        close_fixture(&f);
    }
}

/* B055. Catches foreign bytes that become counts unchecked: every field of the head wrong, every cut. A drafter
 * that refused is as new. */
static void test_drafter_bytes_that_are_wrong_are_refused(void **state)
{
    (void)state;
    enum { AT = 700 };
    /* sink, window, begin, end, sink_end, n_hid, hid_first */
    static const struct {
        int field;
        int32_t value;
        ft_status st;
    } table[] = {
        {0, SINK + 1, FT_MISMATCH}, {1, WINDOW - 1, FT_MISMATCH},
        {1, -1, FT_MISMATCH},       {2, -1, FT_FORMAT},
        {2, AT, FT_FORMAT},         {2, INT32_MAX, FT_FORMAT},
        {3, AT, FT_FORMAT},         {3, -5, FT_FORMAT},
        {3, INT32_MAX, FT_FORMAT},  {3, INT32_MIN, FT_FORMAT},
        {4, SINK + 1, FT_FORMAT},   {4, -1, FT_FORMAT},
        {4, INT32_MAX, FT_FORMAT},  {5, 2, FT_FORMAT},
        {5, -1, FT_FORMAT},         {6, AT, FT_FORMAT},
        {6, -1, FT_FORMAT},         {6, 0, FT_FORMAT},
    };
    fixture f;
    open_fixture(&f, MODEL_QWEN35, DTYPE_F16);
    drafter *d = make(&f), *to = make(&f);
    observe(&f, d, 0, AT);
    uint64_t empty = draft_digest(to);
    long_bytes b;
    assert_int_equal(write_read(d, to, DTYPE_F16, AT, &b, NULL), FT_OK);
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        ft_error err = {0};
        int32_t was, *field = (int32_t *)(void *)b.data + table[i].field;
        memcpy(&was, field, sizeof was);
        memcpy(field, &table[i].value, sizeof was);
        b.at = 0;
        ft_status st = draft_read(to, DTYPE_F16, AT, long_read, &b, &err);
        if (st != table[i].st || strncmp(err.msg, "drafter: ", 9) != 0)
            fail_msg("case %zu: status %d '%s'", i, st, err.msg);
        assert_true(draft_digest(to) == empty && !draft_ready(to, AT));
        memcpy(field, &was, sizeof was);
    }
    for (long cut = 0; cut < (long)b.len; cut += cut < 40 ? 1 : 501) {
        b.at = 0;
        b.cut = cut;
        assert_int_equal(draft_read(to, DTYPE_F16, AT, long_read, &b, NULL), FT_FORMAT);
        assert_true(draft_digest(to) == empty);
    }
    b.at = 0;
    b.cut = -1;
    assert_int_equal(draft_read(to, DTYPE_F16, N_TOK + 1, long_read, &b, NULL), FT_RANGE);
    assert_int_equal(draft_read(to, DTYPE_F16, AT, long_read, &b, NULL), FT_OK);
    assert_true(draft_digest(to) == draft_digest(d));
    free(b.data);
    draft_free(d);
    draft_free(to);
    close_fixture(&f);
}

/* B056. Catches a snapshot under other settings taken for good. */
static void test_drafter_of_other_settings_is_refused(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, MODEL_QWEN35, DTYPE_F16);
    drafter *d = make(&f);
    observe(&f, d, 0, 40);
    draft_snap *n;
    assert_int_equal(draft_snap_take(&n, d, NULL), FT_OK);
    const draft_params good = f.p;
    for (int i = 0; i < 4; i++) {
        f.p = good;
        f.p.sink += i == 0;
        f.p.window += i == 1;
        f.p.kv_type = i == 2 ? DTYPE_F32 : good.kv_type;
        f.p.n_ctx = i == 3 ? 10 : good.n_ctx;
        drafter *to = make(&f);
        uint64_t then = draft_digest(to);
        ft_error err = {0};
        assert_int_equal(draft_snap_restore(to, n, &err), i == 3 ? FT_RANGE : FT_MISMATCH);
        assert_true(draft_digest(to) == then && err.msg[0]);
        draft_free(to);
    }
    draft_snap_free(n);
    draft_free(d);
    close_fixture(&f);
}

/* Catches half a snapshot, or a drafter that reads cells for which there was no memory: drafts behind it are
 * made from what there is, and the count tells. */
static void test_drafter_without_memory_goes_on_and_counts(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f, MODEL_QWEN35, DTYPE_F16);
    drafter *d = make(&f);
    float *x = rows(&f);
    observe(&f, d, 0, 510);
    draft_snap *n;
    int k = 1;
    for (;; k++) {
        ft_error err = {0};
        mem_fail_at(k);
        ft_status st = draft_snap_take(&n, d, &err);
        mem_fail_at(0);
        if (st == FT_OK)
            break;
        assert_true(st == FT_NOMEM && n == NULL && err.msg[0]);
    }
    assert_true(k == 5);
    uint64_t then = draft_digest(d);
    for (int i = 1; i <= 2; i++) { /* the chain's page: none, then half of one */
        mem_fail_at(i);
        assert_null(draft_first(d, &f.scratch, f.tok, 510, f.tok[510], x));
        assert_true(draft_digest(d) == then && draft_ready(d, 510));
        assert_int_equal(draft_failed(d), i);
    }
    mem_fail_at(0);
    chain(&f, d, 510, x);
    assert_int_equal(draft_snap_restore(d, n, NULL), FT_OK);
    mem_fail_at(1);
    observe(&f, d, 510, 600); /* of which the first page is the snapshot's */
    mem_fail_at(0);
    assert_int_equal(draft_failed(d), 3);
    chain(&f, d, 600, x);
    assert_true(draft_last_read(d) <= SINK + WINDOW + 1);
    assert_int_equal(draft_snap_restore(d, n, NULL), FT_OK);
    assert_true(draft_digest(d) == then);
    draft_snap_free(n);
    draft_free(d);
    free(x);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drafter_takes_pages_of_the_cells_it_writes),
        cmocka_unit_test(test_drafter_restored_is_what_it_was),
        cmocka_unit_test(test_drafter_written_and_read_is_the_same),
        cmocka_unit_test(test_drafter_bytes_that_are_wrong_are_refused),
        cmocka_unit_test(test_drafter_of_other_settings_is_refused),
        cmocka_unit_test(test_drafter_without_memory_goes_on_and_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
