/* err.c - see err.h. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ft_status err_set(ft_error *err, ft_status code, const char *fmt, ...)
{
    if (!err || err->code != FT_OK)
        return code;
    err->code = code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    return code;
}

ft_status err_prefix(ft_error *err, ft_status code, const char *fmt, ...)
{
    if (!err || err->code == FT_OK)
        return code;
    char old[sizeof err->msg];
    memcpy(old, err->msg, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof err->msg - 3)
        return code;
    err->msg[n++] = ':';
    err->msg[n++] = ' ';
    size_t room = sizeof err->msg - 1 - (size_t)n;
    size_t len = strnlen(old, room);
    memcpy(err->msg + n, old, len);
    err->msg[(size_t)n + len] = '\0';
    return code;
}
