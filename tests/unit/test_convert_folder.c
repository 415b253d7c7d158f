/* Conversion of toy folders: what is missing, unknown, sharded, in another type, or breaks. */
#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "convert/convert.h"
#include "gguf/gguf.h"
#include "kern/kern.h"
#include "support/hf_make.h"
#include "support/tmpdir.h"

#define MTP_1 ", \"mtp_num_hidden_layers\": 1"

typedef struct {
    char notes[512]; /* progress texts that are no tensor's name */
    uint64_t done, total;
    int n_call, stop_at; /* stop at this call; 0: never */
} watch;

static bool on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    watch *w = ctx;
    assert_true(done >= w->done && done <= total && total > 0);
    w->done = done;
    w->total = total;
    if (strchr(what, ' ')) {
        size_t n = strlen(w->notes);
        snprintf(w->notes + n, sizeof w->notes - n, "%s\n", what);
    }
    return ++w->n_call != w->stop_at;
}

static ft_status convert(const char *dir, const char *out, const char *type, watch *w,
                         ft_error *err)
{
    ft_convert_params p = {.dir = dir, .out = out, .type = type};
    if (w) {
        p.progress = on_progress;
        p.progress_ctx = w;
    }
    return convert_folder(&p, err);
}

/* Paths of a test: a fresh folder and an output beside it. */
static char dir[TEST_PATH_MAX], out[TEST_PATH_MAX];

static int fresh(void **state)
{
    static int n;
    char name[40];
    (void)state;
    snprintf(name, sizeof name, "folder%d/toy", n);
    test_path(dir, name);
    snprintf(name, sizeof name, "folder%d/out.gguf", n++);
    test_path(out, name);
    return 0;
}

