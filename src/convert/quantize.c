/* quantize.c - a GGUF to a GGUF in other tensor types, tensor by tensor. */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "convert/chunk.h"
#include "convert/convert.h"
#include "convert/types.h"
#include "gguf/gguf.h"
#include "kern/kern.h"

enum { MAX_PATTERN = 128 };

typedef struct {
    char pattern[MAX_PATTERN];
    dtype type;
    bool matched;
} type_rule;

typedef struct {
    const ft_quantize_params *params;
    ft_error *err;
    dtype wish;
    type_rule *rule; /* [n_rule], owned */
    int n_rule;
    gguf_file *in;
    dtype *to; /* [tensors], owned */
    gguf_writer *w;
    chunk chunk;
    uint64_t done, total; /* bytes of the input's tensors */
} job;

/* ---- The types ------------------------------------------------------------------------------- */

static ft_status parse_rules(job *j)
{
    const ft_quantize_params *p = j->params;
    if (p->n_override <= 0)
        return FT_OK;
    j->rule = mem_calloc((size_t)p->n_override, sizeof *j->rule);
    if (!j->rule)
        return err_set(j->err, FT_NOMEM, "quantize: %d overrides", p->n_override);
    for (int i = 0; i < p->n_override; i++) {
        type_rule *r = &j->rule[i];
        const char *s = p->overrides[i], *eq = s ? strrchr(s, '=') : NULL;
        if (!eq || eq == s || eq - s >= MAX_PATTERN)
            return err_set(j->err, FT_ARG, "quantize: override '%.80s', want PATTERN=TYPE",
                           s ? s : "(null)");
        memcpy(r->pattern, s, (size_t)(eq - s));
        TRY(types_parse(&r->type, eq + 1, NULL, j->err));
    }
    j->n_rule = p->n_override;
    return FT_OK;
}

/* Rows [row, row + n) of a tensor as float32 in the chunk. */
static void decode_rows(job *j, const gguf_tensor *t, uint64_t row, uint64_t n)
{
    const uint8_t *src = (const uint8_t *)t->t.data + row * t->t.row_bytes;
    types_decode(t->t.type, j->chunk.value, src, (size_t)(n * (uint64_t)t->t.n_col));
}

static uint64_t rows_of(const gguf_tensor *t)
{
    return (uint64_t)t->t.n_row * (uint64_t)t->t.n_mat;
}

/* Whether a value of the tensor does not fit in F16. */
static ft_status overflows_f16(job *j, const gguf_tensor *t, bool *yes)
{
    chunk *c = &j->chunk;
    uint64_t n_col = (uint64_t)t->t.n_col, n_row = rows_of(t);
    TRY(chunk_reserve(c, n_col, DTYPE_F16, j->err));
    for (uint64_t row = 0; row < n_row && !*yes; row += c->n_row) {
        uint64_t n = n_row - row < c->n_row ? n_row - row : c->n_row;
        decode_rows(j, t, row, n);
        for (uint64_t i = 0; i < n * n_col && !*yes; i++)
            *yes = fabsf(c->value[i]) > TYPES_F16_MAX;
    }
    return FT_OK;
}

/* The first rule that matches, or NULL; every rule that matches is marked. */
static const type_rule *find_rule(job *j, const char *name)
{
    const type_rule *first = NULL;
    for (int i = 0; i < j->n_rule; i++) {
        if (fnmatch(j->rule[i].pattern, name, 0) != 0)
            continue;
        j->rule[i].matched = true;
        if (!first)
            first = &j->rule[i];
    }
    return first;
}

