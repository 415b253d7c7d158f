/* newfile.c - see newfile.h. */
#include "base/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { MAX_PART = 100 }; /* writers to one path at a time */

/* ---- The temporary --------------------------------------------------------------------------------- */

/* Does the name still stand for the open file? */
static bool is_at(int fd, const char *name)
{
    struct stat open_one, named;
    return fstat(fd, &open_one) == 0 && stat(name, &named) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* Remove a temporary that nobody writes any more: its lock can be had. The name is checked under the lock:
 * its owner may have given it to a complete file between our open and our lock. */
static void remove_stale(const char *part)
{
    int fd = open(part, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, part))
        unlink(part);
    close(fd);
}

/* Create and lock f->part; false with errno EEXIST: somebody writes it. */
static bool create_part(newfile *f)
{
    remove_stale(f->part);
    f->fd = open(f->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (f->fd < 0)
        return false;
    /* Between open and lock another process may have taken it for a stale one. */
    if (flock(f->fd, LOCK_EX | LOCK_NB) == 0 && is_at(f->fd, f->part))
        return true;
    close(f->fd);
    f->fd = -1;
    errno = EEXIST;
    return false;
}

static void release(newfile *f)
{
    mem_free(f->path);
    mem_free(f->part);
    *f = (newfile){.fd = -1};
}

static ft_status open_part(newfile *f, const char *path, ft_error *err)
{
    size_t cap = strlen(path) + 32;
    f->path = mem_strndup(path, strlen(path));
    f->part = mem_zalloc(cap);
    if (!f->path || !f->part)
        return err_set(err, FT_NOMEM, "%s: name of a temporary file", path);
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) /* rename would fail, after all the work */
        return err_set(err, FT_IO, "%s: a folder, want the name of a file", path);
    for (int i = 0; i < MAX_PART; i++) {
        snprintf(f->part, cap, "%s.part-%d", path, i);
        if (create_part(f))
            return FT_OK;
        if (errno != EEXIST)
            return err_set(err, FT_IO, "%s: cannot create it: %s", f->part, strerror(errno));
    }
    return err_set(err, FT_IO, "%s: %d temporary files beside it are being written", path,
                   MAX_PART);
}

ft_status newfile_open(newfile *f, const char *path, ft_error *err)
{
    *f = (newfile){.fd = -1};
    ft_status st = open_part(f, path, err);
    if (st != FT_OK)
        release(f);
    return st;
}

void newfile_abort(newfile *f)
{
    if (f->fd >= 0) {
        unlink(f->part);
        close(f->fd);
    }
    release(f);
}

/* ---- Bytes ------------------------------------------------------------------------------------------- */

ft_status newfile_put_at(newfile *f, uint64_t offset, const void *bytes, size_t n, ft_error *err)
{
    const uint8_t *p = bytes;
    while (n > 0) {
        ssize_t got = pwrite(f->fd, p, n < (1u << 30) ? n : 1u << 30, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return err_set(err, FT_IO, "%s: cannot write at byte %llu: %s", f->part,
                           (unsigned long long)offset, got < 0 ? strerror(errno) : "nothing taken");
        p += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return FT_OK;
}

ft_status newfile_put(newfile *f, const void *bytes, size_t n, ft_error *err)
{
    TRY(newfile_put_at(f, f->n_bytes, bytes, n, err));
    f->n_bytes += n;
    return FT_OK;
}

/* ---- The end ------------------------------------------------------------------------------------------ */

/* The rename itself is on the disk when the folder is. Some file systems have no such thing (EINVAL). */
static ft_status sync_folder(const char *path, ft_error *err)
{
    const char *slash = strrchr(path, '/');
    size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 1;
    char *dir = mem_strndup(slash ? path : ".", n);
    if (!dir)
        return err_set(err, FT_NOMEM, "%s: name of its folder", path);
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mem_free(dir);
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL);
    int saved = errno;
    if (fd >= 0)
        close(fd);
    if (ok)
        return FT_OK;
    return err_set(err, FT_IO, "%s: written, but its folder cannot be synced: %s", path,
                   strerror(saved));
}

ft_status newfile_commit(newfile *f, ft_error *err)
{
    ft_status st = FT_OK;
    if (fsync(f->fd) != 0)
        st = err_set(err, FT_IO, "%s: fsync: %s", f->part, strerror(errno));
    /* The lock is held until the name is taken: nobody takes the complete file for a stale one. */
    if (st == FT_OK && rename(f->part, f->path) != 0)
        st = err_set(err, FT_IO, "%s: cannot rename it to '%s': %s", f->part, f->path,
                     strerror(errno));
    if (st != FT_OK) {
        newfile_abort(f);
        return st;
    }
    /* Everything is on the disk already: close has nothing left to report. */
    close(f->fd);
    f->fd = -1;
    st = sync_folder(f->path, err);
    release(f);
    return st;
}
