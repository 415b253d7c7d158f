/* test_kern_attn.c - attention of one KV head: every level against the reference, bit by bit, and
 * the reference against a softmax in double. `--bench` measures instead. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "kern/rig.h"

static const dtype kv_types[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};

enum { MAX_PAGES = 64 };

/* K and V of some cells, queries, and a span over them. A page holds the keys, then the values; the last
 * one ends with the last value. Between the values of a cell and the next one, between queries, and behind
 * the last key lie bytes that read as NaN (B044). */
typedef struct {
    kern_attn a; /* m, l, acc NULL */
    void **page; /* [MAX_PAGES] */
    float *q;
    int32_t *cell;
    int n_stored;
} scene;

static uint8_t *cell_at(const scene *s, size_t k_or_v, int i)
{
    return (uint8_t *)s->page[i / KERN_ATTN_PAGE] + k_or_v +
           (size_t)(i % KERN_ATTN_PAGE) * s->a.cell_bytes;
}

static void make_pages(scene *s)
{
    const size_t row_bytes = dtype_row_bytes((dtype)s->a.kv_type, (size_t)s->a.d);
    s->page = calloc(MAX_PAGES, sizeof *s->page);
    assert_non_null(s->page);
    s->a.page = (const void *const *)s->page;
    s->a.k = 0;
    s->a.v = KERN_ATTN_PAGE * s->a.cell_bytes;
    assert_true(s->n_stored <= MAX_PAGES * KERN_ATTN_PAGE);
    for (int i = 0; i < s->n_stored; i += KERN_ATTN_PAGE) {
        const int left = s->n_stored - i;
        const int n = left < KERN_ATTN_PAGE ? left : KERN_ATTN_PAGE;
        const size_t bytes = s->a.v + (size_t)(n - 1) * s->a.cell_bytes + row_bytes;
        s->page[i / KERN_ATTN_PAGE] = malloc(bytes);
        assert_non_null(s->page[i / KERN_ATTN_PAGE]);
        memset(s->page[i / KERN_ATTN_PAGE], 0xff, bytes);
    }
}

static void make_cells(const scene *s, size_t k_or_v, uint64_t *seed, rig_kind kind)
{
    const size_t d = (size_t)s->a.d;
    float *row = malloc(d * sizeof *row);
    assert_non_null(row);
    for (int i = 0; i < s->n_stored; i++) {
        rig_fill(row, d, seed, kind);
        assert_true(kern_encode(s->a.kv_type, cell_at(s, k_or_v, i), row, d));
    }
    free(row);
}

static scene scene_init(dtype type, int d, int n_q, int n_cell, rig_kind kind, uint64_t *seed)
{
    scene s = {.n_stored = n_cell + n_cell / 2 + 3};
    s.a = (kern_attn){.q_stride = (size_t)d + 5, .n_q = n_q, .d = d, .kv_type = type, .first = 2};
    s.a.cell_bytes = dtype_row_bytes(type, (size_t)d) + 4 * (size_t)(d % 3);
    s.a.n_cell = n_cell;
    s.a.scale = 1.0f / sqrtf((float)d);
    const size_t n_float = (size_t)(n_q - 1) * s.a.q_stride + (size_t)d;
    s.q = malloc(n_float * sizeof *s.q);
    s.cell = malloc((size_t)n_cell * sizeof *s.cell);
    assert_true(s.q && s.cell);
    memset(s.q, 0xff, n_float * sizeof *s.q);
    for (int h = 0; h < n_q; h++)
        rig_fill(s.q + (size_t)h * s.a.q_stride, (size_t)d, seed, kind);
    int at = 0;
    for (int i = 0; i < n_cell; i++) {
        s.cell[i] = at;
        at += 1 + (rig_bits(seed) % 2 && at - i < n_cell / 2);
    }
    make_pages(&s);
    make_cells(&s, s.a.k, seed, kind);
    make_cells(&s, s.a.v, seed, kind);
    s.a.q = s.q;
    return s;
}

static void scene_deinit(scene *s)
{
    for (int i = 0; i < MAX_PAGES; i++)
        free(s->page[i]);
    free(s->page);
    free(s->q);
    free(s->cell);
}

/* The running softmax of a span: m, l and acc in one row, guarded. */
typedef struct {
    rig_mem mem;
    float *m, *l, *acc;
    size_t n;
} result;

