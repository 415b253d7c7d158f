/* golden.h - reference vectors of tests/golden/<model>/: raw little-endian arrays and their index. */
#ifndef TESTS_SUPPORT_GOLDEN_H
#define TESTS_SUPPORT_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    union {
        float *f;
        int32_t *i;
        void *p;
    } v; /* owned; freed by golden_free */
    bool is_int;
    int n_row; /* product of all dims but the last; 1 for a vector */
    int n_col;
} golden;

/* Load "dir/case.key.bin" as index.txt describes it. A missing entry returns false; a broken file
 * ends the process with a message. */
bool golden_load(golden *g, const char *dir, const char *case_name, const char *key);
void golden_free(golden *g);

/* Largest |a - b| over n values, divided by the largest |b| (at least 1). */
double golden_rel_diff(const float *a, const float *b, size_t n);

#endif
