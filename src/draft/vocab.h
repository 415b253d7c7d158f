/* vocab.h - a draft vocabulary: the tokens that may be drafted, and the rows of the head for them.
 *
 * The head is the largest matrix that a draft step reads. Rows of tokens that hardly ever come can
 * be left out: it changes how often a draft is right, never what is emitted.
 *
 * 1. Ids are absolute token ids, ascending, each once, all in the vocabulary, at least one (B089).
 * 2. Row r of the head belongs to token id[r]; it has as many rows as there are ids (B090), in the
 *    bytes of the whole head.
 *
 * The file, text in lines that each end in '\n':
 *
 *     foretoken-draft-vocab 1          form and its version
 *     vocab 4096                       rows of the model's head
 *     tokenizer 93c467e37db0c7a4       hash of the tokens' texts, 16 digits
 *     n 300                            how many ids follow
 *     0-255                            a range of them,
 *     259                              or one; ascending
 *     ...
 *     end
 */
#ifndef DRAFT_VOCAB_H
#define DRAFT_VOCAB_H

#include "base/buf.h"
#include "base/err.h"
#include "base/tensor.h"

/* What a file belongs to. */
typedef struct {
    int n_vocab;        /* rows of the model's head */
    uint64_t tokenizer; /* hash of the tokens' texts */
} draft_vocab_fit;

/* Read the form. *id [*n] is owned by the caller (mem_free); NULL after a failure. Memory is bounded by
 * fit->n_vocab, whatever the text says.
 * Errors: FORMAT, UNSUPPORTED (another version), MISMATCH (another vocabulary or tokenizer): the
 * message names the line, the value and the wish. NOMEM. */
ft_status draft_vocab_parse(int32_t **id, int *n, const char *text, size_t n_bytes,
                            const draft_vocab_fit *fit, ft_error *err) MUST_CHECK;
/* Append the file of id [n] (invariant 1) to out. */
void draft_vocab_write(buf *out, const int32_t *id, int n, const draft_vocab_fit *fit);

typedef struct draft_vocab {
    int n;
    int32_t *id; /* [n], owned */
    tensor head; /* [n][H], the type of the whole head; 64-byte aligned, rows dense */
    void *rows;  /* what head points to, owned */
} draft_vocab;

/* Copy id [n] and gather the rows of head (one matrix, as many rows as the vocabulary has tokens) for
 * them. head's name must outlive the result. *out is NULL after a failure.
 * Errors: ARG (no ids, or not as invariant 1 says: names the id), NOMEM (says how much). */
ft_status draft_vocab_create(draft_vocab **out, const int32_t *id, int n, const tensor *head,
                             ft_error *err) MUST_CHECK;
void draft_vocab_free(draft_vocab *v); /* NULL is allowed */

/* The row of a token in id [n]; -1: it is not there. */
int draft_vocab_row(const int32_t *id, int n, int32_t token);
static inline int draft_vocab_find(const draft_vocab *v, int32_t token)
{
    return draft_vocab_row(v->id, v->n, token);
}

#endif
