/* queue.h - the jobs that wait for a slot: in order of arrival, bounded. Any thread. */
#ifndef SERVER_QUEUE_H
#define SERVER_QUEUE_H

#include "job.h"

typedef struct queue queue;

/* At most n_max jobs (> 0). NULL: no memory. */
queue *queue_create(int n_max) MUST_CHECK;
/* It must be empty. NULL is allowed. */
void queue_free(queue *q);

typedef enum { QUEUE_OK, QUEUE_FULL, QUEUE_CLOSED } queue_status;
/* Append; on QUEUE_OK the queue has a reference of its own. */
queue_status queue_push(queue *q, job *j) MUST_CHECK;
/* The oldest job, with the queue's reference; NULL: empty. */
job *queue_pop(queue *q);
/* Take out the oldest job that ends(job, ctx) is true of; NULL: none. */
job *queue_take(queue *q, bool (*ends)(job *j, void *ctx), void *ctx);
int queue_length(queue *q);
/* Wait until there are jobs, the queue is closed or woken, or seconds went by. */
void queue_wait(queue *q, double seconds);
/* From now on nothing is appended. */
void queue_close(queue *q);
bool queue_is_closed(queue *q);

#endif
