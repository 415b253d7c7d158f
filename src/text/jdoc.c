/* jdoc.c - reading JSON (RFC 8259) into a tree, and finding one's way in it; see jdoc.h. */
#include "text/jdoc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/utf8.h"

typedef struct {
    jdoc *d;
    const uint8_t *bytes; /* borrowed: strings are decoded in place in d->text, never here */
    size_t n, pos;
    buf keys; /* scratch of drop_twice */
    ft_error *err;
} reader;

static ft_status bad(const reader *r, size_t at, const char *what)
{
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = r->bytes[i] == '\n' ? 1 : column + 1;
        line += r->bytes[i] == '\n';
    }
    return err_set(r->err, FT_FORMAT, "JSON: line %zu, column %zu: %s", line, column, what);
}

/* The byte at pos; -1 at the end. */
static int peek(const reader *r)
{
    return r->pos < r->n ? r->bytes[r->pos] : -1;
}

static bool take(reader *r, int c)
{
    bool is = peek(r) == c;
    r->pos += is;
    return is;
}

static void skip_space(reader *r)
{
    while (peek(r) == ' ' || peek(r) == '\t' || peek(r) == '\n' || peek(r) == '\r')
        r->pos++;
}

static jdoc_node *node_at(const jdoc *d, uint32_t i)
{
    return (jdoc_node *)(void *)d->node.data + i;
}

/* A new node: its index, as nodes move when there are more of them. */
static ft_status new_node(reader *r, uint32_t *i)
{
    size_t n = r->d->node.len / sizeof(jdoc_node);
    if (n == JDOC_MAX_NODE)
        return err_set(r->err, FT_RANGE, "JSON: over %zu values", JDOC_MAX_NODE);
    jdoc_node *v = buf_extend(&r->d->node, sizeof *v);
    if (!v)
        return err_set(r->err, FT_NOMEM, "JSON: %zu values", n + 1);
    *v = (jdoc_node){0};
    *i = (uint32_t)n;
    return FT_OK;
}

/* ---- Strings and numbers ---------------------------------------------------------------------- */

/* The four digits of \u at pos. */
static ft_status read_hex4(reader *r, uint32_t *unit)
{
    *unit = 0;
    for (int i = 0; i < 4; i++, r->pos++) {
        int c = peek(r);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return bad(r, r->pos, "\\u without four hexadecimal digits");
        *unit = *unit << 4 | (uint32_t)digit;
    }
    return FT_OK;
}

/* The character behind "\u" at pos, of one unit or two. */
static ft_status read_unicode(reader *r, uint32_t *c)
{
    size_t at = r->pos;
    TRY(read_hex4(r, c));
    if (*c < 0xD800 || *c > 0xDFFF)
        return FT_OK;
    uint32_t low = 0;
    if (*c <= 0xDBFF && take(r, '\\') && take(r, 'u'))
        TRY(read_hex4(r, &low));
    if (low < 0xDC00 || low > 0xDFFF)
        return bad(r, at, "half of a surrogate pair");
    *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
    return FT_OK;
}

/* UTF-8 of c; returns its bytes. */
static size_t put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3F));
    out[0] = (char)(c | (n == 2 ? 0xC0 : n == 3 ? 0xE0 : 0xF0));
    return n;
}

/* The escape at pos; its character to out, of fewer bytes than the escape has. */
static ft_status read_escape(reader *r, char *out, size_t *n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    size_t at = r->pos++;
    *n = 1;
    if (take(r, 'u')) {
        uint32_t c;
        TRY(read_unicode(r, &c));
        *n = put_utf8(out, c);
        return FT_OK;
    }
    const char *p = peek(r) > 0 ? strchr(from, peek(r)) : NULL;
    if (!p)
        return bad(r, at, "an unknown escape");
    *out = to[p - from];
    r->pos++;
    return FT_OK;
}

/* The string whose opening quote is at pos, decoded at its own place. */
static ft_status read_string(reader *r, uint32_t *at, uint32_t *len)
{
    size_t quote = r->pos++, w = r->pos;
    *at = (uint32_t)w;
    for (int c; (c = peek(r)) != '"';) {
        if (c < 0)
            return bad(r, quote, "a string without an end");
        if (c < 0x20)
            return bad(r, r->pos, "a control character in a string, want an escape");
        size_t n = 1;
        if (c == '\\')
            TRY(read_escape(r, r->d->text + w, &n));
        else
            r->d->text[w] = (char)r->bytes[r->pos++];
        w += n;
    }
    r->pos++;
    *len = (uint32_t)w - *at;
    return FT_OK;
}

/* Digits at pos, at least one. */
static ft_status skip_digits(reader *r)
{
    size_t at = r->pos;
    while (peek(r) >= '0' && peek(r) <= '9')
        r->pos++;
    return r->pos > at ? FT_OK : bad(r, at, "want a digit");
}

