/* test_model.c - what model_open binds: sizes, places, values, spellings, types. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "support/tinyopen.h"
#include "support/tmpdir.h"

static const model_arch archs[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

static tiny_model open_ok(const tiny_opts *o)
{
    tiny_model t = tiny_open(o, NULL);
    if (t.st != FT_OK)
        fail_msg("%s", t.err.msg);
    return t;
}

/* Row r of matrix m of a tensor, decoded; static room. */
static const float *row_of(const tensor *t, int m, int r)
{
    static float x[2][512];
    static int turn;
    float *out = x[turn ^= 1];
    assert_true(t->n_col <= 512);
    const uint8_t *src = (const uint8_t *)t->data + (size_t)m * t->mat_bytes;
    assert_true(kern_decode((int)t->type, out, src + (size_t)r * t->row_bytes, (size_t)t->n_col));
    return out;
}

static void assert_same_values(const tensor *a, const tensor *b)
{
    assert_int_equal(a->n_col, b->n_col);
    assert_int_equal(a->n_row, b->n_row);
    assert_int_equal(a->n_mat, b->n_mat);
    for (int m = 0; m < a->n_mat; m++)
        for (int r = 0; r < a->n_row; r++)
            assert_memory_equal(row_of(a, m, r), row_of(b, m, r), (size_t)a->n_col * 4);
}

/* ---- Sizes and places ----------------------------------------------------------------------- */

/* catches: a size read from another key, an MTP block counted as a layer */
static void test_open_each_family_reads_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        tiny_opts o = tiny_default(archs[i]);
        tiny_model t = open_ok(&o);
        const model_hparams *h = &t.m->h;
        assert_int_equal(h->arch, archs[i]);
        assert_int_equal(h->n_layer, 4);
        assert_int_equal(h->n_embd, 64);
        assert_int_equal(h->n_vocab, 320);
        assert_int_equal(h->n_ctx_train, 1024);
        assert_int_equal(h->n_head, 2);
        assert_int_equal(h->n_head_kv, 1);
        assert_int_equal(h->d_head, 32);
        assert_int_equal(h->n_rot, 16);
        assert_int_equal(h->n_key_head, 2);
        assert_int_equal(h->n_val_head, 4);
        assert_int_equal(h->d_state, 16);
        assert_int_equal(h->n_conv, 4);
        assert_int_equal(model_conv_channels(h), 128);
        assert_true(h->rope_base == 10000.0);
        assert_true(h->eps == 1e-6f);
        assert_true(t.m->has_mtp);
        assert_string_equal(t.m->no_mtp_reason, "");
        assert_string_equal(t.m->warning, "");
        for (int l = 0; l < 4; l++)
            assert_int_equal(t.m->layer[l].is_attn, l == 3);
        tiny_close(&t);
    }
}

/* catches: expert sizes swapped, a dense model with a router, wide parts in a narrow model */
static void test_open_each_family_binds_its_parts_only(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    tiny_model t = open_ok(&o);
    assert_int_equal(t.m->h.n_ff, 96);
    assert_int_equal(t.m->h.n_expert, 0);
    assert_int_equal(t.m->h.n_hc, 1);
    assert_int_equal(t.m->h.ple_layer, -1);
    assert_null(t.m->layer[0].ffn.router.data);
    assert_null(t.m->layer[0].hc_attn.norm);
    assert_non_null(t.m->layer[0].attn_norm);
    assert_non_null(t.m->output_norm);
    assert_null(t.m->layer[3].attn.idx_q.data);
    tiny_close(&t);

    o = tiny_default(MODEL_QWEN35MOE);
    t = open_ok(&o);
    assert_int_equal(t.m->h.n_ff, 0);
    assert_int_equal(t.m->h.n_expert, 8);
    assert_int_equal(t.m->h.n_expert_used, 3);
    assert_int_equal(t.m->h.n_ff_exp, 32);
    assert_int_equal(t.m->h.n_ff_shexp, 32);
    assert_int_equal(t.m->layer[1].ffn.gate.n_mat, 8);
    assert_int_equal(t.m->layer[1].ffn.gate.mat_bytes, 32 * 64 * 4);
    assert_non_null(t.m->mtp.head_norm);
    tiny_close(&t);
}

