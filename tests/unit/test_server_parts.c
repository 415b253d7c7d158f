/* test_server_parts.c - the parts of the server that know no HTTP and no model: who may ask, which slot,
 * the queue, mailboxes, counters, the log. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "server/clock.h"
#include "server/guard.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/queue.h"
#include "server/slots.h"

/* ---- Who may ask ---- */

static int verdict(const guard *g, const char *host, const char *origin, const char *key, bool open)
{
    api_error e = {0};
    guard_headers h = {.host = host, .origin = origin, .authorization = key};
    bool ok = guard_check(g, &h, open, &e);
    assert_int_equal(ok, e.status == 0);
    return e.status;
}

/* B113: would catch a page whose name was made to point to this machine. */
static void test_guard_foreign_host_is_refused_without_key(void **state)
{
    (void)state;
    const guard g = {.name = "127.0.0.1"};
    static const char *const good[] = {"localhost", "localhost:8080", "LOCALHOST:1",
                                       "127.0.0.1", "127.0.0.1:99",   "127.1.2.3:80",
                                       "[::1]",     "[::1]:8080"};
    static const char *const wrong[] = {"evil.example",
                                        "evil.example:8080",
                                        "localhost.evil.example",
                                        "127.0.0.1.evil.example",
                                        "127.0.0.1evil",
                                        "1270.0.1",
                                        "127.0.0",
                                        "127.0.0.256",
                                        "10.0.0.1",
                                        "[::2]",
                                        "[::1",
                                        "::1x",
                                        "",
                                        " localhost"};
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        if (verdict(&g, good[i], NULL, NULL, false) != 0)
            fail_msg("'%s' refused", good[i]);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        if (verdict(&g, wrong[i], NULL, NULL, true) != 403)
            fail_msg("'%s' accepted", wrong[i]);
    assert_int_equal(verdict(&g, NULL, NULL, NULL, true), 403);
}

/* B113: would catch pages of other origins, files and sandboxes among them. */
static void test_guard_foreign_origin_is_refused_without_key(void **state)
{
    (void)state;
    const guard g = {.name = "localhost"};
    assert_int_equal(verdict(&g, "localhost:8080", "http://localhost:8080", NULL, false), 0);
    static const char *const wrong[] = {"null",
                                        "file://",
                                        "http://evil.example",
                                        "https://localhost:8080",
                                        "http://localhost:8081",
                                        "http://localhost:8080.evil.example",
                                        "http://localhost",
                                        ""};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        if (verdict(&g, "localhost:8080", wrong[i], NULL, true) != 403)
            fail_msg("'%s' accepted", wrong[i]);
}

/* Would catch keys compared by their beginning, or not at all on some path. */
static void test_guard_key_must_be_the_whole_key(void **state)
{
    (void)state;
    const guard g = {.api_key = "secret", .name = "0.0.0.0"};
    assert_int_equal(verdict(&g, "any.example", "http://page.example", "Bearer secret", false), 0);
    assert_int_equal(verdict(&g, "any.example", NULL, "bearer secret", false), 0);
    static const char *const wrong[] = {
        "Bearer secre",  "Bearer secrets",     "Bearer ", "Bearer", "secret", "Basic secret", "",
        "Bearer Secret", "Bearer secretsecret"};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++)
        if (verdict(&g, "any.example", NULL, wrong[i], false) != 401)
            fail_msg("'%s' accepted", wrong[i]);
    assert_int_equal(verdict(&g, "any.example", NULL, NULL, false), 401);
    assert_int_equal(verdict(&g, "any.example", NULL, NULL, true), 0);
}

/* ---- Which slot ---- */

static int32_t text_a[400], text_b[400];

static void fill_texts(void)
{
    for (int i = 0; i < 400; i++) {
        text_a[i] = i;
        text_b[i] = i < 50 ? i : 1000 + i; /* a common beginning of 50 */
    }
}

