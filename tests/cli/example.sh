#!/bin/bash
# example.sh - examples/minimal.c does what it shows: text with statistics, the same for a seed, and a
# message with an exit status where something is wrong.
. tests/cli/common.bash

minimal=${FT_BUILD:-build/release}/examples/minimal
sample=models/foretoken-sample.gguf
prompt="The old lighthouse keeper climbed the stairs"
[ -x "$minimal" ] || { echo "$minimal is missing: run make examples" && exit 1; }
[ "$(wc -l <examples/minimal.c)" -lt 100 ] || fail "examples/minimal.c is no longer minimal"

for i in 1 2; do
    "$minimal" $sample "$prompt" >"$tmp/out$i" 2>"$tmp/err" </dev/null ||
        fail "exit status $?: $(cat "$tmp/err")"
done
same "$tmp/out1" "$tmp/out2"
grep -q "^$prompt" "$tmp/out1" || fail "the text does not begin with the prompt"
[ "$(wc -w <"$tmp/out1")" -ge 30 ] || fail "hardly any text: $(cat "$tmp/out1")"
has "$tmp/err" "text    60 tokens in"
has "$tmp/err" "end: length"
grep -qE 'drafts  [1-9][0-9]* of [1-9][0-9]* accepted' "$tmp/err" || fail "no draft: $(cat "$tmp/err")"

# It says what the command says, which ends the line.
good run -m $sample -p "$prompt" -n 60 --temp 0.7 --seed 1 --echo -q
echo >>"$tmp/out1"
same "$tmp/out" "$tmp/out1"

# Failures: a message that names the thing, nothing on standard output.
wrong() {
    local want=$1 words=$2 rc=0
    shift 2
    "$minimal" "$@" >"$tmp/out" 2>"$tmp/err" </dev/null || rc=$?
    [ $rc -eq "$want" ] || fail "'$*': exit status $rc, want $want"
    has "$tmp/err" "$words"
}
wrong 2 "usage: minimal MODEL.gguf TEXT"
wrong 1 "$tmp/none.gguf" "$tmp/none.gguf" a
wrong 1 "prompt: no tokens" $sample ""
finish
