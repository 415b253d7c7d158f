/* guard.h - who may ask: keeps out web pages that call a server on the user's own machine, and those
 * without the key. Pure.
 *
 * 1. Without a key the server is on loopback, and a request must name it so in Host: a page whose name
 *    was made to point here (DNS rebinding) sends its own name.
 * 2. Origin, which browsers send with what a page asks of others, must be the server itself, unless
 *    there is a key, which a page cannot know.
 */
#ifndef SERVER_GUARD_H
#define SERVER_GUARD_H

#include "apierror.h"

typedef struct {
    const char *api_key; /* NULL: none is needed */
    const char *name;    /* a further name of the server, as --host has it; NULL: none */
} guard;

/* Headers of a request; NULL: not there. */
typedef struct {
    const char *host, *origin, *authorization;
} guard_headers;

/* open: the path needs no key. Errors: 403, 401. */
bool guard_check(const guard *g, const guard_headers *h, bool open, api_error *e) MUST_CHECK;

/* Does the name or address stand for this machine alone? "localhost", "127.x.x.x", "::1", "[::1]". */
bool guard_is_loopback(const char *host, size_t len);

#endif
