/* checkpoint.c - see checkpoint.h. */
#include "convert/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "convert/json.h"

#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE  "model.safetensors.index.json"

static const char *strip_prefix(const char *name)
{
    static const char *const prefix[] = {"model.language_model.", "language_model.model.",
                                         "language_model.", "model."};
    for (size_t i = 0; i < ARRAY_LEN(prefix); i++) {
        size_t n = strlen(prefix[i]);
        if (strncmp(name, prefix[i], n) == 0)
            return name + n;
    }
    return name;
}

static ft_status open_file(checkpoint *c, const char *dir, const char *name, ft_error *err)
{
    char path[JS_MAX_PATH];
    TRY(js_path(path, sizeof path, dir, name, err));
    ckpt_file *f = &c->file[c->n_file];
    TRY(map_open(&f->map, path, err));
    c->n_file++;
    ft_status st = st_parse(&f->st, f->map.bytes, f->map.n_bytes, err);
    return st == FT_OK ? st : err_prefix(err, st, "%s", name);
}

/* A file named by the index must lie in the folder itself. */
static ft_status check_file_name(const char *name, ft_error *err)
{
    static const char suffix[] = ".safetensors";
    size_t n = name ? strlen(name) : 0;
    if (n < sizeof suffix || strchr(name, '/') || name[0] == '.' ||
        strcmp(name + n - (sizeof suffix - 1), suffix) != 0)
        return err_set(err, FT_FORMAT, INDEX_FILE ": file '%.80s', want a name like 'x%s'",
                       name ? name : "", suffix);
    return FT_OK;
}

static bool has_name(const char *const *names, int n, const char *name)
{
    for (int i = n - 1; i >= 0; i--) /* maps are mostly grouped by file: the last one first */
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* The distinct file names of the index, in order of first mention; they point into map. */
static ft_status list_files(const char **names, int *n_names, json_t *map, ft_error *err)
{
    const char *key;
    json_t *v;
    *n_names = 0;
    json_object_foreach(map, key, v)
    {
        const char *name = json_string_value(v);
        TRY(check_file_name(name, err));
        if (has_name(names, *n_names, name))
            continue;
        if (*n_names == CKPT_MAX_FILES)
            return err_set(err, FT_RANGE, INDEX_FILE ": more than %d files", CKPT_MAX_FILES);
        names[(*n_names)++] = name;
    }
    return FT_OK;
}

static ft_status open_listed(checkpoint *c, const char *dir, json_t *map, ft_error *err)
{
    if (!json_is_object(map) || json_object_size(map) == 0)
        return err_set(err, FT_FORMAT, INDEX_FILE ": no 'weight_map' with names of files");
    const char **names = mem_calloc(CKPT_MAX_FILES, sizeof *names);
    if (!names)
        return err_set(err, FT_NOMEM, INDEX_FILE ": list of files");
    int n_names;
    ft_status st = list_files(names, &n_names, map, err);
    if (st == FT_OK) {
        c->file = mem_calloc((size_t)n_names, sizeof *c->file);
        if (!c->file)
            st = err_set(err, FT_NOMEM, INDEX_FILE ": %d files", n_names);
    }
    for (int i = 0; i < n_names && st == FT_OK; i++)
        st = open_file(c, dir, names[i], err);
    mem_free(names);
    return st;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const ckpt_tensor *)a)->key, ((const ckpt_tensor *)b)->key);
}

/* One sorted list over all files. */
static ft_status build_list(checkpoint *c, ft_error *err)
{
    size_t n = 0;
    for (int i = 0; i < c->n_file; i++)
        n += c->file[i].st.n_tensor;
    if (n == 0)
        return err_set(err, FT_FORMAT, "the checkpoint holds no tensors");
    c->tensor = mem_calloc(n, sizeof *c->tensor);
    if (!c->tensor)
        return err_set(err, FT_NOMEM, "list of %zu tensors", n);
    for (int i = 0; i < c->n_file; i++) {
        const st_file *f = &c->file[i].st;
        for (size_t j = 0; j < f->n_tensor; j++)
            c->tensor[c->n_tensor++] =
                (ckpt_tensor){.key = strip_prefix(f->tensor[j].name), .t = &f->tensor[j]};
    }
    qsort(c->tensor, n, sizeof *c->tensor, by_key);
    for (size_t i = 1; i < n; i++)
        if (strcmp(c->tensor[i - 1].key, c->tensor[i].key) == 0)
            return err_set(err, FT_FORMAT, "tensor '%.100s' is there twice", c->tensor[i].t->name);
    return FT_OK;
}

/* A tensor of the index that no file holds: a download that mixed two checkpoints. */
static ft_status check_index(const checkpoint *c, json_t *map, ft_error *err)
{
    const char *key;
    json_t *v;
    json_object_foreach(map, key, v) if (!ckpt_find(c, key)) return err_set(
        err, FT_MISMATCH, INDEX_FILE ": tensor '%.100s' is not in '%.80s'", key,
        json_string_value(v));
    return FT_OK;
}

static ft_status open_sharded(checkpoint *c, const char *dir, ft_error *err)
{
    json_t *index;
    TRY(js_load(&index, dir, INDEX_FILE, err));
    json_t *map = json_object_get(index, "weight_map");
    ft_status st = open_listed(c, dir, map, err);
    if (st == FT_OK)
        st = build_list(c, err);
    if (st == FT_OK)
        st = check_index(c, map, err);
    json_decref(index);
    return st;
}

static ft_status open_single(checkpoint *c, const char *dir, ft_error *err)
{
    c->file = mem_calloc(1, sizeof *c->file);
    if (!c->file)
        return err_set(err, FT_NOMEM, SINGLE_FILE);
    TRY(open_file(c, dir, SINGLE_FILE, err));
    return build_list(c, err);
}

static bool is_there(const char *dir, const char *name)
{
    char path[JS_MAX_PATH];
    struct stat info;
    return js_path(path, sizeof path, dir, name, NULL) == FT_OK && stat(path, &info) == 0;
}

ft_status ckpt_open(checkpoint *c, const char *dir, ft_error *err)
{
    *c = (checkpoint){0};
    ft_status st;
    if (is_there(dir, SINGLE_FILE))
        st = open_single(c, dir, err);
    else if (is_there(dir, INDEX_FILE))
        st = open_sharded(c, dir, err);
    else
        st = err_set(err, FT_IO, "%.120s: neither " SINGLE_FILE " nor " INDEX_FILE, dir);
    if (st != FT_OK)
        ckpt_close(c);
    return st;
}

void ckpt_close(checkpoint *c)
{
    for (int i = 0; i < c->n_file; i++) {
        st_free(&c->file[i].st);
        map_close(&c->file[i].map);
    }
    mem_free(c->file);
    mem_free(c->tensor);
    *c = (checkpoint){0};
}

ckpt_tensor *ckpt_find(const checkpoint *c, const char *name)
{
    ckpt_tensor want = {.key = strip_prefix(name)};
    return c->n_tensor ? bsearch(&want, c->tensor, c->n_tensor, sizeof want, by_key) : NULL;
}
