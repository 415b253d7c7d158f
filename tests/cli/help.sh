#!/bin/bash
# help.sh - the command itself: help, unknown commands, and that every command documents its options.
. tests/cli/common.bash

good --help
for command in run inspect convert quantize perplexity eval; do
    grep -qE "^  $command +[a-z]" "$tmp/out" || fail "--help does not list $command"
done
listed=$(sed -n 's/^  \([a-z-]*\) .*/\1/p' "$tmp/out")
cp "$tmp/out" "$tmp/help"
good -h
same "$tmp/out" "$tmp/help"

bad 2 "usage: foretoken COMMAND" # nothing at all
bad 2 "unknown command 'rnu'" rnu
bad 2 "unknown command ''" ""
bad 2 "unknown command '--run'" --run

# Each command that is listed has a help with a default or a range where there is a number, and refuses
# an option that it does not have. A command of commands lists them: "foretoken COMMAND WORD ...".
all=()
for command in $listed; do
    good "$command" --help
    mapfile -t words < <(sed -nE "s/^(usage:)? +foretoken ($command [a-z]+) .*/\2/p" "$tmp/out")
    grep -q '^options:' "$tmp/out" && words=("$command")
    [ ${#words[@]} -gt 0 ] || fail "$command --help: neither options nor commands"
    all+=("${words[@]}")
done
for words in "${all[@]}"; do
    read -ra command <<<"$words"
    good "${command[@]}" --help
    has "$tmp/out" "usage: foretoken $words "
    has "$tmp/out" "options:"
    [ ! -s "$tmp/err" ] || fail "$words --help writes to standard error"
    grep -E '^ .* N( |$)' "$tmp/out" | grep -vE 'default' >"$tmp/bare"
    [ ! -s "$tmp/bare" ] || fail "$words: a number without a default: $(cat "$tmp/bare")"
    awk 'length > 150' "$tmp/out" >"$tmp/long"
    [ ! -s "$tmp/long" ] || fail "$words: long lines: $(cat "$tmp/long")"
    bad 2 "unknown option --no-such-option" "${command[@]}" --no-such-option
    bad 2 "foretoken $words --help" "${command[@]}" --no-such-option
done

# Help goes to a pipe that closes, and to a full disk.
without_reader --help
[ $rc -eq 0 ] || fail "--help without a reader: $rc"
if [ -w /dev/full ]; then
    "$FORETOKEN" run --help >/dev/full 2>"$tmp/err"
    [ $? -eq 1 ] || fail "help on a full disk is no failure"
fi
finish
