/* completions.c - requests for text: from a body to a job, from its tokens to a reply or a stream. */
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "clock.h"
#include "exchange.h"

/* ---- A request's tokens ---- */

static bool check_ids(exchange *x, const int32_t *tok, int n)
{
    for (int i = 0; i < n; i++)
        if (tok[i] >= x->s->info.n_vocab)
            return api_fail(&x->err, 400, "invalid_value", "prompt",
                            "prompt[%d]: token %d, want 0 to %d", i, tok[i],
                            x->s->info.n_vocab - 1);
    const ft_sample_params *p = &x->req.gen.sample;
    for (int i = 0; i < p->n_bias; i++)
        if (p->bias[i].id >= x->s->info.n_vocab)
            return api_fail(&x->err, 400, "invalid_value", "logit_bias",
                            "logit_bias: token %d, want 0 to %d", p->bias[i].id,
                            x->s->info.n_vocab - 1);
    return true;
}

/* A completion's prompt as tokens the caller frees; an empty one begins a document. */
static bool completion_tokens(exchange *x, int32_t **tok, size_t *n)
{
    const request *r = &x->req;
    ft_error err = {0};
    ft_status st = FT_OK;
    int32_t begin = x->s->info.eos;
    const int32_t *given = r->prompt_tok;
    *n = (size_t)r->n_prompt_tok;
    if (r->prompt_text && r->prompt_len > 0)
        st = ft_tokenize(x->s->model, r->prompt_text, r->prompt_len, true, tok, n, &err);
    if (st != FT_OK)
        return api_fail_status(&x->err, st, "prompt", &err);
    if (r->prompt_text && r->prompt_len > 0)
        return true;
    if (*n == 0 && begin < 0)
        return api_fail(&x->err, 400, "invalid_value", "prompt",
                        "prompt: is empty, and this model has no token to begin with");
    if (*n == 0) {
        given = &begin;
        *n = 1;
    }
    *tok = mem_calloc(*n, sizeof **tok);
    if (!*tok)
        return api_fail(&x->err, 500, NULL, NULL, "no memory for the prompt");
    memcpy(*tok, given, *n * sizeof **tok);
    return true;
}

static bool take_echo(exchange *x, const int32_t *tok, size_t n, size_t *len)
{
    *len = 0;
    if (!x->req.echo || (x->req.prompt_text && x->req.prompt_len == 0))
        return true;
    ft_error err = {0};
    ft_status st = ft_detokenize(x->s->model, tok, n, true, &x->echo, len, &err);
    return st == FT_OK || api_fail_status(&x->err, st, "prompt", &err);
}

/* ---- Beginning ---- */

static bool check_model(exchange *x)
{
    const char *want = x->req.model;
    if (!want || strcmp(want, x->s->p.model_name) == 0)
        return true;
    return api_fail(&x->err, 404, "model_not_found", "model",
                    "The model '%.100s' does not exist; this server has '%.100s'", want,
                    x->s->p.model_name);
}

static void choose_seed(request *r)
{
    uint64_t seed = 0;
    if (r->seed_given)
        return;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)(clock_now() * 1e9);
    r->gen.sample.seed = seed >> 11; /* 53 bits: a number that every client can read back */
}

/* The prompt is tok [n] and mark [n_mark], both taken: a job in the queue. */
static bool submit(exchange *x, int32_t *tok, size_t n, int *mark, int n_mark)
{
    int n_ctx = worker_n_ctx(x->s->worker);
    bool ok = n < (size_t)n_ctx ||
              api_fail(&x->err, 400, "context_length_exceeded",
                       x->req.kind == REQUEST_CHAT ? "messages" : "prompt",
                       "This server's context is %d tokens; the prompt has %zu", n_ctx, n);
    if (ok && check_ids(x, tok, (int)n))
        x->job = job_create(&x->req, tok, (int)n, mark, n_mark, x->s->p.limits.answer_seconds);
    if (!x->job) {
        ft_free(tok);
        ft_free(mark);
        return api_fail(&x->err, 500, NULL, NULL, "no memory for the request");
    }
    queue_status st = queue_push(x->s->queue, x->job);
    if (st == QUEUE_OK) {
        conns_answering(x->s->conns, x->c, x->job);
        return true;
    }
    job_unref(x->job);
    x->job = NULL;
    if (st == QUEUE_CLOSED)
        return api_fail(&x->err, 503, "shutting_down", NULL, "the server is shutting down");
    return api_fail(&x->err, 503, "queue_full", NULL,
                    "%d requests are waiting already; please try again later",
                    x->s->p.limits.n_queue);
}

/* ---- Running ---- */

/* The job has ended: its last words, or the error. */
static void conclude(exchange *x)
{
    const job_result *r = job_get_result(x->job);
    job_cancel_reason why = job_cancelled(x->job);
    ft_error err = {0};
    x->over = true;
    if (x->err.status)
        ; /* while tokens were taken */
    else if (why != JOB_CANCEL_NONE && why != JOB_CANCEL_ENOUGH)
        job_cancel_error(why, &x->err);
    else if (r->st != FT_OK && why != JOB_CANCEL_ENOUGH)
        api_fail_status(&x->err, r->st, NULL, &r->err);
    else if (answer_finish(x->answer, r, &err) != FT_OK)
        api_fail_status(&x->err, err.code, NULL, &err);
    if (x->err.status && x->req.stream)
        answer_fail(x->answer, &x->err);
}

