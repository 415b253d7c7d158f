/* rawhttp.h - a client that knows sockets and nothing better: for tests of servers, wrong bytes
 * included. Whatever the test machine refuses (no socket, no memory) ends the process. */
#ifndef TESTS_SUPPORT_RAWHTTP_H
#define TESTS_SUPPORT_RAWHTTP_H

#include "base/buf.h"

/* A connection to 127.0.0.1. */
int raw_connect(int port);
/* Send all n bytes; false: the server has closed. */
bool raw_send(int fd, const char *bytes, size_t n);
bool raw_puts(int fd, const char *text);

typedef struct {
    int status;    /* 0: no whole reply came */
    char *head;    /* owned: status line and headers */
    buf body;      /* chunks put together; a NUL behind it */
    bool complete; /* body as long as announced */
    bool chunked;
    bool close; /* the server said that it closes */
} raw_reply;
void raw_reply_free(raw_reply *r);
/* Read one reply, at most seconds long. buffered: bytes behind the last reply, kept for the next call
 * (pipelining); initialised by the caller, NULL: none wanted. head_only: as for HEAD. */
void raw_read(int fd, raw_reply *r, double seconds, buf *buffered, bool head_only);
/* True once the server has closed the connection, within seconds; what comes is thrown away. */
bool raw_closed(int fd, double seconds);

/* One request on a connection of its own, which ends with it. headers: further lines, each with \r\n;
 * body NULL: none. The host is 127.0.0.1:port unless headers has one. */
void raw_request(int port, const char *method, const char *path, const char *headers,
                 const char *body, raw_reply *r);
void raw_post(int port, const char *path, const char *json, raw_reply *r);
/* The bytes of such a request. */
void raw_format(buf *out, int port, const char *method, const char *path, const char *headers,
                const char *body);

#endif
