/* chat_parser.c - see chat_parser.h for the states.
 *
 * Text that is not decided yet is held. A step decides some of it, or finds that it must wait for more;
 * at the end of the text nothing waits.
 */
#include "text/chat_parser.h"

#include <string.h>

#include "base/mem.h"
#include "text/chat.h"
#include "text/chat_call.h"
#include "text/chat_fence.h"
#include "text/chat_look.h"
#include "text/utf8.h"

#define MAX_HELD ((size_t)64 << 20) /* bytes of a call, of whitespace */

typedef enum { STATE_START, STATE_TEXT, STATE_CALL, STATE_BEHIND } state;

/* A parameter in the held text. */
typedef struct {
    look_span name, value;
} place;

struct chat_parser {
    ft_chat_event_fn *fn;
    void *ctx;
    chat_tools tools;
    state state;
    ft_chat_kind kind; /* of the text: THINKING or CONTENT */
    bool final;
    buf held;
    size_t pos; /* of held: decided up to here; in a call: looked at */

    buf space; /* whitespace behind the text, which comes out only when more text does */
    bool any;  /* some of this thinking or content came out */
    chat_fence fence;

    size_t call; /* of held: where the call began, for one that is never finished */
    look_span function;
    int n_quoted; /* calls inside the value that are still open: 0 where it ends */
    buf params;   /* of place; the value of the last one is not known yet */
    buf name, arguments;
};

static const char *const end_token[] = {"<|im_end|>", "<|endoftext|>"};

ft_status chat_parser_create(chat_parser **out, bool thinking, const char *tools,
                             ft_chat_event_fn *fn, void *ctx, ft_error *err)
{
    *out = NULL;
    chat_parser *p = mem_zalloc(sizeof *p);
    if (!p)
        return err_set(err, FT_NOMEM, "chat: a parser");
    p->fn = fn;
    p->ctx = ctx;
    p->kind = thinking ? FT_CHAT_THINKING : FT_CHAT_CONTENT;
    buf *const all[] = {&p->held, &p->space, &p->params, &p->name, &p->arguments};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        buf_init(all[i], MAX_HELD);
    ft_status st = chat_tools_init(&p->tools, tools, err);
    if (st != FT_OK) {
        chat_parser_free(p);
        return st;
    }
    *out = p;
    return FT_OK;
}

void chat_parser_free(chat_parser *p)
{
    if (!p)
        return;
    chat_tools_deinit(&p->tools);
    buf_deinit(&p->held);
    buf_deinit(&p->space);
    buf_deinit(&p->params);
    buf_deinit(&p->name);
    buf_deinit(&p->arguments);
    mem_free(p);
}

static look_text held_text(const chat_parser *p)
{
    return (look_text){(const char *)p->held.data, p->held.len, p->final};
}

static const char *held_at(const chat_parser *p, size_t at)
{
    return (const char *)p->held.data + at;
}

/* ---- Text ------------------------------------------------------------------------------------- */

static ft_status send(chat_parser *p, const ft_chat_event *e, ft_error *err)
{
    return p->fn(p->ctx, e) ? FT_OK : err_set(err, FT_CANCELLED, "chat: stopped by the caller");
}

static ft_status send_text(chat_parser *p, const void *text, size_t len, ft_error *err)
{
    ft_chat_event e = {.kind = p->kind, .text = text, .len = len};
    return len > 0 ? send(p, &e, err) : FT_OK;
}

/* The next n bytes held are text. */
static ft_status pass_text(chat_parser *p, size_t n, ft_error *err)
{
    jdoc_str s = {held_at(p, p->pos), n};
    fence_put(&p->fence, s.s, n);
    p->pos += n;
    if (!p->any)
        s = chat_trim_start(s);
    jdoc_str text = chat_trim_end(s);
    if (text.len > 0) {
        TRY(send_text(p, p->space.data, p->space.len, err));
        buf_clear(&p->space);
        TRY(send_text(p, text.s, text.len, err));
        p->any = true;
    }
    buf_put(&p->space, text.s + text.len, s.len - text.len);
    return buf_status(&p->space, "chat: whitespace of an answer", err);
}

/* Thinking is over: what follows is content. */
static void end_thinking(chat_parser *p)
{
    p->kind = FT_CHAT_CONTENT;
    p->any = false;
    buf_clear(&p->space);
    p->fence = (chat_fence){0};
}

/* Bytes at the end of s[n] that begin a character whose rest is still to come. */
static size_t cut_character(const char *s, size_t n)
{
    const uint8_t *b = (const uint8_t *)s;
    for (size_t k = 1, len; k <= 3 && k <= n; k++)
        if (b[n - k] >= 0xC0)
            return utf8_scan(b + n - k, k, &len) == UTF8_CUT ? k : 0;
    return 0;
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'' || c == '`';
}

