/* request_chat.c - what only a chat request has: messages, tools, thinking.
 *
 * The messages themselves are read by ft_chat_render, which knows the chat form; here they are only
 * looked at from outside.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "field.h"
#include "request_fields.h"

#define UNUSED(x) (void)(x)

bool take_messages(request *r, const char *name, json_t *v, const request_defaults *d, api_error *e)
{
    UNUSED(r);
    UNUSED(d);
    if (!json_is_array(v) || json_array_size(v) == 0)
        return field_wrong(name, v, "an array of at least one message", e);
    return true;
}

bool take_tools(request *r, const char *name, json_t *v, const request_defaults *d, api_error *e)
{
    UNUSED(r);
    UNUSED(d);
    return json_is_array(v) ? true : field_wrong(name, v, "an array of tools", e);
}

/* "none" is seen to in request_chat_finish; a call cannot be forced, and is not promised. */
bool take_tool_choice(request *r, const char *name, json_t *v, const request_defaults *d,
                      api_error *e)
{
    UNUSED(r);
    UNUSED(d);
    const char *choice = json_string_value(v);
    if (!choice || (strcmp(choice, "auto") != 0 && strcmp(choice, "none") != 0))
        return api_fail(e, 400, "unsupported_value", name,
                        "%s: this server takes \"auto\" and \"none\"; a model cannot be made to "
                        "call a tool",
                        name);
    return true;
}

bool take_parallel(request *r, const char *name, json_t *v, const request_defaults *d, api_error *e)
{
    UNUSED(d);
    bool parallel;
    if (!field_bool(&parallel, name, v, e))
        return false;
    r->one_call = !parallel;
    return true;
}

bool take_template(request *r, const char *name, json_t *v, const request_defaults *d, api_error *e)
{
    UNUSED(d);
    if (!json_is_object(v))
        return field_wrong(name, v, "an object", e);
    const char *key;
    json_t *item;
    json_object_foreach(v, key, item)
    {
        if (strcmp(key, "enable_thinking") != 0)
            return api_fail(e, 400, "unknown_parameter", name,
                            "Unknown parameter: 'chat_template_kwargs.%.80s'.", key);
        if (!field_bool(&r->thinking, "chat_template_kwargs.enable_thinking", item, e))
            return false;
    }
    return true;
}

/* These models think or do not; how long is their own affair. */
bool take_effort(request *r, const char *name, json_t *v, const request_defaults *d, api_error *e)
{
    UNUSED(d);
    const char *effort;
    if (!field_string(&effort, name, v, e))
        return false;
    if (strcmp(effort, "none") != 0)
        return api_fail(e, 400, "unsupported_value", name,
                        "%s: '%.40s'; this server takes \"none\" (no thinking), or the field is "
                        "left out",
                        name, effort);
    r->thinking = false;
    return true;
}

bool take_format(request *r, const char *name, json_t *v, const request_defaults *d, api_error *e)
{
    UNUSED(r);
    UNUSED(d);
    const char *type = json_string_value(json_object_get(v, "type"));
    if (!type)
        return field_wrong(name, v, "an object with a type", e);
    if (strcmp(type, "text") != 0)
        return api_fail(e, 400, "unsupported_value", name,
                        "%s: type '%.40s' is not supported, want text", name, type);
    return true;
}

bool take_modalities(request *r, const char *name, json_t *v, const request_defaults *d,
                     api_error *e)
{
    UNUSED(r);
    UNUSED(d);
    const char *only = json_string_value(json_array_get(v, 0));
    if (json_array_size(v) != 1 || !only || strcmp(only, "text") != 0)
        return api_fail(e, 400, "unsupported_value", name, "%s: want [\"text\"]", name);
    return true;
}

/* "developer" is the API's newer name of the system message; the chat form knows the older one alone. */
static bool rename_developer(json_t *messages)
{
    size_t i;
    json_t *m;
    json_array_foreach(messages, i, m)
    {
        const char *role = json_string_value(json_object_get(m, "role"));
        if (role && strcmp(role, "developer") == 0 &&
            json_object_set_new(m, "role", json_string("system")) != 0)
            return false;
    }
    return true;
}

bool request_chat_finish(request *r, api_error *e)
{
    json_t *messages = json_object_get(r->json, "messages");
    json_t *tools = json_object_get(r->json, "tools");
    const char *choice = json_string_value(json_object_get(r->json, "tool_choice"));
    bool use_tools = json_array_size(tools) > 0 && !(choice && strcmp(choice, "none") == 0);
    if (!messages || json_is_null(messages))
        return api_fail(e, 400, "missing_required_parameter", "messages",
                        "Missing required parameter: 'messages'.");
    if (choice && strcmp(choice, "auto") == 0 && json_array_size(tools) == 0)
        return api_fail(e, 400, "invalid_value", "tool_choice",
                        "tool_choice: only allowed together with tools");
    if (json_is_string(json_object_get(r->json, "reasoning_effort")) &&
        json_object_size(json_object_get(r->json, "chat_template_kwargs")) > 0)
        return api_fail(e, 400, "invalid_value", "reasoning_effort",
                        "reasoning_effort and chat_template_kwargs exclude each other");
    if (r->gen.n_top > 0 && !r->logprobs)
        return api_fail(e, 400, "invalid_value", "top_logprobs",
                        "top_logprobs: only allowed together with logprobs: true");
    if (!rename_developer(messages))
        return api_fail(e, 500, NULL, NULL, "no memory for the conversation");
    json_t *chat = json_pack("{s:O, s:b}", "messages", messages, "enable_thinking", r->thinking);
    if (chat && use_tools && json_object_set(chat, "tools", tools) != 0) {
        json_decref(chat);
        chat = NULL;
    }
    r->chat = chat ? json_dumps(chat, JSON_COMPACT) : NULL;
    json_decref(chat);
    if (r->chat && use_tools)
        r->tools = json_dumps(tools, JSON_COMPACT);
    if (!r->chat || (use_tools && !r->tools))
        return api_fail(e, 500, NULL, NULL, "no memory for the conversation");
    r->chat_len = strlen(r->chat);
    return true;
}
