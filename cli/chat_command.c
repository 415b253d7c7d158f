/* chat_command.c - what is said with a slash in front.
 *
 * A command that cannot be done says why and what there is, and leaves the conversation as it was.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"

/* ---- Text ---------------------------------------------------------------------------------------------- */

/* text [len] as UTF-8: itself, or with marks for what is none. *owned is freed with ft_free. */
static ft_status valid_text(const chat *c, const char **text, size_t *len, char **owned,
                            ft_error *err)
{
    *owned = NULL;
    json_t *j = json_stringn(*text, *len);
    if (j) {
        json_decref(j);
        return FT_OK;
    }
    int32_t *ids;
    size_t n;
    TRY(ft_tokenize(c->m, *text, *len, false, &ids, &n, err));
    ft_status st = ft_detokenize(c->m, ids, n, true, owned, len, err);
    ft_free(ids);
    *text = *owned;
    return st;
}

/* Add text to the conversation as a message of a role; role "system" sets that one. */
static ft_status add_text(chat *c, const char *role, const char *text, size_t len, ft_error *err)
{
    char *owned;
    TRY(valid_text(c, &text, &len, &owned, err));
    if (owned)
        chat_note("[bytes that are no UTF-8 were replaced]");
    ft_status st = strcmp(role, "system") == 0 ? conversation_set_system(&c->talk, text, len, err)
                                               : conversation_add(&c->talk, role, text, len, err);
    ft_free(owned);
    return st;
}

/* Go back to question i (-1: stay), put text there or behind the last message, as a message of a role, and
 * answer. text NULL: the question as it is. False after a message: the conversation is as before. */
static bool ask(chat *c, int i, const char *role, const char *text, size_t len)
{
    conversation before = {0};
    ft_error err = {0};
    ft_status st = conversation_copy(&before, &c->talk, &err);
    if (st == FT_OK && i >= 0)
        conversation_go_back(&c->talk, i, !text);
    if (st == FT_OK && text)
        st = add_text(c, role, text, len, &err);
    if (st == FT_OK) {
        bool answered = chat_answer(c, &before);
        if (c->o->session && conversation_save(&c->talk, c->o->session, &err) != FT_OK)
            chat_fail_status(c, err.code, &err);
        return answered;
    }
    if (before.messages)
        conversation_replace(&c->talk, &before);
    chat_fail_status(c, st, &err);
    return false;
}

void chat_say(chat *c, const char *text, size_t len)
{
    ask(c, -1, "user", text, len);
}

bool chat_set_system(chat *c, const char *text)
{
    char *file = NULL;
    size_t len = strlen(text);
    if (text[0] == '@' && read_text("chat", text + 1, &file, &len) >= 0) {
        c->failed = true;
        return false;
    }
    ft_error err = {0};
    ft_status st = add_text(c, "system", file ? file : text, len, &err);
    free(file);
    if (st != FT_OK)
        chat_fail_status(c, st, &err);
    return st == FT_OK;
}

/* ---- Files --------------------------------------------------------------------------------------------------- */

/* "FILE.session", freed with free(). */
static char *state_path(chat *c, const char *path)
{
    static const char tail[] = ".session";
    size_t n = strlen(path);
    char *out = malloc(n + sizeof tail);
    if (!out) {
        chat_fail_status(c, FT_NOMEM, NULL);
        return NULL;
    }
    memcpy(out, path, n);
    memcpy(out + n, tail, sizeof tail);
    return out;
}

bool chat_save(chat *c, const char *path)
{
    ft_error err = {0};
    ft_status st = conversation_save(&c->talk, path, &err);
    if (st != FT_OK) {
        chat_fail_status(c, st, &err);
        return false;
    }
    char *state = state_path(c, path);
    ft_save_params p = {0};
    bool ok = state && session_save_file("chat", c->s, state, &p, NULL) < 0;
    free(state);
    if (ok)
        chat_note("[saved: %s, %d messages; %s.session, %d tokens]", path, conversation_n(&c->talk),
                  path, ft_session_n_past(c->s));
    else
        c->failed = true;
    return ok;
}

/* The state is a matter of speed alone: without it, the conversation is read again. */
static void load_state(chat *c, const char *path)
{
    char *state = state_path(c, path);
    if (!state)
        return;
    ft_error err = {0};
    ft_session_info i;
    if (access(state, F_OK) != 0 && errno == ENOENT)
        err_set(&err, FT_IO, "%s is not there", state);
    else if (ft_session_load(c->s, state, &err) == FT_OK)
        ft_session_get_info(c->s, &i);
    if (err.code == FT_OK && i.inexact) {
        ft_session_reset(c->s);
        err_set(&err, FT_MISMATCH, "%s: its cells are not those that the model computes", state);
    }
    if (err.code != FT_OK)
        chat_note("[%s: the conversation will be read again]", err.msg);
    free(state);
}

