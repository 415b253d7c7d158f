/* proof.c - see proof.h.
 *
 * There are few contexts (what stands before a token of a text), so all distributions are made once,
 * by sample_distribution, with the history of each.
 */
#include "sample/proof.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

/* Contexts of 0, 1 and 2 tokens. */
enum { N_CONTEXT = 1 + 6 + 36 };

static const int32_t prompt[] = {4, 1, 0, 1};
enum { N_PROMPT = (int)ARRAY_LEN(prompt) };

struct proof {
    sample_dist p[N_CONTEXT];
    sample_dist q[PROOF_N_DRAFTER][N_CONTEXT]; /* none of PROOF_NONE */
    int32_t top[N_CONTEXT];                    /* highest logit before penalties */
};

const char *proof_drafter_name(proof_drafter d)
{
    static const char *const name[] = {
#define PROOF_DRAFTER_NAME(name, text) text,
        PROOF_DRAFTER_LIST(PROOF_DRAFTER_NAME)
#undef PROOF_DRAFTER_NAME
    };
    return d < PROOF_N_DRAFTER ? name[d] : "unknown";
}

/* ---- The toy model ---------------------------------------------------------------------------- */

sample_params proof_params(void)
{
    sample_params p = sample_params_default();
    p.temp = 0.6f;
    p.top_k = 0;
    p.top_p = 0.95f;
    p.min_p = 0.05f;
    p.repeat_penalty = 1.08f;
    p.presence_penalty = 0.4f;
    p.penalty_last_n = -1;
    return p;
}

/* A fixed number in 0 .. 1 for a salt and three tokens. The salts below were chosen so that the
 * figures come close to those published for such a toy: greedy-match off by 0.06 with an ordinary
 * drafter, by 0.79 with the model's own greedy chain, at 3.00 tokens per round against 1.83. */
static float scatter(uint32_t salt, int32_t a, int32_t b, int32_t x)
{
    uint32_t h = salt + (uint32_t)(a * 36 + b * 6 + x) * 0x9E3779B1u;
    h = (h ^ h >> 15) * 0x85EBCA77u;
    h = (h ^ h >> 13) * 0xC2B2AE3Du;
    return (float)((h ^ h >> 16) >> 8) * 0x1p-24f;
}

/* Logits behind the two last tokens of hist [n]. */
static void toy_logits(float *out, const int32_t *hist, int n)
{
    for (int32_t x = 0; x < PROOF_N_TOK; x++)
        out[x] = 4.0f * scatter(752, hist[n - 2], hist[n - 1], x) - 1.0f;
}

/* The ordinary drafter is half the model, half something else. */
static void drafter_logits(float *out, const float *own, const int32_t *hist, int n)
{
    for (int32_t x = 0; x < PROOF_N_TOK; x++)
        out[x] = 0.5f * own[x] + 3.0f * scatter(97, hist[n - 2], hist[n - 1], x) - 1.0f;
}

/* Index of the context of text [n]. */
static int context_of(const int32_t *text, int n)
{
    static const int first[] = {0, 1, 1 + PROOF_N_TOK};
    int code = 0;
    for (int i = 0; i < n; i++)
        code = code * PROOF_N_TOK + text[i];
    return first[n] + code;
}

/* ---- Drafters that try to break it ------------------------------------------------------------ */

/* Logits with one token alone. */
static void only(float *out, int32_t token)
{
    for (int32_t x = 0; x < PROOF_N_TOK; x++)
        out[x] = x == token ? 0.0f : -INFINITY;
}

static int32_t extreme(const sample_dist *p, double sign)
{
    int best = 0;
    for (int i = 1; i < p->n; i++)
        best = sign * p->p[i] > sign * p->p[best] ? i : best;
    return p->id[best];
}

