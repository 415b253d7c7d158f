/* chat_encode.c - a rendered conversation as tokens; see chat.h. */
#include <string.h>

#include "text/chat.h"

/* The ids of the tags; -1: the vocabulary has none. */
static ft_status find_tags(const tokenizer *t, int32_t id[CHAT_N_TAG], ft_error *err)
{
    static const bool required[CHAT_N_TAG] = {
#define CHAT_TAG_REQUIRED(name, text, required) required,
        CHAT_TAG_LIST(CHAT_TAG_REQUIRED)
#undef CHAT_TAG_REQUIRED
    };
    for (int tag = 0; tag < CHAT_N_TAG; tag++) {
        const char *text = chat_tag_text((chat_tag)tag);
        id[tag] = tok_find_special(t, text, strlen(text));
        if (id[tag] < 0 && required[tag])
            return err_set(err, FT_UNSUPPORTED,
                           "chat: the vocabulary has no special token '%s', want one", text);
    }
    return FT_OK;
}

ft_status chat_encode(const chat_text *c, const tokenizer *t, buf *ids, buf *mark, ft_error *err)
{
    int32_t id[CHAT_N_TAG];
    TRY(find_tags(t, id, err));
    const char *text = (const char *)c->text.data;
    const chat_markup *m = (const chat_markup *)(const void *)c->markup.data;
    const size_t *turn = (const size_t *)(const void *)c->turn_end.data;
    size_t n_markup = c->markup.len / sizeof *m, n_turn = c->turn_end.len / sizeof *turn;
    size_t done = 0, k = 0;
    /* A turn ends at the markup that begins the next one, or at the end of the text. */
    for (size_t i = 0; i <= n_markup; i++) {
        if (i < n_markup && id[m[i].tag] < 0)
            continue; /* a part of the run of text around it */
        size_t at = i < n_markup ? m[i].at : c->text.len;
        TRY(tok_encode(t, text + done, at - done, TOK_PLAIN, ids, err));
        if (k < n_turn && turn[k] == at) {
            int n = (int)(ids->len / sizeof(int32_t)); /* fits: CHAT_MAX_TEXT */
            buf_put(mark, &n, sizeof n);
            k++;
        }
        if (i == n_markup)
            break;
        buf_put(ids, &id[m[i].tag], sizeof id[0]);
        done = at + strlen(chat_tag_text(m[i].tag));
    }
    TRY(buf_status(mark, "chat: marks", err));
    return buf_status(ids, "chat: ids", err);
}
