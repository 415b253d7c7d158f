/* generate.c - a generation from its request to its end: checked, prompt taken in, statistics. */
#include "engine/generate.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"

ft_sample_params ft_sample_params_default(void)
{
    sample_params d = sample_params_default();
    return (ft_sample_params){.temp = d.temp,
                              .top_k = d.top_k,
                              .top_p = d.top_p,
                              .min_p = d.min_p,
                              .seed = d.seed,
                              .repeat_penalty = d.repeat_penalty,
                              .presence_penalty = d.presence_penalty,
                              .frequency_penalty = d.frequency_penalty,
                              .penalty_last_n = d.penalty_last_n};
}

/* The public parameters as the sampler knows them, all but the bias, which is copied apart. */
static ft_status internal(sample_params *s, const ft_sample_params *p, ft_error *err)
{
    *s = sample_params_default();
    s->temp = p->temp;
    s->top_k = p->top_k;
    s->top_p = p->top_p;
    s->min_p = p->min_p;
    s->seed = p->seed;
    s->repeat_penalty = p->repeat_penalty;
    s->presence_penalty = p->presence_penalty;
    s->frequency_penalty = p->frequency_penalty;
    s->penalty_last_n = p->penalty_last_n;
    if (p->samplers)
        TRY(sample_stages_parse(s, p->samplers, err));
    return sample_params_check(s, err);
}

/* The tokens that end a text, banned: *n of them behind at (NULL: only counted). */
static void ban_ends(const tokenizer *tok, sample_bias *at, int *n)
{
    *n = 0;
    for (int32_t id = 0; tok && id < tok_n_vocab(tok); id++)
        if (tok_is_end(tok, id)) {
            if (at)
                at[*n] = (sample_bias){.id = id, .bias = -INFINITY};
            ++*n;
        }
}

/* The request's parameters, and those for the first n_min tokens. */
static ft_status resolve_sampling(ft_generation *g, ft_error *err)
{
    const ft_sample_params *p = &g->p.sample;
    TRY(internal(&g->sample, p, err));
    if (p->n_bias < 0 || (p->n_bias > 0 && !p->bias))
        return err_set(err, FT_ARG, "n_bias: %d, want 0 or more and a list", p->n_bias);
    int n_end = 0;
    if (g->p.n_min > 0)
        ban_ends(g->s->model->tok, NULL, &n_end);
    size_t n = (size_t)p->n_bias + (size_t)n_end;
    if (n > 0) {
        g->bias = mem_calloc(n, sizeof *g->bias);
        if (!g->bias)
            return err_set(err, FT_NOMEM, "generate: logit bias of %zu tokens", n);
    }
    for (int i = 0; i < p->n_bias; i++)
        g->bias[i] = (sample_bias){.id = p->bias[i].id, .bias = p->bias[i].bias};
    if (n_end > 0)
        ban_ends(g->s->model->tok, g->bias + p->n_bias, &n_end);
    g->sample.bias = g->bias;
    g->sample.n_bias = p->n_bias;
    g->sample_min = g->sample;
    g->sample_min.n_bias += n_end;
    TRY(sample_params_check(&g->sample_min, err));
    return sample_bias_check(&g->sample_min, g->s->model->m->h.n_vocab, err);
}

static ft_status create_dists(sample_dist **out, int n, int cap, ft_error *err)
{
    *out = mem_calloc((size_t)n, sizeof **out);
    if (!*out)
        return err_set(err, FT_NOMEM, "generate: %d distributions", n);
    for (int i = 0; i < n; i++)
        TRY(sample_dist_init(&(*out)[i], cap, err));
    return FT_OK;
}

static void free_dists(sample_dist *d, int n)
{
    for (int i = 0; d && i < n; i++)
        sample_dist_deinit(&d[i]);
    mem_free(d);
}

/* What the rule of verification keeps of a round: taken before anything is read. */
static ft_status reserve_rule(ft_generation *g, ft_error *err)
{
    int cap = sample_dist_need(&g->sample, g->s->model->m->h.n_vocab);
    bool compares = g->p.verify == FT_VERIFY_BLOCK || g->p.verify == FT_VERIFY_RATIO;
    if (compares && !g->p.draft_argmax)
        TRY(create_dists(&g->q, FT_DRAFT_MAX, cap, err));
    if (g->p.verify == FT_VERIFY_BLOCK)
        TRY(create_dists(&g->rows_p, FT_DRAFT_MAX + 1, cap, err));
    return FT_OK;
}

ft_status ft_sample_params_check(const ft_sample_params *p, ft_error *err)
{
    sample_params s;
    return internal(&s, p, err);
}

