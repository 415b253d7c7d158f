/* block.h - the layouts of the quantised blocks as they lie in a file, and the rule of each type.
 *
 * 1. Structs are packed: alignment 1, little-endian fields, sizes asserted. base/dtype.h has the
 *    same sizes; a row is an array of blocks.
 * 2. A block is a sequence of groups of 32 values. Every type here has the integer form of kern.h
 *    (value = s * q - m, |q| <= 128): "s", "q" and "m" below are that form, group by group. All
 *    scales and minima are exact in float (at most 19 significant bits), so the decoded value is
 *    fl(s * q), or fl(fl(s * q) - m) for the types with minima.
 * 3. d, dmin and file_m stand for the half read as float. k counts the values of a block, g its
 *    groups (k = 32 g + i), h = i / 16 the halves of a group. nib(b, 0) is the low nibble of a
 *    byte, nib(b, 1) the high one. Bits are counted from the lowest.
 *
 * Source: the public description of the GGUF tensor types (ggml); OCP Microscaling Formats v1.0
 * for E2M1, E4M3 and E8M0. The scheme of every drawing: field [bytes], in file order.
 */
#ifndef KERN_BLOCK_H
#define KERN_BLOCK_H

#include "base/compiler.h"

#define KERN_PACKED __attribute__((packed))

/* ---- Blocks of 32 and 64: one half as scale ------------------------------------------------ */

/* Q4_0  | d [2] | qs [16] |    one scale
 * s = d;  q = nib(qs[i % 16], h) - 8 */
typedef struct {
    uint16_t d;
    uint8_t qs[16];
} KERN_PACKED kern_q4_0;
_Static_assert(sizeof(kern_q4_0) == 18, "file layout");

/* Q4_1  | d [2] | m [2] | qs [16] |    one scale, one minimum
 * s = d;  m = -file_m;  q = nib(qs[i % 16], h) */
typedef struct {
    uint16_t d;
    uint16_t m;
    uint8_t qs[16];
} KERN_PACKED kern_q4_1;
_Static_assert(sizeof(kern_q4_1) == 20, "file layout");

/* Q5_0  | d [2] | qh [4] | qs [16] |    one scale
 * s = d;  q = nib(qs[i % 16], h) + 16 * bit i of qh - 16 */
typedef struct {
    uint16_t d;
    uint32_t qh;
    uint8_t qs[16];
} KERN_PACKED kern_q5_0;
_Static_assert(sizeof(kern_q5_0) == 22, "file layout");

/* Q5_1  | d [2] | m [2] | qh [4] | qs [16] |    one scale, one minimum
 * s = d;  m = -file_m;  q = nib(qs[i % 16], h) + 16 * bit i of qh */
typedef struct {
    uint16_t d;
    uint16_t m;
    uint32_t qh;
    uint8_t qs[16];
} KERN_PACKED kern_q5_1;
_Static_assert(sizeof(kern_q5_1) == 24, "file layout");

/* Q8_0  | d [2] | qs [32] |    one scale
 * s = d;  q = qs[i] */
typedef struct {
    uint16_t d;
    int8_t qs[32];
} KERN_PACKED kern_q8_0;
_Static_assert(sizeof(kern_q8_0) == 34, "file layout");

/* Q2_0  | d [2] | qs [16] |    64 values, one scale
 * s = d;  q = ((qs[k / 4] >> 2 * (k % 4)) & 3) - 1, that is -1, 0, 1, 2
 * Encoder: d = max |w|, so 2 is never written; q = round(w / d), halves away from zero. */
typedef struct {
    uint16_t d;
    uint8_t qs[16];
} KERN_PACKED kern_q2_0;
_Static_assert(sizeof(kern_q2_0) == 18, "file layout");

/* IQ4_NL  | d [2] | qs [16] |    one scale
 * s = d;  q = kern_iq4_value[nib(qs[i % 16], h)] */
typedef struct {
    uint16_t d;
    uint8_t qs[16];
} KERN_PACKED kern_iq4_nl;
_Static_assert(sizeof(kern_iq4_nl) == 18, "file layout");

/* MXFP4  | e [1] | qs [16] |    one scale
 * s = 2^(e - 128), subnormal for e < 2;  q = kern_fp4_value[nib(qs[i % 16], h)], twice the E2M1
 * value. e = 255 is no NaN here but 2^127, as in the public reference. */
typedef struct {
    uint8_t e;
    uint8_t qs[16];
} KERN_PACKED kern_mxfp4;
_Static_assert(sizeof(kern_mxfp4) == 17, "file layout");

/* NVFP4  | d [4] | qs [32] |    64 values, two scales
 * s[h] = E4M3(d[2 g + h]) / 2 (bit 7 ignored; the byte 0x7f means 0)
 * q = kern_fp4_value[nib(qs[8 * (k / 16) + k % 8], (k / 8) % 2)] */
