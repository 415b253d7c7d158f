/* args.c - see args.h. */
#include "args.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Help --------------------------------------------------------------------------------------- */

static void put_range(const arg_spec *a)
{
    bool is_int = a->kind == ARG_INT || a->kind == ARG_INT_ALL;
    if (is_int && a->max < 2e9)
        printf(", %.0f to %.0f", a->min, a->max);
    else if (is_int && a->min > -2e9)
        printf(", from %.0f", a->min);
    else if (a->kind == ARG_FLOAT)
        printf(", %g to %g", a->min, a->max);
}

/* The largest unit in which it is a whole number. */
static void put_bytes(FILE *f, uint64_t n)
{
    const char *unit = "\0KMG";
    while (n >= 1024 && n % 1024 == 0 && *unit != 'G') {
        n /= 1024;
        unit++;
    }
    fprintf(f, "%llu%.1s", (unsigned long long)n, unit);
}

static void put_value(FILE *f, const arg_spec *a)
{
    switch (a->kind) {
    case ARG_FLAG:
        fputs(*(bool *)a->out ? "on" : "off", f);
        return;
    case ARG_LIST: {
        const arg_list *l = a->out;
        for (int i = 0; i < l->n; i++)
            fprintf(f, "%s%s", i ? "  " : "", l->item[i]);
        return;
    }
    case ARG_STR:
    case ARG_CHOICE: {
        const char *s = *(const char **)a->out;
        fputs(s ? s : "", f);
        return;
    }
    case ARG_INT:
    case ARG_INT_ALL:
        if (a->kind == ARG_INT_ALL && *(int *)a->out == INT32_MAX)
            fputs("all", f);
        else
            fprintf(f, "%d", *(int *)a->out);
        return;
    case ARG_SIZE:
        fprintf(f, "%llu", (unsigned long long)*(uint64_t *)a->out);
        return;
    case ARG_BYTES:
        put_bytes(f, *(uint64_t *)a->out);
        return;
    case ARG_FLOAT:
        fprintf(f, "%g", (double)*(float *)a->out);
        return;
    }
}

static void put_default(const arg_spec *a)
{
    bool is_text = a->kind == ARG_STR || a->kind == ARG_CHOICE;
    if (a->kind == ARG_FLAG || a->kind == ARG_LIST || (is_text && !*(const char **)a->out))
        return;
    printf(" (default ");
    put_value(stdout, a);
    put_range(a);
    printf(")");
}

static void help(const arg_command *c)
{
    printf("usage: foretoken %s %s\n\n%s\n\noptions:\n", c->command, c->usage, c->about);
    for (int i = 0; i < c->n_spec; i++) {
        const arg_spec *a = &c->spec[i];
        char left[64];
        snprintf(left, sizeof left, "%c%c%s %s %s", a->letter ? '-' : ' ',
                 a->letter ? a->letter : ' ', a->letter ? "," : " ", a->name,
                 a->meta ? a->meta : "");
        printf("  %-34s %s", left, a->help);
        put_default(a);
        printf("\n");
    }
    printf("  -h, --help                         this text\n");
}

/* ---- Parsing ------------------------------------------------------------------------------------- */

static int wrong(const arg_command *c, const arg_spec *a, const char *value)
{
    fprintf(stderr, "foretoken %s: %s: '%s' is not ", c->command, a->name, value);
    if (a->kind == ARG_CHOICE)
        fprintf(stderr, "one of %s\n", a->meta);
    else if (a->kind == ARG_FLOAT)
        fprintf(stderr, "a number from %g to %g\n", a->min, a->max);
    else if (a->kind == ARG_SIZE)
        fprintf(stderr, "a whole number from 0 to 18446744073709551615\n");
    else if (a->kind == ARG_BYTES)
        fprintf(stderr, "a number of bytes, like 1000, 64K, 512M or 2G\n");
    else if (a->kind == ARG_FLAG)
        fprintf(stderr, "on or off\n");
    else if (a->kind == ARG_LIST)
        fprintf(stderr, "taken: at most %d of them\n", ARG_LIST_MAX);
    else
        fprintf(stderr, "a whole number from %.0f to %.0f%s\n", a->min, a->max,
                a->kind == ARG_INT_ALL ? ", or all" : "");
    return EXIT_USAGE;
}

static bool is_choice(const char *words, const char *value)
{
    size_t n = strlen(value);
    for (const char *w = words; n > 0; w++) {
        size_t len = strcspn(w, "|");
        if (len == n && strncmp(w, value, n) == 0)
            return true;
        w += len;
        if (*w == '\0')
            break;
    }
    return false;
}