/* Would catch a conversation that goes on in another slot and is read anew. */
static void test_slots_conversation_goes_on_in_its_slot(void **state)
{
    (void)state;
    fill_texts();
    slot_view s[] = {{.tok = text_b, .n_tok = 300, .used = 1},
                     {.tok = text_a, .n_tok = 300, .used = 3},
                     {.tok = NULL, .n_tok = 0, .used = 0}};
    assert_int_equal(slots_choose(s, 3, text_a, 400), 1);
    assert_int_equal(slots_choose(s, 3, text_b, 400), 0);
    assert_int_equal(slots_choose(s, 3, text_a, 280), 1); /* the last turn anew */
    s[1].busy = true;
    assert_int_equal(slots_choose(s, 3, text_a, 400), 2);
}

/* Would catch a common system prompt that takes somebody's conversation away. */
static void test_slots_stranger_takes_an_empty_slot_then_the_idlest(void **state)
{
    (void)state;
    fill_texts();
    int32_t other[60];
    for (int i = 0; i < 60; i++)
        other[i] = i < 50 ? i : 5000 + i;
    slot_view s[] = {{.tok = text_a, .n_tok = 300, .used = 9},
                     {.tok = NULL, .n_tok = 0, .used = 7},
                     {.tok = text_b, .n_tok = 300, .used = 2}};
    assert_int_equal(slots_choose(s, 3, other, 60), 1);
    s[1] = (slot_view){.tok = text_b, .n_tok = 200, .used = 1};
    assert_int_equal(slots_choose(s, 3, other, 60), 1);
    s[1].used = 5;
    assert_int_equal(slots_choose(s, 3, other, 60), 2);
    for (int i = 0; i < 3; i++)
        s[i].busy = true;
    assert_int_equal(slots_choose(s, 3, other, 60), -1);
}

/* ---- Jobs and the queue ---- */

static const request no_request;

static job *make_job(void)
{
    job *j = job_create(&no_request, NULL, 0, NULL, 0, 0);
    assert_non_null(j);
    return j;
}

static bool is_cancelled(job *j, void *ctx)
{
    (void)ctx;
    return job_cancelled(j) != JOB_CANCEL_NONE;
}

/* Would catch an order other than that of arrival, a bound that does not hold, a lost reference. */
static void test_queue_keeps_order_and_bound(void **state)
{
    (void)state;
    queue *q = queue_create(3);
    job *j[4];
    for (int i = 0; i < 4; i++)
        j[i] = make_job();
    for (int round = 0; round < 5; round++) { /* around the ring */
        for (int i = 0; i < 3; i++)
            assert_int_equal(queue_push(q, j[i]), QUEUE_OK);
        assert_int_equal(queue_push(q, j[3]), QUEUE_FULL);
        for (int i = 0; i < 3 - round % 2; i++) {
            job *got = queue_pop(q);
            assert_ptr_equal(got, j[i]);
            job_unref(got);
        }
        for (job *got; (got = queue_pop(q)) != NULL;)
            job_unref(got);
    }
    assert_null(queue_pop(q));
    queue_close(q);
    assert_int_equal(queue_push(q, j[0]), QUEUE_CLOSED);
    assert_true(queue_is_closed(q));
    queue_free(q);
    for (int i = 0; i < 4; i++)
        job_unref(j[i]);
}

/* B072: would catch a cancellation that takes another job out, or changes the order of the rest. */
static void test_queue_takes_out_what_was_cancelled_alone(void **state)
{
    (void)state;
    queue *q = queue_create(5);
    job *j[5];
    for (int i = 0; i < 5; i++) {
        j[i] = make_job();
        assert_int_equal(queue_push(q, j[i]), QUEUE_OK);
    }
    job_cancel(j[1], JOB_CANCEL_GONE);
    job_cancel(j[3], JOB_CANCEL_TIME);
    job_cancel(j[3], JOB_CANCEL_GONE); /* the first reason counts */
    assert_int_equal(job_cancelled(j[3]), JOB_CANCEL_TIME);
    for (int i = 1; i < 4; i += 2) {
        job *got = queue_take(q, is_cancelled, NULL);
        assert_ptr_equal(got, j[i]);
        job_unref(got);
    }
    assert_null(queue_take(q, is_cancelled, NULL));
    for (int i = 0; i < 5; i += 2) {
        job *got = queue_pop(q);
        assert_ptr_equal(got, j[i]);
        job_unref(got);
    }
    for (int i = 0; i < 5; i++)
        job_unref(j[i]);
    queue_free(q);
}

