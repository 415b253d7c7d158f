/* main.c - the command `foretoken`: picks a subcommand. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

static const struct {
    const char *name, *about;
    int (*run)(int argc, char **argv);
} command[] = {
    {"run", "continue a text", cmd_run},
    {"chat", "talk with a model", cmd_chat},
    {"inspect", "show what a GGUF file holds", cmd_inspect},
    {"convert", "a Hugging Face folder to GGUF", cmd_convert},
    {"quantize", "a GGUF to other tensor types", cmd_quantize},
    {"bench", "how fast a model or a shape runs here", cmd_bench},
    {"perplexity", "how well a model predicts a text", cmd_perplexity},
    {"eval", "logits and inner rows of a token list, for comparisons", cmd_eval},
    {"draft-error", "what low-bit draft weights cost in accuracy", cmd_draft_error},
    {"draft-vocab", "choose the tokens that may be drafted", cmd_draft_vocab},
    {"session", "save, show and check the state of a conversation", cmd_session},
    {"floor", "the bytes that a step has to read, and its shortest time", cmd_floor},
    {"selftest", "prove that drafting leaves the distribution alone", cmd_selftest},
};

static void help(FILE *f)
{
    fprintf(f, "usage: foretoken COMMAND [options]\n\n"
               "An inference engine for language models with their own draft head.\n\ncommands:\n");
    for (size_t i = 0; i < sizeof command / sizeof *command; i++)
        fprintf(f, "  %-12s %s\n", command[i].name, command[i].about);
    fprintf(f, "\nOptions of a command: foretoken COMMAND --help\n");
}

/* Threads of an OpenMP team wait by spinning, by default for milliseconds: when other programs want the
 * cores, every loop then waits for a thread that does not run. The runtime reads its limit when it is
 * loaded, so the command starts itself once more with one of some 0.03 ms, unless the user has set any. */
static void limit_spinning(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") || getenv("GOMP_SPINCOUNT"))
        return;
    if (setenv("GOMP_SPINCOUNT", "500", 1) == 0)
        execv("/proc/self/exe", argv); /* where that fails, things work as they are */
}

int main(int argc, char **argv)
{
    limit_spinning(argv);
    /* A pipe whose reader went away ends the text, not the process: see end_output. */
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        help(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help(stdout);
        return end_output(EXIT_OK);
    }
    for (size_t i = 0; i < sizeof command / sizeof *command; i++)
        if (strcmp(argv[1], command[i].name) == 0)
            return end_output(command[i].run(argc, argv));
    fprintf(stderr, "foretoken: unknown command '%s'\n", argv[1]);
    help(stderr);
    return EXIT_USAGE;
}
