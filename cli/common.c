/* common.c - see common.h. */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/map.h"

/* The option behind a field that the library names at the start of a message; NULL: none. */
static const char *option_of(const char *msg, size_t *len)
{
    static const struct {
        const char *field, *option;
    } known[] = {{"n_ctx", "--ctx-size"},
                 {"n_window", "--window"},
                 {"n_skip", "--skip"},
                 {"kv_type", "--kv"},
                 {"cpu", "--cpu"},
                 {"prompt", "--prompt, --file"},
                 {"n_draft_vocab", "--draft-vocab-size"},
                 {"shape", "--shape"},
                 {"type", "--type"}};
    *len = strcspn(msg, ":");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].field) == *len && strncmp(known[i].field, msg, *len) == 0)
            return known[i].option;
    return NULL;
}

int report_failure(const char *command, ft_status st, const ft_error *err)
{
    const char *msg = err && err->code != FT_OK && err->msg[0] ? err->msg : ft_status_text(st);
    size_t len;
    const char *option = option_of(msg, &len);
    fprintf(stderr, "foretoken %s: %s%s\n", command, option ? option : "",
            option ? msg + len : msg);
    return st == FT_ARG ? EXIT_USAGE : EXIT_FAILED;
}

int print_object(const char *command, json_t *j)
{
    char *dump = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
    if (dump)
        puts(dump);
    free(dump);
    json_decref(j);
    return dump ? EXIT_OK : report_failure(command, FT_NOMEM, NULL);
}

/* A pipe without a reader. */
static bool reader_gone(void)
{
    struct pollfd p = {.fd = STDOUT_FILENO};
    return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

int end_output(int rc)
{
    if ((fflush(stdout) == 0 && !ferror(stdout)) || reader_gone())
        return rc;
    fprintf(stderr, "foretoken: standard output could not be written\n");
    return rc == EXIT_OK ? EXIT_FAILED : rc;
}

double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t peak_resident_bytes(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? (uint64_t)u.ru_maxrss * 1024 : 0;
}

/* ---- Ctrl-C ---------------------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupt_seen, interrupt_limit = 2;
static ft_session *volatile interrupt_session;
static int interrupt_pipe[2] = {-1, -1};

static void on_interrupt(int sig)
{
    (void)sig;
    int saved = errno;
    interrupt_seen++;
    if (interrupt_seen >= interrupt_limit)
        _exit(128 + SIGINT);
    ft_session *s = interrupt_session;
    if (s)
        ft_session_cancel(s); /* stores one atomic flag: allowed in a handler */
    if (interrupt_pipe[1] >= 0)
        (void)!write(interrupt_pipe[1], "", 1);
    errno = saved;
}

void interrupt_install(ft_session *s)
{
    interrupt_session = s;
    struct sigaction a = {.sa_handler = on_interrupt};
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
}

bool interrupted(void)
{
    return interrupt_seen != 0;
}

int interrupt_watch(int n_end)
{
    interrupt_limit = n_end;
    if (pipe(interrupt_pipe) != 0)
        return -1;
    for (int i = 0; i < 2; i++) {
        fcntl(interrupt_pipe[i], F_SETFL, O_NONBLOCK);
        fcntl(interrupt_pipe[i], F_SETFD, FD_CLOEXEC);
    }
    return interrupt_pipe[0];
}

int interrupt_count(void)
{
    return interrupt_seen;
}

void interrupt_forget(void)
{
    char c[16];
    while (read(interrupt_pipe[0], c, sizeof c) > 0)
        ;
    interrupt_seen = 0;
}

/* ---- Progress -------------------------------------------------------------------------------------- */

bool progress_show(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    progress_bar *p = ctx;
    if (interrupted())
        return false;
    double t = now_seconds();
    if (p->started == 0)
        p->started = t;
    if (!isatty(STDERR_FILENO) || total == 0 || (t - p->last < 0.1 && done < total))
        return true;
    p->last = t;
    p->shown = true;
    enum { WIDTH = 30 };
    double share = (double)done / (double)total;
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < (int)(share * WIDTH) ? '#' : '.';
    bar[WIDTH] = '\0';
    double left = share > 0 ? (t - p->started) * (1 - share) / share : 0;
    fprintf(stderr, "\r\033[K%s [%s] %3.0f %%  %.0f s left", p->label ? p->label : what, bar,
            100 * share, left);
    fflush(stderr);
    return true;
}

void progress_end(progress_bar *p)
{
    if (p->shown)
        fprintf(stderr, "\r\033[K");
    *p = (progress_bar){.label = p->label};
}

/* ---- Rules of verification -------------------------------------------------------------------------- */

static const char *const rule_name[] = {"coupled", "block", "ratio", "greedy-match"};

const char *verify_name(ft_verify rule)
{
    return rule_name[rule];
}

bool verify_find(const char *name, size_t len, ft_verify *out)
{
    for (size_t i = 0; i < sizeof rule_name / sizeof *rule_name; i++)
        if (strlen(rule_name[i]) == len && strncmp(rule_name[i], name, len) == 0) {
            *out = (ft_verify)i;
            return true;
        }
    return false;
}

/* ---- Models and texts ------------------------------------------------------------------------------- */

model_args model_args_default(void)
{
    ft_session_params p = ft_session_params_default();
    return (model_args){.kv = p.kv_type,
                        .n_ctx = p.n_ctx,
                        .n_chunk = p.n_chunk,
                        .sink = p.sink,
                        .window = p.window,
                        .checkpoint_mem = ft_model_params_default().checkpoint_mem,
                        .draft_quant = "default",
                        .draft_quant_mixers = "file"};
}

int open_model(const char *command, const model_args *a, ft_model **m, ft_session **s)
{
    *m = NULL;
    if (!a->model || !*a->model) {
        fprintf(stderr, "foretoken %s: no model; give one with -m FILE\n", command);
        return EXIT_USAGE;
    }
    ft_model_params mp = {.mtp_path = a->mtp,
                          .n_thread = a->n_thread,
                          .cpu = a->cpu,
                          .draft_quant = a->draft_quant,
                          .draft_quant_mixers = a->draft_quant_mixers,
                          .draft_vocab = a->draft_vocab,
                          .checkpoint_mem = a->checkpoint_mem};
    ft_error err = {0};
    ft_status st = ft_model_open(m, a->model, &mp, &err);
    if (st != FT_OK)
        return report_failure(command, st, &err);
    if (!s)
        return -1;
    ft_session_params sp = {.n_ctx = a->n_ctx,
                            .n_chunk = a->n_chunk,
                            .kv_type = a->kv,
                            .no_draft = a->no_drafter,
                            .sink = a->sink,
                            .window = a->window,
                            .checkpoint_every = a->checkpoint_every};
    st = ft_session_create(s, *m, &sp, &err);
    if (st == FT_OK)
        return -1;
    ft_model_close(*m);
    *m = NULL;
    return report_failure(command, st, &err);
}

int read_text(const char *command, const char *path, char **text, size_t *len)
{
    ft_error err = {0};
    ft_status st = file_read_all(text, len, path, (size_t)1 << 30, &err);
    return st == FT_OK ? -1 : report_failure(command, st, &err);
}
