/* draft_vocab.c - `foretoken draft-vocab build` and `inspect`: the tokens that may be drafted. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "common.h"

enum { TEXT_MAX = 256 };

typedef struct {
    model_args m;
    const char *out;
    float coverage;
    int count;
    bool no_bytes, json;
    arg_list merge;
    const char *file[TEXT_MAX];
} options;

/* ---- The report ------------------------------------------------------------------------------- */

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void print_row(const char *name, const ft_coverage *c)
{
    printf("  %-22s %8d %8d %6.1f %%", name, c->n_draft, c->n_vocab,
           percent((uint64_t)c->n_draft, (uint64_t)c->n_vocab));
    if (c->n_token)
        printf(" %12llu %12llu %7.2f %%%s", (unsigned long long)c->n_covered,
               (unsigned long long)c->n_token, percent(c->n_covered, c->n_token),
               ft_coverage_is_poor(c) ? "  poor: few right drafts" : "");
    printf("\n");
}

static void print_table(const ft_draft_vocab_report *r)
{
    printf("draft vocabulary  %d of %d tokens\n", r->all.n_draft, r->all.n_vocab);
    printf("head              %llu of %llu bytes (%.1f %%)\n", (unsigned long long)r->head_bytes,
           (unsigned long long)r->full_head_bytes, percent(r->head_bytes, r->full_head_bytes));
    printf("  %-22s %8s %8s %8s", "script", "drafted", "tokens", "");
    if (r->all.n_token)
        printf(" %12s %12s %9s", "covered", "in the text", "");
    printf("\n");
    for (int i = 0; i < FT_N_SCRIPT; i++)
        if (r->script[i].n_vocab || r->script[i].n_token)
            print_row(ft_script_name((ft_script)i), &r->script[i]);
    print_row("all", &r->all);
}

static json_t *coverage_json(const char *script, const ft_coverage *c)
{
    return json_pack("{s:s, s:i, s:i, s:I, s:I, s:f, s:b}", "script", script, "draft_tokens",
                     c->n_draft, "vocab_tokens", c->n_vocab, "text_tokens", (json_int_t)c->n_token,
                     "covered", (json_int_t)c->n_covered, "coverage",
                     0.01 * percent(c->n_covered, c->n_token), "poor", ft_coverage_is_poor(c));
}

static int print_report(const char *command, const options *o, const char *path,
                        const ft_draft_vocab_report *r)
{
    if (!o->json) {
        print_table(r);
        return EXIT_OK;
    }
    json_t *scripts = json_array();
    for (int i = 0; i < FT_N_SCRIPT; i++)
        if (r->script[i].n_vocab || r->script[i].n_token)
            json_array_append_new(scripts,
                                  coverage_json(ft_script_name((ft_script)i), &r->script[i]));
    return print_object(command, json_pack("{s:s, s:I, s:I, s:o, s:o}", "file", path, "head_bytes",
                                           (json_int_t)r->head_bytes, "full_head_bytes",
                                           (json_int_t)r->full_head_bytes, "all",
                                           coverage_json("all", &r->all), "scripts", scripts));
}

void warn_draft_vocab(const char *command, const ft_model *m, const int32_t *tok, size_t n_tok)
{
    ft_draft_vocab_report r;
    if (ft_draft_vocab_coverage(m, tok, n_tok, &r, NULL) != FT_OK)
        return; /* no draft vocabulary in use: nothing to warn of */
    for (int i = 0; i < FT_N_SCRIPT; i++)
        if (ft_coverage_is_poor(&r.script[i]))
            fprintf(
                stderr,
                "foretoken %s: warning: the draft vocabulary has %.0f %% of the prompt's tokens "
                "in %s: drafts will often be wrong; see foretoken draft-vocab\n",
                command, percent(r.script[i].n_covered, r.script[i].n_token),
                ft_script_name((ft_script)i));
}

/* ---- The commands ----------------------------------------------------------------------------- */

static bool collect(void *ctx, const char *text, size_t len)
{
    buf *b = ctx;
    buf_put(b, text, len);
    return !b->failed;
}

/* The file is written when all else has succeeded: a failed build leaves an older one alone. */
static int write_file(const char *command, const char *path, const buf *b)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(b->data, 1, b->len, f) == b->len;
    if (f && fclose(f) != 0)
        ok = false;
    if (ok)
        return EXIT_OK;
    fprintf(stderr, "foretoken %s: %s: %s\n", command, path, strerror(errno));
    return EXIT_FAILED;
}

static int count_files(const char *const *file)
{
    int n = 0;
    while (n < TEXT_MAX && file[n])
        n++;
    return n;
}

static int build(const options *o, const ft_model *m)
{
    static const char command[] = "draft-vocab build";
    progress_bar bar = {.label = "counting tokens"};
    ft_draft_vocab_params p = ft_draft_vocab_params_default();
    p.text = o->file;
    p.n_text = count_files(o->file);
    p.merge = o->merge.item;
    p.n_merge = o->merge.n;
    p.coverage = round(1e6 * (double)o->coverage) / 1e6; /* 0.99 as it was typed */
    p.count = o->count;
    p.no_bytes = o->no_bytes;
    p.progress = progress_show;
    p.progress_ctx = &bar;
    buf out;
    buf_init(&out, (size_t)1 << 30);
    ft_draft_vocab_report r;
    ft_error err = {0};
    ft_status st = ft_draft_vocab_build(m, &p, collect, &out, &r, &err);
    progress_end(&bar);
    int rc = st == FT_OK ? write_file(command, o->out, &out) : report_failure(command, st, &err);
    buf_deinit(&out);
    return rc == EXIT_OK ? print_report(command, o, o->out, &r) : rc;
}

