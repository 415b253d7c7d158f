/* generate_args.h - the options about sampling, drafts and the end of a text that `run` and `chat` share. */
#ifndef CLI_GENERATE_ARGS_H
#define CLI_GENERATE_ARGS_H

#include <foretoken/foretoken.h>

#include "args.h"

/* Put in a table with GENERATE_ARGS. */
typedef struct {
    int n_max, n_min;
    ft_sample_params sample; /* without bias: generate_args_params has it */
    int draft_max;
    float draft_p_min;
    arg_list stop, bias;
    ft_logit_bias bias_list[ARG_LIST_MAX]; /* what bias says, by generate_args_bias */
    const char *verify, *draft_sampling;
    bool no_draft, draft_fixed, ignore_eos;
} generate_args;
generate_args generate_args_default(void);

// clang-format off
#define GENERATE_ARGS(g)                                                                           \
    {"--n-predict", 'n', ARG_INT, &(g).n_max, -1, INT32_MAX, "N",                                  \
     "tokens to make; -1: until the context is full"},                                             \
    {"--temp", 0, ARG_FLOAT, &(g).sample.temp, 0, 100, "T",                                        \
     "temperature; 0: the most probable token"},                                                   \
    {"--top-k", 0, ARG_INT, &(g).sample.top_k, 0, INT32_MAX, "K", "most probable K; 0: off"},      \
    {"--top-p", 0, ARG_FLOAT, &(g).sample.top_p, 0, 1, "P", "most probable mass P; 1: off"},       \
    {"--min-p", 0, ARG_FLOAT, &(g).sample.min_p, 0, 1, "P",                                        \
     "at least P times the best one's probability; 0: off"},                                       \
    {"--repeat-penalty", 0, ARG_FLOAT, &(g).sample.repeat_penalty, 0.01, 100, "R",                 \
     "divide logits of recent tokens, multiply negative ones; 1: off"},                            \
    {"--presence-penalty", 0, ARG_FLOAT, &(g).sample.presence_penalty, -100, 100, "X",             \
     "subtract from logits of recent tokens; 0: off"},                                             \
    {"--frequency-penalty", 0, ARG_FLOAT, &(g).sample.frequency_penalty, -100, 100, "X",           \
     "the same, times the token's count; 0: off"},                                                 \
    {"--repeat-last-n", 0, ARG_INT, &(g).sample.penalty_last_n, -1, INT32_MAX, "N",                \
     "tokens that count as recent; 0: none, -1: all"},                                             \
    {"--logit-bias", 0, ARG_LIST, &(g).bias, 0, 0, "ID=X",                                         \
     "add X (-1000 to 1000, or -inf) to a token's logit; may be given several times"},             \
    {"--samplers", 0, ARG_STR, &(g).sample.samplers, 0, 0, "LIST",                                 \
     "order of penalties;top_k;temp;min_p;top_p; what is left out is not applied"},                \
    {"--min-tokens", 0, ARG_INT, &(g).n_min, 0, INT32_MAX, "N",                                    \
     "the text cannot end by itself before so many tokens"},                                       \
    {"--verify", 0, ARG_CHOICE, &(g).verify, 0, 0, "coupled|block|ratio|greedy-match",             \
     "rule by which drafts become text; greedy-match changes the distribution"},                   \
    {"--draft-sampling", 0, ARG_CHOICE, &(g).draft_sampling, 0, 0, "sampled|argmax",               \
     "drafts drawn by the request's settings, or the most probable"},                              \
    {"--seed", 0, ARG_SIZE, &(g).sample.seed, 0, 0, "N", "the same seed gives the same text"},     \
    {"--draft-max", 0, ARG_INT, &(g).draft_max, 0, FT_DRAFT_MAX, "N",                              \
     "most drafts a round; 0: none"},                                                              \
    {"--draft-fixed", 0, ARG_FLAG, &(g).draft_fixed, 0, 0, NULL,                                   \
     "always draft-max drafts, not as many as pay"},                                               \
    {"--draft-p-min", 0, ARG_FLOAT, &(g).draft_p_min, 0, 1, "P",                                   \
     "stop drafting below this probability of the drafter's best token"},                          \
    {"--no-draft", 0, ARG_FLAG, &(g).no_draft, 0, 0, NULL, "no drafts"},                           \
    {"--stop", 0, ARG_LIST, &(g).stop, 0, 0, "TEXT",                                               \
     "end in front of this text; may be given several times"},                                     \
    {"--ignore-eos", 0, ARG_FLAG, &(g).ignore_eos, 0, 0, NULL, "go on after the end of the text"}
// clang-format on

/* Read the --logit-bias items, once they are parsed: -1, or EXIT_USAGE after a message. */
int generate_args_bias(const char *command, generate_args *g);

/* The parameters that the options stand for; they borrow from g. */
ft_generate_params generate_args_params(const generate_args *g);

#endif
