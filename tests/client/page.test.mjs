/* page.test.mjs - the page at / in a browser: chat, stop, settings, marks, key, themes, widths. Writes
 * screenshots to $FT_BUILD/screenshots, to be looked at. */
import assert from 'node:assert/strict';
import {mkdirSync, writeFileSync} from 'node:fs';
import {after, before, beforeEach, test} from 'node:test';

import {Browser} from './chromium.mjs';
import {startServer, until} from './server.mjs';

let server, browser;

before(async () => {
    server = await startServer();
    browser = await Browser.open();
});
after(async () => {
    await browser?.close();
    await server?.stop();
});
beforeEach(async () => {
    browser.events = [];
    await browser.size(1280, 800);
    await browser.scheme('light');
    await load(server.url);
});

async function load(url) {
    await browser.go('about:blank');
    await browser.go(url + '/');
}

/* Fill in settings by their names. */
async function set(fields) {
    await browser.run(`for (const [name, value] of Object.entries(${JSON.stringify(fields)})) {
        const e = document.querySelector('[data-field="' + name + '"], #' + name);
        if (e.type === 'checkbox') e.checked = value; else e.value = value;
        e.dispatchEvent(new Event('change'));
    }`);
}

async function send(text) {
    await browser.click('#input');
    await browser.type(text);
    await browser.press('Enter', {text: '\r'});
}

async function ask(text) {
    await send(text);
    await browser.until('!running && document.querySelector(".turn:last-child .under button")');
}

const value = expression => browser.run(expression);
const textOf = selector => value(`document.querySelector(${JSON.stringify(selector)}).textContent`);

/* Bodies of the requests for text that the page sent. */
function bodies() {
    return browser.events.filter(e => e.method === 'Network.requestWillBeSent' && e.params.request.method === 'POST')
        .map(e => JSON.parse(e.params.request.postData));
}

// Would catch a page whose text is not the model's, or has tokens without a mark.
test('page_writes_the_models_text_with_every_token_marked', async () => {
    await set({mode: 'text', max_tokens: 60, seed: 3, temperature: 0.7, draft_max: 3, draft_fixed: true});
    await ask('The old lighthouse keeper');
    const reply = await fetch(server.url + '/v1/completions', {
        method: 'POST', headers: {'Content-Type': 'application/json'},
        body: JSON.stringify({prompt: 'The old lighthouse keeper', max_tokens: 60, seed: 3, temperature: 0.7,
            draft_max: 3, draft_fixed: true, token_details: true}),
    });
    const {choices: [want]} = await reply.json();
    assert.equal(await textOf('.turn:last-child .said'), want.text);
    const spans = await value('[...document.querySelectorAll(".turn:last-child .said span")].map(e => [e.textContent, e.className])');
    assert.deepEqual(spans, want.tokens.filter(t => t.text).map(t => [t.text, t.kind]));
    assert.ok(new Set(spans.map(s => s[1])).size === 3, 'accepted, corrected and plain');
    const style = name => value(`getComputedStyle(document.querySelector('.said .${name}')).backgroundColor`);
    assert.notEqual(await style('accepted'), await style('corrected'));
});

// Would catch a tip that shows another token's probability, or stays.
test('page_tells_the_probability_of_the_token_under_the_pointer', async () => {
    await set({mode: 'text', max_tokens: 20, seed: 3});
    await ask('The old');
    await browser.point('.turn:last-child .said span:nth-child(4)');
    await browser.until('!document.querySelector("#tip").hidden');
    const p = await value('document.querySelector(".turn:last-child .said span:nth-child(4)").tokens[0].p');
    assert.match(await textOf('#tip'), new RegExp(`(plain|accepted draft|correction): ${(100 * p).toFixed(p < 0.1 ? 2 : 1)} %`));
    await browser.point('header');
    await browser.until('document.querySelector("#tip").hidden');
    await value('document.querySelector(".turn:last-child .said").focus()');
    await browser.press('ArrowRight');
    await browser.press('ArrowRight');
    await browser.until('document.querySelector(".said span:nth-child(2)").classList.contains("at")');
    await browser.press('Tab');
    await browser.until('document.querySelector("#tip").hidden');
});

// B120: would catch live figures that are not those of the answer's end.
test('page_shows_figures_by_depth', async () => {
    await set({max_tokens: 60, seed: 3, draft_max: 2, draft_fixed: true});
    await ask('Tell me of the sea.');
    const t = await value('turns.at(-1).view.timings');
    const depths = await value('[...document.querySelectorAll("#depths li")].map(e => e.lastChild.textContent)');
    assert.deepEqual(depths, t.draft.by_depth.map(d => `${Math.round(100 * d.acceptance)} % of ${d.verified}`));
    assert.equal(await textOf('#rate'), t.predicted_per_second.toFixed(1));
    assert.ok(Number(await textOf('#plain')) > 0);
    assert.match(await textOf('.turn:last-child .under'), /60 tokens · .* tokens\/s · \d+ % of drafts accepted · seed 3/);
});

