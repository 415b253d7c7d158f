/* test_draft_weights.c - the drafter's low-bit copy of its wide matrices, and what it costs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "draft/weights.h"
#include "kern/kern.h"
#include "support/tinyopen.h"

static const model_arch archs[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};

/* Part names of each family, in order; the mixers are those that begin with "hc_". */
static const char *const parts_dense[] = {"fc_embedding", "fc_hidden", "attn_q",  "attn_output",
                                          "ffn_gate",     "ffn_up",    "ffn_down"};
static const char *const parts_moe[] = {"fc_embedding", "fc_hidden", "attn_q",     "attn_output",
                                        "shared_gate",  "shared_up", "shared_down"};
static const char *const parts_hc[] = {"fc_embedding", "fc_hidden",   "attn_q",      "attn_output",
                                       "shared_gate",  "shared_up",   "shared_down", "hc_attn_down",
                                       "hc_attn_up",   "hc_ffn_down", "hc_ffn_up",   "hc_head_down",
                                       "hc_head_up"};

static int parts_of(model_arch a, const char *const **list)
{
    *list = a == MODEL_QWEN35 ? parts_dense : a == MODEL_QWEN35MOE ? parts_moe : parts_hc;
    return a == MODEL_QWEN4EXP ? (int)ARRAY_LEN(parts_hc) : 7;
}

static bool is_mixer(int part)
{
    return strncmp(draft_part_name(part), "hc_", 3) == 0;
}

static tiny_opts opts_of(model_arch a, dtype type)
{
    tiny_opts o = tiny_default(a);
    o.hc_rank = 32;
    for (int i = 0; i < TINY_N_CLASS; i++)
        if (i != TINY_VECTOR)
            o.type[i] = type;
    return o;
}

static tiny_model open_tiny(const tiny_opts *o, const tiny_opts *side)
{
    tiny_model t = tiny_open(o, side);
    if (t.st != FT_OK)
        fail_msg("%s", t.err.msg);
    return t;
}

static draft_weights *create(const model *m, draft_quant wide, draft_quant mixers)
{
    ft_error err = {0};
    draft_weights *w;
    draft_weights_opts o = {.wide = wide, .mixers = mixers};
    if (draft_weights_create(&w, m, &o, &err) != FT_OK)
        fail_msg("%s", err.msg);
    return w;
}

static const draft_weight *item_of(const draft_weights *w, const char *part)
{
    for (int i = 0; i < w->n_item; i++)
        if (strcmp(draft_part_name(w->item[i].part), part) == 0)
            return &w->item[i];
    fail_msg("no part %s", part);
    return NULL;
}

/* ---- What changes --------------------------------------------------------------------------- */

/* A tensor of the copy against the model's: same shape and name, rows encoded from its values. */
static void assert_encoded(const tensor *t, const tensor *from, dtype to)
{
    static float x[4096];
    static uint8_t want[4096 * 4];
    size_t n = (size_t)t->n_col;
    assert_int_equal(t->type, to);
    assert_int_equal(t->n_col, from->n_col);
    assert_int_equal(t->n_row, from->n_row);
    assert_int_equal(t->n_mat, from->n_mat);
    assert_string_equal(t->name, from->name);
    assert_int_equal(t->row_bytes, dtype_row_bytes(to, n));
    assert_int_equal(t->mat_bytes, tensor_bytes(t));
    assert_true(n <= ARRAY_LEN(x));
    for (int r = 0; r < t->n_row; r++) {
        const uint8_t *src = (const uint8_t *)from->data + (size_t)r * from->row_bytes;
        assert_true(kern_decode((int)from->type, x, src, n));
        assert_true(to == DTYPE_Q4_0 ? kern_encode_fitted((int)to, want, x, n)
                                     : kern_encode((int)to, want, x, n));
        assert_memory_equal((const uint8_t *)t->data + (size_t)r * t->row_bytes, want,
                            t->row_bytes);
    }
}

