/* test_engine_repack.c - matrices laid out anew give the logits, the text and the fingerprints of the
 * file's own layout. */
#include <stdlib.h>

#include "support/enginerig.h"

enum { N_PROMPT = 40, N_NEW = 24, N_VOCAB_MAX = 4096 };

/* Rows of 256 values at least, so that tiles fit; types with and without them. */
static void wide_model(tiny_opts *o, model_arch arch)
{
    *o = tiny_default(arch);
    o->n_embd = 256;
    o->n_ff = 512;
    o->n_ff_exp = o->n_ff_shexp = 256;
    o->tied = true;
    o->type[TINY_EMBD] = o->type[TINY_HEAD] = DTYPE_Q8_0;
    o->type[TINY_ATTN] = DTYPE_Q4_0;
    o->type[TINY_GDN] = DTYPE_Q8_0;
    o->type[TINY_FFN] = DTYPE_Q5_0;
    o->type[TINY_EXPERT] = DTYPE_Q8_0;
    o->type[TINY_MIXER] = DTYPE_Q8_0;
}

static ft_model *open_repacked(const tiny_opts *o, const char *cpu, const char *repack)
{
    char path[TEST_PATH_MAX];
    tiny_write(test_path(path, "model.gguf"), o);
    ft_model *m;
    ft_model_params p = {.n_thread = 3, .cpu = cpu, .repack = repack};
    OK(ft_model_open(&m, path, &p, &rig_err));
    return m;
}

/* Logits behind the prompt, then a text with drafts. */
static void use(ft_model *m, float *logits, int n_vocab, rig_output *out)
{
    int32_t tok[N_PROMPT];
    rig_prompt(tok, N_PROMPT);
    ft_session *s = rig_session(m, 256, 16, "f16");
    const float *l;
    OK(ft_session_eval(s, tok, N_PROMPT, &l, &rig_err));
    memcpy(logits, l, (size_t)n_vocab * sizeof *l);
    ft_generate_params p = rig_params(out, N_NEW, 0.7f, 5);
    rig_generate(s, tok, 3, &p);
    ft_session_free(s);
}

static uint64_t repack_bytes(const ft_model *m)
{
    ft_model_info info;
    ft_model_get_info(m, &info);
    return info.repack_bytes;
}

static void same_results(model_arch arch)
{
    static float want[N_VOCAB_MAX], got[N_VOCAB_MAX];
    tiny_opts o;
    wide_model(&o, arch);
    assert_true(o.n_vocab <= N_VOCAB_MAX);
    ft_model *m = open_repacked(&o, NULL, "off");
    rig_output a = {0}, b = {0};
    use(m, want, o.n_vocab, &a);
    assert_int_equal(repack_bytes(m), 0);
    ft_model_info info;
    ft_model_get_info(m, &info);
    bool has_tiles = strcmp(info.cpu, "generic") != 0;
    ft_model_close(m);

    m = open_repacked(&o, NULL, "always");
    use(m, got, o.n_vocab, &b);
    assert_int_equal(repack_bytes(m) > 0, has_tiles);
    ft_model_close(m);
    assert_memory_equal(got, want, (size_t)o.n_vocab * sizeof *got);
    assert_int_equal(a.n, b.n);
    assert_memory_equal(a.id, b.id, (size_t)a.n * sizeof *a.id);
}

/* Catches tiles of another matrix, of a part of one, of the wrong expert. */
static void test_repack_always_gives_the_same_bits(void **state)
{
    (void)state;
    same_results(MODEL_QWEN35);
    same_results(MODEL_QWEN35MOE);
    same_results(MODEL_QWEN4EXP);
}

/* Catches a copy made where its bytes are too few to matter, and memory taken on a level without tiles. */
static void test_repack_auto_leaves_small_and_generic_models_alone(void **state)
{
    (void)state;
    tiny_opts o;
    wide_model(&o, MODEL_QWEN35);
    ft_model *m = open_repacked(&o, NULL, "auto");
    assert_int_equal(repack_bytes(m), 0);
    ft_model_close(m);
    m = open_repacked(&o, NULL, NULL);
    assert_int_equal(repack_bytes(m), 0);
    ft_model_close(m);
    m = open_repacked(&o, "generic", "always");
    assert_int_equal(repack_bytes(m), 0);
    ft_model_close(m);
}

/* Catches a session file refused because the digest of the weights was taken from tiles. */
static void test_repack_session_file_of_other_layout_is_loaded(void **state)
{
    (void)state;
    tiny_opts o;
    wide_model(&o, MODEL_QWEN35);
    char path[TEST_PATH_MAX];
    test_path(path, "s.session");
    int32_t tok[N_PROMPT];
    rig_prompt(tok, N_PROMPT);
    ft_model *m = open_repacked(&o, NULL, "always");
    ft_session *s = rig_session(m, 256, 16, "f16");
    OK(ft_session_eval(s, tok, N_PROMPT, NULL, &rig_err));
    OK(ft_session_save(s, path, NULL, NULL, &rig_err));
    ft_session_free(s);
    ft_model_close(m);
    m = open_repacked(&o, NULL, "off");
    s = rig_session(m, 256, 16, "f16");
    OK(ft_session_load(s, path, &rig_err));
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a misspelt word taken for the default. */
static void test_repack_unknown_word_is_refused(void **state)
{
    (void)state;
    tiny_opts o;
    wide_model(&o, MODEL_QWEN35);
    char path[TEST_PATH_MAX];
    tiny_write(test_path(path, "model.gguf"), &o);
    ft_model *m;
    ft_model_params p = {.n_thread = 1, .repack = "on"};
    FAILS(ft_model_open(&m, path, &p, &rig_err), FT_ARG, "repack: 'on', want auto, always or off");
    assert_null(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repack_always_gives_the_same_bits),
        cmocka_unit_test(test_repack_auto_leaves_small_and_generic_models_alone),
        cmocka_unit_test(test_repack_session_file_of_other_layout_is_loaded),
        cmocka_unit_test(test_repack_unknown_word_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
