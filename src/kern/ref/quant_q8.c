/* quant_q8.c - rows of activations to 8 bits, by the rule of kern.h.
 *
 * Where d is so small that 1 / d overflows (amax < 2^-121), every value but 0 becomes +-127;
 * 0 * inf is NaN, and NaN becomes 0.
 */
#include <math.h>
#include <string.h>

#include "kern/slots.h"

static int8_t quant(float x, float id)
{
    const float v = rintf(x * id); /* to nearest even: the rounding mode is never changed */
    if (v != v)
        return 0;
    return (int8_t)(v > 127 ? 127 : v < -127 ? -127 : v);
}

void kern_quant_q8_ref(void *dst, const float *x, int n)
{
    int8_t *q = dst;
    uint8_t *d = (uint8_t *)dst + n;
    uint8_t *s = d + n / 32 * 4;
    for (int b = 0; b < n / 32; b++) {
        float amax = 0;
        for (int i = 0; i < 32; i++)
            amax = fabsf(x[32 * b + i]) > amax ? fabsf(x[32 * b + i]) : amax;
        const float scale = amax / 127;
        const float id = scale != 0 ? 1 / scale : 0;
        int16_t sum[2] = {0, 0};
        for (int i = 0; i < 32; i++) {
            q[32 * b + i] = quant(x[32 * b + i], id);
            sum[i / 16] = (int16_t)(sum[i / 16] + q[32 * b + i]);
        }
        memcpy(d + 4 * b, &scale, sizeof scale);
        memcpy(s + 4 * b, sum, sizeof sum);
    }
}
