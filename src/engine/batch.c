/* batch.c - the memory of a step, which sessions share, and the forward call on it. */
#include "base/mem.h"
#include "engine/engine.h"

enum { MAX_CHUNK = 4096, DEFAULT_CTX = 8192, MAX_CTX = 1 << 24 };

ft_batch_params ft_batch_params_default(void)
{
    return (ft_batch_params){.n_session = 4, .n_chunk = 512};
}

ft_status engine_n_ctx(const ft_model *m, int n_ctx, int *out, ft_error *err)
{
    int train = m->m->h.n_ctx_train < MAX_CTX ? m->m->h.n_ctx_train : MAX_CTX;
    *out = n_ctx ? n_ctx : train < DEFAULT_CTX ? train : DEFAULT_CTX;
    if (*out < 1 || *out > MAX_CTX)
        return err_set(err, FT_ARG, "n_ctx: %d, want 1 to %d", *out, MAX_CTX);
    return FT_OK;
}

/* Parameters resolved: the default context, and no larger chunk than that. */
static ft_status resolve(const ft_model *m, const ft_batch_params *p, ft_batch_params *r,
                         ft_error *err)
{
    *r = p ? *p : ft_batch_params_default();
    TRY(engine_n_ctx(m, r->n_ctx, &r->n_ctx, err));
    if (r->n_session < 1 || r->n_session > BATCH_MAX_SESSION)
        return err_set(err, FT_ARG, "n_session: %d, want 1 to %d", r->n_session, BATCH_MAX_SESSION);
    if (r->n_chunk < 1 || r->n_chunk > MAX_CHUNK)
        return err_set(err, FT_ARG, "n_chunk: %d, want 1 to %d", r->n_chunk, MAX_CHUNK);
    r->n_chunk = r->n_chunk < r->n_ctx ? r->n_chunk : r->n_ctx;
    return FT_OK;
}

/* Rows of logits that a step keeps: a round of every session. */
static int want_rows(const ft_batch_params *r)
{
    return r->n_session * (SESSION_WINDOW + 1);
}

static int batch_rows(const ft_batch_params *r)
{
    return r->n_chunk + want_rows(r);
}

/* Scratch for a step, or for the drafters. */
static size_t scratch_bytes(const ft_model *m, const ft_batch_params *r)
{
    int n = batch_rows(r);
    const draft_params dp = {.n_window = SESSION_WINDOW};
    size_t trunk = layer_scratch(m->be, m->m, n, n, r->n_ctx);
    size_t draft = m->m->has_mtp ? draft_scratch(m->m, &dp, n, r->n_session) : 0;
    return trunk > draft ? trunk : draft;
}

ft_status batch_size(const ft_model *m, const ft_batch_params *p, size_t *n_bytes, ft_error *err)
{
    ft_batch_params r;
    TRY(resolve(m, p, &r, err));
    *n_bytes = scratch_bytes(m, &r);
    return FT_OK;
}

ft_status ft_batch_create(ft_batch **out, ft_model *m, const ft_batch_params *p, ft_error *err)
{
    *out = NULL;
    ft_batch_params r;
    TRY(resolve(m, p, &r, err));
    ft_batch *b = mem_zalloc(sizeof *b);
    if (!b)
        return err_set(err, FT_NOMEM, "batch");
    b->model = m;
    b->n_session = r.n_session;
    b->n_chunk = r.n_chunk;
    b->n_ctx = r.n_ctx;
    b->n_row = batch_rows(&r);
    b->n_want = want_rows(&r);
    size_t n_row = (size_t)b->n_row, n_want = (size_t)b->n_want;
    b->tok = mem_calloc(n_row, sizeof *b->tok);
    b->want = mem_calloc(n_want, sizeof *b->want);
    b->seg = mem_calloc((size_t)r.n_session, sizeof *b->seg);
    b->logits = mem_calloc(n_want, (size_t)m->m->h.n_vocab * sizeof *b->logits);
    b->hidden = mem_calloc(n_row, (size_t)layer_hidden_width(&m->m->h) * sizeof *b->hidden);
    ft_status st = arena_init(&b->scratch, scratch_bytes(m, &r), "batch: scratch", err);
    if (st == FT_OK && !(b->tok && b->want && b->seg && b->logits && b->hidden))
        st = err_set(err, FT_NOMEM, "batch: memory of a step of %d rows", b->n_row);
    if (st != FT_OK) {
        ft_batch_free(b);
        return st;
    }
    *out = b;
    return FT_OK;
}

void ft_batch_free(ft_batch *b)
{
    if (!b)
        return;
    arena_deinit(&b->scratch);
    mem_free(b->hidden);
    mem_free(b->logits);
    mem_free(b->seg);
    mem_free(b->want);
    mem_free(b->tok);
    mem_free(b);
}

ft_status batch_forward(ft_batch *batch, const layer_batch *b, ft_error *err)
{
    for (int i = 0; i < b->n_seg; i++)
        TRY(seq_reserve(b->seg[i].s, b->seg[i].n_row, err));
    mem_guard_begin();
    ft_status st = layer_forward(batch->model->be, batch->model->m, &batch->scratch, b, err);
    mem_guard_end();
    return st;
}
