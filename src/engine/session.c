/* session.c - one conversation: state, scratch, and evaluation in chunks. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "engine/engine.h"

enum { DEFAULT_CTX = 8192, MAX_CTX = 1 << 24, MAX_CHUNK = 4096 };

ft_session_params ft_session_params_default(void)
{
    return (ft_session_params){.n_chunk = 512,
                               .kv_type = "f16",
                               .sink = CELLS_SINK_DEFAULT,
                               .window = CELLS_WINDOW_DEFAULT};
}

/* Parameters resolved against a model. */
typedef struct {
    int n_ctx, n_chunk;
    dtype kv_type;
    bool draft;
    draft_params dp;
} resolved;

static ft_status resolve(const ft_model *m, const ft_session_params *p, resolved *r, ft_error *err)
{
    ft_session_params def = ft_session_params_default();
    if (!p)
        p = &def;
    const model_hparams *h = &m->m->h;
    int train = h->n_ctx_train < MAX_CTX ? h->n_ctx_train : MAX_CTX;
    r->n_ctx = p->n_ctx ? p->n_ctx : train < DEFAULT_CTX ? train : DEFAULT_CTX;
    if (r->n_ctx < 1 || r->n_ctx > MAX_CTX)
        return err_set(err, FT_ARG, "n_ctx: %d, want 1 to %d", r->n_ctx, MAX_CTX);
    if (p->n_chunk < 1 || p->n_chunk > MAX_CHUNK)
        return err_set(err, FT_ARG, "n_chunk: %d, want 1 to %d", p->n_chunk, MAX_CHUNK);
    r->n_chunk = p->n_chunk < r->n_ctx ? p->n_chunk : r->n_ctx;
    const char *kv = p->kv_type ? p->kv_type : def.kv_type;
    const dtype_info *d = dtype_find_name(kv);
    if (!d || (d->type != DTYPE_F16 && d->type != DTYPE_F32 && d->type != DTYPE_Q8_0))
        return err_set(err, FT_ARG, "kv_type: '%s', want f16, f32 or q8_0", kv);
    int n_kv = h->n_head_kv * h->d_head;
    if (n_kv % d->block_values)
        return err_set(err, FT_ARG, "kv_type: '%s', want f16 or f32 for this model's cells of %d",
                       kv, n_kv);
    r->kv_type = d->type;
    if (p->sink < 0 || p->sink > CELLS_SINK_MAX)
        return err_set(err, FT_ARG, "sink: %d, want 0 to %d", p->sink, CELLS_SINK_MAX);
    if (p->window < 0)
        return err_set(err, FT_ARG, "window: %d, want 0 or more", p->window);
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

static int hidden_rows(const resolved *r)
{
    return r->n_chunk > SESSION_WINDOW + 1 ? r->n_chunk : SESSION_WINDOW + 1;
}

/* Scratch for a chunk, for a round, or for the drafter. */
static size_t scratch_bytes(const ft_model *m, const resolved *r)
{
    int n = hidden_rows(r);
    size_t trunk = layer_scratch(m->be, m->m, n, n, r->n_ctx);
    size_t draft = r->draft ? draft_scratch(m->m, &r->dp, n) : 0;
    return trunk > draft ? trunk : draft;
}

ft_status ft_session_size(const ft_model *m, const ft_session_params *p, size_t *n_bytes,
                          ft_error *err)
{
    resolved r;
    TRY(resolve(m, p, &r, err));
    seq_layer_shape layer[MODEL_MAX_LAYER];
    seq_shape shape;
    layer_state_shape(m->m, r.n_ctx, SESSION_WINDOW, r.kv_type, layer, &shape);
    size_t state;
    if (!seq_size(&shape, &state) || !size_add(n_bytes, state, scratch_bytes(m, &r)))
        return err_set(err, FT_NOMEM, "session: size overflows");
    return FT_OK;
}

static ft_status create_drafter(ft_session *s, const resolved *r, ft_error *err)
{
    const ft_model *m = s->model;
    size_t width = (size_t)layer_hidden_width(&m->m->h), vocab = (size_t)m->m->h.n_vocab;
    TRY(draft_create(&s->drafter, m->be, m->m, &r->dp, err));
    s->head_n = r->dp.head->n_row;
    s->head_id = m->vocab ? m->vocab->id : NULL;
    adapt_params ap = adapt_params_default();
    adapt_init(&s->adapt, &ap);
    s->hidden = mem_calloc((size_t)hidden_rows(r), width * sizeof *s->hidden);
    if (!s->hidden)
        return err_set(err, FT_NOMEM, "session: hidden rows");
    return sample_dist_init(&s->q, (int)vocab, err);
}

static ft_status create_parts(ft_session *s, const resolved *r, ft_error *err)
{
    const ft_model *m = s->model;
    seq_layer_shape layer[MODEL_MAX_LAYER];
    seq_shape shape;
    layer_state_shape(m->m, r->n_ctx, SESSION_WINDOW, r->kv_type, layer, &shape);
    TRY(seq_create(&s->state, m->be, &shape, err));
    TRY(arena_init(&s->scratch, scratch_bytes(m, r), "session: scratch", err));
    s->n_chunk = r->n_chunk;
    s->logits = mem_calloc((size_t)m->m->h.n_vocab, sizeof *s->logits);
    s->rows = mem_calloc(SESSION_WINDOW + 1, (size_t)m->m->h.n_vocab * sizeof *s->rows);
    if (!s->logits || !s->rows)
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
    if (!r.draft)
        snprintf(s->no_draft_reason, sizeof s->no_draft_reason, "%s",
                 m->m->has_mtp ? "switched off for this session" : m->m->no_mtp_reason);
    ft_status st = create_parts(s, &r, err);
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
    sample_dist_deinit(&s->q);
    mem_free(s->rows);
    mem_free(s->hidden);
    draft_free(s->drafter);
    sample_dist_deinit(&s->dist);
    sample_ctx_free(s->sampler);
    mem_free(s->logits);
    arena_deinit(&s->scratch);
    seq_free(s->state);
    mem_free(s);
}

void ft_session_reset(ft_session *s)
{
    seq_reset(s->state);
    if (s->drafter)
        draft_reset(s->drafter);
    s->pending = -1;
    s->inexact = false;
}

int ft_session_n_past(const ft_session *s)
{
    return s->state->n_past;
}

int ft_session_n_ctx(const ft_session *s)
{
    return s->state->shape.n_ctx;
}

void ft_session_cancel(ft_session *s)
{
    atomic_store(&s->cancel, true);
}

/* ---- Evaluation ------------------------------------------------------------------------------------ */

static ft_status check_ids(const ft_session *s, const int32_t *tok, int n, ft_error *err)
{
    int n_vocab = s->model->m->h.n_vocab;
    for (int i = 0; i < n; i++)
        if (tok[i] < 0 || tok[i] >= n_vocab)
            return err_set(err, FT_RANGE, "token %d: id %d, want 0 to %d", i, tok[i], n_vocab - 1);
    return FT_OK;
}

/* Will n more tokens fit? Asked before the first chunk, so that a failure changes nothing. */
static ft_status check_room(const ft_session *s, int n, ft_error *err)
{
    int used = s->state->n_past, limit = s->state->shape.n_ctx;
    if (n <= limit - used)
        return FT_OK;
    return err_set(err, FT_RANGE, "context: %d tokens used and %d more wanted, the limit is %d",
                   used, n, limit);
}

ft_status session_forward(ft_session *s, const layer_batch *b, ft_error *err)
{
    for (int i = 0; i < b->n_seg; i++)
        TRY(seq_reserve(b->seg[i].s, b->seg[i].n_row, err));
    mem_guard_begin();
    ft_status st = layer_forward(s->model->be, s->model->m, &s->scratch, b, err);
    mem_guard_end();
    return st;
}

uint64_t session_digest(ft_session *s)
{
    uint64_t d = seq_digest(s->state);
    if (s->drafter) {
        draft_settle(s->drafter, &s->scratch, s->state->tok);
        d = d * 0x9E3779B97F4A7C15u + draft_digest(s->drafter);
    }
    return d * 31 + (uint64_t)(int64_t)s->pending;
}

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
                     .hidden = s->hidden};
    int first = s->state->n_past;
    TRY(session_forward(s, &b, err));
    if (s->drafter)
        draft_observe(s->drafter, &s->scratch, s->state->tok, first, n, s->hidden, n_end);
    return FT_OK;
}

