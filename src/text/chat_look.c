/* chat_look.c - see chat_look.h. */
#include "text/chat_look.h"

#include <string.h>

static const char param_end[] = "</parameter>";
static const char function_end[] = "</function>";
static const char call_end[] = "</tool_call>";

look look_tag(look_text t, size_t at, const char *tag)
{
    size_t n = strlen(tag), have = t.n - at;
    if (memcmp(t.s + at, tag, n < have ? n : have) != 0)
        return LOOK_NO;
    if (n <= have)
        return LOOK_YES;
    return t.final ? LOOK_NO : LOOK_SHORT;
}

size_t look_behind_space(look_text t, size_t at)
{
    while (at < t.n && (t.s[at] == ' ' || t.s[at] == '\t' || t.s[at] == '\r' || t.s[at] == '\n'))
        at++;
    return at;
}

/* Whitespace between two tags: *at moves behind it. */
static look skip_gap(look_text t, size_t *at)
{
    size_t from = *at;
    *at = look_behind_space(t, from);
    if (*at - from > LOOK_GAP)
        return LOOK_NO;
    if (*at < t.n)
        return LOOK_YES;
    return t.final ? LOOK_NO : LOOK_SHORT;
}

/* open NAME ">": a name has neither control characters nor brackets. */
static look look_named(look_text t, size_t at, const char *open, look_span *name, size_t *end)
{
    look l = look_tag(t, at, open);
    if (l != LOOK_YES)
        return l;
    *name = (look_span){at + strlen(open), 0};
    for (size_t i = name->at; i < t.n; i++) {
        if (t.s[i] == '>' && name->len > 0) {
            *end = i + 1;
            return LOOK_YES;
        }
        if ((unsigned char)t.s[i] < 0x20 || t.s[i] == '<' || t.s[i] == '>' ||
            ++name->len > LOOK_NAME)
            return LOOK_NO;
    }
    return t.final ? LOOK_NO : LOOK_SHORT;
}

look look_for_item(look_text t, size_t at, int extra, look_item *out)
{
    *out = (look_item){0};
    for (;; extra--) {
        look l = skip_gap(t, &at);
        if (l != LOOK_YES)
            return l;
        l = extra > 0 ? look_tag(t, at, param_end) : LOOK_NO;
        if (l == LOOK_NO)
            break;
        if (l == LOOK_SHORT) /* or another closing tag: undecided either way */
            return l;
        at += strlen(param_end);
    }
    out->param = true;
    look l = look_named(t, at, "<parameter=", &out->name, &out->end);
    if (l != LOOK_NO)
        return l;
    out->param = false;
    const char *const closing[] = {function_end, call_end};
    for (size_t i = 0; i < ARRAY_LEN(closing) && l == LOOK_NO; i++) {
        l = look_tag(t, at, closing[i]);
        out->end = at + strlen(closing[i]);
    }
    return l;
}

look look_for_function(look_text t, size_t at, look_span *name, look_item *out)
{
    size_t end;
    look l = skip_gap(t, &at);
    if (l == LOOK_YES)
        l = look_named(t, at, "<function=", name, &end);
    return l == LOOK_YES ? look_for_item(t, end, 0, out) : l;
}

look look_for_call(look_text t, size_t at, look_span *name, look_item *out)
{
    static const char open[] = "<tool_call>";
    look l = look_tag(t, at, open);
    return l == LOOK_YES ? look_for_function(t, at + strlen(open), name, out) : l;
}

look look_for_closing(look_text t, size_t at, size_t *end)
{
    const char *const closing[] = {call_end, function_end, param_end};
    look l = skip_gap(t, &at);
    if (l != LOOK_YES)
        return l;
    l = LOOK_NO;
    for (size_t i = 0; i < ARRAY_LEN(closing) && l == LOOK_NO; i++) {
        l = look_tag(t, at, closing[i]);
        *end = at + strlen(closing[i]);
    }
    return l;
}

look look_for_end(look_text t, size_t at, size_t *end)
{
    look l = look_tag(t, at, function_end);
    if (l != LOOK_YES)
        return l;
    *end = at + strlen(function_end);
    at = *end;
    l = skip_gap(t, &at);
    return l == LOOK_YES ? look_tag(t, at, call_end) : l;
}
