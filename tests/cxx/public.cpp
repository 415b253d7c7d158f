// public.cpp - the public header in C++: every function has C linkage, the structs can be used, and a
// failure ends in a destructor like any other. Built as C++17 with all warnings, linked with the archive.
#include <cstdio>
#include <cstring>
#include <foretoken/foretoken.h>
#include <memory>
#include <string>
#include <vector>

namespace
{

struct closes {
    void operator()(ft_model *m) const
    {
        ft_model_close(m);
    }
    void operator()(ft_session *s) const
    {
        ft_session_free(s);
    }
    void operator()(ft_batch *b) const
    {
        ft_batch_free(b);
    }
};

using model_ptr = std::unique_ptr<ft_model, closes>;
using session_ptr = std::unique_ptr<ft_session, closes>;
using batch_ptr = std::unique_ptr<ft_batch, closes>;

// The message of the first failure; empty: none so far.
std::string failure;

bool ok(ft_status st, const ft_error &err)
{
    if (st != FT_OK && failure.empty())
        failure = std::string(ft_status_text(st)) + ": " + err.msg;
    return st == FT_OK;
}

// A callback without captures is a C function.
std::string write(ft_session *s, const std::vector<int32_t> &prompt)
{
    std::string text;
    ft_generate_params p = ft_generate_params_default();
    p.n_max = 24;
    p.sample.temp = 0;
    p.on_token_ctx = &text;
    p.on_token = [](void *ctx, const ft_token *t) {
        static_cast<std::string *>(ctx)->append(t->text, t->len);
        return true;
    };
    ft_error err = {};
    ft_generate_stats stats;
    ok(ft_session_generate(s, prompt.data(), static_cast<int>(prompt.size()), &p, &stats, &err),
       err);
    return text;
}

void run(const char *path)
{
    ft_error err = {};
    ft_model *m = nullptr;
    if (!ok(ft_model_open(&m, path, nullptr, &err), err))
        return;
    model_ptr model(m);
    const std::string words = "The old lighthouse keeper climbed the stairs";
    int32_t *ids = nullptr;
    size_t n = 0;
    if (!ok(ft_tokenize(m, words.data(), words.size(), false, &ids, &n, &err), err))
        return;
    const std::vector<int32_t> prompt(ids, ids + n);
    ft_free(ids);

    ft_batch *b = nullptr;
    if (!ok(ft_batch_create(&b, m, nullptr, &err), err))
        return;
    batch_ptr batch(b);
    ft_session_params sp = ft_session_params_default();
    sp.batch = b;
    std::string text[2];
    for (std::string &out : text) {
        ft_session *s = nullptr;
        if (!ok(ft_session_create(&s, m, &sp, &err), err))
            return;
        session_ptr session(s);
        out = write(s, prompt);
    }
    if (failure.empty() && (text[0].empty() || text[0] != text[1]))
        failure = "two texts: '" + text[0] + "', '" + text[1] + "'";
}

} // namespace

int main()
{
    ft_error err = {};
    ft_model *none = nullptr;
    if (ft_model_open(&none, "no-such-file.gguf", nullptr, &err) != FT_IO || none ||
        !std::strstr(err.msg, "no-such-file.gguf"))
        failure = "a missing file is not named";
    run("models/foretoken-sample.gguf");
    if (!failure.empty()) {
        std::fprintf(stderr, "%s\n", failure.c_str());
        return 1;
    }
    std::puts("1 passed, 0 failed");
    return 0;
}
