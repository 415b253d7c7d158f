#!/bin/bash
# chat-terminal.sh - `foretoken chat` at a terminal: keys, history, Ctrl-C and Ctrl-D, through a
# pseudo-terminal made by script(1).
. tests/cli/common.bash

m=models/foretoken-sample.gguf
command -v script >/dev/null || { echo "script is not there: not tested" && finish; }
mkfifo "$tmp/keys"
# Built without libedit, the terminal's own keys are what there is.
history="--history $tmp/lines"
run chat -m $m $history
grep -q 'built without libedit' "$tmp/err" && history=""
[ -z "$history" ] && [ $rc -ne 2 ] && fail "--history without libedit: exit status $rc"
rm -f "$tmp/lines"

# start ARG...: the chat, whose keys are written to descriptor 3 and whose screen is $tmp/screen.
start() {
    : >"$tmp/screen"
    TERM=vt100 script -qefc "$FORETOKEN chat -m $m $*" "$tmp/screen" <"$tmp/keys" >/dev/null &
    pid=$!
    exec 3>"$tmp/keys"
    waits "> "
}

# waits WORDS [N]: until the screen has N lines with them.
waits() {
    for _ in {1..400}; do
        [ "$(grep -acF -e "$1" "$tmp/screen")" -ge "${2:-1}" ] && return
        sleep 0.05
    done
    fail "'$1' does not come: $(tail -c 500 "$tmp/screen" | cat -v)"
}

keys() {
    printf "$1" >&3
}

ends() {
    exec 3>&-
    wait $pid
    rc=$?
    [ $rc -eq 0 ] || fail "exit status $rc: $(tail -c 300 "$tmp/screen" | cat -v)"
}

# Ctrl-C stops an answer alone, and clears a line; Ctrl-D ends. Characters stay whole when they are
# deleted (B104).
start "--thinking off --ignore-eos -c 100000 --session $tmp/t.json $history"
waits "/help lists the commands"
keys 'H\303\244\342\202\254\177llo\n'
sleep 0.5
keys '\003'
waits "end: cancelled"
waits "> " 2 # before the prompt it would be the second Ctrl-C in a row
keys 'never said\003'
waits "[Ctrl-C again, or Ctrl-D, ends]"
keys '/set n-predict 5\n'
keys '/regen\n'
waits "end: length" 1
if [ -z "$history" ]; then
    keys '/edit\n'
    waits "/edit: no text; want /edit TEXT"
    keys '/edit H\303\244o you\n'
else
    keys '/edit\n'
    waits "/edit H"
    keys '\177\177\177o you\n'
fi
waits "end: length" 2
keys 'one\\\ntwo\n'
waits "end: length" 3
keys '/nope\n'
waits "no command '/nope'"
keys '\004'
ends
has "$tmp/t.json" '"Häo you"'
has "$tmp/t.json" '"one\ntwo"'
grep -q 'never said' "$tmp/t.json" && fail "a line that was cleared was said"
grep -qaF $'\033[2m[' "$tmp/screen" || fail "statistics are not dimmed"
[ -z "$history" ] || has "$tmp/lines" '/nope'
[ -z "$history" ] || [ "$(stat -c %a "$tmp/lines")" = 600 ] || fail "mode of the history"

# The history of another day; thinking is dimmed, or a word; a prompt that takes time has a bar.
start "--thinking hide -n 4 $history --ctx-size 50000 --chunk 32"
[ -z "$history" ] && keys '/nope\n' || keys '\020\n' # the line before
waits "no command '/nope'"
keys 'Hi\n'
waits "thinking ..."
waits "end: length"
keys '/thinking show\nHi\n'
waits "end: length" 2
keys '"""\n'
for _ in {1..160}; do keys 'the old house by the sea, and all that was in it, and all that was there before it came to be sold\n'; done
for _ in {1..160}; do keys 'the old house by the sea, and all that was in it, and all that was there before it came to be sold\n'; done
keys '"""\n'
waits "reading ["
waits "s left"
sleep 0.1
keys '\003'
waits "[stopped while reading: "
waits "> " 6
# Twice ends.
keys '\003'
waits "[Ctrl-C again, or Ctrl-D, ends]"
keys '\003'
for _ in {1..200}; do [ -d /proc/$pid ] && sleep 0.05; done
[ -d /proc/$pid ] && fail "Ctrl-C twice does not end it"
ends

# A file that is no history is not written over.
if [ -n "$history" ]; then
    printf 'not a history\n' >"$tmp/lines"
    TERM=vt100 script -qefc "$FORETOKEN chat -m $m $history" "$tmp/screen" </dev/null >/dev/null &&
        fail "a file that is no history is taken"
    [ "$(cat "$tmp/lines")" = "not a history" ] || fail "a file that is no history is written over"
fi
finish
