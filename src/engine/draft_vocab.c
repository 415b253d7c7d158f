/* draft_vocab.c - draft vocabularies: made from counts of tokens, read for a model, measured on text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/map.h"
#include "base/mem.h"
#include "engine/engine.h"

#define TEXT_MAX  ((size_t)1 << 30)
#define FILE_MAX  ((size_t)1 << 26)
#define PIECE_MIN ((size_t)1 << 20) /* bytes of text that are turned into tokens at once */

static ft_status need_tokenizer(const ft_model *m, ft_error *err)
{
    return m->tok
               ? FT_OK
               : err_set(err, FT_UNSUPPORTED, "draft vocabulary: %s has no tokenizer to belong to",
                         gguf_path(m->file));
}

/* The rows that drafts are chosen from: without a draft head those that one would use. */
static const tensor *full_head(const ft_model *m)
{
    return m->m->has_mtp ? &m->m->mtp.head : &m->m->output;
}

static draft_vocab_fit fit_of(const ft_model *m)
{
    draft_vocab_fit f = {.n_vocab = m->m->h.n_vocab};
    for (int32_t id = 0; id < tok_n_vocab(m->tok); id++) {
        size_t len;
        const char *s = tok_bytes(m->tok, id, false, &len);
        f.tokenizer = XXH3_64bits_withSeed(s, len, f.tokenizer);
    }
    return f;
}

/* The ids in a file, owned by the caller. */
static ft_status read_ids(const ft_model *m, const char *path, int32_t **id, int *n, ft_error *err)
{
    char *text;
    size_t len;
    TRY(file_read_all(&text, &len, path, FILE_MAX, err));
    draft_vocab_fit fit = fit_of(m);
    ft_status st = draft_vocab_parse(id, n, text, len, &fit, err);
    mem_free(text);
    return err_prefix(err, st, "%s", path);
}

ft_status engine_open_draft_vocab(ft_model *m, const char *path, ft_error *err)
{
    if (!m->m->has_mtp) {
        snprintf(m->no_vocab_reason, sizeof m->no_vocab_reason, "no draft head: %s",
                 m->m->no_mtp_reason);
        return FT_OK;
    }
    TRY(need_tokenizer(m, err));
    int32_t *id;
    int n;
    TRY(read_ids(m, path, &id, &n, err));
    ft_status st = draft_vocab_create(&m->vocab, id, n, &m->m->mtp.head, err);
    mem_free(id);
    return st;
}

/* ---- Counting --------------------------------------------------------------------------------- */

/* Where the piece of s[n] ends that begins at from: behind a line that ends past PIECE_MIN and is
 * followed by a visible ASCII character. No token spans such a place, so pieces count as the whole. */
static size_t piece_end(const char *s, size_t n, size_t from)
{
    if (n - from <= PIECE_MIN)
        return n;
    for (size_t i = from + PIECE_MIN; i < n; i++)
        if (s[i - 1] == '\n' && s[i] > ' ' && s[i] < 0x7f)
            return i;
    return n;
}

/* Add the tokens of a text to count [n_vocab]. */
static ft_status count_text(const ft_model *m, const char *text, size_t len,
                            const ft_draft_vocab_params *p, uint64_t *count, ft_error *err)
{
    buf ids;
    buf_init(&ids, (size_t)1 << 32);
    ft_status st = FT_OK;
    for (size_t pos = 0, end; st == FT_OK && pos < len; pos = end) {
        end = piece_end(text, len, pos);
        buf_clear(&ids);
        st = tok_encode(m->tok, text + pos, end - pos, TOK_PARSE_SPECIAL, &ids, err);
        const int32_t *id = (const int32_t *)(const void *)ids.data;
        for (size_t i = 0; st == FT_OK && i < ids.len / sizeof *id; i++)
            count[id[i]]++;
        if (st == FT_OK && p->progress && !p->progress(p->progress_ctx, "counting", end, len))
            st = err_set(err, FT_CANCELLED, "draft vocabulary: stopped by the caller");
    }
    buf_deinit(&ids);
    return st;
}