bool chat_load(chat *c, const char *path)
{
    conversation talk;
    ft_error err = {0};
    ft_status st = conversation_load(&talk, path, &err);
    if (st != FT_OK) {
        chat_fail_status(c, st, &err);
        return false;
    }
    conversation_replace(&c->talk, &talk);
    load_state(c, path);
    chat_note("[loaded: %s, %d messages]", path, conversation_n(&c->talk));
    return true;
}

/* ---- The commands ------------------------------------------------------------------------------------------------ */

static void do_help(chat *c, const char *arg);

static void do_save(chat *c, const char *arg)
{
    const char *path = *arg ? arg : c->o->session;
    if (path)
        chat_save(c, path);
    else
        chat_fail(c, "/save: no file; want /save FILE");
}

static void do_load(chat *c, const char *arg)
{
    if (*arg)
        chat_load(c, arg);
    else
        chat_fail(c, "/load: no file; want /load FILE");
}

/* The last question, which /regen, /edit and /undo go back to; -1 after a message. */
static int question(chat *c, const char *command)
{
    int i = conversation_last_question(&c->talk);
    if (i < 0)
        chat_fail(c, "%s: nothing was asked yet", command);
    return i;
}

/* The answers to the last question go, and with them those of its tools. */
static void do_regen(chat *c, const char *arg)
{
    int i = question(c, "/regen");
    if (i < 0)
        return;
    char *end;
    errno = 0;
    unsigned long long seed = *arg ? strtoull(arg, &end, 10) : c->o->g.sample.seed + 1;
    if (*arg && (*end || errno || *arg < '0' || *arg > '9')) {
        chat_fail(c, "/regen: '%s' is not a seed, a whole number from 0 to 18446744073709551615",
                  arg);
        return;
    }
    uint64_t before = c->o->g.sample.seed;
    c->o->g.sample.seed = seed;
    if (!ask(c, i, NULL, NULL, 0))
        c->o->g.sample.seed = before;
}

static void do_edit(chat *c, const char *arg)
{
    int i = question(c, "/edit");
    if (i < 0)
        return;
    if (*arg) {
        ask(c, i, "user", arg, strlen(arg));
        return;
    }
    buf line;
    buf_init(&line, (size_t)1 << 20);
    buf_printf(&line, "/edit %s", conversation_text(&c->talk, i));
    const char *text = buf_cstr(&line);
    if (!text || !line_prefill(&c->lines, text, line.len))
        chat_fail(c, "/edit: no text; want /edit TEXT, which replaces the last question");
    buf_deinit(&line);
}

static void do_undo(chat *c, const char *arg)
{
    (void)arg;
    int i = question(c, "/undo");
    if (i < 0)
        return;
    chat_note("[taken back: %s]", conversation_text(&c->talk, i));
    conversation_go_back(&c->talk, i, false);
}

static void do_clear(chat *c, const char *arg)
{
    (void)arg;
    int n_system = conversation_n_system(&c->talk);
    conversation_clear(&c->talk);
    chat_note("[the conversation is empty%s]", n_system ? ", but for the system message" : "");
}

static void do_system(chat *c, const char *arg)
{
    if (*arg)
        chat_set_system(c, strcmp(arg, "-") == 0 ? "" : arg);
    if (conversation_n_system(&c->talk))
        chat_note("[system: %s]", conversation_text(&c->talk, 0));
    else
        chat_note("[no system message]");
}

static void do_tool(chat *c, const char *arg)
{
    int n = conversation_n_call(&c->talk);
    ft_error err = {0};
    if (n == 0) {
        chat_fail(c, "/tool: no call waits for an answer");
    } else if (n == 1) {
        ask(c, -1, "tool", arg, strlen(arg));
    } else if (add_text(c, "tool", arg, strlen(arg), &err) != FT_OK) {
        chat_fail_status(c, err.code, &err);
    } else {
        chat_note("[calls that still wait for an answer: %d]", n - 1);
    }
}

static void do_stats(chat *c, const char *arg)
{
    (void)arg;
    chat_show_totals(c);
}

/* ---- Settings --------------------------------------------------------------------------------------------------- */

