/* bind.c - tensors by name: shape compared, type checked, vectors copied. See bind.h. */
#include "model/bind.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "kern/kern.h"

#define NAME_MAX_BYTES 128

/* A gamma with a mean nearer to 0 than this was stored zero-centred, as in the checkpoint, and not
 * as 1 + w (docs/models.md, Common). */
#define GAMMA_MEAN_MIN 0.05

/* Header of an owned copy; the floats follow at MEM_ALIGN. */
typedef struct owned {
    struct owned *next;
} owned;

/* ---- Names ---------------------------------------------------------------------------------- */

const char *bind_file_name(const gguf_file *f)
{
    const char *path = gguf_path(f);
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int bind_block_of(const char *name, const char **rest)
{
    if (strncmp(name, "blk.", 4) != 0)
        return -1;
    int i = 0, n_digit = 0;
    const char *p = name + 4;
    for (; *p >= '0' && *p <= '9' && n_digit < 9; p++, n_digit++)
        i = i * 10 + (*p - '0');
    if (n_digit == 0 || *p != '.')
        return -1;
    *rest = p + 1;
    return i;
}

/* The full name with suffix; false when it is too long to be one of ours. */
static bool full_name(const binder *b, char out[NAME_MAX_BYTES], const char *name,
                      const char *suffix)
{
    char prefix[24] = "";
    if (b->i_block >= 0)
        snprintf(prefix, sizeof prefix, "blk.%d.", b->i_block);
    return snprintf(out, NAME_MAX_BYTES, "%s%s%s", prefix, name, suffix) < NAME_MAX_BYTES;
}

const gguf_tensor *bind_find(const binder *b, const char *name)
{
    static const char *const suffix[] = {".weight", ""}; /* bind.h, invariant 1 */
    char full[NAME_MAX_BYTES];
    for (size_t i = 0; i < ARRAY_LEN(suffix); i++) {
        if (!full_name(b, full, name, suffix[i]))
            continue;
        const gguf_tensor *t = gguf_tensor_find(b->f, full);
        if (t)
            return t;
    }
    return NULL;
}

const char *bind_either(const binder *b, const char *name, const char *other)
{
    return !bind_find(b, name) && bind_find(b, other) ? other : name;
}

/* ---- Checks --------------------------------------------------------------------------------- */

/* Names in messages have ".weight" where the documented name has it. */
static ft_status missing(const binder *b, const char *name)
{
    char full[NAME_MAX_BYTES];
    bool bare = strcmp(name, "ssm_a") == 0 || strcmp(name, "ssm_dt.bias") == 0;
    full_name(b, full, name, bare ? "" : ".weight");
    return err_set(b->err, FT_FORMAT, "%.80s: tensor '%s' is missing", bind_file_name(b->f), full);
}

/* "[in, out]" in GGUF's order, as converters and inspectors print shapes. */
static const char *shape_text(char out[48], int n_mat, int n_row, int n_col)
{
    if (n_mat > 1)
        snprintf(out, 48, "[%d, %d, %d]", n_col, n_row, n_mat);
    else
        snprintf(out, 48, "[%d, %d]", n_col, n_row);
    return out;
}

/* Find a tensor of exactly this shape and of a type that the kernels can decode. */
static ft_status check(const binder *b, const gguf_tensor **out, const char *name, int n_mat,
                       int n_row, int n_col)
{
    const gguf_tensor *g = bind_find(b, name);
    if (!g)
        return missing(b, name);
    const tensor *t = &g->t;
    if (t->n_col != n_col || t->n_row != n_row || t->n_mat != n_mat) {
        char found[48], want[48];
        return err_set(b->err, FT_FORMAT, "%.80s: tensor '%s' is %s, want %s", bind_file_name(b->f),
                       t->name, shape_text(found, t->n_mat, t->n_row, t->n_col),
                       shape_text(want, n_mat, n_row, n_col));
    }
    if (!kern_can_decode((int)t->type))
        return err_set(b->err, FT_UNSUPPORTED,
                       "%.80s: tensor '%s' has type %s, which has no kernel", bind_file_name(b->f),
                       t->name, dtype_name(t->type));
    *out = g;
    return FT_OK;
}

ft_status bind_mats(const binder *b, tensor *out, const char *name, int n_mat, int n_row, int n_col)
{
    const gguf_tensor *g;
    TRY(check(b, &g, name, n_mat, n_row, n_col));
    *out = g->t;
    out->mat_bytes = out->row_bytes * (size_t)n_row; /* cannot wrap: the data lies in the file */
    return FT_OK;
}

ft_status bind_mat(const binder *b, tensor *out, const char *name, int n_row, int n_col)
{
    return bind_mats(b, out, name, 1, n_row, n_col);
}

/* ---- Copies --------------------------------------------------------------------------------- */

/* Room for n floats that lives as long as the model. */
static ft_status take(const binder *b, float **out, size_t n, const char *name)
{
    size_t bytes;
    owned *o = NULL;
    if (size_mul(&bytes, n, sizeof(float)) && size_add(&bytes, bytes, MEM_ALIGN))
        o = mem_alloc_aligned(bytes);
    if (!o)
        return err_set(b->err, FT_NOMEM, "%.80s: %zu values of '%s'", bind_file_name(b->f), n,
                       name);
    o->next = b->m->owned;
    b->m->owned = o;
    *out = (float *)(void *)((uint8_t *)o + MEM_ALIGN);
    return FT_OK;
}

/* Values of a checked tensor into x. */
static void decode(float *x, const tensor *t, int row)
{
    const uint8_t *src = (const uint8_t *)t->data + (size_t)row * t->row_bytes;
    bool ok = kern_decode((int)t->type, x, src, (size_t)t->n_col);
    assert(ok); /* check() asked kern_can_decode */
    (void)ok;
}

ft_status bind_vec(const binder *b, const float **out, const char *name, int n)
{
    const gguf_tensor *g;
    float *x;
    TRY(check(b, &g, name, 1, 1, n));
    TRY(take(b, &x, (size_t)n, g->t.name));
    decode(x, &g->t, 0);
    *out = x;
    return FT_OK;
}

ft_status bind_gamma(const binder *b, const float **out, const char *name, int n)
{
    TRY(bind_vec(b, out, name, n));
    double sum = 0.0;
    for (int i = 0; i < n; i++)
        sum += (double)(*out)[i];
    if (fabs(sum / n) < GAMMA_MEAN_MIN && !b->m->warning[0])
        snprintf(b->m->warning, sizeof b->m->warning,
                 "%.50s: the norm '%.40s' has mean %.2g: zero-centred weights, 1 not added?",
                 bind_file_name(b->f), bind_find(b, name)->t.name, sum / n);
    return FT_OK;
}

ft_status bind_conv(const binder *b, const float **out, const char *name, int n_channel, int n_tap)
{
    const gguf_tensor *g;
    float *w, tap[HP_MAX_TAP];
    TRY(check(b, &g, name, 1, n_channel, n_tap));
    TRY(take(b, &w, (size_t)n_channel * (size_t)n_tap, g->t.name));
    for (int c = 0; c < n_channel; c++) {
        decode(tap, &g->t, c);
        for (int j = 0; j < n_tap; j++)
            w[(size_t)j * (size_t)n_channel + (size_t)c] = tap[j];
    }
    *out = w;
    return FT_OK;
}

void bind_free_owned(model *m)
{
    for (owned *o = m->owned; o;) {
        owned *next = o->next;
        mem_free(o);
        o = next;
    }
    m->owned = NULL;
}