static gguf_file *convert_and_open(const hf_make *m, const char *more, const char *type, watch *w)
{
    ft_error err = {0};
    gguf_file *g;
    hf_write_model(dir, m, more);
    if (convert(dir, out, type, w, &err) != FT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(gguf_open(&g, out, &err), FT_OK);
    return g;
}

/* Conversion fails with this status, the message has `word`, and nothing is left behind. */
static void refuse(const hf_make *m, const char *more, const char *type, ft_status want,
                   const char *word)
{
    ft_error err = {0};
    hf_write_model(dir, m, more);
    ft_status st = convert(dir, out, type, NULL, &err);
    if (st != want || !strstr(err.msg, word))
        fail_msg("%d '%s', want %d '%s'", st, err.msg, want, word);
}

static int64_t int_key(const gguf_file *g, const char *key)
{
    int64_t v = -1;
    assert_int_equal(gguf_get_int(g, key, INT64_MIN, INT64_MAX, &v, NULL), FT_OK);
    return v;
}

static dtype type_of(const gguf_file *g, const char *name)
{
    const gguf_tensor *t = gguf_tensor_find(g, name);
    if (!t)
        fail_msg("'%s' is missing", name);
    return t->t.type;
}

/* ---- The draft head --------------------------------------------------------------------------- */

/* B100: a draft head announced and absent: converted without, and said. */
static void test_mtp_announced_but_absent_is_left_out_with_a_note(void **state)
{
    (void)state;
    hf_make m;
    watch w = {0};
    hf_make_toy(&m, "F32", 0);
    gguf_file *g = convert_and_open(&m, MTP_1, NULL, &w);
    assert_int_equal(int_key(g, "qwen35.nextn_predict_layers"), 0);
    assert_int_equal(int_key(g, "qwen35.block_count"), 2);
    assert_non_null(strstr(w.notes, "draft head"));
    gguf_close(g);
}

/* B100: one tensor of it missing. */
static void test_mtp_in_part_is_refused(void **state)
{
    (void)state;
    hf_make all;
    hf_make_toy(&all, "F32", 1);
    for (int i = 0; i < all.n; i++) {
        if (strncmp(all.t[i].name, "mtp.", 4) != 0)
            continue;
        hf_make m = all;
        hf_make_remove(&m, all.t[i].name);
        refuse(&m, MTP_1, NULL, FT_MISMATCH, all.t[i].name);
    }
}

/* B100: count 0 with tensors present is a contradiction; no count at all is none. */
static void test_mtp_count_0_with_tensors_is_refused_and_absent_count_taken(void **state)
{
    (void)state;
    hf_make m;
    hf_make_toy(&m, "F32", 1);
    refuse(&m, ", \"mtp_num_hidden_layers\": 0", NULL, FT_MISMATCH, "mtp.");
    refuse(&m, ", \"mtp_num_hidden_layers\": 2", NULL, FT_FORMAT, "mtp_num_hidden_layers");
    gguf_file *g = convert_and_open(&m, "", NULL, NULL);
    assert_int_equal(int_key(g, "qwen35.nextn_predict_layers"), 1);
    assert_int_equal(int_key(g, "qwen35.block_count"), 3);
    gguf_close(g);
}

/* ---- Tensors ------------------------------------------------------------------------------------ */

/* Bug: a tensor that is not looked for. */
static void test_each_missing_tensor_is_named(void **state)
{
    (void)state;
    hf_make all;
    hf_make_toy(&all, "F32", 0);
    for (int i = 0; i < all.n; i++) {
        hf_make m = all;
        hf_make_remove(&m, all.t[i].name);
        refuse(&m, "", NULL, FT_MISMATCH, all.t[i].name);
    }
}

/* Bug: a shape taken from the file instead of from config.json. */
static void test_each_wrong_shape_is_named(void **state)
{
    (void)state;
    hf_make all;
    hf_make_toy(&all, "F32", 1);
    for (int i = 0; i < all.n; i++) {
        hf_make m = all;
        m.t[i].dim[m.t[i].n_dim - 1] += 1;
        refuse(&m, "", NULL, FT_MISMATCH, all.t[i].name);
    }
}

/* Bug: weights dropped without a word. */
static void test_unknown_tensor_is_refused_and_vision_ignored(void **state)
{
    (void)state;
    static const char *const ignored[] = {"model.visual.patch_embed.proj.weight",
                                          "visual.merger.norm.bias",
                                          "model.layers.1.self_attn.rotary_emb.inv_freq"};
    static const char *const unknown[] = {"model.layers.1.self_attn.q_proj.bias",
                                          "model.layers.2.input_layernorm.weight",
                                          "mtp.layers.1.input_layernorm.weight", "score.weight"};
    hf_make m;
    int one = 1;
    hf_make_toy(&m, "F32", 1);
    for (size_t i = 0; i < ARRAY_LEN(ignored); i++)
        hf_make_add(&m, ignored[i], "U8", 1, &one);
    gguf_close(convert_and_open(&m, MTP_1, NULL, NULL));
    for (size_t i = 0; i < ARRAY_LEN(unknown); i++) {
        hf_make bad = m;
        hf_make_add(&bad, unknown[i], "F32", 1, &one);
        refuse(&bad, MTP_1, NULL, FT_MISMATCH, unknown[i]);
    }
}

/* Bug: multimodal checkpoints (other prefix, nested config) refused or read otherwise. */
static void test_multimodal_folder_gives_the_same_file(void **state)
{
    (void)state;
    char plain[TEST_PATH_MAX], config[4096];
    hf_make m;
    hf_make_toy(&m, "BF16", 1);
    gguf_close(convert_and_open(&m, MTP_1, NULL, NULL));
    memcpy(plain, out, sizeof plain);
    strncat(out, "2", 2);
    for (int i = 0; i < m.n; i++) {
        char name[112];
        if (strncmp(m.t[i].name, "model.", 6) != 0)
            continue;
        snprintf(name, sizeof name, "model.language_model.%.80s", m.t[i].name + 6);
        memcpy(m.t[i].name, name, sizeof name);
    }
    snprintf(config, sizeof config,
             "{\"model_type\": \"qwen3_5\", \"vision_config\": {\"hidden_size\": 7},"
             "\"text_config\": %s, \"mtp_num_hidden_layers\": 1}}",
             hf_toy_config);
    hf_write_model(dir, &m, "");
    hf_write_text(dir, "config.json", config);
    ft_error err = {0};
    if (convert(dir, out, NULL, NULL, &err) != FT_OK)
        fail_msg("%s", err.msg);
    gguf_file *a, *b;
    assert_int_equal(gguf_open(&a, plain, NULL), FT_OK);
    assert_int_equal(gguf_open(&b, out, NULL), FT_OK);
    assert_int_equal(gguf_n_tensor(a), gguf_n_tensor(b));
    assert_int_equal(gguf_n_kv(a), gguf_n_kv(b));
    assert_int_equal(int_key(b, "qwen35.embedding_length"), 32);
    gguf_close(a);
    gguf_close(b);
}

/* Bug: a tied model with an output tensor, which readers would prefer. */
static void test_tied_model_has_no_output(void **state)
{
    (void)state;
    hf_make m;
    hf_make_toy(&m, "F32", 0);
    gguf_file *g = convert_and_open(&m, ", \"tie_word_embeddings\": true", NULL, NULL);
    assert_null(gguf_tensor_find(g, "output.weight"));
    gguf_close(g);
    hf_make_remove(&m, "lm_head.weight");
    gguf_close(convert_and_open(&m, ", \"tie_word_embeddings\": true", NULL, NULL));
}

/* Bug: layers in an order that the interval does not describe run as the wrong kind. */
static void test_irregular_layers_are_listed(void **state)
{
    (void)state;
    hf_make m;
    hf_make_toy(&m, "F32", 1);
    gguf_file *g = convert_and_open(&m, MTP_1, NULL, NULL);
    assert_int_equal(int_key(g, "qwen35.full_attention_interval"), 2);
    assert_null(gguf_kv_find(g, "qwen35.attention.recurrent_layers"));
    gguf_close(g);
    g = convert_and_open(&m, MTP_1 ", \"full_attention_interval\": 4", NULL, NULL);
    const gguf_kv *kv = gguf_kv_find(g, "qwen35.attention.recurrent_layers");
    assert_non_null(kv);
    assert_int_equal(kv->n, 3);
    for (uint64_t i = 0; i < 3; i++) {
        int64_t v;
        assert_int_equal(gguf_kv_int(kv, i, &v, NULL), FT_OK);
        assert_int_equal(v, i == 0);
    }
    gguf_close(g);
}

/* ---- Types -------------------------------------------------------------------------------------- */

/* Bug: a BF16 checkpoint widened or rounded; small tensors not in F32. */
static void test_type_null_keeps_the_checkpoints_own(void **state)
{
    (void)state;
    static const struct {
        const char *st;
        dtype want;
        int file_type;
    } c[] = {{"BF16", DTYPE_BF16, 32},
             {"F16", DTYPE_F16, 1},
             {"F32", DTYPE_F32, 0},
             {"F64", DTYPE_F32, 0}};
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        hf_make m;
        hf_make_toy(&m, c[i].st, 1);
        gguf_file *g = convert_and_open(&m, MTP_1, NULL, NULL);
        const gguf_tensor *t = gguf_tensor_find(g, "blk.1.attn_q.weight");
        assert_int_equal(t->t.type, c[i].want);
        float v[64 * 32];
        assert_true(kern_decode(t->t.type, v, t->t.data, ARRAY_LEN(v)));
        for (size_t k = 0; k < ARRAY_LEN(v); k++)
            assert_true(v[k] == hf_value("model.layers.1.self_attn.q_proj.weight", k));
        assert_int_equal(type_of(g, "blk.0.ssm_conv1d.weight"), DTYPE_F32);
        assert_int_equal(type_of(g, "blk.0.ssm_alpha.weight"), DTYPE_F32);
        assert_int_equal(type_of(g, "blk.0.ssm_a"), DTYPE_F32);
        assert_int_equal(type_of(g, "output_norm.weight"), DTYPE_F32);
        assert_int_equal(int_key(g, "general.file_type"), c[i].file_type);
        gguf_close(g);
    }
}

