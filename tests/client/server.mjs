/* server.mjs - `foretoken serve` with the bundled model, on a free port, for the tests of clients. */
import {spawn} from 'node:child_process';
import {createInterface} from 'node:readline';

const command = process.env.FORETOKEN ?? 'build/release/foretoken';

/* {url, log, stop}: log has the lines of its access log as objects, stop ends it. */
export async function startServer(...options) {
    const child = spawn(command, ['serve', '-m', 'models/foretoken-sample.gguf', '--port', '0', ...options],
        {stdio: ['ignore', 'ignore', 'pipe'], env: {OMP_WAIT_POLICY: 'passive', ...process.env}});
    const log = [], said = [];
    const url = await new Promise((resolve, reject) => {
        child.on('error', reject);
        child.on('exit', code => reject(new Error(`the server ended with status ${code}: ${said.join('\n')}`)));
        createInterface({input: child.stderr}).on('line', line => {
            if (line.startsWith('{')) {
                log.push(JSON.parse(line));
                return;
            }
            said.push(line);
            const at = / on (http:[^,]*),/.exec(line);
            if (at)
                resolve(at[1]);
        });
    });
    const stop = () => new Promise(resolve => {
        child.removeAllListeners('exit');
        child.on('exit', resolve);
        child.kill('SIGTERM');
    });
    return {url, log, stop};
}

/* Wait until f() is true. */
export async function until(f, seconds = 10) {
    for (const end = Date.now() + 1000 * seconds; !f();) {
        if (Date.now() > end)
            throw new Error(`not so after ${seconds} s: ${f}`);
        await new Promise(done => setTimeout(done, 10));
    }
}
