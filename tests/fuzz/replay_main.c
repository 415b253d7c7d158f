/* replay_main.c - run a fuzz target over kept inputs: every file given, and every file of every
 * folder given (not of folders in it). For compilers without libFuzzer and for `make check`. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_MAX_BYTES 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what)
{
    perror(what);
    exit(2);
}

/* The file in a block of exactly its size, so that a sanitizer sees a read past its end. */
static void replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        die(path);
    long size = ftell(f);
    if (size < 0)
        die(path);
    rewind(f);
    uint8_t *data = malloc(size ? (size_t)size : 1);
    if (!data || fread(data, 1, (size_t)size, f) != (size_t)size)
        die(path);
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
}

static int replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        die(path);
    if (!S_ISDIR(st.st_mode)) {
        replay_file(path);
        return 1;
    }
    DIR *dir = opendir(path);
    if (!dir)
        die(path);
    int n = 0;
    for (const struct dirent *e; (e = readdir(dir)) != NULL;) {
        char name[PATH_MAX_BYTES];
        int len = snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (len < 0 || (size_t)len >= sizeof name || stat(name, &st) != 0)
            die(name);
        if (!S_ISREG(st.st_mode))
            continue;
        replay_file(name);
        n++;
    }
    closedir(dir);
    return n;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int i = 1; i < argc; i++)
        n += replay(argv[i]);
    printf("%d inputs replayed\n", n);
    return n > 0 ? 0 : 1;
}
