/* request.h - the body of a request for text: JSON in, a checked struct out. Knows no HTTP.
 *
 * 1. A field is applied as the OpenAI API reference says ("Create chat completion", "Create
 *    completion"), or refused by name with status 400: never half applied, never overlooked. Fields
 *    that change nothing in an answer (user, metadata, ...) are accepted. null is as if left out.
 * 2. A request that was parsed needs no more checks, but for those that need the model: ids below the
 *    vocabulary's size, a prompt that fits the context.
 */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include <jansson.h>

#include "apierror.h"

typedef enum { REQUEST_COMPLETION = 1, REQUEST_CHAT = 2 } request_kind; /* bits of a set */

enum {
    REQUEST_MAX_STOP = 32,
    REQUEST_MAX_STOP_BYTES = 1024, /* of one stop text */
    REQUEST_MAX_BIAS = 1024,
};

typedef struct {
    request_kind kind;
    json_t *json; /* owned: the whole body; strings below are borrowed from it */

    const char *model;       /* NULL: not named */
    const char *prompt_text; /* COMPLETION: [prompt_len], or NULL: */
    size_t prompt_len;
    int32_t *prompt_tok; /* owned [n_prompt_tok] */
    int n_prompt_tok;
    char *chat; /* CHAT: owned [chat_len], the conversation for ft_chat_render */
    size_t chat_len;
    char *tools;   /* CHAT: owned, the tools that may be called, as JSON; NULL: none */
    bool thinking; /* CHAT: the model may think first */
    bool one_call; /* CHAT: parallel_tool_calls is false: the answer ends after a call */
    bool echo;     /* COMPLETION: the prompt comes first */
    bool stream;
    bool usage;         /* a last event with usage; without stream there always is one */
    bool token_details; /* each token with its kind and probability */
    bool logprobs;      /* the API's logprobs object is wanted */
    bool seed_given;
    /* Ready for ft_generation_begin but for the callbacks; points into this struct. */
    ft_generate_params gen;
    const char *stop[REQUEST_MAX_STOP];
    ft_logit_bias *bias; /* owned */
} request;

/* What holds for fields that a request leaves out, and how far it may go. */
typedef struct {
    ft_sample_params sample;
    int draft_max;
    int max_tokens; /* most tokens of an answer; 0: as many as the context holds */
} request_defaults;
/* The API's own: temperature 1, nothing filtered, no penalties. */
request_defaults request_defaults_api(void);

/* Parse body [len]. *r is zeroed first; after a failure it is as request_deinit leaves it. */
bool request_parse(request *r, request_kind kind, const char *body, size_t len,
                   const request_defaults *d, api_error *e) MUST_CHECK;
void request_deinit(request *r); /* a zeroed one too */

/* Bodies of the small endpoints. */
typedef struct {
    json_t *json;     /* owned */
    const char *text; /* tokenize: borrowed from json, [len] */
    size_t len;
    bool special; /* text that spells a special token becomes it; special tokens are spelled */
    int32_t *tok; /* detokenize: owned [n_tok] */
    int n_tok;
} token_request;
bool token_request_parse(token_request *r, bool detokenize, const char *body, size_t len,
                         api_error *e) MUST_CHECK;
void token_request_deinit(token_request *r);

#endif