/* B096: rows that Q8_0's blocks do not divide: F16, or F32 where F16 would overflow. */
static void test_type_q8_0_with_odd_rows_falls_back(void **state)
{
    (void)state;
    hf_make m;
    hf_make_toy(&m, "BF16", 0);
    gguf_file *g = convert_and_open(&m, "", "q8_0", NULL);
    assert_int_equal(type_of(g, "blk.0.ffn_gate.weight"), DTYPE_Q8_0);
    assert_int_equal(type_of(g, "token_embd.weight"), DTYPE_Q8_0);
    assert_int_equal(type_of(g, "blk.0.ffn_down.weight"), DTYPE_F16); /* 48 columns */
    gguf_close(g);
    hf_make_find(&m, "model.layers.0.mlp.down_proj.weight")->first = 131072.0f;
    g = convert_and_open(&m, "", "q8_0", NULL);
    assert_int_equal(type_of(g, "blk.0.ffn_down.weight"), DTYPE_F32);
    assert_int_equal(type_of(g, "blk.1.ffn_down.weight"), DTYPE_F16);
    gguf_close(g);
}

/* Bug: infinities written where F16 cannot hold a BF16 value. */
static void test_type_f16_overflow_names_the_tensor(void **state)
{
    (void)state;
    hf_make m;
    hf_make_toy(&m, "BF16", 0);
    hf_make_find(&m, "model.layers.1.self_attn.k_proj.weight")->first = -131072.0f;
    refuse(&m, "", "f16", FT_RANGE, "blk.1.attn_k.weight");
    gguf_close(convert_and_open(&m, "", "bf16", NULL));
}

