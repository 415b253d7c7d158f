/* test_server_load.c - many clients at once, the queue, limits of time, keys, and the end.
 *
 * test_server_load [SECONDS]: the clients that come and go do so for SECONDS twice, and no other test runs
 * (tests/long/server-clients.sh). */
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "support/serverrig.h"

/* A body for a text that lasts: the context is large, and nothing ends it. */
static void long_body(char *out, size_t n_out, int n_tok, int seed, bool stream)
{
    snprintf(out, n_out,
             "{\"prompt\": \"the hen %d\", \"max_tokens\": %d, \"seed\": %d, \"stream\": %s, "
             "\"ignore_eos\": true, \"temperature\": 0.9}",
             seed, n_tok, seed, stream ? "true" : "false");
}

static int send_ask(const rig_server *r, const char *body)
{
    buf b;
    buf_init(&b, 1 << 16);
    raw_format(&b, r->port, "POST", "/v1/completions", NULL, body);
    int fd = raw_connect(r->port);
    raw_send(fd, (const char *)b.data, b.len);
    buf_deinit(&b);
    return fd;
}

static server_params long_params(int n_slot, int n_queue)
{
    server_params p = rig_server_params();
    p.session.n_ctx = 16384;
    p.n_slot = n_slot;
    p.limits.n_queue = n_queue;
    return p;
}

/* ---- Eight clients ---- */

enum { N_CLIENT = 8, N_ASK = 12, N_SEED = 6, N_TOK = 60 };

static int load_seconds; /* 0: N_ASK requests each */

typedef struct {
    rig_server *rig;
    char (*want)[2048]; /* [N_SEED] texts made alone */
    unsigned random;
    int n_whole, n_left, n_wrong;
} client;

static unsigned next_random(client *c)
{
    c->random = c->random * 1103515245u + 12345u;
    return c->random >> 16 & 0x7FFF;
}

/* Text of a reply, streamed or not. */
static void text_of(const raw_reply *r, buf *out)
{
    const char *at = (const char *)r->body.data;
    bool stream = r->chunked;
    while (at && *at) {
        const char *end = stream ? strstr(at, "\n\n") : at + strlen(at);
        json_t *j = NULL;
        if (!stream || strncmp(at, "data: {", 7) == 0)
            j = json_loadb(at + (stream ? 6 : 0), (size_t)(end - at) - (stream ? 6 : 0),
                           JSON_ALLOW_NUL, NULL);
        json_t *t = rig_at(j, "choices.0.text");
        if (t)
            buf_put(out, json_string_value(t), json_string_length(t));
        json_decref(j);
        at = stream ? end + 2 : end;
    }
}

/* One request, waited for, or left after some milliseconds. */
static void ask_once(client *c)
{
    int seed = (int)(next_random(c) % N_SEED);
    bool stream = next_random(c) % 2, leave = next_random(c) % 3 == 0;
    char body[256];
    long_body(body, sizeof body, N_TOK, seed, stream);
    int fd = send_ask(c->rig, body);
    if (leave) {
        nanosleep(&(struct timespec){.tv_nsec = (long)(next_random(c) % 30) * 1000000}, NULL);
        close(fd);
        c->n_left++;
        return;
    }
    raw_reply r;
    buf text;
    buf_init(&text, 1 << 16);
    raw_read(fd, &r, 60, NULL, false);
    text_of(&r, &text);
    c->n_wrong += r.status != 200 || !r.complete || strcmp(buf_cstr(&text), c->want[seed]) != 0;
    c->n_whole++;
    buf_deinit(&text);
    raw_reply_free(&r);
    close(fd);
}

static void *run_client(void *ctx)
{
    client *c = ctx;
    time_t end = time(NULL) + load_seconds;
    for (int i = 0; i < N_ASK || time(NULL) < end; i++)
        ask_once(c);
    return NULL;
}

static void make_alone(const rig_server *r, int seed, char out[2048])
{
    char prompt[32];
    snprintf(prompt, sizeof prompt, "the hen %d", seed);
    int32_t *tok;
    size_t n;
    OK(ft_tokenize(r->m, prompt, strlen(prompt), true, &tok, &n, &rig_err));
    ft_session *s = rig_session(r->m, 512, 64, "f16");
    static rig_output o;
    o = (rig_output){.n = 0};
    ft_generate_params p = rig_params(&o, N_TOK, 0.9f, (uint64_t)seed);
    p.sample = request_defaults_api().sample;
    p.sample.temp = 0.9f;
    p.sample.seed = (uint64_t)seed;
    p.ignore_eos = true;
    p.draft_max = 0; /* drafts change nothing */
    rig_generate(s, tok, (int)n, &p);
    assert_true(o.n_text < 2048);
    memcpy(out, o.text, o.n_text);
    out[o.n_text] = '\0';
    ft_session_free(s);
    ft_free(tok);
}

