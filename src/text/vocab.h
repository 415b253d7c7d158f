/* vocab.h - the tokens: their bytes, their kinds, and the way from bytes to an id.
 *
 * 1. Plain tokens are written in the byte alphabet of GPT-2 (one printable character for each
 *    byte) and kept here as the bytes they stand for. Control and user-defined tokens are kept as
 *    written. So is a plain token with a character outside the alphabet, or with invalid UTF-8:
 *    nothing in a token's text is ever parsed further ("<0x0A>" is six characters).
 * 2. Tokens of equal bytes: the lowest id is the one that is found.
 * 3. Each of the 256 bytes has a token that is not a control token, so any byte string encodes.
 */
#ifndef TEXT_VOCAB_H
#define TEXT_VOCAB_H

#include "base/err.h"
#include "gguf/gguf.h"

/* Values of tokenizer.ggml.token_type (public GGUF specification). */
typedef enum {
    TOKEN_UNDEFINED = 0,
    TOKEN_NORMAL = 1,
    TOKEN_UNKNOWN = 2,
    TOKEN_CONTROL = 3,
    TOKEN_USER_DEFINED = 4,
    TOKEN_UNUSED = 5,
    TOKEN_BYTE = 6
} token_type;

/* The byte alphabet reaches from U+0021 to U+0143. */
#define ALPHABET_END 0x144

typedef struct {
    int n;
    uint8_t *bytes; /* owned: the bytes of all tokens, one after another */
    size_t *start;  /* owned, [n + 1] */
    uint8_t *type;  /* owned, [n] of token_type */
    int32_t *slot;  /* owned, [mask + 1] hash table of ids, open addressing; -1: free */
    size_t mask;    /* slots (a power of two, at least 2 n) minus 1 */
    int32_t byte_id[256];
    int16_t alphabet[ALPHABET_END]; /* character -> byte; -1: not in the alphabet */
} vocab;

/* token [n_token] as written in the file; type [n_token], NULL: all normal; both borrowed.
 * Errors: FORMAT, NOMEM; v must then be given to vocab_deinit all the same. */
ft_status vocab_init(vocab *v, const gguf_str *token, const uint8_t *type, size_t n_token,
                     ft_error *err) MUST_CHECK;
void vocab_deinit(vocab *v); /* v zeroed or initialised */

/* Bytes of token id in [0, n), borrowed from v. */
const uint8_t *vocab_bytes(const vocab *v, int32_t id, size_t *len);
/* Id of the token of exactly these bytes; -1: none. */
int32_t vocab_find(const vocab *v, const uint8_t *s, size_t len);

/* Undo the byte alphabet: out [s.len] gets the bytes that s stands for, or a copy of s when it is
 * not written in the alphabet throughout. Returns their number. */
size_t vocab_from_alphabet(const vocab *v, gguf_str s, uint8_t *out);

#endif
