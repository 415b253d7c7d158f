/* tmpdir.c - see tmpdir.h. The folder is removed by the process that made it, not by its forks. */
#define _XOPEN_SOURCE 700 /* nftw */

#include "tmpdir.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir_path[TEST_PATH_MAX / 2];
static pid_t owner;

static int remove_entry(const char *path, const struct stat *sb, int flag, struct FTW *ftw)
{
    (void)sb;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static void remove_dir(void)
{
    if (getpid() == owner)
        nftw(dir_path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void die(const char *what)
{
    perror(what);
    exit(2);
}

const char *test_tmpdir(void)
{
    if (owner)
        return dir_path;
    const char *base = getenv("TMPDIR");
    if (!base || !*base)
        base = "/tmp";
    int n = snprintf(dir_path, sizeof dir_path, "%s/ft-test-XXXXXX", base);
    if (n < 0 || (size_t)n >= sizeof dir_path || !mkdtemp(dir_path))
        die("test_tmpdir: cannot make a temporary directory");
    owner = getpid();
    if (atexit(remove_dir) != 0)
        die("test_tmpdir: atexit");
    return dir_path;
}

char *test_path(char out[TEST_PATH_MAX], const char *name)
{
    int n = snprintf(out, TEST_PATH_MAX, "%s/%s", test_tmpdir(), name);
    if (n < 0 || n >= TEST_PATH_MAX) {
        fprintf(stderr, "test_path: '%s' is too long\n", name);
        exit(2);
    }
    return out;
}
