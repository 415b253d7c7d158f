/* values.c - metadata values read with their type, range and presence checked. */
#include <inttypes.h>

#include "gguf/file.h"

static bool is_int(gguf_type type)
{
    return gguf_type_bytes(type) > 0 && type != GGUF_F32 && type != GGUF_F64;
}

/* A number of an integer type; a BOOL is any byte but 0 (B098). */
static int64_t load_int(gguf_type type, const uint8_t *p)
{
    uint64_t v = gguf_load(p, gguf_type_bytes(type));
    if (type == GGUF_BOOL)
        return v != 0;
    if (type == GGUF_I8)
        return (int8_t)v;
    if (type == GGUF_I16)
        return (int16_t)v;
    if (type == GGUF_I32)
        return (int32_t)v;
    return (int64_t)v;
}

/* A number of whatever type. */
static double load_float(gguf_type type, const uint8_t *p)
{
    if (type == GGUF_F32) {
        float v;
        memcpy(&v, p, sizeof v);
        return (double)v;
    }
    if (type == GGUF_F64) {
        double v;
        memcpy(&v, p, sizeof v);
        return v;
    }
    int64_t v = load_int(type, p);
    return type == GGUF_U64 ? (double)(uint64_t)v : (double)v;
}

/* The entry of a key that must be there. */
static ft_status find(const gguf_file *f, const char *key, const gguf_kv **kv, ft_error *err)
{
    *kv = gguf_kv_find(f, key);
    if (*kv)
        return FT_OK;
    return err_set(err, FT_FORMAT, "%s: key '%s' is missing", gguf_show_file(f).s,
                   gguf_show(key, strlen(key)).s);
}

static ft_status wrong_type(const gguf_file *f, const gguf_kv *kv, const char *want, ft_error *err)
{
    return err_set(err, FT_FORMAT, "%s: key '%s': its type is %s, want %s", gguf_show_file(f).s,
                   gguf_show(kv->key, strlen(kv->key)).s, gguf_type_name(kv->type), want);
}

ft_status gguf_get_int(const gguf_file *f, const char *key, int64_t min, int64_t max, int64_t *out,
                       ft_error *err)
{
    const gguf_kv *kv;
    TRY(find(f, key, &kv, err));
    if (!is_int(kv->type))
        return wrong_type(f, kv, "an integer", err);
    int64_t v = load_int(kv->type, kv->raw);
    gguf_shown file = gguf_show_file(f);
    if (kv->type == GGUF_U64 && v < 0) /* above any max */
        return err_set(err, FT_FORMAT, "%s: key '%s': %" PRIu64 ", want at most %" PRId64, file.s,
                       gguf_show(key, strlen(key)).s, (uint64_t)v, max);
    if (v < min || v > max)
        return err_set(err, FT_FORMAT, "%s: key '%s': %" PRId64 ", want %" PRId64 " to %" PRId64,
                       file.s, gguf_show(key, strlen(key)).s, v, min, max);
    *out = v;
    return FT_OK;
}

ft_status gguf_get_float(const gguf_file *f, const char *key, double min, double max, double *out,
                         ft_error *err)
{
    const gguf_kv *kv;
    TRY(find(f, key, &kv, err));
    if (gguf_type_bytes(kv->type) == 0)
        return wrong_type(f, kv, "a number", err);
    double v = load_float(kv->type, kv->raw);
    if (!(v >= min && v <= max)) /* NaN is refused too */
        return err_set(err, FT_FORMAT, "%s: key '%s': %g, want %g to %g", gguf_show_file(f).s,
                       gguf_show(key, strlen(key)).s, v, min, max);
    *out = v;
    return FT_OK;
}

ft_status gguf_get_bool(const gguf_file *f, const char *key, bool *out, ft_error *err)
{
    const gguf_kv *kv;
    TRY(find(f, key, &kv, err));
    if (kv->type != GGUF_BOOL)
        return wrong_type(f, kv, "bool", err);
    *out = load_int(GGUF_BOOL, kv->raw) != 0;
    return FT_OK;
}

ft_status gguf_get_str(const gguf_file *f, const char *key, gguf_str *out, ft_error *err)
{
    const gguf_kv *kv;
    TRY(find(f, key, &kv, err));
    if (kv->type != GGUF_STRING)
        return wrong_type(f, kv, "string", err);
    *out = (gguf_str){(const char *)kv->raw, kv->raw_bytes};
    return FT_OK;
}

/* Where element i of a number entry lies. */
static ft_status element(const gguf_kv *kv, uint64_t i, bool ok, const char *want,
                         const uint8_t **p, ft_error *err)
{
    if (!ok)
        return err_set(err, FT_FORMAT, "key '%s': its elements are of type %s, want %s",
                       gguf_show(kv->key, strlen(kv->key)).s, gguf_type_name(kv->elem), want);
    if (i >= kv->n)
        return err_set(err, FT_FORMAT, "key '%s': element %" PRIu64 " wanted, it has %" PRIu64,
                       gguf_show(kv->key, strlen(kv->key)).s, i, kv->n);
    *p = kv->raw + (size_t)i * gguf_type_bytes(kv->elem);
    return FT_OK;
}

ft_status gguf_kv_int(const gguf_kv *kv, uint64_t i, int64_t *out, ft_error *err)
{
    const uint8_t *p;
    TRY(element(kv, i, is_int(kv->elem), "an integer", &p, err));
    *out = load_int(kv->elem, p);
    return FT_OK;
}

ft_status gguf_kv_float(const gguf_kv *kv, uint64_t i, double *out, ft_error *err)
{
    const uint8_t *p;
    TRY(element(kv, i, gguf_type_bytes(kv->elem) > 0, "a number", &p, err));
    *out = load_float(kv->elem, p);
    return FT_OK;
}

bool gguf_kv_next_str(const gguf_kv *kv, size_t *cursor, gguf_str *out)
{
    if (!kv || kv->type != GGUF_ARRAY || kv->elem != GGUF_STRING || *cursor >= kv->raw_bytes)
        return false;
    /* parsing has checked every length against the bytes of the entry */
    size_t len = (size_t)gguf_load(kv->raw + *cursor, 8);
    *out = (gguf_str){(const char *)kv->raw + *cursor + 8, len};
    *cursor += 8 + len;
    return true;
}
