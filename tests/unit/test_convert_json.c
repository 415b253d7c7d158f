/* config.json and tokenizer.json: the keys that they become, and files that lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "convert/hf_config.h"
#include "convert/hf_tokenizer.h"
#include "convert/json.h"
#include "support/hf_make.h"
#include "support/tmpdir.h"
#include "text/text.h"

#define GOLDEN "tests/golden/"

/* ---- config.json ----------------------------------------------------------------------------- */

static ft_status parse_config(hf_config *c, json_t *root)
{
    ft_error err = {0};
    ft_status st = hf_config_parse(c, root, &err);
    assert_true(st == FT_OK || err.msg[0] != '\0');
    return st;
}

/* Bug: a hostile value that wraps, divides by zero or passes for something else. */
static void test_config_any_field_with_any_value_never_crashes(void **state)
{
    (void)state;
    static const char *const models[] = {"tiny-qwen35", "tiny-qwen35moe", "tiny-qwen4exp"};
    static const char *const value[] = {"null",  "true",      "-1",         "0",
                                        "1",     "3",         "2147483648", "9223372036854775807",
                                        "1e300", "-0.5",      "\"x\"",      "\"linear_attention\"",
                                        "[]",    "[0]",       "[1, 2]",     "[[1]]",
                                        "{}",    "{\"a\": 1}"};
    for (size_t m = 0; m < ARRAY_LEN(models); m++) {
        char dir[128];
        json_t *good;
        hf_config c;
        snprintf(dir, sizeof dir, GOLDEN "%s", models[m]);
        assert_int_equal(js_load(&good, dir, "config.json", NULL), FT_OK);
        assert_int_equal(parse_config(&c, good), FT_OK);
        const char *key;
        json_t *old;
        json_object_foreach(good, key, old)
        {
            for (size_t i = 0; i < ARRAY_LEN(value); i++) {
                json_t *bad = json_deep_copy(good);
                json_t *v = json_loads(value[i], JSON_DECODE_ANY, NULL);
                json_object_set_new(bad, key, json_incref(v));
                (void)!parse_config(&c, bad);
                json_object_set_new(json_object_get(bad, "rope_parameters"), key, v);
                (void)!parse_config(&c, bad);
                json_decref(bad);
            }
            json_t *less = json_deep_copy(good);
            json_object_del(less, key);
            (void)!parse_config(&c, less);
            json_decref(less);
        }
        json_decref(good);
    }
}

static void refuse_config(const char *more, ft_status want, const char *word)
{
    char text[2048];
    json_t *root;
    hf_config c;
    ft_error err = {0};
    snprintf(text, sizeof text, "%s%s}", hf_toy_config, more);
    root = json_loads(text, 0, NULL); /* the last of two equal names counts */
    assert_non_null(root);
    ft_status st = hf_config_parse(&c, root, &err);
    json_decref(root);
    if (st != want || !strstr(err.msg, word))
        fail_msg("%s -> %d '%s'", more, st, err.msg);
}

