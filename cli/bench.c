/* bench.c - `foretoken bench`: options, where the model comes from, where the figures go. */
#include "bench.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

typedef struct {
    model_args m;
    ft_synthetic_params syn;
    const char *type, *write;
    const char *depths, *rules, *temps, *sessions, *file;
    const char *csv, *svg;
    bool kernels, json;
} options;

/* ---- Lists ------------------------------------------------------------------------------------ */

static int wrong_item(const char *option, const char *item, size_t len, const char *want)
{
    fprintf(stderr, "foretoken bench: %s: '%.*s' is not %s\n", option, (int)len, item, want);
    return EXIT_USAGE;
}

/* Walk a list of words between commas: the next word and its length; false at the end. */
static bool next_item(const char **at, const char **item, size_t *len)
{
    if (!*at)
        return false;
    *item = *at;
    *len = strcspn(*at, ",");
    *at = (*at)[*len] ? *at + *len + 1 : NULL;
    return true;
}

/* A number that is the whole word, within limits. */
static bool parse_number(const char *item, size_t len, double min, double max, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(item, &end);
    return len > 0 && end == item + len && !errno && isfinite(*out) && *out >= min && *out <= max;
}

static int parse_lists(const options *o, bench_plan *p)
{
    const char *at = o->depths, *item;
    size_t len;
    double x;
    while (next_item(&at, &item, &len)) {
        if (!parse_number(item, len, 0, 1 << 23, &x) || x != floor(x) ||
            p->n_depth == BENCH_MAX_DEPTH)
            return wrong_item("--depths", item, len, "one of up to 16 numbers from 0 to 8388608");
        p->depth[p->n_depth++] = (int)x;
    }
    for (at = o->temps; next_item(&at, &item, &len);) {
        if (!parse_number(item, len, 0, 100, &x) || p->n_temp == BENCH_MAX_TEMP)
            return wrong_item("--temps", item, len, "one of up to 8 numbers from 0 to 100");
        p->temp[p->n_temp++] = (float)x;
    }
    for (at = o->sessions; next_item(&at, &item, &len);) {
        if (!parse_number(item, len, 1, BENCH_MAX_SESSION, &x) || x != floor(x) ||
            p->n_session == BENCH_MAX_COUNT)
            return wrong_item("--sessions", item, len, "one of up to 8 numbers from 1 to 64");
        p->session[p->n_session++] = (int)x;
    }
    for (at = o->rules; next_item(&at, &item, &len);) {
        if (p->n_rule == BENCH_MAX_RULE || !verify_find(item, len, &p->rule[p->n_rule]))
            return wrong_item("--rules", item, len,
                              "one of coupled, block, ratio, greedy-match, each once");
        p->n_rule++;
    }
    return -1;
}

/* ---- Models ----------------------------------------------------------------------------------- */

static int write_synthetic(const options *o, const char *path)
{
    progress_bar bar = {.label = "writing the model"};
    ft_synthetic_params p = o->syn;
    ft_error err = {0};
    if (o->type)
        p.type = strcmp(o->type, "own") == 0 ? NULL : o->type;
    p.out = path;
    p.progress = progress_show;
    p.progress_ctx = &bar;
    interrupt_install(NULL);
    ft_status st = ft_write_synthetic(&p, &err);
    progress_end(&bar);
    return st == FT_OK ? -1 : report_failure("bench", st, &err);
}

/* A model of the shape in a file that is gone from its folder once it is mapped. */
static int open_shape(const options *o, ft_model **m)
{
    const char *tmp = getenv("TMPDIR");
    char dir[400], path[432];
    snprintf(dir, sizeof dir, "%s/foretoken-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        fprintf(stderr, "foretoken bench: %s: %s\n", dir, strerror(errno));
        return EXIT_FAILED;
    }
    snprintf(path, sizeof path, "%s/model.gguf", dir);
    int rc = write_synthetic(o, path);
    model_args a = o->m;
    a.model = path;
    if (rc < 0)
        rc = open_model("bench", &a, m, NULL);
    unlink(path);
    rmdir(dir);
    return rc;
}

