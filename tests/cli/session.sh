#!/bin/bash
# session.sh - `foretoken session` and `run --session --save`: what is saved goes on as if never stopped,
# costs what is new, and what does not fit is refused.
. tests/cli/common.bash

m=$tmp/m.gguf
model qwen4exp "$m"
prompt="the hen in the thing, and then the 12 \"others\", and the hen that was there then"
printf '%s' "$prompt" >"$tmp/prompt"
opts="--temp 0.7 --seed 3 --ignore-eos -q"

# Saved and gone on with: the text of one run.
good run -m "$m" -f "$tmp/prompt" -n 24 $opts
cp "$tmp/out" "$tmp/want"
good session save -m "$m" -f "$tmp/prompt" --out "$tmp/a.session"
has "$tmp/err" "a.session: "
[ ! -s "$tmp/out" ] || fail "save writes to standard output"
[ "$(stat -c %a "$tmp/a.session")" = 600 ] || fail "mode of a session file"
good run -m "$m" --session "$tmp/a.session" -n 24 $opts
same "$tmp/out" "$tmp/want"
good run -m "$m" --session "$tmp/a.session" -f "$tmp/prompt" -n 24 $opts
same "$tmp/out" "$tmp/want"

# In two halves, the state between them in a file; --save over the file that was loaded.
good run -m "$m" -f "$tmp/prompt" -n 10 $opts --save "$tmp/b.session"
cp "$tmp/out" "$tmp/first"
good run -m "$m" --session "$tmp/b.session" -n 14 $opts --save "$tmp/b.session"
{ head -c -1 "$tmp/first" && cat "$tmp/out"; } >"$tmp/both"
same "$tmp/both" "$tmp/want"
good session info "$tmp/b.session" --json
json "$tmp/out"
[ "$(value "$tmp/out" exact)" = true ] || fail "info: exact"
[ "$(value "$tmp/out" file_bytes)" = "$(count "$tmp/b.session")" ] || fail "info: file_bytes"

# Only what is new is read (B053): the same text, more of it, less of it.
good run -m "$m" --session "$tmp/a.session" -f "$tmp/prompt" -n 1 --json
json "$tmp/out"
[ "$(value "$tmp/out" prompt_tokens)" = 1 ] || fail "the same text: $(value "$tmp/out" prompt_tokens) tokens read"
known=$(value "$tmp/out" known_tokens)
[ "$known" -gt 20 ] || fail "the same text: $known tokens known"
good run -m "$m" --session "$tmp/a.session" -p "$prompt in Xx" -n 1 --json
[ "$(value "$tmp/out" prompt_tokens)" -le 5 ] || fail "a longer text: $(value "$tmp/out" prompt_tokens) tokens read"
good run -m "$m" --session "$tmp/a.session" -p "quite another text" -n 4 $opts
cp "$tmp/out" "$tmp/other"
good run -m "$m" -p "quite another text" -n 4 $opts
same "$tmp/out" "$tmp/other"

# No such file yet: as without; the next run finds it.
good run -m "$m" --session "$tmp/new.session" --save "$tmp/new.session" -f "$tmp/prompt" -n 24 $opts
same "$tmp/out" "$tmp/want"
good run -m "$m" --session "$tmp/new.session" -n 0 -q
good session info "$tmp/new.session"
has "$tmp/out" "qwen4exp"
has "$tmp/out" "all checksums right"
has "$tmp/out" "sink 64, window 256"

# Load: how it ends and what would follow, checked against the model.
good run -m "$m" -f "$tmp/prompt" -n 12 --temp 0 -q --special
{ printf 'goes on      ' && cat "$tmp/out"; } >"$tmp/greedy"
good session load -m "$m" "$tmp/a.session" -n 12
has "$tmp/out" "that was there then"
tail -c "$(count "$tmp/greedy")" "$tmp/out" >"$tmp/end"
same "$tmp/end" "$tmp/greedy"
good session load -m "$m" "$tmp/a.session" -n 12 --json
json "$tmp/out"
[ "$(value "$tmp/out" tokens)" = $((known + 1)) ] || fail "load: $(value "$tmp/out" tokens) tokens"
good session load -m "$m" "$tmp/b.session" -n 0

