/* special.h - finds the texts of control and user-defined tokens in a text.
 *
 * Leftmost first, of those that begin at the same place the longest. A token of no text, or of more
 * than SPECIAL_MAX bytes, is not looked for; so the work is linear in the text.
 */
#ifndef TEXT_SPECIAL_H
#define TEXT_SPECIAL_H

#include "text/vocab.h"

#define SPECIAL_MAX 256

typedef struct {
    const uint8_t *s; /* borrowed from the vocabulary */
    size_t len;
    int32_t id;
    int shorter; /* the longest other entry that this one begins with; -1: none */
} special_entry;

typedef struct {
    special_entry *entry; /* owned, [n]: ordered by bytes, no two equal (the lowest id counts) */
    int n;
    int first[257]; /* entries that begin with byte b: first[b] .. first[b + 1] - 1 */
} specials;

/* v must outlive sp. Errors: NOMEM. */
ft_status special_init(specials *sp, const vocab *v, ft_error *err) MUST_CHECK;
void special_deinit(specials *sp); /* sp zeroed or initialised */

/* The first special token in s[n] from *pos on: its place, length and id. False: there is none. */
bool special_next(const specials *sp, const uint8_t *s, size_t n, size_t *pos, size_t *len,
                  int32_t *id);

#endif
