/* foretoken.h - the public interface of libforetoken.
 *
 * Opaque handles, plain structs, statuses. Every function that can fail returns an ft_status and
 * takes an ft_error that may be NULL; on failure its outputs are NULL or unchanged as stated.
 * The library never prints, exits or reads the environment.
 */
#ifndef FORETOKEN_FORETOKEN_H
#define FORETOKEN_FORETOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    define FT_API   __attribute__((visibility("default")))
#    define FT_CHECK __attribute__((warn_unused_result))
#else
#    define FT_API
#    define FT_CHECK
#endif

/* ---- Statuses -------------------------------------------------------------------------- */

/* X(name, value, text). Values never change meaning; new ones are appended. */
#define FT_STATUS_LIST(X)                                                   \
    X(OK, 0, "ok")                                                          \
    X(NOMEM, -1, "out of memory")                                           \
    X(IO, -2, "a file could not be read or written")                        \
    X(FORMAT, -3, "malformed data")                                         \
    X(UNSUPPORTED, -4, "well formed, but not supported")                    \
    X(RANGE, -5, "a value or a position outside its range; a full context") \
    X(ARG, -6, "a wrong argument")                                          \
    X(CANCELLED, -7, "stopped by the caller")                               \
    X(DEVICE, -8, "the compute device failed")                              \
    X(MISMATCH, -9, "two files, or a file and a model, do not belong together")

typedef enum {
#define FT_STATUS_ENUM(name, value, text) FT_##name = (value),
    FT_STATUS_LIST(FT_STATUS_ENUM)
#undef FT_STATUS_ENUM
} ft_status;

/* Start as {0}. The first failure is recorded, later ones do not overwrite it. */
typedef struct {
    ft_status code;
    char msg[248]; /* "gguf: tensor 'blk.3.attn_q': 5120 rows, want 4096" */
} ft_error;

/* Text of a status, a static string; "unknown status" for a value not in the list. */
FT_API const char *ft_status_text(ft_status st);

/* Progress of long work: called from the calling thread, done in 0..total (bytes or tokens, as the
 * function says). Return false to cancel (the work then fails with FT_CANCELLED). */
typedef bool ft_progress_fn(void *ctx, const char *what, uint64_t done, uint64_t total);

/* ---- Making files -------------------------------------------------------------------------- */

typedef struct {
    const char *dir;  /* folder with config.json, tokenizer.json, *.safetensors (sharded or not) */
    const char *out;  /* GGUF to write; an existing file is replaced when all is written */
    const char *type; /* "f32", "f16", "bf16", "q8_0" for matrices; NULL: the checkpoint's own */
    ft_progress_fn *progress; /* NULL: none; bytes of the output */
    void *progress_ctx;
} ft_convert_params;

/* Convert a checkpoint of the qwen35, qwen35moe or qwen4exp family, with its mtp.* tensors, to
 * GGUF. Vectors, the router, convolutions and the like stay F32.
 * Errors: IO, FORMAT, UNSUPPORTED, MISMATCH (a tensor with another shape than config.json says),
 * NOMEM, CANCELLED. */
FT_API ft_status ft_convert(const ft_convert_params *p, ft_error *err) FT_CHECK;

/* What quantize did to one tensor. */
typedef struct {
    const char *name;
    const char *from, *to; /* types */
    uint64_t bytes_from, bytes_to;
    double rel_rmse; /* sqrt(sum (w' - w)^2 / sum w^2); 0 when copied */
} ft_quantize_report;
typedef void ft_quantize_report_fn(void *ctx, const ft_quantize_report *r);

typedef struct {
    const char *in, *out;
    const char
        *type; /* default type of matrices: f32 f16 bf16 q8_0 q5_0 q5_1 q4_0 q4_1 iq4_nl q2_0 */
    const char *const
        *overrides; /* [n_override] "PATTERN=TYPE", first match wins; * and ? as in a shell */
    int n_override;
    ft_progress_fn *progress; /* NULL: none; bytes of the input */
    void *progress_ctx;
    ft_quantize_report_fn *report; /* NULL: none; called once per tensor */
    void *report_ctx;
} ft_quantize_params;

/* Rewrite a GGUF (or a split one) with other tensor types. A tensor whose rows are no multiple of
 * the wished block is stored as F16 (reported). Errors as ft_convert; ARG names an unknown type or
 * an override that matches no tensor. */
FT_API ft_status ft_quantize(const ft_quantize_params *p, ft_error *err) FT_CHECK;

typedef struct {
    const char *shape; /* "qwen3.5-0.8b"; a wrong one fails with a message that lists all */
    const char
        *type;       /* of matrices, as for ft_quantize; NULL: those of the shape; default "q8_0" */
    int n_layer;     /* layers of the trunk; 0 (default): all */
    int n_ngram_row; /* rows per head of the n-gram table, about; 0 (default): all */
    uint64_t seed;
    const char *out;          /* GGUF to write; an existing file is replaced when all is written */
    ft_progress_fn *progress; /* NULL: none; bytes of the output */
    void *progress_ctx;
} ft_synthetic_params;
FT_API ft_synthetic_params ft_synthetic_params_default(void);

/* Write a model of a named shape, draft head and a tokenizer included, with random weights: for measuring
 * speed without a download. Its text means nothing; activations stay finite. The same parameters give
 * the same file. Errors: ARG (names the field), IO, NOMEM, CANCELLED. */
FT_API ft_status ft_write_synthetic(const ft_synthetic_params *p, ft_error *err) FT_CHECK;

/* ---- Models -------------------------------------------------------------------------------- */

/* An open model: weights in place in the mapped file, tokenizer, compute backend. Read-only: any
 * number of sessions may use it, in any threads; it must outlive them. */
typedef struct ft_model ft_model;

