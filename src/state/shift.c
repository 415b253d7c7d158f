/* shift.c - dropping tokens from the middle of a state (seq_shift).
 *
 * What the model would have computed for the shorter text is not made here: keys are turned to their new
 * positions, all else is as it was read. */
#include <assert.h>
#include <string.h>

#include "state/state.h"

ft_status seq_shift(seq *s, const be_rotary *r, int first, int n, ft_error *err)
{
    assert(s->n_spec == 0 && first >= 0 && n >= 0 && n <= s->n_past - first);
    if (s->broken)
        return err_set(err, FT_DEVICE, "session: a step failed half way; reset it first");
    int src = first + n, n_move = s->n_past - src;
    if (n == 0)
        return FT_OK;
    TRY(pages_reserve(&s->pages, first, n_move, err));
    for (int i = 0; i < s->shape.n_layer; i++) {
        const seq_layer *l = &s->layer[i];
        if (l->kind != SEQ_ATTN)
            continue;
        be_move_cells(s->be, &l->kv.k, first, src, n_move, r);
        be_move_cells(s->be, &l->kv.v, first, src, n_move, NULL);
        if (s->shape.layer[i].ratio)
            be_move_cells(s->be, &l->idx_raw, first, src, n_move, NULL);
    }
    memmove(s->tok + first, s->tok + src, (size_t)n_move * sizeof *s->tok);
    s->n_past -= n;
    pages_truncate(&s->pages, s->n_past);
    return FT_OK;
}
