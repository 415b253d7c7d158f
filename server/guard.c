/* guard.c - see guard.h. */
#include "guard.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool is_word(const char *s, size_t len, const char *word)
{
    return strlen(word) == len && strncasecmp(s, word, len) == 0;
}

/* 127.a.b.c with numbers of one to three digits. */
static bool is_loopback_v4(const char *s, size_t len)
{
    size_t at = 0;
    for (int part = 0; part < 4; part++) {
        int n = 0, x = 0;
        for (; at < len && n < 3 && s[at] >= '0' && s[at] <= '9'; n++)
            x = x * 10 + (s[at++] - '0');
        if (n == 0 || x > 255 || (part == 0 && x != 127))
            return false;
        if (part < 3 && (at >= len || s[at++] != '.'))
            return false;
    }
    return at == len;
}

bool guard_is_loopback(const char *host, size_t len)
{
    return is_word(host, len, "localhost") || is_word(host, len, "::1") ||
           is_word(host, len, "[::1]") || is_loopback_v4(host, len);
}

/* Length of the host in "host:port"; brackets belong to it. */
static size_t host_length(const char *host)
{
    if (host[0] != '[')
        return strcspn(host, ":");
    const char *end = strchr(host, ']');
    return end ? (size_t)(end - host) + 1 : strlen(host);
}

static bool check_host(const guard *g, const char *host, api_error *e)
{
    size_t len = host ? host_length(host) : 0;
    if (host && (guard_is_loopback(host, len) || (g->name && is_word(host, len, g->name))))
        return true;
    return api_fail(e, 403, "forbidden_host", NULL,
                    "the Host header does not name this server: it is to be called by localhost or "
                    "its address, or started with --api-key");
}

/* "http://" and what Host says. */
static bool is_own_origin(const char *origin, const char *host)
{
    static const char scheme[] = "http://";
    size_t n = sizeof scheme - 1;
    return host && strncasecmp(origin, scheme, n) == 0 && strcasecmp(origin + n, host) == 0;
}

/* In a time that does not depend on where they differ. */
static bool same_key(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    unsigned diff = na != nb;
    for (size_t i = 0; i < na; i++)
        diff |= (unsigned char)a[i] ^ (unsigned char)b[nb ? i % nb : 0];
    return diff == 0;
}

bool guard_check(const guard *g, const guard_headers *h, bool open, api_error *e)
{
    if (!g->api_key && !check_host(g, h->host, e))
        return false;
    if (!g->api_key && h->origin && !is_own_origin(h->origin, h->host))
        return api_fail(e, 403, "forbidden_origin", NULL,
                        "requests of other web pages are refused; start the server with --api-key "
                        "to allow them");
    if (!g->api_key || open)
        return true;
    static const char bearer[] = "Bearer ";
    size_t n = sizeof bearer - 1;
    const char *a = h->authorization;
    if (!a)
        return api_fail(e, 401, "invalid_api_key", NULL,
                        "no API key was given: want the header 'Authorization: Bearer KEY'");
    if (strncasecmp(a, bearer, n) != 0 || !same_key(a + n, g->api_key))
        return api_fail(e, 401, "invalid_api_key", NULL, "the API key is wrong");
    return true;
}
