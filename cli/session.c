/* session.c - `foretoken session save`, `info` and `load`: conversations in files. */
#include <stdlib.h>
#include <string.h>

#include "common.h"

typedef struct {
    model_args m;
    const char *prompt, *file, *out, *path, *cells;
    int n_max;
    bool special, no_checkpoints, json, quiet;
} options;

/* ---- For other commands too ------------------------------------------------------------------------- */

int session_load_file(const char *command, ft_session *s, const char *path)
{
    ft_error err = {0};
    ft_status st = ft_session_load(s, path, &err);
    return st == FT_OK ? -1 : report_failure(command, st, &err);
}

int session_save_file(const char *command, ft_session *s, const char *path, const ft_save_params *p,
                      uint64_t *n_bytes)
{
    progress_bar bar = {0};
    ft_save_params q = *p;
    if (!interrupted()) {
        q.progress = progress_show;
        q.progress_ctx = &bar;
    }
    ft_error err = {0};
    ft_status st = ft_session_save(s, path, &q, n_bytes, &err);
    progress_end(&bar);
    return st == FT_OK ? -1 : report_failure(command, st, &err);
}

int session_resume(const char *command, ft_session *s, int32_t **ids, int *n)
{
    *ids = NULL;
    int n_known, n_tok;
    const int32_t *tok = ft_session_tokens(s, &n_tok);
    *n = 0;
    if (n_tok > ft_session_n_past(s))
        return -1; /* its last token was decided and waits to be read */
    if (n_tok == 0) {
        fprintf(stderr, "foretoken %s: the session has no text to go on with\n", command);
        return EXIT_FAILED;
    }
    int32_t *copy = malloc((size_t)n_tok * sizeof *copy);
    if (!copy)
        return report_failure(command, FT_NOMEM, NULL);
    memcpy(copy, tok, (size_t)n_tok * sizeof *copy);
    ft_error err = {0};
    ft_status st = ft_session_reuse(s, copy, n_tok, &n_known, &err);
    if (st != FT_OK) {
        free(copy);
        return report_failure(command, st, &err);
    }
    *n = n_tok - n_known;
    memmove(copy, copy + n_known, (size_t)*n * sizeof *copy);
    *ids = copy;
    return -1;
}

/* ---- save -------------------------------------------------------------------------------------------- */

/* All but the last token, a checkpoint there, then the last one: so that any text which begins alike, this
 * one included, can be taken up without reading it again. */
static ft_status read_prompt(ft_session *s, const int32_t *ids, int n, ft_error *err)
{
    progress_bar bar = {.label = "reading"};
    ft_generate_params p = ft_generate_params_default();
    p.n_max = 0;
    p.on_prompt = progress_show;
    p.on_prompt_ctx = &bar;
    ft_status st = n > 1 ? ft_session_generate(s, ids, n - 1, &p, NULL, err) : FT_OK;
    if (st == FT_OK && n > 1)
        st = ft_session_checkpoint(s, err);
    if (st == FT_OK)
        st = ft_session_eval(s, ids + n - 1, 1, NULL, err);
    progress_end(&bar);
    return st;
}

static int print_saved(const options *o, ft_session *s, uint64_t n_bytes, double read_s,
                       double save_s)
{
    if (o->json)
        return print_object("session save",
                            json_pack("{s:s, s:i, s:I, s:f, s:f}", "file", o->out, "tokens",
                                      ft_session_n_past(s), "bytes", (json_int_t)n_bytes,
                                      "read_seconds", read_s, "save_seconds", save_s));
    if (!o->quiet)
        fprintf(stderr, "%s: %d tokens, %.1f MB, read in %.3f s, saved in %.3f s\n", o->out,
                ft_session_n_past(s), 1e-6 * (double)n_bytes, read_s, save_s);
    return EXIT_OK;
}

