/* session_save.c - ft_session_save: a session to a file of session_file.h's format.
 *
 * Sections are streamed through one block of memory. Head and table are written last, over the place that
 * was left for them. What is written does not change meanwhile: the session has one caller, checkpoints
 * are held and never change, and the store is not locked, so that other sessions go on (B061).
 */
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "base/newfile.h"
#include "engine/fingerprint.h"
#include "engine/reuse.h"
#include "engine/session_file.h"

enum { BLOCK = 1 << 20 };

/* What is to be written. */
typedef struct {
    ft_session *s;
    dtype cell_type;
    file_settings set;
    seq_snap *trunk;                           /* owned */
    draft_snap *draft;                         /* owned; NULL without a drafter */
    checkpoint *way[SESSION_FILE_CHECKPOINTS]; /* [n_way] held */
    int n_way;
    ft_progress_fn *progress;
    void *progress_ctx;
    uint64_t n_total; /* bytes of all sections */

    newfile file;
    file_section table[SESSION_FILE_SECTIONS];
    int n_section;
    XXH3_state_t sum; /* of the section under way */
    uint8_t block[BLOCK];
    size_t n_block; /* bytes in it that are not in the file yet */
} writer;

/* ---- Bytes --------------------------------------------------------------------------------------------- */

static ft_status flush(writer *w, ft_error *err)
{
    XXH3_64bits_update(&w->sum, w->block, w->n_block);
    TRY(newfile_put(&w->file, w->block, w->n_block, err));
    w->n_block = 0;
    uint64_t done = w->file.n_bytes < w->n_total ? w->file.n_bytes : w->n_total;
    if (w->progress && !w->progress(w->progress_ctx, "saving", done, w->n_total))
        return err_set(err, FT_CANCELLED, "%s: stopped after %llu bytes", w->file.path,
                       (unsigned long long)done);
    return FT_OK;
}

/* A snap_write_fn. */
static ft_status put(void *ctx, const void *bytes, size_t n, ft_error *err)
{
    writer *w = ctx;
    const uint8_t *p = bytes;
    while (n > 0) {
        if (w->n_block == BLOCK)
            TRY(flush(w, err));
        size_t step = BLOCK - w->n_block < n ? BLOCK - w->n_block : n;
        memcpy(w->block + w->n_block, p, step);
        w->n_block += step;
        p += step;
        n -= step;
    }
    return FT_OK;
}

static void begin(writer *w, const char *tag, int n_tok)
{
    file_section *s = &w->table[w->n_section];
    *s = (file_section){.n_tok = n_tok, .offset = w->file.n_bytes};
    memcpy(s->tag, tag, sizeof s->tag);
    XXH3_64bits_reset(&w->sum);
}

static ft_status end(writer *w, ft_error *err)
{
    file_section *s = &w->table[w->n_section];
    TRY(flush(w, err));
    s->size = w->file.n_bytes - s->offset;
    s->checksum = XXH3_64bits_digest(&w->sum);
    w->n_section++;
    return FT_OK;
}

/* ---- Sections ------------------------------------------------------------------------------------------- */

static ft_status write_session(writer *w, ft_error *err)
{
    int n = w->set.n_past;
    begin(w, "HEAD", 0);
    TRY(put(w, &w->set, sizeof w->set, err));
    TRY(end(w, err));
    begin(w, "IDS ", n);
    TRY(put(w, w->s->state->tok, (size_t)n * sizeof(int32_t), err));
    TRY(end(w, err));
    begin(w, "CELL", n);
    TRY(seq_cells_write(w->s->state, w->cell_type, 0, n, put, w, err));
    TRY(end(w, err));
    begin(w, "RECU", n);
    TRY(seq_recurrent_write(w->trunk, put, w, err));
    TRY(end(w, err));
    if (!w->draft)
        return FT_OK;
    begin(w, "DRAF", n);
    TRY(draft_write(w->draft, w->cell_type, put, w, err));
    return end(w, err);
}

static ft_status write_checkpoint(writer *w, const checkpoint *e, ft_error *err)
{
    begin(w, "CREC", e->n);
    TRY(seq_recurrent_write(e->trunk, put, w, err));
    TRY(end(w, err));
    if (!e->draft)
        return FT_OK;
    begin(w, "CDRA", e->n);
    TRY(draft_write(e->draft, w->cell_type, put, w, err));
    return end(w, err);
}

static int n_sections(const writer *w)
{
    return w->draft ? 5 + 2 * w->n_way : 4 + w->n_way;
}

/* Head and table, over the place for them. */
static ft_status write_head(writer *w, ft_error *err)
{
    file_head h = {.version = SESSION_FILE_VERSION,
                   .order = SESSION_FILE_ORDER,
                   .n_section = (uint32_t)w->n_section,
                   .n_bytes = w->file.n_bytes};
    memcpy(h.magic, session_file_magic, sizeof h.magic);
    h.checksum = session_file_head_checksum(&h, w->table, h.n_section);
    TRY(newfile_put_at(&w->file, 0, &h, sizeof h, err));
    return newfile_put_at(&w->file, sizeof h, w->table, h.n_section * sizeof *w->table, err);
}

