/* session_file.c - see session_file.h. */
#include "engine/session_file.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "draft/draft.h"

const uint8_t session_file_magic[8] = {0x89, 'F', 'T', 's', 'e', 's', '\r', '\n'};
const uint8_t session_file_end[8] = {'F', 'T', 'e', 'n', 'd', '\r', '\n', 0};

uint64_t session_file_checksum(const void *bytes, size_t n)
{
    return XXH3_64bits(bytes, n);
}

uint64_t session_file_head_checksum(const void *head, const void *table, size_t n)
{
    XXH3_state_t x;
    XXH3_64bits_reset(&x);
    XXH3_64bits_update(&x, head, offsetof(file_head, checksum));
    XXH3_64bits_update(&x, table, n * sizeof(file_section));
    return XXH3_64bits_digest(&x);
}

const char *session_file_type_name(dtype type)
{
    return type == DTYPE_F32 ? "f32" : type == DTYPE_F16 ? "f16" : "q8_0";
}

bool session_file_exact(dtype cell_type, dtype kv_type)
{
    return cell_type == kv_type || (cell_type == DTYPE_F32 && kv_type == DTYPE_F16);
}

/* ---- Head and table ---------------------------------------------------------------------------------- */

file_section session_file_section(const session_file *f, int i)
{
    file_section s;
    memcpy(&s, f->bytes + sizeof(file_head) + (size_t)i * sizeof s, sizeof s);
    return s;
}

int session_file_checkpoint(const session_file *f, int i)
{
    return f->has_drafter ? 5 + 2 * i : 4 + i;
}

static ft_status read_head(session_file *f, ft_error *err)
{
    file_head h;
    if (f->n_bytes < sizeof h + sizeof session_file_end ||
        memcmp(f->bytes, session_file_magic, sizeof session_file_magic) != 0)
        return err_set(err, FT_FORMAT, "session file: %zu bytes that do not begin as one",
                       f->n_bytes);
    memcpy(&h, f->bytes, sizeof h);
    if (h.order != SESSION_FILE_ORDER || h.version != SESSION_FILE_VERSION)
        return err_set(err, FT_MISMATCH, "session file: version %u, order %#x; want %d, %#x",
                       h.version, h.order, SESSION_FILE_VERSION, SESSION_FILE_ORDER);
    if (h.n_bytes != f->n_bytes)
        return err_set(err, FT_FORMAT, "session file: %zu bytes, its head says %llu", f->n_bytes,
                       (unsigned long long)h.n_bytes);
    size_t room = f->n_bytes - sizeof h - sizeof session_file_end;
    if (h.n_section < 4 || h.n_section > SESSION_FILE_SECTIONS ||
        h.n_section > room / sizeof(file_section))
        return err_set(err, FT_FORMAT, "session file: %u sections in %zu bytes", h.n_section,
                       f->n_bytes);
    if (h.zero != 0 ||
        session_file_head_checksum(f->bytes, f->bytes + sizeof h, h.n_section) != h.checksum)
        return err_set(err, FT_FORMAT,
                       "session file: head and table, at byte 0: the checksum is wrong");
    f->n_section = (int)h.n_section;
    return FT_OK;
}

static ft_status section_fault(const file_section *s, const char *fault, ft_error *err)
{
    char tag[5] = "????"; /* the head's checksum is right, yet anybody can compute one */
    for (int i = 0; i < 4; i++)
        if (s->tag[i] >= ' ' && s->tag[i] <= '~')
            tag[i] = s->tag[i];
    return err_set(err, FT_FORMAT,
                   "session file: section %s of %d tokens, %llu bytes at byte %llu: %s", tag,
                   s->n_tok, (unsigned long long)s->size, (unsigned long long)s->offset, fault);
}

/* Sections lie side by side, from the table to the end mark, and have their checksums. */
static ft_status check_sections(const session_file *f, ft_error *err)
{
    uint64_t at = sizeof(file_head) + (uint64_t)f->n_section * sizeof(file_section);
    uint64_t end = f->n_bytes - sizeof session_file_end;
    for (int i = 0; i < f->n_section; i++) {
        file_section s = session_file_section(f, i);
        if (s.offset != at)
            return section_fault(&s, "not behind the one before", err);
        if (s.size > end - at)
            return section_fault(&s, "longer than the file", err);
        if (session_file_checksum(f->bytes + at, (size_t)s.size) != s.checksum)
            return section_fault(&s, "the checksum is wrong", err);
        at += s.size;
    }
    if (at != end || memcmp(f->bytes + at, session_file_end, sizeof session_file_end) != 0)
        return err_set(err, FT_FORMAT, "session file: no end mark at byte %llu",
                       (unsigned long long)at);
    return FT_OK;
}

/* ---- Settings ------------------------------------------------------------------------------------------ */

/* Printable ASCII or UTF-8, and zeros behind: nothing that a terminal would obey. */
static bool is_text(const char *s, size_t cap)
{
    size_t n = strnlen(s, cap);
    for (size_t i = 0; i < cap; i++)
        if (i < n ? (unsigned char)s[i] < ' ' || s[i] == 0x7f : s[i] != 0)
            return false;
    return n < cap;
}

