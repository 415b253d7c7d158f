/* Quantising: types by rule, what is kept, what is reported, what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "convert/convert.h"
#include "gguf/gguf.h"
#include "kern/kern.h"
#include "support/tmpdir.h"

static char in[TEST_PATH_MAX], out[TEST_PATH_MAX];

/* The mixture-of-experts model with the n-gram table, in F32. */
static int make_input(void **state)
{
    (void)state;
    ft_error err = {0};
    ft_convert_params p = {.dir = "tests/golden/tiny-qwen4exp", .type = "f32"};
    p.out = test_path(in, "in.gguf");
    test_path(out, "out.gguf");
    return convert_folder(&p, &err) == FT_OK ? 0 : -1;
}

typedef struct {
    int n, n_changed;
    uint64_t bytes_from, bytes_to;
    double rmse_max;
    char last[64]; /* name of the last changed tensor */
} tally;

static void on_report(void *ctx, const ft_quantize_report *r)
{
    tally *t = ctx;
    t->n++;
    t->bytes_from += r->bytes_from;
    t->bytes_to += r->bytes_to;
    if (strcmp(r->from, r->to) == 0) {
        assert_true(r->rel_rmse == 0 && r->bytes_from == r->bytes_to);
        return;
    }
    t->n_changed++;
    snprintf(t->last, sizeof t->last, "%s", r->name);
    if (r->rel_rmse > t->rmse_max)
        t->rmse_max = r->rel_rmse;
}

static ft_status quantize(const char *type, const char *const *rules, int n_rule, tally *t,
                          ft_error *err)
{
    ft_quantize_params p = {
        .in = in, .out = out, .type = type, .overrides = rules, .n_override = n_rule};
    if (t) {
        p.report = on_report;
        p.report_ctx = t;
    }
    return quantize_file(&p, err);
}

