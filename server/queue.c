/* queue.c - see queue.h: a ring under a lock. */
#include "queue.h"

#include "base/mem.h"
#include "clock.h"

struct queue {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    job **ring; /* [n_max], owned references */
    int n_max, first, n;
    bool closed;
};

queue *queue_create(int n_max)
{
    queue *q = mem_zalloc(sizeof *q);
    if (!q)
        return NULL;
    q->n_max = n_max;
    q->ring = mem_calloc((size_t)n_max, sizeof *q->ring);
    if (!q->ring || clock_cond_init(&q->wake) != 0) {
        mem_free(q->ring);
        mem_free(q);
        return NULL;
    }
    pthread_mutex_init(&q->lock, NULL); /* cannot fail with default attributes */
    return q;
}

void queue_free(queue *q)
{
    if (!q)
        return;
    pthread_mutex_destroy(&q->lock);
    pthread_cond_destroy(&q->wake);
    mem_free(q->ring);
    mem_free(q);
}

queue_status queue_push(queue *q, job *j)
{
    pthread_mutex_lock(&q->lock);
    queue_status st = q->closed ? QUEUE_CLOSED : q->n == q->n_max ? QUEUE_FULL : QUEUE_OK;
    if (st == QUEUE_OK) {
        q->ring[(q->first + q->n++) % q->n_max] = job_ref(j);
        pthread_cond_signal(&q->wake);
    }
    pthread_mutex_unlock(&q->lock);
    return st;
}

/* The i-th oldest job, taken out; those behind it move up. */
static job *take_at(queue *q, int i)
{
    job *j = q->ring[(q->first + i) % q->n_max];
    for (; i + 1 < q->n; i++)
        q->ring[(q->first + i) % q->n_max] = q->ring[(q->first + i + 1) % q->n_max];
    q->n--;
    return j;
}

static bool always(job *j, void *ctx)
{
    (void)j;
    (void)ctx;
    return true;
}

job *queue_take(queue *q, bool (*ends)(job *j, void *ctx), void *ctx)
{
    job *j = NULL;
    pthread_mutex_lock(&q->lock);
    for (int i = 0; i < q->n && !j; i++)
        if (ends(q->ring[(q->first + i) % q->n_max], ctx))
            j = take_at(q, i);
    pthread_mutex_unlock(&q->lock);
    return j;
}

job *queue_pop(queue *q)
{
    return queue_take(q, always, NULL);
}

int queue_length(queue *q)
{
    pthread_mutex_lock(&q->lock);
    int n = q->n;
    pthread_mutex_unlock(&q->lock);
    return n;
}

void queue_wait(queue *q, double seconds)
{
    struct timespec until = clock_after(seconds);
    pthread_mutex_lock(&q->lock);
    if (q->n == 0 && !q->closed)
        pthread_cond_timedwait(&q->wake, &q->lock, &until);
    pthread_mutex_unlock(&q->lock);
}

void queue_close(queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = true;
    pthread_cond_broadcast(&q->wake);
    pthread_mutex_unlock(&q->lock);
}

bool queue_is_closed(queue *q)
{
    pthread_mutex_lock(&q->lock);
    bool closed = q->closed;
    pthread_mutex_unlock(&q->lock);
    return closed;
}
