/* gguf.h - GGUF files: untrusted bytes in, a checked directory out; and a writer.
 *
 * Format: the public GGUF specification, versions 2 and 3, little-endian.
 *   "GGUF" u32 version  u64 n_tensor  u64 n_kv
 *   n_kv    x { string key, u32 type, value }        string = u64 length, bytes
 *   n_tensor x { string name, u32 n_dim, u64 dim[n_dim] fastest first, u32 type, u64 offset }
 *   padding to general.alignment (default 32), then the tensors' data
 *
 * 1. Nothing is believed: every count, length, offset, dimension and type is checked against the
 *    bytes that remain (by subtraction, never by sums that can wrap) before it is used, and memory
 *    is never allocated from a declared count that the remaining bytes cannot hold.
 * 2. After gguf_open succeeds, every tensor's data lies inside its mapped file, is aligned, no two
 *    overlap, and its size follows from its type and dimensions.
 * 3. Dimensions are turned around here once: base/tensor.h is slowest first.
 */
#ifndef GGUF_GGUF_H
#define GGUF_GGUF_H

#include "base/err.h"
#include "base/tensor.h"

#define GGUF_MAX_DIMS 4

typedef enum {
    GGUF_U8 = 0,
    GGUF_I8 = 1,
    GGUF_U16 = 2,
    GGUF_I16 = 3,
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_F32 = 6,
    GGUF_BOOL = 7,
    GGUF_STRING = 8,
    GGUF_ARRAY = 9,
    GGUF_U64 = 10,
    GGUF_I64 = 11,
    GGUF_F64 = 12,
} gguf_type;

/* A piece of text in the file; not NUL-terminated, any bytes. */
typedef struct {
    const char *s;
    size_t len;
} gguf_str;

typedef struct gguf_file gguf_file;

/* One metadata entry. Arrays of arrays are kept as one opaque piece (type ARRAY of ARRAY). */
typedef struct {
    const char *key; /* NUL-terminated */
    gguf_type type;
    gguf_type elem;     /* of an ARRAY, else equal to type */
    uint64_t n;         /* elements; 1 for a scalar */
    const uint8_t *raw; /* the value's bytes, for strings and arrays behind their counts */
    size_t raw_bytes;
} gguf_kv;

/* One tensor of the directory. */
typedef struct {
    tensor t;             /* shape turned around; t.name and t.data point into f */
    int n_dim;            /* as written, 1..4; dims 3 and 4 are multiplied into t.n_mat */
    uint64_t file_offset; /* of its data in its shard */
    int shard;
} gguf_tensor;

/* Open a file, or all shards of a split one ("name-00001-of-0000N.gguf": any of them may be given;
 * metadata comes from the first; a missing or foreign shard is an error). The data stays mapped
 * until gguf_close. *out is NULL after a failure.
 * Errors: IO, FORMAT (the message names file, field, offset and expectation), NOMEM. */
ft_status gguf_open(gguf_file **out, const char *path, ft_error *err) MUST_CHECK;

/* The same from memory that the caller keeps until gguf_close; one file, no shards. */
ft_status gguf_parse(gguf_file **out, const uint8_t *bytes, size_t n_bytes,
                     ft_error *err) MUST_CHECK;
void gguf_close(gguf_file *f); /* NULL is allowed */

const char *gguf_path(const gguf_file *f); /* as opened; "(memory)" after gguf_parse */
int gguf_version(const gguf_file *f);
uint32_t gguf_alignment(const gguf_file *f);
uint64_t gguf_file_bytes(const gguf_file *f); /* sum over shards */
int gguf_n_shard(const gguf_file *f);
/* Give pages of [p, p + n) back to the system, which reads them again when they are used. Nothing happens for
 * bytes that are not in the file's map. */
void gguf_give_back(const gguf_file *f, const void *p, size_t n);