/* How often each token stands in the texts of p: [n_vocab], owned by the caller. */
static ft_status count_texts(const ft_model *m, const ft_draft_vocab_params *p, uint64_t **out,
                             ft_error *err)
{
    uint64_t *count = *out = mem_calloc((size_t)m->m->h.n_vocab, sizeof *count);
    if (!count)
        return err_set(err, FT_NOMEM, "draft vocabulary: %d counts", m->m->h.n_vocab);
    for (int i = 0; p && i < p->n_text; i++) {
        char *text;
        size_t len;
        ft_status st = file_read_all(&text, &len, p->text[i], TEXT_MAX, err);
        if (st == FT_OK) {
            st = err_prefix(err, count_text(m, text, len, p, count, err), "%s", p->text[i]);
            mem_free(text);
        }
        if (st != FT_OK) {
            mem_free(count);
            *out = NULL;
            return st;
        }
    }
    return FT_OK;
}

/* ---- Reports ---------------------------------------------------------------------------------- */

bool ft_coverage_is_poor(const ft_coverage *c)
{
    return c->n_token >= 16 && 5 * c->n_covered < 4 * c->n_token;
}

static void add(ft_coverage *c, uint64_t count, bool drafted)
{
    c->n_vocab++;
    c->n_draft += drafted;
    c->n_token += count;
    c->n_covered += drafted ? count : 0;
}

/* How id [n] covers count [n_vocab]. */
static void make_report(ft_draft_vocab_report *r, const ft_model *m, const int32_t *id, int n,
                        const uint64_t *count)
{
    *r = (ft_draft_vocab_report){0};
    const tensor *head = full_head(m);
    size_t row_bytes = dtype_row_bytes(head->type, (size_t)head->n_col);
    r->head_bytes = (uint64_t)n * row_bytes;
    r->full_head_bytes = (uint64_t)head->n_row * row_bytes;
    for (int32_t t = 0, i = 0; t < m->m->h.n_vocab; t++) {
        bool drafted = i < n && id[i] == t;
        i += drafted;
        add(&r->all, count[t], drafted);
        add(&r->script[tok_script(m->tok, t)], count[t], drafted);
    }
}

ft_status ft_draft_vocab_inspect(const ft_model *m, const char *path,
                                 const ft_draft_vocab_params *p, ft_draft_vocab_report *report,
                                 ft_error *err)
{
    TRY(need_tokenizer(m, err));
    int32_t *id;
    int n;
    uint64_t *count;
    TRY(read_ids(m, path, &id, &n, err));
    ft_status st = count_texts(m, p, &count, err);
    if (st == FT_OK)
        make_report(report, m, id, n, count);
    mem_free(count);
    mem_free(id);
    return st;
}

ft_status ft_draft_vocab_coverage(const ft_model *m, const int32_t *tok, size_t n_tok,
                                  ft_draft_vocab_report *report, ft_error *err)
{
    TRY(need_tokenizer(m, err));
    if (!m->vocab)
        return err_set(err, FT_UNSUPPORTED, "draft vocabulary: the model was opened without one");
    uint64_t *count;
    TRY(count_texts(m, NULL, &count, err));
    for (size_t i = 0; i < n_tok; i++) {
        if (tok[i] < 0 || tok[i] >= m->m->h.n_vocab) {
            mem_free(count);
            return err_set(err, FT_RANGE, "token %zu: id %d, want 0 to %d", i, tok[i],
                           m->m->h.n_vocab - 1);
        }
        count[tok[i]]++;
    }
    make_report(report, m, m->vocab->id, m->vocab->n, count);
    mem_free(count);
    return FT_OK;
}

/* ---- Choosing --------------------------------------------------------------------------------- */

ft_draft_vocab_params ft_draft_vocab_params_default(void)
{
    return (ft_draft_vocab_params){.coverage = 0.99};
}

static ft_status check_params(const ft_model *m, const ft_draft_vocab_params *p, ft_error *err)
{
    TRY(need_tokenizer(m, err));
    if (!(p->coverage >= 0 && p->coverage <= 1))
        return err_set(err, FT_ARG, "coverage: %g, want 0 to 1", p->coverage);
    if (p->count < 0 || p->count > tok_n_vocab(m->tok))
        return err_set(err, FT_ARG, "count: %d, want 0 (by coverage) to %d", p->count,
                       tok_n_vocab(m->tok));
    return FT_OK;
}

/* A choice under way. */
typedef struct {
    const ft_model *m;
    uint64_t *count; /* [n_vocab] in the texts, owned */
    uint64_t total, covered;
    int32_t *id;  /* [n_vocab], owned: in the end the chosen ones, ascending */
    bool *chosen; /* [n_vocab], owned */
    int n;        /* chosen */
} choice;

