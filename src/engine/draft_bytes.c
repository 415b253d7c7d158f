/* draft_bytes.c - see draft_bytes.h. */
#include "engine/draft_bytes.h"

static uint64_t bytes(const tensor *t)
{
    return t->data ? tensor_bytes(t) : 0;
}

static uint64_t mixer(const model_mixer *w)
{
    return bytes(&w->down) + bytes(&w->up) + bytes(&w->inject);
}

uint64_t draft_step_bytes(const model *m, const model_mtp *w, int n_cell, dtype kv, int n_head)
{
    const model_attn *a = &w->block.attn;
    const model_ffn *f = &w->block.ffn;
    uint64_t n = bytes(&w->w_e) + bytes(&w->w_h) + mixer(&w->block.hc_attn) +
                 mixer(&w->block.hc_ffn) + mixer(&w->head_mixer) + bytes(&a->q) + bytes(&a->k) +
                 bytes(&a->v) + bytes(&a->out);
    uint64_t ffn = bytes(&f->gate) + bytes(&f->up) + bytes(&f->down);
    if (m->h.n_expert > 0)
        ffn = ffn / (uint64_t)m->h.n_expert * (uint64_t)m->h.n_expert_used + bytes(&f->router) +
              bytes(&f->sh_gate) + bytes(&f->sh_up) + bytes(&f->sh_down);
    uint64_t cells =
        2 * (uint64_t)n_cell * dtype_row_bytes(kv, (size_t)m->h.n_head_kv * (size_t)m->h.d_head);
    uint64_t head = dtype_row_bytes(w->head.type, (size_t)w->head.n_col) * (uint64_t)n_head;
    return n + ffn + cells + head;
}