typedef struct {
    const char *mtp_path; /* a separate file with the draft head; NULL: the model's own, if any */
    int n_thread;         /* 0: one per usable core */
    /* "generic", "avx2", "avx512", "neon", "i8mm"; NULL: the best of this processor. */
    const char *cpu;
    /* Types that the drafter holds its matrices in: "default" (Q8_0 for what the file holds as F32,
     * F16 or BF16), "file", "q8_0", "q5_0", "q4_0". Speed only: the text stays the same. */
    const char *draft_quant;        /* the wide ones; NULL: "default" */
    const char *draft_quant_mixers; /* those of hyper-connections; NULL: "file" */
    const char *draft_vocab; /* tokens that may be drafted (ft_draft_vocab_build); NULL: all */
    uint64_t
        checkpoint_mem; /* bytes that checkpoints may hold; 0: none are kept. Default 512 MiB */
} ft_model_params;
FT_API ft_model_params ft_model_params_default(void);

/* Open a GGUF of architecture qwen35, qwen35moe or qwen4exp (any shard of a split one). p NULL: the
 * defaults. *out is NULL after a failure. Errors: IO, FORMAT, UNSUPPORTED, MISMATCH, ARG, NOMEM. */
FT_API ft_status ft_model_open(ft_model **out, const char *path, const ft_model_params *p,
                               ft_error *err) FT_CHECK;
FT_API void ft_model_close(ft_model *m); /* NULL is allowed */

typedef struct {
    const char *arch; /* strings are owned by the model */
    const char *name; /* general.name, "" if none */
    const char *cpu;  /* instruction set in use */
    int n_thread;
    int n_vocab, n_embd, n_layer, n_ctx_train;
    int hidden_width;          /* values of a hidden row, see ft_eval_out */
    bool has_mtp;              /* a draft head is there */
    const char *no_mtp_reason; /* why not, "" if has_mtp */
    bool has_tokenizer;
    int32_t eos; /* -1: none */
    uint64_t file_bytes;
    double load_seconds;
    int n_draft_vocab; /* tokens of the draft vocabulary in use; 0: none, all may be drafted */
    const char *no_draft_vocab_reason; /* why the one asked for is not used; "" otherwise */
} ft_model_info;
FT_API void ft_model_get_info(const ft_model *m, ft_model_info *out);

/* Ids of a text; special: text that spells a special token becomes that token. *ids [*n] is owned by
 * the caller, freed with ft_free (NULL when *n is 0). Errors: NOMEM, RANGE, UNSUPPORTED (the file has
 * no tokenizer). */
FT_API ft_status ft_tokenize(const ft_model *m, const char *text, size_t len, bool special,
                             int32_t **ids, size_t *n, ft_error *err) FT_CHECK;
/* Text of ids as valid UTF-8 with a NUL behind it, freed with ft_free. special: special tokens are
 * spelled out, else left out. Errors: RANGE (an id outside the vocabulary), NOMEM, UNSUPPORTED. */
FT_API ft_status ft_detokenize(const ft_model *m, const int32_t *ids, size_t n, bool special,
                               char **text, size_t *len, ft_error *err) FT_CHECK;
FT_API void ft_free(void *p); /* what the library handed over; NULL is allowed */

/* What a token is written in, by its first letter. X(name, text) */
#define FT_SCRIPT_LIST(X)                                                  \
    X(LATIN, "Latin")                                                      \
    X(CYRILLIC, "Cyrillic")                                                \
    X(GREEK, "Greek")                                                      \
    X(ARABIC, "Arabic")                                                    \
    X(HEBREW, "Hebrew")                                                    \
    X(DEVANAGARI, "Devanagari")                                            \
    X(THAI, "Thai")                                                        \
    X(HAN, "Han")                                                          \
    X(KANA, "Hiragana, Katakana")                                          \
    X(HANGUL, "Hangul")                                                    \
    X(OTHER, "other")              /* letters of other scripts, symbols */ \
    X(PART, "parts of characters") /* some bytes of one, no whole one */   \
    X(DIGIT, "digits")                                                     \
    X(PUNCT, "punctuation, space")                                         \
    X(SPECIAL, "special") /* control tokens */

typedef enum {
#define FT_SCRIPT_ENUM(name, text) FT_SCRIPT_##name,
    FT_SCRIPT_LIST(FT_SCRIPT_ENUM)
#undef FT_SCRIPT_ENUM
        FT_N_SCRIPT
} ft_script;
FT_API const char *ft_script_name(ft_script s); /* a static string; "unknown" outside the list */

/* Receives a report piece by piece. Return false to stop (FT_CANCELLED). */
typedef bool ft_write_fn(void *ctx, const char *text, size_t len);
/* Describe a GGUF: metadata, tensors, types, bytes per part, features. Works for files that cannot be
 * run, as long as they are well formed. Errors: IO, FORMAT, NOMEM, CANCELLED. */
FT_API ft_status ft_inspect(const char *path, bool json, ft_write_fn *write, void *ctx,
                            ft_error *err) FT_CHECK;

/* ---- Sessions ------------------------------------------------------------------------------ */

/* One conversation: its tokens and everything the model remembers of them. One caller at a time. */
typedef struct ft_session ft_session;
/* Sessions that are advanced together: they share the working memory of a step, and a step evaluates
 * rows of all of them in one forward call (ft_batch_step). One caller at a time for all of them. */
typedef struct ft_batch ft_batch;

typedef struct {
    int n_session; /* most sessions of the batch, 1..256; default 4 */
    int n_chunk;   /* most prompt rows per step, of all sessions together, 1..4096; default 512 */
    int n_ctx;     /* most tokens of each session; 0: as in ft_session_params */
} ft_batch_params;
FT_API ft_batch_params ft_batch_params_default(void);
/* p NULL: the defaults. m is borrowed. Errors: ARG (names the field), NOMEM. */
FT_API ft_status ft_batch_create(ft_batch **out, ft_model *m, const ft_batch_params *p,
                                 ft_error *err) FT_CHECK;
/* Its sessions must have been freed before. NULL is allowed. */
FT_API void ft_batch_free(ft_batch *b);

#define FT_WINDOW_ALL INT32_MAX

