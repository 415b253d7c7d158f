/* checkpoint.h - the weights of a Hugging Face folder: one or more safetensors files, by name.
 *
 * model.safetensors, or model.safetensors.index.json whose "weight_map" names the files. Files stay
 * mapped until ckpt_close. Names are unique over all files; the prefixes under which the same text
 * model appears in plain and multimodal checkpoints are one:
 *   "model.language_model.X", "language_model.model.X", "model.X" -> "X"
 */
#ifndef CONVERT_CHECKPOINT_H
#define CONVERT_CHECKPOINT_H

#include "base/map.h"
#include "convert/safetensors.h"

#define CKPT_MAX_FILES 4096

typedef struct {
    const char *key; /* name without the prefix; points into t->name */
    const st_tensor *t;
    bool used; /* taken by the conversion */
} ckpt_tensor;

typedef struct {
    file_map map;
    st_file st;
} ckpt_file;

typedef struct {
    ckpt_file *file; /* [n_file], owned */
    int n_file;
    ckpt_tensor *tensor; /* [n_tensor], owned; sorted by key */
    size_t n_tensor;
} checkpoint;

/* Errors: IO, FORMAT (message names file and tensor), MISMATCH (the index names a tensor that its
 * files lack), UNSUPPORTED, RANGE, NOMEM. *c is {0} after a failure. */
ft_status ckpt_open(checkpoint *c, const char *dir, ft_error *err) MUST_CHECK;
void ckpt_close(checkpoint *c); /* {0} is allowed */

/* By name, with any of the prefixes or none; NULL: absent. */
ckpt_tensor *ckpt_find(const checkpoint *c, const char *name);

#endif
