/* map.c - see map.h. */
#define _DEFAULT_SOURCE /* madvise: what POSIX has for MADV_DONTNEED does nothing in glibc */
#include "base/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

ft_status map_open(file_map *m, const char *path, ft_error *err)
{
    *m = (file_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* opening a FIFO must not hang */
    if (fd < 0)
        return err_set(err, FT_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(err, FT_IO, "%s: not a regular file", path);
    }
    if (st.st_size == 0) {
        close(fd);
        return FT_OK;
    }
    void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    int saved = errno;
    close(fd); /* the mapping keeps the file */
    if (p == MAP_FAILED)
        return err_set(err, FT_IO, "%s: mmap of %lld bytes: %s", path, (long long)st.st_size,
                       strerror(saved));
    m->bytes = p;
    m->n_bytes = (size_t)st.st_size;
    return FT_OK;
}

void map_close(file_map *m)
{
    if (!m || !m->bytes)
        return;
    union {
        const uint8_t *c;
        void *v;
    } p = {.c = m->bytes}; /* munmap takes a plain pointer; the bytes are never written */
    munmap(p.v, m->n_bytes);
    *m = (file_map){0};
}

void map_will_need(const file_map *m, size_t offset, size_t n)
{
    if (!m->bytes || offset >= m->n_bytes)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t from = offset & ~(page - 1);
    size_t rest = m->n_bytes - from;
    if (n > m->n_bytes - offset)
        n = m->n_bytes - offset;
    n += offset - from;
    union {
        const uint8_t *c;
        void *v;
    } p = {.c = m->bytes + from};
    posix_madvise(p.v, n < rest ? n : rest, POSIX_MADV_WILLNEED);
}

void map_give_back(const file_map *m, const void *p, size_t n)
{
    if (!m->bytes || (const uint8_t *)p < m->bytes || n > m->n_bytes ||
        (size_t)((const uint8_t *)p - m->bytes) > m->n_bytes - n)
        return;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), at = (size_t)((const uint8_t *)p - m->bytes);
    size_t from = (at + page - 1) & ~(page - 1), to = (at + n) & ~(page - 1);
    union {
        const uint8_t *c;
        void *v;
    } u = {.c = m->bytes + from};
    if (from < to)
        madvise(u.v, to - from, MADV_DONTNEED); /* a shared map of a file: nothing is lost */
}

ft_status file_read_all(char **out, size_t *n_bytes, const char *path, size_t limit, ft_error *err)
{
    *out = NULL;
    *n_bytes = 0;
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *f = is_stdin ? stdin : fopen(path, "rb");
    if (!f)
        return err_set(err, FT_IO, "%s: %s", path, strerror(errno));
    buf b;
    buf_init(&b, limit);
    char chunk[16384];
    size_t n;
    ft_status st = FT_OK;
    while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) {
        if (n > limit - b.len) {
            st = err_set(err, FT_RANGE, "%s: larger than the limit of %zu bytes", path, limit);
            break;
        }
        buf_put(&b, chunk, n);
    }
    if (st == FT_OK && ferror(f))
        st = err_set(err, FT_IO, "%s: %s", path, strerror(errno));
    if (!is_stdin)
        fclose(f);
    if (st == FT_OK)
        st = buf_status(&b, path, err);
    if (st == FT_OK && !b.data) {
        b.data = mem_zalloc(1);
        if (!b.data)
            st = err_set(err, FT_NOMEM, "%s", path);
    }
    if (st != FT_OK) {
        buf_deinit(&b);
        return st;
    }
    b.data[b.len] = '\0';
    *out = (char *)b.data;
    *n_bytes = b.len;
    return FT_OK;
}