size_t gguf_n_kv(const gguf_file *f);
const gguf_kv *gguf_kv_at(const gguf_file *f, size_t i);
const gguf_kv *gguf_kv_find(const gguf_file *f, const char *key); /* NULL: absent */
size_t gguf_n_tensor(const gguf_file *f);
const gguf_tensor *gguf_tensor_at(const gguf_file *f, size_t i);
const gguf_tensor *gguf_tensor_find(const gguf_file *f, const char *name); /* NULL: absent */

/* Typed reads. Absent key, wrong type, or a value outside [min, max]: FORMAT, with file, key,
 * value and expectation in the message; *out unchanged. Any integer type (and BOOL as 0/1) is
 * taken for an integer, F32 and F64 and integers for a float. */
ft_status gguf_get_int(const gguf_file *f, const char *key, int64_t min, int64_t max, int64_t *out,
                       ft_error *err) MUST_CHECK;
ft_status gguf_get_float(const gguf_file *f, const char *key, double min, double max, double *out,
                         ft_error *err) MUST_CHECK;
ft_status gguf_get_bool(const gguf_file *f, const char *key, bool *out, ft_error *err) MUST_CHECK;
ft_status gguf_get_str(const gguf_file *f, const char *key, gguf_str *out,
                       ft_error *err) MUST_CHECK;
/* Element i of an array of integers (or of BOOL: any byte but 0 reads as 1), or of a scalar as an
 * array of one. i < kv->n. FORMAT for another element type. u64 values above INT64_MAX come back
 * wrapped: cast to uint64_t where the key is unsigned. */
ft_status gguf_kv_int(const gguf_kv *kv, uint64_t i, int64_t *out, ft_error *err) MUST_CHECK;
ft_status gguf_kv_float(const gguf_kv *kv, uint64_t i, double *out, ft_error *err) MUST_CHECK;

/* Walk an array of strings in order: start with *cursor = 0. False at the end (or no such array). */
bool gguf_kv_next_str(const gguf_kv *kv, size_t *cursor, gguf_str *out);

/* ---- Writer ------------------------------------------------------------------------------- */

typedef struct gguf_writer gguf_writer;

/* Collect metadata and tensor declarations, then write header and data in one pass to a temporary
 * file beside path that gguf_writer_close renames. Version 3. Errors: NOMEM, IO, ARG. */
ft_status gguf_writer_open(gguf_writer **out, const char *path, ft_error *err) MUST_CHECK;

/* Metadata; a key given twice keeps the last value. A failure is remembered and reported by
 * gguf_writer_begin. Strings are copied. */
void gguf_put_int(gguf_writer *w, const char *key, gguf_type type, int64_t v); /* any int, BOOL */
void gguf_put_f32(gguf_writer *w, const char *key, float v);
void gguf_put_str(gguf_writer *w, const char *key, const char *s, size_t len);
/* v [n] elements of the C type of elem, copied (BOOL: bytes). */
void gguf_put_array(gguf_writer *w, const char *key, gguf_type elem, const void *v, size_t n);
void gguf_put_str_array(gguf_writer *w, const char *key, const gguf_str *v, size_t n);
/* A copy of an entry of another file, whatever its type. */
void gguf_put_kv(gguf_writer *w, const gguf_kv *kv);

/* Declare the next tensor; dim [n_dim] fastest first, as the format has it. */
void gguf_declare(gguf_writer *w, const char *name, dtype type, int n_dim, const uint64_t *dim);

/* Write the header. Then the data of each declared tensor, in order of declaration: any number of
 * gguf_write_data calls until its bytes are complete; padding is the writer's business. */
ft_status gguf_writer_begin(gguf_writer *w, ft_error *err) MUST_CHECK;
ft_status gguf_write_data(gguf_writer *w, const void *data, size_t n_bytes,
                          ft_error *err) MUST_CHECK;
/* All data written: flush, fsync, rename. Otherwise (or on failure): the temporary file is removed
 * and the old file, if any, stays. w is freed in any case; NULL is allowed. */
ft_status gguf_writer_close(gguf_writer *w, ft_error *err) MUST_CHECK;
/* Give up: remove the temporary file, free w. NULL is allowed. */
void gguf_writer_abort(gguf_writer *w);

#endif
