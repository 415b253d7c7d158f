/* job.h - a request for text on its way through the engine: the mailbox between the connection's
 * thread, which waits, and the engine's thread, which works.
 *
 * QUEUED  -> RUNNING  job_start    the engine's thread took it
 * RUNNING -> ENDED    job_end      all its tokens are in the box
 * QUEUED  -> ENDED    job_end      cancelled, or refused by the engine
 *
 * 1. The box holds at most JOB_BOX tokens: the engine's thread makes no more until the reader has
 *    taken some. How long it waits so is counted (job_stalled).
 * 2. Both sides hold a reference; the last one frees it.
 * 3. Anyone may cancel; the first reason counts. Only the engine's thread ends a job.
 */
#ifndef SERVER_JOB_H
#define SERVER_JOB_H

#include <stdatomic.h>

#include "request.h"

enum {
    JOB_BOX = 256,                /* tokens */
    JOB_ROUND = FT_DRAFT_MAX + 2, /* tokens that one more step may make */
};

/* X(name, HTTP status, code, message): why a job was cancelled. */
#define JOB_CANCEL_LIST(X)                                                    \
    X(NONE, 0, "", "")                                                        \
    X(GONE, 499, "client_gone", "the client went away")                       \
    X(TIME, 504, "timeout", "the answer took longer than this server allows") \
    X(SLOW, 408, "slow_reader", "the client read too slowly")                 \
    X(STOPPING, 503, "shutting_down", "the server is shutting down")          \
    X(ENOUGH, 0, "", "the answer is complete for the client")
typedef enum {
#define JOB_CANCEL_ENUM(name, status, code, msg) JOB_CANCEL_##name,
    JOB_CANCEL_LIST(JOB_CANCEL_ENUM)
#undef JOB_CANCEL_ENUM
} job_cancel_reason;
/* The error of a cancelled job into e; nothing for NONE and ENOUGH. */
void job_cancel_error(job_cancel_reason why, api_error *e);

typedef enum { JOB_QUEUED, JOB_RUNNING, JOB_ENDED } job_state;

/* A token with its own copy of the alternatives; text [len] at text_at of the box's text. */
typedef struct {
    int32_t id;
    ft_token_kind kind;
    double logprob, logprob_sampled;
    int n_top;
    ft_alternative top[FT_TOP_MAX];
    size_t text_at, len;
} job_token;

/* What a job has done: so far, or in all. */
typedef struct {
    ft_generate_stats gen;
    ft_status st; /* what ended it; the message in err */
    ft_error err;
    int n_cached;         /* tokens of the prompt that were known */
    double queue_seconds; /* until it was taken */
    double total_seconds; /* until it ended, or now */
} job_result;

typedef struct {
    buf tok;  /* of job_token */
    buf text; /* all their texts */
    bool told;
    job_result so_far; /* if told, behind these tokens */
} job_box;
void job_box_init(job_box *b);
void job_box_deinit(job_box *b);
const job_token *job_box_get(const job_box *b, int *n);

typedef struct job job;

/* req is borrowed and outlives the job's last reference on the connection's side: see job_end.
 * tok [n_tok] and mark [n_mark] are taken, freed with ft_free. NULL: no memory, nothing taken. */
job *job_create(const request *req, int32_t *tok, int n_tok, int *mark, int n_mark,
                double answer_seconds) MUST_CHECK;
job *job_ref(job *j);   /* one more; returns j */
void job_unref(job *j); /* NULL is allowed */

/* ---- Any thread ---- */
void job_cancel(job *j, job_cancel_reason why);
job_cancel_reason job_cancelled(const job *j);
bool job_has_ended(job *j);

/* ---- The connection's side ---- */
typedef enum { JOB_TOKENS, JOB_WAITING, JOB_OVER } job_news;
/* Wait until there are tokens (*box gets them, what it held is cleared), the job has ended and all are
 * taken (JOB_OVER), or seconds went by. */
job_news job_wait(job *j, job_box *box, double seconds);
/* After JOB_OVER. */
const job_result *job_get_result(const job *j);
/* Tokens of the prompt read so far, and to read. */
void job_progress(const job *j, int *done, int *total);

/* ---- The engine's side ---- */
typedef struct {
    const request *req;
    const int32_t *tok; /* [n_tok] the whole prompt */
    int n_tok;
    const int *mark; /* [n_mark] */
    int n_mark;
} job_work;
/* QUEUED -> RUNNING. */
const job_work *job_start(job *j, double now);
const job_work *job_get_work(const job *j);
void job_set_progress(job *j, int done, int total);
/* Is there room for a step's tokens? If not, the wait is counted from now. */
bool job_has_room(job *j, double now);
/* Seconds it has waited for its reader, and since its creation. */
double job_stalled(job *j, double now);
double job_age(const job *j, double now);
double job_limit(const job *j);  /* of its age; 0: none */
double job_queued(const job *j); /* seconds until it was taken */
/* Put a token into the box. The reader gets it with job_post, when the step's last one is there. Errors:
 * NOMEM. */
ft_status job_put(job *j, const ft_token *t, ft_error *err) MUST_CHECK;
void job_post(job *j);
/* Tell the reader with the tokens in the box what was done so far; before job_post. */
void job_tell(job *j, const ft_generate_stats *stats, int n_cached, double now);
/* -> ENDED: the engine's thread looks at req and the prompt no more. */
void job_end(job *j, const ft_generate_stats *stats, int n_cached, ft_status st,
             const ft_error *err, double now);

#endif
