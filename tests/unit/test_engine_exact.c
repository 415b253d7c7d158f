/* Drafting never changes a text, nor one bit of the logits: the same request with and without drafts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "support/tinymodel.h"
#include "support/tmpdir.h"

enum { N_TOKEN = 32, N_PROMPT = 150, MAX_J = 8 };

/* What a generation showed: tokens, and the digest of every row of logits that decided one. */
typedef struct {
    int32_t id[512];
    uint64_t row[512];
    int n, n_row;
    int n_vocab;
} trace;

static uint64_t digest(const float *x, int n)
{
    uint64_t h = 1469598103934665603u;
    for (int i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        h = (h ^ bits) * 1099511628211u;
    }
    return h;
}

/* A scripted drafter beside the trace: what it proposes, from the text known to be right. */
typedef enum { NO_SCRIPT, RIGHT, WRONG, RIGHT_THEN_WRONG, RANDOM, FEW } script_kind;
typedef struct {
    trace t;
    const trace *truth;
    script_kind kind;
    int first_pos; /* of truth->id[0] */
    uint64_t random;
} probe;

static void on_row(void *ctx, int pos, const float *logits)
{
    (void)pos;
    probe *p = ctx;
    p->t.row[p->t.n_row++] = digest(logits, p->t.n_vocab);
}

static bool on_token(void *ctx, const ft_token *t)
{
    probe *p = ctx;
    p->t.id[p->t.n++] = t->id;
    return true;
}

static int32_t script(void *ctx, int pos, int depth)
{
    probe *p = ctx;
    int at = pos - p->first_pos;
    int32_t right = at < p->truth->n ? p->truth->id[at] : 0;
    int32_t wrong = (right + 1) % p->t.n_vocab;
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    switch (p->kind) {
    case NO_SCRIPT:
        break;
    case RIGHT:
        return right;
    case WRONG:
        return wrong;
    case RIGHT_THEN_WRONG:
        return depth < 2 ? right : wrong;
    case RANDOM:
        return (p->random >> 40) % 3 ? right
                                     : (int32_t)((p->random >> 33) % (uint64_t)p->t.n_vocab);
    case FEW:
        return depth < (int)((p->random >> 40) % 4) ? right : -1;
    }
    return -1;
}

static void must(ft_status st, const ft_error *err)
{
    if (st != FT_OK)
        fail_msg("%s", err->msg);
}

typedef struct {
    ft_session_params session;
    ft_generate_params request;
    script_kind script;
} setting;

/* Run a request in a new session; *end: digest of the trunk's state after it. */
static probe run(ft_model *m, const setting *set, const int32_t *prompt, int n_prompt,
                 const trace *truth, uint64_t *end, ft_generate_stats *stats)
{
    ft_session *s;
    ft_error err = {0};
    ft_model_info info;
    ft_model_get_info(m, &info);
    must(ft_session_create(&s, m, &set->session, &err), &err);
    probe p = {.truth = truth, .kind = set->script, .first_pos = n_prompt, .random = 7};
    p.t.n_vocab = info.n_vocab;
    ft_generate_params request = set->request;
    request.on_token = on_token;
    request.on_token_ctx = &p;
    s->on_row = on_row;
    s->hook_ctx = &p;
    if (set->script != NO_SCRIPT)
        s->script = script;
    must(ft_session_generate(s, prompt, n_prompt, &request, stats, &err), &err);
    *end = seq_digest(s->state);
    ft_session_free(s);
    return p;
}

static void assert_same(const probe *a, const probe *b, const char *what)
{
    if (a->t.n != b->t.n || memcmp(a->t.id, b->t.id, (size_t)a->t.n * sizeof *a->t.id) != 0)
        fail_msg("%s: other tokens", what);
    if (memcmp(a->t.row, b->t.row, (size_t)a->t.n * sizeof *a->t.row) != 0)
        fail_msg("%s: other logits", what);
}

static setting plain_setting(float temp, int chunk)
{
    setting s = {.session = ft_session_params_default(), .request = ft_generate_params_default()};
    s.session.n_ctx = 512;
    s.session.n_chunk = chunk;
    s.request.n_max = N_TOKEN;
    s.request.sample.temp = temp;
    s.request.sample.seed = 11;
    s.request.ignore_eos = true;
    s.request.draft_max = 0;
    return s;
}

static const char *family(model_arch arch, char path[TEST_PATH_MAX], const char *tag)
{
    char name[64];
    snprintf(name, sizeof name, "exact-%s%s.gguf", model_arch_name(arch), tag);
    tiny_opts o = tiny_default(arch);
    o.n_ctx = 512;
    tiny_write(test_path(path, name), &o);
    return path;
}

