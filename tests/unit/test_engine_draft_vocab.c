/* test_engine_draft_vocab.c - draft vocabularies made from text, merged, measured, and read for a
 * model. The tiny tokenizer: ids 0..255 are bytes, then " t" 256, "he" 257, " the" 263 and so on. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "support/enginerig.h"

static const int32_t control[] = {TINY_EOS, TINY_IM_START, TINY_IM_END};
enum { N_CONTROL = 3 };

/* ---- Helpers ----------------------------------------------------------------------------------- */

static const char *write_text(char path[TEST_PATH_MAX], const char *name, const char *text,
                              size_t len)
{
    FILE *f = fopen(test_path(path, name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    return path;
}

static bool collect(void *ctx, const char *text, size_t len)
{
    buf_put(ctx, text, len);
    return true;
}

typedef struct {
    ft_draft_vocab_params p;
    ft_draft_vocab_report r;
    char text[TEST_PATH_MAX], out[TEST_PATH_MAX];
    const char *text_list[1];
    int32_t id[512];
    int n;
} made;

static bool holds(const made *d, int32_t id)
{
    return draft_vocab_row(d->id, d->n, id) >= 0;
}

/* The ids of a file that was written by hand or by the library, read without either. */
static void read_back(made *d, const char *file)
{
    d->n = 0;
    const char *s = file;
    for (int i = 0; i < 4; i++)
        s = strchr(s, '\n') + 1;
    while (strncmp(s, "end\n", 4) != 0) {
        char *end;
        long a = strtol(s, &end, 10), b = *end == '-' ? strtol(end + 1, &end, 10) : a;
        for (; a <= b; a++) {
            assert_true(d->n < 512);
            d->id[d->n++] = (int32_t)a;
        }
        assert_int_equal(*end, '\n');
        s = end + 1;
    }
    assert_string_equal(s, "end\n");
}

/* Build from text (NULL: none) by d->p and keep the file as out. */
static void build(made *d, const ft_model *m, const char *out, const char *text)
{
    if (text) {
        d->text_list[0] = write_text(d->text, "text.txt", text, strlen(text));
        d->p.text = d->text_list;
        d->p.n_text = 1;
    }
    buf b;
    buf_init(&b, 1 << 20);
    OK(ft_draft_vocab_build(m, &d->p, collect, &b, &d->r, &rig_err));
    const char *file = buf_cstr(&b);
    read_back(d, file);
    assert_int_equal(d->r.all.n_draft, d->n);
    write_text(d->out, out, file, b.len);
    buf_deinit(&b);
}

static made start(void)
{
    return (made){.p = ft_draft_vocab_params_default()};
}

static void assert_coverage(const ft_coverage *c, int n_draft, uint64_t n_covered, uint64_t n_token)
{
    assert_int_equal(c->n_draft, n_draft);
    assert_int_equal(c->n_covered, n_covered);
    assert_int_equal(c->n_token, n_token);
}

/* ---- Building ---------------------------------------------------------------------------------- */

/* Catches a coverage that stops one token early or late, and ties that are not by id. */
static void test_build_by_coverage_takes_the_most_frequent(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    static const struct {
        double coverage;
        int n;
        const char *in, *out;
        uint64_t covered;
    } known[] = {
        /* Tokens of the text: "x" four times, "q" and "z" twice each, "k" once, "j" once. */
        {0.0, 0, "", "xqzkj", 0}, {0.4, 1, "x", "qzkj", 4},   {0.41, 2, "xq", "zkj", 6},
        {0.6, 2, "xq", "zkj", 6}, {0.8, 3, "xqz", "kj", 8},   {0.81, 4, "xqzj", "k", 9},
        {0.9, 4, "xqzj", "k", 9}, {0.99, 5, "xqzjk", "", 10}, {1.0, 5, "xqzjk", "", 10},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        made d = start();
        d.p.coverage = known[i].coverage;
        d.p.no_bytes = true;
        build(&d, m, "a.dv", "xxxxqzqzkj");
        assert_int_equal(d.n, N_CONTROL + known[i].n);
        for (int k = 0; k < N_CONTROL; k++)
            assert_true(holds(&d, control[k])); /* always in */
        for (const char *c = known[i].in; *c; c++)
            assert_true(holds(&d, *c));
        for (const char *c = known[i].out; *c; c++)
            assert_false(holds(&d, *c));
        assert_coverage(&d.r.all, d.n, known[i].covered, 10);
        assert_int_equal(d.r.all.n_vocab, 320);
    }
    ft_model_close(m);
}

/* Catches a number of tokens that does not count those always in, or is filled with other than the
 * lowest ids when the text has too few. */
static void test_build_by_count_gives_that_many(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    made d = start();
    d.p.no_bytes = true;
    d.p.count = 5;
    build(&d, m, "a.dv", "xxxxqzqzkj");
    assert_int_equal(d.n, 5);
    assert_true(holds(&d, 'x') && holds(&d, 'q'));
    d.p.count = 10;
    build(&d, m, "a.dv", "xxxxqzqzkj");
    assert_int_equal(d.n, 10);
    assert_true(holds(&d, 'k') && holds(&d, 0) && holds(&d, 1) && !holds(&d, 2));
    d = start();
    d.p.count = 320; /* all, without any text */
    build(&d, m, "a.dv", NULL);
    assert_int_equal(d.n, 320);
    assert_int_equal(d.r.head_bytes, d.r.full_head_bytes);
    assert_coverage(&d.r.all, 320, 0, 0);
    d.p.count = 258;
    FAILS(ft_draft_vocab_build(m, &d.p, collect, NULL, NULL, &rig_err), FT_ARG,
          "count: 258, but 259 tokens are always in");
    ft_model_close(m);
}

/* Catches bytes left out: then text of rare characters cannot be drafted at all. B091 */
static void test_build_has_all_single_bytes_by_default(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    made d = start();
    build(&d, m, "a.dv", " the the");
    assert_int_equal(d.n, 256 + N_CONTROL + 1);
    for (int b = 0; b < 256; b++)
        assert_true(holds(&d, b));
    assert_true(holds(&d, 263));
    assert_coverage(&d.r.all, d.n, 2, 2);
    /* The head is [320][64] F32. */
    assert_int_equal(d.r.full_head_bytes, 320 * 64 * 4);
    assert_int_equal(d.r.head_bytes, 260 * 64 * 4);
    ft_model_close(m);
}

/* Catches special tokens counted as their letters, and a token counted in another script. */
static void test_report_counts_by_script(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    made d = start();
    d.p.no_bytes = true;
    d.p.coverage = 0;
    /* " the" | " " "7" | "!" "!" | <|im_end|> | two bytes of U+0416 | "q" */
    build(&d, m, "a.dv", " the 7!!<|im_end|>\xD0\x96q");
    assert_coverage(&d.r.all, 3, 1, 9);
    assert_coverage(&d.r.script[FT_SCRIPT_SPECIAL], 3, 1, 1);
    assert_coverage(&d.r.script[FT_SCRIPT_LATIN], 0, 0, 2);
    assert_coverage(&d.r.script[FT_SCRIPT_DIGIT], 0, 0, 1);
    assert_coverage(&d.r.script[FT_SCRIPT_PUNCT], 0, 0, 3);
    assert_coverage(&d.r.script[FT_SCRIPT_PART], 0, 0, 2);
    assert_coverage(&d.r.script[FT_SCRIPT_CYRILLIC], 0, 0, 0);
    assert_int_equal(d.r.script[FT_SCRIPT_DIGIT].n_vocab, 10);
    assert_int_equal(d.r.script[FT_SCRIPT_PART].n_vocab, 128);
    assert_int_equal(d.r.script[FT_SCRIPT_SPECIAL].n_vocab, 3);
    ft_coverage sum = {0};
    for (int i = 0; i < FT_N_SCRIPT; i++) {
        sum.n_vocab += d.r.script[i].n_vocab;
        sum.n_token += d.r.script[i].n_token;
    }
    assert_int_equal(sum.n_vocab, 320);
    assert_int_equal(sum.n_token, 9);
    ft_model_close(m);
}

/* Catches a text cut into pieces inside a token: counts of a long text are those of the whole. */
static void test_build_long_text_counts_as_the_whole(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    static const char *const part[] = {" the",          "\n",    "\n\n ", "in g",     "!!\n",
                                       "he\n\nreading", "\r\n",  "    ",  "\xD0\x96", "7",
                                       "<|im_end|>",    " on\n", "\n...", "x\ny",     "\t\n"};
    buf b;
    buf_init(&b, (size_t)1 << 24);
    uint32_t x = 1;
    buf_puts(&b, "q"); /* 1 MiB, where a first cut is looked for, is inside of a " the" */
    while (b.len < (1 << 20) + 100)
        buf_puts(&b, part[0]);
    while (b.len < 2600000) {
        x = x * 1664525u + 1013904223u;
        buf_puts(&b, part[(x >> 16) % ARRAY_LEN(part)]);
    }
    const char *text = buf_cstr(&b);
    made d = start();
    d.p.coverage = 1;
    d.p.no_bytes = true;
    build(&d, m, "a.dv", text);
    int32_t *id;
    size_t n;
    OK(ft_tokenize(m, text, b.len, true, &id, &n, &rig_err));
    uint64_t count[320] = {0};
    int n_distinct = 0;
    for (size_t i = 0; i < n; i++)
        n_distinct += count[id[i]]++ == 0;
    assert_int_equal(d.r.all.n_token, n);
    assert_int_equal(d.r.all.n_covered, n);
    assert_int_equal(d.r.script[FT_SCRIPT_SPECIAL].n_token, count[TINY_IM_END]);
    assert_int_equal(d.n, n_distinct + 2); /* two control tokens are not in the text */
    /* The tokens of line ends are what a wrong cut would change. */
    uint64_t punct = 0;
    for (int32_t t = 0; t < 312; t++)
        punct += tok_script(m->tok, t) == FT_SCRIPT_PUNCT ? count[t] : 0;
    assert_int_equal(d.r.script[FT_SCRIPT_PUNCT].n_token, punct);
    ft_free(id);
    buf_deinit(&b);
    ft_model_close(m);
}

/* Catches a merge that loses tokens of a file, or of the text. */
static void test_merge_is_the_union(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    made a = start(), b = start(), c = start();
    a.p.no_bytes = b.p.no_bytes = c.p.no_bytes = true;
    build(&a, m, "a.dv", "xxqq");
    build(&b, m, "b.dv", "qz\xD0\x96");
    const char *files[] = {a.out, b.out};
    c.p.merge = files;
    c.p.n_merge = 2;
    build(&c, m, "c.dv", NULL);
    assert_int_equal(c.n, N_CONTROL + 5); /* x q z and two bytes */
    for (int i = 0; i < a.n; i++)
        assert_true(holds(&c, a.id[i]));
    for (int i = 0; i < b.n; i++)
        assert_true(holds(&c, b.id[i]));
    build(&c, m, "c.dv", "kk"); /* and text besides */
    assert_int_equal(c.n, N_CONTROL + 6);
    assert_true(holds(&c, 'k') && holds(&c, 'x'));
    ft_model_close(m);
}

/* ---- Inspecting -------------------------------------------------------------------------------- */

/* Catches a coverage of one text reported for another. B091 */
static void test_inspect_other_text_shows_what_is_missing(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    made d = start();
    d.p.no_bytes = true;
    build(&d, m, "a.dv", "xxxxqqqqzzzz");
    char path[2][TEST_PATH_MAX];
    const char *list[] = {write_text(path[0], "one.txt", "xyxy", 4),
                          write_text(path[1], "two.txt", "\xD0\x96\xD0\x96z", 5)};
    ft_draft_vocab_params p = {.text = list, .n_text = 2};
    ft_draft_vocab_report r;
    OK(ft_draft_vocab_inspect(m, d.out, &p, &r, &rig_err));
    assert_coverage(&r.all, 6, 3, 9);
    assert_coverage(&r.script[FT_SCRIPT_LATIN], 3, 3, 5);
    assert_coverage(&r.script[FT_SCRIPT_PART], 0, 0, 4);
    OK(ft_draft_vocab_inspect(m, d.out, NULL, &r, &rig_err));
    assert_coverage(&r.all, 6, 0, 0);
    ft_model_close(m);
}

/* Catches a bound of "poor" that is off by one. */
static void test_coverage_poor_is_under_80_percent_of_16_tokens(void **state)
{
    (void)state;
    static const struct {
        uint64_t covered, total;
        bool poor;
    } known[] = {{0, 0, false},   {0, 15, false},  {0, 16, true},    {12, 16, true},
                 {13, 16, false}, {79, 100, true}, {80, 100, false}, {100, 100, false}};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        ft_coverage c = {.n_token = known[i].total, .n_covered = known[i].covered};
        assert_int_equal(ft_coverage_is_poor(&c), known[i].poor);
    }
}

/* ---- A model with one -------------------------------------------------------------------------- */

static ft_status open_with(ft_model **out, const tiny_opts *o, const char *vocab)
{
    char path[TEST_PATH_MAX];
    tiny_write(test_path(path, "with.gguf"), o);
    ft_model_params p = {.n_thread = 1, .draft_vocab = vocab};
    return ft_model_open(out, path, &p, &rig_err);
}

/* Catches rows of the trunk's head where the draft head has its own, and a prompt's poor script that
 * is not told. B089 B091 */
static void test_open_gathers_the_draft_heads_own_rows(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    o.mtp_head = true; /* other values than the trunk's */
    o.type[TINY_HEAD] = DTYPE_Q8_0;
    ft_model *m = rig_model_of(&o, 1, NULL);
    made d = start();
    d.p.no_bytes = true;
    build(&d, m, "own.dv", "xxqqzz");
    ft_draft_vocab_report r;
    FAILS(ft_draft_vocab_coverage(m, d.id, 1, &r, &rig_err), FT_UNSUPPORTED, "without one");
    ft_model_info info;
    ft_model_get_info(m, &info);
    assert_int_equal(info.n_draft_vocab, 0);
    assert_string_equal(info.no_draft_vocab_reason, "");
    ft_model_close(m);

    OK(open_with(&m, &o, d.out));
    ft_model_get_info(m, &info);
    assert_int_equal(info.n_draft_vocab, 6);
    assert_string_equal(info.no_draft_vocab_reason, "");
    const tensor *head = &m->m->mtp.head, *part = &m->vocab->head;
    assert_ptr_not_equal(head->data, m->m->output.data);
    assert_int_equal(part->type, DTYPE_Q8_0);
    for (int i = 0; i < m->vocab->n; i++)
        assert_memory_equal((const uint8_t *)part->data + (size_t)i * part->row_bytes,
                            (const uint8_t *)head->data + (size_t)d.id[i] * head->row_bytes,
                            part->row_bytes);

    int32_t prompt[40];
    for (int i = 0; i < 40; i++)
        prompt[i] = i < 20 ? 'x' : 0xD0;
    OK(ft_draft_vocab_coverage(m, prompt, 40, &r, &rig_err));
    assert_coverage(&r.all, 6, 20, 40);
    assert_true(ft_coverage_is_poor(&r.script[FT_SCRIPT_PART]));
    assert_false(ft_coverage_is_poor(&r.script[FT_SCRIPT_LATIN]));
    prompt[7] = 320;
    FAILS(ft_draft_vocab_coverage(m, prompt, 40, &r, &rig_err), FT_RANGE, "token 7: id 320");
    prompt[7] = -1;
    FAILS(ft_draft_vocab_coverage(m, prompt, 40, &r, &rig_err), FT_RANGE, "token 7: id -1");
    ft_model_close(m);
}

/* Catches a vocabulary that is taken without a draft head, or refused without a word. */
static void test_open_without_draft_head_says_why_it_is_not_used(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.n_mtp = o.n_mtp_told = 0;
    ft_model *m;
    OK(open_with(&m, &o, "tests/no-such.dv"));
    ft_model_info info;
    ft_model_get_info(m, &info);
    assert_int_equal(info.n_draft_vocab, 0);
    assert_non_null(strstr(info.no_draft_vocab_reason, "no draft head: "));
    assert_null(m->vocab);
    ft_model_close(m);
}

/* Catches a file of another model that is used: every draft would be a wrong token. B089 */
static void test_open_file_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35), larger = o;
    larger.n_vocab = 384;
    ft_model *m = rig_model_of(&larger, 1, NULL);
    made d = start();
    build(&d, m, "larger.dv", "xx");
    ft_model_close(m);
    FAILS(open_with(&m, &o, d.out), FT_MISMATCH,
          "larger.dv: draft vocabulary: line 2: made for 384");
    assert_null(m);
    FAILS(open_with(&m, &o, "tests/no-such.dv"), FT_IO, "tests/no-such.dv");
    char path[TEST_PATH_MAX];
    static const char other[] =
        "foretoken-draft-vocab 1\nvocab 320\ntokenizer 0123456789abcdef\nn 1\n0\nend\n";
    write_text(path, "other.dv", other, sizeof other - 1);
    FAILS(open_with(&m, &o, path), FT_MISMATCH, "made for tokenizer 0123456789abcdef, the model's");
    o.no_tokenizer = true;
    FAILS(open_with(&m, &o, path), FT_UNSUPPORTED, "no tokenizer");
    assert_null(m);
}