static int save_ids(const options *o, ft_session *s, const int32_t *ids, size_t n)
{
    ft_error err = {0};
    if (n == 0 || n > INT32_MAX) {
        fprintf(stderr, "foretoken session save: the prompt has %zu tokens\n", n);
        return EXIT_FAILED;
    }
    double t0 = now_seconds();
    ft_status st = read_prompt(s, ids, (int)n, &err);
    if (st != FT_OK)
        return report_failure("session save", st, &err);
    double t1 = now_seconds();
    ft_save_params p = {.kv_type = o->cells, .no_checkpoints = o->no_checkpoints};
    uint64_t n_bytes;
    int rc = session_save_file("session save", s, o->out, &p, &n_bytes);
    return rc >= 0 ? rc : print_saved(o, s, n_bytes, t1 - t0, now_seconds() - t1);
}

static int save(options *o, const ft_model *m, ft_session *s)
{
    char *text = NULL;
    size_t len = 0, n = 0;
    if (o->prompt) {
        len = strlen(o->prompt);
    } else {
        int rc = read_text("session save", o->file ? o->file : "-", &text, &len);
        if (rc >= 0)
            return rc;
    }
    int32_t *ids = NULL;
    ft_error err = {0};
    ft_status st = ft_tokenize(m, text ? text : o->prompt, len, o->special, &ids, &n, &err);
    int rc = st == FT_OK ? save_ids(o, s, ids, n) : report_failure("session save", st, &err);
    ft_free(ids);
    free(text);
    return rc;
}

/* ---- info -------------------------------------------------------------------------------------------- */

static int print_info(const options *o, const ft_session_file_info *i)
{
    char model[20];
    snprintf(model, sizeof model, "%016llx", (unsigned long long)i->model_fingerprint);
    if (o->json)
        return print_object(
            "session info",
            json_pack(
                "{s:s, s:i, s:s, s:s%, s:s, s:s, s:b, s:b, s:i, s:i, s:i, s:i, s:I, s:I, s:I, "
                "s:I}",
                "file", o->path, "version", i->version, "arch", i->arch, "name", i->name,
                strlen(i->name), "model", model, "kv_type", i->kv_type, "exact", i->exact,
                "drafter", i->has_drafter, "sink", i->sink, "window", i->window, "tokens",
                i->n_token, "checkpoints", i->n_checkpoint, "file_bytes", (json_int_t)i->file_bytes,
                "cell_bytes", (json_int_t)i->cell_bytes, "recurrent_bytes",
                (json_int_t)i->recurrent_bytes, "drafter_bytes", (json_int_t)i->drafter_bytes));
    printf("session      version %d, all checksums right\n", i->version);
    printf("model        %s, '%s', %s\n", i->arch, i->name, model);
    printf("tokens       %d, and %d checkpoints on the way\n", i->n_token, i->n_checkpoint);
    printf("cells        %s, %s\n", i->kv_type,
           i->exact ? "those of the session" : "converted: the text may go on differently");
    if (!i->has_drafter)
        printf("drafter      none\n");
    else if (i->window == FT_WINDOW_ALL)
        printf("drafter      sink %d, window all\n", i->sink);
    else
        printf("drafter      sink %d, window %d\n", i->sink, i->window);
    double mb = 1e-6;
    printf("size         %.3f MB: cells %.3f, recurrent states %.3f, drafter %.3f\n",
           mb * (double)i->file_bytes, mb * (double)i->cell_bytes, mb * (double)i->recurrent_bytes,
           mb * (double)i->drafter_bytes);
    return EXIT_OK;
}

static int info(const options *o)
{
    ft_session_file_info i;
    ft_error err = {0};
    ft_status st = ft_session_file_read_info(o->path, &i, &err);
    return st == FT_OK ? print_info(o, &i) : report_failure("session info", st, &err);
}

/* ---- load -------------------------------------------------------------------------------------------- */

static bool collect(void *ctx, const ft_token *t)
{
    buf *b = ctx;
    buf_put(b, t->text, t->len);
    return !b->failed && !interrupted();
}

