/* chromium.mjs - a browser without a window, driven over its DevTools protocol by pipes: file descriptor 3
 * takes commands, 4 gives answers and events, each a JSON object with a NUL behind it. */
import {spawn} from 'node:child_process';
import {mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';

const FLAGS = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-extensions', '--hide-scrollbars',
    '--force-color-profile=srgb', '--remote-debugging-pipe'];

export class Browser {
    #process;
    #profile = mkdtempSync(join(tmpdir(), 'chromium-'));
    #waiting = new Map(); // command id -> {resolve, reject}
    #next = 1;
    #session;
    events = []; // all that came, {method, params}

    static async open() {
        const b = new Browser();
        const command = process.env.CHROMIUM ?? 'chromium';
        b.#process = spawn(command, [...FLAGS, `--user-data-dir=${b.#profile}`, 'about:blank'],
            {stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']});
        b.#process.on('error', e => b.#fail(e));
        b.#process.on('exit', code => b.#fail(new Error(`${command} ended with status ${code}`)));
        b.#read(b.#process.stdio[4]);
        const {targetInfos} = await b.send('Target.getTargets');
        const {targetId} = targetInfos.find(t => t.type === 'page');
        const {sessionId} = await b.send('Target.attachToTarget', {targetId, flatten: true});
        b.#session = sessionId;
        for (const domain of ['Page', 'Runtime', 'Log', 'Network'])
            await b.send(`${domain}.enable`);
        return b;
    }

    #fail(error) {
        for (const {reject} of this.#waiting.values())
            reject(error);
        this.#waiting.clear();
    }

    #read(pipe) {
        let rest = '';
        pipe.setEncoding('utf8');
        pipe.on('data', data => {
            const messages = (rest + data).split('\0');
            rest = messages.pop();
            for (const text of messages)
                this.#take(JSON.parse(text));
        });
    }

    #take(message) {
        if (!message.id) {
            this.events.push(message);
            return;
        }
        const {resolve, reject} = this.#waiting.get(message.id);
        this.#waiting.delete(message.id);
        if (message.error)
            reject(new Error(message.error.message));
        else
            resolve(message.result);
    }

    send(method, params = {}) {
        const id = this.#next++;
        this.#process.stdio[3].write(JSON.stringify({id, method, params, sessionId: this.#session}) + '\0');
        return new Promise((resolve, reject) => this.#waiting.set(id, {resolve, reject}));
    }

    /* The value of an expression in the page; a promise's, once it is there. */
    async run(expression) {
        const r = await this.send('Runtime.evaluate', {expression, returnByValue: true, awaitPromise: true});
        if (r.exceptionDetails)
            throw new Error(`${expression}: ${r.exceptionDetails.exception?.description ?? r.exceptionDetails.text}`);
        return r.result.value;
    }

    /* Wait until the expression is true. */
    async until(expression, seconds = 30) {
        const end = Date.now() + 1000 * seconds;
        while (!await this.run(`!!(${expression})`)) {
            if (Date.now() > end)
                throw new Error(`not so after ${seconds} s: ${expression}`);
            await new Promise(done => setTimeout(done, 20));
        }
    }

    async go(url) {
        await this.send('Page.navigate', {url});
        await this.until(`document.readyState === 'complete' && location.href.startsWith(${JSON.stringify(url)})`);
    }

    async size(width, height) {
        await this.send('Emulation.setDeviceMetricsOverride', {width, height, deviceScaleFactor: 1, mobile: false});
    }

    async scheme(value) {
        await this.send('Emulation.setEmulatedMedia', {features: [{name: 'prefers-color-scheme', value}]});
    }

    type(text) {
        return this.send('Input.insertText', {text});
    }

    /* A key by its DevTools names; modifiers: 8 is Shift. */
    async press(key, {text, modifiers = 0} = {}) {
        const code = {Enter: 13, Escape: 27, Tab: 9, ArrowLeft: 37, ArrowRight: 39}[key];
        const event = {key, code: key, windowsVirtualKeyCode: code, modifiers};
        await this.send('Input.dispatchKeyEvent', {type: text ? 'keyDown' : 'rawKeyDown', text, ...event});
        await this.send('Input.dispatchKeyEvent', {type: 'keyUp', ...event});
    }

    async #middle(selector) {
        return this.run(`(() => { const e = document.querySelector(${JSON.stringify(selector)});
            e.scrollIntoView({block: 'nearest'});
            const b = e.getClientRects()[0]; return {x: b.x + b.width / 2, y: b.y + b.height / 2}; })()`);
    }

    async point(selector) {
        await this.send('Input.dispatchMouseEvent', {type: 'mouseMoved', ...await this.#middle(selector)});
    }

    async click(selector) {
        const at = {...await this.#middle(selector), button: 'left', clickCount: 1};
        await this.send('Input.dispatchMouseEvent', {type: 'mousePressed', ...at});
        await this.send('Input.dispatchMouseEvent', {type: 'mouseReleased', ...at});
    }

    async screenshot() {
        return Buffer.from((await this.send('Page.captureScreenshot', {format: 'png'})).data, 'base64');
    }

    async close() {
        const ended = new Promise(done => this.#process.once('exit', done));
        await this.send('Browser.close').catch(() => {}); // its answer may not come any more
        await ended;
        rmSync(this.#profile, {recursive: true, force: true, maxRetries: 5});
    }
}
