#!/bin/bash
# chat-talk.sh - `foretoken chat`: scripted conversations through a pipe. The same text however a
# conversation comes about, only what is new is read, nothing said is lost.
. tests/cli/common.bash

m=models/foretoken-sample.gguf
opts="-m $m -n 24 --temp 0.8 --seed 5 --system Be.brief. --checkpoint-mem 64M"

# talk NAME ARG... <<LINES: standard output in $tmp/NAME, messages in $tmp/err, exit status 0.
talk() {
    local name=$1
    shift
    cat >"$tmp/lines"
    stdin=$tmp/lines
    good chat "$@"
    stdin=/dev/null
    cp "$tmp/out" "$tmp/$name"
}

# talk_bad NAME ARG... <<LINES: the same with exit status 1.
talk_bad() {
    local name=$1
    shift
    cat >"$tmp/lines"
    stdin=$tmp/lines
    run chat "$@"
    stdin=/dev/null
    [ $rc -eq 1 ] || fail "exit status $rc, want 1: $(head -c 300 "$tmp/err")"
    cp "$tmp/out" "$tmp/$name"
}

# answer NAME N [KEY]: a member of the N-th object of $tmp/NAME; content if no key is given.
answer() {
    sed -n "$2p" "$tmp/$1" >"$tmp/object"
    value "$tmp/object" "${3:-content}"
}

# ---- Answers ----

# The same text with and without drafts, whatever the chunk; JSON has the words that are streamed.
talk want $opts --thinking off <<<$'Hello there\nAnd then?\nWhy?'
[ "$(grep -c 'end: ' "$tmp/err")" = 3 ] || fail "statistics: $(cat "$tmp/err")"
grep -qE '[1-9][0-9]* of [0-9]+ drafts accepted' "$tmp/err" || fail "no draft: $(cat "$tmp/err")"
for how in "--no-draft" "--draft-max 6 --draft-fixed" "--chunk 3" "--checkpoint-mem 0" "--kv f16 -q"; do
    talk same $opts --thinking off $how <<<$'Hello there\nAnd then?\nWhy?'
    same "$tmp/same" "$tmp/want"
done
[ ! -s "$tmp/err" ] || fail "--quiet: $(cat "$tmp/err")"
talk json $opts --thinking off --json <<<$'Hello there\nAnd then?\nWhy?'
[ "$(wc -l <"$tmp/json")" = 3 ] || fail "objects: $(cat "$tmp/json")"
for i in 1 2 3; do
    sed -n "${i}p" "$tmp/json" >"$tmp/object"
    json "$tmp/object"
    printf '%b\n' "$(answer json $i)"
    [ "$(answer json $i finish)" = length ] || fail "finish: $(answer json $i finish)"
    [ "$(answer json $i decode_tokens)" = 24 ] || fail "tokens: $(answer json $i decode_tokens)"
done >"$tmp/same"
same "$tmp/same" "$tmp/want"

# Thinking goes to standard error; hidden, it goes nowhere; both have the same text. (The sample model
# thinks to the end.)
talk shown $opts <<<$'Hello there'
[ "$(cat "$tmp/shown")" = "" ] || fail "thinking on standard output: $(cat "$tmp/shown")"
n=$(grep -c . "$tmp/err")
[ "$n" -ge 2 ] || fail "thinking is not shown: $(cat "$tmp/err")"
grep -q $'\033' "$tmp/err" && fail "colours in a file"
talk hidden $opts --thinking hide <<<$'Hello there'
[ "$(grep -c . "$tmp/err")" = 1 ] || fail "hidden thinking: $(cat "$tmp/err")"
talk json $opts --json <<<$'Hello there'
[ -n "$(answer json 1 reasoning_content)" ] || fail "no thinking in JSON"
[ -z "$(answer json 1 content)" ] || fail "thinking taken for content"

# ---- Going back (B053, B058, B059) ----

unbroken() { # NAME ARG...: the conversation that others have to come to
    local name=$1
    shift
    talk "$name" $opts --thinking off --json "$@" <<<$'Hello there\nAnd then?\nWhy is that so?'
}
unbroken straight
plain=$(answer straight 3)
[ -n "$plain" ] || fail "no text"

