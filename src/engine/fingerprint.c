/* fingerprint.c - see fingerprint.h. */
#include "engine/fingerprint.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { SAMPLE = 4096 }; /* bytes of a tensor that are hashed: one page of the file */

static void put_int(XXH3_state_t *h, uint64_t v)
{
    XXH3_64bits_update(h, &v, sizeof v);
}

/* With its length, so that no two lists of texts run together. */
static void put_text(XXH3_state_t *h, const char *s)
{
    put_int(h, strlen(s));
    XXH3_64bits_update(h, s, strlen(s));
}

static void put_tensor(XXH3_state_t *h, const tensor *t)
{
    size_t n = tensor_bytes(t), some = n < SAMPLE ? n : SAMPLE;
    put_text(h, t->name);
    put_int(h, t->type);
    put_int(h, (uint64_t)t->n_col);
    put_int(h, (uint64_t)t->n_row);
    put_int(h, (uint64_t)t->n_mat);
    XXH3_64bits_update(h, (const uint8_t *)t->data + (n - some) / 2, some);
}

static uint64_t of_file(const gguf_file *f)
{
    XXH3_state_t h;
    XXH3_64bits_reset(&h);
    put_int(&h, gguf_n_kv(f));
    for (size_t i = 0; i < gguf_n_kv(f); i++) {
        const gguf_kv *kv = gguf_kv_at(f, i);
        put_text(&h, kv->key);
        put_int(&h, kv->type);
        put_int(&h, kv->elem);
        put_int(&h, kv->n);
        put_int(&h, kv->raw_bytes);
        XXH3_64bits_update(&h, kv->raw, kv->raw_bytes);
    }
    put_int(&h, gguf_n_tensor(f));
    for (size_t i = 0; i < gguf_n_tensor(f); i++)
        put_tensor(&h, &gguf_tensor_at(f, i)->t);
    return XXH3_64bits_digest(&h);
}

/* A matrix of the drafter's may be a part of a larger one, with a stride: one row of it will do. */
static void put_rows(XXH3_state_t *h, const tensor *t)
{
    put_text(h, t->name ? t->name : "");
    put_int(h, t->type);
    put_int(h, (uint64_t)t->n_row);
    XXH3_64bits_update(h, (const uint8_t *)t->data + (size_t)(t->n_row / 2) * t->row_bytes,
                       dtype_row_bytes(t->type, (size_t)t->n_col));
}

static uint64_t of_draft(const ft_model *m)
{
    XXH3_state_t h;
    XXH3_64bits_reset(&h);
    put_int(&h, m->mtp_file ? of_file(m->mtp_file) : 0);
    for (int i = 0; i < DRAFT_N_PART; i++) {
        const tensor *t = draft_part(&m->dw->mtp, i);
        put_int(&h, (uint64_t)i);
        if (t && t->data)
            put_rows(&h, t);
    }
    return XXH3_64bits_digest(&h);
}

/* Threads that ask at the same time compute the same number. 0 stands for "not yet". */
uint64_t model_fingerprint(ft_model *m)
{
    uint64_t v = atomic_load(&m->fingerprint);
    if (v == 0) {
        v = of_file(m->file);
        v += v == 0;
        atomic_store(&m->fingerprint, v);
    }
    return v;
}

uint64_t draft_fingerprint(ft_model *m)
{
    if (!m->dw)
        return 0;
    uint64_t v = atomic_load(&m->draft_fingerprint);
    if (v == 0) {
        v = of_draft(m);
        v += v == 0;
        atomic_store(&m->draft_fingerprint, v);
    }
    return v;
}
