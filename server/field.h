/* field.h - one member of a JSON body, checked by type and range. Private to request*.c.
 *
 * Each function fails with status 400 and a message that names the field, what it is and what is
 * wanted; *out is unchanged then. */
#ifndef SERVER_FIELD_H
#define SERVER_FIELD_H

#include "jsonin.h"

bool field_bool(bool *out, const char *name, const json_t *v, api_error *e) MUST_CHECK;
bool field_int(json_int_t *out, const char *name, const json_t *v, json_int_t min, json_int_t max,
               api_error *e) MUST_CHECK;
bool field_float(float *out, const char *name, const json_t *v, double min, double max,
                 api_error *e) MUST_CHECK;
/* Without NUL bytes; borrowed from v. */
bool field_string(const char **out, const char *name, const json_t *v, api_error *e) MUST_CHECK;
/* A list of token ids, 0 .. INT32_MAX: *out [*n], owned by the caller; NULL when empty. */
bool field_tokens(int32_t **out, int *n, const char *name, const json_t *v,
                  api_error *e) MUST_CHECK;
/* "the field has the wrong type". */
bool field_wrong(const char *name, const json_t *v, const char *want, api_error *e);

#endif
