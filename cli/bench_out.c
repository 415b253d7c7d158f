/* bench_out.c - a report of `foretoken bench` as a table, JSON and CSV. */
#include <string.h>

#include "bench.h"

/* ---- The table ------------------------------------------------------------------------------- */

static void print_head(const bench_report *r)
{
    const bench_plan *p = r->plan;
    printf("%s: %s, %.1f MB; %s, %d threads, %s\n", r->model, r->info.arch,
           1e-6 * (double)r->info.file_bytes, r->machine, r->info.n_thread, r->info.cpu);
    printf("%d tokens read, %d made in a run, %d interleaved runs: medians, half the distance of "
           "the\nquartiles behind +-; ms per token, draft step or round",
           p->n_prompt, p->n_decode, p->n_repeat);
    if (r->bandwidth > 0)
        printf("; floors at %.1f GB/s", 1e-9 * r->bandwidth);
    printf("\n\n%7s  %-13s %-12s %5s %11s %8s %10s %10s %7s %6s\n", "depth", "", "rule", "temp",
           "tokens/s", "+-", "ms", "floor ms", "share", "/round");
}

/* A number, or a dash where there is none. */
static void cell(int width, const char *format, double x)
{
    char text[32] = "-";
    if (x > 0)
        snprintf(text, sizeof text, "%.*f%s", format[0] - '0', x, format + 1);
    printf(" %*s", width, text);
}

static void print_line(const bench_report *r, const bench_line *l)
{
    char name[32], temp[16] = "-";
    if (l->what == BENCH_VERIFY && !r->plan->draft_adaptive)
        snprintf(name, sizeof name, "verify %d rows", r->plan->draft_max + 1);
    else
        snprintf(name, sizeof name, "%s", bench_what_name(l->what));
    if (l->what != BENCH_PROMPT)
        snprintf(temp, sizeof temp, "%.2g", (double)l->temp);
    printf("%7d  %-13s %-12s %5s", l->depth, name, l->drafts ? verify_name(l->rule) : "-", temp);
    cell(11, "2", bench_speed(l));
    printf(" %6.1f %%", 100 * stats_spread(&l->t));
    printf(" %10.3f", l->t.median);
    cell(10, "3", l->floor_ms);
    cell(7, "0 %", 100 * bench_efficiency(l));
    cell(6, "2", bench_tokens_per_round(l));
    printf("\n");
}

void bench_print(const bench_report *r)
{
    print_head(r);
    for (int i = 0; i < r->n_line; i++) {
        if (i > 0 && r->line[i].depth != r->line[i - 1].depth)
            printf("\n");
        print_line(r, &r->line[i]);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *line_json(const bench_report *r, const bench_line *l)
{
    json_t *j =
        json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f}", "what", bench_what_name(l->what),
                  "depth", l->depth, "runs", l->n, "ms", l->t.median, "ms_low", l->t.low, "ms_high",
                  l->t.high, "ms_min", l->t.min, "ms_max", l->t.max);
    if (bench_speed(l) > 0)
        json_object_set_new(j, "tokens_per_second", json_real(bench_speed(l)));
    if (l->what != BENCH_PROMPT)
        json_object_set_new(j, "temp", json_real((double)l->temp));
    if (l->drafts) {
        json_object_set_new(j, "rule", json_string(verify_name(l->rule)));
        json_object_set_new(j, "draft_max", json_integer(r->plan->draft_max));
    }
    if (l->floor_bytes > 0)
        json_object_set_new(j, "floor_bytes", json_real(l->floor_bytes));
    if (l->floor_ms > 0) {
        json_object_set_new(j, "floor_ms", json_real(l->floor_ms));
        json_object_set_new(j, "efficiency", json_real(bench_efficiency(l)));
    }
    if (l->what == BENCH_DRAFTING) {
        json_object_set_new(j, "tokens_per_round", json_real(bench_tokens_per_round(l)));
        json_object_set_new(j, "drafted", json_integer((json_int_t)l->drafted));
        json_object_set_new(j, "accepted", json_integer((json_int_t)l->accepted));
    }
    return j;
}

json_t *bench_json(const bench_report *r)
{
    const bench_plan *p = r->plan;
    json_t *lines = json_array();
    for (int i = 0; i < r->n_line; i++)
        json_array_append_new(lines, line_json(r, &r->line[i]));
    return json_pack("{s:s, s:s, s:s, s:I, s:i, s:s, s:f, s:i, s:i, s:i, s:b, s:o}", "machine",
                     r->machine, "model", r->model, "arch", r->info.arch, "file_bytes",
                     (json_int_t)r->info.file_bytes, "threads", r->info.n_thread, "cpu",
                     r->info.cpu, "bandwidth", r->bandwidth, "prompt_tokens", p->n_prompt,
                     "decode_tokens", p->n_decode, "draft_max", p->draft_max, "draft_adaptive",
                     p->draft_adaptive, "lines", lines);
}

/* ---- CSV (RFC 4180) --------------------------------------------------------------------------- */

static void csv_text(buf *b, const char *s)
{
    buf_putc(b, '"');
    for (; *s; s++) {
        if (*s == '"')
            buf_putc(b, '"');
        buf_putc(b, *s);
    }
    buf_putc(b, '"');
}

/* Nothing where there is no number. */
static void csv_number(buf *b, double x)
{
    if (x > 0)
        buf_printf(b, ",%.9g", x);
    else
        buf_putc(b, ',');
}

void bench_csv(buf *b, const bench_report *r)
{
    buf_puts(b, "machine,cpu,threads,model,file_bytes,bandwidth,what,depth,rule,temp,draft_max,"
                "runs,tokens_per_second,ms,ms_low,ms_high,ms_min,ms_max,floor_bytes,floor_ms,"
                "efficiency,tokens_per_round,drafted,accepted\n");
    for (int i = 0; i < r->n_line; i++) {
        const bench_line *l = &r->line[i];
        csv_text(b, r->machine);
        buf_printf(b, ",%s,%d,", r->info.cpu, r->info.n_thread);
        csv_text(b, r->model);
        buf_printf(b, ",%llu", (unsigned long long)r->info.file_bytes);
        csv_number(b, r->bandwidth);
        buf_printf(b, ",%s,%d,%s,", bench_what_name(l->what), l->depth,
                   l->drafts ? verify_name(l->rule) : "");
        if (l->what != BENCH_PROMPT)
            buf_printf(b, "%.9g", (double)l->temp);
        buf_printf(b, ",%d,%d", l->drafts ? r->plan->draft_max : 0, l->n);
        const double x[] = {bench_speed(l),
                            l->t.median,
                            l->t.low,
                            l->t.high,
                            l->t.min,
                            l->t.max,
                            l->floor_bytes,
                            l->floor_ms,
                            bench_efficiency(l),
                            bench_tokens_per_round(l)};
        for (size_t k = 0; k < ARRAY_LEN(x); k++)
            csv_number(b, x[k]);
        buf_printf(b, ",%llu,%llu\n", (unsigned long long)l->drafted,
                   (unsigned long long)l->accepted);
    }
}
