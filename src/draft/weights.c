/* weights.c - see weights.h. */
#include "draft/weights.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "kern/kern.h"

/* ---- Names ---------------------------------------------------------------------------------- */

/* Indexed by draft_quant. */
static const char *const quant_name[] = {"default", "file", "q8_0", "q5_0", "q4_0"};

ft_status draft_quant_parse(draft_quant *out, const char *name, ft_error *err)
{
    for (size_t i = 0; name && i < ARRAY_LEN(quant_name); i++)
        if (strcmp(name, quant_name[i]) == 0) {
            *out = (draft_quant)i;
            return FT_OK;
        }
    return err_set(err, FT_ARG,
                   "draft weights: type '%.40s', want default, file, q8_0, q5_0 or q4_0",
                   name ? name : "(null)");
}

draft_weights_opts draft_weights_opts_default(void)
{
    return (draft_weights_opts){.wide = DRAFT_QUANT_DEFAULT, .mixers = DRAFT_QUANT_FILE};
}

const char *draft_fate_text(draft_fate f)
{
    switch (f) {
    case DRAFT_CONVERTED:
        return "";
    case DRAFT_KEPT_FILE:
        return "as in the file";
    case DRAFT_KEPT_BITS:
        return "has no more bits already";
    case DRAFT_KEPT_ROWS:
        return "rows are no multiple of 32";
    case DRAFT_KEPT_VALUES:
        return "values that the type cannot hold";
    }
    return "";
}

/* ---- The matrices --------------------------------------------------------------------------- */

typedef enum { WIDE, DENSE, MIXER } kind; /* DENSE: wide, where the block has no experts */

#define PART(kind, name, member)                \
    {                                           \
        name, offsetof(model_mtp, member), kind \
    }
static const struct {
    const char *name;
    size_t offset;
    kind kind;
} part[DRAFT_N_PART] = {
    PART(WIDE, "fc_embedding", w_e),
    PART(WIDE, "fc_hidden", w_h),
    PART(WIDE, "attn_q", block.attn.q),
    PART(WIDE, "attn_output", block.attn.out),
    PART(WIDE, "shared_gate", block.ffn.sh_gate),
    PART(WIDE, "shared_up", block.ffn.sh_up),
    PART(WIDE, "shared_down", block.ffn.sh_down),
    PART(DENSE, "ffn_gate", block.ffn.gate),
    PART(DENSE, "ffn_up", block.ffn.up),
    PART(DENSE, "ffn_down", block.ffn.down),
    PART(MIXER, "hc_attn_down", block.hc_attn.down),
    PART(MIXER, "hc_attn_up", block.hc_attn.up),
    PART(MIXER, "hc_ffn_down", block.hc_ffn.down),
    PART(MIXER, "hc_ffn_up", block.hc_ffn.up),
    PART(MIXER, "hc_head_down", head_mixer.down),
    PART(MIXER, "hc_head_up", head_mixer.up),
};

const char *draft_part_name(int i)
{
    return part[i].name;
}

const tensor *draft_part(const model_mtp *p, int i)
{
    const tensor *t = (const tensor *)(const void *)((const uint8_t *)p + part[i].offset);
    if (!t->data || (part[i].kind == DENSE && p->block.ffn.router.data))
        return NULL;
    return t;
}

/* ---- The decision --------------------------------------------------------------------------- */

/* The type that a wish means for a tensor; its own: as in the file. */
static dtype wished_type(draft_quant q, dtype own)
{
    switch (q) {
    case DRAFT_QUANT_DEFAULT:
        return own == DTYPE_F32 || own == DTYPE_F16 || own == DTYPE_BF16 ? DTYPE_Q8_0 : own;
    case DRAFT_QUANT_FILE:
        return own;
    case DRAFT_QUANT_Q8_0:
        return DTYPE_Q8_0;
    case DRAFT_QUANT_Q5_0:
        return DTYPE_Q5_0;
    case DRAFT_QUANT_Q4_0:
        return DTYPE_Q4_0;
    }
    return own;
}

