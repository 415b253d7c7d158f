/* route.c - which endpoint answers. */
#include <string.h>

#include "exchange.h"

static const route routes[] = {
    {"GET", "/", true, endpoint_page},
    {"GET", "/health", true, endpoint_health},
    {"GET", "/metrics", false, endpoint_metrics},
    {"GET", "/v1/models", false, endpoint_models},
    {"GET", "/v1/models/*", false, endpoint_model},
    {"POST", "/v1/completions", false, endpoint_completions},
    {"POST", "/v1/chat/completions", false, endpoint_chat},
    {"POST", "/tokenize", false, endpoint_tokenize},
    {"POST", "/detokenize", false, endpoint_detokenize},
};

static bool matches(const char *pattern, const char *path)
{
    size_t n = strlen(pattern);
    if (pattern[n - 1] == '*')
        return strncmp(pattern, path, n - 1) == 0 && path[n - 1];
    return strcmp(pattern, path) == 0;
}

const route *route_find(const char *method, const char *path, const char **allow, api_error *e)
{
    *allow = NULL;
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        if (!matches(routes[i].path, path))
            continue;
        if (strcmp(routes[i].method, wanted) == 0)
            return &routes[i];
        *allow = routes[i].method;
    }
    if (*allow)
        api_fail(e, 405, "method_not_allowed", NULL, "%.16s is not allowed here, want %s", method,
                 *allow);
    else
        api_fail(e, 404, "unknown_url", NULL, "Invalid URL (%.16s %.120s)", method, path);
    return NULL;
}
