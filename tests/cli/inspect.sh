#!/bin/bash
# inspect.sh - `foretoken inspect`: text and JSON, files that are no models, broken files and pipes.
. tests/cli/common.bash

model qwen4exp "$tmp/m.gguf"
good inspect "$tmp/m.gguf"
for words in "architecture  qwen4exp" "draft head (MTP)" "sparse attention (QSA)" "token_embd.weight" \
    "general.architecture = qwen4exp" "tokenizer.ggml.tokens = [320]"; do
    has "$tmp/out" "$words"
done
[ ! -s "$tmp/err" ] || fail "a good file with messages: $(cat "$tmp/err")"
good inspect --json "$tmp/m.gguf"
json "$tmp/out"
[ "$(value "$tmp/out" blocks)" = 5 ] || fail "blocks"
cp "$tmp/out" "$tmp/first"
good inspect "$tmp/m.gguf" --json
same "$tmp/out" "$tmp/first"
good inspect -- "$tmp/m.gguf"
good inspect tests/golden/tokenizer/vocab.gguf
has "$tmp/out" "blocks        (none)"

# A text without a tokenizer, and the same model quantised: still well formed.
"$FORETOKEN" convert tests/golden/tiny-qwen35 -o "$tmp/bare.gguf" 2>/dev/null || fail "convert"
good inspect --json "$tmp/bare.gguf"
[ "$(value "$tmp/out" tokenizer)" = false ] || fail "tokenizer of a checkpoint that has none"

# Broken, missing and wrong files.
bad 2 "an argument is missing" inspect
bad 2 "unexpected argument b" inspect a b
bad 2 "unknown option --jsn" inspect --jsn a
bad 2 "an option without a value: --json=1" inspect --json=1 a
bad 1 "$tmp/none.gguf" inspect "$tmp/none.gguf"
bad 1 "not a regular file" inspect "$tmp"
bad 1 "Makefile" inspect Makefile
: >"$tmp/empty.gguf"
bad 1 "empty.gguf" inspect "$tmp/empty.gguf"
size=$(count "$tmp/m.gguf")
for n in 3 4 8 24 100 5000 20000 $((size / 2)) $((size - 1)); do
    head -c "$n" "$tmp/m.gguf" >"$tmp/cut.gguf"
    bad 1 "cut.gguf" inspect "$tmp/cut.gguf"
    bad 1 "cut.gguf" inspect --json "$tmp/cut.gguf"
done

# A reader that goes away is no failure, a full disk is one.
for option in --json --; do
    without_reader inspect $option "$tmp/m.gguf"
    [ $rc -eq 0 ] || fail "inspect $option without a reader: $rc"
    [ ! -s "$tmp/err" ] || fail "inspect $option without a reader: $(cat "$tmp/err")"
done
if [ -w /dev/full ]; then
    "$FORETOKEN" inspect "$tmp/m.gguf" >/dev/full 2>"$tmp/err"
    [ $? -eq 1 ] || fail "a full disk is no failure"
    has "$tmp/err" "standard output"
fi

help_lists inspect --json
finish
