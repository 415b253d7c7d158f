/* test_engine_floor.c - byte accounts: published figures, files' own sizes, what the engine reads. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "draft/cells.h"
#include "engine/account.h"
#include "engine/engine.h"
#include "support/enginerig.h"

static const char next_shape[] = "qwen3.8-flash-next";

static ft_account shape_account(const char *shape, const ft_account_params *p)
{
    ft_account a;
    OK(ft_account_shape(shape, NULL, p, &a, &rig_err));
    return a;
}

static ft_account model_account(const ft_model *m, const ft_account_params *p)
{
    ft_account a;
    OK(ft_account_model(m, p, &a, &rig_err));
    return a;
}

static double group_bytes(const ft_account *a, const char *group)
{
    double sum = 0;
    for (int i = 0; i < a->n_item; i++)
        if (strcmp(a->item[i].group, group) == 0)
            sum += a->item[i].bytes;
    return sum;
}

/* v printed as a publication does. */
static void assert_printed(double v, const char *format, const char *want, const char *what)
{
    char text[32];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, v);
#pragma GCC diagnostic pop
    if (strcmp(text, want) != 0)
        fail_msg("%s: %s, want %s", what, text, want);
}

/* ---- Published figures ------------------------------------------------------------------------- */

/* catches: any item of a draft step counted by another shape, type or number */
static void test_draft_items_of_flash_next_are_the_published_ones(void **state)
{
    (void)state;
    static const struct {
        const char *group, *format, *mb;
    } published[] = {
        {"fc_embedding", "%.1f", "7.0"}, {"fc_hidden", "%.1f", "7.0"},
        {"mixers", "%.0f", "21"},        {"k, v", "%.1f", "2.8"},
        {"q", "%.1f", "33.4"},           {"o", "%.1f", "16.7"},
        {"router", "%.1f", "1.4"},       {"shared expert", "%.1f", "5.2"},
        {"head", "%.1f", "55.1"},        {"routed experts", "%.1f", "13.8"},
    };
    ft_account_params p = ft_account_params_default();
    ft_account a = shape_account(next_shape, &p);
    for (size_t i = 0; i < ARRAY_LEN(published); i++)
        assert_printed(1e-6 * group_bytes(&a, published[i].group), published[i].format,
                       published[i].mb, published[i].group);
    assert_true(group_bytes(&a, "indexer") == 0);
    ft_account_free(&a);
    p.naive = true;
    a = shape_account(next_shape, &p);
    assert_printed(1e-6 * group_bytes(&a, "fc_hidden"), "%.0f", "28", "naive fc_hidden");
    assert_printed(1e-6 * group_bytes(&a, "indexer"), "%.2f", "1.74", "indexer");
    ft_account_free(&a);
}

/* catches: a total that leaves an item out or counts one twice, a type that is not applied */
static void test_draft_totals_of_flash_next_are_the_published_ones(void **state)
{
    (void)state;
    static const struct {
        bool naive;
        const char *quant, *mb, *ms;
    } published[] = {
        {true, NULL, "186", "1.55"},
        {false, NULL, "163", "1.36"},
        {false, "q5_0", "139", "1.16"},
        {false, "q4_0", "131", "1.09"},
    };
    for (size_t i = 0; i < ARRAY_LEN(published); i++) {
        ft_account_params p = ft_account_params_default();
        p.naive = published[i].naive;
        p.draft_quant = published[i].quant;
        ft_account a = shape_account(next_shape, &p);
        assert_printed(1e-6 * a.bytes, "%.0f", published[i].mb, "total");
        assert_printed(1e3 * a.bytes / 120e9, "%.2f", published[i].ms, "ms at 120 GB/s");
        ft_account_free(&a);
    }
}

