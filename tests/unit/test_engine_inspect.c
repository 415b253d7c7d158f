/* test_engine_inspect.c - ft_inspect: the report for people and the one as JSON. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "support/enginerig.h"

typedef struct {
    buf b;
    int n_call, stop_at; /* 0: never */
} report;

static bool collect(void *ctx, const char *text, size_t len)
{
    report *r = ctx;
    buf_put(&r->b, text, len);
    return ++r->n_call != r->stop_at;
}

static report inspect(const char *path, bool json)
{
    report r = {0};
    buf_init(&r.b, 1 << 24);
    OK(ft_inspect(path, json, collect, &r, &rig_err));
    assert_non_null(buf_cstr(&r.b));
    return r;
}

static json_t *inspect_json(const char *path)
{
    report r = inspect(path, true);
    json_error_t e;
    json_t *j = json_loads(buf_cstr(&r.b), JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
    if (!j)
        fail_msg("line %d: %s", e.line, e.text);
    buf_deinit(&r.b);
    return j;
}

static json_int_t number(const json_t *j, const char *a, const char *b)
{
    const json_t *v = json_object_get(json_object_get(j, a), b);
    assert_true(json_is_integer(v));
    return json_integer_value(v);
}

static bool feature(const json_t *j, const char *name)
{
    const json_t *v = json_object_get(json_object_get(j, "features"), name);
    assert_true(json_is_boolean(v));
    return json_is_true(v);
}

/* What the objects of a group (parts, types) have in sum, by key. */
static json_int_t sum_of(const json_t *j, const char *group, const char *key)
{
    json_int_t n = 0;
    const char *name;
    json_t *v;
    json_object_foreach(json_object_get(j, group), name, v)
    {
        assert_true(json_integer_value(json_object_get(v, "tensors")) > 0);
        n += json_integer_value(json_object_get(v, key));
    }
    return n;
}

/* Catches tensors that are in no part or in two, wrong sums, features that are not there. */
static void test_inspect_json_adds_up(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX], name[512][64];
    static const model_arch family[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};
    for (int i = 0; i < 3; i++) {
        tiny_opts o = tiny_default(family[i]);
        o.type[TINY_FFN] = o.type[TINY_EXPERT] = DTYPE_Q8_0;
        o.tied = i == 0;
        o.fused_experts = i == 1;
        tiny_write(test_path(path, "inspect.gguf"), &o);
        int n = tiny_names(&o, name, 512);
        json_t *j = inspect_json(path);
        static const char *const key[] = {"tensors", "values", "bytes"};
        assert_int_equal(number(j, "total", "tensors"), n);
        assert_int_equal(json_array_size(json_object_get(j, "tensors")), n);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(sum_of(j, "parts", key[k]), number(j, "total", key[k]));
            assert_int_equal(sum_of(j, "types", key[k]), number(j, "total", key[k]));
        }
        bool exp = family[i] == MODEL_QWEN4EXP, moe = i > 0;
        assert_true(feature(j, "mtp") && feature(j, "mtp_announced") && feature(j, "tokenizer"));
        assert_true(feature(j, "moe") == moe && feature(j, "fused_experts") == (i == 1));
        assert_true(feature(j, "qsa") == exp && feature(j, "ple") == exp);
        assert_true(feature(j, "hyper_connections") == exp);
        assert_true(feature(j, "tied_output") == (i == 0));
        assert_string_equal(json_string_value(json_object_get(j, "architecture")),
                            model_arch_name(family[i]));
        assert_int_equal(json_integer_value(json_object_get(j, "blocks")), 5);
        assert_int_equal(json_integer_value(json_object_get(j, "mtp_blocks")), 1);
        assert_null(json_object_get(json_object_get(j, "parts"), "other"));
        json_decref(j);
    }
}

