#!/bin/bash
# perplexity.sh - `foretoken perplexity`: the same number for every chunk, from a file or a pipe.
. tests/cli/common.bash

m=$tmp/m.gguf
model qwen35moe "$m"
for i in {1..30}; do echo "line $i: the hen in the thing, then the other."; done >"$tmp/text"
good perplexity -m "$m" -f "$tmp/text" -w 64 --json
json "$tmp/out"
nll=$(value "$tmp/out" nll)
[ "$(value "$tmp/out" scored)" -eq $(($(value "$tmp/out" tokens) - 1)) ] || fail "tokens scored"
for how in "--chunk 1" "--chunk 7" "-t 1" "--skip 32"; do
    good perplexity -m "$m" -f "$tmp/text" -w 64 --json $how
    [ "$(value "$tmp/out" nll)" = "$nll" ] || fail "$how: $(value "$tmp/out" nll), want $nll"
done
stdin=$tmp/text
good perplexity -m "$m" --file - --window 64 --json --kv f16
[ "$(value "$tmp/out" nll)" = "$nll" ] || fail "from standard input: $(value "$tmp/out" nll)"
stdin=/dev/null
"$FORETOKEN" perplexity -m "$m" -w 64 --json < <(cat "$tmp/text") >"$tmp/out" || fail "text from a pipe"
[ "$(value "$tmp/out" nll)" = "$nll" ] || fail "from a pipe: $(value "$tmp/out" nll)"
good perplexity -m "$m" -f "$tmp/text"
has "$tmp/out" "perplexity "
has "$tmp/out" " +- "
[ ! -s "$tmp/err" ] || fail "messages of a good run: $(cat "$tmp/err")"

bad 2 "want at least 2" perplexity -m "$m" -f /dev/null
printf a >"$tmp/one"
bad 2 "text: 1 tokens, want at least 2" perplexity -m "$m" -f "$tmp/one"
bad 2 "--skip: 64, want 1 to 63" perplexity -m "$m" -f "$tmp/text" -w 64 --skip 64
bad 2 "--skip: 0, want 1 to 63" perplexity -m "$m" -f "$tmp/text" -w 64 --skip 0
bad 2 "--window: '1' is not a whole number from 2 to 16777216" perplexity -m "$m" -w 1
bad 2 "--skip: '-2' is not" perplexity -m "$m" --skip -2
bad 2 "no model; give one with -m FILE" perplexity -f "$tmp/text"
bad 1 "$tmp/none" perplexity -m "$m" -f "$tmp/none"
bad 1 "Is a directory" perplexity -m "$m" -f "$tmp"
bad 1 "vocab.gguf" perplexity -m tests/golden/tokenizer/vocab.gguf -f "$tmp/text"
bad 2 "unknown option -c" perplexity -m "$m" -c 5

help_lists perplexity --model --mtp --threads --cpu --kv --chunk --file --window --skip --json
finish
