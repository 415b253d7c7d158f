/* perplexity.c - how well a model predicts a text. */
#include <math.h>

#include "base/mem.h"
#include "engine/engine.h"

ft_perplexity_params ft_perplexity_params_default(void)
{
    return (ft_perplexity_params){.n_window = 1024, .n_skip = -1};
}

enum { ROWS_BYTES = 64 << 20 }; /* most memory for the logits of a chunk */

/* Sums over the scored tokens. */
typedef struct {
    uint64_t n;
    double sum, sum_sq;
} score;

/* -log softmax(row)[id], in double. */
static double row_nll(const float *row, int n, int32_t id)
{
    double max = -HUGE_VAL, sum = 0;
    for (int i = 0; i < n; i++)
        max = fmax(max, (double)row[i]);
    for (int i = 0; i < n; i++)
        sum += exp((double)row[i] - max);
    return max + log(sum) - (double)row[id];
}

/* Evaluate tok [n] from an empty session; score the predictions of tok[from ..]. */
static ft_status window(ft_session *s, const int32_t *tok, int n, int from, float *rows, score *out,
                        ft_error *err)
{
    int n_vocab = s->model->m->h.n_vocab;
    ft_session_reset(s);
    for (int i = 0; i < n;) {
        int n_row = n - i < s->batch->n_chunk ? n - i : s->batch->n_chunk;
        bool wanted = i + n_row >= from;
        ft_eval_out eval = {.logits = wanted ? rows : NULL};
        TRY(ft_session_eval_rows(s, tok + i, n_row, &eval, err));
        for (int t = 0; wanted && t < n_row; t++) {
            int next = i + t + 1;
            if (next < from || next >= n)
                continue;
            double nll = row_nll(rows + (size_t)t * (size_t)n_vocab, n_vocab, tok[next]);
            if (!isfinite(nll))
                return err_set(err, FT_DEVICE, "perplexity: the model's logits are not finite");
            out->n++;
            out->sum += nll;
            out->sum_sq += nll * nll;
        }
        i += n_row;
    }
    return FT_OK;
}

static ft_status all_windows(ft_session *s, const int32_t *tok, size_t n_tok,
                             const ft_perplexity_params *p, int n_skip, float *rows, score *sum,
                             ft_error *err)
{
    size_t step = (size_t)(p->n_window - n_skip);
    for (size_t at = 0;; at += step) {
        size_t left = n_tok - at;
        int n = left < (size_t)p->n_window ? (int)left : p->n_window;
        /* The first window scores from its second token: nothing came before it. */
        TRY(window(s, tok + at, n, at == 0 ? 1 : n_skip, rows, sum, err));
        if (p->progress && !p->progress(p->progress_ctx, "perplexity", at + (size_t)n, n_tok))
            return err_set(err, FT_CANCELLED, "stopped after %zu of %zu tokens", at + (size_t)n,
                           n_tok);
        if (at + (size_t)n == n_tok)
            return FT_OK;
    }
}

ft_status ft_perplexity(ft_model *m, const int32_t *tok, size_t n_tok, const ft_session_params *sp,
                        const ft_perplexity_params *p, ft_perplexity_result *out, ft_error *err)
{
    *out = (ft_perplexity_result){0};
    int n_skip = p->n_skip < 0 ? p->n_window / 2 : p->n_skip;
    if (p->n_window < 2)
        return err_set(err, FT_ARG, "n_window: %d, want at least 2", p->n_window);
    if (n_skip < 1 || n_skip >= p->n_window)
        return err_set(err, FT_ARG, "n_skip: %d, want 1 to %d (less than n_window)", n_skip,
                       p->n_window - 1);
    if (n_tok < 2)
        return err_set(err, FT_ARG, "text: %zu tokens, want at least 2", n_tok);
    ft_session_params params = sp ? *sp : ft_session_params_default();
    params.n_ctx = p->n_window;
    params.no_draft = true;
    int fit = ROWS_BYTES / (int)sizeof(float) / m->m->h.n_vocab;
    if (params.n_chunk > fit)
        params.n_chunk = fit < 1 ? 1 : fit;
    ft_session *s;
    TRY(ft_session_create(&s, m, &params, err));
    float *rows = mem_calloc((size_t)s->batch->n_chunk * (size_t)m->m->h.n_vocab, sizeof *rows);
    score sum = {0};
    ft_status st = rows
                       ? all_windows(s, tok, n_tok, p, n_skip, rows, &sum, err)
                       : err_set(err, FT_NOMEM, "perplexity: logits of %d rows", s->batch->n_chunk);
    mem_free(rows);
    ft_session_free(s);
    if (st != FT_OK)
        return st;
    double n = (double)sum.n, mean = sum.sum / n;
    double var = sum.n > 1 ? (sum.sum_sq - n * mean * mean) / (n - 1) : 0;
    out->n_scored = sum.n;
    out->nll = mean;
    out->nll_error = var > 0 ? sqrt(var / n) : 0;
    out->perplexity = exp(mean);
    out->perplexity_error = out->perplexity * out->nll_error;
    return FT_OK;
}
