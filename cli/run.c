/* run.c - `foretoken run`: continue a text, streaming; statistics on stderr. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"
#include "generate_args.h"

typedef struct {
    model_args m;
    generate_args g;
    const char *prompt, *file;
    const char *session, *save;
    bool show_drafts, special, echo, json, quiet;
} options;

/* Where the text goes as it is made. */
typedef struct {
    const options *o;
    progress_bar bar; /* while the prompt is read */
    buf text;         /* with --json */
    json_t *ids;
} output;

static bool on_token(void *ctx, const ft_token *t)
{
    output *out = ctx;
    progress_end(&out->bar); /* before there is text on its line */
    if (out->o->json) {
        buf_put(&out->text, t->text, t->len);
        return json_array_append_new(out->ids, json_integer(t->id)) == 0 && !out->text.failed;
    }
    if (out->o->show_drafts) {
        /* green: a draft was right; red: corrected; no colour: no draft was there */
        static const char *const colour[] = {"", "\033[32m", "\033[31m"};
        return printf("%s%.*s%s", colour[t->kind], (int)t->len, t->text,
                      *colour[t->kind] ? "\033[0m" : "") >= 0 &&
               fflush(stdout) == 0;
    }
    /* A reader that went away (a closed pipe) ends the text, it does not fail the command. */
    return fwrite(t->text, 1, t->len, stdout) == t->len && fflush(stdout) == 0;
}

static double rate(int n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

/* Acceptance by depth, as far as there were drafts. */
static void print_drafts(const ft_draft_stats *d, int n_token)
{
    if (d->drafted == 0) {
        fprintf(stderr, "drafts  none: %s\n", d->off_reason);
        return;
    }
    fprintf(stderr,
            "drafts  %llu of %llu accepted (%.1f %%) in %llu rounds, %.2f tokens a round; by depth",
            (unsigned long long)d->accepted, (unsigned long long)d->drafted,
            100.0 * (double)d->accepted / (double)d->drafted, (unsigned long long)d->rounds,
            d->rounds ? (double)(n_token - 1) / (double)d->rounds : 0);
    for (int i = 0; i < FT_DRAFT_MAX && d->verified_at[i]; i++)
        fprintf(stderr, " %.1f %%", 100.0 * (double)d->accepted_at[i] / (double)d->verified_at[i]);
    fprintf(stderr, "\n        draft step %.3f ms and %.2f MB, verification %.3f ms a round\n",
            d->steps ? 1e3 * d->draft_seconds / (double)d->steps : 0, 1e-6 * (double)d->step_bytes,
            d->rounds ? 1e3 * d->verify_seconds / (double)d->rounds : 0);
}

static void print_stats(const ft_model *m, const ft_generate_stats *s, int n_known)
{
    ft_model_info info;
    ft_model_get_info(m, &info);
    int n_decode = s->n_token > 0 ? s->n_token - 1 : 0; /* the first one came with the prompt */
    double mb = 1e-6;
    fprintf(stderr, "\nload    %.3f s   %s, %d threads, %s\n", info.load_seconds, info.arch,
            info.n_thread, info.cpu);
    fprintf(stderr, "prompt  %d tokens in %.3f s, %.1f tokens/s", s->n_prompt, s->prompt_seconds,
            rate(s->n_prompt, s->prompt_seconds));
    if (n_known > 0)
        fprintf(stderr, "; %d more were known", n_known);
    fprintf(stderr, "\n");
    fprintf(stderr, "decode  %d tokens in %.3f s, %.1f tokens/s (sampling %.3f s); end: %s\n",
            s->n_token, s->decode_seconds, rate(n_decode, s->decode_seconds), s->sample_seconds,
            ft_finish_text(s->finish));
    print_drafts(&s->draft, s->n_token);
    if (info.n_draft_vocab && s->draft.drafted)
        fprintf(stderr, "        from %d of %d tokens\n", info.n_draft_vocab, info.n_vocab);
    fprintf(
        stderr,
        "memory  file %.1f MB (mapped), state %.1f MB, scratch %.1f MB, peak resident %.1f MB\n",
        mb * (double)info.file_bytes, mb * (double)s->state_bytes, mb * (double)s->scratch_bytes,
        mb * (double)peak_resident_bytes());
}

static json_t *drafts_json(const ft_draft_stats *d, int n_token)
{
    json_t *depth = json_array();
    for (int i = 0; i < FT_DRAFT_MAX && d->verified_at[i]; i++)
        json_array_append_new(depth,
                              json_pack("{s:I, s:I}", "verified", (json_int_t)d->verified_at[i],
                                        "accepted", (json_int_t)d->accepted_at[i]));
    double rounds = d->rounds ? (double)d->rounds : 1, steps = d->steps ? (double)d->steps : 1;
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:o, s:I, s:f, s:f, s:I, s:I}", "off_reason",
                     d->off_reason, "rounds", (json_int_t)d->rounds, "drafted",
                     (json_int_t)d->drafted, "accepted", (json_int_t)d->accepted,
                     "tokens_per_round", n_token > 0 ? (double)(n_token - 1) / rounds : 0.0,
                     "by_depth", depth, "steps", (json_int_t)d->steps, "ms_per_step",
                     1e3 * d->draft_seconds / steps, "ms_per_verification",
                     1e3 * d->verify_seconds / rounds, "bytes_per_step", (json_int_t)d->step_bytes,
                     "state_bytes", (json_int_t)d->state_bytes);
}