/* Catches a hash that does not see the tokens, and one that changed: every file made before would be
 * refused. */
static void test_file_names_its_tokenizer(void **state)
{
    (void)state;
    static const int n_vocab[] = {320, 384};
    static const char *const want[] = {"vocab 320\ntokenizer f8d486cfb95d7ae5\n",
                                       "vocab 384\ntokenizer 88dc29fab271987a\n"};
    for (int i = 0; i < 2; i++) {
        tiny_opts o = tiny_default(MODEL_QWEN35);
        o.n_vocab = n_vocab[i];
        ft_model *m = rig_model_of(&o, 1, NULL);
        ft_draft_vocab_params p = {.count = 300};
        buf b;
        buf_init(&b, 1 << 20);
        OK(ft_draft_vocab_build(m, &p, collect, &b, NULL, &rig_err));
        if (!strstr(buf_cstr(&b), want[i]))
            fail_msg("%.80s, want %s", buf_cstr(&b), want[i]);
        buf_deinit(&b);
        ft_model_close(m);
    }
}

/* ---- Refusals ---------------------------------------------------------------------------------- */

static bool refuse(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    (void)text;
    (void)len;
    return false;
}

static bool stop(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    (void)ctx;
    assert_string_equal(what, "counting");
    assert_true(done > 0 && done <= total);
    return false;
}

