/* chat_line.c - what is said at once: from a terminal or a pipe, one line or several.
 *
 * A backslash at the end of a line goes on with the next one. Between """ and a line that ends with """
 * everything is taken as it is; it begins a message, or the text behind a command ("/system """").
 * The end of the file ends a block too, and gives what was there.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "chat.h"

enum { MAX_BYTES = 32 << 20 }; /* what ft_chat_render takes */

bool line_wait(int fd, int interrupt_fd)
{
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = interrupt_fd, .events = POLLIN}};
    for (;;) {
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return true; /* the read says what is wrong */
        if (p[1].revents)
            return false;
        if (p[0].revents)
            return true;
    }
}

int line_open(line_reader *r, int interrupt_fd, const char *history)
{
    *r = (line_reader){.interrupt_fd = interrupt_fd, .terminal = isatty(STDIN_FILENO)};
    buf_init(&r->ahead, MAX_BYTES);
    if (history && !editor_name()) {
        fprintf(stderr, "foretoken chat: --history: this foretoken was built without libedit\n");
        return EXIT_USAGE;
    }
    if (!r->terminal || !isatty(STDERR_FILENO))
        return -1;
    ft_error err = {0};
    ft_status st = editor_create(&r->editor, interrupt_fd, history, &err);
    return st == FT_OK ? -1 : report_failure("chat", st, &err);
}

int line_close(line_reader *r)
{
    ft_error err = {0};
    ft_status st = editor_free(r->editor, &err);
    buf_deinit(&r->ahead);
    r->editor = NULL;
    return st == FT_OK ? -1 : report_failure("chat", st, &err);
}

static line_status failed(const char *what)
{
    fprintf(stderr, "foretoken chat: standard input: %s\n", what);
    return LINE_FAILED;
}

/* Wait for more of standard input and append it to r->ahead, whose used part goes. */
static line_status read_ahead(line_reader *r)
{
    buf *b = &r->ahead;
    if (!line_wait(STDIN_FILENO, r->interrupt_fd)) {
        b->len = r->at = 0; /* the part of a line; what lies behind it was not read */
        return LINE_INTERRUPTED;
    }
    b->len -= r->at;
    if (b->len > 0)
        memmove(b->data, b->data + r->at, b->len);
    r->at = 0;
    char chunk[4096];
    ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);
    if (n < 0 && errno != EINTR && errno != EAGAIN)
        return failed(strerror(errno));
    if (n > 0)
        buf_put(b, chunk, (size_t)n);
    r->ended = n == 0;
    return b->failed ? failed("a line of more than 32 MiB") : LINE_OK;
}

/* The next line from r->ahead, read on as far as needed, appended to out without its end. */
static line_status read_plain(line_reader *r, buf *out)
{
    for (size_t n_seen = 0;;) {
        size_t n = r->ahead.len - r->at;
        const uint8_t *from = n ? r->ahead.data + r->at : NULL;
        const uint8_t *end = n > n_seen ? memchr(from + n_seen, '\n', n - n_seen) : NULL;
        if (end || (r->ended && n > 0)) {
            size_t len = end ? (size_t)(end - from) : n;
            r->at += end ? len + 1 : len;
            buf_put(out, from, len > 0 && from[len - 1] == '\r' ? len - 1 : len);
            return out->failed ? failed("what was said is too long") : LINE_OK;
        }
        n_seen = n;
        line_status st = r->ended ? LINE_END : read_ahead(r);
        if (st != LINE_OK)
            return st;
    }
}

static line_status read_one(line_reader *r, const char *prompt, buf *out)
{
    if (r->editor)
        return editor_read(r->editor, prompt, out);
    if (r->terminal) {
        fputs(prompt, stderr);
        fflush(stderr);
    }
    return read_plain(r, out);
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

/* Where a block's """ stands: at the start, or behind the word of a command. SIZE_MAX: nowhere. */
static size_t find_block(const buf *b)
{
    size_t i = 0;
    if (b->len > 0 && b->data[0] == '/') {
        while (i < b->len && !is_blank(b->data[i]))
            i++;
        while (i < b->len && is_blank(b->data[i]))
            i++;
    }
    return b->len - i >= 3 && memcmp(b->data + i, "\"\"\"", 3) == 0 ? i : SIZE_MAX;
}

/* Is the block that begins at byte `from` closed at the end of b? Then without the """. */
static bool close_block(buf *b, size_t from)
{
    size_t end = b->len;
    while (end > from && is_blank(b->data[end - 1]))
        end--;
    if (end < from + 3 || memcmp(b->data + end - 3, "\"\"\"", 3) != 0)
        return false;
    end -= 3;
    b->len = end > from && b->data[end - 1] == '\n' ? end - 1 : end;
    return true;
}

/* Lines up to the one that closes the block; its opening stands at `at`. */
static line_status read_block(line_reader *r, buf *out, size_t at)
{
    memmove(out->data + at, out->data + at + 3, out->len - at - 3);
    out->len -= 3;
    while (!close_block(out, at)) {
        if (out->len > at)
            buf_putc(out, '\n');
        line_status st = read_one(r, "... ", out);
        if (st == LINE_END)
            return LINE_OK;
        if (st != LINE_OK)
            return st;
        if (out->failed)
            return failed("what was said is too long");
    }
    return LINE_OK;
}

line_status line_read(line_reader *r, buf *out, bool *is_text)
{
    buf_clear(out);
    *is_text = false;
    line_status st = read_one(r, "> ", out);
    size_t block = st == LINE_OK ? find_block(out) : SIZE_MAX;
    if (block != SIZE_MAX) {
        *is_text = block == 0;
        return read_block(r, out, block);
    }
    while (st == LINE_OK && out->len > 0 && out->data[out->len - 1] == '\\') {
        out->data[out->len - 1] = '\n';
        st = read_one(r, "... ", out);
        if (st == LINE_END)
            return LINE_OK;
    }
    return st;
}

bool line_prefill(line_reader *r, const char *text, size_t len)
{
    if (!r->editor || strlen(text) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 127)
            return false; /* a key to the editor, not a letter */
    return editor_prefill(r->editor, text);
}