/* Every part as wished (mixers: DRAFT_QUANT_FILE or the same wish), all else as in the model. */
static void assert_converted(const draft_weights *w, const model *m, dtype to, bool mixers)
{
    const char *const *name;
    int n = parts_of(m->h.arch, &name);
    assert_int_equal(w->n_item, n);
    model_mtp rest = w->mtp;
    size_t n_bytes = 0;
    for (int i = 0; i < n; i++) {
        const draft_weight *item = &w->item[i];
        assert_string_equal(draft_part_name(item->part), name[i]);
        const tensor *t = draft_part(&w->mtp, item->part), *from = draft_part(&m->mtp, item->part);
        assert_int_equal(item->from, from->type);
        assert_int_equal(item->to, t->type);
        assert_int_equal(item->bytes_from, tensor_bytes(from));
        assert_int_equal(item->bytes_to, tensor_bytes(t));
        if (is_mixer(item->part) && !mixers) {
            assert_int_equal(item->fate, DRAFT_KEPT_FILE);
            assert_null(w->owned[i]);
            continue; /* compared below */
        }
        assert_int_equal(item->fate, DRAFT_CONVERTED);
        assert_ptr_equal(t->data, w->owned[i]);
        assert_int_equal((uintptr_t)t->data % 64, 0);
        assert_encoded(t, from, to);
        n_bytes += tensor_bytes(t);
        size_t at = (size_t)((const char *)t - (const char *)&w->mtp);
        memcpy((char *)&rest + at, from, sizeof *from);
    }
    assert_int_equal(w->n_bytes, n_bytes);
    assert_memory_equal(&rest, &m->mtp, sizeof rest);
}

/* catches: a part that is another tensor, or the routed experts taken for a dense FFN */
static void test_parts_are_the_tensors_of_their_names(void **state)
{
    (void)state;
    static const char *const tensor_name[][2] = {{"fc_embedding", "nextn.fc_embd"},
                                                 {"fc_hidden", "nextn.fc_hidden"},
                                                 {"attn_q", "attn_q"},
                                                 {"attn_output", "attn_output"},
                                                 {"shared_gate", "ffn_gate_shexp"},
                                                 {"shared_up", "ffn_up_shexp"},
                                                 {"shared_down", "ffn_down_shexp"},
                                                 {"ffn_gate", "ffn_gate"},
                                                 {"ffn_up", "ffn_up"},
                                                 {"ffn_down", "ffn_down"},
                                                 {"hc_attn_down", "hc_attn_down"},
                                                 {"hc_attn_up", "hc_attn_up"},
                                                 {"hc_ffn_down", "hc_ffn_down"},
                                                 {"hc_ffn_up", "hc_ffn_up"},
                                                 {"hc_head_down", "nextn.hc_head_down"},
                                                 {"hc_head_up", "nextn.hc_head_up"}};
    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        tiny_opts o = opts_of(archs[a], DTYPE_BF16);
        o.split_eh = true;
        tiny_model t = open_tiny(&o, NULL);
        int n = 0;
        for (int i = 0; i < DRAFT_N_PART; i++) {
            const tensor *part = draft_part(&t.m->mtp, i);
            assert_string_equal(draft_part_name(i), tensor_name[i][0]);
            if (!part)
                continue;
            char want[64];
            snprintf(want, sizeof want, "blk.4.%s.weight", tensor_name[i][1]);
            assert_string_equal(part->name, want);
            n++;
        }
        const char *const *list;
        assert_int_equal(n, parts_of(archs[a], &list));
        tiny_close(&t);
    }
}

/* B087. catches: a type taken for another one; a matrix forgotten, or one too many (keys, router,
 * routed experts); both halves of eh_proj from the same columns; a stride of the whole kept */
static void test_weights_every_wish_converts_the_wide_matrices_alone(void **state)
{
    (void)state;
    static const struct {
        dtype file;
        draft_quant wish;
        dtype to;
    } c[] = {
        {DTYPE_F32, DRAFT_QUANT_DEFAULT, DTYPE_Q8_0}, {DTYPE_BF16, DRAFT_QUANT_DEFAULT, DTYPE_Q8_0},
        {DTYPE_F16, DRAFT_QUANT_DEFAULT, DTYPE_Q8_0}, {DTYPE_BF16, DRAFT_QUANT_Q8_0, DTYPE_Q8_0},
        {DTYPE_F32, DRAFT_QUANT_Q5_0, DTYPE_Q5_0},    {DTYPE_Q8_0, DRAFT_QUANT_Q5_0, DTYPE_Q5_0},
        {DTYPE_Q5_1, DRAFT_QUANT_Q5_0, DTYPE_Q5_0},   {DTYPE_BF16, DRAFT_QUANT_Q4_0, DTYPE_Q4_0},
        {DTYPE_Q8_0, DRAFT_QUANT_Q4_0, DTYPE_Q4_0},   {DTYPE_Q4_1, DRAFT_QUANT_Q4_0, DTYPE_Q4_0}};
    for (size_t a = 0; a < ARRAY_LEN(archs); a++)
        for (size_t i = 0; i < ARRAY_LEN(c); i++) {
            tiny_opts o = opts_of(archs[a], c[i].file);
            o.split_eh = i % 2;
            tiny_model t = open_tiny(&o, NULL);
            draft_weights *w = create(t.m, c[i].wish, DRAFT_QUANT_FILE);
            assert_converted(w, t.m, c[i].to, false);
            draft_weights_free(w);
            w = create(t.m, c[i].wish, c[i].wish);
            assert_converted(w, t.m, c[i].to, true);
            draft_weights_free(w);
            tiny_close(&t);
        }
}