static void adversary_logits(float *out, proof_drafter kind, const sample_dist *p, const float *own)
{
    if (kind == PROOF_CHAIN) {
        only(out, verify_top(own, PROOF_N_TOK));
    } else if (kind == PROOF_UNLIKELY || (kind == PROOF_WRONG && p->n == PROOF_N_TOK)) {
        only(out, extreme(p, -1));
    } else if (kind == PROOF_BLIND) {
        memcpy(out, own, PROOF_N_TOK * sizeof *out);
        out[extreme(p, 1)] = -INFINITY;
    } else { /* PROOF_WRONG: any token that p does not have */
        for (int32_t x = 0; x < PROOF_N_TOK; x++)
            out[x] = isinf(sample_dist_logp(p, x)) ? 0.0f : -INFINITY;
    }
}

/* ---- Distributions of all contexts ------------------------------------------------------------ */

static ft_status fill_context(proof *f, sample_ctx *c, const int32_t *text, int n, ft_error *err)
{
    int32_t hist[N_PROMPT + PROOF_LEN];
    memcpy(hist, prompt, sizeof prompt);
    memcpy(hist + N_PROMPT, text, (size_t)n * sizeof *text);
    sample_params s = proof_params();
    float own[PROOF_N_TOK], other[PROOF_N_TOK], few[PROOF_N_TOK / 2];
    int at = context_of(text, n);
    toy_logits(own, hist, N_PROMPT + n);
    sample_row row = {.logits = own, .n = PROOF_N_TOK, .hist = hist, .n_hist = N_PROMPT + n};
    TRY(sample_distribution(c, &f->p[at], &row, &s, err));
    f->top[at] = verify_top(own, PROOF_N_TOK);

    row.logits = other;
    drafter_logits(other, own, hist, N_PROMPT + n);
    TRY(sample_distribution(c, &f->q[PROOF_ORDINARY][at], &row, &s, err));
    static const int32_t kept[PROOF_N_TOK / 2] = {0, 2, 5};
    for (int i = 0; i < PROOF_N_TOK / 2; i++)
        few[i] = other[kept[i]];
    sample_row reduced = row;
    reduced.logits = few;
    reduced.id = kept;
    reduced.n = PROOF_N_TOK / 2;
    TRY(sample_distribution(c, &f->q[PROOF_REDUCED][at], &reduced, &s, err));
    for (int kind = PROOF_WRONG; kind < PROOF_N_DRAFTER; kind++) {
        adversary_logits(other, (proof_drafter)kind, &f->p[at], own);
        TRY(sample_distribution(c, &f->q[kind][at], &row, &s, err));
    }
    return FT_OK;
}

static ft_status fill(proof *f, sample_ctx *c, ft_error *err)
{
    int32_t text[2] = {0};
    TRY(fill_context(f, c, text, 0, err));
    for (text[0] = 0; text[0] < PROOF_N_TOK; text[0]++) {
        TRY(fill_context(f, c, text, 1, err));
        for (text[1] = 0; text[1] < PROOF_N_TOK; text[1]++)
            TRY(fill_context(f, c, text, 2, err));
    }
    return FT_OK;
}

static ft_status reserve(proof *f, ft_error *err)
{
    for (int i = 0; i < N_CONTEXT; i++) {
        TRY(sample_dist_init(&f->p[i], PROOF_N_TOK, err));
        for (int kind = PROOF_ORDINARY; kind < PROOF_N_DRAFTER; kind++)
            TRY(sample_dist_init(&f->q[kind][i], PROOF_N_TOK, err));
    }
    return FT_OK;
}

ft_status proof_create(proof **out, ft_error *err)
{
    *out = NULL;
    sample_ctx *c = NULL;
    proof *f = mem_zalloc(sizeof *f);
    if (!f)
        return err_set(err, FT_NOMEM, "sample: proof");
    ft_status st = reserve(f, err);
    if (st == FT_OK)
        st = sample_ctx_create(&c, PROOF_N_TOK, err);
    if (st == FT_OK)
        st = fill(f, c, err);
    sample_ctx_free(c);
    if (st == FT_OK)
        *out = f;
    else
        proof_free(f);
    return st;
}

void proof_free(proof *f)
{
    if (!f)
        return;
    for (int i = 0; i < N_CONTEXT; i++) {
        sample_dist_deinit(&f->p[i]);
        for (int kind = PROOF_ORDINARY; kind < PROOF_N_DRAFTER; kind++)
            sample_dist_deinit(&f->q[kind][i]);
    }
    mem_free(f);
}

