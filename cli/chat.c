/* chat.c - `foretoken chat`: its options, and which way it goes. */
#include "chat.h"

#include <stdio.h>
#include <string.h>

#include "common.h"

int cmd_chat(int argc, char **argv)
{
    chat_options o = {.m = model_args_default()};
    o.m.no_drafter = true;
    const arg_spec spec[] = {
        {"--render", 0, ARG_STR, &o.render, 0, 0, "MESSAGES.json",
         "print the prompt text of this conversation and exit; -: standard input"},
        {"--model", 'm', ARG_STR, &o.m.model, 0, 0, "FILE",
         "with --render --json: the model whose tokens are shown, a GGUF file"},
        {"--no-thinking", 0, ARG_FLAG, &o.no_thinking, 0, 0, NULL,
         "the prompt holds an empty think block, so that the answer begins at once"},
        {"--json", 0, ARG_FLAG, &o.json, 0, 0, NULL,
         "print a JSON object: text, and with -m tokens and marks"},
    };
    arg_command c = {
        .command = "chat",
        .usage = "--render MESSAGES.json [-m MODEL] [--json] [--no-thinking]",
        .about =
            "Print the prompt that a conversation becomes. The file holds an object with messages\n"
            "and optionally tools, enable_thinking and add_generation_prompt, as in the OpenAI\n"
            "API, or the array of messages alone.",
        .spec = spec,
        .n_spec = (int)(sizeof spec / sizeof *spec)};
    int rc = args_parse(&c, argc, argv);
    if (rc >= 0)
        return rc;
    if (!o.render) {
        fprintf(stderr, "foretoken chat: no conversation; give one with --render MESSAGES.json\n");
        return EXIT_USAGE;
    }
    return chat_render_file(&o);
}