static result result_init(const kern_attn *a, size_t shift)
{
    result r = {.n = (size_t)a->n_q * (size_t)(a->d + 2)};
    r.m = rig_floats(&r.mem, r.n, shift);
    r.l = r.m + a->n_q;
    r.acc = r.l + a->n_q;
    for (size_t i = 0; i < r.n; i++)
        r.m[i] = i < (size_t)a->n_q ? -INFINITY : 0.0f;
    return r;
}

/* Run a span (the whole of it, of a and the list) on r. */
static void run(const kern_table *k, kern_attn a, const int32_t *cell, const result *r)
{
    a.cell = cell;
    a.m = r->m;
    a.l = r->l;
    a.acc = r->acc;
    k->attn(&a);
}

static void same(const result *got, const result *want, const char *what, const kern_table *k,
                 long size)
{
    rig_same(got->m, want->m, want->n, what, k->name, size);
    rig_check(&got->mem);
}

static void compare(const kern_table *ref, const kern_table *k, const scene *s)
{
    for (int list = 0; list < 2; list++) {
        result want = result_init(&s->a, 0);
        result got = result_init(&s->a, (size_t)s->a.n_cell % 4);
        run(ref, s->a, list ? s->cell : NULL, &want);
        run(k, s->a, list ? s->cell : NULL, &got);
        same(&got, &want, list ? "attn, a list of cells" : "attn", k, s->a.n_cell);
        rig_free(&want.mem);
        rig_free(&got.mem);
    }
}

/* Bug: tails of cells, of heads or of columns; strides (B044); special values; sums in another
 * order in one instruction set. */
static void test_attn_every_level_has_the_bits_of_ref(void **state)
{
    (void)state;
    static const int dims[] = {16, 32, 48, 64, 80, 96, 112, 128, 160, 256, 512};
    kern_table ref, k;
    rig_level(&ref, 0);
    uint64_t seed = 1;
    for (int level = 1; rig_level(&k, level); level++) {
        for (int n = 1; n <= 130; n += n == 70 ? 57 : 1) {
            for (size_t t = 0; t < ARRAY_LEN(kv_types); t++) {
                const int d = dims[((size_t)n + t) % ARRAY_LEN(dims)];
                if (d % dtype_find(kv_types[t])->block_values != 0)
                    continue;
                const rig_kind kind = (rig_kind)(rig_bits(&seed) % RIG_N_KIND);
                const rig_kind ok = kv_types[t] == DTYPE_Q8_0 ? RIG_PLAIN : kind;
                scene s = scene_init(kv_types[t], d, 1 + n * 7 % 32, n, ok, &seed);
                compare(&ref, &k, &s);
                scene_deinit(&s);
            }
        }
    }
}

/* Bug: a head whose bits depend on how many heads share the call (B118). */
static void test_attn_heads_together_equal_heads_alone(void **state)
{
    (void)state;
    kern_table k;
    uint64_t seed = 2;
    for (int level = 0; rig_level(&k, level); level++) {
        for (int n_q = 1; n_q <= 32; n_q++) {
            scene s = scene_init(DTYPE_F16, 64, n_q, 45, RIG_PLAIN, &seed);
            result all = result_init(&s.a, 0);
            run(&k, s.a, NULL, &all);
            for (int h = 0; h < n_q; h++) {
                kern_attn one = s.a;
                one.q += (size_t)h * s.a.q_stride;
                one.n_q = 1;
                result r = result_init(&one, 0);
                run(&k, one, NULL, &r);
                rig_same(r.m, &all.m[h], 1, "attn m", k.name, n_q);
                rig_same(r.l, &all.l[h], 1, "attn l", k.name, n_q);
                rig_same(r.acc, all.acc + (size_t)h * 64, 64, "attn acc", k.name, n_q);
                rig_free(&r.mem);
            }
            rig_free(&all.mem);
            scene_deinit(&s);
        }
    }
}

/* Bug: state between two calls lost or rounded; blocks counted from the call's start in the cells'
 * positions instead of the list. */
