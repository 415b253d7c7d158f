/* draftone.h - steps of a single drafter. */
#ifndef TESTS_SUPPORT_DRAFTONE_H
#define TESTS_SUPPORT_DRAFTONE_H

#include "draft/draft.h"

/* The first step of a chain; logits [head rows]. Returns them, NULL as draft_steps. */
static inline const float *draft_first(drafter *d, arena *scratch, const int32_t *tok, int n_past,
                                       int32_t next, float *logits)
{
    draft_step s = {.d = d, .tok = tok, .n_past = n_past, .next = next};
    draft_steps(&s, 1, logits, scratch);
    return s.logits;
}

/* The next one. */
static inline const float *draft_on(drafter *d, arena *scratch, int32_t next, float *logits)
{
    draft_step s = {.d = d, .next = next};
    draft_steps(&s, 1, logits, scratch);
    return s.logits;
}

#endif
