/* safetensors.c - see safetensors.h. Numbers in the comments are the invariants there. */
#include "convert/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "convert/json.h"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
#define ST_DTYPE_ROW(name, bytes) {#name, bytes},
    ST_DTYPE_LIST(ST_DTYPE_ROW)
#undef ST_DTYPE_ROW
};

const char *st_dtype_name(st_dtype type)
{
    return dtypes[type].name;
}

size_t st_dtype_bytes(st_dtype type)
{
    return dtypes[type].bytes;
}

static bool is_metadata(const char *key)
{
    return strcmp(key, "__metadata__") == 0;
}

static ft_status parse_dtype(st_tensor *t, const json_t *spec, ft_error *err)
{
    const char *name = json_string_value(json_object_get(spec, "dtype"));
    if (!name)
        return err_set(err, FT_FORMAT, "tensor '%.100s': no 'dtype', want a string", t->name);
    for (size_t i = 0; i < ARRAY_LEN(dtypes); i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            t->type = (st_dtype)i;
            return FT_OK;
        }
    }
    return err_set(err, FT_UNSUPPORTED, "tensor '%.100s': dtype '%.20s', want BF16, F16 or F32",
                   t->name, name);
}

/* An integer >= 0 of the header. */
static bool parse_count(uint64_t *out, const json_t *v)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static ft_status parse_shape(st_tensor *t, const json_t *spec, ft_error *err)
{
    const json_t *shape = json_object_get(spec, "shape");
    if (!json_is_array(shape) || json_array_size(shape) > ST_MAX_DIMS)
        return err_set(err, FT_FORMAT, "tensor '%.100s': 'shape' is no array of at most %d numbers",
                       t->name, ST_MAX_DIMS);
    t->n_dim = (int)json_array_size(shape);
    t->n = 1;
    for (int i = 0; i < t->n_dim; i++) {
        if (!parse_count(&t->dim[i], json_array_get(shape, (size_t)i)))
            return err_set(err, FT_FORMAT, "tensor '%.100s': shape[%d] is no number >= 0", t->name,
                           i);
        if (__builtin_mul_overflow(t->n, t->dim[i], &t->n))
            return err_set(err, FT_FORMAT, "tensor '%.100s': the product of the shape overflows",
                           t->name);
    }
    return FT_OK;
}

static ft_status parse_offsets(st_tensor *t, const json_t *spec, const uint8_t *data, size_t n_data,
                               ft_error *err)
{
    const json_t *offs = json_object_get(spec, "data_offsets");
    uint64_t begin, end, want;
    if (json_array_size(offs) != 2 || !parse_count(&begin, json_array_get(offs, 0)) ||
        !parse_count(&end, json_array_get(offs, 1)))
        return err_set(err, FT_FORMAT, "tensor '%.100s': 'data_offsets' is no pair of numbers >= 0",
                       t->name);
    if (begin > end || end > n_data)
        return err_set(err, FT_FORMAT,
                       "tensor '%.100s': data_offsets [%llu, %llu] leave the %zu bytes of data",
                       t->name, (unsigned long long)begin, (unsigned long long)end, n_data);
    if (__builtin_mul_overflow(t->n, (uint64_t)st_dtype_bytes(t->type), &want) ||
        end - begin != want)
        return err_set(err, FT_FORMAT, "tensor '%.100s': %llu bytes, want %llu values of %s",
                       t->name, (unsigned long long)(end - begin), (unsigned long long)t->n,
                       st_dtype_name(t->type));
    t->begin = begin;
    t->data = data + begin;
    return FT_OK;
}

static int by_offset(const void *a, const void *b)
{
    const st_tensor *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->n < y->n ? -1 : x->n > y->n; /* empty tensors first */
}

static ft_status check_overlaps(const st_file *f, ft_error *err)
{
    for (size_t i = 1; i < f->n_tensor; i++) {
        const st_tensor *a = &f->tensor[i - 1], *b = &f->tensor[i];
        if (b->begin - a->begin < a->n * st_dtype_bytes(a->type))
            return err_set(err, FT_FORMAT, "tensors '%.80s' and '%.80s' overlap", a->name, b->name);
    }
    return FT_OK;
}

/* Room for all tensors and their names. */
static ft_status reserve(st_file *f, json_t *root, ft_error *err)
{
    size_t n = 0, n_names = 0;
    const char *key;
    json_t *spec;
    json_object_foreach(root, key, spec)
    {
        n += !is_metadata(key);
        n_names += strlen(key) + 1;
    }
    if (n == 0)
        return FT_OK;
    f->tensor = mem_calloc(n, sizeof *f->tensor);
    f->names = mem_alloc(n_names);
    if (!f->tensor || !f->names)
        return err_set(err, FT_NOMEM, "%zu tensors", n);
    return FT_OK;
}

static ft_status parse_tensors(st_file *f, json_t *root, const uint8_t *data, size_t n_data,
                               ft_error *err)
{
    char *name = f->names;
    const char *key;
    json_t *spec;
    json_object_foreach(root, key, spec)
    {
        if (is_metadata(key))
            continue;
        size_t len = strlen(key) + 1;
        memcpy(name, key, len);
        st_tensor *t = &f->tensor[f->n_tensor++];
        t->name = name;
        name += len;
        if (!json_is_object(spec))
            return err_set(err, FT_FORMAT, "tensor '%.100s': no JSON object", t->name);
        TRY(parse_dtype(t, spec, err));
        TRY(parse_shape(t, spec, err));
        TRY(parse_offsets(t, spec, data, n_data, err));
    }
    return FT_OK;
}

static ft_status parse_root(st_file *f, json_t *root, const uint8_t *data, size_t n_data,
                            ft_error *err)
{
    if (!json_is_object(root))
        return err_set(err, FT_FORMAT, "the header is no JSON object");
    TRY(reserve(f, root, err));
    TRY(parse_tensors(f, root, data, n_data, err));
    if (f->n_tensor > 0)
        qsort(f->tensor, f->n_tensor, sizeof *f->tensor, by_offset);
    return check_overlaps(f, err);
}

static uint64_t load_u64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

ft_status st_parse(st_file *out, const uint8_t *bytes, size_t n_bytes, ft_error *err)
{
    *out = (st_file){0};
    if (n_bytes < 8)
        return err_set(err, FT_FORMAT, "%zu bytes, want a safetensors header of at least 8",
                       n_bytes);
    uint64_t n_header = load_u64(bytes);
    if (n_header > n_bytes - 8 || n_header > ST_MAX_HEADER_BYTES)
        return err_set(err, FT_FORMAT, "header of %llu bytes in a file of %zu, want at most %u",
                       (unsigned long long)n_header, n_bytes, ST_MAX_HEADER_BYTES);
    size_t n_data = n_bytes - 8 - (size_t)n_header;

    json_t *root;
    ft_status st = js_parse(&root, bytes + 8, (size_t)n_header, err);
    if (st != FT_OK)
        return err_prefix(err, st, "header");
    st_file f = {0};
    st = parse_root(&f, root, bytes + 8 + n_header, n_data, err);
    json_decref(root);
    if (st != FT_OK)
        st_free(&f);
    else
        *out = f;
    return st;
}

void st_free(st_file *f)
{
    if (!f)
        return;
    mem_free(f->tensor);
    mem_free(f->names);
    *f = (st_file){0};
}
