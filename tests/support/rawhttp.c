/* rawhttp.c - see rawhttp.h. */
#include "support/rawhttp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REPLY_LIMIT = 1 << 28 };

static void need(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int raw_connect(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    need(fd >= 0, "socket");
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(connect(fd, (const struct sockaddr *)&a, sizeof a) == 0, "connect");
    return fd;
}

bool raw_send(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t k = send(fd, bytes, n, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return false;
        bytes += k;
        n -= (size_t)k;
    }
    return true;
}

bool raw_puts(int fd, const char *text)
{
    return raw_send(fd, text, strlen(text));
}

/* More bytes into b; false: none until the deadline, or the end. */
static bool fill(int fd, buf *b, double deadline)
{
    double left = deadline - seconds_now();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (left <= 0 || poll(&p, 1, (int)(left * 1000) + 1) <= 0)
        return false;
    char part[65536];
    ssize_t n = recv(fd, part, sizeof part, 0);
    if (n <= 0)
        return false;
    buf_put(b, part, (size_t)n);
    need(!b->failed, "reply");
    return true;
}

/* Bytes [at, at + n) are there. */
static bool have(int fd, buf *b, size_t n, double deadline)
{
    while (b->len < n)
        if (!fill(fd, b, deadline))
            return false;
    return true;
}

/* End of the line that begins at `at`, behind \r\n; 0: none came. */
static size_t line_end(int fd, buf *b, size_t at, double deadline)
{
    for (size_t i = at;; i++) {
        if (!have(fd, b, i + 2, deadline))
            return 0;
        if (b->data[i] == '\r' && b->data[i + 1] == '\n')
            return i + 2;
    }
}

static const char *find_header(const raw_reply *r, const char *name)
{
    size_t n = strlen(name);
    for (const char *line = strstr(r->head, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, n) == 0 && line[2 + n] == ':')
            return line + 3 + n + strspn(line + 3 + n, " ");
    return NULL;
}

static size_t read_chunks(int fd, raw_reply *r, buf *b, size_t at, double deadline)
{
    for (;;) {
        size_t end = line_end(fd, b, at, deadline);
        if (end == 0)
            return b->len;
        size_t n = (size_t)strtoull((const char *)b->data + at, NULL, 16);
        if (!have(fd, b, end + n + 2, deadline))
            return b->len;
        buf_put(&r->body, b->data + end, n);
        at = end + n + 2;
        if (n == 0) {
            r->complete = true;
            return at;
        }
    }
}

static size_t read_body(int fd, raw_reply *r, buf *b, size_t at, double deadline)
{
    const char *length = find_header(r, "Content-Length");
    const char *coding = find_header(r, "Transfer-Encoding");
    r->chunked = coding && strncasecmp(coding, "chunked", 7) == 0;
    if (r->chunked)
        return read_chunks(fd, r, b, at, deadline);
    size_t n = length ? (size_t)strtoull(length, NULL, 10) : 0;
    r->complete = have(fd, b, at + n, deadline);
    size_t got = r->complete ? n : b->len - at;
    buf_put(&r->body, b->data + at, got);
    return at + got;
}

void raw_read(int fd, raw_reply *r, double seconds, buf *buffered, bool head_only)
{
    *r = (raw_reply){0};
    buf_init(&r->body, REPLY_LIMIT);
    buf own;
    buf_init(&own, REPLY_LIMIT);
    buf *b = buffered ? buffered : &own;
    double deadline = seconds_now() + seconds;
    size_t at = 0, end;
    while ((end = line_end(fd, b, at, deadline)) > 0 && end - at > 2)
        at = end;
    if (end > 0) {
        r->head = malloc(end + 1);
        need(r->head != NULL, "head");
        memcpy(r->head, b->data, end);
        r->head[end] = '\0';
        r->status = strncmp(r->head, "HTTP/1.1 ", 9) == 0 ? (int)strtol(r->head + 9, NULL, 10) : -1;
        const char *connection = find_header(r, "Connection");
        r->close = connection && strncasecmp(connection, "close", 5) == 0;
        if (head_only)
            r->complete = true;
        else
            end = read_body(fd, r, b, end, deadline);
        memmove(b->data, b->data + end, b->len - end);
        b->len -= end;
    }
    need(buf_cstr(&r->body) != NULL, "body");
    buf_deinit(&own);
}

void raw_reply_free(raw_reply *r)
{
    free(r->head);
    buf_deinit(&r->body);
    *r = (raw_reply){0};
}

bool raw_closed(int fd, double seconds)
{
    double deadline = seconds_now() + seconds;
    for (;;) {
        double left = deadline - seconds_now();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0 || poll(&p, 1, (int)(left * 1000) + 1) <= 0)
            return false;
        char part[65536];
        if (recv(fd, part, sizeof part, 0) <= 0)
            return true;
    }
}

void raw_format(buf *out, int port, const char *method, const char *path, const char *headers,
                const char *body)
{
    buf_printf(out, "%s %s HTTP/1.1\r\n", method, path);
    if (!headers || !strstr(headers, "Host:"))
        buf_printf(out, "Host: 127.0.0.1:%d\r\n", port);
    buf_puts(out, headers ? headers : "");
    if (body)
        buf_printf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    buf_puts(out, "\r\n");
    buf_puts(out, body ? body : "");
}

void raw_request(int port, const char *method, const char *path, const char *headers,
                 const char *body, raw_reply *r)
{
    buf b;
    buf_init(&b, REPLY_LIMIT);
    raw_format(&b, port, method, path, headers, body);
    int fd = raw_connect(port);
    raw_send(fd, (const char *)b.data, b.len);
    raw_read(fd, r, 60, NULL, strcmp(method, "HEAD") == 0);
    close(fd);
    buf_deinit(&b);
}

void raw_post(int port, const char *path, const char *json, raw_reply *r)
{
    raw_request(port, "POST", path, NULL, json, r);
}