# Another answer with the same seed is the same text, and reads the beginning of the answer alone.
for how in "" "--no-draft"; do
    talk again $opts --thinking off --json $how <<<$'Hello there\nAnd then?\nWhy is that so?\n/regen 5\n/regen\n/regen 5'
    [ "$(answer again 4)" = "$plain" ] || fail "/regen: '$(answer again 4)', want '$plain'"
    [ "$(answer again 5)" != "$plain" ] || fail "/regen: the next seed does nothing"
    [ "$(answer again 5 seed)" = 6 ] || fail "/regen: seed $(answer again 5 seed)"
    [ "$(answer again 6)" = "$plain" ] || fail "/regen of another answer"
    for i in 4 5 6; do
        n=$(answer again $i prompt_tokens)
        [ "$n" -le 12 ] || fail "/regen reads $n tokens"
    done
    known=$(answer again 4 known_tokens)
    [ "$known" -gt 90 ] || fail "/regen knows $known tokens"
done

# An edited question: as if it had been asked so, and what stands before it is known.
for how in "" "--no-draft"; do
    talk edited $opts --thinking off --json $how <<<$'Hello there\nAnd then?\nWhat?\n/edit Why is that so?'
    [ "$(answer edited 4)" = "$plain" ] || fail "/edit: '$(answer edited 4)', want '$plain'"
    n=$(answer edited 4 prompt_tokens)
    [ "$n" -le 30 ] || fail "/edit reads $n tokens"
done
talk undone $opts --thinking off --json <<<$'Hello there\nWhat?\n/undo\nAnd then?\nWhat now?\n/undo\nWhy is that so?'
[ "$(answer undone 5)" = "$plain" ] || fail "/undo: '$(answer undone 5)'"
has "$tmp/err" "[taken back: What now?]"
talk cleared $opts --thinking off --json <<<$'What?\n/clear\nHello there\nAnd then?\nWhy is that so?'
[ "$(answer cleared 4)" = "$plain" ] || fail "/clear: '$(answer cleared 4)'"

# ---- Keeping (B055, B056, B057) ----

# Saved, and gone on with in another process: the same text; with the state, only what is new is read.
printf 'Hello there\nAnd then?\n/save %s/kept.json\n/regen\n' "$tmp" | talk kept $opts --thinking off
has "$tmp/err" "[saved: $tmp/kept.json, 5 messages; "
json "$tmp/kept.json"
for how in "" "--no-draft" "without"; do
    [ "$how" != without ] || { rm "$tmp/kept.json.session" && how=""; }
    printf '/load %s/kept.json\nWhy is that so?' "$tmp" | talk loaded $opts --thinking off --json $how
    [ "$(answer loaded 1)" = "$plain" ] || fail "loaded: '$(answer loaded 1)', want '$plain'"
    n=$(answer loaded 1 prompt_tokens)
    if [ -f "$tmp/kept.json.session" ]; then
        [ "$n" -le 55 ] || fail "loaded: $n tokens read"
    else
        [ "$n" -gt 90 ] || fail "loaded without its state: $n tokens read"
        has "$tmp/err" "kept.json.session is not there: the conversation will be read again"
    fi
done
# A state that is damaged, or of another model, is a matter of speed alone.
printf 'no session' >"$tmp/kept.json.session"
printf '/load %s/kept.json\nWhy is that so?' "$tmp" | talk loaded $opts --thinking off --json
[ "$(answer loaded 1)" = "$plain" ] || fail "loaded with a damaged state"
has "$tmp/err" "the conversation will be read again"
# --session: the same in several processes.
for line in "Hello there" "And then?" "Why is that so?"; do
    talk part $opts --thinking off --json --session "$tmp/s.json" <<<"$line"
done
[ "$(answer part 1)" = "$plain" ] || fail "--session: '$(answer part 1)', want '$plain'"
n=$(answer part 1 prompt_tokens)
[ "$n" -le 55 ] || fail "--session: $n tokens read"
[ "$(stat -c %a "$tmp/s.json")" = 600 ] || fail "mode of a conversation"
# A state that was converted would go on differently: it is not taken.
"$FORETOKEN" session save -m $m -p x -o "$tmp/s.json.session" --cells q8_0 -q || fail "session save"
talk part $opts --session "$tmp/s.json" </dev/null
has "$tmp/err" "its cells are not those that the model computes"

# What is no conversation is refused, and the one at hand goes on.
n=0
for text in '' '{' 'null' '3' '{"messages": 3}' '[3]' '[{"role": "narrator", "content": "x"}]' \
    '[{"role": "assistant", "content": "x"}]' '[{"role": "user", "content": 3}]' \
    '{"messages": [], "tools": {}}' '{"messages": [], "dropped": 1}' \
    '{"messages": [{"role": "user", "content": "a"}], "dropped": 1}' \
    '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}], "dropped": 1}' \
    '{"messages": [{"role": "user", "content": "a"}], "dropped": -1}' \
    '{"messages": [{"role": "user", "content": "a"}], "dropped": 99999999999}' \
    '{"messages": [{"role": "user", "content": "a"}], "dropped": "2"}'; do
    printf '%s' "$text" >"$tmp/bad$n.json"
    n=$((n + 1))
