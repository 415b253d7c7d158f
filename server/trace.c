/* trace.c - see trace.h. */
#include "trace.h"

#include <string.h>

enum { MAX_WAITING = 1 << 28 };

typedef struct {
    job_token t;
    size_t len; /* of its text, not yet out */
    bool taken;
} entry;

void trace_init(trace *t)
{
    buf_init(&t->tok, MAX_WAITING);
    buf_init(&t->text, MAX_WAITING);
}

void trace_deinit(trace *t)
{
    buf_deinit(&t->tok);
    buf_deinit(&t->text);
}

void trace_clear(trace *t)
{
    buf_clear(&t->tok);
    buf_clear(&t->text);
}

void trace_put(trace *t, const job_token *token, const char *text, size_t len)
{
    entry e = {.t = *token, .len = len};
    buf_put(&t->tok, &e, sizeof e);
    if (len > 0)
        buf_put(&t->text, text, len);
}

/* Where the piece begins. Behind something that was left out it is the last such text, as markup may
 * hold the same letters; little or nothing is held back behind it. */
static size_t place_of(const trace *t, const char *text, size_t len, bool goes_on)
{
    const char *all = (const char *)t->text.data;
    if (t->text.len < len)
        return 0;
    if (goes_on && memcmp(all, text, len) == 0)
        return 0;
    for (size_t at = t->text.len - len;; at--)
        if (memcmp(all + at, text, len) == 0 || at == 0)
            return at;
}

static void drop_front(buf *b, size_t n)
{
    n = n < b->len ? n : b->len;
    if (n > 0)
        memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
}

void trace_out(trace *t, const char *text, size_t len, bool goes_on, trace_take_fn *take, void *ctx)
{
    size_t from = place_of(t, text, len, goes_on), to = from + len;
    entry *e = (entry *)(void *)t->tok.data;
    size_t n = t->tok.len / sizeof *e, at = 0, first = 0, done = 0;
    for (size_t i = 0; i < n && at < to; i++) {
        size_t end = at + e[i].len;
        if (e[i].len == 0)
            continue;
        for (size_t k = first; k <= i && end > from; k++) { /* those without text before it too */
            if (take && !e[k].taken)
                take(ctx, &e[k].t);
            e[k].taken = true;
        }
        first = i + 1;
        done = end <= to ? i + 1 : i;
        e[i].len = end <= to ? 0 : end - to;
        at = end;
    }
    drop_front(&t->text, to);
    drop_front(&t->tok, done * sizeof *e);
}

ft_status trace_status(const trace *t, ft_error *err)
{
    TRY(buf_status(&t->tok, "an answer's tokens", err));
    return buf_status(&t->text, "an answer's tokens", err);
}
