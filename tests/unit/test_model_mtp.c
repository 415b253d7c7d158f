/* test_model_mtp.c - is there a draft head, where, and does it fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/tinyopen.h"

static const model_arch archs[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

typedef struct {
    const char *key;
    int64_t v;
} int_edit;

static void put_int(gguf_writer *w, void *ctx)
{
    const int_edit *e = ctx;
    gguf_put_int(w, e->key, GGUF_U32, e->v);
}

static void assert_bound_without_mtp(tiny_model *t, const char *reason)
{
    if (t->st != FT_OK)
        fail_msg("%s", t->err.msg);
    assert_int_equal(t->m->h.n_layer, 4);
    assert_false(t->m->has_mtp);
    assert_null(t->m->mtp.w_e.data);
    assert_non_null(strstr(t->m->no_mtp_reason, reason));
    tiny_close(t);
}

static void assert_refused(tiny_model *t, ft_status st, const char *a, const char *b)
{
    assert_int_equal(t->st, st);
    assert_null(t->m);
    if (!strstr(t->err.msg, a) || !strstr(t->err.msg, b))
        fail_msg("'%s' does not name '%s' and '%s'", t->err.msg, a, b);
    tiny_close(t);
}

/* The trunk alone, as it stands beside a separate MTP file. */
static tiny_opts trunk_of(model_arch arch)
{
    tiny_opts o = tiny_default(arch);
    o.n_mtp = o.n_mtp_told = 0;
    return o;
}

/* ---- In the trunk's file -------------------------------------------------------------------- */

/* catches: a plain trunk refused, or given a draft head of zeros */
static void test_mtp_none_told_none_there_gives_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        tiny_opts o = trunk_of(archs[i]);
        tiny_model t = tiny_open(&o, NULL);
        assert_bound_without_mtp(&t, "no MTP block");
    }
}

/* B100. catches: the count trusted, a fine-tune without its MTP tensors refused */
static void test_mtp_told_but_absent_gives_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        tiny_opts o = tiny_default(archs[i]);
        o.n_mtp = 0;
        tiny_model t = tiny_open(&o, NULL);
        assert_bound_without_mtp(&t, "blk.4 is not in the file");
    }
}

/* B100. catches: blk.4 of the block count run as an ordinary layer */
static void test_mtp_there_but_count_zero_is_left_out_of_trunk(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        char key[64];
        int_edit e = {key, 0};
        snprintf(key, sizeof key, "%s.nextn_predict_layers", model_arch_name(archs[i]));
        tiny_opts o = tiny_default(archs[i]);
        o.edit = put_int;
        o.edit_ctx = &e;
        tiny_model t = tiny_open(&o, NULL);
        assert_bound_without_mtp(&t, "nextn_predict_layers is 0");
    }
}

/* B100. catches: the same where block_count does not count the block either */
static void test_mtp_there_but_not_counted_gives_reason(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35MOE);
    o.n_mtp_told = 0;
    tiny_model t = tiny_open(&o, NULL);
    assert_bound_without_mtp(&t, "blk.4 holds an MTP block");
}

/* B100. catches: count 2 with one block taking the trunk's last layer for a draft head */
static void test_mtp_count_two_with_one_block_is_refused(void **state)
{
    (void)state;
    int_edit e = {"qwen35.nextn_predict_layers", 2};
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.edit = put_int;
    o.edit_ctx = &e;
    tiny_model t = tiny_open(&o, NULL); /* block_count 5: blk.3 would be MTP */
    assert_refused(&t, FT_FORMAT, "blk.3", "nextn_predict_layers 2");

    o = tiny_default(MODEL_QWEN35);
    o.n_mtp_told = 2; /* block_count 6: blk.5 is not there */
    t = tiny_open(&o, NULL);
    assert_refused(&t, FT_FORMAT, "blk.5", "nextn_predict_layers 2");
}

/* catches: a count added without its block, which would cut the trunk's last layer off */
static void test_mtp_count_one_over_a_plain_trunk_is_refused(void **state)
{
    (void)state;
    int_edit e = {"qwen35.nextn_predict_layers", 1};
    tiny_opts o = trunk_of(MODEL_QWEN35);
    o.edit = put_int;
    o.edit_ctx = &e;
    tiny_model t = tiny_open(&o, NULL);
    assert_refused(&t, FT_FORMAT, "blk.3", "nextn");
}

/* B085. catches: always block 0 of a chain of several MTP blocks */
static void test_mtp_two_blocks_give_reason(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.n_mtp = o.n_mtp_told = 2;
    tiny_model t = tiny_open(&o, NULL);
    assert_bound_without_mtp(&t, "2 MTP blocks");
}