/* ---- Output ----------------------------------------------------------------------------------- */

/* The exit code, -1: go on. */
static int write_file(const char *path, const buf *b)
{
    FILE *f = b->failed ? NULL : fopen(path, "w");
    bool ok = f && fwrite(b->data, 1, b->len, f) == b->len;
    ok = f && fclose(f) == 0 && ok;
    if (b->failed)
        fprintf(stderr, "foretoken bench: %s: out of memory\n", path);
    else if (!ok)
        fprintf(stderr, "foretoken bench: %s: %s\n", path, strerror(errno));
    return ok ? -1 : EXIT_FAILED;
}

/* What make puts into a buffer, to a file (NULL: not wanted). */
static int write_report(const char *path, void (*make)(buf *, const bench_report *),
                        const bench_report *r)
{
    if (!path)
        return -1;
    buf b;
    buf_init(&b, (size_t)1 << 24);
    make(&b, r);
    int rc = write_file(path, &b);
    buf_deinit(&b);
    return rc;
}

static int show(const options *o, const bench_report *r)
{
    if (!o->json)
        bench_print(r);
    int rc = write_report(o->csv, bench_csv, r);
    if (rc < 0)
        rc = write_report(o->svg, bench_svg, r);
    if (rc >= 0)
        return rc;
    return o->json ? print_object("bench", bench_json(r)) : EXIT_OK;
}

/* ---- The command ------------------------------------------------------------------------------ */

static int measure(const options *o, const bench_plan *p)
{
    ft_model *m = NULL;
    int rc = o->m.model ? open_model("bench", &o->m, &m, NULL) : open_shape(o, &m);
    if (rc >= 0)
        return rc;
    bench_report r;
    bench_report_init(&r, p, o->m.model ? o->m.model : o->syn.shape, m);
    if (p->draft_max > 0 && !r.info.has_mtp)
        fprintf(stderr, "foretoken bench: no runs with drafts: %s\n", r.info.no_mtp_reason);
    rc = p->n_session > 0 ? bench_sessions(&r, m, &o->m, o->file, o->json)
                          : bench_measure(&r, m, &o->m, o->file);
    if (rc < 0)
        rc = bench_floors(&r, m, &o->m);
    if (rc < 0)
        rc = show(o, &r);
    bench_report_deinit(&r);
    ft_model_close(m);
    return rc;
}

static int kernels(const options *o)
{
    buf csv;
    buf_init(&csv, (size_t)1 << 20);
    int rc = bench_kernels(&o->m, o->type, o->json, o->csv ? &csv : NULL);
    if (rc == EXIT_OK && o->csv) {
        rc = write_file(o->csv, &csv);
        rc = rc < 0 ? EXIT_OK : rc;
    }
    buf_deinit(&csv);
    return rc;
}

static int run(const options *o, bench_plan *p)
{
    int rc = parse_lists(o, p);
    if (rc >= 0)
        return rc;
    if (o->kernels)
        return kernels(o);
    if (!o->m.model == !o->syn.shape) {
        fprintf(stderr, "foretoken bench: want one of -m FILE and --shape NAME\n");
        return EXIT_USAGE;
    }
    if (p->n_session > 0 && (o->csv || o->svg)) {
        fprintf(stderr,
                "foretoken bench: --sessions: prints a table or --json, no --csv or --svg\n");
        return EXIT_USAGE;
    }
    if (!o->write)
        return measure(o, p);
    if (!o->syn.shape) {
        fprintf(stderr, "foretoken bench: --write-synthetic: want a --shape NAME\n");
        return EXIT_USAGE;
    }
    rc = write_synthetic(o, o->write);
    return rc < 0 ? EXIT_OK : rc;
}

