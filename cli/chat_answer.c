/* chat_answer.c - one answer: the conversation rendered, made to fit, read as far as it is not known, and
 * answered.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat.h"

/* ---- Messages for the user ------------------------------------------------------------------------------ */

void chat_note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

void chat_fail(chat *c, const char *fmt, ...)
{
    char msg[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    fprintf(stderr, "foretoken chat: %s\n", msg);
    c->failed = true;
}

void chat_fail_status(chat *c, ft_status st, const ft_error *err)
{
    report_failure("chat", st, err);
    c->failed = true;
}

/* ---- The prompt ------------------------------------------------------------------------------------------- */

static bool thinks(const chat *c)
{
    return strcmp(c->o->thinking, "off") != 0;
}

static bool drops(const chat *c)
{
    return strcmp(c->o->context, "drop") == 0;
}

static ft_status render(const chat *c, ft_chat_prompt *p, ft_error *err)
{
    char *json;
    TRY(conversation_request(&c->talk, thinks(c), &json, err));
    ft_status st = ft_chat_render(c->m, json, strlen(json), p, err);
    free(json);
    return st;
}

/* Render; where that is longer than the context, drop turns until three quarters of it hold the rest, so
 * that there is room for some turns to come, or as many as there are. */
static ft_status render_to_fit(chat *c, ft_chat_prompt *p, ft_error *err)
{
    int n_ctx = ft_session_n_ctx(c->s);
    TRY(render(c, p, err));
    int n = 0, n_tok = p->n_tok;
    ft_status st = FT_OK;
    if (n_tok > n_ctx && drops(c))
        st = conversation_drop(&c->talk, p, n_tok - n_ctx / 4 * 3, &n, err);
    if (st == FT_OK && n > 0) {
        ft_chat_prompt_free(p);
        TRY(render(c, p, err));
    }
    if (st == FT_OK && p->n_tok > n_ctx)
        st =
            err_set(err, FT_RANGE,
                    "the conversation has %d tokens, the context %d: /undo, /clear, --context drop "
                    "or a larger --ctx-size make room",
                    p->n_tok, n_ctx);
    if (st != FT_OK)
        ft_chat_prompt_free(p);
    return st;
}

/* Where checkpoints are kept and turns may be dropped: [0] behind the system message, then behind every
 * message but those that a tool's answer follows, which begins no turn although it looks like one. */
static ft_status place_marks(const chat *c, const ft_chat_prompt *p, int **mark, int *n_mark,
                             ft_error *err)
{
    const conversation *t = &c->talk;
    int n = conversation_n(t), first = conversation_n_system(t) + t->n_dropped, k = 0;
    int *end = mem_calloc((size_t)n + 1, sizeof *end),
        *out = mem_calloc((size_t)n + 1, sizeof *out);
    ft_status st = end && out ? conversation_ends(t, p, end, err)
                              : err_set(err, FT_NOMEM, "no memory for the marks");
    if (st != FT_OK) {
        mem_free(end);
        mem_free(out);
        return st;
    }
    out[k++] = conversation_system_end(p);
    for (int i = first; i < n; i++)
        if (!conversation_is(t, i + 1, "tool"))
            out[k++] = end[i];
    mem_free(end);
    *mark = out;
    *n_mark = k;
    return FT_OK;
}

/* ---- The answer --------------------------------------------------------------------------------------------- */

typedef struct {
    chat *c;
    chat_reply r;
    ft_chat_parser *parser;
    progress_bar bar;
    double started;
    ft_status st; /* of the parser */
    ft_error err;
} answering;

static bool on_event(void *ctx, const ft_chat_event *e)
{
    answering *a = ctx;
    bool ok = true;
    if (e->kind == FT_CHAT_TOOL_CALL) {
        ok = json_array_append_new(a->r.calls,
                                   json_pack("{s:s, s:{s:s, s:s}}", "type", "function", "function",
                                             "name", e->name, "arguments", e->arguments)) == 0;
    } else {
        buf *b = e->kind == FT_CHAT_THINKING ? &a->r.thinking : &a->r.content;
        buf_put(b, e->text, e->len);
        ok = !b->failed;
    }
    if (!ok)
        a->st = err_set(&a->err, FT_NOMEM, "no memory for the answer");
    if (ok && !a->c->o->json)
        chat_show_piece(a->c, e);
    return ok;
}

static bool on_token(void *ctx, const ft_token *t)
{
    answering *a = ctx;
    progress_end(&a->bar);
    if (a->st == FT_OK)
        a->st = ft_chat_parser_put(a->parser, t->text, t->len, &a->err);
    return a->st == FT_OK && !interrupted() && !a->c->output_gone;
}

/* A bar for prompts that take a while. None within an answer, whose line it would wipe. */
static bool on_prompt(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    enum { WAIT_MS = 300 };
    answering *a = ctx;
    bool show = a->c->shown == SHOWN_NOTHING && 1e3 * (now_seconds() - a->started) > WAIT_MS;
    return show ? progress_show(&a->bar, what, done, total) : !interrupted();
}

/* Turns that the engine dropped while it made the answer are dropped from the messages. */
static ft_status follow_drop(answering *a, const ft_chat_prompt *p)
{
    int n = 0, want = a->r.stats.n_dropped;
    if (want > 0)
        TRY(conversation_drop(&a->c->talk, p, want, &n, &a->err));
    if (n != want)
        return err_set(&a->err, FT_MISMATCH, "%d tokens dropped, want %d: whole turns", want, n);
    return FT_OK;
}

static ft_status generate(answering *a, const ft_chat_prompt *p)
{
    chat *c = a->c;
    int *mark = NULL;
    ft_generate_params g = generate_args_params(&c->o->g);
    g.special = true;
    g.on_token = on_token;
    g.on_token_ctx = a;
    g.on_prompt = on_prompt;
    g.on_prompt_ctx = a;
    g.context = drops(c) ? FT_CONTEXT_DROP_TURNS : FT_CONTEXT_STOP;
    a->r.seed = g.sample.seed;
    TRY(place_marks(c, p, &mark, &g.n_mark, &a->err));
    g.mark = mark;
    ft_status st = ft_session_reuse(c->s, p->tok, p->n_tok, &a->r.n_known, &a->err);
    if (st == FT_OK) {
        a->started = now_seconds();
        a->bar = (progress_bar){.label = "reading", .started = a->started};
        interrupt_install(c->s);
        st = ft_session_generate(c->s, p->tok + a->r.n_known, p->n_tok - a->r.n_known, &g,
                                 &a->r.stats, &a->err);
        interrupt_install(NULL);
        progress_end(&a->bar);
    }
    mem_free(mark);
    if (st == FT_CANCELLED &&
        a->r.stats.n_token > 0) { /* while it read again behind dropped turns */
        a->r.stats.finish = FT_FINISH_CANCELLED;
        a->err = (ft_error){0};
        st = FT_OK;
    }
    if (a->st == FT_OK && st == FT_OK)
        a->st = ft_chat_parser_finish(a->parser, &a->err);
    st = st != FT_OK ? st : a->st;
    return st != FT_OK ? st : follow_drop(a, p);
}

static ft_status make_answer(answering *a)
{
    chat *c = a->c;
    char *tools = c->talk.tools ? json_dumps(c->talk.tools, JSON_COMPACT) : NULL;
    if (c->talk.tools && !tools)
        return err_set(&a->err, FT_NOMEM, "no memory for the tools");
    ft_status st = ft_chat_parser_create(&a->parser, thinks(c), tools, on_event, a, &a->err);
    free(tools);
    TRY(st);
    ft_chat_prompt p = {0};
    TRY(render_to_fit(c, &p, &a->err));
    if (!c->warned && !c->o->quiet && !c->o->g.no_draft)
        warn_draft_vocab("chat", c->m, p.tok, (size_t)p.n_tok);
    c->warned = true;
    st = generate(a, &p);
    ft_chat_prompt_free(&p);
    return st == FT_OK ? conversation_add_message(&c->talk, chat_reply_message(&a->r), &a->err)
                       : st;
}

/* ---- Beginning and end ----------------------------------------------------------------------------------------- */

static void count(chat *c, const chat_reply *r)
{
    c->n_answer++;
    c->n_made += (uint64_t)r->stats.n_token;
    c->n_read += (uint64_t)(r->stats.n_prompt + r->stats.n_reread);
    c->n_known += (uint64_t)r->n_known;
    c->n_drafted += r->stats.draft.drafted;
    c->n_accepted += r->stats.draft.accepted;
    c->read_seconds += r->stats.prompt_seconds;
    c->decode_seconds += r->stats.decode_seconds;
}

static void say_why_not(chat *c, const answering *a, ft_status st)
{
    chat_show_break(c);
    chat_show_error(c, a->err.code != FT_OK ? a->err.msg : ft_status_text(st));
    if (st == FT_CANCELLED) {
        chat_note("[stopped while reading: what was read, %d tokens, is known; the conversation is "
                  "as before]",
                  ft_session_n_past(c->s));
        c->failed = true;
    } else {
        chat_fail_status(c, st, &a->err);
    }
}

bool chat_answer(chat *c, conversation *before)
{
    answering a = {.c = c, .r = {.calls = json_array()}};
    buf_init(&a.r.thinking, (size_t)1 << 30);
    buf_init(&a.r.content, (size_t)1 << 30);
    c->shown = SHOWN_NOTHING;
    int n_dropped = c->talk.n_dropped;
    ft_status st =
        a.r.calls ? make_answer(&a) : err_set(&a.err, FT_NOMEM, "no memory for the answer");
    if (st == FT_OK) {
        a.r.n_message_dropped = c->talk.n_dropped - n_dropped;
        count(c, &a.r);
        chat_show_end(c, &a.r);
        conversation_deinit(before);
    } else {
        say_why_not(c, &a, st);
        conversation_replace(&c->talk, before);
    }
    ft_chat_parser_free(a.parser);
    json_decref(a.r.calls);
    buf_deinit(&a.r.thinking);
    buf_deinit(&a.r.content);
    return st == FT_OK;
}
