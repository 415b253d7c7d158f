/* Property: any bytes encode, and the bytes of the ids are the NFC form of the text between special
 * tokens, with invalid bytes as they were; streamed, they are valid UTF-8. */
#include <stdlib.h>
#include <utf8proc.h>

#include "base/buf.h"
#include "support/toy_tok.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const specials[] = {"<",          "<a",           "<a>",  "<aa>",    "a>b",
                                       "<|im_end|>", "\xE4\xB8\x80", "\xCC", "\xCC\x81"};
static tokenizer *tokenizers[2];

static void require(bool ok)
{
    if (!ok)
        abort();
}

static void open_tokenizers(void)
{
    static const char *const pre[] = {"qwen35", "qwen2"};
    static toy_vocab v;
    for (int i = 0; i < 2; i++) {
        toy_init(&v);
        v.src.pre = (gguf_str){pre[i], strlen(pre[i])};
        toy_merge(&v, "a", "a");
        toy_merge(&v, " ", "a");
        toy_merge(&v, "aa", "aa");
        toy_merge(&v, " ", " ");
        toy_merge(&v, "\xCC", "\x81");
        toy_merge(&v, "\xE4", "\xB8");
        toy_merge(&v, "\n", "\n");
        for (size_t k = 0; k < ARRAY_LEN(specials); k++)
            toy_special(&v, specials[k], k % 2 ? TOKEN_CONTROL : TOKEN_USER_DEFINED);
        require(tok_create(&tokenizers[i], &v.src, NULL) == FT_OK);
    }
}

/* What text without special tokens decodes to, by utf8proc alone. */
static void put_expected(buf *out, const uint8_t *s, size_t n)
{
    while (n > 0) {
        utf8proc_int32_t c;
        size_t run = 0;
        for (utf8proc_ssize_t len = 1; len > 0 && run<n; run += len> 0 ? (size_t)len : 0)
            len = utf8proc_iterate(s + run, (utf8proc_ssize_t)(n - run), &c);
        utf8proc_uint8_t *nfc = NULL;
        utf8proc_ssize_t n_nfc =
            utf8proc_map(s, (utf8proc_ssize_t)run, &nfc, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        require(n_nfc >= 0);
        buf_put(out, nfc, (size_t)n_nfc);
        free(nfc);
        size_t bad = run < n;
        buf_put(out, s + run, bad);
        s += run + bad;
        n -= run + bad;
    }
}

/* Length of the longest special text at the start of s[n]; 0: none. */
static size_t special_at(const uint8_t *s, size_t n)
{
    size_t best = 0;
    for (size_t k = 0; k < ARRAY_LEN(specials); k++) {
        size_t len = strlen(specials[k]);
        if (len <= n && len > best && memcmp(s, specials[k], len) == 0)
            best = len;
    }
    return best;
}

static void expected(buf *out, const uint8_t *s, size_t n, tok_mode mode)
{
    size_t done = 0;
    for (size_t i = 0; mode == TOK_PARSE_SPECIAL && i < n;) {
        size_t len = special_at(s + i, n - i);
        if (len > 0) {
            put_expected(out, s + done, i - done);
            buf_put(out, s + i, len);
            done = i + len;
        }
        i += len > 0 ? len : 1;
    }
    put_expected(out, s + done, n - done);
}

static void check_streamed(const tokenizer *t, const buf *ids, const buf *want)
{
    buf out;
    buf_init(&out, 1 << 20);
    detok d = {0};
    for (size_t i = 0; i < ids->len; i += sizeof(int32_t)) {
        int32_t id;
        memcpy(&id, ids->data + i, sizeof id);
        detok_put(&d, t, id, false, &out);
        require(d.n_tail >= 0 && d.n_tail < 4);
    }
    detok_flush(&d, &out);
    bool valid = true;
    utf8proc_int32_t c;
    utf8proc_ssize_t len;
    for (size_t i = 0; i < out.len; i += (size_t)len) {
        len = utf8proc_iterate(out.data + i, (utf8proc_ssize_t)(out.len - i), &c);
        require(len > 0);
    }
    for (size_t i = 0; valid && i < want->len; i += (size_t)len) {
        len = utf8proc_iterate(want->data + i, (utf8proc_ssize_t)(want->len - i), &c);
        valid = len > 0;
    }
    if (valid)
        require(out.len == want->len && (!out.len || !memcmp(out.data, want->data, out.len)));
    buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!tokenizers[0])
        open_tokenizers();
    if (size == 0 || size > 4096)
        return 0; /* the first byte chooses rule and mode */
    const tokenizer *t = tokenizers[data[0] & 1];
    tok_mode mode = data[0] & 2 ? TOK_PARSE_SPECIAL : TOK_PLAIN;
    buf ids, bytes, want;
    buf_init(&ids, 1 << 20);
    buf_init(&bytes, 1 << 20);
    buf_init(&want, 1 << 20);
    require(tok_encode(t, (const char *)data + 1, size - 1, mode, &ids, NULL) == FT_OK);
    for (size_t i = 0; i < ids.len; i += sizeof(int32_t)) {
        int32_t id;
        size_t n;
        memcpy(&id, ids.data + i, sizeof id);
        require(id >= 0 && id < tok_n_vocab(t));
        require(mode == TOK_PARSE_SPECIAL || !tok_is_special(t, id));
        const char *s = tok_bytes(t, id, false, &n);
        buf_put(&bytes, s, n);
    }
    expected(&want, data + 1, size - 1, mode);
    require(bytes.len == want.len && (!want.len || !memcmp(bytes.data, want.data, want.len)));
    check_streamed(t, &ids, &want);
    buf_deinit(&ids);
    buf_deinit(&bytes);
    buf_deinit(&want);
    return 0;
}
