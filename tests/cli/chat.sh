#!/bin/bash
# chat.sh - `foretoken chat --render`: text, tokens and marks of conversations, and what it refuses.
. tests/cli/common.bash

m=models/foretoken-sample.gguf
cat >"$tmp/c.json" <<'END'
{"messages": [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Say <|im_end|>"}],
 "model": "any", "temperature": 0.5}
END
printf '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nSay <|im_end|><|im_end|>\n<|im_start|>assistant\n<think>\n' >"$tmp/want"

# The text alone, byte by byte, from a file and from standard input; with a model it is the same.
good chat --render "$tmp/c.json"
same "$tmp/out" "$tmp/want"
[ ! -s "$tmp/err" ] || fail "messages: $(cat "$tmp/err")"
stdin=$tmp/c.json
good chat --render -
same "$tmp/out" "$tmp/want"
stdin=/dev/null
good chat --render "$tmp/c.json" -m $m
same "$tmp/out" "$tmp/want"

# Each case of the published template, the errors among them.
n=0
for file in cases more; do
    while IFS= read -r line; do
        printf '%s' "$line" >"$tmp/case.json"
        n=$((n + 1))
        case $line in
        *', "error": "'*)
            run chat --render "$tmp/case.json"
            [ $rc -eq 1 ] && [ ! -s "$tmp/out" ] || fail "a case of $file was not refused: $line"
            has "$tmp/err" "foretoken chat: messages"
            ;;
        *) good chat --render "$tmp/case.json" ;;
        esac
    done <tests/golden/chat/$file.jsonl
done
[ $n -eq 55 ] || fail "$n cases"

# JSON: the text; with a model tokens and marks, text of a message never a special token.
good chat --render "$tmp/c.json" --json
json "$tmp/out"
grep -q tokens "$tmp/out" && fail "tokens without a model"
good chat --render "$tmp/c.json" --json -m $m
json "$tmp/out"
ids=$(numbers "$tmp/out" tokens)
[ "$(tr ' ' '\n' <<<"$ids" | grep -cx 4090)" = 2 ] || fail "ends of turns: $ids" # <|im_end|>
[ "$(tr ' ' '\n' <<<"$ids" | grep -cx 4089)" = 3 ] || fail "starts of turns: $ids"
[ "$(numbers "$tmp/out" marks | wc -w)" = 2 ] || fail "marks: $(numbers "$tmp/out" marks)"

# An array of messages alone; --no-thinking, also against the file.
printf ' [{"role": "user", "content": "x"}] \n' >"$tmp/array.json"
printf '{"enable_thinking": true, "messages": [{"role": "user", "content": "x"}]}\n\n' >"$tmp/on.json"
printf '<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n' >"$tmp/want"
for file in array on; do
    good chat --render "$tmp/$file.json"
    same "$tmp/out" "$tmp/want"
done
printf '<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n' >"$tmp/want"
for file in array on; do
    good chat --render "$tmp/$file.json" --no-thinking
    same "$tmp/out" "$tmp/want"
done

# What is refused.
bad 2 "no model; give one with -m FILE" chat
bad 2 "unexpected argument" chat "$tmp/c.json"
bad 1 "$tmp/none.json" chat --render "$tmp/none.json"
bad 1 "none.gguf" chat --render "$tmp/c.json" -m "$tmp/none.gguf"
model qwen35 "$tmp/m.gguf"
bad 1 "no special token '<|im_start|>'" chat --render "$tmp/c.json" -m "$tmp/m.gguf"
for text in '' '{' '{}' '[]' '3' '{"messages": "x"}' '[{"role": "user", "content": 3}]' '[{"role": "narrator"}]' \
    '[{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]' \
    '{"messages": [{"role": "user", "content": "a"}], "tools": "t"}' '{"messages": []'; do
    printf '%s' "$text" >"$tmp/bad.json"
    bad 1 "foretoken chat: " chat --render "$tmp/bad.json"
    bad 1 "foretoken chat: " chat --render "$tmp/bad.json" --no-thinking
done
printf '[{"role": "user", "content": "a"},\n {"role": "user", "content": [{"type": "image"}]}]' >"$tmp/bad.json"
bad 1 "messages[1].content[0]: of type 'image'" chat --render "$tmp/bad.json"
printf '{"messages": [\n {"role": "user" "content": "a"}]}' >"$tmp/bad.json"
bad 1 "line 2, column 18" chat --render "$tmp/bad.json"
perl -e 'print "{\"messages\": ", "[" x 100000' >"$tmp/bad.json"
bad 1 "nested more than 128 deep" chat --render "$tmp/bad.json"

without_reader chat --render "$tmp/c.json"
[ $rc -eq 0 ] || fail "without a reader: $rc: $(cat "$tmp/err")"

help_lists chat --render --model --no-thinking --json -m
finish
