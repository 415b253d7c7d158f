/* newfile.h - a file that appears under its name when it is complete, or not at all.
 *
 * Bytes go to a temporary file in the same folder ("NAME.part-0", mode 0600), which takes the name when
 * all is written and on the disk. Whoever writes holds a lock (flock) on it, which dies with the process:
 * a temporary of a process that was killed is without a lock, and the next newfile_open for the same path
 * removes it. So at most as many temporaries lie about as processes write to one path at a time, plus one.
 *
 * OPEN -> (done)  newfile_commit   fsync, rename, fsync of the folder
 * OPEN -> (done)  newfile_abort    the temporary is removed, what stood at path is untouched
 */
#ifndef BASE_NEWFILE_H
#define BASE_NEWFILE_H

#include "base/err.h"

typedef struct {
    char *path, *part; /* owned; the name to take, the temporary's */
    int fd;            /* -1 when not open */
    uint64_t n_bytes;  /* written by newfile_put so far */
} newfile;

/* Errors: IO (path and reason in the message), NOMEM. *f needs no end after a failure. */
ft_status newfile_open(newfile *f, const char *path, ft_error *err) MUST_CHECK;
/* Append. Errors: IO (file, offset and reason); f is still to be aborted. */
ft_status newfile_put(newfile *f, const void *bytes, size_t n, ft_error *err) MUST_CHECK;
/* Replace n bytes at offset, which were written before. Errors as newfile_put. */
ft_status newfile_put_at(newfile *f, uint64_t offset, const void *bytes, size_t n,
                         ft_error *err) MUST_CHECK;
/* Take the name. Errors: IO; then the temporary is removed. f is at its end in any case. */
ft_status newfile_commit(newfile *f, ft_error *err) MUST_CHECK;
/* Give up. At its end, or {0} with fd -1: nothing happens. */
void newfile_abort(newfile *f);

#endif
