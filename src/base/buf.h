/* buf.h - a growing byte buffer with a hard limit from birth.
 *
 * A failed append sets `failed` and changes nothing else; later appends do nothing. So a chain of
 * appends needs one check at its end: buf_status().
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/err.h"

typedef struct {
    uint8_t *data; /* owned; NULL while empty */
    size_t len;
    size_t cap;
    size_t limit; /* len never passes this */
    bool failed;
} buf;

void buf_init(buf *b, size_t limit);
void buf_deinit(buf *b); /* frees; b is empty again, its limit kept */
void buf_clear(buf *b);  /* length 0, memory kept, failed reset */
void buf_put(buf *b, const void *bytes, size_t n);
void buf_puts(buf *b, const char *text);
void buf_putc(buf *b, int c);
void buf_printf(buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* n more bytes of unspecified value; NULL on failure. */
void *buf_extend(buf *b, size_t n);
/* The content with a NUL behind it (not counted in len); "" when empty, NULL on failure. */
const char *buf_cstr(buf *b);
/* FT_OK, or FT_NOMEM with "what: ..." when an append failed. */
ft_status buf_status(const buf *b, const char *what, ft_error *err) MUST_CHECK;

#endif
