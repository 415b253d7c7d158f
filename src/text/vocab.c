/* vocab.c - see vocab.h. */
#include "text/vocab.h"

#include <string.h>
#include <utf8proc.h>
#include <xxhash.h>

#include "base/mem.h"

/* GPT-2's alphabet: the printable bytes of Latin-1 stand for themselves, the others, in ascending
 * order, for U+0100, U+0101, ... */
static void alphabet_init(int16_t alphabet[ALPHABET_END])
{
    for (int c = 0; c < ALPHABET_END; c++)
        alphabet[c] = -1;
    int next = 0x100;
    for (int b = 0; b < 256; b++) {
        bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        alphabet[printable ? b : next++] = (int16_t)b;
    }
}

size_t vocab_from_alphabet(const vocab *v, gguf_str s, uint8_t *out)
{
    const uint8_t *p = (const uint8_t *)s.s;
    size_t n = 0;
    for (size_t pos = 0; pos < s.len;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t left = (utf8proc_ssize_t)(s.len - pos);
        utf8proc_ssize_t len = utf8proc_iterate(p + pos, left, &c);
        if (len <= 0 || c >= ALPHABET_END || v->alphabet[c] < 0) {
            memcpy(out, p, s.len);
            return s.len;
        }
        out[n++] = (uint8_t)v->alphabet[c];
        pos += (size_t)len;
    }
    return n;
}

/* The slot of these bytes, or the free one where they belong. The table's address is the seed, so
 * that no file can be made to collide. */
static size_t find_slot(const vocab *v, const uint8_t *s, size_t len)
{
    size_t i = XXH3_64bits_withSeed(s, len, (uintptr_t)v->slot) & v->mask;
    while (v->slot[i] >= 0) {
        size_t n;
        const uint8_t *p = vocab_bytes(v, v->slot[i], &n);
        if (n == len && (len == 0 || memcmp(p, s, len) == 0))
            break;
        i = (i + 1) & v->mask;
    }
    return i;
}

static ft_status allocate(vocab *v, const gguf_str *token, size_t n_token, ft_error *err)
{
    size_t total = 1; /* never an empty block */
    for (size_t i = 0; i < n_token; i++)
        if (!size_add(&total, total, token[i].len))
            return err_set(err, FT_FORMAT, "tokenizer.ggml.tokens: the texts are too long");
    size_t n_slot = 2;
    while (n_slot < 2 * n_token)
        n_slot *= 2;
    v->mask = n_slot - 1;
    v->bytes = mem_alloc(total);
    v->start = mem_calloc(n_token + 1, sizeof *v->start);
    v->type = mem_alloc(n_token);
    v->slot = mem_calloc(n_slot, sizeof *v->slot);
    if (!v->bytes || !v->start || !v->type || !v->slot)
        return err_set(err, FT_NOMEM, "tokenizer: vocabulary of %zu tokens", n_token);
    memset(v->slot, 0xFF, n_slot * sizeof *v->slot); /* all -1 */
    return FT_OK;
}

static ft_status find_bytes(vocab *v, ft_error *err)
{
    for (int b = 0; b < 256; b++) {
        uint8_t byte = (uint8_t)b;
        int32_t id = vocab_find(v, &byte, 1);
        if (id < 0 || v->type[id] == TOKEN_CONTROL)
            return err_set(err, FT_FORMAT,
                           "tokenizer.ggml.tokens: %s for byte 0x%02X, want one for each byte",
                           id < 0 ? "no token" : "only a control token", (unsigned)b);
        v->byte_id[b] = id;
    }
    return FT_OK;
}

ft_status vocab_init(vocab *v, const gguf_str *token, const uint8_t *type, size_t n_token,
                     ft_error *err)
{
    *v = (vocab){0};
    if (n_token == 0 || n_token > INT32_MAX)
        return err_set(err, FT_FORMAT, "tokenizer.ggml.tokens: %zu tokens, want 1..%d", n_token,
                       INT32_MAX);
    alphabet_init(v->alphabet);
    TRY(allocate(v, token, n_token, err));
    for (size_t i = 0; i < n_token; i++) {
        v->type[i] = type ? type[i] : TOKEN_NORMAL;
        uint8_t *out = v->bytes + v->start[i];
        size_t len = token[i].len;
        if (v->type[i] != TOKEN_CONTROL && v->type[i] != TOKEN_USER_DEFINED)
            len = vocab_from_alphabet(v, token[i], out);
        else if (len > 0)
            memcpy(out, token[i].s, len);
        v->start[i + 1] = v->start[i] + len;
        v->n = (int)i + 1;
        size_t slot = find_slot(v, out, len);
        if (v->slot[slot] < 0) /* invariant 2 */
            v->slot[slot] = (int32_t)i;
    }
    return find_bytes(v, err);
}

void vocab_deinit(vocab *v)
{
    mem_free(v->bytes);
    mem_free(v->start);
    mem_free(v->type);
    mem_free(v->slot);
    *v = (vocab){0};
}

const uint8_t *vocab_bytes(const vocab *v, int32_t id, size_t *len)
{
    *len = v->start[id + 1] - v->start[id];
    return v->bytes + v->start[id];
}

int32_t vocab_find(const vocab *v, const uint8_t *s, size_t len)
{
    return v->slot[find_slot(v, s, len)];
}
