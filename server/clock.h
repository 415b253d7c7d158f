/* clock.h - one clock that only goes forward, for ages, deadlines and waiting. */
#ifndef SERVER_CLOCK_H
#define SERVER_CLOCK_H

#include <pthread.h>
#include <time.h>

double clock_now(void); /* seconds */
/* For pthread_cond_timedwait with a condition of clock_cond_init. */
struct timespec clock_after(double seconds);
/* A condition that waits by this clock; 0 or an errno. */
int clock_cond_init(pthread_cond_t *c);
void clock_sleep(double seconds);

#endif
