/* test_state_pages.c - pages of cells: reserved, shared, copied by the first who writes, counted. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "state/pages.h"

enum { PAGE_BYTES = 4096, N_CELL = 4 * BE_PAGE + 3 };

static backend *be;

static int setup(void **state)
{
    (void)state;
    backend_params p = {.n_thread = 1};
    return backend_create(&be, &p, NULL) == FT_OK ? 0 : 1;
}

static int teardown(void **state)
{
    (void)state;
    backend_free(be);
    return 0;
}

static pages make(void)
{
    pages p;
    assert_int_equal(pages_init(&p, be, PAGE_BYTES, N_CELL, NULL), FT_OK);
    return p;
}

static void reserve(pages *p, int first, int n)
{
    assert_int_equal(pages_reserve(p, first, n, NULL), FT_OK);
}

static void fill(pages *p, int i, int value)
{
    memset(p->page[i], value, PAGE_BYTES);
}

static void expect(const pages *p, int i, int value)
{
    const uint8_t *at = p->page[i];
    assert_non_null(at);
    for (int k = 0; k < PAGE_BYTES; k++)
        assert_int_equal(at[k], value);
}

/* Catches a border a cell early or late, and pages that are taken for cells nobody writes. */
static void test_pages_reserve_takes_the_pages_of_the_range_alone(void **state)
{
    (void)state;
    static const struct {
        int first, n, page0, page1; /* pages page0 .. page1 - 1 are there */
    } table[] = {
        {0, 1, 0, 1},     {0, 511, 0, 1}, {0, 512, 0, 1},  {0, 513, 0, 2},
        {511, 1, 0, 1},   {511, 2, 0, 2}, {512, 1, 1, 2},  {512, 512, 1, 2},
        {512, 513, 1, 3}, {600, 0, 0, 0}, {2048, 3, 4, 5}, {0, N_CELL, 0, 5},
    };
    for (size_t t = 0; t < ARRAY_LEN(table); t++) {
        pages p = make();
        assert_int_equal(p.n_page, 5);
        reserve(&p, table[t].first, table[t].n);
        for (int i = 0; i < p.n_page; i++) {
            bool there = i >= table[t].page0 && i < table[t].page1;
            assert_int_equal(p.page[i] != NULL, there);
            if (there)
                expect(&p, i, 0);
        }
        assert_true(pages_writable(&p, table[t].first, table[t].n));
        assert_int_equal(pages_bytes(&p), (size_t)(table[t].page1 - table[t].page0) * PAGE_BYTES);
        pages_deinit(&p);
    }
}

/* Catches a page that is written while others own it, or copied although nobody does. */
static void test_pages_shared_are_copied_by_the_first_write(void **state)
{
    (void)state;
    pages a = make(), b = make();
    reserve(&a, 0, 3 * BE_PAGE);
    for (int i = 0; i < 3; i++)
        fill(&a, i, i + 1);
    pages_share(&b, &a, BE_PAGE + 1);
    assert_ptr_equal(b.page[0], a.page[0]);
    assert_ptr_equal(b.page[1], a.page[1]);
    assert_null(b.page[2]);
    assert_false(pages_writable(&a, BE_PAGE, 1));
    assert_true(pages_writable(&a, 2 * BE_PAGE, 1));

    reserve(&b, BE_PAGE + 1, 1);
    assert_true(b.page[1] != a.page[1]);
    expect(&b, 1, 2);
    fill(&b, 1, 9);
    expect(&a, 1, 2);
    void *was = a.page[1];
    reserve(&a, BE_PAGE, 1);
    assert_ptr_equal(a.page[1], was); /* a is the only owner again */
    assert_ptr_equal(b.page[0], a.page[0]);
    pages_deinit(&a);
    expect(&b, 0, 1); /* outlives the one it came from */
    pages_deinit(&b);
}

/* Catches what dst held before: its own pages stay behind, or are freed while others own them. */
static void test_pages_share_replaces_what_was_there(void **state)
{
    (void)state;
    pages a = make(), b = make(), c = make();
    reserve(&a, 0, BE_PAGE);
    fill(&a, 0, 1);
    reserve(&b, 0, 4 * BE_PAGE);
    fill(&b, 0, 2);
    pages_share(&c, &b, 4 * BE_PAGE);
    pages_share(&b, &a, 10);
    expect(&b, 0, 1);
    for (int i = 1; i < b.n_page; i++)
        assert_null(b.page[i]);
    expect(&c, 0, 2);
    pages_share(&b, &b, 10); /* with itself: nothing changes */
    expect(&b, 0, 1);
    pages_share(&b, &a, 0);
    assert_int_equal(pages_bytes(&b), 0);
    pages_deinit(&a);
    pages_deinit(&b);
    pages_deinit(&c);
}

/* Catches a page let go that still holds a cell in use, and one kept behind the end. */
static void test_pages_truncate_keeps_the_page_of_the_last_cell(void **state)
{
    (void)state;
    static const struct {
        int n, left;
    } table[] = {{0, 0}, {1, 1}, {511, 1}, {512, 1}, {513, 2}, {1024, 2}, {N_CELL, 5}};
    for (size_t t = 0; t < ARRAY_LEN(table); t++) {
        pages p = make();
        reserve(&p, 0, N_CELL);
        pages_truncate(&p, table[t].n);
        assert_int_equal(pages_bytes(&p), (size_t)table[t].left * PAGE_BYTES);
        for (int i = 0; i < p.n_page; i++)
            assert_int_equal(p.page[i] != NULL, i < table[t].left);
        pages_deinit(&p);
    }
}