# Other types of cells, without checkpoints.
good session save -m "$m" -f "$tmp/prompt" --out "$tmp/q.session" --cells q8_0 -q
[ ! -s "$tmp/err" ] || fail "--quiet: $(cat "$tmp/err")"
good session info "$tmp/q.session"
has "$tmp/out" "q8_0, converted"
good session load -m "$m" "$tmp/q.session"
has "$tmp/out" "not what the model would compute itself"
good session save -m "$m" -f "$tmp/prompt" --out "$tmp/n.session" --no-checkpoints --json
json "$tmp/out"
[ "$(value "$tmp/out" bytes)" = "$(count "$tmp/n.session")" ] || fail "--json: bytes"
[ "$(count "$tmp/n.session")" -lt "$(count "$tmp/a.session")" ] || fail "--no-checkpoints saves nothing"

# What does not fit together (B056), and damage (B055).
bad 1 "kv_type: f16 in the file, the session has f32" session load -m "$m" "$tmp/a.session" --kv f32
bad 1 "window 256 in the file" run -m "$m" --session "$tmp/a.session" --window all -n 1
bad 1 "tokens in the file, the limit is 10" session load -m "$m" "$tmp/a.session" -c 10
model qwen35 "$tmp/other.gguf"
bad 1 "belongs to another model" session load -m "$tmp/other.gguf" "$tmp/a.session"
bad 1 "belongs to another model" run -m "$tmp/other.gguf" --session "$tmp/a.session" -p x -n 1
for n in 0 7 40 500 $(($(count "$tmp/a.session") - 1)); do
    head -c "$n" "$tmp/a.session" >"$tmp/cut.session"
    bad 1 "cut.session: session file: " session info "$tmp/cut.session"
    bad 1 "cut.session: session file: " run -m "$m" --session "$tmp/cut.session" -n 1
done
bad 1 "none.session: No such file" session info "$tmp/none.session"
bad 1 "none.session: No such file" session load -m "$m" "$tmp/none.session"
bad 1 "$tmp/no/x.session.part-0: cannot create it" session save -m "$m" -p x --out "$tmp/no/x.session"
bad 2 "no output; give one with -o FILE" session save -m "$m" -p x
bad 2 "no model; give one with -m FILE" session save -p x -o "$tmp/x.session"
bad 2 "exclude each other" session save -m "$m" -p x -f "$tmp/prompt" -o "$tmp/x.session"
bad 1 "the prompt has 0 tokens" session save -m "$m" -p "" -o "$tmp/x.session"
bad 2 "an argument is missing" session info
bad 2 "usage: foretoken session save" session
bad 2 "usage: foretoken session save" session sav
bad 2 "--cells: 'q4' is not one of" session save -m "$m" -p x -o "$tmp/x.session" --cells q4
[ ! -e "$tmp/x.session" ] || fail "a refused save wrote a file"

# The budget for checkpoints: sizes with units.
for size in 0 1 64K 1M 2G; do
    good run -m "$m" -p x -n 1 -q --checkpoint-mem $size
done
for size in "" M -1 1.5G 1T 1MM 99999999999999999999 18014398509481985K 17179869184G; do
    bad 2 "--checkpoint-mem: '$size' is not a number of bytes, like" run -m "$m" -p x --checkpoint-mem "$size"
done
good run --help
has "$tmp/out" "(default 512M)"
good session save -m "$m" -f "$tmp/prompt" --out "$tmp/z.session" --checkpoint-mem 0 -q
good session info "$tmp/z.session"
has "$tmp/out" "and 0 checkpoints"
good run -m "$m" --session "$tmp/z.session" -n 24 $opts # all is read again
same "$tmp/out" "$tmp/want"
finish
