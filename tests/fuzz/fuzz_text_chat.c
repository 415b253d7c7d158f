/* Property: any bytes render or are refused with a message; the text is UTF-8 whose markup is where it is
 * said to be, and nothing else becomes a special token. An answer of any bytes gives the same events
 * however it is cut, and the arguments of its calls are JSON. */
#include <stdlib.h>
#include <string.h>

#include "support/chat_events.h"
#include "support/toy_tok.h"
#include "text/chat.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool ok)
{
    if (!ok)
        abort();
}

static const tokenizer *open_tokenizer(void)
{
    static tokenizer *t;
    static toy_vocab v;
    if (t)
        return t;
    toy_init(&v);
    for (int tag = 0; tag < CHAT_N_TAG; tag++)
        toy_special(&v, chat_tag_text((chat_tag)tag), TOKEN_CONTROL);
    require(tok_create(&t, &v.src, NULL) == FT_OK);
    return t;
}

static void check_rendered(const chat_text *c)
{
    const chat_markup *m = (const chat_markup *)(const void *)c->markup.data;
    size_t n_markup = c->markup.len / sizeof *m, n_special = 0;
    require(utf8_valid_run(c->text.data, c->text.len) == c->text.len);
    for (size_t i = 0; i < n_markup; i++) {
        const char *tag = chat_tag_text(m[i].tag);
        require(m[i].at + strlen(tag) <= c->text.len && (i == 0 || m[i].at > m[i - 1].at));
        require(memcmp(c->text.data + m[i].at, tag, strlen(tag)) == 0);
    }
    buf ids, mark;
    buf_init(&ids, 1 << 24);
    buf_init(&mark, 1 << 24);
    require(chat_encode(c, open_tokenizer(), &ids, &mark, NULL) == FT_OK);
    const int32_t *id = (const int32_t *)(const void *)ids.data;
    for (size_t i = 0; i < ids.len / sizeof *id; i++)
        n_special += tok_is_special(open_tokenizer(), id[i]);
    require(n_special == n_markup);
    require(mark.len / sizeof(int) == c->turn_end.len / sizeof(size_t));
    buf_deinit(&ids);
    buf_deinit(&mark);
}

static void check_render(const char *s, size_t n)
{
    chat_text c;
    ft_error err = {0};
    if (chat_render(&c, s, n, &err) == FT_OK)
        check_rendered(&c);
    else
        require(err.code != FT_OK && err.msg[0] != '\0');
    chat_text_deinit(&c);
}

/* Pieces of 1 .. 8 bytes, by a generator. */
static size_t some_bytes(void *ctx, size_t at, size_t n)
{
    uint32_t *x = ctx;
    *x = *x * 1664525u + 1013904223u;
    size_t len = 1 + (*x >> 29);
    return len < n - at ? len : n - at;
}

/* Every F( NAME ARGUMENTS ) of the parser, as it comes. */
static bool check_call(void *ctx, const ft_chat_event *e)
{
    (void)ctx;
    jdoc d;
    if (e->kind != FT_CHAT_TOOL_CALL)
        return true;
    require(e->name[0] != '\0' &&
            jdoc_parse(&d, e->arguments, strlen(e->arguments), NULL) == FT_OK);
    require(jdoc_is(jdoc_root(&d), JDOC_OBJECT));
    jdoc_deinit(&d);
    return true;
}

static void check_answer(uint8_t how, const char *s, size_t n)
{
    static const char tools[] = "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":"
                                "\"string\"},\"b\":{\"type\":[\"boolean\",\"null\"]}}}}]";
    const char *t = how & 4 ? tools : NULL;
    bool thinking = how & 2;
    chat_events whole, cut;
    uint32_t seed = how;
    require(chat_events_of(&whole, thinking, t, s, n, NULL, NULL, NULL) == FT_OK);
    require(chat_events_of(&cut, thinking, t, s, n, some_bytes, &seed, NULL) == FT_OK);
    require(whole.text.len == cut.text.len);
    require(cut.text.len == 0 || memcmp(whole.text.data, cut.text.data, cut.text.len) == 0);
    buf_deinit(&whole.text);
    buf_deinit(&cut.text);
    chat_parser *p;
    require(chat_parser_create(&p, thinking, t, check_call, NULL, NULL) == FT_OK);
    require(chat_parser_put(p, s, n, NULL) == FT_OK && chat_parser_finish(p, NULL) == FT_OK);
    chat_parser_free(p);
}

/* The first byte says which: even, an answer, and how it is cut; odd, a conversation. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 1 << 16)
        return 0;
    const char *s = (const char *)data + 1;
    if (data[0] & 1)
        check_render(s, size - 1);
    else
        check_answer(data[0], s, size - 1);
    return 0;
}