/* Catches a wrong wish that is taken for another, and an answer of the caller that is not heard. */
static void test_build_wrong_wishes_are_refused(void **state)
{
    (void)state;
    ft_model *m = rig_model(MODEL_QWEN35);
    char path[TEST_PATH_MAX];
    const char *text[] = {write_text(path, "text.txt", "xx", 2)}, *none[] = {"tests/no-such.txt"};
    char empty_path[TEST_PATH_MAX];
    const char *empty[] = {write_text(empty_path, "empty.txt", "", 0)};
    ft_draft_vocab_params p = ft_draft_vocab_params_default(), good = p;
    good.text = text;
    good.n_text = 1;
    buf b;
    buf_init(&b, 1 << 20);
    FAILS(ft_draft_vocab_build(m, &p, collect, &b, NULL, &rig_err), FT_ARG, "text: no tokens");
    p.text = empty;
    p.n_text = 1;
    FAILS(ft_draft_vocab_build(m, &p, collect, &b, NULL, &rig_err), FT_ARG, "text: no tokens");
    p.text = none;
    FAILS(ft_draft_vocab_build(m, &p, collect, &b, NULL, &rig_err), FT_IO, "tests/no-such.txt");
    static const double bad[] = {-0.01, 1.01, 99, 0.0 / 0.0};
    for (int i = 0; i < 4; i++) {
        p = good;
        p.coverage = bad[i];
        FAILS(ft_draft_vocab_build(m, &p, collect, &b, NULL, &rig_err), FT_ARG, "want 0 to 1");
    }
    p = good;
    p.count = 321;
    FAILS(ft_draft_vocab_build(m, &p, collect, &b, NULL, &rig_err), FT_ARG, "count: 321");
    p.count = -1;
    FAILS(ft_draft_vocab_build(m, &p, collect, &b, NULL, &rig_err), FT_ARG, "count: -1");
    p = good;
    p.merge = text;
    p.n_merge = 1;
    FAILS(ft_draft_vocab_build(m, &p, collect, &b, NULL, &rig_err), FT_FORMAT,
          "text.txt: draft vocabulary: line 1");
    p = good;
    p.progress = stop;
    FAILS(ft_draft_vocab_build(m, &p, collect, &b, NULL, &rig_err), FT_CANCELLED, "stopped");
    assert_int_equal(b.len, 0);
    FAILS(ft_draft_vocab_build(m, &good, refuse, NULL, NULL, &rig_err), FT_CANCELLED, "stopped");
    buf_deinit(&b);
    ft_model_close(m);
    tiny_opts o = tiny_default(MODEL_QWEN35);
    o.no_tokenizer = true;
    m = rig_model_of(&o, 1, NULL);
    FAILS(ft_draft_vocab_build(m, &good, refuse, NULL, NULL, &rig_err), FT_UNSUPPORTED,
          "no tokenizer");
    ft_draft_vocab_report r;
    FAILS(ft_draft_vocab_inspect(m, path, NULL, &r, &rig_err), FT_UNSUPPORTED, "no tokenizer");
    ft_model_close(m);
}

