/* floor_print.c - the report of `foretoken floor` as text and as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "floor.h"

static double seconds(const floor_report *r, floor_step s)
{
    return r->step[s].bytes / r->bandwidth;
}

static bool has_draft(const floor_report *r)
{
    return r->no_draft[0] == '\0';
}

/* ---- One step as a table ---------------------------------------------------------------------- */

/* What of it is read, when that is not all of it, once. */
static const char *note_of(char out[64], const ft_account_item *i)
{
    out[0] = '\0';
    if (i->n_pick)
        snprintf(out, 64, "%.*f of %d%s", i->n_got == floor(i->n_got) ? 0 : 1, i->n_got, i->n_pick,
                 i->n_mat > 1 ? "" : " rows");
    else if (strcmp(i->group, "cells") == 0)
        snprintf(out, 64, "%d cell%s", i->n_row, i->n_row == 1 ? "" : "s");
    else if (strcmp(i->group, "indexer keys") == 0)
        snprintf(out, 64, "%d blocks", i->n_row);
    else if (i->is_state)
        snprintf(out, 64, "read and written");
    else if (i->times > 1)
        snprintf(out, 64, "%d times", i->times);
    return out;
}

static void print_line(const char *name, const char *type, double bytes, double total,
                       const char *note)
{
    printf("  %-22s %-8s %11.3f %6.1f %%%s%s\n", name, type, 1e-6 * bytes,
           total > 0 ? 100 * bytes / total : 0, note[0] ? "  " : "", note);
}

/* All lines of the group that begins at item i. */
static void print_group(const ft_account *a, int i)
{
    const ft_account_item *first = &a->item[i];
    const char *type = first->type;
    char note[64];
    double bytes = 0;
    note_of(note, first);
    for (int j = i; j < a->n_item; j++) {
        const ft_account_item *x = &a->item[j];
        char other[64];
        if (strcmp(x->group, first->group) != 0)
            continue;
        bytes += x->bytes;
        if (strcmp(x->type, type) != 0)
            type = "mixed";
        if (strcmp(note_of(other, x), note) != 0)
            note[0] = '\0';
    }
    print_line(first->group, type, bytes, a->bytes, note);
}

static void print_groups(const ft_account *a)
{
    for (int i = 0; i < a->n_item; i++) {
        int j = 0;
        while (strcmp(a->item[j].group, a->item[i].group) != 0)
            j++;
        if (j == i) /* its first line */
            print_group(a, i);
    }
}

static void print_tensors(const ft_account *a)
{
    for (int i = 0; i < a->n_item; i++) {
        const ft_account_item *x = &a->item[i];
        char shape[64] = "", note[64], text[160];
        if (x->n_mat > 1)
            snprintf(shape, sizeof shape, "%d x ", x->n_mat);
        note_of(note, x);
        snprintf(text, sizeof text, "%d x [%s%d x %d]%s%s", x->n_tensor, shape, x->n_row, x->n_col,
                 note[0] ? "  " : "", note);
        print_line(x->part, x->type, x->bytes, a->bytes, text);
    }
}

static void print_step(const floor_report *r, floor_step s, const char *title)
{
    const ft_account *a = &r->step[s];
    printf("\n%-33s %13s %8s\n", title, "MB", "share");
    if (r->tensors)
        print_tensors(a);
    else
        print_groups(a);
    print_line("total", "", a->bytes, a->bytes, "");
}

/* ---- The floors ------------------------------------------------------------------------------- */

static void print_floor(const floor_report *r, floor_step s, const char *name)
{
    printf("  %-44s %10.1f %9.2f\n", name, 1e-6 * r->step[s].bytes, 1e3 * seconds(r, s));
}

/* Tokens per second when every draft of a window is accepted. */
static double best_rate(const floor_report *r)
{
    double t = (r->n_row - 1) * seconds(r, FLOOR_DRAFT) + seconds(r, FLOOR_WINDOW);
    return r->n_row / t;
}