/* ---- Texts ------------------------------------------------------------------------------------ */

int proof_code(const int32_t *text, int n)
{
    int code = 0;
    for (int i = 0; i < PROOF_LEN; i++)
        code = code * (PROOF_N_TOK + 1) + (i < n ? text[i] : PROOF_N_TOK);
    return code;
}

/* One round behind text [*n]; adds to it. */
static ft_status one_round(const proof *f, const proof_case *c, uint64_t seed, int32_t *text,
                           int *n, ft_error *err)
{
    int32_t draft[PROOF_N_DRAFT], top[PROOF_N_DRAFT];
    sample_dist p[PROOF_N_DRAFT + 1], q[PROOF_N_DRAFT]; /* views: their arrays belong to f */
    int first = *n, room = PROOF_LEN - first - 1;       /* the round's own token besides */
    verify_round r = {.rule = c->rule,
                      .argmax = c->argmax,
                      .seed = seed,
                      .first = N_PROMPT + first,
                      .draft = draft,
                      .q = c->argmax ? NULL : q,
                      .p = p,
                      .top = top};
    if (c->drafter != PROOF_NONE)
        r.n_draft = room < PROOF_N_DRAFT ? room : PROOF_N_DRAFT;
    for (int i = 0; i <= r.n_draft; i++) {
        int at = context_of(text, first + i); /* as if every draft were accepted */
        p[i] = f->p[at];
        if (i == r.n_draft)
            break;
        q[i] = f->q[c->drafter][at];
        top[i] = f->top[at];
        draft[i] = text[first + i] = verify_draft(&r, i, &q[i]);
    }
    verify v;
    verify_token t = {.last = false};
    TRY(verify_begin(&v, &r, err));
    for (int i = 0; !t.last; i++) {
        t = verify_next(&v, &p[i]);
        text[(*n)++] = t.token;
        if (t.token == c->end)
            break;
    }
    return FT_OK;
}

ft_status proof_run(const proof *f, const proof_case *c, proof_tally *out, ft_error *err)
{
    *out = (proof_tally){.n_text = c->n_text};
    for (int i = 0; i < c->n_text; i++) {
        int32_t text[PROOF_LEN + 1] = {0};
        int n = 0;
        bool first_round = true;
        while (n < PROOF_LEN && (n == 0 || text[n - 1] != c->end)) {
            TRY(one_round(f, c, c->seed + (uint64_t)i, text, &n, err));
            if (first_round)
                out->n_token += (uint64_t)n;
            first_round = false;
        }
        out->count[proof_code(text, n)]++;
    }
    return FT_OK;
}

/* ---- Laws and distances ----------------------------------------------------------------------- */

void proof_law(const proof *f, int32_t end, double *law)
{
    memset(law, 0, PROOF_N_TEXT * sizeof *law);
    for (int code = 0; code < PROOF_N_TOK * PROOF_N_TOK * PROOF_N_TOK; code++) {
        int32_t text[] = {code / (PROOF_N_TOK * PROOF_N_TOK), code / PROOF_N_TOK % PROOF_N_TOK,
                          code % PROOF_N_TOK};
        double mass = 1;
        int n = 0;
        while (n < PROOF_LEN && (n == 0 || text[n - 1] != end)) {
            mass *= exp(sample_dist_logp(&f->p[context_of(text, n)], text[n]));
            n++;
        }
        law[proof_code(text, n)] = mass; /* the same for all that end alike */
    }
}

double proof_distance(const proof_tally *a, const proof_tally *b)
{
    double sum = 0;
    for (int i = 0; i < PROOF_N_TEXT; i++)
        sum += fabs((double)a->count[i] / a->n_text - (double)b->count[i] / b->n_text);
    return sum / 2;
}

double proof_noise(const double *law, int n_text)
{
    static const double pi = 3.14159265358979323846;
    double mean = 0;
    for (int i = 0; i < PROOF_N_TEXT; i++)
        mean += sqrt(law[i] * (1 - law[i]) / (pi * n_text));
    return mean + 5 * sqrt((1 - 2 / pi) / (2 * n_text));
}
