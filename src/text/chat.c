/* chat.c - rendering a conversation; see chat.h.
 *
 * The form is that of the published chat template of Qwen3.5 (chat_template.jinja of the model):
 *
 *   <|im_start|>system\n[# Tools ... \n\n]TEXT<|im_end|>\n
 *   <|im_start|>user\nTEXT<|im_end|>\n
 *   <|im_start|>assistant\n[<think>\nTHINKING\n</think>\n\n]TEXT[\n\n<tool_call> ... ]<|im_end|>\n
 *   <|im_start|>user\n<tool_response>\nTEXT\n</tool_response>[\n<tool_response> ... ]<|im_end|>\n
 *   <|im_start|>assistant\n<think>\n
 *
 * The think block stands in the answers behind the last question alone.
 */
#include "text/chat.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

typedef enum { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL, N_ROLE } role;

static const char *const role_name[N_ROLE] = {"system", "user", "assistant", "tool"};

typedef struct {
    const jdoc *d;
    chat_text *out;
    buf parts; /* scratch: a content of several parts */
    int last_question;
    int i; /* the message in hand, for error messages */
    ft_error *err;
} renderer;

static const char tools_begin[] =
    "# Tools\n\nYou have access to the following functions:\n\n<tools>";
/* The words are the template's: the models were trained on them. */
static const char tools_end[] =
    "\n</tools>\n\n"
    "If you choose to call a function ONLY reply in the following format with NO suffix:\n\n"
    "<tool_call>\n<function=example_function_name>\n<parameter=example_parameter_1>\nvalue_1\n"
    "</parameter>\n<parameter=example_parameter_2>\nThis is the value for the second parameter\n"
    "that can span\nmultiple "
    "lines\n</parameter>\n</function>\n</tool_call>\n\n<IMPORTANT>\nReminder:\n"
    "- Function calls MUST follow the specified format: an inner <function=...></function> block "
    "must "
    "be nested within <tool_call></tool_call> XML tags\n"
    "- Required parameters MUST be specified\n"
    "- You may provide optional reasoning for your function call in natural language BEFORE the "
    "function call, but NOT after\n"
    "- If there is no function call available, answer the question like normal with your current "
    "knowledge and do not tell the user about function calls\n</IMPORTANT>";

const char *chat_tag_text(chat_tag tag)
{
    static const char *const text[CHAT_N_TAG] = {
#define CHAT_TAG_TEXT(name, text, required) text,
        CHAT_TAG_LIST(CHAT_TAG_TEXT)
#undef CHAT_TAG_TEXT
    };
    return text[tag];
}

/* ---- Output ----------------------------------------------------------------------------------- */

static void put_data(renderer *r, jdoc_str s)
{
    buf_put(&r->out->text, s.s, s.len);
}

/* Text of the form itself, in which tags are markup. */
static void put_form(renderer *r, const char *text)
{
    for (const char *p = text; (p = strchr(p, '<')) != NULL; p++) {
        for (int tag = 0; tag < CHAT_N_TAG; tag++) {
            const char *t = chat_tag_text((chat_tag)tag);
            if (strncmp(p, t, strlen(t)) != 0)
                continue;
            chat_markup m = {r->out->text.len + (size_t)(p - text), (chat_tag)tag};
            buf_put(&r->out->markup, &m, sizeof m);
        }
    }
    buf_puts(&r->out->text, text);
}

static void end_turn(renderer *r)
{
    put_form(r, "<|im_end|>\n");
    buf_put(&r->out->turn_end, &r->out->text.len, sizeof r->out->text.len);
}

/* ---- Reading messages ------------------------------------------------------------------------- */

/* "messages[3]what": refuse the message in hand. */
static ft_status refuse(const renderer *r, const char *what, ...) PRINTF_LIKE(2, 3);
static ft_status refuse(const renderer *r, const char *what, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, what);
    vsnprintf(text, sizeof text, what, ap);
    va_end(ap);
    return err_set(r->err, FT_FORMAT, "messages[%d]%s", r->i, text);
}

/* A string of unknown length for a message: at most 40 bytes of it. */
static int shown(jdoc_str s)
{
    return s.len < 40 ? (int)s.len : 40;
}