/* catches: count 1 of two blocks making blk.4 a layer */
static void test_mtp_count_one_with_two_blocks_never_runs_one_as_layer(void **state)
{
    (void)state;
    int_edit e = {"qwen35.nextn_predict_layers", 1};
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.n_mtp = o.n_mtp_told = 2;
    o.edit = put_int;
    o.edit_ctx = &e;
    tiny_model t = tiny_open(&o, NULL);
    assert_refused(&t, FT_FORMAT, "blk.4", "nextn_predict_layers 1");
}

/* catches: nothing left of the trunk, a layer array of length 0 */
static void test_mtp_count_of_all_blocks_is_refused(void **state)
{
    (void)state;
    int_edit e = {"qwen35.nextn_predict_layers", 5};
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.edit = put_int;
    o.edit_ctx = &e;
    tiny_model t = tiny_open(&o, NULL);
    assert_refused(&t, FT_FORMAT, "tiny.gguf", "nextn_predict_layers");
    o.omit = "blk.*";
    t = tiny_open(&o, NULL);
    assert_refused(&t, FT_FORMAT, "tiny.gguf", "no trunk is left");
}

/* catches: layers behind an MTP block dropped without a word */
static void test_mtp_block_in_the_midst_of_the_trunk_is_refused(void **state)
{
    (void)state;
    int_edit e = {"qwen35.block_count", 6};
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.n_mtp_told = 0;
    o.edit = put_int;
    o.edit_ctx = &e;
    tiny_model t = tiny_open(&o, NULL);
    assert_refused(&t, FT_FORMAT, "blk.4", "midst of the trunk");
}

/* catches: an MTP file opened as a model dying of a missing embedding, with no hint */
static void test_mtp_file_without_trunk_says_so(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    o.omit = "blk.0.*";
    tiny_model t = tiny_open(&o, NULL);
    assert_refused(&t, FT_FORMAT, "MTP block without a trunk", "tiny.gguf");
}

/* catches: the block's own tables ignored (B089), or the trunk's taken where it has its own */
static void test_mtp_own_tables_replace_the_trunks(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        tiny_opts o = tiny_default(archs[i]);
        tiny_model t = tiny_open(&o, NULL);
        assert_ptr_equal(t.m->mtp.embd.data, t.m->token_embd.data);
        assert_ptr_equal(t.m->mtp.head.data, t.m->output.data);
        tiny_close(&t);
        o.mtp_embd = o.mtp_head = true;
        t = tiny_open(&o, NULL);
        assert_int_equal(t.st, FT_OK);
        assert_string_equal(t.m->mtp.embd.name, "blk.4.nextn.embed_tokens.weight");
        assert_string_equal(t.m->mtp.head.name, "blk.4.nextn.shared_head_head.weight");
        tiny_close(&t);
    }
}

/* B101. catches: a missing shared_head_norm refused */
static void test_mtp_without_head_norm_takes_output_norm(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.mtp_no_norm = true;
    tiny_model t = tiny_open(&o, NULL);
    assert_int_equal(t.st, FT_OK);
    assert_ptr_equal(t.m->mtp.head_norm, t.m->output_norm);
    tiny_close(&t);
}

/* B090. catches: rows read past the end of a trimmed head */
static void test_mtp_head_of_other_rows_is_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"blk.4.nextn.shared_head_head.weight",
                                        "blk.4.nextn.embed_tokens.weight"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        tiny_opts o = tiny_default(MODEL_QWEN35);
        o.mtp_head = o.mtp_embd = true;
        o.reshape = names[i];
        o.reshape_dim = 1;
        tiny_model t = tiny_open(&o, NULL);
        assert_refused(&t, FT_MISMATCH, names[i], "321");
    }
}

/* ---- A separate file ------------------------------------------------------------------------ */

/* B101. catches: shared tensors expected in the side file; the two ways differing */
static void test_mtp_side_file_binds_the_same_as_in_file(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(archs); i++) {
        tiny_opts whole = tiny_default(archs[i]), trunk = trunk_of(archs[i]);
        tiny_model a = tiny_open(&whole, NULL);
        tiny_model b = tiny_open(&trunk, &whole);
        if (b.st != FT_OK)
            fail_msg("%s", b.err.msg);
        assert_true(b.m->has_mtp);
        assert_string_equal(b.m->no_mtp_reason, "");
        assert_int_equal(b.m->h.n_layer, 4);
        const tensor *x = &a.m->mtp.w_h, *y = &b.m->mtp.w_h;
        assert_memory_equal(x->data, y->data, 64 * 4);
        x = &a.m->mtp.block.attn.q;
        y = &b.m->mtp.block.attn.q;
        assert_memory_equal(x->data, y->data, tensor_bytes(x));
        assert_ptr_equal(b.m->mtp.embd.data, b.m->token_embd.data);
        assert_ptr_equal(b.m->mtp.head.data, b.m->output.data);
        assert_ptr_equal(b.m->mtp_file, b.side);
        tiny_close(&a);
        tiny_close(&b);
    }
}