ft_status session_feed(ft_session *s, const int32_t *tok, int n_tok, bool want,
                       ft_progress_fn *progress, void *ctx, ft_error *err)
{
    int n_pending = s->pending >= 0;
    TRY(check_ids(s, tok, n_tok, err));
    if (n_tok > INT32_MAX - n_pending)
        return err_set(err, FT_RANGE, "context: %d tokens wanted", n_tok);
    TRY(check_room(s, n_tok + n_pending, err));
    int n_end = s->state->n_past + n_pending + n_tok;
    if (n_pending) {
        int32_t id = s->pending;
        TRY(feed_chunk(s, &id, 1, n_end, want && n_tok == 0, err));
        s->pending = -1;
    }
    for (int i = 0; i < n_tok;) {
        int n = n_tok - i < s->n_chunk ? n_tok - i : s->n_chunk;
        TRY(feed_chunk(s, tok + i, n, n_end, want && i + n == n_tok, err));
        i += n;
        if (progress && !progress(ctx, "prompt", (uint64_t)i, (uint64_t)n_tok))
            return err_set(err, FT_CANCELLED, "stopped after %d of %d prompt tokens", i, n_tok);
    }
    return FT_OK;
}

ft_status ft_session_eval(ft_session *s, const int32_t *tok, int n_tok, const float **logits,
                          ft_error *err)
{
    if (n_tok < 1)
        return err_set(err, FT_ARG, "eval: %d tokens, want at least 1", n_tok);
    TRY(session_feed(s, tok, n_tok, logits != NULL, NULL, NULL, err));
    if (logits)
        *logits = s->logits;
    return FT_OK;
}

ft_status ft_session_eval_rows(ft_session *s, const int32_t *tok, int n_tok, const ft_eval_out *out,
                               ft_error *err)
{
    if (n_tok < 1 || n_tok > s->n_chunk)
        return err_set(err, FT_RANGE, "eval: %d tokens in one call, want 1 to %d", n_tok,
                       s->n_chunk);
    TRY(check_ids(s, tok, n_tok, err));
    TRY(check_room(s, n_tok + (s->pending >= 0), err));
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
                     .hidden = out->hidden ? out->hidden : s->hidden,
                     .dense = out->dense,
                     .stage = out->stage,
                     .stage_ctx = out->stage_ctx};
    ft_status st = session_feed(s, tok, 0, false, NULL, NULL, err); /* what is pending */
    int first = s->state->n_past;
    if (st == FT_OK)
        st = session_forward(s, &b, err);
    if (st == FT_OK && s->drafter)
        draft_observe(s->drafter, &s->scratch, s->state->tok, first, n_tok, b.hidden,
                      first + n_tok);
    mem_free(want);
    return st;
}
