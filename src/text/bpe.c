/* bpe.c - see bpe.h. */
#include "text/bpe.h"

#include <string.h>
#include <xxhash.h>

#include "base/mem.h"

#define NONE UINT32_MAX

/* One token of the piece so far, in a list by index. A node's index is the place of its first byte,
 * so the order of indices is the order in the text. */
struct bpe_node {
    int32_t id;
    uint32_t prev, next; /* NONE at the ends */
    uint32_t rank;       /* of the merge with the next node; BPE_NO_MERGE also once merged away */
};

/* ---- The table of merges ------------------------------------------------------------------ */

static bpe_pair *find_pair(const bpe_table *t, int32_t left, int32_t right)
{
    int32_t key[2] = {left, right};
    size_t i = XXH3_64bits_withSeed(key, sizeof key, (uintptr_t)t->slot) & t->mask;
    while (t->slot[i].rank != BPE_NO_MERGE &&
           (t->slot[i].left != left || t->slot[i].right != right))
        i = (i + 1) & t->mask;
    return &t->slot[i];
}

/* One line of the file into the table. bytes: scratch of at least line.len. */
static ft_status add_merge(bpe_table *t, const vocab *v, gguf_str line, uint32_t rank,
                           uint8_t *bytes, ft_error *err)
{
    /* The first character is never the separator: a space is not in the byte alphabet. */
    const char *space = line.len > 2 ? memchr(line.s + 1, ' ', line.len - 2) : NULL;
    if (!space)
        return err_set(err, FT_FORMAT, "tokenizer.ggml.merges[%u]: %zu bytes, want 'left right'",
                       rank, line.len);
    gguf_str left = {line.s, (size_t)(space - line.s)};
    gguf_str right = {space + 1, line.len - left.len - 1};
    size_t n_left = vocab_from_alphabet(v, left, bytes);
    size_t n_right = vocab_from_alphabet(v, right, bytes + n_left);

    int32_t id_left = vocab_find(v, bytes, n_left);
    int32_t id_right = vocab_find(v, bytes + n_left, n_right);
    int32_t id = vocab_find(v, bytes, n_left + n_right);
    if (id_left < 0 || id_right < 0 || id < 0)
        return err_set(err, FT_FORMAT,
                       "tokenizer.ggml.merges[%u]: its %s is no token, want one of the vocabulary",
                       rank,
                       id_left < 0    ? "left half"
                       : id_right < 0 ? "right half"
                                      : "result");
    t->result[rank] = id;
    bpe_pair *p = find_pair(t, id_left, id_right);
    if (p->rank == BPE_NO_MERGE && v->type[id] != TOKEN_CONTROL)
        *p = (bpe_pair){.left = id_left, .right = id_right, .rank = rank};
    return FT_OK;
}

ft_status bpe_init(bpe_table *t, const vocab *v, const gguf_str *merge, size_t n_merge,
                   ft_error *err)
{
    *t = (bpe_table){0};
    if (n_merge > INT32_MAX)
        return err_set(err, FT_FORMAT, "tokenizer.ggml.merges: %zu merges, want at most %d",
                       n_merge, INT32_MAX);
    size_t n_slot = 2;
    while (n_slot < 2 * n_merge)
        n_slot *= 2;
    size_t longest = 1;
    for (size_t i = 0; i < n_merge; i++)
        longest = merge[i].len > longest ? merge[i].len : longest;

    t->mask = n_slot - 1;
    t->slot = mem_calloc(n_slot, sizeof *t->slot);
    t->result = mem_calloc(n_merge + 1, sizeof *t->result);
    uint8_t *bytes = mem_alloc(longest);
    if (!t->slot || !t->result || !bytes) {
        mem_free(bytes);
        return err_set(err, FT_NOMEM, "tokenizer: table of %zu merges", n_merge);
    }
    memset(t->slot, 0xFF, n_slot * sizeof *t->slot); /* every rank BPE_NO_MERGE */
    ft_status st = FT_OK;
    for (size_t i = 0; i < n_merge && st == FT_OK; i++)
        st = add_merge(t, v, merge[i], (uint32_t)i, bytes, err);
    mem_free(bytes);
    return st;
}

void bpe_deinit(bpe_table *t)
{
    mem_free(t->slot);
    mem_free(t->result);
    *t = (bpe_table){0};
}

