/* chunk.c - see chunk.h. */
#include "convert/chunk.h"

#include "base/mem.h"

void chunk_free(chunk *c)
{
    mem_free(c->value);
    mem_free(c->back);
    mem_free(c->scratch);
    mem_free(c->coded);
    *c = (chunk){0};
}

ft_status chunk_reserve(chunk *c, uint64_t n_col, dtype type, ft_error *err)
{
    size_t n_row = n_col < CHUNK_VALUES ? (size_t)(CHUNK_VALUES / n_col) : 1;
    size_t n_value = n_row * (size_t)n_col;
    size_t n_coded = dtype_row_bytes(type, (size_t)n_col) * n_row;
    c->n_row = n_row;
    if (n_value <= c->cap_value && n_coded <= c->cap_coded)
        return FT_OK;
    chunk_free(c);
    if (n_value < CHUNK_VALUES)
        n_value = CHUNK_VALUES;
    if (n_coded < CHUNK_VALUES * sizeof(float))
        n_coded = CHUNK_VALUES * sizeof(float);
    c->value = mem_calloc(n_value, sizeof *c->value);
    c->back = mem_calloc(n_value, sizeof *c->back);
    c->scratch = mem_calloc(n_value, sizeof *c->scratch);
    c->coded = mem_alloc(n_coded);
    if (!c->value || !c->back || !c->scratch || !c->coded) {
        chunk_free(c);
        return err_set(err, FT_NOMEM, "buffers for rows of %llu values", (unsigned long long)n_col);
    }
    c->n_row = n_row;
    c->cap_value = n_value;
    c->cap_coded = n_coded;
    return FT_OK;
}
