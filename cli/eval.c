/* eval.c - `foretoken eval`: raw rows of a token list, for comparing with other implementations. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/map.h"
#include "common.h"

typedef struct {
    model_args m;
    const char *tokens, *logits, *hidden, *stages;
    const char *draft_logits, *draft_tokens;
    int draft_chain;
    int decode_from;
    bool dense;
} options;

/* ---- Token lists ------------------------------------------------------------------------------------ */

/* Ids separated by white space, text[len] with a NUL behind it. */
static int parse_ids(const char *text, size_t len, buf *ids)
{
    const char *at = text;
    for (;;) {
        at += strspn(at, " \t\r\n");
        if (at == text + len)
            return -1;
        char *end;
        errno = 0;
        long v = strtol(at, &end, 10);
        if (end == at || errno || v < 0 || v > INT32_MAX || (*end && !strchr(" \t\r\n", *end))) {
            size_t n = strcspn(at, " \t\r\n");
            fprintf(stderr, "foretoken eval: --tokens: '%.*s' at byte %td is not a token id\n",
                    n < 20 ? (int)n : 20, at, at - text);
            return EXIT_FAILED;
        }
        int32_t id = (int32_t)v;
        buf_put(ids, &id, sizeof id);
        at = end;
    }
}

/* ---- Stages ------------------------------------------------------------------------------------------ */

/* One file per intermediate result, rows appended call by call. */
typedef struct {
    const char *dir;
    int n_call;
    bool failed;
} stage_dir;

static void on_stage(void *ctx, const char *name, const void *rows, bool is_int, int n_row,
                     int n_col)
{
    (void)is_int;
    stage_dir *d = ctx;
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/%s.bin", d->dir, name);
    if (n < 0 || (size_t)n >= sizeof path) {
        fprintf(stderr, "foretoken eval: --stages: the name '%.80s...' is too long\n", d->dir);
        d->failed = true;
        return;
    }
    FILE *f = fopen(path, d->n_call == 0 ? "wb" : "ab");
    size_t count = (size_t)n_row * (size_t)n_col;
    if (!f || fwrite(rows, 4, count, f) != count)
        d->failed = true;
    if (f && fclose(f) != 0)
        d->failed = true;
    if (d->failed)
        fprintf(stderr, "foretoken eval: %s: %s\n", path, strerror(errno));
}

/* ---- Rows -------------------------------------------------------------------------------------------- */

static FILE *open_out(const char *path, int *rc)
{
    if (!path)
        return NULL;
    FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "wb");
    if (!f) {
        fprintf(stderr, "foretoken eval: %s: %s\n", path, strerror(errno));
        *rc = EXIT_FAILED;
    }
    return f;
}

static bool write_rows(FILE *f, const float *rows, size_t n, const char *path)
{
    if (!f || fwrite(rows, sizeof *rows, n, f) == n)
        return true;
    fprintf(stderr, "foretoken eval: %s: %s\n", path, strerror(errno));
    return false;
}

static int close_out(FILE *f, const char *path, int rc)
{
    if (f && (f == stdout ? fflush(f) : fclose(f)) != 0) {
        fprintf(stderr, "foretoken eval: %s: %s\n", path, strerror(errno));
        return EXIT_FAILED;
    }
    return rc;
}

typedef struct {
    const options *o;
    ft_session *s;
    const int32_t *tok;
    int n_tok;
    float *logits, *hidden; /* of one call; NULL: not wanted */
    int n_vocab, width;
    FILE *logits_out, *hidden_out;
    progress_bar bar;
} evaluation;

static int evaluate(evaluation *e)
{
    const options *o = e->o;
    stage_dir dir = {.dir = o->stages};
    for (int i = 0; i < e->n_tok;) {
        int n = e->n_tok - i < o->m.n_chunk ? e->n_tok - i : o->m.n_chunk;
        if (o->decode_from >= 0 && i >= o->decode_from)
            n = 1;
        else if (o->decode_from >= 0 && i + n > o->decode_from)
            n = o->decode_from - i;
        ft_eval_out out = {.logits = e->logits, .hidden = e->hidden, .dense = o->dense};
        if (o->stages) {
            out.stage = on_stage;
            out.stage_ctx = &dir;
        }
        ft_error err = {0};
        ft_status st = ft_session_eval_rows(e->s, e->tok + i, n, &out, &err);
        if (st != FT_OK)
            return report_failure("eval", st, &err);
        dir.n_call++;
        if (dir.failed ||
            !write_rows(e->logits_out, e->logits, (size_t)n * (size_t)e->n_vocab, o->logits) ||
            !write_rows(e->hidden_out, e->hidden, (size_t)n * (size_t)e->width, o->hidden))
            return EXIT_FAILED;
        i += n;
        progress_show(&e->bar, "tokens", (uint64_t)i, (uint64_t)e->n_tok);
    }
    return EXIT_OK;
}

