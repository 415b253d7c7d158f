/* engine.h - the objects behind the public handles. Private to engine/ (and to tests). */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "base/arena.h"
#include "base/err.h"
#include "gguf/gguf.h"
#include "layer/layer.h"
#include "model/model.h"
#include "sample/sample.h"
#include "state/state.h"
#include "text/text.h"

struct ft_model {
    gguf_file *file, *mtp_file; /* owned; mtp_file NULL: none */
    model *m;                   /* owned */
    tokenizer *tok;             /* owned; NULL: the file has none */
    backend *be;                /* owned */
    char name[128];
    double load_seconds;
};

struct ft_session {
    ft_model *model; /* borrowed */
    seq *state;      /* owned */
    arena scratch;
    int n_chunk;
    float *logits; /* [n_vocab], owned */
    sample_ctx *sampler;
    sample_dist dist;
    int32_t pending; /* made by generate, not evaluated yet; -1: none */
    atomic_bool cancel;
};

/* Seconds of a clock that only goes forward. */
double engine_now(void);

/* Evaluate tok [n_tok], n_chunk rows a call; the last row's logits to s->logits when want. Progress
 * after every call (NULL: none). What is pending goes first. RANGE leaves the state unchanged. */
ft_status session_feed(ft_session *s, const int32_t *tok, int n_tok, bool want,
                       ft_progress_fn *progress, void *ctx, ft_error *err) MUST_CHECK;

#endif
