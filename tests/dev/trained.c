/* trained.c - development test: the trained sample models in BF16 against their reference vectors.
 *
 *     make trained SAMPLE=<folder of the checkpoint> VECTORS=<folder of its vectors>
 *
 * The checkpoints (20 and 47 MB) are not in the repository, so this is not part of `make check`. Prints
 * what it measured; exit code 1 when a bound is missed. */
#include <foretoken/foretoken.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/golden.h"
#include "support/tmpdir.h"

static int n_failed;

static void expect(bool ok, const char *what)
{
    if (ok)
        return;
    printf("FAILED: %s\n", what);
    n_failed++;
}

static void must(ft_status st, const ft_error *err)
{
    if (st == FT_OK)
        return;
    printf("FAILED: %s\n", err->msg);
    exit(1);
}

static int best_of(const float *row, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

/* KL divergence of softmax(b) from softmax(a). */
static double kl(const float *a, const float *b, int n)
{
    double ma = -HUGE_VAL, mb = -HUGE_VAL, sa = 0, sb = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        ma = fmax(ma, (double)a[i]);
        mb = fmax(mb, (double)b[i]);
    }
    for (int i = 0; i < n; i++) {
        sa += exp((double)a[i] - ma);
        sb += exp((double)b[i] - mb);
    }
    for (int i = 0; i < n; i++) {
        double la = (double)a[i] - ma - log(sa), lb = (double)b[i] - mb - log(sb);
        sum += exp(la) * (la - lb);
    }
    return sum;
}

/* The cells that the last position attends to, per layer. */
typedef struct {
    const char *dir;
    int n_checked;
} selection;

static void on_stage(void *ctx, const char *name, const void *rows, bool is_int, int n_row,
                     int n_col)
{
    (void)is_int;
    selection *s = ctx;
    int layer;
    golden want;
    char key[64];
    if (sscanf(name, "stage_L%d.selecte%*c", &layer) != 1 || !strstr(name, ".selected"))
        return;
    snprintf(key, sizeof key, "selected_L%d", layer);
    if (!golden_load(&want, s->dir, "long", key))
        return;
    const int32_t *last = (const int32_t *)rows + (size_t)(n_row - 1) * (size_t)n_col;
    bool same = want.n_col <= n_col && memcmp(last, want.v.i, (size_t)want.n_col * 4) == 0 &&
                (want.n_col == n_col || last[want.n_col] == -1);
    expect(same, key);
    s->n_checked++;
    golden_free(&want);
}

typedef struct {
    ft_model *m;
    ft_session *s;
    ft_model_info info;
    const char *dir;
} rig;

static float *rows_of(rig *r, const int32_t *tok, int n, int n_single, selection *sel)
{
    float *l = calloc((size_t)n * (size_t)r->info.n_vocab, sizeof *l);
    ft_error err = {0};
    ft_session_reset(r->s);
    for (int i = 0; i < n;) {
        int rows = i < n - n_single ? n - n_single - i : 1;
        ft_eval_out out = {.logits = l + (size_t)i * (size_t)r->info.n_vocab};
        if (sel) {
            out.stage = on_stage;
            out.stage_ctx = sel;
        }
        must(ft_session_eval_rows(r->s, tok + i, rows, &out, &err), &err);
        i += rows;
    }
    return l;
}

static void check_case(rig *r, const char *name, int n_single)
{
    golden tok, want, argmax;
    selection sel = {.dir = r->dir};
    golden_load(&tok, r->dir, name, "tokens");
    golden_load(&want, r->dir, name, "logits");
    int n = tok.n_col, v = r->info.n_vocab;
    float *l = rows_of(r, tok.v.i, n, n_single, strcmp(name, "long") == 0 ? &sel : NULL);
    /* Cases of 40 tokens kept these rows; the others kept the last ones. */
    static const int kept[] = {0, 1, 2, 3, 7, 15, 23, 31, 36, 37, 38, 39};
    float *last = calloc((size_t)want.n_row * (size_t)v, sizeof *last);
    for (int i = 0; i < want.n_row; i++) {
        int row = want.n_row == 12 && n == 40 ? kept[i] : n - want.n_row + i;
        memcpy(last + (size_t)i * (size_t)v, l + (size_t)row * (size_t)v, (size_t)v * sizeof *last);
    }
    double mean = 0;
    for (int i = 0; i < want.n_row; i++)
        mean += kl(want.v.f + (size_t)i * (size_t)v, last + (size_t)i * (size_t)v, v) / want.n_row;
    int n_same = 0, n_argmax = 0;
    if (golden_load(&argmax, r->dir, name, "argmax")) {
        n_argmax = n;
        for (int t = 0; t < n; t++)
            n_same += best_of(l + (size_t)t * (size_t)v, v) == argmax.v.i[t];
        golden_free(&argmax);
    }
    double d = golden_rel_diff(last, want.v.f, (size_t)want.n_row * (size_t)v);
    printf("%-12s %3d rows: largest difference %.2g of the largest logit, mean KL %.2g, argmax %d "
           "of %d\n",
           name, want.n_row, d, mean, n_same, n_argmax);
    expect(mean < 1e-4 && d <= 1e-3 && n_same == n_argmax, name);
    float *single = rows_of(r, tok.v.i, n, n > 100 ? 8 : n, NULL);
    expect(memcmp(l, single, (size_t)n * (size_t)v * sizeof *l) == 0,
           "one token a call: other bits");
    if (sel.n_checked)
        printf("             selected cells of %d layers are the reference's\n", sel.n_checked);
    free(last);
    free(l);
    free(single);
    golden_free(&tok);
    golden_free(&want);
}

