/* selftest.c - `foretoken selftest sampling`: proof that drafting leaves the distribution alone. */
#include <string.h>

#include "common.h"

static const char command[] = "selftest sampling";

typedef struct {
    json_t *rows; /* NULL: a table */
    int n, n_failed;
} lines;

static void print_head(int n_text)
{
    printf("%d texts of 3 tokens per line, from a toy model at temperature 0.6, top-p 0.95,\n"
           "min-p 0.05, repetition 1.08, presence 0.4; variation: the share of texts that differs\n"
           "from sampling one token at a time; limit: what chance alone stays below\n\n"
           "%-13s %-17s %10s %9s %13s\n",
           n_text, "rule", "drafter", "variation", "limit", "tokens/round");
}

static void print_row(const ft_selftest_row *r)
{
    char drafter[32];
    snprintf(drafter, sizeof drafter, "%s%s", r->drafter, r->argmax ? ", argmax" : "");
    printf("%-13s %-17s %10.4f %9.4f %13.2f  %s%s\n", r->rule, drafter, r->variation, r->limit,
           r->tokens_per_round, r->passed ? "ok" : "FAILED",
           r->exact    ? ""
           : r->passed ? ": no sampler, and seen to be none"
                       : ": no sampler, and not seen to be none");
}

static json_t *row_json(const ft_selftest_row *r)
{
    return json_pack("{s:s, s:s, s:b, s:b, s:f, s:f, s:f, s:b}", "rule", r->rule, "drafter",
                     r->drafter, "argmax", r->argmax, "exact", r->exact, "variation", r->variation,
                     "limit", r->limit, "tokens_per_round", r->tokens_per_round, "passed",
                     r->passed);
}

static bool on_row(void *ctx, const ft_selftest_row *r)
{
    lines *l = ctx;
    l->n++;
    l->n_failed += !r->passed;
    if (l->rows)
        json_array_append_new(l->rows, row_json(r));
    else
        print_row(r);
    fflush(stdout); /* a line takes a while */
    return !interrupted();
}

static int sampling(int n_text, uint64_t seed, bool json)
{
    lines l = {.rows = json ? json_array() : NULL};
    bool passed;
    ft_error err = {0};
    interrupt_install(NULL);
    if (!json)
        print_head(n_text);
    ft_status st = ft_selftest_sampling(n_text, seed, on_row, &l, &passed, &err);
    if (st != FT_OK) {
        json_decref(l.rows);
        return report_failure(command, st, &err);
    }
    int rc = EXIT_OK;
    if (json)
        rc = print_object(command, json_pack("{s:i, s:o, s:b}", "texts", n_text, "rows", l.rows,
                                             "passed", passed));
    else
        printf("\n%d of %d lines as they must be: %s\n", l.n - l.n_failed, l.n,
               passed ? "passed" : "FAILED");
    return passed ? rc : EXIT_FAILED;
}

static int usage(FILE *f, int rc)
{
    fprintf(f, "usage: foretoken selftest sampling [options]\n\n"
               "Options: foretoken selftest sampling --help\n");
    return rc;
}

int cmd_selftest(int argc, char **argv)
{
    const char *verb = argc > 2 ? argv[2] : "";
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0)
        return usage(stdout, EXIT_OK);
    if (strcmp(verb, "sampling") != 0)
        return usage(stderr, EXIT_USAGE);
    int n_text = 400000;
    uint64_t seed = 1;
    bool json = false;
    const arg_spec spec[] = {
        {"--texts", 'n', ARG_INT, &n_text, 20000, 10000000, "N", "texts per line"},
        {"--seed", 's', ARG_SIZE, &seed, 0, 0, "N", "another seed, other texts"},
        {"--json", 0, ARG_FLAG, &json, 0, 0, NULL, "the table as JSON"},
    };
    arg_command c = {
        .command = command,
        .usage = "[options]",
        .about =
            "Count the texts of a toy model, made one token at a time and in rounds of drafts\n"
            "under every rule with good and bad drafters. The exact rules must agree but for\n"
            "chance, greedy-match must not. Exit code 1 if a line is not as it must be.",
        .spec = spec,
        .n_spec = (int)(sizeof spec / sizeof *spec)};
    /* The verb is the command's name to the parser. */
    int rc = args_parse(&c, argc - 1, argv + 1);
    return rc >= 0 ? rc : sampling(n_text, seed, json);
}
