/* test_draft_steps.c - draft steps of several conversations in one call: each gets what it gets alone, bit
 * for bit, whoever shares the call. Hidden rows are made up. */
#include "base/mem.h"
#include "draft/draft.h"
#include "support/longseq.h"

enum { N_DRAFTER = 5, N_STEP = 5, N_TOK = 600, ROWS = 64 };

/* What a conversation has that others do not. Waiting rows lie over the border of a page in one of them. */
static const struct {
    int sink, window, n_prompt, n_wait, n_step;
} kind[N_DRAFTER] = {{8, 20, 90, 3, 5},
                     {0, 0, 1, 1, 3},
                     {64, 256, 509, 7, 5},
                     {3, 5, 33, 16, 4},
                     {8, CELLS_ALL, 150, 2, 1}};

typedef struct {
    rig r;
    draft_params p[N_DRAFTER];
    arena scratch;
    int32_t tok[N_DRAFTER][N_TOK];
    float *hidden; /* [N_TOK][width], read from another place by each conversation */
    size_t n_logits, width;
} fixture;

/* What a conversation's steps gave. */
typedef struct {
    float *logits, *hidden; /* [N_STEP][head rows], [N_STEP][width] */
    int n, n_list[N_STEP];
    uint64_t digest; /* behind them */
} result;

