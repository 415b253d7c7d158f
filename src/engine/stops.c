/* stops.c - see stops.h. */
#include "engine/stops.h"

#include <string.h>

void stops_init(stop_matcher *m, const char *const *stop, int n)
{
    *m = (stop_matcher){.stop = stop, .n = n};
    buf_init(&m->held, 1 << 24);
}

void stops_deinit(stop_matcher *m)
{
    buf_deinit(&m->held);
}

/* Does stop string s stand at text? Fully: its length; as far as the text goes: -1; no: 0. */
static long match_at(const char *text, size_t len, const char *s)
{
    size_t n = strlen(s), have = n < len ? n : len;
    if (memcmp(text, s, have) != 0)
        return 0;
    return n <= len ? (long)n : -1;
}

/* The first place where a stop string stands fully (partly: where the text ends in the beginning of one);
 * n when there is none. */
static size_t find(const stop_matcher *m, const char *text, size_t n, bool partly)
{
    for (size_t at = 0; at < n; at++)
        for (int i = 0; i < m->n; i++) {
            long found = match_at(text + at, n - at, m->stop[i]);
            if (partly ? found < 0 : found > 0)
                return at;
        }
    return n;
}

bool stops_put(stop_matcher *m, const char *text, size_t len, buf *out)
{
    if (m->n == 0) {
        buf_put(out, text, len);
        return false;
    }
    buf_put(&m->held, text, len);
    const char *held = (const char *)m->held.data;
    size_t n = m->held.len, at = find(m, held, n, false);
    if (at < n) { /* complete: whatever else might have begun before does not matter */
        buf_put(out, held, at);
        buf_clear(&m->held);
        return true;
    }
    at = find(m, held, n, true);
    buf_put(out, held, at);
    if (at > 0 && !out->failed) {
        memmove(m->held.data, held + at, n - at);
        m->held.len = n - at;
    }
    return false;
}

void stops_flush(stop_matcher *m, buf *out)
{
    buf_put(out, m->held.data, m->held.len);
    buf_clear(&m->held);
}