ft_generate_params ft_generate_params_default(void)
{
    return (ft_generate_params){.n_max = -1, .sample = ft_sample_params_default(), .draft_max = 3};
}

const char *ft_finish_text(ft_finish f)
{
    switch (f) {
    case FT_FINISH_LENGTH:
        return "length";
    case FT_FINISH_STOP:
        return "stop";
    case FT_FINISH_CONTEXT:
        return "context";
    case FT_FINISH_CANCELLED:
        return "cancelled";
    }
    return "unknown";
}

static ft_status check_request(const ft_session *s, int n_prompt, const ft_generate_params *p,
                               ft_error *err)
{
    if (p->n_max < -1)
        return err_set(err, FT_ARG, "n_max: %d, want -1 (no limit) or more", p->n_max);
    if ((unsigned)p->verify > FT_VERIFY_GREEDY_MATCH)
        return err_set(err, FT_ARG, "verify: rule %d, want 0 to %d", (int)p->verify,
                       (int)FT_VERIFY_GREEDY_MATCH);
    if (p->n_min < 0)
        return err_set(err, FT_ARG, "n_min: %d, want 0 or more", p->n_min);
    if (p->n_stop < 0 || (p->n_stop > 0 && !p->stop))
        return err_set(err, FT_ARG, "n_stop: %d stop strings, want 0 or more and a list",
                       p->n_stop);
    for (int i = 0; i < p->n_stop; i++)
        if (!p->stop[i] || !p->stop[i][0])
            return err_set(err, FT_ARG, "stop: string %d is empty", i);
    if (p->n_top < 0 || p->n_top > FT_TOP_MAX)
        return err_set(err, FT_ARG, "n_top: %d, want 0 to %d", p->n_top, FT_TOP_MAX);
    if (p->draft_max < 0 || p->draft_max > FT_DRAFT_MAX)
        return err_set(err, FT_ARG, "draft_max: %d, want 0 to %d", p->draft_max, FT_DRAFT_MAX);
    if (!(p->draft_p_min >= 0 && p->draft_p_min <= 1))
        return err_set(err, FT_ARG, "draft_p_min: %g, want 0 to 1", (double)p->draft_p_min);
    if (n_prompt < 0)
        return err_set(err, FT_ARG, "prompt: %d tokens", n_prompt);
    if (n_prompt == 0 && s->pending < 0)
        return err_set(
            err, FT_ARG,
            "prompt: no tokens; want at least one to read, or a generation to go on with");
    return FT_OK;
}

/* Room for the text of any usual token, taken before anything is read. */
static ft_status reserve_text(ft_generation *g, ft_error *err)
{
    buf *text[] = {&g->piece, &g->out, &g->stops.held};
    for (size_t i = 0; i < ARRAY_LEN(text); i++) {
        if (!buf_extend(text[i], 1024))
            return buf_status(text[i], "generate: text", err);
        buf_clear(text[i]);
    }
    return FT_OK;
}

static ft_status copy_marks(ft_generation *g, ft_error *err)
{
    const ft_generate_params *p = &g->p;
    if (p->n_mark < 0 || (p->n_mark > 0 && !p->mark))
        return err_set(err, FT_ARG, "n_mark: %d, want 0 or more and a list", p->n_mark);
    for (int i = 0; i < p->n_mark; i++)
        if (p->mark[i] < (i ? p->mark[i - 1] : 0))
            return err_set(err, FT_ARG, "mark: %d behind %d, want ascending places of 0 or more",
                           p->mark[i], i ? p->mark[i - 1] : 0);
    g->mark = mem_calloc((size_t)p->n_mark + 1, sizeof *g->mark);
    if (!g->mark)
        return err_set(err, FT_NOMEM, "generate: %d marks", p->n_mark);
    for (int i = 0; i < p->n_mark; i++)
        g->mark[i] = p->mark[i];
    g->n_mark = p->n_mark;
    return FT_OK;
}

static void generation_free(ft_generation *g)
{
    buf_deinit(&g->piece);
    buf_deinit(&g->out);
    buf_deinit(&g->waiting);
    buf_deinit(&g->waiting_text);
    stops_deinit(&g->stops);
    mem_free(g->bias);
    mem_free(g->mark);
    mem_free(g->again);
    free_dists(g->q, FT_DRAFT_MAX);
    free_dists(g->rows_p, FT_DRAFT_MAX + 1);
    mem_free(g);
}