static ft_status write_all(writer *w, ft_error *err)
{
    size_t n_head = sizeof(file_head) + (size_t)n_sections(w) * sizeof *w->table;
    for (size_t left = n_head; left > 0;) { /* zeros for now: no session file begins so */
        size_t step = left < sizeof w->block ? left : sizeof w->block;
        TRY(newfile_put(&w->file, w->block, step, err));
        left -= step;
    }
    TRY(write_session(w, err));
    for (int i = 0; i < w->n_way; i++)
        TRY(write_checkpoint(w, w->way[i], err));
    TRY(newfile_put(&w->file, session_file_end, sizeof session_file_end, err));
    return write_head(w, err);
}

/* ---- What to write ----------------------------------------------------------------------------------------- */

static ft_status choose_type(writer *w, const char *name, ft_error *err)
{
    const seq_shape *shape = &w->s->state->shape;
    w->cell_type = shape->kv_type;
    if (!name)
        return FT_OK;
    const dtype_info *d = dtype_find_name(name);
    if (!d || (d->type != DTYPE_F16 && d->type != DTYPE_F32 && d->type != DTYPE_Q8_0))
        return err_set(err, FT_ARG, "kv_type: '%s', want f16, f32 or q8_0", name);
    const model_hparams *h = &w->s->model->m->h;
    if ((h->n_head_kv * h->d_head) % d->block_values)
        return err_set(err, FT_ARG, "kv_type: '%s', want f16 or f32 for this model's cells of %d",
                       name, h->n_head_kv * h->d_head);
    w->cell_type = d->type;
    return FT_OK;
}

/* A model's name may be anything: control characters become '?'. */
static void put_text(char *out, size_t cap, const char *text)
{
    for (size_t i = 0; i < cap - 1 && text[i]; i++)
        out[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
}

static void describe(writer *w)
{
    const ft_session *s = w->s;
    ft_model *m = s->model;
    checkpoint_key key = session_key(s);
    file_settings *f = &w->set;
    *f = (file_settings){.model_fingerprint = model_fingerprint(m),
                         .draft_fingerprint = key.draft ? draft_fingerprint(m) : 0,
                         .n_past = s->state->n_past,
                         .pending = s->pending,
                         .n_dropped = s->n_dropped,
                         .inexact = s->inexact,
                         .has_drafter = key.draft,
                         .sink = key.sink,
                         .window = key.window,
                         .n_checkpoint = w->n_way};
    put_text(f->arch, sizeof f->arch, model_arch_name(m->m->h.arch));
    put_text(f->name, sizeof f->name, m->name);
    put_text(f->kv_type, sizeof f->kv_type, session_file_type_name(key.kv_type));
    put_text(f->cell_type, sizeof f->cell_type, session_file_type_name(w->cell_type));
}

/* A file whose cells are not exact has no checkpoints: loaded, they would pass for exact ones. */
static void collect_way(writer *w, const ft_save_params *p)
{
    ft_session *s = w->s;
    if (p->no_checkpoints || s->inexact ||
        !session_file_exact(w->cell_type, s->state->shape.kv_type))
        return;
    checkpoint_key key = session_key(s);
    w->n_way = checkpoints_on_way(s->model->checkpoints, &key, s->state->tok, s->state->n_past,
                                  w->way, SESSION_FILE_CHECKPOINTS);
}

static void count_total(writer *w)
{
    uint64_t one = seq_recurrent_bytes(&w->s->state->shape);
    w->n_total = sizeof w->set + (uint64_t)w->set.n_past * sizeof(int32_t) +
                 seq_cells_bytes(w->s->state, w->cell_type, w->set.n_past) +
                 one * (uint64_t)(1 + w->n_way) + sizeof(file_head) + sizeof session_file_end +
                 (uint64_t)n_sections(w) * sizeof(file_section);
    if (w->draft)
        w->n_total += draft_file_bytes(w->draft, w->cell_type);
    for (int i = 0; i < w->n_way; i++)
        if (w->way[i]->draft)
            w->n_total += draft_file_bytes(w->way[i]->draft, w->cell_type);
}

static ft_status save(writer *w, const char *path, const ft_save_params *p, uint64_t *n_bytes,
                      ft_error *err)
{
    TRY(choose_type(w, p->kv_type, err));
    TRY(session_snap(w->s, &w->trunk, &w->draft, err));
    collect_way(w, p);
    describe(w);
    count_total(w);
    w->progress = p->progress;
    w->progress_ctx = p->progress_ctx;
    TRY(newfile_open(&w->file, path, err));
    ft_status st = write_all(w, err);
    if (st != FT_OK) {
        newfile_abort(&w->file);
        return st;
    }
    uint64_t n = w->file.n_bytes;
    TRY(newfile_commit(&w->file, err));
    if (n_bytes)
        *n_bytes = n;
    return FT_OK;
}

ft_status ft_session_save(ft_session *s, const char *path, const ft_save_params *p,
                          uint64_t *n_bytes, ft_error *err)
{
    ft_save_params def = {0};
    if (!path || !*path)
        return err_set(err, FT_ARG, "save: no path");
    TRY(session_check_idle(s, err));
    writer *w = mem_alloc_aligned(sizeof *w); /* XXH3_state_t wants that */
    if (!w)
        return err_set(err, FT_NOMEM, "%s: memory to write with", path);
    memset(w, 0, sizeof *w);
    w->s = s;
    ft_status st = save(w, path, p ? p : &def, n_bytes, err);
    for (int i = 0; i < w->n_way; i++)
        checkpoints_release(s->model->checkpoints, w->way[i]);
    seq_snap_free(w->trunk);
    draft_snap_free(w->draft);
    mem_free(w);
    return st;
}
