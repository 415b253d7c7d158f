/* vocab.c - see vocab.h. */
#include "draft/vocab.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"

#define FORM      "foretoken-draft-vocab "
#define HASH_LEN  16
#define SHOWN_MAX 32 /* bytes of a wrong line that a message shows */

/* ---- The file --------------------------------------------------------------------------------- */

typedef struct {
    const char *text;
    size_t n_bytes, pos; /* pos: where the next line begins */
    int n_line;          /* lines read: the number of the current one */
    const char *line;    /* the current one, without its end */
    size_t len;
    ft_error *err;
} reader;

static ft_status wrong(reader *r, const char *want)
{
    char shown[SHOWN_MAX + 1];
    size_t n = r->len < SHOWN_MAX ? r->len : SHOWN_MAX;
    for (size_t i = 0; i < n; i++)
        shown[i] = (char)(r->line[i] >= 0x20 && r->line[i] < 0x7f ? r->line[i] : '?');
    shown[n] = '\0';
    return err_set(r->err, FT_FORMAT, "draft vocabulary: line %d: '%s%s', want %s", r->n_line,
                   shown, n < r->len ? "..." : "", want);
}

static ft_status next_line(reader *r, const char *want)
{
    size_t left = r->n_bytes - r->pos;
    const char *s = left ? r->text + r->pos : NULL; /* a text of no bytes may be NULL */
    const char *end = left ? memchr(s, '\n', left) : NULL;
    r->n_line++;
    if (!end)
        return err_set(r->err, FT_FORMAT, "draft vocabulary: line %d: the file ends, want %s",
                       r->n_line, want);
    r->line = s;
    r->len = (size_t)(end - s);
    r->pos += r->len + 1;
    return FT_OK;
}

/* Take a number off the front of *s [*len]: digits without a leading zero, at most INT32_MAX. */
static bool take_number(const char **s, size_t *len, int32_t *out)
{
    int64_t v = 0;
    size_t i = 0;
    for (; i < *len && (*s)[i] >= '0' && (*s)[i] <= '9'; i++) {
        v = 10 * v + ((*s)[i] - '0');
        if (v > INT32_MAX || (i > 0 && (*s)[0] == '0'))
            return false;
    }
    *s += i;
    *len -= i;
    *out = (int32_t)v;
    return i > 0;
}

/* What stands behind the key in the next line. */
static ft_status key_line(reader *r, const char *key, const char *want, const char **value,
                          size_t *len)
{
    size_t n = strlen(key);
    TRY(next_line(r, want));
    if (r->len < n || memcmp(r->line, key, n) != 0)
        return wrong(r, want);
    *value = r->line + n;
    *len = r->len - n;
    return FT_OK;
}

static ft_status number_line(reader *r, const char *key, const char *want, int32_t *out)
{
    const char *s;
    size_t len;
    TRY(key_line(r, key, want, &s, &len));
    return take_number(&s, &len, out) && len == 0 ? FT_OK : wrong(r, want);
}

static ft_status hash_line(reader *r, uint64_t *out)
{
    static const char want[] = "'tokenizer ' and 16 digits of 0-9 a-f";
    const char *s;
    size_t len;
    TRY(key_line(r, "tokenizer ", want, &s, &len));
    *out = 0;
    for (size_t i = 0; i < len; i++) {
        int digit = s[i] >= '0' && s[i] <= '9'   ? s[i] - '0'
                    : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' + 10
                                                 : -1;
        if (digit < 0)
            return wrong(r, want);
        *out = *out << 4 | (uint64_t)digit;
    }
    return len == HASH_LEN ? FT_OK : wrong(r, want);
}

/* The lines before the ids; *n gets their number. */
static ft_status read_head(reader *r, const draft_vocab_fit *fit, int32_t *n)
{
    int32_t version, n_vocab;
    uint64_t hash;
    TRY(number_line(r, FORM, "'" FORM "1'", &version));
    if (version != 1)
        return err_set(r->err, FT_UNSUPPORTED, "draft vocabulary: line 1: version %d, want 1",
                       version);
    TRY(number_line(r, "vocab ", "'vocab ' and a number of tokens", &n_vocab));
    if (n_vocab != fit->n_vocab)
        return err_set(r->err, FT_MISMATCH,
                       "draft vocabulary: line %d: made for %d tokens, the model has %d", r->n_line,
                       n_vocab, fit->n_vocab);
    TRY(hash_line(r, &hash));
    if (hash != fit->tokenizer)
        return err_set(r->err, FT_MISMATCH,
                       "draft vocabulary: line %d: made for tokenizer %016" PRIx64
                       ", the model's is %016" PRIx64,
                       r->n_line, hash, fit->tokenizer);
    TRY(number_line(r, "n ", "'n ' and a number of ids", n));
    if (*n < 1 || *n > n_vocab)
        return err_set(r->err, FT_FORMAT, "draft vocabulary: line %d: %d ids, want 1 to %d",
                       r->n_line, *n, n_vocab);
    return FT_OK;
}

/* "A" or "A-B", A < B. */
static ft_status id_line(reader *r, int32_t *first, int32_t *last)
{
    static const char want[] = "a token id, a range of them, or 'end'";
    const char *s = r->line;
    size_t len = r->len;
    if (!take_number(&s, &len, first))
        return wrong(r, want);
    *last = *first;
    if (len == 0)
        return FT_OK;
    s++;
    len--;
    if (s[-1] != '-' || !take_number(&s, &len, last) || len > 0 || *last <= *first)
        return wrong(r, want);
    return FT_OK;
}