static ft_status read_role(const renderer *r, const jdoc_node *message, role *out)
{
    if (!jdoc_is(message, JDOC_OBJECT))
        return refuse(r, ": %s, want an object", jdoc_kind_name(message));
    const jdoc_node *v = jdoc_get(r->d, message, "role");
    if (!jdoc_is(v, JDOC_STRING))
        return refuse(r, ".role: %s, want system, user, assistant or tool", jdoc_kind_name(v));
    jdoc_str s = jdoc_text(r->d, v);
    for (int i = 0; i < N_ROLE; i++) {
        if (jdoc_str_is(s, role_name[i])) {
            *out = (role)i;
            return FT_OK;
        }
    }
    return refuse(r, ".role: '%.*s', want system, user, assistant or tool", shown(s), s.s);
}

/* Part k of a content, appended to r->parts. What makes a part an image or a video is the template's
 * rule. */
static ft_status read_part(renderer *r, const jdoc_node *part, int k)
{
    static const char *const medium[] = {"image", "image_url", "video"};
    if (!jdoc_is(part, JDOC_OBJECT))
        return refuse(r, ".content[%d]: %s, want an object", k, jdoc_kind_name(part));
    const jdoc_node *type = jdoc_get(r->d, part, "type");
    jdoc_str t = jdoc_is(type, JDOC_STRING) ? jdoc_text(r->d, type) : (jdoc_str){"", 0};
    for (size_t i = 0; i < ARRAY_LEN(medium); i++)
        if (jdoc_get(r->d, part, medium[i]) || jdoc_str_is(t, medium[i]))
            return refuse(r, ".content[%d]: of type '%s', want text: other media are not read", k,
                          medium[i]);
    const jdoc_node *text = jdoc_get(r->d, part, "text");
    if (!text)
        return refuse(r, ".content[%d]: of type '%.*s' without a text, want text", k, shown(t),
                      t.s);
    if (!jdoc_is(text, JDOC_STRING))
        return refuse(r, ".content[%d].text: %s, want a string", k, jdoc_kind_name(text));
    jdoc_str s = jdoc_text(r->d, text);
    buf_put(&r->parts, s.s, s.len);
    return FT_OK;
}

/* The content of a message, trimmed: valid until the next one is read. */
static ft_status read_content(renderer *r, const jdoc_node *message, jdoc_str *out)
{
    *out = (jdoc_str){"", 0};
    const jdoc_node *v = jdoc_get(r->d, message, "content");
    if (!v)
        return FT_OK;
    if (jdoc_is(v, JDOC_STRING)) {
        *out = chat_trim(jdoc_text(r->d, v));
        return FT_OK;
    }
    if (!jdoc_is(v, JDOC_ARRAY))
        return refuse(r, ".content: %s, want a string or an array of parts", jdoc_kind_name(v));
    buf_clear(&r->parts);
    int k = 0;
    for (v = jdoc_first(r->d, v); v; v = jdoc_next(r->d, v))
        TRY(read_part(r, v, k++));
    TRY(buf_status(&r->parts, "chat: a content of several parts", r->err));
    const char *text = buf_cstr(&r->parts);
    *out = chat_trim((jdoc_str){text, r->parts.len});
    return FT_OK;
}

/* ---- System and tools ------------------------------------------------------------------------- */

static ft_status put_tools(renderer *r, const jdoc_node *tools)
{
    put_form(r, tools_begin);
    int k = 0;
    for (const jdoc_node *t = jdoc_first(r->d, tools); t; t = jdoc_next(r->d, t), k++) {
        if (!jdoc_is(t, JDOC_OBJECT))
            return err_set(r->err, FT_FORMAT, "tools[%d]: %s, want an object", k,
                           jdoc_kind_name(t));
        put_form(r, "\n");
        jdoc_print(r->d, t, &r->out->text);
    }
    put_form(r, tools_end);
    return FT_OK;
}

/* The first turn; message: the caller's system message, NULL: none; tools NULL: none. */
static ft_status put_system(renderer *r, const jdoc_node *message, const jdoc_node *tools)
{
    if (!message && !tools)
        return FT_OK;
    put_form(r, "<|im_start|>system\n");
    if (tools)
        TRY(put_tools(r, tools));
    jdoc_str text = {"", 0};
    if (message)
        TRY(read_content(r, message, &text));
    if (tools && text.len > 0)
        put_form(r, "\n\n");
    put_data(r, text);
    end_turn(r);
    return FT_OK;
}

