/* draft_error.c - `foretoken draft-error`: what low-bit draft weights cost in accuracy, matrix by
 * matrix, beside published figures. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

/* Published figures of the MTP tensors of Flash-Next, percent: Q8_0, Q5_0, fitted Q4_0. */
static const struct {
    const char *part;
    double percent[3];
} published[] = {
    {"fc_embedding", {0.58, 4.4, 8.7}}, {"fc_hidden", {1.18, 4.4, 5.8}},
    {"attn_q", {0.69, 5.6, 10.3}},      {"attn_output", {0.62, 4.9, 9.1}},
    {"shared_down", {0.68, 5.6, 10.7}},
};

static const double *published_for(const char *part)
{
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (strcmp(published[i].part, part) == 0)
            return published[i].percent;
    return NULL;
}

/* ---- A table -------------------------------------------------------------------------------- */

static void print_head(void)
{
    printf(
        "relative RMSE of W x for Gaussian x, percent      Q4_0 is by the public rule, and with\n"
        "against the weights as they are in the file       fitted scales, which drafting uses\n\n"
        "%-13s %-6s %13s %8s %8s %8s %8s   %s\n",
        "matrix", "type", "rows x cols", "Q8_0", "Q5_0", "Q4_0", "fitted",
        "published: Q8_0 / Q5_0 / fitted");
}

static void print_row(const ft_draft_error_report *r)
{
    char shape[32];
    snprintf(shape, sizeof shape, "%d x %d", r->n_row, r->n_col);
    printf("%-13s %-6s %13s ", r->part, r->type, shape);
    if (r->no_error[0]) {
        printf("%s\n", r->no_error);
        return;
    }
    printf("%8.3f %8.3f %8.3f %8.3f", 100 * r->q8_0, 100 * r->q5_0, 100 * r->q4_0_plain,
           100 * r->q4_0);
    const double *p = published_for(r->part);
    if (p)
        printf("   %.2f / %.1f / %.1f", p[0], p[1], p[2]);
    printf("\n");
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* null where weights that are not finite leave no number. */
static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *row_json(const ft_draft_error_report *r)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:i, s:i}", "part", r->part, "name", r->name, "type",
                          r->type, "rows", r->n_row, "cols", r->n_col);
    if (r->no_error[0]) {
        json_object_set_new(j, "no_error", json_string(r->no_error));
        return j;
    }
    json_object_set_new(j, "q8_0", number(r->q8_0));
    json_object_set_new(j, "q5_0", number(r->q5_0));
    json_object_set_new(j, "q4_0_plain", number(r->q4_0_plain));
    json_object_set_new(j, "q4_0", number(r->q4_0));
    const double *p = published_for(r->part);
    if (p)
        json_object_set_new(j, "published",
                            json_pack("{s:f, s:f, s:f}", "q8_0", p[0] / 100, "q5_0", p[1] / 100,
                                      "q4_0", p[2] / 100));
    return j;
}

static int print_json(const json_t *list)
{
    char *dump = json_dumps(list, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    if (!dump) {
        fprintf(stderr, "foretoken draft-error: out of memory\n");
        return EXIT_FAILED;
    }
    puts(dump);
    free(dump);
    return EXIT_OK;
}

/* ---- The command ---------------------------------------------------------------------------- */

static void on_matrix(void *ctx, const ft_draft_error_report *r)
{
    json_t *list = ctx; /* NULL: a table */
    if (list)
        json_array_append_new(list, row_json(r));
    else
        print_row(r);
}

static int measure(const ft_model *m, bool json)
{
    json_t *list = json ? json_array() : NULL;
    if (!json)
        print_head();
    ft_error err = {0};
    ft_status st = ft_draft_error(m, on_matrix, list, &err);
    int rc = st != FT_OK ? report_failure("draft-error", st, &err) : EXIT_OK;
    if (json && rc == EXIT_OK)
        rc = print_json(list);
    json_decref(list);
    return rc;
}

int cmd_draft_error(int argc, char **argv)
{
    model_args a = model_args_default();
    bool json = false;
    const arg_spec spec[] = {
        {"--model", 'm', ARG_STR, &a.model, 0, 0, "FILE", "the model, a GGUF file (required)"},
        {"--mtp", 0, ARG_STR, &a.mtp, 0, 0, "FILE", "a separate GGUF with the draft head"},
        {"--json", 0, ARG_FLAG, &json, 0, 0, NULL, "the report as JSON, errors as fractions"},
    };
    arg_command c = {.command = "draft-error",
                     .usage = "-m FILE [--mtp FILE] [--json]",
                     .about = "Measure what Q8_0, Q5_0 and Q4_0 would cost in each wide matrix of "
                              "the draft head:\nrelative error of its products with Gaussian "
                              "vectors.",
                     .spec = spec,
                     .n_spec = (int)(sizeof spec / sizeof *spec)};
    int rc = args_parse(&c, argc, argv);
    if (rc >= 0)
        return rc;
    ft_model *m;
    rc = open_model("draft-error", &a, &m, NULL);
    if (rc >= 0)
        return rc;
    rc = measure(m, json);
    ft_model_close(m);
    return rc;
}
