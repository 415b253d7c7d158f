/* http.c - libmicrohttpd's calls: bodies gathered, errors and replies sent, streams fed.
 *
 * MHD calls http_handle once when the head is there (an exchange begins), for every piece of the body,
 * and once more when it is whole; then it fetches a stream's bytes, and calls http_completed, whatever
 * came in between. All of that is in the connection's own thread. MHD's own timeouts are off: conns.h
 * has the only rule about time.
 */
#include <netdb.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "clock.h"
#include "exchange.h"
#include "log.h"

enum { STREAM_BLOCK = 16384 };

/* ---- Sending ---- */

static const char *header(const exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->mhd, MHD_HEADER_KIND, name);
}

/* MHD refuses a header only when there is no memory or it has a line break; ours have none. */
static void add(struct MHD_Response *r, const char *name, const char *value)
{
    (void)MHD_add_response_header(r, name, value);
}

static void add_headers(exchange *x, struct MHD_Response *r)
{
    add(r, "Content-Type", x->type);
    add(r, "Cache-Control", "no-store");
    add(r, "X-Content-Type-Options", "nosniff");
    if (x->policy) {
        add(r, "Content-Security-Policy", x->policy);
        add(r, "Referrer-Policy", "no-referrer");
    }
    if (x->answer)
        add(r, "x-request-id", answer_id(x->answer));
    const char *origin = header(x, "Origin");
    if (x->s->guard.api_key && origin && strpbrk(origin, "\r\n") == NULL) {
        add(r, "Access-Control-Allow-Origin", origin); /* the key is what protects: guard.h */
        add(r, "Vary", "Origin");
    }
    if (x->err.status == 401)
        add(r, "WWW-Authenticate", "Bearer");
    if (x->err.status == 503)
        add(r, "Retry-After", "1");
    if (x->err.status == 504) /* the openai clients would do it all again */
        add(r, "x-should-retry", "false");
    if (atomic_load(&x->s->stopping))
        add(r, "Connection", "close");
}

static enum MHD_Result send_response(exchange *x, int status, struct MHD_Response *r)
{
    if (!r)
        return MHD_NO;
    add_headers(x, r);
    x->status = status;
    enum MHD_Result rc = MHD_queue_response(x->mhd, (unsigned)status, r);
    MHD_destroy_response(r);
    return rc;
}

static enum MHD_Result send_reply(exchange *x, int status)
{
    if (x->reply.failed)
        return MHD_NO;
    return send_response(
        x, status,
        MHD_create_response_from_buffer(x->reply.len, x->reply.data, MHD_RESPMEM_PERSISTENT));
}

static enum MHD_Result send_error(exchange *x, const char *allow)
{
    buf_clear(&x->reply);
    api_error_write(&x->err, &x->reply);
    x->type = "application/json";
    if (x->reply.failed)
        return MHD_NO;
    struct MHD_Response *r =
        MHD_create_response_from_buffer(x->reply.len, x->reply.data, MHD_RESPMEM_PERSISTENT);
    if (r && allow)
        add(r, "Allow", allow);
    return send_response(x, x->err.status, r);
}

/* MHD_ContentReaderCallback */
static ssize_t read_stream(void *ctx, uint64_t pos, char *to, size_t max)
{
    (void)pos;
    size_t n = completions_read(ctx, to, max);
    return n > 0 ? (ssize_t)n : MHD_CONTENT_READER_END_OF_STREAM;
}

static enum MHD_Result send_stream(exchange *x)
{
    x->type = "text/event-stream";
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, x, NULL);
    if (r)
        add(r, "X-Accel-Buffering", "no"); /* nginx would gather the events */
    return send_response(x, 200, r);
}

/* ---- The head ---- */