/* Found out before anything is written. */
static int check_list(const evaluation *e)
{
    int n_ctx = ft_session_n_ctx(e->s);
    if (e->n_tok > n_ctx) {
        fprintf(stderr,
                "foretoken eval: --tokens: %d token ids, the context holds %d (--ctx-size)\n",
                e->n_tok, n_ctx);
        return EXIT_FAILED;
    }
    for (int i = 0; i < e->n_tok; i++) {
        if (e->tok[i] >= e->n_vocab) {
            fprintf(stderr, "foretoken eval: --tokens: token %d is %d, want 0 to %d\n", i,
                    e->tok[i], e->n_vocab - 1);
            return EXIT_FAILED;
        }
    }
    return EXIT_OK;
}

/* The draft head over the list, and a chain behind it. */
static int evaluate_drafts(const options *o, ft_session *s, const ft_model_info *info,
                           const int32_t *tok, int n_tok)
{
    if (!o->draft_logits && !o->draft_tokens)
        return EXIT_OK;
    int rc = EXIT_OK;
    FILE *logits = open_out(o->draft_logits, &rc), *tokens = open_out(o->draft_tokens, &rc);
    size_t n_row = (size_t)(n_tok > 1 ? n_tok - 1 : 0) + (size_t)o->draft_chain;
    size_t n = n_row * (size_t)info->n_vocab;
    int32_t ids[FT_DRAFT_MAX + 1];
    ft_draft_eval e = {.sink = o->m.sink,
                       .window = o->m.window,
                       .n_chain = o->draft_chain,
                       .logits = malloc(n ? n * sizeof(float) : 1),
                       .chain_tokens = ids};
    ft_error err = {0};
    if (rc == EXIT_OK && !e.logits)
        rc = report_failure("eval", FT_NOMEM, NULL);
    if (rc == EXIT_OK) {
        ft_status st = ft_session_eval_draft(s, tok, n_tok, &e, &err);
        rc = st == FT_OK ? EXIT_OK : report_failure("eval", st, &err);
    }
    if (rc == EXIT_OK && (!write_rows(logits, e.logits, n, o->draft_logits) ||
                          (tokens && fwrite(ids, sizeof *ids, (size_t)o->draft_chain + 1, tokens) !=
                                         (size_t)o->draft_chain + 1)))
        rc = EXIT_FAILED;
    rc = close_out(logits, o->draft_logits, rc);
    rc = close_out(tokens, o->draft_tokens, rc);
    free(e.logits);
    return rc;
}

/* Buffers for the rows of a call, then the calls. */
static int evaluate_list(const options *o, const int32_t *tok, int n_tok)
{
    ft_model *m;
    ft_session *s = NULL;
    int rc = open_model("eval", &o->m, &m, &s);
    if (rc >= 0)
        return rc;
    ft_model_info info;
    ft_model_get_info(m, &info);
    evaluation e = {.o = o,
                    .s = s,
                    .tok = tok,
                    .n_tok = n_tok,
                    .n_vocab = info.n_vocab,
                    .width = info.hidden_width,
                    .bar = {.label = "evaluating"}};
    rc = check_list(&e);
    if (rc == EXIT_OK) {
        e.logits_out = open_out(o->logits, &rc);
        e.hidden_out = open_out(o->hidden, &rc);
    }
    size_t n_row = (size_t)(n_tok < o->m.n_chunk ? n_tok : o->m.n_chunk);
    if (e.logits_out)
        e.logits = calloc(n_row * (size_t)info.n_vocab, sizeof(float));
    if (e.hidden_out)
        e.hidden = calloc(n_row * (size_t)info.hidden_width, sizeof(float));
    if ((e.logits_out && !e.logits) || (e.hidden_out && !e.hidden))
        rc = report_failure("eval", FT_NOMEM, NULL);
    if (rc == EXIT_OK && (e.logits || e.hidden || o->stages))
        rc = evaluate(&e);
    if (rc == EXIT_OK)
        rc = evaluate_drafts(o, s, &info, tok, n_tok);
    progress_end(&e.bar);
    rc = close_out(e.logits_out, o->logits, rc);
    rc = close_out(e.hidden_out, o->hidden, rc);
    free(e.logits);
    free(e.hidden);
    ft_session_free(s);
    ft_model_close(m);
    return rc;
}