static bool has_fewer_bits(dtype a, dtype b)
{
    const dtype_info *x = dtype_find((uint32_t)a), *y = dtype_find((uint32_t)b);
    return x->block_bytes * y->block_values < y->block_bytes * x->block_values;
}

/* DRAFT_CONVERTED here means that it is to be tried. */
static draft_fate decide(const tensor *t, dtype wish)
{
    if (wish == t->type)
        return DRAFT_KEPT_FILE;
    if (!has_fewer_bits(wish, t->type))
        return DRAFT_KEPT_BITS;
    if (t->n_col % dtype_find((uint32_t)wish)->block_values != 0)
        return DRAFT_KEPT_ROWS;
    return DRAFT_CONVERTED;
}

/* ---- The conversion ------------------------------------------------------------------------- */

/* The largest magnitude whose scale is a finite half. */
static float largest_value(dtype type)
{
    const float half = 65504;
    return type == DTYPE_Q8_0 ? 127 * half : type == DTYPE_Q5_0 ? 16 * half : 8 * half;
}

static bool all_within(const float *x, int n, float limit)
{
    bool ok = true;
    for (int i = 0; i < n; i++)
        ok &= fabsf(x[i]) <= limit; /* false for NaN */
    return ok;
}

/* dst [n_row] dense rows of a type; row [n_col] is scratch. *ok: all values fit; if not, dst is
 * unspecified. */
static ft_status convert_rows(uint8_t *dst, const tensor *t, dtype to, float *row, bool *ok,
                              ft_error *err)
{
    size_t n = (size_t)t->n_col, dst_bytes = dtype_row_bytes(to, n);
    float limit = largest_value(to);
    for (int r = 0; r < t->n_row; r++) {
        const uint8_t *src = (const uint8_t *)t->data + (size_t)r * t->row_bytes;
        if (!kern_decode((int)t->type, row, src, n))
            return err_set(err, FT_UNSUPPORTED,
                           "draft weights: tensor '%s' is %s, which cannot be "
                           "decoded",
                           t->name, dtype_name(t->type));
        *ok = all_within(row, t->n_col, limit);
        if (!*ok)
            return FT_OK;
        uint8_t *out = dst + (size_t)r * dst_bytes;
        bool done = to == DTYPE_Q4_0 ? kern_encode_fitted((int)to, out, row, n)
                                     : kern_encode((int)to, out, row, n);
        if (!done)
            return err_set(err, FT_UNSUPPORTED, "draft weights: no encoder for %s", dtype_name(to));
    }
    return FT_OK;
}

/* t's values are no longer those of the file, but dense rows of a type at data. */
static void retype(tensor *t, dtype to, const void *data)
{
    t->data = data;
    t->tiles = NULL;
    t->type = to;
    t->row_bytes = dtype_row_bytes(to, (size_t)t->n_col);
    t->mat_bytes = t->row_bytes * (size_t)t->n_row;
}

/* Make *t own a copy of itself in another type, through *owned; both unchanged if !*ok. */
static ft_status convert(tensor *t, void **owned, dtype to, float *row, bool *ok, ft_error *err)
{
    size_t row_bytes = dtype_row_bytes(to, (size_t)t->n_col), n_bytes;
    uint8_t *dst = NULL;
    if (size_mul(&n_bytes, row_bytes, (size_t)t->n_row))
        dst = mem_alloc_aligned(n_bytes);
    if (!dst)
        return err_set(err, FT_NOMEM, "draft weights: %zu bytes a row for %d rows of '%s' as %s",
                       row_bytes, t->n_row, t->name, dtype_name(to));
    ft_status st = convert_rows(dst, t, to, row, ok, err);
    if (st != FT_OK || !*ok) {
        mem_free(dst);
        return st;
    }
    *owned = dst;
    retype(t, to, dst);
    return FT_OK;
}

static tensor *part_of(model_mtp *p, int i)
{
    return (tensor *)(void *)((uint8_t *)p + part[i].offset);
}