/* catches: the side file's tables ignored, or looked for under blk.N */
static void test_mtp_side_file_with_tables_uses_them(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        tiny_opts side = tiny_default(MODEL_QWEN4EXP), trunk = trunk_of(MODEL_QWEN4EXP);
        side.side_embd = k & 1;
        side.side_head = k & 2;
        tiny_model t = tiny_open(&trunk, &side);
        assert_int_equal(t.st, FT_OK);
        const gguf_tensor *e = gguf_tensor_find(t.side, "token_embd.weight");
        const gguf_tensor *h = gguf_tensor_find(t.side, "output.weight");
        assert_ptr_equal(t.m->mtp.embd.data, e ? e->t.data : t.m->token_embd.data);
        assert_ptr_equal(t.m->mtp.head.data, h ? h->t.data : t.m->output.data);
        assert_int_equal(!!e, side.side_embd);
        tiny_close(&t);
    }
}

/* B101. catches: the norms' order of preference turned around */
static void test_mtp_side_file_head_norm_is_own_then_side_then_trunk(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        tiny_opts trunk = trunk_of(MODEL_QWEN35), side = tiny_default(MODEL_QWEN35);
        side.mtp_no_norm = k & 1;
        side.side_norm = k & 2;
        tiny_model t = tiny_open(&trunk, &side);
        assert_int_equal(t.st, FT_OK);
        assert_int_equal(t.m->mtp.head_norm == t.m->output_norm, k == 1);
        const char *name = k & 1 ? "output_norm.weight" : "blk.4.nextn.shared_head_norm.weight";
        const gguf_tensor *g = gguf_tensor_find(k == 1 ? t.f : t.side, name);
        assert_memory_equal(t.m->mtp.head_norm, g->t.data, 64 * 4);
        tiny_close(&t);
    }
}

/* catches: the trunk's own block winning over the file that was asked for */
static void test_mtp_side_file_wins_over_block_in_trunk_file(void **state)
{
    (void)state;
    tiny_opts whole = tiny_default(MODEL_QWEN35), side = whole;
    side.seed = 9;
    tiny_model t = tiny_open(&whole, &side);
    assert_int_equal(t.st, FT_OK);
    const gguf_tensor *k = gguf_tensor_find(t.side, "blk.4.attn_k.weight");
    assert_ptr_equal(t.m->mtp.block.attn.k.data, k->t.data);
    tiny_close(&t);
}

/* B085. catches: the block's number taken from the trunk's file */
static void test_mtp_side_file_has_its_own_block_number(void **state)
{
    (void)state;
    tiny_opts trunk = trunk_of(MODEL_QWEN35), side = tiny_default(MODEL_QWEN35);
    side.n_layer = 8; /* the block is blk.8 */
    tiny_model t = tiny_open(&trunk, &side);
    assert_int_equal(t.st, FT_OK);
    assert_string_equal(t.m->mtp.block.attn.q.name, "blk.8.attn_q.weight");
    tiny_close(&t);
}

/* B101. catches: a head of other widths, positions or vocabulary bound to this trunk */
static void test_mtp_side_file_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    tiny_opts trunk = trunk_of(MODEL_QWEN35MOE), ok = tiny_default(MODEL_QWEN35MOE);
    tiny_opts side[7];
    static const char *const key[] = {"embedding_length",     "attention.head_count_kv",
                                      "expert_count",         "expert_feed_forward_length",
                                      "rope.dimension_count", "general.architecture",
                                      "tokenizer.ggml.tokens"};
    for (size_t i = 0; i < ARRAY_LEN(side); i++)
        side[i] = ok;
    side[0].n_embd = 128;
    side[1].n_head_kv = 2;
    side[2].n_expert = 16;
    side[3].n_ff_exp = 64;
    side[4].n_rot = 32;
    side[5] = tiny_default(MODEL_QWEN4EXP);
    side[6].n_vocab = 400;
    for (size_t i = 0; i < ARRAY_LEN(side); i++) {
        tiny_model t = tiny_open(&trunk, &side[i]);
        assert_refused(&t, FT_MISMATCH, "tiny-mtp.gguf", key[i]);
    }
    tiny_opts wide = tiny_default(MODEL_QWEN4EXP), trunk_wide = trunk_of(MODEL_QWEN4EXP);
    wide.n_hc = 4;
    tiny_model t = tiny_open(&trunk_wide, &wide);
    assert_refused(&t, FT_MISMATCH, "tiny-mtp.gguf", "hyper_connection.count");
}

