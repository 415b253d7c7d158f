/* floor.c - `foretoken floor`: the bytes that a step has to read, item by item, and the time below
 * which no engine can be. */
#include "floor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

static const char command[] = "floor";

typedef struct {
    const char *model, *mtp, *shape, *type, *draft_vocab;
    int n_thread, n_chunk;
    float gb_per_second; /* 0: measured */
    bool measure;
    ft_account_params p;
} floor_args;

/* ---- Accounts --------------------------------------------------------------------------------- */

static ft_status account(const ft_model *m, const floor_args *a, const ft_account_params *p,
                         ft_account *out, ft_error *err)
{
    return m ? ft_account_model(m, p, out, err) : ft_account_shape(a->shape, a->type, p, out, err);
}

/* Draft steps: as the settings say, and what others would read. */
static ft_status draft_accounts(const ft_model *m, const floor_args *a, floor_report *r,
                                ft_error *err)
{
    ft_account_params p = a->p;
    p.step = FT_STEP_DRAFT;
    ft_status st = account(m, a, &p, &r->step[FLOOR_DRAFT], err);
    p.naive = true;
    if (st == FT_OK)
        st = account(m, a, &p, &r->step[FLOOR_NAIVE], err);
    p.naive = false;
    p.draft_quant = "q5_0";
    if (st == FT_OK)
        st = account(m, a, &p, &r->step[FLOOR_Q5], err);
    p.draft_quant = "q4_0";
    if (st == FT_OK)
        st = account(m, a, &p, &r->step[FLOOR_Q4], err);
    return st;
}

static ft_status trunk_accounts(const ft_model *m, const floor_args *a, floor_report *r,
                                ft_error *err)
{
    ft_account_params p = a->p;
    p.step = FT_STEP_VERIFY;
    p.n_row = 1;
    ft_status st = account(m, a, &p, &r->step[FLOOR_ROW], err);
    p.n_row = a->p.n_row;
    if (st == FT_OK)
        st = account(m, a, &p, &r->step[FLOOR_WINDOW], err);
    p.step = FT_STEP_PROMPT;
    p.n_row = a->n_chunk;
    if (st == FT_OK)
        st = account(m, a, &p, &r->step[FLOOR_CHUNK], err);
    return st;
}

static ft_status bandwidth(const floor_args *a, floor_report *r, ft_error *err)
{
    r->bandwidth = 1e9 * (double)a->gb_per_second;
    r->measured = a->gb_per_second <= 0;
    return r->measured ? ft_measure_bandwidth(a->n_thread, &r->bandwidth, err) : FT_OK;
}

static int report(const ft_model *m, const floor_args *a, floor_report *r, bool json)
{
    ft_error err = {0};
    ft_model_info info = {.has_mtp = true, .no_mtp_reason = ""};
    if (m)
        ft_model_get_info(m, &info);
    r->no_draft = info.no_mtp_reason;
    r->n_row = a->p.n_row;
    r->n_chunk = a->n_chunk;
    r->depth = a->p.depth;
    r->kv = a->p.kv_type;
    ft_status st = info.has_mtp ? draft_accounts(m, a, r, &err) : FT_OK;
    if (st == FT_OK)
        st = trunk_accounts(m, a, r, &err);
    if (st == FT_OK)
        st = bandwidth(a, r, &err);
    int rc = st != FT_OK ? report_failure(command, st, &err) : EXIT_OK;
    if (rc == EXIT_OK && json)
        rc = print_object(command, floor_json(r));
    else if (rc == EXIT_OK)
        floor_print(r);
    for (int i = 0; i < FLOOR_N; i++)
        ft_account_free(&r->step[i]);
    return rc;
}

/* ---- The command ------------------------------------------------------------------------------ */

static int list_shapes(bool json)
{
    json_t *list = json ? json_array() : NULL;
    for (int i = 0; ft_shape_name(i); i++) {
        if (json)
            json_array_append_new(list, json_pack("{s:s, s:s}", "name", ft_shape_name(i), "source",
                                                  ft_shape_source(i)));
        else
            printf("%-20s %s\n", ft_shape_name(i), ft_shape_source(i));
    }
    return json ? print_object(command, list) : EXIT_OK;
}

static const char *source_of(const char *shape)
{
    for (int i = 0; ft_shape_name(i); i++)
        if (strcmp(ft_shape_name(i), shape) == 0)
            return ft_shape_source(i);
    return "";
}

static int usage(const char *what)
{
    fprintf(stderr, "foretoken floor: %s\nTry: foretoken floor --help\n", what);
    return EXIT_USAGE;
}

static int check(const floor_args *a)
{
    if (!a->model == !a->shape)
        return usage("give a model with -m FILE, or --shape NAME (--shape list shows them)");
    if (a->model && a->type)
        return usage("--type is for --shape; a file has its own types");
    if (a->shape && (a->mtp || a->draft_vocab))
        return usage("--mtp and --draft-vocab are for -m; a shape has no files");
    if (a->measure && a->gb_per_second > 0)
        return usage("--measure or --bandwidth, not both");
    return -1;
}