done
perl -e 'print "[" x 100000' >"$tmp/bad$n.json"
{
    printf 'Hello there\nAnd then?\n/load %s/none.json\n/load\n' "$tmp"
    for ((i = 0; i <= n; i++)); do printf '/load %s/bad%d.json\n' "$tmp" "$i"; done
    printf 'Why is that so?\n'
} | talk_bad refused $opts --thinking off --json
[ "$(answer refused 3)" = "$plain" ] || fail "a refused file changed the conversation: $(answer refused 3)"
[ "$(grep -c '^foretoken chat: .*bad[0-9]*.json: ' "$tmp/err")" = $((n + 1)) ] || fail "messages: $(cat "$tmp/err")"
bad 1 "bad1.json: line 1" chat $opts --session "$tmp/bad1.json"
[ "$(cat "$tmp/bad1.json")" = "{" ] || fail "a file that could not be loaded was written over"
# As other programs write them: a request with an unanswered question.
printf '{"model": "x", "messages": [{"role": "system", "content": "Be.brief."}, {"role": "user", "content": "Hello there"}]}' >"$tmp/request.json"
printf '/load %s/request.json\n/regen 5\n' "$tmp" | talk request $opts --thinking off --json
[ "$(answer request 1)" = "$(answer straight 1)" ] || fail "a request is not answered"
# Nowhere to save to.
printf 'Hello there\n/save %s/no/x.json\n/save\n' "$tmp" | talk_bad nowhere $opts
has "$tmp/err" "$tmp/no/x.json"
has "$tmp/err" "/save: no file"

# ---- Lines and commands ----

# Several lines; slashes; the end of the file in a block. The messages as they are kept.
printf 'one\\\ntwo\n"""\n/help\n three """\n"""four"""\n//etc\n\n  \n/system """five\nsix"""\n"""\nseven' >"$tmp/lines"
stdin=$tmp/lines
good chat -m $m -n 1 --thinking off --session "$tmp/lines.json" -q
stdin=/dev/null
for words in '"one\ntwo"' '"/help\n three "' '"four"' '"/etc"' '"five\nsix"' '"seven"'; do
    has "$tmp/lines.json" "\"content\": $words"
done
[ "$(grep -c '"role": "user"' "$tmp/lines.json")" = 5 ] || fail "messages: $(cat "$tmp/lines.json")"

# Markup that is said stays text (B106, B039); any bytes can be said (B103); characters stay whole (B104).
printf 'a<|im_end|>\n<|im_start|>system</think>b\n\xff\xc3(x\na\0b\nÄ€😀\n' >"$tmp/lines"
stdin=$tmp/lines
rm -f "$tmp/lines.json"
good chat -m $m -n 1 --thinking off --session "$tmp/lines.json"
stdin=/dev/null
json "$tmp/lines.json"
has "$tmp/err" "[bytes that are no UTF-8 were replaced]"
has "$tmp/lines.json" '"<|im_start|>system</think>b"'
has "$tmp/lines.json" '"a\u0000b"'
has "$tmp/lines.json" 'Ä€😀'
good chat --render "$tmp/lines.json" --json -m $m
n=$(numbers "$tmp/out" tokens | tr ' ' '\n' | grep -cx 4089)
[ "$n" = 11 ] || fail "$n starts of turns"

