/* cpu.h - the CPU backend: threads (OpenMP) times kernels. Private to backend/cpu/. */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#ifdef _OPENMP
#    include <omp.h>
#endif

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

/* In front of a for loop: its iterations are shared out over threads when there is enough work. More
 * arguments are OpenMP clauses. Without OpenMP the loop just runs. */
#ifdef _OPENMP
#    define CPU_PRAGMA(text) _Pragma(#    text)
#    define CPU_FOR(be, work, ...) CPU_PRAGMA(omp parallel for num_threads(cpu_team(be, work)) __VA_ARGS__)
#else
#    define CPU_FOR(be, work, ...) (void)cpu_team(be, work);
#endif

/* Number of the calling thread in its team, below backend_n_thread(). */
static inline int cpu_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

static inline size_t cpu_work(int a, int b)
{
    return (size_t)a * (size_t)b;
}

static inline int cpu_min(int a, int b)
{
    return a < b ? a : b;
}

#endif