/* catches: B090, the rows of a draft vocabulary counted as the whole head's, or the other way round */
static void test_draft_head_follows_the_draft_vocabulary(void **state)
{
    (void)state; /* B090 */
    const int n[] = {0, 1, 40525, 248320, FT_DRAFT_VOCAB_ALL};
    const double rows[] = {40525, 1, 40525, 248320, 248320};
    for (size_t i = 0; i < ARRAY_LEN(n); i++) {
        ft_account_params p = ft_account_params_default();
        p.n_draft_vocab = n[i];
        ft_account a = shape_account(next_shape, &p);
        assert_true(group_bytes(&a, "head") == rows[i] * 1360);
        assert_int_equal(a.n_head, (int)rows[i]);
        assert_int_equal(a.n_vocab, 248320);
        ft_account_free(&a);
    }
}

/* ---- Files ------------------------------------------------------------------------------------- */

static tiny_opts varied(model_arch arch)
{
    tiny_opts o = tiny_default(arch);
    o.type[TINY_ATTN] = DTYPE_Q8_0;
    o.type[TINY_GDN] = DTYPE_Q5_0;
    o.type[TINY_FFN] = DTYPE_F16;
    o.type[TINY_EXPERT] = DTYPE_Q4_0;
    o.type[TINY_HEAD] = DTYPE_Q8_0;
    o.type[TINY_EH] = DTYPE_BF16;
    return o;
}

/* Bytes of the trunk's matrices in a file. */
static double file_bytes(const ft_model *m)
{
    double sum = 0;
    for (size_t i = 0; i < gguf_n_tensor(m->file); i++) {
        const tensor *t = &gguf_tensor_at(m->file, i)->t;
        char mtp[16];
        snprintf(mtp, sizeof mtp, "blk.%d.", m->m->h.n_layer);
        if (t->n_row > 1 && !strstr(t->name, "conv1d") && strncmp(t->name, mtp, strlen(mtp)) != 0)
            sum += (double)tensor_bytes(t);
    }
    return sum;
}

/* catches: a matrix of the trunk that no account has, or has twice; sizes that are not the file's */
static void test_row_account_adds_up_to_the_file(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        tiny_opts o = varied((model_arch)(i % 3));
        o.fused_experts = i >= 3;
        o.tied = i >= 3;
        ft_model *m = rig_model_of(&o, 1, NULL);
        const ft_account_params p = {.step = FT_STEP_VERIFY, .n_row = 1};
        ft_account a = model_account(m, &p);
        double sum = 0;
        for (int j = 0; j < a.n_item; j++) {
            const ft_account_item *x = &a.item[j];
            if (x->is_state || (o.tied && strcmp(x->group, "embedding") == 0))
                continue; /* tied: the head's line has all rows of the table */
            sum += x->n_pick ? x->bytes * x->n_pick / x->n_got : x->bytes;
        }
        if (fabs(sum - file_bytes(m)) > 0.5)
            fail_msg("family %d: %.1f, the file has %.1f", i % 3, sum, file_bytes(m));
        ft_account_free(&a);
        ft_model_close(m);
    }
}

/* What the draft head's matrices take as they are held, added up by hand. */
static double held_bytes(const model *m, const model_mtp *w, int n_cell)
{
    const model_layer *l = &w->block;
    const tensor *whole[] = {&w->w_e,
                             &w->w_h,
                             &l->attn.q,
                             &l->attn.k,
                             &l->attn.v,
                             &l->attn.out,
                             &l->ffn.router,
                             &l->ffn.sh_gate,
                             &l->ffn.sh_up,
                             &l->ffn.sh_down,
                             &l->hc_attn.down,
                             &l->hc_attn.up,
                             &l->hc_attn.inject,
                             &l->hc_ffn.down,
                             &l->hc_ffn.up,
                             &l->hc_ffn.inject,
                             &w->head_mixer.down,
                             &w->head_mixer.up,
                             &w->head};
    double sum = 0, ffn = (double)(tensor_bytes(&l->ffn.gate) + tensor_bytes(&l->ffn.up) +
                                   tensor_bytes(&l->ffn.down));
    for (size_t i = 0; i < ARRAY_LEN(whole); i++)
        sum += whole[i]->data ? (double)tensor_bytes(whole[i]) : 0;
    sum += m->h.n_expert ? ffn / m->h.n_expert * m->h.n_expert_used : ffn;
    sum += (double)tensor_bytes(&w->embd) / w->embd.n_row;
    return sum + 2.0 * n_cell * m->h.n_head_kv * m->h.d_head * 2; /* K and V in f16 */
}

