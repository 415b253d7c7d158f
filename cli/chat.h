/* chat.h - the parts of `foretoken chat`. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "common.h"

typedef struct {
    model_args m;
    const char *render; /* a conversation to print; "-": standard input; NULL: none */
    bool no_thinking, json;
} chat_options;

/* Print what the conversation o->render becomes; the exit code. */
int chat_render_file(const chat_options *o);

#endif