static int run(const floor_args *a, bool json, bool tensors)
{
    floor_report r = {.tensors = tensors};
    if (a->shape) {
        r.name = a->shape;
        r.source = source_of(a->shape);
        return report(NULL, a, &r, json);
    }
    /* Types are planned, so nothing is converted for an account. */
    model_args m = model_args_default();
    m.model = a->model;
    m.mtp = a->mtp;
    m.n_thread = a->n_thread;
    m.draft_vocab = a->draft_vocab;
    m.draft_quant = m.draft_quant_mixers = "file";
    ft_model *model;
    int rc = open_model(command, &m, &model, NULL);
    if (rc >= 0)
        return rc;
    ft_model_info info;
    ft_model_get_info(model, &info);
    r.name = a->model;
    r.source = info.arch;
    rc = report(model, a, &r, json);
    ft_model_close(model);
    return rc;
}

int cmd_floor(int argc, char **argv)
{
    floor_args a = {.n_chunk = 512, .p = ft_account_params_default()};
    bool json = false, tensors = false;
    a.p.n_row = 4;
    a.p.draft_quant = "default";
    a.p.draft_quant_mixers = "file";
    const arg_spec spec[] = {
        {"--model", 'm', ARG_STR, &a.model, 0, 0, "FILE", "a GGUF file"},
        {"--mtp", 0, ARG_STR, &a.mtp, 0, 0, "FILE", "a separate GGUF with the draft head"},
        {"--shape", 0, ARG_STR, &a.shape, 0, 0, "NAME", "a named shape, no file; list: show them"},
        {"--type", 0, ARG_STR, &a.type, 0, 0, "TYPE",
         "of a shape's matrices; its own if not given"},
        {"--kv", 0, ARG_CHOICE, &a.p.kv_type, 0, 0, "f16|f32|q8_0",
         "type of cached keys and values"},
        {"--draft-quant", 0, ARG_CHOICE, &a.p.draft_quant, 0, 0, "default|file|q8_0|q5_0|q4_0",
         "type of the drafter's wide matrices"},
        {"--draft-quant-mixers", 0, ARG_CHOICE, &a.p.draft_quant_mixers, 0, 0,
         "default|file|q8_0|q5_0|q4_0", "type of the drafter's hyper-connection mixers"},
        {"--draft-vocab", 0, ARG_STR, &a.draft_vocab, 0, 0, "FILE",
         "the tokens that may be drafted (foretoken draft-vocab build)"},
        {"--draft-vocab-size", 0, ARG_INT_ALL, &a.p.n_draft_vocab, 0, INT32_MAX, "N|all",
         "or only how many; 0: of the file or the shape"},
        {"--sink", 0, ARG_INT, &a.p.sink, 0, 1024, "N",
         "cells at the start of the text that a draft step reads"},
        {"--window", 0, ARG_INT_ALL, &a.p.window, 0, INT32_MAX, "N|all",
         "cells before its own that a draft step reads"},
        {"--depth", 0, ARG_INT, &a.p.depth, 0, 16777216, "N",
         "tokens in the context before the step"},
        {"--rows", 0, ARG_INT, &a.p.n_row, 1, 4096, "N", "rows of a window: one more than drafts"},
        {"--chunk", 0, ARG_INT, &a.n_chunk, 1, 4096, "N", "rows of a prompt's chunk"},
        {"--bandwidth", 0, ARG_FLOAT, &a.gb_per_second, 0, 1000000, "N",
         "GB/s (1e9 bytes) that memory is read with; 0: measured here"},
        {"--measure", 0, ARG_FLAG, &a.measure, 0, 0, NULL, "measure it, as without --bandwidth"},
        {"--threads", 't', ARG_INT, &a.n_thread, 0, 1024, "N",
         "threads that measure; 0: one per core"},
        {"--tensors", 0, ARG_FLAG, &tensors, 0, 0, NULL, "one line per kind of tensor"},
        {"--json", 0, ARG_FLAG, &json, 0, 0, NULL, "everything as JSON"},
    };
    arg_command c = {
        .command = command,
        .usage = "(-m FILE | --shape NAME) [options]",
        .about = "Add up the bytes that a draft step and a verified row have to read, from shapes\n"
                 "and types alone, and the time below which no engine can be (docs/bytes.md).",
        .spec = spec,
        .n_spec = (int)(sizeof spec / sizeof *spec)};
    int rc = args_parse(&c, argc, argv);
    if (rc >= 0)
        return rc;
    if (a.shape && strcmp(a.shape, "list") == 0)
        return list_shapes(json);
    rc = check(&a);
    return rc >= 0 ? rc : run(&a, json, tensors);
}