/* catches: mixers converted by default */
static void test_weights_without_options_are_the_defaults(void **state)
{
    (void)state;
    tiny_opts o = opts_of(MODEL_QWEN4EXP, DTYPE_BF16);
    tiny_model t = open_tiny(&o, NULL);
    draft_weights *w;
    assert_int_equal(draft_weights_create(&w, t.m, NULL, NULL), FT_OK);
    assert_converted(w, t.m, DTYPE_Q8_0, false);
    draft_weights_free(w);
    tiny_close(&t);
}

/* catches: tensors looked for in the trunk's file */
static void test_weights_of_a_separate_file_are_converted(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARRAY_LEN(archs); a++) {
        tiny_opts side = opts_of(archs[a], DTYPE_F32), o = side;
        o.n_mtp = o.n_mtp_told = 0;
        tiny_model t = open_tiny(&o, &side);
        draft_weights *w = create(t.m, DRAFT_QUANT_Q5_0, DRAFT_QUANT_FILE);
        assert_converted(w, t.m, DTYPE_Q5_0, false);
        draft_weights_free(w);
        tiny_close(&t);
    }
}

/* ---- What stays ----------------------------------------------------------------------------- */

/* catches: Q4_K made into Q8_0 or Q4_0: no byte saved, and an error more */
static void test_weights_of_no_more_bits_stay_as_they_are(void **state)
{
    (void)state;
    static const struct {
        dtype file;
        draft_quant wish;
        draft_fate fate;
    } c[] = {
        {DTYPE_Q4_K, DRAFT_QUANT_DEFAULT, DRAFT_KEPT_FILE}, /* 4.5 bits */
        {DTYPE_Q4_K, DRAFT_QUANT_Q8_0, DRAFT_KEPT_BITS},
        {DTYPE_Q4_K, DRAFT_QUANT_Q5_0, DRAFT_KEPT_BITS},
        {DTYPE_Q4_K, DRAFT_QUANT_Q4_0, DRAFT_KEPT_BITS},
        {DTYPE_IQ4_XS, DRAFT_QUANT_Q4_0, DRAFT_KEPT_BITS}, /* 4.25 */
        {DTYPE_Q5_K, DRAFT_QUANT_Q5_0, DRAFT_KEPT_BITS},   /* 5.5 */
        {DTYPE_Q5_K, DRAFT_QUANT_Q4_0, DRAFT_CONVERTED},
        {DTYPE_Q6_K, DRAFT_QUANT_Q8_0, DRAFT_KEPT_BITS}, /* 6.5625 */
        {DTYPE_Q6_K, DRAFT_QUANT_Q5_0, DRAFT_CONVERTED},
        {DTYPE_Q8_0, DRAFT_QUANT_Q8_0, DRAFT_KEPT_FILE},
        {DTYPE_Q8_0, DRAFT_QUANT_DEFAULT, DRAFT_KEPT_FILE},
        {DTYPE_F32, DRAFT_QUANT_FILE, DRAFT_KEPT_FILE},
        {DTYPE_Q5_0, DRAFT_QUANT_Q8_0, DRAFT_KEPT_BITS},
    };
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        tiny_opts o = opts_of(MODEL_QWEN35MOE, DTYPE_BF16);
        o.n_embd = 256;
        o.retype = "blk.4.attn_q.weight";
        o.retype_to = c[i].file;
        tiny_model t = open_tiny(&o, NULL);
        draft_weights *w = create(t.m, c[i].wish, c[i].wish);
        const draft_weight *item = item_of(w, "attn_q");
        if (item->fate != c[i].fate)
            fail_msg("%s, wish %d: fate %d, want %d", dtype_name(c[i].file), (int)c[i].wish,
                     (int)item->fate, (int)c[i].fate);
        if (c[i].fate != DRAFT_CONVERTED)
            assert_memory_equal(&w->mtp.block.attn.q, &t.m->mtp.block.attn.q, sizeof(tensor));
        if (c[i].wish == DRAFT_QUANT_FILE)
            assert_int_equal(w->n_bytes, 0);
        else
            assert_int_equal(item_of(w, "attn_output")->fate, DRAFT_CONVERTED);
        draft_weights_free(w);
        tiny_close(&t);
    }
}

