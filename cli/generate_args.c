/* generate_args.c - see generate_args.h. */
#include "generate_args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

generate_args generate_args_default(void)
{
    return (generate_args){.n_max = -1,
                           .sample = ft_sample_params_default(),
                           .draft_max = 3,
                           .verify = "coupled",
                           .draft_sampling = "sampled"};
}

int generate_args_bias(const char *command, generate_args *g)
{
    for (int i = 0; i < g->bias.n; i++) {
        const char *text = g->bias.item[i];
        char *end, *tail = NULL;
        errno = 0;
        long id = strtol(text, &end, 10);
        float x = *end == '=' ? strtof(end + 1, &tail) : 0;
        if (end == text || *end != '=' || tail == end + 1 || *tail || errno || id < 0 ||
            id > INT32_MAX) {
            fprintf(stderr,
                    "foretoken %s: --logit-bias: '%s' is not of the form ID=X, with a token id\n",
                    command, text);
            return EXIT_USAGE;
        }
        g->bias_list[i] = (ft_logit_bias){.id = (int32_t)id, .bias = x};
    }
    return -1;
}

ft_generate_params generate_args_params(const generate_args *g)
{
    ft_generate_params p = ft_generate_params_default();
    p.n_max = g->n_max;
    p.n_min = g->n_min;
    p.ignore_eos = g->ignore_eos;
    p.stop = g->stop.item;
    p.n_stop = g->stop.n;
    p.sample = g->sample;
    p.sample.bias = g->bias_list;
    p.sample.n_bias = g->bias.n;
    p.draft_max = g->no_draft ? 0 : g->draft_max;
    p.draft_fixed = g->draft_fixed;
    p.draft_p_min = g->draft_p_min;
    p.draft_argmax = strcmp(g->draft_sampling, "argmax") == 0;
    verify_find(g->verify, strlen(g->verify), &p.verify); /* the parser let no other through */
    return p;
}
