/* synthetic.h - files of a shape with random weights. Private to engine/.
 *
 * 1. A file is a function of shape, types and seed alone.
 * 2. Values have the sizes of a trained model's, so that activations stay finite through any depth of
 *    layers. The text that such a model writes means nothing.
 * 3. Matrices are put together from pieces of a pool that was encoded once: the values are as random
 *    as those of the pool, at the speed of copying.
 */
#ifndef ENGINE_SYNTHETIC_H
#define ENGINE_SYNTHETIC_H

#include "base/err.h"
#include "gguf/gguf.h"
#include "model/shapes.h"

/* Write a file of s to path, as ft_write_synthetic. Errors as there. */
ft_status synthetic_write(const shape *s, uint64_t seed, const char *path, ft_progress_fn *progress,
                          void *ctx, ft_error *err) MUST_CHECK;

/* Least vocabulary: the single bytes and the special tokens. */
enum { SYNTHETIC_MIN_VOCAB = 256 + 3 };

/* A byte-level BPE vocabulary of n_vocab >= SYNTHETIC_MIN_VOCAB tokens: bytes, pairs of letters with
 * their merges, numbered words, and last <|endoftext|>, <|im_start|>, <|im_end|>. Errors: NOMEM. */
ft_status synthetic_put_tokenizer(gguf_writer *w, int n_vocab, ft_error *err) MUST_CHECK;

#endif
