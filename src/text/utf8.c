/* utf8.c - see utf8.h. */
#include "text/utf8.h"

utf8_kind utf8_scan(const uint8_t *s, size_t n, size_t *len)
{
    *len = 1;
    uint8_t b = s[0];
    if (b < 0x80)
        return UTF8_CHAR;
    if (b < 0xC2 || b > 0xF4)
        return UTF8_BAD;
    size_t want = b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
    /* The second byte is the only one whose range depends on the first. */
    uint8_t lo = b == 0xE0 ? 0xA0 : b == 0xF0 ? 0x90 : 0x80;
    uint8_t hi = b == 0xED ? 0x9F : b == 0xF4 ? 0x8F : 0xBF;
    for (size_t i = 1; i < want; i++) {
        *len = i;
        if (i == n)
            return UTF8_CUT;
        if (s[i] < lo || s[i] > hi)
            return UTF8_BAD;
        lo = 0x80;
        hi = 0xBF;
    }
    *len = want;
    return UTF8_CHAR;
}

size_t utf8_valid_run(const uint8_t *s, size_t n)
{
    size_t pos = 0, len;
    while (pos < n && utf8_scan(s + pos, n - pos, &len) == UTF8_CHAR)
        pos += len;
    return pos;
}

size_t utf8_invalid_run(const uint8_t *s, size_t n)
{
    size_t pos = 0, len;
    while (pos < n && utf8_scan(s + pos, n - pos, &len) != UTF8_CHAR)
        pos += len;
    return pos;
}
