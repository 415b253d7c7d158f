/* attn.c - attention of one KV head over a span of cells in portable C. Source: kern.h. */
#include "kern/ref/math.h"
#include "kern/slots.h"

typedef float score_row[KERN_ATTN_BLOCK];

/* The cell of list entry i, less the head's offset. */
static const uint8_t *find_cell(const kern_attn *a, int i)
{
    const int cell = a->cell ? a->cell[i] : a->first + i;
    return (const uint8_t *)a->page[cell / KERN_ATTN_PAGE] +
           (size_t)(cell % KERN_ATTN_PAGE) * a->cell_bytes;
}

static float dot(const float *a, const float *b, int n)
{
    float p[16] = {0};
    for (int i = 0; i < n; i += 16)
        for (int j = 0; j < 16; j++)
            p[j] = fmaf(a[i + j], b[i + j], p[j]);
    return lane_tree(p);
}

/* s[h][j] of the n cells from list entry i on. */
static void block_scores(const kern_attn *a, int i, int n, score_row *s)
{
    float row[KERN_ATTN_MAX_D];
    for (int j = 0; j < n; j++) {
        kern_decode(a->kv_type, row, find_cell(a, i + j) + a->k, (size_t)a->d);
        for (int h = 0; h < a->n_q; h++)
            s[h][j] = dot(row, a->q + (size_t)h * a->q_stride, a->d) * a->scale;
    }
}

/* Scores become probabilities in s; m and l go on, acc is scaled. */
static void block_softmax(const kern_attn *a, int h, int n, float *s)
{
    float m = a->m[h];
    for (int j = 0; j < n; j++)
        if (s[j] > m)
            m = s[j];
    m += 0.0f; /* one zero, whichever was found first */
    const float z = m == -INFINITY ? 0.0f : m;
    const float c = exp_f32(a->m[h] - z);
    float p[16] = {0};
    for (int j = 0; j < n; j++) {
        s[j] = exp_f32(s[j] - z);
        p[j % 16] += s[j];
    }
    a->m[h] = m;
    a->l[h] = fmaf(a->l[h], c, lane_tree(p));
    for (int i = 0; i < a->d; i++)
        a->acc[(size_t)h * (size_t)a->d + (size_t)i] *= c;
}

static void block_values(const kern_attn *a, int i, int n, score_row *p)
{
    float row[KERN_ATTN_MAX_D];
    for (int j = 0; j < n; j++) {
        kern_decode(a->kv_type, row, find_cell(a, i + j) + a->v, (size_t)a->d);
        for (int h = 0; h < a->n_q; h++) {
            float *acc = a->acc + (size_t)h * (size_t)a->d;
            for (int e = 0; e < a->d; e++)
                acc[e] = fmaf(p[h][j], row[e], acc[e]);
        }
    }
}

static void attn(const kern_attn *a)
{
    score_row s[KERN_ATTN_MAX_Q];
    for (int i = 0; i < a->n_cell; i += KERN_ATTN_BLOCK) {
        const int left = a->n_cell - i;
        const int n = left < KERN_ATTN_BLOCK ? left : KERN_ATTN_BLOCK;
        block_scores(a, i, n, s);
        for (int h = 0; h < a->n_q; h++)
            block_softmax(a, h, n, s[h]);
        block_values(a, i, n, s);
    }
}

void kern_init_attn_ref(kern_table *k)
{
    k->attn = attn;
}
