/* checkpoints.c - see checkpoints.h. */
#include "engine/checkpoints.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/mem.h"

struct checkpoints {
    pthread_mutex_t lock;
    checkpoint **item; /* [n], owned list of held entries, in no order */
    int n, cap;
    uint64_t clock; /* counts puts and finds */
    uint64_t mark;  /* above every mark that a page has */
    ft_checkpoint_stats stats;
};

ft_status checkpoints_create(checkpoints **out, uint64_t limit, ft_error *err)
{
    *out = NULL;
    checkpoints *c = mem_zalloc(sizeof *c);
    if (!c || pthread_mutex_init(&c->lock, NULL) != 0) {
        mem_free(c);
        return err_set(err, FT_NOMEM, "checkpoints: the store");
    }
    c->stats.limit = limit;
    c->mark = 1; /* pages begin with 0 */
    *out = c;
    return FT_OK;
}

static void unref(checkpoint *e)
{
    if (--e->n_ref > 0)
        return;
    seq_snap_free(e->trunk);
    draft_snap_free(e->draft);
    mem_free(e);
}

void checkpoints_free(checkpoints *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n; i++)
        unref(c->item[i]);
    mem_free(c->item);
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
}

bool checkpoints_enabled(const checkpoints *c)
{
    return c->stats.limit > 0; /* never changes */
}

/* ---- Finding ---------------------------------------------------------------------------------------- */

bool checkpoint_key_equal(const checkpoint_key *a, const checkpoint_key *b)
{
    return a->kv_type == b->kv_type && a->draft == b->draft && a->sink == b->sink &&
           a->window == b->window;
}

static bool begins(const checkpoint *e, const checkpoint_key *key, const int32_t *tok, int n)
{
    return e->n <= n && checkpoint_key_equal(&e->key, key) &&
           memcmp(seq_snap_tok(e->trunk), tok, (size_t)e->n * sizeof *tok) == 0;
}

static checkpoint *longest(const checkpoints *c, const checkpoint_key *key, const int32_t *tok,
                           int n)
{
    checkpoint *best = NULL;
    for (int i = 0; i < c->n; i++) {
        checkpoint *e = c->item[i];
        if ((!best || e->n > best->n) && begins(e, key, tok, n))
            best = e;
    }
    return best;
}

static void use(checkpoints *c, checkpoint *e)
{
    e->used = ++c->clock;
}

int checkpoints_known(checkpoints *c, const checkpoint_key *key, const int32_t *tok, int n)
{
    pthread_mutex_lock(&c->lock);
    const checkpoint *e = longest(c, key, tok, n);
    int known = e ? e->n : 0;
    pthread_mutex_unlock(&c->lock);
    return known;
}

checkpoint *checkpoints_find(checkpoints *c, const checkpoint_key *key, const int32_t *tok, int n)
{
    pthread_mutex_lock(&c->lock);
    checkpoint *e = longest(c, key, tok, n);
    if (e) {
        use(c, e);
        e->n_ref++;
    }
    pthread_mutex_unlock(&c->lock);
    return e;
}

void checkpoints_release(checkpoints *c, checkpoint *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&c->lock);
    unref(e);
    pthread_mutex_unlock(&c->lock);
}

bool checkpoints_touch(checkpoints *c, const checkpoint_key *key, const int32_t *tok, int n)
{
    pthread_mutex_lock(&c->lock);
    checkpoint *e = longest(c, key, tok, n);
    bool found = e && e->n == n;
    if (found)
        use(c, e);
    pthread_mutex_unlock(&c->lock);
    return found;
}

int checkpoints_on_way(checkpoints *c, const checkpoint_key *key, const int32_t *tok, int n,
                       checkpoint **out, int max)
{
    int n_out = 0;
    pthread_mutex_lock(&c->lock);
    while (n_out < max && n > 0) { /* from the longest down */
        checkpoint *e = longest(c, key, tok, n);
        if (!e)
            break;
        e->n_ref++;
        out[n_out++] = e;
        n = e->n - 1;
    }
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < n_out / 2; i++) {
        checkpoint *e = out[i];
        out[i] = out[n_out - 1 - i];
        out[n_out - 1 - i] = e;
    }
    return n_out;
}

/* ---- Bytes -------------------------------------------------------------------------------------------- */

static uint64_t copied_bytes(const checkpoint *e)
{
    return seq_snap_bytes(e->trunk) + (e->draft ? draft_snap_bytes(e->draft) : 0);
}

/* Its pages, trunk's and drafter's; returns how many objects of pages there are. */
static int pages_of(const checkpoint *e, pages *out[2])
{
    out[0] = seq_snap_pages(e->trunk);
    if (e->draft)
        out[1] = draft_snap_pages(e->draft);
    return e->draft ? 2 : 1;
}

static uint64_t bytes_alone(const checkpoint *e)
{
    pages *p[2];
    uint64_t n = copied_bytes(e);
    for (int k = pages_of(e, p) - 1; k >= 0; k--)
        n += pages_bytes(p[k]);
    return n;
}

/* Count item i's pages. A page's mark says who had it so far in this count: below base nobody, base
 * several, base + 1 + j item j alone. Returns the bytes of those seen for the first time. */
