// Ids of rendered conversations by the npm package @lenml/tokenizers, for tests/golden/chat/ids.txt.
// How to run it: README.md beside this file.
//
// Left out: cases whose messages spell a special token, which the tokenizer would take for one.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [where, folder, ...files] = process.argv.slice(2);
if (!files.length) {
    console.error("usage: node chat_ids.mjs FOLDER_WITH_node_modules FOLDER_WITH_tokenizer.json CASES.jsonl...");
    process.exit(2);
}
const { TokenizerLoader } = createRequire(where + "/")("@lenml/tokenizers");
const read = (name) => JSON.parse(readFileSync(`${folder}/${name}`, "utf8"));
const tokenizerJSON = read("tokenizer.json");
const tokenizer = TokenizerLoader.fromPreTrained({
    tokenizerJSON,
    tokenizerConfig: read("tokenizer_config.json"),
});
const special = tokenizerJSON.added_tokens.map((t) => t.content);

for (const file of files) {
    for (const line of readFileSync(file, "utf8").trim().split("\n")) {
        const { name, rendered, ...request } = JSON.parse(line);
        const text = JSON.stringify(request);
        if (rendered === undefined || special.some((s) => text.includes(s))) continue;
        const ids = tokenizer.encode(rendered, { add_special_tokens: false });
        console.log(`${ids.join(",")} ${name}`);
    }
}
