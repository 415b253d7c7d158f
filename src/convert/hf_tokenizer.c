/* hf_tokenizer.c - see hf_tokenizer.h. */
#include "convert/hf_tokenizer.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "convert/json.h"

#define TOKENIZER     "tokenizer.json"
#define TEMPLATE_FILE "chat_template.jinja"
#define TEMPLATE_MAX  (4u << 20)

/* tokenizer.ggml.token_type of the GGUF specification */
enum { TYPE_NORMAL = 1, TYPE_CONTROL = 3, TYPE_USER_DEFINED = 4, TYPE_UNUSED = 5 };

/* The split patterns (PCRE syntax) of the two tokenizers that the engine has. */
static const struct {
    const char *pre, *regex;
} splits[] = {
    {"qwen35", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
               " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"qwen2", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
              " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
};

/* ---- Loading ------------------------------------------------------------------------------ */

static ft_status load_template(hf_tokenizer *t, const char *dir, ft_error *err)
{
    char path[JS_MAX_PATH];
    TRY(js_path(path, sizeof path, dir, TEMPLATE_FILE, err));
    struct stat info;
    if (stat(path, &info) != 0 && errno == ENOENT)
        return FT_OK;
    size_t n;
    return file_read_all(&t->chat_template, &n, path, TEMPLATE_MAX, err);
}

ft_status hf_tokenizer_load(hf_tokenizer *t, const char *dir, ft_error *err)
{
    *t = (hf_tokenizer){0};
    ft_status st = js_load_if_there(&t->tokenizer, dir, TOKENIZER, err);
    if (st == FT_OK)
        st = js_load_if_there(&t->tokenizer_config, dir, "tokenizer_config.json", err);
    if (st == FT_OK)
        st = js_load_if_there(&t->generation_config, dir, "generation_config.json", err);
    if (st == FT_OK)
        st = load_template(t, dir, err);
    if (st != FT_OK)
        hf_tokenizer_free(t);
    return st;
}

void hf_tokenizer_free(hf_tokenizer *t)
{
    json_decref(t->tokenizer);
    json_decref(t->tokenizer_config);
    json_decref(t->generation_config);
    mem_free(t->chat_template);
    *t = (hf_tokenizer){0};
}

/* ---- The kind of the tokenizer ------------------------------------------------------------- */

static const char *str_at(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static bool is_type(const json_t *o, const char *type)
{
    const char *s = str_at(o, "type");
    return s && strcmp(s, type) == 0;
}

/* The regex of a Split step that isolates its matches; NULL: none. */
static const char *split_regex(const json_t *pre)
{
    const json_t *steps = json_object_get(pre, "pretokenizers");
    const json_t *split = is_type(pre, "Sequence") ? json_array_get(steps, 0) : pre;
    if (!is_type(split, "Split") || json_is_true(json_object_get(split, "invert")))
        return NULL;
    const char *behavior = str_at(split, "behavior");
    if (!behavior || strcmp(behavior, "Isolated") != 0)
        return NULL;
    return str_at(json_object_get(split, "pattern"), "Regex");
}

static ft_status find_pre(const char **pre, const json_t *root, ft_error *err)
{
    const char *regex = split_regex(json_object_get(root, "pre_tokenizer"));
    for (size_t i = 0; regex && i < ARRAY_LEN(splits); i++) {
        if (strcmp(splits[i].regex, regex) == 0) {
            *pre = splits[i].pre;
            return FT_OK;
        }
    }
    return err_set(err, FT_UNSUPPORTED,
                   TOKENIZER ": split pattern '%.150s' is unknown, want that of qwen35 or qwen2",
                   regex ? regex : "(none)");
}

static ft_status check_kind(const json_t *root, const json_t *model, ft_error *err)
{
    const char *type = str_at(model, "type");
    if (type && strcmp(type, "BPE") != 0)
        return err_set(err, FT_UNSUPPORTED, TOKENIZER ": model type '%.40s', want BPE", type);
    const json_t *norm = json_object_get(root, "normalizer");
    if (!is_type(norm, "NFC")) {
        const char *s = str_at(norm, "type");
        return err_set(err, FT_UNSUPPORTED, TOKENIZER ": normalizer '%.40s', want NFC",
                       s ? s : "(none)");
    }
    static const char *const off[] = {"byte_fallback", "ignore_merges"};
    for (size_t i = 0; i < ARRAY_LEN(off); i++)
        if (json_is_true(json_object_get(model, off[i])))
            return err_set(err, FT_UNSUPPORTED, TOKENIZER ": '%s' is true, want false", off[i]);
    return FT_OK;
}

/* ---- Tokens ------------------------------------------------------------------------------- */

typedef struct {
    gguf_str *text; /* [n]; s NULL: no text yet */
    int32_t *type;  /* [n] */
    int n;
    buf pads; /* texts of the unused ids */
} token_table;

static ft_status set_token(token_table *t, const char *s, size_t len, const json_t *id, int type,
                           ft_error *err)
{
    json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i < 0 || i >= t->n)
        return err_set(err, FT_FORMAT, TOKENIZER ": token '%.60s' has id %lld, want 0 to %d", s,
                       (long long)i, t->n - 1);
    gguf_str *slot = &t->text[i];
    /* an added token may repeat an entry of the vocabulary */
    if (slot->s && (slot->len != len || memcmp(slot->s, s, len) != 0))
        return err_set(err, FT_FORMAT, TOKENIZER ": id %lld is both '%.40s' and '%.40s'",
                       (long long)i, slot->s, s);
    *slot = (gguf_str){.s = s, .len = len};
    t->type[i] = type;
    return FT_OK;
}

static ft_status read_vocab(token_table *t, json_t *model, ft_error *err)
{
    json_t *vocab = json_object_get(model, "vocab");
    if (!json_is_object(vocab))
        return err_set(err, FT_FORMAT, TOKENIZER ": 'vocab' is no object of token: id");
    const char *s;
    json_t *id;
    json_object_foreach(vocab, s, id) TRY(set_token(t, s, strlen(s), id, TYPE_NORMAL, err));
    return FT_OK;
}

static ft_status read_added(token_table *t, const json_t *root, ft_error *err)
{
    const json_t *added = json_object_get(root, "added_tokens");
    size_t i;
    json_t *a;
    json_array_foreach(added, i, a)
    {
        const json_t *s = json_object_get(a, "content");
        if (!json_is_string(s) || json_string_length(s) == 0)
            return err_set(err, FT_FORMAT, TOKENIZER ": added_tokens[%zu] has no 'content'", i);
        bool special = json_is_true(json_object_get(a, "special"));
        TRY(set_token(t, json_string_value(s), json_string_length(s), json_object_get(a, "id"),
                      special ? TYPE_CONTROL : TYPE_USER_DEFINED, err));
    }
    return FT_OK;
}

/* Give the ids without a text one. Two passes, since the buffer moves while it grows. */
static ft_status fill_unused(token_table *t, ft_error *err)
{
    for (int i = 0; i < t->n; i++) {
        if (t->text[i].s)
            continue;
        t->text[i].len = t->pads.len;
        buf_printf(&t->pads, "[PAD%d]", i);
        buf_putc(&t->pads, '\0');
    }
    TRY(buf_status(&t->pads, TOKENIZER ": unused tokens", err));
    for (int i = 0; i < t->n; i++) {
        if (t->text[i].s)
            continue;
        const char *s = (const char *)t->pads.data + t->text[i].len;
        t->text[i] = (gguf_str){.s = s, .len = strlen(s)};
        t->type[i] = TYPE_UNUSED;
    }
    return FT_OK;
}

static ft_status read_tokens(token_table *t, const json_t *root, json_t *model, int n_vocab,
                             ft_error *err)
{
    t->n = n_vocab;
    t->text = mem_calloc((size_t)n_vocab, sizeof *t->text);
    t->type = mem_calloc((size_t)n_vocab, sizeof *t->type);
    if (!t->text || !t->type)
        return err_set(err, FT_NOMEM, TOKENIZER ": %d tokens", n_vocab);
    TRY(read_vocab(t, model, err));
    TRY(read_added(t, root, err));
    return fill_unused(t, err);
}

static ft_status put_tokens(gguf_writer *w, const json_t *root, json_t *model, int n_vocab,
                            ft_error *err)
{
    token_table t = {0};
    buf_init(&t.pads, (size_t)n_vocab * 16);
    ft_status st = read_tokens(&t, root, model, n_vocab, err);
    if (st == FT_OK) {
        gguf_put_str_array(w, "tokenizer.ggml.tokens", t.text, (size_t)n_vocab);
        gguf_put_array(w, "tokenizer.ggml.token_type", GGUF_I32, t.type, (size_t)n_vocab);
    }
    buf_deinit(&t.pads);
    mem_free(t.text);
    mem_free(t.type);
    return st;
}

/* ---- Merges ------------------------------------------------------------------------------- */

/* Both spellings of a merge: "a b" and ["a", "b"]. The parts of byte-level tokens hold no space. */
static bool put_merge(buf *b, const json_t *m)
{
    const json_t *left = json_array_get(m, 0), *right = json_array_get(m, 1);
    size_t from = b->len;
    if (json_array_size(m) == 2 && json_is_string(left) && json_is_string(right)) {
        buf_put(b, json_string_value(left), json_string_length(left));
        buf_putc(b, ' ');
        buf_put(b, json_string_value(right), json_string_length(right));
    } else if (json_is_string(m)) {
        buf_put(b, json_string_value(m), json_string_length(m));
    }
    if (b->failed)
        return true; /* the caller asks buf_status */
    size_t n = b->len - from;
    const char *s = n ? (const char *)b->data + from : NULL;
    const char *space = s ? memchr(s, ' ', n) : NULL;
    return n >= 3 && space && space != s && space != s + n - 1 &&
           !memchr(space + 1, ' ', n - 1 - (size_t)(space - s));
}

static ft_status collect_merges(buf *b, gguf_str *v, const json_t *merges, ft_error *err)
{
    size_t i;
    json_t *m;
    json_array_foreach(merges, i, m)
    {
        size_t from = b->len;
        if (!put_merge(b, m))
            return err_set(err, FT_FORMAT, TOKENIZER ": merges[%zu] is no pair of tokens", i);
        v[i].len = b->len - from;
    }
    TRY(buf_status(b, TOKENIZER ": merges", err));
    const char *s = (const char *)b->data; /* the buffer has stopped moving */
    for (i = 0; i < json_array_size(merges); i++) {
        v[i].s = s;
        s += v[i].len;
    }
    return FT_OK;
}

static ft_status put_merges(gguf_writer *w, const json_t *model, ft_error *err)
{
    const json_t *merges = json_object_get(model, "merges");
    size_t n = json_array_size(merges);
    if (n == 0)
        return err_set(err, FT_FORMAT, TOKENIZER ": 'merges' is empty or missing");
    gguf_str *v = mem_calloc(n, sizeof *v);
    if (!v)
        return err_set(err, FT_NOMEM, TOKENIZER ": %zu merges", n);
    buf b;
    buf_init(&b, JS_MAX_FILE_BYTES);
    ft_status st = collect_merges(&b, v, merges, err);
    if (st == FT_OK)
        gguf_put_str_array(w, "tokenizer.ggml.merges", v, n);
    buf_deinit(&b);
    mem_free(v);
    return st;
}

/* ---- Ids and the chat template ------------------------------------------------------------- */

/* The id of generation_config.json, else that of config.json. A second end token of the list goes
 * to the key of the end of a turn, so that no reader runs past it. */
static ft_status put_ids(gguf_writer *w, const hf_tokenizer *t, const hf_config *c, ft_error *err)
{
    static const char *const file = "generation_config.json";
    const json_t *gen = t->generation_config;
    int eos[HF_MAX_EOS] = {c->eos}, bos[HF_MAX_EOS] = {c->bos}, pad[HF_MAX_EOS] = {c->pad};
    int n_eos, n;
    TRY(hf_token_ids(eos, &n_eos, json_object_get(gen, "eos_token_id"), file, "eos_token_id",
                     c->n_vocab, err));
    TRY(hf_token_ids(bos, &n, json_object_get(gen, "bos_token_id"), file, "bos_token_id",
                     c->n_vocab, err));
    TRY(hf_token_ids(pad, &n, json_object_get(gen, "pad_token_id"), file, "pad_token_id",
                     c->n_vocab, err));
    if (eos[0] >= 0)
        gguf_put_int(w, "tokenizer.ggml.eos_token_id", GGUF_U32, eos[0]);
    if (!t->tokenizer)
        return FT_OK;
    if (n_eos > 1)
        gguf_put_int(w, "tokenizer.ggml.eot_token_id", GGUF_U32, eos[1]);
    if (bos[0] >= 0)
        gguf_put_int(w, "tokenizer.ggml.bos_token_id", GGUF_U32, bos[0]);
    if (pad[0] >= 0)
        gguf_put_int(w, "tokenizer.ggml.padding_token_id", GGUF_U32, pad[0]);
    gguf_put_int(w, "tokenizer.ggml.add_bos_token", GGUF_BOOL, 0);
    return FT_OK;
}

/* A string, or a list of named ones of which "default" is taken. */
static void put_template(gguf_writer *w, const hf_tokenizer *t)
{
    const json_t *v = json_object_get(t->tokenizer_config, "chat_template");
    size_t i;
    json_t *named;
    json_array_foreach(v, i, named)
    {
        const char *name = str_at(named, "name");
        if (name && strcmp(name, "default") == 0) {
            v = json_object_get(named, "template");
            break;
        }
    }
    const char *s = json_is_string(v) ? json_string_value(v) : t->chat_template;
    if (s)
        gguf_put_str(w, "tokenizer.chat_template", s, strlen(s));
}

ft_status hf_tokenizer_put(gguf_writer *w, const hf_tokenizer *t, const hf_config *c, ft_error *err)
{
    TRY(put_ids(w, t, c, err));
    if (!t->tokenizer)
        return FT_OK;
    json_t *model = json_object_get(t->tokenizer, "model");
    const char *pre = NULL;
    TRY(check_kind(t->tokenizer, model, err));
    TRY(find_pre(&pre, t->tokenizer, err));
    gguf_put_str(w, "tokenizer.ggml.model", "gpt2", 4);
    gguf_put_str(w, "tokenizer.ggml.pre", pre, strlen(pre));
    TRY(put_tokens(w, t->tokenizer, model, c->n_vocab, err));
    TRY(put_merges(w, model, err));
    put_template(w, t);
    return FT_OK;
}
