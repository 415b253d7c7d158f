/* session_seal.h - damaged session files with right checksums: as somebody who means it would make them. */
#ifndef TESTS_SUPPORT_SESSION_SEAL_H
#define TESTS_SUPPORT_SESSION_SEAL_H

#include <string.h>

#include "engine/session_file.h"

static inline file_section seal_section(const uint8_t *b, int i)
{
    file_section s;
    memcpy(&s, b + sizeof(file_head) + (size_t)i * sizeof s, sizeof s);
    return s;
}

/* Compute the checksums anew of all sections that lie inside b [n], and of head and table, if they do. */
static inline void seal(uint8_t *b, size_t n)
{
    file_head h;
    if (n < sizeof h)
        return;
    memcpy(&h, b, sizeof h);
    if (h.n_section > (n - sizeof h) / sizeof(file_section))
        return;
    for (uint32_t i = 0; i < h.n_section; i++) {
        file_section s = seal_section(b, (int)i);
        if (s.offset > n || s.size > n - s.offset)
            continue;
        s.checksum = session_file_checksum(b + s.offset, (size_t)s.size);
        memcpy(b + sizeof h + i * sizeof s, &s, sizeof s);
    }
    h.checksum = session_file_head_checksum(b, b + sizeof h, h.n_section);
    memcpy(b, &h, sizeof h);
}

#endif
