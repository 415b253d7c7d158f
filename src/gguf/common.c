/* common.c - rules and helpers that the reader and the writer of GGUF share; see file.h. */
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "base/mem.h"
#include "gguf/file.h"

static const struct {
    const char *name;
    size_t n_bytes;
} types[] = {
    [GGUF_U8] = {"u8", 1},       [GGUF_I8] = {"i8", 1},     [GGUF_U16] = {"u16", 2},
    [GGUF_I16] = {"i16", 2},     [GGUF_U32] = {"u32", 4},   [GGUF_I32] = {"i32", 4},
    [GGUF_F32] = {"f32", 4},     [GGUF_BOOL] = {"bool", 1}, [GGUF_STRING] = {"string", 0},
    [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"u64", 8},   [GGUF_I64] = {"i64", 8},
    [GGUF_F64] = {"f64", 8},
};

const char *gguf_type_name(gguf_type type)
{
    return (size_t)type < ARRAY_LEN(types) ? types[type].name : "?";
}

size_t gguf_type_bytes(gguf_type type)
{
    return (size_t)type < ARRAY_LEN(types) ? types[type].n_bytes : 0;
}

gguf_shown gguf_show(const char *s, size_t len)
{
    gguf_shown out;
    size_t at = 0;
    size_t room = sizeof out.s - sizeof "...";
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        bool plain = c >= 0x20 && c < 0x7f;
        if (at + (plain ? 1 : 4) > room) {
            memcpy(out.s + at, "...", 3);
            at += 3;
            break;
        }
        if (plain)
            out.s[at++] = (char)c;
        else
            at += (size_t)snprintf(out.s + at, sizeof out.s - at, "\\x%02x", c);
    }
    out.s[at] = '\0';
    return out;
}

gguf_shown gguf_show_file(const gguf_file *f)
{
    const char *path = gguf_path(f);
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    return gguf_show(name, strlen(name));
}

const char *gguf_name_fault(const char *s, size_t len)
{
    if (len == 0)
        return "is empty";
    if (len > GGUF_NAME_MAX)
        return "is longer than 65536 bytes";
    return memchr(s, '\0', len) ? "holds a NUL byte" : NULL;
}

bool gguf_alignment_ok(int64_t alignment)
{
    return alignment > 0 && alignment <= GGUF_ALIGNMENT_MAX && (alignment & (alignment - 1)) == 0;
}

bool gguf_shape(tensor *t, uint32_t type, int n_dim, const uint64_t *dim, char why[128])
{
    assert(n_dim >= 1 && n_dim <= GGUF_MAX_DIMS);
    const dtype_info *d = dtype_find(type);
    if (!d) {
        snprintf(why, 128, "unknown type %" PRIu32, type);
        return false;
    }
    for (int i = 0; i < n_dim; i++) {
        if (dim[i] < 1 || dim[i] > INT_MAX) {
            snprintf(why, 128, "dimension %d is %" PRIu64 ", want 1 to %d", i, dim[i], INT_MAX);
            return false;
        }
    }
    uint64_t n_mat = (n_dim > 2 ? dim[2] : 1) * (n_dim > 3 ? dim[3] : 1); /* < 2^62 */
    if (n_mat > INT_MAX) {
        snprintf(why, 128, "%" PRIu64 " matrices, want at most %d", n_mat, INT_MAX);
        return false;
    }
    if (dim[0] % (unsigned)d->block_values != 0) {
        snprintf(why, 128, "rows of %" PRIu64 " values, want a multiple of %s's block of %d",
                 dim[0], d->name, d->block_values);
        return false;
    }
    t->type = d->type;
    t->n_col = (int)dim[0];
    t->n_row = n_dim > 1 ? (int)dim[1] : 1;
    t->n_mat = (int)n_mat;
    t->row_bytes = dtype_row_bytes(d->type, dim[0]); /* <= 8 * 2^31 */
    size_t total;
    if (!size_mul(&t->mat_bytes, t->row_bytes, (size_t)t->n_row) ||
        !size_mul(&total, t->mat_bytes, (size_t)t->n_mat)) {
        snprintf(why, 128, "[%d, %d, %d] values of %s overflow a size", t->n_mat, t->n_row,
                 t->n_col, d->name);
        return false;
    }
    return true;
}

bool gguf_grow(void **p, size_t *cap, size_t n, size_t size)
{
    if (n <= *cap)
        return true;
    size_t want = *cap < 16 ? 16 : *cap;
    while (want < n)
        if (!size_mul(&want, want, 2))
            return false;
    size_t n_bytes;
    void *grown = size_mul(&n_bytes, want, size) ? mem_realloc(*p, n_bytes) : NULL;
    if (!grown)
        return false;
    *p = grown;
    *cap = want;
    return true;
}
