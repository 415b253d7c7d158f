/* storage.c - workspaces and distributions: made, freed, looked up. */
#include <math.h>

#include "base/mem.h"
#include "sample/list.h"

ft_status sample_ctx_create(sample_ctx **out, int n_max, ft_error *err)
{
    *out = NULL;
    if (n_max < 1)
        return err_set(err, FT_ARG, "sample: context for %d logits, want 1 or more", n_max);
    sample_ctx *c = mem_zalloc(sizeof *c);
    if (!c)
        return err_set(err, FT_NOMEM, "sample: context");
    size_t n = (size_t)n_max;
    c->n_max = n_max;
    c->w = mem_calloc(n, sizeof *c->w);
    c->id = mem_calloc(n, sizeof *c->id);
    c->logit = mem_calloc(n, sizeof *c->logit);
    c->change = mem_calloc(n, sizeof *c->change);
    c->count = mem_calloc(n, sizeof *c->count);
    c->mark = mem_calloc(n / 64 + 1, sizeof *c->mark);
    if (!c->w || !c->id || !c->logit || !c->change || !c->count || !c->mark) {
        sample_ctx_free(c);
        return err_set(err, FT_NOMEM, "sample: workspace for %d logits", n_max);
    }
    *out = c;
    return FT_OK;
}

void sample_ctx_free(sample_ctx *c)
{
    if (!c)
        return;
    mem_free(c->w);
    mem_free(c->id);
    mem_free(c->logit);
    mem_free(c->change);
    mem_free(c->count);
    mem_free(c->mark);
    mem_free(c);
}

ft_status sample_dist_init(sample_dist *d, int cap, ft_error *err)
{
    *d = (sample_dist){0};
    if (cap < 1)
        return err_set(err, FT_ARG, "sample: distribution of %d tokens, want 1 or more", cap);
    d->cap = cap;
    d->id = mem_calloc((size_t)cap, sizeof *d->id);
    d->p = mem_calloc((size_t)cap, sizeof *d->p);
    d->logp = mem_calloc((size_t)cap, sizeof *d->logp);
    if (!d->id || !d->p || !d->logp) {
        sample_dist_deinit(d);
        return err_set(err, FT_NOMEM, "sample: distribution of %d tokens", cap);
    }
    return FT_OK;
}

void sample_dist_deinit(sample_dist *d)
{
    mem_free(d->id);
    mem_free(d->p);
    mem_free(d->logp);
    *d = (sample_dist){0};
}

double sample_dist_logp(const sample_dist *d, int32_t id)
{
    int lo = 0, hi = d->n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (d->id[mid] < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < d->n && d->id[lo] == id ? d->logp[lo] : -(double)INFINITY;
}