static int prompt_of(int32_t *prompt, int n, int n_vocab)
{
    for (int i = 0; i < n; i++)
        prompt[i] = (int32_t)((uint32_t)(i * 2654435761u) >> 8) % n_vocab;
    return n;
}

static const model_arch arch[] = {MODEL_QWEN35, MODEL_QWEN35MOE, MODEL_QWEN4EXP};
static const float temps[] = {0.0f, 0.6f, 1.2f};

/* Catches a draft that changes the text, a bit of the logits, or the state behind it, at any temperature
 * and draft length (B001 to B008, B040, B043, B118). */
static void test_draft_lengths_and_temperatures_change_nothing(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARRAY_LEN(arch); a++) {
        char path[TEST_PATH_MAX], what[96];
        ft_model *m;
        ft_error err = {0};
        must(ft_model_open(&m, family(arch[a], path, ""), NULL, &err), &err);
        int32_t prompt[N_PROMPT];
        prompt_of(prompt, N_PROMPT, 300);
        uint64_t drafted = 0;
        for (size_t t = 0; t < ARRAY_LEN(temps); t++) {
            uint64_t end, want;
            ft_generate_stats stats;
            setting set = plain_setting(temps[t], 64);
            probe truth = run(m, &set, prompt, N_PROMPT, NULL, &want, &stats);
            assert_int_equal(stats.draft.drafted, 0);
            for (int k = 1; k <= 8; k++) {
                set.request.draft_max = k;
                set.request.draft_fixed = true;
                probe p = run(m, &set, prompt, N_PROMPT, NULL, &end, &stats);
                snprintf(what, sizeof what, "%s temp %g k %d", model_arch_name(arch[a]),
                         (double)temps[t], k);
                assert_same(&truth, &p, what);
                assert_true(end == want);
                assert_true(stats.draft.drafted > 0);
                drafted += stats.draft.drafted;
            }
            set.request.draft_fixed = false; /* and the adaptive length */
            probe p = run(m, &set, prompt, N_PROMPT, NULL, &end, &stats);
            assert_same(&truth, &p, "adaptive");
            assert_true(end == want);
        }
        assert_true(drafted > 100);
        ft_model_close(m);
    }
}

/* Catches what depends on acceptance: drafters that are always right, always wrong, right then wrong,
 * random, or stop at random; and counts that do not add up (B120). */
static void test_scripted_drafters_change_nothing(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARRAY_LEN(arch); a++) {
        char path[TEST_PATH_MAX], what[96];
        ft_model *m;
        ft_error err = {0};
        must(ft_model_open(&m, family(arch[a], path, "-s"), NULL, &err), &err);
        int32_t prompt[N_PROMPT];
        prompt_of(prompt, N_PROMPT, 300);
        for (size_t t = 0; t < ARRAY_LEN(temps); t++) {
            uint64_t end, want;
            ft_generate_stats stats;
            setting plain = plain_setting(temps[t], 64);
            probe truth = run(m, &plain, prompt, N_PROMPT, NULL, &want, &stats);
            for (int kind = RIGHT; kind <= FEW; kind++) {
                setting set = plain;
                set.script = (script_kind)kind;
                set.request.draft_fixed = true;
                for (int k = 1; k <= 8; k += kind == RANDOM ? 1 : 3) {
                    set.request.draft_max = k;
                    probe p = run(m, &set, prompt, N_PROMPT, &truth.t, &end, &stats);
                    snprintf(what, sizeof what, "%s temp %g script %d k %d",
                             model_arch_name(arch[a]), (double)temps[t], kind, k);
                    assert_same(&truth, &p, what);
                    assert_true(end == want);
                    const ft_draft_stats *d = &stats.draft;
                    /* The first token came with the prompt. */
                    assert_int_equal(d->accepted + d->rounds, (uint64_t)stats.n_token - 1);
                    assert_true(d->accepted <= d->drafted);
                    if (kind == RIGHT) /* the last round is cut short by the limit */
                        assert_int_equal(d->accepted, d->drafted);
                    if (kind == WRONG)
                        assert_int_equal(d->accepted, 0);
                    if (kind == RIGHT_THEN_WRONG && k > 2) {
                        assert_int_equal(d->accepted_at[0], d->verified_at[0]);
                        assert_int_equal(d->accepted_at[2], 0);
                    }
                }
            }
        }
        ft_model_close(m);
    }
}

static bool to_file(void *ctx, const char *text, size_t len)
{
    return fwrite(text, 1, len, ctx) == len;
}

