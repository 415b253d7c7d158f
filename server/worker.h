/* worker.h - the engine's thread: it alone touches the sessions.
 *
 * 1. N slots are the sessions of one batch. Jobs take a slot in the order of the queue; every step
 *    advances all of them that have room for what it may make.
 * 2. Whatever ends a job - its text, an error, a cancellation, a limit - its slot is free before the
 *    next step.
 * 3. What fails in one job ends that one.
 */
#ifndef SERVER_WORKER_H
#define SERVER_WORKER_H

#include "metrics.h"
#include "queue.h"

typedef struct {
    ft_model *model;           /* borrowed */
    ft_session_params session; /* batch is filled in; n_ctx: of each slot */
    int n_slot;                /* 1 .. 256 */
    double write_seconds;      /* that a job may wait for its reader */
    metrics *metrics;          /* borrowed */
    queue *queue;              /* borrowed */
} worker_params;

typedef struct worker worker;

/* Create the sessions and start the thread. Errors: as ft_batch_create and ft_session_create; DEVICE
 * (no thread). */
ft_status worker_create(worker **out, const worker_params *p, ft_error *err) MUST_CHECK;
/* The queue was closed: wait until all jobs have ended. After seconds those that have not are
 * cancelled (JOB_CANCEL_STOPPING). *hurry: when it becomes true, at once. */
void worker_drain(worker *w, double seconds, const atomic_bool *hurry);
void worker_free(worker *w); /* after worker_drain; NULL is allowed */
int worker_n_ctx(const worker *w);

#endif
