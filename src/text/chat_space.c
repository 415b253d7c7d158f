/* chat_space.c - whitespace as the chat template trims it: that of Python's str.isspace(), which are
 * the characters of Unicode's classes Zs, B, S and WS (Unicode 15). */
#include <string.h>

#include "text/chat.h"

/* Those of several bytes. */
static const char *const wide[] = {"\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80",
                                   "\xE2\x80\x81", "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84",
                                   "\xE2\x80\x85", "\xE2\x80\x86", "\xE2\x80\x87", "\xE2\x80\x88",
                                   "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8", "\xE2\x80\xA9",
                                   "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"};

static bool is_narrow(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
}

/* Bytes of the whitespace character at the start of s, or at its end; 0: there is none. */
static size_t space_len(jdoc_str s, bool at_end)
{
    if (s.len == 0)
        return 0;
    if (is_narrow((unsigned char)s.s[at_end ? s.len - 1 : 0]))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        size_t n = strlen(wide[i]);
        if (n <= s.len && memcmp(s.s + (at_end ? s.len - n : 0), wide[i], n) == 0)
            return n;
    }
    return 0;
}

jdoc_str chat_trim_start(jdoc_str s)
{
    for (size_t n; (n = space_len(s, false)) > 0;) {
        s.s += n;
        s.len -= n;
    }
    return s;
}

jdoc_str chat_trim_end(jdoc_str s)
{
    for (size_t n; (n = space_len(s, true)) > 0;)
        s.len -= n;
    return s;
}

jdoc_str chat_trim(jdoc_str s)
{
    return chat_trim_end(chat_trim_start(s));
}
