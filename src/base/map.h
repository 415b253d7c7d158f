/* map.h - a file mapped read-only, whole. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/err.h"

typedef struct {
    const uint8_t *bytes; /* NULL for an empty file */
    size_t n_bytes;
} file_map;

/* Errors: IO (the message names path and reason). *m is {0} after a failure. */
ft_status map_open(file_map *m, const char *path, ft_error *err) MUST_CHECK;
void map_close(file_map *m);
/* Ask the system to read [offset, offset + n) ahead; a hint that cannot fail. */
void map_will_need(const file_map *m, size_t offset, size_t n);
/* Give the pages that lie whole in [p, p + n) back to the system, which reads them from the file again when
 * they are used. Nothing happens unless the range lies in the map. */
void map_give_back(const file_map *m, const void *p, size_t n);

/* A whole file of at most limit bytes into memory, a NUL behind it (not counted).
 * Works for pipes and "-" (standard input). Errors: IO, NOMEM, RANGE (over the limit). */
ft_status file_read_all(char **out, size_t *n_bytes, const char *path, size_t limit,
                        ft_error *err) MUST_CHECK;

#endif
