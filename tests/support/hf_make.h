/* hf_make.h - small Hugging Face folders for tests: a toy qwen3_5_text model, safetensors bytes.
 *
 * The toy: width 32, vocabulary 40, 2 layers (delta net, then full attention), one draft block.
 * Knows nothing of src/convert. A failure to write ends the process with a message.
 */
#ifndef TESTS_SUPPORT_HF_MAKE_H
#define TESTS_SUPPORT_HF_MAKE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define HF_MAKE_MAX 96

typedef struct {
    char name[112];
    const char *dtype; /* "F32", "BF16", "F16", "F64", "I64" or any other name (then 1 byte each) */
    int n_dim;
    int dim[4];
    float first; /* value 0 when not 0; the others follow hf_value */
} hf_make_tensor;

typedef struct {
    hf_make_tensor t[HF_MAKE_MAX];
    int n;
} hf_make;

/* config.json of the toy, up to its last field: close it with "}". */
extern const char hf_toy_config[];

/* The toy's tensors, all of one type; the draft block's too if with_mtp. */
void hf_make_toy(hf_make *m, const char *dtype, int with_mtp);
hf_make_tensor *hf_make_find(hf_make *m, const char *name); /* NULL: none */
void hf_make_remove(hf_make *m, const char *name);
hf_make_tensor *hf_make_add(hf_make *m, const char *name, const char *dtype, int n_dim,
                            const int *dim);

/* Value i of a tensor: a multiple of 1/64 in [-2, 2), exact in every float type. */
float hf_value(const char *name, size_t i);

/* Tensors [from, to) as a safetensors file. */
void hf_make_bytes(const hf_make *m, int from, int to, buf *out);

/* dir/name, made with all folders missing; text NULL: removed. */
void hf_write(const char *dir, const char *name, const void *bytes, size_t n);
void hf_write_text(const char *dir, const char *name, const char *text);
/* A folder with model.safetensors and config.json (hf_toy_config + more + "}"). */
void hf_write_model(const char *dir, const hf_make *m, const char *more);

#endif
