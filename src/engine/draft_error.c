/* draft_error.c - what low-bit types would cost in accuracy, for each matrix of the draft head. */
#include "draft/draft.h"
#include "engine/engine.h"

ft_status ft_draft_error(const ft_model *m, ft_draft_error_fn *report, void *ctx, ft_error *err)
{
    if (!m || !report)
        return err_set(err, FT_ARG, "draft error: no %s", m ? "callback" : "model");
    if (!m->m->has_mtp)
        return err_set(err, FT_UNSUPPORTED, "draft error: no draft head: %s", m->m->no_mtp_reason);
    for (int i = 0; i < DRAFT_N_PART; i++) {
        const tensor *t = draft_part(&m->m->mtp, i);
        if (!t)
            continue;
        ft_draft_error_report r = {.part = draft_part_name(i),
                                   .name = t->name,
                                   .type = dtype_name(t->type),
                                   .no_error = "",
                                   .n_row = t->n_row,
                                   .n_col = t->n_col};
        if (t->n_col % 32 != 0) {
            r.no_error = draft_fate_text(DRAFT_KEPT_ROWS);
        } else {
            double e[DRAFT_N_CODE];
            TRY(draft_weights_error(e, t, err));
            r.q8_0 = e[DRAFT_CODE_Q8_0];
            r.q5_0 = e[DRAFT_CODE_Q5_0];
            r.q4_0_plain = e[DRAFT_CODE_Q4_0_PLAIN];
            r.q4_0 = e[DRAFT_CODE_Q4_0];
        }
        report(ctx, &r);
    }
    return FT_OK;
}
