/* cpu.c - which levels of instruction sets this processor has and this system lets us use.
 *
 * CPUID tells what the processor can do, XGETBV which registers the system saves at a switch of
 * threads; a level needs both. Source: Intel's Software Developer's Manual, volume 1, chapters 13
 * to 15; volume 2, CPUID.
 *
 * On aarch64 Linux answers both in its auxiliary vector. Source: Linux, arch/arm64/elf_hwcaps.
 */
#include "kern/kern.h"

#if defined(__x86_64__)
#    include <cpuid.h>

/* Bits of XCR0. */
#    define XCR0_AVX    0x06u /* xmm, upper halves of ymm */
#    define XCR0_AVX512 0xe6u /* those, opmasks, upper halves of zmm0-15, zmm16-31 */

static uint32_t read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0)); /* the intrinsic needs -mxsave */
    return lo;
}

static bool has_all(uint32_t reg, uint32_t bits)
{
    return (reg & bits) == bits;
}

static uint32_t detect(void)
{
    uint32_t a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_all(c, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C))
        return 0;
    const uint32_t xcr0 = read_xcr0();
    if (!has_all(xcr0, XCR0_AVX))
        return 0;

    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has_all(b, bit_AVX2))
        return 0;
    if (has_all(xcr0, XCR0_AVX512) &&
        has_all(b, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ) &&
        has_all(c, bit_AVX512VNNI))
        return KERN_CPU_AVX2 | KERN_CPU_AVX512;
    return KERN_CPU_AVX2;
}

#elif defined(__aarch64__) && defined(__linux__)
#    include <sys/auxv.h>

static uint32_t detect(void)
{
    const unsigned long neon = HWCAP_ASIMD | HWCAP_FPHP | HWCAP_ASIMDHP | HWCAP_ASIMDDP;
    if ((getauxval(AT_HWCAP) & neon) != neon)
        return 0;
    return getauxval(AT_HWCAP2) & HWCAP2_I8MM ? KERN_CPU_NEON | KERN_CPU_I8MM : KERN_CPU_NEON;
}

#else

static uint32_t detect(void)
{
    return 0;
}

#endif

uint32_t kern_cpu_flags(void)
{
    return detect();
}
