/* chat_call.c - see chat_call.h. */
#include "text/chat_call.h"

#include <string.h>

#include "text/chat.h"

/* Sets of JSON types. */
enum {
    TYPE_STRING = 1,
    TYPE_NUMBER = 2,
    TYPE_BOOLEAN = 4,
    TYPE_NULL = 8,
    TYPE_ARRAY = 16,
    TYPE_OBJECT = 32,
    TYPE_ANY = 63
};

static unsigned type_of(const jdoc_node *v)
{
    static const unsigned type[] = {TYPE_NULL,   TYPE_BOOLEAN, TYPE_BOOLEAN, TYPE_NUMBER,
                                    TYPE_STRING, TYPE_ARRAY,   TYPE_OBJECT};
    return type[v->kind];
}

/* ---- Schemas ---------------------------------------------------------------------------------- */

/* Enough for what generators of schemas write; deeper ones say nothing. */
enum { SCHEMA_DEPTH = 8 };

static unsigned named_type(jdoc_str name)
{
    static const struct {
        const char *name;
        unsigned type;
    } known[] = {{"string", TYPE_STRING},   {"number", TYPE_NUMBER}, {"integer", TYPE_NUMBER},
                 {"boolean", TYPE_BOOLEAN}, {"null", TYPE_NULL},     {"array", TYPE_ARRAY},
                 {"object", TYPE_OBJECT}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (jdoc_str_is(name, known[i].name))
            return known[i].type;
    return TYPE_ANY;
}

static unsigned schema_types(const jdoc *d, const jdoc_node *schema, int depth);

/* All that any of the alternatives allows. */
static unsigned types_of_any(const jdoc *d, const jdoc_node *list, int depth)
{
    unsigned types = 0;
    for (const jdoc_node *v = jdoc_first(d, list); v; v = jdoc_next(d, v))
        types |= schema_types(d, v, depth);
    return types ? types : TYPE_ANY;
}

/* The types that a schema allows: TYPE_ANY when it does not say. */
static unsigned schema_types(const jdoc *d, const jdoc_node *schema, int depth)
{
    if (depth == SCHEMA_DEPTH)
        return TYPE_ANY;
    unsigned types = 0;
    const jdoc_node *v = jdoc_get(d, schema, "type");
    if (jdoc_is(v, JDOC_STRING))
        return named_type(jdoc_text(d, v));
    if (jdoc_is(v, JDOC_ARRAY)) {
        for (v = jdoc_first(d, v); v; v = jdoc_next(d, v))
            types |= jdoc_is(v, JDOC_STRING) ? named_type(jdoc_text(d, v)) : TYPE_ANY;
        return types ? types : TYPE_ANY;
    }
    if ((v = jdoc_get(d, schema, "anyOf")) != NULL || (v = jdoc_get(d, schema, "oneOf")) != NULL)
        return types_of_any(d, v, depth + 1);
    if ((v = jdoc_get(d, schema, "const")) != NULL)
        return type_of(v);
    if ((v = jdoc_get(d, schema, "enum")) == NULL)
        return TYPE_ANY;
    for (v = jdoc_first(d, v); v; v = jdoc_next(d, v))
        types |= type_of(v);
    return types ? types : TYPE_ANY;
}

/* A tool's description stands in "function", as in the OpenAI API, or in the tool itself. */
static const jdoc_node *description(const jdoc *d, const jdoc_node *tool)
{
    const jdoc_node *function = jdoc_get(d, tool, "function");
    return function ? function : tool;
}

static unsigned param_types(const chat_tools *t, jdoc_str function, jdoc_str param)
{
    if (!t->any)
        return TYPE_ANY;
    const jdoc *d = &t->doc;
    for (const jdoc_node *v = jdoc_first(d, jdoc_root(d)); v; v = jdoc_next(d, v)) {
        const jdoc_node *f = description(d, v), *name = jdoc_get(d, f, "name");
        if (!jdoc_is(name, JDOC_STRING) || name->len != function.len ||
            memcmp(jdoc_text(d, name).s, function.s, function.len) != 0)
            continue;
        const jdoc_node *all = jdoc_get(d, jdoc_get(d, f, "parameters"), "properties");
        return schema_types(d, jdoc_get_str(d, all, param), 0);
    }
    return TYPE_ANY;
}

ft_status chat_tools_init(chat_tools *t, const char *tools, ft_error *err)
{
    *t = (chat_tools){0};
    if (!tools)
        return FT_OK;
    TRY(err_prefix(err, jdoc_parse(&t->doc, tools, strlen(tools), err), "tools"));
    const jdoc_node *root = jdoc_root(&t->doc);
    if (jdoc_is(root, JDOC_NULL))
        return FT_OK;
    if (!jdoc_is(root, JDOC_ARRAY))
        return err_set(err, FT_FORMAT, "tools: %s, want an array", jdoc_kind_name(root));
    int k = 0;
    for (const jdoc_node *v = jdoc_first(&t->doc, root); v; v = jdoc_next(&t->doc, v), k++)
        if (!jdoc_is(v, JDOC_OBJECT))
            return err_set(err, FT_FORMAT, "tools[%d]: %s, want an object", k, jdoc_kind_name(v));
    t->any = true;
    return FT_OK;
}

void chat_tools_deinit(chat_tools *t)
{
    jdoc_deinit(&t->doc);
    t->any = false;
}

/* ---- Values ----------------------------------------------------------------------------------- */

static jdoc_str without_frame(jdoc_str s)
{
    if (s.len > 0 && s.s[0] == '\n') {
        s.s++;
        s.len--;
    }
    if (s.len > 0 && s.s[s.len - 1] == '\n')
        s.len--;
    return s;
}

/* A word of Python for a value that is allowed, as JSON; NULL: none. */
static const char *python_word(jdoc_str s, unsigned types)
{
    if (types == TYPE_ANY)
        return NULL; /* a string as likely */
    s = chat_trim(s);
    if ((types & TYPE_BOOLEAN) && jdoc_str_is(s, "True"))
        return "true";
    if ((types & TYPE_BOOLEAN) && jdoc_str_is(s, "False"))
        return "false";
    return (types & TYPE_NULL) && jdoc_str_is(s, "None") ? "null" : NULL;
}

static ft_status put_value(buf *out, jdoc_str s, unsigned types, ft_error *err)
{
    const char *word = python_word(s, types);
    if (word) {
        buf_puts(out, word);
        return FT_OK;
    }
    /* Of several types the others are tried first: their texts are rarely meant as strings. */
    unsigned others = types == TYPE_ANY ? TYPE_ANY : types & ~(unsigned)TYPE_STRING;
    if (others) {
        jdoc d;
        ft_status st = jdoc_parse(&d, s.s, s.len, NULL);
        if (st == FT_NOMEM)
            return err_set(err, st, "chat: a parameter of %zu bytes", s.len);
        bool fits = st == FT_OK && (type_of(jdoc_root(&d)) & others);
        if (fits)
            jdoc_print(&d, jdoc_root(&d), out);
        jdoc_deinit(&d);
        if (fits)
            return FT_OK;
    }
    jdoc_print_string(s, out);
    return FT_OK;
}

static bool comes_again(const chat_param *param, size_t i, size_t n_param)
{
    jdoc_str name = param[i].name;
    for (size_t k = i + 1; k < n_param; k++)
        if (param[k].name.len == name.len && memcmp(param[k].name.s, name.s, name.len) == 0)
            return true;
    return false;
}

ft_status chat_put_arguments(buf *out, const chat_tools *t, jdoc_str function,
                             const chat_param *param, size_t n_param, ft_error *err)
{
    const char *before = "{";
    for (size_t i = 0; i < n_param; i++) {
        if (comes_again(param, i, n_param))
            continue;
        buf_puts(out, before);
        before = ", ";
        jdoc_print_string(param[i].name, out);
        buf_puts(out, ": ");
        unsigned types = param_types(t, function, param[i].name);
        TRY(put_value(out, without_frame(param[i].value), types, err));
    }
    buf_puts(out, n_param > 0 ? "}" : "{}");
    return buf_status(out, "chat: arguments of a call", err);
}