/* A draft vocabulary of some of m's tokens. */
static void write_vocab(ft_model *m, const char *path)
{
    char text[TEST_PATH_MAX];
    FILE *f = fopen(test_path(text, "vocab.txt"), "w");
    assert_non_null(f);
    fputs("the heat of the three others there, then the rest", f);
    fclose(f);
    const char *texts[] = {text};
    ft_draft_vocab_params p = ft_draft_vocab_params_default();
    ft_error err = {0};
    p.text = texts;
    p.n_text = 1;
    p.no_bytes = true;
    p.coverage = 0.9;
    f = fopen(path, "w");
    assert_non_null(f);
    must(ft_draft_vocab_build(m, &p, to_file, f, NULL, &err), &err);
    fclose(f);
}

/* Catches a drafter whose own settings leak into the text: weights, vocabulary (B091), sink, window,
 * chunk, threads. */
static void test_drafter_settings_change_nothing(void **state)
{
    (void)state;
    static const char *const quant[] = {"file", "q8_0", "q5_0", "q4_0"};
    static const int chunk[] = {1, 7, 64, 512};
    for (size_t a = 0; a < ARRAY_LEN(arch); a++) {
        char path[TEST_PATH_MAX], vocab[TEST_PATH_MAX], what[96];
        ft_model *plain;
        ft_error open_err = {0};
        must(ft_model_open(&plain, family(arch[a], path, "-w"), NULL, &open_err), &open_err);
        write_vocab(plain, test_path(vocab, "exact.draft-vocab"));
        ft_model_close(plain);
        probe truth = {0};
        uint64_t want = 0;
        int32_t prompt[N_PROMPT];
        prompt_of(prompt, N_PROMPT, 300);
        for (size_t q = 0; q < ARRAY_LEN(quant); q++) {
            ft_model *m;
            ft_error err = {0};
            ft_model_params mp = {.n_thread = 1 + (int)q % 2,
                                  .draft_quant = quant[q],
                                  .draft_quant_mixers = quant[(q + 1) % 4],
                                  .draft_vocab = q >= 2 ? vocab : NULL};
            must(ft_model_open(&m, path, &mp, &err), &err);
            ft_model_info info;
            ft_model_get_info(m, &info);
            assert_true((info.n_draft_vocab > 0 && info.n_draft_vocab < info.n_vocab) == (q >= 2));
            for (size_t c = 0; c < ARRAY_LEN(chunk); c++)
                for (int sink = 0; sink <= 64; sink += 64) {
                    uint64_t end;
                    ft_generate_stats stats;
                    setting set = plain_setting(0.6f, chunk[c]);
                    set.session.sink = sink;
                    set.session.window = c % 2 ? 16 : 256;
                    if (!truth.t.n)
                        truth = run(m, &set, prompt, N_PROMPT, NULL, &want, &stats);
                    set.request.draft_max = 3;
                    set.request.draft_fixed = true;
                    probe p = run(m, &set, prompt, N_PROMPT, NULL, &end, &stats);
                    snprintf(what, sizeof what, "%s %s chunk %d sink %d", model_arch_name(arch[a]),
                             quant[q], chunk[c], sink);
                    assert_same(&truth, &p, what);
                    assert_true(end == want);
                    assert_true(stats.draft.drafted > 0); /* B078 */
                }
            ft_model_close(m);
        }
    }
}

/* Catches drafter state that depends on how a text arrived (B013, B067, B075, B076): any chunk size, and
 * rounds of drafts instead of plain steps, leave the same cells, waiting row and trunk. */
static void test_state_behind_a_text_is_the_same_however_it_came(void **state)
{
    (void)state;
    static const int chunk[] = {300, 1, 2, 7, 64};
    for (size_t a = 0; a < ARRAY_LEN(arch); a++) {
        char path[TEST_PATH_MAX];
        ft_model *m;
        ft_error err = {0};
        must(ft_model_open(&m, family(arch[a], path, "-d"), NULL, &err), &err);
        int32_t prompt[300];
        prompt_of(prompt, 300, 300);
        uint64_t after_prompt = 0, after_text = 0;
        for (size_t c = 0; c < ARRAY_LEN(chunk); c++)
            for (int k = 0; k <= 8; k += 4) {
                ft_session *s;
                setting set = plain_setting(0.6f, chunk[c]);
                set.session.window = 40;
                must(ft_session_create(&s, m, &set.session, &err), &err);
                must(ft_session_eval(s, prompt, 299, NULL, &err), &err);
                uint64_t d = session_digest(s);
                if (!after_prompt)
                    after_prompt = d;
                assert_true(d == after_prompt);
                set.request.draft_max = k;
                set.request.draft_fixed = true;
                must(ft_session_generate(s, prompt + 299, 1, &set.request, NULL, &err), &err);
                d = session_digest(s);
                if (!after_text)
                    after_text = d;
                if (d != after_text)
                    fail_msg("%s chunk %d k %d: another state behind the text",
                             model_arch_name(arch[a]), chunk[c], k);
                ft_session_free(s);
            }
        ft_model_close(m);
    }
}