// B070, B059: would catch a stop that only hides what goes on, and an answer that cannot be made again.
test('page_stops_by_escape_and_regenerates', async () => {
    await set({mode: 'text', max_tokens: 2000, temperature: 1});
    await send('The');
    await browser.until('document.querySelectorAll(".turn:last-child .said span").length > 5');
    assert.equal(await textOf('#send'), 'Stop');
    assert.ok(await value('document.querySelector("#depths").children.length > 0'), 'figures while it is written');
    const before = server.log.length;
    await browser.press('Escape');
    await browser.until('document.querySelector("#status").textContent === "Stopped"');
    await until(() => server.log.slice(before).some(e => e.code === 'client_gone'));
    assert.match(await textOf('.turn:last-child .under'), /stopped/);
    await set({max_tokens: 10});
    await browser.click('.turn:last-child .under button');
    await browser.until('!running && turns.at(-1).view.timings?.predicted_n === 10');
    assert.equal(await value('document.querySelectorAll(".turn").length'), 2);
    assert.equal(await value('document.querySelectorAll(".under button").length'), 1);
});

// Would catch a setting that does not reach the server, or one that is sent though it is wrong.
test('page_sends_its_settings', async () => {
    await set({system: 'Be brief.', think: false, temperature: 0.5, top_k: 40, top_p: 0.9, min_p: 0.01,
        repeat_penalty: 1.1, max_tokens: 12, seed: 9, draft_max: 0, draft_p_min: 0.2});
    await ask('Hello');
    assert.deepEqual(bodies().at(-1), {stream: true, token_details: true, temperature: 0.5, top_k: 40, top_p: 0.9,
        min_p: 0.01, repeat_penalty: 1.1, max_tokens: 12, seed: 9, draft_max: 0, draft_p_min: 0.2,
        messages: [{role: 'system', content: 'Be brief.'}, {role: 'user', content: 'Hello'}],
        chat_template_kwargs: {enable_thinking: false}});
    assert.equal(await value('document.querySelectorAll(".said .accepted, .said .corrected").length'), 0);
    await ask('And then?');
    const {messages} = bodies().at(-1);
    assert.deepEqual(messages.map(m => m.role), ['system', 'user', 'assistant', 'user']);
    assert.equal(messages[2].content, await textOf('.turn:nth-of-type(2) .said'));
    await set({temperature: 7});
    const sent = bodies().length;
    await send('No');
    await new Promise(done => setTimeout(done, 200));
    assert.equal(bodies().length, sent);
    assert.equal(await value('document.querySelector("#input").value'), 'No');
});

// Would catch an error of the server that nobody sees.
test('page_shows_errors_in_words', async () => {
    await ask('word '.repeat(5000));
    assert.match(await textOf('.wrong[role=alert]'), /context is 4096 tokens/);
});

// What the model or the user writes must never become elements, and the policy must hold if it did.
test('page_takes_text_as_text', async () => {
    await set({max_tokens: 3});
    await ask('<img src=x onerror="window.bad = 1">');
    await value(`takeEvent(turns.at(-1), {choices: [{delta: {content: '<img src=x onerror="window.bad = 2"><script>window.bad = 3</' + 'script>'}}]})`);
    assert.equal(await value('document.querySelectorAll("#log img, #log script").length'), 0);
    await value(`{ const e = document.createElement('script'); e.textContent = 'window.bad = 4'; document.body.append(e); }`);
    await value(`document.body.insertAdjacentHTML('beforeend', '<b onclick="window.bad = 5" id="b">x</b>'); document.querySelector('#b').click()`);
    assert.equal(await value('window.bad'), undefined);
    const outside = browser.events.filter(e => e.method === 'Network.requestWillBeSent')
        .map(e => e.params.request.url).filter(u => !u.startsWith(server.url) && !/^(data|about):/.test(u));
    assert.deepEqual(outside, []);
});

// Would catch scripts or styles that the policy itself refuses, and exceptions.
test('page_runs_without_complaints', async () => {
    await set({max_tokens: 5});
    await ask('Hello');
    const bad = browser.events.filter(e => e.method === 'Runtime.exceptionThrown' || e.method === 'Log.entryAdded');
    assert.deepEqual(bad.map(e => JSON.stringify(e.params)), []);
});

