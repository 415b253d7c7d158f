/* conns.h - the open connections, and the thread that watches them.
 *
 * READING   -> ANSWERING  conns_answering  the request is whole
 * ANSWERING -> READING    conns_reading    the answer was sent
 *
 * 1. A connection that reads for longer than its time, however it spreads its bytes, is shut down; one
 *    that answers without a job, or whose job has ended, too.
 * 2. A client that closed its end while its job is under way has its job cancelled, within a tick.
 *    (That is also so for one that only will not send any more: nobody else does that.)
 */
#ifndef SERVER_CONNS_H
#define SERVER_CONNS_H

#include "job.h"

typedef struct conns conns;
typedef struct conn conn;

/* NULL: no memory, or no thread. */
conns *conns_create(double read_seconds, double write_seconds) MUST_CHECK;
void conns_free(conns *s); /* no connections may be left; NULL is allowed */
/* A connection was opened; it is READING. fd is borrowed until conns_remove. NULL: no memory. */
conn *conns_add(conns *s, int fd) MUST_CHECK;
void conns_remove(conns *s, conn *c); /* NULL is allowed */
void conns_reading(conns *s, conn *c);
/* j: borrowed until conns_reading or conns_remove; NULL: the answer is there already. */
void conns_answering(conns *s, conn *c, job *j);
int conns_count(conns *s);
int conns_n_answering(conns *s);

#endif
