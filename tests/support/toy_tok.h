/* toy_tok.h - small tokenizers made in memory: one token for each byte, id = byte, and then what a
 * test adds. Header only, so that fuzz targets can have it too. */
#ifndef TESTS_SUPPORT_TOY_TOK_H
#define TESTS_SUPPORT_TOY_TOK_H

#include <assert.h>
#include <string.h>

#include "text/tokenizer.h"
#include "text/vocab.h"

#define TOY_MAX 1024

typedef struct {
    gguf_str token[TOY_MAX], merge[TOY_MAX];
    uint8_t type[TOY_MAX];
    tok_source src; /* points to the above */
    char text[1 << 17];
    size_t n_text;
} toy_vocab;

/* Room for n bytes of text. */
static inline char *toy_text(toy_vocab *v, size_t n)
{
    assert(n <= sizeof v->text - v->n_text);
    char *p = v->text + v->n_text;
    v->n_text += n;
    return p;
}

static inline int32_t toy_token(toy_vocab *v, gguf_str text, token_type type)
{
    assert(v->src.n_token < TOY_MAX);
    v->token[v->src.n_token] = text;
    v->type[v->src.n_token] = (uint8_t)type;
    return (int32_t)v->src.n_token++;
}

/* bytes[n] in the byte alphabet, written out from the definition. */
static inline gguf_str toy_alphabet(toy_vocab *v, const char *bytes, size_t n)
{
    gguf_str s = {toy_text(v, 2 * n), 0};
    char *p = v->text + (s.s - v->text);
    for (size_t i = 0; i < n; i++) {
        int b = (unsigned char)bytes[i], c = b;
        if (b < 33)
            c = 256 + b;
        else if (b > 126 && b < 161)
            c = 256 + 33 + b - 127;
        else if (b == 173)
            c = 256 + 67;
        if (c >= 128)
            p[s.len++] = (char)(0xC0 | c >> 6);
        p[s.len++] = (char)(c < 128 ? c : 0x80 | (c & 63));
    }
    return s;
}

static inline void toy_init(toy_vocab *v)
{
    memset(v, 0, sizeof *v);
    v->src = (tok_source){.pre = {"qwen35", 6}, .eos = -1, .eot = -1};
    v->src.token = v->token;
    v->src.merge = v->merge;
    v->src.type = v->type;
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        toy_token(v, toy_alphabet(v, &byte, 1), TOKEN_NORMAL);
    }
}

/* The id of a token by its bytes as the file spells them; -1: none. */
static inline int32_t toy_find(const toy_vocab *v, gguf_str text)
{
    for (size_t i = 0; i < v->src.n_token; i++)
        if (v->token[i].len == text.len && memcmp(v->token[i].s, text.s, text.len) == 0)
            return (int32_t)i;
    return -1;
}

/* The next merge: left and right are raw bytes. Returns the id of what it makes, added if new. */
static inline int32_t toy_merge(toy_vocab *v, const char *left, const char *right)
{
    assert(v->src.n_merge < TOY_MAX);
    gguf_str a = toy_alphabet(v, left, strlen(left));
    gguf_str b = toy_alphabet(v, right, strlen(right));
    size_t n = a.len + b.len;
    char *line = toy_text(v, n + 1), *both = toy_text(v, n);
    memcpy(line, a.s, a.len);
    line[a.len] = ' ';
    memcpy(line + a.len + 1, b.s, b.len);
    memcpy(both, a.s, a.len);
    memcpy(both + a.len, b.s, b.len);
    v->merge[v->src.n_merge++] = (gguf_str){line, n + 1};
    int32_t id = toy_find(v, (gguf_str){both, n});
    return id >= 0 ? id : toy_token(v, (gguf_str){both, n}, TOKEN_NORMAL);
}

static inline int32_t toy_special(toy_vocab *v, const char *text, token_type type)
{
    return toy_token(v, (gguf_str){text, strlen(text)}, type);
}

#endif
