/* account_api.c - ft_account_model and ft_account_shape: checking, and adding up equal tensors. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "draft/draft.h"
#include "engine/account.h"
#include "engine/engine.h"
#include "model/shapes.h"

enum { MAX_DEPTH = 1 << 24, MAX_ROWS = 4096 };

ft_account_params ft_account_params_default(void)
{
    return (ft_account_params){.step = FT_STEP_DRAFT,
                               .n_row = 1,
                               .kv_type = "f16",
                               .sink = CELLS_SINK_DEFAULT,
                               .window = CELLS_WINDOW_DEFAULT};
}

/* What an account is of. */
typedef struct {
    const model *m;
    const model_mtp *held; /* the draft head as it is held; NULL: m's, by the defaults */
    int n_draft_vocab;     /* 0: all */
} subject;

/* ---- Adding up -------------------------------------------------------------------------------- */

/* Where items are added up. */
typedef struct {
    ft_account *a;
    int cap; /* of a->item */
    bool failed;
} sums;

static bool same_kind(const ft_account_item *a, const ft_account_item *b)
{
    return a->group == b->group && strcmp(a->part, b->part) == 0 && a->type == b->type &&
           a->n_mat == b->n_mat && a->n_row == b->n_row && a->n_col == b->n_col &&
           a->times == b->times;
}

static void append(sums *s, const ft_account_item *x)
{
    if (s->a->n_item == s->cap) {
        int cap = s->cap ? 2 * s->cap : 64;
        void *p = mem_realloc(s->a->item, (size_t)cap * sizeof *x);
        if (!p) {
            s->failed = true;
            return;
        }
        s->a->item = p;
        s->cap = cap;
    }
    s->a->item[s->a->n_item++] = *x;
}

/* account_fn: an item to its line. */
static void add(void *ctx, const account_item *i)
{
    sums *s = ctx;
    ft_account *a = s->a;
    ft_account_item x = {.group = account_group_name(i->group),
                         .part = i->part,
                         .name = i->name,
                         .type = dtype_name(i->type),
                         .n_mat = i->n_mat,
                         .n_row = i->n_row,
                         .n_col = i->n_col,
                         .n_tensor = 1,
                         .n_pick = i->n_pick,
                         .n_got = i->n_got,
                         .times = i->times,
                         .is_state = account_is_state(i->group),
                         .bytes = i->bytes};
    *(x.is_state ? &a->state_bytes : &a->weight_bytes) += x.bytes;
    a->bytes += x.bytes;
    for (int j = 0; j < a->n_item; j++)
        if (same_kind(&a->item[j], &x)) {
            a->item[j].n_tensor++;
            a->item[j].bytes += x.bytes;
            return;
        }
    append(s, &x);
}

/* ---- Checking --------------------------------------------------------------------------------- */

static ft_status check_int(const char *field, int v, int min, int max, ft_error *err)
{
    if (v >= min && v <= max)
        return FT_OK;
    return err_set(err, FT_ARG, "%s: %d, want %d to %d", field, v, min, max);
}

static ft_status parse_kv(dtype *out, const char *name, const model_hparams *h, ft_error *err)
{
    static const dtype allowed[] = {DTYPE_F16, DTYPE_F32, DTYPE_Q8_0};
    const dtype_info *d = dtype_find_name(name ? name : "f16");
    for (size_t i = 0; d && i < ARRAY_LEN(allowed); i++)
        if (d->type == allowed[i]) {
            if (h->n_head_kv * h->d_head % d->block_values != 0)
                return err_set(err, FT_ARG, "kv_type: %s has blocks of %d values, a cell has %d",
                               d->name, d->block_values, h->n_head_kv * h->d_head);
            *out = d->type;
            return FT_OK;
        }
    return err_set(err, FT_ARG, "kv_type: '%.40s', want f16, f32 or q8_0", name);
}

static ft_status check(const subject *s, const ft_account_params *p, dtype *kv, ft_error *err)
{
    TRY(parse_kv(kv, p->kv_type, &s->m->h, err));
    TRY(check_int("step", (int)p->step, FT_STEP_DRAFT, FT_STEP_PROMPT, err));
    TRY(check_int("n_row", p->n_row, 1, MAX_ROWS, err));
    TRY(check_int("depth", p->depth, 0, MAX_DEPTH, err));
    TRY(check_int("sink", p->sink, 0, CELLS_SINK_MAX, err));
    TRY(check_int("window", p->window, 0, CELLS_ALL, err));
    if (p->n_draft_vocab != FT_DRAFT_VOCAB_ALL)
        TRY(check_int("n_draft_vocab", p->n_draft_vocab, 0, s->m->h.n_vocab, err));
    if (p->step == FT_STEP_DRAFT && !s->m->has_mtp)
        return err_set(err, FT_UNSUPPORTED, "account: no draft head: %s", s->m->no_mtp_reason);
    return FT_OK;
}