static void test_attn_span_cut_at_a_block_equals_the_whole(void **state)
{
    (void)state;
    kern_table k;
    uint64_t seed = 3;
    scene s = scene_init(DTYPE_F16, 96, 6, 205, RIG_PLAIN, &seed);
    for (int level = 0; rig_level(&k, level); level++) {
        for (int list = 0; list < 2; list++) {
            const int32_t *cell = list ? s.cell : NULL;
            result whole = result_init(&s.a, 0);
            run(&k, s.a, cell, &whole);
            for (int cut = KERN_ATTN_BLOCK; cut < 205; cut += KERN_ATTN_BLOCK) {
                result parts = result_init(&s.a, 0);
                kern_attn a = s.a;
                a.n_cell = cut;
                run(&k, a, cell, &parts);
                a.n_cell = 205 - cut;
                a.first += cut;
                run(&k, a, cell ? cell + cut : NULL, &parts);
                same(&parts, &whole, "attn in two calls", &k, cut);
                rig_free(&parts.mem);
            }
            rig_free(&whole.mem);
        }
    }
    scene_deinit(&s);
}

/* Bug: a list and a range that go different ways. */
static void test_attn_list_of_a_range_equals_the_range(void **state)
{
    (void)state;
    kern_table k;
    uint64_t seed = 4;
    scene s = scene_init(DTYPE_Q8_0, 64, 5, 77, RIG_PLAIN, &seed);
    for (int i = 0; i < 77; i++)
        s.cell[i] = s.a.first + i;
    for (int level = 0; rig_level(&k, level); level++) {
        result range = result_init(&s.a, 0);
        result list = result_init(&s.a, 0);
        run(&k, s.a, NULL, &range);
        run(&k, s.a, s.cell, &list);
        same(&list, &range, "attn, list of a range", &k, 77);
        rig_free(&range.mem);
        rig_free(&list.mem);
    }
    scene_deinit(&s);
}

/* Bug: pages taken to lie side by side, or a border found a cell early or late. */
static void test_attn_cells_over_pages_equal_cells_in_one(void **state)
{
    (void)state;
    kern_table k;
    uint64_t seed = 13;
    enum { N = 1100, SHOWN = 300 };
    static const int starts[] = {0, 211, 212, 213, 300, 511, 512, 513, 723, 725, 799};
    scene s = scene_init(DTYPE_F16, 48, 3, N, RIG_PLAIN, &seed);
    for (size_t t = 0; t < ARRAY_LEN(starts); t++) {
        scene one = scene_init(DTYPE_F16, 48, 3, SHOWN, RIG_PLAIN, &seed);
        memcpy(one.q, s.q, (2 * s.a.q_stride + 48) * sizeof *s.q);
        one.a.first = 0;
        s.a.first = starts[t];
        s.a.n_cell = SHOWN;
        for (int i = 0; i < SHOWN; i++) {
            s.cell[i] = starts[t] + i;
            memcpy(cell_at(&one, one.a.k, i), cell_at(&s, s.a.k, starts[t] + i), 96);
            memcpy(cell_at(&one, one.a.v, i), cell_at(&s, s.a.v, starts[t] + i), 96);
        }
        for (int level = 0; rig_level(&k, level); level++)
            for (int list = 0; list < 2; list++) {
                result want = result_init(&s.a, 0), got = result_init(&s.a, 0);
                run(&k, one.a, NULL, &want);
                run(&k, s.a, list ? s.cell : NULL, &got);
                same(&got, &want, "attn over pages", &k, starts[t]);
                rig_free(&want.mem);
                rig_free(&got.mem);
            }
        scene_deinit(&one);
    }
    scene_deinit(&s);
}

/* Bug: no cells turn the state into NaN. */
static void test_attn_no_cells_changes_nothing(void **state)
{
    (void)state;
    kern_table k;
    uint64_t seed = 5;
    scene s = scene_init(DTYPE_F32, 32, 3, 4, RIG_PLAIN, &seed);
    for (int level = 0; rig_level(&k, level); level++) {
        result want = result_init(&s.a, 0);
        result got = result_init(&s.a, 0);
        run(&k, s.a, NULL, &want);
        run(&k, s.a, NULL, &got);
        kern_attn none = s.a;
        none.n_cell = 0;
        run(&k, none, NULL, &got);
        same(&got, &want, "attn, no cells", &k, 0);
        rig_free(&want.mem);
        rig_free(&got.mem);
    }
    scene_deinit(&s);
}

