/* Property: any bytes are either refused with a message of one line, or become ascending ids in the
 * vocabulary, which written out and read again are the same. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "draft/vocab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const draft_vocab_fit fit = {.n_vocab = 4096, .tokenizer = 0x723864f03e9ec33d};

static void check_refusal(const int32_t *id, int n, ft_status st, const ft_error *err)
{
    if (id || n != 0 || err->code != st || !err->msg[0])
        abort();
    for (const char *p = err->msg; *p; p++)
        if (*p < 0x20 || *p > 0x7e)
            abort();
}

static void check_round_trip(const int32_t *id, int n)
{
    buf b;
    buf_init(&b, 1 << 20);
    draft_vocab_write(&b, id, n, &fit);
    int32_t *again;
    int n_again;
    if (draft_vocab_parse(&again, &n_again, buf_cstr(&b), b.len, &fit, NULL) != FT_OK)
        abort();
    if (n_again != n || memcmp(again, id, (size_t)n * sizeof *id) != 0)
        abort();
    mem_free(again);
    buf_deinit(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ft_error err = {0};
    int32_t *id;
    int n;
    ft_status st = draft_vocab_parse(&id, &n, (const char *)data, size, &fit, &err);
    if (st != FT_OK) {
        check_refusal(id, n, st, &err);
        return 0;
    }
    if (n < 1 || n > fit.n_vocab)
        abort();
    for (int i = 0; i < n; i++) {
        if (id[i] < 0 || id[i] >= fit.n_vocab || (i > 0 && id[i] <= id[i - 1]))
            abort();
        if (draft_vocab_row(id, n, id[i]) != i)
            abort();
    }
    check_round_trip(id, n);
    mem_free(id);
    return 0;
}
