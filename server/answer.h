/* answer.h - the tokens of a job as the API's objects: one object at the end, or events of a stream.
 *
 * 1. Everything - text, thinking, calls, log-probabilities, usage - comes from one list of decided
 *    tokens, in order; so it is the same with and without drafts, streamed or not.
 * 2. A stream's event holds whole characters, and either thinking or content.
 * 3. The entries of logprobs.content are the tokens that the content was made of: markup, thinking and
 *    special tokens are left out.
 */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include "job.h"

typedef struct {
    const ft_model *model; /* borrowed, as all of these */
    const request *req;
    const char *model_name;
    const char *fingerprint;
    const char *echo; /* [echo_len] text in front of the answer; NULL: none */
    size_t echo_len;
    bool thinking; /* the prompt left a think block open */
    int n_prompt;  /* tokens */
} answer_params;

typedef struct answer answer;

/* Errors: FORMAT (tools), NOMEM. */
ft_status answer_create(answer **out, const answer_params *p, ft_error *err) MUST_CHECK;
void answer_free(answer *a);            /* NULL is allowed */
const char *answer_id(const answer *a); /* "chatcmpl-..." */

/* Take in a box. *enough: the answer is complete, no further token is wanted. Errors: NOMEM. */
ft_status answer_put(answer *a, const job_box *box, bool *enough, ft_error *err) MUST_CHECK;
/* The job has ended well. */
ft_status answer_finish(answer *a, const job_result *r, ft_error *err) MUST_CHECK;
/* The job failed: an event, for a stream whose status was sent long ago. */
void answer_fail(answer *a, const api_error *e);

/* What is to be sent: with stream the events so far, else the object, once finished. The caller takes
 * from the front by clearing it. */
buf *answer_out(answer *a);

#endif
