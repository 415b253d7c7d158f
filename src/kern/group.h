/* group.h - the integer form of the quantised types: groups of 32 values (see kern.h, Matrix
 * products). The rule of every type stands in block.h; kern_decode follows the same path. */
#ifndef KERN_GROUP_H
#define KERN_GROUP_H

#include "base/compiler.h"

/* value[i] = s[i / 16] * q[i] - m[i / 16] */
typedef struct {
    int8_t q[32];
    float s[2]; /* equal for types with one scale */
    float m[2]; /* equal for types with one scale; 0 for types without minima */
} kern_group;

typedef struct {
    bool has_int;    /* the integer form exists; if not, the rest is false */
    bool two_scales; /* s (and m) of the halves may differ */
    bool has_min;
} kern_group_traits;

/* Never NULL: a type without the integer form, or an unknown number, has all members false. */
const kern_group_traits *kern_group_traits_of(int type);

/* Decode group i_group (values 32 * i_group ...) of a row of blocks. type has the integer form,
 * i_group lies in the row. */
void kern_group_decode(int type, const void *row, int i_group, kern_group *g);

#endif
