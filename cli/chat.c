/* chat.c - `foretoken chat`: its options, and the conversation's turns from the first line to the last. */
#include "chat.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- Turns ------------------------------------------------------------------------------------------------- */

static bool is_blank(const buf *b)
{
    for (size_t i = 0; i < b->len; i++)
        if (!strchr(" \t\r\n", b->data[i]) || b->data[i] == '\0')
            return false;
    return true;
}

static void take_line(chat *c, buf *line, bool is_text)
{
    const char *text = buf_cstr(line);
    if (!text) {
        chat_fail_status(c, FT_NOMEM, NULL);
        return;
    }
    bool slash = !is_text && text[0] == '/';
    if (slash && text[1] != '/')
        chat_command(c, text, line->len);
    else if (slash)
        chat_say(c, text + 1, line->len - 1);
    else if (is_text || !is_blank(line))
        chat_say(c, text, line->len);
}

/* Lines until there are no more, or /quit, or Ctrl-C twice. */
static void talk(chat *c)
{
    buf line;
    buf_init(&line, (size_t)32 << 20);
    bool armed = false; /* the last thing that was typed was Ctrl-C, at the prompt */
    while (!c->quit && !c->output_gone) {
        bool is_text;
        line_status st = line_read(&c->lines, &line, &is_text);
        bool stopped = st == LINE_INTERRUPTED;
        if (st == LINE_OK) {
            take_line(c, &line, is_text);
        } else if (!stopped) {
            c->failed = c->failed || st == LINE_FAILED;
            break;
        }
        if (interrupt_count() > 1 || (stopped && armed))
            break;
        if (stopped && c->lines.terminal)
            chat_note("[Ctrl-C again, or Ctrl-D, ends]");
        armed = stopped;
        interrupt_forget();
    }
    buf_deinit(&line);
}

/* ---- Beginning and end --------------------------------------------------------------------------------------- */

/* What the options say about the conversation. */
static bool begin(chat *c)
{
    chat_options *o = c->o;
    ft_error err = {0};
    ft_status st = conversation_init(&c->talk, &err);
    if (st != FT_OK) {
        chat_fail_status(c, st, &err);
        return false;
    }
    bool there = o->session && (access(o->session, F_OK) == 0 || errno != ENOENT);
    if (there && !chat_load(c, o->session))
        return false;
    if (o->tools && (st = conversation_load_tools(&c->talk, o->tools, &err)) != FT_OK) {
        chat_fail_status(c, st, &err);
        return false;
    }
    return !o->system || chat_set_system(c, o->system);
}

static void greet(const chat *c)
{
    ft_model_info i;
    ft_model_get_info(c->m, &i);
    fprintf(stderr, "%s, context %d tokens, %s. /help lists the commands.\n",
            *i.name ? i.name : i.arch, ft_session_n_ctx(c->s),
            i.has_mtp ? "with drafts" : i.no_mtp_reason);
}

/* The exit code. A person has seen what went wrong; a script learns of it here. */
static int run(chat *c)
{
    if (!begin(c))
        return EXIT_FAILED;
    c->failed = false;
    if (c->lines.terminal && !c->o->quiet)
        greet(c);
    talk(c);
    bool failed = c->failed && !c->lines.terminal;
    if (c->o->session && !chat_save(c, c->o->session))
        failed = true;
    return failed ? EXIT_FAILED : EXIT_OK;
}

static int open_and_run(chat_options *o)
{
    chat c = {.o = o, .kept = json_array(), .colours = isatty(STDERR_FILENO)};
    int rc = open_model("chat", &o->m, &c.m, &c.s);
    if (rc >= 0) {
        json_decref(c.kept);
        return rc;
    }
    /* The third Ctrl-C in a row ends the process, whatever it does. */
    int fd = interrupt_watch(3);
    interrupt_install(NULL);
    rc = line_open(&c.lines, fd, o->history);
    if (rc < 0)
        rc = run(&c);
    int closed = line_close(&c.lines);
    rc = rc == EXIT_OK && closed >= 0 ? closed : rc;
    conversation_deinit(&c.talk);
    json_decref(c.kept);
    ft_session_free(c.s);
    ft_model_close(c.m);
    return rc;
}

/* ---- Options --------------------------------------------------------------------------------------------------- */

static int parse(chat_options *o, int argc, char **argv)
{
    const arg_spec spec[] = {
        COMMON_MODEL_ARGS(o->m),
        COMMON_CTX_ARG(o->m),
        COMMON_DRAFT_ARGS(o->m),
        GENERATE_ARGS(o->g),
        {"--system", 0, ARG_STR, &o->system, 0, 0, "TEXT|@FILE", "the system message"},
        {"--thinking", 0, ARG_CHOICE, &o->thinking, 0, 0, "show|hide|off",
         "what becomes of the model's thinking; off: it does not think"},
        {"--tools", 0, ARG_STR, &o->tools, 0, 0, "FILE",
         "tools that the model may call, a JSON array as in the OpenAI API"},
        {"--context", 0, ARG_CHOICE, &o->context, 0, 0, "stop|drop",
         "a full context ends the answer, or the oldest turns are dropped"},
        {"--session", 0, ARG_STR, &o->session, 0, 0, "FILE",
         "go on with this conversation, if it is there, and keep it there"},
        {"--history", 0, ARG_STR, &o->history, 0, 0, "FILE",
         "keep the lines typed at the terminal"},
        {"--json", 0, ARG_FLAG, &o->json, 0, 0, NULL,
         "one JSON object per answer; with --render: text, and with -m tokens and marks"},
        {"--quiet", 'q', ARG_FLAG, &o->quiet, 0, 0, NULL, "no statistics"},
        {"--render", 0, ARG_STR, &o->render, 0, 0, "MESSAGES.json",
         "print the prompt text of this conversation and exit; -: standard input"},
        {"--no-thinking", 0, ARG_FLAG, &o->no_thinking, 0, 0, NULL,
         "the same as --thinking off: the prompt holds an empty think block"},
    };
    arg_command c = {
        .command = "chat",
        .usage = "-m MODEL [options] | --render MESSAGES.json [-m MODEL] [--json]",
        .about =
            "Talk with a model: at a terminal, or line by line from standard input. /help lists\n"
            "the commands. With --render print the prompt that a conversation becomes: the file\n"
            "holds an object with messages and optionally tools, enable_thinking and\n"
            "add_generation_prompt, as in the OpenAI API, or the array of messages alone.",
        .spec = spec,
        .n_spec = (int)(sizeof spec / sizeof *spec)};
    int rc = args_parse(&c, argc, argv);
    return rc >= 0 ? rc : generate_args_bias("chat", &o->g);
}

int cmd_chat(int argc, char **argv)
{
    chat_options o = {.m = model_args_default(),
                      .g = generate_args_default(),
                      .thinking = "show",
                      .context = "stop"};
    int rc = parse(&o, argc, argv);
    if (rc >= 0)
        return rc;
    if (o.no_thinking)
        o.thinking = "off";
    if (o.render) {
        o.m.no_drafter = true;
        o.no_thinking = strcmp(o.thinking, "off") == 0;
        return chat_render_file(&o);
    }
    o.m.checkpoint_every = ft_session_params_default().checkpoint_every;
    ft_generate_params p = generate_args_params(&o.g);
    ft_error err = {0};
    ft_status st = ft_sample_params_check(&p.sample, &err);
    return st == FT_OK ? open_and_run(&o) : report_failure("chat", st, &err);
}