static int print_json(const ft_model *m, const ft_generate_stats *s, int n_known, const output *out)
{
    ft_model_info info;
    ft_model_get_info(m, &info);
    int n_decode = s->n_token > 0 ? s->n_token - 1 : 0;
    json_t *stats = json_pack(
        "{s:f, s:i, s:i, s:f, s:f, s:i, s:f, s:f, s:f, s:I, s:I, s:I, s:I}", "load_seconds",
        info.load_seconds, "prompt_tokens", s->n_prompt, "known_tokens", n_known, "prompt_seconds",
        s->prompt_seconds, "prompt_tokens_per_second", rate(s->n_prompt, s->prompt_seconds),
        "decode_tokens", s->n_token, "decode_seconds", s->decode_seconds,
        "decode_tokens_per_second", rate(n_decode, s->decode_seconds), "sample_seconds",
        s->sample_seconds, "file_bytes", (json_int_t)info.file_bytes, "state_bytes",
        (json_int_t)s->state_bytes, "scratch_bytes", (json_int_t)s->scratch_bytes,
        "peak_resident_bytes", (json_int_t)peak_resident_bytes());
    /* A text may hold NUL bytes: its length is told. */
    json_t *text = json_stringn(out->text.len ? (const char *)out->text.data : "", out->text.len);
    return print_object("run",
                        json_pack("{s:o, s:O, s:s, s:s, s:i, s:s, s:o, s:o}", "text", text,
                                  "tokens", out->ids, "finish", ft_finish_text(s->finish), "arch",
                                  info.arch, "threads", info.n_thread, "cpu", info.cpu, "stats",
                                  stats, "drafts", drafts_json(&s->draft, s->n_token)));
}

/* The prompt's text: -p as it is, -f a file, "-" standard input. */
static int get_prompt(const options *o, char **text, size_t *len)
{
    if (!o->prompt)
        return read_text("run", o->file ? o->file : "-", text, len);
    *len = strlen(o->prompt);
    *text = malloc(*len + 1);
    if (!*text)
        return report_failure("run", FT_NOMEM, NULL);
    memcpy(*text, o->prompt, *len + 1);
    return -1;
}

/* Read ids [n], behind n_known that s holds already, and make tokens. */
static int generate(const options *o, ft_model *m, ft_session *s, const int32_t *ids, int n,
                    int n_known)
{
    output out = {.o = o, .ids = json_array()};
    buf_init(&out.text, (size_t)1 << 30);
    ft_generate_params p = generate_args_params(&o->g);
    p.special = o->special;
    p.on_token = on_token;
    p.on_token_ctx = &out;
    p.on_prompt = progress_show;
    p.on_prompt_ctx = &out.bar;
    ft_generate_stats stats;
    ft_error err = {0};
    ft_status st = ft_session_generate(s, ids, n, &p, &stats, &err);
    progress_end(&out.bar);
    int rc = st == FT_OK ? EXIT_OK : report_failure("run", st, &err);
    if (o->json && st == FT_OK)
        rc = print_json(m, &stats, n_known, &out);
    else if (st == FT_OK)
        putchar('\n');
    fflush(stdout);
    if (!o->quiet && (st == FT_OK || st == FT_CANCELLED))
        print_stats(m, &stats, n_known);
    json_decref(out.ids);
    buf_deinit(&out.text);
    ft_save_params save = {0};
    if (o->save && (st == FT_OK || st == FT_CANCELLED)) {
        int saved = session_save_file("run", s, o->save, &save, NULL);
        rc = saved >= 0 ? saved : rc;
    }
    return rc;
}

