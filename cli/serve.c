/* serve.c - `foretoken serve`: options, the access log on standard error, signals. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "common.h"
#include "server/server.h"

typedef struct {
    model_args m;
    server_params p;
    const char *key_file, *name;
    uint64_t max_body;
    int draft_max;
    bool no_draft, no_log;
    float read, write, answer, keepalive, stop;
} options;

static void write_log(void *ctx, const char *line, size_t len)
{
    (void)ctx;
    fwrite(line, 1, len, stderr); /* one call: lines of threads do not mix */
}

/* ---- Signals ---- */

static atomic_bool hurry;

static void on_second_signal(int sig)
{
    (void)sig;
    atomic_store(&hurry, true);
}

static void signals_of_the_end(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
}

/* Before the first thread: all inherit it, so that sigwait alone sees the signals. */
static void block_signals(void)
{
    sigset_t set;
    signals_of_the_end(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* Serve until a signal comes; a second one makes the end a quick one. */
static void wait_for_end(server *s)
{
    sigset_t set;
    int sig;
    signals_of_the_end(&set);
    sigwait(&set, &sig);
    fprintf(stderr, "foretoken serve: finishing what is under way; once more: at once\n");
    struct sigaction a = {.sa_handler = on_second_signal};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    server_stop(s, &hurry);
}

/* ---- Options ---- */

/* The first line of a file is the key; *key is owned by the caller (free). The exit code; -1: go on. */
static int read_key(const char *path, char **key)
{
    size_t len;
    int rc = read_text("serve", path, key, &len);
    if (rc >= 0)
        return rc;
    (*key)[strcspn(*key, "\r\n")] = '\0';
    if (**key)
        return -1;
    fprintf(stderr, "foretoken serve: --api-key-file: the first line of '%s' is empty\n", path);
    free(*key);
    *key = NULL;
    return EXIT_USAGE;
}

/* What clients call the model unless told: the file's name without its end. *name is owned (free). */
static int name_of(const char *path, char **name)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t len = strlen(base);
    if (len > 5 && strcmp(base + len - 5, ".gguf") == 0)
        len -= 5;
    *name = strndup(base, len);
    return *name ? -1 : report_failure("serve", FT_NOMEM, NULL);
}

static void resolve(options *o)
{
    server_limits *l = &o->p.limits;
    l->body_bytes = o->max_body < (size_t)1 << 40 ? (size_t)o->max_body : (size_t)1 << 40;
    if (l->bodies_bytes / 8 < l->body_bytes)
        l->bodies_bytes = 8 * l->body_bytes;
    l->read_seconds = (double)o->read;
    l->write_seconds = (double)o->write;
    l->answer_seconds = (double)o->answer;
    l->keepalive_seconds = (double)o->keepalive;
    l->stop_seconds = (double)o->stop;
    o->p.session.n_ctx = o->m.n_ctx;
    o->p.session.n_chunk = o->m.n_chunk;
    o->p.session.kv_type = o->m.kv;
    o->p.session.sink = o->m.sink;
    o->p.session.window = o->m.window;
    o->p.session.checkpoint_every = o->m.checkpoint_every;
    o->p.session.no_draft = o->no_draft;
    o->p.defaults.draft_max = o->no_draft ? 0 : o->draft_max;
    o->p.log = o->no_log ? NULL : write_log;
}

static int serve(options *o, ft_model *m)
{
    server *s;
    ft_error err = {0};
    ft_status st = server_create(&s, m, &o->p, &err);
    if (st != FT_OK)
        return report_failure("serve", st, &err);
    bool v6 = strchr(o->p.host, ':') != NULL;
    fprintf(stderr, "foretoken serve: %s on http://%s%s%s:%d, %d requests at a time\n",
            o->p.model_name, v6 ? "[" : "", o->p.host, v6 ? "]" : "", server_port(s), o->p.n_slot);
    wait_for_end(s);
    server_free(s);
    return EXIT_OK;
}

static int run(options *o)
{
    char *key = NULL, *name = NULL;
    ft_model *m = NULL;
    int rc = o->key_file ? read_key(o->key_file, &key) : -1;
    if (rc < 0 && key)
        o->p.api_key = key;
    o->p.model_name = o->name;
    if (rc < 0 && !o->name && o->m.model) {
        rc = name_of(o->m.model, &name);
        o->p.model_name = name;
    }
    block_signals();
    if (rc < 0)
        rc = open_model("serve", &o->m, &m, NULL);
    if (rc < 0)
        rc = serve(o, m);
    ft_model_close(m);
    free(name);
    free(key);
    return rc;
}

int cmd_serve(int argc, char **argv)
{
    server_params d = server_params_default();
    options o = {.m = model_args_default(),
                 .p = d,
                 .max_body = d.limits.body_bytes,
                 .draft_max = d.defaults.draft_max,
                 .read = (float)d.limits.read_seconds,
                 .write = (float)d.limits.write_seconds,
                 .answer = (float)d.limits.answer_seconds,
                 .keepalive = (float)d.limits.keepalive_seconds,
                 .stop = (float)d.limits.stop_seconds};
    o.m.checkpoint_every = d.session.checkpoint_every;
    ft_sample_params *sp = &o.p.defaults.sample;
    const arg_spec spec[] = {
        COMMON_MODEL_ARGS(o.m),
        COMMON_DRAFT_ARGS(o.m),
        {"--host", 0, ARG_STR, &o.p.host, 0, 0, "ADDR",
         "address to listen on; others than this machine's own need an API key"},
        {"--port", 0, ARG_INT, &o.p.port, 0, 65535, "N", "port to listen on; 0: any free one"},
        {"--api-key", 0, ARG_STR, &o.p.api_key, 0, 0, "KEY",
         "clients must send it; other users of this machine may see it here"},
        {"--api-key-file", 0, ARG_STR, &o.key_file, 0, 0, "FILE",
         "the same, from a file's first line"},
        {"--alias", 0, ARG_STR, &o.name, 0, 0, "NAME",
         "what clients call the model; the file's name"},
        {"--parallel", 0, ARG_INT, &o.p.n_slot, 1, 256, "N", "requests answered at a time"},
        {"--ctx-per-request", 'c', ARG_INT, &o.m.n_ctx, 0, 16777216, "N",
         "context of each request in tokens; 0: the model's own, 8192 at most"},
        {"--max-tokens", 0, ARG_INT, &o.p.limits.max_tokens, 0, INT32_MAX, "N",
         "most tokens of an answer; 0: as many as fit the context"},
        {"--temp", 0, ARG_FLOAT, &sp->temp, 0, 2, "T", "temperature of requests without one"},
        {"--top-k", 0, ARG_INT, &sp->top_k, 0, INT32_MAX, "K", "the same for top_k; 0: off"},
        {"--top-p", 0, ARG_FLOAT, &sp->top_p, 0, 1, "P", "the same for top_p; 1: off"},
        {"--min-p", 0, ARG_FLOAT, &sp->min_p, 0, 1, "P", "the same for min_p; 0: off"},
        {"--draft-max", 0, ARG_INT, &o.draft_max, 0, FT_DRAFT_MAX, "N",
         "most drafts a round, of requests that do not say; 0: none"},
        {"--no-draft", 0, ARG_FLAG, &o.no_draft, 0, 0, NULL, "no drafts, and no memory for them"},
        {"--checkpoint-every", 0, ARG_INT, &o.m.checkpoint_every, 0, INT32_MAX, "N",
         "keep a checkpoint every so many tokens too; 0: only where messages end"},
        {"--max-queue", 0, ARG_INT, &o.p.limits.n_queue, 1, 65536, "N", "requests that may wait"},
        {"--max-connections", 0, ARG_INT, &o.p.limits.n_connection, 1, 4096, "N",
         "connections open at a time"},
        {"--max-body", 0, ARG_BYTES, &o.max_body, 0, 0, "SIZE",
         "largest body of a request, like 32M"},
        {"--read-timeout", 0, ARG_FLOAT, &o.read, 0.1, 86400, "SECONDS",
         "in which a request must be there, and idle connections are kept"},
        {"--write-timeout", 0, ARG_FLOAT, &o.write, 0.1, 86400, "SECONDS",
         "that an answer waits for a slow reader, in all"},
        {"--time-limit", 0, ARG_FLOAT, &o.answer, 0, 1e6, "SECONDS",
         "in which an answer must be complete, waiting included; 0: none"},
        {"--keepalive", 0, ARG_FLOAT, &o.keepalive, 0.01, 3600, "SECONDS",
         "of silence after which a stream gets a comment"},
        {"--stop-timeout", 0, ARG_FLOAT, &o.stop, 0, 86400, "SECONDS",
         "that running answers get when the server is told to end"},
        {"--no-log", 0, ARG_FLAG, &o.no_log, 0, 0, NULL, "no access log on standard error"},
    };
    arg_command c = {.command = "serve",
                     .usage = "-m FILE [options]",
                     .about =
                         "Answer requests over HTTP by the OpenAI API. SIGTERM or Ctrl-C ends it.",
                     .spec = spec,
                     .n_spec = (int)(sizeof spec / sizeof *spec)};
    int rc = args_parse(&c, argc, argv);
    if (rc >= 0)
        return rc;
    if (o.p.api_key && o.key_file) {
        fprintf(stderr, "foretoken serve: --api-key and --api-key-file exclude each other\n");
        return EXIT_USAGE;
    }
    if (o.p.api_key && !*o.p.api_key) {
        fprintf(stderr, "foretoken serve: --api-key: is empty\n");
        return EXIT_USAGE;
    }
    resolve(&o);
    return run(&o);
}