/* catches: a table of another vocabulary in a side file without tokenizer */
static void test_mtp_side_table_of_other_rows_is_refused(void **state)
{
    (void)state;
    tiny_opts trunk = trunk_of(MODEL_QWEN35), side = tiny_default(MODEL_QWEN35);
    side.side_head = true;
    side.reshape = "output.weight";
    side.reshape_dim = 1;
    tiny_model t = tiny_open(&trunk, &side);
    assert_refused(&t, FT_MISMATCH, "output.weight", "321 rows");
}

/* catches: a file without MTP given as one, silently ignored */
static void test_mtp_side_file_without_block_is_refused(void **state)
{
    (void)state;
    tiny_opts trunk = trunk_of(MODEL_QWEN35), side = tiny_default(MODEL_QWEN35);
    side.omit = "blk.4.nextn.*";
    tiny_model t = tiny_open(&trunk, &side);
    assert_refused(&t, FT_FORMAT, "tiny-mtp.gguf", "no MTP block");
}

/* B085. catches: the first of two blocks taken for the whole chain */
static void test_mtp_side_file_with_two_blocks_is_refused(void **state)
{
    (void)state;
    tiny_opts trunk = trunk_of(MODEL_QWEN35), side = tiny_default(MODEL_QWEN35);
    side.n_mtp = side.n_mtp_told = 2;
    tiny_model t = tiny_open(&trunk, &side);
    assert_refused(&t, FT_UNSUPPORTED, "tiny-mtp.gguf", "blk.4 to blk.5");
}

/* B101. catches: a tensor that only the block can have looked up in the trunk */
static void test_mtp_side_file_lacking_a_tensor_names_it(void **state)
{
    (void)state;
    static const char *const names[] = {
        "blk.4.nextn.eh_proj.weight", "blk.4.nextn.hnorm.weight",
        "blk.4.attn_k.weight",        "blk.4.ffn_gate_exps.weight",
        "blk.4.hc_ffn_inject.weight", "blk.4.nextn.hc_head_up.weight"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        tiny_opts trunk = trunk_of(MODEL_QWEN4EXP), side = tiny_default(MODEL_QWEN4EXP);
        side.omit = names[i];
        tiny_model t = tiny_open(&trunk, &side);
        assert_refused(&t, FT_FORMAT, "tiny-mtp.gguf", names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mtp_none_told_none_there_gives_reason),
        cmocka_unit_test(test_mtp_told_but_absent_gives_reason),
        cmocka_unit_test(test_mtp_there_but_count_zero_is_left_out_of_trunk),
        cmocka_unit_test(test_mtp_there_but_not_counted_gives_reason),
        cmocka_unit_test(test_mtp_count_two_with_one_block_is_refused),
        cmocka_unit_test(test_mtp_count_one_over_a_plain_trunk_is_refused),
        cmocka_unit_test(test_mtp_two_blocks_give_reason),
        cmocka_unit_test(test_mtp_count_one_with_two_blocks_never_runs_one_as_layer),
        cmocka_unit_test(test_mtp_count_of_all_blocks_is_refused),
        cmocka_unit_test(test_mtp_block_in_the_midst_of_the_trunk_is_refused),
        cmocka_unit_test(test_mtp_file_without_trunk_says_so),
        cmocka_unit_test(test_mtp_own_tables_replace_the_trunks),
        cmocka_unit_test(test_mtp_without_head_norm_takes_output_norm),
        cmocka_unit_test(test_mtp_head_of_other_rows_is_refused),
        cmocka_unit_test(test_mtp_side_file_binds_the_same_as_in_file),
        cmocka_unit_test(test_mtp_side_file_with_tables_uses_them),
        cmocka_unit_test(test_mtp_side_file_head_norm_is_own_then_side_then_trunk),
        cmocka_unit_test(test_mtp_side_file_wins_over_block_in_trunk_file),
        cmocka_unit_test(test_mtp_side_file_has_its_own_block_number),
        cmocka_unit_test(test_mtp_side_file_that_does_not_fit_is_refused),
        cmocka_unit_test(test_mtp_side_table_of_other_rows_is_refused),
        cmocka_unit_test(test_mtp_side_file_without_block_is_refused),
        cmocka_unit_test(test_mtp_side_file_with_two_blocks_is_refused),
        cmocka_unit_test(test_mtp_side_file_lacking_a_tensor_names_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
