/* chat_render.c - `foretoken chat --render`: the prompt of a conversation in a file. */
#include <stdlib.h>
#include <string.h>

#include "chat.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The request that the file's text stands for: an array of messages becomes an object, and
 * --no-thinking its last member, which counts if there is one of that name before. What is neither an
 * object nor an array goes on as it is, to be refused with its place. */
static void put_request(buf *b, const char *text, size_t len, bool no_thinking)
{
    size_t first = 0, last = len;
    while (first < len && is_space(text[first]))
        first++;
    while (last > first && is_space(text[last - 1]))
        last--;
    bool array = first < last && text[first] == '[';
    bool object = last - first > 2 && text[first] == '{' && text[last - 1] == '}';
    if (array)
        buf_puts(b, "{\"messages\": ");
    bool inside = object && no_thinking;
    buf_put(b, text, inside ? last - 1 : last);
    if (no_thinking && (array || object))
        buf_puts(b, ", \"enable_thinking\": false");
    if (array || inside)
        buf_putc(b, '}');
}

static int print_prompt(const chat_options *o, const ft_chat_prompt *p)
{
    if (!o->json)
        return fwrite(p->text, 1, p->len, stdout) == p->len ? EXIT_OK : EXIT_FAILED;
    json_t *j = json_pack("{s:o*}", "text", json_stringn(p->text, p->len));
    if (o->m.model) {
        json_t *tokens = json_array(), *marks = json_array();
        for (int i = 0; i < p->n_tok; i++)
            json_array_append_new(tokens, json_integer(p->tok[i]));
        for (int i = 0; i < p->n_mark; i++)
            json_array_append_new(marks, json_integer(p->mark[i]));
        json_object_set_new(j, "tokens", tokens);
        json_object_set_new(j, "marks", marks);
    }
    return print_object("chat", j);
}

int chat_render_file(const chat_options *o)
{
    char *text;
    size_t len;
    int rc = read_text("chat", o->render, &text, &len);
    if (rc >= 0)
        return rc;
    buf request;
    buf_init(&request, (size_t)2 << 30);
    put_request(&request, text, len, o->no_thinking);
    free(text);
    ft_model *m = NULL;
    if (o->m.model && (rc = open_model("chat", &o->m, &m, NULL)) >= 0) {
        buf_deinit(&request);
        return rc;
    }
    ft_error err = {0};
    ft_chat_prompt p = {0};
    ft_status st = buf_status(&request, "chat: request", &err);
    if (st == FT_OK)
        st = ft_chat_render(m, (const char *)request.data, request.len, &p, &err);
    buf_deinit(&request);
    rc = st == FT_OK ? print_prompt(o, &p) : report_failure("chat", st, &err);
    ft_chat_prompt_free(&p);
    ft_model_close(m);
    return rc;
}
