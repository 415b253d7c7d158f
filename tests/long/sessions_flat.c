/* sessions_flat.c - resident memory stays flat over ten thousand short sessions.
 *
 * Sessions are created, read a prompt, make a few tokens with drafts and are freed: each with a batch of its
 * own, then four at a time in one batch. Between the 1,000th and the last, resident memory may grow by
 * MAX_GROWTH: one allocation per session that is not freed, of the smallest size (32 bytes), is more.
 */
#include <foretoken/foretoken.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/tinymodel.h"
#include "support/tmpdir.h"

enum { N_FIRST = 1000, N_SESSION = 10000, N_SLOT = 4, N_PROMPT = 5, MAX_GROWTH = 256 << 10 };

static void must(ft_status st, const ft_error *err)
{
    if (st == FT_OK)
        return;
    fprintf(stderr, "sessions_flat: %s\n", err->msg);
    exit(1);
}

static long resident_bytes(void)
{
    long pages[2] = {0, 0};
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &pages[0], &pages[1]) != 2) {
        fprintf(stderr, "sessions_flat: /proc/self/statm cannot be read\n");
        exit(1);
    }
    fclose(f);
    return pages[1] * sysconf(_SC_PAGESIZE);
}

/* Requests differ in prompt, seed and temperature; every fourth is left before its end. */
static uint64_t run_slots(ft_model *m, ft_batch *b, int n, int first)
{
    static const int mark[] = {3};
    ft_error err = {0};
    ft_session *s[N_SLOT];
    ft_generation *g[N_SLOT];
    int32_t prompt[N_SLOT][N_PROMPT];
    uint64_t drafted = 0;
    ft_session_params sp = ft_session_params_default();
    sp.n_ctx = 64;
    sp.batch = b;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < N_PROMPT; k++)
            prompt[i][k] = (first + i * 7 + k * 13) % 300;
        ft_generate_params p = ft_generate_params_default();
        p.n_max = 4;
        p.ignore_eos = true;
        p.sample.seed = (uint64_t)(first + i);
        p.sample.temp = i % 2 ? 0.8f : 0;
        p.mark = mark;
        p.n_mark = 1;
        p.draft_fixed = true;
        must(ft_session_create(&s[i], m, &sp, &err), &err);
        must(ft_generation_begin(&g[i], s[i], prompt[i], N_PROMPT, &p, &err), &err);
    }
    ft_token t;
    for (int step = 0; b && step < 2; step++)
        must(ft_batch_step(b, g, n, &err), &err);
    for (int i = 0; i < n; i++) {
        ft_generate_stats stats;
        while ((first + i) % 4 != 0 && ft_generation_next(g[i], &t))
            ;
        must(ft_generation_end(g[i], &stats, &err), &err);
        drafted += stats.draft.drafted;
        ft_session_free(s[i]);
    }
    return drafted;
}

/* n_slot sessions at a time, in b or each on its own: false when memory grew. */
static bool stays_flat(const char *what, ft_model *m, ft_batch *b, int n_slot)
{
    long at_first = 0;
    uint64_t drafted = 0;
    for (int i = 0; i < N_SESSION; i += n_slot) {
        if (i == N_FIRST)
            at_first = resident_bytes();
        drafted += run_slots(m, b, n_slot, i);
    }
    long grown = resident_bytes() - at_first;
    printf("%s: %ld bytes after %d sessions, %ld more after %d, %llu drafts\n", what, at_first,
           N_FIRST, grown, N_SESSION, (unsigned long long)drafted);
    if (grown > MAX_GROWTH)
        fprintf(stderr, "%s: grown by %ld bytes, want at most %d\n", what, grown, MAX_GROWTH);
    return grown <= MAX_GROWTH && drafted > N_SESSION / 2;
}

int main(void)
{
    char path[TEST_PATH_MAX];
    tiny_opts o = tiny_default(MODEL_QWEN4EXP);
    tiny_write(test_path(path, "flat.gguf"), &o);
    ft_model_params mp = ft_model_params_default();
    mp.n_thread = 1;
    mp.checkpoint_mem = 1 << 20; /* full long before the first count */
    ft_model *m;
    ft_batch *b;
    ft_error err = {0};
    must(ft_model_open(&m, path, &mp, &err), &err);
    bool alone = stays_flat("sessions with a batch each", m, NULL, 1);
    ft_batch_params bp = {.n_session = N_SLOT, .n_chunk = 16, .n_ctx = 64};
    must(ft_batch_create(&b, m, &bp, &err), &err);
    bool together = stays_flat("sessions of one batch", m, b, N_SLOT);
    ft_batch_free(b);
    ft_model_close(m);
    printf("%d passed, %d failed\n", alone + together, 2 - alone - together);
    return alone && together ? 0 : 1;
}
