/* perplexity.c - `foretoken perplexity`: how well a model predicts a text. */
#include <stdlib.h>

#include "common.h"

typedef struct {
    model_args m;
    const char *file;
    int n_window, n_skip;
    bool json;
} options;

static int measure(const options *o, ft_model *m)
{
    char *text;
    size_t len, n;
    int32_t *ids;
    int rc = read_text("perplexity", o->file, &text, &len);
    if (rc >= 0)
        return rc;
    ft_error err = {0};
    ft_status st = ft_tokenize(m, text, len, false, &ids, &n, &err);
    free(text);
    if (st != FT_OK)
        return report_failure("perplexity", st, &err);
    progress_bar bar = {0};
    ft_perplexity_params p = ft_perplexity_params_default();
    p.n_window = o->n_window;
    p.n_skip = o->n_skip;
    p.progress = progress_show;
    p.progress_ctx = &bar;
    ft_session_params sp = {.n_chunk = o->m.n_chunk, .kv_type = o->m.kv};
    ft_perplexity_result r;
    double t0 = now_seconds();
    st = ft_perplexity(m, ids, n, &sp, &p, &r, &err);
    progress_end(&bar);
    ft_free(ids);
    if (st != FT_OK)
        return report_failure("perplexity", st, &err);
    double seconds = now_seconds() - t0;
    if (o->json)
        printf("{\"tokens\": %zu, \"scored\": %llu, \"window\": %d, \"nll\": %.6f, \"nll_error\": "
               "%.6f, "
               "\"perplexity\": %.4f, \"perplexity_error\": %.4f, \"seconds\": %.3f}\n",
               n, (unsigned long long)r.n_scored, o->n_window, r.nll, r.nll_error, r.perplexity,
               r.perplexity_error, seconds);
    else
        printf("perplexity %.4f +- %.4f  (%.5f +- %.5f nats a token, %llu of %zu tokens scored, "
               "%.1f s)\n",
               r.perplexity, r.perplexity_error, r.nll, r.nll_error, (unsigned long long)r.n_scored,
               n, seconds);
    return EXIT_OK;
}

int cmd_perplexity(int argc, char **argv)
{
    ft_perplexity_params def = ft_perplexity_params_default();
    options o = {
        .m = model_args_default(), .file = "-", .n_window = def.n_window, .n_skip = def.n_skip};
    o.m.no_drafter = true;
    const arg_spec spec[] = {
        COMMON_MODEL_ARGS(o.m),
        {"--file", 'f', ARG_STR, &o.file, 0, 0, "FILE", "the text; -: standard input"},
        {"--window", 'w', ARG_INT, &o.n_window, 2, 16777216, "N",
         "tokens per window, each read from an empty context"},
        {"--skip", 0, ARG_INT, &o.n_skip, -1, 16777216, "N",
         "unscored tokens at a window's start; -1: half the window"},
        {"--json", 0, ARG_FLAG, &o.json, 0, 0, NULL, "one JSON object"},
    };
    arg_command c = {.command = "perplexity",
                     .usage = "-m FILE -f FILE [options]",
                     .about =
                         "Perplexity of a text in overlapping windows, with its standard error.",
                     .spec = spec,
                     .n_spec = (int)(sizeof spec / sizeof *spec)};
    int rc = args_parse(&c, argc, argv);
    if (rc >= 0)
        return rc;
    ft_model *m;
    rc = open_model("perplexity", &o.m, &m, NULL);
    if (rc >= 0)
        return rc;
    interrupt_install(NULL);
    rc = measure(&o, m);
    ft_model_close(m);
    return rc;
}
