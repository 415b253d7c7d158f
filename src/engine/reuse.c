/* reuse.c - what is known of a conversation is not computed again. */
#include "engine/engine.h"

bool session_keeps(const ft_session *s)
{
    (void)s;
    return false; /* there is no memory for checkpoints yet */
}

ft_status session_checkpoint(ft_session *s, ft_error *err)
{
    (void)s;
    (void)err;
    return FT_OK;
}

ft_status session_reuse(ft_session *s, const int32_t *tok, int n_tok, int *n_known, ft_error *err)
{
    TRY(session_check_ids(s, tok, n_tok, err));
    session_clear(s);
    *n_known = 0;
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

void ft_model_checkpoint_stats(const ft_model *m, ft_checkpoint_stats *out)
{
    (void)m;
    *out = (ft_checkpoint_stats){0};
}
