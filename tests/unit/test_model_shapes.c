/* test_model_shapes.c - named shapes: their sizes, their tensors, and files written from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "model/shapes.h"
#include "support/tmpdir.h"

/* A shape of a family that fits into a test: the sizes of the named one made small. */
static shape_info tiny_info(model_arch arch)
{
    shape_info info = {.name = "tiny",
                       .source = "this test",
                       .h = {.arch = arch,
                             .n_layer = 4,
                             .n_embd = 64,
                             .n_vocab = 96,
                             .n_ctx_train = 512,
                             .eps = 1e-6f,
                             .n_head = 2,
                             .n_head_kv = 1,
                             .d_head = 32,
                             .n_rot = 16,
                             .rope_base = 1e4,
                             .n_key_head = 2,
                             .n_val_head = 4,
                             .d_state = 16,
                             .n_conv = 4,
                             .n_hc = 1,
                             .ple_layer = -1},
                       .tied = arch == MODEL_QWEN35,
                       .types = shape_types_of(DTYPE_Q8_0)};
    model_hparams *h = &info.h;
    if (arch == MODEL_QWEN35) {
        h->n_ff = 96;
        return info;
    }
    h->n_expert = 8;
    h->n_expert_used = 3;
    h->n_ff_exp = h->n_ff_shexp = 32;
    if (arch == MODEL_QWEN35MOE)
        return info;
    h->n_hc = 2;
    h->hc_rank = 8; /* no multiple of 32: the up matrices become F16 */
    h->n_idx_head = 2;
    h->d_idx = 16;
    h->idx_top_k = 16;
    h->ple_layer = 1;
    h->ple_ngram = 3;
    h->ple_heads = 2;
    h->ple_conv = 4;
    h->ple_eos = 7;
    h->ple_dim = 16;
    info.ratio = 4;
    info.ple_rows_base = 97;
    return info;
}

static shape *made(const shape_info *info, const shape_types *t)
{
    shape *s;
    ft_error err = {0};
    if (shape_create(&s, info, t, &err) != FT_OK)
        fail_msg("%s", err.msg);
    return s;
}

static uint64_t n_value(const shape_tensor *t)
{
    uint64_t n = 1;
    for (int i = 0; i < t->n_dim; i++)
        n *= (uint64_t)t->dim[i];
    return n;
}

static size_t n_byte(const shape_tensor *t)
{
    size_t n_col = (size_t)t->dim[t->n_dim - 1];
    return dtype_row_bytes(t->type, n_col) * (size_t)(n_value(t) / n_col);
}

/* ---- Files ------------------------------------------------------------------------------------ */

/* Norms are 1, all else 0. */
static void write_data(gguf_writer *w, const shape_tensor *t)
{
    size_t n = n_byte(t);
    uint8_t *data = calloc(1, n);
    assert_non_null(data);
    const float one = 1;
    for (size_t i = 0; t->kind == SHAPE_NORM && i < n; i += sizeof one)
        memcpy(data + i, &one, sizeof one);
    assert_int_equal(gguf_write_data(w, data, n, NULL), FT_OK);
    free(data);
}

static void write_file(const char *path, const shape *s)
{
    gguf_writer *w;
    ft_error err = {0};
    assert_int_equal(gguf_writer_open(&w, path, &err), FT_OK);
    shape_put_metadata(w, s);
    shape_declare(w, s);
    if (gguf_writer_begin(w, &err) != FT_OK)
        fail_msg("%s", err.msg);
    for (int i = 0; i < s->n_tensor; i++)
        write_data(w, &s->tensor[i]);
    assert_int_equal(gguf_writer_close(w, &err), FT_OK);
}

static void same_matrix(const tensor *a, const tensor *b)
{
    assert_int_equal(a->data != NULL, b->data != NULL);
    if (!a->data)
        return;
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->type, b->type);
    assert_int_equal(a->n_col, b->n_col);
    assert_int_equal(a->n_row, b->n_row);
    assert_int_equal(a->n_mat, b->n_mat);
    assert_int_equal(a->row_bytes, b->row_bytes);
    assert_int_equal(a->mat_bytes, b->mat_bytes);
}

