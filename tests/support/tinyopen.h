/* tinyopen.h - a tiny model written to the temporary directory and opened in one go. */
#ifndef TESTS_SUPPORT_TINYOPEN_H
#define TESTS_SUPPORT_TINYOPEN_H

#include "tinymodel.h"

typedef struct {
    gguf_file *f;    /* owned */
    gguf_file *side; /* owned; NULL: no separate MTP file */
    model *m;        /* owned; NULL when st is a failure */
    ft_status st;    /* of model_open */
    ft_error err;
} tiny_model;

/* Write "tiny.gguf" (and "tiny-mtp.gguf" by side, if not NULL), open, bind. Only model_open may
 * fail: all else ends the process. */
tiny_model tiny_open(const tiny_opts *o, const tiny_opts *side);
void tiny_close(tiny_model *t);

#endif