/* One round by hand: the drafts are right up to depth j, and the text stops behind that round. */
typedef struct {
    const int32_t *truth; /* of the text behind the prompt */
    int first_pos, j, n_stop, n;
} one_round;

static int32_t round_script(void *ctx, int pos, int depth)
{
    const one_round *r = ctx;
    int32_t right = r->truth[pos - r->first_pos];
    return depth < r->j ? right : right ^ 1;
}

static bool round_token(void *ctx, const ft_token *t)
{
    (void)t;
    one_round *r = ctx;
    return ++r->n < r->n_stop;
}

/* Catches a trace of a rejected draft in any part of a session's state: draft k, accept j equals feed j,
 * for all k <= 8 and j <= k (B019, B030, B040). */
static void test_draft_k_accept_j_equals_feed_j_in_all_state(void **state)
{
    (void)state;
    for (size_t a = 0; a < ARRAY_LEN(arch); a++) {
        char path[TEST_PATH_MAX];
        ft_model *m;
        ft_error err = {0};
        must(ft_model_open(&m, family(arch[a], path, "-kj"), NULL, &err), &err);
        int32_t prompt[N_PROMPT];
        prompt_of(prompt, N_PROMPT, 300);
        uint64_t unused;
        ft_generate_stats stats;
        setting set = plain_setting(0.6f, 64);
        probe truth = run(m, &set, prompt, N_PROMPT, NULL, &unused, &stats);
        uint64_t plain[MAX_J + 1] = {0};
        for (int k = 0; k <= MAX_J; k++)
            for (int j = 0; j <= k; j++) {
                ft_session *s;
                must(ft_session_create(&s, m, &set.session, &err), &err);
                one_round r = {truth.t.id, N_PROMPT, j, j + 2, 0};
                ft_generate_params request = set.request;
                request.on_token = round_token;
                request.on_token_ctx = &r;
                request.draft_max = k;
                request.draft_fixed = true;
                s->script = round_script;
                s->hook_ctx = &r;
                must(ft_session_generate(s, prompt, N_PROMPT, &request, &stats, &err), &err);
                assert_int_equal(stats.n_token, j + 2);
                if (k > 0) {
                    assert_int_equal(stats.draft.rounds, 1);
                    assert_int_equal(stats.draft.drafted, k);
                    assert_int_equal(stats.draft.accepted, j);
                }
                uint64_t d = session_digest(s);
                ft_session_free(s);
                if (plain[j] == 0) { /* the same text by plain steps */
                    must(ft_session_create(&s, m, &set.session, &err), &err);
                    r.n = 0;
                    request.draft_max = 0;
                    must(ft_session_generate(s, prompt, N_PROMPT, &request, &stats, &err), &err);
                    plain[j] = session_digest(s);
                    ft_session_free(s);
                }
                if (d != plain[j])
                    fail_msg("%s: draft %d, accept %d: another state", model_arch_name(arch[a]), k,
                             j);
            }
        ft_model_close(m);
    }
}

/* Catches a round that overruns the limit on tokens or the context, or an end of text inside an accepted
 * draft that is passed over (B023, B024, B028, B029, B066). */