/* catches: a block that runs over the end of a row */
static void test_weights_with_rows_no_multiple_of_32_stay(void **state)
{
    (void)state;
    tiny_opts o = opts_of(MODEL_QWEN4EXP, DTYPE_F32);
    o.hc_rank = 8;
    o.n_ff_shexp = 40;
    tiny_model t = open_tiny(&o, NULL);
    draft_weights *w = create(t.m, DRAFT_QUANT_Q4_0, DRAFT_QUANT_Q8_0);
    static const char *const kept[] = {"shared_down", "hc_attn_up", "hc_ffn_up", "hc_head_up"};
    int n_kept = 0;
    for (int i = 0; i < w->n_item; i++)
        n_kept += w->item[i].fate == DRAFT_KEPT_ROWS;
    assert_int_equal(n_kept, ARRAY_LEN(kept));
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        const draft_weight *item = item_of(w, kept[i]);
        assert_int_equal(item->fate, DRAFT_KEPT_ROWS);
        assert_memory_equal(draft_part(&w->mtp, item->part), draft_part(&t.m->mtp, item->part),
                            sizeof(tensor));
    }
    assert_int_equal(item_of(w, "hc_attn_down")->to, DTYPE_Q8_0);
    assert_int_equal(item_of(w, "shared_up")->to, DTYPE_Q4_0);
    assert_non_null(strstr(draft_fate_text(DRAFT_KEPT_ROWS), "32"));
    draft_weights_free(w);
    tiny_close(&t);
}

/* catches: finite weights that become infinite, or damage spread over a block */
static void test_weights_with_values_that_do_not_fit_stay(void **state)
{
    (void)state;
    static const struct {
        float value;
        draft_quant wish;
        draft_fate fate;
    } c[] = {
        {NAN, DRAFT_QUANT_Q8_0, DRAFT_KEPT_VALUES},
        {-INFINITY, DRAFT_QUANT_Q4_0, DRAFT_KEPT_VALUES},
        {8.33e6f, DRAFT_QUANT_Q8_0, DRAFT_KEPT_VALUES},
        {8.31e6f, DRAFT_QUANT_Q8_0, DRAFT_CONVERTED},
        {1.0482e6f, DRAFT_QUANT_Q5_0, DRAFT_KEPT_VALUES},
        {1.0479e6f, DRAFT_QUANT_Q5_0, DRAFT_CONVERTED},
        {-524100.0f, DRAFT_QUANT_Q4_0, DRAFT_KEPT_VALUES},
        {524000.0f, DRAFT_QUANT_Q4_0, DRAFT_CONVERTED},
    };
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        tiny_opts o = opts_of(MODEL_QWEN35, DTYPE_F32);
        tiny_model t = open_tiny(&o, NULL);
        tensor *q = &t.m->mtp.block.attn.q;
        float *x = malloc(tensor_bytes(q));
        assert_non_null(x);
        memcpy(x, q->data, tensor_bytes(q));
        x[(size_t)q->n_row * (size_t)q->n_col - 1] = c[i].value;
        q->data = x;
        draft_weights *w = create(t.m, c[i].wish, c[i].wish);
        const draft_weight *item = item_of(w, "attn_q");
        assert_int_equal(item->fate, c[i].fate);
        if (c[i].fate == DRAFT_KEPT_VALUES) {
            assert_ptr_equal(w->mtp.block.attn.q.data, x);
            assert_int_equal(item->to, DTYPE_F32);
            assert_null(w->owned[2]);
        }
        draft_weights_free(w);
        tiny_close(&t);
        free(x);
    }
}

/* ---- Failures ------------------------------------------------------------------------------- */

