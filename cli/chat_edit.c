/* chat_edit.c - lines typed at a terminal, by libedit; without it (FT_LIBEDIT 0) there is no editor.
 *
 * The editor gets its characters from here, so that waiting for a key ends when Ctrl-C comes: libedit
 * itself would read on. Its terminal is standard error: answers alone go to standard output.
 */
#include "chat.h"

#if FT_LIBEDIT
#    include <errno.h>
#    include <histedit.h>
#    include <langinfo.h>
#    include <locale.h>
#    include <stdlib.h>
#    include <string.h>
#    include <unistd.h>
#    include <wchar.h>

enum { N_HISTORY = 1000 };

struct line_editor {
    EditLine *el;
    History *lines;
    const char *history; /* borrowed; NULL: none */
    const char *prompt;
    int interrupt_fd;
    bool interrupted, ended; /* what the last character was */
};

const char *editor_name(void)
{
    return "libedit";
}

static line_editor *editor_of(EditLine *el)
{
    void *e = NULL;
    el_get(el, EL_CLIENTDATA, &e);
    return e;
}

static char *prompt_of(EditLine *el)
{
    static char text[16];
    snprintf(text, sizeof text, "%s", editor_of(el)->prompt);
    return text;
}

/* libedit's way to get a character: 1, or 0 at the end. */
static int get_char(EditLine *el, wchar_t *out)
{
    line_editor *e = editor_of(el);
    mbstate_t state = {0};
    for (;;) {
        if (!line_wait(STDIN_FILENO, e->interrupt_fd)) {
            e->interrupted = true;
            return 0;
        }
        char c;
        ssize_t n = read(STDIN_FILENO, &c, 1);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0) {
            e->ended = true;
            return 0;
        }
        size_t used = mbrtowc(out, &c, 1, &state);
        if (used == (size_t)-2)
            continue; /* the next byte of a character */
        if (used == (size_t)-1)
            *out = 0xfffd;
        return 1;
    }
}

/* Text is UTF-8 here, whatever the locale: libedit asks the C library what a character is. */
static void use_utf8(void)
{
    setlocale(LC_CTYPE, "");
    if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static ft_status load_history(line_editor *e, ft_error *err)
{
    HistEvent ev;
    history(e->lines, &ev, H_SETSIZE, N_HISTORY);
    history(e->lines, &ev, H_SETUNIQUE, 1);
    if (!e->history || access(e->history, F_OK) != 0)
        return FT_OK; /* a file that is not there yet is an empty history */
    if (history(e->lines, &ev, H_LOAD, e->history) < 0)
        return err_set(err, FT_IO, "%s: no history of lines", e->history);
    return FT_OK;
}

ft_status editor_create(line_editor **out, int interrupt_fd, const char *path, ft_error *err)
{
    *out = NULL;
    use_utf8();
    line_editor *e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, FT_NOMEM, "chat: line editor");
    *e = (line_editor){.history = path, .interrupt_fd = interrupt_fd};
    e->el = el_init("foretoken", stdin, stderr, stderr);
    e->lines = history_init();
    ft_status st =
        e->el && e->lines ? load_history(e, err) : err_set(err, FT_NOMEM, "chat: line editor");
    if (st != FT_OK) {
        e->history = NULL; /* which is not to be written over */
        (void)!editor_free(e, NULL);
        return st;
    }
    el_set(e->el, EL_CLIENTDATA, e);
    el_set(e->el, EL_PROMPT, prompt_of);
    el_set(e->el, EL_EDITOR, "emacs");
    el_set(e->el, EL_HIST, history, e->lines);
    el_set(e->el, EL_GETCFN, get_char);
    el_source(e->el, NULL); /* the user's ~/.editrc, if there is one */
    *out = e;
    return FT_OK;
}

line_status editor_read(line_editor *e, const char *prompt, buf *out)
{
    e->prompt = prompt;
    e->interrupted = e->ended = false;
    el_resize(e->el);
    int n = 0;
    const char *line = el_gets(e->el, &n);
    if (e->interrupted) {
        fputs("^C\n", stderr);
        return LINE_INTERRUPTED;
    }
    if (!line || n <= 0) {
        fputs("\n", stderr);
        return LINE_END;
    }
    size_t len = (size_t)n;
    if (line[len - 1] == '\n')
        len--;
    HistEvent ev;
    if (len > 0)
        history(e->lines, &ev, H_ENTER, line);
    buf_put(out, line, len);
    return LINE_OK;
}

bool editor_prefill(line_editor *e, const char *text)
{
    el_push(e->el, text);
    return true;
}

ft_status editor_free(line_editor *e, ft_error *err)
{
    if (!e)
        return FT_OK;
    HistEvent ev;
    ft_status st = FT_OK;
    if (e->history && history(e->lines, &ev, H_SAVE, e->history) < 0)
        st = err_set(err, FT_IO, "%s: the history could not be written", e->history);
    if (e->lines)
        history_end(e->lines);
    if (e->el)
        el_end(e->el);
    free(e);
    return st;
}

#else

const char *editor_name(void)
{
    return NULL;
}

ft_status editor_create(line_editor **out, int interrupt_fd, const char *history, ft_error *err)
{
    (void)interrupt_fd;
    (void)history;
    (void)err;
    *out = NULL;
    return FT_OK;
}

/* Without an editor there is none to call these with. */
line_status editor_read(line_editor *e, const char *prompt, buf *out)
{
    (void)e;
    (void)prompt;
    (void)out;
    return LINE_FAILED;
}

bool editor_prefill(line_editor *e, const char *text)
{
    (void)e;
    (void)text;
    return false;
}

ft_status editor_free(line_editor *e, ft_error *err)
{
    (void)e;
    (void)err;
    return FT_OK;
}

#endif
