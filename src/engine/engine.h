/* engine.h - the objects behind the public handles. Private to engine/ (and to tests). */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "base/arena.h"
#include "base/err.h"
#include "draft/draft.h"
#include "engine/checkpoints.h"
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
    checkpoints *checkpoints;                        /* owned */
    _Atomic uint64_t fingerprint, draft_fingerprint; /* fingerprint.h; 0: not computed yet */
    char name[128];
    double load_seconds;
};

/* Most drafts of a round; what a call may leave uncommitted. Most sessions of a batch. */
enum { SESSION_WINDOW = 16, BATCH_MAX_SESSION = 256 };

/* The memory of a step. */
struct ft_batch {
    ft_model *model; /* borrowed */
    int n_session, n_chunk, n_ctx;
    int n_open; /* sessions that belong to it */
    int n_row;  /* most rows of a call: n_chunk and a round of every session */
    int n_want; /* most rows whose logits are kept: those rounds */
    arena scratch;
    int32_t *tok, *want; /* [n_row], [n_want] */
    layer_seg *seg;      /* [n_session] */
    float *logits;       /* [n_want][n_vocab]; before the call, those of the drafters */
    float *hidden;       /* [n_row][width]: rows of the last call */
};

struct ft_session {
    ft_model *model; /* borrowed */
    ft_batch *batch; /* borrowed, or owned: */
    bool own_batch;
    seq *state;    /* owned */
    float *logits; /* [n_vocab], owned: behind the last token that ft_session_eval read */
    sample_ctx *sampler;
    sample_dist dist;
    int32_t pending; /* made by a generation, not evaluated yet; -1: none */
    atomic_bool cancel;
    ft_generation *generation; /* the one under way; NULL: none */
    int checkpoint_every;
    bool inexact;  /* ft_session_shift was used: the state is not that of the tokens */
    int n_dropped; /* tokens dropped at the start: what random numbers count positions from */
    uint64_t drafted, accepted, n_evaluated, n_reused;

    drafter *drafter; /* owned; NULL: none */
    char no_draft_reason[192];
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

/* Read the draft vocabulary at path for m, whose tokenizer is open: m->vocab; or m->no_vocab_reason, when
 * m has no draft head. Errors: IO, RANGE, FORMAT, UNSUPPORTED, MISMATCH, NOMEM. */
ft_status engine_open_draft_vocab(ft_model *m, const char *path, ft_error *err) MUST_CHECK;

/* Seconds of a clock that only goes forward. */
double engine_now(void);

/* ---- Batches (batch.c) ---- */

/* A context of n_ctx tokens, or the default for 0: *out. Errors: ARG. */
ft_status engine_n_ctx(const ft_model *m, int n_ctx, int *out, ft_error *err) MUST_CHECK;
/* Bytes of working memory of a batch (p as in ft_batch_create). Errors: ARG. */
ft_status batch_size(const ft_model *m, const ft_batch_params *p, size_t *n_bytes,
                     ft_error *err) MUST_CHECK;
/* One forward call; pages for its cells are reserved before, the call itself allocates nothing. Rows of
 * logits and hidden go where b says. Errors: as layer_forward, and NOMEM; no state has changed. */
ft_status batch_forward(ft_batch *batch, const layer_batch *b, ft_error *err) MUST_CHECK;

/* ---- Sessions (session.c) ---- */

/* Digest of everything that later tokens depend on: trunk, drafter, what is pending. */
uint64_t session_digest(ft_session *s);
/* Every id is in the vocabulary: OK or RANGE. */
ft_status session_check_ids(const ft_session *s, const int32_t *tok, int n,
                            ft_error *err) MUST_CHECK;
/* n more tokens fit: OK or RANGE. */
ft_status session_check_room(const ft_session *s, int n, ft_error *err) MUST_CHECK;
/* No generation is under way: OK or ARG. */
ft_status session_check_idle(const ft_session *s, ft_error *err) MUST_CHECK;
/* Rows first .. first + n - 1 of s have become final; hidden: theirs; n_end: positions that will be there
 * after this input. */
void session_observe(ft_session *s, int first, int n, const float *hidden, int n_end);

/* Empty: the same session, without tokens. */
void session_clear(ft_session *s);
/* ft_session_reuse, also while a generation is under way; n_dropped stays. */
ft_status session_reuse(ft_session *s, const int32_t *tok, int n_tok, int *n_known,
                        ft_error *err) MUST_CHECK;
/* Checkpoints of s would be kept: there is a budget for them, and its state is that of its tokens. */
bool session_keeps(const ft_session *s);
/* Keep one of s as it is, if there is room. Errors: NOMEM. */
ft_status session_checkpoint(ft_session *s, ft_error *err) MUST_CHECK;

/* Evaluate tok [n_tok], n_chunk rows a call; the last row's logits to s->logits when want. What is pending
 * goes first. RANGE leaves the state unchanged. */
ft_status session_feed(ft_session *s, const int32_t *tok, int n_tok, bool want,
                       ft_error *err) MUST_CHECK;

#endif
