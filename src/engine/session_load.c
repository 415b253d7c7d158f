/* session_load.c - ft_session_load and ft_session_file_read_info.
 *
 * Everything is read into a state and a drafter of their own, which take the place of the session's when
 * nothing can fail any more (B055).
 */
#include <inttypes.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "engine/fingerprint.h"
#include "engine/reuse.h"
#include "engine/session_file.h"

/* ---- Does it fit? ------------------------------------------------------------------------------------- */

static ft_status check_model(const ft_session *s, const session_file *f, ft_error *err)
{
    const file_settings *set = &f->set;
    ft_model *m = s->model;
    if (set->model_fingerprint != model_fingerprint(m))
        return err_set(err, FT_MISMATCH,
                       "belongs to another model: '%s' (%s), %016" PRIx64 "; this is '%s' (%s), "
                       "%016" PRIx64,
                       set->name, set->arch, set->model_fingerprint, m->name,
                       model_arch_name(m->m->h.arch), model_fingerprint(m));
    if (f->has_drafter && s->drafter && set->draft_fingerprint != draft_fingerprint(m))
        return err_set(err, FT_MISMATCH,
                       "made with another draft head, or with other types of its matrices");
    return FT_OK;
}

static ft_status check_settings(const ft_session *s, const session_file *f, ft_error *err)
{
    checkpoint_key key = session_key(s);
    if (f->kv_type != key.kv_type)
        return err_set(err, FT_MISMATCH, "kv_type: %s in the file, the session has %s",
                       f->set.kv_type, session_file_type_name(key.kv_type));
    if (f->has_drafter != key.draft)
        return err_set(err, FT_MISMATCH, "drafter: %s in the file, the session has %s",
                       f->has_drafter ? "one" : "none", key.draft ? "one" : "none");
    if (f->set.sink != key.sink || f->set.window != key.window)
        return err_set(err, FT_MISMATCH,
                       "drafter: sink %d and window %d in the file, the session has %d and %d",
                       f->set.sink, f->set.window, key.sink, key.window);
    return FT_OK;
}

static ft_status check_ids(const ft_session *s, const session_file *f, ft_error *err)
{
    const int32_t n_vocab = s->model->m->h.n_vocab;
    section_reader r = section_open(f, SECTION_IDS);
    for (int i = 0; i < f->set.n_past; i++) {
        int32_t id;
        TRY(section_read(&r, &id, sizeof id, err));
        if (id < 0 || id >= n_vocab)
            return err_set(err, FT_FORMAT, "session file: token %d: id %d, want 0 to %d", i, id,
                           n_vocab - 1);
    }
    if (f->set.pending >= n_vocab)
        return err_set(err, FT_FORMAT, "session file: token %d: id %d, want 0 to %d", f->set.n_past,
                       f->set.pending, n_vocab - 1);
    return FT_OK;
}

/* All that can be told before anything is allocated. */
static ft_status check_fit(const ft_session *s, const session_file *f, ft_error *err)
{
    const seq_shape *shape = &s->state->shape;
    TRY(check_model(s, f, err));
    TRY(check_settings(s, f, err));
    if (f->set.n_past > shape->n_ctx)
        return err_set(err, FT_RANGE, "context: %d tokens in the file, the limit is %d",
                       f->set.n_past, shape->n_ctx);
    if (shape->layer && f->cell_type == DTYPE_Q8_0)
        for (int i = 0; i < shape->n_layer; i++)
            if (shape->layer[i].kind == SEQ_ATTN && shape->layer[i].n_kv % 32)
                return err_set(err, FT_FORMAT, "session file: cells of type q8_0 and %d values",
                               shape->layer[i].n_kv);
    TRY(check_ids(s, f, err));
    TRY(section_expect(f, SECTION_CELL, seq_cells_bytes(s->state, f->cell_type, f->set.n_past),
                       err));
    TRY(section_expect(f, SECTION_RECU, seq_recurrent_bytes(shape), err));
    for (int i = 0; i < f->n_checkpoint; i++)
        TRY(section_expect(f, session_file_checkpoint(f, i), seq_recurrent_bytes(shape), err));
    return FT_OK;
}

/* ---- Reading ---------------------------------------------------------------------------------------------- */

typedef struct {
    ft_session *s;
    const session_file *f;
    int32_t *tok;     /* owned; [n_past] */
    seq *state;       /* owned */
    drafter *drafter; /* owned; NULL: none */
} loaded;

static ft_status read_ids_and_cells(loaded *l, ft_error *err)
{
    const session_file *f = l->f;
    int n = f->set.n_past;
    section_reader r = section_open(f, SECTION_IDS);
    if (n == 0)
        return FT_OK;
    l->tok = mem_calloc((size_t)n, sizeof *l->tok);
    if (!l->tok)
        return err_set(err, FT_NOMEM, "session file: %d tokens", n);
    TRY(section_read(&r, l->tok, (size_t)n * sizeof *l->tok, err));
    r = section_open(f, SECTION_CELL);
    TRY(seq_cells_read(l->state, f->cell_type, 0, n, section_read, &r, err));
    return section_end(&r, err);
}

/* State and drafter behind the first n tokens, from the sections at `at`. */
static ft_status read_state(loaded *l, int at, int n, ft_error *err)
{
    section_reader r = section_open(l->f, at);
    TRY(seq_recurrent_read(l->state, l->tok, n, section_read, &r, err));
    TRY(section_end(&r, err));
    if (!l->drafter)
        return FT_OK;
    r = section_open(l->f, at + 1);
    draft_reset(l->drafter);
    TRY(draft_read(l->drafter, l->f->cell_type, n, section_read, &r, err));
    return section_end(&r, err);
}