/* Bug: a model that computes something else converted as if it did not. */
static void test_config_what_the_engine_cannot_compute_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *more;
        ft_status want;
        const char *word;
    } bad[] = {
        {", \"model_type\": \"llama\"", FT_UNSUPPORTED, "llama"},
        {", \"hidden_act\": \"gelu\"", FT_UNSUPPORTED, "gelu"},
        {", \"attention_bias\": true", FT_UNSUPPORTED, "attention_bias"},
        {", \"attn_output_gate\": false", FT_UNSUPPORTED, "attn_output_gate"},
        {", \"rope_parameters\": {\"rope_type\": \"yarn\"}", FT_UNSUPPORTED, "yarn"},
        {", \"rope_parameters\": {\"partial_rotary_factor\": 0.05}", FT_UNSUPPORTED, "rotary"},
        {", \"linear_value_head_dim\": 16", FT_UNSUPPORTED, "linear_value_head_dim"},
        {", \"linear_num_value_heads\": 3", FT_FORMAT, "linear_num_key_heads"},
        {", \"num_key_value_heads\": 3", FT_FORMAT, "num_key_value_heads"},
        {", \"layer_types\": [\"linear_attention\"]", FT_FORMAT, "layer_types"},
        {", \"layer_types\": [\"linear_attention\", \"mamba\"]", FT_UNSUPPORTED, "mamba"},
        {", \"hidden_size\": \"32\"", FT_FORMAT, "hidden_size"},
        {", \"hidden_size\": 32.0", FT_FORMAT, "hidden_size"},
        {", \"vocab_size\": 99999999999", FT_FORMAT, "99999999999"},
        {", \"num_hidden_layers\": 512", FT_FORMAT, "num_hidden_layers"},
        {", \"eos_token_id\": 40", FT_FORMAT, "eos_token_id"},
        {", \"tie_word_embeddings\": 1", FT_FORMAT, "tie_word_embeddings"},
        {", \"rms_norm_eps\": -1", FT_FORMAT, "rms_norm_eps"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        refuse_config(bad[i].more, bad[i].want, bad[i].word);
}

/* ---- tokenizer.json ---------------------------------------------------------------------------- */

#define REGEX_QWEN2                                                                   \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| " \
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define REGEX_QWEN35                                                                            \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?[\\\\p{L}\\\\p{M}]+|\\\\p{N}| " \
    "?[^\\\\s\\\\p{L}\\\\p{M}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"

#define PRE(regex)                                                                       \
    "\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\","   \
    "\"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" regex "\"}," \
    "\"behavior\": \"Isolated\", \"invert\": false}, {\"type\": \"ByteLevel\"}]}"
#define ADDED                                                                        \
    "\"added_tokens\": [{\"id\": 36, \"content\": \"<think>\", \"special\": false}," \
    "{\"id\": 39, \"content\": \"<|end|>\", \"special\": true}]"
#define VOCAB                "\"vocab\": {\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"abc\": 5}"
#define MODEL(vocab, merges) "\"model\": {\"type\": \"BPE\", " vocab ", \"merges\": " merges "}"
#define GOOD \
    "{" ADDED ", " PRE(REGEX_QWEN35) ", " MODEL(VOCAB, "[[\"a\", \"b\"], [\"ab\", \"c\"]]") "}"

/* Appended to the toy's config.json. */
static const char *config_more = "";

/* The GGUF keys of these files; status and message of the put in *st, *err. */
static gguf_file *put(const char *tok, const char *config, const char *generation, ft_status *st,
                      ft_error *err)
{
    char dir[TEST_PATH_MAX], out[TEST_PATH_MAX], toy[2048];
    hf_tokenizer t;
    hf_config c;
    gguf_writer *w;
    gguf_file *g = NULL;
    test_path(dir, "tok");
    test_path(out, "tok.gguf");
    hf_write_text(dir, "tokenizer.json", tok);
    hf_write_text(dir, "tokenizer_config.json", config);
    hf_write_text(dir, "generation_config.json", generation);
    *err = (ft_error){0};
    *st = hf_tokenizer_load(&t, dir, err);
    if (*st != FT_OK)
        return NULL;
    snprintf(toy, sizeof toy, "%s%s}", hf_toy_config, config_more);
    json_t *root = json_loads(toy, 0, NULL);
    assert_int_equal(hf_config_parse(&c, root, NULL), FT_OK);
    json_decref(root);
    assert_int_equal(gguf_writer_open(&w, out, NULL), FT_OK);
    *st = hf_tokenizer_put(w, &t, &c, err);
    hf_tokenizer_free(&t);
    if (*st != FT_OK) {
        gguf_writer_abort(w);
        return NULL;
    }
    assert_int_equal(gguf_writer_begin(w, err), FT_OK);
    assert_int_equal(gguf_writer_close(w, err), FT_OK);
    assert_int_equal(gguf_open(&g, out, err), FT_OK);
    return g;
}

static gguf_file *put_good(const char *tok, const char *config, const char *generation)
{
    ft_status st;
    ft_error err;
    gguf_file *g = put(tok, config, generation, &st, &err);
    if (!g)
        fail_msg("%d %s", st, err.msg);
    return g;
}

static void check_str(const gguf_file *g, const char *key, const char *want)
{
    gguf_str s;
    assert_int_equal(gguf_get_str(g, key, &s, NULL), FT_OK);
    assert_int_equal(s.len, strlen(want));
    assert_memory_equal(s.s, want, s.len);
}

static int64_t int_key(const gguf_file *g, const char *key)
{
    int64_t v = -1;
    return gguf_get_int(g, key, 0, INT64_MAX, &v, NULL) == FT_OK ? v : -1;
}

static void check_strings(const gguf_file *g, const char *key, const char *const *want, size_t n)
{
    const gguf_kv *kv = gguf_kv_find(g, key);
    assert_non_null(kv);
    assert_int_equal(kv->n, n);
    size_t cursor = 0;
    gguf_str s;
    for (size_t i = 0; gguf_kv_next_str(kv, &cursor, &s); i++) {
        if (!want[i])
            continue;
        assert_int_equal(s.len, strlen(want[i]));
        assert_memory_equal(s.s, want[i], s.len);
    }
}

/* Bug: tokens at other ids, wrong kinds, gaps without a name. */
static void test_tokenizer_tokens_types_and_gaps(void **state)
{
    (void)state;
    gguf_file *g = put_good(GOOD, "{\"chat_template\": \"{{ x }}\"}", NULL);
    check_str(g, "tokenizer.ggml.model", "gpt2");
    check_str(g, "tokenizer.ggml.pre", "qwen35");
    check_str(g, "tokenizer.chat_template", "{{ x }}");
    const char *want[40] = {"a", "b", "c", "ab", "[PAD4]", "abc", "[PAD6]"};
    want[36] = "<think>";
    want[38] = "[PAD38]";
    want[39] = "<|end|>";
    check_strings(g, "tokenizer.ggml.tokens", want, 40);
    const gguf_kv *kv = gguf_kv_find(g, "tokenizer.ggml.token_type");
    assert_int_equal(kv->n, 40);
    static const struct {
        uint64_t id;
        int64_t type;
    } types[] = {{0, 1}, {3, 1}, {4, 5}, {5, 1}, {36, 4}, {38, 5}, {39, 3}};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        int64_t v;
        assert_int_equal(gguf_kv_int(kv, types[i].id, &v, NULL), FT_OK);
        assert_int_equal(v, types[i].type);
    }
    assert_int_equal(int_key(g, "tokenizer.ggml.eos_token_id"), 39);
    assert_int_equal(int_key(g, "tokenizer.ggml.add_bos_token"), 0);
    gguf_close(g);
}

/* Bug: one of the two spellings of merges lost or glued. */
static void test_tokenizer_both_spellings_of_merges_are_one(void **state)
{
    (void)state;
    static const char *const spelling[] = {
        GOOD, "{" ADDED ", " PRE(REGEX_QWEN2) ", " MODEL(VOCAB, "[\"a b\", \"ab c\"]") "}"};
    static const char *const pre[] = {"qwen35", "qwen2"};
    for (size_t i = 0; i < ARRAY_LEN(spelling); i++) {
        gguf_file *g = put_good(spelling[i], NULL, NULL);
        check_strings(g, "tokenizer.ggml.merges", (const char *const[]){"a b", "ab c"}, 2);
        check_str(g, "tokenizer.ggml.pre", pre[i]);
        gguf_close(g);
    }
}

/* Bug: only the first of two end tokens known, or that of the wrong file. */
static void test_tokenizer_end_tokens_come_from_generation_config(void **state)
{
    (void)state;
    gguf_file *g = put_good(GOOD, NULL,
                            "{\"eos_token_id\": [5, 39], \"pad_token_id\": 4,"
                            "\"bos_token_id\": 3}");
    assert_int_equal(int_key(g, "tokenizer.ggml.eos_token_id"), 5);
    assert_int_equal(int_key(g, "tokenizer.ggml.eot_token_id"), 39);
    assert_int_equal(int_key(g, "tokenizer.ggml.bos_token_id"), 3);
    assert_int_equal(int_key(g, "tokenizer.ggml.padding_token_id"), 4);
    gguf_close(g);
    g = put_good(GOOD, NULL, "{\"eos_token_id\": null}");
    assert_int_equal(int_key(g, "tokenizer.ggml.eos_token_id"), 39);
    assert_int_equal(int_key(g, "tokenizer.ggml.eot_token_id"), -1);
    gguf_close(g);
}

/* Bug: the template taken from a list by place instead of by name. */
static void test_tokenizer_template_of_a_list_is_the_default_one(void **state)
{
    (void)state;
    gguf_file *g = put_good(GOOD,
                            "{\"chat_template\": [{\"name\": \"tools\", \"template\": \"T\"},"
                            "{\"name\": \"default\", \"template\": \"D\"}]}",
                            NULL);
    check_str(g, "tokenizer.chat_template", "D");
    gguf_close(g);
}

static void refuse_tokenizer(const char *tok, ft_status want, const char *word)
{
    ft_status st;
    ft_error err;
    gguf_file *g = put(tok, NULL, NULL, &st, &err);
    assert_null(g);
    if (st != want || !strstr(err.msg, word))
        fail_msg("%.200s -> %d '%s'", tok, st, err.msg);
}

#define MERGES              "[\"a b\"]"
#define WITH(vocab, merges) "{" PRE(REGEX_QWEN35) ", " MODEL(vocab, merges) "}"

/* Bug: a tokenizer of another kind converted into one that splits text otherwise (B102 too). */
static void test_tokenizer_of_another_kind_or_damaged_is_refused(void **state)
{
    (void)state;
    refuse_tokenizer("{" PRE("\\\\w+") ", " MODEL(VOCAB, MERGES) "}", FT_UNSUPPORTED, "\\w+");
    refuse_tokenizer("{\"normalizer\": {\"type\": \"NFC\"}, " MODEL(VOCAB, MERGES) "}",
                     FT_UNSUPPORTED, "(none)");
    refuse_tokenizer("{\"normalizer\": {\"type\": \"NFKC\"}}", FT_UNSUPPORTED, "NFKC");
    refuse_tokenizer("{}", FT_UNSUPPORTED, "normalizer");
    refuse_tokenizer("{\"model\": {\"type\": \"Unigram\"}}", FT_UNSUPPORTED, "Unigram");
    refuse_tokenizer(WITH("\"byte_fallback\": true", MERGES), FT_UNSUPPORTED, "byte_fallback");
    refuse_tokenizer(WITH("\"vocab\": [\"a\"]", MERGES), FT_FORMAT, "vocab");
    refuse_tokenizer(WITH("\"vocab\": {\"a\": 40}", MERGES), FT_FORMAT, "id 40");
    refuse_tokenizer(WITH("\"vocab\": {\"a\": -1}", MERGES), FT_FORMAT, "id -1");
    refuse_tokenizer(WITH("\"vocab\": {\"a\": 1.0}", MERGES), FT_FORMAT, "'a'");
    refuse_tokenizer(WITH("\"vocab\": {\"a\": 1, \"b\": 1}", MERGES), FT_FORMAT, "both");
    refuse_tokenizer(WITH(VOCAB, "[]"), FT_FORMAT, "merges");
    refuse_tokenizer(WITH(VOCAB, "[5]"), FT_FORMAT, "merges[0]");
    refuse_tokenizer(WITH(VOCAB, "[\"a b\", \"ab\"]"), FT_FORMAT, "merges[1]");
    refuse_tokenizer(WITH(VOCAB, "[\"a b c\"]"), FT_FORMAT, "merges[0]");
    refuse_tokenizer(WITH(VOCAB, "[\" b\"]"), FT_FORMAT, "merges[0]");
    refuse_tokenizer(WITH(VOCAB, "[[\"a\"]]"), FT_FORMAT, "merges[0]");
    refuse_tokenizer(WITH(VOCAB, "[[\"a\", 5]]"), FT_FORMAT, "merges[0]");
    refuse_tokenizer(
        "{\"added_tokens\": [{\"id\": 1}], " PRE(REGEX_QWEN35) ", " MODEL(VOCAB, MERGES) "}",
        FT_FORMAT, "added_tokens[0]");
    refuse_tokenizer("{\"a\": ", FT_FORMAT, "tokenizer.json");
}

/* Bug: any cut of the file that crashes or passes. */
static void test_tokenizer_every_cut_is_refused(void **state)
{
    (void)state;
    char text[4096];
    size_t n = strlen(GOOD);
    assert_true(n < sizeof text);
    for (size_t i = 0; i < n; i += 3) {
        memcpy(text, GOOD, i);
        text[i] = '\0';
        refuse_tokenizer(text, FT_FORMAT, "tokenizer.json");
    }
}

/* The 256 byte tokens in the public byte-level alphabet: the printable bytes of Latin-1 stand for
 * themselves, the others for U+0100 and on, in order. */
static void put_byte_tokens(buf *b)
{
    int next = 0x100;
    for (int c = 0; c < 256; c++) {
        bool plain = (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c != 0xad);
        buf_printf(b, "%s\"\\u%04x\": %d", c ? ", " : "", plain ? c : next++, c);
    }
}

/* Bug: keys that this engine's own tokenizer does not take. */
static void test_tokenizer_result_opens_and_encodes(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 1 << 20);
    buf_puts(&b,
             "{\"added_tokens\": [{\"id\": 258, \"content\": \"<|end|>\", \"special\": true}],");
    buf_puts(&b, PRE(REGEX_QWEN35) ", \"model\": {\"type\": \"BPE\", \"vocab\": {");
    put_byte_tokens(&b);
    buf_puts(&b, ", \"ab\": 256}, \"merges\": [[\"a\", \"b\"]]}}");
    config_more = ", \"vocab_size\": 260";
    gguf_file *g = put_good(buf_cstr(&b), NULL, NULL);
    config_more = "";
    tokenizer *t;
    ft_error err = {0};
    ft_status st = tok_open(&t, g, &err);
    gguf_close(g);
    buf_deinit(&b);
    if (st != FT_OK)
        fail_msg("%s", err.msg);
    buf ids;
    buf_init(&ids, 1 << 10);
    assert_int_equal(tok_encode(t, "abz<|end|>", 10, TOK_PARSE_SPECIAL, &ids, &err), FT_OK);
    assert_int_equal(ids.len, 3 * sizeof(int32_t));
    assert_memory_equal(ids.data, ((int32_t[]){256, 'z', 258}), ids.len);
    buf_deinit(&ids);
    tok_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_any_field_with_any_value_never_crashes),
        cmocka_unit_test(test_config_what_the_engine_cannot_compute_is_named),
        cmocka_unit_test(test_tokenizer_tokens_types_and_gaps),
        cmocka_unit_test(test_tokenizer_both_spellings_of_merges_are_one),
        cmocka_unit_test(test_tokenizer_end_tokens_come_from_generation_config),
        cmocka_unit_test(test_tokenizer_template_of_a_list_is_the_default_one),
        cmocka_unit_test(test_tokenizer_of_another_kind_or_damaged_is_refused),
        cmocka_unit_test(test_tokenizer_every_cut_is_refused),
        cmocka_unit_test(test_tokenizer_result_opens_and_encodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
