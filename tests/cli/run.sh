#!/bin/bash
# run.sh - `foretoken run`: text in, text out; seeds, limits, JSON, pipes, and what it refuses.
. tests/cli/common.bash

m=$tmp/m.gguf
model qwen35 "$m"

# The same text for a seed, whatever the chunk and the threads; another for another seed.
prompt="the hen in the thing, and then the 12 \"others\""
for temp in 0 0.6 1.2; do
    good run -m "$m" -p "$prompt" -n 20 --temp $temp --seed 5 --ignore-eos
    cp "$tmp/out" "$tmp/want"
    [ "$(count "$tmp/want")" -gt 10 ] || fail "temperature $temp: hardly any text"
    for how in "--chunk 1" "--chunk 7" "-t 1" "-t 2 --chunk 64" "-c 200" "--quiet"; do
        good run -m "$m" -p "$prompt" -n 20 --temp $temp --seed 5 --ignore-eos $how
        same "$tmp/out" "$tmp/want"
    done
done
good run -m "$m" -p "$prompt" -n 20 --temp 1.2 --seed 6 --ignore-eos
cmp -s "$tmp/out" "$tmp/want" && fail "the seed does nothing"

# Statistics on standard error, none with --quiet.
has "$tmp/err" "decode  20 tokens"
has "$tmp/err" "end: length"
good run -m "$m" -p "$prompt" -n 2 -q
[ ! -s "$tmp/err" ] || fail "--quiet: $(cat "$tmp/err")"

# The prompt from -p, a file, a pipe, standard input; --echo.
printf '%s' "$prompt" >"$tmp/prompt"
good run -m "$m" -p "$prompt" -n 12 --temp 0
cp "$tmp/out" "$tmp/want"
good run -m "$m" -f "$tmp/prompt" -n 12 --temp 0
same "$tmp/out" "$tmp/want"
stdin=$tmp/prompt
good run -m "$m" -n 12 --temp 0
same "$tmp/out" "$tmp/want"
stdin=/dev/null
"$FORETOKEN" run -m "$m" -f - -n 12 --temp 0 -q < <(head -c 9 "$tmp/prompt" && tail -c +10 "$tmp/prompt") \
    >"$tmp/out" 2>"$tmp/err" || fail "-f - from a pipe: $(cat "$tmp/err")"
same "$tmp/out" "$tmp/want"
good run -m "$m" -p "$prompt" -n 12 --temp 0 --echo
cat "$tmp/prompt" "$tmp/want" >"$tmp/both"
same "$tmp/out" "$tmp/both"

# JSON: the same text, as many ids as were asked for, which eval's tokens agree with.
good run -m "$m" -p "$prompt" -n 12 --temp 0 --json
json "$tmp/out"
[ "$(value "$tmp/out" finish)" = length ] || fail "finish: $(value "$tmp/out" finish)"
[ "$(value "$tmp/out" decode_tokens)" = 12 ] || fail "decode_tokens"
[ "$(numbers "$tmp/out" tokens | wc -w)" = 12 ] || fail "tokens: $(numbers "$tmp/out" tokens)"
good run -m "$m" -p "$prompt" -n 0 --json
[ -z "$(numbers "$tmp/out" tokens)" ] || fail "-n 0 makes tokens"
json "$tmp/out"
for seed in 1 2 3 4; do # any bytes, NUL among them, are JSON
    good run -m "$m" -p "$prompt" -n 150 --temp 1.5 --top-k 0 --top-p 1 --min-p 0 --seed $seed --ignore-eos --json
    json "$tmp/out"
    [ "$(numbers "$tmp/out" tokens | wc -w)" = 150 ] || fail "seed $seed: number of tokens"
done

# Ends: the context, prompts that fill it, the end token.
good run -m "$m" -p "$prompt" -c 60 --temp 0 --ignore-eos --json
[ "$(value "$tmp/out" finish)" = context ] || fail "finish: $(value "$tmp/out" finish)"
n=$(value "$tmp/out" prompt_tokens)
[ "$(value "$tmp/out" decode_tokens)" -eq $((60 - n + 1)) ] || fail "tokens up to the context"
good run -m "$m" -p "$prompt" -c "$n" --temp 0 --json --ignore-eos -n 1000000
[ "$(value "$tmp/out" decode_tokens)" -eq 1 ] || fail "a prompt that fills the context"
bad 1 "context: 0 tokens used and $n more wanted, the limit is $((n - 1))" run -m "$m" -p "$prompt" -c $((n - 1))
ended=0
for seed in {1..40}; do
    good run -m "$m" -p a --temp 2 --top-k 0 --min-p 0 --top-p 1 --seed "$seed" -n 100 --json
    [ "$(value "$tmp/out" finish)" = stop ] || continue
    ended=1
    numbers "$tmp/out" tokens | grep -q ' 319$' || fail "ended without the end token"
    grep -qF '<|endoftext|>' "$tmp/out" && fail "the end token is in the text"
    good run -m "$m" -p a --temp 2 --top-k 0 --min-p 0 --top-p 1 --seed "$seed" -n 100 --special -q
    grep -aqF '<|endoftext|>' "$tmp/out" || fail "--special does not show the end token"
    break
done
[ $ended -eq 1 ] || fail "no seed of 40 ends the text"

# Special tokens in the prompt are text unless asked for.
good run -m "$m" -p "a<|endoftext|>" -n 1 --json
[ "$(value "$tmp/out" prompt_tokens)" -gt 5 ] || fail "a special token made from text"
good run -m "$m" -p "a<|endoftext|>" -n 1 --json --special
[ "$(value "$tmp/out" prompt_tokens)" -eq 2 ] || fail "--special reads no special token"