/* What a browser asks before it lets a page with another origin send its request. */
static enum MHD_Result send_preflight(exchange *x)
{
    x->type = "text/plain";
    struct MHD_Response *r = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (r) {
        add(r, "Access-Control-Allow-Methods", "GET, POST");
        add(r, "Access-Control-Allow-Headers", "Authorization, Content-Type");
        add(r, "Access-Control-Max-Age", "600");
    }
    return send_response(x, 204, r);
}

/* A body that is no JSON by its own account: what a page's form sends without asking. */
static bool check_type(exchange *x)
{
    static const char json[] = "application/json";
    const char *type = header(x, "Content-Type");
    if (strcmp(x->method, "POST") != 0 || !type)
        return true;
    size_t n = sizeof json - 1;
    if (strncasecmp(type, json, n) == 0 && (type[n] == '\0' || strchr("; \t", type[n])))
        return true;
    return api_fail(&x->err, 415, "unsupported_media_type", NULL,
                    "Content-Type is '%.60s', want application/json", type);
}

static bool fail_large(exchange *x)
{
    x->too_large = true;
    return api_fail(&x->err, 413, "body_too_large", NULL, "the body is larger than %zu bytes",
                    x->s->p.limits.body_bytes);
}

/* More digits than a size has are too large as well; MHD has checked that they are digits. */
static bool check_length(exchange *x)
{
    const char *text = header(x, "Content-Length");
    size_t n = 0;
    for (; text && *text >= '0' && *text <= '9'; text++)
        if (!size_mul(&n, n, 10) || !size_add(&n, n, (size_t)(*text - '0')))
            return fail_large(x);
    return n <= x->s->p.limits.body_bytes || fail_large(x);
}

static enum MHD_Result begin(server *s, struct MHD_Connection *c, const char *url,
                             const char *method, void **state)
{
    exchange *x = mem_zalloc(sizeof *x);
    if (!x)
        return MHD_NO;
    *state = x;
    x->s = s;
    x->mhd = c;
    x->c = MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    x->method = method;
    x->path = url;
    x->began = clock_now();
    buf_init(&x->body, s->p.limits.body_bytes);
    buf_init(&x->reply, (size_t)1 << 30);
    atomic_fetch_add(&s->n_exchange, 1);
    const char *allow = NULL;
    guard_headers h = {.host = header(x, "Host"),
                       .origin = header(x, "Origin"),
                       .authorization = header(x, "Authorization")};
    bool preflight = s->guard.api_key && strcmp(method, "OPTIONS") == 0;
    if (!preflight)
        x->route = route_find(method, url, &allow, &x->err);
    if (x->err.status == 0 && guard_check(&s->guard, &h, preflight || x->route->open, &x->err) &&
        check_length(x))
        (void)check_type(x);
    /* An error waits until the body was read, so that the client sees it - but not for a body that is
     * too large, or that the client asks about first. */
    if (x->err.status && (x->too_large || allow || header(x, "Expect")))
        return send_error(x, allow);
    return preflight && !x->err.status ? send_preflight(x) : MHD_YES;
}

/* ---- The body ---- */

/* Room for n bytes more of all requests together. */
static bool charge(exchange *x, size_t n)
{
    server *s = x->s;
    if (atomic_fetch_add(&s->bodies, n) + n <= s->p.limits.bodies_bytes) {
        x->charged += n;
        return true;
    }
    atomic_fetch_sub(&s->bodies, n);
    return api_fail(&x->err, 503, "overloaded", NULL,
                    "too much is being read at the moment; please try again later");
}

static enum MHD_Result take_body(exchange *x, const char *data, size_t n)
{
    server *s = x->s;
    if (x->err.status) /* passed over, up to a limit; chunked bodies do not tell their length */
        return x->too_large && (x->sent += n) > s->p.limits.body_bytes ? MHD_NO : MHD_YES;
    if (n > s->p.limits.body_bytes - x->body.len) {
        (void)fail_large(x);
        return MHD_YES;
    }
    if (!charge(x, n))
        return MHD_YES;
    buf_put(&x->body, data, n);
    if (x->body.failed)
        api_fail(&x->err, 503, "overloaded", NULL, "no memory for the body");
    return MHD_YES;
}

