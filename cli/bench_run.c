/* bench_run.c - the runs of `foretoken bench`, and what they add up to.
 *
 * At each depth every run is made once, then all of them again, n_repeat times: what disturbs the
 * machine for a while disturbs all alike. A checkpoint at the depth lets every run start there.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench.h"

typedef struct {
    bench_report *r;
    ft_session *s;
    const int32_t *text; /* [n_text] */
    int n_text;
    ft_error err;
    progress_bar bar;
    uint64_t n_run; /* differs the seeds */
} runner;

/* ---- Lines ----------------------------------------------------------------------------------- */

static const char *const names[BENCH_N_WHAT] = {"prompt",     "decode",       "drafting",
                                                "draft step", "verification", "sampling"};

const char *bench_what_name(bench_what w)
{
    return names[w];
}

static void read_machine(char *out, size_t size)
{
    snprintf(out, size, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        snprintf(out, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (f)
        fclose(f);
}

void bench_report_init(bench_report *r, const bench_plan *p, const char *model, const ft_model *m)
{
    *r = (bench_report){.plan = p, .model = model};
    ft_model_get_info(m, &r->info);
    read_machine(r->machine, sizeof r->machine);
}

void bench_report_deinit(bench_report *r)
{
    mem_free(r->line);
    r->line = NULL;
    r->n_line = r->cap = 0;
}

double bench_speed(const bench_line *l)
{
    bool of_tokens = l->what <= BENCH_DRAFTING;
    return of_tokens && l->t.median > 0 ? 1e3 / l->t.median : 0;
}

double bench_efficiency(const bench_line *l)
{
    return l->t.median > 0 ? l->floor_ms / l->t.median : 0;
}

double bench_tokens_per_round(const bench_line *l)
{
    return l->what == BENCH_DRAFTING && l->rounds ? (double)l->n_token / (double)l->rounds : 0;
}

/* The line of this kind, made at its first run. NULL: out of memory. */
static bench_line *line_for(bench_report *r, const bench_line *key)
{
    for (int i = 0; i < r->n_line; i++) {
        bench_line *l = &r->line[i];
        if (l->what == key->what && l->depth == key->depth && l->drafts == key->drafts &&
            l->rule == key->rule && memcmp(&l->temp, &key->temp, sizeof l->temp) == 0)
            return l;
    }
    if (r->n_line == r->cap) {
        int cap = r->cap ? 2 * r->cap : 32;
        bench_line *grown = mem_realloc(r->line, (size_t)cap * sizeof *grown);
        if (!grown)
            return NULL;
        r->line = grown;
        r->cap = cap;
    }
    r->line[r->n_line] = *key;
    return &r->line[r->n_line++];
}

/* One more time of a line; the line, NULL without memory. */
static bench_line *put(runner *u, const bench_line *key, bench_what what, double ms)
{
    bench_line k = *key;
    k.what = what;
    bench_line *l = line_for(u->r, &k);
    if (l && l->n < BENCH_MAX_RUNS)
        l->ms[l->n++] = ms;
    return l;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static ft_status no_memory(runner *u)
{
    u->err = (ft_error){.code = FT_NOMEM, .msg = "lines of the report"};
    return FT_NOMEM;
}

ft_status bench_go_to(ft_session *s, const int32_t *tok, int depth, progress_bar *bar,
                      ft_error *err)
{
    enum { STEP = 512 };
    int at;
    ft_status st = ft_session_reuse(s, tok, depth + 1, &at, err);
    if (st != FT_OK || at == depth)
        return st;
    char what[48];
    snprintf(what, sizeof what, "reading to depth %d", depth);
    while (at < depth) {
        int n = depth - at < STEP ? depth - at : STEP;
        st = ft_session_eval(s, tok + at, n, NULL, err);
        if (st != FT_OK)
            return st;
        at += n;
        if (!progress_show(bar, what, (uint64_t)at, (uint64_t)depth))
            return FT_CANCELLED;
    }
    progress_end(bar);
    return ft_session_checkpoint(s, err);
}

static ft_status run_prompt(runner *u, int depth, bool keep)
{
    ft_status st = bench_go_to(u->s, u->text, depth, &u->bar, &u->err);
    if (st != FT_OK)
        return st;
    int before = ft_session_n_past(u->s);
    const float *logits;
    double t0 = now_seconds();
    st = ft_session_eval(u->s, u->text + before, u->r->plan->n_prompt, &logits, &u->err);
    double seconds = now_seconds() - t0;
    if (st != FT_OK || !keep)
        return st;
    int n = ft_session_n_past(u->s) - before; /* and a token that had waited */
    bench_line key = {.depth = depth};
    return put(u, &key, BENCH_PROMPT, 1e3 * seconds / n) ? FT_OK : no_memory(u);
}

/* Draft steps and verifications are the same calls whatever the rule. */
static bool keep_rounds(runner *u, const bench_line *key, const ft_draft_stats *d)
{
    bench_line any = {.depth = key->depth, .temp = key->temp};
    bench_line *step = put(u, &any, BENCH_STEP, 1e3 * d->draft_seconds / (double)d->steps);
    bench_line *verify = put(u, &any, BENCH_VERIFY, 1e3 * d->verify_seconds / (double)d->rounds);
    if (!verify || !step)
        return false;
    verify->rounds += d->rounds;
    verify->drafted += d->drafted;
    return true;
}

static ft_status keep_decode(runner *u, const bench_line *key, const ft_generate_stats *s)
{
    const ft_draft_stats *d = &s->draft;
    int n = s->n_token - 1; /* the first one came with the prompt */
    bench_line *l =
        put(u, key, key->drafts ? BENCH_DRAFTING : BENCH_DECODE, 1e3 * s->decode_seconds / n);
    if (!l)
        return no_memory(u);
    l->n_token += (uint64_t)n;
    l->rounds += d->rounds;
    l->steps += d->steps;
    l->drafted += d->drafted;
    l->accepted += d->accepted;
    if (d->steps > 0 && !keep_rounds(u, key, d))
        return no_memory(u);
    return put(u, key, BENCH_SAMPLE, 1e3 * s->sample_seconds / s->n_token) ? FT_OK : no_memory(u);
}

static ft_status run_decode(runner *u, const bench_line *key, bool keep)
{
    const bench_plan *plan = u->r->plan;
    ft_status st = bench_go_to(u->s, u->text, key->depth, &u->bar, &u->err);
    if (st != FT_OK)
        return st;
    ft_generate_params p = ft_generate_params_default();
    p.n_max = plan->n_decode;
    p.ignore_eos = true;
    p.sample.temp = key->temp;
    p.sample.seed = plan->seed + u->n_run++;
    p.draft_max = key->drafts ? plan->draft_max : 0;
    p.draft_fixed = !plan->draft_adaptive;
    p.verify = key->rule;
    ft_generate_stats s;
    st = ft_session_generate(u->s, u->text + ft_session_n_past(u->s), 1, &p, &s, &u->err);
    if (st == FT_OK && s.finish == FT_FINISH_CANCELLED)
        return FT_CANCELLED;
    return st == FT_OK && keep ? keep_decode(u, key, &s) : st;
}

/* The best of all: what disturbs the machine only makes it less. */
static ft_status run_bandwidth(runner *u)
{
    double bandwidth;
    ft_status st = ft_measure_bandwidth(u->r->info.n_thread, &bandwidth, &u->err);
    if (bandwidth > u->r->bandwidth)
        u->r->bandwidth = bandwidth;
    return st;
}

/* Every run of a depth once. */
static ft_status run_all(runner *u, int depth, bool keep)
{
    const bench_plan *p = u->r->plan;
    bool drafts = p->draft_max > 0 && u->r->info.has_mtp;
    for (int t = 0; t < p->n_temp; t++) {
        bench_line key = {.depth = depth, .temp = p->temp[t]};
        ft_status st = run_decode(u, &key, keep);
        key.drafts = true;
        for (int i = 0; st == FT_OK && drafts && i < p->n_rule; i++) {
            key.rule = p->rule[i];
            st = run_decode(u, &key, keep);
        }
        if (st != FT_OK)
            return st;
    }
    return p->n_prompt > 0 ? run_prompt(u, depth, keep) : FT_OK;
}

static int by_depth_and_kind(const void *a, const void *b)
{
    const bench_line *x = a, *y = b;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    if (x->what != y->what)
        return x->what < y->what ? -1 : 1;
    if (x->drafts != y->drafts)
        return x->drafts ? 1 : -1;
    if (x->rule != y->rule)
        return x->rule < y->rule ? -1 : 1;
    return (x->temp > y->temp) - (x->temp < y->temp);
}

static ft_status run_plan(runner *u)
{
    const bench_plan *p = u->r->plan;
    ft_status st = run_all(u, 0, false); /* pages of the file, caches, threads */
    for (int i = 0; i < p->n_depth && st == FT_OK; i++) {
        for (int k = 0; k < p->n_repeat && st == FT_OK; k++) {
            char what[48];
            snprintf(what, sizeof what, "depth %d, run %d", p->depth[i], k + 1);
            st = progress_show(&u->bar, what, (uint64_t)k, (uint64_t)p->n_repeat)
                     ? run_all(u, p->depth[i], true)
                     : FT_CANCELLED;
            if (st == FT_OK)
                st = run_bandwidth(u);
        }
        progress_end(&u->bar);
    }
    return st;
}

/* ---- The whole -------------------------------------------------------------------------------- */

int bench_context(const bench_plan *p)
{
    int deepest = 0;
    for (int i = 0; i < p->n_depth; i++)
        deepest = p->depth[i] > deepest ? p->depth[i] : deepest;
    int longest = p->n_prompt > p->n_decode ? p->n_prompt : p->n_decode;
    return deepest + longest + 2 * FT_DRAFT_MAX;
}

/* Random tokens, none of them special in the tokenizers of these families (whose ends are the last). */
static void random_text(int32_t *text, int n, const bench_report *r)
{
    uint64_t x = r->plan->seed;
    for (int i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
        text[i] = (int32_t)((x >> 33) % (uint64_t)(r->info.n_vocab * 3LL / 4));
    }
}

/* The tokens of a file, over and over. */
static int file_text(int32_t *text, int n, const ft_model *m, const char *path)
{
    char *bytes;
    size_t len, n_id;
    int32_t *id;
    ft_error err = {0};
    int rc = read_text("bench", path, &bytes, &len);
    if (rc >= 0)
        return rc;
    ft_status st = ft_tokenize(m, bytes, len, false, &id, &n_id, &err);
    mem_free(bytes);
    if (st != FT_OK)
        return report_failure("bench", st, &err);
    if (n_id == 0) {
        fprintf(stderr, "foretoken bench: %s: no text\n", path);
        return EXIT_FAILED;
    }
    for (int i = 0; i < n; i++)
        text[i] = id[(size_t)i % n_id];
    ft_free(id);
    return -1;
}

int bench_text(int32_t *tok, int n, const bench_report *r, const ft_model *m, const char *text)
{
    if (text)
        return file_text(tok, n, m, text);
    random_text(tok, n, r);
    return -1;
}

static int measure_in(runner *u)
{
    interrupt_install(u->s);
    ft_status st = run_plan(u);
    interrupt_install(NULL);
    progress_end(&u->bar);
    if (st != FT_OK)
        return report_failure("bench", st, &u->err);
    bench_report *r = u->r;
    for (int i = 0; i < r->n_line; i++)
        r->line[i].t = stats_of(r->line[i].ms, r->line[i].n);
    qsort(r->line, (size_t)r->n_line, sizeof *r->line, by_depth_and_kind);
    return -1;
}

int bench_measure(bench_report *r, ft_model *m, const model_args *a, const char *text)
{
    runner u = {.r = r, .n_text = bench_context(r->plan)};
    ft_session_params sp = {.n_ctx = u.n_text,
                            .n_chunk = a->n_chunk,
                            .kv_type = a->kv,
                            .no_draft = r->plan->draft_max == 0,
                            .sink = a->sink,
                            .window = a->window};
    int32_t *tok = mem_calloc((size_t)u.n_text, sizeof *tok);
    ft_status st = tok ? ft_session_create(&u.s, m, &sp, &u.err) : no_memory(&u);
    int rc = -1;
    if (st != FT_OK)
        rc = report_failure("bench", st, &u.err);
    else
        rc = bench_text(tok, u.n_text, r, m, text);
    u.text = tok;
    if (rc < 0)
        rc = measure_in(&u);
    ft_session_free(u.s);
    mem_free(tok);
    return rc;
}
