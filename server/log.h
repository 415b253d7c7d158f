/* log.h - the access log: one line of JSON for a request, and nothing of what it said: no prompt, no
 * answer, no key, no query. Any thread. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include "base/buf.h"

/* Numbers below 0: there is none. */
typedef struct {
    const char *id;            /* of the answer, or "" */
    const char *client;        /* address */
    const char *method, *path; /* path: as the route table has it; "other" for the rest */
    int status;
    const char *code; /* of the error; NULL: none */
    double seconds, queue_seconds;
    int n_prompt, n_cached, n_token;
    const char *finish; /* NULL: no answer of the engine */
    uint64_t drafted, accepted;
} log_entry;

/* The line, with its end. t: seconds since 1970. */
void log_format(const log_entry *e, double t, buf *out);

#endif
