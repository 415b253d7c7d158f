/* chat_file.c - conversations in files, as JSON:
 *
 *     {"messages": [...], "tools": [...], "dropped": 4}
 *
 * messages and tools as in the OpenAI API, so that other programs read them and a request of theirs can be
 * loaded; dropped: messages behind the system message that the model no longer gets.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/newfile.h"
#include "chat.h"

enum { MAX_BYTES = 32 << 20 }; /* what ft_chat_render takes */

static ft_status load_json(json_t **out, const char *path, ft_error *err)
{
    char *text;
    size_t len;
    TRY(file_read_all(&text, &len, path, MAX_BYTES, err));
    json_error_t e;
    *out = json_loadb(text, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &e);
    free(text);
    if (*out)
        return FT_OK;
    return err_set(err, FT_FORMAT, "%s: line %d, column %d: %s", path, e.line, e.column, e.text);
}

/* What the form refuses, it refuses here: the whole conversation is rendered, where it has a question. */
static ft_status check(const conversation *c, ft_error *err)
{
    int n = conversation_n(c);
    for (int i = 0; i < n; i++)
        if (!json_is_object(json_array_get(c->messages, (size_t)i)))
            return err_set(err, FT_FORMAT, "messages[%d]: want an object", i);
    if (conversation_last_question(c) < 0) {
        if (n > conversation_n_system(c))
            return err_set(err, FT_FORMAT, "messages: %d without a question", n);
        return FT_OK;
    }
    char *json;
    ft_chat_prompt p = {0};
    TRY(conversation_request(c, true, &json, err));
    ft_status st = ft_chat_render(NULL, json, strlen(json), &p, err);
    free(json);
    ft_chat_prompt_free(&p);
    return st;
}

static ft_status take(conversation *c, json_t *j, ft_error *err)
{
    json_t *messages = json_is_array(j) ? j : json_object_get(j, "messages");
    json_t *tools = json_object_get(j, "tools"), *dropped = json_object_get(j, "dropped");
    if (!json_is_array(messages))
        return err_set(err, FT_FORMAT, "no messages: want a list of them, or an object with one");
    if (tools && !json_is_null(tools) && !json_is_array(tools))
        return err_set(err, FT_FORMAT, "tools: want an array");
    c->messages = json_copy(messages);
    if (!c->messages)
        return err_set(err, FT_NOMEM, "no memory for the conversation");
    c->tools = json_is_array(tools) ? json_incref(tools) : NULL;
    TRY(check(c, err));
    json_int_t n = json_integer_value(dropped);
    if ((dropped && !json_is_integer(dropped)) || !conversation_may_drop(c, n))
        return err_set(err, FT_FORMAT,
                       "dropped: want the number of messages in front of a question");
    c->n_dropped = (int)n;
    return FT_OK;
}

ft_status conversation_load(conversation *out, const char *path, ft_error *err)
{
    *out = (conversation){0};
    json_t *j;
    TRY(load_json(&j, path, err));
    ft_status st = take(out, j, err);
    json_decref(j);
    if (st == FT_OK)
        return FT_OK;
    conversation_deinit(out);
    return err_prefix(err, st, "%s", path);
}

ft_status conversation_load_tools(conversation *c, const char *path, ft_error *err)
{
    json_t *j;
    TRY(load_json(&j, path, err));
    if (!json_is_array(j)) {
        json_decref(j);
        return err_set(err, FT_FORMAT, "%s: want an array of tools", path);
    }
    json_decref(c->tools);
    c->tools = j;
    return FT_OK;
}

ft_status conversation_save(const conversation *c, const char *path, ft_error *err)
{
    json_t *j = json_pack("{s:O, s:i}", "messages", c->messages, "dropped", c->n_dropped);
    char *dump = NULL;
    if (j && (!c->tools || json_object_set(j, "tools", c->tools) == 0))
        dump = json_dumps(j, JSON_INDENT(1));
    json_decref(j);
    if (!dump)
        return err_set(err, FT_NOMEM, "%s: no memory for the conversation", path);
    newfile f;
    ft_status st = newfile_open(&f, path, err);
    if (st == FT_OK) {
        st = newfile_put(&f, dump, strlen(dump), err);
        if (st == FT_OK)
            st = newfile_put(&f, "\n", 1, err);
        if (st == FT_OK)
            st = newfile_commit(&f, err);
        else
            newfile_abort(&f);
    }
    free(dump);
    return st;
}
