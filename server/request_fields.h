/* request_fields.h - the table of members of a request's body. Private to request*.c. */
#ifndef SERVER_REQUEST_FIELDS_H
#define SERVER_REQUEST_FIELDS_H

#include "request.h"

typedef struct {
    const char *name;
    int kinds; /* set of request_kind that have it */
    /* Take the value, which is not null, into r. */
    bool (*take)(request *r, const char *name, json_t *v, const request_defaults *d, api_error *e);
} request_field;

/* The field of that name for that kind; NULL: there is none. */
const request_field *request_field_find(const char *name, request_kind kind);
/* Rules that bind several fields, once all were taken; builds r->chat and r->tools. */
bool request_chat_finish(request *r, api_error *e) MUST_CHECK;
/* Takers of the chat's own fields (request_chat.c). */
bool take_messages(request *r, const char *name, json_t *v, const request_defaults *d,
                   api_error *e);
bool take_tools(request *r, const char *name, json_t *v, const request_defaults *d, api_error *e);
bool take_tool_choice(request *r, const char *name, json_t *v, const request_defaults *d,
                      api_error *e);
bool take_parallel(request *r, const char *name, json_t *v, const request_defaults *d,
                   api_error *e);
bool take_template(request *r, const char *name, json_t *v, const request_defaults *d,
                   api_error *e);
bool take_effort(request *r, const char *name, json_t *v, const request_defaults *d, api_error *e);
bool take_format(request *r, const char *name, json_t *v, const request_defaults *d, api_error *e);
bool take_modalities(request *r, const char *name, json_t *v, const request_defaults *d,
                     api_error *e);

#endif
