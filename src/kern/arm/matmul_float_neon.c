/* matmul_float_neon.c - products of F32, F16 and BF16 weights: NEON.
 * The 16 lanes of a sum are four registers. */
#include "base/dtype.h"
#include "kern/arm/math_neon.h"
#include "kern/slots.h"

#define FLOAT_ROWS 2
#define FLOAT_TOK  3

/* Bytes of n weights. */
static ALWAYS_INLINE size_t w_bytes(int n, int type)
{
    return (size_t)n * (type == DTYPE_F32 ? 4 : 2);
}

/* 4 weights from the k-th on. */
static ALWAYS_INLINE float32x4_t load_w(const uint8_t *row, int k, int type)
{
    const uint8_t *p = row + w_bytes(k, type);
    if (type == DTYPE_F32)
        return bytes_f32(p);
    if (type == DTYPE_F16)
        return bytes_f16(p);
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

static ALWAYS_INLINE float32x4_t load_x(const uint8_t *row, int k)
{
    return bytes_f32(row + 4 * (size_t)k);
}

/* n < 4 values, through copies with room behind them; the other lanes keep their sums. */
static float32x4_t add_part(float32x4_t acc, const uint8_t *w, const uint8_t *x, int n, int type)
{
    uint8_t w_copy[16] = {0}, x_copy[16] = {0};
    memcpy(w_copy, w, w_bytes(n, type));
    memcpy(x_copy, x, (size_t)n * 4);
    const float32x4_t sum = vfmaq_f32(acc, load_w(w_copy, 0, type), load_x(x_copy, 0));
    return vbslq_f32(mask_neon(n), sum, acc);
}

/* Up to 4 values from the k-th on of n, if there are any. */
static ALWAYS_INLINE float32x4_t add_end(float32x4_t acc, const uint8_t *w, const uint8_t *x, int k,
                                         int n, int type)
{
    if (n - k >= 4)
        return vfmaq_f32(acc, load_w(w, k, type), load_x(x, k));
    if (n <= k)
        return acc;
    return add_part(acc, w + w_bytes(k, type), x + 4 * (size_t)k, n - k, type);
}

TEMPLATE void add_block(float (*sums)[FLOAT_TOK][16], const uint8_t *const *w,
                        const uint8_t *const *x, int n, int type, int n_tok)
{
    float32x4_t acc[FLOAT_ROWS][FLOAT_TOK][4];
    UNROLL
    for (int i = 0; i < FLOAT_ROWS; i++) {
        UNROLL
        for (int j = 0; j < FLOAT_TOK && j < n_tok; j++) {
            UNROLL
            for (int l = 0; l < 4; l++)
                acc[i][j][l] = vld1q_f32(sums[i][j] + 4 * l);
        }
    }
    int k = 0;
    for (; k + 16 <= n; k += 16) {
        UNROLL
        for (int l = 0; l < 4; l++) {
            UNROLL
            for (int i = 0; i < FLOAT_ROWS; i++) {
                const float32x4_t wk = load_w(w[i], k + 4 * l, type);
                UNROLL
                for (int j = 0; j < FLOAT_TOK && j < n_tok; j++)
                    acc[i][j][l] = vfmaq_f32(acc[i][j][l], wk, load_x(x[j], k + 4 * l));
            }
        }
    }
    UNROLL
    for (int i = 0; i < FLOAT_ROWS; i++) {
        UNROLL
        for (int j = 0; j < FLOAT_TOK && j < n_tok; j++) {
            UNROLL
            for (int l = 0; l < 4; l++)
                vst1q_f32(sums[i][j] + 4 * l,
                          add_end(acc[i][j][l], w[i], x[j], k + 4 * l, n, type));
        }
    }
}

TEMPLATE void widen(float *dst, const uint8_t *w, int n, int type)
{
    int k = 0;
    for (; k + 4 <= n; k += 4)
        vst1q_f32(dst + k, load_w(w, k, type));
    if (k == n)
        return;
    uint8_t copy[16] = {0};
    memcpy(copy, w + w_bytes(k, type), w_bytes(n - k, type));
    store_neon(dst + k, n - k, load_w(copy, 0, type));
}

static ALWAYS_INLINE float lane_sum(const float *p)
{
    const float32x4_t lanes[4] = {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8),
                                  vld1q_f32(p + 12)};
    return lane_tree16(lanes);
}

#include "kern/matmul_float_tmpl.h"

void kern_init_matmul_float_neon(kern_table *k)
{
    set_float_slots(k);
}
