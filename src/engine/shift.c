/* shift.c - ft_session_shift: tokens dropped without reading again what stood behind them. */
#include "engine/engine.h"

ft_status ft_session_shift(ft_session *s, int first, int n, ft_error *err)
{
    TRY(session_check_idle(s, err));
    const model *m = s->model->m;
    const int n_past = s->state->n_past;
    if (first < 0 || n < 0 || first > n_past || n > n_past - first)
        return err_set(err, FT_RANGE, "shift: %d tokens from %d on, there are %d", n, first,
                       n_past);
    if (n == 0)
        return FT_OK;
    if (n == n_past) { /* nothing is left that could be inexact; what waits goes on waiting */
        int32_t pending = s->pending;
        ft_session_reset(s);
        s->pending = pending;
        return FT_OK;
    }
    if (s->drafter)
        draft_settle(s->drafter, &s->batch->scratch, s->state->tok);
    be_rotary r = {
        .n_head = m->h.n_head_kv, .d = m->h.d_head, .n_rot = m->h.n_rot, .base = m->h.rope_base};
    TRY(seq_shift(s->state, &r, first, n, err));
    layer_pool_index(s->model->be, m, s->state, first);
    if (s->drafter)
        draft_shift(s->drafter, first, n);
    s->inexact = true;
    return FT_OK;
}