static void put(job *j, int id, const char *text)
{
    ft_token t = {.id = id, .text = text, .len = strlen(text)};
    ft_error err = {0};
    assert_int_equal(job_put(j, &t, &err), FT_OK);
}

/* B111: would catch a mailbox without a bound, and a stalled reader that is not seen. */
static void test_job_box_is_bounded_and_waits_are_counted(void **state)
{
    (void)state;
    job *j = make_job();
    int n = 0;
    double now = clock_now();
    while (job_has_room(j, now)) {
        put(j, n, "ab");
        n++;
    }
    assert_true(n <= JOB_BOX && n > JOB_BOX - JOB_ROUND - 1);
    assert_true(job_stalled(j, now + 7) >= 7);
    job_box box;
    job_box_init(&box);
    assert_int_equal(job_wait(j, &box, 0), JOB_WAITING); /* the step is not over */
    job_post(j);
    assert_int_equal(job_wait(j, &box, 0), JOB_TOKENS);
    int got;
    const job_token *t = job_box_get(&box, &got);
    assert_int_equal(got, n);
    for (int i = 0; i < n; i++) {
        assert_int_equal(t[i].id, i);
        assert_memory_equal(box.text.data + t[i].text_at, "ab", 2);
    }
    assert_true(job_has_room(j, now));
    assert_true(job_stalled(j, now + 1000) < 5); /* counted until it was read */
    assert_int_equal(job_wait(j, &box, 0.01), JOB_WAITING);
    assert_null(box.tok.len ? box.tok.data : NULL);
    job_box_deinit(&box);
    job_unref(j);
}

/* Would catch an end that overtakes the last tokens. */
static void test_job_is_over_only_when_all_was_taken(void **state)
{
    (void)state;
    job *j = make_job();
    job_box box;
    job_box_init(&box);
    job_start(j, clock_now());
    put(j, 1, "x");
    ft_generate_stats stats = {.n_token = 1, .finish = FT_FINISH_STOP};
    job_end(j, &stats, 5, FT_OK, NULL, clock_now());
    assert_true(job_has_ended(j));
    assert_int_equal(job_wait(j, &box, 0), JOB_TOKENS);
    assert_int_equal(job_wait(j, &box, 0), JOB_OVER);
    assert_int_equal(job_get_result(j)->n_cached, 5);
    assert_int_equal(job_get_result(j)->gen.finish, FT_FINISH_STOP);
    job_box_deinit(&box);
    job_unref(j);
}

/* Would catch a leak or a half-made object where there is no memory. */
static void test_parts_without_memory_are_not_made(void **state)
{
    (void)state;
    for (long i = 1; i <= 2; i++) {
        mem_fail_at(i);
        queue *q = queue_create(4);
        assert_null(q);
    }
    mem_fail_at(1);
    assert_null(job_create(&no_request, NULL, 0, NULL, 0, 0));
    mem_fail_at(1);
    assert_null(metrics_create());
    job *j = make_job();
    for (long i = 1; i <= 2; i++) {
        ft_token t = {.id = 1, .text = "x", .len = 1};
        ft_error err = {0};
        mem_fail_at(i);
        ft_status st = job_put(j, &t, &err);
        mem_fail_at(0);
        assert_int_equal(st, FT_NOMEM);
        job_box box;
        job_box_init(&box);
        assert_int_equal(job_wait(j, &box, 0), JOB_WAITING);
        job_box_deinit(&box);
        job_unref(j);
        j = make_job();
    }
    job_unref(j);
}

/* ---- Counters and the log ---- */

