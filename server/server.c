/* server.c - see server.h: what is made in which order, and taken down in the other. */
#include "server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "clock.h"
#include "exchange.h"

enum {
    HEAD_BYTES = 32768,    /* of a request's first line and headers, and MHD's own buffers */
    STACK_BYTES = 1 << 19, /* of a connection's thread */
};

server_limits server_limits_default(void)
{
    return (server_limits){.body_bytes = (size_t)32 << 20,
                           .bodies_bytes = (size_t)512 << 20,
                           .n_connection = 256,
                           .n_queue = 64,
                           .read_seconds = 60,
                           .write_seconds = 30,
                           .answer_seconds = 3600,
                           .keepalive_seconds = 5,
                           .stop_seconds = 30};
}

server_params server_params_default(void)
{
    return (server_params){.host = "127.0.0.1",
                           .port = 8080,
                           .n_slot = 4,
                           .session = ft_session_params_default(),
                           .defaults = request_defaults_api(),
                           .limits = server_limits_default()};
}

/* FNV-1a of what decides about a text besides the request. */
static void set_fingerprint(server *s)
{
    uint64_t h = 14695981039346656037u;
    char text[512];
    snprintf(text, sizeof text, "%s|%s|%llu|%s", s->info.arch, s->info.name,
             (unsigned long long)s->info.file_bytes, s->p.session.kv_type);
    for (const char *c = text; *c; c++)
        h = (h ^ (unsigned char)*c) * 1099511628211u;
    snprintf(s->fingerprint, sizeof s->fingerprint, "fp_%012llx",
             (unsigned long long)(h & 0xFFFFFFFFFFFF));
}

/* ---- Listening ---- */

static ft_status resolve(const server_params *p, struct addrinfo **out, ft_error *err)
{
    char port[16];
    snprintf(port, sizeof port, "%d", p->port);
    struct addrinfo hint = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    int rc = getaddrinfo(p->host, port, &hint, out);
    if (rc != 0)
        return err_set(err, FT_ARG, "host: '%s': %s", p->host, gai_strerror(rc));
    return FT_OK;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static void ignore_message(void *ctx, const char *fmt, va_list args)
{
    (void)ctx;
    (void)fmt;
    (void)args;
}

static ft_status listen_on(server *s, const struct addrinfo *a, ft_error *err)
{
    if (!is_loopback(a->ai_addr) && !s->p.api_key)
        return err_set(err, FT_ARG,
                       "host: '%s' can be reached from other machines, which needs an API key",
                       s->p.host);
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    if (a->ai_family == AF_INET6)
        flags |= MHD_USE_IPv6;
    const server_limits *l = &s->p.limits;
    s->daemon = MHD_start_daemon(
        flags, 0, NULL, NULL, http_handle, s, MHD_OPTION_EXTERNAL_LOGGER, ignore_message, NULL,
        MHD_OPTION_SOCK_ADDR, a->ai_addr, MHD_OPTION_CONNECTION_LIMIT, (unsigned)l->n_connection,
        MHD_OPTION_CONNECTION_TIMEOUT, 0u, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEAD_BYTES,
        MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_NOTIFY_COMPLETED, http_completed, s, MHD_OPTION_NOTIFY_CONNECTION,
        http_connection, s, MHD_OPTION_END);
    if (!s->daemon)
        return err_set(err, FT_IO, "%s, port %d: cannot be listened on; is it in use?", s->p.host,
                       s->p.port);
    return FT_OK;
}

/* ---- Life ---- */

static ft_status start(server *s, ft_error *err)
{
    s->queue = queue_create(s->p.limits.n_queue);
    s->metrics = metrics_create();
    if (!s->queue || !s->metrics)
        return err_set(err, FT_NOMEM, "server: a queue of %d", s->p.limits.n_queue);
    worker_params wp = {.model = s->model,
                        .session = s->p.session,
                        .n_slot = s->p.n_slot,
                        .write_seconds = s->p.limits.write_seconds,
                        .metrics = s->metrics,
                        .queue = s->queue};
    TRY(worker_create(&s->worker, &wp, err));
    s->conns = conns_create(s->p.limits.read_seconds, s->p.limits.write_seconds);
    if (!s->conns)
        return err_set(err, FT_NOMEM, "server: the thread that watches connections");
    struct addrinfo *a;
    TRY(resolve(&s->p, &a, err));
    ft_status st = listen_on(s, a, err);
    freeaddrinfo(a);
    return st;
}

ft_status server_create(server **out, ft_model *m, const server_params *p, ft_error *err)
{
    *out = NULL;
    server *s = mem_zalloc(sizeof *s);
    if (!s)
        return err_set(err, FT_NOMEM, "server");
    s->p = *p;
    s->p.defaults.max_tokens = p->limits.max_tokens;
    s->model = m;
    s->guard = (guard){.api_key = p->api_key, .name = p->host};
    s->created = (int64_t)time(NULL);
    ft_model_get_info(m, &s->info);
    set_fingerprint(s);
    ft_status st = start(s, err);
    if (st == FT_OK) {
        *out = s;
        return FT_OK;
    }
    atomic_bool hurry = true;
    server_stop(s, &hurry);
    server_free(s);
    return st;
}

int server_port(const server *s)
{
    return MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

/* What was made is sent before connections are closed; in a hurry only what readers take at once. */
static void wait_for_answers(server *s, const atomic_bool *hurry)
{
    double began = clock_now();
    while (conns_n_answering(s->conns) > 0) {
        double waited = clock_now() - began;
        if (waited > (atomic_load(hurry) ? 1 : s->p.limits.write_seconds))
            break;
        clock_sleep(0.01);
    }
}

void server_stop(server *s, const atomic_bool *hurry)
{
    atomic_store(&s->stopping, true);
    if (s->daemon) {
        MHD_socket fd = MHD_quiesce_daemon(s->daemon);
        if (fd != MHD_INVALID_SOCKET)
            close(fd);
    }
    if (s->queue)
        queue_close(s->queue);
    if (s->worker)
        worker_drain(s->worker, s->p.limits.stop_seconds, hurry);
    if (s->conns)
        wait_for_answers(s, hurry);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    s->daemon = NULL;
}

void server_free(server *s)
{
    if (!s)
        return;
    conns_free(s->conns);
    worker_free(s->worker);
    metrics_free(s->metrics);
    queue_free(s->queue);
    mem_free(s);
}