static bool on_nothing(void *ctx, const ft_token *t)
{
    (void)ctx;
    (void)t;
    return true;
}

/* Bytes of a step that a generation reports. */
static uint64_t reported(ft_model *m)
{
    int32_t tok[40];
    rig_prompt(tok, 40);
    ft_session *s;
    const ft_session_params sp = ft_session_params_default();
    OK(ft_session_create(&s, m, &sp, &rig_err));
    ft_generate_params p = ft_generate_params_default();
    ft_generate_stats stats;
    p.n_max = 12;
    p.draft_max = 2;
    p.draft_fixed = true;
    p.ignore_eos = true;
    p.on_token = on_nothing;
    OK(ft_session_generate(s, tok, 40, &p, &stats, &rig_err));
    ft_session_free(s);
    return stats.draft.step_bytes;
}

/* catches: an account, or statistics, that differ from what the engine holds and reads */
static void test_draft_account_is_what_the_engine_holds_and_reports(void **state)
{
    (void)state;
    for (int arch = MODEL_QWEN35; arch <= MODEL_QWEN4EXP; arch++) {
        tiny_opts o = varied((model_arch)arch);
        ft_model *m = rig_model_of(&o, 1, NULL);
        ft_account_params p = ft_account_params_default();
        p.depth = 9;
        ft_account a = model_account(m, &p);
        assert_int_equal(a.n_cell, 10);
        assert_true(fabs(a.bytes - held_bytes(m->m, &m->dw->mtp, 10)) < 0.5);
        uint64_t said = reported(m);
        int n_cell = 0;
        while (n_cell < 128 && fabs(held_bytes(m->m, &m->dw->mtp, n_cell) - (double)said) > 0.5)
            n_cell++;
        assert_in_range(n_cell, 40, 53);
        ft_account_free(&a);
        ft_model_close(m);
    }
}

/* catches: types planned otherwise than they are converted */
static void test_planned_types_are_those_of_the_conversion(void **state)
{
    (void)state;
    static const char *const quant[] = {"file", "default", "q8_0", "q5_0", "q4_0"};
    for (int arch = MODEL_QWEN35; arch <= MODEL_QWEN4EXP; arch++) {
        char path[TEST_PATH_MAX];
        tiny_opts o = varied((model_arch)arch);
        tiny_write(test_path(path, "model.gguf"), &o);
        ft_model *plain;
        const ft_model_params as_file = {.n_thread = 1, .draft_quant = "file"};
        OK(ft_model_open(&plain, path, &as_file, &rig_err));
        for (size_t i = 0; i < ARRAY_LEN(quant); i++) {
            ft_model *m;
            const ft_model_params mp = {
                .n_thread = 1, .draft_quant = quant[i], .draft_quant_mixers = quant[i]};
            OK(ft_model_open(&m, path, &mp, &rig_err));
            ft_account_params p = ft_account_params_default();
            ft_account held = model_account(m, &p);
            p.draft_quant = p.draft_quant_mixers = quant[i];
            ft_account planned = model_account(plain, &p);
            assert_true(held.bytes == planned.bytes);
            assert_int_equal(held.n_item, planned.n_item);
            ft_account_free(&held);
            ft_account_free(&planned);
            ft_model_close(m);
        }
        ft_model_close(plain);
    }
}

/* ---- Rows and cells ---------------------------------------------------------------------------- */