static size_t heap_in_use(void)
{
    struct mallinfo2 i = mallinfo2();
    return i.uordblks + i.hblkhd;
}

/* B072, B073, B116: would catch a cancellation that hits another, a text that depends on who else is there,
 * memory that grows with every request. */
static void test_eight_clients_that_come_and_go_get_their_own_texts(void **state)
{
    (void)state;
    rig_server rig;
    server_params p = long_params(3, 64);
    rig_server_start_with(&rig, &p, 1 << 20); /* checkpoints: full after the first round */
    static char want[N_SEED][2048];
    for (int i = 0; i < N_SEED; i++)
        make_alone(&rig, i, want[i]);
    size_t heap[2] = {0}; /* less the log, which grows */
    for (int round = 0; round < 2; round++) {
        client c[N_CLIENT];
        pthread_t t[N_CLIENT];
        for (int i = 0; i < N_CLIENT; i++) {
            c[i] = (client){.rig = &rig, .want = want, .random = (unsigned)(i * 7919 + round)};
            assert_int_equal(pthread_create(&t[i], NULL, run_client, &c[i]), 0);
        }
        int n_whole = 0, n_left = 0;
        for (int i = 0; i < N_CLIENT; i++) {
            pthread_join(t[i], NULL);
            assert_int_equal(c[i].n_wrong, 0);
            n_whole += c[i].n_whole;
            n_left += c[i].n_left;
        }
        assert_true(n_whole > 30 && n_left > 10);
        if (load_seconds > 0)
            print_message("round %d: %d answers, each that of its solo run; %d left early\n", round,
                          n_whole, n_left);
        assert_true(rig_wait_metric(&rig, "foretoken_slots_busy", 0, 10));
        assert_true(rig_wait_metric(&rig, "foretoken_connections", 1, 10));
        pthread_mutex_lock(&rig.lock);
        heap[round] = heap_in_use() - rig.log.cap;
        pthread_mutex_unlock(&rig.lock);
    }
    if (heap_in_use() > 0) /* with a sanitizer's own heap it is its leak check that counts */
        assert_true(heap[1] < heap[0] + (256 << 10));
    rig_server_stop(&rig);
}

/* ---- The queue ---- */

/* Would catch a queue without a bound, or silence while a request waits in it. B112, B074 */
static void test_full_queue_refuses_and_waiting_streams_hear_something(void **state)
{
    (void)state;
    rig_server rig;
    server_params p = long_params(1, 2);
    rig_server_start(&rig, &p);
    char body[256];
    int fd[3];
    for (int i = 0; i < 3; i++) {
        long_body(body, sizeof body, 16000, i, true);
        fd[i] = send_ask(&rig, body);
        assert_true(rig_wait_metric(&rig, i ? "foretoken_queue_length" : "foretoken_slots_busy",
                                    i ? i : 1, 5));
    }
    raw_reply r;
    raw_post(rig.port, "/v1/completions", body, &r);
    assert_int_equal(r.status, 503);
    assert_non_null(strstr(r.head, "Retry-After: 1\r\n"));
    assert_non_null(strstr((char *)r.body.data, "\"code\":\"queue_full\""));
    raw_reply_free(&r);
    raw_read(fd[2], &r, 0.4, NULL, false); /* a stream that has not begun to answer */
    assert_int_equal(r.status, 200);
    assert_non_null(strstr((char *)r.body.data, ": prompt 0 of "));
    assert_null(strstr((char *)r.body.data, "data:"));
    raw_reply_free(&r);
    close(fd[1]); /* one in the middle of the queue goes */
    assert_true(rig_wait_metric(&rig, "foretoken_queue_length", 1, 5));
    close(fd[0]);
    assert_true(rig_wait_metric(&rig, "foretoken_queue_length", 0, 5)); /* the last one's turn */
    struct pollfd q = {.fd = fd[2], .events = POLLIN};
    assert_int_equal(poll(&q, 1, 5000), 1);
    close(fd[2]);
    rig_server_stop(&rig);
}

