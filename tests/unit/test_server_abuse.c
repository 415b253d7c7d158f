/* test_server_abuse.c - clients that send wrong, slowly, too much or not at all, over raw sockets. */
#include <sys/resource.h>
#include <sys/socket.h>

#include "support/serverrig.h"

static rig_server rig;

/* A body of 64 KiB at most, half a second to send, a context in which answers last. */
static int start(void **state)
{
    (void)state;
    server_params p = rig_server_params();
    p.session.n_ctx = 16384;
    p.n_slot = 2;
    p.limits.body_bytes = 65536;
    p.limits.read_seconds = 0.6;
    p.limits.write_seconds = 0.6;
    rig_server_start(&rig, &p);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rig_server_stop(&rig);
    return 0;
}

/* The server is there, and nothing is left of what was done to it. */
static void assert_well(void)
{
    assert_true(rig_wait_metric(&rig, "foretoken_slots_busy", 0, 5));
    assert_true(rig_wait_metric(&rig, "foretoken_queue_length", 0, 5));
    json_t *j = rig_ask(&rig, "/v1/completions",
                        "{\"prompt\": \"a\", \"max_tokens\": 2, \"ignore_eos\": true}");
    assert_int_equal(rig_int(j, "usage.completion_tokens"), 2);
    json_decref(j);
}

static const char small_ask[] = "{\"prompt\": \"hen\", \"max_tokens\": 3, \"seed\": 1}";

/* The status that bytes on a connection of their own are answered with; 0: it was closed. */
static int status_of(const char *bytes, size_t n)
{
    int fd = raw_connect(rig.port);
    raw_send(fd, bytes, n);
    raw_reply r;
    raw_read(fd, &r, 5, NULL, false);
    int status = r.status;
    raw_reply_free(&r);
    close(fd);
    return status;
}

static int status_of_text(const char *text)
{
    return status_of(text, strlen(text));
}

/* Would catch a parser that wants a request in one piece. */
static void test_request_byte_by_byte_is_answered(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 4096);
    raw_format(&b, rig.port, "POST", "/v1/completions", NULL, small_ask);
    int fd = raw_connect(rig.port);
    for (size_t i = 0; i < b.len; i++)
        assert_true(raw_send(fd, (const char *)b.data + i, 1));
    raw_reply r;
    raw_read(fd, &r, 10, NULL, false);
    assert_int_equal(r.status, 200);
    raw_reply_free(&r);
    close(fd);
    buf_deinit(&b);
}

/* Would catch a limit on silence alone: a byte now and then keeps such a connection for ever. */
static void test_slow_sender_is_cut_off_however_it_sends(void **state)
{
    (void)state;
    static const char body[] = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
                               "Content-Length: 1000\r\n\r\n{";
    static const char *const begin[] = {"", "POST /v1/comp",
                                        "POST /health HTTP/1.1\r\nHost: localhost\r\n", body};
    for (size_t i = 0; i < ARRAY_LEN(begin); i++) {
        int fd = raw_connect(rig.port);
        raw_puts(fd, begin[i]);
        bool open = true;
        int n = 0;
        for (; open && n < 100; n++) { /* a byte every 50 ms */
            open = !raw_closed(fd, 0.05) && (i == 0 || raw_puts(fd, "x"));
        }
        assert_true(n >= 5 && n < 60);
        close(fd);
    }
    assert_well();
}

/* B109, B110: would catch a body that is read although its length says that it is too large. */
static void test_body_over_the_limit_is_refused_before_it_is_read(void **state)
{
    (void)state;
    static const char *const length[] = {"65537", "1099511627776", "18446744073709551615"};
    for (size_t i = 0; i < ARRAY_LEN(length); i++) {
        char head[256];
        snprintf(head, sizeof head,
                 "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\n",
                 length[i]);
        int fd = raw_connect(rig.port);
        raw_puts(fd, head);
        raw_reply r;
        raw_read(fd, &r, 5, NULL, false);
        assert_int_equal(r.status, 413);
        assert_non_null(strstr((char *)r.body.data, "larger than 65536 bytes"));
        raw_reply_free(&r);
        assert_true(raw_closed(fd, 2));
        close(fd);
    }
    assert_well();
}

