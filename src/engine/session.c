/* session.c - one conversation: its state, and evaluation in chunks. */
#include <assert.h>
#include <stdio.h>

#include "base/mem.h"
#include "engine/engine.h"

ft_session_params ft_session_params_default(void)
{
    return (ft_session_params){.n_chunk = 512,
                               .kv_type = "f16",
                               .sink = CELLS_SINK_DEFAULT,
                               .window = CELLS_WINDOW_DEFAULT,
                               .checkpoint_every = 2048};
}

/* Parameters resolved against a model. */
typedef struct {
    int n_ctx;
    ft_batch_params batch; /* of its own batch */
    dtype kv_type;
    bool draft;
    draft_params dp;
} resolved;

static ft_status resolve_kv(const model_hparams *h, const char *name, dtype *out, ft_error *err)
{
    const char *kv = name ? name : ft_session_params_default().kv_type;
    const dtype_info *d = dtype_find_name(kv);
    if (!d || (d->type != DTYPE_F16 && d->type != DTYPE_F32 && d->type != DTYPE_Q8_0))
        return err_set(err, FT_ARG, "kv_type: '%s', want f16, f32 or q8_0", kv);
    int n_kv = h->n_head_kv * h->d_head;
    if (n_kv % d->block_values)
        return err_set(err, FT_ARG, "kv_type: '%s', want f16 or f32 for this model's cells of %d",
                       kv, n_kv);
    *out = d->type;
    return FT_OK;
}

static ft_status resolve_batch(const ft_model *m, const ft_session_params *p, resolved *r,
                               ft_error *err)
{
    const ft_batch *b = p->batch;
    if (b && b->model != m)
        return err_set(err, FT_ARG, "batch: belongs to another model");
    if (b && b->n_open == b->n_session)
        return err_set(err, FT_ARG, "batch: it has its %d sessions", b->n_session);
    TRY(engine_n_ctx(m, b ? b->n_ctx : p->n_ctx, &r->n_ctx, err));
    r->batch = (ft_batch_params){.n_session = 1, .n_chunk = p->n_chunk, .n_ctx = r->n_ctx};
    return FT_OK;
}

static ft_status resolve(const ft_model *m, const ft_session_params *p, resolved *r, ft_error *err)
{
    ft_session_params def = ft_session_params_default();
    if (!p)
        p = &def;
    TRY(resolve_batch(m, p, r, err));
    TRY(resolve_kv(&m->m->h, p->kv_type, &r->kv_type, err));
    if (p->sink < 0 || p->sink > CELLS_SINK_MAX)
        return err_set(err, FT_ARG, "sink: %d, want 0 to %d", p->sink, CELLS_SINK_MAX);
    if (p->window < 0)
        return err_set(err, FT_ARG, "window: %d, want 0 or more", p->window);
    if (p->checkpoint_every < 0)
        return err_set(err, FT_ARG, "checkpoint_every: %d, want 0 or more", p->checkpoint_every);
    r->draft = !p->no_draft && m->m->has_mtp;
    r->dp = (draft_params){.n_ctx = r->n_ctx,
                           .n_window = SESSION_WINDOW,
                           .sink = p->sink,
                           .window = p->window,
                           .kv_type = r->kv_type,
                           .w = m->dw ? &m->dw->mtp : NULL,
                           .head = m->vocab ? &m->vocab->head : &m->m->mtp.head};
    return FT_OK;
}

ft_status ft_session_size(const ft_model *m, const ft_session_params *p, size_t *n_bytes,
                          ft_error *err)
{
    resolved r;
    TRY(resolve(m, p, &r, err));
    seq_layer_shape layer[MODEL_MAX_LAYER];
    seq_shape shape;
    layer_state_shape(m->m, r.n_ctx, SESSION_WINDOW, r.kv_type, layer, &shape);
    size_t state, step = 0;
    if (!p || !p->batch)
        TRY(batch_size(m, &r.batch, &step, err));
    if (!seq_size(&shape, &state) || !size_add(n_bytes, state, step))
        return err_set(err, FT_NOMEM, "session: size overflows");
    return FT_OK;
}

static ft_status create_drafter(ft_session *s, const resolved *r, ft_error *err)
{
    const ft_model *m = s->model;
    TRY(draft_create(&s->drafter, m->be, m->m, &r->dp, err));
    s->head_n = r->dp.head->n_row;
    s->head_id = m->vocab ? m->vocab->id : NULL;
    adapt_params ap = adapt_params_default();
    adapt_init(&s->adapt, &ap);
    return sample_dist_init(&s->q, m->m->h.n_vocab, err);
}

