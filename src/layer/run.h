/* run.h - what the parts of one forward call share. Private to layer/. */
#ifndef LAYER_RUN_H
#define LAYER_RUN_H

#include "layer/layer.h"

typedef struct {
    backend *be;
    const model *m;
    const model_hparams *h;
    arena *a;
    const layer_batch *b;
    int n_row;
    int32_t *pos;     /* [n_row] */
    float *cos, *sin; /* [n_row][n_rot / 2] */
    int i_layer;      /* for the names of stages */
} run;

/* n floats (or int32) of scratch per row, for n_row rows. The arena was sized by layer_scratch, so
 * this cannot fail but by a bug of ours. */
float *run_take(run *r, int n_row, int n_col);
int32_t *run_take_int(run *r, int n_row, int n_col);
/* Rows ready for products, with room for their quantised form. */
be_act run_act(run *r, const float *x, int n_row, int n_col);

/* Report an intermediate result: "stage_L<i_layer>.<what>", or "stage_<what>" when i_layer < 0. */
void run_stage(const run *r, const char *what, const float *rows, int n_row, int n_col);
void run_stage_int(const run *r, const char *what, const int32_t *rows, int n_row, int n_col);

/* First row of every segment in turn: for (int row = 0, i = 0; i < n_seg; row += seg[i++].n_row) */

/* ---- Parts; x and m [n_row][H], outputs [n_row][H] unless said otherwise ---------------------------- */

/* Full attention of layer i_layer, cells appended to every segment's state. */
void attn_forward(run *r, const model_attn *w, const float *x, float *y);
/* Its pieces, which the draft head uses as well: keys (normed, rotated) and values of x's rows,
 * [n][n_head_kv * d_head]; and attention over the given cells of n rows of queries and gates
 * qg [n][n_head][2][d_head] (as projected; overwritten), with the output projection. r->cos and r->sin
 * are those of the rows. */
void attn_kv_rows(run *r, const model_attn *w, be_act *x, float *k, float *v);
void attn_read(run *r, const model_attn *w, float *qg, const be_attn_row *rows, int n, float *y);
/* n_block: most blocks of QSA that may compete for a row, 0 without it. */
size_t attn_scratch(const model_hparams *h, int n_row, int n_block, int n_thread);

void gdn_forward(run *r, const model_gdn *w, const float *x, float *y);
size_t gdn_scratch(const model_hparams *h, int n_row);

void ffn_forward(run *r, const model_ffn *w, const float *x, float *y);
size_t ffn_scratch(const model_hparams *h, int n_row);

/* m [n][H] from n rows of the wide residual R [n][S * H]; inject [n][S] out: the raw projection, NULL
 * for a final mixer. */
void mixer_forward(run *r, const model_mixer *w, const float *R, int n, float *m, float *inject);
size_t mixer_scratch(const model_hparams *h, int n_row);

/* R += the n-gram embedding's contribution. */
void ple_forward(run *r, float *R);
size_t ple_scratch(const model_hparams *h, int n_row);

/* Bytes of run_take(n_row, n_col) and of run_act. */
size_t take_cost(int n_row, int n_col);
size_t act_cost(int n_row, int n_col);

#endif
