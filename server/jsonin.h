/* jsonin.h - a client's bytes as JSON, with the limits that keep parsing them harmless.
 *
 * 1. Depth and number of values are counted over the bytes before the parser, which recurses and
 *    takes up to JSONIN_VALUE_BYTES for a value, sees them.
 * 2. Text is valid UTF-8; a member that is there twice is an error, not the last one.
 */
#ifndef SERVER_JSONIN_H
#define SERVER_JSONIN_H

#include <jansson.h>

#include "apierror.h"

enum {
    JSONIN_MAX_DEPTH = 64,
    JSONIN_VALUE_BYTES = 128,
    JSONIN_MAX_VALUES = 1 << 20, /* a prompt of a million token ids */
};

/* The object that text [len] is; NULL after an error (400), which tells where. Freed with
 * json_decref. */
json_t *jsonin_object(const char *text, size_t len, api_error *e) MUST_CHECK;

/* About the bytes that parsing text [len] takes. */
size_t jsonin_cost(const char *text, size_t len);

#endif