static ft_status read_checkpoint(loaded *l, int i, ft_error *err)
{
    checkpoint_key key = session_key(l->s);
    int at = session_file_checkpoint(l->f, i);
    TRY(read_state(l, at, session_file_section(l->f, at).n_tok, err));
    seq_snap *trunk;
    draft_snap *draft = NULL;
    TRY(seq_snap_take(&trunk, l->state, err));
    ft_status st = l->drafter ? draft_snap_take(&draft, l->drafter, err) : FT_OK;
    if (st != FT_OK) {
        seq_snap_free(trunk);
        return st;
    }
    return checkpoints_put(l->s->model->checkpoints, &key, trunk, draft, err);
}

/* The checkpoints of the file to the model's. They share the session's pages, which are complete before the
 * first of them is taken: a shared page is never written. */
static ft_status read_checkpoints(loaded *l, ft_error *err)
{
    for (int i = 0; i < l->f->n_checkpoint; i++)
        TRY(read_checkpoint(l, i, err));
    return l->f->n_checkpoint ? read_state(l, SECTION_RECU, l->f->set.n_past, err) : FT_OK;
}

static ft_status read_all(loaded *l, ft_error *err)
{
    ft_session *s = l->s;
    ft_model *m = s->model;
    TRY(seq_create(&l->state, m->be, &s->state->shape, err));
    if (s->drafter)
        TRY(draft_create(&l->drafter, m->be, m->m, draft_get_params(s->drafter), err));
    TRY(read_ids_and_cells(l, err));
    TRY(read_state(l, SECTION_RECU, l->f->set.n_past, err));
    layer_pool_index(m->be, m->m, l->state, 0);
    /* Only what is exact may serve other sessions. */
    bool exact = session_file_exact(l->f->cell_type, l->f->kv_type) && !l->f->set.inexact;
    return exact && checkpoints_enabled(m->checkpoints) ? read_checkpoints(l, err) : FT_OK;
}

/* l becomes what s is. */
static void swap_in(loaded *l)
{
    ft_session *s = l->s;
    const file_settings *set = &l->f->set;
    seq *old_state = s->state;
    drafter *old_drafter = s->drafter;
    s->state = l->state;
    s->drafter = l->drafter;
    l->state = old_state;
    l->drafter = old_drafter;
    s->pending = set->pending;
    s->n_dropped = set->n_dropped;
    s->inexact = set->inexact || !session_file_exact(l->f->cell_type, l->f->kv_type);
    s->n_reused += (uint64_t)set->n_past;
}

static ft_status load(ft_session *s, const session_file *f, ft_error *err)
{
    TRY(check_fit(s, f, err));
    loaded l = {.s = s, .f = f};
    ft_status st = read_all(&l, err);
    if (st == FT_OK)
        swap_in(&l);
    seq_free(l.state);
    draft_free(l.drafter);
    mem_free(l.tok);
    return st;
}

ft_status ft_session_load(ft_session *s, const char *path, ft_error *err)
{
    if (!path || !*path)
        return err_set(err, FT_ARG, "load: no path");
    TRY(session_check_idle(s, err));
    file_map map;
    TRY(map_open(&map, path, err));
    session_file f;
    ft_status st = session_file_open(&f, map.bytes, map.n_bytes, err);
    if (st == FT_OK)
        st = load(s, &f, err);
    if (st != FT_OK)
        err_prefix(err, st, "%s", path);
    map_close(&map);
    return st;
}

/* ---- Its description ---------------------------------------------------------------------------------------- */

static void tell(ft_session_file_info *out, const session_file *f)
{
    const file_settings *set = &f->set;
    *out = (ft_session_file_info){.version = SESSION_FILE_VERSION,
                                  .model_fingerprint = set->model_fingerprint,
                                  .exact = session_file_exact(f->cell_type, f->kv_type),
                                  .has_drafter = f->has_drafter,
                                  .sink = set->sink,
                                  .window = set->window,
                                  .n_token = set->n_past + (set->pending >= 0),
                                  .n_checkpoint = f->n_checkpoint,
                                  .file_bytes = f->n_bytes};
    memcpy(out->arch, set->arch, sizeof out->arch);
    memcpy(out->name, set->name, sizeof out->name);
    memcpy(out->kv_type, set->cell_type, sizeof out->kv_type);
    for (int i = SECTION_CELL; i < f->n_section; i++) {
        file_section s = session_file_section(f, i);
        if (i == SECTION_CELL)
            out->cell_bytes = s.size;
        else if (s.tag[0] == 'D' || s.tag[1] == 'D') /* DRAF, CDRA */
            out->drafter_bytes += s.size;
        else
            out->recurrent_bytes += s.size;
    }
}

ft_status ft_session_file_read_info(const char *path, ft_session_file_info *out, ft_error *err)
{
    *out = (ft_session_file_info){0};
    if (!path || !*path)
        return err_set(err, FT_ARG, "session file: no path");
    file_map map;
    TRY(map_open(&map, path, err));
    session_file f;
    ft_status st = session_file_open(&f, map.bytes, map.n_bytes, err);
    if (st == FT_OK)
        tell(out, &f);
    else
        err_prefix(err, st, "%s", path);
    map_close(&map);
    return st;
}
