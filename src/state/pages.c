/* pages.c - see pages.h. */
#include "state/pages.h"

#include <assert.h>
#include <stdatomic.h>

#include "base/mem.h"

struct page_owner {
    atomic_int
        n; /* owners; one that reads 1 is the only one and stays it: only an owner makes more */
    uint64_t mark;
};

static int pages_for(int n_cell)
{
    return n_cell / BE_PAGE + (n_cell % BE_PAGE != 0);
}

ft_status pages_init(pages *p, backend *be, size_t page_bytes, int n_cell, ft_error *err)
{
    assert(n_cell > 0);
    int n = pages_for(n_cell);
    *p = (pages){.be = be, .page_bytes = page_bytes, .n_page = n};
    p->page = mem_calloc((size_t)n, sizeof *p->page);
    p->owner = mem_calloc((size_t)n, sizeof(page_owner *));
    if (p->page && p->owner)
        return FT_OK;
    pages_deinit(p);
    return err_set(err, FT_NOMEM, "state: list of %d pages", n);
}

static void let_go(pages *p, int i)
{
    page_owner *o = p->owner[i];
    if (!o)
        return;
    if (atomic_fetch_sub(&o->n, 1) == 1) {
        be_release(p->be, p->page[i], p->page_bytes);
        mem_free(o);
    }
    p->page[i] = NULL;
    p->owner[i] = NULL;
}

void pages_deinit(pages *p)
{
    if (p->page && p->owner)
        pages_truncate(p, 0);
    mem_free(p->page);
    mem_free(p->owner);
    *p = (pages){0};
}

static bool is_own(const pages *p, int i)
{
    return p->page_bytes == 0 || (p->owner[i] && atomic_load(&p->owner[i]->n) == 1);
}

/* A page of p's own in place i: new, with what the old one holds. */
static bool make_own(pages *p, int i)
{
    page_owner *o = mem_zalloc(sizeof *o);
    void *page = o ? be_alloc(p->be, p->page_bytes) : NULL;
    if (!page) {
        mem_free(o);
        return false;
    }
    atomic_init(&o->n, 1);
    if (p->owner[i])
        be_move(p->be, page, p->page[i], p->page_bytes);
    let_go(p, i);
    p->page[i] = page;
    p->owner[i] = o;
    return true;
}

ft_status pages_reserve(pages *p, int first, int n, ft_error *err)
{
    assert(first >= 0 && n >= 0 && n <= INT32_MAX - first && pages_for(first + n) <= p->n_page);
    for (int i = first / BE_PAGE; n > 0 && i <= (first + n - 1) / BE_PAGE; i++)
        if (!is_own(p, i) && !make_own(p, i))
            return err_set(err, FT_NOMEM, "state: %zu bytes for cells from position %d on",
                           p->page_bytes, i * BE_PAGE);
    return FT_OK;
}

bool pages_writable(const pages *p, int first, int n)
{
    bool own = true;
    for (int i = first / BE_PAGE; n > 0 && i <= (first + n - 1) / BE_PAGE; i++)
        own = own && is_own(p, i);
    return own;
}

void pages_truncate(pages *p, int n)
{
    for (int i = pages_for(n); i < p->n_page; i++)
        let_go(p, i);
}

void pages_share(pages *dst, const pages *src, int n)
{
    assert(dst->page_bytes == src->page_bytes && pages_for(n) <= dst->n_page);
    assert(dst->be == src->be);
    for (int i = 0; i < dst->n_page; i++) {
        page_owner *o = i < pages_for(n) && i < src->n_page ? src->owner[i] : NULL;
        if (o == dst->owner[i])
            continue;
        let_go(dst, i);
        if (!o)
            continue;
        atomic_fetch_add(&o->n, 1);
        dst->owner[i] = o;
        dst->page[i] = src->page[i];
    }
}

size_t pages_bytes(const pages *p)
{
    size_t n = 0;
    for (int i = 0; i < p->n_page; i++)
        n += p->owner[i] ? p->page_bytes : 0;
    return n;
}

size_t pages_shared_bytes(const pages *p)
{
    size_t n = 0;
    for (int i = 0; i < p->n_page; i++)
        n += p->owner[i] && !is_own(p, i) ? p->page_bytes : 0;
    return n;
}

uint64_t pages_mark(pages *p, int i, uint64_t mark)
{
    page_owner *o = p->owner[i];
    uint64_t was = o ? o->mark : mark;
    if (o)
        o->mark = mark;
    return was;
}
