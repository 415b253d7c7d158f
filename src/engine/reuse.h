/* reuse.h - a session's state as something to keep and to go back to. Private to engine/. */
#ifndef ENGINE_REUSE_H
#define ENGINE_REUSE_H

#include "engine/checkpoints.h"
#include "engine/engine.h"

/* Under which settings s computes. */
checkpoint_key session_key(const ft_session *s);

/* The state of s as it is, settled; *draft is NULL without a drafter. Not between the evaluation of drafts
 * and their acceptance (B052). Errors: NOMEM, DEVICE; both are NULL then. */
ft_status session_snap(ft_session *s, seq_snap **trunk, draft_snap **draft,
                       ft_error *err) MUST_CHECK;

#endif
