/* generate.h - a generation under way. Private to engine/. */
#ifndef ENGINE_GENERATE_H
#define ENGINE_GENERATE_H

#include "engine/engine.h"
#include "engine/stops.h"
#include "sample/verify.h"

typedef struct {
    ft_session *s;
    const ft_generate_params *p;
    sample_params sample;     /* the request's */
    sample_params sample_min; /* the same, for the first n_min tokens: nothing ends the text */
    sample_bias *bias;        /* owned: what both point to */
    ft_generate_stats *stats;
    sample_dist *q;      /* [FT_DRAFT_MAX] owned: kept by rules that compare with it; else NULL */
    sample_dist *rows_p; /* [FT_DRAFT_MAX + 1] owned: for the rule that sees all rows first */
    uint64_t n_failed;   /* of the drafter, before */
    detok text;
    buf piece; /* what the token in hand spells */
    stop_matcher stops;
    buf out; /* what it lets through */
    ft_alternative top[FT_TOP_MAX];
} generation;

/* The logits behind the prompt are in s->logits: make tokens until one is the last. */
ft_status generate_rounds(generation *g, ft_error *err) MUST_CHECK;

/* Fill in what the statistics say of drafting as a whole. */
void generate_draft_stats(generation *g);

#endif
