/* floor.h - what `foretoken floor` found out, and its two ways to say it. */
#ifndef CLI_FLOOR_H
#define CLI_FLOOR_H

#include <foretoken/foretoken.h>
#include <jansson.h>

/* The steps of a report. */
typedef enum {
    FLOOR_NAIVE, /* draft steps: fc_hidden once per stream, with the indexer */
    FLOOR_DRAFT, /* by the settings */
    FLOOR_Q5,    /* wide matrices Q5_0 */
    FLOOR_Q4,
    FLOOR_ROW,    /* one row of the trunk with logits */
    FLOOR_WINDOW, /* n_row rows */
    FLOOR_CHUNK,  /* n_chunk rows without */
    FLOOR_N
} floor_step;

typedef struct {
    const char *name, *source; /* of the file or shape */
    const char *no_draft;      /* why there is no draft head; "" if there is one */
    const char *kv;
    int n_row, n_chunk, depth;
    double bandwidth; /* bytes per second */
    bool measured, tensors;
    ft_account step[FLOOR_N]; /* those of drafts are {0} without a draft head */
} floor_report;

void floor_print(const floor_report *r);
/* NULL: out of memory. */
json_t *floor_json(const floor_report *r);

#endif