static void same_mixer(const model_mixer *a, const model_mixer *b)
{
    same_matrix(&a->down, &b->down);
    same_matrix(&a->up, &b->up);
    same_matrix(&a->inject, &b->inject);
}

static void same_layer(const model_layer *a, const model_layer *b)
{
    assert_int_equal(a->is_attn, b->is_attn);
    assert_int_equal(a->attn.ratio, b->attn.ratio);
    same_mixer(&a->hc_attn, &b->hc_attn);
    same_mixer(&a->hc_ffn, &b->hc_ffn);
    const tensor *x[] = {&a->attn.q,     &a->attn.k,     &a->attn.v,     &a->attn.out,
                         &a->attn.idx_q, &a->attn.idx_k, &a->gdn.qkv,    &a->gdn.gate,
                         &a->gdn.alpha,  &a->gdn.beta,   &a->gdn.out,    &a->ffn.gate,
                         &a->ffn.up,     &a->ffn.down,   &a->ffn.router, &a->ffn.sh_gate,
                         &a->ffn.sh_up,  &a->ffn.sh_down};
    const tensor *y[] = {&b->attn.q,     &b->attn.k,     &b->attn.v,     &b->attn.out,
                         &b->attn.idx_q, &b->attn.idx_k, &b->gdn.qkv,    &b->gdn.gate,
                         &b->gdn.alpha,  &b->gdn.beta,   &b->gdn.out,    &b->ffn.gate,
                         &b->ffn.up,     &b->ffn.down,   &b->ffn.router, &b->ffn.sh_gate,
                         &b->ffn.sh_up,  &b->ffn.sh_down};
    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        same_matrix(x[i], y[i]);
}

static void same_hparams(const model_hparams *a, const model_hparams *b)
{
    assert_int_equal(a->arch, b->arch);
    assert_true(a->eps == b->eps && a->rope_base == b->rope_base);
#define SAME(field) assert_int_equal(a->field, b->field)
    SAME(n_layer), SAME(n_embd), SAME(n_vocab), SAME(n_ctx_train), SAME(n_head), SAME(n_head_kv);
    SAME(d_head), SAME(n_rot), SAME(n_key_head), SAME(n_val_head), SAME(d_state), SAME(n_conv);
    SAME(n_ff), SAME(n_expert), SAME(n_expert_used), SAME(n_ff_exp), SAME(n_ff_shexp);
    SAME(n_hc), SAME(hc_rank), SAME(n_idx_head), SAME(d_idx), SAME(idx_top_k), SAME(ple_layer);
    SAME(ple_ngram), SAME(ple_heads), SAME(ple_conv), SAME(ple_eos), SAME(ple_dim);
#undef SAME
}

/* catches: a tensor, key or dimension that the reader wants otherwise; a described model that is not
 * what the file's is (its account would be another model's) */
static void test_shape_written_to_a_file_binds_to_what_it_describes(void **state)
{
    (void)state;
    for (int arch = MODEL_QWEN35; arch <= MODEL_QWEN4EXP; arch++) {
        char path[TEST_PATH_MAX];
        shape_info info = tiny_info((model_arch)arch);
        shape *s = made(&info, NULL);
        write_file(test_path(path, "shape.gguf"), s);
        gguf_file *f;
        model *m;
        ft_error err = {0};
        if (gguf_open(&f, path, &err) != FT_OK)
            fail_msg("%s", err.msg);
        if (model_open(&m, f, NULL, &err) != FT_OK)
            fail_msg("%s", err.msg);
        assert_string_equal(m->warning, "");
        assert_true(m->has_mtp && s->m.has_mtp);
        same_hparams(&s->m.h, &m->h);
        for (int i = 0; i < m->h.n_layer; i++)
            same_layer(&s->m.layer[i], &m->layer[i]);
        same_layer(&s->m.mtp.block, &m->mtp.block);
        same_mixer(&s->m.output_mixer, &m->output_mixer);
        same_mixer(&s->m.mtp.head_mixer, &m->mtp.head_mixer);
        const tensor *x[] = {&s->m.token_embd, &s->m.output,    &s->m.ple.table,
                             &s->m.ple.key,    &s->m.ple.value, &s->m.mtp.w_e,
                             &s->m.mtp.w_h,    &s->m.mtp.embd,  &s->m.mtp.head};
        const tensor *y[] = {&m->token_embd, &m->output,  &m->ple.table, &m->ple.key, &m->ple.value,
                             &m->mtp.w_e,    &m->mtp.w_h, &m->mtp.embd,  &m->mtp.head};
        for (size_t i = 0; i < ARRAY_LEN(x); i++)
            same_matrix(x[i], y[i]);
        model_free(m);
        gguf_close(f);
        shape_free(s);
    }
}