typedef struct {
    int n_ctx;   /* most tokens, up to 2^24; 0: the model's trained context, 8192 at most. More than
                          * the model was trained for is allowed, the text gets worse there */
    int n_chunk; /* most rows per forward call, 1..4096; default 512 */
    const char *kv_type; /* "f16" (default), "f32", "q8_0" */
    bool no_draft;       /* without a drafter, even if the model has a draft head */
    int sink;   /* cells at the start of the text that every draft step may read, 0..1024; 64 */
    int window; /* cells before its own that a draft step reads; 256; FT_WINDOW_ALL: all */
    int checkpoint_every; /* while tokens are read or made, keep a checkpoint every so many; 0: none;
                           * default 2048. At other points: ft_generate_params.mark */
    ft_batch
        *batch; /* the batch that the session belongs to, of the same model; its n_chunk and n_ctx
                      * count. NULL (default): a batch of its own */
} ft_session_params;
FT_API ft_session_params ft_session_params_default(void);

/* Bytes that a session takes with a full context. Memory for cells grows with the text; all else is taken by
 * ft_session_create. Errors as there. */
FT_API ft_status ft_session_size(const ft_model *m, const ft_session_params *p, size_t *n_bytes,
                                 ft_error *err) FT_CHECK;
/* p NULL: the defaults. m is borrowed. Errors: ARG (names the field), NOMEM (says how much). */
FT_API ft_status ft_session_create(ft_session **out, ft_model *m, const ft_session_params *p,
                                   ft_error *err) FT_CHECK;
FT_API void ft_session_free(ft_session *s); /* NULL is allowed */
/* Forget everything: as new. */
FT_API void ft_session_reset(ft_session *s);
FT_API int ft_session_n_past(const ft_session *s); /* tokens evaluated */
FT_API int ft_session_n_ctx(const ft_session *s);
/* Its tokens [*n], one that was made and waits to be evaluated included; owned by s, valid until the
 * next call on s. Returns them; *n may be 0. */
FT_API const int32_t *ft_session_tokens(const ft_session *s, int *n);

typedef struct {
    int n_past, n_ctx, n_token; /* evaluated; at most; held, with what waits */
    size_t state_bytes;         /* memory of the state: cells in use, recurrent state, drafter */
    size_t shared_bytes;        /* of it: cells that checkpoints or other sessions use too */
    size_t scratch_bytes;       /* working memory of its batch */
    bool inexact;               /* ft_session_shift was used since it was last empty */
    uint64_t drafted, accepted; /* since it was created */
    uint64_t n_evaluated, n_reused; /* tokens evaluated, and taken over from checkpoints or files */
} ft_session_info;
FT_API void ft_session_get_info(const ft_session *s, ft_session_info *out);

/* Forget what does not lie on the way to tok [n_tok]: afterwards s holds the longest beginning of tok
 * that is known, from s itself or any checkpoint of the model (of sessions with the same kv_type, sink
 * and window), at most n_tok - 1 tokens. *n_known: how many. What s held before may become a checkpoint,
 * so that going back is cheap. The caller goes on with tok + *n_known.
 * Errors: RANGE (an id outside the vocabulary, more tokens than the context), ARG (n_tok < 1), NOMEM; s
 * is unchanged. */
FT_API ft_status ft_session_reuse(ft_session *s, const int32_t *tok, int n_tok, int *n_known,
                                  ft_error *err) FT_CHECK;
/* Keep a checkpoint of s as it is. OK also when there was no room for one. Errors: NOMEM. */
FT_API ft_status ft_session_checkpoint(ft_session *s, ft_error *err) FT_CHECK;

/* Drop the tokens first .. first + n - 1 WITHOUT reading again what stood behind them: cached keys are
 * rotated to their new positions, cells of the drafter with them. This is NOT what the model would have
 * computed for the shorter text: keys, values and above all recurrent states keep what they learnt from
 * the tokens that were dropped. Only for callers that want it; such a session takes and makes no
 * checkpoints until it is empty again. Errors: RANGE (not inside the evaluated tokens), NOMEM;
 * s is unchanged. */
FT_API ft_status ft_session_shift(ft_session *s, int first, int n, ft_error *err) FT_CHECK;

typedef struct {
    int n;                   /* checkpoints now */
    uint64_t bytes, limit;   /* that they hold: recurrent states, and cells once each */
    uint64_t taken, evicted; /* since the model was opened */
    uint64_t hits, misses;   /* ft_session_reuse with and without a known beginning */
    uint64_t tokens_reused;  /* that were not evaluated again */
} ft_checkpoint_stats;
FT_API void ft_model_checkpoint_stats(const ft_model *m, ft_checkpoint_stats *out);

/* ---- Session files ---- */

typedef struct {
    const char *kv_type; /* NULL: as the session has them; "q8_0": smaller, and no longer exact */
    bool no_checkpoints; /* leave out the checkpoints on the session's own way */
    ft_progress_fn *progress; /* NULL: none; in bytes */
    void *progress_ctx;
} ft_save_params;
/* Write everything the session is to a file: to a temporary one beside it, which then takes its name, so
 * that path holds the old or the new file at any moment. p NULL: the defaults. *n_bytes (NULL: not
 * wanted): its size. Errors: IO, ARG, NOMEM, CANCELLED; the old file is untouched. */
FT_API ft_status ft_session_save(ft_session *s, const char *path, const ft_save_params *p,
                                 uint64_t *n_bytes, ft_error *err) FT_CHECK;
/* Replace what s holds by the file's conversation; its checkpoints are added to the model's.
 * Errors: IO; FORMAT (cut off, a wrong checksum, ...: names section and offset); MISMATCH (another
 * model, kv_type, sink or window, a version of another time); RANGE (longer than s's context);
 * NOMEM; s is unchanged. */
FT_API ft_status ft_session_load(ft_session *s, const char *path, ft_error *err) FT_CHECK;

