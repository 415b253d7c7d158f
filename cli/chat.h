/* chat.h - the parts of `foretoken chat`.
 *
 * A turn: a line is read (chat_line.c, with chat_edit.c at a terminal), a command is done
 * (chat_command.c) or a message added to the conversation (chat_messages.c); the whole conversation is
 * rendered, made to fit, and answered from what the session knows (chat_answer.c); pieces of the answer
 * are shown as they come (chat_show.c). chat_file.c keeps conversations in files.
 *
 * Answers go to standard output; thinking, statistics, notices and prompts to standard error. */
#ifndef CLI_CHAT_H
#define CLI_CHAT_H

#include "common.h"
#include "generate_args.h"

typedef struct {
    model_args m;
    generate_args g;
    const char *render; /* a conversation to print; "-": standard input; NULL: none */
    const char *system; /* TEXT or @FILE; NULL: none */
    const char *tools, *session, *history;
    const char *thinking; /* "show", "hide", "off" */
    const char *context;  /* "stop", "drop" */
    bool no_thinking, json, quiet;
} chat_options;

/* Print what the conversation o->render becomes; the exit code. */
int chat_render_file(const chat_options *o);

/* ---- Lines (chat_line.c) --------------------------------------------------------------------------- */

typedef enum {
    LINE_OK,
    LINE_INTERRUPTED, /* Ctrl-C: what was typed is given up */
    LINE_END,         /* Ctrl-D, the end of the file */
    LINE_FAILED,      /* a message was printed */
} line_status;

/* Wait until fd can be read. False: Ctrl-C came first. */
bool line_wait(int fd, int interrupt_fd);

typedef struct line_editor line_editor;
typedef struct {
    int interrupt_fd;
    bool terminal;       /* somebody types: prompts are shown */
    line_editor *editor; /* owned; NULL: plain reading */
    buf ahead;           /* read and not yet used, from `at` on */
    size_t at;
    bool ended;
} line_reader;

/* history: a file to begin with and to write at the end; NULL: none. -1, or the exit code after a
 * message. r is for line_close in any case. */
int line_open(line_reader *r, int interrupt_fd, const char *history);
int line_close(line_reader *r); /* -1, or the exit code after a message: history was not written */

/* What is said at once: one line, or several by a backslash at their ends or between """. out is cleared
 * first. *is_text: it began with """, so that it is no command whatever it looks like. */
line_status line_read(line_reader *r, buf *out, bool *is_text);
/* Put text [len] into the next line, to be changed. False: that cannot be done. */
bool line_prefill(line_reader *r, const char *text, size_t len);

/* ---- Line editing (chat_edit.c) --------------------------------------------------------------------- */

/* NULL when the command was built without libedit. */
const char *editor_name(void);
/* *out NULL and OK: there is none in this build. Errors: IO (history), NOMEM. */
ft_status editor_create(line_editor **out, int interrupt_fd, const char *history,
                        ft_error *err) MUST_CHECK;
/* One line, appended to out without its end. */
line_status editor_read(line_editor *e, const char *prompt, buf *out);
bool editor_prefill(line_editor *e, const char *text);
/* Writes the history. NULL is allowed. Errors: IO; e is freed in any case. */
ft_status editor_free(line_editor *e, ft_error *err) MUST_CHECK;

/* ---- The conversation (chat_messages.c) ------------------------------------------------------------- */

/* Messages as in the OpenAI API. They are never changed once they are there: a copy shares them. */
typedef struct {
    json_t *messages; /* owned: an array; the system message, if any, is the first */
    json_t *tools;    /* owned: the request's tools; NULL: none */
    int n_dropped;    /* messages behind the system message that the model no longer gets */
} conversation;

/* Each that can fail does so for want of memory alone (NOMEM) and leaves c as it was. */
ft_status conversation_init(conversation *c, ft_error *err) MUST_CHECK;
void conversation_deinit(conversation *c); /* {0} is allowed */
ft_status conversation_copy(conversation *out, const conversation *c, ft_error *err) MUST_CHECK;
/* c becomes *from, which is taken. */
void conversation_replace(conversation *c, conversation *from);

int conversation_n(const conversation *c);
bool conversation_is(const conversation *c, int i, const char *role);
const char *conversation_text(const conversation *c, int i); /* content of message i; "" if none */
int conversation_n_system(const conversation *c); /* 1: it begins with a system message, else 0 */
int conversation_last_question(const conversation *c); /* the last user message; -1: none */
/* Calls of the last answer that wait for theirs. */
int conversation_n_call(const conversation *c);

/* Append a message of a role; text must be UTF-8. */
ft_status conversation_add(conversation *c, const char *role, const char *text, size_t len,
                           ft_error *err) MUST_CHECK;
/* The same for a whole message, taken (NULL: there was no memory for it). */
ft_status conversation_add_message(conversation *c, json_t *message, ft_error *err) MUST_CHECK;
/* Set the system message; "" takes it away. */
ft_status conversation_set_system(conversation *c, const char *text, size_t len,
                                  ft_error *err) MUST_CHECK;