/* ---- Accounts --------------------------------------------------------------------------------- */

static ft_status step_of_drafter(const subject *s, const ft_account_params *p, dtype kv, sums *to,
                                 ft_error *err)
{
    model_mtp planned;
    const model_mtp *w = s->held;
    if (!w || p->draft_quant || p->draft_quant_mixers) {
        draft_weights_opts o = draft_weights_opts_default();
        if (p->draft_quant)
            TRY(draft_quant_parse(&o.wide, p->draft_quant, err));
        if (p->draft_quant_mixers)
            TRY(draft_quant_parse(&o.mixers, p->draft_quant_mixers, err));
        TRY(draft_weights_plan(&planned, s->m, &o, err));
        w = &planned;
    }
    int n = p->n_draft_vocab ? p->n_draft_vocab : s->n_draft_vocab;
    account_draft_opts o = {.n_cell = account_draft_cells(p->depth, p->sink, p->window),
                            .kv = kv,
                            .n_head = n > 0 && n < w->head.n_row ? n : w->head.n_row,
                            .naive = p->naive};
    to->a->n_cell = o.n_cell;
    to->a->n_head = o.n_head;
    to->a->n_vocab = w->head.n_row;
    account_draft(s->m, w, &o, add, to);
    return FT_OK;
}

static void trunk_step(const subject *s, const ft_account_params *p, dtype kv, sums *to)
{
    account_trunk_opts o = {
        .n_row = p->n_row, .depth = p->depth, .kv = kv, .head = p->step == FT_STEP_VERIFY};
    to->a->n_vocab = s->m->output.n_row;
    to->a->n_head = o.head ? to->a->n_vocab : 0;
    account_trunk(s->m, &o, add, to);
}

static ft_status fill(const subject *s, const ft_account_params *p, ft_account *out, ft_error *err)
{
    const ft_account_params def = ft_account_params_default();
    dtype kv = DTYPE_F16;
    p = p ? p : &def;
    TRY(check(s, p, &kv, err));
    sums to = {.a = out};
    if (p->step == FT_STEP_DRAFT)
        TRY(step_of_drafter(s, p, kv, &to, err));
    else
        trunk_step(s, p, kv, &to);
    return to.failed ? err_set(err, FT_NOMEM, "account: its lines") : FT_OK;
}

ft_status ft_account_model(const ft_model *m, const ft_account_params *p, ft_account *out,
                           ft_error *err)
{
    *out = (ft_account){0};
    if (!m)
        return err_set(err, FT_ARG, "account: no model");
    const subject s = {
        .m = m->m, .held = m->dw ? &m->dw->mtp : NULL, .n_draft_vocab = m->vocab ? m->vocab->n : 0};
    ft_status st = fill(&s, p, out, err);
    if (st != FT_OK)
        ft_account_free(out);
    return st;
}

void ft_account_free(ft_account *a)
{
    mem_free(a->item);
    shape_free(a->owned);
    *a = (ft_account){0};
}

/* ---- Shapes ----------------------------------------------------------------------------------- */

const char *ft_shape_name(int i)
{
    const shape_info *s = shape_at(i);
    return s ? s->name : NULL;
}

const char *ft_shape_source(int i)
{
    const shape_info *s = shape_at(i);
    return s ? s->source : NULL;
}

static ft_status unknown_shape(const char *name, ft_error *err)
{
    char list[160] = "";
    for (int i = 0; shape_at(i); i++) {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", shape_at(i)->name);
    }
    return err_set(err, FT_ARG, "shape: '%.40s', want %s", name ? name : "(null)", list);
}

ft_status ft_account_shape(const char *name, const char *type, const ft_account_params *p,
                           ft_account *out, ft_error *err)
{
    *out = (ft_account){0};
    const shape_info *info = name ? shape_find(name) : NULL;
    if (!info)
        return unknown_shape(name, err);
    const dtype_info *d = type ? dtype_find_name(type) : NULL;
    if (type && !d)
        return err_set(err, FT_ARG, "type: '%.40s', want a tensor type of GGUF, q8_0 for example",
                       type);
    shape_types types = d ? shape_types_of(d->type) : info->types;
    shape *s;
    TRY(shape_create(&s, info, &types, err));
    out->owned = s;
    const subject sub = {.m = &s->m, .n_draft_vocab = info->n_draft_vocab};
    ft_status st = fill(&sub, p, out, err);
    if (st != FT_OK)
        ft_account_free(out);
    return st;
}
