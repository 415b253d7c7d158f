/* test_engine_session_hostile.c - session files that are damaged or cannot be written: a status with a message,
 * and a session that answers as before. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "base/mem.h"
#include "engine/reuse.h"
#include "support/session_seal.h"
#include "support/sessionrig.h"

enum { CTX = 512 };

/* A session with another text than the good file's, which no failure may change. */
typedef struct {
    ft_model *m;
    ft_session *s;
    uint64_t digest;
    uint8_t *good; /* [n] a file with every kind of section */
    size_t n;
    char path[TEST_PATH_MAX];
} fixture;

static void put_file(const char *path, const uint8_t *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void open_fixture(fixture *f)
{
    *f = (fixture){.m = kept_family(MODEL_QWEN4EXP, 1 << 28)};
    f->s = kept_session(f->m, CTX, 48);
    int32_t tok[90];
    mix_texts(tok, 1, 90, 1, 90);
    for (int i = 0; i < 3; i++) {
        OK(ft_session_eval(f->s, tok + 20 * i, 20, NULL, &rig_err));
        OK(ft_session_checkpoint(f->s, &rig_err));
    }
    OK(ft_session_eval(f->s, tok + 60, 7, NULL, &rig_err));
    OK(ft_session_save(f->s, test_path(f->path, "good.session"), NULL, NULL, &rig_err));
    char *bytes;
    OK(file_read_all(&bytes, &f->n, f->path, 1 << 30, &rig_err));
    f->good = (uint8_t *)bytes;
    mix_texts(tok, 2, 90, 2, 90);
    ft_session_reset(f->s);
    OK(ft_session_eval(f->s, tok, 33, NULL, &rig_err));
    f->digest = session_digest(f->s);
    test_path(f->path, "bad.session");
}

static void close_fixture(fixture *f)
{
    mem_free(f->good);
    ft_session_free(f->s);
    ft_model_close(f->m);
}

/* bytes [n] are refused with one of two statuses and the words, by load and by info; nothing has changed. */
static void expect_bad(fixture *f, const uint8_t *bytes, size_t n, ft_status a, ft_status b,
                       const char *words)
{
    put_file(f->path, bytes, n);
    ft_error err = {0};
    ft_status st = ft_session_load(f->s, f->path, &err);
    if ((st != a && st != b) || !strstr(err.msg, words) || !strstr(err.msg, "bad.session"))
        fail_msg("status %d, message '%s', want '%s'", st, err.msg, words);
    assert_true(session_digest(f->s) == f->digest);
}

/* The good file is good still, and the session goes on as it would have. */
static void expect_whole(fixture *f)
{
    int32_t tok[40];
    mix_texts(tok, 2, 40, 2, 40);
    ft_session *t = kept_session(f->m, CTX, 48);
    const float *a, *b;
    OK(ft_session_eval(t, tok, 40, &b, &rig_err));
    OK(ft_session_eval(f->s, tok + 33, 7, &a, &rig_err));
    assert_memory_equal(a, b, 320 * sizeof *a);
    put_file(f->path, f->good, f->n);
    OK(ft_session_load(f->s, f->path, &rig_err));
    assert_int_equal(ft_session_n_past(f->s), 67);
    ft_session_free(t);
}

static int n_sections(const fixture *f)
{
    file_head h;
    memcpy(&h, f->good, sizeof h);
    return (int)h.n_section;
}

/* ---- Damage ------------------------------------------------------------------------------------------------- */

/* Catches a cut file that is half applied, or read past its end: at every section border and a byte to each
 * side, also with a head that was made to fit. B055 */
static void test_cut_files_are_refused(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    uint8_t *b = malloc(f.n + 8);
    assert_int_equal(n_sections(&f), 5 + 2 * 3);
    for (int i = -2; i <= n_sections(&f); i++)
        for (int d = -1; d <= 1; d++) {
            size_t at = i == -2              ? sizeof(file_head)
                        : i == -1            ? 1
                        : i < n_sections(&f) ? seal_section(f.good, i).offset
                                             : f.n;
            size_t n = at + (size_t)d;
            if (n == f.n)
                continue;
            memcpy(b, f.good, f.n);
            memset(b + f.n, 0, 8);
            expect_bad(&f, b, n, FT_FORMAT, FT_FORMAT, "session file: ");
            file_head h;
            memcpy(&h, b, sizeof h);
            h.n_bytes = n;
            memcpy(b, &h, sizeof h);
            seal(b, n);
            if (n > sizeof h)
                expect_bad(&f, b, n, FT_FORMAT, FT_FORMAT, "session file: ");
        }
    expect_whole(&f);
    free(b);
    close_fixture(&f);
}

/* Catches a flipped bit that is believed: one in every section's first, middle and last byte, in every byte
 * of head and table, in the end mark, and at 200 random places. B055 */
static void test_flipped_bits_are_found(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    uint8_t *b = malloc(f.n);
    memcpy(b, f.good, f.n);
    size_t n_head = sizeof(file_head) + (size_t)n_sections(&f) * sizeof(file_section);
    size_t n_try = n_head + 3 * (size_t)n_sections(&f) + 8 + 200;
    for (size_t i = 0; i < n_try; i++) {
        size_t at, k = i;
        if (k < n_head) {
            at = k;
        } else if ((k -= n_head) < 3 * (size_t)n_sections(&f)) {
            file_section s = seal_section(f.good, (int)(k / 3));
            at = s.offset + (k % 3 == 0 ? 0 : k % 3 == 1 ? s.size / 2 : s.size - 1);
        } else if ((k -= 3 * (size_t)n_sections(&f)) < 8) {
            at = f.n - 8 + k;
        } else {
            at = (size_t)rig_text((int)k) * 7919u * (k + 1) % f.n;
        }
        b[at] ^= (uint8_t)(1u << i % 8);
        expect_bad(&f, b, f.n, FT_FORMAT, FT_MISMATCH, "session file: ");
        b[at] ^= (uint8_t)(1u << i % 8);
    }
    expect_whole(&f);
    free(b);
    close_fixture(&f);
}

/* Where the number stands whose value is to be wrong. */
typedef struct {
    int section; /* -1: in the head; else in the entry of that section */
    size_t at;
    uint64_t value;
    size_t size;
    const char *words;
} wrong;

/* Catches sizes, counts and offsets that are believed because the checksum is right. */
static void test_wrong_numbers_with_right_checksums_are_refused(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    const wrong w[] = {
        {-1, offsetof(file_head, version), 2, 4, "version 2"},
        {-1, offsetof(file_head, version), 0, 4, "version 0"},
        {-1, offsetof(file_head, order), 0x04030201, 4, "order 0x4030201"},
        {-1, offsetof(file_head, n_section), 0xffffffff, 4, "sections in"},
        {-1, offsetof(file_head, n_section), 0, 4, "0 sections in"},
        {-1, offsetof(file_head, n_section), 3, 4, "3 sections in"},
        {-1, offsetof(file_head, n_section), 10, 4, "not behind the one before"},
        {-1, offsetof(file_head, n_section), 2006, 4, "sections in"},
        {-1, offsetof(file_head, n_bytes), UINT64_MAX, 8, "its head says 18446744073709551615"},
        {-1, offsetof(file_head, zero), 1, 4, "checksum is wrong"},
        {1, offsetof(file_section, size), UINT64_MAX, 8, "longer than the file"},
        {1, offsetof(file_section, size), UINT64_MAX - 500, 8, "longer than the file"},
        {1, offsetof(file_section, size), 0, 8, "not behind the one before"},
        {1, offsetof(file_section, offset), UINT64_MAX, 8, "not behind the one before"},
        {2, offsetof(file_section, offset), 40, 8, "not behind the one before"},
        {10, offsetof(file_section, size), 1, 8, "no end mark"},
        {1, offsetof(file_section, tag), 0x5858585858, 4, "section XXXX"},
        {1, offsetof(file_section, tag), 0, 4, "section ????"},
        {3, offsetof(file_section, n_tok), 66, 4, "not the one that belongs here"},
        {5, offsetof(file_section, n_tok), 0, 4, "do not ascend"},
        {5, offsetof(file_section, n_tok), 41, 4, "do not ascend"},
        {6, offsetof(file_section, n_tok), 21, 4, "do not ascend"},
        {9, offsetof(file_section, n_tok), 68, 4, "do not ascend"},
        {9, offsetof(file_section, n_tok), 0x80000000, 4, "do not ascend"},
    };
    uint8_t *b = malloc(f.n);
    for (size_t i = 0; i < ARRAY_LEN(w); i++) {
        memcpy(b, f.good, f.n);
        size_t at = w[i].at;
        if (w[i].section >= 0)
            at += sizeof(file_head) + (size_t)w[i].section * sizeof(file_section);
        memcpy(b + at, &w[i].value, w[i].size);
        seal(b, f.n);
        expect_bad(&f, b, f.n, FT_FORMAT, FT_MISMATCH, w[i].words);
    }
    expect_whole(&f);
    free(b);
    close_fixture(&f);
}

/* Catches settings and ids out of range that are believed: an id outside the vocabulary would be an index. */
static void test_wrong_settings_with_right_checksums_are_refused(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    const struct {
        size_t at;
        int32_t value;
        const char *words;
    } w[] = {
        {offsetof(file_settings, n_past), -1, "number of tokens"},
        {offsetof(file_settings, n_past), INT32_MAX, "number of tokens"},
        {offsetof(file_settings, n_past), 66, "not the one that belongs here"},
        {offsetof(file_settings, pending), 320, "token 67: id 320"},
        {offsetof(file_settings, pending), -2, "token that waits"},
        {offsetof(file_settings, n_dropped), -1, "dropped tokens"},
        {offsetof(file_settings, inexact), 2, "neither 0 nor 1"},
        {offsetof(file_settings, has_drafter), -1, "neither 0 nor 1"},
        {offsetof(file_settings, has_drafter), 0, "drafter without one"},
        {offsetof(file_settings, sink), 1025, "sink or window"},
        {offsetof(file_settings, sink), -1, "sink or window"},
        {offsetof(file_settings, window), -1, "sink or window"},
        {offsetof(file_settings, window), 7, "and window 7 in the file"},
        {offsetof(file_settings, n_checkpoint), 2, "11 sections with 2 checkpoints"},
        {offsetof(file_settings, n_checkpoint), 1001, "number of checkpoints"},
        {offsetof(file_settings, n_checkpoint), INT32_MIN, "number of checkpoints"},
        {offsetof(file_settings, arch), 0x1b1b1b1b, "a text in it is none"},
        {offsetof(file_settings, kv_type), 0x31313131, "type of cells is unknown"},
        {offsetof(file_settings, kv_type), 0x00323366, "kv_type: f32 in the file"},
        {offsetof(file_settings, cell_type), 0x00323366, "not the size that the model wants"},
        {offsetof(file_settings, model_fingerprint), 1, "belongs to another model"},
        {offsetof(file_settings, draft_fingerprint), 1, "another draft head"},
    };
    uint8_t *b = malloc(f.n);
    size_t set = seal_section(f.good, SECTION_HEAD).offset;
    for (size_t i = 0; i < ARRAY_LEN(w); i++) {
        memcpy(b, f.good, f.n);
        memcpy(b + set + w[i].at, &w[i].value, sizeof w[i].value);
        seal(b, f.n);
        expect_bad(&f, b, f.n, FT_FORMAT, FT_MISMATCH, w[i].words);
    }
    for (int i = 0; i < 3; i++) {
        static const int32_t id[] = {-1, 320, INT32_MAX};
        memcpy(b, f.good, f.n);
        memcpy(b + seal_section(b, SECTION_IDS).offset + 66 * sizeof *id, &id[i], sizeof *id);
        seal(b, f.n);
        expect_bad(&f, b, f.n, FT_FORMAT, FT_FORMAT, "token 66: id ");
    }
    expect_whole(&f);
    free(b);
    close_fixture(&f);
}

/* Catches a drafter's part that is believed: each of its first bytes changed, all checksums right. It is refused,
 * or harmless: what the session then says is the trunk's alone. */
static void test_wrong_drafter_with_right_checksums_is_refused_or_harmless(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    uint8_t *b = malloc(f.n);
    int32_t want[12];
    file_section s = seal_section(f.good, SECTION_DRAF);
    int n_refused = 0;
    for (int i = -1; i < 64; i++) {
        memcpy(b, f.good, f.n);
        if (i >= 0)
            b[s.offset + (size_t)i] ^= i % 2 ? 0x80 : 0xff;
        seal(b, f.n);
        put_file(f.path, b, f.n);
        ft_error err = {0};
        ft_session *t = kept_session(f.m, CTX, 48);
        ft_status st = ft_session_load(t, f.path, &err);
        if (st != FT_OK) {
            assert_true(st == FT_FORMAT || (st == FT_MISMATCH && i < 8)); /* sink, window */
            assert_int_equal(ft_session_n_past(t), 0);
            n_refused++;
        } else {
            rig_output out = {0};
            ft_generate_params g = rig_params(&out, 12, 0, 0);
            g.ignore_eos = true;
            rig_generate(t, (int32_t[]){1}, 1, &g);
            if (i < 0)
                memcpy(want, out.id, sizeof want);
            assert_memory_equal(out.id, want, sizeof want);
        }
        ft_session_free(t);
    }
    assert_true(n_refused > 10);
    free(b);
    close_fixture(&f);
}

/* Catches what is no file at all, and an empty one. */
static void test_no_file_is_refused(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    char none[TEST_PATH_MAX];
    FAILS(ft_session_load(f.s, test_path(none, "none.session"), &rig_err), FT_IO,
          "none.session: No");
    FAILS(ft_session_load(f.s, test_tmpdir(), &rig_err), FT_IO, "not a regular file");
    FAILS(ft_session_load(f.s, "", &rig_err), FT_ARG, "load: no path");
    expect_bad(&f, f.good, 0, FT_FORMAT, FT_FORMAT, "0 bytes that do not begin as one");
    expect_bad(&f, (const uint8_t *)"GGUF, and more than fifty other bytes of anything at all", 56,
               FT_FORMAT, FT_FORMAT, "do not begin as one");
    expect_whole(&f);
    close_fixture(&f);
}

/* ---- Writing that fails ----------------------------------------------------------------------------------------- */

static int count_files(const char *word)
{
    DIR *d = opendir(test_tmpdir());
    int n = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strstr(e->d_name, word) != NULL;
    closedir(d);
    return n;
}

typedef struct {
    uint64_t stop_at, last, total;
    int n;
} meter;

static bool on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    meter *m = ctx;
    assert_string_equal(what, "saving");
    assert_true(done >= m->last && done <= total);
    m->last = done;
    m->total = total;
    m->n++;
    return done < m->stop_at;
}

