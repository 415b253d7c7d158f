/* api.test.mjs - the server as the official client of the API (npm: openai) sees it. */
import assert from 'node:assert/strict';
import {createRequire} from 'node:module';
import {resolve} from 'node:path';
import {after, before, test} from 'node:test';

import {startServer, until} from './server.mjs';

const OpenAI = createRequire(resolve(process.env.CLIENT_PACKAGES, 'package.json'))('openai');
const model = 'foretoken-sample';
const hello = [{role: 'user', content: 'Tell me of the sea.'}];
const weather = {
    type: 'function',
    function: {
        name: 'weather', description: 'The weather of a place',
        parameters: {type: 'object', properties: {place: {type: 'string'}}, required: ['place']},
    },
};
let server, client;

before(async () => {
    server = await startServer('--api-key', 'k3y', '--temp', '0.7');
    client = new OpenAI({baseURL: server.url + '/v1', apiKey: 'k3y', maxRetries: 0});
});
after(() => server.stop());

/* What a chunked answer says in all. */
async function gather(stream) {
    const all = {text: '', thought: '', chunks: 0, finish: null, usage: null, roles: []};
    for await (const chunk of stream) {
        all.chunks++;
        const choice = chunk.choices[0];
        all.text += choice?.delta?.content ?? choice?.text ?? '';
        all.thought += choice?.delta?.reasoning_content ?? '';
        if (choice?.delta?.role)
            all.roles.push(choice.delta.role);
        all.finish = choice?.finish_reason ?? all.finish;
        all.usage = chunk.usage ?? all.usage;
    }
    return all;
}

// Would catch a list that the client's pages cannot walk.
test('models_are_listed', async () => {
    const ids = [];
    for await (const m of client.models.list())
        ids.push(m.id);
    assert.deepEqual(ids, [model]);
    assert.equal((await client.models.retrieve(model)).object, 'model');
});

// B116: would catch a seed that does not decide the text, or a stream that says something else.
test('chat_streamed_is_chat_whole_for_the_seed', async () => {
    const ask = {model, messages: hello, max_tokens: 40, seed: 7, reasoning_effort: 'none'};
    const whole = await client.chat.completions.create(ask);
    assert.equal(whole.choices[0].message.role, 'assistant');
    assert.equal(whole.choices[0].finish_reason, 'length');
    assert.equal(whole.usage.completion_tokens, 40);
    const streamed = await gather(await client.chat.completions.create(
        {...ask, stream: true, stream_options: {include_usage: true}}));
    assert.equal(streamed.text, whole.choices[0].message.content);
    assert.deepEqual(streamed.roles, ['assistant']);
    assert.equal(streamed.finish, 'length');
    assert.equal(streamed.usage.total_tokens, whole.usage.total_tokens);
    const other = await client.chat.completions.create({...ask, seed: 8});
    assert.notEqual(other.choices[0].message.content, streamed.text);
});

// Would catch events that the client's own helper cannot put together.
test('chat_stream_helper_builds_the_answer', async () => {
    const stream = client.chat.completions.stream({model, messages: hello, max_tokens: 20, seed: 3, reasoning_effort: 'none'});
    let text = '';
    stream.on('content', piece => text += piece);
    const answer = await stream.finalChatCompletion();
    assert.equal(answer.choices[0].message.content, text);
    assert.ok(text.length > 0);
});

// Would catch a completion that drafts change, or a stream of another object.
test('completion_is_the_same_with_and_without_drafts', async () => {
    const ask = {model, prompt: 'The old lighthouse', max_tokens: 30, seed: 5, temperature: 0.8};
    const whole = await client.completions.create(ask);
    assert.equal(whole.object, 'text_completion');
    const plain = await client.completions.create({...ask, draft_max: 0});
    const streamed = await gather(await client.completions.create({...ask, stream: true}));
    assert.equal(plain.choices[0].text, whole.choices[0].text);
    assert.equal(streamed.text, whole.choices[0].text);
});

