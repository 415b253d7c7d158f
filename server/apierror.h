/* apierror.h - what a client is told when its request cannot be served: the API's error object.
 *
 * {"error": {"message": ..., "type": ..., "param": ..., "code": ...}} with an HTTP status, as the
 * OpenAI API reference has it under "Error codes". In server/ a function that can fail for a reason
 * the client should know returns false and fills in one of these.
 */
#ifndef SERVER_APIERROR_H
#define SERVER_APIERROR_H

#include "base/buf.h"

typedef struct {
    int status;       /* HTTP; 0: no error */
    const char *code; /* static string for programs, "context_length_exceeded"; NULL: none */
    char param[64];   /* the field at fault, "stop[2]"; "": none */
    char msg[320];    /* for people */
} api_error;

/* Record an error unless e already holds one; false, so that callers can return it.
 * code, param NULL: none. */
bool api_fail(api_error *e, int status, const char *code, const char *param, const char *fmt, ...)
    PRINTF_LIKE(5, 6);
/* The same for a failure of the library: what the client asked for is 400, the rest 500. */
bool api_fail_status(api_error *e, ft_status st, const char *param, const ft_error *err);
/* Append the error object as JSON. */
void api_error_write(const api_error *e, buf *out);

#endif