static uint64_t count_pages(checkpoints *c, int i, uint64_t base)
{
    pages *p[2];
    uint64_t sum = 0;
    for (int k = pages_of(c->item[i], p) - 1; k >= 0; k--)
        for (int at = 0; at < p[k]->n_page; at++) {
            if (!p[k]->page[at])
                continue;
            size_t n = p[k]->page_bytes;
            uint64_t was = pages_mark(p[k], at, base + 1 + (uint64_t)i);
            if (was < base) {
                sum += n;
                c->item[i]->bytes += n;
                continue;
            }
            if (was > base)
                c->item[was - base - 1]->bytes -= n;
            pages_mark(p[k], at, base);
        }
    return sum;
}

/* Count what the store holds, and what each checkpoint holds alone. */
static void count_bytes(checkpoints *c)
{
    uint64_t base = c->mark, sum = 0;
    c->mark += (uint64_t)c->n + 1;
    for (int i = 0; i < c->n; i++)
        c->item[i]->bytes = 0;
    for (int i = 0; i < c->n; i++) {
        uint64_t copied = copied_bytes(c->item[i]);
        c->item[i]->bytes += copied;
        sum += copied + count_pages(c, i, base);
    }
    c->stats.bytes = sum;
}

/* ---- Putting ------------------------------------------------------------------------------------------ */

/* The list has room for e. */
static void insert(checkpoints *c, checkpoint *e)
{
    const int32_t *tok = seq_snap_tok(e->trunk);
    e->parent = longest(c, &e->key, tok, e->n);
    for (int i = 0; i < c->n; i++) {
        checkpoint *x = c->item[i];
        if (x->parent == e->parent && x->n > e->n &&
            begins(e, &x->key, seq_snap_tok(x->trunk), x->n))
            x->parent = e;
    }
    c->item[c->n++] = e;
}

static void remove_at(checkpoints *c, int at)
{
    checkpoint *e = c->item[at];
    c->item[at] = c->item[--c->n];
    for (int i = 0; i < c->n; i++)
        if (c->item[i]->parent == e)
            c->item[i]->parent = e->parent;
    unref(e);
}

static double value_of(const checkpoints *c, const checkpoint *e)
{
    int saved = e->n - (e->parent ? e->parent->n : 0);
    double bytes = e->bytes ? (double)e->bytes : 1;
    return saved / bytes / (1 + (double)(c->clock - e->used));
}

/* The limit holds afterwards. Counts are right for what is in the list. */
static void make_room(checkpoints *c)
{
    count_bytes(c);
    while (c->stats.bytes > c->stats.limit) {
        int least = 0;
        for (int i = 1; i < c->n; i++)
            if (value_of(c, c->item[i]) < value_of(c, c->item[least]))
                least = i;
        remove_at(c, least);
        c->stats.evicted++;
        count_bytes(c);
    }
}

static bool grow(checkpoints *c)
{
    if (c->n < c->cap)
        return true;
    int cap = c->cap ? 2 * c->cap : 64;
    size_t n_bytes;
    if (!size_mul(&n_bytes, (size_t)cap, sizeof *c->item))
        return false;
    checkpoint **item = mem_realloc(c->item, n_bytes);
    if (!item)
        return false;
    c->item = item;
    c->cap = cap;
    return true;
}

/* e is taken. */
static ft_status put_locked(checkpoints *c, checkpoint *e, ft_error *err)
{
    checkpoint *same = longest(c, &e->key, seq_snap_tok(e->trunk), e->n);
    bool known = same && same->n == e->n;
    if (known)
        use(c, same);
    if (known || bytes_alone(e) > c->stats.limit) {
        unref(e);
        return FT_OK;
    }
    if (!grow(c)) {
        unref(e);
        return err_set(err, FT_NOMEM, "checkpoints: list of %d", c->n + 1);
    }
    use(c, e);
    insert(c, e);
    c->stats.taken++;
    make_room(c);
    return FT_OK;
}

ft_status checkpoints_put(checkpoints *c, const checkpoint_key *key, seq_snap *trunk,
                          draft_snap *draft, ft_error *err)
{
    assert(seq_snap_n_past(trunk) > 0 && key->draft == (draft != NULL));
    checkpoint *e = mem_zalloc(sizeof *e);
    if (!e) {
        seq_snap_free(trunk);
        draft_snap_free(draft);
        return err_set(err, FT_NOMEM, "checkpoint");
    }
    *e = (checkpoint){
        .key = *key, .n = seq_snap_n_past(trunk), .trunk = trunk, .draft = draft, .n_ref = 1};
    pthread_mutex_lock(&c->lock);
    ft_status st = put_locked(c, e, err);
    pthread_mutex_unlock(&c->lock);
    return st;
}

/* ---- Statistics --------------------------------------------------------------------------------------- */

void checkpoints_count(checkpoints *c, int n_known)
{
    pthread_mutex_lock(&c->lock);
    c->stats.hits += n_known > 0;
    c->stats.misses += n_known == 0;
    c->stats.tokens_reused += (uint64_t)n_known;
    pthread_mutex_unlock(&c->lock);
}

void checkpoints_stats(checkpoints *c, ft_checkpoint_stats *out)
{
    pthread_mutex_lock(&c->lock);
    *out = c->stats;
    out->n = c->n;
    pthread_mutex_unlock(&c->lock);
}