static gguf_file *quantize_and_open(const char *type, const char *const *rules, int n_rule,
                                    tally *t)
{
    ft_error err = {0};
    gguf_file *g;
    if (quantize(type, rules, n_rule, t, &err) != FT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(gguf_open(&g, out, &err), FT_OK);
    return g;
}

static dtype type_of(const gguf_file *g, const char *name)
{
    const gguf_tensor *t = gguf_tensor_find(g, name);
    if (!t)
        fail_msg("'%s' is missing", name);
    return t->t.type;
}

static void refuse(const char *type, const char *rule, ft_status want, const char *word)
{
    ft_error err = {0};
    ft_status st = quantize(type, &rule, rule ? 1 : 0, NULL, &err);
    if (st != want || !strstr(err.msg, word))
        fail_msg("%s %s -> %d '%s'", type, rule ? rule : "", st, err.msg);
}

/* Bug: vectors, the router or the convolutions quantised; experts or the n-gram table not. */
static void test_quantize_changes_matrices_only(void **state)
{
    (void)state;
    tally t = {0};
    gguf_file *g = quantize_and_open("q8_0", NULL, 0, &t);
    assert_int_equal(t.n, gguf_n_tensor(g));
    static const char *const kept[] = {"blk.0.ssm_a",
                                       "blk.0.ssm_dt.bias",
                                       "blk.0.ssm_norm.weight",
                                       "blk.0.ssm_alpha.weight",
                                       "blk.0.ssm_beta.weight",
                                       "blk.0.ssm_conv1d.weight",
                                       "blk.1.ple_conv1d.weight",
                                       "blk.1.ple_norm_key.weight",
                                       "blk.0.ffn_gate_inp.weight",
                                       "blk.0.ffn_gate_inp_shexp.weight",
                                       "blk.0.hc_attn_inject.weight",
                                       "blk.0.hc_ffn_inject.weight",
                                       "output_hc_norm.weight",
                                       "blk.4.nextn.hnorm.weight"};
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (type_of(g, kept[i]) != DTYPE_F32)
            fail_msg("'%s' is no longer F32", kept[i]);
    static const char *const changed[] = {
        "token_embd.weight",           "output.weight",
        "blk.0.attn_qkv.weight",       "blk.0.ffn_down_exps.weight",
        "blk.3.indexer.k_proj.weight", "blk.4.nextn.eh_proj.weight"};
    for (size_t i = 0; i < ARRAY_LEN(changed); i++)
        if (type_of(g, changed[i]) != DTYPE_Q8_0)
            fail_msg("'%s' is no Q8_0", changed[i]);
    /* rows of 16 and of 8 values */
    assert_int_equal(type_of(g, "per_layer_token_embd.weight"), DTYPE_F16);
    assert_int_equal(type_of(g, "output_hc_up.weight"), DTYPE_F16);
    assert_true(t.rmse_max > 0.001 && t.rmse_max < 0.01);
    assert_true(t.bytes_to < t.bytes_from / 2);
    gguf_close(g);
}

/* Bug: experts after the first encoded from the wrong rows; the error measured on other values. */
static void test_quantize_values_and_error_are_the_codecs(void **state)
{
    (void)state;
    enum { N = 8 * 32 * 64 };
    static float want[N], got[N];
    static uint8_t coded[N];
    tally t = {0};
    const char *rule = "blk.2.ffn_up_exps.weight=q4_0";
    gguf_file *g = quantize_and_open("f32", &rule, 1, &t), *source;
    assert_int_equal(t.n_changed, 1);
    assert_string_equal(t.last, "blk.2.ffn_up_exps.weight");
    assert_int_equal(gguf_open(&source, in, NULL), FT_OK);
    const gguf_tensor *a = gguf_tensor_find(source, t.last), *b = gguf_tensor_find(g, t.last);
    assert_int_equal(tensor_bytes(&a->t), sizeof want);
    assert_int_equal(b->t.n_mat, 8);
    assert_true(kern_encode(DTYPE_Q4_0, coded, a->t.data, N));
    assert_memory_equal(b->t.data, coded, tensor_bytes(&b->t));
    assert_true(kern_decode(DTYPE_Q4_0, got, b->t.data, N));
    memcpy(want, a->t.data, sizeof want);
    double err = 0, sum = 0;
    for (int i = 0; i < N; i++) {
        err += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        sum += (double)want[i] * (double)want[i];
    }
    assert_true(fabs(t.rmse_max - sqrt(err / sum)) < 1e-12);
    gguf_close(source);
    gguf_close(g);
}

/* Bug: the last rule wins, a rule without effect passes unseen, a rule cannot reach a vector. */
static void test_quantize_first_matching_rule_wins(void **state)
{
    (void)state;
    static const char *const rules[] = {"blk.3.*=f16", "blk.*.attn_q.weight=q8_0",
                                        "*ffn_gate_inp.weight=bf16", "output_hc_norm.weight=q8_0"};
    gguf_file *g = quantize_and_open("q4_0", rules, 4, NULL);
    assert_int_equal(type_of(g, "blk.3.attn_q.weight"), DTYPE_F16);
    assert_int_equal(type_of(g, "blk.4.attn_q.weight"), DTYPE_Q8_0);
    assert_int_equal(type_of(g, "blk.0.ffn_gate_inp.weight"), DTYPE_BF16);
    assert_int_equal(type_of(g, "output_hc_norm.weight"), DTYPE_Q8_0);
    assert_int_equal(type_of(g, "blk.0.attn_qkv.weight"), DTYPE_Q4_0);
    gguf_close(g);
    refuse("q4_0", "blk.9.*=f16", FT_ARG, "blk.9.*");
    refuse("q4_0", "blk.0.*", FT_ARG, "PATTERN=TYPE");
    refuse("q4_0", "=f16", FT_ARG, "PATTERN=TYPE");
    refuse("q4_0", "blk.0.*=q9", FT_ARG, "q9");
    refuse("q4_0", "blk.0.*=q6_k", FT_ARG, "q6_k"); /* no encoder */
    refuse("nothing", NULL, FT_ARG, "Q4_0");
}

/* Bug: metadata lost, or the type of the file not that of its tensors. */
static void test_quantize_copies_metadata_and_sets_file_type(void **state)
{
    (void)state;
    gguf_file *g = quantize_and_open("q5_1", NULL, 0, NULL), *source;
    assert_int_equal(gguf_open(&source, in, NULL), FT_OK);
    assert_int_equal(gguf_n_kv(g), gguf_n_kv(source));
    for (size_t i = 0; i < gguf_n_kv(source); i++) {
        const gguf_kv *a = gguf_kv_at(source, i), *b = gguf_kv_find(g, a->key);
        assert_non_null(b);
        if (strcmp(a->key, "general.file_type") == 0)
            continue;
        assert_int_equal(a->type, b->type);
        assert_int_equal(a->raw_bytes, b->raw_bytes);
        assert_memory_equal(a->raw, b->raw, a->raw_bytes);
    }
    int64_t v;
    assert_int_equal(gguf_get_int(g, "general.file_type", 0, 2000, &v, NULL), FT_OK);
    assert_int_equal(v, 9);
    gguf_close(source);
    gguf_close(g);
}

/* Bug: the same type re-encoded: F32 to F32 must be a copy, byte for byte. */
static void test_quantize_to_the_same_type_copies(void **state)
{
    (void)state;
    tally t = {0};
    gguf_close(quantize_and_open("f32", NULL, 0, &t));
    assert_int_equal(t.n_changed, 0);
    assert_int_equal(t.bytes_from, t.bytes_to);
    gguf_file *a, *b;
    assert_int_equal(gguf_open(&a, in, NULL), FT_OK);
    assert_int_equal(gguf_open(&b, out, NULL), FT_OK);
    assert_int_equal(gguf_n_tensor(a), gguf_n_tensor(b));
    for (size_t i = 0; i < gguf_n_tensor(a); i++) {
        const tensor *x = &gguf_tensor_at(a, i)->t, *y = &gguf_tensor_at(b, i)->t;
        assert_string_equal(x->name, y->name);
        assert_int_equal(tensor_bytes(x), tensor_bytes(y));
        assert_memory_equal(x->data, y->data, tensor_bytes(x));
    }
    gguf_close(a);
    gguf_close(b);
}

/* Write a GGUF of one or two 1 x n F32 tensors; with split metadata if shard >= 0. */
static void write_gguf(const char *path, const char *name, const float *v, uint64_t n, int shard,
                       int n_shard)
{
    gguf_writer *w;
    ft_error err = {0};
    uint64_t dim[2] = {n, 1};
    assert_int_equal(gguf_writer_open(&w, path, &err), FT_OK);
    gguf_put_str(w, "general.architecture", "qwen35", 6);
    if (shard >= 0) {
        gguf_put_int(w, "split.no", GGUF_U16, shard);
        gguf_put_int(w, "split.count", GGUF_U16, n_shard);
        gguf_put_int(w, "split.tensors.count", GGUF_I32, n_shard);
    }
    gguf_declare(w, name, DTYPE_F32, 2, dim);
    assert_int_equal(gguf_writer_begin(w, &err), FT_OK);
    assert_int_equal(gguf_write_data(w, v, n * sizeof *v, &err), FT_OK);
    assert_int_equal(gguf_writer_close(w, &err), FT_OK);
}

/* B099: shard 1 alone read, or the result still calling itself a shard. */
static void test_quantize_split_input_gives_one_file(void **state)
{
    (void)state;
    static const float v[64] = {1, -2, 3, 0.5f};
    char a[TEST_PATH_MAX], b[TEST_PATH_MAX];
    ft_error err = {0};
    test_path(a, "m-00001-of-00002.gguf");
    test_path(b, "m-00002-of-00002.gguf");
    write_gguf(a, "blk.0.ffn_up.weight", v, 64, 0, 2);
    write_gguf(b, "blk.1.ffn_up.weight", v, 64, 1, 2);
    ft_quantize_params p = {.in = a, .out = out, .type = "q8_0"};
    if (quantize_file(&p, &err) != FT_OK)
        fail_msg("%s", err.msg);
    gguf_file *g;
    assert_int_equal(gguf_open(&g, out, NULL), FT_OK);
    assert_int_equal(gguf_n_shard(g), 1);
    assert_int_equal(gguf_n_tensor(g), 2);
    assert_null(gguf_kv_find(g, "split.count"));
    gguf_close(g);
    p.out = b; /* a shard of the input */
    err = (ft_error){0};
    assert_int_equal(quantize_file(&p, &err), FT_ARG);
    assert_non_null(strstr(err.msg, "is the input"));
}

/* Bug: the input destroyed by itself, also under another name. */
static void test_quantize_onto_the_input_is_refused(void **state)
{
    (void)state;
    char other[TEST_PATH_MAX];
    ft_error err = {0};
    ft_quantize_params p = {.in = in, .out = in, .type = "q8_0"};
    assert_int_equal(quantize_file(&p, &err), FT_ARG);
    (void)!unlink(test_path(other, "other-name.gguf"));
    assert_int_equal(link(in, other), 0);
    p.out = other;
    err = (ft_error){0};
    assert_int_equal(quantize_file(&p, &err), FT_ARG);
    assert_non_null(strstr(err.msg, "is the input"));
    p.out = NULL;
    assert_int_equal(quantize_file(&p, NULL), FT_ARG);
    p = (ft_quantize_params){.in = "/no/such.gguf", .out = out, .type = "q8_0"};
    assert_int_equal(quantize_file(&p, NULL), FT_IO);
}

/* Bug: infinities and NaN written into blocks, or F16 overflowing without a word. */
static void test_quantize_values_that_do_not_fit_are_named(void **state)
{
    (void)state;
    static const struct {
        float v;
        uint64_t n;
        const char *type;
        ft_status want;
        dtype to;
    } c[] = {
        {1e6f, 64, "f16", FT_RANGE, DTYPE_F16},     {1e6f, 64, "q8_0", FT_OK, DTYPE_Q8_0},
        {1e9f, 64, "q8_0", FT_RANGE, DTYPE_Q8_0},   {1e6f, 48, "q8_0", FT_OK, DTYPE_F32},
        {1e3f, 48, "q8_0", FT_OK, DTYPE_F16},       {INFINITY, 64, "q4_0", FT_RANGE, DTYPE_Q4_0},
        {NAN, 64, "q8_0", FT_RANGE, DTYPE_Q8_0},    {INFINITY, 64, "bf16", FT_OK, DTYPE_BF16},
        {3.4e38f, 64, "bf16", FT_RANGE, DTYPE_BF16}};
    char path[TEST_PATH_MAX];
    test_path(path, "range.gguf");
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        float v[64] = {0.5f, c[i].v};
        ft_error err = {0};
        write_gguf(path, "blk.0.ffn_up.weight", v, c[i].n, -1, 0);
        ft_quantize_params p = {.in = path, .out = out, .type = c[i].type};
        ft_status st = quantize_file(&p, &err);
        if (st != c[i].want)
            fail_msg("case %zu: %d %s", i, st, err.msg);
        if (st != FT_OK) {
            assert_non_null(strstr(err.msg, "blk.0.ffn_up.weight"));
            continue;
        }
        gguf_file *g;
        assert_int_equal(gguf_open(&g, out, NULL), FT_OK);
        assert_int_equal(type_of(g, "blk.0.ffn_up.weight"), c[i].to);
        gguf_close(g);
    }
}

