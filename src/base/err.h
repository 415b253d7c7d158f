/* err.h - recording a failure. The status is returned, the message goes to the caller's struct. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <foretoken/foretoken.h>

#include "base/compiler.h"

/* Record code and message unless err already holds a failure; returns code. err may be NULL.
 * The message names the thing, the value and the wish; it is cut at the struct's size. */
ft_status err_set(ft_error *err, ft_status code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Put "prefix: " before the message that err holds (nothing if err is NULL or holds none):
 * lets an outer layer name the file. Returns err's code. */
ft_status err_prefix(ft_error *err, ft_status code, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Return at once on failure; for functions that have nothing to undo. */
#define TRY(expr)                       \
    do {                                \
        ft_status try_st_ = (expr);     \
        if (UNLIKELY(try_st_ != FT_OK)) \
            return try_st_;             \
    } while (0)

#endif
