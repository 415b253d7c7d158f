/* answer.c - see answer.h.
 *
 * Text gathers in a piece until it is sent: with stream after every box or when the kind of text
 * changes, otherwise at the end. */
#include "answer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "answer_parts.h"
#include "base/mem.h"
#include "trace.h"

enum { MAX_TEXT = 1 << 28 };

struct answer {
    answer_params p;
    bool chat;
    char id[48];
    json_int_t created;
    ft_chat_parser *parser; /* owned; chat */

    buf out;
    buf content, thought; /* not sent yet */
    json_t *calls;        /* owned; not sent yet */
    json_t *logprobs;     /* owned; not sent yet; NULL: not wanted */
    json_t *details;      /* owned; not sent yet; NULL: not wanted */
    trace trace;          /* chat with logprobs */
    json_int_t offset;    /* characters of tokens in logprobs */
    int n_call, n_reasoning;
    bool in_thinking, in_content; /* the last text was that */
    const job_result *so_far;     /* borrowed from the box that is put; NULL: not told */
    bool begun, failed;
};

/* 24 hexadecimal digits; not secret, only different. */
static void random_hex(char out[25])
{
    uint64_t x[2] = {0};
    if (getrandom(x, sizeof x, 0) != (ssize_t)sizeof x)
        x[0] = (uint64_t)time(NULL);
    snprintf(out, 25, "%016llx%08llx", (unsigned long long)x[0],
             (unsigned long long)(x[1] & 0xFFFFFFFF));
}

static json_t *new_logprobs(const answer *a)
{
    if (!a->p.req->logprobs)
        return NULL;
    return a->chat ? json_array() : answer_logprobs_object();
}

/* ---- Tokens to parts ---- */

/* trace_take_fn */
static void take_logprob(void *ctx, const job_token *t)
{
    answer *a = ctx;
    a->failed |= json_array_append_new(a->logprobs, answer_chat_logprob(a->p.model, t)) != 0;
}

static void flush(answer *a);

static void add_content(answer *a, const char *text, size_t len)
{
    if (a->p.req->stream && a->thought.len > 0)
        flush(a);
    buf_put(&a->content, text, len);
    if (a->chat && a->logprobs)
        trace_out(&a->trace, text, len, a->in_content, take_logprob, a);
    a->in_thinking = false;
    a->in_content = true;
}

static void add_thought(answer *a, const char *text, size_t len)
{
    if (a->p.req->stream && a->content.len > 0)
        flush(a);
    buf_put(&a->thought, text, len);
    if (a->logprobs)
        trace_out(&a->trace, text, len, a->in_thinking, NULL, NULL);
    a->in_thinking = true;
    a->in_content = false;
}

static void add_call(answer *a, const ft_chat_event *e)
{
    char id[25];
    random_hex(id);
    a->in_thinking = a->in_content = false;
    json_t *call =
        json_pack("{s:i, s:s+, s:s, s:{s:s, s:s}}", "index", a->n_call++, "id", "call_", id, "type",
                  "function", "function", "name", e->name, "arguments", e->arguments);
    a->failed |= json_array_append_new(a->calls, call) != 0;
    trace_clear(&a->trace);
}

/* ft_chat_event_fn */
static bool on_event(void *ctx, const ft_chat_event *e)
{
    answer *a = ctx;
    if (e->kind == FT_CHAT_TOOL_CALL)
        add_call(a, e);
    else if (e->len > 0 && e->kind == FT_CHAT_CONTENT)
        add_content(a, e->text, e->len);
    else if (e->len > 0)
        add_thought(a, e->text, e->len);
    return !(a->p.req->one_call && a->n_call > 0);
}

/* A completion's token is its text's; special ones have none. */
static void add_text_logprob(answer *a, const job_token *t)
{
    size_t len;
    ft_token_bytes(a->p.model, t->id, false, &len);
    if (len > 0)
        a->failed |=
            !answer_add_logprob(a->logprobs, a->p.model, t, a->p.req->gen.n_top > 0, &a->offset);
}

static ft_status put_token(answer *a, const job_token *t, const char *text, ft_error *err)
{
    a->n_reasoning += a->in_thinking;
    if (a->logprobs && a->chat)
        trace_put(&a->trace, t, text, t->len);
    else if (a->logprobs)
        add_text_logprob(a, t);
    if (a->details)
        a->failed |= json_array_append_new(a->details, answer_detail(a->p.model, t)) != 0;
    if (t->len == 0)
        return FT_OK;
    if (a->chat)
        return ft_chat_parser_put(a->parser, text, t->len, err);
    add_content(a, text, t->len);
    return FT_OK;
}

