/* test_engine_checkpoints.c - the store of checkpoints: which one is found, what is counted, what goes. */
#include <pthread.h>
#include <stdlib.h>

#include "engine/reuse.h"
#include "support/sessionrig.h"

enum { CTX = 2048 };

/* The state of s into a store of the test's own. */
static void put(checkpoints *c, ft_session *s)
{
    checkpoint_key key = session_key(s);
    seq_snap *trunk;
    draft_snap *draft;
    OK(session_snap(s, &trunk, &draft, &rig_err));
    OK(checkpoints_put(c, &key, trunk, draft, &rig_err));
}

static ft_checkpoint_stats stats_of(checkpoints *c)
{
    ft_checkpoint_stats st;
    checkpoints_stats(c, &st);
    assert_true(st.bytes <= st.limit);
    return st;
}

static checkpoints *store(uint64_t limit)
{
    checkpoints *c;
    OK(checkpoints_create(&c, limit, &rig_err));
    return c;
}

/* ---- Finding ---------------------------------------------------------------------------------------- */

/* Catches a selector that takes a state past the match, or not the longest one: checkpoints of {64, 128}
 * tokens, matches of 0 .. 200. B060 B054 */
static void test_find_every_match_gives_the_longest_beginning(void **state)
{
    (void)state;
    ft_model *m = kept_family(MODEL_QWEN35, 0);
    ft_session *s = kept_session(m, CTX, 64);
    checkpoints *c = store(1 << 30);
    int32_t tok[200];
    mix_texts(tok, 1, 200, 1, 200);
    for (int i = 0; i < 2; i++) {
        OK(ft_session_eval(s, tok + 64 * i, 64, NULL, &rig_err));
        put(c, s);
    }
    checkpoint_key key = session_key(s);
    for (int match = 0; match <= 200; match++) {
        mix_texts(tok, 1, match, 2, 200);
        int want = match < 64 ? 0 : match < 128 ? 64 : 128;
        assert_int_equal(checkpoints_known(c, &key, tok, 200), want);
        mix_texts(tok, 1, 200, 1, 200); /* the text ends there */
        checkpoint *e = checkpoints_find(c, &key, tok, match);
        assert_int_equal(e ? e->n : 0, want);
        checkpoints_release(c, e);
        assert_int_equal(checkpoints_touch(c, &key, tok, match), match == want && want > 0);
    }
    checkpoints_free(c);
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a state handed to a session that would have computed another one. B056 B057 */
static void test_find_other_settings_finds_nothing(void **state)
{
    (void)state;
    ft_model *m = kept_family(MODEL_QWEN35, 0);
    ft_session *s = kept_session(m, CTX, 64);
    checkpoints *c = store(1 << 30);
    int32_t tok[50];
    mix_texts(tok, 1, 50, 1, 50);
    OK(ft_session_eval(s, tok, 50, NULL, &rig_err));
    put(c, s);
    checkpoint_key same = session_key(s), key[5];
    for (int i = 0; i < 5; i++)
        key[i] = same;
    key[0].kv_type = DTYPE_F32;
    key[1].draft = false;
    key[2].sink++;
    key[3].window *= 2;
    key[4].window = CELLS_ALL;
    for (int i = 0; i < 5; i++)
        assert_int_equal(checkpoints_known(c, &key[i], tok, 50), 0);
    assert_int_equal(checkpoints_known(c, &same, tok, 50), 50);
    tok[49]++;
    assert_int_equal(checkpoints_known(c, &same, tok, 50), 0);
    checkpoints_free(c);
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a list of a conversation's checkpoints that is out of order, or has foreign ones in it. */
static void test_on_way_gives_beginnings_by_length(void **state)
{
    (void)state;
    ft_model *m = kept_family(MODEL_QWEN35, 0);
    ft_session *s = kept_session(m, CTX, 64);
    checkpoints *c = store(1 << 30);
    checkpoint_key key = session_key(s);
    int32_t tok[64];
    for (int text = 1; text <= 2; text++) {
        ft_session_reset(s);
        mix_texts(tok, text, 64, text, 64);
        for (int i = 0; i < 4; i++) {
            OK(ft_session_eval(s, tok + 16 * i, 16, NULL, &rig_err));
            put(c, s);
        }
    }
    checkpoint *way[8];
    int n = checkpoints_on_way(c, &key, tok, 63, way, 8);
    assert_int_equal(n, 3);
    for (int i = 0; i < n; i++) {
        assert_int_equal(way[i]->n, 16 * (i + 1));
        checkpoints_release(c, way[i]);
    }
    n = checkpoints_on_way(c, &key, tok, 64, way, 2); /* the longest ones */
    assert_int_equal(n, 2);
    assert_int_equal(way[0]->n, 48);
    assert_int_equal(way[1]->n, 64);
    for (int i = 0; i < n; i++)
        checkpoints_release(c, way[i]);
    checkpoints_free(c);
    ft_session_free(s);
    ft_model_close(m);
}

/* ---- Counting ------------------------------------------------------------------------------------------ */

/* Catches pages that are counted once per checkpoint, and a second copy of a state that is there. */
static void test_put_shared_pages_and_equal_states_count_once(void **state)
{
    (void)state;
    ft_model *m = kept_family(MODEL_QWEN4EXP, 0);
    ft_session *s = kept_session(m, CTX, 256);
    checkpoints *c = store(1 << 30);
    int32_t *tok = calloc(CTX, sizeof *tok);
    mix_texts(tok, 1, CTX, 1, CTX);
    OK(ft_session_eval(s, tok, BE_PAGE + 10, NULL, &rig_err)); /* two pages */
    put(c, s);
    uint64_t one = stats_of(c).bytes;
    put(c, s);
    assert_true(stats_of(c).bytes == one);
    assert_int_equal(stats_of(c).n, 1);
    assert_int_equal(stats_of(c).taken, 1);
    OK(ft_session_eval(s, tok + BE_PAGE + 10, 10, NULL, &rig_err));
    put(c, s); /* its first page is that of the other */
    uint64_t two = stats_of(c).bytes;
    assert_true(two > one && two < 2 * one);
    checkpoint_key key = session_key(s);
    checkpoint *way[2];
    assert_int_equal(checkpoints_on_way(c, &key, tok, CTX, way, 2), 2);
    assert_true(way[0]->bytes + way[1]->bytes < two); /* its going would free no page of both */
    for (int i = 0; i < 2; i++)
        checkpoints_release(c, way[i]);
    OK(ft_session_eval(s, tok + BE_PAGE + 20, BE_PAGE - 20, NULL, &rig_err));
    put(c, s); /* two full pages */
    uint64_t three = stats_of(c).bytes;
    assert_int_equal(stats_of(c).n, 3);
    uint64_t ids = (BE_PAGE - 20) * sizeof *tok; /* that the third has more than the second */
    assert_true(three > two && three - two <= two - one + ids + 64); /* a page and a state each */
    free(tok);
    checkpoints_free(c);
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a limit that is too small for one checkpoint and breaks something, or empties the store for a
 * checkpoint that cannot be kept anyway. */
static void test_put_over_the_limit_keeps_what_was_there(void **state)
{
    (void)state;
    ft_model *m = kept_family(MODEL_QWEN35, 0);
    ft_session *s = kept_session(m, CTX, 64);
    int32_t *tok = calloc(CTX, sizeof *tok);
    mix_texts(tok, 1, CTX, 1, CTX);
    checkpoints *c = store(1);
    OK(ft_session_eval(s, tok, 20, NULL, &rig_err));
    put(c, s);
    assert_int_equal(stats_of(c).n, 0);
    checkpoints_free(c);

    c = store(1 << 30);
    put(c, s);
    uint64_t one = stats_of(c).bytes;
    checkpoints_free(c);
    c = store(one + 100);
    put(c, s);
    checkpoint_key key = session_key(s);
    OK(ft_session_eval(s, tok + 20, BE_PAGE, NULL, &rig_err)); /* takes two pages: too much */
    put(c, s);
    assert_int_equal(stats_of(c).n, 1);
    assert_int_equal(checkpoints_known(c, &key, tok, CTX), 20);
    assert_false(checkpoints_enabled(m->checkpoints));
    free(tok);
    checkpoints_free(c);
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a state that is freed while a session starts from it (run under AddressSanitizer). */
static void test_release_after_eviction_frees_then(void **state)
{
    (void)state;
    ft_model *m = kept_family(MODEL_QWEN35, 0);
    ft_session *s = kept_session(m, CTX, 64), *t = kept_session(m, CTX, 64);
    checkpoints *c = store(1 << 30);
    int32_t tok[40];
    mix_texts(tok, 1, 40, 1, 40);
    OK(ft_session_eval(s, tok, 40, NULL, &rig_err));
    put(c, s);
    uint64_t one = stats_of(c).bytes, digest = session_digest(s);
    checkpoints_free(c);
    c = store(one + one / 2);
    put(c, s);
    checkpoint_key key = session_key(s);
    checkpoint *e = checkpoints_find(c, &key, tok, 40);
    assert_non_null(e);
    for (int text = 2; text < 6; text++) { /* room for one: each drives the older one out */
        int32_t other[40];
        mix_texts(other, text, 40, text, 40);
        ft_session_reset(s);
        OK(ft_session_eval(s, other, 40, NULL, &rig_err));
        put(c, s);
        assert_int_equal(stats_of(c).n, 1);
    }
    assert_int_equal(checkpoints_known(c, &key, tok, 40), 0);
    OK(seq_snap_restore(t->state, e->trunk, &rig_err));
    OK(draft_snap_restore(t->drafter, e->draft, &rig_err));
    assert_true(session_digest(t) == digest);
    checkpoints_release(c, e);
    checkpoints_free(c);
    ft_session_free(s);
    ft_session_free(t);
    ft_model_close(m);
}

/* ---- What goes ------------------------------------------------------------------------------------------ */

enum { SYSTEM = 160, TURN = 12, TURNS = 8, ROOM = 14 };

/* The sizes of a model's checkpoint of so many tokens. */
static uint64_t bytes_of(model_arch arch, int n_tok)
{
    ft_model *m = kept_family(arch, 1 << 30);
    ft_session *s = kept_session(m, CTX, 64);
    int32_t *tok = calloc(CTX, sizeof *tok);
    mix_texts(tok, 1, n_tok, 1, n_tok);
    OK(ft_session_eval(s, tok, n_tok, NULL, &rig_err));
    OK(ft_session_checkpoint(s, &rig_err));
    uint64_t n = stats_of(m->checkpoints).bytes;
    free(tok);
    ft_session_free(s);
    ft_model_close(m);
    return n;
}

/* One more turn of a conversation of its own, which begins anew every TURNS turns. */
static void other_turn(ft_session *s, int i)
{
    int32_t tok[TURN * TURNS];
    int text = 100 + i / TURNS, n = TURN * (1 + i % TURNS);
    mix_texts(tok, text, n, text, n);
    read_text(s, tok, n, NULL);
    OK(ft_session_checkpoint(s, &rig_err));
}

static int known_system(ft_model *m, ft_session *s)
{
    int32_t tok[SYSTEM];
    checkpoint_key key = session_key(s);
    mix_texts(tok, 1, SYSTEM, 1, SYSTEM);
    return checkpoints_known(m->checkpoints, &key, tok, SYSTEM);
}

/* Catches least-recently-used: a long system prompt that a conversation begins with now and then stays
 * through hundreds of turns of other conversations; and one that nobody uses any more goes in the end. The
 * limit holds at every moment. */
static void test_eviction_keeps_a_system_prompt_while_it_is_used(void **state)
{
    (void)state;
    ft_model *m = kept_family(MODEL_QWEN35, ROOM * bytes_of(MODEL_QWEN35, SYSTEM));
    ft_session *s = kept_session(m, CTX, 64);
    int32_t tok[SYSTEM + TURN];
    mix_texts(tok, 1, SYSTEM, 1, SYSTEM);
    read_text(s, tok, SYSTEM, NULL);
    OK(ft_session_checkpoint(s, &rig_err));
    for (int i = 0; i < 400; i++) {
        if (i % 40 == 39) { /* a new conversation behind the same system prompt */
            mix_texts(tok, 1, SYSTEM, 1000 + i, SYSTEM + TURN);
            assert_int_equal(read_text(s, tok, SYSTEM + TURN, NULL), SYSTEM);
            OK(ft_session_checkpoint(s, &rig_err));
        }
        other_turn(s, i);
        assert_int_equal(known_system(m, s), SYSTEM);
        assert_true(stats_of(m->checkpoints).n <= 2 * ROOM);
    }
    ft_checkpoint_stats st = stats_of(m->checkpoints);
    assert_true(st.evicted > 100 && st.taken > st.evicted && st.n > ROOM / 2);
    assert_true(st.bytes > st.limit / 2); /* the room is used */
    int gone = -1;
    for (int i = 400; i < 1000 && gone < 0; i++) {
        other_turn(s, i);
        stats_of(m->checkpoints);
        if (known_system(m, s) == 0)
            gone = i - 400;
    }
    assert_true(gone > ROOM); /* not at once, as the least recent one would */
    ft_session_free(s);
    ft_model_close(m);
}

/* Catches a value that ignores what a shorter checkpoint of the same conversation leaves to read: of many
 * along one text, those go first whose neighbour is near. */
static void test_eviction_thins_out_a_conversation(void **state)
{
    (void)state;
    uint64_t one = bytes_of(MODEL_QWEN35, SYSTEM);
    ft_model *m = kept_family(MODEL_QWEN35, 6 * one);
    ft_session *s = kept_session(m, CTX, 64);
    int32_t tok[240];
    mix_texts(tok, 1, 240, 1, 240);
    for (int i = 0; i < 240; i += 4) {
        OK(ft_session_eval(s, tok + i, 4, NULL, &rig_err));
        OK(ft_session_checkpoint(s, &rig_err));
    }
    checkpoint_key key = session_key(s);
    checkpoint *way[64];
    int n = checkpoints_on_way(m->checkpoints, &key, tok, 240, way, 64), widest = 0, at = 0;
    for (int i = 0; i < n; i++) {
        widest = way[i]->n - at > widest ? way[i]->n - at : widest;
        at = way[i]->n;
        checkpoints_release(m->checkpoints, way[i]);
    }
    assert_true(n >= 4);
    assert_true(at >= 200);     /* one near the end */
    assert_true(widest <= 160); /* no gap of more than two thirds: the rest lie closer and closer */
    ft_session_free(s);
    ft_model_close(m);
}

/* ---- Threads ---------------------------------------------------------------------------------------------- */

typedef struct {
    ft_model *m;
    int text;
    uint64_t digest[6];
    ft_status st;
} worker;

/* Texts that begin alike, taken up again and again. */
static ft_status one_text(worker *w, ft_session *s, int i)
{
    int32_t tok[96];
    int n = 96 - i, n_known;
    mix_texts(tok, 1, 48, w->text, n);
    TRY(ft_session_reuse(s, tok, n, &n_known, NULL));
    TRY(ft_session_eval(s, tok + n_known, n - n_known, NULL, NULL));
    w->digest[i] = session_digest(s);
    return ft_session_checkpoint(s, NULL);
}

static void *work(void *arg)
{
    worker *w = arg;
    ft_session *s;
    ft_session_params p = ft_session_params_default();
    p.n_ctx = 512;
    p.n_chunk = 32;
    w->st = ft_session_create(&s, w->m, &p, NULL);
    for (int i = 0; i < 6 && w->st == FT_OK; i++)
        w->st = one_text(w, s, i);
    ft_session_free(s);
    return NULL;
}

/* Catches a store that two threads disturb (run under ThreadSanitizer): small, so that what one restores
 * is evicted by another. B047 */
static void test_store_in_three_threads(void **state)
{
    (void)state;
    tiny_opts o = tiny_default(MODEL_QWEN35);
    ft_model *m = kept_model("threads.gguf", &o, 3 * bytes_of(MODEL_QWEN35, 96));
    ft_model *plain = kept_model("plain.gguf", &o, 0);
    worker w[3], alone[3];
    pthread_t t[3];
    for (int i = 0; i < 3; i++) {
        w[i] = (worker){.m = m, .text = 2 + i};
        assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
    for (int i = 0; i < 3; i++) {
        alone[i] = (worker){.m = plain, .text = 2 + i};
        work(&alone[i]);
        assert_int_equal(w[i].st, FT_OK);
        assert_memory_equal(w[i].digest, alone[i].digest, sizeof w[i].digest);
    }
    stats_of(m->checkpoints);
    ft_model_close(m);
    ft_model_close(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find_every_match_gives_the_longest_beginning),
        cmocka_unit_test(test_find_other_settings_finds_nothing),
        cmocka_unit_test(test_on_way_gives_beginnings_by_length),
        cmocka_unit_test(test_put_shared_pages_and_equal_states_count_once),
        cmocka_unit_test(test_put_over_the_limit_keeps_what_was_there),
        cmocka_unit_test(test_release_after_eviction_frees_then),
        cmocka_unit_test(test_eviction_keeps_a_system_prompt_while_it_is_used),
        cmocka_unit_test(test_eviction_thins_out_a_conversation),
        cmocka_unit_test(test_store_in_three_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
