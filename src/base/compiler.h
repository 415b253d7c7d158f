/* compiler.h - compiler macros, nothing else. The only header of base that kernels may include. */
#ifndef BASE_COMPILER_H
#define BASE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MUST_CHECK              __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, first) __attribute__((format(printf, fmt, first)))
#define ALWAYS_INLINE           inline __attribute__((always_inline))
#define NO_INLINE               __attribute__((noinline))
/* A body that is instantiated with constant arguments: one source, many specialised kernels. */
#define TEMPLATE static ALWAYS_INLINE
/* Before a loop of a few, constant, steps whose arrays shall live in registers. */
#if defined(__clang__) /* where "GCC unroll" comes after arrays were given memory */
#    define UNROLL _Pragma("clang loop unroll(full)")
#else
#    define UNROLL _Pragma("GCC unroll 16")
#endif
#define LIKELY(x)    __builtin_expect(!!(x), 1)
#define UNLIKELY(x)  __builtin_expect(!!(x), 0)
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