static ft_status read_number(reader *r, jdoc_node *v)
{
    size_t at = r->pos;
    bool integer = true;
    take(r, '-');
    if (!take(r, '0'))
        TRY(skip_digits(r));
    if (take(r, '.')) {
        integer = false;
        TRY(skip_digits(r));
    }
    if (take(r, 'e') || take(r, 'E')) {
        integer = false;
        if (!take(r, '+'))
            take(r, '-');
        TRY(skip_digits(r));
    }
    *v = (jdoc_node){.kind = JDOC_NUMBER, .at = (uint32_t)at, .len = (uint32_t)(r->pos - at)};
    if (integer)
        return FT_OK;
    if (v->len > JDOC_MAX_FLOAT)
        return bad(r, at, "a fraction or an exponent in a number of over 1000 characters");
    return isfinite(jdoc_double(jdoc_text(r->d, v))) ? FT_OK : bad(r, at, "a number out of range");
}

static ft_status read_word(reader *r, jdoc_node *v)
{
    static const struct {
        const char *text;
        jdoc_kind kind;
    } word[] = {{"null", JDOC_NULL}, {"false", JDOC_FALSE}, {"true", JDOC_TRUE}};
    for (size_t i = 0; i < ARRAY_LEN(word); i++) {
        size_t len = strlen(word[i].text);
        if (len <= r->n - r->pos && memcmp(r->bytes + r->pos, word[i].text, len) == 0) {
            r->pos += len;
            *v = (jdoc_node){.kind = word[i].kind};
            return FT_OK;
        }
    }
    return bad(r, r->pos, r->pos == r->n ? "the end, want a value" : "want a value");
}

/* ---- Arrays and objects ----------------------------------------------------------------------- */

/* A member for the search of equal names. */
typedef struct {
    const char *s;
    uint32_t len, i; /* i ascends in the order of the text */
} member;

static int by_name(const void *pa, const void *pb)
{
    const member *a = pa, *b = pb;
    int d = memcmp(a->s, b->s, a->len < b->len ? a->len : b->len);
    if (d == 0)
        d = (a->len > b->len) - (a->len < b->len);
    return d != 0 ? d : (a->i > b->i) - (a->i < b->i);
}

static bool same_name(const member *a, const member *b)
{
    return a->len == b->len && memcmp(a->s, b->s, a->len) == 0;
}

/* Members of an object whose name comes again later: the first gets the last one's value, the others
 * are taken out. Sorting keeps this n log n for hostile objects. */
static ft_status drop_twice(reader *r, uint32_t object)
{
    buf_clear(&r->keys);
    for (uint32_t i = node_at(r->d, object)->child; i != 0; i = node_at(r->d, i)->next) {
        jdoc_str key = jdoc_key(r->d, node_at(r->d, i));
        buf_put(&r->keys, &(member){key.s, (uint32_t)key.len, i}, sizeof(member));
    }
    if (r->keys.failed)
        return err_set(r->err, FT_NOMEM, "JSON: names of an object");
    member *m = (member *)(void *)r->keys.data;
    size_t n = r->keys.len / sizeof *m;
    if (n < 2)
        return FT_OK;
    qsort(m, n, sizeof *m, by_name);
    bool any = false;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && same_name(&m[i], &m[end]);)
            end++;
        jdoc_node *first = node_at(r->d, m[i].i);
        const jdoc_node *last = node_at(r->d, m[end - 1].i);
        first->kind = last->kind;
        first->at = last->at;
        first->len = last->len;
        first->child = last->child;
        for (size_t k = i + 1; k < end; k++, any = true)
            node_at(r->d, m[k].i)->kind = UINT32_MAX; /* out with it */
    }
    uint32_t i = node_at(r->d, object)->child; /* never out itself: nothing comes before it */
    for (; any && i != 0; i = node_at(r->d, i)->next)
        while (node_at(r->d, i)->next != 0 &&
               node_at(r->d, node_at(r->d, i)->next)->kind == UINT32_MAX)
            node_at(r->d, i)->next = node_at(r->d, node_at(r->d, i)->next)->next;
    return FT_OK;
}

static ft_status read_value(reader *r, uint32_t i, int depth);

/* The name of a member and its colon. */
static ft_status read_name(reader *r, uint32_t i)
{
    if (peek(r) != '"')
        return bad(r, r->pos, "want a name in quotes");
    uint32_t key, len;
    TRY(read_string(r, &key, &len));
    jdoc_node *v = node_at(r->d, i);
    v->key = key;
    v->key_len = len;
    skip_space(r);
    return take(r, ':') ? FT_OK : bad(r, r->pos, "want ':' behind a name");
}

