/* limits.h - how far a client may go. All of them are options of `foretoken serve`. */
#ifndef SERVER_LIMITS_H
#define SERVER_LIMITS_H

#include <stddef.h>

typedef struct {
    size_t body_bytes;     /* of one request */
    size_t bodies_bytes;   /* of all requests that are being read or answered */
    int n_connection;      /* open at a time */
    int n_queue;           /* requests that wait for a slot */
    int max_tokens;        /* of one answer; 0: as many as the context holds */
    double read_seconds;   /* from the first byte of a request (or the last answer) to its last */
    double write_seconds;  /* that an answer may wait for its reader, in all */
    double answer_seconds; /* from the arrival of a request to the end of its answer; 0: none */
    double keepalive_seconds; /* without a token, after which a stream gets a comment */
    double stop_seconds;      /* that running answers get when the server is to end */
} server_limits;
server_limits server_limits_default(void);

#endif
