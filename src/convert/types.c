/* types.c - see types.h. */
#include "convert/types.h"

#include <assert.h>
#include <fnmatch.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "kern/kern.h"

static bool is_listed(const char *name, const char *const *list)
{
    for (; list && *list; list++)
        if (strcasecmp(*list, name) == 0)
            return true;
    return !list;
}

ft_status types_parse(dtype *out, const char *name, const char *const *allowed, ft_error *err)
{
    const dtype_info *d = dtype_find_name(name);
    if (d && kern_can_encode(d->type) && is_listed(d->name, allowed)) {
        *out = d->type;
        return FT_OK;
    }
    char accepted[160] = "";
    size_t n = 0;
    for (size_t i = 0; (d = dtype_at(i)) != NULL; i++) {
        size_t len = strlen(d->name);
        if (!kern_can_encode(d->type) || !is_listed(d->name, allowed) ||
            len + 2 > sizeof accepted - n)
            continue;
        accepted[n++] = ' ';
        memcpy(accepted + n, d->name, len + 1);
        n += len;
    }
    return err_set(err, FT_ARG, "type '%.40s', want one of%s", name, accepted);
}

bool types_keep_f32(const char *name, int n_dim)
{
    static const char *const pattern[] = {
        "*ssm_conv1d.weight",   "*ple_conv1d.weight",     "*ssm_alpha.weight",   "*ssm_beta.weight",
        "*ffn_gate_inp.weight", "*ffn_gate_inp_*.weight", "*hc_*_inject.weight",
    };
    if (n_dim == 1)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(pattern); i++)
        if (fnmatch(pattern[i], name, 0) == 0)
            return true;
    return false;
}

dtype types_for_rows(dtype wish, uint64_t n_col)
{
    const dtype_info *d = dtype_find((uint32_t)wish);
    return n_col % (uint64_t)d->block_values == 0 ? wish : DTYPE_F16;
}

int types_file_type(dtype type)
{
    static const struct {
        dtype type;
        int number;
    } known[] = {{DTYPE_F32, 0},   {DTYPE_F16, 1},  {DTYPE_Q4_0, 2}, {DTYPE_Q4_1, 3},
                 {DTYPE_Q8_0, 7},  {DTYPE_Q5_0, 8}, {DTYPE_Q5_1, 9}, {DTYPE_IQ4_NL, 25},
                 {DTYPE_BF16, 32}, {DTYPE_Q2_0, 41}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (known[i].type == type)
            return known[i].number;
    return 1024; /* "guessed": not one of the numbers above */
}

static bool is_plain_float(dtype type)
{
    return type == DTYPE_F32 || type == DTYPE_F16 || type == DTYPE_BF16;
}

/* Threads share the work in pieces of this many values, a multiple of every block. */
enum { PIECE = 1 << 14 };

static size_t piece_len(size_t n, size_t from)
{
    return n - from < PIECE ? n - from : PIECE;
}

/* Encode and decode n values; the place of the first one that the type cannot hold, or n. */
static size_t encode_piece(dtype type, uint8_t *dst, float *back, const float *src, size_t n)
{
    if (!kern_encode(type, dst, src, n) || !kern_decode(type, back, dst, n))
        return 0;
    for (size_t i = 0; i < n; i++)
        if (isfinite(src[i]) ? !isfinite(back[i]) : !is_plain_float(type))
            return i;
    return n;
}

ft_status types_encode(dtype type, void *dst, float *back, const float *src, size_t n,
                       const char *name, ft_error *err)
{
    uint8_t *out = dst;
    size_t bad = n;
#pragma omp parallel for schedule(static) reduction(min : bad) if (n >= TYPES_SHARED)
    for (size_t from = 0; from < n; from += PIECE) {
        size_t len = piece_len(n, from);
        size_t i =
            encode_piece(type, out + dtype_row_bytes(type, from), back + from, src + from, len);
        if (i < len && from + i < bad)
            bad = from + i;
    }
    if (bad < n)
        return err_set(err, FT_RANGE, "tensor '%.100s': %s cannot hold the value %g", name,
                       dtype_name(type), (double)src[bad]);
    return FT_OK;
}

void types_decode(dtype type, float *dst, const void *src, size_t n)
{
    const uint8_t *in = src;
    bool ok = true;
#pragma omp parallel for schedule(static) reduction(&& : ok) if (n >= TYPES_SHARED)
    for (size_t from = 0; from < n; from += PIECE)
        ok = kern_decode(type, dst + from, in + dtype_row_bytes(type, from), piece_len(n, from)) &&
             ok;
    assert(ok);
    (void)ok;
}