/* Catches shapes turned around, and metadata that is missing or changed. */
static void test_inspect_json_shapes_and_metadata(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    tiny_write(test_path(path, "inspect.gguf"), &o);
    json_t *j = inspect_json(path), *t;
    size_t i;
    int n_seen = 0;
    json_array_foreach(json_object_get(j, "tensors"), i, t)
    {
        if (strcmp(json_string_value(json_object_get(t, "name")), "blk.0.ffn_up_exps.weight") != 0)
            continue;
        json_t *want = json_pack("[i, i, i]", 8, 32, 64); /* experts, rows, columns */
        assert_true(json_equal(json_object_get(t, "shape"), want));
        assert_int_equal(json_integer_value(json_object_get(t, "bytes")), 8 * 32 * 64 * 4);
        assert_string_equal(json_string_value(json_object_get(t, "type")), "F32");
        json_decref(want);
        n_seen++;
    }
    assert_int_equal(n_seen, 1);
    const json_t *meta = json_object_get(j, "metadata");
    assert_int_equal(json_integer_value(json_object_get(meta, "qwen4exp.embedding_length")), 64);
    assert_true(json_is_false(json_object_get(meta, "tokenizer.ggml.add_bos_token")));
    const json_t *tokens = json_object_get(meta, "tokenizer.ggml.tokens");
    assert_int_equal(json_integer_value(json_object_get(tokens, "n")), 320);
    assert_int_equal(json_array_size(json_object_get(tokens, "first")), 8);
    /* a u64 above 2^63 keeps its digits */
    const json_t *mult = json_object_get(meta, "qwen4exp.ple.layer_multipliers");
    assert_string_equal(json_string_value(json_array_get(json_object_get(mult, "first"), 0)),
                        "11400714819323198485");
    json_decref(j);
    report r = inspect(path, false);
    assert_non_null(strstr(buf_cstr(&r.b), "[3] 11400714819323198485, 14029467366897019727, "));
    buf_deinit(&r.b);
}

/* Catches a report without the numbers that people read it for. */
static void test_inspect_text_names_everything(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX], name[512][64];
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    tiny_write(test_path(path, "inspect.gguf"), &o);
    report r = inspect(path, false);
    const char *s = buf_cstr(&r.b);
    static const char *const words[] = {
        "architecture  qwen4exp\n",   "blocks        5, of them MTP 1\n",
        "GGUF version 3, 1 shard, ",  "  draft head (MTP)\n",
        "  sparse attention (QSA)\n", "  n-gram embedding (PLE)\n",
        "  hyper-connections\n",      "  mixture of experts\n",
        "  general.name = tiny\n",    "  blk.0.ffn_up_exps.weight  F32 [8, 32, 64]  65536 bytes"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (!strstr(s, words[i]))
            fail_msg("'%s' is not in the report", words[i]);
    int n = tiny_names(&o, name, 512);
    for (int i = 0; i < n; i++)
        if (!strstr(s, name[i]))
            fail_msg("tensor %s is not in the report", name[i]);
    buf_deinit(&r.b);
}

/* Catches a report that takes the announcement for the thing. B100 */
static void test_inspect_announced_mtp_absent(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.n_mtp = 0;
    tiny_write(test_path(path, "inspect.gguf"), &o);
    json_t *j = inspect_json(path);
    assert_true(feature(j, "mtp_announced"));
    assert_false(feature(j, "mtp"));
    json_decref(j);
    report r = inspect(path, false);
    assert_non_null(strstr(buf_cstr(&r.b), "draft head announced, its tensors are not in"));
    assert_null(strstr(buf_cstr(&r.b), "draft head (MTP)"));
    buf_deinit(&r.b);
}

static void put_odd_values(gguf_writer *w, void *ctx)
{
    (void)ctx;
    char text[400];
    memset(text, 'a', sizeof text);
    gguf_put_str(w, "odd.bytes", "a\x80\x1b[2J\0z\n", 9);
    gguf_put_str(w, "odd.long", text, sizeof text);
    gguf_put_f32(w, "odd.nan", NAN);
    gguf_put_f32(w, "odd.inf", INFINITY);
    gguf_put_str(w, "odd.\xff.key", "x", 1);
    gguf_put_array(w, "odd.none", GGUF_I32, NULL, 0);
    gguf_put_int(w, "odd.i64", GGUF_I64, INT64_MIN);
}

