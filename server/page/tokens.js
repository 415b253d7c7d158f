/* tokens.js - what is known of an answer's tokens. Pure; tests/client/tokens.test.mjs runs it too. */
'use strict';

const utf8 = new TextEncoder();

/* Which tokens a piece of text was made of. A piece comes behind its tokens: stop texts and incomplete
 * characters are held back, markup and outer white space are left out. In bytes, as a token may end
 * inside a character. */
class Trace {
    waiting = []; // {token, bytes, at}: bytes from at on have not come out

    put(token) {
        const bytes = token.bytes ? Uint8Array.from(token.bytes) : utf8.encode(token.text);
        if (bytes.length)
            this.waiting.push({token, bytes, at: 0});
    }

    /* Move to the place in what waits that goes on like bytes from i: how many bytes the first token
     * there shares with them; 0: nowhere. */
    seek(bytes, i) {
        for (let k = 0; k < this.waiting.length; k++) {
            const w = this.waiting[k];
            for (let at = w.at; at < w.bytes.length; at++) {
                const n = Math.min(w.bytes.length - at, bytes.length - i);
                let same = 0;
                while (same < n && w.bytes[at + same] === bytes[i + same])
                    same++;
                if (same === n) {
                    w.at = at;
                    this.waiting.splice(0, k);
                    return n;
                }
                if (w.bytes[at] > 32) // not white space: no text begins inside a token
                    break;
            }
        }
        return 0;
    }

    /* The piece as parts [{tokens, text}]; a character belongs to all tokens that have a byte of it. */
    take(piece) {
        const bytes = utf8.encode(piece), owner = new Array(bytes.length).fill(null);
        for (let i = 0; i < bytes.length;) {
            const n = this.seek(bytes, i);
            if (n === 0) {
                i++;
                continue;
            }
            const w = this.waiting[0];
            owner.fill(w.token, i, i + n);
            w.at += n;
            if (w.at === w.bytes.length)
                this.waiting.shift();
            i += n;
        }
        const parts = [];
        let i = 0;
        for (const c of piece) {
            const end = i + utf8.encode(c).length;
            const tokens = [...new Set(owner.slice(i, end))].filter(Boolean);
            const last = parts.at(-1);
            if (last && tokens.length <= 1 && last.tokens.at(-1) === tokens[0])
                last.text += c;
            else
                parts.push({tokens, text: c});
            i = end;
        }
        return parts;
    }
}

const percent = x => (100 * x).toFixed(x < 0.1 ? 2 : 1) + ' %';
const percentOf = (part, all) => all ? Math.round(100 * part / all) + ' %' : 'none';
const perSecond = x => x > 0 && isFinite(x) ? x.toFixed(1) : '–';

/* Tokens per second if every token were a forward call of its own, at the mean time of a verification. */
function withoutDrafts(t) {
    const d = t.draft;
    return d.rounds > 0 && d.verify_ms > 0 ? 1000 / (d.verify_ms / d.rounds + t.sample_ms / t.predicted_n) : 0;
}

