/* types.h - which tensor is stored in which type; one rule for convert and quantize. */
#ifndef CONVERT_TYPES_H
#define CONVERT_TYPES_H

#include "base/dtype.h"
#include "base/err.h"

/* A type by name, of those that kern_encode writes and `allowed` (a list ended by NULL; NULL: all)
 * holds. Errors: ARG, the message lists the accepted names. */
ft_status types_parse(dtype *out, const char *name, const char *const *allowed,
                      ft_error *err) MUST_CHECK;

/* True for a tensor that stays float32: vectors, and the small matrices on which the rest depends
 * (router, convolutions, decay and beta of the delta net, injections of the mixers). */
bool types_keep_f32(const char *name, int n_dim);

/* The wished type for rows of n_col values: itself, or F16 when n_col is no multiple of its block. */
dtype types_for_rows(dtype wish, uint64_t n_col);

/* general.file_type of a file whose matrices have this type (numbers of the public llama.cpp
 * enumeration llama_ftype). */
int types_file_type(dtype type);

/* Encode n values (a multiple of the block; kern_can_encode holds) and decode them into back [n]. A finite value that the
 * type turns into an infinity, or any value that is not finite in a type other than F32, F16 and
 * BF16, fails with RANGE: the message names tensor, type and value. */
ft_status types_encode(dtype type, void *dst, float *back, const float *src, size_t n,
                       const char *name, ft_error *err) MUST_CHECK;

/* Decode n values (a multiple of the block) of a type that kern_can_decode. */
void types_decode(dtype type, float *dst, const void *src, size_t n);

/* From this many values on threads share the work: below, waking them costs more. */
#define TYPES_SHARED (1u << 18)

/* Largest finite value of F16. */
#define TYPES_F16_MAX 65504.0f

#endif
