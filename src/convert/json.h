/* json.h - reading JSON files of a checkpoint: a bounded load, and typed fields with ranges.
 *
 * Fields are read through a reader that remembers its first failure, so that a long list of fields
 * needs one check at its end; after a failure the calls return the lowest legal value.
 */
#ifndef CONVERT_JSON_H
#define CONVERT_JSON_H

#include <jansson.h>

#include "base/err.h"

#define JS_MAX_FILE_BYTES (256u << 20)

/* Parse n bytes of JSON; names given twice in an object are refused, and so is nesting deeper than
 * jansson's JSON_PARSER_MAX_DEPTH. *out belongs to the caller (json_decref); NULL after a failure.
 * Errors: FORMAT (line and column), NOMEM. */
ft_status js_parse(json_t **out, const void *bytes, size_t n, ft_error *err) MUST_CHECK;
/* The same for the file dir/name.
 * Errors: IO, FORMAT, RANGE (over JS_MAX_FILE_BYTES), NOMEM. */
ft_status js_load(json_t **out, const char *dir, const char *name, ft_error *err) MUST_CHECK;
/* The same; a file that does not exist is no error: *out is then NULL. */
ft_status js_load_if_there(json_t **out, const char *dir, const char *name,
                           ft_error *err) MUST_CHECK;
/* Write "dir/name" into path[size]. Errors: RANGE when it does not fit. */
ft_status js_path(char *path, size_t size, const char *dir, const char *name,
                  ft_error *err) MUST_CHECK;
#define JS_MAX_PATH 4096

typedef struct {
    const char *file;   /* for messages */
    const json_t *obj;  /* where fields are looked up first; may be NULL */
    const json_t *next; /* where they are looked up then; may be NULL */
    ft_status st;
    ft_error *err;
} js_reader;

/* A field, or NULL when it is absent or null. */
const json_t *js_field(const js_reader *r, const char *key);
/* Record a failure: "FILE: message". */
void js_fail(js_reader *r, ft_status st, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* A required integer in [min, max]; the second takes dflt when the field is absent. */
int64_t js_int(js_reader *r, const char *key, int64_t min, int64_t max);
int64_t js_int_or(js_reader *r, const char *key, int64_t min, int64_t max, int64_t dflt);
/* A number in [min, max]; dflt when the field is absent. */
double js_num_or(js_reader *r, const char *key, double min, double max, double dflt);
bool js_bool_or(js_reader *r, const char *key, bool dflt);
/* A string; NULL when absent. Borrowed from the JSON. */
const char *js_str_or_null(js_reader *r, const char *key);

#endif