typedef struct {
    uint8_t d[4];
    uint8_t qs[32];
} KERN_PACKED kern_nvfp4;
_Static_assert(sizeof(kern_nvfp4) == 36, "file layout");

/* ---- Superblocks of 256: sub-scales times one half ----------------------------------------- */

/* Q2_K  | scales [16] | qs [64] | d [2] | dmin [2] |    two scales, two minima
 * s[h] = d * nib(scales[2 g + h], 0);  m[h] = dmin * nib(scales[2 g + h], 1)
 * q = (qs[32 * (g / 4) + i] >> 2 * (g % 4)) & 3 */
typedef struct {
    uint8_t scales[16];
    uint8_t qs[64];
    uint16_t d;
    uint16_t dmin;
} KERN_PACKED kern_q2_k;
_Static_assert(sizeof(kern_q2_k) == 84, "file layout");

/* Q3_K  | hmask [32] | qs [64] | scales [12] | d [2] |    two scales
 * s[h] = d * (sc[2 g + h] - 32), where sc[j] has 6 bits:
 *   low 4: nib(scales[j % 8], j / 8);  high 2: (scales[8 + j % 4] >> 2 * (j / 4)) & 3
 * q = ((qs[32 * (g / 4) + i] >> 2 * (g % 4)) & 3) + 4 * bit g of hmask[i] - 4 */
typedef struct {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[12];
    uint16_t d;
} KERN_PACKED kern_q3_k;
_Static_assert(sizeof(kern_q3_k) == 110, "file layout");

/* Q4_K  | d [2] | dmin [2] | scales [12] | qs [128] |    one scale, one minimum
 * s = d * sc[g];  m = dmin * mn[g];  q = nib(qs[32 * (g / 2) + i], g % 2)
 * sc and mn have 6 bits in scales (Q5_K has the same):
 *   byte 0..3   low 6: sc[0..3]   high 2: top bits of sc[4..7]
 *   byte 4..7   low 6: mn[0..3]   high 2: top bits of mn[4..7]
 *   byte 8..11  low 4: sc[4..7]   high 4: mn[4..7] */
typedef struct {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qs[128];
} KERN_PACKED kern_q4_k;
_Static_assert(sizeof(kern_q4_k) == 144, "file layout");

/* Q5_K  | d [2] | dmin [2] | scales [12] | qh [32] | qs [128] |    one scale, one minimum
 * s, m as Q4_K;  q = nib(qs[32 * (g / 2) + i], g % 2) + 16 * bit g of qh[i] */
typedef struct {
    uint16_t d;
    uint16_t dmin;
    uint8_t scales[12];
    uint8_t qh[32];
    uint8_t qs[128];
} KERN_PACKED kern_q5_k;
_Static_assert(sizeof(kern_q5_k) == 176, "file layout");

/* Q6_K  | ql [128] | qh [64] | scales [16] | d [2] |    two scales
 * s[h] = d * scales[2 g + h];  with H = g / 4, a = g % 4:
 * q = nib(ql[64 H + 32 * (a % 2) + i], a / 2) + 16 * ((qh[32 H + i] >> 2 a) & 3) - 32 */
typedef struct {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
} KERN_PACKED kern_q6_k;
_Static_assert(sizeof(kern_q6_k) == 210, "file layout");

/* TQ1_0  | qs [48] | qh [4] | d [2] |    one scale
 * s = d;  q = digit - 1, with digit n of a byte b = ((b * 3^n mod 256) * 3) >> 8:
 *   k < 160  digit k / 32 of qs[k % 32]
 *   k < 240  digit (k - 160) / 16 of qs[32 + k % 16]
 *   else     digit (k - 240) / 4 of qh[k % 4] */
typedef struct {
    uint8_t qs[48];
    uint8_t qh[4];
    uint16_t d;
} KERN_PACKED kern_tq1_0;
_Static_assert(sizeof(kern_tq1_0) == 54, "file layout");

/* TQ2_0  | qs [64] | d [2] |    one scale
 * s = d;  q = ((qs[32 * (g / 4) + i] >> 2 * (g % 4)) & 3) - 1 */
typedef struct {
    uint8_t qs[64];
    uint16_t d;
} KERN_PACKED kern_tq2_0;
_Static_assert(sizeof(kern_tq2_0) == 66, "file layout");

/* IQ4_XS  | d [2] | scales_h [2] | scales_l [4] | qs [128] |    one scale
 * s = d * (nib(scales_l[g / 2], g % 2) + 16 * ((scales_h >> 2 g) & 3) - 32)
 * q = kern_iq4_value[nib(qs[16 g + i % 16], h)] */
typedef struct {
    uint16_t d;
    uint16_t scales_h;
    uint8_t scales_l[4];
    uint8_t qs[128];
} KERN_PACKED kern_iq4_xs;
_Static_assert(sizeof(kern_iq4_xs) == 136, "file layout");