typedef struct {
    int version;
    char arch[32], name[128]; /* of the model that it belongs to */
    uint64_t model_fingerprint;
    char kv_type[16]; /* of the file */
    bool exact;       /* cells are those of the session, bit for bit */
    bool has_drafter;
    int sink, window;
    int n_token, n_checkpoint;
    uint64_t file_bytes, cell_bytes, recurrent_bytes, drafter_bytes;
} ft_session_file_info;
/* Read a session file's description and verify all checksums. Errors: IO, FORMAT, MISMATCH. */
FT_API ft_status ft_session_file_read_info(const char *path, ft_session_file_info *out,
                                           ft_error *err) FT_CHECK;

/* Evaluate tokens and append them to the session, n_chunk rows per forward call.
 *
 * tok     [n_tok] ids, each < n_vocab; borrowed for the call.
 * logits  out, [n_vocab] f32 of the last token; owned by s, valid until the next call on s.
 *         NULL: the head is not run.
 * Errors  RANGE  context full (says used, wanted, limit) or an id outside the vocabulary;
 *                s is unchanged.
 *         DEVICE s must be reset before further use.
 * Threads one caller per session; sessions of one model may run in parallel, in batches of their own. */
FT_API ft_status ft_session_eval(ft_session *s, const int32_t *tok, int n_tok, const float **logits,
                                 ft_error *err) FT_CHECK;

/* All rows of an evaluation, for comparison with other implementations. Any pointer may be NULL. */
typedef struct {
    float *logits; /* [n_tok][n_vocab] */
    float *hidden; /* [n_tok][hidden_width]: what the draft head reads */
    bool dense;    /* sparse attention reads every cell */
    /* Every intermediate result, [n_row][n_col] float32 (is_int: int32), call by call. */
    void (*stage)(void *ctx, const char *name, const void *rows, bool is_int, int n_row, int n_col);
    void *stage_ctx;
} ft_eval_out;
/* As ft_session_eval, in one forward call: n_tok <= n_chunk (RANGE otherwise). */
FT_API ft_status ft_session_eval_rows(ft_session *s, const int32_t *tok, int n_tok,
                                      const ft_eval_out *out, ft_error *err) FT_CHECK;

/* Rows of the draft head, for comparison with other implementations. */
typedef struct {
    int sink;      /* cells at the start of the text that every step may read, 0..1024 */
    int window;    /* cells before its own that a step reads; FT_WINDOW_ALL: every earlier one */
    int n_chain;   /* drafts chained behind the text, each the most probable, 0..15 */
    float *logits; /* out, [n_tok - 1 + n_chain][n_vocab]: cells 0 .. n_tok - 2 with the text's own
                            * tokens, then the chain */
    int32_t
        *chain_tokens; /* out, [n_chain + 1]: the trunk's most probable token behind the text, then
                            * the drafts; NULL: not wanted */
    float *chain_hidden; /* out, [n_chain][hidden_width]; NULL: not wanted */
    void (*stage)(void *ctx, const char *name, const void *rows, bool is_int, int n_row, int n_col);
    void *stage_ctx;
} ft_draft_eval;
/* Evaluate tok [n_tok], n_tok >= 2, from an empty session (s is reset) and the draft head over it.
 * Errors: UNSUPPORTED (no draft head), RANGE, ARG, NOMEM. */
FT_API ft_status ft_session_eval_draft(ft_session *s, const int32_t *tok, int n_tok,
                                       const ft_draft_eval *e, ft_error *err) FT_CHECK;

/* ---- Generation ------------------------------------------------------------------------------ */

/* Added to the logit of one token; -INFINITY: the token never comes. */
typedef struct {
    int32_t id;
    float bias; /* -INFINITY, or -1000 .. 1000 */
} ft_logit_bias;

/* Start from ft_sample_params_default(). docs/sampling.md has the formulas. */
typedef struct {
    float temp;    /* 0: the most probable token */
    int top_k;     /* 0: off */
    float top_p;   /* 1: off */
    float min_p;   /* 0: off */
    uint64_t seed; /* the same seed gives the same text */
    /* Penalties of the tokens among the last penalty_last_n of the conversation. */
    float repeat_penalty;      /* 0.01 .. 100; 1: off. Divides logits above 0, multiplies others */
    float presence_penalty;    /* -100 .. 100; 0: off */
    float frequency_penalty;   /* -100 .. 100; 0: off; times the token's count */
    int penalty_last_n;        /* 0: off; -1: all */
    const ft_logit_bias *bias; /* [n_bias], borrowed for the call */
    int n_bias;
    const char
        *samplers; /* order; NULL: "penalties;top_k;temp;min_p;top_p". Left out: not applied */
} ft_sample_params;
/* temp 0.8, top_k 40, top_p 0.95, min_p 0.05, seed 0, penalties off (last_n 64), no bias. */
FT_API ft_sample_params ft_sample_params_default(void);
/* ARG: the message names the field, its value and the accepted range. */
FT_API ft_status ft_sample_params_check(const ft_sample_params *p, ft_error *err) FT_CHECK;

typedef enum {
    FT_FINISH_LENGTH,    /* n_max tokens were made */
    FT_FINISH_STOP,      /* the model ended the text */
    FT_FINISH_CONTEXT,   /* the context is full */
    FT_FINISH_CANCELLED, /* the callback or ft_session_cancel stopped it */
} ft_finish;
FT_API const char *ft_finish_text(ft_finish f);

#define FT_DRAFT_MAX 15

/* Which drafts become text (docs/sampling.md). All but the last are exact. */
typedef enum {
    FT_VERIFY_COUPLED, /* the text for a seed is the one without drafts, token for token */
    FT_VERIFY_BLOCK,   /* the model's distribution; the text for a seed depends on the drafts */
    FT_VERIFY_RATIO,   /* the same */
    FT_VERIFY_GREEDY_MATCH, /* NOT a sampler, another distribution: for comparison alone */
} ft_verify;

/* How a token came about. All of them are the model's own choice. */
typedef enum {
    FT_TOKEN_PLAIN,    /* no draft was there to compare with */
    FT_TOKEN_ACCEPTED, /* a draft proposed it */
    FT_TOKEN_CORRECTED /* a draft proposed another one */
} ft_token_kind;

