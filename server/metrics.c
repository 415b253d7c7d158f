/* metrics.c - see metrics.h. Format: "Exposition formats" of the Prometheus documentation. */
#include "metrics.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

enum { MAX_SERIES = 128 };

typedef struct {
    const char *endpoint;
    int status;
    uint64_t n;
    double seconds;
} series;

struct metrics {
    pthread_mutex_t lock;
    series request[MAX_SERIES];
    int n_request;
    uint64_t jobs_by_finish[4];
    uint64_t prompt, cached, token[3];
    uint64_t rounds, drafted, accepted;
    uint64_t verified_at[FT_DRAFT_MAX], accepted_at[FT_DRAFT_MAX];
    double queue_s, prompt_s, decode_s, sample_s, draft_s, verify_s;
    metrics_now now;
};

metrics *metrics_create(void)
{
    metrics *m = mem_zalloc(sizeof *m);
    if (m)
        pthread_mutex_init(&m->lock, NULL); /* cannot fail with default attributes */
    return m;
}

void metrics_free(metrics *m)
{
    if (!m)
        return;
    pthread_mutex_destroy(&m->lock);
    mem_free(m);
}

void metrics_request(metrics *m, const char *endpoint, int status, double seconds)
{
    pthread_mutex_lock(&m->lock);
    int i = 0;
    while (i < m->n_request &&
           (m->request[i].status != status || strcmp(m->request[i].endpoint, endpoint) != 0))
        i++;
    if (i == m->n_request && i < MAX_SERIES) /* endpoints times statuses are fewer */
        m->request[m->n_request++] = (series){.endpoint = endpoint, .status = status};
    if (i < MAX_SERIES) {
        m->request[i].n++;
        m->request[i].seconds += seconds;
    }
    pthread_mutex_unlock(&m->lock);
}

void metrics_token(metrics *m, ft_token_kind kind)
{
    pthread_mutex_lock(&m->lock);
    m->token[kind]++;
    pthread_mutex_unlock(&m->lock);
}

void metrics_job(metrics *m, const ft_generate_stats *s, int n_cached, double queue_seconds)
{
    pthread_mutex_lock(&m->lock);
    m->jobs_by_finish[s->finish]++;
    m->prompt += (uint64_t)s->n_prompt;
    m->cached += (uint64_t)n_cached;
    m->rounds += s->draft.rounds;
    m->drafted += s->draft.drafted;
    m->accepted += s->draft.accepted;
    for (int i = 0; i < FT_DRAFT_MAX; i++) {
        m->verified_at[i] += s->draft.verified_at[i];
        m->accepted_at[i] += s->draft.accepted_at[i];
    }
    m->queue_s += queue_seconds;
    m->prompt_s += s->prompt_seconds;
    m->decode_s += s->decode_seconds;
    m->sample_s += s->sample_seconds;
    m->draft_s += s->draft.draft_seconds;
    m->verify_s += s->draft.verify_seconds;
    pthread_mutex_unlock(&m->lock);
}

void metrics_engine(metrics *m, const metrics_now *now)
{
    pthread_mutex_lock(&m->lock);
    m->now = *now;
    pthread_mutex_unlock(&m->lock);
}

/* ---- Writing ---- */

static void head(buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP foretoken_%s %s\n# TYPE foretoken_%s %s\n", name, help, name, type);
}

static void counter(buf *out, const char *name, const char *help, double value)
{
    head(out, name, "counter", help);
    buf_printf(out, "foretoken_%s %.17g\n", name, value);
}

static void gauge(buf *out, const char *name, const char *help, double value)
{
    head(out, name, "gauge", help);
    buf_printf(out, "foretoken_%s %.17g\n", name, value);
}

static void write_requests(const metrics *m, buf *out)
{
    head(out, "requests_total", "counter", "Requests answered, by endpoint and HTTP status.");
    for (int i = 0; i < m->n_request; i++)
        buf_printf(out, "foretoken_requests_total{endpoint=\"%s\",status=\"%d\"} %llu\n",
                   m->request[i].endpoint, m->request[i].status,
                   (unsigned long long)m->request[i].n);
    head(out, "request_seconds_total", "counter", "Time from the arrival of requests to the end.");
    for (int i = 0; i < m->n_request; i++)
        buf_printf(out, "foretoken_request_seconds_total{endpoint=\"%s\",status=\"%d\"} %.9g\n",
                   m->request[i].endpoint, m->request[i].status, m->request[i].seconds);
    head(out, "answers_total", "counter", "Answers of the engine, by what ended them.");
    for (int i = 0; i < (int)ARRAY_LEN(m->jobs_by_finish); i++)
        buf_printf(out, "foretoken_answers_total{finish=\"%s\"} %llu\n",
                   ft_finish_text((ft_finish)i), (unsigned long long)m->jobs_by_finish[i]);
}

