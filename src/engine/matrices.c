/* matrices.c - see matrices.h. */
#include "engine/matrices.h"

static ft_status each(tensor *const *t, size_t n, matrix_fn *fn, void *ctx, ft_error *err)
{
    for (size_t i = 0; i < n; i++)
        if (t[i]->data)
            TRY(fn(ctx, t[i], err));
    return FT_OK;
}

static ft_status of_layer(model_layer *l, matrix_fn *fn, void *ctx, ft_error *err)
{
    tensor *t[] = {&l->hc_attn.down, &l->hc_attn.up,    &l->hc_attn.inject, &l->hc_ffn.down,
                   &l->hc_ffn.up,    &l->hc_ffn.inject, &l->attn.q,         &l->attn.k,
                   &l->attn.v,       &l->attn.out,      &l->attn.idx_q,     &l->attn.idx_k,
                   &l->gdn.qkv,      &l->gdn.gate,      &l->gdn.alpha,      &l->gdn.beta,
                   &l->gdn.out,      &l->ffn.gate,      &l->ffn.up,         &l->ffn.down,
                   &l->ffn.router,   &l->ffn.sh_gate,   &l->ffn.sh_up,      &l->ffn.sh_down};
    return each(t, ARRAY_LEN(t), fn, ctx, err);
}

ft_status matrices_of_trunk(model *m, matrix_fn *fn, void *ctx, ft_error *err)
{
    for (int i = 0; i < m->h.n_layer; i++)
        TRY(of_layer(&m->layer[i], fn, ctx, err));
    tensor *t[] = {&m->output, &m->output_mixer.down, &m->output_mixer.up, &m->ple.key,
                   &m->ple.value};
    return each(t, ARRAY_LEN(t), fn, ctx, err);
}

ft_status matrices_of_draft(model_mtp *p, matrix_fn *fn, void *ctx, ft_error *err)
{
    TRY(of_layer(&p->block, fn, ctx, err));
    tensor *t[] = {&p->w_e, &p->w_h, &p->head, &p->head_mixer.down, &p->head_mixer.up};
    return each(t, ARRAY_LEN(t), fn, ctx, err);
}
