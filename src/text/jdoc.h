/* jdoc.h - JSON as a tree that forgets nothing: numbers keep their text, members their order.
 *
 * 1. It takes RFC 8259, up to JDOC_MAX_BYTES, JDOC_MAX_NODE values and JDOC_MAX_DEPTH levels of
 *    arrays and objects, in valid UTF-8, without halves of surrogate pairs and without numbers that
 *    are no finite double unless they are written as integers.
 * 2. A name that is given twice in an object counts once: at its first place, with its last value,
 *    as in Python's json.
 * 3. The tree does not refer to the bytes it was read from.
 */
#ifndef TEXT_JDOC_H
#define TEXT_JDOC_H

#include "base/buf.h"

#define JDOC_MAX_BYTES ((size_t)32 << 20)
#define JDOC_MAX_NODE  ((size_t)1 << 20)
#define JDOC_MAX_DEPTH 128
#define JDOC_MAX_FLOAT 1000 /* characters of a number with a fraction or an exponent */

typedef enum {
    JDOC_NULL,
    JDOC_FALSE,
    JDOC_TRUE,
    JDOC_NUMBER,
    JDOC_STRING,
    JDOC_ARRAY,
    JDOC_OBJECT
} jdoc_kind;

typedef struct {
    const char *s; /* [len], any bytes; no NUL behind it */
    size_t len;
} jdoc_str;

/* A value, and its name where it is a member of an object. Places are bytes in jdoc.text. */
typedef struct {
    uint32_t kind;         /* of jdoc_kind */
    uint32_t key, key_len; /* the name */
    uint32_t at, len;      /* NUMBER: as written; STRING: decoded */
    uint32_t child, next;  /* index of the first value inside, and of the next beside; 0: none */
} jdoc_node;

typedef struct {
    char *text; /* owned */
    buf node;   /* of jdoc_node; the first is the root */
} jdoc;

/* Read all of bytes [n]. Errors: FORMAT (line and column), RANGE (a limit), NOMEM. d is then empty;
 * jdoc_deinit takes it all the same. */
ft_status jdoc_parse(jdoc *d, const char *bytes, size_t n, ft_error *err) MUST_CHECK;
void jdoc_deinit(jdoc *d); /* d zeroed or parsed */

const jdoc_node *jdoc_root(const jdoc *d);
/* The first value in an array or object, and the one behind v; NULL: none. */
const jdoc_node *jdoc_first(const jdoc *d, const jdoc_node *v);
const jdoc_node *jdoc_next(const jdoc *d, const jdoc_node *v);
/* The member of that name; NULL when it is absent or null, or v is NULL or no object. */
const jdoc_node *jdoc_get(const jdoc *d, const jdoc_node *v, const char *name);
/* The same for any bytes as name. */
const jdoc_node *jdoc_get_str(const jdoc *d, const jdoc_node *v, jdoc_str name);
jdoc_str jdoc_key(const jdoc *d, const jdoc_node *v);
/* Content of a string, text of a number; "" for others. */
jdoc_str jdoc_text(const jdoc *d, const jdoc_node *v);
bool jdoc_is(const jdoc_node *v, jdoc_kind kind); /* false for NULL */
bool jdoc_str_is(jdoc_str s, const char *text);
/* "null", "a boolean", "a number", ...: for messages. */
const char *jdoc_kind_name(const jdoc_node *v);

/* The double that a JSON number of at most JDOC_MAX_FLOAT characters stands for, whatever the locale. */
double jdoc_double(jdoc_str number);
/* Append v as Python's json.dumps(v, ensure_ascii=False) prints it: ", " and ": ", integers as they
 * are, other numbers by the shortest digits that give the same double. */
void jdoc_print(const jdoc *d, const jdoc_node *v, buf *out);
void jdoc_print_number(jdoc_str number, buf *out);
/* A JSON string; what is no UTF-8 in s becomes U+FFFD. */
void jdoc_print_string(jdoc_str s, buf *out);

#endif
