/* common.h - what the commands share: messages, progress bars, numbers for people. */
#ifndef CLI_COMMON_H
#define CLI_COMMON_H

#include <foretoken/foretoken.h>
#include <jansson.h>

#include "args.h"
#include "base/buf.h"

/* Print "foretoken COMMAND: message" for a failure, a field of the library's structs replaced by its
 * option; the exit code for it. */
int report_failure(const char *command, ft_status st, const ft_error *err);
/* Print a JSON object (taken; NULL: there was no memory for it); the exit code. */
int print_object(const char *command, json_t *j);
/* Flush standard output at the end of a command; the exit code: rc, or EXIT_FAILED after a message
 * when something was not written. A reader that went away is no failure. */
int end_output(int rc);

/* Progress on stderr while it is a terminal; wipes itself at the end. ctx: a progress_bar. An
 * ft_progress_fn; false once Ctrl-C was pressed. */
typedef struct {
    const char *label; /* overrides the library's word; may be NULL */
    double started;    /* set by the first call */
    double last;
    bool shown;
} progress_bar;
bool progress_show(void *ctx, const char *what, uint64_t done, uint64_t total);
void progress_end(progress_bar *p);

/* Seconds of a clock that only goes forward. */
double now_seconds(void);
/* Most memory this process had resident, bytes. */
uint64_t peak_resident_bytes(void);

/* From now on Ctrl-C sets a flag and cancels s (NULL: no session); a second one ends the process. */
void interrupt_install(ft_session *s);
bool interrupted(void);
/* For a command that goes on after Ctrl-C: the n_end-th one ends the process, those before are counted.
 * A descriptor that can be read once there was one; -1: there is none (errno). Called once. */
int interrupt_watch(int n_end);
int interrupt_count(void);
void interrupt_forget(void); /* what was counted so far */

/* Rules of verification by name: "coupled", "block", "ratio", "greedy-match". */
const char *verify_name(ft_verify rule);
/* The rule whose name is the first len bytes of name; false: there is none. */
bool verify_find(const char *name, size_t len, ft_verify *out);

/* Options that every command with a model has; put in a table with COMMON_MODEL_ARGS. */
typedef struct {
    const char *model, *mtp, *cpu, *kv, *draft_quant, *draft_quant_mixers, *draft_vocab;
    int n_thread, n_ctx, n_chunk, sink, window;
    uint64_t checkpoint_mem;
    int checkpoint_every; /* 0 in commands that never go back */
    bool no_drafter;      /* the command has no use for one */
} model_args;
model_args model_args_default(void);
// clang-format off
#define COMMON_MODEL_ARGS(m)                                                                       \
    {"--model", 'm', ARG_STR, &(m).model, 0, 0, "FILE", "the model, a GGUF file (required)"},      \
    {"--mtp", 0, ARG_STR, &(m).mtp, 0, 0, "FILE", "a separate GGUF with the draft head"},          \
    {"--threads", 't', ARG_INT, &(m).n_thread, 0, 1024, "N", "threads; 0: one per core"},          \
    {"--cpu", 0, ARG_CHOICE, &(m).cpu, 0, 0, "generic|avx2|avx512|neon|i8mm",                      \
     "instruction set; the best if not given"},                                                    \
    {"--kv", 0, ARG_CHOICE, &(m).kv, 0, 0, "f16|f32|q8_0", "type of cached keys and values"},      \
    {"--chunk", 0, ARG_INT, &(m).n_chunk, 1, 4096, "N", "most rows per forward call"},             \
    {"--checkpoint-mem", 0, ARG_BYTES, &(m).checkpoint_mem, 0, 0, "SIZE",                          \
     "memory for checkpoints of conversations, like 512M; 0: none are kept"}
#define COMMON_CTX_ARG(m)                                                                          \
    {"--ctx-size", 'c', ARG_INT, &(m).n_ctx, 0, 16777216, "N",                                     \
     "context in tokens; 0: the model's own, 8192 at most"}
#define COMMON_DRAFT_ARGS(m)                                                                       \
    {"--draft-quant", 0, ARG_CHOICE, &(m).draft_quant, 0, 0, "default|file|q8_0|q5_0|q4_0",        \
     "type of the drafter's wide matrices"},                                                       \
    {"--draft-quant-mixers", 0, ARG_CHOICE, &(m).draft_quant_mixers, 0, 0,                         \
     "default|file|q8_0|q5_0|q4_0", "type of the drafter's hyper-connection mixers"},              \
    {"--draft-vocab", 0, ARG_STR, &(m).draft_vocab, 0, 0, "FILE",                                  \
     "the tokens that may be drafted (foretoken draft-vocab build)"},                              \
    {"--sink", 0, ARG_INT, &(m).sink, 0, 1024, "N",                                                \
     "cells at the start of the text that a draft step reads; 0: none"},                           \
    {"--window", 0, ARG_INT_ALL, &(m).window, 0, INT32_MAX, "N|all",                               \
     "cells before its own that a draft step reads"}
// clang-format on

/* Open the model and, if s is not NULL, a session. On failure a message is printed, what was opened
 * is closed, and the exit code returned; -1: go on. */
int open_model(const char *command, const model_args *a, ft_model **m, ft_session **s);

/* Read a prompt: text as it is, or a file ("-": standard input). Owned by the caller (free()). */
int read_text(const char *command, const char *path, char **text, size_t *len);

/* Session files. Each returns -1 to go on, or the exit code after a message. */
int session_load_file(const char *command, ft_session *s, const char *path);
/* With a progress bar; *n_bytes: its size. An interrupt before the call does not stop it. */
int session_save_file(const char *command, ft_session *s, const char *path, const ft_save_params *p,
                      uint64_t *n_bytes);
/* What a generation has to read so that the text of s goes on: *ids [*n], freed with free(). */
int session_resume(const char *command, ft_session *s, int32_t **ids, int *n);

/* Warn on stderr of each script of a prompt that the draft vocabulary in use covers poorly. */
void warn_draft_vocab(const char *command, const ft_model *m, const int32_t *tok, size_t n_tok);

/* The commands. */
int cmd_run(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_eval(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_perplexity(int argc, char **argv);
int cmd_draft_error(int argc, char **argv);
int cmd_draft_vocab(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_selftest(int argc, char **argv);
int cmd_session(int argc, char **argv);
int cmd_floor(int argc, char **argv);

#endif