// B026, B030: a stop text that is in the answer, or cuts too much.
test('stop_text_is_left_out', async () => {
    const ask = {model, prompt: 'The old lighthouse', max_tokens: 40, seed: 5};
    const whole = (await client.completions.create(ask)).choices[0].text;
    const word = whole.split(' ')[3];
    const stopped = (await client.completions.create({...ask, stop: [word]})).choices[0];
    assert.equal(stopped.text, whole.slice(0, whole.indexOf(word)));
    assert.equal(stopped.finish_reason, 'stop');
});

// B115: would catch probabilities that are not there, or do not belong to the tokens.
test('logprobs_are_those_of_the_content', async () => {
    const {choices: [c]} = await client.chat.completions.create(
        {model, messages: hello, max_tokens: 12, seed: 1, logprobs: true, top_logprobs: 3, reasoning_effort: 'none'});
    assert.equal(c.logprobs.content.map(t => t.token).join(''), c.message.content);
    for (const t of c.logprobs.content) {
        assert.ok(t.logprob < 0 && t.top_logprobs.length === 3);
        assert.ok(t.top_logprobs[0].logprob >= t.top_logprobs[2].logprob);
    }
    const text = (await client.completions.create({model, prompt: 'The', max_tokens: 5, seed: 1, logprobs: 2})).choices[0];
    assert.equal(text.logprobs.tokens.join(''), text.text);
});

// Would catch tools or their answers that do not reach the prompt. The bundled model never learnt to call:
// how calls are taken out of an answer is for tests/unit/test_server_answer.c.
test('tools_and_their_answers_are_taken', async () => {
    const messages = [...hello,
        {role: 'assistant', content: null, tool_calls: [{id: 'call_1', type: 'function', function: {name: 'weather', arguments: '{"place": "Oslo"}'}}]},
        {role: 'tool', tool_call_id: 'call_1', content: '{"wind": "strong"}'}];
    const withTools = await client.chat.completions.create({model, messages, tools: [weather], tool_choice: 'auto', max_tokens: 8, reasoning_effort: 'none'});
    const without = await client.chat.completions.create({model, messages, max_tokens: 8, reasoning_effort: 'none'});
    assert.ok(withTools.usage.prompt_tokens > without.usage.prompt_tokens + 20);
    const streamed = await gather(await client.chat.completions.create({model, messages, tools: [weather], max_tokens: 8, stream: true}));
    assert.equal(streamed.finish, 'length');
    await assert.rejects(client.chat.completions.create({model, messages, tools: [weather], tool_choice: 'required'}),
        e => e instanceof OpenAI.BadRequestError && e.param === 'tool_choice');
});

// Would catch errors that the client cannot tell apart.
test('errors_have_their_classes', async () => {
    const ask = {model, messages: hello};
    await assert.rejects(client.chat.completions.create({...ask, temperature: 3}),
        e => e instanceof OpenAI.BadRequestError && e.param === 'temperature' && e.status === 400);
    await assert.rejects(client.chat.completions.create({...ask, model: 'other'}),
        e => e instanceof OpenAI.NotFoundError && e.code === 'model_not_found');
    await assert.rejects(client.chat.completions.create({...ask, no_such_field: 1}),
        e => e instanceof OpenAI.BadRequestError && e.code === 'unknown_parameter');
    await assert.rejects(client.chat.completions.create({...ask, messages: [{role: 'user', content: 'word '.repeat(9000)}]}),
        e => e.code === 'context_length_exceeded');
    const stranger = new OpenAI({baseURL: server.url + '/v1', apiKey: 'wrong', maxRetries: 0});
    await assert.rejects(stranger.models.list(), e => e instanceof OpenAI.AuthenticationError && e.code === 'invalid_api_key');
});

// B070: an answer whose client is gone must not go on.
test('abort_ends_the_generation', async () => {
    const controller = new AbortController();
    const stream = await client.completions.create(
        {model, prompt: 'The', max_tokens: 3000, ignore_eos: true, stream: true}, {signal: controller.signal});
    let chunks = 0;
    for await (const chunk of stream)
        if (chunk.choices[0].text && ++chunks === 3)
            controller.abort();
    await until(() => server.log.some(e => e.code === 'client_gone'));
    const entry = server.log.find(e => e.code === 'client_gone');
    assert.ok(entry.completion_tokens < 3000, JSON.stringify(entry));
});