/* Bug: softmax of one score that is not 1; V read from K's cell. */
static void test_attn_one_cell_gives_its_value(void **state)
{
    (void)state;
    kern_table k;
    uint64_t seed = 6;
    scene s = scene_init(DTYPE_F16, 48, 9, 1, RIG_PLAIN, &seed);
    float v[48];
    assert_true(kern_decode(DTYPE_F16, v, cell_at(&s, s.a.v, 2), 48));
    for (int level = 0; rig_level(&k, level); level++) {
        result r = result_init(&s.a, 0);
        run(&k, s.a, NULL, &r);
        for (int h = 0; h < 9; h++) {
            assert_true(r.l[h] == 1.0f);
            rig_same(r.acc + (size_t)h * 48, v, 48, "attn acc", k.name, 1);
        }
        rig_free(&r.mem);
    }
    scene_deinit(&s);
}

/* Bug: padding of the last block counted in l. Equal keys: every probability is 1. */
static void test_attn_equal_scores_count_the_cells(void **state)
{
    (void)state;
    kern_table k;
    uint64_t seed = 7;
    scene s = scene_init(DTYPE_F32, 16, 4, 70, RIG_PLAIN, &seed);
    for (int i = 1; i < s.n_stored; i++)
        memcpy(cell_at(&s, s.a.k, i), cell_at(&s, s.a.k, 0), 16 * sizeof(float));
    for (int level = 0; rig_level(&k, level); level++) {
        result r = result_init(&s.a, 0);
        run(&k, s.a, NULL, &r);
        for (int h = 0; h < 4; h++)
            assert_true(r.l[h] == 70.0f);
        rig_free(&r.mem);
    }
    scene_deinit(&s);
}

/* Bug: -inf - -inf. Scores of -inf in a whole block, first or later, add nothing; alone they leave
 * the state empty. */
static void test_attn_scores_of_minus_infinity_add_nothing(void **state)
{
    (void)state;
    kern_table k;
    uint64_t seed = 8;
    scene s = scene_init(DTYPE_F32, 16, 2, 96, RIG_PLAIN, &seed);
    for (size_t i = 0; i < s.a.q_stride + 16; i++)
        s.q[i] = fabsf(s.q[i]) + 0.1f;          /* the gap stays NaN */
    static const int dead_from[] = {0, 32, 64}; /* in list entries */
    for (int level = 0; rig_level(&k, level); level++) {
        for (size_t t = 0; t < ARRAY_LEN(dead_from); t++) {
            uint8_t *dead = cell_at(&s, s.a.k, s.a.first + dead_from[t]);
            const size_t n_bytes = KERN_ATTN_BLOCK * s.a.cell_bytes;
            uint8_t *kept = malloc(n_bytes);
            assert_non_null(kept);
            memcpy(kept, dead, n_bytes);
            for (size_t i = 0; i < n_bytes / sizeof(float); i++)
                ((float *)(void *)dead)[i] = -INFINITY;

            result got = result_init(&s.a, 0);
            result want = result_init(&s.a, 0);
            run(&k, s.a, NULL, &got);
            for (int i = 0; i < 96; i++)
                s.cell[i] = s.a.first + i + (i >= dead_from[t] ? KERN_ATTN_BLOCK : 0);
            kern_attn a = s.a;
            a.n_cell = 64;
            run(&k, a, s.cell, &want);
            same(&got, &want, "attn, -inf in a block", &k, dead_from[t]);

            result empty = result_init(&s.a, 0);
            a.first += dead_from[t];
            a.n_cell = KERN_ATTN_BLOCK;
            run(&k, a, NULL, &empty);
            assert_true(empty.m[0] == -INFINITY && empty.l[0] == 0.0f && empty.acc[0] == 0.0f);
            memcpy(dead, kept, n_bytes);
            free(kept);
            rig_free(&got.mem);
            rig_free(&want.mem);
            rig_free(&empty.mem);
        }
    }
    scene_deinit(&s);
}