/* ---- Answers of the assistant ----------------------------------------------------------------- */

/* A value as the template prints it: strings as they are, single values by Python's str(), arrays and
 * objects as JSON. */
static void put_value(renderer *r, const jdoc *d, const jdoc_node *v)
{
    static const char *const word[] = {"None", "False", "True"};
    if (v->kind == JDOC_STRING)
        put_data(r, jdoc_text(d, v));
    else if (v->kind <= JDOC_TRUE)
        buf_puts(&r->out->text, word[v->kind]);
    else
        jdoc_print(d, v, &r->out->text);
}

static void put_parameters(renderer *r, const jdoc *d, const jdoc_node *arguments)
{
    for (const jdoc_node *v = jdoc_first(d, arguments); v; v = jdoc_next(d, v)) {
        put_form(r, "<parameter=");
        put_data(r, jdoc_key(d, v));
        put_form(r, ">\n");
        put_value(r, d, v);
        put_form(r, "\n</parameter>\n");
    }
}

/* Arguments as an object, or as a string that holds one; absent or an empty string: none. */
static ft_status put_arguments(renderer *r, const jdoc_node *v, int k)
{
    if (!v || (v->kind == JDOC_STRING && v->len == 0))
        return FT_OK;
    if (jdoc_is(v, JDOC_OBJECT)) {
        put_parameters(r, r->d, v);
        return FT_OK;
    }
    if (!jdoc_is(v, JDOC_STRING))
        return refuse(r, ".tool_calls[%d].arguments: %s, want an object or JSON of one", k,
                      jdoc_kind_name(v));
    jdoc_str s = jdoc_text(r->d, v);
    jdoc inner;
    ft_status st = jdoc_parse(&inner, s.s, s.len, r->err);
    if (st != FT_OK)
        return err_prefix(r->err, st, "messages[%d].tool_calls[%d].arguments", r->i, k);
    if (jdoc_is(jdoc_root(&inner), JDOC_OBJECT))
        put_parameters(r, &inner, jdoc_root(&inner));
    else
        st = refuse(r, ".tool_calls[%d].arguments: JSON of %s, want one of an object", k,
                    jdoc_kind_name(jdoc_root(&inner)));
    jdoc_deinit(&inner);
    return st;
}

/* Call k of a message; its fields may stand in "function", as in the OpenAI API, or in itself. */
static ft_status put_call(renderer *r, const jdoc_node *call, int k)
{
    const jdoc_node *function = jdoc_get(r->d, call, "function");
    if (!jdoc_is(call, JDOC_OBJECT) || (function && !jdoc_is(function, JDOC_OBJECT)))
        return refuse(r, ".tool_calls[%d]: %s, want an object with a function", k,
                      jdoc_kind_name(function ? function : call));
    if (!function)
        function = call;
    const jdoc_node *name = jdoc_get(r->d, function, "name");
    if (!jdoc_is(name, JDOC_STRING))
        return refuse(r, ".tool_calls[%d]: the function's name is %s, want a string", k,
                      jdoc_kind_name(name));
    put_form(r, "<tool_call>\n<function=");
    put_data(r, jdoc_text(r->d, name));
    put_form(r, ">\n");
    TRY(put_arguments(r, jdoc_get(r->d, function, "arguments"), k));
    put_form(r, "</function>\n</tool_call>");
    return FT_OK;
}

static ft_status put_calls(renderer *r, const jdoc_node *message, bool behind_text)
{
    const jdoc_node *calls = jdoc_get(r->d, message, "tool_calls");
    if (!calls)
        return FT_OK;
    if (!jdoc_is(calls, JDOC_ARRAY))
        return refuse(r, ".tool_calls: %s, want an array", jdoc_kind_name(calls));
    int k = 0;
    for (const jdoc_node *c = jdoc_first(r->d, calls); c; c = jdoc_next(r->d, c), k++) {
        if (k > 0)
            put_form(r, "\n");
        else if (behind_text)
            put_form(r, "\n\n");
        TRY(put_call(r, c, k));
    }
    return FT_OK;
}