/* Bug: integers or eight-bit floats of a quantised checkpoint read as weights. */
static void test_type_that_is_no_float_is_refused(void **state)
{
    (void)state;
    hf_make m;
    hf_make_toy(&m, "BF16", 0);
    hf_make_find(&m, "model.layers.1.self_attn.k_proj.weight")->dtype = "F8_E4M3";
    refuse(&m, "", NULL, FT_UNSUPPORTED, "F8_E4M3");
    hf_make_find(&m, "model.layers.1.self_attn.k_proj.weight")->dtype = "I64";
    refuse(&m, "", NULL, FT_UNSUPPORTED, "self_attn.k_proj.weight");
}

static void test_type_unknown_lists_the_known(void **state)
{
    (void)state;
    hf_make m;
    hf_make_toy(&m, "BF16", 0);
    refuse(&m, "", "q4_0", FT_ARG, "Q8_0"); /* quantize writes it, convert does not */
    refuse(&m, "", "q9", FT_ARG, "BF16");
}

/* ---- Several files -------------------------------------------------------------------------------- */

static void write_shard(const hf_make *m, int from, int to, const char *name)
{
    buf b;
    buf_init(&b, 1 << 24);
    hf_make_bytes(m, from, to, &b);
    hf_write(dir, name, b.data, b.len);
    buf_deinit(&b);
}

#define INDEX "model.safetensors.index.json"