// B113: would catch a key that is kept somewhere, or a page that cannot ask for it.
test('page_asks_for_the_key_and_forgets_it', async () => {
    const locked = await startServer('--api-key', 'k3y');
    try {
        await load(locked.url);
        await browser.until('document.querySelector("#key-dialog").open');
        for (const [key, hint] of [['wrong', true], ['k3y', false]]) {
            await browser.click('#key');
            await browser.type(key);
            await browser.press('Enter', {text: '\r'});
            await browser.until(hint ? '!document.querySelector("#key-hint").hidden' : 'document.querySelector("#model").textContent');
        }
        await set({max_tokens: 5});
        await ask('Hello');
        assert.equal(await value('turns.at(-1).view.timings.predicted_n'), 5);
        assert.deepEqual(await value('[localStorage.length, sessionStorage.length, document.cookie]'), [0, 0, '']);
        assert.ok(!(await value('document.documentElement.outerHTML + document.querySelector("#key").value')).includes('k3y'));
    } finally {
        await locked.stop();
    }
});

// Would catch controls that only a mouse reaches.
test('page_is_used_by_keys_alone', async () => {
    await browser.until('document.activeElement.id === "input"');
    await browser.type('one');
    await browser.press('Enter', {text: '\r', modifiers: 8});
    await browser.type('two');
    assert.equal(await value('document.querySelector("#input").value'), 'one\ntwo');
    const order = [];
    await value('document.querySelector("#fresh").focus()');
    for (let i = 0; i < 6; i++) {
        order.push(await value('document.activeElement.id'));
        await browser.press('Tab');
    }
    assert.deepEqual(order, ['fresh', 'settings', 'theme', 'input', 'send', 'marks']);
    assert.equal(await value(`[...document.querySelectorAll('button, input, select, textarea')]
        .filter(e => !(e.labels?.length || e.ariaLabel || e.textContent.trim())).length`), 0);
});

/* WCAG 2.1's contrast of two colours of the theme, by their names. */
const contrast = (a, b) => value(`(() => {
    const channel = x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    const light = name => {
        const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
        const [r, g, b] = [1, 3, 5].map(i => channel(parseInt(hex.slice(i, i + 2), 16) / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const [x, y] = [light('${a}'), light('${b}')];
    return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
})()`);

// Would catch text that is hard to read, a page wider than its window, and a theme that does not follow.
test('page_fits_its_window_and_theme', async () => {
    const folder = (process.env.FT_BUILD ?? 'build/release') + '/screenshots';
    mkdirSync(folder, {recursive: true});
    const grounds = [];
    for (const scheme of ['light', 'dark']) {
        await browser.scheme(scheme);
        for (const width of [1280, 390, 360]) {
            await browser.size(width, width > 800 ? 800 : 780);
            await load(server.url);
            await browser.until('document.querySelector("#model").textContent');
            await set({mode: 'text', max_tokens: 90, seed: 5, temperature: 0.6, draft_max: 3, draft_fixed: true});
            await ask('The old lighthouse keeper lifted his lantern, and');
            await browser.point('.said .accepted');
            writeFileSync(`${folder}/page-${width}-${scheme}.png`, await browser.screenshot());
            const wide = () => value('Math.max(document.documentElement.scrollWidth, ...[...document.querySelectorAll("main, aside, header")].map(e => e.scrollWidth))');
            assert.ok(await wide() <= width, `${await wide()} > ${width}`);
            if (width < 800) {
                await browser.click('#settings');
                writeFileSync(`${folder}/settings-${width}-${scheme}.png`, await browser.screenshot());
                assert.ok(await wide() <= width);
                await browser.press('Escape');
                assert.equal(await value('document.querySelector("#panel").hidden'), true);
            }
        }
        for (const [a, b] of [['--text', '--ground'], ['--text', '--raised'], ['--text', '--own'], ['--soft', '--ground'],
            ['--soft', '--raised'], ['--text', '--accepted-ground'], ['--text', '--corrected-ground'],
            ['--on-main', '--main'], ['--wrong', '--ground']])
            assert.ok(await contrast(a, b) >= 4.5, `${scheme}: ${a} on ${b}: ${await contrast(a, b)}`);
        grounds.push(await value('getComputedStyle(document.body).backgroundColor'));
    }
    assert.notEqual(grounds[0], grounds[1]);
    await browser.size(1280, 800);
    await browser.click('#theme'); // from auto, which is dark now, to light
    assert.equal(await value('getComputedStyle(document.body).backgroundColor'), grounds[0]);
});