/* ---- Parts to objects ---- */

static json_t *text_of(const buf *b)
{
    return json_stringn(b->len ? (const char *)b->data : "", b->len);
}

/* The object around choices, which is taken. */
static json_t *envelope(const answer *a, json_t *choices)
{
    const char *object = !a->chat           ? "text_completion"
                         : a->p.req->stream ? "chat.completion.chunk"
                                            : "chat.completion";
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", a->id, "object", object, "created",
                     a->created, "model", a->p.model_name, "system_fingerprint", a->p.fingerprint,
                     "choices", choices);
}

static json_t *take_logprobs(answer *a)
{
    json_t *l = a->logprobs;
    if (!l)
        return json_null();
    a->logprobs = new_logprobs(a);
    a->failed |= !a->logprobs;
    return a->chat ? json_pack("{s:o, s:n}", "content", l, "refusal") : l;
}

static json_t *timings(const answer *a, const job_result *r)
{
    return answer_timings(a->p.n_prompt, a->p.req->gen.sample.seed, r);
}

/* One choice; body: the member "text", "message" or "delta", taken; finish NULL: goes on. */
static json_t *choice(answer *a, const char *name, json_t *body, const char *finish)
{
    json_t *c = json_pack("{s:i, s:o, s:o, s:s?}", "index", 0, name, body, "logprobs",
                          take_logprobs(a), "finish_reason", finish);
    if (c && a->details) {
        json_object_set_new(c, "tokens", a->details);
        a->details = json_array();
    }
    return c;
}

/* Append the object, which is taken, as an event, or alone. */
static void write_object(answer *a, json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    a->failed |= !text;
    if (text && a->p.req->stream)
        buf_puts(&a->out, "data: ");
    buf_puts(&a->out, text ? text : "");
    if (text && a->p.req->stream)
        buf_puts(&a->out, "\n\n");
    free(text);
    json_decref(o);
}

static void write_chunk(answer *a, json_t *body, const char *finish)
{
    json_t *o = envelope(a, json_pack("[o]", choice(a, a->chat ? "delta" : "text", body, finish)));
    if (o && a->p.req->usage)
        json_object_set_new(o, "usage", json_null());
    if (o && a->so_far)
        a->failed |= json_object_set_new(o, "timings", timings(a, a->so_far)) != 0;
    write_object(a, o);
}

/* Stream: what has gathered as an event. */
static void flush(answer *a)
{
    bool any = a->content.len > 0 || a->thought.len > 0 || json_array_size(a->calls) > 0 ||
               json_array_size(a->details) > 0;
    if (!any)
        return;
    json_t *body = a->chat ? json_object() : text_of(&a->content);
    if (a->chat) {
        if (a->thought.len > 0)
            json_object_set_new(body, "reasoning_content", text_of(&a->thought));
        if (a->content.len > 0)
            json_object_set_new(body, "content", text_of(&a->content));
        if (json_array_size(a->calls) > 0) {
            json_object_set_new(body, "tool_calls", a->calls);
            a->calls = json_array();
        }
    }
    write_chunk(a, body, NULL);
    buf_clear(&a->content);
    buf_clear(&a->thought);
}

static json_t *message(answer *a)
{
    json_t *m = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                          a->content.len == 0 && a->n_call > 0 ? json_null() : text_of(&a->content),
                          "refusal");
    if (m && a->thought.len > 0)
        json_object_set_new(m, "reasoning_content", text_of(&a->thought));
    if (m && a->n_call > 0) {
        size_t i;
        json_t *call;
        json_array_foreach(a->calls, i, call)
        {
            json_object_del(call, "index"); /* of streams alone */
        }
        json_object_set(m, "tool_calls", a->calls);
    }
    return m;
}

static const char *finish_reason(const answer *a, ft_finish f)
{
    if (f == FT_FINISH_LENGTH || f == FT_FINISH_CONTEXT)
        return "length";
    return a->n_call > 0 ? "tool_calls" : "stop";
}

