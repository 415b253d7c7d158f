/* chat_messages.c - the conversation of `foretoken chat`: messages, turns, and which of them the model gets.
 *
 * A turn is a question (a user message) with all that follows it up to the next one. A question remembers
 * in its member "dropped" how many messages had been dropped before it was asked, so that going back to
 * it asks it as it was asked.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "chat.h"

static ft_status no_memory(ft_error *err)
{
    return err_set(err, FT_NOMEM, "chat: no memory for the conversation");
}

ft_status conversation_init(conversation *c, ft_error *err)
{
    *c = (conversation){.messages = json_array()};
    return c->messages ? FT_OK : no_memory(err);
}

void conversation_deinit(conversation *c)
{
    json_decref(c->messages);
    json_decref(c->tools);
    *c = (conversation){0};
}

ft_status conversation_copy(conversation *out, const conversation *c, ft_error *err)
{
    *out = (conversation){.messages = json_copy(c->messages), .n_dropped = c->n_dropped};
    if (!out->messages)
        return no_memory(err);
    out->tools = json_incref(c->tools);
    return FT_OK;
}

void conversation_replace(conversation *c, conversation *from)
{
    conversation_deinit(c);
    *c = *from;
    *from = (conversation){0};
}

/* ---- What there is ------------------------------------------------------------------------------------ */

int conversation_n(const conversation *c)
{
    return (int)json_array_size(c->messages);
}

static const json_t *message(const conversation *c, int i)
{
    return i < 0 ? NULL : json_array_get(c->messages, (size_t)i);
}

bool conversation_is(const conversation *c, int i, const char *role)
{
    const char *is = json_string_value(json_object_get(message(c, i), "role"));
    return is && strcmp(is, role) == 0;
}

const char *conversation_text(const conversation *c, int i)
{
    const char *text = json_string_value(json_object_get(message(c, i), "content"));
    return text ? text : "";
}

int conversation_n_system(const conversation *c)
{
    return conversation_is(c, 0, "system");
}

int conversation_last_question(const conversation *c)
{
    int i = conversation_n(c) - 1;
    while (i >= 0 && !conversation_is(c, i, "user"))
        i--;
    return i;
}

int conversation_n_call(const conversation *c)
{
    int i = conversation_n(c) - 1, n_answered = 0;
    for (; i >= 0 && conversation_is(c, i, "tool"); i--)
        n_answered++;
    int n = (int)json_array_size(json_object_get(message(c, i), "tool_calls"));
    return n > n_answered ? n - n_answered : 0;
}

/* ---- Changes -------------------------------------------------------------------------------------------- */

ft_status conversation_add_message(conversation *c, json_t *m, ft_error *err)
{
    return m && json_array_append_new(c->messages, m) == 0 ? FT_OK : no_memory(err);
}

ft_status conversation_add(conversation *c, const char *role, const char *text, size_t len,
                           ft_error *err)
{
    json_t *m = json_pack("{s:s, s:s%}", "role", role, "content", text, len);
    if (m && c->n_dropped > 0 && strcmp(role, "user") == 0 &&
        json_object_set_new(m, "dropped", json_integer(c->n_dropped)) != 0) {
        json_decref(m);
        m = NULL;
    }
    return conversation_add_message(c, m, err);
}

ft_status conversation_set_system(conversation *c, const char *text, size_t len, ft_error *err)
{
    bool there = conversation_n_system(c);
    if (len == 0) {
        if (there)
            json_array_remove(c->messages, 0);
        return FT_OK;
    }
    json_t *m = json_pack("{s:s, s:s%}", "role", "system", "content", text, len);
    if (!m)
        return no_memory(err);
    int failed =
        there ? json_array_set_new(c->messages, 0, m) : json_array_insert_new(c->messages, 0, m);
    return failed ? no_memory(err) : FT_OK;
}

bool conversation_may_drop(const conversation *c, int64_t n)
{
    int first = conversation_n_system(c);
    return n == 0 || (n > 0 && n <= conversation_last_question(c) - first &&
                      conversation_is(c, first + (int)n, "user"));
}

void conversation_go_back(conversation *c, int i, bool keep_question)
{
    json_int_t n = json_integer_value(json_object_get(message(c, i), "dropped"));
    while (conversation_n(c) > i + keep_question)
        json_array_remove(c->messages, (size_t)conversation_n(c) - 1);
    c->n_dropped = conversation_may_drop(c, n) ? (int)n : 0;
}

void conversation_clear(conversation *c)
{
    while (conversation_n(c) > conversation_n_system(c))
        json_array_remove(c->messages, (size_t)conversation_n(c) - 1);
    c->n_dropped = 0;
}

/* ---- What the model gets ---------------------------------------------------------------------------------- */

/* The place of the first message behind the system message that is not dropped. */
static int first_given(const conversation *c)
{
    return conversation_n_system(c) + c->n_dropped;
}

ft_status conversation_request(const conversation *c, bool thinking, char **json, ft_error *err)
{
    *json = NULL;
    json_t *given = json_array();
    bool ok = given != NULL;
    for (int i = 0; ok && i < conversation_n(c); i++)
        if (i < conversation_n_system(c) || i >= first_given(c))
            ok = json_array_append(given, json_array_get(c->messages, (size_t)i)) == 0;
    json_t *request =
        ok ? json_pack("{s:O, s:b}", "messages", given, "enable_thinking", thinking) : NULL;
    ok = request && (!c->tools || json_object_set(request, "tools", c->tools) == 0);
    if (ok)
        *json = json_dumps(request, JSON_COMPACT);
    json_decref(request);
    json_decref(given);
    return *json ? FT_OK : no_memory(err);
}

ft_status conversation_ends(const conversation *c, const ft_chat_prompt *p, int *end, ft_error *err)
{
    int n = conversation_n(c), first = first_given(c), k = -1;
    if (!conversation_n_system(c) && json_array_size(c->tools) > 0)
        k = 0; /* tools alone make a system message too */
    for (int i = 0; i < n; i++) {
        end[i] = 0;
        if (i >= conversation_n_system(c) && i < first)
            continue;
        if (i == first || !conversation_is(c, i, "tool") || !conversation_is(c, i - 1, "tool"))
            k++;
        if (k >= p->n_mark)
            return err_set(err, FT_MISMATCH, "chat: %d marks, want one for message %d", p->n_mark,
                           i);
        end[i] = p->mark[k];
    }
    return FT_OK;
}

int conversation_system_end(const conversation *c, const ft_chat_prompt *p)
{
    bool there = conversation_n_system(c) || json_array_size(c->tools) > 0;
    return there && p->n_mark > 0 ? p->mark[0] : 0;
}

ft_status conversation_drop(conversation *c, const ft_chat_prompt *p, int n_tok, int *n,
                            ft_error *err)
{
    *n = 0;
    int first = first_given(c), last = conversation_last_question(c);
    if (last <= first)
        return FT_OK;
    int *end = mem_calloc((size_t)conversation_n(c), sizeof *end);
    if (!end)
        return no_memory(err);
    ft_status st = conversation_ends(c, p, end, err);
    int from = conversation_system_end(c, p), keep = first;
    for (int i = first + 1; st == FT_OK && i <= last && *n < n_tok; i++)
        if (conversation_is(c, i, "user")) {
            keep = i;
            *n = end[i - 1] - from;
        }
    c->n_dropped += keep - first;
    mem_free(end);
    return st;
}