/* </think> at pos that ends the thinking. One between two equal quotation marks is spoken about. */
static look thinking_ends(const chat_parser *p, look_text t)
{
    static const char close[] = "</think>";
    look l = look_tag(t, p->pos, close);
    if (l != LOOK_YES || !is_quote(p->fence.last))
        return l;
    size_t end = p->pos + strlen(close);
    if (end == t.n)
        return t.final ? LOOK_YES : LOOK_SHORT;
    return t.s[end] == p->fence.last ? LOOK_NO : LOOK_YES;
}

/* Where a call may begin at all. Thinking is full of plans, so it takes a line of its own there. */
static bool may_call(const chat_parser *p)
{
    if (p->fence.open)
        return false;
    return p->kind == FT_CHAT_THINKING ? !p->fence.begun : !is_quote(p->fence.last);
}

/* All that is held may be the token that ends the text. */
static bool may_be_end(look_text t, size_t at)
{
    for (size_t i = 0; i < ARRAY_LEN(end_token) && !t.final; i++) {
        look l = look_tag(t, at, end_token[i]);
        if (l == LOOK_SHORT || (l == LOOK_YES && t.n - at == strlen(end_token[i])))
            return true;
    }
    return false;
}

/* ---- Calls ------------------------------------------------------------------------------------ */

static ft_status send_call(chat_parser *p, ft_error *err)
{
    size_t n = p->params.len / sizeof(place);
    const place *from = (const place *)(const void *)p->params.data;
    chat_param *param = mem_calloc(n + 1, sizeof *param);
    if (!param)
        return err_set(err, FT_NOMEM, "chat: a call of %zu parameters", n);
    for (size_t i = 0; i < n; i++) {
        param[i].name = (jdoc_str){held_at(p, from[i].name.at), from[i].name.len};
        param[i].value = (jdoc_str){held_at(p, from[i].value.at), from[i].value.len};
    }
    jdoc_str function = {held_at(p, p->function.at), p->function.len};
    buf_clear(&p->arguments);
    buf_clear(&p->name);
    buf_put(&p->name, function.s, function.len);
    const char *name = buf_cstr(&p->name);
    ft_status st = chat_put_arguments(&p->arguments, &p->tools, function, param, n, err);
    mem_free(param);
    TRY(st);
    TRY(buf_status(&p->name, "chat: a function's name", err));
    ft_chat_event e = {
        .kind = FT_CHAT_TOOL_CALL, .name = name, .arguments = buf_cstr(&p->arguments)};
    return send(p, &e, err);
}

/* The next parameter of the call begins, or the call is complete. */
static ft_status take_item(chat_parser *p, const look_item *item, ft_error *err)
{
    p->pos = item->end;
    if (item->param) {
        place param = {.name = item->name, .value = {item->end, 0}};
        buf_put(&p->params, &param, sizeof param);
        return buf_status(&p->params, "chat: parameters of a call", err);
    }
    if (p->kind == FT_CHAT_THINKING)
        end_thinking(p);
    p->fence = (chat_fence){.begun = true, .last = '>'};
    p->state = STATE_BEHIND;
    return send_call(p, err);
}

static ft_status begin_call(chat_parser *p, look_span function, const look_item *item,
                            ft_error *err)
{
    p->state = STATE_CALL;
    p->call = p->pos;
    p->function = function;
    buf_clear(&p->params);
    return take_item(p, item, err);
}

/* Whole calls inside a value are a part of it: their tags, at `at`, are counted. */
static look value_quotes(chat_parser *p, look_text t, size_t at)
{
    look_span function;
    look_item item;
    look l = look_for_call(t, at, &function, &item);
    p->n_quoted += l == LOOK_YES;
    if (l != LOOK_NO || p->n_quoted == 0)
        return l;
    l = look_tag(t, at, "</tool_call>");
    p->n_quoted -= l == LOOK_YES;
    return l;
}

/* What ends the value of the last parameter at `at`, a '<'. */
static look value_ends(chat_parser *p, look_text t, size_t at, look_item *item)
{
    static const char close[] = "</parameter>";
    look l = value_quotes(p, t, at);
    if (l == LOOK_SHORT)
        return l;
    if (l == LOOK_YES || p->n_quoted > 0)
        return LOOK_NO;
    bool line_start = t.s[at - 1] == '\n'; /* a value is never at the start of the text */
    l = look_tag(t, at, close);
    if (l == LOOK_YES)
        return look_for_item(t, at + strlen(close), line_start ? LOOK_EXTRA : 0, item);
    if (l == LOOK_SHORT || !line_start)
        return l;
    *item = (look_item){0};
    return look_for_end(t, at, &item->end);
}

/* ---- Steps ------------------------------------------------------------------------------------ */

