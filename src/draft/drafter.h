/* drafter.h - what draft.c and snapshot.c share. Private to draft/. */
#ifndef DRAFT_DRAFTER_H
#define DRAFT_DRAFTER_H

#include "draft/draft.h"
#include "state/pages.h"

struct drafter {
    backend *be;    /* borrowed */
    const model *m; /* borrowed */
    draft_params p;
    int width;
    be_kv kv;    /* in pages */
    pages pages; /* those that hold cells which were written, and their neighbours */
    uint64_t n_failed;
    cells cells;
    /* Waiting rows (invariant 2). */
    float *hid; /* [n_window + 1][width], device: of cells hid_first, hid_first + 1, ... */
    int hid_first, n_hid;
    /* The chain. */
    int chain_cell; /* of the last step; -1: none */
    float *chain;   /* [width], hidden row of the last step, device */
    int32_t *list;  /* [max list], device */
    int n_list;
};

static inline int hid_cap(const draft_params *p)
{
    return p->n_window + 1;
}

/* Cells of the memory: a chain runs past the end of the context. */
static inline int drafter_cells(const draft_params *p)
{
    return p->n_ctx + p->n_window;
}

/* Values of K (or V) of a cell. */
static inline int drafter_values(const drafter *d)
{
    return d->m->h.n_head_kv * d->m->h.d_head;
}

#endif
