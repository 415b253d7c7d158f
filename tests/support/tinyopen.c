/* tinyopen.c - see tinyopen.h. */
#include "tinyopen.h"

#include "tinymodel_meta.h"
#include "tmpdir.h"

static gguf_file *open_file(const char *path)
{
    gguf_file *f;
    ft_error err = {0};
    tiny_check(gguf_open(&f, path, &err) == FT_OK, err.msg);
    return f;
}

tiny_model tiny_open(const tiny_opts *o, const tiny_opts *side)
{
    char path[TEST_PATH_MAX];
    tiny_model t = {0};
    tiny_write(test_path(path, "tiny.gguf"), o);
    t.f = open_file(path);
    if (side) {
        tiny_write_mtp(test_path(path, "tiny-mtp.gguf"), side);
        t.side = open_file(path);
    }
    t.st = model_open(&t.m, t.f, t.side, &t.err);
    return t;
}

void tiny_close(tiny_model *t)
{
    model_free(t->m);
    gguf_close(t->f);
    gguf_close(t->side);
    *t = (tiny_model){0};
}