/* Bug: a NaN key that is passed over in silence, or that spreads to another head. */
static void test_attn_nan_key_makes_the_result_nan(void **state)
{
    (void)state;
    kern_table k;
    uint64_t seed = 9;
    scene s = scene_init(DTYPE_F32, 16, 2, 40, RIG_PLAIN, &seed);
    ((float *)(void *)cell_at(&s, s.a.k, 20))[3] = NAN;
    for (int level = 0; rig_level(&k, level); level++) {
        result r = result_init(&s.a, 0);
        run(&k, s.a, NULL, &r);
        assert_true(isnan(r.l[0]) && isnan(r.acc[0]) && !isnan(r.m[0]));
        rig_free(&r.mem);
    }
    scene_deinit(&s);
}

/* Bug: an offset in a page in 32 bits. The page is 5 GiB of reserved, untouched memory. */
static void test_attn_cell_past_4_gib_is_found(void **state)
{
    (void)state;
    const size_t reserved = (size_t)5 << 30;
    uint8_t *base = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        skip();
    kern_table k;
    uint64_t seed = 10;
    scene s = scene_init(DTYPE_F32, 16, 1, 1, RIG_PLAIN, &seed);
    const void *page[] = {NULL, base};
    s.a.page = page;
    s.a.cell_bytes = 1 << 24;
    s.a.first = KERN_ATTN_PAGE + 300; /* x 2^24 = 4.69 GiB */
    float *row = (float *)(void *)(base + 300 * s.a.cell_bytes);
    rig_fill(row, 16, &seed, RIG_PLAIN);
    s.a.k = s.a.v = 0;
    for (int level = 0; rig_level(&k, level); level++) {
        result r = result_init(&s.a, 0);
        run(&k, s.a, NULL, &r);
        rig_same(r.acc, row, 16, "attn acc", k.name, 1);
        rig_free(&r.mem);
    }
    scene_deinit(&s);
    munmap(base, reserved);
}

/* o of one head in double; returns the error that the roundings may make (see below). */
static double attend_double(double *o, const scene *c, int h)
{
    const kern_attn *a = &c->a;
    static double s[1024];
    float row[KERN_ATTN_MAX_D];
    double m = -HUGE_VAL, terms = 0.0, l = 0.0, v_max = 0.0;
    for (int j = 0; j < a->n_cell; j++) {
        double abs_sum = 0.0;
        kern_decode(a->kv_type, row, cell_at(c, a->k, a->first + j), (size_t)a->d);
        s[j] = 0.0;
        for (int i = 0; i < a->d; i++) {
            const double x = (double)row[i] * (double)a->q[(size_t)h * a->q_stride + (size_t)i];
            s[j] += x;
            abs_sum += fabs(x);
        }
        s[j] *= (double)a->scale;
        terms = fmax(terms, abs_sum * (double)a->scale);
        m = fmax(m, s[j]);
    }
    for (int i = 0; i < a->d; i++)
        o[i] = 0.0;
    for (int j = 0; j < a->n_cell; j++) {
        const double p = exp(s[j] - m);
        l += p;
        kern_decode(a->kv_type, row, cell_at(c, a->v, a->first + j), (size_t)a->d);
        for (int i = 0; i < a->d; i++) {
            o[i] += p * (double)row[i];
            v_max = fmax(v_max, fabs((double)row[i]));
        }
    }
    for (int i = 0; i < a->d; i++)
        o[i] /= l;
    return 0x1p-23 * v_max * (terms * (a->d / 16 + 8) + a->n_cell + 16);
}

/* Bug: a formula misread, a lost cell, a scale at the wrong place. Bound: each score is off by at
 * most its lane sum's roundings (d / 16 + 8 of the terms' absolute sum), which a probability takes
 * over relatively; sums over n cells add at most n roundings of the largest |v|. */
static void test_ref_attn_follows_the_formula(void **state)
{
    (void)state;
    static const int dims[] = {64, 128, 256};
    kern_table k;
    rig_level(&k, 0);
    uint64_t seed = 11;
    double worst = 0.0, share = 0.0;
    for (size_t t = 0; t < ARRAY_LEN(kv_types); t++) {
        for (int n = 1; n <= 1000; n = n * 3 + 1) {
            const int d = dims[(size_t)n % ARRAY_LEN(dims)];
            scene s = scene_init(kv_types[t], d, 3, n, RIG_PLAIN, &seed);
            result r = result_init(&s.a, 0);
            run(&k, s.a, NULL, &r);
            for (int h = 0; h < 3; h++) {
                double o[KERN_ATTN_MAX_D];
                const double bound = attend_double(o, &s, h);
                for (int i = 0; i < d; i++) {
                    const double got =
                        (double)r.acc[(size_t)h * (size_t)d + (size_t)i] / (double)r.l[h];
                    worst = fmax(worst, fabs(got - o[i]));
                    share = fmax(share, fabs(got - o[i]) / bound);
                }
            }
            rig_free(&r.mem);
            scene_deinit(&s);
        }
    }
    print_message("attn: worst error %.3g, %.2g of the bound\n", worst, share);
    assert_true(share <= 1.0);
}