typedef struct {
    int32_t id;
    double logprob;
} ft_alternative;
#define FT_TOP_MAX 20

/* One token as it is decided. text [len] is what it adds to the text, whole UTF-8 characters only
 * (may be empty), borrowed for the call. Return false to stop after it. */
typedef struct {
    int32_t id;
    const char *text;
    size_t len;
    ft_token_kind kind;
    /* With ft_generate_params.logprobs, in nats; otherwise 0 and none. */
    double logprob;            /* by the model alone: temperature 1, no filters */
    double logprob_sampled;    /* by the distribution that it was drawn from */
    const ft_alternative *top; /* [n_top] most probable tokens by the model alone, best first */
    int n_top;
} ft_token;
typedef bool ft_token_fn(void *ctx, const ft_token *t);

/* What happens when the context is full. */
typedef enum {
    FT_CONTEXT_STOP, /* the generation ends with FT_FINISH_CONTEXT */
    /* The oldest turns behind the first mark are dropped, at least a quarter of the context and never the
     * turn that is being made, and what stood behind them is read again. Without such turns: as STOP. */
    FT_CONTEXT_DROP_TURNS
} ft_context_policy;

typedef struct {
    int n_max;       /* most tokens to make; -1: until the context is full */
    int n_min;       /* the model's end of text cannot come before so many tokens */
    bool ignore_eos; /* go on after the model's end of text */
    bool special;    /* special tokens appear in the text */
    /* Texts that end the text, in front of the first that is complete, wherever tokens are cut; the
     * token that completes one is the last. [n_stop], none empty; borrowed for the call. */
    const char *const *stop;
    int n_stop;
    bool logprobs; /* fill in the log-probabilities of ft_token */
    int n_top;     /* so many alternatives, 0 .. FT_TOP_MAX */
    ft_sample_params sample;
    int draft_max;     /* most drafts per round, 0 (none) .. FT_DRAFT_MAX; default 3 */
    bool draft_fixed;  /* always draft_max of them; otherwise as many as pay, by measurement */
    ft_verify verify;  /* default FT_VERIFY_COUPLED */
    bool draft_argmax; /* drafts are the drafter's most probable tokens, not drawn */
    float draft_p_min; /* stop drafting where the drafter's best probability is below; 0: never */
    ft_token_fn *on_token; /* NULL: none */
    void *on_token_ctx;
    ft_progress_fn *on_prompt; /* NULL: none; after every chunk of the prompt, in tokens */
    void *on_prompt_ctx;
    /* Places in the conversation [n_mark], ascending, in tokens from its start, at which messages end
     * (ft_chat_render gives them; the first one behind the system message): checkpoints are kept
     * there, and turns dropped. Places before the prompt are allowed. Borrowed. */
    const int *mark;
    int n_mark;
    ft_context_policy context; /* default FT_CONTEXT_STOP */
} ft_generate_params;
FT_API ft_generate_params ft_generate_params_default(void);

/* What drafting did. A round verifies the drafts made for it in one forward call and emits the
 * accepted ones and one more token: emitted = accepted + rounds, less what an end of the text cut off. */
typedef struct {
    const char *off_reason; /* why no drafts were made at all; "" if there were some */
    uint64_t rounds;
    uint64_t drafted, accepted; /* accepted <= drafted */
    /* By depth, 0 = the first draft of a round: verified counts drafts whose forerunners were all
     * accepted; what stands behind a rejected one is drafted, and not verified. */
    uint64_t verified_at[FT_DRAFT_MAX], accepted_at[FT_DRAFT_MAX];
    uint64_t steps; /* draft steps run */
    uint64_t
        failed; /* times that memory for the drafter's cells was wanting: a round without drafts, or
                      * drafts that know less of the text */
    /* Of steps and rounds that others shared, all of their time counts. */
    double draft_seconds, verify_seconds;
    uint64_t step_bytes; /* that one draft step has to read: weights and cells */
    size_t state_bytes;  /* of the drafter */
} ft_draft_stats;

typedef struct {
    ft_finish finish;
    int n_prompt;  /* tokens read */
    int n_token;   /* tokens made, an end-of-text token included */
    int n_dropped; /* tokens of turns that were dropped (FT_CONTEXT_DROP_TURNS), */
    int n_reread;  /* and tokens read again behind them */
    double prompt_seconds, decode_seconds, sample_seconds;
    size_t state_bytes; /* of the session */
    size_t scratch_bytes;
    ft_draft_stats draft;
} ft_generate_stats;

/* Read prompt [n_prompt] (appended to what the session holds), then make tokens. Every token made is
 * in the session afterwards except the last one, whose successor was not asked for: it is evaluated
 * at the start of the next call. Without such a token the prompt has at least one. stats is filled in
 * any case.
 * Errors: RANGE (the prompt does not fit: nothing was read), ARG and NOMEM (nothing was read),
 * CANCELLED (while the prompt was read: the session keeps stats->n_prompt tokens of it; or while tokens
 * behind dropped turns were read again: it keeps what it has read of them), DEVICE. */
FT_API ft_status ft_session_generate(ft_session *s, const int32_t *prompt, int n_prompt,
                                     const ft_generate_params *p, ft_generate_stats *stats,
                                     ft_error *err) FT_CHECK;
/* Stop a running ft_session_generate after its current step (a chunk of the prompt, or a token); from
 * any thread, or a signal handler. */
FT_API void ft_session_cancel(ft_session *s);

/* ---- Generations step by step -------------------------------------------------------------------- */

/* A generation under way. Until it ends, nothing else may be done with its session. */
typedef struct ft_generation ft_generation;

typedef enum {
    FT_GENERATION_PROMPT, /* reading */
    FT_GENERATION_DECODE, /* making tokens */
    FT_GENERATION_DONE,   /* ended; ft_generation_end tells how */
    FT_GENERATION_FAILED, /* ended by an error, which ft_generation_end returns */
} ft_generation_state;