static int run_eval(options *o)
{
    if (!o->tokens ||
        (!o->logits && !o->hidden && !o->stages && !o->draft_logits && !o->draft_tokens)) {
        fprintf(stderr,
                "foretoken eval: give --tokens FILE and at least one of --logits, --hidden, "
                "--stages, --draft-logits, --draft-tokens\n");
        return EXIT_USAGE;
    }
    if (o->stages && mkdir(o->stages, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "foretoken eval: %s: %s\n", o->stages, strerror(errno));
        return EXIT_FAILED;
    }
    char *text;
    size_t len;
    int rc = read_text("eval", o->tokens, &text, &len);
    if (rc >= 0)
        return rc;
    buf ids;
    buf_init(&ids, (size_t)1 << 30);
    rc = parse_ids(text, len, &ids);
    free(text);
    int n_tok = (int)(ids.len / sizeof(int32_t));
    if (rc < 0 && (ids.failed || n_tok == 0)) {
        fprintf(stderr, "foretoken eval: %s: %s\n", o->tokens,
                ids.failed ? "too many token ids" : "no token ids");
        rc = EXIT_FAILED;
    }
    if (rc < 0)
        rc = evaluate_list(o, (const int32_t *)(const void *)ids.data, n_tok);
    buf_deinit(&ids);
    return rc;
}

int cmd_eval(int argc, char **argv)
{
    options o = {.m = model_args_default(), .decode_from = -1};
    o.m.no_drafter = true; /* the draft head is evaluated by hand, in the file's own types */
    const arg_spec spec[] = {
        COMMON_MODEL_ARGS(o.m),
        COMMON_CTX_ARG(o.m),
        {"--tokens", 0, ARG_STR, &o.tokens, 0, 0, "FILE",
         "token ids separated by white space; -: standard input (required)"},
        {"--logits", 0, ARG_STR, &o.logits, 0, 0, "FILE", "write logits, [tokens][vocabulary]"},
        {"--hidden", 0, ARG_STR, &o.hidden, 0, 0, "FILE",
         "write what the draft head reads, [tokens][width]"},
        {"--stages", 0, ARG_STR, &o.stages, 0, 0, "DIR",
         "write every intermediate row, a file a name"},
        {"--decode-from", 0, ARG_INT, &o.decode_from, -1, INT32_MAX, "P",
         "tokens before P in chunks, the rest one a call; -1: all in chunks"},
        {"--draft-logits", 0, ARG_STR, &o.draft_logits, 0, 0, "FILE",
         "write the draft head's logits, [tokens - 1 + chain][vocabulary]"},
        {"--draft-chain", 0, ARG_INT, &o.draft_chain, 0, FT_DRAFT_MAX, "K",
         "drafts chained behind the text, each the most probable"},
        {"--draft-tokens", 0, ARG_STR, &o.draft_tokens, 0, 0, "FILE",
         "write the token behind the text and the chain's drafts, int32"},
        {"--sink", 0, ARG_INT, &o.m.sink, 0, 1024, "N",
         "cells at the start of the text that a draft step reads; 0: none"},
        {"--window", 0, ARG_INT_ALL, &o.m.window, 0, INT32_MAX, "N|all",
         "cells before its own that a draft step reads"},
        {"--dense", 0, ARG_FLAG, &o.dense, 0, 0, NULL, "sparse attention reads every cell"},
    };
    arg_command c = {.command = "eval",
                     .usage = "-m FILE --tokens FILE [options]",
                     .about =
                         "Evaluate a list of token ids and write raw little-endian float32 rows.",
                     .spec = spec,
                     .n_spec = (int)(sizeof spec / sizeof *spec)};
    int rc = args_parse(&c, argc, argv);
    return rc >= 0 ? rc : run_eval(&o);
}
