/* convert.c - a Hugging Face folder to a GGUF: reads the description, plans, streams.
 *
 * The weights stay in the file maps; at most CHUNK_VALUES of them (or one row) are in memory.
 */
#include "convert/convert.h"

#include <math.h>
#include <string.h>

#include "convert/chunk.h"
#include "convert/hf_tokenizer.h"
#include "convert/json.h"
#include "convert/meta.h"
#include "convert/plan.h"
#include "convert/types.h"

typedef struct {
    const ft_convert_params *params;
    ft_error *err;
    bool has_want; /* a type was asked for */
    dtype want;
    hf_config cfg;
    hf_tokenizer tok;
    checkpoint ck;
    plan plan;
    chunk chunk;
    gguf_writer *w;
    uint64_t done, total; /* bytes of tensor data */
} job;

static ft_status report(const job *j, const char *what)
{
    const ft_convert_params *p = j->params;
    if (p->progress && !p->progress(p->progress_ctx, what, j->done, j->total))
        return err_set(j->err, FT_CANCELLED, "convert: cancelled at '%.100s'", what);
    return FT_OK;
}

/* ---- What is there -------------------------------------------------------------------------- */

static ft_status read_description(job *j)
{
    const char *dir = j->params->dir;
    json_t *config;
    TRY(js_load(&config, dir, "config.json", j->err));
    ft_status st = hf_config_parse(&j->cfg, config, j->err);
    json_decref(config);
    TRY(st);
    TRY(hf_tokenizer_load(&j->tok, dir, j->err));
    TRY(ckpt_open(&j->ck, dir, j->err));
    return plan_build(&j->plan, &j->cfg, &j->ck, j->has_want ? &j->want : NULL, j->err);
}

/* Whatever the folder lacks and the model can do without is said, never passed over. */
static ft_status report_absences(const job *j)
{
    if (j->plan.mtp_missing)
        TRY(report(j, "config.json announces a draft head (mtp.*), the checkpoint has none: "
                      "converted without it"));
    if (!j->tok.tokenizer)
        TRY(report(j, "no tokenizer.json: the file will have no tokenizer"));
    return FT_OK;
}

/* ---- Types ---------------------------------------------------------------------------------- */

/* Rows that the wished blocks do not divide fall back to F16, and to F32 where F16 overflows. */
static ft_status settle_fallback(job *j, plan_tensor *t)
{
    TRY(chunk_reserve(&j->chunk, t->dim[0], t->type, j->err));
    for (uint64_t row = 0; row < t->n_row; row += j->chunk.n_row) {
        uint64_t n = t->n_row - row < j->chunk.n_row ? t->n_row - row : j->chunk.n_row;
        plan_read_rows(&j->plan, t, row, n, j->chunk.value, j->chunk.scratch);
        for (uint64_t i = 0; i < n * t->dim[0]; i++) {
            if (fabsf(j->chunk.value[i]) > TYPES_F16_MAX) {
                t->type = DTYPE_F32;
                return FT_OK;
            }
        }
    }
    return FT_OK;
}

static ft_status settle_types(job *j)
{
    for (size_t i = 0; i < j->plan.n_tensor; i++) {
        plan_tensor *t = &j->plan.tensor[i];
        if (j->has_want && t->type == DTYPE_F16 && j->want != DTYPE_F16)
            TRY(settle_fallback(j, t));
    }
    return FT_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The last part of the folder's path, "model" for one without a name ("."). */
static void model_name(char *name, size_t size, const char *dir)
{
    size_t end = strlen(dir);
    while (end > 0 && dir[end - 1] == '/')
        end--;
    size_t from = end;
    while (from > 0 && dir[from - 1] != '/')
        from--;
    const char *s = dir + from;
    size_t n = end - from;
    if (n == 0 || (s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')))) {
        s = "model";
        n = strlen(s);
    }
    if (n >= size)
        n = size - 1;
    memcpy(name, s, n);
    name[n] = '\0';
}

static ft_status write_header(job *j)
{
    char name[256];
    model_name(name, sizeof name, j->params->dir);
    /* the first tensor is the token embedding, a matrix */
    meta_put(j->w, &j->plan, name, j->has_want ? j->want : j->plan.tensor[0].type);
    TRY(hf_tokenizer_put(j->w, &j->tok, &j->plan.cfg, j->err));
    for (size_t i = 0; i < j->plan.n_tensor; i++) {
        const plan_tensor *t = &j->plan.tensor[i];
        gguf_declare(j->w, t->name, t->type, t->n_dim, t->dim);
        j->total += dtype_row_bytes(t->type, (size_t)t->dim[0]) * t->n_row;
    }
    return gguf_writer_begin(j->w, j->err);
}

static ft_status write_tensor(job *j, const plan_tensor *t)
{
    chunk *c = &j->chunk;
    TRY(chunk_reserve(c, t->dim[0], t->type, j->err));
    size_t row_bytes = dtype_row_bytes(t->type, (size_t)t->dim[0]);
    for (uint64_t row = 0; row < t->n_row; row += c->n_row) {
        uint64_t n = t->n_row - row < c->n_row ? t->n_row - row : c->n_row;
        plan_read_rows(&j->plan, t, row, n, c->value, c->scratch);
        TRY(types_encode(t->type, c->coded, c->back, c->value, (size_t)(n * t->dim[0]), t->name,
                         j->err));
        TRY(gguf_write_data(j->w, c->coded, row_bytes * (size_t)n, j->err));
        j->done += row_bytes * n;
        TRY(report(j, t->name));
    }
    return FT_OK;
}

static ft_status run(job *j)
{
    TRY(read_description(j));
    TRY(settle_types(j));
    TRY(gguf_writer_open(&j->w, j->params->out, j->err));
    TRY(write_header(j));
    TRY(report_absences(j));
    for (size_t i = 0; i < j->plan.n_tensor; i++)
        TRY(write_tensor(j, &j->plan.tensor[i]));
    gguf_writer *w = j->w;
    j->w = NULL; /* close frees it in any case */
    return gguf_writer_close(w, j->err);
}

ft_status convert_folder(const ft_convert_params *p, ft_error *err)
{
    static const char *const types[] = {"F32", "F16", "BF16", "Q8_0", NULL};
    if (!p->dir || !p->out)
        return err_set(err, FT_ARG, "convert: %s is NULL", p->dir ? "out" : "dir");
    job j = {.params = p, .err = err, .has_want = p->type != NULL};
    if (p->type)
        TRY(types_parse(&j.want, p->type, types, err));
    ft_status st = run(&j);
    gguf_writer_abort(j.w);
    chunk_free(&j.chunk);
    plan_free(&j.plan);
    ckpt_close(&j.ck);
    hf_tokenizer_free(&j.tok);
    return st;
}