static bool is_type(const char *name, dtype *out)
{
    static const dtype known[] = {DTYPE_F32, DTYPE_F16, DTYPE_Q8_0};
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(name, session_file_type_name(known[i])) == 0) {
            *out = known[i];
            return true;
        }
    return false;
}

static const char *settings_fault(session_file *f)
{
    const file_settings *s = &f->set;
    if (!is_text(s->arch, sizeof s->arch) || !is_text(s->name, sizeof s->name) ||
        !is_text(s->kv_type, sizeof s->kv_type) || !is_text(s->cell_type, sizeof s->cell_type))
        return "a text in it is none";
    if (!is_type(s->kv_type, &f->kv_type) || !is_type(s->cell_type, &f->cell_type))
        return "a type of cells is unknown";
    if (s->n_past < 0 || s->n_past > SESSION_FILE_CTX)
        return "the number of tokens is out of range";
    if (s->pending < -1 || (s->pending >= 0 && s->n_past == 0))
        return "the token that waits is out of range";
    if (s->n_dropped < 0)
        return "the number of dropped tokens is out of range";
    if ((s->inexact | s->has_drafter | 1) != 1)
        return "a switch is neither 0 nor 1";
    if (s->sink < 0 || s->sink > CELLS_SINK_MAX || s->window < 0)
        return "sink or window out of range";
    if (!s->has_drafter && (s->sink || s->window || s->draft_fingerprint))
        return "settings of a drafter without one";
    if (s->n_checkpoint < 0 || s->n_checkpoint > SESSION_FILE_CHECKPOINTS)
        return "the number of checkpoints is out of range";
    return NULL;
}

static ft_status read_settings(session_file *f, ft_error *err)
{
    file_section s = session_file_section(f, SECTION_HEAD);
    if (memcmp(s.tag, "HEAD", 4) != 0 || s.size != sizeof f->set)
        return section_fault(&s, "want HEAD of its size", err);
    memcpy(&f->set, f->bytes + s.offset, sizeof f->set);
    const char *fault = settings_fault(f);
    if (fault)
        return section_fault(&s, fault, err);
    f->has_drafter = f->set.has_drafter;
    f->n_checkpoint = f->set.n_checkpoint;
    return FT_OK;
}

/* Which section stands at place i of the table, and for how many tokens (-1: a checkpoint's). */
static const char *tag_at(const session_file *f, int i, int *n_tok)
{
    static const char *const fixed[] = {"HEAD", "IDS ", "CELL", "RECU", "DRAF"};
    int n_fixed = f->has_drafter ? 5 : 4;
    *n_tok = i == 0 ? 0 : i < n_fixed ? f->set.n_past : -1;
    if (i < n_fixed)
        return fixed[i];
    return f->has_drafter && (i - n_fixed) % 2 ? "CDRA" : "CREC";
}

static ft_status check_table(const session_file *f, ft_error *err)
{
    if (f->n_section != session_file_checkpoint(f, f->n_checkpoint))
        return err_set(err, FT_FORMAT, "session file: %d sections with %d checkpoints",
                       f->n_section, f->n_checkpoint);
    int k = 0;
    for (int i = 0; i < f->n_section; i++) {
        int n_tok;
        const char *tag = tag_at(f, i, &n_tok);
        file_section s = session_file_section(f, i);
        if (memcmp(s.tag, tag, 4) != 0 || (n_tok >= 0 && s.n_tok != n_tok))
            return section_fault(&s, "not the one that belongs here", err);
        bool next = tag[1] == 'R' && n_tok < 0; /* CREC: longer than the checkpoint before */
        if (n_tok < 0 && (next ? s.n_tok <= k || s.n_tok > f->set.n_past : s.n_tok != k))
            return section_fault(&s, "checkpoints do not ascend", err);
        if (n_tok < 0)
            k = s.n_tok;
    }
    return section_expect(f, SECTION_IDS, (uint64_t)f->set.n_past * sizeof(int32_t), err);
}

ft_status session_file_open(session_file *f, const uint8_t *bytes, size_t n, ft_error *err)
{
    *f = (session_file){.bytes = bytes, .n_bytes = n};
    TRY(read_head(f, err));
    TRY(check_sections(f, err));
    TRY(read_settings(f, err));
    return check_table(f, err);
}

/* ---- Sections ------------------------------------------------------------------------------------------- */

section_reader section_open(const session_file *f, int i)
{
    return (section_reader){.f = f, .section = session_file_section(f, i)};
}

ft_status section_read(void *ctx, void *bytes, size_t n, ft_error *err)
{
    section_reader *r = ctx;
    if (n > r->section.size - r->done)
        return section_fault(&r->section, "too short for what it should hold", err);
    if (n > 0)
        memcpy(bytes, r->f->bytes + r->section.offset + r->done, n);
    r->done += n;
    return FT_OK;
}

ft_status section_end(const section_reader *r, ft_error *err)
{
    return r->done == r->section.size
               ? FT_OK
               : section_fault(&r->section, "longer than what it holds", err);
}

ft_status section_expect(const session_file *f, int i, uint64_t size, ft_error *err)
{
    file_section s = session_file_section(f, i);
    return s.size == size ? FT_OK : section_fault(&s, "not the size that the model wants", err);
}
