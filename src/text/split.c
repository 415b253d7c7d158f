/* split.c - see split.h. */
#include "text/split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "base/mem.h"

/* White space is spelled out: PCRE2's \s also takes U+180E, which is none since Unicode 6.3. */
#define WS "\\x{9}-\\x{d}\\x{85}\\p{Z}"

/* The parts that the rules share; L: their class of letters. */
#define RULE(L)                                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[" L "]+|\\p{N}" \
    "| ?[^" WS L "\\p{N}]+[\\r\\n]*|[" WS "]*[\\r\\n]+|[" WS "]+(?![^" WS "])|[" WS "]+"

static const struct {
    const char *name;
    const char *regex;
} rules[] = {
    {"qwen35", RULE("\\p{L}\\p{M}")},
    {"qwen2", RULE("\\p{L}")},
};

static void *allocate(size_t n, void *ctx)
{
    (void)ctx;
    return mem_alloc(n);
}

static void release(void *p, void *ctx)
{
    (void)ctx;
    mem_free(p);
}

static const char *find_rule(gguf_str pre)
{
    for (size_t i = 0; i < ARRAY_LEN(rules); i++)
        if (strlen(rules[i].name) == pre.len && memcmp(rules[i].name, pre.s, pre.len) == 0)
            return rules[i].regex;
    return NULL;
}

ft_status split_open(splitter *s, gguf_str pre, ft_error *err)
{
    *s = (splitter){0};
    const char *regex = find_rule(pre);
    if (!regex)
        return err_set(err, FT_UNSUPPORTED, "tokenizer.ggml.pre: '%.*s', want 'qwen35' or 'qwen2'",
                       pre.len < 40 ? (int)pre.len : 40, pre.s);
    s->memory = pcre2_general_context_create(allocate, release, NULL);
    if (!s->memory)
        return err_set(err, FT_NOMEM, "tokenizer: split rule");
    pcre2_compile_context *how = pcre2_compile_context_create(s->memory);
    if (!how)
        return err_set(err, FT_NOMEM, "tokenizer: split rule");
    int code;
    PCRE2_SIZE where;
    s->code = pcre2_compile((PCRE2_SPTR)regex, PCRE2_ZERO_TERMINATED,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &code, &where, how);
    pcre2_compile_context_free(how);
    if (!s->code && code == PCRE2_ERROR_HEAP_FAILED)
        return err_set(err, FT_NOMEM, "tokenizer: split rule");
    if (!s->code)
        return err_set(err, FT_UNSUPPORTED,
                       "tokenizer: PCRE2 refuses the split rule (error %d), want one with Unicode",
                       code);
    /* Where the system gives no executable memory, matching goes on interpreted. */
    (void)pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE);
    return FT_OK;
}

void split_close(splitter *s)
{
    pcre2_code_free(s->code);
    pcre2_general_context_free(s->memory);
    *s = (splitter){0};
}

ft_status split_begin(split_run *r, const splitter *s, size_t n_max, ft_error *err)
{
    *r = (split_run){.s = s};
    r->match = pcre2_match_data_create(1, s->memory);
    r->limits = pcre2_match_context_create(s->memory);
    if (!r->match || !r->limits) {
        split_end(r);
        return err_set(err, FT_NOMEM, "tokenizer: split");
    }
    /* A match may give back what it took character by character, so its work grows with the text;
     * it never nests (a backtracking point of these rules holds no other). */
    size_t steps = n_max > UINT32_MAX / 16 ? UINT32_MAX : 16 * n_max + 1024;
    pcre2_set_match_limit(r->limits, (uint32_t)(steps < UINT32_MAX ? steps : UINT32_MAX));
    pcre2_set_depth_limit(r->limits, 1000);
    return FT_OK;
}

void split_end(split_run *r)
{
    pcre2_match_data_free(r->match);
    pcre2_match_context_free(r->limits);
    *r = (split_run){0};
}

ft_status split_next(split_run *r, const uint8_t *text, size_t n, size_t pos, size_t *end,
                     ft_error *err)
{
    /* The text is known to be valid; checking it again in each call would be quadratic. */
    int rc = pcre2_match(r->s->code, text, n, pos, PCRE2_NO_UTF_CHECK, r->match, r->limits);
    if (rc == PCRE2_ERROR_NOMEMORY || rc == PCRE2_ERROR_HEAPLIMIT)
        return err_set(err, FT_NOMEM, "tokenizer: split");
    size_t stop = rc > 0 ? pcre2_get_ovector_pointer(r->match)[1] : pos;
    if (stop <= pos)
        return err_set(err, FT_RANGE, "tokenizer: no piece at byte %zu of %zu (PCRE2 error %d)",
                       pos, n, rc);
    *end = stop;
    return FT_OK;
}