/* Continue a text, of which s may know a beginning. */
static int run_text(const options *o, ft_model *m, ft_session *s, const char *text, size_t len)
{
    int32_t *ids;
    size_t n;
    ft_error err = {0};
    ft_status st = ft_tokenize(m, text, len, o->special, &ids, &n, &err);
    if (st != FT_OK)
        return report_failure("run", st, &err);
    if (n > INT32_MAX) {
        ft_free(ids);
        fprintf(stderr, "foretoken run: the prompt has %zu tokens\n", n);
        return EXIT_FAILED;
    }
    if (!o->quiet && !o->g.no_draft)
        warn_draft_vocab("run", m, ids, n);
    int n_known = 0;
    if (n > 0 && o->session)
        st = ft_session_reuse(s, ids, (int)n, &n_known, &err);
    if (o->echo && !o->json && st == FT_OK)
        fwrite(text, 1, len, stdout);
    int rc = st == FT_OK ? generate(o, m, s, ids + n_known, (int)n - n_known, n_known)
                         : report_failure("run", st, &err);
    ft_free(ids);
    return rc;
}

/* Go on with the text that s holds. */
static int run_session(const options *o, ft_model *m, ft_session *s)
{
    int32_t *ids;
    int n;
    int rc = session_resume("run", s, &ids, &n);
    if (rc < 0)
        rc = generate(o, m, s, ids, n, ft_session_n_past(s));
    free(ids);
    return rc;
}

/* The session file, if one is named and there; then the prompt, or the session's own text. */
static int run(const options *o, ft_model *m, ft_session *s)
{
    bool loaded = o->session && (access(o->session, F_OK) == 0 || errno != ENOENT);
    int rc = loaded ? session_load_file("run", s, o->session) : -1;
    if (rc >= 0)
        return rc;
    if (loaded && !o->prompt && !o->file)
        return run_session(o, m, s);
    char *text = NULL;
    size_t len = 0;
    rc = get_prompt(o, &text, &len);
    if (rc < 0)
        rc = run_text(o, m, s, text, len);
    free(text);
    return rc;
}

int cmd_run(int argc, char **argv)
{
    options o = {.m = model_args_default(), .g = generate_args_default()};
    const arg_spec spec[] = {
        COMMON_MODEL_ARGS(o.m),
        COMMON_CTX_ARG(o.m),
        COMMON_DRAFT_ARGS(o.m),
        {"--prompt", 'p', ARG_STR, &o.prompt, 0, 0, "TEXT", "the text to continue"},
        {"--file", 'f', ARG_STR, &o.file, 0, 0, "FILE", "read it from a file; -: standard input"},
        {"--session", 0, ARG_STR, &o.session, 0, 0, "FILE",
         "start from a session file, if it is there; without -p and -f: go on with its text"},
        {"--save", 0, ARG_STR, &o.save, 0, 0, "FILE", "write a session file at the end"},
        GENERATE_ARGS(o.g),
        {"--show-drafts", 0, ARG_FLAG, &o.show_drafts, 0, 0, NULL,
         "colour tokens: green an accepted draft, red a corrected one"},
        {"--special", 0, ARG_FLAG, &o.special, 0, 0, NULL,
         "special tokens: read in the prompt, shown in the text"},
        {"--echo", 0, ARG_FLAG, &o.echo, 0, 0, NULL, "print the prompt before its continuation"},
        {"--json", 0, ARG_FLAG, &o.json, 0, 0, NULL, "one JSON object at the end, nothing else"},
        {"--quiet", 'q', ARG_FLAG, &o.quiet, 0, 0, NULL, "no statistics"},
    };
    arg_command c = {
        .command = "run",
        .usage = "-m FILE [-p TEXT | -f FILE] [options]",
        .about = "Continue a text. Without -p and -f it is read from standard input, or is\n"
                 "that of the session file.",
        .spec = spec,
        .n_spec = (int)(sizeof spec / sizeof *spec)};
    int rc = args_parse(&c, argc, argv);
    if (rc >= 0)
        return rc;
    if (o.save || o.session)
        o.m.checkpoint_every = ft_session_params_default().checkpoint_every;
    if (o.prompt && o.file) {
        fprintf(stderr, "foretoken run: --prompt and --file exclude each other\n");
        return EXIT_USAGE;
    }
    rc = generate_args_bias("run", &o.g);
    if (rc >= 0)
        return rc;
    ft_model *m;
    ft_session *s = NULL;
    rc = open_model("run", &o.m, &m, &s);
    if (rc >= 0)
        return rc;
    interrupt_install(s);
    rc = run(&o, m, s);
    interrupt_install(NULL);
    ft_session_free(s);
    ft_model_close(m);
    return rc;
}
