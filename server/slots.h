/* slots.h - which slot takes a prompt. Pure. */
#ifndef SERVER_SLOTS_H
#define SERVER_SLOTS_H

#include "base/compiler.h"

/* A slot as the choice sees it. */
typedef struct {
    bool busy;
    const int32_t *tok; /* [n_tok] that its session holds */
    int n_tok;
    double used; /* when it last ended an answer */
} slot_view;

/* The free slot for prompt tok [n_tok], -1: none is free. A slot is worth what it knows of the prompt
 * less what it would lose: the one that a conversation goes on in, or begins anew from its last turn,
 * is worth most. Where none is worth anything, an empty slot, then the one that was idle longest, so
 * that a common system prompt does not take somebody's conversation away. */
int slots_choose(const slot_view *slot, int n_slot, const int32_t *tok, int n_tok);

#endif