static double trunk_bytes(const char *shape, ft_step step, int n_row, int depth, const char *group)
{
    const ft_account_params p = {.step = step, .n_row = n_row, .depth = depth};
    ft_account a = shape_account(shape, &p);
    double n = group ? group_bytes(&a, group) : a.bytes;
    ft_account_free(&a);
    return n;
}

/* catches: B128, weights counted once per row, or experts as if all rows chose the same */
static void test_window_reads_weights_once_and_more_experts(void **state)
{
    (void)state; /* B128 */
    const char *const once[] = {"q", "delta net", "mixers", "router", "head", "delta-net states"};
    for (size_t i = 0; i < ARRAY_LEN(once); i++)
        assert_true(trunk_bytes(next_shape, FT_STEP_VERIFY, 4, 0, once[i]) ==
                    trunk_bytes(next_shape, FT_STEP_VERIFY, 1, 0, once[i]));
    double one = trunk_bytes(next_shape, FT_STEP_VERIFY, 1, 0, "routed experts");
    double layer = 3.0 * 640 * 2560 / 64 * 18; /* bytes of one expert in Q2_0 */
    assert_true(one == 48 * 10 * layer);
    double p = 1 - 10.0 / 512,
           four = trunk_bytes(next_shape, FT_STEP_VERIFY, 4, 0, "routed experts");
    assert_true(fabs(four - 48 * 512 * (1 - p * p * p * p) * layer) < 1);
    double all = trunk_bytes(next_shape, FT_STEP_PROMPT, 4096, 0, "routed experts");
    assert_true(all <= 48 * 512 * layer && all > 0.999 * 48 * 512 * layer);
    assert_true(trunk_bytes(next_shape, FT_STEP_PROMPT, 4, 0, "head") == 0);
}

/* Cells of a row at a position, counted one by one (docs/models.md, QSA). */
static int selected(int pos, int ratio, int top_k)
{
    int n = 0, n_block = (pos + 1) / ratio, n_best = top_k / ratio;
    for (int b = 0; b < n_block && b < n_best; b++)
        n += ratio;
    for (int c = n_block * ratio; c <= pos; c++)
        n++;
    return n;
}

/* catches: all cells counted where a few are selected, keys counted where nothing is scored */
static void test_sparse_attention_reads_selected_cells_and_block_keys(void **state)
{
    (void)state;
    const int depth[] = {0, 5, 2047, 2050, 2051, 2052, 2053, 2054, 32768, 262143};
    for (size_t i = 0; i < ARRAY_LEN(depth); i++) {
        double read = trunk_bytes(next_shape, FT_STEP_VERIFY, 1, depth[i], "cells");
        assert_true(read == 12.0 * selected(depth[i], 4, 2048) * 2 * 512 * 2);
        int n_block = (depth[i] + 1) / 4;
        double keys = trunk_bytes(next_shape, FT_STEP_VERIFY, 1, depth[i], "indexer keys");
        assert_true(keys == (n_block > 512 ? 12.0 * n_block * 128 * 4 : 0));
    }
    assert_true(trunk_bytes("qwen3.5-4b", FT_STEP_VERIFY, 1, 4095, "cells") ==
                8.0 * 4096 * 2 * 1024 * 2);
    assert_true(trunk_bytes("qwen3.5-4b", FT_STEP_VERIFY, 3, 4095, "cells") ==
                8.0 * 4098 * 2 * 1024 * 2);
}

/* catches: states counted once where they are read and written, or once per row */
static void test_delta_net_states_are_read_and_written_once(void **state)
{
    (void)state;
    double states = 36.0 * 48 * 128 * 128 * 4 * 2;
    assert_true(trunk_bytes(next_shape, FT_STEP_VERIFY, 1, 0, "delta-net states") == states);
    assert_true(trunk_bytes(next_shape, FT_STEP_PROMPT, 512, 9, "delta-net states") == states);
}