/* The text's last characters: where UTF-8 begins one. */
enum { TAIL_BYTES = 200 };
static const char *tail_of(const char *text, size_t len)
{
    size_t at = len > TAIL_BYTES ? len - TAIL_BYTES : 0;
    while (at < len && at > 0 && ((unsigned char)text[at] & 0xc0) == 0x80)
        at++;
    return text + at;
}

static int print_loaded(const options *o, const ft_session_info *i, const char *tail, size_t n_tail,
                        const buf *next, double seconds)
{
    const char *go_on = next->len ? (const char *)next->data : "";
    if (o->json)
        return print_object("session load",
                            json_pack("{s:s, s:i, s:i, s:b, s:f, s:s%, s:s%}", "file", o->path,
                                      "tokens", i->n_token, "context", i->n_ctx, "inexact",
                                      i->inexact, "load_seconds", seconds, "tail", tail, n_tail,
                                      "next", go_on, next->len));
    printf("loaded       in %.3f s\n", seconds);
    printf("tokens       %d of a context of %d%s\n", i->n_token, i->n_ctx,
           i->inexact ? "; not what the model would compute itself" : "");
    printf("ends with    %.*s\n", (int)n_tail, tail);
    printf("goes on      %.*s\n", (int)next->len, go_on);
    return EXIT_OK;
}

/* The most probable continuation. */
static int continue_text(const options *o, ft_session *s, buf *next)
{
    int32_t *ids;
    int n;
    int rc = session_resume("session load", s, &ids, &n);
    if (rc >= 0)
        return rc;
    ft_generate_params p = ft_generate_params_default();
    p.n_max = o->n_max;
    p.sample.temp = 0;
    p.special = true;
    p.on_token = collect;
    p.on_token_ctx = next;
    ft_error err = {0};
    ft_status st = ft_session_generate(s, ids, n, &p, NULL, &err);
    free(ids);
    return st == FT_OK ? -1 : report_failure("session load", st, &err);
}

static int load(const options *o, const ft_model *m, ft_session *s)
{
    double t0 = now_seconds();
    int rc = session_load_file("session load", s, o->path);
    if (rc >= 0)
        return rc;
    double seconds = now_seconds() - t0;
    ft_session_info i;
    ft_session_get_info(s, &i);
    char *text;
    size_t len;
    ft_error err = {0};
    int n_tok;
    const int32_t *tok = ft_session_tokens(s, &n_tok);
    ft_status st = ft_detokenize(m, tok, (size_t)n_tok, true, &text, &len, &err);
    if (st != FT_OK)
        return report_failure("session load", st, &err);
    buf next;
    buf_init(&next, (size_t)1 << 30);
    rc = n_tok > 0 && o->n_max > 0 ? continue_text(o, s, &next) : -1;
    const char *tail = tail_of(text, len);
    if (rc < 0)
        rc = print_loaded(o, &i, tail, len - (size_t)(tail - text), &next, seconds);
    buf_deinit(&next);
    ft_free(text);
    return rc;
}

/* ---- The command --------------------------------------------------------------------------------------- */

static int parse_save(options *o, int argc, char **argv)
{
    const arg_spec spec[] = {
        COMMON_MODEL_ARGS(o->m),
        COMMON_CTX_ARG(o->m),
        COMMON_DRAFT_ARGS(o->m),
        {"--prompt", 'p', ARG_STR, &o->prompt, 0, 0, "TEXT", "the text to read"},
        {"--file", 'f', ARG_STR, &o->file, 0, 0, "FILE", "read it from a file; -: standard input"},
        {"--out", 'o', ARG_STR, &o->out, 0, 0, "FILE", "the file to write (required)"},
        {"--cells", 0, ARG_CHOICE, &o->cells, 0, 0, "f16|f32|q8_0",
         "type of keys and values in the file; as in the session if not given"},
        {"--no-checkpoints", 0, ARG_FLAG, &o->no_checkpoints, 0, 0, NULL,
         "without the checkpoints on the way: smaller"},
        {"--special", 0, ARG_FLAG, &o->special, 0, 0, NULL, "read special tokens in the text"},
        {"--json", 0, ARG_FLAG, &o->json, 0, 0, NULL, "the report as JSON"},
        {"--quiet", 'q', ARG_FLAG, &o->quiet, 0, 0, NULL, "no report"},
    };
    arg_command c = {.command = "session save",
                     .usage = "-m MODEL [-p TEXT | -f FILE] -o FILE [options]",
                     .about = "Read a text and write the state behind it to a file, to go on from "
                              "there at once.",
                     .spec = spec,
                     .n_spec = (int)(sizeof spec / sizeof *spec)};
    int rc = args_parse(&c, argc, argv);
    if (rc < 0 && !o->out) {
        fprintf(stderr, "foretoken session save: no output; give one with -o FILE\n");
        return EXIT_USAGE;
    }
    if (rc < 0 && o->prompt && o->file) {
        fprintf(stderr, "foretoken session save: --prompt and --file exclude each other\n");
        return EXIT_USAGE;
    }
    return rc;
}