/* Would catch a limit of time that leaves out waiting, or ends a stream without a word. */
static void test_answers_over_their_time_end_with_an_error(void **state)
{
    (void)state;
    rig_server rig;
    server_params p = long_params(1, 8);
    p.limits.answer_seconds = 0.3;
    rig_server_start(&rig, &p);
    char body[256];
    long_body(body, sizeof body, 16000, 1, false);
    int fd = send_ask(&rig, body);
    assert_true(rig_wait_metric(&rig, "foretoken_slots_busy", 1, 5));
    long_body(body, sizeof body, 16000, 2, true); /* waits, then its time is over too */
    int fd2 = send_ask(&rig, body);
    raw_reply r;
    raw_read(fd, &r, 10, NULL, false);
    assert_int_equal(r.status, 504);
    assert_non_null(strstr(r.head, "x-should-retry: false\r\n"));
    assert_non_null(strstr((char *)r.body.data, "\"code\":\"timeout\""));
    raw_reply_free(&r);
    raw_read(fd2, &r, 10, NULL, false);
    assert_int_equal(r.status, 200);
    assert_true(r.complete);
    assert_non_null(strstr((char *)r.body.data, "data: {\"error\":{"));
    assert_null(strstr((char *)r.body.data, "[DONE]"));
    raw_reply_free(&r);
    close(fd);
    close(fd2);
    rig_server_stop(&rig);
}

/* ---- Keys ---- */

/* Would catch an endpoint that answers without the key, or a preflight that needs it. */
static void test_with_a_key_every_endpoint_but_health_wants_it(void **state)
{
    (void)state;
    rig_server rig;
    server_params p = rig_server_params();
    p.api_key = "k3y";
    p.host = "0.0.0.0";
    rig_server_start(&rig, &p);
    static const char *const path[] = {"/metrics", "/v1/models", "/v1/models/tiny"};
    raw_reply r;
    for (size_t i = 0; i < 3; i++) {
        raw_request(rig.port, "GET", path[i], NULL, NULL, &r);
        assert_int_equal(r.status, 401);
        assert_non_null(strstr(r.head, "WWW-Authenticate: Bearer\r\n"));
        raw_reply_free(&r);
        raw_request(rig.port, "GET", path[i], "Authorization: Bearer k3y\r\n", NULL, &r);
        assert_int_equal(r.status, 200);
        raw_reply_free(&r);
    }
    static const char *const post[] = {"/v1/completions", "/v1/chat/completions", "/tokenize",
                                       "/detokenize"};
    for (size_t i = 0; i < 4; i++)
        rig_refused(&rig, post[i], "{}", 401, "invalid_api_key", "no API key");
    raw_request(rig.port, "GET", "/health", NULL, NULL, &r);
    assert_int_equal(r.status, 200);
    raw_reply_free(&r);
    raw_request(rig.port, "OPTIONS", "/v1/completions", "Origin: http://page.example\r\n", NULL,
                &r);
    assert_int_equal(r.status, 204);
    assert_non_null(strstr(r.head, "Access-Control-Allow-Origin: http://page.example\r\n"));
    raw_reply_free(&r);
    raw_request(rig.port, "POST", "/tokenize",
                "Origin: http://page.example\r\nAuthorization: Bearer k3y\r\n",
                "{\"content\": \"x\"}", &r);
    assert_int_equal(r.status, 200);
    assert_non_null(strstr(r.head, "Access-Control-Allow-Origin: http://page.example\r\n"));
    raw_reply_free(&r);
    rig_server_stop(&rig);
}

/* Would catch a server that other machines reach without a key, or a wrong address that is not told. */
static void test_server_that_must_not_start_says_why(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    server *s;
    server_params p = rig_server_params();
    p.host = "0.0.0.0";
    FAILS(server_create(&s, m, &p, &rig_err), FT_ARG, "needs an API key");
    assert_null(s);
    p.host = "no.such.name.invalid";
    FAILS(server_create(&s, m, &p, &rig_err), FT_ARG, "no.such.name.invalid");
    rig_server other;
    p = rig_server_params();
    rig_server_start(&other, &p);
    p.port = other.port;
    FAILS(server_create(&s, m, &p, &rig_err), FT_IO, "cannot be listened on");
    rig_server_stop(&other);
    p.session.kv_type = "q9";
    FAILS(server_create(&s, m, &p, &rig_err), FT_ARG, "kv_type");
    ft_model_close(m);
}

/* ---- The end ---- */

static atomic_bool no_hurry;

static void *stop_server(void *ctx)
{
    rig_server *r = ctx;
    server_stop(r->s, &no_hurry);
    return NULL;
}