/* The array or object whose opening bracket is at pos, into node i. */
static ft_status read_items(reader *r, uint32_t i, bool object, int depth)
{
    const char close = object ? '}' : ']';
    if (depth == JDOC_MAX_DEPTH)
        return bad(r, r->pos, "nested more than 128 deep");
    r->pos++;
    node_at(r->d, i)->kind = object ? JDOC_OBJECT : JDOC_ARRAY;
    skip_space(r);
    if (take(r, close))
        return FT_OK;
    for (uint32_t last = 0;;) {
        uint32_t item;
        TRY(new_node(r, &item));
        skip_space(r);
        if (object)
            TRY(read_name(r, item));
        TRY(read_value(r, item, depth + 1));
        if (last == 0)
            node_at(r->d, i)->child = item;
        else
            node_at(r->d, last)->next = item;
        last = item;
        skip_space(r);
        if (take(r, close))
            return object ? drop_twice(r, i) : FT_OK;
        if (!take(r, ','))
            return bad(r, r->pos, object ? "want ',' or '}'" : "want ',' or ']'");
    }
}

/* The value at pos, whitespace before it, into node i, whose name is kept. */
static ft_status read_value(reader *r, uint32_t i, int depth)
{
    skip_space(r);
    int c = peek(r);
    if (c == '{' || c == '[')
        return read_items(r, i, c == '{', depth);
    jdoc_node v = {.kind = JDOC_STRING};
    if (c == '"')
        TRY(read_string(r, &v.at, &v.len));
    else if (c == '-' || (c >= '0' && c <= '9'))
        TRY(read_number(r, &v));
    else
        TRY(read_word(r, &v));
    jdoc_node *out = node_at(r->d, i);
    v.key = out->key;
    v.key_len = out->key_len;
    *out = v;
    return FT_OK;
}

static ft_status read_all(reader *r)
{
    size_t valid = utf8_valid_run(r->bytes, r->n);
    if (valid < r->n)
        return bad(r, valid, "invalid UTF-8");
    uint32_t root;
    TRY(new_node(r, &root));
    TRY(read_value(r, root, 0));
    skip_space(r);
    return r->pos == r->n ? FT_OK : bad(r, r->pos, "more text behind the value");
}

ft_status jdoc_parse(jdoc *d, const char *bytes, size_t n, ft_error *err)
{
    *d = (jdoc){0};
    if (n > JDOC_MAX_BYTES)
        return err_set(err, FT_RANGE, "JSON: %zu bytes, want at most %zu", n, JDOC_MAX_BYTES);
    buf_init(&d->node, JDOC_MAX_NODE * sizeof(jdoc_node));
    d->text = mem_strndup(n > 0 ? bytes : "", n);
    if (!d->text)
        return err_set(err, FT_NOMEM, "JSON: %zu bytes", n);
    reader r = {.d = d, .bytes = (const uint8_t *)bytes, .n = n, .err = err};
    buf_init(&r.keys, JDOC_MAX_NODE * sizeof(member));
    ft_status st = read_all(&r);
    buf_deinit(&r.keys);
    if (st != FT_OK)
        jdoc_deinit(d);
    return st;
}

void jdoc_deinit(jdoc *d)
{
    mem_free(d->text);
    buf_deinit(&d->node);
    *d = (jdoc){0};
}

/* ---- Looking ---------------------------------------------------------------------------------- */

const jdoc_node *jdoc_root(const jdoc *d)
{
    return node_at(d, 0);
}

const jdoc_node *jdoc_first(const jdoc *d, const jdoc_node *v)
{
    return v->child ? node_at(d, v->child) : NULL;
}

const jdoc_node *jdoc_next(const jdoc *d, const jdoc_node *v)
{
    return v->next ? node_at(d, v->next) : NULL;
}

const jdoc_node *jdoc_get_str(const jdoc *d, const jdoc_node *v, jdoc_str name)
{
    if (!jdoc_is(v, JDOC_OBJECT))
        return NULL;
    for (v = jdoc_first(d, v); v; v = jdoc_next(d, v)) {
        jdoc_str key = jdoc_key(d, v);
        if (key.len == name.len && memcmp(key.s, name.s, name.len) == 0)
            return v->kind == JDOC_NULL ? NULL : v;
    }
    return NULL;
}

const jdoc_node *jdoc_get(const jdoc *d, const jdoc_node *v, const char *name)
{
    return jdoc_get_str(d, v, (jdoc_str){name, strlen(name)});
}

jdoc_str jdoc_key(const jdoc *d, const jdoc_node *v)
{
    return (jdoc_str){d->text + v->key, v->key_len};
}

jdoc_str jdoc_text(const jdoc *d, const jdoc_node *v)
{
    return (jdoc_str){d->text + v->at, v->len};
}

bool jdoc_is(const jdoc_node *v, jdoc_kind kind)
{
    return v && v->kind == (uint32_t)kind;
}

bool jdoc_str_is(jdoc_str s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.s, text, s.len) == 0;
}

const char *jdoc_kind_name(const jdoc_node *v)
{
    static const char *const name[] = {"null",     "a boolean", "a boolean", "a number",
                                       "a string", "an array",  "an object"};
    return v ? name[v->kind] : "absent";
}
