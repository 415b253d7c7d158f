/* Property: any bytes as a body are a checked request or an error of the client's with a message that is
 * JSON; what was accepted holds the ranges that the engine asks for. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "server/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void check_error(const api_error *e)
{
    require(e->status == 400 && e->msg[0]);
    buf out;
    buf_init(&out, 1 << 16);
    api_error_write(e, &out);
    json_t *j = json_loadb((const char *)out.data, out.len, 0, NULL);
    require(j && json_object_get(json_object_get(j, "error"), "message"));
    json_decref(j);
    buf_deinit(&out);
}

static void check_request(const request *r)
{
    const ft_generate_params *p = &r->gen;
    ft_error err = {0};
    require(ft_sample_params_check(&p->sample, &err) == FT_OK);
    require(p->n_max >= -1 && p->n_min >= 0 && p->n_top >= 0 && p->n_top <= FT_TOP_MAX);
    require(p->n_stop >= 0 && p->n_stop <= REQUEST_MAX_STOP);
    for (int i = 0; i < p->n_stop; i++)
        require(p->stop[i][0]);
    require(p->draft_max >= 0 && p->draft_max <= FT_DRAFT_MAX);
    if (r->kind == REQUEST_CHAT)
        require(r->chat && strlen(r->chat) == r->chat_len);
    else
        require(r->prompt_text || r->prompt_tok || r->n_prompt_tok == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const request_kind kinds[] = {REQUEST_COMPLETION, REQUEST_CHAT};
    request_defaults d = request_defaults_api();
    for (int i = 0; i < 2; i++) {
        request r;
        api_error e = {0};
        if (request_parse(&r, kinds[i], (const char *)data, size, &d, &e))
            check_request(&r);
        else
            check_error(&e);
        request_deinit(&r);
        token_request t;
        e = (api_error){0};
        if (!token_request_parse(&t, i, (const char *)data, size, &e))
            check_error(&e);
        token_request_deinit(&t);
    }
    return 0;
}
