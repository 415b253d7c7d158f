/* metrics.h - what the server has done, counted, for /metrics. Any thread. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "job.h"

typedef struct metrics metrics;
metrics *metrics_create(void) MUST_CHECK; /* NULL: no memory */
void metrics_free(metrics *m);            /* NULL is allowed */

/* A request was answered; endpoint: a static string, status: HTTP. */
void metrics_request(metrics *m, const char *endpoint, int status, double seconds);
void metrics_token(metrics *m, ft_token_kind kind);
/* A job ended. */
void metrics_job(metrics *m, const ft_generate_stats *stats, int n_cached, double queue_seconds);

/* What is true now. */
typedef struct {
    int n_slot, n_busy, n_queued, n_connection;
    size_t state_bytes, scratch_bytes;
    ft_checkpoint_stats checkpoint;
} metrics_now;
/* The engine's thread tells its part: n_busy, state and checkpoints. */
void metrics_engine(metrics *m, const metrics_now *now);
/* Everything in the Prometheus text format, version 0.0.4; n_queued, n_connection: as they are. */
void metrics_write(metrics *m, int n_queued, int n_connection, buf *out);

#endif