static void write_index(const hf_make *m, int n_first, const char *first, const char *second)
{
    buf b;
    buf_init(&b, 1 << 20);
    buf_puts(&b, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (int i = 0; i < m->n; i++)
        buf_printf(&b, "%s\"%s\": \"%s\"", i ? ", " : "", m->t[i].name,
                   i < n_first ? first : second);
    buf_puts(&b, "}}");
    hf_write_text(dir, INDEX, buf_cstr(&b));
    buf_deinit(&b);
}

/* Bug: a shard skipped, or a damaged set of shards taken. */
static void test_sharded_folder_is_read_whole_or_refused(void **state)
{
    (void)state;
    hf_make m;
    ft_error err = {0};
    hf_make_toy(&m, "F32", 1);
    hf_write_model(dir, &m, MTP_1);
    hf_write_text(dir, "model.safetensors", NULL);
    assert_int_equal(convert(dir, out, NULL, NULL, &err), FT_IO); /* no weights at all */
    write_shard(&m, 0, 10, "a.safetensors");
    write_shard(&m, 10, m.n, "b.safetensors");
    write_index(&m, 10, "a.safetensors", "b.safetensors");
    err = (ft_error){0};
    if (convert(dir, out, NULL, NULL, &err) != FT_OK)
        fail_msg("%s", err.msg);

    static const struct {
        const char *second;
        ft_status want;
        const char *word;
    } bad[] = {{"../b.safetensors", FT_FORMAT, "../b"},
               {"sub/b.safetensors", FT_FORMAT, "sub/b"},
               {"c.safetensors", FT_IO, "c.safetensors"},
               {".safetensors", FT_FORMAT, "file"},
               {"b.bin", FT_FORMAT, "b.bin"}};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        write_index(&m, 10, "a.safetensors", bad[i].second);
        err = (ft_error){0};
        assert_int_equal(convert(dir, out, NULL, NULL, &err), bad[i].want);
        assert_non_null(strstr(err.msg, bad[i].word));
    }
    write_shard(&m, 9, m.n, "b.safetensors"); /* tensor 9 in both */
    write_index(&m, 10, "a.safetensors", "b.safetensors");
    err = (ft_error){0};
    assert_int_equal(convert(dir, out, NULL, NULL, &err), FT_FORMAT);
    assert_non_null(strstr(err.msg, "twice"));
    write_shard(&m, 11, m.n, "b.safetensors"); /* tensor 10 nowhere */
    err = (ft_error){0};
    assert_int_equal(convert(dir, out, NULL, NULL, &err), FT_MISMATCH);
    assert_non_null(strstr(err.msg, m.t[10].name));
    assert_non_null(strstr(err.msg, "'b.safetensors'"));
    static const char *const junk[] = {"",
                                       "[]",
                                       "{}",
                                       "{\"weight_map\": {}}",
                                       "{\"weight_map\": {\"x\": 5}}",
                                       "{\"weight_map\": [1]}"};
    for (size_t i = 0; i < ARRAY_LEN(junk); i++) {
        hf_write_text(dir, INDEX, junk[i]);
        err = (ft_error){0};
        assert_int_equal(convert(dir, out, NULL, NULL, &err), FT_FORMAT);
        assert_true(err.msg[0] != '\0');
    }
}

/* ---- Breaking off ----------------------------------------------------------------------------------- */

/* The output is the old file, and nothing else lies beside it. */
static void check_untouched(void)
{
    char *text, folder[TEST_PATH_MAX];
    size_t n;
    assert_int_equal(file_read_all(&text, &n, out, 100, NULL), FT_OK);
    assert_string_equal(text, "old");
    mem_free(text);
    memcpy(folder, out, sizeof folder);
    *strrchr(folder, '/') = '\0';
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, "toy") != 0 && strcmp(e->d_name, "out.gguf") != 0 &&
            e->d_name[0] != '.')
            fail_msg("'%s' is left over", e->d_name);
    closedir(d);
}

static void write_old(void)
{
    char folder[TEST_PATH_MAX];
    memcpy(folder, out, sizeof folder);
    *strrchr(folder, '/') = '\0';
    hf_write_text(folder, "out.gguf", "old");
}

/* Bug: a half-written file in the place of a good one. */
static void test_failure_midway_leaves_the_old_file(void **state)
{
    (void)state;
    hf_make m;
    hf_make_toy(&m, "BF16", 0);
    hf_make_find(&m, "model.layers.1.self_attn.o_proj.weight")->first = 131072.0f;
    write_old();
    refuse(&m, "", "f16", FT_RANGE, "blk.1.attn_output.weight");
    check_untouched();
}