static ft_status check_prompt(const ft_session *s, const int32_t *prompt, int n_prompt,
                              ft_error *err)
{
    TRY(session_check_idle(s, err));
    if (s->state->broken)
        return err_set(err, FT_DEVICE, "session: a step failed half way; reset it first");
    TRY(session_check_ids(s, prompt, n_prompt, err));
    return session_check_room(s, n_prompt, err);
}

/* What was learnt of other settings does not count for these. */
static void prepare_adapt(ft_session *s, const ft_generate_params *p)
{
    adapt_params a = {.k_max = p->draft_max, .k_fixed = -1, .p_min = p->draft_p_min};
    if (!p->draft_fixed && (s->adapt.p.k_max != a.k_max || s->adapt.p.p_min != a.p_min))
        adapt_init(&s->adapt, &a);
}

ft_status ft_generation_begin(ft_generation **out, ft_session *s, const int32_t *prompt,
                              int n_prompt, const ft_generate_params *p, ft_error *err)
{
    *out = NULL;
    TRY(check_request(s, n_prompt, p, err));
    ft_generation *g = mem_zalloc(sizeof *g);
    if (!g)
        return err_set(err, FT_NOMEM, "generate");
    g->s = s;
    g->p = *p;
    g->stats.finish = FT_FINISH_LENGTH;
    g->poll = !p->on_token;
    g->input = prompt;
    g->n_input = n_prompt;
    buf_init(&g->piece, 1 << 24);
    buf_init(&g->out, 1 << 24);
    buf_init(&g->waiting, (size_t)1 << 34);
    buf_init(&g->waiting_text, (size_t)1 << 34);
    stops_init(&g->stops, p->stop, p->n_stop);
    ft_status st = resolve_sampling(g, err);
    if (st == FT_OK)
        st = reserve_rule(g, err);
    if (st == FT_OK)
        st = reserve_text(g, err);
    if (st == FT_OK)
        st = copy_marks(g, err);
    if (st == FT_OK)
        st = check_prompt(s, prompt, n_prompt, err);
    if (st != FT_OK) {
        generation_free(g);
        return st;
    }
    prepare_adapt(s, p);
    g->prompt_end = s->state->n_past + (s->pending >= 0) + n_prompt;
    atomic_store(&s->cancel, false);
    g->n_failed = s->drafter ? draft_failed(s->drafter) : 0;
    s->generation = g;
    *out = g;
    return FT_OK;
}

void ft_generation_get_stats(ft_generation *g, ft_generate_stats *stats)
{
    g->stats.state_bytes = seq_bytes(g->s->state);
    g->stats.scratch_bytes = g->s->batch->scratch.size;
    round_draft_stats(g);
    *stats = g->stats;
}

ft_status ft_generation_end(ft_generation *g, ft_generate_stats *stats, ft_error *err)
{
    if (!g)
        return FT_OK;
    ft_session *s = g->s;
    if (g->state == FT_GENERATION_PROMPT || g->state == FT_GENERATION_DECODE)
        g->stats.finish = FT_FINISH_CANCELLED;
    ft_generate_stats all;
    ft_generation_get_stats(g, &all);
    s->drafted += g->stats.draft.drafted;
    s->accepted += g->stats.draft.accepted;
    if (stats)
        *stats = all;
    ft_status st = g->error.code;
    if (st != FT_OK)
        st = err_set(err, st, "%s", g->error.msg);
    s->generation = NULL;
    generation_free(g);
    return st;
}

ft_generation_state ft_generation_get_state(const ft_generation *g)
{
    return g->state;
}

void ft_generation_cancel(ft_generation *g)
{
    atomic_store(&g->cancel, true);
}

void generate_done(ft_generation *g, ft_finish why)
{
    g->state = FT_GENERATION_DONE;
    g->stats.finish = why;
}

void generate_fail(ft_generation *g, const ft_error *err)
{
    g->state = FT_GENERATION_FAILED;
    g->error = *err;
}

void generate_cancel(ft_generation *g)
{
    bool reading = g->state == FT_GENERATION_PROMPT;
    generate_done(g, FT_FINISH_CANCELLED);
    if (reading) {
        g->error.code = FT_CANCELLED;
        snprintf(g->error.msg, sizeof g->error.msg, "stopped after %d of %d %s", g->n_read,
                 g->n_input, g->rereading ? "tokens to read again" : "prompt tokens");
    }
}

/* ---- Reading ------------------------------------------------------------------------------------------ */

/* Places for a checkpoint besides marks: every so many tokens, and TAIL tokens before the end of a long
 * input whose last mark is far from there, so that the same input can be taken up again. */
enum { TAIL = 32, LONG = 8 * TAIL };

