/* chat.c - the public face of the chat form (text/chat.h, text/chat_parser.h). */
#include "text/chat.h"

#include "base/mem.h"
#include "engine/engine.h"
#include "text/chat_parser.h"

struct ft_chat_parser {
    chat_parser *p; /* owned */
};

/* Tokens of a rendered conversation. */
static ft_status encode(const ft_model *m, const chat_text *c, ft_chat_prompt *out, ft_error *err)
{
    if (!m->tok)
        return err_set(err, FT_UNSUPPORTED, "chat: %s has no tokenizer", gguf_path(m->file));
    buf ids, mark;
    buf_init(&ids, (size_t)INT32_MAX);
    buf_init(&mark, (size_t)INT32_MAX);
    ft_status st = chat_encode(c, m->tok, &ids, &mark, err);
    if (st != FT_OK) {
        buf_deinit(&ids);
        buf_deinit(&mark);
        return st;
    }
    out->tok = (int32_t *)(void *)ids.data;
    out->n_tok = (int)(ids.len / sizeof *out->tok);
    out->mark = (int *)(void *)mark.data;
    out->n_mark = (int)(mark.len / sizeof *out->mark);
    return FT_OK;
}

ft_status ft_chat_render(const ft_model *m, const char *json, size_t len, ft_chat_prompt *out,
                         ft_error *err)
{
    *out = (ft_chat_prompt){0};
    chat_text c;
    TRY(chat_render(&c, json, len, err));
    ft_status st = m ? encode(m, &c, out, err) : FT_OK;
    if (st == FT_OK && !buf_cstr(&c.text)) /* writes the NUL */
        st = buf_status(&c.text, "chat: text", err);
    if (st == FT_OK) {
        out->text = (char *)c.text.data;
        out->len = c.text.len;
        c.text = (buf){0}; /* taken */
    }
    chat_text_deinit(&c);
    return st;
}

void ft_chat_prompt_free(ft_chat_prompt *p)
{
    if (!p)
        return;
    mem_free(p->text);
    mem_free(p->tok);
    mem_free(p->mark);
    *p = (ft_chat_prompt){0};
}

ft_status ft_chat_parser_create(ft_chat_parser **out, bool thinking, const char *tools,
                                ft_chat_event_fn *fn, void *ctx, ft_error *err)
{
    *out = NULL;
    if (!fn)
        return err_set(err, FT_ARG, "chat: a parser without a callback");
    ft_chat_parser *p = mem_zalloc(sizeof *p);
    if (!p)
        return err_set(err, FT_NOMEM, "chat: a parser");
    ft_status st = chat_parser_create(&p->p, thinking, tools, fn, ctx, err);
    if (st == FT_OK)
        *out = p;
    else
        mem_free(p);
    return st;
}

void ft_chat_parser_free(ft_chat_parser *p)
{
    if (!p)
        return;
    chat_parser_free(p->p);
    mem_free(p);
}

ft_status ft_chat_parser_put(ft_chat_parser *p, const char *text, size_t len, ft_error *err)
{
    return chat_parser_put(p->p, text, len, err);
}

ft_status ft_chat_parser_finish(ft_chat_parser *p, ft_error *err)
{
    return chat_parser_finish(p->p, err);
}
