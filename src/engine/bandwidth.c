/* bandwidth.c - how fast this machine reads memory: what byte accounts are divided by. */
#include <unistd.h>

#include "base/mem.h"
#include "engine/engine.h"

#define BUFFER_MIN ((size_t)256 << 20)
#define BUFFER_MAX ((size_t)1 << 30)
enum { MAX_PASS = 12 };
#define MAX_SECONDS 0.4 /* of reading; a pass that has begun is ended */

/* Twice the last cache, so that a pass finds little of the one before in it. */
static size_t buffer_bytes(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE); /* -1 or 0: unknown */
    size_t n = cache > 0 ? 2 * (size_t)cache : 0;
    n = n < BUFFER_MIN ? BUFFER_MIN : n > BUFFER_MAX ? BUFFER_MAX : n;
    return size_align(n, 4096);
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
    volatile uint64_t keep;
    double best = 0, t0 = engine_now();
    for (int i = 0; i < MAX_PASS && (i < 2 || engine_now() - t0 < MAX_SECONDS); i++) {
        double t = engine_now();
        keep = be_read_all(be, p, n);
        t = engine_now() - t;
        double rate = (double)n / t;
        best = rate > best ? rate : best;
    }
    (void)keep;
    mem_free(p);
    backend_free(be);
    *bytes_per_second = best;
    return FT_OK;
}
