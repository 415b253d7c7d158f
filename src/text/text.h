/* text.h - text to token ids and back: byte-level BPE from GGUF metadata.
 *
 * 1. A tokenizer is read-only after open and may be used from any thread.
 * 2. Ids in [0, tok_n_vocab). Any byte string encodes; decoding its ids gives the NFC form of it
 *    back, byte for byte (invalid UTF-8 is kept as it is).
 * 3. Text is data: special tokens are recognised only where the caller asks for them.
 */
#ifndef TEXT_TEXT_H
#define TEXT_TEXT_H

#include "base/buf.h"
#include "gguf/gguf.h"

typedef struct tokenizer tokenizer;

/* From tokenizer.ggml.* of f: model "gpt2", pre "qwen35" or "qwen2", tokens, token_type, merges,
 * eos/bos/padding/eot ids. f may be closed afterwards. Errors: FORMAT, UNSUPPORTED (the message
 * names the key and what is accepted), NOMEM. */
ft_status tok_open(tokenizer **out, const gguf_file *f, ft_error *err) MUST_CHECK;
void tok_close(tokenizer *t);

int tok_n_vocab(const tokenizer *t);
int32_t tok_eos(const tokenizer *t); /* -1: none */
/* True for the tokens that end a text: eos, eot and their kin of this family (<|im_end|>). */
bool tok_is_end(const tokenizer *t, int32_t id);
bool tok_is_special(const tokenizer *t, int32_t id); /* CONTROL in token_type */
/* Id of the token whose text is exactly s; -1: none. */
int32_t tok_find(const tokenizer *t, const char *s, size_t len);
/* Id of the control or user-defined token whose text is exactly s; -1: none. */
int32_t tok_find_special(const tokenizer *t, const char *s, size_t len);

typedef enum {
    TOK_PLAIN = 0,        /* special-token text stays text */
    TOK_PARSE_SPECIAL = 1 /* text equal to a control or user-defined token becomes that token */
} tok_mode;

/* Append the ids of text[len] to *ids (a buf of int32_t). NFC is applied to the text between
 * special tokens. Errors: NOMEM, RANGE (over the buf's limit). *ids is unchanged on failure. */
ft_status tok_encode(const tokenizer *t, const char *text, size_t len, tok_mode mode, buf *ids,
                     ft_error *err) MUST_CHECK;

/* Raw bytes of one token, borrowed from t: may be part of a character. *len = 0 for an id out of
 * range, and for a control token when skip_special. */
const char *tok_bytes(const tokenizer *t, int32_t id, bool skip_special, size_t *len);

/* The script of a token's first letter (script.h); FT_SCRIPT_SPECIAL for a control token. */
ft_script tok_script(const tokenizer *t, int32_t id);

/* A decoder that emits whole characters only. Plain data: copy the struct to snapshot it. */
typedef struct {
    uint8_t tail[4]; /* the incomplete character's bytes so far */
    int n_tail;
} detok;

/* Append token's text to out as valid UTF-8: an incomplete character is held back, a byte that can
 * never be part of one becomes U+FFFD. */
void detok_put(detok *d, const tokenizer *t, int32_t id, bool skip_special, buf *out);
/* End of text: what is held back becomes U+FFFD. */
void detok_flush(detok *d, buf *out);

#endif
