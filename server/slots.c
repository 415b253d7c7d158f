/* slots.c - see slots.h. */
#include "slots.h"

static int common_prefix(const slot_view *s, const int32_t *tok, int n_tok)
{
    int n = s->n_tok < n_tok ? s->n_tok : n_tok, i = 0;
    while (i < n && s->tok[i] == tok[i])
        i++;
    return i;
}

/* Known tokens less lost ones; 0 for an empty slot, and no slot below it. */
static int worth(const slot_view *s, const int32_t *tok, int n_tok)
{
    int known = common_prefix(s, tok, n_tok), lost = s->n_tok - known;
    return known > lost ? known - lost : 0;
}

int slots_choose(const slot_view *slot, int n_slot, const int32_t *tok, int n_tok)
{
    int best = -1, best_worth = 0;
    for (int i = 0; i < n_slot; i++) {
        if (slot[i].busy)
            continue;
        int w = worth(&slot[i], tok, n_tok);
        bool better = best < 0 || w > best_worth;
        if (!better && w == best_worth) {
            bool empty = slot[i].n_tok == 0, best_empty = slot[best].n_tok == 0;
            better = empty != best_empty ? empty : slot[i].used < slot[best].used;
        }
        if (better) {
            best = i;
            best_worth = w;
        }
    }
    return best;
}