/* ---- The named ones ---------------------------------------------------------------------------- */

typedef struct {
    double trunk, table, mtp; /* values, in 1e9 */
} counts;

static counts count(const shape *s)
{
    counts c = {0};
    for (int i = 0; i < s->n_tensor; i++) {
        const shape_tensor *t = &s->tensor[i];
        double n = (double)n_value(t) / 1e9;
        *(t->mtp ? &c.mtp : t->cls == SHAPE_PLE_TABLE ? &c.table : &c.trunk) += n;
    }
    return c;
}

/* catches: a wrong width, number of layers or of heads: the sizes in the names are published */
static void test_named_shapes_have_their_published_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double trunk, within;
    } known[] = {
        {"qwen3.5-0.8b", 0.75, 0.01},   {"qwen3.5-2b", 1.88, 0.01},
        {"qwen3.5-4b", 4.21, 0.01},     {"qwen3.5-9b", 8.95, 0.02},
        {"qwen3.5-27b", 26.9, 0.05},    {"qwen3.5-35b-a3b", 34.66, 0.05},
        {"qwen3.8-flash-next", 125, 1},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        const shape_info *info = shape_find(known[i].name);
        assert_non_null(info);
        shape *s = made(info, NULL);
        counts c = count(s);
        if (c.trunk < known[i].trunk - known[i].within ||
            c.trunk > known[i].trunk + known[i].within)
            fail_msg("%s: %.3f, want %.3f", known[i].name, c.trunk, known[i].trunk);
        assert_true(c.mtp > 0);
        if (info->h.ple_layer >= 0)
            assert_true(c.table > 51 && c.table < 51.5);
        shape_free(s);
    }
    assert_null(shape_find("qwen3.5"));
    assert_null(shape_at(-1));
    assert_null(shape_at((int)ARRAY_LEN(known)));
    assert_non_null(shape_at((int)ARRAY_LEN(known) - 1));
}

/* catches: a name cut off at the end of its field, two tensors of one name, a row that is no whole
 * number of blocks */
static void test_named_shapes_lists_are_well_formed(void **state)
{
    (void)state;
    for (int i = 0; shape_at(i); i++) {
        const shape_types q4k = shape_types_of(DTYPE_Q4_K);
        shape *s = made(shape_at(i), i % 2 ? &q4k : NULL);
        for (int j = 0; j < s->n_tensor; j++) {
            const shape_tensor *t = &s->tensor[j];
            size_t len = strlen(t->name);
            assert_true(len > 5 && len < sizeof t->name - 1);
            assert_int_equal(t->dim[t->n_dim - 1] % dtype_find((uint32_t)t->type)->block_values, 0);
            for (int k = 0; k < j; k++)
                assert_string_not_equal(t->name, s->tensor[k].name);
        }
        shape_free(s);
    }
}

/* catches: a leak, or a crash, when memory is short */
static void test_shape_create_without_memory_fails_cleanly(void **state)
{
    (void)state;
    for (int n = 1; n <= 3; n++) {
        shape *s = (shape *)1;
        ft_error err = {0};
        mem_fail_at(n);
        assert_int_equal(shape_create(&s, shape_at(0), NULL, &err), FT_NOMEM);
        mem_fail_at(0);
        assert_null(s);
        assert_non_null(strstr(err.msg, "qwen3.5-0.8b"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape_written_to_a_file_binds_to_what_it_describes),
        cmocka_unit_test(test_named_shapes_have_their_published_sizes),
        cmocka_unit_test(test_named_shapes_lists_are_well_formed),
        cmocka_unit_test(test_shape_create_without_memory_fails_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
