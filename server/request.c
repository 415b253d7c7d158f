/* request.c - see request.h: the walk over a body's members, and the rules that bind several. */
#include "request.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "field.h"
#include "request_fields.h"

request_defaults request_defaults_api(void)
{
    request_defaults d = {.sample = ft_sample_params_default(), .draft_max = -1};
    d.sample.temp = 1;
    d.sample.top_k = 0;
    d.sample.top_p = 1;
    d.sample.min_p = 0;
    d.sample.penalty_last_n = -1; /* the API's penalties know no window */
    d.draft_max = ft_generate_params_default().draft_max;
    return d;
}

static bool take_members(request *r, const request_defaults *d, api_error *e)
{
    const char *key;
    json_t *v;
    json_object_foreach(r->json, key, v)
    {
        const request_field *f = request_field_find(key, r->kind);
        if (!f) {
            char shown[48] = "";
            memcpy(shown, key, strnlen(key, sizeof shown - 1));
            return api_fail(e, 400, "unknown_parameter", shown, "Unknown parameter: '%.80s'.", key);
        }
        if (!json_is_null(v) && !f->take(r, key, v, d, e))
            return false;
    }
    return true;
}

static bool present(const request *r, const char *name)
{
    const json_t *v = json_object_get(r->json, name);
    return v && !json_is_null(v);
}

/* What one field means for another. */
static bool finish(request *r, api_error *e)
{
    if (present(r, "stream_options") && !r->stream)
        return api_fail(e, 400, "invalid_value", "stream_options",
                        "stream_options: only allowed together with stream: true");
    if (present(r, "max_tokens") && present(r, "max_completion_tokens"))
        return api_fail(e, 400, "invalid_value", "max_tokens",
                        "max_tokens and max_completion_tokens exclude each other");
    if (r->kind == REQUEST_CHAT)
        return request_chat_finish(r, e);
    if (!present(r, "prompt"))
        return api_fail(e, 400, "missing_required_parameter", "prompt",
                        "Missing required parameter: 'prompt'.");
    if (r->echo && r->logprobs)
        return api_fail(e, 400, "unsupported_value", "echo",
                        "echo: not supported together with logprobs");
    return true;
}

bool request_parse(request *r, request_kind kind, const char *body, size_t len,
                   const request_defaults *d, api_error *e)
{
    *r = (request){.kind = kind, .thinking = true, .gen = ft_generate_params_default()};
    r->gen.sample = d->sample;
    r->gen.draft_max = d->draft_max;
    r->gen.n_max = d->max_tokens > 0 ? d->max_tokens : -1;
    if (kind == REQUEST_COMPLETION && (d->max_tokens == 0 || d->max_tokens > 16))
        r->gen.n_max = 16; /* the API's default */
    r->json = jsonin_object(body, len, e);
    if (r->json && take_members(r, d, e) && finish(r, e)) {
        r->gen.logprobs = r->logprobs || r->token_details;
        return true;
    }
    request_deinit(r);
    return false;
}

void request_deinit(request *r)
{
    mem_free(r->prompt_tok);
    mem_free(r->bias);
    free(r->chat);
    free(r->tools);
    json_decref(r->json);
    *r = (request){.kind = r->kind};
}

static bool take_token_member(token_request *r, bool detokenize, const char *key, json_t *v,
                              api_error *e)
{
    if (strcmp(key, detokenize ? "spell_special" : "parse_special") == 0)
        return field_bool(&r->special, key, v, e);
    if (detokenize && strcmp(key, "tokens") == 0)
        return field_tokens(&r->tok, &r->n_tok, key, v, e);
    if (!detokenize && strcmp(key, "content") == 0) {
        if (!json_is_string(v))
            return field_wrong(key, v, "a string", e);
        r->text = json_string_value(v);
        r->len = json_string_length(v);
        return true;
    }
    return api_fail(e, 400, "unknown_parameter", NULL, "Unknown parameter: '%.80s'.", key);
}

bool token_request_parse(token_request *r, bool detokenize, const char *body, size_t len,
                         api_error *e)
{
    *r = (token_request){.special = detokenize};
    r->json = jsonin_object(body, len, e);
    bool ok = r->json != NULL;
    const char *key, *want = detokenize ? "tokens" : "content";
    json_t *v;
    json_object_foreach(r->json, key, v)
    {
        ok = ok && take_token_member(r, detokenize, key, v, e);
    }
    if (ok && !json_object_get(r->json, want))
        ok = api_fail(e, 400, "missing_required_parameter", want,
                      "Missing required parameter: '%s'.", want);
    if (!ok)
        token_request_deinit(r);
    return ok;
}

void token_request_deinit(token_request *r)
{
    mem_free(r->tok);
    json_decref(r->json);
    *r = (token_request){.json = NULL};
}