/* B120: would catch totals that are not the sums of what the jobs say. */
static void test_metrics_add_up(void **state)
{
    (void)state;
    metrics *m = metrics_create();
    metrics_request(m, "/v1/completions", 200, 1.5);
    metrics_request(m, "/v1/completions", 200, 0.5);
    metrics_request(m, "/v1/completions", 400, 0.25);
    ft_generate_stats s = {.finish = FT_FINISH_STOP, .n_prompt = 10, .n_token = 8};
    s.draft = (ft_draft_stats){.rounds = 5, .drafted = 9, .accepted = 3};
    s.draft.verified_at[0] = 5;
    s.draft.accepted_at[0] = 2;
    s.draft.verified_at[1] = 2;
    s.draft.accepted_at[1] = 1;
    metrics_job(m, &s, 4, 0.125);
    metrics_job(m, &s, 4, 0.125);
    metrics_token(m, FT_TOKEN_ACCEPTED);
    metrics_now now = {.n_slot = 2, .n_busy = 1, .state_bytes = 77};
    metrics_engine(m, &now);
    buf out;
    buf_init(&out, 1 << 20);
    metrics_write(m, 3, 4, &out);
    static const char *const want[] = {
        "\nforetoken_requests_total{endpoint=\"/v1/completions\",status=\"200\"} 2\n",
        "\nforetoken_requests_total{endpoint=\"/v1/completions\",status=\"400\"} 1\n",
        "\nforetoken_request_seconds_total{endpoint=\"/v1/completions\",status=\"200\"} 2\n",
        "\nforetoken_answers_total{finish=\"stop\"} 2\n",
        "\nforetoken_prompt_tokens_total 20\n",
        "\nforetoken_prompt_tokens_cached_total 8\n",
        "\nforetoken_tokens_total{kind=\"accepted\"} 1\n",
        "\nforetoken_drafted_total 18\n",
        "\nforetoken_accepted_total 6\n",
        "\nforetoken_draft_verified_total{depth=\"1\"} 10\n",
        "\nforetoken_draft_accepted_total{depth=\"2\"} 2\n",
        "\nforetoken_seconds_total{phase=\"queue\"} 0.25\n",
        "\nforetoken_queue_length 3\n",
        "\nforetoken_connections 4\n",
        "\nforetoken_slots_busy 1\n",
        "\nforetoken_state_bytes 77\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(want); i++)
        if (!strstr(buf_cstr(&out), want[i]))
            fail_msg("%s is not in %s", want[i], buf_cstr(&out));
    /* Every family is described before its first sample, and once. */
    int n_help = 0, n_type = 0;
    for (const char *p = buf_cstr(&out); (p = strstr(p, "# HELP ")) != NULL; p++)
        n_help++;
    for (const char *p = buf_cstr(&out); (p = strstr(p, "# TYPE ")) != NULL; p++)
        n_type++;
    assert_true(n_help == n_type && n_help > 20);
    buf_deinit(&out);
    metrics_free(m);
}

/* Would catch a log line that is no JSON because of what a client sent. */
static void test_log_line_is_one_line_of_json(void **state)
{
    (void)state;
    buf out;
    buf_init(&out, 1 << 12);
    log_entry e = {.id = "cmpl-1",
                   .client = "127.0.0.1",
                   .method = "POST",
                   .path = "/v1/completions",
                   .status = 200,
                   .seconds = 0.25,
                   .finish = "stop",
                   .n_prompt = 3};
    log_format(&e, 0, &out);
    assert_int_equal(out.data[out.len - 1], '\n');
    assert_null(memchr(out.data, '\n', out.len - 1));
    json_t *j = json_loadb((const char *)out.data, out.len, 0, NULL);
    assert_non_null(j);
    assert_string_equal(json_string_value(json_object_get(j, "time")), "1970-01-01T00:00:00Z");
    assert_true(json_number_value(json_object_get(j, "ms")) == 250);
    assert_int_equal(json_integer_value(json_object_get(j, "prompt_tokens")), 3);
    json_decref(j);
    buf_deinit(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_guard_foreign_host_is_refused_without_key),
        cmocka_unit_test(test_guard_foreign_origin_is_refused_without_key),
        cmocka_unit_test(test_guard_key_must_be_the_whole_key),
        cmocka_unit_test(test_slots_conversation_goes_on_in_its_slot),
        cmocka_unit_test(test_slots_stranger_takes_an_empty_slot_then_the_idlest),
        cmocka_unit_test(test_queue_keeps_order_and_bound),
        cmocka_unit_test(test_queue_takes_out_what_was_cancelled_alone),
        cmocka_unit_test(test_job_box_is_bounded_and_waits_are_counted),
        cmocka_unit_test(test_job_is_over_only_when_all_was_taken),
        cmocka_unit_test(test_parts_without_memory_are_not_made),
        cmocka_unit_test(test_metrics_add_up),
        cmocka_unit_test(test_log_line_is_one_line_of_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