/* The first place of word in s, or its last one; NULL: none. */
static const char *find(jdoc_str s, const char *word, bool last)
{
    size_t n = strlen(word);
    const char *found = NULL;
    for (size_t i = 0; i + n <= s.len && (last || !found); i++)
        if (s.s[i] == '<' && memcmp(s.s + i, word, n) == 0)
            found = s.s + i;
    return found;
}

/* Thinking that is written inside a content, as an answer's raw text has it: what stands before the
 * first </think> and behind the last <think> there. The answer is what follows the last </think>. */
static void split_thinking(jdoc_str *content, jdoc_str *thinking)
{
    static const char open[] = "<think>", close[] = "</think>";
    const char *first = find(*content, close, false);
    if (!first)
        return;
    *thinking = (jdoc_str){content->s, (size_t)(first - content->s)};
    const char *begin = find(*thinking, open, true);
    if (begin) {
        begin += strlen(open);
        *thinking = (jdoc_str){begin, (size_t)(first - begin)};
    }
    const char *rest = find(*content, close, true) + strlen(close);
    const char *end = content->s + content->len;
    while (rest < end && *rest == '\n')
        rest++;
    *content = (jdoc_str){rest, (size_t)(end - rest)};
}

static ft_status put_assistant(renderer *r, const jdoc_node *message)
{
    jdoc_str content, thinking = {"", 0};
    TRY(read_content(r, message, &content));
    const jdoc_node *reasoning = jdoc_get(r->d, message, "reasoning_content");
    if (!reasoning)
        split_thinking(&content, &thinking);
    else if (jdoc_is(reasoning, JDOC_STRING))
        thinking = jdoc_text(r->d, reasoning);
    else
        return refuse(r, ".reasoning_content: %s, want a string", jdoc_kind_name(reasoning));
    put_form(r, "<|im_start|>assistant\n");
    if (r->i > r->last_question) {
        put_form(r, "<think>\n");
        put_data(r, chat_trim(thinking));
        put_form(r, "\n</think>\n\n");
    }
    put_data(r, content);
    TRY(put_calls(r, message, chat_trim(content).len > 0));
    end_turn(r);
    return FT_OK;
}

/* ---- The whole -------------------------------------------------------------------------------- */

static bool looks_like_tool_answer(jdoc_str s)
{
    const char *open = chat_tag_text(CHAT_TOOL_RESPONSE);
    const char *close = chat_tag_text(CHAT_TOOL_RESPONSE_END);
    size_t n = strlen(open), m = strlen(close);
    return s.len >= n && s.len >= m && memcmp(s.s, open, n) == 0 &&
           memcmp(s.s + s.len - m, close, m) == 0;
}

/* Roles and their order, and the last question: a user message that is no tool answer. */
static ft_status check_roles(renderer *r, const jdoc_node *messages)
{
    r->last_question = -1;
    r->i = 0;
    for (const jdoc_node *m = jdoc_first(r->d, messages); m; m = jdoc_next(r->d, m), r->i++) {
        role who;
        TRY(read_role(r, m, &who));
        if (who == ROLE_SYSTEM && r->i > 0)
            return refuse(r, ": a system message, want it at the beginning alone");
        if (who == ROLE_TOOL && r->i == 0)
            return refuse(r, ": a tool answer, want another message before it");
        if (who != ROLE_USER)
            continue;
        jdoc_str text;
        TRY(read_content(r, m, &text));
        if (!looks_like_tool_answer(text))
            r->last_question = r->i;
    }
    if (r->i == 0)
        return err_set(r->err, FT_FORMAT, "messages: empty, want at least one");
    if (r->last_question < 0)
        return err_set(r->err, FT_FORMAT,
                       "messages: none of %d asks, want a user message that is no tool answer",
                       r->i);
    return FT_OK;
}

