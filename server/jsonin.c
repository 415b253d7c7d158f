/* jsonin.c - see jsonin.h. */
#include "jsonin.h"

#include <string.h>

/* What a text is before it is parsed. Values are counted by what begins or separates them: [ { and the
 * comma. Strings are passed over; what is no JSON is left to the parser. */
typedef struct {
    int n, depth;   /* values; the deepest nesting */
    size_t deep_at; /* where it passed the limit */
} extent;

static extent measure(const char *text, size_t len)
{
    extent x = {0};
    int depth = 0;
    for (size_t i = 0; i < len && x.depth <= JSONIN_MAX_DEPTH && x.n <= JSONIN_MAX_VALUES; i++) {
        char c = text[i];
        if (c == '"') {
            for (i++; i < len && text[i] != '"'; i++)
                i += text[i] == '\\';
        } else if (c == '[' || c == '{') {
            x.n++;
            if (++depth > x.depth)
                x.depth = depth;
            x.deep_at = i;
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == ',') {
            x.n++;
        }
    }
    return x;
}

size_t jsonin_cost(const char *text, size_t len)
{
    return len + (size_t)measure(text, len).n * JSONIN_VALUE_BYTES;
}

static bool check_size(const char *text, size_t len, api_error *e)
{
    extent x = measure(text, len);
    if (x.depth > JSONIN_MAX_DEPTH)
        return api_fail(e, 400, "invalid_json", NULL,
                        "the body's JSON is nested deeper than %d, at byte %zu", JSONIN_MAX_DEPTH,
                        x.deep_at);
    if (x.n > JSONIN_MAX_VALUES)
        return api_fail(e, 400, "invalid_json", NULL, "the body's JSON has more than %d values",
                        JSONIN_MAX_VALUES);
    return true;
}

json_t *jsonin_object(const char *text, size_t len, api_error *e)
{
    if (len == 0) {
        api_fail(e, 400, "invalid_json", NULL, "the body is empty, want a JSON object");
        return NULL;
    }
    if (!check_size(text, len, e))
        return NULL;
    json_error_t why;
    json_t *j =
        json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (!j) {
        bool memory = json_error_code(&why) == json_error_out_of_memory;
        api_fail(e, memory ? 500 : 400, memory ? NULL : "invalid_json", NULL,
                 "the body is no valid JSON: line %d, column %d: %.160s", why.line, why.column,
                 why.text);
        return NULL;
    }
    if (!json_is_object(j)) {
        json_decref(j);
        api_fail(e, 400, "invalid_json", NULL, "the body is no JSON object");
        return NULL;
    }
    return j;
}