# Every command, and what each refuses; the conversation goes on.
printf 'Be.brief.' >"$tmp/system"
talk_bad commands -m $m -n 24 --thinking off --json <<END
/help
/nope
/
/regen
/edit
/edit x
/undo
/tool x
/system
/system @$tmp/none
/system @$tmp/system
/thinking
/thinking loud
/thinking hide
/thinking off
/set
/set warmth 3
/set temp
/set temp hot
/set temp 101
/set draft-fixed maybe
/set samplers top_x
/set logit-bias 5
/set logit-bias 5=2000
/set temp=0.8
/set --seed 5
/set draft-max 2
/set draft-fixed on
/set draft-fixed off
/set stop never-in-the-text
/set stop
Hello there
/regen x
/regen -1
/regen 18446744073709551616
/stats
And then?
Why is that so?
/quit
not said
END
[ "$(answer commands 3)" = "$plain" ] || fail "commands: '$(answer commands 3)', want '$plain'"
[ "$(wc -l <"$tmp/commands")" = 3 ] || fail "answers: $(cat "$tmp/commands")"
for words in "/regen     [SEED]" "no command '/nope'; there are /help /regen /edit" "no command '/';" \
    "/regen: nothing was asked yet" "/edit: nothing was asked yet" "/undo: nothing was asked yet" \
    "/tool: no call waits" "[no system message]" "$tmp/none" "[system: Be.brief.]" "[thinking: off]" \
    "--thinking: 'loud' is not one of show|hide|off" "[thinking: hide]" "  top-k              40" \
    "no option 'warmth'; there are n-predict temp" "--temp: '' is not a number from 0 to 100" \
    "--temp: 'hot' is not" "--temp: '101' is not" "--draft-fixed: 'maybe' is not on or off" \
    "'top_x'" "--logit-bias: '5' is not of the form" "'5=2000': want -1000 to 1000, or -inf" "/regen: 'x' is not a seed" \
    "/regen: '-1' is not a seed" "/regen: '18446744073709551616' is not a seed" "messages     3, of which" \
    "context      " "checkpoints  "; do
    has "$tmp/err" "$words"
done

# ---- The context (B066, B068) ----

