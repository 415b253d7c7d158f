/* dtype.c - see dtype.h. */
#include "base/dtype.h"

#include <assert.h>
#include <strings.h>

static const dtype_info table[] = {
#define DTYPE_ROW(name, number, values, bytes) {#name, DTYPE_##name, values, bytes},
    DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

const dtype_info *dtype_find(uint32_t number)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if ((uint32_t)table[i].type == number)
            return &table[i];
    return NULL;
}

const dtype_info *dtype_find_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (strcasecmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

const char *dtype_name(dtype type)
{
    const dtype_info *d = dtype_find((uint32_t)type);
    return d ? d->name : "?";
}

size_t dtype_row_bytes(dtype type, size_t n)
{
    const dtype_info *d = dtype_find((uint32_t)type);
    assert(d && n % (size_t)d->block_values == 0);
    return n / (size_t)d->block_values * (size_t)d->block_bytes;
}

const dtype_info *dtype_at(size_t i)
{
    return i < ARRAY_LEN(table) ? &table[i] : NULL;
}
