/* test_engine_alloc.c - every allocation of the engine's calls made to fail in turn: a status with a
 * message, nothing lost (run under AddressSanitizer), and what was open before still works. */
#include <stdlib.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "support/enginerig.h"

static const char text[] = "The cat in the hat: \xE2\x82\xAC 12";

typedef struct {
    char path[TEST_PATH_MAX];
    ft_model *m;
    ft_session *s;
    int32_t want[4]; /* what a generation gives when nothing fails */
} fixture;

typedef ft_status call_fn(fixture *f, ft_error *err);

/* Allocations that a call may do without: the dozen of PCRE2 for machine code, made if it can. */
enum { MAX_SPARED = 16 };

/* Make the 1st, 2nd, ... allocation of a call fail until none is left to fail. Returns how many there
 * were. after: what must hold when the call has failed; NULL: nothing. */
static int each_failure(fixture *f, call_fn *call, void (*after)(fixture *f))
{
    int n_spared = 0;
    for (int k = 1;; k++) {
        assert_true(k < 20000);
        ft_error err = {0};
        long before = mem_count();
        mem_fail_at(k);
        ft_status st = call(f, &err);
        bool failed = mem_count() - before >= k;
        mem_fail_at(0);
        if (!failed) {
            if (st != FT_OK)
                fail_msg("without a failure: %s", err.msg);
            return k - 1;
        }
        if (st == FT_OK && ++n_spared <= MAX_SPARED)
            continue;
        if (st != FT_NOMEM || err.code != FT_NOMEM || !err.msg[0])
            fail_msg("allocation %d failed: status %d, message '%s'", k, st, err.msg);
        if (after)
            after(f);
    }
}

static void open_fixture(fixture *f)
{
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    o.type[TINY_EXPERT] = DTYPE_Q8_0;
    tiny_write(test_path(f->path, "alloc.gguf"), &o);
    ft_model_params p = {.n_thread = 1};
    OK(ft_model_open(&f->m, f->path, &p, &rig_err));
    f->s = rig_session(f->m, 64, 8, "f16");
}

static void close_fixture(fixture *f)
{
    ft_session_free(f->s);
    ft_model_close(f->m);
}

static ft_status generate_two(ft_session *s, int32_t out[2], ft_error *err)
{
    rig_output o = {0};
    ft_generate_params p = rig_params(&o, 2, 0.8f, 4);
    p.ignore_eos = true;
    ft_status st = ft_session_generate(s, (int32_t[]){5, 6, 7}, 3, &p, NULL, err);
    if (st == FT_OK)
        memcpy(out, o.id, 2 * sizeof *out);
    return st;
}

/* ---- The whole way -------------------------------------------------------------------------------- */

static ft_status whole_way(fixture *f, ft_error *err)
{
    ft_model *m = (ft_model *)f;
    ft_session *s = (ft_session *)f;
    int32_t *ids, made[2];
    size_t n;
    ft_model_params mp = {.n_thread = 1};
    ft_session_params sp = {.n_ctx = 64, .n_chunk = 8, .kv_type = "f16"};
    ft_status st = ft_model_open(&m, f->path, &mp, err);
    if (st != FT_OK) {
        assert_null(m);
        return st;
    }
    st = ft_session_create(&s, m, &sp, err);
    if (st != FT_OK)
        assert_null(s);
    if (st == FT_OK) {
        st = ft_tokenize(m, text, sizeof text - 1, true, &ids, &n, err);
        if (st != FT_OK)
            assert_true(ids == NULL && n == 0);
        ft_free(ids);
    }
    if (st == FT_OK)
        st = generate_two(s, made, err);
    ft_session_free(s);
    ft_model_close(m);
    return st;
}

/* Catches a leak, a crash or a failure without a word on the way from a file to two tokens. */
static void test_alloc_failures_from_open_to_generate(void **state)
{
    (void)state;
    fixture f = {0};
    open_fixture(&f);
    int n = each_failure(&f, whole_way, NULL);
    assert_true(n > 50);
    close_fixture(&f);
}

/* ---- On objects that stay --------------------------------------------------------------------------- */

static void expect_working(fixture *f)
{
    int32_t made[2];
    ft_session_reset(f->s);
    OK(generate_two(f->s, made, &rig_err));
    assert_memory_equal(made, f->want, sizeof made);
    ft_session_reset(f->s);
}

