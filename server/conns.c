/* conns.c - see conns.h. */
#define _GNU_SOURCE /* POLLRDHUP */
#include "conns.h"

#include <poll.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "clock.h"

#define TICK_SECONDS 0.05

struct conn {
    conn *prev, *next;
    int fd;
    bool answering;
    job *j;          /* borrowed */
    double deadline; /* 0: none */
};

struct conns {
    pthread_mutex_t lock; /* of all below, and of the connections: no fd closes while it is held */
    pthread_cond_t wake;
    conn *first;
    int n;
    bool stop;
    double read_seconds, write_seconds;
    pthread_t thread;
};

static bool has_gone(const conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void look_at(conns *s, conn *c, double now)
{
    if (c->j) {
        if (job_has_ended(c->j)) { /* what is left to send gets its time */
            c->j = NULL;
            c->deadline = now + s->write_seconds;
        } else if (has_gone(c)) {
            job_cancel(c->j, JOB_CANCEL_GONE);
        }
    }
    if (c->deadline > 0 && now > c->deadline)
        shutdown(c->fd, SHUT_RDWR); /* its thread wakes up and closes it */
}

static void *watch(void *ctx)
{
    conns *s = ctx;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        double now = clock_now();
        for (conn *c = s->first; c; c = c->next)
            look_at(s, c, now);
        struct timespec until = clock_after(s->n > 0 ? TICK_SECONDS : 1);
        pthread_cond_timedwait(&s->wake, &s->lock, &until);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

conns *conns_create(double read_seconds, double write_seconds)
{
    conns *s = mem_zalloc(sizeof *s);
    if (!s || clock_cond_init(&s->wake) != 0) {
        mem_free(s);
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL); /* cannot fail with default attributes */
    s->read_seconds = read_seconds;
    s->write_seconds = write_seconds;
    if (pthread_create(&s->thread, NULL, watch, s) == 0)
        return s;
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->wake);
    mem_free(s);
    return NULL;
}

void conns_free(conns *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->wake);
    mem_free(s);
}

conn *conns_add(conns *s, int fd)
{
    conn *c = mem_zalloc(sizeof *c);
    if (!c)
        return NULL;
    pthread_mutex_lock(&s->lock);
    *c = (conn){.fd = fd, .next = s->first, .deadline = clock_now() + s->read_seconds};
    if (s->first)
        s->first->prev = c;
    s->first = c;
    if (s->n++ == 0)
        pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    return c;
}

void conns_remove(conns *s, conn *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&s->lock);
    if (c->prev)
        c->prev->next = c->next;
    else
        s->first = c->next;
    if (c->next)
        c->next->prev = c->prev;
    s->n--;
    pthread_mutex_unlock(&s->lock);
    mem_free(c);
}

static void enter(conns *s, conn *c, bool answering, job *j, double deadline)
{
    pthread_mutex_lock(&s->lock);
    c->answering = answering;
    c->j = j;
    c->deadline = deadline;
    pthread_mutex_unlock(&s->lock);
}

void conns_reading(conns *s, conn *c)
{
    enter(s, c, false, NULL, clock_now() + s->read_seconds);
}

void conns_answering(conns *s, conn *c, job *j)
{
    enter(s, c, true, j, j ? 0 : clock_now() + s->write_seconds);
}

int conns_count(conns *s)
{
    pthread_mutex_lock(&s->lock);
    int n = s->n;
    pthread_mutex_unlock(&s->lock);
    return n;
}

int conns_n_answering(conns *s)
{
    int n = 0;
    pthread_mutex_lock(&s->lock);
    for (const conn *c = s->first; c; c = c->next)
        n += c->answering;
    pthread_mutex_unlock(&s->lock);
    return n;
}
