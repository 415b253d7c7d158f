/* request_fields.c - the members of a request's body, one taker each. */
#include "request_fields.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "field.h"

#define TAKER(fn) \
    static bool fn(request *r, const char *name, json_t *v, const request_defaults *d, api_error *e)
/* Not every taker needs every argument. */
#define UNUSED(x) (void)(x)

TAKER(take_model)
{
    UNUSED(d);
    return field_string(&r->model, name, v, e);
}

/* One text, one list of tokens, or a list that holds exactly one of either. */
TAKER(take_prompt)
{
    UNUSED(d);
    if (json_is_array(v) && json_array_size(v) > 0 && !json_is_integer(json_array_get(v, 0))) {
        if (json_array_size(v) != 1)
            return api_fail(e, 400, "unsupported_value", name,
                            "%s: %zu prompts; this server takes one per request", name,
                            json_array_size(v));
        v = json_array_get(v, 0);
    }
    if (json_is_array(v))
        return field_tokens(&r->prompt_tok, &r->n_prompt_tok, name, v, e);
    if (!json_is_string(v))
        return field_wrong(name, v, "a string or an array of token ids", e);
    r->prompt_text = json_string_value(v);
    r->prompt_len = json_string_length(v);
    return true;
}

TAKER(take_stream)
{
    UNUSED(d);
    return field_bool(&r->stream, name, v, e);
}

TAKER(take_stream_options)
{
    UNUSED(d);
    if (!json_is_object(v))
        return field_wrong(name, v, "an object", e);
    const char *key;
    json_t *item;
    json_object_foreach(v, key, item)
    {
        if (strcmp(key, "include_usage") == 0) {
            if (!json_is_null(item) &&
                !field_bool(&r->usage, "stream_options.include_usage", item, e))
                return false;
        } else if (strcmp(key, "include_obfuscation") == 0) {
            if (json_is_true(item))
                return api_fail(e, 400, "unsupported_value", "stream_options.include_obfuscation",
                                "stream_options.include_obfuscation: not supported");
        } else {
            return api_fail(e, 400, "unknown_parameter", name,
                            "Unknown parameter: 'stream_options.%.80s'.", key);
        }
    }
    return true;
}

/* At most so many tokens; the server's own limit is a refusal, not a silent cut. */
TAKER(take_max_tokens)
{
    json_int_t n;
    json_int_t min = r->kind == REQUEST_CHAT ? 1 : 0;
    json_int_t max = d->max_tokens > 0 ? d->max_tokens : INT32_MAX;
    if (!field_int(&n, name, v, min, max, e))
        return false;
    r->gen.n_max = (int)n;
    return true;
}

TAKER(take_min_tokens)
{
    UNUSED(d);
    json_int_t n;
    if (!field_int(&n, name, v, 0, INT32_MAX, e))
        return false;
    r->gen.n_min = (int)n;
    return true;
}

TAKER(take_temperature)
{
    UNUSED(d);
    return field_float(&r->gen.sample.temp, name, v, 0, 2, e);
}

TAKER(take_top_p)
{
    UNUSED(d);
    return field_float(&r->gen.sample.top_p, name, v, 0, 1, e);
}

TAKER(take_min_p)
{
    UNUSED(d);
    return field_float(&r->gen.sample.min_p, name, v, 0, 1, e);
}

TAKER(take_top_k)
{
    UNUSED(d);
    json_int_t k;
    if (!field_int(&k, name, v, 0, INT32_MAX, e))
        return false;
    r->gen.sample.top_k = (int)k;
    return true;
}

TAKER(take_presence)
{
    UNUSED(d);
    return field_float(&r->gen.sample.presence_penalty, name, v, -2, 2, e);
}

TAKER(take_frequency)
{
    UNUSED(d);
    return field_float(&r->gen.sample.frequency_penalty, name, v, -2, 2, e);
}

TAKER(take_repeat)
{
    UNUSED(d);
    return field_float(&r->gen.sample.repeat_penalty, name, v, 0.01, 100, e);
}

TAKER(take_repeat_last_n)
{
    UNUSED(d);
    json_int_t n;
    if (!field_int(&n, name, v, -1, INT32_MAX, e))
        return false;
    r->gen.sample.penalty_last_n = (int)n;
    return true;
}

TAKER(take_seed)
{
    UNUSED(d);
    json_int_t seed;
    if (!field_int(&seed, name, v, INT64_MIN, INT64_MAX, e))
        return false;
    r->gen.sample.seed = (uint64_t)seed;
    r->seed_given = true;
    return true;
}