/* ---- Superblocks of 256 over codebooks (iq_tables.h) ----------------------------------------
 *
 * iq2_xxs[e] is the vector of entry e of kern_iq2_xxs_grid, with 8 coordinates (IQ3: 4).
 * l = i / 8 is the eighth of a group, c = i % 8 the place in it. Signs: "full" is a byte, bit c
 * set = value c negative; "even" is 7 bits of such a byte whose bit 7 makes the number of set bits
 * even. */

/* IQ2_XXS  | d [2] | g: { index [4] | aux [4] } [8 * 8] |    one scale
 * s = d * (0.5 + aux[g] >> 28) * 0.25;  q = +-iq2_xxs[index[l]][c]
 * signs: even, bits 7 l .. 7 l + 6 of aux[g] */
typedef struct {
    uint16_t d;
    struct {
        uint8_t index[4];
        uint32_t aux;
    } KERN_PACKED g[8];
} KERN_PACKED kern_iq2_xxs;
_Static_assert(sizeof(kern_iq2_xxs) == 66, "file layout");

/* IQ2_XS  | d [2] | qs [64] | scales [8] |    two scales
 * s[h] = d * (0.5 + nib(scales[g], h)) * 0.25;  e = qs[4 g + l]
 * q = +-iq2_xs[e & 511][c];  signs: even, e >> 9 */
typedef struct {
    uint16_t d;
    uint16_t qs[32];
    uint8_t scales[8];
} KERN_PACKED kern_iq2_xs;
_Static_assert(sizeof(kern_iq2_xs) == 74, "file layout");

/* IQ2_S  | d [2] | qs [32] | signs [32] | qh [8] | scales [8] |    two scales
 * s as IQ2_XS;  q = +-iq2_s[qs[4 g + l] + 256 * ((qh[g] >> 2 l) & 3)][c]
 * signs: full, signs[4 g + l] */
typedef struct {
    uint16_t d;
    uint8_t qs[32];
    uint8_t signs[32];
    uint8_t qh[8];
    uint8_t scales[8];
} KERN_PACKED kern_iq2_s;
_Static_assert(sizeof(kern_iq2_s) == 82, "file layout");

/* IQ3_XXS  | d [2] | qs [64] | aux [32] |    one scale
 * s = d * (0.5 + aux[g] >> 28) * 0.5;  q = +-iq3_xxs[qs[8 g + i / 4]][i % 4]
 * signs: even, bits 7 l .. 7 l + 6 of aux[g] */
typedef struct {
    uint16_t d;
    uint8_t qs[64];
    uint32_t aux[8];
} KERN_PACKED kern_iq3_xxs;
_Static_assert(sizeof(kern_iq3_xxs) == 98, "file layout");

/* IQ3_S  | d [2] | qs [64] | qh [8] | signs [32] | scales [4] |    one scale
 * s = d * (1 + 2 * nib(scales[g / 2], g % 2))
 * q = +-iq3_s[qs[8 g + i / 4] + 256 * bit i / 4 of qh[g]][i % 4];  signs: full, signs[4 g + l] */
typedef struct {
    uint16_t d;
    uint8_t qs[64];
    uint8_t qh[8];
    uint8_t signs[32];
    uint8_t scales[4];
} KERN_PACKED kern_iq3_s;
_Static_assert(sizeof(kern_iq3_s) == 110, "file layout");

/* IQ1_S  | d [2] | qs [32] | qh [16] |    one scale
 * The value is dl * (grid + delta) with grid -1, 0 or 1 and delta = +-1/8; in eighths:
 * s = d * (2 * ((qh[g] >> 12) & 7) + 1) / 8
 * q = 8 * iq1[qs[4 g + l] + 256 * ((qh[g] >> 3 l) & 7)][c] + (bit 15 of qh[g] ? -1 : 1) */
typedef struct {
    uint16_t d;
    uint8_t qs[32];
    uint16_t qh[8];
} KERN_PACKED kern_iq1_s;
_Static_assert(sizeof(kern_iq1_s) == 50, "file layout");

/* IQ1_M  | qs [32] | qh [16] | scales [8] |    two scales
 * d is a half in the top nibbles of the four scales, the first one's lowest.
 * s[h] = d * (2 * ((scales[g / 2] >> (6 * (g % 2) + 3 h)) & 7) + 1) / 8
 * t = nib(qh[2 g + l / 2], l % 2)
 * q = 8 * iq1[qs[4 g + l] + 256 * (t & 7)][c] + (bit 3 of t ? -1 : 1) */
typedef struct {
    uint8_t qs[32];
    uint8_t qh[16];
    uint16_t scales[4];
} KERN_PACKED kern_iq1_m;
_Static_assert(sizeof(kern_iq1_m) == 56, "file layout");

#endif