typedef struct {
    int n, stop_at;
    uint64_t done, total;
} watch;

static bool on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    watch *w = ctx;
    assert_non_null(what);
    assert_true(done >= w->done && done <= total);
    w->done = done;
    w->total = total;
    return ++w->n != w->stop_at;
}

/* Bug: progress that never ends, a cancelled job that replaces the old file. */
static void test_quantize_progress_and_cancel(void **state)
{
    (void)state;
    watch w = {0};
    ft_error err = {0};
    ft_quantize_params p = {
        .in = in, .out = out, .type = "q8_0", .progress = on_progress, .progress_ctx = &w};
    assert_int_equal(quantize_file(&p, &err), FT_OK);
    assert_true(w.total > 0 && w.done == w.total);
    file_map before, after;
    p.type = "q4_0";
    for (int stop = 1; stop < w.n; stop += 20) {
        watch v = {.stop_at = stop};
        p.progress_ctx = &v;
        err = (ft_error){0};
        assert_int_equal(map_open(&before, out, NULL), FT_OK);
        assert_int_equal(quantize_file(&p, &err), FT_CANCELLED);
        assert_int_equal(map_open(&after, out, NULL), FT_OK);
        assert_int_equal(before.n_bytes, after.n_bytes);
        map_close(&before);
        map_close(&after);
    }
}