/* The lines of ids [n] and the end. */
static ft_status read_ids(reader *r, int n_vocab, int32_t *id, int n)
{
    int n_read = 0;
    for (;;) {
        int32_t first, last, before = n_read ? id[n_read - 1] : -1;
        TRY(next_line(r, "a token id or 'end'"));
        if (r->len == 3 && memcmp(r->line, "end", 3) == 0)
            break;
        TRY(id_line(r, &first, &last));
        if (last >= n_vocab)
            return err_set(r->err, FT_FORMAT, "draft vocabulary: line %d: id %d, want 0 to %d",
                           r->n_line, last, n_vocab - 1);
        if (first <= before)
            return err_set(r->err, FT_FORMAT,
                           "draft vocabulary: line %d: id %d behind %d, want ascending ids, each "
                           "once",
                           r->n_line, first, before);
        if (last - first >= n - n_read)
            return err_set(r->err, FT_FORMAT,
                           "draft vocabulary: line %d: more ids than the %d announced", r->n_line,
                           n);
        for (int32_t t = first; t <= last; t++)
            id[n_read++] = t;
    }
    if (n_read != n)
        return err_set(r->err, FT_FORMAT, "draft vocabulary: line %d: %d ids, %d were announced",
                       r->n_line, n_read, n);
    if (r->pos != r->n_bytes)
        return err_set(r->err, FT_FORMAT, "draft vocabulary: line %d: %zu bytes behind the end",
                       r->n_line + 1, r->n_bytes - r->pos);
    return FT_OK;
}

ft_status draft_vocab_parse(int32_t **id, int *n, const char *text, size_t n_bytes,
                            const draft_vocab_fit *fit, ft_error *err)
{
    *id = NULL;
    *n = 0;
    reader r = {.text = text, .n_bytes = n_bytes, .err = err};
    int32_t count;
    TRY(read_head(&r, fit, &count));
    int32_t *list = mem_calloc((size_t)count, sizeof *list);
    if (!list)
        return err_set(err, FT_NOMEM, "draft vocabulary: %d ids", count);
    ft_status st = read_ids(&r, fit->n_vocab, list, count);
    if (st != FT_OK) {
        mem_free(list);
        return st;
    }
    *id = list;
    *n = count;
    return FT_OK;
}

void draft_vocab_write(buf *out, const int32_t *id, int n, const draft_vocab_fit *fit)
{
    buf_printf(out, FORM "1\nvocab %d\ntokenizer %016" PRIx64 "\nn %d\n", fit->n_vocab,
               fit->tokenizer, n);
    for (int i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && id[j] == id[j - 1] + 1; j++)
            continue;
        if (j - i == 1)
            buf_printf(out, "%d\n", id[i]);
        else
            buf_printf(out, "%d-%d\n", id[i], id[j - 1]);
    }
    buf_puts(out, "end\n");
}

/* ---- The rows --------------------------------------------------------------------------------- */

static ft_status check_ids(const int32_t *id, int n, const tensor *head, ft_error *err)
{
    if (n < 1 || n > head->n_row)
        return err_set(err, FT_ARG, "draft vocabulary: %d ids, want 1 to %d", n, head->n_row);
    for (int i = 0; i < n; i++) {
        if (id[i] < 0 || id[i] >= head->n_row)
            return err_set(err, FT_ARG, "draft vocabulary: id %d, want 0 to %d", id[i],
                           head->n_row - 1);
        if (i > 0 && id[i] <= id[i - 1])
            return err_set(err, FT_ARG,
                           "draft vocabulary: id %d behind %d, want ascending ids, each once",
                           id[i], id[i - 1]);
    }
    return FT_OK;
}

/* Memory for n ids and rows of row_bytes. */
static ft_status allocate(draft_vocab *v, int n, size_t row_bytes, ft_error *err)
{
    size_t n_bytes;
    if (size_mul(&n_bytes, (size_t)n, row_bytes)) {
        v->rows = mem_alloc_aligned(n_bytes);
        v->id = mem_calloc((size_t)n, sizeof *v->id);
    }
    if (!v->rows || !v->id)
        return err_set(err, FT_NOMEM, "draft vocabulary: %d rows of %zu bytes", n, row_bytes);
    return FT_OK;
}

ft_status draft_vocab_create(draft_vocab **out, const int32_t *id, int n, const tensor *head,
                             ft_error *err)
{
    *out = NULL;
    TRY(check_ids(id, n, head, err));
    size_t row_bytes = dtype_row_bytes(head->type, (size_t)head->n_col);
    draft_vocab *v = mem_zalloc(sizeof *v);
    if (!v)
        return err_set(err, FT_NOMEM, "draft vocabulary");
    ft_status st = allocate(v, n, row_bytes, err);
    if (st != FT_OK) {
        draft_vocab_free(v);
        return st;
    }
    memcpy(v->id, id, (size_t)n * sizeof *id);
    const uint8_t *from = head->data;
    uint8_t *to = v->rows;
    for (int r = 0; r < n; r++)
        memcpy(to + (size_t)r * row_bytes, from + (size_t)id[r] * head->row_bytes, row_bytes);
    v->n = n;
    v->head = *head;
    v->head.data = v->rows;
    v->head.n_row = n;
    v->head.row_bytes = row_bytes;
    v->head.mat_bytes = (size_t)n * row_bytes;
    *out = v;
    return FT_OK;
}

void draft_vocab_free(draft_vocab *v)
{
    if (!v)
        return;
    mem_free(v->rows);
    mem_free(v->id);
    mem_free(v);
}

int draft_vocab_row(const int32_t *id, int n, int32_t token)
{
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;
        if (id[mid] < token)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && id[lo] == token ? lo : -1;
}