/* catches: mixers, indexer or n-gram layer bound at another layer or with another shape */
static void test_open_qwen4exp_binds_wide_parts(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    tiny_model t = open_ok(&o);
    const model *m = t.m;
    assert_int_equal(m->h.n_hc, 2);
    assert_int_equal(m->h.hc_rank, 8);
    assert_null(m->layer[0].attn_norm);
    assert_null(m->output_norm);
    assert_int_equal(m->output_mixer.up.n_row, 128);
    assert_null(m->output_mixer.inject.data);
    assert_int_equal(m->layer[2].hc_ffn.inject.n_row, 2);
    assert_int_equal(m->layer[3].attn.ratio, 4);
    assert_int_equal(m->layer[0].attn.ratio, 0);
    assert_int_equal(m->h.idx_top_k, 16);
    assert_int_equal(m->layer[3].attn.idx_q.n_row, 32);
    assert_non_null(m->layer[3].attn.idx_k_norm);
    assert_int_equal(m->h.ple_layer, 1);
    assert_int_equal(m->h.ple_ngram, 3);
    assert_int_equal(m->h.ple_heads, 2);
    assert_int_equal(m->h.ple_dim, 16);
    assert_int_equal(m->h.ple_eos, TINY_EOS);
    assert_true(m->ple.mult[0] == 0x9e3779b97f4a7c15u); /* above INT64_MAX: must not be clamped */
    assert_int_equal(m->ple.head_vocab[3], 107);
    assert_int_equal(m->ple.head_off[3], 97 + 101 + 103);
    assert_int_equal(m->ple.key.n_col, 64);
    assert_int_equal(m->mtp.block.attn.ratio, 0);
    assert_null(m->mtp.block.attn.idx_q.data);
    assert_non_null(m->mtp.head_mixer.norm);
    assert_null(m->mtp.head_norm);
    tiny_close(&t);
}

/* catches: taps read channel by channel, the last tap not last */
static void test_open_convolution_is_tap_major(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    tiny_model t = open_ok(&o);
    const gguf_tensor *g = gguf_tensor_find(t.f, "blk.2.ssm_conv1d.weight");
    const gguf_tensor *p = gguf_tensor_find(t.f, "blk.1.ple_conv1d.weight");
    for (int c = 0; c < 128; c++)
        for (int j = 0; j < 4; j++) {
            assert_true(t.m->layer[2].gdn.conv[j * 128 + c] == row_of(&g->t, 0, c)[j]);
            assert_true(t.m->ple.conv[j * 128 + c] == row_of(&p->t, 0, c)[j]);
        }
    tiny_close(&t);
}

/* ---- Spellings of the same model ------------------------------------------------------------ */

/* catches: gate and up swapped in the fused form, strides of the halves */
static void test_open_fused_experts_equal_split_ones(void **state)
{
    (void)state;
    static const dtype types[] = {DTYPE_F32, DTYPE_Q8_0, DTYPE_Q4_0};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        tiny_opts o = tiny_default(MODEL_QWEN35MOE);
        o.type[TINY_EXPERT] = types[i];
        tiny_model a = open_ok(&o);
        o.fused_experts = true;
        tiny_model b = open_ok(&o);
        for (int l = 0; l < 4; l++) {
            assert_same_values(&a.m->layer[l].ffn.gate, &b.m->layer[l].ffn.gate);
            assert_same_values(&a.m->layer[l].ffn.up, &b.m->layer[l].ffn.up);
        }
        assert_same_values(&a.m->mtp.block.ffn.up, &b.m->mtp.block.ffn.up);
        tiny_close(&a);
        tiny_close(&b);
    }
}

