/* nfc.c - see nfc.h.
 *
 * Decomposition and composition are utf8proc's. Its ordering of combining marks is an insertion
 * sort, quadratic in a run of marks (a megabyte of them takes hours), so the marks are ordered here.
 */
#include "text/nfc.h"

#include <assert.h>
#include <string.h>
#include <utf8proc.h>

/* U+0300 is the first combining mark and the first character that NFC may change or join to the
 * one before; its lead byte, and that of all later characters, is at least 0xCC. */
#define FIRST_LEAD 0xCC
#define NFC        (UTF8PROC_STABLE | UTF8PROC_COMPOSE)
#define MAX_PARTS  8 /* code points of a canonical decomposition; Unicode has at most 4 */

void nfc_init(nfc_scratch *x)
{
    buf_init(&x->out, SIZE_MAX / 2);
    buf_init(&x->cp, SIZE_MAX / 2);
}

void nfc_deinit(nfc_scratch *x)
{
    buf_deinit(&x->out);
    buf_deinit(&x->cp);
}

static int combining_class(utf8proc_int32_t c)
{
    return utf8proc_get_property(c)->combining_class;
}

static void decompose(buf *cp, const uint8_t *s, size_t n)
{
    for (size_t pos = 0; pos < n;) {
        utf8proc_int32_t c, part[MAX_PARTS];
        utf8proc_ssize_t len = utf8proc_iterate(s + pos, (utf8proc_ssize_t)(n - pos), &c);
        assert(len > 0); /* s is valid */
        int boundary = 0;
        utf8proc_ssize_t n_part = utf8proc_decompose_char(c, part, MAX_PARTS, NFC, &boundary);
        assert(n_part > 0 && n_part <= MAX_PARTS);
        buf_put(cp, part, (size_t)n_part * sizeof *part);
        pos += (size_t)len;
    }
}

/* Stable counting sort of mark[n] by combining class; tmp [n]. */
static void sort_marks(utf8proc_int32_t *mark, size_t n, utf8proc_int32_t *tmp)
{
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++)
        start[combining_class(mark[i]) + 1]++;
    for (int c = 1; c <= 256; c++)
        start[c] += start[c - 1];
    for (size_t i = 0; i < n; i++)
        tmp[start[combining_class(mark[i])]++] = mark[i];
    memcpy(mark, tmp, n * sizeof *mark);
}

/* Canonical order: within each run of characters of a class other than 0, ascending class. */
static void order(buf *cp)
{
    size_t n = cp->len / sizeof(utf8proc_int32_t);
    utf8proc_int32_t *tmp = buf_extend(cp, cp->len);
    if (!tmp)
        return;
    utf8proc_int32_t *c = (utf8proc_int32_t *)(void *)cp->data;
    for (size_t i = 0, end; i < n; i = end) {
        end = i + 1;
        int last = combining_class(c[i]);
        bool sorted = true;
        for (int class; last && end < n && (class = combining_class(c[end])) != 0; end++) {
            sorted = sorted && class >= last;
            last = class;
        }
        if (!sorted)
            sort_marks(c + i, end - i, tmp);
    }
    cp->len = n * sizeof *c;
}

static void compose(buf *cp, buf *out)
{
    utf8proc_int32_t *c = (utf8proc_int32_t *)(void *)cp->data;
    utf8proc_ssize_t n = (utf8proc_ssize_t)(cp->len / sizeof *c);
    n = utf8proc_normalize_utf32(c, n, NFC);
    for (utf8proc_ssize_t i = 0; i < n; i++) {
        utf8proc_uint8_t bytes[4];
        buf_put(out, bytes, (size_t)utf8proc_encode_char(c[i], bytes));
    }
}

/* A segment begins with a character before U+0300 (or the text) and goes on with later ones:
 * nothing in it joins to what stands around it. */
static void put_segment(nfc_scratch *x, const uint8_t *s, size_t n)
{
    buf_clear(&x->cp);
    decompose(&x->cp, s, n);
    order(&x->cp);
    if (x->cp.failed)
        x->out.failed = true;
    else
        compose(&x->cp, &x->out);
}

/* Place of the first byte of s[n] from pos on that begins a late character; n: there is none. */
static size_t find_late(const uint8_t *s, size_t n, size_t pos)
{
    while (pos < n && s[pos] < FIRST_LEAD)
        pos++;
    return pos;
}

static bool is_continuation(uint8_t b)
{
    return (b & 0xC0) == 0x80;
}

ft_status nfc_apply(nfc_scratch *x, const uint8_t *s, size_t n, const uint8_t **out, size_t *n_out,
                    ft_error *err)
{
    *out = s;
    *n_out = n;
    size_t late = find_late(s, n, 0);
    if (late == n)
        return FT_OK;
    buf_clear(&x->out);
    size_t pos = 0;
    while (late < n) {
        size_t begin = late > pos ? late - 1 : late; /* the character before, its last byte */
        while (begin > pos && is_continuation(s[begin]))
            begin--;
        buf_put(&x->out, s + pos, begin - pos);
        pos = late;
        while (pos < n && (s[pos] >= FIRST_LEAD || is_continuation(s[pos])))
            pos++;
        put_segment(x, s + begin, pos - begin);
        late = find_late(s, n, pos);
    }
    buf_put(&x->out, s + pos, n - pos);
    TRY(buf_status(&x->out, "tokenizer: NFC", err));
    *out = x->out.data;
    *n_out = x->out.len;
    return FT_OK;
}