/* Set name to value among the options that may change while the conversation goes on; name NULL: show all. */
static void set_option(chat *c, const char *name, const char *value)
{
    chat_options *o = c->o;
    const arg_spec spec[] = {
        GENERATE_ARGS(o->g),
        {"--thinking", 0, ARG_CHOICE, &o->thinking, 0, 0, "show|hide|off", ""},
        {"--context", 0, ARG_CHOICE, &o->context, 0, 0, "stop|drop", ""},
    };
    const arg_command table = {
        .command = "chat", .spec = spec, .n_spec = (int)(sizeof spec / sizeof *spec)};
    if (!name) {
        args_print(&table, stderr);
        return;
    }
    json_t *own = json_string(value); /* options borrow their texts */
    if (!own || json_array_append_new(c->kept, own) != 0) {
        chat_fail_status(c, FT_NOMEM, NULL);
        return;
    }
    const generate_args before = o->g;
    int rc = args_set(&table, name, json_string_value(own));
    if (rc < 0)
        rc = generate_args_bias("chat", &o->g);
    ft_error err = {0};
    const ft_generate_params p = generate_args_params(&o->g);
    if (rc < 0 && ft_sample_params_check(&p.sample, &err) != FT_OK)
        rc = report_failure("chat", err.code, &err);
    if (rc < 0)
        return;
    o->g = before;
    c->failed = true;
}

static void do_thinking(chat *c, const char *arg)
{
    if (*arg)
        set_option(c, "thinking", arg);
    chat_note("[thinking: %s]", c->o->thinking);
}

static void do_set(chat *c, const char *arg)
{
    char name[32];
    size_t n = strcspn(arg, " \t=");
    if (n == 0) {
        set_option(c, NULL, NULL);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)n, arg);
    const char *value = arg + n;
    value += strspn(value, " \t=");
    set_option(c, name, value);
}

static void do_quit(chat *c, const char *arg)
{
    (void)arg;
    c->quit = true;
}

static const struct {
    const char *name, *arg, *about;
    void (*run)(chat *c, const char *arg);
} command[] = {
    {"/help", "", "this text", do_help},
    {"/regen", "[SEED]", "another answer to the last question, by the next seed or this one",
     do_regen},
    {"/edit", "[TEXT]", "change the last question, and answer it", do_edit},
    {"/undo", "", "take the last question and its answer back", do_undo},
    {"/clear", "", "begin anew; the system message stays", do_clear},
    {"/system", "[TEXT]", "show or set the system message; @FILE: from a file; -: none", do_system},
    {"/thinking", "[show|hide|off]", "show or set what becomes of the model's thinking",
     do_thinking},
    {"/set", "[OPTION VALUE]", "show or set the options of sampling and drafts", do_set},
    {"/tool", "TEXT", "what a tool answers to the call", do_tool},
    {"/stats", "", "figures of the conversation so far", do_stats},
    {"/save", "FILE", "keep the conversation", do_save},
    {"/load", "FILE", "go on with a kept one", do_load},
    {"/quit", "", "end", do_quit},
};

static void do_help(chat *c, const char *arg)
{
    (void)c;
    (void)arg;
    for (size_t i = 0; i < sizeof command / sizeof *command; i++)
        fprintf(stderr, "  %-10s %-16s %s\n", command[i].name, command[i].arg, command[i].about);
    chat_note("A message of several lines: end a line with \\, or put it between \"\"\". One "
              "that begins\n"
              "with a slash: write two. Ctrl-C stops an answer, Ctrl-D ends.");
}

static void unknown(chat *c, const char *name, size_t len)
{
    fprintf(stderr, "foretoken chat: no command '%.*s'; there are", (int)(len < 40 ? len : 40),
            name);
    for (size_t i = 0; i < sizeof command / sizeof *command; i++)
        fprintf(stderr, " %s", command[i].name);
    fprintf(stderr, "\nA message that begins with a slash is written with two.\n");
    c->failed = true;
}

void chat_command(chat *c, const char *text, size_t len)
{
    size_t n = strcspn(text, " \t\n");
    if (strlen(text) != len) {
        chat_fail(c, "a command with a NUL byte");
        return;
    }
    const char *arg = text + n + strspn(text + n, " \t");
    for (size_t i = 0; i < sizeof command / sizeof *command; i++)
        if (strlen(command[i].name) == n && strncmp(command[i].name, text, n) == 0) {
            command[i].run(c, arg);
            return;
        }
    unknown(c, text, n);
}