/* The file at path is the good one, and no temporary is left. */
static void expect_untouched(const fixture *f, const char *path)
{
    char *bytes;
    size_t n;
    OK(file_read_all(&bytes, &n, path, 1 << 30, &rig_err));
    assert_int_equal(n, f->n);
    assert_memory_equal(bytes, f->good, n);
    mem_free(bytes);
    assert_int_equal(count_files(".part-"), 0);
}

/* Catches a disk that fills up, a save that is stopped, and a place that cannot be written: the old file stays,
 * the temporary goes, the message names file and offset. */
static void test_save_that_fails_leaves_the_old_file(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    char path[TEST_PATH_MAX], sub[TEST_PATH_MAX];
    put_file(test_path(path, "old.session"), f.good, f.n);
    struct rlimit was, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    static const rlim_t limit[] = {0, 10, 1000, 20000};
    for (size_t i = 0; i < ARRAY_LEN(limit); i++) {
        small = (struct rlimit){.rlim_cur = limit[i], .rlim_max = was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        ft_error err = {0};
        ft_status st = ft_session_save(f.s, path, NULL, NULL, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        char words[64];
        snprintf(words, sizeof words, "cannot write at byte %d: File too large", (int)limit[i]);
        assert_int_equal(st, FT_IO);
        if (!strstr(err.msg, words) || !strstr(err.msg, "old.session.part-0"))
            fail_msg("message '%s', want '%s'", err.msg, words);
        expect_untouched(&f, path);
    }
    meter all = {.stop_at = UINT64_MAX};
    ft_save_params p = {.progress = on_progress, .progress_ctx = &all};
    OK(ft_session_save(f.s, test_path(sub, "all.session"), &p, NULL, &rig_err));
    assert_true(all.n > 2 && all.last <= all.total);
    meter some = {.stop_at = all.total / 2};
    p.progress_ctx = &some;
    FAILS(ft_session_save(f.s, path, &p, NULL, &rig_err), FT_CANCELLED,
          "old.session: stopped after");
    expect_untouched(&f, path);
    FAILS(ft_session_save(f.s, test_path(sub, "no/x.session"), NULL, NULL, &rig_err), FT_IO,
          "x.session.part-0: cannot create it: No such file");
    FAILS(ft_session_save(f.s, test_tmpdir(), NULL, NULL, &rig_err), FT_IO, "a folder, want");
    FAILS(ft_session_save(f.s, "", NULL, NULL, &rig_err), FT_ARG, "save: no path");
    assert_true(session_digest(f.s) == f.digest);
    expect_whole(&f);
    close_fixture(&f);
}

/* Catches a file that others can read: it holds somebody's conversation. */
static void test_save_is_for_its_owner_alone(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    char path[TEST_PATH_MAX];
    struct stat st;
    umask(0);
    OK(ft_session_save(f.s, test_path(path, "own.session"), NULL, NULL, &rig_err));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    close_fixture(&f);
}

/* ---- Memory -------------------------------------------------------------------------------------------------------- */

typedef ft_status call_fn(fixture *f, ft_error *err);

static ft_status save_it(fixture *f, ft_error *err)
{
    char path[TEST_PATH_MAX];
    return ft_session_save(f->s, test_path(path, "mem.session"), NULL, NULL, err);
}

static ft_status load_it(fixture *f, ft_error *err)
{
    return ft_session_load(f->s, f->path, err);
}

/* Catches a failed allocation that loses memory (run under AddressSanitizer), a temporary or the session. */
static void test_failed_allocations_change_nothing(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    put_file(f.path, f.good, f.n);
    call_fn *call[] = {save_it, load_it};
    for (int i = 0; i < 2; i++)
        for (int k = 1;; k++) {
            assert_true(k < 2000);
            ft_error err = {0};
            long before = mem_count();
            mem_fail_at(k);
            ft_status st = call[i](&f, &err);
            bool failed = mem_count() - before >= k;
            mem_fail_at(0);
            if (!failed) {
                assert_int_equal(st, FT_OK);
                assert_true(k > 3);
                break;
            }
            if (st != FT_NOMEM || !err.msg[0])
                fail_msg("allocation %d: status %d, '%s'", k, st, err.msg);
            assert_true(session_digest(f.s) == f.digest);
            assert_int_equal(count_files(".part-"), 0);
        }
    assert_int_equal(ft_session_n_past(f.s), 67);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_files_are_refused),
        cmocka_unit_test(test_flipped_bits_are_found),
        cmocka_unit_test(test_wrong_numbers_with_right_checksums_are_refused),
        cmocka_unit_test(test_wrong_settings_with_right_checksums_are_refused),
        cmocka_unit_test(test_wrong_drafter_with_right_checksums_is_refused_or_harmless),
        cmocka_unit_test(test_no_file_is_refused),
        cmocka_unit_test(test_save_that_fails_leaves_the_old_file),
        cmocka_unit_test(test_save_is_for_its_owner_alone),
        cmocka_unit_test(test_failed_allocations_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
