/* gdn.c - one row of the gated delta net in portable C. Source: kern.h.
 *
 * Columns are independent, so they are taken one at a time. */
#include <math.h>

#include "kern/slots.h"

static float gdn_column(float *S, size_t ld, int d_k, const float *q, const float *k, float v,
                        float decay, float beta)
{
    float r = 0.0f;
    for (int i = 0; i < d_k; i++)
        r = fmaf(S[(size_t)i * ld] * decay, k[i], r);
    const float u = beta * (v - r);
    float o = 0.0f;
    for (int i = 0; i < d_k; i++) {
        float *s = &S[(size_t)i * ld];
        *s = fmaf(k[i], u, *s * decay);
        o = fmaf(*s, q[i], o);
    }
    return o;
}

static void gdn(float *S, size_t ld, int d_k, int n_col, const float *q, const float *k,
                const float *v, float decay, float beta, float *o)
{
    for (int j = 0; j < n_col; j++) {
        const float y = gdn_column(S + j, ld, d_k, o ? q : k, k, v[j], decay, beta);
        if (o)
            o[j] = y;
    }
}

void kern_init_gdn_ref(kern_table *k)
{
    k->gdn = gdn;
}
