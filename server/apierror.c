/* apierror.c - see apierror.h. */
#include "apierror.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool api_fail(api_error *e, int status, const char *code, const char *param, const char *fmt, ...)
{
    if (e->status)
        return false;
    e->status = status;
    e->code = code;
    snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    va_list args;
    va_start(args, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, args);
    va_end(args);
    return false;
}

bool api_fail_status(api_error *e, ft_status st, const char *param, const ft_error *err)
{
    const char *msg = err && err->msg[0] ? err->msg : ft_status_text(st);
    bool client = st == FT_RANGE || st == FT_ARG || st == FT_FORMAT || st == FT_UNSUPPORTED;
    const char *code = st == FT_UNSUPPORTED ? "unsupported" : client ? "invalid_value" : NULL;
    return api_fail(e, client ? 400 : 500, code, client ? param : NULL, "%s", msg);
}

/* A message may quote a client's text and be cut inside a character: then it loses all but ASCII. */
static json_t *quoted(const char *text)
{
    json_t *j = json_string(text);
    if (j)
        return j;
    char ascii[sizeof((api_error *)0)->msg];
    size_t n = 0;
    for (; text[n] && n + 1 < sizeof ascii; n++)
        ascii[n] = (char)(text[n] & 0x80 ? '?' : text[n]);
    ascii[n] = '\0';
    return json_string(ascii);
}

void api_error_write(const api_error *e, buf *out)
{
    const char *type = e->status >= 500 ? "server_error" : "invalid_request_error";
    json_t *j =
        json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message", quoted(e->msg), "type", type,
                  "param", e->param[0] ? quoted(e->param) : json_null(), "code", e->code);
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    buf_puts(out, text ? text
                       : "{\"error\":{\"message\":\"out of memory\",\"type\":\"server_error\","
                         "\"param\":null,\"code\":null}}");
    free(text);
    json_decref(j);
}
