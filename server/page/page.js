/* page.js - the conversation, its requests and its controls. What the model writes is only ever put in
 * as text. */

const $ = id => document.getElementById(id);
let key = '';       // in memory alone
let model = null;   // as /v1/models describes it
let turns = [];     // {role, content, ...}; answers have their view
let running = null; // the AbortController of the answer under way

function make(tag, name, text) {
    const e = document.createElement(tag);
    if (name)
        e.className = name;
    if (text !== undefined)
        e.textContent = text;
    return e;
}

// ---- Figures ----

function showDepths(depth) {
    $('depths').replaceChildren(...depth.map((d, i) => {
        const share = d.verified ? d.accepted / d.verified : 0;
        const li = make('li'), bar = make('span', 'bar'), fill = make('i');
        fill.style.width = 100 * share + '%';
        bar.append(fill);
        li.append(make('span', '', String(i + 1)), bar, make('span', '', `${Math.round(100 * share)} % of ${d.verified}`));
        return li;
    }));
}

function showFigures(view) {
    const t = view.timings;
    $('rate').textContent = perSecond(t.predicted_per_second);
    $('plain').textContent = perSecond(withoutDrafts(t));
    $('per-round').textContent = t.draft.rounds ? t.draft.tokens_per_round.toFixed(2) : '–';
    showDepths(t.draft.by_depth);
    $('live').textContent = ` · ${perSecond(t.predicted_per_second)} tokens/s, ${percentOf(t.draft.accepted, t.draft.drafted)} of drafts accepted`;
}

/* What is going on; a screen reader says it, so only when it changes. */
function say(words) {
    if ($('status').textContent !== words)
        $('status').textContent = words;
    $('live').hidden = words !== 'Writing';
}

function clearFigures() {
    for (const id of ['rate', 'plain', 'per-round'])
        $(id).textContent = '–';
    showDepths([]);
}

// ---- The conversation on the page ----

function atEnd() {
    const log = $('log');
    return log.scrollHeight - log.scrollTop - log.clientHeight < 60;
}

function addTurn(turn) {
    $('hello').hidden = true;
    const root = make('article', 'turn');
    root.setAttribute('aria-label', turn.role === 'user' ? 'You' : 'Answer');
    turn.root = root;
    turns.push(turn);
    if (turn.role === 'user') {
        root.append(make('div', 'own', turn.content));
    } else {
        const view = turn.view = {trace: new Trace(), timings: null};
        view.thought = make('details');
        view.thought.hidden = true;
        view.thinking = make('div', 'text');
        view.thought.append(make('summary', '', 'Thinking'), view.thinking);
        view.text = make('div', 'text said writing');
        view.under = make('div', 'under');
        for (const e of [view.thinking, view.text])
            e.tabIndex = 0;
        root.append(view.thought, view.text, view.under);
    }
    $('log').append(root);
    $('log').scrollTop = $('log').scrollHeight;
    return turn;
}

function addText(view, to, piece) {
    const follow = atEnd();
    for (const part of view.trace.take(piece)) {
        const span = make('span', part.tokens.length ? part.tokens.at(-1).kind : '', part.text);
        span.tokens = part.tokens;
        to.append(span);
    }
    if (follow)
        $('log').scrollTop = $('log').scrollHeight;
}

function endAnswer(turn, note, wrong) {
    const view = turn.view, t = view.timings;
    view.text.classList.remove('writing');
    const again = make('button', '', 'Regenerate');
    again.type = 'button';
    again.addEventListener('click', () => regenerate(turn));
    for (const e of document.querySelectorAll('.under button'))
        e.remove(); // of the answers before
    const words = [];
    if (t)
        words.push(`${t.predicted_n} tokens`, `${perSecond(t.predicted_per_second)} tokens/s`,
            `${percentOf(t.draft.accepted, t.draft.drafted)} of drafts accepted`, `seed ${t.seed}`);
    if (note)
        words.push(note);
    const says = make('span', wrong ? 'wrong' : '', words.join(' · '));
    if (wrong)
        says.setAttribute('role', 'alert');
    view.under.replaceChildren(again, says);
    if (atEnd() || wrong)
        $('log').scrollTop = $('log').scrollHeight;
}

// ---- A token's probability ----

const kinds = {accepted: 'accepted draft', corrected: 'correction', plain: 'plain'};
let tipped = null;

function tokenLine(t) {
    const drawn = Math.abs(t.p_sampled - t.p) > 0.0005 ? `, drawn at ${percent(t.p_sampled)}` : '';
    return `${JSON.stringify(t.text)} ${kinds[t.kind]}: ${percent(t.p)}${drawn}`;
}