/* B110: would catch the limit itself being refused. */
static void test_body_just_below_the_limit_is_taken(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 1 << 20);
    buf_puts(&b, "{\"content\": \"");
    while (b.len < 65536 - 2)
        buf_putc(&b, 'a');
    buf_puts(&b, "\"}");
    assert_int_equal(b.len, 65536);
    json_t *j = rig_ask(&rig, "/tokenize", buf_cstr(&b));
    assert_true(json_array_size(json_object_get(j, "tokens")) > 1000);
    json_decref(j);
    buf_deinit(&b);
}

static void test_chunked_body_over_the_limit_is_refused(void **state)
{
    (void)state;
    static char chunk[1 << 14];
    memset(chunk, 'a', sizeof chunk);
    int fd = raw_connect(rig.port);
    raw_puts(
        fd,
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 5; i++) /* 80 KiB, then the end: the client hears why */
        raw_puts(fd, "4000\r\n"), raw_send(fd, chunk, sizeof chunk), raw_puts(fd, "\r\n");
    raw_puts(fd, "0\r\n\r\n");
    raw_reply r;
    raw_read(fd, &r, 5, NULL, false);
    assert_int_equal(r.status, 413);
    raw_reply_free(&r);
    close(fd);
    fd = raw_connect(rig.port);
    raw_puts(
        fd,
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    bool open = true;
    int n = 0;
    for (; open && n < 10000; n++) /* no end at all */
        open =
            raw_puts(fd, "4000\r\n") && raw_send(fd, chunk, sizeof chunk) && raw_puts(fd, "\r\n");
    assert_false(open);
    assert_true(n < 2000);
    close(fd);
    assert_well();
}

/* B110: would catch 100 MB that go to memory on their way to being refused. */
static void test_hundred_megabytes_are_not_kept(void **state)
{
    (void)state;
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    size_t n = (size_t)100 << 20;
    static char part[1 << 16];
    memset(part, ' ', sizeof part);
    int fd = raw_connect(rig.port);
    raw_puts(
        fd,
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857600\r\n\r\n");
    size_t sent = 0;
    while (sent < n && raw_send(fd, part, sizeof part))
        sent += sizeof part;
    assert_true(sent < n);
    close(fd);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 32 * 1024);
    assert_well();
}

/* B107: would catch a parser that recurses over a body. */
static void test_deep_json_is_refused(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 1 << 20);
    for (int field = 0; field < 2; field++) {
        buf_clear(&b);
        buf_puts(&b, field ? "{\"tools\": " : "{\"x\": ");
        for (int i = 0; i < 30000; i++)
            buf_puts(&b, i % 2 ? "[" : "[");
        rig_refused(&rig, "/v1/chat/completions", buf_cstr(&b), 400, "invalid_json", "nested");
    }
    buf_deinit(&b);
}

static void test_bytes_that_are_no_text_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"{\"prompt\": \"\xff\"}", "{\"prompt\": \"\xc0\xaf\"}",
                                        "{\"prompt\": \"\xed\xa0\x80\"}", "\xef\xbb\xbf{}",
                                        "{\"prompt\": \"\xf4\x90\x80\x80\"}"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        rig_refused(&rig, "/v1/completions", wrong[i], 400, "invalid_json", "line 1");
}

/* Would catch a length that is believed although there are two, or that smuggles a second request. */
static void test_wrong_lengths_are_refused_or_cut_off(void **state)
{
    (void)state;
    static const char *const wrong[] = {"-1", "abc", "0x10", "1 2", "", "99999999999999999999999"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %s\r\n\r\n{}",
                 wrong[i]);
        int status = status_of_text(text);
        if (status != 0 && (status < 400 || status > 499))
            fail_msg("length '%s': status %d", wrong[i], status);
    }
    /* Shorter than what comes: the rest is no request. */
    assert_int_equal(status_of_text("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                                    "Content-Length: 2\r\n\r\n{}garbage that follows"),
                     400);
    /* Longer: it is waited for, and then the connection is closed. */
    assert_int_equal(status_of_text("POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
                                    "Content-Length: 99\r\n\r\n{\"content\": \"x\"}"),
                     0);
    assert_well();
}

