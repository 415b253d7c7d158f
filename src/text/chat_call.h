/* chat_call.h - the parameters of a tool call as JSON: which values are strings, which are not.
 *
 * The form writes values bare, so the text "5" may be a string or a number. The tool's JSON schema
 * decides:
 * 1. Where it allows strings alone, the value is the text as it is.
 * 2. Where it allows other types too, or no strings, the value is the text read as JSON, if it is of an
 *    allowed type (True, False and None, which the form itself writes, are booleans and null); else
 *    the text as a string.
 * 3. Where it says nothing, or the tool is not known, what reads as JSON is taken as such; else the
 *    text as a string.
 */
#ifndef TEXT_CHAT_CALL_H
#define TEXT_CHAT_CALL_H

#include "text/jdoc.h"

typedef struct {
    jdoc doc; /* the request's array of tools */
    bool any; /* false: doc is empty */
} chat_tools;

/* tools: JSON of an array of tools as in the OpenAI API, or null; NULL: none. The caller gives *t to
 * chat_tools_deinit in any case. Errors: FORMAT, RANGE, NOMEM. */
ft_status chat_tools_init(chat_tools *t, const char *tools, ft_error *err) MUST_CHECK;
void chat_tools_deinit(chat_tools *t);

typedef struct {
    jdoc_str name, value; /* value as written between the tags */
} chat_param;

/* Append the JSON object of the parameters of a call of function. One newline at the start and one at
 * the end of a value belong to the form. Of parameters of one name the last counts.
 * Errors: NOMEM, or out's limit. */
ft_status chat_put_arguments(buf *out, const chat_tools *t, jdoc_str function,
                             const chat_param *param, size_t n_param, ft_error *err) MUST_CHECK;

#endif
