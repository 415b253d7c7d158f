/* bench.h - inside `foretoken bench`: what is measured, and the ways in which it is shown. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include <foretoken/foretoken.h>

#include "base/stats.h"
#include "common.h"

enum {
    BENCH_MAX_DEPTH = 16,
    BENCH_MAX_RULE = 4,
    BENCH_MAX_TEMP = 8,
    BENCH_MAX_REPEAT = 100,
    BENCH_MAX_RUNS = BENCH_MAX_REPEAT * BENCH_MAX_RULE,
    BENCH_MAX_COUNT = 8,
    BENCH_MAX_SESSION = 64
};

/* What is to be measured. */
typedef struct {
    int depth[BENCH_MAX_DEPTH], n_depth; /* tokens in the session before a run */
    ft_verify rule[BENCH_MAX_RULE];
    int n_rule;
    float temp[BENCH_MAX_TEMP];
    int n_temp;
    int session[BENCH_MAX_COUNT], n_session; /* counts of sessions at once; none: one alone */
    int n_prompt, n_decode;                  /* tokens of a run; n_prompt 0: none */
    int draft_max;                           /* 0: no runs with drafts */
    bool draft_adaptive;                     /* as many drafts as pay; otherwise always draft_max */
    int n_repeat;
    uint64_t seed;
} bench_plan;

typedef enum {
    BENCH_PROMPT,   /* per token, n_prompt of them in chunks */
    BENCH_DECODE,   /* per token, without drafts */
    BENCH_DRAFTING, /* per token, with drafts */
    BENCH_STEP,     /* per draft step */
    BENCH_VERIFY,   /* per round: its drafts + 1 rows in one call */
    BENCH_SAMPLE,   /* per token: distributions and draws */
    BENCH_N_WHAT
} bench_what;
const char *bench_what_name(bench_what w); /* "prompt", "decode", "drafting", "draft step", ... */

/* One measured thing; times in milliseconds. */
typedef struct {
    bench_what what;
    int depth;
    bool drafts; /* rule counts */
    ft_verify rule;
    float temp; /* not of PROMPT */
    double ms[BENCH_MAX_RUNS];
    int n;
    uint64_t n_token, rounds, steps, drafted, accepted; /* over all runs, where there were drafts */
    stats t;                                            /* of ms, once all is measured */
    double floor_bytes; /* that must be read each time; 0: not known */
    double floor_ms;    /* the same at the measured bandwidth; 0: unknown */
} bench_line;

typedef struct {
    const bench_plan *plan; /* borrowed */
    const char *model;      /* its file or shape; borrowed */
    ft_model_info info;
    char machine[128]; /* the processor's name */
    double bandwidth;  /* bytes per second that this machine reads; 0: not measured */
    bench_line *line;  /* [n_line], owned */
    int n_line, cap;
} bench_report;

void bench_report_init(bench_report *r, const bench_plan *p, const char *model, const ft_model *m);
void bench_report_deinit(bench_report *r);

/* Tokens per second of PROMPT, DECODE and DRAFTING; 0 of others. */
double bench_speed(const bench_line *l);
/* Floor by measured time, 0 .. 1; 0: no floor. */
double bench_efficiency(const bench_line *l);
double bench_tokens_per_round(const bench_line *l); /* 0: no rounds */

/* Run everything: the runs of a depth interleaved, n_repeat times over. text: a file whose tokens fill
 * the context, over and over; NULL: random tokens. The exit code after a message; -1: go on. */
int bench_measure(bench_report *r, ft_model *m, const model_args *a, const char *text);

/* Instead: so many sessions at once in one batch, decoding, with and without drafts; tokens/s of all of them
 * and their ratio to one session. Measures and prints. The exit code. */
int bench_sessions(const bench_report *r, ft_model *m, const model_args *a, const char *text,
                   bool json);

/* For both: the most tokens that a session holds; n tokens of a text (as bench_measure), -1 or the exit code
 * after a message; and a session brought to a depth of it, where what no checkpoint holds is read. */
int bench_context(const bench_plan *p);
int bench_text(int32_t *tok, int n, const bench_report *r, const ft_model *m, const char *text);
ft_status bench_go_to(ft_session *s, const int32_t *tok, int depth, progress_bar *bar,
                      ft_error *err);

/* Fill in the floors: floor_bytes, floor_ms. The exit code after a message; -1: go on. */
int bench_floors(bench_report *r, const ft_model *m, const model_args *a);

/* Measure the products of a type (NULL: all) and print them; csv NULL: not wanted there. The exit code. */
int bench_kernels(const model_args *a, const char *type, bool json, buf *csv);

/* The report as a table on standard output; as one JSON object (NULL: no memory); as lines of CSV and as
 * a picture, appended to b. */
void bench_print(const bench_report *r);
json_t *bench_json(const bench_report *r);
void bench_csv(buf *b, const bench_report *r);
void bench_svg(buf *b, const bench_report *r);

#endif