/* Bug: cancelling ignored, or its rest left on the disk. */
static void test_cancel_at_any_call_leaves_the_old_file(void **state)
{
    (void)state;
    hf_make m;
    watch all = {0};
    hf_make_toy(&m, "BF16", 1);
    gguf_close(convert_and_open(&m, MTP_1, NULL, &all));
    assert_true(all.done == all.total && all.total > 0);
    write_old();
    for (int i = 1; i <= all.n_call; i += 7) {
        watch w = {.stop_at = i};
        ft_error err = {0};
        assert_int_equal(convert(dir, out, NULL, &w, &err), FT_CANCELLED);
        assert_true(err.msg[0] != '\0');
        check_untouched();
    }
}

/* Bug: a failed allocation that crashes, leaks or passes unseen. */
static void test_every_failed_allocation_is_reported(void **state)
{
    (void)state;
    hf_make m;
    hf_make_toy(&m, "BF16", 0);
    hf_write_model(dir, &m, "");
    hf_write_text(dir, "tokenizer.json",
                  "{\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Split\","
                  "\"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"(?i:'s|'t|'re|'ve|'m|'ll|"
                  "'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| ?[^\\\\s\\\\p{L}\\\\p{N}]+"
                  "[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}},"
                  "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2},"
                  "\"merges\": [\"a b\"]}}");
    write_old();
    json_set_alloc_funcs(mem_alloc, mem_free);
    long n = 1;
    for (;; n++) {
        ft_error err = {0};
        mem_fail_at(n);
        ft_status st = convert(dir, out, NULL, NULL, &err);
        mem_fail_at(0);
        if (st == FT_OK)
            break;
        if (err.msg[0] == '\0')
            fail_msg("allocation %ld: status %d without a message", n, st);
        check_untouched();
        if (n > 20000)
            fail_msg("no end");
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(n > 100);
}

/* Bug: a missing or foreign file read as something. */
static void test_missing_folder_or_config_is_an_io_error(void **state)
{
    (void)state;
    hf_make m;
    ft_error err = {0};
    assert_int_equal(convert("/no/such/folder", out, NULL, NULL, &err), FT_IO);
    assert_non_null(strstr(err.msg, "config.json"));
    hf_make_toy(&m, "F32", 0);
    hf_write_model(dir, &m, "");
    err = (ft_error){0};
    assert_int_equal(convert(dir, "/no/such/folder/x.gguf", NULL, NULL, &err), FT_IO);
    err = (ft_error){0};
    assert_int_equal(convert(NULL, out, NULL, NULL, &err), FT_ARG);
    assert_int_equal(ft_convert(NULL, NULL), FT_ARG);
    assert_int_equal(ft_quantize(NULL, NULL), FT_ARG);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup(f, fresh)
    const struct CMUnitTest tests[] = {
        TEST(test_mtp_announced_but_absent_is_left_out_with_a_note),
        TEST(test_mtp_in_part_is_refused),
        TEST(test_mtp_count_0_with_tensors_is_refused_and_absent_count_taken),
        TEST(test_each_missing_tensor_is_named),
        TEST(test_each_wrong_shape_is_named),
        TEST(test_unknown_tensor_is_refused_and_vision_ignored),
        TEST(test_multimodal_folder_gives_the_same_file),
        TEST(test_tied_model_has_no_output),
        TEST(test_irregular_layers_are_listed),
        TEST(test_type_null_keeps_the_checkpoints_own),
        TEST(test_type_q8_0_with_odd_rows_falls_back),
        TEST(test_type_f16_overflow_names_the_tensor),
        TEST(test_type_that_is_no_float_is_refused),
        TEST(test_type_unknown_lists_the_known),
        TEST(test_sharded_folder_is_read_whole_or_refused),
        TEST(test_failure_midway_leaves_the_old_file),
        TEST(test_cancel_at_any_call_leaves_the_old_file),
        TEST(test_every_failed_allocation_is_reported),
        TEST(test_missing_folder_or_config_is_an_io_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