/* catches: a count of cells that is not the rule of draft/cells.c */
static void test_draft_cells_are_those_that_may_be_read(void **state)
{
    (void)state;
    const int sink[] = {0, 3, 64}, window[] = {0, 5, 256, CELLS_ALL};
    static int32_t list[1024];
    for (size_t i = 0; i < ARRAY_LEN(sink) * ARRAY_LEN(window); i++)
        for (int depth = 0; depth < 700; depth += depth < 10 ? 1 : 37) {
            cells c;
            cells_init(&c, sink[i % 3], window[i / 3]);
            cells_wrote(&c, 0, depth + 1);
            assert_int_equal(cells_readable(&c, depth, list),
                             account_draft_cells(depth, sink[i % 3], window[i / 3]));
        }
    assert_int_equal(account_draft_cells(1 << 24, 64, 256), 321);
}

/* ---- Types, errors, memory ----------------------------------------------------------------------- */

/* catches: B087, a type that is ignored; rows that are no multiple of its block */
static void test_shapes_have_an_account_in_every_type(void **state)
{
    (void)state; /* B087 */
    for (int i = 0; ft_shape_name(i); i++) {
        assert_true(ft_shape_source(i)[0] != '\0');
        for (size_t j = 0; dtype_at(j); j++) {
            const dtype_info *d = dtype_at(j);
            const ft_account_params p = {.step = FT_STEP_VERIFY, .n_row = 1};
            ft_account a;
            OK(ft_account_shape(ft_shape_name(i), d->name, &p, &a, &rig_err));
            for (int k = 0; k < a.n_item; k++)
                if (strcmp(a.item[k].group, "head") == 0) {
                    assert_string_equal(a.item[k].type, d->name);
                    double n = (double)a.item[k].n_row * a.item[k].n_col / d->block_values;
                    assert_true(a.item[k].bytes == n * d->block_bytes);
                }
            ft_account_free(&a);
        }
    }
    assert_null(ft_shape_name(-1));
    assert_null(ft_shape_source(100));
}