static ft_status call_create(fixture *f, ft_error *err)
{
    ft_session *s;
    ft_session_params sp = {.n_ctx = 64, .n_chunk = 8, .kv_type = "q8_0"};
    ft_status st = ft_session_create(&s, f->m, &sp, err);
    ft_session_free(s);
    return st;
}

static ft_status call_tokenize(fixture *f, ft_error *err)
{
    int32_t *ids;
    size_t n;
    ft_status st = ft_tokenize(f->m, text, sizeof text - 1, true, &ids, &n, err);
    ft_free(ids);
    return st;
}

static ft_status call_detokenize(fixture *f, ft_error *err)
{
    char *out;
    size_t n;
    int32_t ids[200];
    rig_prompt(ids, 200);
    ft_status st = ft_detokenize(f->m, ids, 200, true, &out, &n, err);
    assert_true((st == FT_OK) == (out != NULL));
    ft_free(out);
    return st;
}

static ft_status call_generate(fixture *f, ft_error *err)
{
    int32_t made[2];
    ft_status st = generate_two(f->s, made, err);
    if (st != FT_OK) /* found out before anything is read */
        assert_int_equal(ft_session_n_past(f->s), 0);
    ft_session_reset(f->s);
    return st;
}

static ft_status call_eval_rows(fixture *f, ft_error *err)
{
    float *rows = calloc(3 * 320, sizeof *rows);
    ft_eval_out out = {.logits = rows};
    ft_session_reset(f->s);
    ft_status st = ft_session_eval_rows(f->s, (int32_t[]){1, 2, 3}, 3, &out, err);
    assert_int_equal(ft_session_n_past(f->s), st == FT_OK ? 3 : 0);
    free(rows);
    return st;
}

static ft_status call_perplexity(fixture *f, ft_error *err)
{
    int32_t tok[20];
    rig_prompt(tok, 20);
    ft_perplexity_params p = {.n_window = 16, .n_skip = -1};
    ft_perplexity_result r;
    return ft_perplexity(f->m, tok, 20, NULL, &p, &r, err);
}

static bool swallow(void *ctx, const char *bytes, size_t n)
{
    (void)ctx;
    (void)bytes;
    (void)n;
    return true;
}

static ft_status call_inspect(fixture *f, ft_error *err)
{
    return ft_inspect(f->path, false, swallow, NULL, err);
}

static ft_status call_inspect_json(fixture *f, ft_error *err)
{
    return ft_inspect(f->path, true, swallow, NULL, err);
}

/* Catches a failed call that leaves its model or its session unusable. */
static void test_alloc_failures_leave_the_objects_usable(void **state)
{
    (void)state;
    fixture f = {0};
    open_fixture(&f);
    OK(generate_two(f.s, f.want, &rig_err));
    static const struct {
        call_fn *call;
        int at_least;
    } c[] = {{call_create, 10},  {call_tokenize, 2},     {call_detokenize, 2},
             {call_generate, 1}, {call_eval_rows, 1},    {call_perplexity, 10},
             {call_inspect, 20}, {call_inspect_json, 20}};
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        int n = each_failure(&f, c[i].call, expect_working);
        if (n < c[i].at_least)
            fail_msg("call %zu made %d allocations", i, n);
    }
    close_fixture(&f);
}

/* Catches an allocation in the decode step: in debug builds the guard around it aborts; in all builds
 * a longer generation makes as many allocations as a short one. */
static void test_alloc_none_in_a_decode_step(void **state)
{
    (void)state;
    fixture f = {0};
    open_fixture(&f);
    long count[2];
    for (int i = 0; i < 2; i++) {
        rig_output o = {0};
        ft_generate_params p = rig_params(&o, i ? 50 : 5, 1.2f, 4);
        p.ignore_eos = true;
        ft_session_reset(f.s);
        long before = mem_count();
        OK(ft_session_generate(f.s, (int32_t[]){5, 6, 7}, 3, &p, NULL, &rig_err));
        count[i] = mem_count() - before;
    }
    assert_int_equal(count[0], count[1]);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alloc_failures_from_open_to_generate),
        cmocka_unit_test(test_alloc_failures_leave_the_objects_usable),
        cmocka_unit_test(test_alloc_none_in_a_decode_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