static void choose(choice *c, int32_t id)
{
    if (id < 0 || c->chosen[id])
        return;
    c->chosen[id] = true;
    c->covered += c->count[id];
    c->n++;
}

/* What is taken without regard to its count. */
static ft_status choose_always(choice *c, const ft_draft_vocab_params *p, ft_error *err)
{
    const tokenizer *tok = c->m->tok;
    for (int32_t id = 0; id < tok_n_vocab(tok); id++)
        if (tok_is_special(tok, id) || tok_is_end(tok, id))
            choose(c, id);
    for (int b = 0; b < 256 && !p->no_bytes; b++) {
        char byte = (char)b;
        choose(c, tok_find(tok, &byte, 1));
    }
    for (int i = 0; i < p->n_merge; i++) {
        int32_t *id;
        int n;
        TRY(read_ids(c->m, p->merge[i], &id, &n, err));
        for (int k = 0; k < n; k++)
            choose(c, id[k]);
        mem_free(id);
    }
    return FT_OK;
}

typedef struct {
    uint64_t count;
    int32_t id;
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* The most frequent tokens, until there are enough. Padding rows behind the tokenizer's tokens have no
 * text and are never taken. */
static ft_status choose_frequent(choice *c, const ft_draft_vocab_params *p, ft_error *err)
{
    int n = tok_n_vocab(c->m->tok);
    if (p->count > 0 && c->n > p->count)
        return err_set(err, FT_ARG, "count: %d, but %d tokens are always in", p->count, c->n);
    ranked *r = mem_calloc((size_t)n, sizeof *r);
    if (!r)
        return err_set(err, FT_NOMEM, "draft vocabulary: %d ranks", n);
    for (int i = 0; i < n; i++)
        r[i] = (ranked){c->count[i], i};
    qsort(r, (size_t)n, sizeof *r, by_rank);
    double wish = p->coverage * (double)c->total;
    for (int i = 0; i < n; i++) {
        if (p->count > 0 ? c->n == p->count : (double)c->covered >= wish)
            break;
        choose(c, r[i].id);
    }
    mem_free(r);
    return FT_OK;
}

static ft_status make_choice(choice *c, const ft_draft_vocab_params *p, ft_error *err)
{
    size_t n_vocab = (size_t)c->m->m->h.n_vocab;
    c->id = mem_calloc(n_vocab, sizeof *c->id);
    c->chosen = mem_calloc(n_vocab, sizeof *c->chosen);
    if (!c->id || !c->chosen)
        return err_set(err, FT_NOMEM, "draft vocabulary: %zu tokens", n_vocab);
    TRY(count_texts(c->m, p, &c->count, err));
    for (size_t i = 0; i < n_vocab; i++)
        c->total += c->count[i];
    if (c->total == 0 && p->count == 0 && p->n_merge == 0)
        return err_set(err, FT_ARG,
                       "text: no tokens; want text to count, a number of tokens or files to merge");
    TRY(choose_always(c, p, err));
    TRY(choose_frequent(c, p, err));
    int n = 0;
    for (int32_t id = 0; id < (int32_t)n_vocab; id++)
        if (c->chosen[id])
            c->id[n++] = id;
    return n > 0 ? FT_OK : err_set(err, FT_ARG, "coverage: no token was chosen");
}

static ft_status write_choice(const choice *c, ft_write_fn *write, void *ctx, ft_error *err)
{
    draft_vocab_fit fit = fit_of(c->m);
    buf b;
    buf_init(&b, FILE_MAX);
    draft_vocab_write(&b, c->id, c->n, &fit);
    ft_status st = buf_status(&b, "draft vocabulary", err);
    if (st == FT_OK && !write(ctx, buf_cstr(&b), b.len))
        st = err_set(err, FT_CANCELLED, "draft vocabulary: stopped by the caller");
    buf_deinit(&b);
    return st;
}

ft_status ft_draft_vocab_build(const ft_model *m, const ft_draft_vocab_params *p,
                               ft_write_fn *write, void *ctx, ft_draft_vocab_report *report,
                               ft_error *err)
{
    TRY(check_params(m, p, err));
    choice c = {.m = m};
    ft_status st = make_choice(&c, p, err);
    if (st == FT_OK)
        st = write_choice(&c, write, ctx, err);
    if (st == FT_OK && report)
        make_report(report, m, c.id, c.n, c.count);
    mem_free(c.count);
    mem_free(c.id);
    mem_free(c.chosen);
    return st;
}