/* catches: a leak (under ASan), half a copy handed out, a failure without a message */
static void test_weights_each_failed_allocation_is_reported(void **state)
{
    (void)state;
    tiny_opts o = opts_of(MODEL_QWEN4EXP, DTYPE_BF16);
    tiny_model t = open_tiny(&o, NULL);
    draft_weights_opts wish = {.wide = DRAFT_QUANT_Q8_0, .mixers = DRAFT_QUANT_Q8_0};
    int n_failed = 0;
    for (;; n_failed++) {
        ft_error err = {0};
        draft_weights *w = (draft_weights *)&t;
        mem_fail_at(n_failed + 1);
        ft_status st = draft_weights_create(&w, t.m, &wish, &err);
        mem_fail_at(0);
        if (st == FT_OK) {
            draft_weights_free(w);
            break;
        }
        assert_int_equal(st, FT_NOMEM);
        assert_null(w);
        assert_non_null(strstr(err.msg, "draft weights"));
    }
    assert_int_equal(n_failed, 2 + 13); /* the object, a row, the matrices */
    tiny_close(&t);
}

/* catches: a copy of zeros, a wish beyond the list taken for the default */
static void test_weights_refusals_name_the_reason(void **state)
{
    (void)state;
    tiny_opts o = opts_of(MODEL_QWEN35, DTYPE_BF16);
    o.n_mtp = o.n_mtp_told = 0;
    tiny_model t = open_tiny(&o, NULL);
    ft_error err = {0};
    draft_weights *w = (draft_weights *)&t;
    assert_int_equal(draft_weights_create(&w, t.m, NULL, &err), FT_UNSUPPORTED);
    assert_null(w);
    assert_non_null(strstr(err.msg, "the file has no MTP block"));
    draft_weights_opts bad = {.wide = DRAFT_QUANT_FILE, .mixers = (draft_quant)9};
    err = (ft_error){0};
    assert_int_equal(draft_weights_create(&w, t.m, &bad, &err), FT_ARG);
    assert_non_null(strstr(err.msg, "mixers: 9, want 0 to 4"));
    tiny_close(&t);
    draft_weights_free(NULL);
}

/* catches: a misspelt option that silently means something */
static void test_quant_parse_knows_its_names_alone(void **state)
{
    (void)state;
    static const char *const name[] = {"default", "file", "q8_0", "q5_0", "q4_0"};
    static const char *const bad[] = {"", "Q8_0 ", "q8", "bf16", "auto", NULL};
    draft_quant q;
    for (size_t i = 0; i < ARRAY_LEN(name); i++) {
        assert_int_equal(draft_quant_parse(&q, name[i], NULL), FT_OK);
        assert_int_equal(q, i);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        ft_error err = {0};
        assert_int_equal(draft_quant_parse(&q, bad[i], &err), FT_ARG);
        assert_non_null(strstr(err.msg, "default, file, q8_0, q5_0 or q4_0"));
    }
}

/* ---- The error report ----------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static float gauss(uint64_t i)
{
    double u = ((double)(mix(~(2 * i)) >> 11) + 0.5) * 0x1p-53;
    double v = ((double)(mix(~(2 * i + 1)) >> 11) + 0.5) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

enum { ROWS = 512, COLS = 128 };

static tensor matrix(const float *x, int n_row, int n_col, int stride)
{
    return (tensor){.data = x,
                    .type = DTYPE_F32,
                    .n_col = n_col,
                    .n_row = n_row,
                    .n_mat = 1,
                    .row_bytes = (size_t)stride * sizeof *x,
                    .mat_bytes = (size_t)stride * (size_t)n_row * sizeof *x,
                    .name = "w"};
}

static void measure(double e[DRAFT_N_CODE], const tensor *t)
{
    ft_error err = {0};
    if (draft_weights_error(e, t, &err) != FT_OK)
        fail_msg("%s", err.msg);
}

/* catches: a wrong type, sum or root: for Gaussian weights the errors are known from theory and from
 * a separate program (steps of max / 127, / 16, / 8; fitted: 0.8900 of the plain squared error) */
static void test_error_of_gaussian_weights_is_the_known_one(void **state)
{
    (void)state;
    static const double want[DRAFT_N_CODE] = {0.00543, 0.0430, 0.0860, 0.0811};
    static float x[ROWS * COLS];
    double e[DRAFT_N_CODE];
    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        x[i] = 0.02f * gauss(i);
    tensor t = matrix(x, ROWS, COLS, COLS);
    measure(e, &t);
    for (int c = 0; c < DRAFT_N_CODE; c++)
        if (fabs(e[c] / want[c] - 1) > 0.04)
            fail_msg("code %d: %.5f, want %.5f", c, e[c], want[c]);
    assert_true(e[DRAFT_CODE_Q4_0] < 0.97 * e[DRAFT_CODE_Q4_0_PLAIN]);
}

