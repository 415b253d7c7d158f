/* tokens.test.mjs - which tokens the page says a text was made of. */
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {test} from 'node:test';
import {runInThisContext} from 'node:vm';

runInThisContext(readFileSync('server/page/tokens.js', 'utf8') +
    '\nglobalThis.page = {Trace, withoutDrafts, percent, perSecond};');
const {Trace, withoutDrafts, percent, perSecond} = globalThis.page;

/* The parts of pieces made of tokens (texts, or arrays of bytes) as [text, indices of tokens]. */
function parts(tokens, pieces) {
    const trace = new Trace();
    tokens.forEach((t, i) => trace.put(typeof t === 'string' ? {i, text: t} : {i, text: '\ufffd', bytes: t}));
    return pieces.flatMap(p => trace.take(p).map(part => [part.text, part.tokens.map(t => t.i)]));
}

// Would catch marks that slip by one, or text that is lost between pieces.
test('tokens_whole_pieces_are_found', () => {
    assert.deepEqual(parts(['The', ' old', ' man'], ['The old', ' man']),
        [['The', [0]], [' old', [1]], [' man', [2]]]);
    assert.deepEqual(parts(['lantern'], ['lan', 'tern']), [['lan', [0]], ['tern', [0]]]);
});

// Equal tokens in a row would be one mark if texts were compared instead of tokens.
test('tokens_of_equal_text_stay_apart', () => {
    assert.deepEqual(parts(['a', 'a', 'a'], ['aaa']), [['a', [0]], ['a', [1]], ['a', [2]]]);
});

// B104: a character split over tokens must be shown whole, and belong to all of them.
test('tokens_with_parts_of_characters_make_whole_ones', () => {
    assert.deepEqual(parts([[0xf0, 0x9f], [0x98, 0x80], '!'], ['😀!']), [['😀', [0, 1]], ['!', [2]]]);
    assert.deepEqual(parts(['x', [0x20, 0xc3], [0xa9, 0x74]], ['x é', 't']),
        [['x', [0]], [' ', [1]], ['é', [1, 2]], ['t', [2]]]);
});

// Markup and outer white space are no text; what follows must not be looked for inside them.
test('tokens_of_markup_are_passed_over', () => {
    assert.deepEqual(parts(['So', '</think>', '\n\n', 'think', ' t'], ['So', 'think t']),
        [['So', [0]], ['think', [3]], [' t', [4]]]);
    assert.deepEqual(parts(['\n\nHello'], ['Hello']), [['Hello', [0]]]);
});

// Text that no token explains must be shown all the same, and not take later tokens with it.
test('tokens_unknown_text_is_kept', () => {
    assert.deepEqual(parts(['ab', 'cd'], ['ab\ufffdcd']), [['ab', [0]], ['\ufffd', []], ['cd', [1]]]);
    assert.deepEqual(parts([], ['xyz']), [['xyz', []]]);
});

// Would catch an estimate that counts the drafts' own time, or divides by nothing.
test('figures_without_drafts_are_the_time_of_a_verification', () => {
    const t = {sample_ms: 100, predicted_n: 100, draft: {rounds: 40, verify_ms: 360, draft_ms: 500}};
    assert.equal(withoutDrafts(t), 100);
    assert.equal(withoutDrafts({...t, draft: {rounds: 0, verify_ms: 0}}), 0);
    assert.equal(perSecond(0), '–');
    assert.equal(percent(0.5), '50.0 %');
});
