/* meta.h - the metadata keys of a converted model, but for the tokenizer's. */
#ifndef CONVERT_META_H
#define CONVERT_META_H

#include "convert/plan.h"
#include "gguf/gguf.h"

/* name: of the model, for people. matrices: their type. Failures show in gguf_writer_begin. */
void meta_put(gguf_writer *w, const plan *p, const char *name, dtype matrices);

#endif
