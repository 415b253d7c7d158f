/* chat.h - a conversation as the text that the models were trained on, and as its tokens.
 *
 * The text is that of the published chat template of Qwen3.5, to the byte; docs/chat.md describes it.
 * 1. Markup is what the form itself writes. What messages, tools and calls say is data: text there
 *    that spells a special token stays text.
 * 2. Text between two special tokens is encoded as one run, so the ids are those of the rendered text
 *    as a whole, where no message spells a special token.
 */
#ifndef TEXT_CHAT_H
#define TEXT_CHAT_H

#include "text/jdoc.h"
#include "text/text.h"

/* What the form writes as special tokens. X(name, text, required): a vocabulary without one of the
 * others gets its letters, as the published tokenizer would. */
#define CHAT_TAG_LIST(X)                       \
    X(IM_START, "<|im_start|>", true)          \
    X(IM_END, "<|im_end|>", true)              \
    X(THINK, "<think>", true)                  \
    X(THINK_END, "</think>", true)             \
    X(TOOL_CALL, "<tool_call>", false)         \
    X(TOOL_CALL_END, "</tool_call>", false)    \
    X(TOOL_RESPONSE, "<tool_response>", false) \
    X(TOOL_RESPONSE_END, "</tool_response>", false)

typedef enum {
#define CHAT_TAG_ENUM(name, text, required) CHAT_##name,
    CHAT_TAG_LIST(CHAT_TAG_ENUM)
#undef CHAT_TAG_ENUM
        CHAT_N_TAG
} chat_tag;

/* Markup in a text: a tag at byte `at`. */
typedef struct {
    size_t at;
    chat_tag tag;
} chat_markup;

#define CHAT_MAX_TEXT ((size_t)256 << 20)

typedef struct {
    buf text;
    buf markup; /* of chat_markup, ascending */
    buf turn_end; /* of size_t, ascending: bytes of text behind the system message (0 without one), and
                   * behind every further one; tool answers in a row are one turn. Not behind the generation
                   * prompt */
} chat_text;

/* The conversation in json [len], as ft_chat_render takes it. *out is empty after a failure, and for
 * chat_text_deinit in any case. Errors: FORMAT (not JSON, or what the form refuses: names the message
 * by its index), RANGE (too large), NOMEM. */
ft_status chat_render(chat_text *out, const char *json, size_t len, ft_error *err) MUST_CHECK;
void chat_text_deinit(chat_text *c); /* c zeroed or rendered */

/* Append the ids of c to ids (a buf of int32_t), and for each turn end the number of ids up to it to
 * mark (a buf of int). Errors: UNSUPPORTED (t lacks a required tag), RANGE, NOMEM. */
ft_status chat_encode(const chat_text *c, const tokenizer *t, buf *ids, buf *mark,
                      ft_error *err) MUST_CHECK;

/* The text of a tag; a static string. */
const char *chat_tag_text(chat_tag tag);

/* s without the whitespace at its start, or at its end, or both: that of Python's str.strip(). */
jdoc_str chat_trim_start(jdoc_str s);
jdoc_str chat_trim_end(jdoc_str s);
jdoc_str chat_trim(jdoc_str s);

#endif