/* catches: a difference of large sums, a row compared with another one */
static void test_error_of_weights_on_the_grid_is_zero(void **state)
{
    (void)state;
    static float x[ROWS * COLS];
    double e[DRAFT_N_CODE];
    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        x[i] = i % 32 == 0 ? -8 : (float)(int)(mix(i) % 16) - 8;
    tensor t = matrix(x, ROWS, COLS, COLS);
    measure(e, &t);
    for (int c = DRAFT_CODE_Q5_0; c < DRAFT_N_CODE; c++)
        assert_true(e[c] == 0);
    memset(x, 0, sizeof x);
    measure(e, &t);
    for (int c = 0; c < DRAFT_N_CODE; c++)
        assert_true(e[c] == 0);
}

/* catches: the first rows taken for all */
static void test_error_rows_are_spread_over_the_matrix(void **state)
{
    (void)state;
    static float x[ROWS * COLS];
    double e[DRAFT_N_CODE];
    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        x[i] = i < ARRAY_LEN(x) / 2 ? (i % 32 ? 0.0f : -8.0f) : gauss(i);
    tensor t = matrix(x, ROWS, COLS, COLS);
    measure(e, &t);
    assert_true(e[DRAFT_CODE_Q5_0] > 0.01);
}

/* catches: the stride of the whole matrix ignored for a half of eh_proj */
static void test_error_of_a_part_is_that_of_its_copy(void **state)
{
    (void)state;
    static float whole[64 * 2 * COLS], half[64 * COLS];
    double a[DRAFT_N_CODE], b[DRAFT_N_CODE];
    for (size_t i = 0; i < ARRAY_LEN(whole); i++)
        whole[i] = gauss(i) * (i / COLS % 2 ? 1.0f : (float)(i % 7));
    for (size_t r = 0; r < 64; r++)
        memcpy(half + r * COLS, whole + (2 * r + 1) * COLS, COLS * sizeof *half);
    tensor t = matrix(whole + COLS, 64, COLS, 2 * COLS), u = matrix(half, 64, COLS, COLS);
    measure(a, &t);
    measure(b, &u);
    assert_memory_equal(a, b, sizeof a);
}

/* catches: a NaN that a comparison turns into 0, a block past the end of a row, a leak */
static void test_error_bad_values_rows_and_memory_are_seen(void **state)
{
    (void)state;
    static float x[4 * COLS];
    double e[DRAFT_N_CODE];
    for (size_t i = 0; i < ARRAY_LEN(x); i++)
        x[i] = gauss(i);
    tensor t = matrix(x, 4, COLS, COLS);
    for (long n = 1; n <= 4; n++) {
        ft_error err = {0};
        mem_fail_at(n);
        assert_int_equal(draft_weights_error(e, &t, &err), FT_NOMEM);
        mem_fail_at(0);
        assert_non_null(strstr(err.msg, "128"));
    }
    x[77] = NAN;
    measure(e, &t);
    for (int c = 0; c < DRAFT_N_CODE; c++)
        assert_true(isnan(e[c]));
    ft_error err = {0};
    t.n_col = 33;
    assert_int_equal(draft_weights_error(e, &t, &err), FT_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "rows of 33 values"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_the_tensors_of_their_names),
        cmocka_unit_test(test_weights_every_wish_converts_the_wide_matrices_alone),
        cmocka_unit_test(test_weights_without_options_are_the_defaults),
        cmocka_unit_test(test_weights_of_a_separate_file_are_converted),
        cmocka_unit_test(test_weights_of_no_more_bits_stay_as_they_are),
        cmocka_unit_test(test_weights_with_rows_no_multiple_of_32_stay),
        cmocka_unit_test(test_weights_with_values_that_do_not_fit_stay),
        cmocka_unit_test(test_weights_each_failed_allocation_is_reported),
        cmocka_unit_test(test_weights_refusals_name_the_reason),
        cmocka_unit_test(test_quant_parse_knows_its_names_alone),
        cmocka_unit_test(test_error_of_gaussian_weights_is_the_known_one),
        cmocka_unit_test(test_error_of_weights_on_the_grid_is_zero),
        cmocka_unit_test(test_error_rows_are_spread_over_the_matrix),
        cmocka_unit_test(test_error_of_a_part_is_that_of_its_copy),
        cmocka_unit_test(test_error_bad_values_rows_and_memory_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
