/* select.c - the levels' names, and the table of the best kernels that a set of levels allows. */
#include <string.h>

#include "kern/slots.h"

bool kern_cpu_parse(uint32_t *flags, const char *name)
{
    static const struct {
        const char *name;
        uint32_t flags;
    } level[] = {
        {"generic", 0},
        {"avx2", KERN_CPU_AVX2},
        {"avx512", KERN_CPU_AVX2 | KERN_CPU_AVX512},
        {"neon", KERN_CPU_NEON},
        {"i8mm", KERN_CPU_NEON | KERN_CPU_I8MM},
    };

    for (size_t i = 0; i < ARRAY_LEN(level); i++) {
        if (strcmp(level[i].name, name) == 0) {
            *flags = level[i].flags;
            return true;
        }
    }
    return false;
}

static void init_ref(kern_table *k)
{
    kern_init_matmul_ref(k);
    kern_init_rows_ref(k);
    kern_init_attn_ref(k);
    kern_init_gdn_ref(k);
    k->name = "generic";
}

#ifdef KERN_HAVE_AVX2
static void init_avx2(kern_table *k)
{
    kern_init_matmul_avx2(k);
    kern_init_rows_avx2(k);
    kern_init_attn_avx2(k);
    kern_init_gdn_avx2(k);
    k->name = "avx2";
}
#endif

#ifdef KERN_HAVE_AVX512
static void init_avx512(kern_table *k)
{
    kern_init_matmul_avx512(k);
    kern_init_rows_avx512(k);
    kern_init_attn_avx512(k);
    kern_init_gdn_avx512(k);
    k->name = "avx512";
}
#endif

#ifdef KERN_HAVE_NEON
static void init_neon(kern_table *k)
{
    kern_init_matmul_neon(k);
    kern_init_rows_neon(k);
    kern_init_attn_neon(k);
    kern_init_gdn_neon(k);
    k->name = "neon";
}
#endif

#ifdef KERN_HAVE_I8MM
static void init_i8mm(kern_table *k)
{
    kern_init_matmul_i8mm(k);
    k->name = "i8mm";
}
#endif

void kern_select(kern_table *k, uint32_t flags)
{
    *k = (kern_table){0};
    init_ref(k); /* fills every slot; the others replace what they have, weakest first */
#ifdef KERN_HAVE_AVX2
    if (flags & KERN_CPU_AVX2)
        init_avx2(k);
#endif
#ifdef KERN_HAVE_AVX512
    if ((flags & KERN_CPU_AVX512) && (flags & KERN_CPU_AVX2)) /* a level implies those below it */
        init_avx512(k);
#endif
#ifdef KERN_HAVE_NEON
    if (flags & KERN_CPU_NEON)
        init_neon(k);
#endif
#ifdef KERN_HAVE_I8MM
    if ((flags & KERN_CPU_I8MM) && (flags & KERN_CPU_NEON))
        init_i8mm(k);
#endif
    (void)flags;
}
