/* slots.h - who fills which slots of the table. Private to kern/.
 *
 * Each function replaces the slots that it has a kernel for and leaves the others alone; the ref
 * ones together fill every slot. kern_select calls them weakest first.
 */
#ifndef KERN_SLOTS_H
#define KERN_SLOTS_H

#include "kern/kern.h"

/* Levels whose files the Makefile builds. */
#if defined(__x86_64__)
#    define KERN_HAVE_AVX2   1
#    define KERN_HAVE_AVX512 1
#elif defined(__aarch64__)
#    define KERN_HAVE_NEON 1
#    define KERN_HAVE_I8MM 1
#endif

/* quant_q8, act and matmul. */
kern_quant_q8_fn kern_quant_q8_ref, kern_quant_q8_avx2, kern_quant_q8_avx512, kern_quant_q8_neon;
void kern_init_matmul_float_avx2(kern_table *k);
void kern_init_matmul_float_avx512(kern_table *k);
void kern_init_matmul_float_neon(kern_table *k);
void kern_init_matmul_ref(kern_table *k);
void kern_init_matmul_avx2(kern_table *k);
void kern_init_matmul_avx512(kern_table *k);
void kern_init_matmul_neon(kern_table *k);
void kern_init_matmul_i8mm(kern_table *k);

/* dot, norms, activations, axpy, rope, convolution, softmax. */
void kern_init_rows_ref(kern_table *k);
void kern_init_rows_avx2(kern_table *k);
void kern_init_rows_avx512(kern_table *k);
void kern_init_rows_neon(kern_table *k);

/* attn. */
void kern_init_attn_ref(kern_table *k);
void kern_init_attn_avx2(kern_table *k);
void kern_init_attn_avx512(kern_table *k);
void kern_init_attn_neon(kern_table *k);

/* gdn. */
void kern_init_gdn_ref(kern_table *k);
void kern_init_gdn_avx2(kern_table *k);
void kern_init_gdn_avx512(kern_table *k);
void kern_init_gdn_neon(kern_table *k);

#endif
