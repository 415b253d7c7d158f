/* chat_fence.c - see chat_fence.h. */
#include "text/chat_fence.h"

enum { FENCE_MIN = 3 };

/* A line is over: does it open or close fenced code? */
static void end_line(chat_fence *f)
{
    if (f->n_mark >= FENCE_MIN) {
        if (!f->open && !(f->mark == '`' && f->marks)) {
            f->open = f->mark;
            f->wide = f->n_mark;
        } else if (f->open == f->mark && f->n_mark >= f->wide && !f->words) {
            f->open = 0;
        }
    }
    *f = (chat_fence){.open = f->open, .wide = f->wide};
}

static void put_byte(chat_fence *f, char c)
{
    bool space = c == ' ' || c == '\t' || c == '\r';
    if (!f->begun) {
        f->begun = !space;
        f->mark = c == '`' || c == '~' ? c : 0;
        f->n_mark = f->mark != 0;
        return;
    }
    if (!f->past && c == f->mark) {
        f->n_mark++;
        return;
    }
    f->past = true;
    f->words |= !space;
    f->marks |= c == f->mark;
}

void fence_put(chat_fence *f, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\n')
            end_line(f);
        else
            put_byte(f, s[i]);
        f->last = s[i];
    }
}