static void open_fixture(fixture *f, model_arch arch, dtype kv_type)
{
    long_open(&f->r, arch, kv_type);
    const model *m = f->r.m;
    for (int i = 0; i < N_DRAFTER; i++) {
        f->p[i] = (draft_params){.n_ctx = N_TOK,
                                 .n_window = RIG_WINDOW,
                                 .sink = kind[i].sink,
                                 .window = kind[i].window,
                                 .kv_type = kv_type,
                                 .w = &m->mtp,
                                 .head = &m->mtp.head};
        for (int k = 0; k < N_TOK; k++)
            f->tok[i][k] = rig_token((uint64_t)i + 1, k, f->r.n_vocab);
    }
    size_t n = draft_scratch(m, &f->p[0], ROWS, N_DRAFTER);
    assert_int_equal(arena_init(&f->scratch, n, "test", NULL), FT_OK);
    f->n_logits = (size_t)m->mtp.head.n_row;
    f->width = (size_t)f->r.width;
    f->hidden = malloc((N_TOK + N_DRAFTER) * f->width * sizeof *f->hidden);
    assert_non_null(f->hidden);
    uint32_t x = 1;
    for (size_t i = 0; i < (N_TOK + N_DRAFTER) * f->width; i++) {
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

static void observe(fixture *f, drafter *d, int i, int first, int n, int n_end)
{
    draft_observe(d, &f->scratch, f->tok[i], first, n, f->hidden + (size_t)(first + i) * f->width,
                  n_end);
}

/* Conversation i: its prompt read, and the rows of a round that wait; or all of them but the last encoded, so
 * that a first step has one row. */
static drafter *make(fixture *f, int i, bool settled)
{
    drafter *d;
    assert_int_equal(draft_create(&d, f->r.be, f->r.m, &f->p[i], NULL), FT_OK);
    for (int at = 0, n; at < kind[i].n_prompt; at += n) {
        n = kind[i].n_prompt - at < ROWS ? kind[i].n_prompt - at : ROWS;
        observe(f, d, i, at, n, kind[i].n_prompt);
    }
    draft_settle(d, &f->scratch, f->tok[i]);
    observe(f, d, i, kind[i].n_prompt, kind[i].n_wait, kind[i].n_prompt + kind[i].n_wait);
    if (settled)
        draft_settle(d, &f->scratch, f->tok[i]);
    return d;
}

static result *results(const fixture *f)
{
    result *r = calloc(N_DRAFTER, sizeof *r);
    assert_non_null(r);
    for (int i = 0; i < N_DRAFTER; i++) {
        r[i].logits = malloc(N_STEP * f->n_logits * sizeof(float));
        r[i].hidden = malloc(N_STEP * f->width * sizeof(float));
        assert_true(r[i].logits && r[i].hidden);
    }
    return r;
}

static void free_results(result *r)
{
    for (int i = 0; i < N_DRAFTER; i++) {
        free(r[i].logits);
        free(r[i].hidden);
    }
    free(r);
}

/* The step behind the r->n that conversation i has made. */
static draft_step next_step(fixture *f, drafter *d, int i, const result *r)
{
    int n_past = kind[i].n_prompt + kind[i].n_wait;
    return (draft_step){.d = d,
                        .tok = r->n == 0 ? f->tok[i] : NULL,
                        .n_past = n_past,
                        .next = f->tok[i][n_past + r->n]};
}

static void keep(const fixture *f, result *r, const draft_step *s)
{
    assert_non_null(s->logits);
    size_t at = (size_t)r->n;
    memcpy(r->logits + at * f->n_logits, s->logits, f->n_logits * sizeof(float));
    memcpy(r->hidden + at * f->width, draft_hidden(s->d), f->width * sizeof(float));
    r->n_list[r->n++] = draft_last_read(s->d);
}

static void same_rows(const float *a, const float *b, size_t n, const char *what, int i)
{
    if (memcmp(a, b, n * sizeof *a) != 0)
        fail_msg("conversation %d: other %s", i, what);
}

/* Run the chains of the conversations who [n] in shared calls. Conversation i joins at call i % late, so
 * that first steps share calls with others, and leaves when it has made its steps. settled: as make. */
static void run(fixture *f, const int *who, int n, int late, bool settled, result *r)
{
    drafter *d[N_DRAFTER];
    float *logits = malloc((size_t)n * f->n_logits * sizeof *logits);
    assert_non_null(logits);
    for (int k = 0; k < n; k++)
        d[k] = make(f, who[k], settled);
    for (int call = 0, n_step = 1; n_step > 0 || call < late; call++) {
        draft_step step[N_DRAFTER];
        int of[N_DRAFTER];
        n_step = 0;
        for (int k = 0; k < n; k++) {
            int i = who[k];
            if (call < i % late || r[i].n == kind[i].n_step)
                continue;
            of[n_step] = i;
            step[n_step++] = next_step(f, d[k], i, &r[i]);
        }
        if (n_step > 0)
            draft_steps(step, n_step, logits, &f->scratch);
        for (int k = 0; k < n_step; k++)
            keep(f, &r[of[k]], &step[k]);
    }
    for (int k = 0; k < n; k++) {
        draft_settle(d[k], &f->scratch, f->tok[who[k]]);
        r[who[k]].digest = draft_digest(d[k]);
        draft_free(d[k]);
    }
    free(logits);
}

static void same(const fixture *f, const result *a, const result *b, int i)
{
    size_t steps = (size_t)kind[i].n_step;
    assert_int_equal(a->n, b->n);
    same_rows(a->logits, b->logits, steps * f->n_logits, "logits", i);
    same_rows(a->hidden, b->hidden, steps * f->width, "hidden rows", i);
    assert_memory_equal(a->n_list, b->n_list, steps * sizeof *a->n_list);
    assert_true(a->digest == b->digest);
}

/* Catches rows, cells, lists or logits of a neighbour, a first step's rows that move the others', and sums
 * that depend on how many share the call: n = 1 .. 5, from each conversation on, all at their first step
 * or mixed; in the reference a first step has one row, what waits was encoded before. B042 B044 B081 */
static void test_draft_steps_shared_equal_those_alone(void **state)
{
    (void)state;
    static const dtype kv[] = {DTYPE_F16, DTYPE_F32, DTYPE_Q8_0};
    for (int a = 0; a < 3; a++) {
        fixture f;
        open_fixture(&f, long_arch[a], kv[a]);
        result *alone = results(&f);
        for (int i = 0; i < N_DRAFTER; i++)
            run(&f, &i, 1, 1, true, alone);
        for (int n = 1; n <= N_DRAFTER; n++)
            for (int first = 0; first < N_DRAFTER; first++) {
                int who[N_DRAFTER];
                for (int k = 0; k < n; k++)
                    who[k] = (first + 2 * k) % N_DRAFTER;
                result *r = results(&f);
                run(&f, who, n, 1 + (first + n) % 3, false, r);
                for (int k = 0; k < n; k++)
                    same(&f, &r[who[k]], &alone[who[k]], who[k]);
                free_results(r);
            }
        free_results(alone);
        close_fixture(&f);
    }
}

/* Catches a call that one drafter's lack of memory ends for all, or shifts their rows: whichever of three
 * finds none makes no step and is as before; the others make theirs. */
static void test_draft_steps_one_without_memory_leaves_others(void **state)
{
    (void)state;
    static const int who[] = {0, 2, 3}; /* that need a page at their first step, or are given one */
    fixture f;
    open_fixture(&f, MODEL_QWEN35MOE, DTYPE_F16);
    result *alone = results(&f);
    for (int k = 0; k < 3; k++)
        run(&f, &who[k], 1, 1, true, alone);
    float *logits = malloc(3 * f.n_logits * sizeof *logits);
    assert_non_null(logits);
    for (int place = 0; place < 3; place++) { /* of the one that crosses the border of a page */
        drafter *d[3];
        draft_step step[3];
        uint64_t then[3];
        int order[3] = {who[(4 - place) % 3], who[(5 - place) % 3], who[(6 - place) % 3]};
        for (int k = 0; k < 3; k++) {
            d[k] = make(&f, order[k], false);
            then[k] = draft_digest(d[k]);
            step[k] = next_step(&f, d[k], order[k], &(result){0});
        }
        mem_fail_at(1);
        draft_steps(step, 3, logits, &f.scratch);
        mem_fail_at(0);
        for (int k = 0; k < 3; k++) {
            bool lacks = order[k] == 2;
            assert_int_equal(draft_failed(d[k]), lacks);
            if (lacks) {
                assert_int_equal(k, place);
                assert_null(step[k].logits);
                assert_true(draft_digest(d[k]) == then[k]);
                draft_steps(&step[k], 1, logits + 2 * f.n_logits,
                            &f.scratch); /* now there is some */
            }
            const result *want = &alone[order[k]];
            same_rows(step[k].logits, want->logits, f.n_logits, "logits", order[k]);
            same_rows(draft_hidden(d[k]), want->hidden, f.width, "hidden row", order[k]);
        }
        for (int k = 0; k < 3; k++)
            draft_free(d[k]);
    }
    free(logits);
    free_results(alone);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_steps_shared_equal_those_alone),
        cmocka_unit_test(test_draft_steps_one_without_memory_leaves_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
