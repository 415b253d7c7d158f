/* endpoints.c - the endpoints that answer at once. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "exchange.h"
#include "page.h"

/* The object (taken; NULL: no memory) as the reply. */
static bool reply_json(exchange *x, json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text)
        return api_fail(&x->err, 500, NULL, NULL, "no memory for the answer");
    buf_puts(&x->reply, text);
    free(text);
    x->type = "application/json";
    return true;
}

bool endpoint_page(exchange *x)
{
    buf_put(&x->reply, page_html, page_html_len);
    x->type = "text/html; charset=utf-8";
    x->policy = page_policy;
    return true;
}

bool endpoint_health(exchange *x)
{
    if (atomic_load(&x->s->stopping))
        return api_fail(&x->err, 503, "shutting_down", NULL, "the server is shutting down");
    return reply_json(x, json_pack("{s:s}", "status", "ok"));
}

bool endpoint_metrics(exchange *x)
{
    x->type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_write(x->s->metrics, queue_length(x->s->queue), conns_count(x->s->conns), &x->reply);
    return true;
}

static json_t *model_object(const server *s)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:{s:s, s:s, s:i, s:i, s:i, s:b, s:s}}", "id",
                     s->p.model_name, "object", "model", "created", (json_int_t)s->created,
                     "owned_by", "foretoken", "meta", "architecture", s->info.arch, "name",
                     s->info.name, "vocab", s->info.n_vocab, "context", worker_n_ctx(s->worker),
                     "context_trained", s->info.n_ctx_train, "drafts", s->info.has_mtp,
                     "no_drafts_reason", s->info.no_mtp_reason);
}

bool endpoint_models(exchange *x)
{
    return reply_json(x, json_pack("{s:s, s:[o]}", "object", "list", "data", model_object(x->s)));
}

bool endpoint_model(exchange *x)
{
    const char *id = x->path + strlen("/v1/models/");
    if (strcmp(id, x->s->p.model_name) != 0)
        return api_fail(&x->err, 404, "model_not_found", "model",
                        "The model '%.100s' does not exist; this server has '%.100s'", id,
                        x->s->p.model_name);
    return reply_json(x, model_object(x->s));
}

bool endpoint_tokenize(exchange *x)
{
    token_request r;
    if (!token_request_parse(&r, false, (const char *)x->body.data, x->body.len, &x->err))
        return false;
    int32_t *tok;
    size_t n;
    ft_error err = {0};
    ft_status st = ft_tokenize(x->s->model, r.text, r.len, r.special, &tok, &n, &err);
    token_request_deinit(&r);
    if (st != FT_OK)
        return api_fail_status(&x->err, st, "content", &err);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(tok[i]));
    ft_free(tok);
    return reply_json(x, json_pack("{s:o}", "tokens", list));
}

bool endpoint_detokenize(exchange *x)
{
    token_request r;
    if (!token_request_parse(&r, true, (const char *)x->body.data, x->body.len, &x->err))
        return false;
    char *text;
    size_t len;
    ft_error err = {0};
    ft_status st = ft_detokenize(x->s->model, r.tok, (size_t)r.n_tok, r.special, &text, &len, &err);
    token_request_deinit(&r);
    if (st != FT_OK)
        return api_fail_status(&x->err, st, "tokens", &err);
    json_t *content = json_stringn(text, len);
    ft_free(text);
    return reply_json(x, json_pack("{s:o}", "content", content));
}