/* catches: W_e and W_h swapped, the wrong column offset in a block format (B083) */
static void test_open_eh_proj_halves_equal_two_matrices(void **state)
{
    (void)state;
    static const dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q5_0};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        tiny_opts o = tiny_default(MODEL_QWEN4EXP);
        o.type[TINY_EH] = types[i];
        tiny_model a = open_ok(&o);
        o.split_eh = true;
        o.short_hc = true;
        tiny_model b = open_ok(&o);
        assert_same_values(&a.m->mtp.w_e, &b.m->mtp.w_e);
        assert_same_values(&a.m->mtp.w_h, &b.m->mtp.w_h);
        assert_same_values(&a.m->mtp.head_mixer.down, &b.m->mtp.head_mixer.down);
        tiny_close(&a);
        tiny_close(&b);
    }
}

/* catches: a public spelling that is refused or read differently */
static void test_open_other_spellings_bind_the_same_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        tiny_opts o = tiny_default(archs[i]);
        tiny_model a = open_ok(&o);
        o.a_weight = o.column_vec = o.head_arrays = o.layer_array = true;
        tiny_model b = open_ok(&o);
        assert_int_equal(b.m->h.n_head, 2);
        assert_int_equal(b.m->h.n_head_kv, 1);
        for (int l = 0; l < 4; l++) {
            assert_int_equal(a.m->layer[l].is_attn, b.m->layer[l].is_attn);
            if (!a.m->layer[l].is_attn)
                assert_memory_equal(a.m->layer[l].gdn.a, b.m->layer[l].gdn.a, 4 * 4);
            if (archs[i] != MODEL_QWEN35)
                assert_memory_equal(a.m->layer[l].ffn.sh_inp, b.m->layer[l].ffn.sh_inp, 64 * 4);
        }
        tiny_close(&a);
        tiny_close(&b);
    }
}

/* catches: a model with tied embeddings refused or given no head */
static void test_open_without_output_ties_it_to_embeddings(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.tied = true;
    tiny_model t = open_ok(&o);
    assert_ptr_equal(t.m->output.data, t.m->token_embd.data);
    assert_ptr_equal(t.m->mtp.head.data, t.m->token_embd.data);
    tiny_close(&t);
}

static void scaling_none(gguf_writer *w, void *ctx)
{
    (void)ctx;
    gguf_put_str(w, "qwen35.rope.scaling.type", "none", 4);
    gguf_put_f32(w, "qwen35.rope.scaling.factor", 4.0f);
}

/* catches: an optional key taken for a required one */
static void test_open_without_optional_keys_uses_defaults(void **state)
{
    (void)state;
    static const char *const optional[] = {"qwen35.full_attention_interval", "qwen35.vocab_size",
                                           "qwen35.attention.value_length", "qwen35.ssm.inner_size",
                                           "qwen35.not_there_at_all"};
    for (size_t i = 0; i < ARRAY_LEN(optional); i++) {
        tiny_opts o = tiny_default(MODEL_QWEN35);
        o.omit_key = optional[i];
        o.edit = scaling_none;
        tiny_model t = open_ok(&o);
        assert_true(t.m->layer[3].is_attn);
        tiny_close(&t);
    }
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.omit_key = "qwen35.rope.dimension_count";
    tiny_model t = open_ok(&o);
    assert_int_equal(t.m->h.n_rot, 32);
    tiny_close(&t);
}

/* ---- Types ---------------------------------------------------------------------------------- */

