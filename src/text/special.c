/* special.c - see special.h. */
#include "text/special.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Order by bytes; a text comes before those that it begins. */
static int compare_bytes(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b)
{
    int d = memcmp(a, b, n_a < n_b ? n_a : n_b);
    return d != 0 ? d : (n_a > n_b) - (n_a < n_b);
}

static int compare(const void *pa, const void *pb)
{
    const special_entry *a = pa, *b = pb;
    int d = compare_bytes(a->s, a->len, b->s, b->len);
    return d != 0 ? d : (a->id > b->id) - (a->id < b->id);
}

static bool begins_with(const special_entry *e, const special_entry *begin)
{
    return e->len >= begin->len && memcmp(e->s, begin->s, begin->len) == 0;
}

/* Order the entries, drop later ones of equal text, fill in `shorter` and the index by first byte.
 * What an entry begins with is the entry before it or one of that one's own beginnings. */
static void arrange(specials *sp)
{
    special_entry *e = sp->entry;
    qsort(e, (size_t)sp->n, sizeof *e, compare);
    int n = 0;
    for (int i = 0; i < sp->n; i++) {
        if (n > 0 && e[i].len == e[n - 1].len && begins_with(&e[i], &e[n - 1]))
            continue;
        int shorter = n - 1;
        while (shorter >= 0 && !begins_with(&e[i], &e[shorter]))
            shorter = e[shorter].shorter;
        e[n] = e[i];
        e[n++].shorter = shorter;
    }
    sp->n = n;
    for (int i = 0; i < n; i++)
        sp->first[e[i].s[0] + 1]++;
    for (int b = 0; b < 256; b++)
        sp->first[b + 1] += sp->first[b];
}

/* The text of token id if it is one to look for. */
static bool get_entry(const vocab *v, int32_t id, special_entry *e)
{
    if (v->type[id] != TOKEN_CONTROL && v->type[id] != TOKEN_USER_DEFINED)
        return false;
    e->id = id;
    e->s = vocab_bytes(v, id, &e->len);
    return e->len > 0 && e->len <= SPECIAL_MAX;
}

ft_status special_init(specials *sp, const vocab *v, ft_error *err)
{
    *sp = (specials){0};
    special_entry e;
    size_t n = 0;
    for (int32_t id = 0; id < v->n; id++)
        n += get_entry(v, id, &e);
    if (n == 0)
        return FT_OK;
    sp->entry = mem_calloc(n, sizeof *sp->entry);
    if (!sp->entry)
        return err_set(err, FT_NOMEM, "tokenizer: %zu special tokens", n);
    for (int32_t id = 0; id < v->n; id++)
        if (get_entry(v, id, &e))
            sp->entry[sp->n++] = e;
    arrange(sp);
    return FT_OK;
}

void special_deinit(specials *sp)
{
    mem_free(sp->entry);
    *sp = (specials){0};
}

/* The longest entry that s[n] begins with, n > 0; NULL: none. Every such entry is also a beginning of
 * the last entry that does not come after s, so one search finds them all. */
static const special_entry *longest(const specials *sp, const uint8_t *s, size_t n)
{
    int lo = sp->first[s[0]], hi = sp->first[s[0] + 1];
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (compare_bytes(sp->entry[mid].s, sp->entry[mid].len, s, n) <= 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == sp->first[s[0]])
        return NULL;
    const special_entry *e = &sp->entry[lo - 1];
    size_t common = 1;
    while (common < e->len && common < n && e->s[common] == s[common])
        common++;
    while (e->len > common) {
        if (e->shorter < 0)
            return NULL;
        e = &sp->entry[e->shorter];
    }
    return e;
}

bool special_next(const specials *sp, const uint8_t *s, size_t n, size_t *pos, size_t *len,
                  int32_t *id)
{
    for (size_t i = *pos; i < n; i++) {
        if (sp->first[s[i]] == sp->first[s[i] + 1])
            continue;
        const special_entry *e = longest(sp, s + i, n - i);
        if (!e)
            continue;
        *pos = i;
        *len = e->len;
        *id = e->id;
        return true;
    }
    return false;
}