static ft_status create_parts(ft_session *s, const resolved *r, ft_batch *batch, ft_error *err)
{
    ft_model *m = s->model;
    seq_layer_shape layer[MODEL_MAX_LAYER];
    seq_shape shape;
    if (!batch) {
        TRY(ft_batch_create(&batch, m, &r->batch, err));
        s->own_batch = true;
    }
    s->batch = batch;
    batch->n_open++;
    layer_state_shape(m->m, r->n_ctx, SESSION_WINDOW, r->kv_type, layer, &shape);
    TRY(seq_create(&s->state, m->be, &shape, err));
    s->logits = mem_calloc((size_t)m->m->h.n_vocab, sizeof *s->logits);
    if (!s->logits)
        return err_set(err, FT_NOMEM, "session: logits");
    TRY(sample_ctx_create(&s->sampler, m->m->h.n_vocab, err));
    TRY(sample_dist_init(&s->dist, m->m->h.n_vocab, err));
    return r->draft ? create_drafter(s, r, err) : FT_OK;
}

ft_status ft_session_create(ft_session **out, ft_model *m, const ft_session_params *p,
                            ft_error *err)
{
    *out = NULL;
    resolved r;
    TRY(resolve(m, p, &r, err));
    ft_session *s = mem_zalloc(sizeof *s);
    if (!s)
        return err_set(err, FT_NOMEM, "session");
    s->model = m;
    s->pending = -1;
    s->checkpoint_every = p ? p->checkpoint_every : ft_session_params_default().checkpoint_every;
    if (!r.draft)
        snprintf(s->no_draft_reason, sizeof s->no_draft_reason, "%s",
                 m->m->has_mtp ? "switched off for this session" : m->m->no_mtp_reason);
    ft_status st = create_parts(s, &r, p ? p->batch : NULL, err);
    if (st != FT_OK) {
        ft_session_free(s);
        return st;
    }
    *out = s;
    return FT_OK;
}

void ft_session_free(ft_session *s)
{
    if (!s)
        return;
    assert(!s->generation);
    sample_dist_deinit(&s->q);
    draft_free(s->drafter);
    sample_dist_deinit(&s->dist);
    sample_ctx_free(s->sampler);
    mem_free(s->logits);
    seq_free(s->state);
    if (s->batch)
        s->batch->n_open--;
    if (s->own_batch)
        ft_batch_free(s->batch);
    mem_free(s);
}

void session_clear(ft_session *s)
{
    seq_reset(s->state);
    if (s->drafter)
        draft_reset(s->drafter);
    s->pending = -1;
    s->inexact = false;
}

void ft_session_reset(ft_session *s)
{
    assert(!s->generation);
    session_clear(s);
    s->n_dropped = 0;
}

int ft_session_n_past(const ft_session *s)
{
    return s->state->n_past;
}

int ft_session_n_ctx(const ft_session *s)
{
    return s->state->shape.n_ctx;
}

const int32_t *ft_session_tokens(const ft_session *s, int *n)
{
    *n = s->state->n_past;
    if (s->pending >= 0)
        s->state->tok[(*n)++] = s->pending; /* its place; nothing else is kept there */
    return s->state->tok;
}

void ft_session_get_info(const ft_session *s, ft_session_info *out)
{
    *out = (ft_session_info){.n_past = s->state->n_past,
                             .n_ctx = s->state->shape.n_ctx,
                             .n_token = s->state->n_past + (s->pending >= 0),
                             .state_bytes =
                                 seq_bytes(s->state) + (s->drafter ? draft_bytes(s->drafter) : 0),
                             .shared_bytes = pages_shared_bytes(&s->state->pages),
                             .scratch_bytes = s->batch->scratch.size,
                             .inexact = s->inexact,
                             .drafted = s->drafted,
                             .accepted = s->accepted,
                             .n_evaluated = s->n_evaluated,
                             .n_reused = s->n_reused};
}

void ft_session_cancel(ft_session *s)
{
    atomic_store(&s->cancel, true);
}

ft_status session_check_ids(const ft_session *s, const int32_t *tok, int n, ft_error *err)
{
    int n_vocab = s->model->m->h.n_vocab;
    for (int i = 0; i < n; i++)
        if (tok[i] < 0 || tok[i] >= n_vocab)
            return err_set(err, FT_RANGE, "token %d: id %d, want 0 to %d", i, tok[i], n_vocab - 1);
    return FT_OK;
}

ft_status session_check_room(const ft_session *s, int n, ft_error *err)
{
    int used = s->state->n_past, n_pending = s->pending >= 0, limit = s->state->shape.n_ctx;
    if (n <= limit - used - n_pending)
        return FT_OK;
    return err_set(err, FT_RANGE, "context: %d tokens used and %d more wanted, the limit is %d",
                   used, n + n_pending, limit);
}