int cmd_bench(int argc, char **argv)
{
    options o = {.m = model_args_default(),
                 .syn = ft_synthetic_params_default(),
                 .depths = "0",
                 .rules = "coupled",
                 .temps = "0"};
    bench_plan p = {.n_prompt = 512, .n_decode = 64, .draft_max = 3, .n_repeat = 5, .seed = 1};
    const arg_spec spec[] = {
        COMMON_MODEL_ARGS(o.m),
        COMMON_DRAFT_ARGS(o.m),
        {"--shape", 0, ARG_STR, &o.syn.shape, 0, 0, "NAME",
         "a model of this shape with random weights instead (foretoken floor --shape list)"},
        {"--type", 0, ARG_STR, &o.type, 0, 0, "T",
         "its matrices: a type of quantize, or own: the shape's types (default q8_0)"},
        {"--layers", 0, ARG_INT, &o.syn.n_layer, 0, 512, "N", "layers of its trunk; 0: all"},
        {"--ngram-rows", 0, ARG_INT, &o.syn.n_ngram_row, 0, 1 << 30, "N",
         "rows per head of its n-gram table; 0: all"},
        {"--write-synthetic", 0, ARG_STR, &o.write, 0, 0, "FILE",
         "only write that model, for this and other programs"},
        {"--depths", 0, ARG_STR, &o.depths, 0, 0, "LIST",
         "tokens before a run, as in 0,4096,32768"},
        {"--prompt", 0, ARG_INT, &p.n_prompt, 0, 1 << 20, "N", "tokens read in a run; 0: none"},
        {"--decode", 0, ARG_INT, &p.n_decode, 2, 1 << 20, "N", "tokens made in a run"},
        {"--temps", 0, ARG_STR, &o.temps, 0, 0, "LIST", "temperatures, as in 0,0.7"},
        {"--rules", 0, ARG_STR, &o.rules, 0, 0, "LIST",
         "rules of verification: coupled,block,ratio,greedy-match"},
        {"--draft-max", 0, ARG_INT, &p.draft_max, 0, FT_DRAFT_MAX, "N",
         "drafts a round; 0: no runs with drafts"},
        {"--draft-adaptive", 0, ARG_FLAG, &p.draft_adaptive, 0, 0, NULL,
         "as many drafts as pay, as run does; otherwise always --draft-max"},
        {"--sessions", 0, ARG_STR, &o.sessions, 0, 0, "LIST",
         "instead: so many sessions at once, as in 1,2,4,8; tokens/s of all, by those of one"},
        {"--file", 'f', ARG_STR, &o.file, 0, 0, "FILE",
         "text that fills the context, over and over; random tokens if not given"},
        {"--repeat", 0, ARG_INT, &p.n_repeat, 1, BENCH_MAX_REPEAT, "N", "interleaved runs"},
        {"--seed", 0, ARG_SIZE, &p.seed, 0, 0, "N", "of texts and synthetic weights"},
        {"--kernels", 0, ARG_FLAG, &o.kernels, 0, 0, NULL,
         "instead: matrix products one by one, of --type or of every type"},
        {"--csv", 0, ARG_STR, &o.csv, 0, 0, "FILE", "the figures as CSV"},
        {"--svg", 0, ARG_STR, &o.svg, 0, 0, "FILE", "a picture of times beside their floors"},
        {"--json", 0, ARG_FLAG, &o.json, 0, 0, NULL, "the figures as JSON instead of a table"},
    };
    arg_command c = {
        .command = "bench",
        .usage = "-m FILE | --shape NAME | --kernels [options]",
        .about =
            "Measure speed: reading a prompt, decoding, drafting, and its parts, beside the time\n"
            "that reading the bytes takes. Medians of interleaved runs. A shape needs no\n"
            "download; acceptance of drafts means nothing there, the times of parts do.",
        .spec = spec,
        .n_spec = (int)(sizeof spec / sizeof *spec)};
    int rc = args_parse(&c, argc, argv);
    if (rc >= 0)
        return rc;
    o.syn.seed = p.seed;
    return run(&o, &p);
}