/* B071: would catch an end that waits for ever, or one that cuts answers that would have been done. */
static void test_stop_finishes_what_runs_and_cancels_what_lasts(void **state)
{
    (void)state;
    for (int lasts = 0; lasts < 2; lasts++) {
        rig_server rig;
        server_params p = long_params(1, 8);
        p.limits.stop_seconds = lasts ? 0.2 : 20;
        rig_server_start(&rig, &p);
        char body[256];
        int fd[2];
        for (int i = 0; i < 2; i++) { /* one runs, one waits */
            long_body(body, sizeof body, lasts ? 16000 : 400, i, i == 1);
            fd[i] = send_ask(&rig, body);
        }
        assert_true(rig_wait_metric(&rig, "foretoken_slots_busy", 1, 5));
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, stop_server, &rig), 0);
        for (int i = 0; i < 2; i++) {
            raw_reply r;
            raw_read(fd[i], &r, 30, NULL, false);
            assert_true(r.complete);
            assert_int_equal(r.status, lasts && i == 0 ? 503 : 200);
            const char *text = (const char *)r.body.data;
            if (lasts)
                assert_non_null(strstr(text, "\"code\":\"shutting_down\""));
            else
                assert_non_null(strstr(text, "\"finish_reason\":\"length\""));
            raw_reply_free(&r);
            close(fd[i]);
        }
        pthread_join(t, NULL);
        server_free(rig.s);
        ft_model_close(rig.m);
        buf_deinit(&rig.log);
        pthread_mutex_destroy(&rig.lock);
    }
}

/* A chat of n turns whose answers were all "ok"; its cached tokens, and all of its prompt. */
static json_int_t chat_turns(const rig_server *r, const char *system, int n, json_int_t *n_prompt)
{
    buf b;
    buf_init(&b, 1 << 16);
    buf_printf(&b,
               "{\"max_tokens\": 4, \"seed\": 1, \"reasoning_effort\": \"none\", \"messages\": "
               "[{\"role\": \"system\", \"content\": \"%s\"}",
               system);
    for (int i = 0; i < n; i++)
        buf_printf(&b, "%s, {\"role\": \"user\", \"content\": \"what is the number %d of them\"}",
                   i ? ", {\"role\": \"assistant\", \"content\": \"ok\"}" : "", i);
    buf_puts(&b, "]}");
    json_t *j = rig_ask(r, "/v1/chat/completions", buf_cstr(&b));
    json_int_t cached = rig_int(j, "usage.prompt_tokens_details.cached_tokens");
    *n_prompt = rig_int(j, "usage.prompt_tokens");
    assert_int_equal(rig_int(j, "timings.cache_n"), cached);
    assert_int_equal(rig_int(j, "timings.prompt_n"), *n_prompt - cached);
    json_decref(j);
    buf_deinit(&b);
    return cached;
}

/* Would catch conversations that are read from their beginning every time, also while others are there. */
static void test_conversations_are_continued_not_read_again(void **state)
{
    (void)state;
    rig_server rig;
    server_params p = long_params(2, 8);
    rig_server_start(&rig, &p);
    static const char *const system[] = {"You are one that helps, and says so.",
                                         "Nothing is like this one here."};
    json_int_t n[2], before[2] = {0};
    for (int turn = 1; turn <= 4; turn++)
        for (int k = 0; k < 2; k++) {
            json_int_t cached = chat_turns(&rig, system[k], turn, &n[k]);
            if (turn > 1) /* all but the turn before last's end and the new ones */
                assert_true(cached > before[k] / 2 && cached < n[k]);
            before[k] = n[k];
        }
    json_int_t again = chat_turns(&rig, system[0], 4, &n[0]); /* regenerated */
    assert_true(again > n[0] / 2);
    assert_true(rig_metric(&rig, "foretoken_prompt_tokens_cached_total") > 100);
    rig_server_stop(&rig);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest clients[] = {
        cmocka_unit_test(test_eight_clients_that_come_and_go_get_their_own_texts),
    };
    if (argc > 1) {
        load_seconds = (int)strtol(argv[1], NULL, 10);
        return cmocka_run_group_tests(clients, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eight_clients_that_come_and_go_get_their_own_texts),
        cmocka_unit_test(test_full_queue_refuses_and_waiting_streams_hear_something),
        cmocka_unit_test(test_answers_over_their_time_end_with_an_error),
        cmocka_unit_test(test_with_a_key_every_endpoint_but_health_wants_it),
        cmocka_unit_test(test_server_that_must_not_start_says_why),
        cmocka_unit_test(test_stop_finishes_what_runs_and_cancels_what_lasts),
        cmocka_unit_test(test_conversations_are_continued_not_read_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