ft_status session_check_idle(const ft_session *s, ft_error *err)
{
    if (s->generation)
        return err_set(err, FT_ARG, "session: a generation is under way; end it first");
    return FT_OK;
}

uint64_t session_digest(ft_session *s)
{
    uint64_t d = seq_digest(s->state);
    if (s->drafter) {
        draft_settle(s->drafter, &s->batch->scratch, s->state->tok);
        d = d * 0x9E3779B97F4A7C15u + draft_digest(s->drafter);
    }
    return d * 31 + (uint64_t)(int64_t)s->pending;
}

void session_observe(ft_session *s, int first, int n, const float *hidden, int n_end)
{
    s->n_evaluated += (uint64_t)n;
    if (s->drafter)
        draft_observe(s->drafter, &s->batch->scratch, s->state->tok, first, n, hidden, n_end);
}

/* ---- Evaluation ------------------------------------------------------------------------------------ */

/* One chunk; n_end: positions that will be there after the last chunk of this input. */
static ft_status feed_chunk(ft_session *s, const int32_t *tok, int n, int n_end, bool want,
                            ft_error *err)
{
    layer_seg seg = {.s = s->state, .n_row = n, .n_commit = n};
    int32_t last = n - 1;
    layer_batch b = {.tok = tok,
                     .seg = &seg,
                     .n_seg = 1,
                     .want = &last,
                     .n_want = want ? 1 : 0,
                     .logits = s->logits,
                     .hidden = s->batch->hidden};
    int first = s->state->n_past;
    TRY(batch_forward(s->batch, &b, err));
    session_observe(s, first, n, s->batch->hidden, n_end);
    return FT_OK;
}

ft_status session_feed(ft_session *s, const int32_t *tok, int n_tok, bool want, ft_error *err)
{
    TRY(session_check_idle(s, err));
    TRY(session_check_ids(s, tok, n_tok, err));
    TRY(session_check_room(s, n_tok, err));
    int n_pending = s->pending >= 0;
    int n_end = s->state->n_past + n_pending + n_tok;
    if (n_pending) {
        int32_t id = s->pending;
        TRY(feed_chunk(s, &id, 1, n_end, want && n_tok == 0, err));
        s->pending = -1;
    }
    for (int i = 0, n; i < n_tok; i += n) {
        n = n_tok - i < s->batch->n_chunk ? n_tok - i : s->batch->n_chunk;
        TRY(feed_chunk(s, tok + i, n, n_end, want && i + n == n_tok, err));
    }
    return FT_OK;
}

ft_status ft_session_eval(ft_session *s, const int32_t *tok, int n_tok, const float **logits,
                          ft_error *err)
{
    if (n_tok < 1)
        return err_set(err, FT_ARG, "eval: %d tokens, want at least 1", n_tok);
    TRY(session_feed(s, tok, n_tok, logits != NULL, err));
    if (logits)
        *logits = s->logits;
    return FT_OK;
}

ft_status ft_session_eval_rows(ft_session *s, const int32_t *tok, int n_tok, const ft_eval_out *out,
                               ft_error *err)
{
    ft_batch *batch = s->batch;
    if (n_tok < 1 || n_tok > batch->n_chunk)
        return err_set(err, FT_RANGE, "eval: %d tokens in one call, want 1 to %d", n_tok,
                       batch->n_chunk);
    TRY(session_check_idle(s, err));
    TRY(session_check_ids(s, tok, n_tok, err));
    TRY(session_check_room(s, n_tok, err));
    int32_t *want = mem_calloc((size_t)n_tok, sizeof *want);
    if (!want)
        return err_set(err, FT_NOMEM, "eval: %d rows", n_tok);
    for (int i = 0; i < n_tok; i++)
        want[i] = i;
    layer_seg seg = {.s = s->state, .n_row = n_tok, .n_commit = n_tok};
    layer_batch b = {.tok = tok,
                     .seg = &seg,
                     .n_seg = 1,
                     .want = want,
                     .n_want = out->logits ? n_tok : 0,
                     .logits = out->logits,
                     .hidden = out->hidden ? out->hidden : batch->hidden,
                     .dense = out->dense,
                     .stage = out->stage,
                     .stage_ctx = out->stage_ctx};
    ft_status st = session_feed(s, tok, 0, false, err); /* what is pending */
    int first = s->state->n_past;
    if (st == FT_OK)
        st = batch_forward(batch, &b, err);
    if (st == FT_OK)
        session_observe(s, first, n_tok, b.hidden, first + n_tok);
    mem_free(want);
    return st;
}