/* Bug: a failed allocation that crashes, leaks or passes unseen. */
static void test_quantize_every_failed_allocation_is_reported(void **state)
{
    (void)state;
    static const float v[64] = {1, 2, 3};
    char path[TEST_PATH_MAX];
    const char *rule = "blk.0.*=q4_0";
    test_path(path, "small.gguf");
    write_gguf(path, "blk.0.ffn_up.weight", v, 64, -1, 0);
    for (long n = 1;; n++) {
        ft_error err = {0};
        ft_quantize_params p = {
            .in = path, .out = out, .type = "q8_0", .overrides = &rule, .n_override = 1};
        mem_fail_at(n);
        ft_status st = quantize_file(&p, &err);
        mem_fail_at(0);
        if (st == FT_OK) {
            assert_true(n > 10);
            break;
        }
        assert_int_equal(st, FT_NOMEM);
        assert_true(err.msg[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantize_changes_matrices_only),
        cmocka_unit_test(test_quantize_values_and_error_are_the_codecs),
        cmocka_unit_test(test_quantize_first_matching_rule_wins),
        cmocka_unit_test(test_quantize_copies_metadata_and_sets_file_type),
        cmocka_unit_test(test_quantize_to_the_same_type_copies),
        cmocka_unit_test(test_quantize_split_input_gives_one_file),
        cmocka_unit_test(test_quantize_onto_the_input_is_refused),
        cmocka_unit_test(test_quantize_values_that_do_not_fit_are_named),
        cmocka_unit_test(test_quantize_progress_and_cancel),
        cmocka_unit_test(test_quantize_every_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, make_input, NULL);
}
