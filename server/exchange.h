/* exchange.h - one request and its answer, and what all of them share. Private to the files of server/
 * that know HTTP: server.c, http.c, route.c, endpoints.c, completions.c.
 *
 * An exchange lives from the first header to the last byte, in its connection's thread. */
#ifndef SERVER_EXCHANGE_H
#define SERVER_EXCHANGE_H

#include <microhttpd.h>

#include "answer.h"
#include "conns.h"
#include "guard.h"
#include "jsonin.h"
#include "metrics.h"
#include "server.h"
#include "worker.h"

struct server {
    server_params p;
    ft_model *model; /* borrowed */
    ft_model_info info;
    guard guard;
    queue *queue; /* owned, as all below */
    metrics *metrics;
    worker *worker;
    conns *conns;
    struct MHD_Daemon *daemon;
    char fingerprint[20];
    int64_t created;
    double started;
    atomic_size_t bodies; /* bytes that requests hold: bodies and their JSON */
    atomic_bool stopping;
    atomic_int n_exchange;
};

typedef struct exchange exchange;

/* Answer an exchange whose body is whole: fill in reply and type, or begin a stream; false: x->err. */
typedef bool endpoint_fn(exchange *x);
typedef struct {
    const char *method, *path; /* a '*' at the end of path: any rest that is not empty */
    bool open;                 /* needs no API key */
    endpoint_fn *answer;
} route;

struct exchange {
    server *s;
    struct MHD_Connection *mhd;
    conn *c;
    const route *route;        /* NULL: none */
    const char *method, *path; /* owned by MHD until the end */
    double began;
    api_error err; /* status 0: none */
    buf body;
    size_t charged; /* of server.bodies */
    bool too_large;

    buf reply; /* what is sent, unless stream */
    const char *type;
    const char *policy; /* Content-Security-Policy; NULL: none */
    bool stream;
    int status; /* that was sent; 0: none yet */

    /* Requests for text (completions.c). */
    request req;
    job *job; /* a reference; NULL: none */
    answer *answer;
    job_box box;
    char *echo;  /* owned */
    size_t sent; /* of the answer's events */
    bool over;   /* the job has ended and its last event is made */
};

/* The route for a method and path, or an error: 404, 405 (*allow: what would be there). */
const route *route_find(const char *method, const char *path, const char **allow, api_error *e);

endpoint_fn endpoint_page, endpoint_health, endpoint_metrics, endpoint_models, endpoint_model,
    endpoint_tokenize, endpoint_detokenize, endpoint_completions, endpoint_chat;

/* The stream's next bytes, at least one; 0: it is over. Waits. */
size_t completions_read(exchange *x, char *to, size_t max);
/* Cancel what is still running and wait for its end. */
void completions_cancel(exchange *x);
void completions_deinit(exchange *x); /* after completions_cancel */

/* For MHD_start_daemon; ctx: the server. */
enum MHD_Result http_handle(void *ctx, struct MHD_Connection *c, const char *url,
                            const char *method, const char *version, const char *data,
                            size_t *n_data, void **state);
void http_completed(void *ctx, struct MHD_Connection *c, void **state,
                    enum MHD_RequestTerminationCode why);
void http_connection(void *ctx, struct MHD_Connection *c, void **state,
                     enum MHD_ConnectionNotificationCode what);

#endif
