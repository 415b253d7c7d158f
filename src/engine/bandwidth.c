/* bandwidth.c - how fast this machine reads memory: what byte accounts are divided by. */
#include <unistd.h>

#include "base/mem.h"
#include "engine/engine.h"

#define MIB         ((size_t)1 << 20)
#define BUFFER_MIN  (256 * MIB)
#define BUFFER_MAX  (1024 * MIB)
#define SLICE       (64 * MIB) /* is timed on its own: 2 to 20 ms */
#define MAX_SECONDS 0.4        /* of reading; the first pass is ended in any case */

/* Twice the last cache, so that a pass finds little of the one before in it. */
static size_t buffer_bytes(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE); /* -1 or 0: unknown */
    size_t n = cache > 0 ? 2 * (size_t)cache : 0;
    n = n < BUFFER_MIN ? BUFFER_MIN : n > BUFFER_MAX ? BUFFER_MAX : n;
    return size_align(n, SLICE);
}

/* The fastest slice of several passes: other programs, which take cores or bandwidth for a while, are
 * then not what is measured. */
static double best_rate(backend *be, const uint8_t *p, size_t n)
{
    volatile uint64_t keep; /* so that the reading is not left out */
    double best = 0, t0 = engine_now();
    for (size_t at = 0, done = 0; done < n || engine_now() - t0 < MAX_SECONDS; done += SLICE) {
        double t = engine_now();
        keep = be_read_all(be, p + at, SLICE);
        t = engine_now() - t;
        best = (double)SLICE / t > best ? (double)SLICE / t : best;
        at = at + SLICE < n ? at + SLICE : 0;
    }
    (void)keep;
    return best;
}

ft_status ft_measure_bandwidth(int n_thread, double *bytes_per_second, ft_error *err)
{
    backend *be;
    *bytes_per_second = 0;
    TRY(backend_create(&be, &(backend_params){.n_thread = n_thread}, err));
    size_t n = buffer_bytes();
    void *p = mem_alloc_aligned(n);
    if (!p) {
        backend_free(be);
        return err_set(err, FT_NOMEM, "bandwidth: a buffer of %zu bytes", n);
    }
    be_touch_all(be, p, n); /* pages that were never written are all the same page of zeros */
    *bytes_per_second = best_rate(be, p, n);
    mem_free(p);
    backend_free(be);
    return FT_OK;
}