static bool store_bytes(uint64_t *out, const char *value)
{
    static const char unit[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long v = strtoull(value, &end, 10);
    const char *u = *end ? strchr(unit, *end) : NULL;
    int shift = u ? 10 * (int)(u - unit + 1) : 0;
    if (end == value || end[u != NULL] || errno || value[0] < '0' || value[0] > '9' ||
        v > UINT64_MAX >> shift)
        return false;
    *out = (uint64_t)v << shift;
    return true;
}

/* Store value; false: not acceptable. */
static bool store(const arg_spec *a, const char *value)
{
    char *end;
    errno = 0;
    switch (a->kind) {
    case ARG_FLAG:
        *(bool *)a->out = true;
        return true;
    case ARG_STR:
        *(const char **)a->out = value;
        return true;
    case ARG_CHOICE:
        if (!is_choice(a->meta, value))
            return false;
        *(const char **)a->out = value;
        return true;
    case ARG_LIST: {
        arg_list *l = a->out;
        if (l->n == ARG_LIST_MAX)
            return false;
        l->item[l->n++] = value;
        return true;
    }
    case ARG_INT:
    case ARG_INT_ALL: {
        if (a->kind == ARG_INT_ALL && strcmp(value, "all") == 0) {
            *(int *)a->out = INT32_MAX;
            return true;
        }
        long v = strtol(value, &end, 10);
        if (end == value || *end || errno || (double)v < a->min || (double)v > a->max)
            return false;
        *(int *)a->out = (int)v;
        return true;
    }
    case ARG_SIZE: {
        unsigned long long v = strtoull(value, &end, 10);
        if (end == value || *end || errno || strchr(value, '-'))
            return false;
        *(uint64_t *)a->out = v;
        return true;
    }
    case ARG_BYTES:
        return store_bytes(a->out, value);
    case ARG_FLOAT: {
        double v = strtod(value, &end);
        if (end == value || *end || !isfinite(v) || v < a->min || v > a->max)
            return false;
        *(float *)a->out = (float)v;
        return true;
    }
    }
    return false;
}

/* The entry for "--name", "--name=value" or "-x". */
static const arg_spec *find(const arg_command *c, const char *arg)
{
    size_t len = strcspn(arg, "=");
    for (int i = 0; i < c->n_spec; i++) {
        const arg_spec *a = &c->spec[i];
        if (strlen(a->name) == len && strncmp(a->name, arg, len) == 0)
            return a;
        if (a->letter && arg[0] == '-' && arg[1] == a->letter && arg[2] == '\0')
            return a;
    }
    return NULL;
}

static int usage_error(const arg_command *c, const char *what, const char *arg)
{
    fprintf(stderr, "foretoken %s: %s%s\nTry: foretoken %s --help\n", c->command, what, arg,
            c->command);
    return EXIT_USAGE;
}

int args_parse(const arg_command *c, int argc, char **argv)
{
    int n_positional = 0;
    bool options = true;
    for (int i = 2; i < argc; i++) {
        const char *arg = argv[i];
        if (options && strcmp(arg, "--") == 0) {
            options = false;
            continue;
        }
        if (!options || arg[0] != '-' || arg[1] == '\0') {
            if (n_positional == c->max_positional)
                return usage_error(c, "unexpected argument ", arg);
            c->positional[n_positional++] = arg;
            continue;
        }
        if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            help(c);
            return EXIT_OK;
        }
        const arg_spec *a = find(c, arg);
        if (!a)
            return usage_error(c, "unknown option ", arg);
        const char *value = strchr(arg, '=');
        if (a->kind == ARG_FLAG) {
            if (value)
                return usage_error(c, "an option without a value: ", arg);
        } else if (value) {
            value++;
        } else if (++i < argc) {
            value = argv[i];
        } else {
            return usage_error(c, "a value is missing behind ", arg);
        }
        if (!store(a, value))
            return wrong(c, a, value);
    }
    if (n_positional < c->min_positional)
        return usage_error(c, "an argument is missing; usage: ", c->usage);
    return -1;
}

/* ---- While a command runs ------------------------------------------------------------------------- */

static bool set_flag(bool *out, const char *value)
{
    bool on = strcmp(value, "on") == 0;
    if (on || strcmp(value, "off") == 0)
        *out = on;
    return on || strcmp(value, "off") == 0;
}

int args_set(const arg_command *c, const char *name, const char *value)
{
    for (int i = 0; i < c->n_spec; i++) {
        const arg_spec *a = &c->spec[i];
        if (strcmp(a->name, name) != 0 && strcmp(a->name + strlen("--"), name) != 0)
            continue;
        if (a->kind == ARG_LIST)
            ((arg_list *)a->out)->n = 0;
        bool done = a->kind == ARG_FLAG              ? set_flag(a->out, value)
                    : a->kind == ARG_LIST && !*value ? true
                                                     : store(a, value);
        return done ? -1 : wrong(c, a, value);
    }
    fprintf(stderr, "foretoken %s: no option '%s'; there are", c->command, name);
    for (int i = 0; i < c->n_spec; i++)
        fprintf(stderr, " %s", c->spec[i].name + strlen("--"));
    fprintf(stderr, "\n");
    return EXIT_USAGE;
}

void args_print(const arg_command *c, FILE *f)
{
    for (int i = 0; i < c->n_spec; i++) {
        fprintf(f, "  %-18s ", c->spec[i].name + strlen("--"));
        put_value(f, &c->spec[i]);
        fputc('\n', f);
    }
}
