/* field.c - see field.h. */
#include "field.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static const char *type_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        break;
    }
    return "null";
}

bool field_wrong(const char *name, const json_t *v, const char *want, api_error *e)
{
    return api_fail(e, 400, "invalid_type", name, "%s: is %s, want %s", name, type_name(v), want);
}

bool field_bool(bool *out, const char *name, const json_t *v, api_error *e)
{
    if (!json_is_boolean(v))
        return field_wrong(name, v, "a boolean", e);
    *out = json_is_true(v);
    return true;
}

bool field_int(json_int_t *out, const char *name, const json_t *v, json_int_t min, json_int_t max,
               api_error *e)
{
    if (!json_is_integer(v))
        return field_wrong(name, v, "an integer", e);
    json_int_t x = json_integer_value(v);
    if (x < min || x > max)
        return api_fail(e, 400, "invalid_value", name,
                        "%s: %" JSON_INTEGER_FORMAT ", want %" JSON_INTEGER_FORMAT
                        " to %" JSON_INTEGER_FORMAT,
                        name, x, min, max);
    *out = x;
    return true;
}

bool field_float(float *out, const char *name, const json_t *v, double min, double max,
                 api_error *e)
{
    if (!json_is_number(v))
        return field_wrong(name, v, "a number", e);
    double x = json_number_value(v);
    if (!(x >= min && x <= max))
        return api_fail(e, 400, "invalid_value", name, "%s: %g, want %g to %g", name, x, min, max);
    *out = (float)x;
    return true;
}

bool field_string(const char **out, const char *name, const json_t *v, api_error *e)
{
    if (!json_is_string(v))
        return field_wrong(name, v, "a string", e);
    if (strlen(json_string_value(v)) != json_string_length(v))
        return api_fail(e, 400, "invalid_value", name, "%s: holds a NUL character", name);
    *out = json_string_value(v);
    return true;
}

bool field_tokens(int32_t **out, int *n, const char *name, const json_t *v, api_error *e)
{
    if (!json_is_array(v))
        return field_wrong(name, v, "an array of token ids", e);
    size_t n_tok = json_array_size(v); /* at most JSONIN_MAX_VALUES */
    int32_t *tok = n_tok ? mem_calloc(n_tok, sizeof *tok) : NULL;
    if (n_tok && !tok)
        return api_fail(e, 500, NULL, NULL, "%s: no memory for %zu tokens", name, n_tok);
    for (size_t i = 0; i < n_tok; i++) {
        char item[48];
        snprintf(item, sizeof item, "%s[%zu]", name, i);
        json_int_t id;
        if (!field_int(&id, item, json_array_get(v, i), 0, INT32_MAX, e)) {
            mem_free(tok);
            return false;
        }
        tok[i] = (int32_t)id;
    }
    *out = tok;
    *n = (int)n_tok;
    return true;
}
