/* engine.h - the objects behind the public handles. Private to engine/ (and to tests). */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "base/arena.h"
#include "base/err.h"
#include "draft/draft.h"
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
    draft_weights *dw;          /* owned: the draft head as the drafter reads it; NULL: none */
    draft_vocab *vocab;         /* owned: the tokens that may be drafted; NULL: all */
    char no_vocab_reason[200];
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
    bool inexact;    /* ft_session_shift was used since it was last empty */
    atomic_bool cancel;

    drafter *drafter; /* owned; NULL: none */
    char no_draft_reason[192];
    float *
        hidden; /* [max(n_chunk, SESSION_WINDOW + 1)][width]: rows of the last call; with a drafter */
    float *rows;   /* [SESSION_WINDOW + 1][n_vocab]: logits of a round */
    sample_dist q; /* the drafter's own distribution */
    int head_n;    /* rows of the drafter's head */
    const int32_t
        *head_id; /* [head_n] their tokens; NULL: row i is token i. Borrowed from the model */
    adapt adapt;  /* how many drafts pay; kept from request to request */
    /* For tests: sees every row of logits that decides a token, and proposes the drafts instead of the
     * draft head (depth counts from 0; -1: no more). */
    void (*on_row)(void *ctx, int pos, const float *logits);
    int32_t (*script)(void *ctx, int pos, int depth);
    void *hook_ctx;
};

/* Most drafts of a round; what a call may leave uncommitted. */
enum { SESSION_WINDOW = 16 };

/* Read the draft vocabulary at path for m, whose tokenizer is open: m->vocab; or m->no_vocab_reason, when
 * m has no draft head. Errors: IO, RANGE, FORMAT, UNSUPPORTED, MISMATCH, NOMEM. */
ft_status engine_open_draft_vocab(ft_model *m, const char *path, ft_error *err) MUST_CHECK;

/* Seconds of a clock that only goes forward. */
double engine_now(void);

/* One forward call; pages for its cells are reserved before, the call itself allocates nothing. Errors: as
 * layer_forward, and NOMEM; no state has changed. */
ft_status session_forward(ft_session *s, const layer_batch *b, ft_error *err) MUST_CHECK;

/* Digest of everything that later tokens depend on: trunk, drafter, what is pending. */
uint64_t session_digest(ft_session *s);

/* Evaluate tok [n_tok], n_chunk rows a call; the last row's logits to s->logits when want. Progress
 * after every call (NULL: none). What is pending goes first. RANGE leaves the state unchanged. */
ft_status session_feed(ft_session *s, const int32_t *tok, int n_tok, bool want,
                       ft_progress_fn *progress, void *ctx, ft_error *err) MUST_CHECK;

#endif