static void test_heads_that_are_no_http_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        "GET /health HTTP/1.1\r\n\r\n",                 /* no host */
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", /* TLS */
        "GET /health HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        int status = status_of_text(wrong[i]);
        if (status != 0 && status < 400)
            fail_msg("%zu: status %d", i, status);
    }
    buf b;
    buf_init(&b, 1 << 20);
    buf_puts(&b, "GET /health HTTP/1.1\r\nHost: localhost\r\nX: ");
    while (b.len < 200000)
        buf_putc(&b, 'x');
    buf_puts(&b, "\r\n\r\n");
    int status = status_of((const char *)b.data, b.len);
    assert_true(status == 0 || status == 431 || status == 413);
    buf_deinit(&b);
    assert_well();
}

/* Would catch replies that are lost or mixed when requests come without waiting. */
static void test_pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    buf b, rest;
    buf_init(&b, 1 << 16);
    buf_init(&rest, 1 << 20);
    raw_format(&b, rig.port, "GET", "/health", NULL, NULL);
    raw_format(&b, rig.port, "POST", "/v1/completions", NULL, small_ask);
    raw_format(&b, rig.port, "POST", "/tokenize", NULL, "{\"content\": \"hen\"}");
    raw_format(&b, rig.port, "POST", "/tokenize", NULL, "{\"content\": 5}");
    raw_format(&b, rig.port, "GET", "/v1/models", NULL, NULL);
    int fd = raw_connect(rig.port);
    raw_send(fd, (const char *)b.data, b.len);
    static const struct {
        int status;
        const char *words;
    } want[] = {{200, "\"ok\""},
                {200, "text_completion"},
                {200, "\"tokens\":["},
                {400, "invalid_type"},
                {200, "\"list\""}};
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        raw_reply r;
        raw_read(fd, &r, 10, &rest, false);
        assert_int_equal(r.status, want[i].status);
        assert_non_null(strstr((char *)r.body.data, want[i].words));
        raw_reply_free(&r);
    }
    close(fd);
    buf_deinit(&b);
    buf_deinit(&rest);
}

static const char long_ask[] = "{\"prompt\": \"hen\", \"max_tokens\": 16000, \"stream\": %s, "
                               "\"ignore_eos\": true}";

static int begin_long(bool stream)
{
    char body[256];
    snprintf(body, sizeof body, long_ask, stream ? "true" : "false");
    buf b;
    buf_init(&b, 4096);
    raw_format(&b, rig.port, "POST", "/v1/completions", NULL, body);
    int fd = raw_connect(rig.port);
    raw_send(fd, (const char *)b.data, b.len);
    buf_deinit(&b);
    return fd;
}

/* B070: would catch a slot that stays with a client that has gone, in whatever state it went. */
static void test_client_that_goes_frees_its_slot(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 4096);
    raw_format(&b, rig.port, "POST", "/v1/completions", NULL, small_ask);
    for (size_t n = 0; n <= b.len; n += 7) { /* while it is sending */
        int fd = raw_connect(rig.port);
        raw_send(fd, (const char *)b.data, n);
        close(fd);
    }
    buf_deinit(&b);
    for (int i = 0; i < 12; i++) { /* queued, reading the prompt, making tokens; streamed or not */
        int fd[4];
        for (int k = 0; k < 4; k++)
            fd[k] = begin_long(k % 2);
        nanosleep(&(struct timespec){.tv_nsec = i * 3000000}, NULL);
        for (int k = 0; k < 4; k++) {
            if (i % 3 == 2) { /* with a reset */
                struct linger l = {.l_onoff = 1};
                setsockopt(fd[k], SOL_SOCKET, SO_LINGER, &l, sizeof l);
            }
            close(fd[k]);
        }
        assert_true(rig_wait_metric(&rig, "foretoken_slots_busy", 0, 5));
        assert_true(rig_wait_metric(&rig, "foretoken_queue_length", 0, 5));
    }
    assert_true(rig_wait_metric(&rig, "foretoken_connections", 1, 5)); /* the one that asks */
    assert_well();
}

