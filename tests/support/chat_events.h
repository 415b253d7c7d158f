/* chat_events.h - what a parser of answers says, as one line of text, and an answer fed in pieces.
 * Header only, so that fuzz targets can have it too.
 *
 * Pieces of one kind are joined: "T(thinking)C(content)F(name {"a": 1})C(more)". */
#ifndef TESTS_SUPPORT_CHAT_EVENTS_H
#define TESTS_SUPPORT_CHAT_EVENTS_H

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "text/chat_parser.h"

typedef struct {
    buf text;
    int kind;     /* of the piece that is open; -1: none */
    int n_event;  /* so far */
    int stop_at;  /* return false at that many events; 0: never */
    size_t bytes; /* of thinking and content */
} chat_events;

static inline void chat_events_close(chat_events *e)
{
    if (e->kind >= 0)
        buf_putc(&e->text, ')');
    e->kind = -1;
}

static inline bool chat_events_put(void *ctx, const ft_chat_event *v)
{
    chat_events *e = ctx;
    if (v->kind == FT_CHAT_TOOL_CALL) {
        chat_events_close(e);
        buf_printf(&e->text, "F(%s %s)", v->name, v->arguments);
    } else {
        if (v->len == 0)
            abort(); /* an event about nothing */
        if (e->kind != (int)v->kind) {
            chat_events_close(e);
            buf_puts(&e->text, v->kind == FT_CHAT_THINKING ? "T(" : "C(");
        }
        e->kind = (int)v->kind;
        buf_put(&e->text, v->text, v->len);
        e->bytes += v->len;
    }
    return ++e->n_event != e->stop_at;
}

/* Length of the piece of an answer [n] that begins at `at`; 1 .. n - at. */
typedef size_t chat_cut_fn(void *ctx, size_t at, size_t n);

/* The events of an answer, fed in pieces (cut NULL: whole). *e is initialised here, its text freed by
 * the caller. */
static inline ft_status chat_events_of(chat_events *e, bool thinking, const char *tools,
                                       const char *s, size_t n, chat_cut_fn *cut, void *ctx,
                                       ft_error *err)
{
    *e = (chat_events){.kind = -1};
    buf_init(&e->text, (size_t)1 << 28);
    chat_parser *p;
    ft_status st = chat_parser_create(&p, thinking, tools, chat_events_put, e, err);
    for (size_t at = 0, len; st == FT_OK && at < n; at += len) {
        len = cut ? cut(ctx, at, n) : n;
        char *piece = malloc(len); /* of its own, so that a sanitizer sees a read past its end */
        if (!piece)
            abort();
        memcpy(piece, s + at, len);
        st = chat_parser_put(p, piece, len, err);
        free(piece);
    }
    if (st == FT_OK)
        st = chat_parser_finish(p, err);
    chat_events_close(e);
    chat_parser_free(p);
    return st;
}

#endif
