/* files.c - `foretoken inspect`, `convert` and `quantize`. */
#include <string.h>

#include "common.h"

static bool to_stdout(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    return fwrite(text, 1, len, stdout) == len;
}

int cmd_inspect(int argc, char **argv)
{
    bool json = false;
    const char *path = NULL;
    const arg_spec spec[] = {{"--json", 0, ARG_FLAG, &json, 0, 0, NULL, "the report as JSON"}};
    arg_command c = {.command = "inspect",
                     .usage = "FILE [--json]",
                     .about =
                         "Show a GGUF file: metadata, tensors, types, bytes per part, features.",
                     .spec = spec,
                     .n_spec = 1,
                     .positional = &path,
                     .min_positional = 1,
                     .max_positional = 1};
    int rc = args_parse(&c, argc, argv);
    if (rc >= 0)
        return rc;
    ft_error err = {0};
    ft_status st = ft_inspect(path, json, to_stdout, NULL, &err);
    if (st == FT_CANCELLED)
        return EXIT_OK; /* by standard output: end_output tells */
    return st == FT_OK ? EXIT_OK : report_failure("inspect", st, &err);
}

/* Convert's progress: a bar, and the library's remarks (sentences, before the first tensor) as lines
 * of their own. */
static bool convert_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    if (done == 0 && strchr(what, ' ')) {
        progress_end(ctx);
        fprintf(stderr, "note: %s\n", what);
        return !interrupted();
    }
    return progress_show(ctx, what, done, total);
}

int cmd_convert(int argc, char **argv)
{
    const char *dir = NULL, *out = NULL, *type = NULL;
    const arg_spec spec[] = {
        {"--output", 'o', ARG_STR, &out, 0, 0, "FILE", "the GGUF to write (required)"},
        {"--type", 0, ARG_CHOICE, &type, 0, 0, "f32|f16|bf16|q8_0",
         "type of the matrices; the checkpoint's own if not given"},
    };
    arg_command c = {
        .command = "convert",
        .usage = "DIR -o FILE [options]",
        .about = "Convert a Hugging Face folder (config.json, tokenizer.json, *.safetensors)\n"
                 "of the qwen35, qwen35moe or qwen4exp family to GGUF, draft head included.",
        .spec = spec,
        .n_spec = 2,
        .positional = &dir,
        .min_positional = 1,
        .max_positional = 1};
    int rc = args_parse(&c, argc, argv);
    if (rc >= 0)
        return rc;
    if (!out) {
        fprintf(stderr, "foretoken convert: no output; give one with -o FILE\n");
        return EXIT_USAGE;
    }
    interrupt_install(NULL);
    progress_bar bar = {.label = "converting"};
    ft_convert_params p = {
        .dir = dir, .out = out, .type = type, .progress = convert_progress, .progress_ctx = &bar};
    ft_error err = {0};
    ft_status st = ft_convert(&p, &err);
    progress_end(&bar);
    return st == FT_OK ? EXIT_OK : report_failure("convert", st, &err);
}

/* ---- quantize --------------------------------------------------------------------------------------- */

typedef struct {
    bool json;
    progress_bar bar;
    json_t *list;
    uint64_t from, to;
    double worst;
} quantize_run;

static void on_tensor(void *ctx, const ft_quantize_report *r)
{
    quantize_run *q = ctx;
    q->from += r->bytes_from;
    q->to += r->bytes_to;
    if (r->rel_rmse > q->worst)
        q->worst = r->rel_rmse;
    if (q->json) {
        json_array_append_new(q->list, json_pack("{s:s, s:s, s:s, s:I, s:I, s:f}", "name", r->name,
                                                 "from", r->from, "to", r->to, "bytes_from",
                                                 (json_int_t)r->bytes_from, "bytes_to",
                                                 (json_int_t)r->bytes_to, "rel_rmse", r->rel_rmse));
        return;
    }
    progress_end(&q->bar);
    printf("%-44s %-8s -> %-8s %12llu -> %12llu bytes  error %.4f %%\n", r->name, r->from, r->to,
           (unsigned long long)r->bytes_from, (unsigned long long)r->bytes_to, 100 * r->rel_rmse);
}

static bool quantize_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    quantize_run *q = ctx;
    return progress_show(&q->bar, what, done, total);
}

int cmd_quantize(int argc, char **argv)
{
    const char *file[3] = {0};
    arg_list over = {0};
    quantize_run q = {.bar = {.label = "quantizing"}};
    const arg_spec spec[] = {
        {"--tensor", 0, ARG_LIST, &over, 0, 0, "PATTERN=TYPE",
         "another type for tensors whose name fits (* and ? as in a shell); the first that fits "
         "wins"},
        {"--json", 0, ARG_FLAG, &q.json, 0, 0, NULL, "the report as JSON"},
    };
    arg_command c = {
        .command = "quantize",
        .usage = "IN OUT TYPE [--tensor PATTERN=TYPE]...",
        .about = "Rewrite a GGUF with other tensor types and report the relative error of each.\n"
                 "Types: f32 f16 bf16 q8_0 q5_0 q5_1 q4_0 q4_1 iq4_nl q2_0. Vectors, router and\n"
                 "convolutions keep F32 unless --tensor names them.",
        .spec = spec,
        .n_spec = 2,
        .positional = file,
        .min_positional = 3,
        .max_positional = 3};
    int rc = args_parse(&c, argc, argv);
    if (rc >= 0)
        return rc;
    interrupt_install(NULL);
    q.list = json_array();
    ft_quantize_params p = {.in = file[0],
                            .out = file[1],
                            .type = file[2],
                            .overrides = over.item,
                            .n_override = over.n,
                            .progress = quantize_progress,
                            .progress_ctx = &q,
                            .report = on_tensor,
                            .report_ctx = &q};
    ft_error err = {0};
    ft_status st = ft_quantize(&p, &err);
    progress_end(&q.bar);
    if (st == FT_OK && q.json) {
        json_t *j = json_pack("{s:I, s:I, s:f, s:o}", "bytes_from", (json_int_t)q.from, "bytes_to",
                              (json_int_t)q.to, "worst_rel_rmse", q.worst, "tensors", q.list);
        return print_object("quantize", j);
    }
    json_decref(q.list);
    if (st == FT_OK)
        printf("total %llu -> %llu bytes, largest relative error %.4f %%\n",
               (unsigned long long)q.from, (unsigned long long)q.to, 100 * q.worst);
    return st == FT_OK ? EXIT_OK : report_failure("quantize", st, &err);
}