static ft_status put_messages(renderer *r, const jdoc_node *messages, const jdoc_node *tools)
{
    role who = ROLE_USER, before = ROLE_USER, after = ROLE_USER;
    const jdoc_node *m = jdoc_first(r->d, messages);
    TRY(read_role(r, m, &after));
    r->i = 0;
    TRY(put_system(r, after == ROLE_SYSTEM ? m : NULL, tools));
    if (r->out->text.len == 0) /* the system message ends where it would begin */
        buf_put(&r->out->turn_end, &r->out->text.len, sizeof r->out->text.len);
    for (const jdoc_node *next; m; m = next, r->i++) {
        before = who;
        who = after;
        next = jdoc_next(r->d, m);
        if (next)
            TRY(read_role(r, next, &after));
        if (who == ROLE_ASSISTANT)
            TRY(put_assistant(r, m));
        if (who != ROLE_USER && who != ROLE_TOOL)
            continue;
        jdoc_str text;
        TRY(read_content(r, m, &text));
        if (who == ROLE_USER || before != ROLE_TOOL)
            put_form(r, "<|im_start|>user");
        put_form(r, who == ROLE_TOOL ? "\n<tool_response>\n" : "\n");
        put_data(r, text);
        if (who == ROLE_TOOL)
            put_form(r, "\n</tool_response>");
        if (who == ROLE_USER || !next || after != ROLE_TOOL)
            end_turn(r);
    }
    return FT_OK;
}

/* A member that is true or false; dflt when absent. */
static ft_status read_flag(const renderer *r, const char *name, bool dflt, bool *out)
{
    const jdoc_node *v = jdoc_get(r->d, jdoc_root(r->d), name);
    *out = v ? jdoc_is(v, JDOC_TRUE) : dflt;
    if (v && !jdoc_is(v, JDOC_TRUE) && !jdoc_is(v, JDOC_FALSE))
        return err_set(r->err, FT_FORMAT, "%s: %s, want true or false", name, jdoc_kind_name(v));
    return FT_OK;
}

static ft_status render(renderer *r)
{
    const jdoc_node *root = jdoc_root(r->d);
    if (!jdoc_is(root, JDOC_OBJECT))
        return err_set(r->err, FT_FORMAT, "the conversation is %s, want an object with messages",
                       jdoc_kind_name(root));
    bool thinking, prompt;
    TRY(read_flag(r, "enable_thinking", true, &thinking));
    TRY(read_flag(r, "add_generation_prompt", true, &prompt));
    const jdoc_node *messages = jdoc_get(r->d, root, "messages");
    if (!jdoc_is(messages, JDOC_ARRAY))
        return err_set(r->err, FT_FORMAT, "messages: %s, want an array", jdoc_kind_name(messages));
    const jdoc_node *tools = jdoc_get(r->d, root, "tools");
    if (tools && !jdoc_is(tools, JDOC_ARRAY))
        return err_set(r->err, FT_FORMAT, "tools: %s, want an array", jdoc_kind_name(tools));
    TRY(check_roles(r, messages));
    TRY(put_messages(r, messages, tools && tools->child ? tools : NULL));
    if (prompt)
        put_form(r, thinking ? "<|im_start|>assistant\n<think>\n"
                             : "<|im_start|>assistant\n<think>\n\n</think>\n\n");
    TRY(buf_status(&r->out->text, "chat: text", r->err));
    TRY(buf_status(&r->out->markup, "chat: markup", r->err));
    return buf_status(&r->out->turn_end, "chat: turns", r->err);
}

ft_status chat_render(chat_text *out, const char *json, size_t len, ft_error *err)
{
    *out = (chat_text){0};
    jdoc d;
    TRY(jdoc_parse(&d, json, len, err));
    buf_init(&out->text, CHAT_MAX_TEXT);
    buf_init(&out->markup, CHAT_MAX_TEXT);
    buf_init(&out->turn_end, CHAT_MAX_TEXT);
    renderer r = {.d = &d, .out = out, .err = err};
    buf_init(&r.parts, JDOC_MAX_BYTES);
    ft_status st = render(&r);
    buf_deinit(&r.parts);
    jdoc_deinit(&d);
    if (st != FT_OK)
        chat_text_deinit(out);
    return st;
}

void chat_text_deinit(chat_text *c)
{
    buf_deinit(&c->text);
    buf_deinit(&c->markup);
    buf_deinit(&c->turn_end);
    *c = (chat_text){0};
}