/* Wait for news of the job once. */
static void advance(exchange *x)
{
    ft_error err = {0};
    bool enough = false;
    switch (job_wait(x->job, &x->box, x->s->p.limits.keepalive_seconds)) {
    case JOB_TOKENS:
        if (job_cancelled(x->job) != JOB_CANCEL_NONE)
            break; /* nobody reads it */
        if (answer_put(x->answer, &x->box, &enough, &err) != FT_OK) {
            api_fail_status(&x->err, err.code, NULL, &err);
            job_cancel(x->job, JOB_CANCEL_ENOUGH);
        } else if (enough) {
            job_cancel(x->job, JOB_CANCEL_ENOUGH);
        }
        break;
    case JOB_WAITING:
        if (x->req.stream) { /* a comment: clients and proxies see that the server lives */
            int done, total;
            job_progress(x->job, &done, &total);
            buf_printf(answer_out(x->answer), ": prompt %d of %d tokens\n\n", done, total);
        }
        break;
    case JOB_OVER:
        conclude(x);
        break;
    }
}

size_t completions_read(exchange *x, char *to, size_t max)
{
    buf *out = answer_out(x->answer);
    while (x->sent == out->len && !x->over) {
        buf_clear(out);
        x->sent = 0;
        advance(x);
    }
    size_t n = out->len - x->sent < max ? out->len - x->sent : max;
    if (n > 0)
        memcpy(to, out->data + x->sent, n);
    x->sent += n;
    return n;
}

static bool reply_whole(exchange *x)
{
    while (!x->over)
        advance(x);
    if (x->err.status)
        return false;
    buf reply = x->reply;
    x->reply = *answer_out(x->answer);
    *answer_out(x->answer) = reply;
    x->type = "application/json";
    return true;
}

/* The job is in the queue, or x->err says why not. */
static bool run(exchange *x, answer_params *p, int32_t *tok, size_t n, int *mark, int n_mark)
{
    ft_error err = {0};
    p->model = x->s->model;
    p->req = &x->req;
    p->model_name = x->s->p.model_name;
    p->fingerprint = x->s->fingerprint;
    p->n_prompt = (int)n;
    job_box_init(&x->box);
    ft_status st = answer_create(&x->answer, p, &err);
    if (st != FT_OK) {
        ft_free(tok);
        ft_free(mark);
        return api_fail_status(&x->err, st, "tools", &err);
    }
    choose_seed(&x->req);
    if (!submit(x, tok, n, mark, n_mark))
        return false;
    x->stream = x->req.stream;
    return x->stream || reply_whole(x);
}

bool endpoint_completions(exchange *x)
{
    if (!request_parse(&x->req, REQUEST_COMPLETION, (const char *)x->body.data, x->body.len,
                       &x->s->p.defaults, &x->err) ||
        !check_model(x))
        return false;
    int32_t *tok = NULL;
    size_t n, len;
    if (!completion_tokens(x, &tok, &n))
        return false;
    if (!take_echo(x, tok, n, &len)) {
        ft_free(tok);
        return false;
    }
    answer_params p = {.echo = x->echo, .echo_len = len};
    return run(x, &p, tok, n, NULL, 0);
}

/* Does the rendered prompt end inside a think block? Its end is markup alone. */
static bool leaves_thinking(const ft_chat_prompt *p)
{
    static const char open[] = "<think>\n";
    size_t n = sizeof open - 1;
    return p->len >= n && memcmp(p->text + p->len - n, open, n) == 0;
}

bool endpoint_chat(exchange *x)
{
    if (!request_parse(&x->req, REQUEST_CHAT, (const char *)x->body.data, x->body.len,
                       &x->s->p.defaults, &x->err) ||
        !check_model(x))
        return false;
    ft_chat_prompt c;
    ft_error err = {0};
    ft_status st = ft_chat_render(x->s->model, x->req.chat, x->req.chat_len, &c, &err);
    if (st != FT_OK)
        return api_fail_status(&x->err, st, "messages", &err);
    x->req.gen.special = true; /* the parser of answers wants the markup */
    answer_params p = {.thinking = leaves_thinking(&c)};
    ft_free(c.text); /* the rest is taken */
    return run(x, &p, c.tok, (size_t)c.n_tok, c.mark, c.n_mark);
}

void completions_cancel(exchange *x)
{
    if (!x->job)
        return;
    job_cancel(x->job, JOB_CANCEL_GONE); /* without effect once it has ended */
    while (!x->over && job_wait(x->job, &x->box, 1) != JOB_OVER)
        ;
}

void completions_deinit(exchange *x)
{
    job_unref(x->job);
    answer_free(x->answer);
    job_box_deinit(&x->box);
    ft_free(x->echo);
    request_deinit(&x->req);
}