static void check_greedy(rig *r)
{
    golden tok, want;
    golden_load(&tok, r->dir, "greedy", "tokens");
    golden_load(&want, r->dir, "greedy", "continuation");
    ft_error err = {0};
    const float *row;
    int n_same = 0;
    ft_session_reset(r->s);
    must(ft_session_eval(r->s, tok.v.i, tok.n_col, &row, &err), &err);
    for (int i = 0; i < want.n_col; i++) {
        int32_t id = best_of(row, r->info.n_vocab);
        n_same += id == want.v.i[i];
        must(ft_session_eval(r->s, &id, 1, &row, &err), &err);
    }
    printf("greedy       %d of %d tokens of the continuation\n", n_same, want.n_col);
    expect(n_same == want.n_col, "greedy");
    golden_free(&tok);
    golden_free(&want);
}

/* The draft head: teacher-forced rows that were kept, and the chain. */
static void check_drafts(rig *r, const char *name, int sink, int window)
{
    static const int kept[] = {0, 1, 2, 3, 7, 15, 23, 31, 36, 37, 38};
    golden tok, want, chain, chain_tok;
    golden_load(&tok, r->dir, name, "tokens");
    golden_load(&want, r->dir, name, "logits");
    golden_load(&chain, r->dir, name, "chain_logits");
    golden_load(&chain_tok, r->dir, name, "chain_tokens");
    size_t v = (size_t)r->info.n_vocab;
    int n = tok.n_col;
    float *l = calloc((size_t)(n - 1 + chain.n_row) * v, sizeof *l);
    int32_t ids[16];
    ft_draft_eval e = {
        .sink = sink, .window = window, .n_chain = chain.n_row, .logits = l, .chain_tokens = ids};
    ft_error err = {0};
    must(ft_session_eval_draft(r->s, tok.v.i, n, &e, &err), &err);
    double d = golden_rel_diff(l + (size_t)(n - 1) * v, chain.v.f, (size_t)chain.n_row * v),
           mean = 0;
    for (int i = 0; i < want.n_row; i++) {
        const float *row = l + (size_t)kept[i] * v;
        d = fmax(d, golden_rel_diff(row, want.v.f + (size_t)i * v, v));
        mean += kl(want.v.f + (size_t)i * v, row, (int)v) / want.n_row;
    }
    bool same = memcmp(ids, chain_tok.v.i, (size_t)chain_tok.n_col * sizeof *ids) == 0;
    printf("%-12s %3d rows: largest difference %.2g of the largest logit, mean KL %.2g, chain %s\n",
           name, want.n_row + chain.n_row, d, mean, same ? "the same" : "DIFFERS");
    expect(mean < 1e-4 && d <= 1e-3 && same, name);
    free(l);
    golden *all[] = {&tok, &want, &chain, &chain_tok};
    for (int i = 0; i < 4; i++)
        golden_free(all[i]);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: trained CHECKPOINT VECTORS\n");
        return 2;
    }
    char path[TEST_PATH_MAX];
    ft_error err = {0};
    ft_convert_params cp = {.dir = argv[1], .out = test_path(path, "trained.gguf"), .type = "bf16"};
    rig r = {.dir = argv[2]};
    must(ft_convert(&cp, &err), &err);
    must(ft_model_open(&r.m, path, NULL, &err), &err);
    ft_session_params sp = {.n_ctx = 1024, .n_chunk = 1024, .kv_type = "f32"};
    must(ft_session_create(&r.s, r.m, &sp, &err), &err);
    ft_model_get_info(r.m, &r.info);
    check_case(&r, "short", 0);
    check_case(&r, "eos", 0);
    check_case(&r, "long", 0);
    check_case(&r, "decode", 12);
    check_case(&r, "decode_long", 8);
    check_greedy(&r);
    check_drafts(&r, "mtp", 64, FT_WINDOW_ALL);
    check_drafts(&r, "mtp_window", 4, 7);
    ft_session_free(r.s);
    ft_model_close(r.m);
    printf("%s\n", n_failed ? "FAILED" : "all within bounds");
    return n_failed != 0;
}
