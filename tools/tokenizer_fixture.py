#!/usr/bin/env python3
"""Write a vocabulary-only GGUF and a plain list of cases for tests/unit/test_text_golden.c.

usage: tokenizer_fixture.py TOKENIZER.json PRE EOS_TEXT CASES.json OUT_DIR

TOKENIZER.json  a byte-level BPE tokenizer in the Hugging Face layout
PRE             the value of tokenizer.ggml.pre: qwen35 or qwen2
EOS_TEXT        the text of the token that ends a document
CASES.json      {"cases": [{"text_hex": ..., "ids": [...], "decoded_hex": ...}, ...]}
OUT_DIR         gets vocab.gguf and cases.txt

cases.txt: one case a line, three columns separated by a space: the text's bytes in hex, the ids
separated by commas, the decoded text's bytes in hex; "-" for an empty column.
Needs Python 3 and nothing else.
"""
import json
import os
import struct
import sys

I32, U32, STRING, ARRAY = 5, 4, 8, 9  # value types of GGUF
NORMAL, CONTROL, USER_DEFINED = 1, 3, 4  # token types


def string(text):
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, value):
    return string(key) + struct.pack("<I", kind) + value


def array(kind, items):
    return struct.pack("<IQ", kind, len(items)) + b"".join(items)


def vocabulary(tokenizer):
    """Texts and types by id, and the merges as 'left right'."""
    model = tokenizer["model"]
    text = {i: t for t, i in model["vocab"].items()}
    kind = dict.fromkeys(text, NORMAL)
    for token in tokenizer["added_tokens"]:
        text[token["id"]] = token["content"]
        kind[token["id"]] = CONTROL if token["special"] else USER_DEFINED
    if sorted(text) != list(range(len(text))):
        sys.exit("the ids have gaps")
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    ids = range(len(text))
    return [text[i] for i in ids], [kind[i] for i in ids], merges


def write_gguf(path, pre, eos, tokens, kinds, merges):
    entries = [
        entry("general.architecture", STRING, string("vocab")),
        entry("tokenizer.ggml.model", STRING, string("gpt2")),
        entry("tokenizer.ggml.pre", STRING, string(pre)),
        entry("tokenizer.ggml.tokens", ARRAY, array(STRING, [string(t) for t in tokens])),
        entry("tokenizer.ggml.token_type", ARRAY, array(I32, [struct.pack("<i", k) for k in kinds])),
        entry("tokenizer.ggml.merges", ARRAY, array(STRING, [string(m) for m in merges])),
        entry("tokenizer.ggml.eos_token_id", U32, struct.pack("<I", eos)),
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32))


def write_cases(path, cases):
    with open(path, "w", encoding="ascii") as f:
        for case in cases:
            ids = ",".join(map(str, case["ids"]))
            f.write(f"{case['text_hex'] or '-'} {ids or '-'} {case['decoded_hex'] or '-'}\n")


def main():
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    tokenizer_path, pre, eos_text, cases_path, out = sys.argv[1:]
    with open(tokenizer_path, encoding="utf-8") as f:
        tokens, kinds, merges = vocabulary(json.load(f))
    with open(cases_path, encoding="utf-8") as f:
        cases = json.load(f)["cases"]
    os.makedirs(out, exist_ok=True)
    write_gguf(os.path.join(out, "vocab.gguf"), pre, tokens.index(eos_text), tokens, kinds, merges)
    write_cases(os.path.join(out, "cases.txt"), cases)
    print(f"{len(tokens)} tokens, {len(merges)} merges, {len(cases)} cases")


main()
