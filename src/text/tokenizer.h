/* tokenizer.h - a tokenizer from arrays in memory; tok_open (from_gguf.c) is a thin layer on it. */
#ifndef TEXT_TOKENIZER_H
#define TEXT_TOKENIZER_H

#include "text/text.h"

/* All borrowed for the call. */
typedef struct {
    gguf_str pre;          /* the split rule's name */
    const gguf_str *token; /* [n_token] */
    const uint8_t *type;   /* [n_token] of token_type; NULL: all normal */
    size_t n_token;
    const gguf_str *merge; /* [n_merge], "left right", best first */
    size_t n_merge;
    int32_t eos, eot; /* -1: none; else checked against n_token by the caller */
} tok_source;

/* Errors: FORMAT, UNSUPPORTED, NOMEM; *out is NULL then. */
ft_status tok_create(tokenizer **out, const tok_source *src, ft_error *err) MUST_CHECK;

#endif
