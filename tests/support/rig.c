/* rig.c - see rig.h. */
#include "support/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(ft_status st, const ft_error *err)
{
    if (st == FT_OK)
        return;
    fprintf(stderr, "rig: status %d: %s\n", (int)st, err->msg);
    exit(1);
}

void rig_open(rig *r, const char *path, const char *level, int n_thread, dtype kv_type)
{
    ft_error err = {0};
    *r = (rig){.kv_type = kv_type};
    must(gguf_open(&r->f, path, &err), &err);
    must(model_open(&r->m, r->f, NULL, &err), &err);
    backend_params p = {.n_thread = n_thread, .level = level};
    must(backend_create(&r->be, &p, &err), &err);
    must(arena_init(&r->scratch, layer_scratch(r->be, r->m, RIG_ROWS, RIG_ROWS, RIG_CTX), "rig",
                    &err),
         &err);
    r->n_vocab = r->m->h.n_vocab;
    r->width = layer_hidden_width(&r->m->h);
}

void rig_close(rig *r)
{
    arena_deinit(&r->scratch);
    backend_free(r->be);
    model_free(r->m);
    gguf_close(r->f);
}

seq *rig_seq(rig *r)
{
    ft_error err = {0};
    seq_layer_shape layer[MODEL_MAX_LAYER];
    seq_shape shape;
    seq *s;
    layer_state_shape(r->m, RIG_CTX, RIG_WINDOW, r->kv_type, layer, &shape);
    must(seq_create(&s, r->be, &shape, &err), &err);
    return s;
}

void rig_feed(rig *r, seq *s, const int32_t *tok, int n, int n_commit, float *logits, float *hidden)
{
    int32_t want[RIG_ROWS];
    for (int i = 0; i < n; i++)
        want[i] = i;
    layer_seg seg = {.s = s, .n_row = n, .n_commit = n_commit};
    layer_batch b = {.tok = tok,
                     .seg = &seg,
                     .n_seg = 1,
                     .want = want,
                     .n_want = logits ? n : 0,
                     .logits = logits,
                     .hidden = hidden};
    ft_error err = {0};
    must(seq_reserve(s, n, &err), &err);
    must(layer_forward(r->be, r->m, &r->scratch, &b, &err), &err);
}

int32_t rig_token(uint64_t text, int i, int n_vocab)
{
    uint64_t x = (text * 0x9E3779B97F4A7C15u) ^ ((uint64_t)i * 0xBF58476D1CE4E5B9u);
    x ^= x >> 31;
    x *= 0x94D049BB133111EBu;
    x ^= x >> 29;
    return x % 11 == 0 ? TINY_EOS : (int32_t)(x % (uint64_t)n_vocab);
}