static int inspect(const options *o, const ft_model *m)
{
    static const char command[] = "draft-vocab inspect";
    progress_bar bar = {.label = "counting tokens"};
    ft_draft_vocab_params p = ft_draft_vocab_params_default();
    p.text = o->file + 1;
    p.n_text = count_files(o->file) - 1;
    p.progress = progress_show;
    p.progress_ctx = &bar;
    ft_draft_vocab_report r;
    ft_error err = {0};
    ft_status st = ft_draft_vocab_inspect(m, o->file[0], &p, &r, &err);
    progress_end(&bar);
    return st == FT_OK ? print_report(command, o, o->file[0], &r)
                       : report_failure(command, st, &err);
}

#define COMMON_ARGS(o)                                                                          \
    {"--model", 'm', ARG_STR, &(o).m.model, 0, 0, "FILE", "the model, a GGUF file (required)"}, \
        {"--mtp", 0, ARG_STR, &(o).m.mtp, 0, 0, "FILE", "a separate GGUF with the draft head"}, \
    {                                                                                           \
        "--json", 0, ARG_FLAG, &(o).json, 0, 0, NULL, "the report as JSON"                      \
    }

static int parse_build(options *o, int argc, char **argv)
{
    const arg_spec spec[] = {
        COMMON_ARGS(*o),
        {"--output", 'o', ARG_STR, &o->out, 0, 0, "FILE", "the file to write (required)"},
        {"--coverage", 0, ARG_FLOAT, &o->coverage, 0, 1, "P",
         "take the most frequent tokens up to this share of the text"},
        {"--count", 0, ARG_INT, &o->count, 0, INT32_MAX, "N",
         "or up to so many tokens in all; 0: by coverage"},
        {"--merge", 0, ARG_LIST, &o->merge, 0, 0, "FILE",
         "take all tokens of another draft vocabulary"},
        {"--no-bytes", 0, ARG_FLAG, &o->no_bytes, 0, 0, NULL, "without the tokens of single bytes"},
    };
    arg_command c = {
        .command = "draft-vocab build",
        .usage = "-m MODEL -o FILE [options] TEXT...",
        .about = "Choose the tokens that may be drafted from texts like those to be written: the\n"
                 "most frequent ones, and always control tokens and single bytes. What a draft\n"
                 "vocabulary lacks costs speed alone: the text stays the same.",
        .spec = spec,
        .n_spec = (int)(sizeof spec / sizeof *spec),
        .positional = o->file,
        .max_positional = TEXT_MAX};
    int rc = args_parse(&c, argc, argv);
    if (rc < 0 && !o->out) {
        fprintf(stderr, "foretoken draft-vocab build: no output; give one with -o FILE\n");
        return EXIT_USAGE;
    }
    return rc;
}

static int parse_inspect(options *o, int argc, char **argv)
{
    const arg_spec spec[] = {COMMON_ARGS(*o)};
    arg_command c = {.command = "draft-vocab inspect",
                     .usage = "-m MODEL FILE [TEXT...]",
                     .about =
                         "Show a draft vocabulary by scripts, and how much of the texts it covers.",
                     .spec = spec,
                     .n_spec = (int)(sizeof spec / sizeof *spec),
                     .positional = o->file,
                     .min_positional = 1,
                     .max_positional = TEXT_MAX};
    return args_parse(&c, argc, argv);
}

static int usage(FILE *f, int rc)
{
    fprintf(f, "usage: foretoken draft-vocab build -m MODEL -o FILE [options] TEXT...\n"
               "       foretoken draft-vocab inspect -m MODEL FILE [TEXT...]\n\n"
               "Options: foretoken draft-vocab build --help\n");
    return rc;
}

int cmd_draft_vocab(int argc, char **argv)
{
    const char *verb = argc > 2 ? argv[2] : "";
    bool is_build = strcmp(verb, "build") == 0;
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0)
        return usage(stdout, EXIT_OK);
    if (!is_build && strcmp(verb, "inspect") != 0)
        return usage(stderr, EXIT_USAGE);
    options o = {.m = model_args_default(), .coverage = 0.99f};
    /* The verb is the command's name to the parser. */
    int rc = is_build ? parse_build(&o, argc - 1, argv + 1) : parse_inspect(&o, argc - 1, argv + 1);
    if (rc >= 0)
        return rc;
    ft_model *m;
    rc = open_model(is_build ? "draft-vocab build" : "draft-vocab inspect", &o.m, &m, NULL);
    if (rc >= 0)
        return rc;
    interrupt_install(NULL);
    rc = is_build ? build(&o, m) : inspect(&o, m);
    ft_model_close(m);
    return rc;
}