static int parse_info(options *o, int argc, char **argv)
{
    const arg_spec spec[] = {{"--json", 0, ARG_FLAG, &o->json, 0, 0, NULL, "the report as JSON"}};
    arg_command c = {.command = "session info",
                     .usage = "FILE [--json]",
                     .about = "Check a session file and show what it holds. Needs no model.",
                     .spec = spec,
                     .n_spec = 1,
                     .positional = &o->path,
                     .min_positional = 1,
                     .max_positional = 1};
    return args_parse(&c, argc, argv);
}

static int parse_load(options *o, int argc, char **argv)
{
    const arg_spec spec[] = {
        COMMON_MODEL_ARGS(o->m),
        COMMON_CTX_ARG(o->m),
        COMMON_DRAFT_ARGS(o->m),
        {"--n-predict", 'n', ARG_INT, &o->n_max, 0, INT32_MAX, "N", "tokens to go on with"},
        {"--json", 0, ARG_FLAG, &o->json, 0, 0, NULL, "the report as JSON"},
    };
    arg_command c = {.command = "session load",
                     .usage = "-m MODEL FILE [options]",
                     .about = "Load a session file into a model: show how its text ends and what "
                              "would follow.",
                     .spec = spec,
                     .n_spec = (int)(sizeof spec / sizeof *spec),
                     .positional = &o->path,
                     .min_positional = 1,
                     .max_positional = 1};
    return args_parse(&c, argc, argv);
}

static int usage(FILE *f, int rc)
{
    fprintf(f, "usage: foretoken session save -m MODEL [-p TEXT | -f FILE] -o FILE [options]\n"
               "       foretoken session info FILE [--json]\n"
               "       foretoken session load -m MODEL FILE [options]\n\n"
               "Options: foretoken session save --help\n");
    return rc;
}

int cmd_session(int argc, char **argv)
{
    const char *verb = argc > 2 ? argv[2] : "";
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0)
        return usage(stdout, EXIT_OK);
    bool is_save = strcmp(verb, "save") == 0, is_load = strcmp(verb, "load") == 0;
    if (!is_save && !is_load && strcmp(verb, "info") != 0)
        return usage(stderr, EXIT_USAGE);
    options o = {.m = model_args_default(), .n_max = 16};
    o.m.checkpoint_every = ft_session_params_default().checkpoint_every;
    /* The verb is the command's name to the parser. */
    int rc = is_save   ? parse_save(&o, argc - 1, argv + 1)
             : is_load ? parse_load(&o, argc - 1, argv + 1)
                       : parse_info(&o, argc - 1, argv + 1);
    if (rc >= 0)
        return rc;
    if (!is_save && !is_load)
        return info(&o);
    ft_model *m;
    ft_session *s = NULL;
    rc = open_model(is_save ? "session save" : "session load", &o.m, &m, &s);
    if (rc >= 0)
        return rc;
    interrupt_install(s);
    rc = is_save ? save(&o, m, s) : load(&o, m, s);
    interrupt_install(NULL);
    ft_session_free(s);
    ft_model_close(m);
    return rc;
}