function showTip(span) {
    tipped?.classList.remove('at');
    tipped = span?.tokens?.length ? span : null;
    tipped?.classList.add('at');
    $('tip').textContent = tipped ? tipped.tokens.map(tokenLine).join('\n') : '';
    placeTip();
}

/* At its token, as long as that can be seen. */
function placeTip() {
    const tip = $('tip'), log = $('log').getBoundingClientRect();
    const box = tipped?.getClientRects()[0];
    tip.hidden = !box || box.bottom < log.top || box.top > log.bottom;
    if (tip.hidden)
        return;
    const size = tip.getBoundingClientRect(), above = box.top - size.height - 6;
    tip.style.left = Math.max(8, Math.min(box.left, innerWidth - size.width - 8)) + 'px';
    tip.style.top = (above > 8 ? above : box.bottom + 6) + 'px';
}

$('log').addEventListener('pointerover', e => showTip(e.target));
$('log').addEventListener('pointerleave', () => showTip(null));
$('log').addEventListener('scroll', placeTip);
$('log').addEventListener('focusout', () => showTip(null));
$('log').addEventListener('keydown', e => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!step || !e.target.classList.contains('text'))
        return;
    e.preventDefault();
    const next = tipped?.parentNode === e.target
        ? tipped[step > 0 ? 'nextElementSibling' : 'previousElementSibling']
        : e.target[step > 0 ? 'firstElementChild' : 'lastElementChild'];
    if (!next)
        return;
    next.scrollIntoView({block: 'nearest'});
    showTip(next);
});

// ---- Requests ----

/* The fields that are filled in; null and focus on the first that is wrong. */
function readSettings() {
    const fields = {};
    for (const e of document.querySelectorAll('[data-field]')) {
        if (!e.checkValidity()) {
            showPanel(true);
            e.reportValidity();
            return null;
        }
        if (e.type === 'checkbox' ? e.checked : e.value !== '')
            fields[e.dataset.field] = e.type === 'checkbox' ? true : Number(e.value);
    }
    return fields;
}

function makeRequest(settings) {
    const common = {stream: true, token_details: true, ...settings};
    const asked = turns.filter(t => t.content || t.role === 'user');
    if ($('mode').value === 'text')
        return ['/v1/completions', {max_tokens: 256, ...common, prompt: asked.at(-1).content}];
    const messages = asked.map(({role, content, reasoning_content}) => ({role, content, reasoning_content}));
    if ($('system').value)
        messages.unshift({role: 'system', content: $('system').value});
    return ['/v1/chat/completions', {...common, messages, chat_template_kwargs: {enable_thinking: $('think').checked}}];
}

/* A reply with status 200; anything else is thrown as the server's words. Asks for the key when it is
 * wanted. */
async function call(path, options = {}) {
    for (;;) {
        const headers = key ? {Authorization: `Bearer ${key}`} : {};
        if (options.body)
            headers['Content-Type'] = 'application/json';
        const reply = await fetch(path, {...options, headers});
        if (reply.ok)
            return reply;
        const error = (await reply.json().catch(() => null))?.error;
        if (reply.status !== 401)
            throw new Error(error?.message ?? `the server answers with status ${reply.status}`);
        await askKey();
    }
}

/* Resolved once the dialog was answered; rejected when it was closed. */
function askKey() {
    const dialog = $('key-dialog');
    $('key-hint').hidden = !key;
    $('key').value = '';
    return new Promise((resolve, reject) => {
        dialog.onclose = () => reject(new Error('no API key was given'));
        $('key-form').onsubmit = e => {
            e.preventDefault();
            key = $('key').value;
            $('key').value = '';
            dialog.onclose = null;
            dialog.close();
            resolve();
        };
        dialog.showModal();
    });
}

/* The events of a stream: the objects of its data lines, and comments as strings. */
async function* events(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
        const {value, done} = await reader.read();
        if (done)
            return;
        const lines = (rest + value).split('\n');
        rest = lines.pop();
        for (const line of lines) {
            if (line === 'data: [DONE]')
                return 'complete';
            if (line.startsWith('data: '))
                yield JSON.parse(line.slice(6));
            else if (line.startsWith(': '))
                yield line.slice(2);
        }
    }
}

/* One event of the answer; returns its finish_reason, if it has one. */
function takeEvent(turn, event) {
    const view = turn.view;
    if (typeof event === 'string') {
        say(`Reading: ${event}`);
        return null;
    }
    if (event.error)
        throw new Error(event.error.message);
    const choice = event.choices[0];
    for (const token of choice?.tokens ?? [])
        view.trace.put(token);
    const delta = choice?.delta ?? {content: choice?.text};
    if (delta.reasoning_content) {
        turn.reasoning_content += delta.reasoning_content;
        view.thought.hidden = false;
        addText(view, view.thinking, delta.reasoning_content);
    }
    if (delta.content) {
        turn.content += delta.content;
        addText(view, view.text, delta.content);
    }
    for (const c of delta.tool_calls ?? [])
        view.text.append(make('code', '', `${c.function.name}(${c.function.arguments})`));
    if (event.timings) {
        view.timings = event.timings;
        say('Writing');
        showFigures(view);
    }
    return choice?.finish_reason;
}

