/* nfc.h - Unicode normalisation form C of valid UTF-8. */
#ifndef TEXT_NFC_H
#define TEXT_NFC_H

#include "base/buf.h"

/* Scratch, reused from text to text. */
typedef struct {
    buf out; /* the normalised bytes */
    buf cp;  /* code points of one segment, int32_t */
} nfc_scratch;

void nfc_init(nfc_scratch *x);
void nfc_deinit(nfc_scratch *x);

/* *out [*n_out] gets the NFC form of the valid UTF-8 s[n]: s itself where nothing can change, else
 * owned by x until its next use. Linear in n for every text. Errors: NOMEM. */
ft_status nfc_apply(nfc_scratch *x, const uint8_t *s, size_t n, const uint8_t **out, size_t *n_out,
                    ft_error *err) MUST_CHECK;

#endif
