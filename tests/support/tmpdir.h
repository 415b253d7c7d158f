/* tmpdir.h - a directory of its own for each test process. */
#ifndef TESTS_SUPPORT_TMPDIR_H
#define TESTS_SUPPORT_TMPDIR_H

#define TEST_PATH_MAX 512

/* The process's temporary directory, made by the first call under $TMPDIR (else /tmp) and removed
 * with all that is in it when the process exits. Owned by the module. A failure ends the process
 * with a message: no test can go on without it. Threads: call it once before starting any. */
const char *test_tmpdir(void);

/* out = "<tmpdir>/<name>"; returns out. name may contain folders, which the caller makes. */
char *test_path(char out[TEST_PATH_MAX], const char *name);

#endif