/* ---- Bench ---------------------------------------------------------------------------------- */

/* n_head_kv heads side by side in a cell, as in a cache of n_cell cells. */
static void bench_one(const kern_table *k, dtype type, int d, int n_q, int n_head_kv, int n_cell)
{
    uint64_t seed = 12;
    scene s = scene_init(type, d * n_head_kv, 1, n_cell, RIG_PLAIN, &seed);
    float *q = rig_input((size_t)n_q * (size_t)d, &seed, RIG_PLAIN);
    kern_attn a = s.a;
    a.q = q;
    a.q_stride = (size_t)d;
    a.n_q = n_q;
    a.d = d;
    a.first = 0;
    const size_t head_bytes = dtype_row_bytes(type, (size_t)d);
    double best = HUGE_VAL;
    result r = result_init(&a, 0);
    const double end = rig_seconds() + 0.3;
    for (double t0 = rig_seconds(); t0 < end; t0 = rig_seconds()) {
        for (int h = 0; h < n_head_kv; h++) {
            a.k = s.a.k + (size_t)h * head_bytes;
            a.v = s.a.v + (size_t)h * head_bytes;
            run(k, a, NULL, &r);
        }
        best = fmin(best, rig_seconds() - t0);
    }
    const double bytes = 2.0 * (double)a.cell_bytes * n_cell;
    const double flop = 4.0 * d * n_q * n_head_kv * n_cell;
    printf(
        "%-8s attn %-4s d %3d, %2d heads of q, %d of kv, %5d cells: %9.0f ns a call, %6.2f GB/s, "
        "%6.2f GFLOP/s\n",
        k->name, dtype_name(type), d, n_q, n_head_kv, n_cell, best / n_head_kv * 1e9,
        bytes / best * 1e-9, flop / best * 1e-9);
    rig_free(&r.mem);
    free(q);
    scene_deinit(&s);
}

static int bench(void)
{
    static const struct {
        dtype type;
        int d, n_q, n_head_kv;
    } shape[] = {
        {DTYPE_F16, 256, 12, 2}, {DTYPE_F16, 256, 6, 4},   {DTYPE_F16, 256, 4, 2},
        {DTYPE_F16, 128, 8, 4},  {DTYPE_F16, 64, 4, 4},    {DTYPE_F16, 128, 1, 8},
        {DTYPE_F32, 256, 12, 2}, {DTYPE_Q8_0, 256, 12, 2}, {DTYPE_Q8_0, 128, 4, 4},
    };
    kern_table k;
    for (int level = 0; rig_level(&k, level); level++)
        for (size_t i = 0; i < ARRAY_LEN(shape); i++)
            for (int n_cell = 512; n_cell <= 16384; n_cell *= 32)
                bench_one(&k, shape[i].type, shape[i].d, shape[i].n_q, shape[i].n_head_kv, n_cell);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--bench") == 0)
        return bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attn_every_level_has_the_bits_of_ref),
        cmocka_unit_test(test_attn_heads_together_equal_heads_alone),
        cmocka_unit_test(test_attn_span_cut_at_a_block_equals_the_whole),
        cmocka_unit_test(test_attn_list_of_a_range_equals_the_range),
        cmocka_unit_test(test_attn_cells_over_pages_equal_cells_in_one),
        cmocka_unit_test(test_attn_no_cells_changes_nothing),
        cmocka_unit_test(test_attn_one_cell_gives_its_value),
        cmocka_unit_test(test_attn_equal_scores_count_the_cells),
        cmocka_unit_test(test_attn_scores_of_minus_infinity_add_nothing),
        cmocka_unit_test(test_attn_nan_key_makes_the_result_nan),
        cmocka_unit_test(test_attn_cell_past_4_gib_is_found),
        cmocka_unit_test(test_ref_attn_follows_the_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
