/* split.h - cuts valid UTF-8 text into the pieces that BPE works on, by a regular expression.
 *
 * The expressions are public facts of the model families. Each of them matches at every position
 * of every text and takes at most a few passes over what it matches, so a run is linear.
 */
#ifndef TEXT_SPLIT_H
#define TEXT_SPLIT_H

#include "base/err.h"
#include "gguf/gguf.h"

typedef struct {
    void *code;   /* owned, pcre2_code; read-only after open, shared by threads */
    void *memory; /* owned, pcre2_general_context: allocation through base/mem.h */
} splitter;

/* pre: the name of the rule, "qwen35" or "qwen2". Errors: UNSUPPORTED (another name), NOMEM; s must
 * then be given to split_close all the same. */
ft_status split_open(splitter *s, gguf_str pre, ft_error *err) MUST_CHECK;
void split_close(splitter *s); /* s zeroed or opened */

/* The changing half: one per call of the tokenizer. */
typedef struct {
    const splitter *s; /* borrowed */
    void *match;       /* owned, pcre2_match_data */
    void *limits;      /* owned, pcre2_match_context */
} split_run;

/* n_max: bytes of the longest text to come. Errors: NOMEM; nothing is left to end then. */
ft_status split_begin(split_run *r, const splitter *s, size_t n_max, ft_error *err) MUST_CHECK;
void split_end(split_run *r); /* r zeroed or begun */

/* Where the piece ends that begins at pos < n; text[n] is valid UTF-8 and pos the start of a
 * character. Errors: NOMEM, RANGE (the work limit: not met by a text of at most n_max bytes). */
ft_status split_next(split_run *r, const uint8_t *text, size_t n, size_t pos, size_t *end,
                     ft_error *err) MUST_CHECK;

#endif
