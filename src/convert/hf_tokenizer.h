/* hf_tokenizer.h - tokenizer.json and its neighbours to the tokenizer.* keys of a GGUF.
 *
 * Byte-level BPE with NFC and one of the two split patterns of these families ("qwen2", "qwen35").
 * Every id of [0, vocab_size) gets a token: those without a text become "[PADn]", type UNUSED.
 * Keys as the GGUF specification lists them.
 */
#ifndef CONVERT_HF_TOKENIZER_H
#define CONVERT_HF_TOKENIZER_H

#include "convert/hf_config.h"
#include "gguf/gguf.h"

/* The parsed files; NULL where a file is absent. */
typedef struct {
    json_t *tokenizer;         /* tokenizer.json */
    json_t *tokenizer_config;  /* tokenizer_config.json */
    json_t *generation_config; /* generation_config.json */
    char *chat_template;       /* chat_template.jinja; owned, NUL-terminated */
} hf_tokenizer;

/* Load what is there. Errors: IO, FORMAT, RANGE, NOMEM; *t is {0} after a failure. */
ft_status hf_tokenizer_load(hf_tokenizer *t, const char *dir, ft_error *err) MUST_CHECK;
void hf_tokenizer_free(hf_tokenizer *t);

/* Write the keys. Without tokenizer.json only the id of the end token is written.
 * Errors: FORMAT, UNSUPPORTED (a tokenizer of another kind: the message shows what differs),
 * NOMEM. */
ft_status hf_tokenizer_put(gguf_writer *w, const hf_tokenizer *t, const hf_config *c,
                           ft_error *err) MUST_CHECK;

#endif
