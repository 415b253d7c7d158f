/* rig.h - a model on a backend with conversations, for tests of the forward pass below the engine. */
#ifndef TESTS_SUPPORT_RIG_H
#define TESTS_SUPPORT_RIG_H

#include "layer/layer.h"
#include "support/tinymodel.h"

enum { RIG_CTX = 256, RIG_WINDOW = 16, RIG_ROWS = 256 };

typedef struct {
    gguf_file *f;
    model *m;
    backend *be;
    arena scratch;
    int n_vocab, width;
    dtype kv_type;
} rig;

/* Open a file on a level (NULL: the best) with so many threads. Failures end the process. */
void rig_open(rig *r, const char *path, const char *level, int n_thread, dtype kv_type);
void rig_close(rig *r);
seq *rig_seq(rig *r);

/* Feed rows of one conversation; n_commit of them final. logits [n][n_vocab] and hidden [n][width],
 * either may be NULL. */
void rig_feed(rig *r, seq *s, const int32_t *tok, int n, int n_commit, float *logits,
              float *hidden);

/* The i-th token of a fixed random text over n_vocab ids, with an EOS now and then. */
int32_t rig_token(uint64_t text, int i, int n_vocab);

#endif
