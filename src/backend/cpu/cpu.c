/* cpu.c - life of the CPU backend, its memory, and rows prepared for matrix products. */
#include "backend/cpu/cpu.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static int usable_cores(void)
{
#ifdef _OPENMP
    return omp_get_num_procs(); /* honours the affinity mask of the process */
#else
    return 1;
#endif
}

ft_status backend_create(backend **out, const backend_params *p, ft_error *err)
{
    *out = NULL;
    uint32_t flags = kern_cpu_flags();
    if (p->level) {
        uint32_t want;
        if (!kern_cpu_parse(&want, p->level))
            return err_set(err, FT_ARG,
                           "cpu: unknown level '%s', want generic, avx2, avx512, neon or i8mm",
                           p->level);
        if (want & ~flags)
            return err_set(err, FT_UNSUPPORTED, "cpu: this processor lacks '%s'", p->level);
        flags = want;
    }
    if (p->n_thread < 0 || p->n_thread > 1024)
        return err_set(err, FT_ARG, "threads: %d, want 0 (one per core) to 1024", p->n_thread);
    backend *be = mem_zalloc(sizeof *be);
    if (!be)
        return err_set(err, FT_NOMEM, "cpu backend");
    kern_select(&be->k, flags);
    be->n_thread = p->n_thread > 0 ? p->n_thread : usable_cores();
    *out = be;
    return FT_OK;
}

void backend_free(backend *be)
{
    mem_free(be);
}

int backend_n_thread(const backend *be)
{
    return be->n_thread;
}

const char *backend_level(const backend *be)
{
    return be->k.name;
}

bool backend_can_matmul(const backend *be, dtype type)
{
    return (unsigned)type < KERN_N_TYPE && be->k.act[type] != KERN_ACT_NONE;
}

void *be_alloc(backend *be, size_t n_bytes)
{
    (void)be;
    return mem_zalloc_aligned(n_bytes);
}

void be_release(backend *be, void *p, size_t n_bytes)
{
    (void)be;
    (void)n_bytes;
    mem_free_zaligned(p);
}

void be_zero(backend *be, void *p, size_t n_bytes)
{
    (void)be;
    if (n_bytes)
        memset(p, 0, n_bytes);
}

void be_move(backend *be, void *dst, const void *src, size_t n_bytes)
{
    (void)be;
    if (n_bytes)
        memmove(dst, src, n_bytes);
}

size_t be_act_bytes(int n_row, int n_col)
{
    return n_col % 32 ? 1 : (size_t)n_row * kern_q8_row_bytes(n_col);
}