/* Allocations that a call may do without: the dozen of PCRE2 for machine code, made if it can. */
enum { MAX_SPARED = 16 };

/* Catches a failed allocation that is used, or leaks what came before it, in each of the calls. */
static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    ft_model *m = rig_model_of(&o, 1, NULL);
    made d = start();
    build(&d, m, "a.dv", "the cat in the hat");
    const char *files[] = {d.out};
    d.p.merge = files;
    d.p.n_merge = 1;
    char path[TEST_PATH_MAX];
    tiny_write(test_path(path, "with.gguf"), &o);
    ft_model_params mp = {.n_thread = 1, .draft_vocab = d.out};
    for (int call = 0; call < 3; call++) {
        int n_failed = 0, n_spared = 0;
        for (int k = 1;; k++) {
            assert_true(k < 5000);
            ft_error err = {0};
            ft_model *opened = NULL;
            ft_draft_vocab_report r;
            long before = mem_count();
            mem_fail_at(k);
            ft_status st = call == 0   ? ft_draft_vocab_build(m, &d.p, refuse, NULL, &r, &err)
                           : call == 1 ? ft_draft_vocab_inspect(m, d.out, &d.p, &r, &err)
                                       : ft_model_open(&opened, path, &mp, &err);
            bool failed = mem_count() - before >= k;
            mem_fail_at(0);
            ft_model_close(opened);
            ft_status done = call == 0 ? FT_CANCELLED : FT_OK; /* by refuse */
            if (!failed) {
                assert_int_equal(st, done);
                break;
            }
            n_failed++;
            if (st == done && ++n_spared <= MAX_SPARED)
                continue;
            if (st != FT_NOMEM || !err.msg[0])
                fail_msg("call %d, allocation %d: status %d '%s'", call, k, st, err.msg);
        }
        assert_true(n_failed > 5);
    }
    ft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_build_by_coverage_takes_the_most_frequent),
        cmocka_unit_test(test_build_by_count_gives_that_many),
        cmocka_unit_test(test_build_has_all_single_bytes_by_default),
        cmocka_unit_test(test_report_counts_by_script),
        cmocka_unit_test(test_build_long_text_counts_as_the_whole),
        cmocka_unit_test(test_merge_is_the_union),
        cmocka_unit_test(test_inspect_other_text_shows_what_is_missing),
        cmocka_unit_test(test_coverage_poor_is_under_80_percent_of_16_tokens),
        cmocka_unit_test(test_open_gathers_the_draft_heads_own_rows),
        cmocka_unit_test(test_open_without_draft_head_says_why_it_is_not_used),
        cmocka_unit_test(test_open_file_that_does_not_fit_is_refused),
        cmocka_unit_test(test_file_names_its_tokenizer),
        cmocka_unit_test(test_build_wrong_wishes_are_refused),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
