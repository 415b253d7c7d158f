/* chat_show.c - how an answer looks: pieces as they come, statistics behind it, or one JSON object.
 */
#include <stdlib.h>
#include <string.h>

#include "chat.h"

/* ---- Pieces ------------------------------------------------------------------------------------------------ */

static const char *dim(const chat *c)
{
    return c->colours ? "\033[2m" : "";
}

static const char *plain(const chat *c)
{
    return c->colours ? "\033[0m" : "";
}

/* Answers go to standard output, and what they are to a person on the same terminal is kept in order. */
static void put_answer(chat *c, const char *text, size_t len)
{
    if (fwrite(text, 1, len, stdout) != len || fflush(stdout) != 0)
        c->output_gone = true;
}

void chat_show_break(chat *c)
{
    if (c->shown == SHOWN_THINKING) {
        bool hidden = strcmp(c->o->thinking, "hide") == 0;
        fputs(hidden ? "\r\033[K" : plain(c), stderr);
        fputs(hidden ? "" : "\n", stderr);
    }
    if (c->shown == SHOWN_CONTENT)
        put_answer(c, "\n", 1);
    c->shown = SHOWN_NOTHING;
}

/* Shown, or one word that says what is going on. */
static void show_thinking(chat *c, const char *text, size_t len)
{
    bool hidden = strcmp(c->o->thinking, "hide") == 0;
    if (hidden && !c->colours)
        return;
    if (c->shown != SHOWN_THINKING)
        fprintf(stderr, "%s%s", dim(c), hidden ? "thinking ...\033[0m" : "");
    c->shown = SHOWN_THINKING;
    if (!hidden)
        fwrite(text, 1, len, stderr);
    fflush(stderr);
}

void chat_show_piece(chat *c, const ft_chat_event *e)
{
    if (e->kind == FT_CHAT_THINKING) {
        show_thinking(c, e->text, e->len);
        return;
    }
    if (c->shown == SHOWN_THINKING || (c->shown == SHOWN_CONTENT && e->kind == FT_CHAT_TOOL_CALL))
        chat_show_break(c);
    if (e->kind == FT_CHAT_CONTENT) {
        put_answer(c, e->text, e->len);
        c->shown = SHOWN_CONTENT;
        return;
    }
    json_t *j = json_pack("{s:s, s:o*}", "name", e->name, "arguments",
                          json_loads(e->arguments, JSON_ALLOW_NUL, NULL));
    char *line = j ? json_dumps(j, 0) : NULL;
    if (line) {
        put_answer(c, line, strlen(line));
        put_answer(c, "\n", 1);
    }
    free(line);
    json_decref(j);
    c->shown = SHOWN_CALL;
}

/* ---- The answer as JSON ------------------------------------------------------------------------------------- */

static json_t *string_of(const buf *b)
{
    return json_stringn(b->len ? (const char *)b->data : "", b->len);
}

json_t *chat_reply_message(const chat_reply *r)
{
    /* An empty reasoning_content says that a </think> in the content is only text. */
    json_t *m = json_pack("{s:s, s:o, s:o}", "role", "assistant", "content", string_of(&r->content),
                          "reasoning_content", string_of(&r->thinking));
    if (m && json_array_size(r->calls) > 0 && json_object_set(m, "tool_calls", r->calls) != 0) {
        json_decref(m);
        return NULL;
    }
    return m;
}

static double rate(double n, double seconds)
{
    return seconds > 0 ? n / seconds : 0;
}

/* Tokens that were made at the speed of decoding: the first one came with the prompt. */
static int n_decoded(const chat_reply *r)
{
    return r->stats.n_token > 0 ? r->stats.n_token - 1 : 0;
}

static void put_line(chat *c, json_t *j)
{
    char *line = j ? json_dumps(j, JSON_COMPACT) : NULL;
    if (line) {
        put_answer(c, line, strlen(line));
        put_answer(c, "\n", 1);
    } else {
        chat_fail_status(c, FT_NOMEM, NULL);
    }
    free(line);
    json_decref(j);
}

