/* model.c - opening a model and what can be asked of it. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "engine/engine.h"
#include "engine/matrices.h"
#include "engine/repack.h"

double engine_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

ft_model_params ft_model_params_default(void)
{
    return (ft_model_params){.checkpoint_mem = (uint64_t)512 << 20};
}

/* Every matrix must have a kernel: found out now, not at the first step. */
static ft_status check_matrix(void *ctx, tensor *t, ft_error *err)
{
    if (backend_can_matmul(ctx, t->type))
        return FT_OK;
    return err_set(err, FT_UNSUPPORTED, "tensor '%s': no matrix product for type %s", t->name,
                   dtype_name(t->type));
}

static ft_status check_kernels(ft_model *m, ft_error *err)
{
    TRY(matrices_of_trunk(m->m, check_matrix, m->be, err));
    return matrices_of_draft(&m->m->mtp, check_matrix, m->be, err); /* all absent without one */
}

static ft_status open_tokenizer(ft_model *m, ft_error *err)
{
    if (!gguf_kv_find(m->file, "tokenizer.ggml.tokens"))
        return FT_OK; /* a model without text: ids in, ids out */
    TRY(tok_open(&m->tok, m->file, err));
    if (tok_n_vocab(m->tok) > m->m->h.n_vocab)
        return err_set(err, FT_FORMAT, "%s: tokenizer has %d tokens, token_embd %d rows",
                       gguf_path(m->file), tok_n_vocab(m->tok), m->m->h.n_vocab);
    return FT_OK;
}

/* The draft head in the types that the drafter reads it in. */
static ft_status open_draft(ft_model *m, const ft_model_params *p, ft_error *err)
{
    draft_weights_opts o = draft_weights_opts_default();
    if (p->draft_quant)
        TRY(draft_quant_parse(&o.wide, p->draft_quant, err));
    if (p->draft_quant_mixers)
        TRY(draft_quant_parse(&o.mixers, p->draft_quant_mixers, err));
    return m->m->has_mtp ? draft_weights_create(&m->dw, m->m, &o, err) : FT_OK;
}

static ft_status open_parts(ft_model *m, const char *path, const ft_model_params *p, ft_error *err)
{
    backend_params bp = {.n_thread = p->n_thread, .level = p->cpu};
    TRY(backend_create(&m->be, &bp, err));
    TRY(gguf_open(&m->file, path, err));
    if (p->mtp_path)
        TRY(gguf_open(&m->mtp_file, p->mtp_path, err));
    TRY(model_open(&m->m, m->file, m->mtp_file, err));
    TRY(check_kernels(m, err));
    TRY(open_draft(m, p, err));
    TRY(open_tokenizer(m, err));
    TRY(checkpoints_create(&m->checkpoints, p->checkpoint_mem, err));
    if (p->draft_vocab)
        TRY(engine_open_draft_vocab(m, p->draft_vocab, err));
    return repack_model(m, p->repack, err);
}

ft_status ft_model_open(ft_model **out, const char *path, const ft_model_params *p, ft_error *err)
{
    *out = NULL;
    if (!path)
        return err_set(err, FT_ARG, "model: no path");
    ft_model_params def = ft_model_params_default();
    double t0 = engine_now();
    ft_model *m = mem_zalloc(sizeof *m);
    if (!m)
        return err_set(err, FT_NOMEM, "model");
    ft_status st = open_parts(m, path, p ? p : &def, err);
    if (st != FT_OK) {
        ft_model_close(m);
        return st;
    }
    gguf_str name;
    if (gguf_get_str(m->file, "general.name", &name, NULL) == FT_OK)
        snprintf(m->name, sizeof m->name, "%.*s", name.len > 120 ? 120 : (int)name.len, name.s);
    m->load_seconds = engine_now() - t0;
    *out = m;
    return FT_OK;
}

void ft_model_close(ft_model *m)
{
    if (!m)
        return;
    checkpoints_free(m->checkpoints);
    tok_close(m->tok);
    draft_vocab_free(m->vocab);
    draft_weights_free(m->dw);
    repack_free(m);
    model_free(m->m);
    gguf_close(m->mtp_file);
    gguf_close(m->file);
    backend_free(m->be);
    mem_free(m);
}

void ft_model_get_info(const ft_model *m, ft_model_info *out)
{
    const model_hparams *h = &m->m->h;
    *out = (ft_model_info){.arch = model_arch_name(h->arch),
                           .name = m->name,
                           .cpu = backend_level(m->be),
                           .n_thread = backend_n_thread(m->be),
                           .n_vocab = h->n_vocab,
                           .n_embd = h->n_embd,
                           .n_layer = h->n_layer,
                           .n_ctx_train = h->n_ctx_train,
                           .hidden_width = layer_hidden_width(h),
                           .has_mtp = m->m->has_mtp,
                           .no_mtp_reason = m->m->no_mtp_reason,
                           .has_tokenizer = m->tok != NULL,
                           .eos = m->tok ? tok_eos(m->tok) : -1,
                           .file_bytes = gguf_file_bytes(m->file) +
                                         (m->mtp_file ? gguf_file_bytes(m->mtp_file) : 0),
                           .load_seconds = m->load_seconds,
                           .repack_bytes = m->repack.n_bytes,
                           .n_draft_vocab = m->vocab ? m->vocab->n : 0,
                           .no_draft_vocab_reason = m->no_vocab_reason};
}

static ft_status need_tokenizer(const ft_model *m, ft_error *err)
{
    if (m->tok)
        return FT_OK;
    return err_set(err, FT_UNSUPPORTED, "%s: no tokenizer (tokenizer.ggml.tokens) in the file",
                   gguf_path(m->file));
}

ft_status ft_tokenize(const ft_model *m, const char *text, size_t len, bool special, int32_t **ids,
                      size_t *n, ft_error *err)
{
    *ids = NULL;
    *n = 0;
    TRY(need_tokenizer(m, err));
    buf b;
    buf_init(&b, (size_t)1 << 32);
    ft_status st = tok_encode(m->tok, text, len, special ? TOK_PARSE_SPECIAL : TOK_PLAIN, &b, err);
    if (st != FT_OK) {
        buf_deinit(&b);
        return st;
    }
    *n = b.len / sizeof **ids;
    *ids = (int32_t *)(void *)b.data;
    if (*n == 0) {
        *ids = NULL;
        buf_deinit(&b);
    }
    return FT_OK;
}

ft_status ft_detokenize(const ft_model *m, const int32_t *ids, size_t n, bool special, char **text,
                        size_t *len, ft_error *err)
{
    *text = NULL;
    *len = 0;
    TRY(need_tokenizer(m, err));
    buf b;
    buf_init(&b, (size_t)1 << 32);
    detok d = {0};
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= m->m->h.n_vocab) {
            buf_deinit(&b);
            return err_set(err, FT_RANGE, "token %zu: id %d, want 0 to %d", i, ids[i],
                           m->m->h.n_vocab - 1);
        }
        detok_put(&d, m->tok, ids[i], !special, &b);
    }
    detok_flush(&d, &b);
    size_t n_bytes = b.len;
    buf_putc(&b, 0);
    ft_status st = buf_status(&b, "detokenize", err);
    if (st != FT_OK) {
        buf_deinit(&b);
        return st;
    }
    *text = (char *)b.data;
    *len = n_bytes;
    return FT_OK;
}

const char *ft_token_bytes(const ft_model *m, int32_t id, bool special, size_t *len)
{
    *len = 0;
    return m->tok ? tok_bytes(m->tok, id, !special, len) : "";
}

void ft_free(void *p)
{
    mem_free(p);
}