# Any bytes are a prompt; an empty one is not.
good run -m "$m" -p $'\xff\xc3(\xed\xa0\x80' -n 3 --temp 0 --json
[ "$(value "$tmp/out" prompt_tokens)" -eq 6 ] || fail "invalid UTF-8: $(value "$tmp/out" prompt_tokens) tokens"
printf 'a\0b' >"$tmp/nul"
good run -m "$m" -f "$tmp/nul" -n 3 --temp 0 --json
[ "$(value "$tmp/out" prompt_tokens)" -eq 3 ] || fail "a NUL ends the prompt"
bad 2 "--prompt, --file: no tokens" run -m "$m" -p ""
bad 2 "--prompt, --file: no tokens" run -m "$m"
bad 2 "--prompt, --file: no tokens" run -m "$m" -f /dev/null --json

# A reader that goes away ends the text, a full disk fails.
"$FORETOKEN" run -m "$m" -p "$prompt" -n 100000 --ignore-eos -c 100000 2>"$tmp/err" | head -c 1 >/dev/null
[ "${PIPESTATUS[0]}" -eq 0 ] || fail "run | head: ${PIPESTATUS[0]} $(cat "$tmp/err")"
has "$tmp/err" "end: cancelled"
if [ -w /dev/full ]; then
    "$FORETOKEN" run -m "$m" -p "$prompt" -n 5 -q >/dev/full 2>"$tmp/err"
    [ $? -eq 1 ] || fail "a full disk is no failure"
    has "$tmp/err" "standard output"
fi

# Ctrl-C ends the text cleanly and shows the statistics. (A job of a script starts with it ignored:
# the command's own handler counts.)
"$FORETOKEN" run -m "$m" -p "$prompt" -n 100000 --ignore-eos -c 100000 >"$tmp/out" 2>"$tmp/err" &
pid=$!
for _ in {1..200}; do [ -s "$tmp/out" ] && break || sleep 0.05; done
kill -INT $pid
wait $pid || fail "interrupted: exit status $?"
has "$tmp/err" "end: cancelled"

# What is refused.
bad 2 "--prompt and --file exclude each other" run -m "$m" -p a -f b
bad 2 "no model; give one with -m FILE" run -p a
bad 2 "unknown option --temperature" run -m "$m" --temperature 1
bad 2 "Try: foretoken run --help" run -m "$m" --temperature 1
bad 2 "a value is missing behind -n" run -m "$m" -n
bad 2 "an option without a value: --json=yes" run -m "$m" --json=yes
bad 2 "unexpected argument text" run -m "$m" text
bad 2 "--n-predict: '-2' is not a whole number from -1 to 2147483647" run -m "$m" -n -2
bad 2 "--n-predict: '2147483648' is not" run -m "$m" -n 2147483648
bad 2 "--temp: '101' is not a number from 0 to 100" run -m "$m" --temp 101
bad 2 "--temp: 'nan' is not" run -m "$m" --temp nan
bad 2 "--temp: 'warm' is not" run -m "$m" --temp warm
bad 2 "--top-p: '1.1' is not a number from 0 to 1" run -m "$m" --top-p 1.1
bad 2 "--min-p: '-0.1' is not a number from 0 to 1" run -m "$m" --min-p=-0.1
bad 2 "--top-k: '-1' is not a whole number from 0" run -m "$m" --top-k -1
bad 2 "--seed: '-1' is not a whole number from 0 to 18446744073709551615" run -m "$m" --seed -1
bad 2 "--ctx-size: '-1' is not a whole number from 0 to 16777216" run -m "$m" -c -1
bad 1 "$tmp/none.gguf" run -m "$tmp/none.gguf" -p a
bad 1 "not a regular file" run -m "$tmp" -p a
bad 1 "$tmp/none" run -m "$m" -f "$tmp/none"
bad 1 "Is a directory" run -m "$m" -f "$tmp"
head -c 50000 "$m" >"$tmp/cut.gguf"
bad 1 "cut.gguf" run -m "$tmp/cut.gguf" -p a
bad 1 "$tmp/none.gguf" run -m "$m" --mtp "$tmp/none.gguf" -p a
bad 1 "vocab.gguf" run -m tests/golden/tokenizer/vocab.gguf -p a
"$FORETOKEN" convert tests/golden/tiny-qwen35 -o "$tmp/bare.gguf" 2>/dev/null || fail "convert"
bad 1 "no tokenizer" run -m "$tmp/bare.gguf" -p a


# The bundled model, where it is there: drafting and the chunk change nothing, drafts are accepted, and
# what comes out is text.
sample=models/foretoken-sample.gguf
if [ -f $sample ]; then
    for temp in 0 0.8; do
        story="The old lighthouse keeper climbed the stairs"
        good run -m $sample -p "$story" -n 32 --temp $temp --seed 1 --no-draft
        cp "$tmp/out" "$tmp/want"
        for how in "--draft-max 3" "--draft-max 5 --draft-fixed" "--chunk 1" "-t 1"; do
            good run -m $sample -p "$story" -n 32 --temp $temp --seed 1 $how
            same "$tmp/out" "$tmp/want"
        done
        [ "$(wc -w <"$tmp/want")" -ge 15 ] || fail "no words: $(cat "$tmp/want")"
        grep -qE '(^| )(the|a|and|his|he|was)( |,|\.|$)' "$tmp/want" || fail "no English: $(cat "$tmp/want")"
    done
else
    echo "$sample is not there: not tested"
fi

help_lists run --model --mtp --threads --cpu --kv --chunk --ctx-size --prompt --file --n-predict --temp \
    --top-k --top-p --min-p --seed --ignore-eos --special --echo --json --quiet
has "$tmp/out" "(default 0.8, 0 to 100)"
finish