static void show_json(chat *c, const chat_reply *r)
{
    const ft_generate_stats *s = &r->stats;
    char seed[24];
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)r->seed);
    json_t *j = json_pack("{s:o, s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:f, s:I, s:I, s:i}", "message",
                          chat_reply_message(r), "finish", ft_finish_text(s->finish), "seed", seed,
                          "known_tokens", r->n_known, "prompt_tokens", s->n_prompt + s->n_reread,
                          "decode_tokens", s->n_token, "prompt_seconds", s->prompt_seconds,
                          "decode_seconds", s->decode_seconds, "decode_tokens_per_second",
                          rate(n_decoded(r), s->decode_seconds), "drafted",
                          (json_int_t)s->draft.drafted, "accepted", (json_int_t)s->draft.accepted,
                          "messages_dropped", r->n_message_dropped);
    put_line(c, j);
}

void chat_show_error(chat *c, const char *message)
{
    if (c->o->json)
        put_line(c, json_pack("{s:s}", "error", message));
}

/* ---- Statistics and notices ------------------------------------------------------------------------------------ */

static void show_stats(const chat *c, const chat_reply *r)
{
    const ft_generate_stats *s = &r->stats;
    fprintf(stderr, "%s[%d tokens, %.1f tokens/s; ", dim(c), s->n_token,
            rate(n_decoded(r), s->decode_seconds));
    if (s->draft.drafted)
        fprintf(stderr, "%llu of %llu drafts accepted; ", (unsigned long long)s->draft.accepted,
                (unsigned long long)s->draft.drafted);
    else
        fprintf(stderr, "no drafts; ");
    fprintf(stderr, "%d known, %d read in %.2f s; end: %s]%s\n", r->n_known,
            s->n_prompt + s->n_reread, s->prompt_seconds, ft_finish_text(s->finish), plain(c));
}

void chat_show_end(chat *c, const chat_reply *r)
{
    if (c->o->json) {
        show_json(c, r);
    } else {
        if (c->shown == SHOWN_THINKING)
            chat_show_break(c);
        if (c->shown != SHOWN_CALL) /* an answer without a word is a line too */
            c->shown = SHOWN_CONTENT;
        chat_show_break(c);
    }
    if (r->n_message_dropped > 0)
        chat_note(
            "[the context of %d tokens was full: the model no longer gets the oldest %d messages]",
            ft_session_n_ctx(c->s), c->talk.n_dropped);
    if (r->stats.finish == FT_FINISH_CONTEXT)
        chat_note("[the answer ends here: the context of %d tokens is full; /undo, /clear and "
                  "--context drop make room]",
                  ft_session_n_ctx(c->s));
    if (!c->o->quiet)
        show_stats(c, r);
}

void chat_show_totals(chat *c)
{
    ft_session_info i;
    ft_checkpoint_stats k;
    ft_session_get_info(c->s, &i);
    ft_model_checkpoint_stats(c->m, &k);
    double mb = 1e-6;
    fprintf(stderr, "messages     %d, of which the model gets %d\n", conversation_n(&c->talk),
            conversation_n(&c->talk) - c->talk.n_dropped);
    fprintf(stderr, "context      %d of %d tokens\n", i.n_token, i.n_ctx);
    fprintf(stderr, "answers      %d, %llu tokens, %.1f tokens/s\n", c->n_answer,
            (unsigned long long)c->n_made,
            rate((double)c->n_made - (double)c->n_answer, c->decode_seconds));
    fprintf(stderr, "read         %llu tokens, %.1f tokens/s; %llu more were known\n",
            (unsigned long long)c->n_read, rate((double)c->n_read, c->read_seconds),
            (unsigned long long)c->n_known);
    fprintf(stderr, "drafts       %llu of %llu accepted", (unsigned long long)c->n_accepted,
            (unsigned long long)c->n_drafted);
    if (c->n_drafted)
        fprintf(stderr, " (%.1f %%)", 100.0 * (double)c->n_accepted / (double)c->n_drafted);
    fprintf(stderr, "\ncheckpoints  %d, %.1f of %.1f MB\n", k.n, mb * (double)k.bytes,
            mb * (double)k.limit);
    fprintf(stderr, "memory       state %.1f MB, scratch %.1f MB, peak resident %.1f MB\n",
            mb * (double)i.state_bytes, mb * (double)i.scratch_bytes,
            mb * (double)peak_resident_bytes());
}
