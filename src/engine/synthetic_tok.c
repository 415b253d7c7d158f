/* synthetic_tok.c - the tokenizer of a synthetic model. Keys: the GGUF specification. Letters that stand
 * for bytes: the byte-level BPE of GPT-2, in which printable bytes are themselves and the others follow
 * from U+0100 on. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/synthetic.h"

/* tokenizer.ggml.token_type */
enum { TYPE_NORMAL = 1, TYPE_CONTROL = 3 };
enum { N_BYTE = 256, N_LETTER = 26, N_SPECIAL = SYNTHETIC_MIN_VOCAB - N_BYTE, TEXT_MAX = 16 };

typedef struct {
    char (*text)[TEXT_MAX]; /* [n], owned; NUL-terminated */
    gguf_str *item;         /* [n], owned: the same for the writer */
    int32_t *type;          /* [n], owned */
    int n;
} texts;

static ft_status texts_init(texts *t, int n, ft_error *err)
{
    *t = (texts){.text = mem_calloc((size_t)n, sizeof *t->text),
                 .item = mem_calloc((size_t)n, sizeof *t->item),
                 .type = mem_calloc((size_t)n, sizeof *t->type)};
    return t->text && t->item && t->type ? FT_OK
                                         : err_set(err, FT_NOMEM, "tokenizer of %d texts", n);
}

static void texts_deinit(texts *t)
{
    mem_free(t->text);
    mem_free(t->item);
    mem_free(t->type);
}

/* The letter that stands for a byte, as UTF-8; *next counts those from U+0100 on. */
static void byte_letter(char out[TEXT_MAX], int byte, unsigned *next)
{
    bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xff && byte != 0xad);
    unsigned c = printable ? (unsigned)byte : 0x100 + (*next)++;
    if (c < 0x80)
        snprintf(out, TEXT_MAX, "%c", (char)c);
    else
        snprintf(out, TEXT_MAX, "%c%c", (char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)));
}

/* Pairs of letters behind the bytes, as far as there is room. */
static int n_pair(int n_vocab)
{
    int room = n_vocab - N_BYTE - N_SPECIAL;
    return room < N_LETTER * N_LETTER ? room : N_LETTER * N_LETTER;
}

static void fill_vocab(texts *t, int n_vocab)
{
    static const char *const special[N_SPECIAL] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    unsigned next = 0;
    for (int i = 0; i < n_vocab; i++) {
        char *s = t->text[i];
        int pair = i - N_BYTE, last = i - (n_vocab - N_SPECIAL);
        t->type[i] = last >= 0 ? TYPE_CONTROL : TYPE_NORMAL;
        if (last >= 0)
            snprintf(s, TEXT_MAX, "%s", special[last]);
        else if (pair < 0)
            byte_letter(s, i, &next);
        else if (pair < n_pair(n_vocab))
            snprintf(s, TEXT_MAX, "%c%c", 'a' + pair / N_LETTER, 'a' + pair % N_LETTER);
        else
            snprintf(s, TEXT_MAX, "\xc4\xa0w%d", i); /* U+0120 stands for a space */
        t->item[i] = (gguf_str){s, strlen(s)};
    }
}

static void put_merges(gguf_writer *w, int n)
{
    char text[N_LETTER * N_LETTER][4];
    gguf_str item[N_LETTER * N_LETTER];
    for (int i = 0; i < n; i++) {
        snprintf(text[i], sizeof text[i], "%c %c", 'a' + i / N_LETTER, 'a' + i % N_LETTER);
        item[i] = (gguf_str){text[i], 3};
    }
    gguf_put_str_array(w, "tokenizer.ggml.merges", item, (size_t)n);
}

ft_status synthetic_put_tokenizer(gguf_writer *w, int n_vocab, ft_error *err)
{
    assert(n_vocab >= SYNTHETIC_MIN_VOCAB);
    texts t;
    ft_status st = texts_init(&t, n_vocab, err);
    if (st == FT_OK) {
        fill_vocab(&t, n_vocab);
        gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
        gguf_put_str(w, "tokenizer.ggml.pre", "qwen35", 6);
        gguf_put_str_array(w, "tokenizer.ggml.tokens", t.item, (size_t)n_vocab);
        gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, t.type, (size_t)n_vocab);
        put_merges(w, n_pair(n_vocab));
        gguf_put_int(w, "tokenizer.ggml.eos_token_id", GGUF_U32, n_vocab - N_SPECIAL);
        gguf_put_int(w, "tokenizer.ggml.add_bos_token", GGUF_BOOL, 0);
    }
    texts_deinit(&t);
    return st;
}