/* As ft_session_generate, of which the first step is still to come. prompt and all that p points to are
 * borrowed until the end; *p itself is copied. Errors: RANGE, ARG, NOMEM; nothing was read then. */
FT_API ft_status ft_generation_begin(ft_generation **out, ft_session *s, const int32_t *prompt,
                                     int n_prompt, const ft_generate_params *p,
                                     ft_error *err) FT_CHECK;
/* End it, at any point, and free it; NULL is allowed. stats (NULL: not wanted) is filled in. Tokens that
 * were decided stay in the session. Errors: what ended it, as ft_session_generate; OK otherwise. */
FT_API ft_status ft_generation_end(ft_generation *g, ft_generate_stats *stats, ft_error *err);
FT_API ft_generation_state ft_generation_get_state(const ft_generation *g);

/* Advance g [n], of sessions of b, oldest first, by one forward call: a chunk of the prompts that are still
 * to read, shared out evenly among them and the rest to the first, and a round of all that are decoding. What
 * one gets never depends on the others, bit for bit. One that fails does not touch the others: its state
 * says so. Ended ones are passed over.
 * Errors: ARG (a generation of another batch, more than n_session of them, one twice): nothing was done. */
FT_API ft_status ft_batch_step(ft_batch *b, ft_generation *const *g, int n, ft_error *err) FT_CHECK;

/* Stop g at its next step; from any thread. It ends with FT_FINISH_CANCELLED. */
FT_API void ft_generation_cancel(ft_generation *g);

/* The next token that was decided and not taken yet: true, and *t; t's pointers are valid until the next
 * call with g. Tokens wait to be taken where there is no on_token; with one, there are none here. */
FT_API bool ft_generation_poll(ft_generation *g, ft_token *t);
/* The same, steps of g alone included: false at the end. */
FT_API bool ft_generation_next(ft_generation *g, ft_token *t);

/* ---- Chat form ------------------------------------------------------------------------------------- */

/* A conversation as the text and tokens that the model was trained on (the ChatML form of its family). */
typedef struct {
    char *text; /* [len], NUL behind it */
    size_t len;
    int32_t *tok; /* [n_tok]: markup as special tokens; what messages say never becomes one. NULL
                   * without a model */
    int n_tok;
    int *
        mark; /* [n_mark] counts of tokens behind the system message (0 without one), and behind every
                * further message (tool answers in a row are one): for ft_generate_params.mark */
    int n_mark;
} ft_chat_prompt;
/* json [len]: an object with "messages" and optionally "tools", "enable_thinking" (default true) and
 * "add_generation_prompt" (default true), as in the OpenAI API; other members are ignored. m NULL: text
 * alone. *out is owned by the caller, freed with ft_chat_prompt_free; {0} after a failure.
 * Errors: FORMAT (not JSON, with its line; what the form refuses, naming the message), RANGE (too
 * large), UNSUPPORTED (m lacks a token of the form), NOMEM. */
FT_API ft_status ft_chat_render(const ft_model *m, const char *json, size_t len,
                                ft_chat_prompt *out, ft_error *err) FT_CHECK;
FT_API void ft_chat_prompt_free(ft_chat_prompt *p);

/* An answer's text taken apart while it is made. */
typedef enum {
    FT_CHAT_THINKING,  /* a piece of the thinking */
    FT_CHAT_CONTENT,   /* a piece of the answer */
    FT_CHAT_TOOL_CALL, /* a complete call */
} ft_chat_kind;
typedef struct {
    ft_chat_kind kind;
    const char *text; /* [len] THINKING, CONTENT */
    size_t len;
    const char *name,
        *arguments; /* TOOL_CALL: the function, and a JSON object with its arguments */
} ft_chat_event;    /* all borrowed for the call */
/* Return false to stop (FT_CANCELLED). */
typedef bool ft_chat_event_fn(void *ctx, const ft_chat_event *e);

typedef struct ft_chat_parser ft_chat_parser;
/* thinking: the prompt left a think block open. tools: the request's array as JSON, which tells strings
 * from other values; NULL: none, then what reads as JSON is taken as such.
 * Errors: FORMAT (tools), NOMEM. */
FT_API ft_status ft_chat_parser_create(ft_chat_parser **out, bool thinking, const char *tools,
                                       ft_chat_event_fn *fn, void *ctx, ft_error *err) FT_CHECK;
FT_API void ft_chat_parser_free(ft_chat_parser *p); /* NULL is allowed */
/* The next piece of the text, cut anywhere, special tokens spelled out (ft_generate_params.special).
 * Text that only looks like the beginning of markup is held back until that is certain. */
FT_API ft_status ft_chat_parser_put(ft_chat_parser *p, const char *text, size_t len,
                                    ft_error *err) FT_CHECK;
/* The text is over: what was held back, and an unfinished call, come out as they are. */
FT_API ft_status ft_chat_parser_finish(ft_chat_parser *p, ft_error *err) FT_CHECK;

/* ---- Measuring ------------------------------------------------------------------------------- */

typedef struct {
    int n_window; /* tokens per window, each evaluated from an empty session; default 1024 */
    int n_skip;   /* tokens at the start of each window that are not scored; -1 (default): half */
    ft_progress_fn *progress; /* in tokens */
    void *progress_ctx;
} ft_perplexity_params;
FT_API ft_perplexity_params ft_perplexity_params_default(void);

typedef struct {
    uint64_t n_scored;
    double nll;        /* mean negative log-likelihood per scored token, in nats */
    double nll_error;  /* its standard error, tokens taken as independent */
    double perplexity; /* exp(nll) */
    double perplexity_error;
} ft_perplexity_result;

/* Perplexity of tok [n_tok], cut into windows that advance by n_window - n_skip, so that every token
 * but those at the start is scored once, with at least n_skip tokens before it.
 * Errors: ARG (fewer than two tokens, bad sizes), RANGE, CANCELLED, NOMEM. */
