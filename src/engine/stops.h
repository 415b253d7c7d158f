/* stops.h - stop strings: a text ends in front of the first of them, wherever tokens are cut.
 *
 * Text that could be the beginning of a stop string is held back until it is decided. Private to
 * engine/. */
#ifndef ENGINE_STOPS_H
#define ENGINE_STOPS_H

#include "base/buf.h"

typedef struct {
    const char *const *stop; /* [n] borrowed, none empty */
    int n;
    buf held; /* text that was not let through yet */
} stop_matcher;

void stops_init(stop_matcher *m, const char *const *stop, int n);
void stops_deinit(stop_matcher *m);

/* Text of one more token. out gets what is certain to belong to the text. True: a stop string is
 * complete; out then has all that stands in front of it, and the matcher is empty.
 * A failed allocation shows in m->held.failed or out->failed. */
bool stops_put(stop_matcher *m, const char *text, size_t len, buf *out);
/* The end of the text: what was held back belongs to it. */
void stops_flush(stop_matcher *m, buf *out);

#endif
