/* Property: any bytes are either refused with a message or become a list of safetensors tensors
 * that lie inside the bytes, have the size of their shape, and do not overlap. */
#include <stdlib.h>
#include <string.h>

#include "convert/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const st_tensor *t, const uint8_t *data, size_t size, const st_tensor *before)
{
    uint64_t n = 1;
    for (int i = 0; i < t->n_dim; i++)
        n *= t->dim[i];
    uint64_t bytes = n * st_dtype_bytes(t->type);
    if (n != t->n || t->data < data || t->data > data + size)
        abort();
    if (bytes > (uint64_t)(data + size - t->data) || strlen(t->name) > size)
        abort();
    if (before && before->data + before->n * st_dtype_bytes(before->type) > t->data)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ft_error err = {0};
    st_file f;
    ft_status st = st_parse(&f, data, size, &err);
    if (st != FT_OK && (f.tensor || err.code != st || !err.msg[0]))
        abort();
    for (size_t i = 0; i < f.n_tensor; i++)
        check(&f.tensor[i], data, size, i ? &f.tensor[i - 1] : NULL);
    st_free(&f);
    return 0;
}