FT_API ft_status ft_perplexity(ft_model *m, const int32_t *tok, size_t n_tok,
                               const ft_session_params *sp, const ft_perplexity_params *p,
                               ft_perplexity_result *out, ft_error *err) FT_CHECK;

/* What low-bit types would cost in one matrix of the draft head. */
typedef struct {
    const char *part;     /* "fc_embedding", "fc_hidden" (the halves of eh_proj), "attn_q", ... */
    const char *name;     /* of the tensor in the file */
    const char *type;     /* as it has it; the errors are against these values */
    const char *no_error; /* why there are no errors: rows no multiple of 32; "" if there are */
    int n_row, n_col;
    /* Relative RMSE of W x for Gaussian x: sqrt(sum (W' x - W x)^2 / sum (W x)^2). Q4_0 with scales
     * by the plain rule, and with fitted ones, which drafting uses. */
    double q8_0, q5_0, q4_0_plain, q4_0;
} ft_draft_error_report;
typedef void ft_draft_error_fn(void *ctx, const ft_draft_error_report *r);

/* Report every matrix of the draft head that may be held in a low-bit type, in a fixed order. The
 * strings are valid during the call. Errors: ARG (no callback), UNSUPPORTED (no draft head), NOMEM. */
FT_API ft_status ft_draft_error(const ft_model *m, ft_draft_error_fn *report, void *ctx,
                                ft_error *err) FT_CHECK;

/* One line of ft_selftest_sampling: texts of a toy model, made with drafts, against as many that were
 * made one token at a time. */
typedef struct {
    const char *rule;    /* "coupled", "block", "ratio", "greedy-match"; "plain": no drafts */
    const char *drafter; /* "ordinary", "reduced", "wrong", "unlikely", "blind", "chain", "none" */
    bool argmax;         /* drafts are the drafter's most probable tokens, else drawn */
    bool exact;          /* the rule claims to leave the distribution of texts alone */
    bool passed;         /* exact: variation below limit; otherwise above it */
    double variation;    /* total variation: half the sum of the differences of all shares */
    double limit;        /* chance alone stays below, but once in about a million times */
    double tokens_per_round; /* of rounds with two drafts */
} ft_selftest_row;
/* row is valid during the call. Return false to stop (FT_CANCELLED). */
typedef bool ft_selftest_fn(void *ctx, const ft_selftest_row *row);

/* Prove that drafting leaves the distribution of texts alone: n_text texts per line (20000 ..
 * 10000000; 400000 take some seconds in all), as functions of the seed. *passed: every line did.
 * Needs no model. Errors: ARG (n_text, no callback), CANCELLED, NOMEM; *passed is false then. */
FT_API ft_status ft_selftest_sampling(int n_text, uint64_t seed, ft_selftest_fn *report, void *ctx,
                                      bool *passed, ft_error *err) FT_CHECK;

/* ---- Byte accounts ----------------------------------------------------------------------------- */

/* What one step has to read from memory, by shapes and types alone, whatever the machine: bytes divided
 * by the bandwidth are the floor of its time. Weights count once per call, as the engine reads them; of
 * experts, tables and cells what the step's rows need. Where several rows choose for themselves (experts,
 * blocks of sparse attention) the expected number of different ones for uniform, independent choices
 * is taken; rows of one text choose more alike. Left out: norms and other vectors, activations, and the
 * writing of new cells. */

typedef enum {
    FT_STEP_DRAFT, /* one step of the draft head: a token proposed */
    FT_STEP_VERIFY, /* one call of the trunk, logits of all rows: decoding (1 row), verification (k + 1) */
    FT_STEP_PROMPT, /* one call of the trunk without logits: a chunk of a prompt */
} ft_step;

#define FT_DRAFT_VOCAB_ALL INT32_MAX

typedef struct {
    ft_step step;        /* default FT_STEP_DRAFT */
    int n_row;           /* VERIFY, PROMPT: rows of the call, 1..4096; default 1 */
    int depth;           /* tokens before the step's, up to 2^24; default 0 */
    const char *kv_type; /* "f16" (default), "f32", "q8_0" */
    /* The rest is of DRAFT alone. */
    int sink, window; /* as in ft_session_params */
    /* Types as in ft_model_params, planned, not converted; NULL: as the model was opened, or what
     * ft_model_params has for NULL when there is only a shape. */
    const char *draft_quant, *draft_quant_mixers;
    int n_draft_vocab; /* tokens of the draft vocabulary; 0 (default): of that which the model was opened
                        * with, or of the shape's published figures, or all; FT_DRAFT_VOCAB_ALL: all */
    bool naive; /* as if fc_hidden were read once per residual stream and the indexer were run */
} ft_account_params;
FT_API ft_account_params ft_account_params_default(void);

/* Equal tensors of all layers, or equal parts of their state, in one line. */
typedef struct {
    const char *group; /* "q", "routed experts", "cells", ... */
    const char *part;  /* "attn_q", "experts_up", ... */
    const char
        *name; /* of the first tensor; "" for state; valid as long as the model and the account */
    const char *type;
    int n_mat, n_row, n_col; /* of each */
    int n_tensor;            /* that the line adds up */
    int n_pick; /* what is read in part: so many experts (n_mat > 1) or rows there are; 0: all is read */
    double n_got;  /* so many of them are read */
    int times;     /* how often it is read; what is read and written: 2 */
    bool is_state; /* cells, keys, recurrent states */
    double bytes;
} ft_account_item;

typedef struct {
    ft_account_item *item; /* [n_item], in the order of the forward pass */
    int n_item;
    double weight_bytes, state_bytes; /* their sums */
    double bytes;                     /* of both */
    int n_cell;                       /* DRAFT: cells that the step reads */
    int n_head, n_vocab;              /* rows of the head that are read, and that there are */
    void *owned;
} ft_account;

/* Errors: ARG (names the field), UNSUPPORTED (DRAFT without a draft head: says why), NOMEM. *out is {0}
 * after a failure; else it is freed with ft_account_free. p NULL: the defaults. */