/* Catches bytes counted twice or not at all. */
static void test_pages_bytes_and_marks_count_each_page(void **state)
{
    (void)state;
    pages a = make(), b = make();
    reserve(&a, 0, 3 * BE_PAGE);
    assert_int_equal(pages_shared_bytes(&a), 0);
    pages_share(&b, &a, 2 * BE_PAGE);
    assert_int_equal(pages_shared_bytes(&a), 2 * PAGE_BYTES);
    assert_int_equal(pages_shared_bytes(&b), 2 * PAGE_BYTES);
    reserve(&b, 0, 1);
    assert_int_equal(pages_shared_bytes(&a), PAGE_BYTES);
    size_t once = 0;
    pages *all[] = {&a, &b};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < all[k]->n_page; i++)
            once += pages_mark(all[k], i, 7) != 7 ? PAGE_BYTES : 0;
    assert_int_equal(once, 4 * PAGE_BYTES); /* three of a, one of b's own */
    assert_int_equal(pages_mark(&a, 0, 8), 7);
    pages_deinit(&a);
    pages_deinit(&b);
}

/* Catches a failed allocation that loses a page which others read, or leaks half a new one. */
static void test_pages_reserve_without_memory_changes_nothing_readable(void **state)
{
    (void)state;
    pages a = make(), b = make();
    reserve(&a, 0, 2 * BE_PAGE);
    fill(&a, 0, 1);
    fill(&a, 1, 2);
    pages_share(&b, &a, 2 * BE_PAGE);
    int n_failed = 0;
    for (int k = 1;; k++) {
        ft_error err = {0};
        pages_share(&b, &a, 2 * BE_PAGE);
        mem_fail_at(k);
        ft_status st = pages_reserve(&b, 0, 3 * BE_PAGE, &err);
        mem_fail_at(0);
        expect(&a, 0, 1);
        expect(&a, 1, 2);
        expect(&b, 0, 1);
        expect(&b, 1, 2);
        if (st == FT_OK)
            break;
        assert_int_equal(st, FT_NOMEM);
        assert_non_null(strstr(err.msg, "4096 bytes for cells from position"));
        n_failed++;
    }
    assert_int_equal(n_failed, 6);
    pages c;
    for (int k = 1; k <= 2; k++) {
        mem_fail_at(k);
        assert_int_equal(pages_init(&c, be, PAGE_BYTES, N_CELL, NULL), FT_NOMEM);
    }
    mem_fail_at(0);
    pages_deinit(&c); /* left as {0} */
    pages_deinit(&a);
    pages_deinit(&b);
}

/* Catches an allocation of no bytes, which fails: a model without attention keeps no cells. */
static void test_pages_of_no_bytes_are_always_writable(void **state)
{
    (void)state;
    pages p;
    assert_int_equal(pages_init(&p, be, 0, 100, NULL), FT_OK);
    reserve(&p, 0, 100);
    assert_true(pages_writable(&p, 0, 100));
    assert_int_equal(pages_bytes(&p), 0);
    pages_deinit(&p);
}

static void *write_own(void *ctx)
{
    pages *p = ctx;
    pages mine;
    if (pages_init(&mine, be, PAGE_BYTES, N_CELL, NULL) != FT_OK)
        return NULL;
    bool good = true;
    for (int round = 0; round < 200; round++) {
        pages_share(&mine, p, 2 * BE_PAGE);
        if (pages_reserve(&mine, 0, 1, NULL) != FT_OK)
            good = false;
        fill(&mine, 0, round);
        good = good && ((uint8_t *)mine.page[1])[round] == 5;
    }
    pages_deinit(&mine);
    pages_deinit(p);
    return good ? p : NULL;
}

/* Catches owners counted without care for threads: a page freed twice, or written while it is read. */
static void test_pages_of_several_threads_stay_apart(void **state)
{
    (void)state;
    enum { N = 4 };
    pages base = make(), p[N];
    reserve(&base, 0, 2 * BE_PAGE);
    fill(&base, 0, 5);
    fill(&base, 1, 5);
    pthread_t t[N];
    for (int i = 0; i < N; i++) {
        p[i] = make();
        pages_share(&p[i], &base, 2 * BE_PAGE);
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&t[i], NULL, write_own, &p[i]), 0);
    for (int i = 0; i < N; i++) {
        void *good;
        assert_int_equal(pthread_join(t[i], &good), 0);
        assert_non_null(good);
    }
    expect(&base, 0, 5);
    assert_int_equal(pages_shared_bytes(&base), 0);
    pages_deinit(&base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages_reserve_takes_the_pages_of_the_range_alone),
        cmocka_unit_test(test_pages_shared_are_copied_by_the_first_write),
        cmocka_unit_test(test_pages_share_replaces_what_was_there),
        cmocka_unit_test(test_pages_truncate_keeps_the_page_of_the_last_cell),
        cmocka_unit_test(test_pages_bytes_and_marks_count_each_page),
        cmocka_unit_test(test_pages_reserve_without_memory_changes_nothing_readable),
        cmocka_unit_test(test_pages_of_no_bytes_are_always_writable),
        cmocka_unit_test(test_pages_of_several_threads_stay_apart),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