async function readAnswer(turn, path, body, signal) {
    const reply = await call(path, {method: 'POST', body: JSON.stringify(body), signal});
    const stream = events(reply.body);
    let finish = null;
    for (;;) {
        const {value, done} = await stream.next();
        if (done && value !== 'complete')
            throw new Error('the connection ended before the answer did');
        if (done)
            return finish;
        finish = takeEvent(turn, value) ?? finish;
    }
}

async function answer(settings) {
    const [path, body] = makeRequest(settings);
    const turn = addTurn({role: 'assistant', content: '', reasoning_content: ''});
    setRunning(new AbortController());
    clearFigures();
    say('Waiting');
    try {
        const finish = await readAnswer(turn, path, body, running.signal);
        endAnswer(turn, finish === 'length' ? 'length limit' : '');
        say('');
    } catch (e) {
        const stopped = e.name === 'AbortError';
        endAnswer(turn, stopped ? 'stopped' : e.message, !stopped);
        say(stopped ? 'Stopped' : '');
    }
    setRunning(null);
}

function setRunning(controller) {
    running = controller;
    $('log').setAttribute('aria-busy', String(!!running)); // read aloud once it is whole
    $('send').textContent = running ? 'Stop' : 'Send';
    $('fresh').disabled = !!running;
}

function stop() {
    running?.abort();
}

function regenerate(turn) {
    const settings = readSettings();
    if (running || !settings)
        return;
    turns = turns.filter(t => t !== turn);
    turn.root.remove();
    $('input').focus();
    answer(settings);
}

function send() {
    const content = $('input').value;
    if (running || !content.trim())
        return;
    const settings = readSettings();
    if (!settings)
        return;
    $('input').value = '';
    fitInput();
    addTurn({role: 'user', content});
    answer(settings);
}

// ---- Controls ----

function fitInput() {
    const e = $('input');
    e.style.height = 'auto';
    e.style.height = e.scrollHeight + 2 + 'px';
}

const narrow = matchMedia('(max-width: 820px)');
function showPanel(open) {
    $('panel').hidden = !open;
    $('settings').setAttribute('aria-expanded', String(open));
}

const themes = ['auto', 'light', 'dark'], prefersDark = matchMedia('(prefers-color-scheme: dark)');
let theme = 'auto';
function showTheme() {
    document.documentElement.dataset.theme = theme === 'auto' ? (prefersDark.matches ? 'dark' : 'light') : theme;
    $('theme-name').textContent = theme;
    $('theme').setAttribute('aria-label', `Theme: ${theme}`);
}

function showMode() {
    for (const id of ['system-field', 'think-field'])
        $(id).hidden = $('mode').value === 'text';
}

$('ask').addEventListener('submit', e => {
    e.preventDefault();
    if (running)
        stop();
    else
        send();
});
$('input').addEventListener('input', fitInput);
$('input').addEventListener('keydown', e => {
    if (e.key !== 'Enter' || e.shiftKey || e.isComposing)
        return;
    e.preventDefault();
    send();
});
document.addEventListener('keydown', e => {
    if (e.key !== 'Escape' || $('key-dialog').open)
        return;
    if (running)
        stop();
    else if (narrow.matches && !$('panel').hidden)
        showPanel(false);
});
$('fresh').addEventListener('click', () => {
    for (const t of turns)
        t.root.remove();
    turns = [];
    $('hello').hidden = false;
    say('');
    clearFigures();
    $('input').focus();
});
$('settings').addEventListener('click', () => showPanel($('panel').hidden));
$('marks').addEventListener('change', () => $('log').classList.toggle('marks', $('marks').checked));
$('mode').addEventListener('change', showMode);
$('theme').addEventListener('click', () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    showTheme();
});
prefersDark.addEventListener('change', showTheme);
narrow.addEventListener('change', () => showPanel(!narrow.matches));

async function begin() {
    showTheme();
    showMode();
    showPanel(!narrow.matches);
    $('input').focus();
    try {
        model = (await (await call('/v1/models')).json()).data[0];
        $('model').textContent = `${model.id} · ${model.meta.context} tokens` +
            (model.meta.drafts ? '' : ` · no drafts: ${model.meta.no_drafts_reason}`);
    } catch (e) {
        say(e.message);
    }
}
begin();
