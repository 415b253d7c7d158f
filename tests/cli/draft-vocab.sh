#!/bin/bash
# draft-vocab.sh - `foretoken draft-vocab`: making, merging and inspecting, and what it refuses.
. tests/cli/common.bash

model qwen4exp "$tmp/m.gguf"
m=$tmp/m.gguf
printf 'xxxx the the 7' >"$tmp/latin.txt"
printf '\320\226\320\226\320\226\320\226\320\226\320\226\320\226\320\226\320\226' >"$tmp/cyrillic.txt"

# head_of FILE KEY: what 'n' or another key of the file's head says.
head_of() {
    sed -n "s/^$2 //p" "$1" | head -n 1
}

# Made from text: 256 bytes, the control token and " the".
good draft-vocab build -m "$m" -o "$tmp/latin.dv" "$tmp/latin.txt"
[ "$(head_of "$tmp/latin.dv" n)" = 258 ] || fail "n $(head_of "$tmp/latin.dv" n)"
[ "$(head -n 1 "$tmp/latin.dv")" = "foretoken-draft-vocab 1" ] || fail "first line"
[ "$(tail -n 1 "$tmp/latin.dv")" = end ] || fail "last line"
has "$tmp/out" "258 of 320 tokens"
has "$tmp/out" "Latin"
[ ! -s "$tmp/err" ] || fail "messages: $(cat "$tmp/err")"
good draft-vocab build -m "$m" -o "$tmp/again.dv" "$tmp/latin.txt"
same "$tmp/latin.dv" "$tmp/again.dv"
stdin=$tmp/latin.txt
good draft-vocab build -m "$m" -o "$tmp/again.dv" -
stdin=/dev/null
same "$tmp/latin.dv" "$tmp/again.dv"

# By number, by coverage, without bytes; the report as JSON.
good draft-vocab build -m "$m" -o "$tmp/n.dv" --count 270 "$tmp/latin.txt" --json
json "$tmp/out"
[ "$(head_of "$tmp/n.dv" n)" = 270 ] || fail "--count 270"
[ "$(value "$tmp/out" draft_tokens)" = 270 ] || fail "draft_tokens in JSON"
good draft-vocab build -m "$m" -o "$tmp/half.dv" --coverage 0.5 --no-bytes "$tmp/latin.txt"
[ "$(head_of "$tmp/half.dv" n)" = 2 ] || fail "--coverage 0.5: $(head_of "$tmp/half.dv" n)"

# A script that it lacks is told, and a merge has it.
good draft-vocab build -m "$m" -o "$tmp/l.dv" --no-bytes "$tmp/latin.txt"
good draft-vocab build -m "$m" -o "$tmp/c.dv" --no-bytes "$tmp/cyrillic.txt"
good draft-vocab inspect -m "$m" "$tmp/l.dv" "$tmp/cyrillic.txt"
has "$tmp/out" "poor"
grep -qE '^ +all .* 0\.00 %  poor' "$tmp/out" || fail "coverage of what it lacks: $(cat "$tmp/out")"
good draft-vocab inspect -m "$m" "$tmp/l.dv" "$tmp/latin.txt" "$tmp/cyrillic.txt" --json
json "$tmp/out"
[ "$(value "$tmp/out" text_tokens)" = 26 ] || fail "two texts: $(value "$tmp/out" text_tokens)"
[ "$(value "$tmp/out" covered)" = 8 ] || fail "two texts: $(value "$tmp/out" covered)"
good draft-vocab build -m "$m" -o "$tmp/both.dv" --no-bytes --merge "$tmp/l.dv" --merge "$tmp/c.dv"
good draft-vocab inspect -m "$m" "$tmp/both.dv" "$tmp/latin.txt" "$tmp/cyrillic.txt"
grep -qE '^ +all .* 100\.00 %$' "$tmp/out" || fail "a merge: $(cat "$tmp/out")"
good draft-vocab inspect -m "$m" "$tmp/both.dv"
has "$tmp/out" "head  "

# What is refused; an older file stays when a build fails.
cp "$tmp/latin.dv" "$tmp/kept.dv"
bad 1 "$tmp/none.txt" draft-vocab build -m "$m" -o "$tmp/kept.dv" "$tmp/none.txt"
bad 2 "text: no tokens" draft-vocab build -m "$m" -o "$tmp/kept.dv"
bad 2 "count: 100, but 257 tokens are always in" draft-vocab build -m "$m" -o "$tmp/kept.dv" --count 100 "$tmp/latin.txt"
bad 2 "--coverage: '1.5' is not a number from 0 to 1" draft-vocab build -m "$m" -o "$tmp/kept.dv" --coverage 1.5
bad 1 "latin.txt: draft vocabulary: line 1" draft-vocab build -m "$m" -o "$tmp/kept.dv" --merge "$tmp/latin.txt"
same "$tmp/latin.dv" "$tmp/kept.dv"
bad 2 "no output; give one with -o FILE" draft-vocab build -m "$m" "$tmp/latin.txt"
bad 2 "no model; give one with -m FILE" draft-vocab build -o "$tmp/x.dv" "$tmp/latin.txt"
bad 1 "$tmp/no/x.dv" draft-vocab build -m "$m" -o "$tmp/no/x.dv" "$tmp/latin.txt"
bad 2 "usage: foretoken draft-vocab build" draft-vocab
bad 2 "usage: foretoken draft-vocab build" draft-vocab bild
bad 2 "an argument is missing" draft-vocab inspect -m "$m"
bad 1 "$tmp/none.dv" draft-vocab inspect -m "$m" "$tmp/none.dv"
sed 's/^vocab 320/vocab 4096/' "$tmp/latin.dv" >"$tmp/wrong.dv"
bad 1 "line 2: made for 4096 tokens, the model has 320" draft-vocab inspect -m "$m" "$tmp/wrong.dv"
sed 's/^tokenizer ./tokenizer g/' "$tmp/latin.dv" >"$tmp/wrong.dv"
bad 1 "wrong.dv: draft vocabulary: line 3" draft-vocab inspect -m "$m" "$tmp/wrong.dv"
size=$(count "$tmp/latin.dv")
for n in 0 1 23 30 60 $((size - 4)) $((size - 1)); do
    head -c "$n" "$tmp/latin.dv" >"$tmp/cut.dv"
    bad 1 "cut.dv: draft vocabulary: line " draft-vocab inspect -m "$m" "$tmp/cut.dv"
done
if [ -w /dev/full ]; then
    run draft-vocab build -m "$m" -o /dev/full "$tmp/latin.txt"
    [ $rc -eq 1 ] || fail "a full disk is no failure"
    has "$tmp/err" "/dev/full"
fi

# The one beside the bundled model fits it.
good draft-vocab inspect -m models/foretoken-sample.gguf models/foretoken-sample.draft-vocab
has "$tmp/out" "2837 of 4096 tokens"

good draft-vocab build --help
for option in --output --coverage --count --merge --no-bytes --json --model --mtp; do
    has "$tmp/out" "$option "
done
finish
