/* json.c - see json.h. */
#include "convert/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/map.h"
#include "base/mem.h"

ft_status js_path(char *path, size_t size, const char *dir, const char *name, ft_error *err)
{
    int n = snprintf(path, size, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= size)
        return err_set(err, FT_RANGE, "path of %d bytes to '%.80s', want less than %zu", n, name,
                       size);
    return FT_OK;
}

ft_status js_parse(json_t **out, const void *bytes, size_t n, ft_error *err)
{
    json_error_t jerr;
    *out = json_loadb(bytes, n, JSON_REJECT_DUPLICATES, &jerr);
    if (*out)
        return FT_OK;
    /* a failed allocation mostly leaves no text */
    if (jerr.text[0] == '\0' || json_error_code(&jerr) == json_error_out_of_memory)
        return err_set(err, FT_NOMEM, "JSON of %zu bytes", n);
    return err_set(err, FT_FORMAT, "line %d, column %d: %.120s", jerr.line, jerr.column, jerr.text);
}

ft_status js_load(json_t **out, const char *dir, const char *name, ft_error *err)
{
    *out = NULL;
    char path[JS_MAX_PATH];
    TRY(js_path(path, sizeof path, dir, name, err));
    char *text;
    size_t n;
    TRY(file_read_all(&text, &n, path, JS_MAX_FILE_BYTES, err));
    ft_status st = js_parse(out, text, n, err);
    mem_free(text);
    return st == FT_OK ? st : err_prefix(err, st, "%s", name);
}

ft_status js_load_if_there(json_t **out, const char *dir, const char *name, ft_error *err)
{
    *out = NULL;
    char path[JS_MAX_PATH];
    TRY(js_path(path, sizeof path, dir, name, err));
    struct stat info;
    if (stat(path, &info) != 0 && errno == ENOENT)
        return FT_OK;
    return js_load(out, dir, name, err);
}

const json_t *js_field(const js_reader *r, const char *key)
{
    const json_t *v = json_object_get(r->obj, key);
    if (!v || json_is_null(v))
        v = json_object_get(r->next, key);
    return json_is_null(v) ? NULL : v;
}

void js_fail(js_reader *r, ft_status st, const char *fmt, ...)
{
    if (r->st != FT_OK)
        return;
    char msg[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    r->st = err_set(r->err, st, "%s: %s", r->file, msg);
}

/* The checks of js_int for a field that is there. */
static int64_t int_value(js_reader *r, const char *key, const json_t *v, int64_t min, int64_t max)
{
    if (!json_is_integer(v)) {
        js_fail(r, FT_FORMAT, "'%s' is no integer", key);
        return min;
    }
    int64_t x = json_integer_value(v);
    if (x < min || x > max) {
        js_fail(r, FT_FORMAT, "'%s' is %lld, want %lld to %lld", key, (long long)x, (long long)min,
                (long long)max);
        return min;
    }
    return x;
}

int64_t js_int(js_reader *r, const char *key, int64_t min, int64_t max)
{
    const json_t *v = js_field(r, key);
    if (!v) {
        js_fail(r, FT_FORMAT, "'%s' is missing, want an integer", key);
        return min;
    }
    return int_value(r, key, v, min, max);
}

int64_t js_int_or(js_reader *r, const char *key, int64_t min, int64_t max, int64_t dflt)
{
    const json_t *v = js_field(r, key);
    return v ? int_value(r, key, v, min, max) : dflt;
}

double js_num_or(js_reader *r, const char *key, double min, double max, double dflt)
{
    const json_t *v = js_field(r, key);
    if (!v)
        return dflt;
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= min && x <= max)) {
        js_fail(r, FT_FORMAT, "'%s' is %g, want a number from %g to %g", key, x, min, max);
        return min;
    }
    return x;
}

bool js_bool_or(js_reader *r, const char *key, bool dflt)
{
    const json_t *v = js_field(r, key);
    if (!v)
        return dflt;
    if (!json_is_boolean(v))
        js_fail(r, FT_FORMAT, "'%s' is neither true nor false", key);
    return json_is_true(v);
}

const char *js_str_or_null(js_reader *r, const char *key)
{
    const json_t *v = js_field(r, key);
    if (v && !json_is_string(v))
        js_fail(r, FT_FORMAT, "'%s' is no string", key);
    return json_string_value(v);
}
