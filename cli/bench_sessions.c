/* bench_sessions.c - `foretoken bench --sessions`: what several sessions at once give together.
 *
 * A run lets n sessions of one batch, each at its own place of the text, decode until the first of them has
 * its tokens, and counts what all have made by then: n are at work the whole time. The counts are
 * interleaved, one session always among them, and a ratio compares runs that follow each other.
 */
#include <string.h>

#include "base/mem.h"
#include "bench.h"

enum { APART = 97 }; /* tokens from the text of one session to that of the next */

typedef struct {
    int n_session, depth;
    bool drafts;
    float temp;
    double speed[BENCH_MAX_REPEAT], ratio[BENCH_MAX_REPEAT]; /* tokens/s of all; by those of one */
    int n;
    uint64_t n_token, rounds, steps; /* over all runs and sessions */
    double draft_s, verify_s, sample_s;
} line;

typedef struct {
    const bench_report *r;
    ft_batch *batch;
    ft_session *s[BENCH_MAX_SESSION];
    int count[BENCH_MAX_COUNT + 1], n_count, most; /* with one session first */
    int32_t *text;                                 /* owned */
    line *line;                                    /* [n_line], owned */
    int n_line;
    ft_error err;
    progress_bar bar;
} runner;

/* ---- Runs ------------------------------------------------------------------------------------ */

static bool ignore(void *ctx, const ft_token *t)
{
    (void)ctx;
    (void)t;
    return true;
}

/* All n sessions at the depth, each with a generation that begins there. */
static ft_status begin(runner *u, const line *l, ft_generation **g)
{
    const bench_plan *plan = u->r->plan;
    ft_generate_params p = ft_generate_params_default();
    p.n_max = plan->n_decode;
    p.ignore_eos = true;
    p.sample.temp = l->temp;
    p.sample.seed = plan->seed;
    p.draft_max = l->drafts ? plan->draft_max : 0;
    p.draft_fixed = !plan->draft_adaptive;
    p.verify = plan->rule[0];
    p.on_token = ignore;
    ft_status st = FT_OK;
    for (int i = 0; i < l->n_session && st == FT_OK; i++) {
        const int32_t *text = u->text + (size_t)i * APART;
        st = bench_go_to(u->s[i], text, l->depth, &u->bar, &u->err);
        if (st == FT_OK)
            st = ft_generation_begin(&g[i], u->s[i], text + ft_session_n_past(u->s[i]), 1, &p,
                                     &u->err);
    }
    return st;
}

/* Steps while all of them are in a state. */
static ft_status step_while(runner *u, ft_generation *const *g, int n, ft_generation_state state)
{
    for (;;) {
        for (int i = 0; i < n; i++)
            if (ft_generation_get_state(g[i]) != state)
                return FT_OK;
        ft_status st = interrupted() ? FT_CANCELLED : ft_batch_step(u->batch, g, n, &u->err);
        if (st != FT_OK)
            return st;
    }
}

/* End them, and count what they made behind their first tokens. */
static ft_status end(runner *u, ft_generation **g, line *l, uint64_t *n_token)
{
    ft_status first = FT_OK;
    *n_token = 0;
    for (int i = 0; i < l->n_session; i++) {
        ft_generate_stats s = {0};
        ft_error err = {0};
        ft_status st = g[i] ? ft_generation_end(g[i], &s, &err) : FT_OK;
        if (st != FT_OK && first == FT_OK) {
            first = st;
            u->err = err;
        }
        *n_token += s.n_token > 0 ? (uint64_t)s.n_token - 1 : 0;
        l->rounds += s.draft.rounds;
        l->steps += s.draft.steps;
        l->draft_s += s.draft.draft_seconds;
        l->verify_s += s.draft.verify_seconds;
        l->sample_s += s.sample_seconds;
    }
    l->n_token += *n_token;
    return first;
}

