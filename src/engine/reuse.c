/* reuse.c - what is known of a conversation is not computed again.
 *
 * A recurrent state has no beginning of its own to go back to: a session is kept as it is, or becomes a
 * checkpoint's state, or is empty (B060).
 */
#include "engine/reuse.h"

#include <string.h>

/* A state is put into the store before it is left when that spares so many tokens a second reading. */
enum { WORTH_KEEPING = 16 };

/* ---- Keeping ------------------------------------------------------------------------------------------- */

checkpoint_key session_key(const ft_session *s)
{
    checkpoint_key k = {.kv_type = s->state->shape.kv_type, .draft = s->drafter != NULL};
    if (s->drafter) {
        const draft_params *p = draft_get_params(s->drafter);
        k.sink = p->sink;
        k.window = p->window;
    }
    return k;
}

ft_status session_snap(ft_session *s, seq_snap **trunk, draft_snap **draft, ft_error *err)
{
    *trunk = NULL;
    *draft = NULL;
    TRY(seq_snap_take(trunk, s->state, err));
    if (!s->drafter)
        return FT_OK;
    draft_settle(s->drafter, &s->batch->scratch, s->state->tok);
    ft_status st = draft_snap_take(draft, s->drafter, err);
    if (st != FT_OK) {
        seq_snap_free(*trunk);
        *trunk = NULL;
    }
    return st;
}

bool session_keeps(const ft_session *s)
{
    return checkpoints_enabled(s->model->checkpoints) && !s->inexact;
}

ft_status session_checkpoint(ft_session *s, ft_error *err)
{
    const seq *q = s->state;
    if (!session_keeps(s) || q->n_past == 0)
        return FT_OK;
    checkpoints *c = s->model->checkpoints;
    checkpoint_key key = session_key(s);
    if (!q->broken && checkpoints_touch(c, &key, q->tok, q->n_past))
        return FT_OK;
    seq_snap *trunk;
    draft_snap *draft;
    TRY(session_snap(s, &trunk, &draft, err));
    return checkpoints_put(c, &key, trunk, draft, err);
}

ft_status ft_session_checkpoint(ft_session *s, ft_error *err)
{
    TRY(session_check_idle(s, err));
    return session_checkpoint(s, err);
}

void ft_model_checkpoint_stats(const ft_model *m, ft_checkpoint_stats *out)
{
    checkpoints_stats(m->checkpoints, out);
}

/* ---- Going back ------------------------------------------------------------------------------------------ */

static ft_status check_text(const ft_session *s, const int32_t *tok, int n_tok, ft_error *err)
{
    if (n_tok < 1)
        return err_set(err, FT_ARG, "reuse: %d tokens, want at least 1", n_tok);
    if (n_tok > s->state->shape.n_ctx)
        return err_set(err, FT_RANGE, "context: %d tokens wanted, the limit is %d", n_tok,
                       s->state->shape.n_ctx);
    return session_check_ids(s, tok, n_tok, err);
}

/* Tokens of the state that s is in, when all of them are a beginning of tok [n]; 0 otherwise. */
static int live_beginning(const ft_session *s, const int32_t *tok, int n)
{
    const seq *q = s->state;
    if (q->broken || q->n_past > n)
        return 0;
    return memcmp(q->tok, tok, (size_t)q->n_past * sizeof *tok) == 0 ? q->n_past : 0;
}

/* The state is about to be left: keep it, if coming back to it would be cheaper by something. No memory
 * for that costs time later, and is no reason to fail now. */
static void keep_live(ft_session *s)
{
    const seq *q = s->state;
    if (q->broken || !session_keeps(s))
        return;
    checkpoint_key key = session_key(s);
    int known = checkpoints_known(s->model->checkpoints, &key, q->tok, q->n_past);
    ft_error err = {0};
    if (q->n_past - known >= WORTH_KEEPING)
        (void)!session_checkpoint(s, &err);
}

/* Neither fails: e has the settings of s and fits its context, and a restore allocates nothing. */
static ft_status restore(ft_session *s, const checkpoint *e, ft_error *err)
{
    TRY(seq_snap_restore(s->state, e->trunk, err));
    return s->drafter ? draft_snap_restore(s->drafter, e->draft, err) : FT_OK;
}

/* To e, or to nothing. */
static ft_status go_back(ft_session *s, const checkpoint *e, ft_error *err)
{
    keep_live(s);
    if (!e || s->state->broken)
        session_clear(s);
    if (!e)
        return FT_OK;
    TRY(restore(s, e, err));
    s->pending = -1;
    s->inexact = false;
    s->n_reused += (uint64_t)e->n;
    return FT_OK;
}

ft_status session_reuse(ft_session *s, const int32_t *tok, int n_tok, int *n_known, ft_error *err)
{
    TRY(check_text(s, tok, n_tok, err));
    checkpoints *c = s->model->checkpoints;
    checkpoint_key key = session_key(s);
    int live = live_beginning(s, tok, n_tok - 1);
    checkpoint *e = checkpoints_find(c, &key, tok, n_tok - 1);
    ft_status st = FT_OK;
    if (live > 0 && (s->inexact || !e || e->n <= live))
        s->pending = -1; /* what was decided behind it is read again, or given up */
    else
        st = go_back(s, e, err);
    checkpoints_release(c, e);
    TRY(st);
    *n_known = s->state->n_past;
    checkpoints_count(c, *n_known);
    return FT_OK;
}

ft_status ft_session_reuse(ft_session *s, const int32_t *tok, int n_tok, int *n_known,
                           ft_error *err)
{
    TRY(session_check_idle(s, err));
    TRY(session_reuse(s, tok, n_tok, n_known, err));
    s->n_dropped = 0;
    return FT_OK;
}
