/* tokenizer.c - the tokenizer's parts put together, see text.h and tokenizer.h.
 *
 * Text on its way to ids:  special tokens (raw bytes)  ->  runs of valid UTF-8 -> NFC -> split -> BPE
 *                                                       \  runs of invalid bytes -----------------/
 * An invalid byte is no character: it is neither normalised nor seen by the split rule, and a run of
 * them is one piece. So every byte comes back as it was.
 */
#include "text/tokenizer.h"

#include <string.h>

#include "base/mem.h"
#include "text/bpe.h"
#include "text/nfc.h"
#include "text/special.h"
#include "text/split.h"
#include "text/utf8.h"

struct tokenizer {
    vocab vocab;
    bpe_table merges;
    specials specials;
    splitter splitter;
    int32_t eos, eot;        /* -1: none */
    int32_t im_end, end_doc; /* <|im_end|>, <|endoftext|> if they are control tokens; else -1 */
};

static int32_t find_control(const vocab *v, const char *text)
{
    int32_t id = vocab_find(v, (const uint8_t *)text, strlen(text));
    return id >= 0 && v->type[id] == TOKEN_CONTROL ? id : -1;
}

static ft_status build(tokenizer *t, const tok_source *src, ft_error *err)
{
    TRY(split_open(&t->splitter, src->pre, err));
    TRY(vocab_init(&t->vocab, src->token, src->type, src->n_token, err));
    TRY(bpe_init(&t->merges, &t->vocab, src->merge, src->n_merge, err));
    return special_init(&t->specials, &t->vocab, err);
}

ft_status tok_create(tokenizer **out, const tok_source *src, ft_error *err)
{
    *out = NULL;
    tokenizer *t = mem_zalloc(sizeof *t);
    if (!t)
        return err_set(err, FT_NOMEM, "tokenizer");
    ft_status st = build(t, src, err);
    if (st != FT_OK) {
        tok_close(t);
        return st;
    }
    t->eos = src->eos;
    t->eot = src->eot;
    t->im_end = find_control(&t->vocab, "<|im_end|>");
    t->end_doc = find_control(&t->vocab, "<|endoftext|>");
    *out = t;
    return FT_OK;
}

void tok_close(tokenizer *t)
{
    if (!t)
        return;
    special_deinit(&t->specials);
    bpe_deinit(&t->merges);
    vocab_deinit(&t->vocab);
    split_close(&t->splitter);
    mem_free(t);
}

/* ---- Questions ----------------------------------------------------------------------------- */

int tok_n_vocab(const tokenizer *t)
{
    return t->vocab.n;
}

int32_t tok_eos(const tokenizer *t)
{
    return t->eos;
}

bool tok_is_end(const tokenizer *t, int32_t id)
{
    return id >= 0 && (id == t->eos || id == t->eot || id == t->im_end || id == t->end_doc);
}

bool tok_is_special(const tokenizer *t, int32_t id)
{
    return id >= 0 && id < t->vocab.n && t->vocab.type[id] == TOKEN_CONTROL;
}

int32_t tok_find(const tokenizer *t, const char *s, size_t len)
{
    return vocab_find(&t->vocab, (const uint8_t *)s, len);
}

int32_t tok_find_special(const tokenizer *t, const char *s, size_t len)
{
    size_t at = 0, n;
    int32_t id;
    bool found = special_next(&t->specials, (const uint8_t *)s, len, &at, &n, &id);
    return found && n == len ? id : -1;
}

const char *tok_bytes(const tokenizer *t, int32_t id, bool skip_special, size_t *len)
{
    *len = 0;
    if (id < 0 || id >= t->vocab.n || (skip_special && tok_is_special(t, id)))
        return "";
    return (const char *)vocab_bytes(&t->vocab, id, len);
}

/* ---- Encoding ------------------------------------------------------------------------------ */

typedef struct {
    const tokenizer *t;
    buf *ids;
    split_run split;
    nfc_scratch nfc;
    bpe_scratch bpe;
} encoder;

static ft_status encode_piece(encoder *e, const uint8_t *s, size_t n, ft_error *err)
{
    return bpe_encode(&e->t->merges, &e->t->vocab, &e->bpe, s, n, e->ids, err);
}

static ft_status encode_valid(encoder *e, const uint8_t *raw, size_t n_raw, ft_error *err)
{
    const uint8_t *s;
    size_t n;
    TRY(nfc_apply(&e->nfc, raw, n_raw, &s, &n, err));
    for (size_t pos = 0, end; pos < n; pos = end) {
        TRY(split_next(&e->split, s, n, pos, &end, err));
        TRY(encode_piece(e, s + pos, end - pos, err));
    }
    return FT_OK;
}

/* Text without special tokens. */
static ft_status encode_text(encoder *e, const uint8_t *s, size_t n, ft_error *err)
{
    while (n > 0) {
        size_t run = utf8_valid_run(s, n);
        TRY(encode_valid(e, s, run, err));
        s += run;
        n -= run;
        run = utf8_invalid_run(s, n);
        TRY(encode_piece(e, s, run, err));
        s += run;
        n -= run;
    }
    return FT_OK;
}

static ft_status encode_all(encoder *e, const uint8_t *s, size_t n, tok_mode mode, ft_error *err)
{
    size_t done = 0;
    if (mode == TOK_PARSE_SPECIAL) {
        size_t at = 0, len;
        int32_t id;
        while (special_next(&e->t->specials, s, n, &at, &len, &id)) {
            TRY(encode_text(e, s + done, at - done, err));
            TRY(bpe_put_id(e->ids, id, err));
            at += len;
            done = at;
        }
    }
    return encode_text(e, s + done, n - done, err);
}

ft_status tok_encode(const tokenizer *t, const char *text, size_t len, tok_mode mode, buf *ids,
                     ft_error *err)
{
    TRY(buf_status(ids, "tokenizer: ids", err));
    if (len == 0)
        return FT_OK;
    encoder e = {.t = t, .ids = ids};
    /* NFC makes a text at most three times as long. */
    TRY(split_begin(&e.split, &t->splitter, 3 * len, err));
    nfc_init(&e.nfc);
    size_t n_before = ids->len;
    ft_status st = encode_all(&e, (const uint8_t *)text, len, mode, err);
    if (st != FT_OK) {
        ids->len = n_before;
        ids->failed = false;
    }
    bpe_scratch_deinit(&e.bpe);
    nfc_deinit(&e.nfc);
    split_end(&e.split);
    return st;
}
