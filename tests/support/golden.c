/* golden.c - see golden.h. */
#include "support/golden.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what, const char *path)
{
    fprintf(stderr, "golden: %s: %s\n", what, path);
    exit(1);
}

/* The line of case and key in the index: dtype, file name, dims. */
static bool find(const char *dir, const char *case_name, const char *key, char file[160],
                 bool *is_int, long dim[4], int *n_dim)
{
    char path[512], line[512];
    snprintf(path, sizeof path, "%s/index.txt", dir);
    FILE *f = fopen(path, "r");
    if (!f)
        die("cannot open", path);
    bool found = false;
    while (!found && fgets(line, sizeof line, f)) {
        char c[64], k[64], type[8];
        int at = 0;
        if (sscanf(line, "%63s %63s %7s %159s %d%n", c, k, type, file, n_dim, &at) != 5)
            die("bad line", path);
        if (strcmp(c, case_name) != 0 || strcmp(k, key) != 0)
            continue;
        found = true;
        *is_int = type[0] == 'i';
        char *rest = line + at;
        if (*n_dim < 1 || *n_dim > 4)
            die("bad dims", path);
        for (int i = 0; i < *n_dim; i++)
            dim[i] = strtol(rest, &rest, 10);
    }
    fclose(f);
    return found;
}

bool golden_load(golden *g, const char *dir, const char *case_name, const char *key)
{
    char file[160], path[700];
    long dim[4];
    int n_dim;
    *g = (golden){0};
    if (!find(dir, case_name, key, file, &g->is_int, dim, &n_dim))
        return false;
    long n_row = 1;
    for (int i = 0; i + 1 < n_dim; i++)
        n_row *= dim[i];
    g->n_row = (int)n_row;
    g->n_col = (int)dim[n_dim - 1];
    size_t n = (size_t)n_row * (size_t)g->n_col;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *f = fopen(path, "rb");
    g->v.p = malloc(n * 4 + 1);
    if (!f || !g->v.p || fread(g->v.p, 4, n + 1, f) != n)
        die("wrong size", path);
    fclose(f);
    return true;
}

void golden_free(golden *g)
{
    free(g->v.p);
    *g = (golden){0};
}

double golden_rel_diff(const float *a, const float *b, size_t n)
{
    double diff = 0, size = 1;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= diff)) /* NaN counts as the worst */
            diff = isnan(d) ? HUGE_VAL : d;
        if (fabs((double)b[i]) > size)
            size = fabs((double)b[i]);
    }
    return diff / size;
}
