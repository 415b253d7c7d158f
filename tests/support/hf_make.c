/* hf_make.c - see hf_make.h. */
#include "support/hf_make.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char hf_toy_config[] =
    "{\"model_type\": \"qwen3_5_text\", \"hidden_size\": 32, \"vocab_size\": 40,"
    "\"max_position_embeddings\": 128, \"rms_norm_eps\": 1e-06, \"num_hidden_layers\": 2,"
    "\"layer_types\": [\"linear_attention\", \"full_attention\"], \"num_attention_heads\": 2,"
    "\"num_key_value_heads\": 1, \"head_dim\": 16, \"linear_num_key_heads\": 2,"
    "\"linear_num_value_heads\": 4, \"linear_key_head_dim\": 8, \"linear_value_head_dim\": 8,"
    "\"linear_conv_kernel_dim\": 4, \"intermediate_size\": 48, \"eos_token_id\": 39,"
    "\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 10000,"
    "\"partial_rotary_factor\": 0.5}";

static void die(const char *what)
{
    perror(what);
    exit(2);
}

hf_make_tensor *hf_make_add(hf_make *m, const char *name, const char *dtype, int n_dim,
                            const int *dim)
{
    if (m->n == HF_MAKE_MAX)
        die("hf_make: too many tensors");
    hf_make_tensor *t = &m->t[m->n++];
    *t = (hf_make_tensor){.dtype = dtype, .n_dim = n_dim};
    snprintf(t->name, sizeof t->name, "%s", name);
    for (int i = 0; i < n_dim; i++)
        t->dim[i] = dim[i];
    return t;
}

static void add1(hf_make *m, const char *dtype, const char *prefix, const char *name, int n)
{
    char full[112];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    hf_make_add(m, full, dtype, 1, &n);
}

static void add2(hf_make *m, const char *dtype, const char *prefix, const char *name, int rows,
                 int cols)
{
    char full[112];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    hf_make_add(m, full, dtype, 2, (int[]){rows, cols});
}

static void add_common(hf_make *m, const char *dtype, const char *p)
{
    add1(m, dtype, p, "input_layernorm.weight", 32);
    add1(m, dtype, p, "post_attention_layernorm.weight", 32);
    add2(m, dtype, p, "mlp.gate_proj.weight", 48, 32);
    add2(m, dtype, p, "mlp.up_proj.weight", 48, 32);
    add2(m, dtype, p, "mlp.down_proj.weight", 32, 48);
}

static void add_attention(hf_make *m, const char *dtype, const char *p)
{
    add2(m, dtype, p, "self_attn.q_proj.weight", 64, 32);
    add2(m, dtype, p, "self_attn.k_proj.weight", 16, 32);
    add2(m, dtype, p, "self_attn.v_proj.weight", 16, 32);
    add2(m, dtype, p, "self_attn.o_proj.weight", 32, 32);
    add1(m, dtype, p, "self_attn.q_norm.weight", 16);
    add1(m, dtype, p, "self_attn.k_norm.weight", 16);
}

static void add_delta_net(hf_make *m, const char *dtype, const char *p)
{
    char conv[112];
    add2(m, dtype, p, "linear_attn.in_proj_qkv.weight", 64, 32);
    add2(m, dtype, p, "linear_attn.in_proj_z.weight", 32, 32);
    add2(m, dtype, p, "linear_attn.in_proj_a.weight", 4, 32);
    add2(m, dtype, p, "linear_attn.in_proj_b.weight", 4, 32);
    snprintf(conv, sizeof conv, "%slinear_attn.conv1d.weight", p);
    hf_make_add(m, conv, dtype, 3, (int[]){64, 1, 4});
    add1(m, dtype, p, "linear_attn.A_log", 4);
    add1(m, dtype, p, "linear_attn.dt_bias", 4);
    add1(m, dtype, p, "linear_attn.norm.weight", 8);
    add2(m, dtype, p, "linear_attn.out_proj.weight", 32, 32);
}

void hf_make_toy(hf_make *m, const char *dtype, int with_mtp)
{
    m->n = 0;
    add2(m, dtype, "", "model.embed_tokens.weight", 40, 32);
    add2(m, dtype, "", "lm_head.weight", 40, 32);
    add1(m, dtype, "", "model.norm.weight", 32);
    add_common(m, dtype, "model.layers.0.");
    add_delta_net(m, dtype, "model.layers.0.");
    add_common(m, dtype, "model.layers.1.");
    add_attention(m, dtype, "model.layers.1.");
    if (!with_mtp)
        return;
    add_common(m, dtype, "mtp.layers.0.");
    add_attention(m, dtype, "mtp.layers.0.");
    add2(m, dtype, "", "mtp.fc.weight", 32, 64);
    add1(m, dtype, "", "mtp.norm.weight", 32);
    add1(m, dtype, "", "mtp.pre_fc_norm_embedding.weight", 32);
    add1(m, dtype, "", "mtp.pre_fc_norm_hidden.weight", 32);
}

