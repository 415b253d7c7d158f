/* args.h - command-line options from one table per command: parsing, ranges, help.
 *
 * A table entry says where the value goes, its range and its help line; the value there before
 * parsing is the default that --help shows. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes of the command. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef enum {
    ARG_FLAG,    /* bool */
    ARG_STR,     /* const char * */
    ARG_INT,     /* int, min .. max */
    ARG_INT_ALL, /* the same, or the word all: INT32_MAX */
    ARG_SIZE,    /* uint64_t, whole range */
    ARG_BYTES,   /* uint64_t; a number, K, M or G (times 1024, ...) behind it */
    ARG_FLOAT,   /* float, min .. max */
    ARG_LIST,    /* arg_list: may be given several times */
    ARG_CHOICE,  /* const char *, one of the words in `meta`, separated by | */
} arg_kind;

enum { ARG_LIST_MAX = 64 };
typedef struct {
    const char *item[ARG_LIST_MAX];
    int n;
} arg_list;

typedef struct {
    const char *name; /* "--temp" */
    char letter;      /* 't' for -t; 0: none */
    arg_kind kind;
    void *out;
    double min, max;  /* INT and FLOAT */
    const char *meta; /* what the value is, in help; CHOICE: the words */
    const char *help; /* one line, unit included */
} arg_spec;

typedef struct {
    const char *command;  /* "run" */
    const char *usage;    /* positional part, "[options] FILE" */
    const char *about;    /* what it does */
    const arg_spec *spec; /* [n_spec] */
    int n_spec;
    const char **positional; /* out, [max_positional] */
    int min_positional, max_positional;
} arg_command;

/* Parse argv[2..]. Returns -1 to go on, or the exit code at which to leave: EXIT_OK after --help,
 * EXIT_USAGE after a message that names the option and what it accepts. */
int args_parse(const arg_command *c, int argc, char **argv);

/* Give one option another value later: name with or without "--", value as on the command line (borrowed
 * as long as the options live); a flag takes on and off; a list becomes this one item, or empty with "".
 * -1, or EXIT_USAGE after a message that says what there is. */
int args_set(const arg_command *c, const char *name, const char *value);
/* The values of all options, a line each. */
void args_print(const arg_command *c, FILE *f);

#endif
