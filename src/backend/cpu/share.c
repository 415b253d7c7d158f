/* share.c - see share.h.
 *
 * A shared counter alone would hand neighbouring pieces to different threads: each would begin every
 * piece cold, and fetch ahead what another one computes. */
#include "backend/cpu/share.h"

#include <stdatomic.h>

/* MAX_LANE: threads beyond share lanes. STEPS: of a lane, so that the last thread to finish does an
 * eighth of a lane alone at most. */
enum { MAX_LANE = 64, STEPS = 8 };

/* A stretch of pieces, on a cache line of its own. */
typedef struct {
    _Alignas(64) atomic_int next;
    int end;
} lane;

/* Take steps of a lane until none is left. */
static void drain(lane *l, int step, cpu_share_fn *fn, const void *ctx)
{
    for (;;) {
        int i = atomic_fetch_add_explicit(&l->next, step, memory_order_relaxed);
        if (i >= l->end)
            return;
        fn(ctx, i, cpu_min(i + step, l->end));
    }
}

void cpu_share(const backend *be, size_t work, int n, cpu_share_fn *fn, const void *ctx)
{
    int team = cpu_team(be, work), n_lane = cpu_min(cpu_min(team, MAX_LANE), n);
    if (n_lane <= 1) {
        if (n > 0)
            fn(ctx, 0, n);
        return;
    }
    lane l[MAX_LANE];
    for (int i = 0; i < n_lane; i++) {
        atomic_init(&l[i].next, (int)((int64_t)n * i / n_lane));
        l[i].end = (int)((int64_t)n * (i + 1) / n_lane);
    }
    int step = n / n_lane / STEPS > 1 ? n / n_lane / STEPS : 1;
    CPU_FOR(be, work, schedule(static, 1))
    for (int t = 0; t < team; t++)
        for (int i = 0; i < n_lane; i++)
            drain(&l[(t + i) % n_lane], step, fn, ctx);
}
