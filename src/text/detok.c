/* detok.c - token bytes to whole characters, see text.h.
 *
 * Invariant: tail[n_tail] is the proper beginning of a valid character, n_tail <= 3. Each byte of a
 * token is looked at a constant number of times, whatever came before.
 */
#include <assert.h>
#include <string.h>

#include "text/text.h"
#include "text/utf8.h"

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* Bytes of s[n] that settle the character in the tail, or are held back with it. */
static size_t finish_tail(detok *d, const uint8_t *s, size_t n, buf *out)
{
    assert(d->n_tail > 0 && d->n_tail < 4);
    uint8_t c[4];
    size_t n_tail = (size_t)d->n_tail;
    size_t n_more = n < sizeof c - n_tail ? n : sizeof c - n_tail;
    memcpy(c, d->tail, n_tail);
    memcpy(c + n_tail, s, n_more);
    size_t len;
    switch (utf8_scan(c, n_tail + n_more, &len)) {
    case UTF8_CHAR:
        buf_put(out, c, len);
        break;
    case UTF8_BAD: /* the byte that does not fit begins something of its own */
        buf_puts(out, replacement);
        break;
    case UTF8_CUT:
        memcpy(d->tail, c, len);
        d->n_tail = (int)len;
        return n_more;
    }
    d->n_tail = 0;
    return len - n_tail;
}

static void put_bytes(detok *d, const uint8_t *s, size_t n, buf *out)
{
    size_t pos = d->n_tail > 0 ? finish_tail(d, s, n, out) : 0;
    while (pos < n) {
        size_t run = utf8_valid_run(s + pos, n - pos);
        buf_put(out, s + pos, run);
        pos += run;
        if (pos == n)
            return;
        size_t len;
        if (utf8_scan(s + pos, n - pos, &len) == UTF8_BAD) {
            buf_puts(out, replacement);
        } else {
            memcpy(d->tail, s + pos, len);
            d->n_tail = (int)len;
        }
        pos += len;
    }
}

void detok_put(detok *d, const tokenizer *t, int32_t id, bool skip_special, buf *out)
{
    size_t n;
    const uint8_t *s = (const uint8_t *)tok_bytes(t, id, skip_special, &n);
    put_bytes(d, s, n, out);
}

void detok_flush(detok *d, buf *out)
{
    if (d->n_tail > 0)
        buf_puts(out, replacement);
    d->n_tail = 0;
}
