/* serverrig.h - a whole server on a tiny model inside a test, and JSON answers looked into. */
#ifndef TESTS_SUPPORT_SERVERRIG_H
#define TESTS_SUPPORT_SERVERRIG_H

#include <jansson.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "server/server.h"
#include "support/enginerig.h"
#include "support/rawhttp.h"

typedef struct {
    ft_model *m;
    server *s;
    int port;
    buf log; /* its access log; under lock */
    pthread_mutex_t lock;
} rig_server;

static inline void rig_server_log(void *ctx, const char *line, size_t len)
{
    rig_server *r = ctx;
    pthread_mutex_lock(&r->lock);
    buf_put(&r->log, line, len);
    pthread_mutex_unlock(&r->lock);
}

/* Limits for tests: a stream says something every 50 ms, the rest as in earnest. */
static inline server_params rig_server_params(void)
{
    server_params p = server_params_default();
    p.model_name = "tiny";
    p.port = 0;
    p.session.n_ctx = 512;
    p.session.n_chunk = 64;
    p.limits.keepalive_seconds = 0.05;
    p.limits.stop_seconds = 5;
    return p;
}

/* checkpoint_mem: bytes that checkpoints may hold. */
static inline void rig_server_start_with(rig_server *r, const server_params *p,
                                         uint64_t checkpoint_mem)
{
    *r = (rig_server){.port = 0};
    char path[TEST_PATH_MAX];
    tiny_opts o = tiny_default(MODEL_QWEN35);
    tiny_write(test_path(path, "model.gguf"), &o);
    ft_model_params mp = ft_model_params_default();
    mp.n_thread = 2;
    mp.checkpoint_mem = checkpoint_mem;
    OK(ft_model_open(&r->m, path, &mp, &rig_err));
    pthread_mutex_init(&r->lock, NULL);
    buf_init(&r->log, 1 << 24);
    server_params q = *p;
    q.log = rig_server_log;
    q.log_ctx = r;
    OK(server_create(&r->s, r->m, &q, &rig_err));
    r->port = server_port(r->s);
}

static inline void rig_server_start(rig_server *r, const server_params *p)
{
    rig_server_start_with(r, p, 64 << 20);
}

static inline void rig_server_stop(rig_server *r)
{
    atomic_bool hurry = true;
    server_stop(r->s, &hurry);
    server_free(r->s);
    ft_model_close(r->m);
    buf_deinit(&r->log);
    pthread_mutex_destroy(&r->lock);
}

/* The reply's body as JSON, freed with json_decref; the test fails if it is none. */
static inline json_t *rig_json(const raw_reply *r)
{
    json_error_t why;
    json_t *j = json_loadb((const char *)r->body.data, r->body.len, JSON_ALLOW_NUL, &why);
    if (!j)
        fail_msg("no JSON (%s): %.200s", why.text, (const char *)r->body.data);
    return j;
}

/* What lies at a path of member names and numbers, "choices.0.text"; NULL: nothing. */
static inline json_t *rig_at(json_t *j, const char *path)
{
    while (j && *path) {
        size_t n = strcspn(path, ".");
        char name[64];
        assert_true(n < sizeof name);
        memcpy(name, path, n);
        name[n] = '\0';
        j = json_is_array(j) ? json_array_get(j, (size_t)strtoul(name, NULL, 10))
                             : json_object_get(j, name);
        path += n + (path[n] == '.');
    }
    return j;
}

static inline const char *rig_string(json_t *j, const char *path)
{
    const char *s = json_string_value(rig_at(j, path));
    return s ? s : "(no string)";
}

static inline json_int_t rig_int(json_t *j, const char *path)
{
    json_t *v = rig_at(j, path);
    return json_is_integer(v) ? json_integer_value(v) : -12345;
}

/* A request that is answered with status 200 and this JSON. */
static inline json_t *rig_ask(const rig_server *r, const char *path, const char *body)
{
    raw_reply reply;
    raw_post(r->port, path, body, &reply);
    if (reply.status != 200)
        fail_msg("status %d: %s", reply.status, (const char *)reply.body.data);
    json_t *j = rig_json(&reply);
    raw_reply_free(&reply);
    return j;
}

/* A request that is refused with that status and error code, and words in its message. */
static inline void rig_refused(const rig_server *r, const char *path, const char *body, int status,
                               const char *code, const char *words)
{
    raw_reply reply;
    raw_post(r->port, path, body, &reply);
    if (reply.status != status)
        fail_msg("status %d, want %d: %.200s", reply.status, status, (char *)reply.body.data);
    json_t *j = rig_json(&reply);
    assert_string_equal(rig_string(j, "error.code"), code);
    if (!strstr(rig_string(j, "error.message"), words))
        fail_msg("'%s', want '%s' in it", rig_string(j, "error.message"), words);
    json_decref(j);
    raw_reply_free(&reply);
}

/* The value of a metric's line without labels, or with them in its name; -1: it is not there. */
static inline double rig_metric(const rig_server *r, const char *name)
{
    raw_reply reply;
    raw_request(r->port, "GET", "/metrics", NULL, NULL, &reply);
    assert_int_equal(reply.status, 200);
    size_t n = strlen(name);
    double value = -1;
    for (const char *line = (const char *)reply.body.data; line && *line;) {
        if (strncmp(line, name, n) == 0 && line[n] == ' ')
            value = strtod(line + n, NULL);
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    raw_reply_free(&reply);
    return value;
}

/* Wait until a metric has the value, at most so many seconds; was it so? */
static inline bool rig_wait_metric(const rig_server *r, const char *name, double want,
                                   double seconds)
{
    for (int i = 0; i < (int)(seconds * 100); i++) {
        if (rig_metric(r, name) == want)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return false;
}

#endif
