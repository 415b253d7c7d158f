/* batchrig.h - requests that run alone or with others in a batch, and what each of them showed.
 *
 * A slot is a session with its request, its scripted drafter if any, and a trace: tokens, text, the
 * digest of every row of logits that decided a token, how it ended, the digest of the state behind it.
 * Whatever goes wrong fails the cmocka test that runs.
 */
#ifndef TESTS_SUPPORT_BATCHRIG_H
#define TESTS_SUPPORT_BATCHRIG_H

#include "engine/engine.h"

enum { BR_PROMPT = 128, BR_TOKEN = 256, BR_ROW = 2048, BR_TEXT = 4096, BR_SLOT = 64 };

/* Who proposes drafts. Those with a script know the request's plain text. */
typedef enum {
    BR_NONE,        /* nobody */
    BR_OWN,         /* the draft head */
    BR_RIGHT,       /* always the right tokens */
    BR_WRONG,       /* never */
    BR_ALTERNATING, /* 3, 0, 3, 0, 1 of them in turn, right at first, wrong from a depth that changes */
} br_drafts;

typedef struct {
    int32_t prompt[BR_PROMPT];
    int n_prompt;
    ft_generate_params p; /* on_token is ignored: tokens are polled */
    br_drafts drafts;
} br_request;

typedef struct {
    int32_t id[BR_TOKEN];
    uint64_t row[BR_ROW];
    int n, n_row;
    char text[BR_TEXT];
    size_t n_text;
    double logprob; /* sum */
    ft_status st;   /* of ft_generation_end */
    ft_error err;
    ft_generate_stats stats;
    uint64_t trunk, state; /* digests behind the end: of the trunk alone, of everything */
} br_trace;

typedef struct {
    ft_session *s;
    ft_generation *g; /* NULL: idle */
    const br_request *r;
    const br_trace *truth; /* of the request without drafts; for scripts alone */
    br_trace t;
    int n_round; /* asked of the script */
    int nan_row; /* the row of logits, counted from 0, that is made NaN; -1: none */
    bool hold;   /* tokens are not polled before the end */
} br_slot;

/* The i-th of a row of different requests: prompts, lengths, samplers and seeds; no drafts. */
br_request br_make(int i);
/* With drafts of this kind, k of them in every round. */
void br_draft(br_request *r, br_drafts kind, int k);

ft_batch *br_batch(ft_model *m, int n_session, int n_chunk, int n_ctx);
/* A slot with a session: of the batch, or of its own where b is NULL. */
void br_open(br_slot *x, ft_model *m, ft_batch *b, int n_ctx);
void br_close(br_slot *x); /* ends what is under way */

/* Begin r in a session that is reset. r and truth are borrowed until br_end. */
void br_begin(br_slot *x, const br_request *r, const br_trace *truth);
bool br_running(const br_slot *x);
/* One step of all slots of x [n] that have a generation. */
void br_step(ft_batch *b, br_slot *x, int n);
/* Steps of x until all have ended. */
void br_run(ft_batch *b, br_slot *x, int n);
/* End the generation: the rest of the trace is filled in. */
void br_end(br_slot *x);

/* The trace of a request that runs alone, read in chunks of its own; owned by the caller, free(). */
br_trace *br_solo(ft_model *m, const br_request *r, const br_trace *truth, int n_ctx);
/* Equal in all that a request gets: tokens, text, rows, log-probabilities, end, state. */
void br_same(const br_trace *a, const br_trace *b, const char *what);
/* a has the first tokens and rows of b. */
void br_prefix(const br_trace *a, const br_trace *b, const char *what);

#endif
