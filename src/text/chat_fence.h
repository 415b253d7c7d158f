/* chat_fence.h - where the lines of a text begin and which of them are fenced code (CommonMark 0.30,
 * section 4.5, indentation not looked at). */
#ifndef TEXT_CHAT_FENCE_H
#define TEXT_CHAT_FENCE_H

#include "base/compiler.h"

/* {0} at the start of a text. */
typedef struct {
    char open;   /* the character of the fence that is open, '`' or '~'; 0: none */
    size_t wide; /* its number of them */
    /* The line so far. */
    char mark;     /* the fence character that it begins with; 0: none */
    size_t n_mark; /* so many of them */
    bool begun;    /* there is more than whitespace */
    bool past;     /* something stands behind the marks */
    bool words;    /* that is no whitespace */
    bool marks;    /* that is the same character */
    char last;     /* the byte before; 0: none */
} chat_fence;

void fence_put(chat_fence *f, const char *s, size_t n);

#endif