static void write_depths(const metrics *m, buf *out, const char *name, const char *help,
                         const uint64_t *at)
{
    head(out, name, "counter", help);
    for (int i = 0; i < FT_DRAFT_MAX && m->verified_at[i] > 0; i++)
        buf_printf(out, "foretoken_%s{depth=\"%d\"} %llu\n", name, i + 1,
                   (unsigned long long)at[i]);
}

static void write_tokens(const metrics *m, buf *out)
{
    static const char *const kind[] = {"plain", "accepted", "corrected"};
    counter(out, "prompt_tokens_total", "Tokens of prompts that were read.", (double)m->prompt);
    counter(out, "prompt_tokens_cached_total", "Tokens of prompts that were known.",
            (double)m->cached);
    head(out, "tokens_total", "counter", "Tokens made, by how they came about.");
    for (int i = 0; i < 3; i++)
        buf_printf(out, "foretoken_tokens_total{kind=\"%s\"} %llu\n", kind[i],
                   (unsigned long long)m->token[i]);
    counter(out, "draft_rounds_total", "Verifications of drafts.", (double)m->rounds);
    counter(out, "drafted_total", "Drafts made.", (double)m->drafted);
    counter(out, "accepted_total", "Drafts that became text.", (double)m->accepted);
    write_depths(m, out, "draft_verified_total",
                 "Drafts whose forerunners were all accepted, by depth.", m->verified_at);
    write_depths(m, out, "draft_accepted_total", "Of them those that were accepted.",
                 m->accepted_at);
}

static void write_seconds(const metrics *m, buf *out)
{
    const struct {
        const char *phase;
        double s;
    } phase[] = {{"queue", m->queue_s},   {"prompt", m->prompt_s}, {"decode", m->decode_s},
                 {"sample", m->sample_s}, {"draft", m->draft_s},   {"verify", m->verify_s}};
    head(out, "seconds_total", "counter",
         "Time of answers by phase; sample, draft and verify are parts of decode.");
    for (size_t i = 0; i < ARRAY_LEN(phase); i++)
        buf_printf(out, "foretoken_seconds_total{phase=\"%s\"} %.9g\n", phase[i].phase, phase[i].s);
}

static void write_now(const metrics_now *n, int n_queued, int n_connection, buf *out)
{
    gauge(out, "queue_length", "Requests that wait for a slot.", n_queued);
    gauge(out, "connections", "Open connections.", n_connection);
    gauge(out, "slots", "Requests that can be answered at a time.", n->n_slot);
    gauge(out, "slots_busy", "Requests that are being answered.", n->n_busy);
    gauge(out, "state_bytes", "Memory of the conversations that slots hold.",
          (double)n->state_bytes);
    gauge(out, "scratch_bytes", "Working memory of a step.", (double)n->scratch_bytes);
    gauge(out, "checkpoints", "Checkpoints kept.", n->checkpoint.n);
    gauge(out, "checkpoint_bytes", "Memory of checkpoints.", (double)n->checkpoint.bytes);
    gauge(out, "checkpoint_limit_bytes", "Memory that checkpoints may hold.",
          (double)n->checkpoint.limit);
    counter(out, "checkpoint_hits_total", "Prompts of which a beginning was known.",
            (double)n->checkpoint.hits);
    counter(out, "checkpoint_misses_total", "Prompts of which none was.",
            (double)n->checkpoint.misses);
    counter(out, "checkpoint_evicted_total", "Checkpoints given up for others.",
            (double)n->checkpoint.evicted);
}

void metrics_write(metrics *m, int n_queued, int n_connection, buf *out)
{
    pthread_mutex_lock(&m->lock);
    write_requests(m, out);
    write_tokens(m, out);
    write_seconds(m, out);
    write_now(&m->now, n_queued, n_connection, out);
    pthread_mutex_unlock(&m->lock);
}