/* Catches JSON that no parser takes, and control characters sent to a terminal. */
static void test_inspect_odd_values(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.edit = put_odd_values;
    tiny_write(test_path(path, "inspect.gguf"), &o);
    json_t *j = inspect_json(path);
    const json_t *meta = json_object_get(j, "metadata");
    assert_true(json_is_null(json_object_get(meta, "odd.nan")));
    assert_true(json_is_null(json_object_get(meta, "odd.inf")));
    const json_t *s = json_object_get(meta, "odd.bytes");
    assert_int_equal(json_string_length(s), 9);
    assert_memory_equal(json_string_value(s), "a?\x1b[2J\0z\n", 9);
    assert_int_equal(json_string_length(json_object_get(meta, "odd.long")), 400);
    assert_int_equal(json_integer_value(json_object_get(meta, "odd.i64")), INT64_MIN);
    json_decref(j);
    report r = inspect(path, false);
    assert_non_null(strstr(buf_cstr(&r.b), "odd.bytes = a\x80.[2J.z.\n"));
    assert_null(strchr(buf_cstr(&r.b), '\x1b'));
    assert_int_equal(strlen(buf_cstr(&r.b)), r.b.len);
    buf_deinit(&r.b);
}

static void put_no_architecture(gguf_writer *w, void *ctx)
{
    (void)ctx;
    gguf_put_str(w, "general.architecture", "", 0);
}

/* Catches a file that is no model, or is well formed but not ours, being refused. */
static void test_inspect_files_that_cannot_be_run(void **state)
{
    (void)state;
    json_t *j = inspect_json("tests/golden/tokenizer/vocab.gguf");
    assert_true(json_is_null(json_object_get(j, "blocks")));
    assert_int_equal(number(j, "total", "tensors"), 0);
    assert_true(feature(j, "tokenizer"));
    json_decref(j);
    report r = inspect("tests/golden/tokenizer/vocab.gguf", false);
    assert_non_null(strstr(buf_cstr(&r.b), "blocks        (none)\n"));
    buf_deinit(&r.b);
    char path[TEST_PATH_MAX];
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.edit = put_no_architecture;
    tiny_write(test_path(path, "inspect.gguf"), &o);
    j = inspect_json(path);
    assert_string_equal(json_string_value(json_object_get(j, "architecture")), "");
    assert_true(number(j, "total", "tensors") > 0);
    json_decref(j);
}

/* Catches a caller that is not obeyed, and a failure without a name. */
static void test_inspect_stops_and_fails_cleanly(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    tiny_opts o = tiny_default(MODEL_QWEN35);
    tiny_write(test_path(path, "inspect.gguf"), &o);
    for (int json = 0; json < 2; json++) {
        report r = {.stop_at = 1};
        buf_init(&r.b, 1 << 24);
        FAILS(ft_inspect(path, json, collect, &r, &rig_err), FT_CANCELLED, "stopped by the caller");
        assert_int_equal(r.n_call, 1);
        FAILS(ft_inspect("tests/nothing.gguf", json, collect, &r, &rig_err), FT_IO,
              "tests/nothing.gguf");
        FAILS(ft_inspect("README.md", json, collect, &r, &rig_err), FT_FORMAT, "README.md");
        FAILS(ft_inspect("tests", json, collect, &r, &rig_err), FT_IO, "not a regular file");
        assert_int_equal(r.n_call, 1);
        buf_deinit(&r.b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inspect_json_adds_up),
        cmocka_unit_test(test_inspect_json_shapes_and_metadata),
        cmocka_unit_test(test_inspect_text_names_everything),
        cmocka_unit_test(test_inspect_announced_mtp_absent),
        cmocka_unit_test(test_inspect_odd_values),
        cmocka_unit_test(test_inspect_files_that_cannot_be_run),
        cmocka_unit_test(test_inspect_stops_and_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