static void write_last(answer *a, const job_result *r)
{
    const char *why = finish_reason(a, r->gen.finish);
    json_t *usage = answer_usage(a->p.n_prompt, a->n_reasoning, r);
    json_t *cost = timings(a, r);
    a->failed |= !usage || !cost;
    if (!a->p.req->stream) {
        json_t *body = a->chat ? message(a) : text_of(&a->content);
        json_t *o =
            envelope(a, json_pack("[o]", choice(a, a->chat ? "message" : "text", body, why)));
        json_object_set_new(o, "usage", usage);
        json_object_set_new(o, "timings", cost);
        write_object(a, o);
        return;
    }
    flush(a);
    json_t *o =
        envelope(a, json_pack("[o]", choice(a, a->chat ? "delta" : "text",
                                            a->chat ? json_object() : json_string(""), why)));
    json_object_set_new(o, "timings", cost);
    if (a->p.req->usage)
        json_object_set_new(o, "usage", json_null());
    write_object(a, o);
    if (a->p.req->usage) {
        o = envelope(a, json_array());
        json_object_set(o, "usage", usage);
        write_object(a, o);
    }
    json_decref(usage);
    buf_puts(&a->out, "data: [DONE]\n\n");
}

/* ---- The public side ---- */

static ft_status check(answer *a, ft_error *err)
{
    if (a->failed)
        return err_set(err, FT_NOMEM, "an answer's objects");
    TRY(trace_status(&a->trace, err));
    TRY(buf_status(&a->content, "an answer's text", err));
    TRY(buf_status(&a->thought, "an answer's thinking", err));
    return buf_status(&a->out, "an answer's objects", err);
}

static void begin_stream(answer *a)
{
    if (a->begun || !a->p.req->stream)
        return;
    a->begun = true;
    if (a->chat)
        write_chunk(a, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL);
    else if (a->p.echo_len > 0)
        flush(a);
}

ft_status answer_create(answer **out, const answer_params *p, ft_error *err)
{
    *out = NULL;
    answer *a = mem_zalloc(sizeof *a);
    if (!a)
        return err_set(err, FT_NOMEM, "an answer");
    a->p = *p;
    a->chat = p->req->kind == REQUEST_CHAT;
    a->in_thinking = p->thinking;
    a->created = (json_int_t)time(NULL);
    char hex[25];
    random_hex(hex);
    snprintf(a->id, sizeof a->id, "%s-%s", a->chat ? "chatcmpl" : "cmpl", hex);
    buf_init(&a->out, MAX_TEXT);
    buf_init(&a->content, MAX_TEXT);
    buf_init(&a->thought, MAX_TEXT);
    trace_init(&a->trace);
    a->calls = json_array();
    a->logprobs = new_logprobs(a);
    a->details = p->req->token_details ? json_array() : NULL;
    a->failed =
        !a->calls || (p->req->logprobs && !a->logprobs) || (p->req->token_details && !a->details);
    if (p->echo_len > 0)
        buf_put(&a->content, p->echo, p->echo_len);
    ft_status st = check(a, err);
    if (st == FT_OK && a->chat)
        st = ft_chat_parser_create(&a->parser, p->thinking, p->req->tools, on_event, a, err);
    if (st == FT_OK) {
        *out = a;
        return FT_OK;
    }
    answer_free(a);
    return st;
}

void answer_free(answer *a)
{
    if (!a)
        return;
    ft_chat_parser_free(a->parser);
    buf_deinit(&a->out);
    buf_deinit(&a->content);
    buf_deinit(&a->thought);
    trace_deinit(&a->trace);
    json_decref(a->calls);
    json_decref(a->logprobs);
    json_decref(a->details);
    mem_free(a);
}

const char *answer_id(const answer *a)
{
    return a->id;
}

ft_status answer_put(answer *a, const job_box *box, bool *enough, ft_error *err)
{
    int n;
    const job_token *t = job_box_get(box, &n);
    begin_stream(a);
    for (int i = 0; i < n && !*enough; i++) {
        ft_error why = {0};
        ft_status st = put_token(a, &t[i], (const char *)box->text.data + t[i].text_at, &why);
        *enough = st == FT_CANCELLED; /* on_event said so */
        if (st != FT_OK && !*enough)
            return err_set(err, st, "%s", why.msg);
    }
    if (a->p.req->stream) {
        a->so_far = box->told ? &box->so_far : NULL;
        flush(a);
        a->so_far = NULL;
    }
    return check(a, err);
}

ft_status answer_finish(answer *a, const job_result *r, ft_error *err)
{
    begin_stream(a);
    bool stopped = a->p.req->one_call && a->n_call > 0;
    if (a->chat && !stopped) {
        ft_status st = ft_chat_parser_finish(a->parser, err);
        if (st != FT_OK && st != FT_CANCELLED)
            return st;
    }
    write_last(a, r);
    return check(a, err);
}

void answer_fail(answer *a, const api_error *e)
{
    buf_puts(&a->out, "data: ");
    api_error_write(e, &a->out);
    buf_puts(&a->out, "\n\n");
}

buf *answer_out(answer *a)
{
    return &a->out;
}