/* {"token id": -100 .. 100} */
TAKER(take_bias)
{
    UNUSED(d);
    if (!json_is_object(v))
        return field_wrong(name, v, "an object", e);
    size_t n = json_object_size(v);
    if (n > REQUEST_MAX_BIAS)
        return api_fail(e, 400, "invalid_value", name, "%s: %zu tokens, want at most %d", name, n,
                        REQUEST_MAX_BIAS);
    if (n == 0)
        return true;
    r->bias = mem_calloc(n, sizeof *r->bias);
    if (!r->bias)
        return api_fail(e, 500, NULL, NULL, "%s: no memory for %zu tokens", name, n);
    int at = 0;
    const char *key;
    json_t *item;
    json_object_foreach(v, key, item)
    {
        char path[48];
        snprintf(path, sizeof path, "%s.%.20s", name, key);
        size_t len = strlen(key);
        int64_t id = 0;
        for (size_t i = 0; i < len && len <= 10; i++)
            id = key[i] >= '0' && key[i] <= '9' && id >= 0 ? id * 10 + (key[i] - '0') : -1;
        if (len == 0 || len > 10 || id < 0 || id > INT32_MAX)
            return api_fail(e, 400, "invalid_value", path, "%s: '%.20s' is no token id", name, key);
        r->bias[at].id = (int32_t)id;
        if (!field_float(&r->bias[at++].bias, path, item, -100, 100, e))
            return false;
    }
    r->gen.sample.bias = r->bias;
    r->gen.sample.n_bias = at;
    return true;
}

static bool add_stop(request *r, const char *name, const json_t *v, api_error *e)
{
    if (!field_string(&r->stop[r->gen.n_stop], name, v, e))
        return false;
    size_t len = strlen(r->stop[r->gen.n_stop]);
    if (len == 0 || len > REQUEST_MAX_STOP_BYTES)
        return api_fail(e, 400, "invalid_value", name, "%s: %zu bytes, want 1 to %d", name, len,
                        REQUEST_MAX_STOP_BYTES);
    r->gen.n_stop++;
    return true;
}

TAKER(take_stop)
{
    UNUSED(d);
    r->gen.stop = r->stop;
    if (!json_is_array(v))
        return json_is_string(v) ? add_stop(r, name, v, e)
                                 : field_wrong(name, v, "a string or an array of strings", e);
    size_t n = json_array_size(v);
    if (n > REQUEST_MAX_STOP)
        return api_fail(e, 400, "invalid_value", name, "%s: %zu texts, want at most %d", name, n,
                        REQUEST_MAX_STOP);
    for (size_t i = 0; i < n; i++) {
        char item[32];
        snprintf(item, sizeof item, "%s[%zu]", name, i);
        if (!add_stop(r, item, json_array_get(v, i), e))
            return false;
    }
    return true;
}

/* A number of alternatives in the completions API, a switch in the chat API. */
TAKER(take_logprobs)
{
    UNUSED(d);
    if (r->kind == REQUEST_CHAT)
        return field_bool(&r->logprobs, name, v, e);
    json_int_t n;
    if (!field_int(&n, name, v, 0, FT_TOP_MAX, e))
        return false;
    r->logprobs = true;
    r->gen.n_top = (int)n;
    return true;
}

TAKER(take_top_logprobs)
{
    UNUSED(d);
    json_int_t n;
    if (!field_int(&n, name, v, 0, FT_TOP_MAX, e))
        return false;
    r->gen.n_top = (int)n;
    return true;
}

TAKER(take_one)
{
    UNUSED(r);
    UNUSED(d);
    json_int_t n;
    if (!json_is_integer(v))
        return field_int(&n, name, v, 1, 1, e);
    if (json_integer_value(v) != 1)
        return api_fail(e, 400, "unsupported_value", name,
                        "%s: %" JSON_INTEGER_FORMAT "; this server gives one answer per request",
                        name, json_integer_value(v));
    return true;
}

TAKER(take_echo)
{
    UNUSED(d);
    return field_bool(&r->echo, name, v, e);
}

TAKER(take_ignore_eos)
{
    UNUSED(d);
    return field_bool(&r->gen.ignore_eos, name, v, e);
}

TAKER(take_token_details)
{
    UNUSED(d);
    return field_bool(&r->token_details, name, v, e);
}

