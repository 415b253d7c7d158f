/* log.c - see log.h. */
#include "log.h"

#include <jansson.h>
#include <stdlib.h>
#include <time.h>

static void put(json_t *o, const char *key, json_t *v)
{
    json_object_set_new(o, key, v); /* NULL, when there was no memory, leaves the member out */
}

void log_format(const log_entry *e, double t, buf *out)
{
    time_t second = (time_t)t;
    struct tm tm;
    char stamp[32] = "";
    if (gmtime_r(&second, &tm))
        strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &tm);
    json_t *o = json_object();
    put(o, "time", json_string(stamp));
    put(o, "client", json_string(e->client));
    put(o, "method", json_string(e->method));
    put(o, "path", json_string(e->path));
    put(o, "status", json_integer(e->status));
    put(o, "ms", json_real((double)(int64_t)(e->seconds * 1e4) / 10));
    if (e->code)
        put(o, "code", json_string(e->code));
    if (e->finish) {
        put(o, "id", json_string(e->id));
        put(o, "finish", json_string(e->finish));
        put(o, "queue_ms", json_real((double)(int64_t)(e->queue_seconds * 1e4) / 10));
        put(o, "prompt_tokens", json_integer(e->n_prompt));
        put(o, "cached_tokens", json_integer(e->n_cached));
        put(o, "completion_tokens", json_integer(e->n_token));
        put(o, "drafted", json_integer((json_int_t)e->drafted));
        put(o, "accepted", json_integer((json_int_t)e->accepted));
    }
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (text) {
        buf_puts(out, text);
        buf_putc(out, '\n');
    }
    free(text);
    json_decref(o);
}
