/* answer_parts.h - the parts of an answer's objects. Private to answer*.c. NULL: no memory. */
#ifndef SERVER_ANSWER_PARTS_H
#define SERVER_ANSWER_PARTS_H

#include <jansson.h>

#include "answer.h"

/* {"prompt_tokens": ..., "completion_tokens": ..., ...} */
json_t *answer_usage(int n_prompt, int n_reasoning, const job_result *r);
/* Times, speeds, and what drafting did by depth. */
json_t *answer_timings(int n_prompt, uint64_t seed, const job_result *r);
/* A token as text: bytes that are no whole characters become U+FFFD. */
json_t *answer_token_text(const ft_model *m, int32_t id);
/* An entry of the chat API's logprobs.content. */
json_t *answer_chat_logprob(const ft_model *m, const job_token *t);
/* The completions API's logprobs object, and one more token of it; *offset: characters so far. */
json_t *answer_logprobs_object(void);
bool answer_add_logprob(json_t *o, const ft_model *m, const job_token *t, bool top,
                        json_int_t *offset) MUST_CHECK;
/* An entry of token_details. */
json_t *answer_detail(const ft_model *m, const job_token *t);

#endif