hf_make_tensor *hf_make_find(hf_make *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (strcmp(m->t[i].name, name) == 0)
            return &m->t[i];
    return NULL;
}

void hf_make_remove(hf_make *m, const char *name)
{
    hf_make_tensor *t = hf_make_find(m, name);
    if (!t)
        die(name);
    int i = (int)(t - m->t);
    memmove(t, t + 1, (size_t)(m->n - i - 1) * sizeof *t);
    m->n--;
}

float hf_value(const char *name, size_t i)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (uint8_t)*name) * 16777619u;
    h = (h ^ (uint32_t)i) * 16777619u;
    h ^= h >> 15;
    return (float)((int)(h % 255) - 127) / 64.0f;
}

static size_t count(const hf_make_tensor *t)
{
    size_t n = 1;
    for (int i = 0; i < t->n_dim; i++)
        n *= (size_t)t->dim[i];
    return n;
}

static size_t value_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        size_t n;
    } known[] = {{"F32", 4}, {"BF16", 2}, {"F16", 2}, {"F64", 8}, {"I64", 8}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, dtype) == 0)
            return known[i].n;
    return 1;
}

/* The values are multiples of 1/64 below 2, so halves follow from the bits of the float. */
static void put_value(buf *b, const char *dtype, float v)
{
    uint32_t bits;
    double d = (double)v;
    int64_t i = (int64_t)v;
    memcpy(&bits, &v, sizeof bits);
    if (strcmp(dtype, "BF16") == 0) {
        buf_put(b, (uint8_t *)&bits + 2, 2);
    } else if (strcmp(dtype, "F16") == 0) {
        uint32_t e = bits >> 23 & 255;
        uint32_t h = (bits >> 16 & 0x8000) | (e ? (e - 112) << 10 | (bits >> 13 & 1023) : 0);
        buf_put(b, &h, 2);
    } else if (strcmp(dtype, "F64") == 0) {
        buf_put(b, &d, 8);
    } else if (strcmp(dtype, "I64") == 0) {
        buf_put(b, &i, 8);
    } else {
        buf_put(b, &bits, value_bytes(dtype));
    }
}

static void put_header(const hf_make *m, int from, int to, buf *b)
{
    size_t at = 0;
    buf_puts(b, "{\"__metadata__\": {\"format\": \"pt\"}");
    for (int i = from; i < to; i++) {
        const hf_make_tensor *t = &m->t[i];
        size_t end = at + count(t) * value_bytes(t->dtype);
        buf_printf(b, ", \"%s\": {\"dtype\": \"%s\", \"shape\": [", t->name, t->dtype);
        for (int k = 0; k < t->n_dim; k++)
            buf_printf(b, "%s%d", k ? ", " : "", t->dim[k]);
        buf_printf(b, "], \"data_offsets\": [%zu, %zu]}", at, end);
        at = end;
    }
    buf_putc(b, '}');
}

void hf_make_bytes(const hf_make *m, int from, int to, buf *out)
{
    buf header;
    buf_init(&header, 1 << 20);
    put_header(m, from, to, &header);
    uint64_t n = header.len;
    buf_put(out, &n, 8);
    buf_put(out, header.data, header.len);
    for (int i = from; i < to; i++) {
        const hf_make_tensor *t = &m->t[i];
        for (size_t k = 0; k < count(t); k++)
            put_value(out, t->dtype, k == 0 && t->first != 0 ? t->first : hf_value(t->name, k));
    }
    if (header.failed || out->failed)
        die("hf_make: buffer");
    buf_deinit(&header);
}

void hf_write(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[1024];
    for (const char *s = strchr(dir + 1, '/'); s; s = strchr(s + 1, '/')) {
        snprintf(path, sizeof path, "%.*s", (int)(s - dir), dir);
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            die(path);
    }
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        die(dir);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0)
        die(path);
}

void hf_write_text(const char *dir, const char *name, const char *text)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (text)
        hf_write(dir, name, text, strlen(text));
    else
        remove(path);
}

void hf_write_model(const char *dir, const hf_make *m, const char *more)
{
    buf b;
    buf_init(&b, 1 << 24);
    hf_make_bytes(m, 0, m->n, &b);
    hf_write(dir, "model.safetensors", b.data, b.len);
    buf_clear(&b);
    buf_printf(&b, "%s%s}", hf_toy_config, more);
    hf_write(dir, "config.json", b.data, b.len);
    buf_deinit(&b);
}
