/* generate.h - a generation under way. Private to engine/.
 *
 * PROMPT -> PROMPT   a chunk of the input was read (generate_read)
 * PROMPT -> DECODE   the last one: its row decided the first token
 * DECODE -> DECODE   a round (round_prepare, round_finish)
 * DECODE -> PROMPT   turns were dropped: what stood behind them is the input (context_drop)
 * any    -> DONE     the end of the text, a limit, or the caller
 * any    -> FAILED   an error; its session keeps what was decided
 */
#ifndef ENGINE_GENERATE_H
#define ENGINE_GENERATE_H

#include "engine/engine.h"
#include "engine/stops.h"
#include "sample/verify.h"

/* What the statistics said when a round began. */
typedef struct {
    uint64_t steps;
    double draft, verify, sample;
} round_cost;

/* A token that waits to be taken. */
typedef struct {
    ft_token t; /* without text */
    size_t text_at;
    ft_alternative top[FT_TOP_MAX];
} waiting_token;

struct ft_generation {
    ft_session *s;
    ft_generate_params p;
    ft_generation_state state;
    atomic_bool cancel;
    ft_error error; /* of FAILED, or of a prompt that was cancelled */
    ft_generate_stats stats;

    sample_params sample;     /* the request's */
    sample_params sample_min; /* the same, for the first n_min tokens: nothing ends the text */
    sample_bias *bias;        /* owned: what both point to */
    sample_dist *q;      /* [FT_DRAFT_MAX] owned: kept by rules that compare with it; else NULL */
    sample_dist *rows_p; /* [FT_DRAFT_MAX + 1] owned: for the rule that sees all rows first */
    uint64_t n_failed;   /* of the drafter, before */

    /* Text. */
    detok text;
    buf piece; /* what the token in hand spells */
    stop_matcher stops;
    buf out; /* what it lets through */
    ft_alternative top[FT_TOP_MAX];
    bool poll;        /* tokens wait to be taken: */
    buf waiting;      /* waiting_token [..], */
    size_t n_taken;   /* of which so many were taken, */
    buf waiting_text; /* and their texts, a NUL behind each */

    /* Input: the prompt, or what is read again. */
    const int32_t *input; /* [n_input] */
    int n_input, n_read;
    int32_t *again; /* owned: the input when turns were dropped */
    bool rereading;
    int prompt_end; /* position behind the prompt */
    int *mark;      /* [n_mark] owned: ends of messages, in positions of the session */
    int n_mark;
    int kept_at; /* position of the last checkpoint that was asked for */

    /* The step under way. */
    int row, n_row; /* rows in the batch */
    int want;       /* its first row of logits there */
    int32_t draft[FT_DRAFT_MAX];
    int n_draft, k_draft; /* made, and wished for */
    bool drafting;
    verify_round round;
    round_cost cost;
    bool alone; /* nothing else shares the step: its time is the generation's own */
};

/* ---- generate.c ---- */

/* The generation is over. */
void generate_done(ft_generation *g, ft_finish why);
/* The caller stopped it; reading its prompt, that is an error to report. */
void generate_cancel(ft_generation *g);
/* It failed; err has the message. */
void generate_fail(ft_generation *g, const ft_error *err);
/* Rows of input for a chunk of at most n: up to the next place for a checkpoint. */
int generate_chunk(const ft_generation *g, int n);
/* A chunk of n_row rows was evaluated; logits: of its last row, if that is the input's last. */
ft_status generate_read(ft_generation *g, const float *logits, const float *hidden,
                        ft_error *err) MUST_CHECK;
/* Keep a checkpoint if the session has come to a place for one. */
ft_status generate_checkpoint(ft_generation *g, ft_error *err) MUST_CHECK;

/* ---- emit.c ---- */

/* The parameters for the n-th token of the generation. */
const sample_params *emit_params(const ft_generation *g, int n);
/* The distribution of the token for position pos, the n-th of the generation, from the row of logits
 * before it. */
ft_status emit_distribution(ft_generation *g, const float *logits, int pos, int n, sample_dist *out,
                            ft_error *err) MUST_CHECK;
/* A token is decided, from this row of logits and this distribution: count it, deliver it, let it wait for
 * its turn to be evaluated. *last: nothing follows in this round; why is in g->state then. */
ft_status emit(ft_generation *g, int32_t id, int pos, const float *logits, const sample_dist *p,
               ft_token_kind kind, bool *last, ft_error *err) MUST_CHECK;

/* ---- round.c ---- */

/* A round of each of g [n], n >= 1: decide how many drafts, and make them. g->n_row: rows to evaluate. */
void round_prepare(ft_generation *const *g, int n);
/* The tokens of those rows: the pending one, then the drafts. */
void round_rows(const ft_generation *g, int32_t *tok);
/* They were evaluated in `seconds`: decide tokens, keep what was accepted. logits [n_row][n_vocab] and
 * hidden [n_row][width]: theirs. */
ft_status round_finish(ft_generation *g, const float *logits, const float *hidden, double seconds,
                       ft_error *err) MUST_CHECK;
/* Statistics of drafting as a whole. */
void round_draft_stats(ft_generation *g);

/* ---- context.c ---- */

/* The request wants turns to be dropped when the context is full, and there are some. */
bool context_can_drop(const ft_generation *g);
/* Drop them and let the rest, with what is pending, be the input. */
ft_status context_drop(ft_generation *g, ft_error *err) MUST_CHECK;

#endif