/* catches: a vector or a matrix whose type is ignored (B087) */
static void test_open_every_encodable_type_binds(void **state)
{
    (void)state;
    static const dtype types[] = {DTYPE_F16,  DTYPE_BF16, DTYPE_Q8_0,   DTYPE_Q4_0, DTYPE_Q4_1,
                                  DTYPE_Q5_0, DTYPE_Q5_1, DTYPE_IQ4_NL, DTYPE_Q2_0};
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        tiny_opts o = tiny_default(MODEL_QWEN4EXP);
        for (int c = 0; c < TINY_VECTOR; c++)
            o.type[c] = types[i];
        o.type[TINY_VECTOR] = i % 2 ? DTYPE_F16 : DTYPE_BF16;
        tiny_model t = open_ok(&o);
        assert_int_equal(t.m->layer[3].attn.q.type, types[i]);
        assert_int_equal(t.m->output.row_bytes, dtype_row_bytes(types[i], 64));
        float want = 0.0f;
        const gguf_tensor *g = gguf_tensor_find(t.f, "blk.0.ssm_a");
        assert_true(kern_decode((int)g->t.type, &want, g->t.data, 1));
        assert_true(t.m->layer[0].gdn.a[0] == want);
        assert_true(want < 0.0f);
        tiny_close(&t);
    }
}

/* catches: an integer tensor handed to the kernels */
static void test_open_type_without_kernel_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"token_embd.weight", "blk.3.attn_k.weight",
                                        "blk.0.ssm_norm.weight", "blk.4.nextn.enorm.weight"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        tiny_opts o = tiny_default(MODEL_QWEN35);
        o.retype = names[i];
        o.retype_to = DTYPE_I32;
        tiny_model t = tiny_open(&o, NULL);
        assert_int_equal(t.st, FT_UNSUPPORTED);
        assert_non_null(strstr(t.err.msg, names[i]));
        assert_non_null(strstr(t.err.msg, "I32"));
        assert_null(t.m);
        tiny_close(&t);
    }
}

/* catches: the right half of eh_proj starting inside a block */
static void test_open_eh_proj_whose_block_spans_the_halves_is_refused(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.n_embd = 48;
    o.type[TINY_EH] = DTYPE_Q8_0;
    tiny_model t = tiny_open(&o, NULL);
    assert_int_equal(t.st, FT_UNSUPPORTED);
    assert_non_null(strstr(t.err.msg, "nextn.eh_proj"));
    tiny_close(&t);
}

/* B083. catches: an unconverted checkpoint that is run without a word */
static void test_open_zero_centred_norm_leaves_a_warning(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.zero_gamma = "blk.2.attn_norm.weight";
    tiny_model t = open_ok(&o);
    assert_non_null(strstr(t.m->warning, "blk.2.attn_norm.weight"));
    assert_non_null(strstr(t.m->warning, "tiny.gguf"));
    tiny_close(&t);
}

/* ---- Files ---------------------------------------------------------------------------------- */

/* catches: a fixture that differs from run to run, or does not depend on its seed */
static void test_tiny_same_options_write_same_bytes(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX], *bytes[3];
    size_t n[3];
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    for (int i = 0; i < 3; i++) {
        ft_error err = {0};
        o.seed = i == 2 ? 2 : 1;
        tiny_write(test_path(path, "same.gguf"), &o);
        assert_int_equal(file_read_all(&bytes[i], &n[i], path, 1 << 24, &err), FT_OK);
    }
    assert_int_equal(n[0], n[1]);
    assert_int_equal(n[0], n[2]);
    assert_memory_equal(bytes[0], bytes[1], n[0]);
    assert_true(memcmp(bytes[0], bytes[2], n[0]) != 0);
    for (int i = 0; i < 3; i++)
        mem_free(bytes[i]);
}

