/* Property: any bytes are either refused with a message or become a directory that holds what
 * gguf.h promises; nothing outside the bytes is read and nothing is leaked. */
#include <stdlib.h>

#include "support/gguf_walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ft_error err = {0};
    gguf_file *f;
    ft_status st = gguf_parse(&f, data, size, &err);
    if (st != FT_OK) {
        if (f || err.code != st || !err.msg[0])
            abort();
        return 0;
    }
    if (gguf_walk(f, data, size))
        abort();
    gguf_close(f);
    return 0;
}