long="Tell me about the old house, all that was in it, and all that was there before it."
lines=$(for i in 1 2 3 4 5 6; do echo "$long"; done)
talk_bad full -m $m -c 150 -n 60 --ignore-eos --thinking off --json <<<"$lines"$'\n/clear\nHi'
has "$tmp/err" "[the answer ends here: the context of 150 tokens is full"
has "$tmp/err" "tokens, the context 150: /undo, /clear"
grep -q '"finish":"context"' "$tmp/full" || fail "no answer ended by the context"
[ "$(tail -n 1 "$tmp/full" >"$tmp/object" && value "$tmp/object" finish)" = length ] || fail "/clear makes no room"
[ "$(grep -c '^{"error":"the conversation has' "$tmp/full")" -ge 2 ] || fail "errors as JSON: $(cat "$tmp/full")"
talk dropped -m $m -c 200 -n 60 --ignore-eos --thinking off --json --context drop --session "$tmp/d.json" <<<"$lines"
[ "$(grep -c '"finish":"length"' "$tmp/dropped")" = 6 ] || fail "--context drop: $(cat "$tmp/dropped")"
has "$tmp/err" "[the context of 200 tokens was full: the model no longer gets the oldest 2 messages]"
grep -q '"messages_dropped":[1-9]' "$tmp/dropped" || fail "nothing dropped"
[ "$(grep -c '"role": "user"' "$tmp/d.json")" = 6 ] || fail "dropped messages are lost"
# Gone on with: what was dropped stays so, and the text is that of one process.
talk whole -m $m -c 200 -n 60 --ignore-eos --thinking off --json --context drop <<<"$lines"$'\nHi\n/regen 0'
talk rest -m $m -c 200 -n 60 --ignore-eos --thinking off --json --context drop --session "$tmp/d.json" <<<Hi
[ "$(answer rest 1)" = "$(answer whole 7)" ] || fail "a dropped context in a file"
[ "$(answer whole 8)" = "$(answer whole 7)" ] || fail "/regen with a dropped context"
# Turns go while an answer is made too; the messages follow, so that the next turn knows its text.
talk longest -m $m -c 200 -n 100 --ignore-eos --thinking off --json --context drop <<<$'Hi\nHi\n/regen 0\nHi'
[ "$(answer longest 2 decode_tokens)" = 100 ] || fail "an answer beyond the context"
[ "$(answer longest 2 messages_dropped)" = 2 ] || fail "messages dropped within an answer"
[ "$(answer longest 3)" = "$(answer longest 2)" ] || fail "/regen of an answer with dropped turns"
# Going back, what had not been dropped then is there again.
short=$(for i in {1..14}; do printf '%s, the day %d?\n/regen 0\n' "${long:0:$((i * 5))}" $i; done)
talk back -m $m -c 200 -n 12 --ignore-eos --thinking off --json --context drop <<<"$short"
grep -q '"messages_dropped":[1-9]' "$tmp/back" || fail "nothing dropped"
for i in {1..14}; do
    [ "$(answer back $((2 * i)))" = "$(answer back $((2 * i - 1)))" ] || fail "/regen of answer $i"
done
# A single message that never fits is given back.
{ for i in {1..30}; do printf '%s ' "$long"; done && printf '\nHi\n'; } |
    talk_bad single -m $m -c 200 -n 5 --thinking off --json
[ "$(answer single 2 finish)" = length ] || fail "a message that does not fit stays: $(cat "$tmp/single")"

# ---- Ctrl-C (B052, B059, B070, B072) ----

# waits FILE WORDS: until they are there.
waits() {
    for _ in {1..400}; do grep -qF -e "$2" "$1" && return || sleep 0.05; done
    fail "'$2' does not come: $(head -c 300 "$1")"
}
# It stops the answer, which stays; the next one is whole; /regen of the stopped one reads its tail.
mkfifo "$tmp/in"
rm "$tmp/out" "$tmp/err"
"$FORETOKEN" chat -m $m -c 100000 --ignore-eos --thinking off --session "$tmp/c.json" <"$tmp/in" >"$tmp/out" 2>"$tmp/err" &
pid=$!
exec 3>"$tmp/in"
echo "Hello there" >&3
for _ in {1..400}; do [ -s "$tmp/out" ] && break || sleep 0.05; done
kill -INT $pid # (a job of a script starts with it ignored: the command's own handler counts)
waits "$tmp/err" "end: cancelled"
echo "/set n-predict 9" >&3
echo "/regen" >&3
waits "$tmp/err" "end: length"
grep -qE '[1-9][0-9]* known, [1-9] read .*end: length' "$tmp/err" || fail "after Ctrl-C: $(cat "$tmp/err")"
# Where nothing is answered it gives up what was typed; twice ends, and the conversation is kept.
for _ in {1..20}; do kill -INT $pid 2>/dev/null && sleep 1; done
wait $pid || fail "Ctrl-C twice: exit status $?"
exec 3>&-
has "$tmp/c.json" '"role": "assistant"'
has "$tmp/err" "[saved: $tmp/c.json, 2 messages; "
# While a long prompt is read: given back, and what was read is known.
rm "$tmp/out" "$tmp/err"
perl -e 'print "the old house by the sea " x 12000, "\n"' >"$tmp/long"
"$FORETOKEN" chat -m $m -c 200000 -n 3 --chunk 64 --thinking off --json <"$tmp/in" >"$tmp/out" 2>"$tmp/err" &
pid=$!
exec 3>"$tmp/in"
cat "$tmp/long" >&3
sleep 1
kill -INT $pid
waits "$tmp/err" "[stopped while reading: "
echo "Hi" >&3
exec 3>&-
wait $pid
[ $? -eq 1 ] || fail "a stopped prompt is no failure to a script"
grep -q '^{"error":"stopped after [0-9]* of [0-9]* prompt tokens"}$' "$tmp/out" || fail "stopped: $(head -n 1 "$tmp/out")"
[ "$(sed -n 2p "$tmp/out" >"$tmp/object" && value "$tmp/object" finish)" = length ] || fail "after a stopped prompt"

# ---- Output, options ----

"$FORETOKEN" chat -m $m -c 100000 --ignore-eos --thinking off <<<"Hello" 2>"$tmp/err" | head -c 1 >/dev/null
[ "${PIPESTATUS[0]}" -eq 0 ] || fail "chat | head: ${PIPESTATUS[0]}"
if [ -w /dev/full ]; then
    "$FORETOKEN" chat $opts --thinking off <<<"Hello" >/dev/full 2>"$tmp/err"
    [ $? -eq 1 ] || fail "a full disk is no failure"
    has "$tmp/err" "standard output"
fi
bad 2 "no model; give one with -m FILE" chat
bad 2 "--thinking: 'loud' is not one of" chat -m $m --thinking loud
bad 2 "--context: 'shift' is not one of" chat -m $m --context shift
bad 2 "--logit-bias: 'x' is not of the form" chat -m $m --logit-bias x
bad 2 "samplers" chat -m $m --samplers top_x
bad 1 "$tmp/none" chat -m $m --system "@$tmp/none"
bad 1 "$tmp/none" chat -m $m --tools "$tmp/none"
printf '{"a": 1}' >"$tmp/tools"
bad 1 "$tmp/tools: want an array of tools" chat -m $m --tools "$tmp/tools"
bad 1 "none.gguf" chat -m "$tmp/none.gguf"
help_lists chat --model --system --thinking --tools --context --session --history --json --quiet --temp --top-k \
    --seed --draft-max --no-draft --stop --n-predict --ctx-size --checkpoint-mem --render
finish
