/* decode.h - the decoders of the single types. Private to kern/ref/.
 *
 * Each decodes group i (of 32 values) of one block to the integer form of kern.h by the rule in
 * block.h. block may be unaligned; every pattern of bytes is legal. Writes all of g->q and g->s;
 * g->m only for the types with minima (the caller has zeroed it).
 */
#ifndef KERN_REF_DECODE_H
#define KERN_REF_DECODE_H

#include "kern/group.h"

typedef void kern_group_fn(const void *block, int i, kern_group *g);

/* decode_simple.c */
kern_group_fn kern_group_q4_0, kern_group_q4_1, kern_group_q5_0, kern_group_q5_1, kern_group_q8_0;
kern_group_fn kern_group_q2_0, kern_group_iq4_nl, kern_group_mxfp4, kern_group_nvfp4;

/* decode_k.c */
kern_group_fn kern_group_q2_k, kern_group_q3_k, kern_group_q4_k, kern_group_q5_k, kern_group_q6_k;
kern_group_fn kern_group_tq1_0, kern_group_tq2_0, kern_group_iq4_xs;

/* decode_iq.c */
kern_group_fn kern_group_iq2_xxs, kern_group_iq2_xs, kern_group_iq2_s;
kern_group_fn kern_group_iq3_xxs, kern_group_iq3_s, kern_group_iq1_s, kern_group_iq1_m;

/* One scale, or one minimum, for both halves. */
static inline void kern_group_both(float pair[2], float value)
{
    pair[0] = value;
    pair[1] = value;
}

#endif
