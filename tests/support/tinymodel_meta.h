/* tinymodel_meta.h - the metadata of the tiny models; private to tinymodel*.c. */
#ifndef TESTS_SUPPORT_TINYMODEL_META_H
#define TESTS_SUPPORT_TINYMODEL_META_H

#include "tinymodel.h"

/* All keys, then the caller's edits. */
void tiny_put_metadata(gguf_writer *w, const tiny_opts *o);
/* Rows of the n-gram table. */
int tiny_ple_rows(const tiny_opts *o);
/* Ends the process with what unless ok. */
void tiny_check(bool ok, const char *what);

#endif
