/* test_kern_half.c - conversions between float, binary16 and bfloat16, against their definition. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "kern/kern.h"

static float float_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* IEEE 754: (-1)^sign * 2^(e - 15) * 1.f, or 2^-14 * 0.f for e = 0. */
static double half_by_definition(uint32_t h)
{
    int exponent = (int)(h >> 10 & 31);
    int fraction = (int)(h & 1023);
    double v = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h >> 15 ? -v : v;
}

/* A wrong exponent bias, a subnormal treated as normal, a lost sign of zero; and a NaN that
 * becomes an infinity or loses its sign. */
static void test_f16_all_patterns_widen_and_return(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = kern_f16_to_f32((uint16_t)h);
        uint16_t back = kern_f32_to_f16(f);
        bool special = (h >> 10 & 31) == 31;
        assert_int_equal(signbit(f) != 0, h >> 15);
        if (!special) {
            assert_true((double)f == half_by_definition(h));
            assert_int_equal(back, h);
        } else if ((h & 1023) == 0) {
            assert_true(isinf(f));
            assert_int_equal(back, h);
        } else {
            assert_int_equal(bits_of(f), h >> 15 << 31 | 0x7fc00000 | (h & 1023) << 13);
            assert_int_equal(back, h | 0x200); /* quiet */
        }
    }
}

/* Checks the rounding of every value between two neighbours: just below the middle, the middle
 * (ties to even), just above. */
static void check_tie(uint32_t code, float middle, uint16_t narrow(float))
{
    for (uint32_t sign = 0; sign < 2; sign++) {
        uint32_t s = sign << 15;
        float m = sign ? -middle : middle;
        assert_int_equal(narrow(m), s | (code + (code & 1)));
        assert_int_equal(narrow(nextafterf(m, 0)), s | code);
        assert_int_equal(narrow(nextafterf(m, sign ? -INFINITY : INFINITY)), s | (code + 1));
    }
}

/* Rounding by adding half without looking at the last bit, double rounding of subnormals, and the
 * step to infinity: 65520 is the first number that is too large. */
static void test_f16_every_tie_rounds_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double above = h == 0x7bff ? 65536 : half_by_definition(h + 1);
        check_tie(h, (float)((half_by_definition(h) + above) / 2), kern_f32_to_f16);
    }
    assert_int_equal(kern_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(kern_f32_to_f16(-3e38f), 0xfc00);
    assert_int_equal(kern_f32_to_f16(0x1p-149f), 0);
    assert_int_equal(kern_f32_to_f16(-0x1p-126f), 0x8000);
}

/* The same for bfloat16, which also keeps float's subnormals. */
static void test_bf16_every_tie_rounds_to_even(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x7f80; h++)
        check_tie(h, float_of(h << 16 | 0x8000), kern_f32_to_bf16);
}

static void test_bf16_all_patterns_widen_and_return(void **state) /* a shift by the wrong half */
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float f = kern_bf16_to_f32((uint16_t)h);
        bool nan = (h & 0x7fff) > 0x7f80;
        assert_int_equal(bits_of(f), h << 16);
        assert_int_equal(kern_f32_to_bf16(f), nan ? h | 0x40 : h);
    }
}

/* A NaN whose payload lies in the dropped bits becomes an infinity, or a carry turns it to zero. */
static void test_narrowing_keeps_every_nan_a_nan(void **state)
{
    (void)state;
    const uint32_t payload[] = {1, 0x1fff, 0x2000, 0x7fff, 0x8000, 0x3fffff, 0x400000, 0x7fffff};
    for (size_t i = 0; i < ARRAY_LEN(payload); i++) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            float f = float_of(sign << 31 | 0x7f800000 | payload[i]);
            uint32_t want16 = sign << 15 | 0x7e00 | payload[i] >> 13;
            uint32_t wantb = sign << 15 | 0x7fc0 | payload[i] >> 16;
            assert_int_equal(kern_f32_to_f16(f), want16);
            assert_int_equal(kern_f32_to_bf16(f), wantb);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16_all_patterns_widen_and_return),
        cmocka_unit_test(test_f16_every_tie_rounds_to_even),
        cmocka_unit_test(test_bf16_every_tie_rounds_to_even),
        cmocka_unit_test(test_bf16_all_patterns_widen_and_return),
        cmocka_unit_test(test_narrowing_keeps_every_nan_a_nan),
    };
    return cmocka_run_group_tests_name("kern_half", tests, NULL, NULL);
}
