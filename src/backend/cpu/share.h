/* share.h - a list of equal pieces of work shared out over threads. Private to backend/cpu/. */
#ifndef BACKEND_CPU_SHARE_H
#define BACKEND_CPU_SHARE_H

#include "backend/cpu/cpu.h"

/* Do pieces i0 .. i1 - 1. Called by several threads at once, for ranges that share no piece. */
typedef void cpu_share_fn(const void *ctx, int i0, int i1);

/* Call fn for ranges that together are the pieces 0 .. n - 1. Work decides about threads as in
 * CPU_FOR; with one, fn is called once. Every thread begins with a stretch of its own, front to
 * back, so that it streams through memory; one that is done takes steps from the others' stretches.
 * Which thread does a piece must change nothing. */
void cpu_share(const backend *be, size_t work, int n, cpu_share_fn *fn, const void *ctx);

#endif
