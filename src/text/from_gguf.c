/* from_gguf.c - reads tokenizer.ggml.* of a file; what the values mean is tokenizer.c's. */
#include <string.h>

#include "base/mem.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

/* The arrays that a tok_source borrows while the tokenizer is built; all owned. */
typedef struct {
    gguf_str *token;
    gguf_str *merge;
    uint8_t *type;
} arrays;

/* An array of strings of the metadata: *out [*n], for mem_free (NULL when empty). */
static ft_status read_strings(const gguf_file *f, const char *key, gguf_str **out, size_t *n,
                              ft_error *err)
{
    const gguf_kv *kv = gguf_kv_find(f, key);
    if (!kv || kv->type != GGUF_ARRAY || kv->elem != GGUF_STRING)
        return err_set(err, FT_FORMAT, "%s: %s: %s, want an array of strings", gguf_path(f), key,
                       kv ? "of another type" : "absent");
    *n = 0;
    if (kv->n == 0)
        return FT_OK;
    *out = mem_calloc(kv->n, sizeof **out);
    if (!*out)
        return err_set(err, FT_NOMEM, "%s: %zu strings", key, (size_t)kv->n);
    size_t cursor = 0;
    while (*n < kv->n && gguf_kv_next_str(kv, &cursor, &(*out)[*n]))
        ++*n;
    return FT_OK;
}

/* The tokens' types, one for each; *out stays NULL when the file has none. */
static ft_status read_types(const gguf_file *f, size_t n_token, uint8_t **out, ft_error *err)
{
    static const char key[] = "tokenizer.ggml.token_type";
    const gguf_kv *kv = gguf_kv_find(f, key);
    if (!kv)
        return FT_OK;
    if (kv->type != GGUF_ARRAY || kv->n != n_token)
        return err_set(err, FT_FORMAT,
                       "%s: %s: %zu values, want an array of %zu, one for each token", gguf_path(f),
                       key, (size_t)kv->n, n_token);
    if (n_token == 0)
        return FT_OK;
    *out = mem_alloc(n_token);
    if (!*out)
        return err_set(err, FT_NOMEM, "%s: %zu values", key, n_token);
    for (size_t i = 0; i < n_token; i++) {
        int64_t type;
        TRY(gguf_kv_int(kv, i, &type, err));
        if (type < TOKEN_UNDEFINED || type > TOKEN_BYTE)
            return err_set(err, FT_FORMAT, "%s: %s[%zu]: %lld, want %d..%d", gguf_path(f), key, i,
                           (long long)type, TOKEN_UNDEFINED, TOKEN_BYTE);
        (*out)[i] = (uint8_t)type;
    }
    return FT_OK;
}

/* An optional id: absent, or written as -1 of 32 bits, is -1. */
static ft_status read_id(const gguf_file *f, const char *key, size_t n_token, int32_t *out,
                         ft_error *err)
{
    *out = -1;
    const gguf_kv *kv = gguf_kv_find(f, key);
    if (!kv)
        return FT_OK;
    int64_t id;
    TRY(gguf_get_int(f, key, INT64_MIN, INT64_MAX, &id, err));
    if (id == -1 || id == UINT32_MAX)
        return FT_OK;
    if (id < 0 || (uint64_t)id >= n_token)
        return err_set(err, FT_FORMAT, "%s: %s: %lld, want less than %zu", gguf_path(f), key,
                       (long long)id, n_token);
    *out = (int32_t)id;
    return FT_OK;
}

static ft_status read_source(const gguf_file *f, arrays *a, tok_source *src, ft_error *err)
{
    gguf_str model;
    TRY(gguf_get_str(f, "tokenizer.ggml.model", &model, err));
    if (model.len != 4 || memcmp(model.s, "gpt2", 4) != 0)
        return err_set(err, FT_UNSUPPORTED, "tokenizer.ggml.model: '%.*s', want 'gpt2'",
                       model.len < 40 ? (int)model.len : 40, model.s);
    TRY(gguf_get_str(f, "tokenizer.ggml.pre", &src->pre, err));
    TRY(read_strings(f, "tokenizer.ggml.tokens", &a->token, &src->n_token, err));
    TRY(read_types(f, src->n_token, &a->type, err));
    TRY(read_strings(f, "tokenizer.ggml.merges", &a->merge, &src->n_merge, err));
    src->token = a->token;
    src->type = a->type;
    src->merge = a->merge;

    int32_t unused; /* checked, though text in this engine never begins with bos nor is padded */
    TRY(read_id(f, "tokenizer.ggml.bos_token_id", src->n_token, &unused, err));
    TRY(read_id(f, "tokenizer.ggml.padding_token_id", src->n_token, &unused, err));
    TRY(read_id(f, "tokenizer.ggml.eos_token_id", src->n_token, &src->eos, err));
    return read_id(f, "tokenizer.ggml.eot_token_id", src->n_token, &src->eot, err);
}

ft_status tok_open(tokenizer **out, const gguf_file *f, ft_error *err)
{
    *out = NULL;
    arrays a = {0};
    tok_source src = {0};
    ft_status st = read_source(f, &a, &src, err);
    if (st == FT_OK)
        st = tok_create(out, &src, err);
    mem_free(a.token);
    mem_free(a.merge);
    mem_free(a.type);
    return st;
}