/* Tensors [from, to) of f with the metadata keys of a shard. */
static void write_shard(const gguf_file *f, int no, int count, size_t from, size_t to)
{
    char name[64], path[TEST_PATH_MAX];
    gguf_writer *w;
    ft_error err = {0};
    snprintf(name, sizeof name, "split-%05d-of-%05d.gguf", no + 1, count);
    assert_int_equal(gguf_writer_open(&w, test_path(path, name), &err), FT_OK);
    for (size_t i = 0; no == 0 && i < gguf_n_kv(f); i++)
        gguf_put_kv(w, gguf_kv_at(f, i));
    gguf_put_int(w, "split.no", GGUF_U16, no);
    gguf_put_int(w, "split.count", GGUF_U16, count);
    gguf_put_int(w, "split.tensors.count", GGUF_I32, (int64_t)gguf_n_tensor(f));
    for (size_t i = from; i < to; i++) {
        const tensor *t = &gguf_tensor_at(f, i)->t;
        uint64_t dim[3] = {(uint64_t)t->n_col, (uint64_t)t->n_row, (uint64_t)t->n_mat};
        gguf_declare(w, t->name, t->type, gguf_tensor_at(f, i)->n_dim, dim);
    }
    assert_int_equal(gguf_writer_begin(w, &err), FT_OK);
    for (size_t i = from; i < to; i++) {
        const tensor *t = &gguf_tensor_at(f, i)->t;
        assert_int_equal(gguf_write_data(w, t->data, tensor_bytes(t), &err), FT_OK);
    }
    assert_int_equal(gguf_writer_close(w, &err), FT_OK);
}

/* B099. catches: layers counted by the tensors of the first shard */
static void test_open_first_shard_without_tensors_binds(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    tiny_model t = open_ok(&o);
    size_t n = gguf_n_tensor(t.f);
    write_shard(t.f, 0, 3, 0, 0);
    write_shard(t.f, 1, 3, 0, n / 2);
    write_shard(t.f, 2, 3, n / 2, n);
    char path[TEST_PATH_MAX];
    gguf_file *f;
    model *m;
    ft_error err = {0};
    if (gguf_open(&f, test_path(path, "split-00001-of-00003.gguf"), &err) != FT_OK)
        fail_msg("%s", err.msg);
    assert_int_equal(model_open(&m, f, NULL, &err), FT_OK);
    assert_int_equal(m->h.n_layer, 4);
    assert_true(m->has_mtp);
    assert_same_values(&m->mtp.w_h, &t.m->mtp.w_h);
    model_free(m);
    gguf_close(f);
    tiny_close(&t);
}

/* catches: a leak or a crash where memory runs out, an error without a message */
static void test_open_each_allocation_failing_is_reported(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    tiny_model t = open_ok(&o);
    long n_fail = 0;
    for (long n = 1;; n++, n_fail++) {
        model *m = t.m;
        ft_error err = {0};
        mem_fail_at(n);
        ft_status st = model_open(&m, t.f, NULL, &err);
        mem_fail_at(0);
        if (st == FT_OK) {
            model_free(m);
            break;
        }
        assert_int_equal(st, FT_NOMEM);
        assert_null(m);
        assert_true(strlen(err.msg) > 10);
    }
    assert_true(n_fail > 40);
    model_free(NULL);
    tiny_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_each_family_reads_sizes),
        cmocka_unit_test(test_open_each_family_binds_its_parts_only),
        cmocka_unit_test(test_open_qwen4exp_binds_wide_parts),
        cmocka_unit_test(test_open_convolution_is_tap_major),
        cmocka_unit_test(test_open_fused_experts_equal_split_ones),
        cmocka_unit_test(test_open_eh_proj_halves_equal_two_matrices),
        cmocka_unit_test(test_open_other_spellings_bind_the_same_values),
        cmocka_unit_test(test_open_without_output_ties_it_to_embeddings),
        cmocka_unit_test(test_open_without_optional_keys_uses_defaults),
        cmocka_unit_test(test_open_every_encodable_type_binds),
        cmocka_unit_test(test_open_type_without_kernel_is_refused),
        cmocka_unit_test(test_open_eh_proj_whose_block_spans_the_halves_is_refused),
        cmocka_unit_test(test_open_zero_centred_norm_leaves_a_warning),
        cmocka_unit_test(test_tiny_same_options_write_same_bytes),
        cmocka_unit_test(test_open_first_shard_without_tensors_binds),
        cmocka_unit_test(test_open_each_allocation_failing_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