static enum MHD_Result answer_exchange(exchange *x)
{
    conns_answering(x->s->conns, x->c, NULL);
    if (x->err.status || !charge(x, jsonin_cost((const char *)x->body.data, x->body.len)) ||
        !x->route->answer(x))
        return send_error(x, NULL);
    return x->stream ? send_stream(x) : send_reply(x, 200);
}

enum MHD_Result http_handle(void *ctx, struct MHD_Connection *c, const char *url,
                            const char *method, const char *version, const char *data,
                            size_t *n_data, void **state)
{
    (void)version;
    exchange *x = *state;
    if (!x)
        return begin(ctx, c, url, method, state);
    if (x->status) /* answered early; the rest of the body does not count */
        return MHD_YES;
    if (*n_data == 0)
        return answer_exchange(x);
    size_t n = *n_data;
    *n_data = 0;
    return take_body(x, data, n);
}

/* ---- The end ---- */

static void client_address(const exchange *x, char *out, size_t n_out)
{
    const union MHD_ConnectionInfo *i =
        MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    out[0] = '\0';
    if (i && i->client_addr) {
        const struct sockaddr *a = i->client_addr;
        socklen_t len =
            a->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
        (void)getnameinfo(a, len, out, (socklen_t)n_out, NULL, 0, NI_NUMERICHOST);
    }
}

static void write_log(exchange *x)
{
    char client[64];
    client_address(x, client, sizeof client);
    log_entry e = {.id = x->answer ? answer_id(x->answer) : "",
                   .client = client,
                   .method = x->route ? x->route->method : "other",
                   .path = x->route ? x->route->path : "other",
                   .status = x->err.status && !x->stream ? x->err.status : x->status,
                   .code = x->err.status ? x->err.code ? x->err.code : "error" : NULL,
                   .seconds = clock_now() - x->began};
    if (x->job) {
        const job_result *r = job_get_result(x->job);
        e.finish = ft_finish_text(r->gen.finish);
        e.queue_seconds = r->queue_seconds;
        e.n_prompt = r->gen.n_prompt;
        e.n_cached = r->n_cached;
        e.n_token = r->gen.n_token;
        e.drafted = r->gen.draft.drafted;
        e.accepted = r->gen.draft.accepted;
    }
    metrics_request(x->s->metrics, x->route ? x->route->path : "other", e.status, e.seconds);
    if (!x->s->p.log)
        return;
    buf line;
    buf_init(&line, 1 << 16);
    log_format(&e, (double)time(NULL), &line);
    if (!line.failed)
        x->s->p.log(x->s->p.log_ctx, (const char *)line.data, line.len);
    buf_deinit(&line);
}

void http_completed(void *ctx, struct MHD_Connection *c, void **state,
                    enum MHD_RequestTerminationCode why)
{
    server *s = ctx;
    exchange *x = *state;
    (void)c;
    if (!x)
        return;
    *state = NULL;
    completions_cancel(x);
    if (x->err.status == 0 && why != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        job_cancel_error(x->job ? job_cancelled(x->job) : JOB_CANCEL_GONE, &x->err);
    conns_reading(s->conns, x->c);
    write_log(x);
    completions_deinit(x);
    atomic_fetch_sub(&s->bodies, x->charged);
    buf_deinit(&x->body);
    buf_deinit(&x->reply);
    mem_free(x);
    atomic_fetch_sub(&s->n_exchange, 1);
}

void http_connection(void *ctx, struct MHD_Connection *c, void **state,
                     enum MHD_ConnectionNotificationCode what)
{
    server *s = ctx;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        conns_remove(s->conns, *state);
        *state = NULL;
        return;
    }
    int fd = MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    *state = conns_add(s->conns, fd);
    if (!*state) /* it cannot be watched, so it is not served */
        shutdown(fd, SHUT_RDWR);
}
