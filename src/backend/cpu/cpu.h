/* cpu.h - the CPU backend: threads (OpenMP) times kernels. Private to backend/cpu/. */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "kern/kern.h"

struct backend {
    kern_table k;
    int n_thread;
};

/* Work of a loop, in multiply-adds or so, from which threads pay: below it a loop runs on the
 * caller. A core does 2 to 5 * 10^10 of them a second in the integer kernels, and a team costs 2 us to
 * start and end, much more when other programs want the cores. */
#define CPU_PARALLEL_WORK 300000

/* Threads to use for a loop of this much work. */
static inline int cpu_team(const backend *be, size_t work)
{
    return work < CPU_PARALLEL_WORK ? 1 : be->n_thread;
}

static inline size_t cpu_work(int a, int b)
{
    return (size_t)a * (size_t)b;
}

#endif
