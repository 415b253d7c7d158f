/* generate.c - ft_session_generate: the request checked, the prompt read, then rounds (round.c). */
#include "engine/generate.h"

#include <math.h>

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
static ft_status resolve_sampling(generation *g, ft_error *err)
{
    const ft_sample_params *p = &g->p->sample;
    TRY(internal(&g->sample, p, err));
    if (p->n_bias < 0 || (p->n_bias > 0 && !p->bias))
        return err_set(err, FT_ARG, "n_bias: %d, want 0 or more and a list", p->n_bias);
    int n_end = 0;
    if (g->p->n_min > 0)
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
static ft_status reserve_rule(generation *g, ft_error *err)
{
    int cap = sample_dist_need(&g->sample, g->s->model->m->h.n_vocab);
    bool compares = g->p->verify == FT_VERIFY_BLOCK || g->p->verify == FT_VERIFY_RATIO;
    if (compares && !g->p->draft_argmax)
        TRY(create_dists(&g->q, FT_DRAFT_MAX, cap, err));
    if (g->p->verify == FT_VERIFY_BLOCK)
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

/* After each chunk of the prompt: the caller, and ft_session_cancel, may stop it. */
static bool on_chunk(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    generation *g = ctx;
    g->stats->n_prompt = (int)done;
    if (g->p->on_prompt && !g->p->on_prompt(g->p->on_prompt_ctx, what, done, total))
        return false;
    return !atomic_load(&g->s->cancel);
}

/* Room for the text of any usual token, taken before anything is read. */
static ft_status reserve_text(generation *g, ft_error *err)
{
    buf *text[] = {&g->piece, &g->out, &g->stops.held};
    buf_init(&g->piece, 1 << 24);
    buf_init(&g->out, 1 << 24);
    stops_init(&g->stops, g->p->stop, g->p->n_stop);
    for (size_t i = 0; i < ARRAY_LEN(text); i++) {
        if (!buf_extend(text[i], 1024))
            return buf_status(text[i], "generate: text", err);
        buf_clear(text[i]);
    }
    return FT_OK;
}

static void free_parts(generation *g)
{
    buf_deinit(&g->piece);
    buf_deinit(&g->out);
    stops_deinit(&g->stops);
    mem_free(g->bias);
    free_dists(g->q, FT_DRAFT_MAX);
    free_dists(g->rows_p, FT_DRAFT_MAX + 1);
}

ft_status ft_session_generate(ft_session *s, const int32_t *prompt, int n_prompt,
                              const ft_generate_params *p, ft_generate_stats *stats, ft_error *err)
{
    ft_generate_stats local;
    if (!stats)
        stats = &local;
    *stats = (ft_generate_stats){.finish = FT_FINISH_LENGTH};
    TRY(check_request(s, n_prompt, p, err));
    atomic_store(&s->cancel, false);
    stats->scratch_bytes = s->scratch.size;
    generation g = {.s = s, .p = p, .stats = stats};
    ft_status st = resolve_sampling(&g, err);
    if (st == FT_OK)
        st = reserve_rule(&g, err);
    if (st == FT_OK)
        st = reserve_text(&g, err);
    double t0 = engine_now();
    if (st == FT_OK)
        st = session_feed(s, prompt, n_prompt, p->n_max != 0, on_chunk, &g, err);
    double t1 = engine_now();
    stats->prompt_seconds = t1 - t0;
    if (st == FT_CANCELLED)
        stats->finish = FT_FINISH_CANCELLED;
    if (st == FT_OK && p->n_max != 0)
        st = generate_rounds(&g, err);
    stats->state_bytes = seq_bytes(s->state);
    stats->decode_seconds = engine_now() - t1;
    generate_draft_stats(&g);
    free_parts(&g);
    return st;
}
