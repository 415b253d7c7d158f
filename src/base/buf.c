/* buf.c - see buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void buf_init(buf *b, size_t limit)
{
    *b = (buf){.limit = limit};
}

void buf_deinit(buf *b)
{
    if (!b)
        return;
    mem_free(b->data);
    *b = (buf){.limit = b->limit};
}

void buf_clear(buf *b)
{
    b->len = 0;
    b->failed = false;
}

/* Room for n more bytes and a NUL. */
static bool reserve(buf *b, size_t n)
{
    if (b->failed || n > b->limit - b->len) {
        b->failed = true;
        return false;
    }
    size_t need = b->len + n + 1;
    if (need <= b->cap)
        return true;
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    uint8_t *p = mem_realloc(b->data, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->data = p;
    b->cap = cap;
    return true;
}

void *buf_extend(buf *b, size_t n)
{
    if (!reserve(b, n))
        return NULL;
    void *p = b->data + b->len;
    b->len += n;
    return p;
}

void buf_put(buf *b, const void *bytes, size_t n)
{
    if (n == 0)
        return;
    void *p = buf_extend(b, n);
    if (p)
        memcpy(p, bytes, n);
}

void buf_puts(buf *b, const char *text)
{
    buf_put(b, text, strlen(text));
}

void buf_putc(buf *b, int c)
{
    unsigned char byte = (unsigned char)c;
    buf_put(b, &byte, 1);
}

void buf_printf(buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !reserve(b, (size_t)n)) {
        b->failed = true;
        return;
    }
    va_start(ap, fmt);
    vsnprintf((char *)b->data + b->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

const char *buf_cstr(buf *b)
{
    if (b->failed)
        return NULL;
    if (!b->data)
        return "";
    b->data[b->len] = '\0'; /* reserve() always leaves room for it */
    return (const char *)b->data;
}

ft_status buf_status(const buf *b, const char *what, ft_error *err)
{
    if (!b->failed)
        return FT_OK;
    return err_set(err, FT_NOMEM, "%s: out of memory or over %zu bytes", what, b->limit);
}
