/* utf8.h - one step of UTF-8 over untrusted bytes (Unicode 15, table 3-7). */
#ifndef TEXT_UTF8_H
#define TEXT_UTF8_H

#include "base/compiler.h"

typedef enum {
    UTF8_CHAR, /* a whole character */
    UTF8_BAD,  /* bytes that no following byte can make valid: a maximal subpart, 1..3 bytes */
    UTF8_CUT   /* all n bytes begin a character whose rest is missing */
} utf8_kind;

/* What s[n] begins with, n > 0; *len: its bytes. Surrogates, overlong forms and code points past
 * U+10FFFF are BAD. */
utf8_kind utf8_scan(const uint8_t *s, size_t n, size_t *len);

/* Bytes at the start of s[n] that are whole valid characters. */
size_t utf8_valid_run(const uint8_t *s, size_t n);

/* Bytes at the start of s[n] before the first whole valid character. */
size_t utf8_invalid_run(const uint8_t *s, size_t n);

#endif
