/* params.c - the parameters' defaults and ranges, and the names of the stages. */
#include <math.h>
#include <string.h>

#include "sample/sample.h"

static const char *const stage_name[SAMPLE_N_STAGE] = {
    [SAMPLE_PENALTIES] = "penalties", [SAMPLE_TOP_K] = "top_k", [SAMPLE_TEMP] = "temp",
    [SAMPLE_MIN_P] = "min_p",         [SAMPLE_TOP_P] = "top_p",
};
#define STAGE_NAMES "penalties, top_k, temp, min_p, top_p"

#define BIAS_MAX 1000.0f

sample_params sample_params_default(void)
{
    return (sample_params){
        .temp = 0.8f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .seed = 0,
        .repeat_penalty = 1.0f,
        .penalty_last_n = 64,
        .stage = {SAMPLE_PENALTIES, SAMPLE_TOP_K, SAMPLE_TEMP, SAMPLE_MIN_P, SAMPLE_TOP_P},
        .n_stage = SAMPLE_N_STAGE,
    };
}

/* ---- Ranges ----------------------------------------------------------------------------------- */

/* Written so that NaN fails. */
static ft_status check_range(const char *name, float x, float min, float max, const char *note,
                             ft_error *err)
{
    if (x >= min && x <= max)
        return FT_OK;
    return err_set(err, FT_ARG, "sample: %s is %g, want %g to %g (%s)", name, (double)x,
                   (double)min, (double)max, note);
}

static ft_status check_filters(const sample_params *p, ft_error *err)
{
    TRY(check_range("temp", p->temp, 0, 100, "0: the most probable token", err));
    TRY(check_range("top_p", p->top_p, 0, 1, "1: off", err));
    TRY(check_range("min_p", p->min_p, 0, 1, "0: off", err));
    if (p->top_k < 0)
        return err_set(err, FT_ARG, "sample: top_k is %d, want 0 or more (0: off)", p->top_k);
    return FT_OK;
}

static ft_status check_penalties(const sample_params *p, ft_error *err)
{
    TRY(check_range("repeat_penalty", p->repeat_penalty, 0.01f, 100, "1: off", err));
    TRY(check_range("presence_penalty", p->presence_penalty, -100, 100, "0: off", err));
    TRY(check_range("frequency_penalty", p->frequency_penalty, -100, 100, "0: off", err));
    if (p->penalty_last_n < -1)
        return err_set(err, FT_ARG,
                       "sample: penalty_last_n is %d, want -1 or more (0: off, -1: all)",
                       p->penalty_last_n);
    return FT_OK;
}

static ft_status check_bias(const sample_params *p, ft_error *err)
{
    if (p->n_bias < 0 || p->n_bias > SAMPLE_MAX_BIAS || (p->n_bias > 0 && !p->bias))
        return err_set(err, FT_ARG, "sample: logit_bias has %d entries%s, want 0 to %d", p->n_bias,
                       p->bias ? "" : " and no array", SAMPLE_MAX_BIAS);
    for (int i = 0; i < p->n_bias; i++) {
        float b = p->bias[i].bias;
        if (b != -INFINITY && !(b >= -BIAS_MAX && b <= BIAS_MAX))
            return err_set(err, FT_ARG,
                           "sample: logit_bias of token %d is %g, want %g to %g, or -inf (banned)",
                           p->bias[i].id, (double)b, (double)-BIAS_MAX, (double)BIAS_MAX);
    }
    return sample_bias_check(p, INT32_MAX, err);
}

static ft_status check_stages(const sample_params *p, ft_error *err)
{
    if (p->n_stage < 0 || p->n_stage > SAMPLE_N_STAGE)
        return err_set(err, FT_ARG, "sample: %d stages, want 0 to %d", p->n_stage, SAMPLE_N_STAGE);
    unsigned seen = 0;
    for (int i = 0; i < p->n_stage; i++) {
        unsigned s = (unsigned)p->stage[i];
        if (s >= SAMPLE_N_STAGE)
            return err_set(err, FT_ARG, "sample: stage %u, want one of " STAGE_NAMES, s);
        if (seen >> s & 1)
            return err_set(err, FT_ARG, "sample: stage %s comes twice, want it once at most",
                           stage_name[s]);
        seen |= 1u << s;
    }
    return FT_OK;
}

ft_status sample_params_check(const sample_params *p, ft_error *err)
{
    TRY(check_filters(p, err));
    TRY(check_penalties(p, err));
    TRY(check_bias(p, err));
    return check_stages(p, err);
}

ft_status sample_bias_check(const sample_params *p, int n_vocab, ft_error *err)
{
    for (int i = 0; i < p->n_bias; i++) {
        int32_t id = p->bias[i].id;
        if (id < 0 || id >= n_vocab)
            return err_set(err, FT_ARG, "sample: logit_bias of token %d, want 0 to %d", id,
                           n_vocab - 1);
    }
    return FT_OK;
}

/* ---- The order of the stages ------------------------------------------------------------------ */

/* The stage that text [n] names; SAMPLE_N_STAGE: none. */
static sample_stage stage_of(const char *text, size_t n)
{
    int s = 0;
    while (s < SAMPLE_N_STAGE &&
           (strlen(stage_name[s]) != n || memcmp(stage_name[s], text, n) != 0))
        s++;
    return (sample_stage)s;
}

ft_status sample_stages_parse(sample_params *p, const char *text, ft_error *err)
{
    sample_params q = sample_params_default();
    const char *at = text;
    for (q.n_stage = 0;; at++) { /* one name, and the separator behind it */
        size_t n = strcspn(at, ";,");
        sample_stage s = stage_of(at, n);
        if (s == SAMPLE_N_STAGE)
            return err_set(err, FT_ARG,
                           "samplers: '%.*s', want some of " STAGE_NAMES ", with ';' between them",
                           n > 40 ? 40 : (int)n, at);
        for (int i = 0; i < q.n_stage; i++) {
            if (q.stage[i] == s)
                return err_set(err, FT_ARG, "samplers: %s comes twice, want it once at most",
                               stage_name[s]);
        }
        q.stage[q.n_stage++] = s; /* at most SAMPLE_N_STAGE, since none comes twice */
        at += n;
        if (*at == '\0')
            break;
    }
    memcpy(p->stage, q.stage, sizeof p->stage);
    p->n_stage = q.n_stage;
    return FT_OK;
}