/* One run of a line: tokens/s of all. */
static ft_status run(runner *u, line *l, double *speed)
{
    ft_generation *g[BENCH_MAX_SESSION] = {NULL};
    ft_status st = begin(u, l, g);
    if (st == FT_OK)
        st = step_while(u, g, l->n_session, FT_GENERATION_PROMPT); /* one step: a token each */
    double t0 = now_seconds();
    if (st == FT_OK)
        st = step_while(u, g, l->n_session, FT_GENERATION_DECODE);
    double seconds = now_seconds() - t0;
    uint64_t n_token;
    ft_status ended = end(u, g, l, &n_token);
    *speed = (double)n_token / seconds;
    return st == FT_OK ? ended : st;
}

/* Lines of the same setting stand together, that of one session first. */
static ft_status run_all(runner *u, bool keep)
{
    double one = 0;
    for (int i = 0; i < u->n_line; i++) {
        line *l = &u->line[i], scratch = *l;
        double speed;
        ft_status st = run(u, keep ? l : &scratch, &speed);
        if (st != FT_OK)
            return st;
        one = i % u->n_count == 0 ? speed : one;
        if (!keep)
            continue;
        l->speed[l->n] = speed;
        l->ratio[l->n++] = speed / one;
    }
    return FT_OK;
}