FT_API ft_status ft_account_model(const ft_model *m, const ft_account_params *p, ft_account *out,
                                  ft_error *err) FT_CHECK;
/* The same without a file, for a named shape with matrices of a type ("q8_0", any that GGUF has; NULL:
 * the shape's own types). Errors also: ARG (no such shape, no such type: lists them). */
FT_API ft_status ft_account_shape(const char *shape, const char *type, const ft_account_params *p,
                                  ft_account *out, ft_error *err) FT_CHECK;
FT_API void ft_account_free(ft_account *a); /* {0} is allowed */

/* The i-th named shape, NULL past the last one; static strings. */
FT_API const char *ft_shape_name(int i);
FT_API const char *ft_shape_source(int i); /* where its numbers come from */

/* Bytes per second that n_thread threads (0: one per usable core) read from memory: the fastest piece of
 * several passes over a buffer of twice the last cache, 256 MiB to 1 GiB. Takes about half a second.
 * Errors: ARG (n_thread), NOMEM. */
FT_API ft_status ft_measure_bandwidth(int n_thread, double *bytes_per_second,
                                      ft_error *err) FT_CHECK;

/* One line of ft_bench_kernels: products of one matrix with rows of activations. */
typedef struct {
    const char *type;
    int n_tok;           /* rows of activations in the call */
    int n_row, n_col;    /* of the matrix */
    double seconds;      /* of a call: the median, */
    double spread;       /* and half the distance of the quartiles as a share of it */
    double weight_bytes; /* read once in a call */
    double macs;         /* multiplications of a call */
} ft_kernel_row;
/* row is valid during the call. Return false to stop (FT_CANCELLED). */
typedef bool ft_kernel_fn(void *ctx, const ft_kernel_row *row);

typedef struct {
    const char *type; /* one type; NULL: all that can be multiplied */
    const char *cpu;  /* as in ft_model_params */
    int n_thread;
    size_t
        buffer_bytes; /* of weights that calls walk over, so that they come from memory and not from a
                          * cache: at least 64 MiB; default 768 MiB */
    double seconds;   /* least time spent on a line; default 0.2 */
} ft_kernel_params;
FT_API ft_kernel_params ft_kernel_params_default(void);

/* Measure the products of every type with 1, 2, 4, 8, 16 and 512 rows of activations, as the forward pass
 * runs them, threads included. Errors: ARG (names the field, no callback), UNSUPPORTED (a type or an
 * instruction set that is not there), NOMEM, CANCELLED. */
FT_API ft_status ft_bench_kernels(const ft_kernel_params *p, ft_kernel_fn *report, void *ctx,
                                  ft_error *err) FT_CHECK;

/* ---- Draft vocabularies ---------------------------------------------------------------------- */

/* A draft vocabulary is a file that names the tokens which may be drafted; a draft step then reads the
 * rows of the head for those alone (ft_model_params.draft_vocab). It changes speed, never the text.
 * It has to be made from text like that which will be written: one made from English gives hardly any
 * draft in Cyrillic or Chinese, which the report shows. */

typedef struct {
    int n_vocab;        /* tokens of the model */
    int n_draft;        /* of them in the draft vocabulary */
    uint64_t n_token;   /* tokens of the text, each time that they stand there */
    uint64_t n_covered; /* of them in the draft vocabulary */
} ft_coverage;
/* At least 16 tokens of text, and fewer than 80 % of them covered: drafts will often be wrong. */
FT_API bool ft_coverage_is_poor(const ft_coverage *c);

typedef struct {
    ft_coverage all;
    ft_coverage script[FT_N_SCRIPT];
    uint64_t head_bytes, full_head_bytes; /* the head's rows, of the draft vocabulary and of all */
} ft_draft_vocab_report;

typedef struct {
    const char *const *text; /* [n_text] paths of files to count tokens in; "-": standard input */
    int n_text;
    const char *const *merge; /* [n_merge] draft vocabularies whose tokens are all taken */
    int n_merge;
    double coverage; /* take the most frequent tokens until this share of the text; default 0.99 */
    int count;       /* or until there are so many tokens in all; 0 (default): by coverage */
    bool no_bytes;   /* without the tokens of a single byte, in which any text can be drafted */
    ft_progress_fn *progress; /* NULL: none; bytes of the current text */
    void *progress_ctx;
} ft_draft_vocab_params;
FT_API ft_draft_vocab_params ft_draft_vocab_params_default(void);

/* Make a draft vocabulary for m: control and end-of-text tokens, single bytes, those of the files to
 * merge, then the most frequent ones (of equals the lower ids). Text that spells a special token is
 * counted as that token. write gets the file in one piece; report (NULL: not wanted) tells how it
 * covers the texts it was made from.
 * Errors: ARG (nothing to choose from, values out of range), IO, RANGE (a text over 1 GiB), FORMAT and
 * MISMATCH (a file to merge), UNSUPPORTED (no tokenizer), CANCELLED (write or progress said so),
 * NOMEM. */
FT_API ft_status ft_draft_vocab_build(const ft_model *m, const ft_draft_vocab_params *p,
                                      ft_write_fn *write, void *ctx, ft_draft_vocab_report *report,
                                      ft_error *err) FT_CHECK;

/* What is in a draft vocabulary for m, and how it covers texts (text [n_text] and progress of p; the
 * rest of p is not read; NULL: no texts). Errors as above. */
FT_API ft_status ft_draft_vocab_inspect(const ft_model *m, const char *path,
                                        const ft_draft_vocab_params *p,
                                        ft_draft_vocab_report *report, ft_error *err) FT_CHECK;

/* How the draft vocabulary that m was opened with covers tok [n_tok], a prompt for example. Errors:
 * UNSUPPORTED (m uses none, or has no tokenizer), RANGE (an id outside the vocabulary), NOMEM. */
FT_API ft_status ft_draft_vocab_coverage(const ft_model *m, const int32_t *tok, size_t n_tok,
                                         ft_draft_vocab_report *report, ft_error *err) FT_CHECK;

#ifdef __cplusplus
}
#endif

#endif
