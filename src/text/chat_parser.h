/* chat_parser.h - an answer's text taken apart while it is made: thinking, content, tool calls.
 *
 *   START    -> THINKING  "<think>", or the prompt left a think block open
 *   START    -> CONTENT   anything else
 *   THINKING -> CONTENT   "</think>", but not in quotation marks: "</think>" or `</think>`
 *   THINKING -> CALL      the opening of a call at the start of a line
 *   CONTENT  -> CALL      the opening of a call, but not directly behind a quotation mark
 *   CALL     -> BEHIND    the call is complete: an event
 *   BEHIND   -> CALL      "<function=NAME>": another call
 *   BEHIND   -> CONTENT   anything else; closing tags are passed over
 *
 * 1. The opening of a call is <tool_call>, <function=NAME> and then <parameter=NAME>, </function> or
 *    </tool_call>, with whitespace between them; outside of fenced code. Anything less is text.
 * 2. A parameter's value ends at a </parameter> that is followed by <parameter=NAME>, </function> or
 *    </tool_call>; any other is part of the value, as is a whole call that the value quotes. It also
 *    ends in front of a line </function> that is followed by </tool_call>, for a model that forgot
 *    </parameter>.
 * 3. What happens depends on the text alone, never on how it is cut; every byte of it comes out, but
 *    for the markup of what was recognised, whitespace at both ends of thinking and content, and one
 *    end-of-text token at the very end.
 * 4. The work is linear in the text: only a tag, with the tags that it must be followed by, is held
 *    back and looked at again.
 */
#ifndef TEXT_CHAT_PARSER_H
#define TEXT_CHAT_PARSER_H

#include "base/err.h"

typedef struct chat_parser chat_parser;

/* As ft_chat_parser_create and its kin. After a failure a parser must only be freed. */
ft_status chat_parser_create(chat_parser **out, bool thinking, const char *tools,
                             ft_chat_event_fn *fn, void *ctx, ft_error *err) MUST_CHECK;
void chat_parser_free(chat_parser *p);
ft_status chat_parser_put(chat_parser *p, const char *text, size_t len, ft_error *err) MUST_CHECK;
ft_status chat_parser_finish(chat_parser *p, ft_error *err) MUST_CHECK;

#endif
