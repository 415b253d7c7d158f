/* answer_parts.c - see answer_parts.h. Shapes: the OpenAI API reference, "The chat completion object"
 * and "The completion object"; timings are this server's own (docs/server.md). */
#include "answer_parts.h"

#include <math.h>

/* Log-probabilities of tokens that cannot come are -infinity, which JSON has not; the API writes -9999. */
static json_t *logprob(double x)
{
    return json_real(x > -9999 ? x : -9999.0);
}

json_t *answer_usage(int n_prompt, int n_reasoning, const job_result *r)
{
    int n = r->gen.n_token;
    return json_pack("{s:i, s:i, s:i, s:{s:i}, s:{s:i}}", "prompt_tokens", n_prompt,
                     "completion_tokens", n, "total_tokens", n_prompt + n, "prompt_tokens_details",
                     "cached_tokens", r->n_cached, "completion_tokens_details", "reasoning_tokens",
                     n_reasoning);
}

static double rate(double n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

static json_t *drafts(const ft_generate_stats *s)
{
    const ft_draft_stats *d = &s->draft;
    json_t *depth = json_array();
    for (int i = 0; i < FT_DRAFT_MAX && d->verified_at[i]; i++)
        json_array_append_new(
            depth, json_pack("{s:I, s:I, s:f}", "verified", (json_int_t)d->verified_at[i],
                             "accepted", (json_int_t)d->accepted_at[i], "acceptance",
                             (double)d->accepted_at[i] / (double)d->verified_at[i]));
    return json_pack("{s:s, s:I, s:I, s:I, s:f, s:o, s:f, s:f}", "off_reason", d->off_reason,
                     "rounds", (json_int_t)d->rounds, "drafted", (json_int_t)d->drafted, "accepted",
                     (json_int_t)d->accepted, "tokens_per_round",
                     rate((double)(d->accepted + d->rounds), (double)d->rounds), "by_depth", depth,
                     "draft_ms", 1e3 * d->draft_seconds, "verify_ms", 1e3 * d->verify_seconds);
}

json_t *answer_timings(int n_prompt, uint64_t seed, const job_result *r)
{
    const ft_generate_stats *s = &r->gen;
    int n_decode = s->n_token > 0 ? s->n_token - 1 : 0; /* the first comes with the prompt */
    return json_pack("{s:f, s:i, s:i, s:f, s:f, s:i, s:f, s:f, s:f, s:f, s:I, s:o}", "queue_ms",
                     1e3 * r->queue_seconds, "cache_n", r->n_cached, "prompt_n",
                     n_prompt - r->n_cached, "prompt_ms", 1e3 * s->prompt_seconds,
                     "prompt_per_second", rate(n_prompt - r->n_cached, s->prompt_seconds),
                     "predicted_n", s->n_token, "predicted_ms", 1e3 * s->decode_seconds,
                     "predicted_per_second", rate(n_decode, s->decode_seconds), "sample_ms",
                     1e3 * s->sample_seconds, "total_ms", 1e3 * r->total_seconds, "seed",
                     (json_int_t)seed, "draft", drafts(s));
}

json_t *answer_token_text(const ft_model *m, int32_t id)
{
    size_t len;
    const char *bytes = ft_token_bytes(m, id, true, &len);
    json_t *j = json_stringn(len ? bytes : "", len);
    if (j)
        return j;
    char *text;
    if (ft_detokenize(m, &id, 1, true, &text, &len, NULL) != FT_OK)
        return NULL;
    j = json_stringn(text, len);
    ft_free(text);
    return j;
}

static json_t *token_bytes(const ft_model *m, int32_t id)
{
    size_t len;
    const char *bytes = ft_token_bytes(m, id, true, &len);
    json_t *list = json_array();
    for (size_t i = 0; i < len; i++)
        json_array_append_new(list, json_integer((unsigned char)bytes[i]));
    return list;
}

static json_t *chat_entry(const ft_model *m, int32_t id, double lp)
{
    return json_pack("{s:o, s:o, s:o}", "token", answer_token_text(m, id), "logprob", logprob(lp),
                     "bytes", token_bytes(m, id));
}

json_t *answer_chat_logprob(const ft_model *m, const job_token *t)
{
    json_t *entry = chat_entry(m, t->id, t->logprob), *top = json_array();
    for (int i = 0; i < t->n_top; i++)
        json_array_append_new(top, chat_entry(m, t->top[i].id, t->top[i].logprob));
    if (json_object_set_new(entry, "top_logprobs", top) != 0) {
        json_decref(entry);
        return NULL;
    }
    return entry;
}

json_t *answer_logprobs_object(void)
{
    return json_pack("{s:[], s:[], s:[], s:[]}", "tokens", "token_logprobs", "top_logprobs",
                     "text_offset");
}

static json_int_t characters(const ft_model *m, int32_t id)
{
    size_t len;
    const char *bytes = ft_token_bytes(m, id, true, &len);
    json_int_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return n;
}

bool answer_add_logprob(json_t *o, const ft_model *m, const job_token *t, bool top,
                        json_int_t *offset)
{
    json_t *alternatives = top ? json_object() : json_null();
    for (int i = 0; i < t->n_top; i++) {
        json_t *text = answer_token_text(m, t->top[i].id);
        if (text) /* tokens of equal text are one member: the more probable one's */
            if (!json_object_getn(alternatives, json_string_value(text), json_string_length(text)))
                json_object_setn_new_nocheck(alternatives, json_string_value(text),
                                             json_string_length(text), logprob(t->top[i].logprob));
        json_decref(text);
    }
    bool ok = json_array_append_new(json_object_get(o, "tokens"), answer_token_text(m, t->id)) == 0;
    ok &= json_array_append_new(json_object_get(o, "token_logprobs"), logprob(t->logprob)) == 0;
    ok &= json_array_append_new(json_object_get(o, "top_logprobs"), alternatives) == 0;
    ok &= json_array_append_new(json_object_get(o, "text_offset"), json_integer(*offset)) == 0;
    *offset += characters(m, t->id);
    return ok;
}

/* Do the token's bytes make no text of their own, as part of a character does not? */
static bool is_part(const ft_model *m, int32_t id)
{
    size_t len;
    const char *bytes = ft_token_bytes(m, id, true, &len);
    json_t *text = len > 0 ? json_stringn(bytes, len) : NULL;
    bool part = len > 0 && !text;
    json_decref(text);
    return part;
}

json_t *answer_detail(const ft_model *m, const job_token *t)
{
    static const char *const kind[] = {"plain", "accepted", "corrected"};
    json_t *o = json_pack("{s:i, s:o, s:s, s:f, s:f}", "id", t->id, "text",
                          answer_token_text(m, t->id), "kind", kind[t->kind], "p", exp(t->logprob),
                          "p_sampled", exp(t->logprob_sampled));
    if (o && is_part(m, t->id) && json_object_set_new(o, "bytes", token_bytes(m, t->id)) != 0) {
        json_decref(o);
        return NULL;
    }
    return o;
}