static bool is_place(const ft_generation *g, int pos, int end)
{
    int every = g->s->checkpoint_every, last_mark = 0;
    if (every > 0 && pos % every == 0)
        return true;
    for (int i = 0; i < g->n_mark && g->mark[i] < end; i++) {
        if (g->mark[i] == pos)
            return true;
        last_mark = g->mark[i];
    }
    return pos == end - TAIL && end > LONG && last_mark < end - LONG;
}

/* Position behind the input. */
static int input_end(const ft_generation *g)
{
    return g->s->state->n_past + (g->s->pending >= 0) + g->n_input - g->n_read;
}

int generate_chunk(const ft_generation *g, int n)
{
    int n_past = g->s->state->n_past, end = input_end(g);
    n = n < end - n_past ? n : end - n_past;
    for (int i = 1; i < n && session_keeps(g->s); i++)
        if (is_place(g, n_past + i, end))
            return i;
    return n;
}

ft_status generate_checkpoint(ft_generation *g, ft_error *err)
{
    ft_session *s = g->s;
    int n_past = s->state->n_past, every = s->checkpoint_every;
    bool reading = g->state == FT_GENERATION_PROMPT;
    if (!session_keeps(s) || !(reading ? is_place(g, n_past, input_end(g))
                                       : every > 0 && n_past / every != g->kept_at / every))
        return FT_OK;
    g->kept_at = n_past;
    return session_checkpoint(s, err);
}

/* The whole input is read: its last row decides the first token. */
static ft_status first_token(ft_generation *g, const float *logits, ft_error *err)
{
    ft_session *s = g->s;
    int pos = s->state->n_past;
    bool last;
    g->state = FT_GENERATION_DECODE;
    g->rereading = false;
    g->kept_at = pos;
    if (g->p.n_max == 0) {
        generate_done(g, FT_FINISH_LENGTH);
        return FT_OK;
    }
    TRY(emit_distribution(g, logits, pos, g->stats.n_token, &s->dist, err));
    int32_t id = sample_draw(&s->dist, g->sample.seed, s->n_dropped + pos);
    TRY(emit(g, id, pos, logits, &s->dist, FT_TOKEN_PLAIN, &last, err));
    if (!last && pos == s->state->shape.n_ctx)
        return context_drop(g, err);
    return FT_OK;
}

ft_status generate_read(ft_generation *g, const float *logits, const float *hidden, ft_error *err)
{
    ft_session *s = g->s;
    int n_pending = s->pending >= 0, first = s->state->n_past - g->n_row;
    s->pending = -1;
    g->n_read += g->n_row - n_pending;
    if (g->rereading)
        g->stats.n_reread += g->n_row;
    else
        g->stats.n_prompt = g->n_read;
    session_observe(s, first, g->n_row, hidden, input_end(g));
    TRY(generate_checkpoint(g, err));
    bool more = !g->p.on_prompt ||
                g->p.on_prompt(g->p.on_prompt_ctx, g->rereading ? "reading again" : "prompt",
                               (uint64_t)g->n_read, (uint64_t)g->n_input);
    if (!more || atomic_load(&s->cancel) || atomic_load(&g->cancel)) {
        generate_cancel(g);
        return FT_OK;
    }
    return g->n_read == g->n_input ? first_token(g, logits, err) : FT_OK;
}

/* ---- All at once --------------------------------------------------------------------------------------- */

bool ft_generation_next(ft_generation *g, ft_token *t)
{
    for (;;) {
        if (ft_generation_poll(g, t))
            return true;
        if (g->state == FT_GENERATION_DONE || g->state == FT_GENERATION_FAILED)
            return false;
        ft_error err = {0};
        if (ft_batch_step(g->s->batch, &g, 1, &err) != FT_OK)
            generate_fail(g, &err);
    }
}

ft_status ft_session_generate(ft_session *s, const int32_t *prompt, int n_prompt,
                              const ft_generate_params *p, ft_generate_stats *stats, ft_error *err)
{
    ft_generation *g;
    if (stats)
        *stats = (ft_generate_stats){.finish = FT_FINISH_LENGTH};
    TRY(ft_generation_begin(&g, s, prompt, n_prompt, p, err));
    g->poll = false;
    ft_status st = FT_OK;
    while (st == FT_OK && (g->state == FT_GENERATION_PROMPT || g->state == FT_GENERATION_DECODE))
        st = ft_batch_step(s->batch, &g, 1, err);
    ft_status ended = ft_generation_end(g, stats, err);
    return st != FT_OK ? st : ended;
}
