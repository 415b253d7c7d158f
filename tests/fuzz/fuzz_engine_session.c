/* Property: any bytes are either refused with a message of one line, or a session file whose sections lie
 * inside it and hold what the table says; checksums made right first, so that what stands behind them is
 * reached too. */
#include <stdlib.h>
#include <string.h>

#include "engine/session_file.h"
#include "support/session_seal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refusal(ft_status st, const ft_error *err)
{
    if ((st != FT_FORMAT && st != FT_MISMATCH) || err->code != st || !err->msg[0])
        abort();
    for (const char *p = err->msg; *p; p++)
        if (*p < 0x20 || *p > 0x7e)
            abort();
}

/* Read section i to its end in pieces, and not a byte further. */
static void check_section(const session_file *f, int i)
{
    section_reader r = section_open(f, i);
    file_section s = session_file_section(f, i);
    if (s.offset > f->n_bytes || s.size > f->n_bytes - s.offset)
        abort();
    uint8_t piece[64];
    for (uint64_t left = s.size; left > 0;) {
        size_t n = left < sizeof piece ? (size_t)left : sizeof piece;
        if (section_read(&r, piece, n, NULL) != FT_OK)
            abort();
        left -= n;
    }
    if (section_end(&r, NULL) != FT_OK || section_read(&r, piece, 1, NULL) != FT_FORMAT)
        abort();
}

static void check(const uint8_t *bytes, size_t n)
{
    session_file f;
    ft_error err = {0};
    ft_status st = session_file_open(&f, bytes, n, &err);
    if (st != FT_OK) {
        check_refusal(st, &err);
        return;
    }
    for (int i = 0; i < f.n_section; i++)
        check_section(&f, i);
    int last = 0;
    for (int i = 0; i < f.n_checkpoint; i++) {
        file_section s = session_file_section(&f, session_file_checkpoint(&f, i));
        if (s.n_tok <= last || s.n_tok > f.set.n_past)
            abort();
        last = s.n_tok;
    }
    if (session_file_section(&f, SECTION_IDS).size != 4u * (uint64_t)f.set.n_past)
        abort();
    if (strnlen(f.set.name, sizeof f.set.name) == sizeof f.set.name)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size);
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    seal(copy, size);
    check(copy, size);
    free(copy);
    return 0;
}