/* B111: would catch events that pile up for a reader that stopped, and a slot that waits for it. */
static void test_reader_that_stops_loses_its_slot(void **state)
{
    (void)state;
    const char *ask = "{\"prompt\": \"hen\", \"max_tokens\": 16000, \"stream\": true, "
                      "\"ignore_eos\": true, \"logprobs\": 20, \"token_details\": true}";
    int fd[2];
    buf b;
    buf_init(&b, 4096);
    raw_format(&b, rig.port, "POST", "/v1/completions", NULL, ask);
    for (int i = 0; i < 2; i++) {
        fd[i] = raw_connect(rig.port);
        int small = 4096;
        setsockopt(fd[i], SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
        raw_send(fd[i], (const char *)b.data, b.len);
    }
    buf_deinit(&b);
    assert_true(rig_wait_metric(&rig, "foretoken_slots_busy", 2, 5));
    assert_true(rig_wait_metric(&rig, "foretoken_slots_busy", 0, 120));
    assert_true(rig_wait_metric(&rig, "foretoken_connections", 1, 5)); /* and is shut down */
    for (int i = 0; i < 2; i++)
        close(fd[i]);
    pthread_mutex_lock(&rig.lock);
    assert_non_null(strstr(buf_cstr(&rig.log), "\"code\":\"slow_reader\""));
    pthread_mutex_unlock(&rig.lock);
    assert_well();
}

/* B113: would catch a page in a browser that gets an answer. */
static void test_other_names_and_origins_are_refused(void **state)
{
    (void)state;
    raw_reply r;
    static const char *const headers[] = {"Host: evil.example\r\n", "Host: evil.example:80\r\n",
                                          "Origin: http://evil.example\r\n", "Origin: null\r\n",
                                          "Origin: file://\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        raw_request(rig.port, "POST", "/v1/completions", headers[i], small_ask, &r);
        assert_int_equal(r.status, 403);
        assert_null(strstr(r.head, "Access-Control-Allow-Origin"));
        raw_reply_free(&r);
    }
    raw_request(rig.port, "OPTIONS", "/v1/completions", "Origin: http://evil.example\r\n", NULL,
                &r);
    assert_true(r.status >= 400);
    raw_reply_free(&r);
    char origin[64];
    snprintf(origin, sizeof origin, "Origin: http://127.0.0.1:%d\r\n", rig.port);
    raw_request(rig.port, "POST", "/v1/completions", origin, small_ask, &r);
    assert_int_equal(r.status, 200);
    raw_reply_free(&r);
}

/* Would catch connections that starve others: 200 of them, and one that asks. */
static void test_two_hundred_connections_leave_the_server_answering(void **state)
{
    (void)state;
    enum { N = 200 };
    int fd[N];
    for (int i = 0; i < N; i++) {
        fd[i] = raw_connect(rig.port);
        raw_puts(fd[i], i % 3 ? "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" : "GET /hea");
    }
    json_t *j = rig_ask(&rig, "/v1/completions", small_ask);
    json_decref(j);
    int n_ok = 0;
    for (int i = 0; i < N; i++) {
        raw_reply r;
        raw_read(fd[i], &r, i % 3 ? 5 : 0.001, NULL, false);
        n_ok += r.status == 200;
        raw_reply_free(&r);
        close(fd[i]);
    }
    assert_int_equal(n_ok, N - (N + 2) / 3);
    assert_true(rig_wait_metric(&rig, "foretoken_connections", 1, 5));
    assert_well();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_byte_by_byte_is_answered),
        cmocka_unit_test(test_slow_sender_is_cut_off_however_it_sends),
        cmocka_unit_test(test_body_over_the_limit_is_refused_before_it_is_read),
        cmocka_unit_test(test_body_just_below_the_limit_is_taken),
        cmocka_unit_test(test_chunked_body_over_the_limit_is_refused),
        cmocka_unit_test(test_hundred_megabytes_are_not_kept),
        cmocka_unit_test(test_deep_json_is_refused),
        cmocka_unit_test(test_bytes_that_are_no_text_are_refused),
        cmocka_unit_test(test_wrong_lengths_are_refused_or_cut_off),
        cmocka_unit_test(test_heads_that_are_no_http_are_refused),
        cmocka_unit_test(test_pipelined_requests_are_answered_in_order),
        cmocka_unit_test(test_client_that_goes_frees_its_slot),
        cmocka_unit_test(test_reader_that_stops_loses_its_slot),
        cmocka_unit_test(test_other_names_and_origins_are_refused),
        cmocka_unit_test(test_two_hundred_connections_leave_the_server_answering),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
