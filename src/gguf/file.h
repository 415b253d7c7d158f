/* file.h - private to src/gguf: what an open file is, and the rules that reader and writer share. */
#ifndef GGUF_FILE_H
#define GGUF_FILE_H

#include <string.h>

#include "base/map.h"
#include "gguf/gguf.h"

#define GGUF_MAGIC             "GGUF"
#define GGUF_ALIGNMENT_DEFAULT 32
#define GGUF_ALIGNMENT_MAX     65536
#define GGUF_NAME_MAX          65536 /* bytes of a key or of a tensor's name */

/* Numbers and tensor data are used as they lie in the file. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "GGUF is read in place");

/* One file, or the sum of all shards. Every part may be missing: gguf_close copes. */
struct gguf_file {
    char *path;    /* owned; NULL: memory of the caller */
    file_map *map; /* owned [n_shard]; NULL: memory of the caller */
    int n_shard;
    uint32_t version;
    uint32_t alignment;
    uint64_t n_bytes; /* of all shards */

    gguf_kv *kv; /* owned, keys too */
    size_t n_kv, cap_kv;
    const gguf_kv **by_key; /* owned [n_kv], sorted; NULL when there are none */

    gguf_tensor *tensor; /* owned, names too */
    size_t n_tensor, cap_tensor;
    const gguf_tensor **by_name; /* owned [n_tensor], sorted; NULL when there are none */
};

/* ---- parse.c ---- */

/* Read one file's bytes into f, which is zero but for path and map: metadata, its index, tensors
 * inside the bytes without overlap. Not yet: the index of tensors. After a failure f is for
 * gguf_close. */
ft_status gguf_read(gguf_file *f, const uint8_t *bytes, size_t n_bytes, ft_error *err) MUST_CHECK;

/* ---- index.c ---- */

/* Sort the keys; a key given twice is FORMAT. */
ft_status gguf_index_keys(gguf_file *f, ft_error *err) MUST_CHECK;
/* Sort the tensors' names; a name given twice, in whatever shards, is FORMAT. */
ft_status gguf_index_names(gguf_file *f, ft_error *err) MUST_CHECK;
/* Two tensors of one file that share bytes are FORMAT. */
ft_status gguf_check_overlap(const gguf_file *f, ft_error *err) MUST_CHECK;

/* ---- common.c ---- */

/* Text that is safe to print: other bytes than printable ASCII as \xNN, cut with "..." behind. */
typedef struct {
    char s[84];
} gguf_shown;

gguf_shown gguf_show(const char *s, size_t len);
/* The file's name without its folders. */
gguf_shown gguf_show_file(const gguf_file *f);

/* "u8", ..., for messages; "?" for an unknown type. */
const char *gguf_type_name(gguf_type type);
/* Bytes of one value of a number type; 0 for STRING, ARRAY and unknown types. */
size_t gguf_type_bytes(gguf_type type);

/* NULL when the name may stand in a file, else what is wrong with it. */
const char *gguf_name_fault(const char *s, size_t len);
bool gguf_alignment_ok(int64_t alignment);

/* Set the type, shape and strides of t from a file's type number and dims [n_dim], n_dim in
 * 1..GGUF_MAX_DIMS. False: why says what is wrong. True: tensor_bytes(t) does not overflow. */
bool gguf_shape(tensor *t, uint32_t type, int n_dim, const uint64_t *dim, char why[128]);

/* Room for n items of size bytes in *p, whose capacity is *cap; false when out of memory. */
bool gguf_grow(void **p, size_t *cap, size_t n, size_t size) MUST_CHECK;

/* An unsigned number of n <= 8 bytes. */
static inline uint64_t gguf_load(const uint8_t *p, size_t n)
{
    uint64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

#endif