/* catches: a value out of range that makes a number instead of a message */
static void test_account_refuses_what_it_cannot_count(void **state)
{
    (void)state;
    ft_account a;
    FAILS(ft_account_shape("qwen3.5", NULL, NULL, &a, &rig_err), FT_ARG, "qwen3.5-0.8b");
    FAILS(ft_account_shape(NULL, NULL, NULL, &a, &rig_err), FT_ARG, "shape: '(null)'");
    FAILS(ft_account_shape(next_shape, "q9", NULL, &a, &rig_err), FT_ARG, "type: 'q9'");
    FAILS(ft_account_model(NULL, NULL, &a, &rig_err), FT_ARG, "no model");
    const struct {
        ft_account_params p;
        const char *words;
    } bad[] = {
        {{.n_row = 0}, "n_row: 0, want 1 to 4096"},
        {{.n_row = 4097}, "n_row: 4097"},
        {{.n_row = 1, .depth = -1}, "depth: -1"},
        {{.n_row = 1, .depth = (1 << 24) + 1}, "depth: 16777217"},
        {{.n_row = 1, .sink = 1025}, "sink: 1025"},
        {{.n_row = 1, .window = -1}, "window: -1"},
        {{.n_row = 1, .step = (ft_step)3}, "step: 3"},
        {{.n_row = 1, .n_draft_vocab = 248321}, "n_draft_vocab: 248321, want 0 to 248320"},
        {{.n_row = 1, .n_draft_vocab = -2}, "n_draft_vocab: -2"},
        {{.n_row = 1, .kv_type = "q4_0"}, "kv_type: 'q4_0'"},
        {{.n_row = 1, .draft_quant = "q3"}, "type 'q3'"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        memset(&a, 0xa5, sizeof a);
        FAILS(ft_account_shape(next_shape, NULL, &bad[i].p, &a, &rig_err), FT_ARG, bad[i].words);
        assert_null(a.item);
        assert_null(a.owned);
    }
}

/* catches: a step of a draft head that is not there, counted as nothing */
static void test_account_without_draft_head_says_why(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.n_mtp = o.n_mtp_told = 0;
    ft_model *m = rig_model_of(&o, 1, NULL);
    ft_account a;
    FAILS(ft_account_model(m, NULL, &a, &rig_err), FT_UNSUPPORTED, "the file has no MTP block");
    const ft_account_params p = {.step = FT_STEP_VERIFY, .n_row = 1};
    OK(ft_account_model(m, &p, &a, &rig_err));
    ft_account_free(&a);
    ft_model_close(m);
}

/* catches: a leak or a crash when memory is short */
static void test_account_without_memory_fails_cleanly(void **state)
{
    (void)state;
    ft_account a;
    for (int n = 1; n <= 4; n++) {
        rig_err = (ft_error){0};
        mem_fail_at(n);
        assert_int_equal(ft_account_shape(next_shape, NULL, NULL, &a, &rig_err), FT_NOMEM);
        mem_fail_at(0);
        assert_null(a.item);
        assert_true(rig_err.msg[0] != '\0');
    }
    double rate = 1;
    mem_fail_at(2);
    FAILS(ft_measure_bandwidth(1, &rate, &rig_err), FT_NOMEM, "bytes");
    mem_fail_at(0);
    assert_true(rate == 0);
}

/* catches: a measurement of a cache, of nothing, or of a loop that the compiler removed */
static void test_bandwidth_is_one_of_a_memory(void **state)
{
    (void)state;
    double rate = 0;
    OK(ft_measure_bandwidth(0, &rate, &rig_err));
    assert_true(rate > 1e7 && rate < 1e13);
    FAILS(ft_measure_bandwidth(-1, &rate, &rig_err), FT_ARG, "threads: -1");
}

/* catches: a byte that is read twice by one thread and not at all by another */
static void test_read_all_depends_on_every_byte(void **state)
{
    (void)state;
    backend *be;
    const size_t n = 1 << 20;
    OK(backend_create(&be, &(backend_params){.n_thread = 3}, &rig_err));
    uint8_t *p = mem_alloc_aligned(n);
    assert_non_null(p);
    be_touch_all(be, p, n);
    memset(p, 0, n);
    assert_true(be_read_all(be, p, n) == 0);
    for (size_t i = 0; i < n; i += 4093) {
        p[i] = 1;
        assert_true(be_read_all(be, p, n) == (uint64_t)1 << 8 * (i % 8));
        p[i] = 0;
    }
    mem_free(p);
    backend_free(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_items_of_flash_next_are_the_published_ones),
        cmocka_unit_test(test_draft_totals_of_flash_next_are_the_published_ones),
        cmocka_unit_test(test_draft_head_follows_the_draft_vocabulary),
        cmocka_unit_test(test_row_account_adds_up_to_the_file),
        cmocka_unit_test(test_draft_account_is_what_the_engine_holds_and_reports),
        cmocka_unit_test(test_planned_types_are_those_of_the_conversion),
        cmocka_unit_test(test_window_reads_weights_once_and_more_experts),
        cmocka_unit_test(test_sparse_attention_reads_selected_cells_and_block_keys),
        cmocka_unit_test(test_delta_net_states_are_read_and_written_once),
        cmocka_unit_test(test_draft_cells_are_those_that_may_be_read),
        cmocka_unit_test(test_shapes_have_an_account_in_every_type),
        cmocka_unit_test(test_account_refuses_what_it_cannot_count),
        cmocka_unit_test(test_account_without_draft_head_says_why),
        cmocka_unit_test(test_account_without_memory_fails_cleanly),
        cmocka_unit_test(test_bandwidth_is_one_of_a_memory),
        cmocka_unit_test(test_read_all_depends_on_every_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
