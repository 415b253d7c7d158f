/* chat_look.h - what stands at a place of an answer that may not be complete yet: pure lookahead.
 *
 * SHORT means that the text ends before the question is decided; in a final text it never comes.
 * No question looks further than a few names and gaps of the sizes below.
 */
#ifndef TEXT_CHAT_LOOK_H
#define TEXT_CHAT_LOOK_H

#include "base/compiler.h"

/* Most whitespace between the tags of a call, and most bytes of a function's or parameter's name. */
#define LOOK_GAP   64
#define LOOK_NAME  256
#define LOOK_EXTRA 4 /* closing tags too many that are passed over */

typedef enum { LOOK_NO, LOOK_YES, LOOK_SHORT } look;

typedef struct {
    const char *s; /* [n] */
    size_t n;
    bool final; /* no text will follow */
} look_text;

/* Bytes of a look_text. */
typedef struct {
    size_t at, len;
} look_span;

/* What goes on in a call: the next parameter, or its end. */
typedef struct {
    bool param;
    look_span name; /* of the parameter */
    size_t end;     /* behind the tag */
} look_item;

look look_tag(look_text t, size_t at, const char *tag);
/* The first byte at or behind `at` that is no space, tab, CR or LF. */
size_t look_behind_space(look_text t, size_t at);

/* <parameter=NAME>, </function> or </tool_call> behind whitespace and up to `extra` times
 * </parameter>. */
look look_for_item(look_text t, size_t at, int extra, look_item *out);
/* <function=NAME> and an item, behind whitespace. */
look look_for_function(look_text t, size_t at, look_span *name, look_item *out);
/* <tool_call> and a function. */
look look_for_call(look_text t, size_t at, look_span *name, look_item *out);
/* A closing tag of a call behind whitespace: *end is the place behind it. */
look look_for_closing(look_text t, size_t at, size_t *end);
/* </function> and </tool_call>: *end is the place behind the first. */
look look_for_end(look_text t, size_t at, size_t *end);

#endif