/* ---- A heap of (rank, node), smallest first ------------------------------------------------ */

static void heap_push(uint64_t *heap, size_t *n, uint64_t x)
{
    size_t i = (*n)++;
    while (i > 0 && heap[(i - 1) / 2] > x) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = x;
}

static uint64_t heap_pop(uint64_t *heap, size_t *n)
{
    uint64_t top = heap[0];
    uint64_t x = heap[--*n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= x)
            break;
        heap[i] = heap[child];
    }
    heap[i] = x;
    return top;
}

/* ---- Encoding ------------------------------------------------------------------------------ */

void bpe_scratch_deinit(bpe_scratch *s)
{
    mem_free(s->node);
    mem_free(s->heap);
    *s = (bpe_scratch){0};
}

static ft_status scratch_reserve(bpe_scratch *s, size_t n, ft_error *err)
{
    if (n <= s->cap)
        return FT_OK;
    size_t cap = n < 64 ? 64 : n;
    bpe_scratch_deinit(s); /* nothing in it is worth a copy */
    s->node = mem_calloc(cap, sizeof *s->node);
    s->heap = mem_calloc(cap, 2 * sizeof *s->heap);
    if (!s->node || !s->heap)
        return err_set(err, FT_NOMEM, "tokenizer: a piece of %zu bytes", n);
    s->cap = cap;
    return FT_OK;
}

/* Look up the merge of node i with its next one and queue it. */
static void queue_pair(const bpe_table *t, bpe_scratch *s, size_t *n_heap, uint32_t i)
{
    bpe_node *a = &s->node[i];
    a->rank = BPE_NO_MERGE;
    if (a->next == NONE)
        return;
    a->rank = find_pair(t, a->id, s->node[a->next].id)->rank;
    if (a->rank != BPE_NO_MERGE)
        heap_push(s->heap, n_heap, (uint64_t)a->rank << 32 | i);
}

/* All merges of the list. At most one push for each of the first n - 1 pairs and two for each
 * merge, behind at least one pop: the heap never holds more than 2 n. */
static void merge_all(const bpe_table *t, bpe_scratch *s, size_t *n_heap)
{
    while (*n_heap > 0) {
        uint64_t top = heap_pop(s->heap, n_heap);
        uint32_t i = (uint32_t)top;
        bpe_node *a = &s->node[i];
        if (a->rank != (uint32_t)(top >> 32))
            continue; /* the pair is gone: one of its nodes was merged since */
        bpe_node *b = &s->node[a->next];
        a->id = t->result[a->rank];
        b->rank = BPE_NO_MERGE;
        a->next = b->next;
        if (a->next != NONE)
            s->node[a->next].prev = i;
        if (a->prev != NONE)
            queue_pair(t, s, n_heap, a->prev);
        queue_pair(t, s, n_heap, i);
    }
}

ft_status bpe_put_id(buf *ids, int32_t id, ft_error *err)
{
    if (ids->len > ids->limit || ids->limit - ids->len < sizeof id)
        return err_set(err, FT_RANGE, "tokenizer: over %zu tokens, the limit of this text",
                       ids->limit / sizeof id);
    buf_put(ids, &id, sizeof id);
    return buf_status(ids, "tokenizer", err);
}

ft_status bpe_encode(const bpe_table *t, const vocab *v, bpe_scratch *s, const uint8_t *piece,
                     size_t n, buf *ids, ft_error *err)
{
    if (n == 0)
        return FT_OK;
    if (n > INT32_MAX)
        return err_set(err, FT_RANGE, "tokenizer: a piece of %zu bytes, want at most %d", n,
                       INT32_MAX);
    TRY(scratch_reserve(s, n, err));
    uint32_t last = (uint32_t)n - 1;
    for (uint32_t i = 0; i <= last; i++)
        s->node[i] = (bpe_node){.id = v->byte_id[piece[i]],
                                .prev = i == 0 ? NONE : i - 1,
                                .next = i == last ? NONE : i + 1};
    size_t n_heap = 0;
    for (uint32_t i = 0; i <= last; i++)
        queue_pair(t, s, &n_heap, i);
    merge_all(t, s, &n_heap);
    for (uint32_t i = 0; i != NONE; i = s->node[i].next)
        TRY(bpe_put_id(ids, s->node[i].id, err));
    return FT_OK;
}