/* Each decides some of what is held, or sets *wait. */
static ft_status step_start(chat_parser *p, bool *wait)
{
    static const char open[] = "<think>";
    look_text t = held_text(p);
    p->pos = look_behind_space(t, p->pos);
    look l = look_tag(t, p->pos, open);
    *wait = l == LOOK_SHORT;
    if (*wait)
        return FT_OK;
    p->state = STATE_TEXT;
    if (l == LOOK_YES) {
        p->kind = FT_CHAT_THINKING;
        p->pos += strlen(open);
    }
    return FT_OK;
}

/* At a '<' of thinking or content. */
static ft_status step_tag(chat_parser *p, bool *wait, ft_error *err)
{
    look_text t = held_text(p);
    look l = LOOK_NO;
    if (p->kind == FT_CHAT_THINKING)
        l = thinking_ends(p, t);
    if (l == LOOK_YES) {
        p->pos += strlen("</think>");
        end_thinking(p);
        return FT_OK;
    }
    look_span function;
    look_item item;
    if (l == LOOK_NO && may_call(p))
        l = look_for_call(t, p->pos, &function, &item);
    if (l == LOOK_YES)
        return begin_call(p, function, &item, err);
    *wait = l == LOOK_SHORT || may_be_end(t, p->pos);
    return *wait ? FT_OK : pass_text(p, 1, err);
}

static ft_status step_text(chat_parser *p, bool *wait, ft_error *err)
{
    const char *s = held_at(p, p->pos);
    size_t n = p->held.len - p->pos;
    const char *tag = memchr(s, '<', n);
    if (tag)
        n = (size_t)(tag - s);
    else if (!p->final)
        n -= cut_character(s, n);
    TRY(pass_text(p, n, err));
    *wait = !tag;
    return tag ? step_tag(p, wait, err) : FT_OK;
}

static ft_status step_call(chat_parser *p, bool *wait, ft_error *err)
{
    look_text t = held_text(p);
    const char *tag = memchr(t.s + p->pos, '<', t.n - p->pos);
    p->pos = tag ? (size_t)(tag - t.s) : t.n;
    look_item item;
    look l = tag ? value_ends(p, t, p->pos, &item) : LOOK_SHORT;
    if (l == LOOK_YES) {
        place *last = (place *)(void *)(p->params.data + p->params.len) - 1;
        last->value.len = p->pos - last->value.at;
        return take_item(p, &item, err);
    }
    *wait = l == LOOK_SHORT;
    if (l == LOOK_NO)
        p->pos++;
    return FT_OK;
}

static ft_status step_behind(chat_parser *p, bool *wait, ft_error *err)
{
    look_text t = held_text(p);
    size_t end;
    look l = look_for_closing(t, p->pos, &end);
    if (l == LOOK_YES) {
        p->pos = end;
        return FT_OK;
    }
    look_span function;
    look_item item;
    if (l == LOOK_NO)
        l = look_for_function(t, p->pos, &function, &item);
    if (l == LOOK_YES)
        return begin_call(p, function, &item, err);
    *wait = l == LOOK_SHORT;
    if (l == LOOK_NO)
        p->state = STATE_TEXT;
    return FT_OK;
}

/* All steps that the held text allows. */
static ft_status advance(chat_parser *p, ft_error *err)
{
    for (bool wait = p->held.len == 0; !wait;) {
        switch (p->state) {
        case STATE_START:
            TRY(step_start(p, &wait));
            break;
        case STATE_TEXT:
            TRY(step_text(p, &wait, err));
            break;
        case STATE_CALL:
            TRY(step_call(p, &wait, err));
            break;
        case STATE_BEHIND:
            TRY(step_behind(p, &wait, err));
            break;
        }
    }
    return FT_OK;
}

ft_status chat_parser_put(chat_parser *p, const char *text, size_t len, ft_error *err)
{
    /* Places in a call refer to the held text, so it stays where it is until the call is over. */
    if (p->state != STATE_CALL && p->pos > 0) {
        p->held.len -= p->pos;
        memmove(p->held.data, p->held.data + p->pos, p->held.len);
        p->pos = 0;
    }
    buf_put(&p->held, text, len);
    TRY(buf_status(&p->held, "chat: an answer", err));
    return advance(p, err);
}

/* Drop the end-of-text token at the very end. */
static void drop_end(chat_parser *p)
{
    size_t decided = p->state == STATE_CALL ? p->call : p->pos;
    for (size_t i = 0; i < ARRAY_LEN(end_token); i++) {
        size_t n = strlen(end_token[i]);
        if (p->held.len - decided < n ||
            memcmp(p->held.data + p->held.len - n, end_token[i], n) != 0)
            continue;
        p->held.len -= n;
        p->pos = p->pos < p->held.len ? p->pos : p->held.len;
        return;
    }
}

ft_status chat_parser_finish(chat_parser *p, ft_error *err)
{
    drop_end(p);
    p->final = true;
    TRY(advance(p, err));
    if (p->state != STATE_CALL)
        return FT_OK;
    p->pos = p->call;
    p->state = STATE_TEXT;
    return pass_text(p, p->held.len - p->pos, err);
}