TAKER(take_draft_max)
{
    UNUSED(d);
    json_int_t n;
    if (!field_int(&n, name, v, 0, FT_DRAFT_MAX, e))
        return false;
    r->gen.draft_max = (int)n;
    return true;
}

TAKER(take_draft_p_min)
{
    UNUSED(d);
    return field_float(&r->gen.draft_p_min, name, v, 0, 1, e);
}

TAKER(take_draft_fixed)
{
    UNUSED(d);
    return field_bool(&r->gen.draft_fixed, name, v, e);
}

/* Changes nothing in an answer: who asks, notes, hints for caches and queues that are not here. */
TAKER(take_any)
{
    UNUSED(r);
    UNUSED(name);
    UNUSED(v);
    UNUSED(d);
    UNUSED(e);
    return true;
}

/* Accepted as long as it asks for nothing. */
TAKER(take_off)
{
    UNUSED(r);
    UNUSED(d);
    if (json_is_false(v) || (json_is_array(v) && json_array_size(v) == 0))
        return true;
    return api_fail(e, 400, "unsupported_parameter", name, "%s: not supported by this server",
                    name);
}

/* The default of the API, "auto", or the ordinary tier. */
TAKER(take_tier)
{
    UNUSED(d);
    UNUSED(r);
    const char *tier;
    if (!field_string(&tier, name, v, e))
        return false;
    if (strcmp(tier, "auto") != 0 && strcmp(tier, "default") != 0)
        return api_fail(e, 400, "unsupported_value", name, "%s: '%.40s', want auto or default",
                        name, tier);
    return true;
}

#undef TAKER

enum { TEXT = REQUEST_COMPLETION, CHAT = REQUEST_CHAT, BOTH = TEXT | CHAT };

static const request_field fields[] = {
    /* The API's. */
    {"model", BOTH, take_model},
    {"prompt", TEXT, take_prompt},
    {"messages", CHAT, take_messages},
    {"stream", BOTH, take_stream},
    {"stream_options", BOTH, take_stream_options},
    {"max_tokens", BOTH, take_max_tokens},
    {"max_completion_tokens", CHAT, take_max_tokens},
    {"temperature", BOTH, take_temperature},
    {"top_p", BOTH, take_top_p},
    {"presence_penalty", BOTH, take_presence},
    {"frequency_penalty", BOTH, take_frequency},
    {"seed", BOTH, take_seed},
    {"logit_bias", BOTH, take_bias},
    {"stop", BOTH, take_stop},
    {"logprobs", BOTH, take_logprobs},
    {"top_logprobs", CHAT, take_top_logprobs},
    {"n", BOTH, take_one},
    {"best_of", TEXT, take_one},
    {"echo", TEXT, take_echo},
    {"suffix", TEXT, take_off},
    {"tools", CHAT, take_tools},
    {"tool_choice", CHAT, take_tool_choice},
    {"parallel_tool_calls", CHAT, take_parallel},
    {"response_format", CHAT, take_format},
    {"modalities", CHAT, take_modalities},
    {"reasoning_effort", CHAT, take_effort},
    {"service_tier", CHAT, take_tier},
    {"store", CHAT, take_off},
    {"audio", CHAT, take_off},
    {"prediction", CHAT, take_off},
    {"web_search_options", CHAT, take_off},
    {"functions", CHAT, take_off},
    {"function_call", CHAT, take_off},
    {"verbosity", CHAT, take_off},
    {"user", BOTH, take_any},
    {"metadata", CHAT, take_any},
    {"safety_identifier", CHAT, take_any},
    {"prompt_cache_key", CHAT, take_any},
    {"prompt_cache_retention", CHAT, take_any},
    /* This server's (docs/server.md). */
    {"chat_template_kwargs", CHAT, take_template},
    {"top_k", BOTH, take_top_k},
    {"min_p", BOTH, take_min_p},
    {"repeat_penalty", BOTH, take_repeat},
    {"repeat_last_n", BOTH, take_repeat_last_n},
    {"min_tokens", BOTH, take_min_tokens},
    {"ignore_eos", BOTH, take_ignore_eos},
    {"draft_max", BOTH, take_draft_max},
    {"draft_fixed", BOTH, take_draft_fixed},
    {"draft_p_min", BOTH, take_draft_p_min},
    {"token_details", BOTH, take_token_details},
};

const request_field *request_field_find(const char *name, request_kind kind)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if ((fields[i].kinds & (int)kind) && strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}
