#!/bin/bash
# chat-tools.sh - `foretoken chat` with thinking that ends and with tool calls: a tiny model has a token
# that spells a whole call, and one that ends the thinking; a bias makes them certain.
. tests/cli/common.bash

m=$tmp/m.gguf
call=304 thought=305
checkpoint qwen35 "$tmp/hf"
perl -0777 -pi -e '
    my @t = (["<|im_start|>", "true"], ["<|im_end|>", "true"], ["<think>", "false"], ["</think>", "false"],
        ["<tool_call>\\n<function=go>\\n<parameter=to>\\nsea\\n</parameter>\\n</function>\\n</tool_call>", "false"],
        ["hm</think>\\n\\nyes </think> yes", "false"]);
    my $n = 300;
    my $more = join ",", map { "{\"id\":" . $n++ . ",\"content\":\"$_->[0]\",\"special\":$_->[1]}" } @t;
    s/"added_tokens":\[/"added_tokens":[$more,/' "$tmp/hf/tokenizer.json"
"$FORETOKEN" convert "$tmp/hf" -o "$m" --type f32 2>"$tmp/err" || { fail "convert: $(cat "$tmp/err")" && finish; }
printf '[{"type": "function", "function": {"name": "go", "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}}}]' >"$tmp/tools.json"
printf 'Go\n/tool Gone.\n' >"$tmp/go"
stdin=$tmp/go

# A call is a line of JSON, its answer is asked for, and both are messages (B035, B036: the call stands
# in thinking that was not closed).
good chat -m "$m" -c 4000 -n 1 --logit-bias $call=1000 --tools "$tmp/tools.json" --session "$tmp/c.json"
[ "$(cat "$tmp/out")" = '{"name": "go", "arguments": {"to": "sea"}}
{"name": "go", "arguments": {"to": "sea"}}' ] || fail "calls: $(cat "$tmp/out")"
json "$tmp/c.json"
has "$tmp/c.json" '"arguments": "{\"to\": \"sea\"}"'
has "$tmp/c.json" '"content": "Gone."'
has "$tmp/c.json" '"tools": ['
good chat --render "$tmp/c.json"
has "$tmp/out" "<function=go>"
has "$tmp/out" "<tool_response>"
has "$tmp/out" "# Tools"
good chat -m "$m" -c 4000 -n 1 --logit-bias $call=1000 --json
sed -n 1p "$tmp/out" >"$tmp/object"
json "$tmp/object"
has "$tmp/object" '"tool_calls":[{"type":"function","function":{"name":"go","arguments":"{\"to\": \"sea\"}"}}]'

# Gone on with: the tools are those of the file, and the call still waits.
printf '/tool Gone again.\n' >"$tmp/again"
stdin=$tmp/again
good chat -m "$m" -c 4000 -n 1 --logit-bias $thought=1000 --session "$tmp/c.json"
[ "$(cat "$tmp/out")" = "yes </think> yes" ] || fail "the answer behind a call: $(cat "$tmp/out")"
run chat -m "$m" -c 4000 -n 1 --session "$tmp/c.json"
[ $rc -eq 1 ] || fail "a tool's answer without a call: exit status $rc"
has "$tmp/err" "/tool: no call waits for an answer"

# Several calls at once: each gets its answer, then the model goes on.
printf 'Go\n/tool one\n/tool two\n/tool three\n' >"$tmp/go"
stdin=$tmp/go
run chat -m "$m" -c 4000 -n 2 --logit-bias $call=1000 --json
[ "$(grep -c 'tool_calls' "$tmp/out")" = 2 ] || fail "answers to two calls: $(cat "$tmp/out")"
has "$tmp/err" "[calls that still wait for an answer: 1]"

# Thinking that ends: shown, hidden, off; text of a tag in the answer stays text (B037, B039).
echo Hi >"$tmp/hi"
stdin=$tmp/hi
good chat -m "$m" -c 4000 -n 1 --logit-bias $thought=1000 -q
[ "$(cat "$tmp/out")" = "yes </think> yes" ] || fail "answer: $(cat "$tmp/out")"
[ "$(cat "$tmp/err")" = "hm" ] || fail "thinking: $(cat "$tmp/err")"
good chat -m "$m" -c 4000 -n 1 --logit-bias $thought=1000 -q --thinking hide
[ "$(cat "$tmp/out")" = "yes </think> yes" ] || fail "answer: $(cat "$tmp/out")"
[ ! -s "$tmp/err" ] || fail "hidden thinking: $(cat "$tmp/err")"
good chat -m "$m" -c 4000 -n 1 --logit-bias $thought=1000 -q --thinking off --session "$tmp/t.json"
[ "$(cat "$tmp/out")" = "hm</think>

yes </think> yes" ] || fail "without thinking: $(cat "$tmp/out")"
printf 'And?\n' >"$tmp/hi"
good chat -m "$m" -c 4000 -n 1 --logit-bias $thought=1000 -q --thinking off --session "$tmp/t.json"
good chat --render "$tmp/t.json"
[ "$(grep -c '^yes </think> yes' "$tmp/out")" = 2 ] || fail "an answer lost what stood in front of a tag: $(cat "$tmp/out")"
good chat -m "$m" -c 4000 -n 1 --logit-bias $thought=1000 --json
has "$tmp/out" '"content":"yes </think> yes","reasoning_content":"hm"'

# A context that is full, before an answer and within it: whole turns go, never a tool's answer from its
# call (the form writes both like a question of the user).
perl -e 'for (1..2) { print "Go\n/tool Gone to the sea and back.\n/tool Gone.\n" }' >"$tmp/go"
stdin=$tmp/go
good chat -m "$m" -c 4000 -n 1 --logit-bias $call=1000 --thinking off --session "$tmp/turns.json"
printf 'Stop\nMore\n' >"$tmp/stop"
stdin=$tmp/stop
n_drop=0
for n in 500 600 700 800 840 860 880 900 930 950 1000 1830 1860 1900; do
    tools=""
    [ $n -gt 1000 ] && tools="--tools $tmp/tools.json" # some 980 tokens at the beginning
    cp "$tmp/turns.json" "$tmp/m.json"
    good chat -m "$m" -c $n -n 60 --logit-bias 97=1000 --context drop --thinking off --json --session "$tmp/m.json" $tools
    [ "$(grep -c '"finish":"length"' "$tmp/out")" = 2 ] || fail "context $n: $(cat "$tmp/out")"
    dropped=$(value "$tmp/m.json" dropped)
    [ $((dropped % 6)) -eq 0 ] || fail "context $n: $dropped messages dropped, not whole turns"
    grep -q '"messages_dropped":6' "$tmp/out" && n_drop=$((n_drop + 1))
done
[ $n_drop -gt 8 ] || fail "hardly a turn was dropped: $n_drop"
for word in '' '{' '{}' 'null' '[3]'; do
    printf '%s' "$word" >"$tmp/bad.json"
    stdin=/dev/null
    [ "$word" = '[3]' ] || bad 1 "bad.json" chat -m "$m" --tools "$tmp/bad.json"
done
stdin=$tmp/hi
run chat -m "$m" -c 4000 -n 1 --tools "$tmp/bad.json"
[ $rc -eq 1 ] && has "$tmp/err" "tools[0]"
finish