static void print_floors(const floor_report *r)
{
    char name[64];
    printf("\nfloors at %.1f GB/s%s", 1e-9 * r->bandwidth, r->measured ? " (measured)" : "");
    printf("%*s %10s %9s\n", r->measured ? 16 : 27, "", "MB", "ms");
    if (has_draft(r)) {
        if (r->step[FLOOR_NAIVE].bytes > r->step[FLOOR_DRAFT].bytes)
            print_floor(r, FLOOR_NAIVE, "draft step, the naive way");
        print_floor(r, FLOOR_DRAFT, "draft step");
        print_floor(r, FLOOR_Q5, "draft step, wide matrices in Q5_0");
        print_floor(r, FLOOR_Q4, "draft step, wide matrices in Q4_0");
    }
    print_floor(r, FLOOR_ROW, "one row (decoding)");
    snprintf(name, sizeof name, "window of %d rows", r->n_row);
    print_floor(r, FLOOR_WINDOW, name);
    snprintf(name, sizeof name, "prompt, a chunk of %d rows", r->n_chunk);
    print_floor(r, FLOOR_CHUNK, name);
    printf("\ntokens per second at most: %.2f without drafts", 1 / seconds(r, FLOOR_ROW));
    if (has_draft(r) && r->n_row > 1)
        printf(", %.2f with %d drafts a round, all accepted", best_rate(r), r->n_row - 1);
    printf("\n");
}

void floor_print(const floor_report *r)
{
    printf("%s (%s)\ndepth %d, cells %s", r->name, r->source, r->depth, r->kv);
    if (has_draft(r))
        printf(", draft vocabulary %d of %d", r->step[FLOOR_DRAFT].n_head,
               r->step[FLOOR_DRAFT].n_vocab);
    printf("\n");
    if (has_draft(r))
        print_step(r, FLOOR_DRAFT, "draft step");
    else
        printf("\nno draft step: %s\n", r->no_draft);
    print_step(r, FLOOR_ROW, "one row (decoding)");
    print_floors(r);
}

/* ---- JSON ------------------------------------------------------------------------------------- */

static json_t *item_json(const ft_account_item *i)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:b, s:f}", "group",
                          i->group, "part", i->part, "name", i->name, "type", i->type, "tensors",
                          i->n_tensor, "matrices", i->n_mat, "rows", i->n_row, "cols", i->n_col,
                          "times", i->times, "state", i->is_state, "bytes", i->bytes);
    if (i->n_pick) {
        json_object_set_new(j, "picked_from", json_integer(i->n_pick));
        json_object_set_new(j, "picked", json_real(i->n_got));
    }
    return j;
}

static json_t *step_json(const floor_report *r, floor_step s, int n_row)
{
    const ft_account *a = &r->step[s];
    json_t *items = json_array();
    for (int i = 0; i < a->n_item; i++)
        json_array_append_new(items, item_json(&a->item[i]));
    return json_pack("{s:i, s:f, s:f, s:f, s:f, s:o}", "rows", n_row, "bytes", a->bytes,
                     "weight_bytes", a->weight_bytes, "state_bytes", a->state_bytes, "seconds",
                     seconds(r, s), "items", items);
}

json_t *floor_json(const floor_report *r)
{
    json_t *j =
        json_pack("{s:s, s:s, s:i, s:s, s:f, s:b}", "name", r->name, "source", r->source, "depth",
                  r->depth, "kv", r->kv, "bandwidth", r->bandwidth, "measured", r->measured);
    if (has_draft(r)) {
        json_object_set_new(j, "draft_vocab", json_integer(r->step[FLOOR_DRAFT].n_head));
        json_object_set_new(j, "draft_cells", json_integer(r->step[FLOOR_DRAFT].n_cell));
        json_object_set_new(j, "draft", step_json(r, FLOOR_DRAFT, 1));
        json_object_set_new(j, "draft_naive", step_json(r, FLOOR_NAIVE, 1));
        json_object_set_new(j, "draft_q5_0", step_json(r, FLOOR_Q5, 1));
        json_object_set_new(j, "draft_q4_0", step_json(r, FLOOR_Q4, 1));
    } else {
        json_object_set_new(j, "no_draft", json_string(r->no_draft));
    }
    json_object_set_new(j, "row", step_json(r, FLOOR_ROW, 1));
    json_object_set_new(j, "window", step_json(r, FLOOR_WINDOW, r->n_row));
    json_object_set_new(j, "chunk", step_json(r, FLOOR_CHUNK, r->n_chunk));
    json_object_set_new(j, "tokens_per_second", json_real(1 / seconds(r, FLOOR_ROW)));
    if (has_draft(r))
        json_object_set_new(j, "tokens_per_second_all_accepted", json_real(best_rate(r)));
    return j;
}
