/* server.h - `foretoken serve`: the OpenAI API over HTTP, for one model.
 *
 * Threads: one per connection parses a request, waits for its tokens and writes them; one for the
 * engine (worker.h); one that watches connections (conns.h). docs/server.md says what clients see.
 */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include <stdatomic.h>

#include "limits.h"
#include "request.h"

typedef struct {
    const char *model_name;    /* what clients call the model */
    const char *host;          /* a name or address to listen on */
    int port;                  /* 0: one that is free */
    const char *api_key;       /* NULL: none; then host must be loopback */
    int n_slot;                /* requests answered at a time, 1 .. 256 */
    ft_session_params session; /* n_ctx: of each request */
    request_defaults defaults;
    server_limits limits;
    /* Takes the lines of the access log, one call a line, from any thread; NULL: no log. */
    void (*log)(void *ctx, const char *line, size_t len);
    void *log_ctx;
} server_params;
server_params server_params_default(void);

typedef struct server server;

/* Listen and answer. p's strings and m are borrowed until server_free. Errors: ARG (no loopback without
 * a key, a name that is no address), IO (the address cannot be listened on), and as worker_create. */
ft_status server_create(server **out, ft_model *m, const server_params *p,
                        ft_error *err) MUST_CHECK;
int server_port(const server *s);
/* Take no more requests, wait for running ones up to limits.stop_seconds, then cancel them. *hurry: when
 * it becomes true, cancel at once. */
void server_stop(server *s, const atomic_bool *hurry);
void server_free(server *s); /* after server_stop; NULL is allowed */

#endif