static ft_status run_plan(runner *u)
{
    const bench_plan *p = u->r->plan;
    ft_status st = run_all(u, false); /* pages of the file, caches, threads */
    for (int k = 0; k < p->n_repeat && st == FT_OK; k++)
        st = progress_show(&u->bar, "runs", (uint64_t)k, (uint64_t)p->n_repeat) ? run_all(u, true)
                                                                                : FT_CANCELLED;
    progress_end(&u->bar);
    return st;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static double per(double seconds, uint64_t n)
{
    return n > 0 ? 1e3 * seconds / (double)n : 0;
}

static double tokens_per_round(const line *l)
{
    return l->rounds > 0 ? (double)l->n_token / (double)l->rounds : 0;
}

static void print_table(const runner *u)
{
    const bench_report *r = u->r;
    const bench_plan *p = r->plan;
    printf("%s: %s, %.1f MB; %s, %d threads, %s\n", r->model, r->info.arch,
           1e-6 * (double)r->info.file_bytes, r->machine, r->info.n_thread, r->info.cpu);
    printf("sessions at once in one batch, until the first has %d tokens, %d interleaved runs; "
           "medians,"
           "\nhalf the distance of the quartiles behind +-; tokens/s of all together, ratio to "
           "one\n\n",
           p->n_decode, p->n_repeat);
    printf("%7s %6s %8s %5s %11s %8s %7s %8s %9s %10s %10s\n", "depth", "drafts", "sessions",
           "temp", "tokens/s", "+-", "ratio", "/round", "step ms", "verify ms", "sample ms");
    for (int i = 0; i < u->n_line; i++) {
        line *l = &u->line[i];
        stats speed = stats_of(l->speed, l->n), ratio = stats_of(l->ratio, l->n);
        char drafts[16] = "-", step[16] = "-";
        if (l->drafts)
            snprintf(drafts, sizeof drafts, "%s%d", p->draft_adaptive ? "<= " : "", p->draft_max);
        if (l->steps > 0)
            snprintf(step, sizeof step, "%.3f", per(l->draft_s, l->steps));
        printf("%7d %6s %8d %5.2g %11.2f %6.1f %% %7.2f %8.2f %9s %10.3f %10.3f\n", l->depth,
               drafts, l->n_session, (double)l->temp, speed.median, 100 * stats_spread(&speed),
               ratio.median, tokens_per_round(l), step, per(l->verify_s, l->rounds),
               per(l->sample_s, l->n_token));
    }
}

static json_t *as_json(const runner *u)
{
    const bench_report *r = u->r;
    json_t *lines = json_array();
    for (int i = 0; i < u->n_line; i++) {
        line *l = &u->line[i];
        stats speed = stats_of(l->speed, l->n), ratio = stats_of(l->ratio, l->n);
        json_array_append_new(
            lines, json_pack("{s:i, s:i, s:i, s:f, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}",
                             "sessions", l->n_session, "depth", l->depth, "draft_max",
                             l->drafts ? r->plan->draft_max : 0, "temp", (double)l->temp, "runs",
                             l->n, "tokens_per_second", speed.median, "tokens_per_second_low",
                             speed.low, "tokens_per_second_high", speed.high, "ratio", ratio.median,
                             "tokens_per_round", tokens_per_round(l), "ms_per_step",
                             per(l->draft_s, l->steps), "ms_per_verification",
                             per(l->verify_s, l->rounds)));
    }
    return json_pack("{s:s, s:s, s:s, s:I, s:i, s:s, s:i, s:b, s:o}", "machine", r->machine,
                     "model", r->model, "arch", r->info.arch, "file_bytes",
                     (json_int_t)r->info.file_bytes, "threads", r->info.n_thread, "cpu",
                     r->info.cpu, "decode_tokens", r->plan->n_decode, "draft_adaptive",
                     r->plan->draft_adaptive, "lines", lines);
}

/* ---- The whole -------------------------------------------------------------------------------- */

static void list_counts(runner *u)
{
    u->count[u->n_count++] = u->most = 1;
    for (int i = 0; i < u->r->plan->n_session; i++) {
        int n = u->r->plan->session[i];
        if (n > 1)
            u->count[u->n_count++] = n;
        u->most = n > u->most ? n : u->most;
    }
}

/* A line for every depth, temperature, with and without drafts, and count. */
static bool make_lines(runner *u)
{
    const bench_plan *p = u->r->plan;
    int n_mode = p->draft_max > 0 && u->r->info.has_mtp ? 2 : 1;
    size_t n = (size_t)(p->n_depth * p->n_temp * n_mode * u->n_count);
    u->line = mem_calloc(n, sizeof *u->line);
    if (!u->line)
        return false;
    for (int d = 0; d < p->n_depth; d++)
        for (int t = 0; t < p->n_temp; t++)
            for (int mode = 0; mode < n_mode; mode++)
                for (int k = 0; k < u->n_count; k++)
                    u->line[u->n_line++] = (line){.n_session = u->count[k],
                                                  .depth = p->depth[d],
                                                  .drafts = mode == 1,
                                                  .temp = p->temp[t]};
    return true;
}

static ft_status open_sessions(runner *u, ft_model *m, const model_args *a)
{
    const bench_plan *p = u->r->plan;
    ft_batch_params bp = {.n_session = u->most, .n_chunk = a->n_chunk, .n_ctx = bench_context(p)};
    ft_session_params sp = {.n_chunk = a->n_chunk,
                            .kv_type = a->kv,
                            .no_draft = p->draft_max == 0,
                            .sink = a->sink,
                            .window = a->window};
    ft_status st = ft_batch_create(&u->batch, m, &bp, &u->err);
    sp.batch = u->batch;
    for (int i = 0; i < u->most && st == FT_OK; i++)
        st = ft_session_create(&u->s[i], m, &sp, &u->err);
    return st;
}

static int measure(runner *u, ft_model *m, const model_args *a, const char *text)
{
    int n_text = bench_context(u->r->plan) + u->most * APART;
    u->text = mem_calloc((size_t)n_text, sizeof *u->text);
    ft_status st = FT_OK;
    if (!u->text || !make_lines(u)) {
        st = FT_NOMEM;
        u->err = (ft_error){.code = st, .msg = "lines of the report"};
    }
    if (st == FT_OK)
        st = open_sessions(u, m, a);
    if (st != FT_OK)
        return report_failure("bench", st, &u->err);
    int rc = bench_text(u->text, n_text, u->r, m, text);
    if (rc >= 0)
        return rc;
    interrupt_install(NULL);
    st = run_plan(u);
    progress_end(&u->bar);
    return st == FT_OK ? -1 : report_failure("bench", st, &u->err);
}

int bench_sessions(const bench_report *r, ft_model *m, const model_args *a, const char *text,
                   bool json)
{
    runner u = {.r = r};
    list_counts(&u);
    int rc = measure(&u, m, a, text);
    if (rc < 0 && json)
        rc = print_object("bench", as_json(&u));
    else if (rc < 0)
        print_table(&u);
    for (int i = 0; i < u.most; i++)
        ft_session_free(u.s[i]);
    ft_batch_free(u.batch);
    mem_free(u.line);
    mem_free(u.text);
    return rc < 0 ? EXIT_OK : rc;
}
