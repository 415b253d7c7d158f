/* trace.h - which tokens a piece of an answer was made of.
 *
 * A chat's tokens go through stop texts, which hold text back, and the parser of answers, which holds
 * back, leaves out markup and trims whitespace. What comes out is in order, so each piece is found again
 * in the text that went in and has not come out. Pure.
 *
 * 1. text is what went in behind the last byte that came out; each token has its bytes of it, or none:
 *    then it belongs to the next one that has some.
 * 2. A token comes out at most once, with the first piece that has a byte of it. */
#ifndef SERVER_TRACE_H
#define SERVER_TRACE_H

#include "job.h"

typedef struct {
    buf tok;  /* of tokens with the length of their text */
    buf text; /* that has not come out */
} trace;

void trace_init(trace *t);
void trace_deinit(trace *t);
/* A token that adds text [len] went in. */
void trace_put(trace *t, const job_token *token, const char *text, size_t len);
/* text [len] > 0 came out; goes_on: nothing was left out since the piece before. take is called with its
 * tokens, in order; NULL: nobody wants them. */
typedef void trace_take_fn(void *ctx, const job_token *token);
void trace_out(trace *t, const char *text, size_t len, bool goes_on, trace_take_fn *take,
               void *ctx);
/* Everything that went in has come out in another form. */
void trace_clear(trace *t);
ft_status trace_status(const trace *t, ft_error *err) MUST_CHECK;

#endif