/* May the first n messages behind the system message be those that were dropped? Whole turns are, and not
 * the last question's. */
bool conversation_may_drop(const conversation *c, int64_t n);
/* Take away what stands behind question i, a user message, or that too; what was dropped since it was asked
 * is back. */
void conversation_go_back(conversation *c, int i, bool keep_question);

void conversation_clear(conversation *c); /* but for the system message and tools */

/* What the model gets, for ft_chat_render; freed with free(). */
ft_status conversation_request(const conversation *c, bool thinking, char **json,
                               ft_error *err) MUST_CHECK;
/* For a prompt that c's request became: the tokens behind each message, end [conversation_n]; 0 for those
 * that were dropped. Errors: MISMATCH (p has other marks). */
ft_status conversation_ends(const conversation *c, const ft_chat_prompt *p, int *end,
                            ft_error *err) MUST_CHECK;
/* The tokens behind the system message, which tools are part of; 0: there is none. */
int conversation_system_end(const ft_chat_prompt *p);
/* Drop the oldest turns, whole ones and never the last question's, that have n_tok tokens or more in sum,
 * or as many as there are. *n: their tokens, 0: there is none to drop. */
ft_status conversation_drop(conversation *c, const ft_chat_prompt *p, int n_tok, int *n,
                            ft_error *err) MUST_CHECK;

/* ---- Files (chat_file.c) ------------------------------------------------------------------------------ */

/* A conversation as JSON; an array of messages, or a request with messages and tools, are taken too.
 * Errors: IO, FORMAT (names the place), NOMEM; *out is {0}. */
ft_status conversation_load(conversation *out, const char *path, ft_error *err) MUST_CHECK;
/* path holds the old or the new conversation at any moment. Errors: IO, NOMEM. */
ft_status conversation_save(const conversation *c, const char *path, ft_error *err) MUST_CHECK;
/* The request's tools from a file: an array. Errors: IO, FORMAT, NOMEM. */
ft_status conversation_load_tools(conversation *c, const char *path, ft_error *err) MUST_CHECK;

/* ---- Talking -------------------------------------------------------------------------------------------- */

/* An answer, as far as it has come. */
typedef struct {
    buf thinking, content;
    json_t *calls; /* owned: an array */
    uint64_t seed;
    ft_generate_stats stats;
    int n_known;           /* tokens of the prompt that were not read again */
    int n_message_dropped; /* in this turn */
} chat_reply;

/* What was shown last: decides line breaks and colours. */
typedef enum { SHOWN_NOTHING, SHOWN_THINKING, SHOWN_CONTENT, SHOWN_CALL } chat_shown;

typedef struct {
    chat_options *o;
    ft_model *m;
    ft_session *s;
    conversation talk;
    line_reader lines;
    json_t *kept; /* owned: strings that options refer to */
    chat_shown shown;
    bool colours;     /* standard error is a terminal */
    bool warned;      /* of a draft vocabulary that does not fit */
    bool failed;      /* something that was asked for was not done */
    bool output_gone; /* nobody reads the answers */
    bool quit;
    int n_answer; /* and in sum, since the start: */
    uint64_t n_made, n_read, n_known, n_drafted, n_accepted;
    double read_seconds, decode_seconds;
} chat;

/* Answer the conversation, whose last message is a question or a tool's answer, and add the answer. False,
 * after a message: there is none. Then the conversation becomes *before; which is taken in any case. */
bool chat_answer(chat *c, conversation *before);

/* A message for the user, printf's way; chat_fail: of something that was not done. */
void chat_note(const char *fmt, ...) PRINTF_LIKE(1, 2);
void chat_fail(chat *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
void chat_fail_status(chat *c, ft_status st, const ft_error *err);

/* ---- Showing (chat_show.c) ---- */

void chat_show_piece(chat *c, const ft_chat_event *e); /* not with --json */
void chat_show_end(chat *c, const chat_reply *r); /* the rest, statistics, or the JSON object */
void chat_show_break(chat *c);                    /* end the line that is being shown */
void chat_show_totals(chat *c);
/* With --json, an object that says why there is no answer. */
void chat_show_error(chat *c, const char *message);
/* The message that an answer becomes; NULL: no memory. */
json_t *chat_reply_message(const chat_reply *r);

/* ---- Commands (chat_command.c) ---- */

/* text [len] begins with '/'. */
void chat_command(chat *c, const char *text, size_t len);
/* Say something. */
void chat_say(chat *c, const char *text, size_t len);
/* Keep the conversation, and what the model knows of it, in path and path.session; or go on with what
 * is there. False after a message. */
bool chat_save(chat *c, const char *path);
bool chat_load(chat *c, const char *path);
/* Set the system message from TEXT or @FILE; false after a message. */
bool chat_set_system(chat *c, const char *text);

#endif