static dtype wish_for(int i, const draft_weights_opts *o, const tensor *t)
{
    return wished_type(part[i].kind == MIXER ? o->mixers : o->wide, t->type);
}

/* Decide about matrix i, convert it, note what was done. */
static ft_status take_part(draft_weights *w, int i, const draft_weights_opts *o, float *row,
                           ft_error *err)
{
    if (!draft_part(&w->mtp, i))
        return FT_OK;
    tensor *t = part_of(&w->mtp, i);
    dtype wish = wish_for(i, o, t);
    draft_weight *item = &w->item[w->n_item];
    *item = (draft_weight){.part = i,
                           .name = t->name,
                           .fate = decide(t, wish),
                           .from = t->type,
                           .bytes_from = tensor_bytes(t)};
    if (item->fate == DRAFT_CONVERTED) {
        bool ok = true;
        TRY(convert(t, &w->owned[w->n_item], wish, row, &ok, err));
        if (ok)
            w->n_bytes += tensor_bytes(t);
        else
            item->fate = DRAFT_KEPT_VALUES;
    }
    item->to = t->type;
    item->bytes_to = tensor_bytes(t);
    w->n_item++;
    return FT_OK;
}

static ft_status take_parts(draft_weights *w, const draft_weights_opts *o, ft_error *err)
{
    int n_col = 0;
    for (int i = 0; i < DRAFT_N_PART; i++) {
        const tensor *t = draft_part(&w->mtp, i);
        if (t && t->n_col > n_col)
            n_col = t->n_col;
    }
    float *row = mem_calloc((size_t)n_col, sizeof *row);
    if (!row)
        return err_set(err, FT_NOMEM, "draft weights: a row of %d values", n_col);
    ft_status st = FT_OK;
    for (int i = 0; i < DRAFT_N_PART && st == FT_OK; i++)
        st = take_part(w, i, o, row, err);
    mem_free(row);
    return st;
}

static ft_status check_quant(draft_quant q, const char *field, ft_error *err)
{
    if ((size_t)q < ARRAY_LEN(quant_name))
        return FT_OK;
    return err_set(err, FT_ARG, "draft weights: %s: %d, want 0 to %zu", field, (int)q,
                   ARRAY_LEN(quant_name) - 1);
}

ft_status draft_weights_create(draft_weights **out, const model *m, const draft_weights_opts *o,
                               ft_error *err)
{
    const draft_weights_opts def = draft_weights_opts_default();
    *out = NULL;
    o = o ? o : &def;
    TRY(check_quant(o->wide, "wide", err));
    TRY(check_quant(o->mixers, "mixers", err));
    if (!m->has_mtp)
        return err_set(err, FT_UNSUPPORTED, "draft weights: no MTP block: %s", m->no_mtp_reason);
    draft_weights *w = mem_zalloc(sizeof *w);
    if (!w)
        return err_set(err, FT_NOMEM, "draft weights");
    w->mtp = m->mtp;
    ft_status st = take_parts(w, o, err);
    if (st != FT_OK) {
        draft_weights_free(w);
        return st;
    }
    *out = w;
    return FT_OK;
}

ft_status draft_weights_plan(model_mtp *out, const model *m, const draft_weights_opts *o,
                             ft_error *err)
{
    TRY(check_quant(o->wide, "wide", err));
    TRY(check_quant(o->mixers, "mixers", err));
    *out = m->mtp;
    for (int i = 0; i < DRAFT_N_PART; i++) {
        if (!draft_part(out, i))
            continue;
        tensor *t = part_of(out, i);
        dtype wish = wish_for(i, o, t);
        if (decide(t, wish) == DRAFT_CONVERTED)
            retype(t, wish, t->data);
    }
    return FT_OK;
}

void draft_weights_free(draft_weights *w)
{
    if (!w)
        return;
    for (int i = 0; i < DRAFT_N_PART; i++)
        mem_free(w->owned[i]);
    mem_free(w);
}