static ft_status choose_type(job *j, const gguf_tensor *t, dtype *to)
{
    const type_rule *rule = find_rule(j, t->t.name);
    *to = t->t.type;
    if (!rule && types_keep_f32(t->t.name, t->n_dim))
        return FT_OK;
    dtype wish = rule ? rule->type : j->wish;
    dtype fit = types_for_rows(wish, (uint64_t)t->t.n_col);
    if (fit != t->t.type && !kern_can_decode(t->t.type))
        return err_set(j->err, FT_UNSUPPORTED,
                       "quantize: tensor '%.100s' is %s, which cannot be "
                       "decoded",
                       t->t.name, dtype_name(t->t.type));
    bool overflows = false;
    if (fit != wish && fit != t->t.type)
        TRY(overflows_f16(j, t, &overflows));
    *to = overflows ? DTYPE_F32 : fit;
    return FT_OK;
}

static ft_status choose_types(job *j)
{
    size_t n = gguf_n_tensor(j->in);
    if (n == 0)
        return err_set(j->err, FT_FORMAT, "%.150s: no tensors", j->params->in);
    j->to = mem_calloc(n, sizeof *j->to);
    if (!j->to)
        return err_set(j->err, FT_NOMEM, "quantize: %zu tensors", n);
    for (size_t i = 0; i < n; i++) {
        const gguf_tensor *t = gguf_tensor_at(j->in, i);
        j->total += tensor_bytes(&t->t);
        TRY(choose_type(j, t, &j->to[i]));
    }
    for (int i = 0; i < j->n_rule; i++)
        if (!j->rule[i].matched)
            return err_set(j->err, FT_ARG, "quantize: no tensor matches the override '%.80s'",
                           j->rule[i].pattern);
    return FT_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* What describes this file rather than the model is not copied. */
static bool is_of_the_file(const char *key)
{
    static const char *const keys[] = {"general.file_type", "general.quantization_version",
                                       "general.alignment", "split.no",
                                       "split.count",       "split.tensors.count"};
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static ft_status write_header(job *j)
{
    for (size_t i = 0; i < gguf_n_kv(j->in); i++) {
        const gguf_kv *kv = gguf_kv_at(j->in, i);
        if (!is_of_the_file(kv->key))
            gguf_put_kv(j->w, kv);
    }
    gguf_put_int(j->w, "general.file_type", GGUF_U32, types_file_type(j->wish));
    gguf_put_int(j->w, "general.quantization_version", GGUF_U32, 2);
    for (size_t i = 0; i < gguf_n_tensor(j->in); i++) {
        const gguf_tensor *t = gguf_tensor_at(j->in, i);
        /* a fourth dimension is part of n_mat; files of these families have none */
        uint64_t dim[3] = {(uint64_t)t->t.n_col, (uint64_t)t->t.n_row, (uint64_t)t->t.n_mat};
        gguf_declare(j->w, t->t.name, j->to[i], t->n_dim < 3 ? t->n_dim : 3, dim);
    }
    return gguf_writer_begin(j->w, j->err);
}

static ft_status report(job *j, const char *what)
{
    const ft_quantize_params *p = j->params;
    if (p->progress && !p->progress(p->progress_ctx, what, j->done, j->total))
        return err_set(j->err, FT_CANCELLED, "quantize: cancelled at '%.100s'", what);
    return FT_OK;
}

static ft_status copy_tensor(job *j, const gguf_tensor *t)
{
    const uint8_t *src = t->t.data;
    size_t left = tensor_bytes(&t->t);
    while (left > 0) {
        size_t n = left < CHUNK_VALUES * sizeof(float) ? left : CHUNK_VALUES * sizeof(float);
        TRY(gguf_write_data(j->w, src, n, j->err));
        src += n;
        left -= n;
        j->done += n;
        TRY(report(j, t->t.name));
    }
    return FT_OK;
}

/* Adds the squares of the error and of the values. */
static void add_squares(double *sum_err, double *sum, const chunk *c, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        double w = (double)c->value[i], d = (double)c->back[i] - w;
        *sum_err += d * d;
        *sum += w * w;
    }
}

static ft_status recode_tensor(job *j, const gguf_tensor *t, dtype to, double *rel_rmse)
{
    chunk *c = &j->chunk;
    uint64_t n_col = (uint64_t)t->t.n_col, n_row = rows_of(t);
    double sum_err = 0, sum = 0;
    TRY(chunk_reserve(c, n_col, to, j->err));
    for (uint64_t row = 0; row < n_row; row += c->n_row) {
        uint64_t n = n_row - row < c->n_row ? n_row - row : c->n_row;
        decode_rows(j, t, row, n);
        TRY(types_encode(to, c->coded, c->back, c->value, (size_t)(n * n_col), t->t.name, j->err));
        add_squares(&sum_err, &sum, c, n * n_col);
        TRY(gguf_write_data(j->w, c->coded, dtype_row_bytes(to, (size_t)(n * n_col)), j->err));
        j->done += n * t->t.row_bytes;
        TRY(report(j, t->t.name));
    }
    *rel_rmse = sum > 0 ? sqrt(sum_err / sum) : 0;
    return FT_OK;
}

static ft_status write_tensor(job *j, const gguf_tensor *t, dtype to)
{
    double rel_rmse = 0;
    if (to == t->t.type)
        TRY(copy_tensor(j, t));
    else
        TRY(recode_tensor(j, t, to, &rel_rmse));
    const ft_quantize_params *p = j->params;
    if (p->report) {
        size_t n_value = (size_t)rows_of(t) * (size_t)t->t.n_col;
        ft_quantize_report r = {.name = t->t.name,
                                .from = dtype_name(t->t.type),
                                .to = dtype_name(to),
                                .bytes_from = tensor_bytes(&t->t),
                                .bytes_to = dtype_row_bytes(to, n_value),
                                .rel_rmse = rel_rmse};
        p->report(p->report_ctx, &r);
    }
    return FT_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The output must be no file of the input: its shards are "-00001-of-00003.gguf" and so on. */
static ft_status check_output(const job *j)
{
    static const char pattern[] = "-00001-of-00001.gguf";
    const char *in = j->params->in, *out = j->params->out;
    size_t n = strlen(in), k = sizeof pattern - 1;
    char *path = mem_strndup(in, n);
    if (!path)
        return err_set(j->err, FT_NOMEM, "quantize: path of the input");
    bool found = same_file(in, out);
    for (int i = 1; gguf_n_shard(j->in) > 1 && n >= k && i <= gguf_n_shard(j->in) && !found; i++) {
        char number[16];
        snprintf(number, sizeof number, "%05d", i);
        memcpy(path + n - k + 1, number, 5);
        found = same_file(path, out);
    }
    mem_free(path);
    if (found)
        return err_set(j->err, FT_ARG, "quantize: the output '%.120s' is the input", out);
    return FT_OK;
}

static ft_status run(job *j)
{
    const ft_quantize_params *p = j->params;
    TRY(types_parse(&j->wish, p->type, NULL, j->err));
    TRY(parse_rules(j));
    TRY(gguf_open(&j->in, p->in, j->err));
    TRY(check_output(j));
    TRY(choose_types(j));
    TRY(gguf_writer_open(&j->w, p->out, j->err));
    TRY(write_header(j));
    for (size_t i = 0; i < gguf_n_tensor(j->in); i++)
        TRY(write_tensor(j, gguf_tensor_at(j->in, i), j->to[i]));
    gguf_writer *w = j->w;
    j->w = NULL; /* close frees it in any case */
    return gguf_writer_close(w, j->err);
}

ft_status quantize_file(const ft_quantize_params *p, ft_error *err)
{
    if (!p->in || !p->out || !p->type)
        return err_set(err, FT_ARG, "quantize: %s is NULL",
                       !p->in    ? "in"
                       : !p->out ? "out"
                                 : "type");
    job j = {.params = p, .err = err};
    ft_status st = run(&j);
    gguf_writer_abort(j.w);
    gguf_close(j.in);
    chunk_free(&j.chunk);
    mem_free(j.to);
    mem_free(j.rule);
    return st;
}