static void test_limits_and_ends_inside_a_draft(void **state)
{
    (void)state;
    char path[TEST_PATH_MAX];
    ft_model *m;
    ft_error err = {0};
    must(ft_model_open(&m, family(MODEL_QWEN4EXP, path, "-l"), NULL, &err), &err);
    int32_t prompt[N_PROMPT];
    prompt_of(prompt, N_PROMPT, 300);
    uint64_t end, want;
    ft_generate_stats stats, plain;
    for (int n = 1; n <= 9; n++) { /* every phase of the limit within a block of four */
        setting set = plain_setting(1.2f, 64);
        set.request.n_max = n;
        probe truth = run(m, &set, prompt, N_PROMPT, NULL, &want, &plain);
        set.script = RIGHT;
        set.request.draft_max = 4;
        set.request.draft_fixed = true;
        probe p = run(m, &set, prompt, N_PROMPT, &truth.t, &end, &stats);
        assert_same(&truth, &p, "n_max");
        assert_int_equal(stats.n_token, n);
        assert_int_equal(stats.finish, FT_FINISH_LENGTH);
        assert_true(end == want);
    }
    for (int room = 0; room <= 9; room++) { /* and of the context's end */
        setting set = plain_setting(1.2f, 64);
        set.session.n_ctx = N_PROMPT + room;
        set.request.n_max = -1;
        probe truth = run(m, &set, prompt, N_PROMPT, NULL, &want, &plain);
        assert_int_equal(plain.finish, FT_FINISH_CONTEXT);
        set.script = RIGHT;
        set.request.draft_max = 4;
        set.request.draft_fixed = true;
        probe p = run(m, &set, prompt, N_PROMPT, &truth.t, &end, &stats);
        assert_same(&truth, &p, "context");
        assert_int_equal(stats.finish, FT_FINISH_CONTEXT);
        assert_true(end == want);
    }
    int n_ended = 0;
    for (uint64_t seed = 0; seed < 40; seed++) { /* texts that end by themselves, if they do */
        setting set = plain_setting(1.2f, 64);
        set.request.sample = ft_sample_params_default();
        set.request.sample.temp = 3;
        set.request.sample.top_k = 0;
        set.request.sample.top_p = 1;
        set.request.sample.min_p = 0;
        set.request.sample.seed = seed;
        set.request.ignore_eos = false;
        set.request.n_max = 300;
        probe truth = run(m, &set, prompt, N_PROMPT, NULL, &want, &plain);
        n_ended += plain.finish == FT_FINISH_STOP;
        set.script = RIGHT;
        set.request.draft_max = 7;
        set.request.draft_fixed = true;
        probe p = run(m, &set, prompt, N_PROMPT, &truth.t, &end, &stats);
        assert_same(&truth, &p, "end of text");
        assert_int_equal(stats.finish, plain.finish);
        assert_true(end == want);
    }
    assert_true(n_ended >= 5);
    ft_model_close(m);
}

/* The same on a trained model, whose drafts are mostly right: every length and temperature, and in turn
 * every draft quantisation, vocabulary, sink, chunk and number of threads. */
static void test_bundled_model_text_is_that_without_drafts(void **state)
{
    (void)state;
    static const char *const quant[] = {"file", "q8_0", "q5_0", "q4_0"};
    static const int chunk[] = {1, 7, 64, 512};
    static const char text[] =
        "It was a dark night, and the old man had no light but that of the moon, "
        "which stood above the hill behind the house.";
    probe truth[ARRAY_LEN(temps)];
    uint64_t want[ARRAY_LEN(temps)], accepted = 0;
    memset(truth, 0, sizeof truth);
    for (int q = 0; q < 4; q++) {
        ft_model *m;
        ft_error err = {0};
        int32_t *prompt;
        size_t n;
        ft_model_params mp = {.n_thread = 1 + q % 2,
                              .draft_quant = quant[q],
                              .draft_quant_mixers = quant[(q + 1) % 4],
                              .draft_vocab = q % 2 ? "models/foretoken-sample.draft-vocab" : NULL};
        must(ft_model_open(&m, "models/foretoken-sample.gguf", &mp, &err), &err);
        must(ft_tokenize(m, text, strlen(text), false, &prompt, &n, &err), &err);
        for (size_t t = 0; t < ARRAY_LEN(temps); t++)
            for (int k = 0; k <= 8; k++) {
                uint64_t end;
                ft_generate_stats stats;
                char what[64];
                setting set = plain_setting(temps[t], chunk[(k + q) % 4]);
                set.request.draft_max = k;
                set.request.draft_fixed = true;
                set.session.sink = k % 2 ? 64 : 0;
                probe p = run(m, &set, prompt, (int)n, NULL, &end, &stats);
                if (q == 0 && k == 0) {
                    truth[t] = p;
                    want[t] = end;
                }
                snprintf(what, sizeof what, "temp %g k %d %s", (double)temps[t], k, quant[q]);
                assert_same(&truth[t], &p, what);
                assert_true(end == want[t]);
                accepted += stats.draft.accepted;
            }
        ft_free(prompt);
        ft_model_close(m);
    }
    assert_true(accepted > 500); /* a drafter that is always wrong would prove little */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draft_lengths_and_temperatures_change_nothing),
        cmocka_unit_test(test_scripted_drafters_change_nothing),
        cmocka_unit_test(test_drafter_settings_change_nothing),
        cmocka_unit_test(test_state_behind_a_text_is_the_same_however_it_came),
        cmocka_unit_test(test_draft_k_accept_j_equals_feed_j_in_all_state),
        cmocka_unit_test(test_limits_and_ends_inside_a_draft),
        cmocka_unit_test(test_bundled_model_text_is_that_without_drafts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
