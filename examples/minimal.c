/* minimal.c - text from a model in the fewest steps: open, tokenize, generate token by token, statistics.
 *
 *     make examples
 *     build/release/examples/minimal models/foretoken-sample.gguf "The old lighthouse keeper"
 *
 * Outside this tree: cc minimal.c libforetoken.a -lpcre2-8 -lutf8proc -ljansson -lxxhash -lm -pthread -fopenmp
 */
#include <foretoken/foretoken.h>
#include <stdio.h>
#include <string.h>

/* A failed call returns a status other than FT_OK, and says what was wrong in the ft_error that it was
 * given. Start with {0}; the first failure stays. */
static int failed(const ft_error *err)
{
    fprintf(stderr, "minimal: %s (%s)\n", err->msg, ft_status_text(err->code));
    return 1;
}

/* One generation, its tokens pulled one at a time. (on_token in the parameters would push them.) */
static ft_status write_text(ft_session *s, const int32_t *prompt, int n_prompt,
                            const ft_generate_params *p, ft_generate_stats *stats, ft_error *err)
{
    ft_generation *g;
    ft_status st = ft_generation_begin(&g, s, prompt, n_prompt, p, err);
    if (st != FT_OK)
        return st;
    ft_token t;
    while (ft_generation_next(g, &t)) {
        fwrite(t.text, 1, t.len, stdout); /* whole characters only; may be empty for a token */
        fflush(stdout);
    }
    /* Every generation is ended, at any point; it tells how it went. The session keeps the conversation:
     * another one, with the next tokens as its prompt, goes on from here. */
    return ft_generation_end(g, stats, err);
}

static void print_stats(const ft_generate_stats *stats)
{
    const ft_draft_stats *d = &stats->draft;
    fprintf(stderr, "\n\nprompt  %d tokens in %.3f s\n", stats->n_prompt, stats->prompt_seconds);
    fprintf(stderr, "text    %d tokens in %.3f s, end: %s\n", stats->n_token, stats->decode_seconds,
            ft_finish_text(stats->finish));
    fprintf(stderr, "drafts  %llu of %llu accepted, in %llu rounds %s\n",
            (unsigned long long)d->accepted, (unsigned long long)d->drafted,
            (unsigned long long)d->rounds, d->off_reason);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: minimal MODEL.gguf TEXT\n");
        return 2;
    }
    /* Everything is NULL until it is there, and all that frees takes NULL: one way out for all. */
    ft_model *m = NULL;
    ft_session *s = NULL;
    int32_t *prompt = NULL;
    size_t n_prompt = 0;
    ft_error err = {0};
    ft_generate_stats stats;

    /* Parameters come from a _default() function; then change what you want. NULL: the defaults. */
    ft_generate_params p = ft_generate_params_default();
    p.n_max = 60;
    p.sample.temp = 0.7f;
    p.sample.seed = 1; /* the same seed gives the same text, with or without drafts */

    /* The model is read-only and may serve many sessions; a session is one conversation. (false: text
     * that spells a special token, as "<|endoftext|>", stays text.) */
    ft_status st = ft_model_open(&m, argv[1], NULL, &err);
    if (st == FT_OK)
        st = ft_tokenize(m, argv[2], strlen(argv[2]), false, &prompt, &n_prompt, &err);
    if (st == FT_OK)
        st = ft_session_create(&s, m, NULL, &err);
    if (st == FT_OK) {
        fputs(argv[2], stdout);
        st = write_text(s, prompt, (int)n_prompt, &p, &stats, &err);
    }
    if (st == FT_OK)
        print_stats(&stats);

    /* In the reverse order: sessions go before their model. */
    ft_session_free(s);
    ft_free(prompt);
    ft_model_close(m);
    return st == FT_OK ? 0 : failed(&err);
}
